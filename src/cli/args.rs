//! What the user typed. clap structs only: no system calls, no defaults that need a look at the
//! machine. The module of each command makes a job of its struct, with `open` for the words
//! SOURCE and TARGET.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use super::discard::DiscardArgs;
use super::probe::Probe;
use super::screen_args::{ColorWord, Screen};
use crate::digest::{Digest, Sha256};
use crate::source::http::transfer::Patience;
use crate::units::{Bytes, parse_duration};

/// Makes install media and proves them.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = EXIT_CODES)]
pub struct Cli {
    /// Colour messages on standard error
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorWord,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Printed below the help; README has the same table.
pub const EXIT_CODES: &str = "\
Exit codes: 0 done and every requested check matched; 1 could not complete; 2 usage;
3 refused by the safety policy; 4 source is not the published one; 5 medium differs;
6 written, but not verified; 7 slower than report --fail-slower allows; 128+N ended by signal N.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write an image to a stick, read everything back, and report
    Flash(Box<Flash>),
    /// Copy a disk, stick or card to another one, or into a file
    Clone(Box<super::clone::CloneArgs>),
    /// Compare a stick with an image, a digest or an earlier record; writes nothing
    Verify(Verify),
    /// Give all blocks back to a drive (TRIM), or trim a mounted filesystem
    Discard(DiscardArgs),
    /// Measure sticks; reads only unless --destructive is given
    Bench(Bench),
    /// Find out whether a stick is as large as it says; destroys what is on it
    Probe(Probe),
    /// Compare measurements: tables, charts, a page; takes records, logs and output of fio
    Report(Report),
    /// Download an image into the cache or a file; goes on where it stopped
    Download(Download),
    /// List disks: what they are, how they are connected, whether flash would accept them
    Devices(Devices),
    /// List the images that have a name, or explain one: `images show ID`
    Images(Images),
    /// Try it without hardware: write, verify and report onto a file
    Demo(Demo),
    /// Print what a shell needs to complete commands, options and files
    Completions {
        /// Which shell: `mediawriter completions bash >~/.local/share/bash-completion/completions/mediawriter`
        #[arg(value_enum, value_name = "SHELL")]
        shell: ShellWord,
    },
}

/// Shells whose completions are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellWord {
    Bash,
    Zsh,
    Fish,
}

/// Where results go.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Output {
    /// Write one CSV row per second to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) log: Option<PathBuf>,
    /// Save the run's record as JSON to FILE, not to the state folder
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) record: Option<PathBuf>,
    /// Print JSON lines on standard output; talk goes to standard error
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) screen: Screen,
    /// The record is one of several under that name: it gets a number, and replaces none.
    #[arg(skip)]
    pub(crate) numbered: bool,
}

/// What is known of the source.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Origin {
    /// Published SHA-256 (or SHA-512) of SOURCE, as downloaded; a mismatch leaves the stick
    /// unbootable
    #[arg(long, value_name = "HEX", help_heading = "Source")]
    pub(crate) sha256: Option<Digest>,
    /// SHA-256 of the image in a compressed SOURCE
    #[arg(long, value_name = "HEX", help_heading = "Source")]
    pub(crate) image_sha256: Option<Sha256>,
    /// Block map of the image: only what it maps is written and verified; `none`: not even the one
    /// that lies beside SOURCE [default: SOURCE.bmap]
    #[arg(long, value_name = "FILE|URL|none", value_hint = ValueHint::FilePath, help_heading = "Source")]
    pub(crate) bmap: Option<String>,
    /// The file in a zip archive that is the image, where it holds several
    #[arg(long, value_name = "NAME", help_heading = "Source")]
    pub(crate) member: Option<String>,
    /// Memory that a compressed SOURCE may ask for [default: 128MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Source")]
    pub(crate) decode_memory: Option<Bytes>,
    /// The publisher's list of checksums [default: what lies beside SOURCE: SHA256SUMS, ...]
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath, help_heading = "Source")]
    pub(crate) checksums: Option<String>,
    /// The OpenPGP signature over that list [default: what lies beside the list]
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath, requires = "checksums", help_heading = "Source")]
    pub(crate) signature: Option<String>,
    /// OpenPGP keys that may have signed, besides those in the program; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub(crate) keyring: Vec<PathBuf>,
    /// Without a good signature do not begin
    #[arg(long, help_heading = "Source")]
    pub(crate) require_signature: bool,
}

/// How bytes are moved.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Tuning {
    /// Bytes per I/O, e.g. 1MiB [default: 4MiB, less on a slow device]
    #[arg(long, value_name = "SIZE", help_heading = "Tuning")]
    pub(crate) block_size: Option<Bytes>,
    /// I/Os in flight [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help_heading = "Tuning")]
    pub(crate) queue_depth: Option<u16>,
}

