//! What is typed for `bench` and `report`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::{Gate, Output, Tuning};
use crate::units::{Bytes, parse_duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileWord {
    /// Read sequentially; changes nothing
    Read,
    /// Write 8 GiB (or --size), then read it
    Image,
    /// Write the whole device
    Marathon,
    /// SEQ1M-Q8T1, SEQ128K-Q32T1, RND4K-Q32T16, RND4K-Q1T1, read and write
    Cdm,
    /// SEQ1M-Q8T1, SEQ1M-Q1T1, RND4K-Q32T1, RND4K-Q1T1, read and write
    CdmDefault,
    /// Read as a live system does when it boots and installs; changes nothing
    Boot,
    /// Write back what was just read; changes nothing
    WriteSame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineWord {
    /// io_uring where it is to be had, else threads
    Auto,
    /// io_uring, or the benchmark does not begin
    IoUring,
    /// A thread for each I/O in flight
    Threads,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct Bench {
    /// Block devices, existing files, or sim:...; several are measured in turn, round by round
    #[arg(value_name = "TARGET", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) targets: Vec<OsString>,
    /// What is measured
    #[arg(long, value_enum, value_name = "PROFILE", default_value = "read")]
    pub(crate) profile: ProfileWord,
    /// The same as --profile write-same
    #[arg(long, conflicts_with = "profile")]
    pub(crate) write_same: bool,
    /// Everything on the targets may be overwritten; needed for image, marathon and cdm
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Bytes that each test covers [default: 8GiB for image, 1GiB for cdm, else the device]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// First byte that is measured
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub(crate) offset: Bytes,
    /// End each test after this time [default: 5s for cdm, else when its bytes are done]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) runtime: Option<Duration>,
    /// Blocks of 4 MiB, one in flight, as bench-fio is often run
    #[arg(long, conflicts_with_all = ["block_size", "queue_depth"])]
    pub(crate) like_fio: bool,
    /// Give all blocks back first
    #[arg(long, requires = "destructive")]
    pub(crate) discard: bool,
    /// Measure everything so often
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Wait so long between two tests
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub(crate) cooldown: Duration,
    /// After the write: wait, then write 1 GiB again, for each of these times, e.g. 10s,60s
    #[arg(long, value_name = "TIMES", value_parser = parse_duration, value_delimiter = ',', requires = "destructive")]
    pub(crate) recovery: Vec<Duration>,
    /// boot: the image on the stick, or its file; where its files lie on the stick decides what is
    /// read [default: what is found on the target]
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// boot: another recorded boot, as CSV (millis,offset,length) or fio iolog version 2 or 3
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Who keeps I/Os in flight
    #[arg(
        long,
        value_enum,
        value_name = "ENGINE",
        default_value = "auto",
        help_heading = "Tuning"
    )]
    pub(crate) engine: EngineWord,
    /// From which data and random offsets are made [default: another in every run]
    #[arg(long, value_name = "N", help_heading = "Tuning")]
    pub(crate) seed: Option<u64>,
    /// Temperature of the room, degrees Celsius; noted in the record
    #[arg(long, value_name = "CELSIUS", help_heading = "Output")]
    pub(crate) ambient: Option<f64>,
    /// Note something in the record, e.g. price=2980; a column of reports; may be repeated
    #[arg(long = "note", value_name = "KEY=VALUE", help_heading = "Output")]
    pub(crate) notes: Vec<String>,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// For a terminal
    Text,
    /// For a web page or an issue
    Markdown,
    /// For a spreadsheet: plain bytes and seconds
    Csv,
    /// For a program
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PaletteWord {
    /// Colours that people with any colour vision can tell apart
    Safe,
    /// Those of fio-plot
    FioPlot,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct Report {
    /// Records, per-second logs, fio's JSON and bandwidth logs, or folders of them
    #[arg(value_name = "RECORD", required_unless_present = "last")]
    pub(crate) records: Vec<PathBuf>,
    /// The newest N records of the state folder
    #[arg(long, value_name = "N", conflicts_with = "records")]
    pub(crate) last: Option<usize>,
    /// Form of the table
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: TableFormat,
    /// Write the table to FILE
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a page with tables, charts and verdicts to FILE; it needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write each chart to a file of its own: NAME-1.svg, NAME-2.svg, ...
    #[arg(long, value_name = "NAME")]
    pub(crate) svg: Option<PathBuf>,
    /// The same as PNG; needs a font on this machine
    #[arg(long, value_name = "NAME")]
    pub(crate) png: Option<PathBuf>,
    /// Draw the speeds in the terminal
    #[arg(long)]
    pub(crate) chart: bool,
    /// With characters of ASCII alone
    #[arg(long, requires = "chart")]
    pub(crate) ascii: bool,
    /// Draw from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) from: Option<Duration>,
    /// Draw up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) to: Option<Duration>,
    /// Only devices whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub(crate) device: Option<String>,
    /// Only tests whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub(crate) test: Option<String>,
    /// Heading of the page
    #[arg(long, value_name = "TEXT", default_value = "Comparison of media")]
    pub(crate) title: String,
    /// Colours of charts
    #[arg(long, value_enum, value_name = "NAME", default_value = "safe")]
    pub(crate) palette: PaletteWord,
    /// Rank and compare runs that are not comparable
    #[arg(long)]
    pub(crate) force: bool,
    /// A file that cannot be read is an error, not a warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// With two RECORDs, BASE and NEW: end with code 7 when NEW is slower by more than PERCENT
    #[arg(long, value_name = "PERCENT")]
    pub(crate) fail_slower: Option<f64>,
    /// Write logs and JSON as bench-fio does, a folder for each device, so that fio-plot draws them
    #[arg(long, value_name = "DIR")]
    pub(crate) export_fio: Option<PathBuf>,
    /// Write the times of all runs as hyperfine does; FILE ends in .json, .csv or .md
    #[arg(long, value_name = "FILE")]
    pub(crate) export_hyperfine: Option<PathBuf>,
}
