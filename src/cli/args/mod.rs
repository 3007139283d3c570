//! What the user typed. clap structs only: no system calls, no defaults that need a look at the
//! machine. The module of each command makes a job of its struct, with `open` for the words
//! SOURCE and TARGET.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

mod flash;
mod measure;
mod other;
mod screen;
mod source;
mod windows;

pub(crate) use flash::{CloneArgs, DiscardArgs, DiscardWhen, Flash, Probe, SparseWhen, Verify};
pub(crate) use measure::{Bench, EngineWord, PaletteWord, ProfileWord, Report, TableFormat};
pub(crate) use other::{Completions, Demo, Devices, Download, Images, ImagesShow, ShellWord};
pub(crate) use screen::{ColorWord, Screen};
pub(crate) use source::{Network, Origin};
pub(crate) use windows::{FilesystemWord, TableWord, WindowsMedia, WindowsOption};

use crate::units::Bytes;

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
    Clone(Box<CloneArgs>),
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
    Completions(Completions),
}

impl Command {
    /// Where its results go; nowhere special for those that only tell something.
    pub(super) fn output(&self) -> Output {
        match self {
            Self::Flash(args) => args.output.clone(),
            Self::Clone(args) => args.output.clone(),
            Self::Verify(args) => args.output.clone().into(),
            Self::Discard(args) => args.output.clone(),
            Self::Bench(args) => args.output.clone(),
            Self::Probe(args) => args.output.clone(),
            Self::Download(args) => args.output.clone(),
            Self::Demo(args) => args.output.clone(),
            Self::Report(_) | Self::Devices(_) | Self::Images(_) | Self::Completions(_) => {
                Output::default()
            }
        }
    }
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