/// What is needed to get past the gate.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Gate {
    /// Do not ask; for scripts
    #[arg(long, short = 'y', help_heading = "Safety")]
    pub(crate) yes: bool,
    /// Unmount the target's filesystems first
    #[arg(long, help_heading = "Safety")]
    pub(crate) unmount: bool,
    /// Lift the refusals that docs/safety.md calls liftable: fixed internal disks, virtual
    /// devices, a sector size that does not fit. Never mounts, swap, holders or the system disk
    #[arg(long, help_heading = "Safety")]
    pub(crate) force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiscardWhen {
    /// Where the device can; a failure is a warning
    Auto,
    /// Or the flash does not begin
    Always,
    /// Not at all
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SparseWhen {
    /// Where it is proven on this device; else zeros are written
    Auto,
    /// Every byte is sent
    Never,
}

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct Flash {
    /// Image file, name in the catalogue (`mediawriter images`), http(s) address, or - for standard
    /// input
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) source: OsString,
    /// Block devices (any name of them), existing files, or sim:SIZE,key=value... (docs/sim.md).
    /// Several are written at the same time
    #[arg(value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub(crate) targets: Vec<OsString>,
    #[command(flatten)]
    pub(crate) fleet: super::flash::matching::Fleet,
    #[command(flatten)]
    pub(crate) origin: Origin,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) keep: Keep,
    #[command(flatten)]
    pub(crate) windows: super::windows_args::WindowsMedia,
    /// Give blocks back before the write
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) discard: DiscardWhen,
    /// With --discard auto: give up discarding after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub(crate) discard_timeout: Duration,
    /// Do not send runs of zeros as data where it is proven that the device has zeros there: after a
    /// discard, or because it zeroes blocks itself
    #[arg(long, value_enum, value_name = "WHEN", default_value = "never")]
    pub(crate) sparse: SparseWhen,
    /// Read the stick first and write only where it differs from the image: for another release of what
    /// is on it, or to finish a write that was interrupted. Discards nothing
    #[arg(long, visible_alias = "resume", conflicts_with = "sparse")]
    pub(crate) changed_only: bool,
    /// Find out first whether the stick is as large as it says (see `probe`), and write nothing if
    /// it is not
    #[arg(long)]
    pub(crate) probe: bool,
    /// Do not read back; the result is then not proven
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Make the target file first, with this size; TARGET must not exist
    #[arg(long, value_name = "SIZE")]
    pub(crate) create: Option<Bytes>,
    /// Eject and power down the stick when all is well
    #[arg(long)]
    pub(crate) eject: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Block device, partition, file, or sim:...
    #[arg(value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub(crate) target: OsString,
    /// Image file to compare with
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) source: Option<OsString>,
    #[command(flatten)]
    pub(crate) origin: Origin,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Without SOURCE: compare the first SIZE bytes of the target with --sha256
    #[arg(long, value_name = "SIZE", requires = "sha256", conflicts_with = "source")]
    pub(crate) size: Option<Bytes>,
    /// Compare with what this record of an earlier flash says was written
    #[arg(long = "record", value_name = "RECORD", conflicts_with_all = ["source", "sha256", "size"])]
    pub(crate) against: Option<PathBuf>,
    /// Write what differs from SOURCE, and nothing else; then compare again
    #[arg(long, requires = "source")]
    pub(crate) repair: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    #[command(flatten)]
    pub(crate) output: VerifyOutput,
}

/// As [`Output`]; `--record` names the record to compare with here.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct VerifyOutput {
    /// Write one CSV row per second to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) log: Option<PathBuf>,
    /// Save this run's record as JSON to FILE, not to the state folder
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) save_record: Option<PathBuf>,
    /// Print JSON lines on standard output; talk goes to standard error
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print errors only
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) screen: Screen,
}

impl From<VerifyOutput> for Output {
    fn from(typed: VerifyOutput) -> Self {
        let VerifyOutput { log, save_record, json, quiet, screen } = typed;
        Self { log, record: save_record, json, quiet, screen, numbered: false }
    }
}

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

#[derive(Args, Debug)]
pub(crate) struct Download {
    /// Address of the image, or its name in the catalogue (`mediawriter images`)
    #[arg(value_name = "SOURCE", required_unless_present_any = ["list", "clean"])]
    pub(crate) source: Option<String>,
    /// Write to FILE, not into the cache; FILE.part and FILE.part.json until it is whole
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) origin: Origin,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Connections at once, where the server sends parts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) connections: u64,
    /// List what is in the cache
    #[arg(long, conflicts_with_all = ["source", "clean"])]
    pub(crate) list: bool,
    /// Remove everything from the cache
    #[arg(long, conflicts_with = "source")]
    pub(crate) clean: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How a source is fetched.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Network {
    /// Another address of the same file, for when the first fails; may be given several times
    #[arg(long = "mirror", value_name = "URL", help_heading = "Source")]
    pub(crate) mirrors: Vec<String>,
    /// A catalogue of images over the one in the program and your own; may be given several times
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub(crate) catalogue: Vec<PathBuf>,
    /// Wait so long before the first new attempt after a failure; then twice as long, and so on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms", help_heading = "Source")]
    pub(crate) retry_wait: Duration,
}

impl Network {
    /// How failures are met.
    pub(crate) fn patience(&self) -> Patience {
        Patience { first_wait: self.retry_wait, ..Patience::default() }
    }
}

/// What becomes of a source that is streamed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Keep {
    /// With an address as SOURCE: store the file as FILE while it is written to the stick
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Devices {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also empty slots, ram, loop, zram, dm and md devices
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Images {
    /// Only images whose id, title or architecture has this in it
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A catalogue over the one in the program and your own; may be repeated
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) catalogue: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) show: Option<ImagesShow>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImagesShow {
    /// Where one image is from, and what proves it
    Show {
        /// As `images` lists it
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Keep the stick as FILE (it boots in an emulator)
    #[arg(long, value_name = "FILE", conflicts_with = "championship")]
    pub(crate) keep: Option<PathBuf>,
    /// Measure models of seven sticks in five events, in simulated time, and compare them on a page
    #[arg(long)]
    pub(crate) championship: bool,
    /// Where the championship's records and page go; the folder is made
    #[arg(
        long,
        value_name = "DIR",
        default_value = "mediawriter-championship",
        requires = "championship"
    )]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) output: Output,
}
