//! What is typed for the commands that write, prove or copy a medium.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::screen::Screen;
use super::source::{Keep, Network, Origin};
use super::windows::WindowsMedia;
use super::{Gate, Output, Tuning};
use crate::device::usb::UsbIds;
use crate::units::{Bytes, parse_duration};

/// What is typed instead of the names of targets.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Fleet {
    /// Write all disks whose USB device has these numbers (see lsusb), e.g. 0781:5583; asks before,
    /// naming each
    #[arg(long, value_name = "VENDOR:PRODUCT", conflicts_with_all = ["targets", "create"])]
    pub(crate) all_matching: Option<UsbIds>,
    /// Write every such disk that is plugged in from now on, until Ctrl-C; what is there already is
    /// left alone
    #[arg(long, requires = "all_matching")]
    pub(crate) station: bool,
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
    pub(crate) fleet: Fleet,
    #[command(flatten)]
    pub(crate) origin: Origin,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) keep: Keep,
    #[command(flatten)]
    pub(crate) windows: WindowsMedia,
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
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct CloneArgs {
    /// Block device that is copied (any name of it); it must not be mounted
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub(crate) source: OsString,
    /// Block device, sim:SIZE,..., or a file that is made: NAME.img, or NAME.img.zst, which is compressed
    /// and has a block map beside it
    #[arg(value_name = "TARGET|FILE", value_hint = ValueHint::FilePath)]
    pub(crate) target: Option<OsString>,
    /// Give disk and partitions of the copy new identifiers, and name them in its cmdline.txt and
    /// etc/fstab (Raspberry Pi)
    #[arg(long)]
    pub(crate) new_ids: bool,
    /// Leave out the blocks that FAT and ext filesystems declare free; everything else is copied
    #[arg(long)]
    pub(crate) used: bool,
    /// Copy a mounted source: hold up whoever writes to its filesystems while it is read (FIFREEZE)
    #[arg(long)]
    pub(crate) freeze: bool,
    /// On a larger target leave the backup of a GPT where it is on the source
    #[arg(long)]
    pub(crate) keep_table: bool,
    /// Replace FILE when it exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Give the target's blocks back before the write
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) discard: DiscardWhen,
    /// Do not read back; the result is then not proven
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Eject and power down the target when all is well
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

#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(crate) struct DiscardArgs {
    /// Block device, existing file, or sim:...
    #[arg(value_name = "TARGET", required_unless_present = "trim", value_hint = ValueHint::FilePath)]
    pub(crate) target: Option<OsString>,
    /// Trim the free space of the filesystem whose mount point is PATH (FITRIM); of a disk: of all
    /// that are mounted from it. No data is lost
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    pub(crate) trim: Option<PathBuf>,
    /// First byte
    #[arg(long, value_name = "SIZE", default_value = "0", conflicts_with = "trim")]
    pub(crate) offset: Bytes,
    /// Number of bytes [default: to the end]
    #[arg(long, value_name = "SIZE", conflicts_with = "trim")]
    pub(crate) length: Option<Bytes>,
    /// Secure discard (BLKSECDISCARD), where the drive has it
    #[arg(long, conflicts_with_all = ["zero", "trim"])]
    pub(crate) secure: bool,
    /// Zeros afterwards (BLKZEROOUT), by the drive or by writing them
    #[arg(long, conflicts_with = "trim")]
    pub(crate) zero: bool,
    /// Read 64 places afterwards and say what they return
    #[arg(long, conflicts_with = "trim")]
    pub(crate) sample: bool,
    /// Let the kernel use UNMAP on a drive that announces it though the kernel does not offer it
    /// (writes provisioning_mode); read the risk that `discard` prints first
    #[arg(long, conflicts_with = "trim")]
    pub(crate) enable_unmap: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Probe {
    /// Block device, existing file, or sim:...
    #[arg(value_name = "TARGET", value_hint = ValueHint::FilePath)]
    pub(crate) target: OsString,
    /// Yes, everything on it may be overwritten
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Write and read every byte, with the speed of every second, instead of samples: hours on a
    /// large stick
    #[arg(long)]
    pub(crate) full: bool,
    #[command(flatten)]
    pub(crate) gate: Gate,
    #[command(flatten)]
    pub(crate) output: Output,
}
