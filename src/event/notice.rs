//! Every note and warning: its code, which scripts read; its text, which people read; and what can
//! be done about it. docs/record.md has the same table.

use std::fmt;
use std::time::Duration;

use super::Event;
use crate::units::{Bytes, Rate, spoken};

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

/// A note on who vouches for the image; the same for all targets.
pub const ORIGIN: &str = "origin";
/// The computer could not be kept awake.
pub const NO_SLEEP_LOCK: &str = "no-sleep-lock";
/// The power profile could not be held.
pub const NO_POWER_PROFILE: &str = "no-power-profile";
/// The device became slower while it was written.
pub const SLOWED_DOWN: &str = "slowed-down";

/// A note or a warning with its facts. Those of a single text are made by modules that know more
/// than this one.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A transfer broke off and is tried again.
    Again {
        /// What went wrong.
        why: String,
        /// Time until then.
        wait: Duration,
    },
    /// The backup GPT of the image does not come to lie at the end of the medium.
    BackupGptInside {
        /// Offset of it.
        at: u64,
    },
    /// What a person was told before the write.
    BeforeWrite(String),
    /// How a copy differs from its source.
    Clone(String),
    /// A discard took longer than it may.
    DiscardAbandoned {
        /// Time it had.
        took: Duration,
        /// Bytes that were discarded.
        done: u64,
        /// Bytes that were to be.
        wanted: u64,
        /// Its speed.
        rate: Rate,
    },
    /// A discard that nobody insisted on failed.
    DiscardFailed {
        /// What went wrong.
        why: String,
    },
    /// A discard was no faster than writing.
    DiscardSlow {
        /// Its speed.
        rate: Rate,
    },
    /// The target offers no discard.
    DiscardUnsupported {
        /// Its name.
        target: String,
    },
    /// The target was ejected, and how.
    Ejected(String),
    /// A file that the directories on the medium do not lead to, and why.
    Misplaced(String),
    /// The directories on the medium lead to every file.
    FilesFound {
        /// How many.
        files: usize,
    },
    /// The same of an NTFS volume, before it was written.
    FilesFoundBefore {
        /// How many.
        files: usize,
    },
    /// Somebody else used the device during a test.
    ForeignIo {
        /// Name of the test.
        test: String,
        /// Bytes that the kernel counted.
        counted: u64,
        /// Bytes of the test.
        moved: u64,
    },
    /// A download cannot go on where it was.
    FromZero {
        /// Why.
        why: String,
    },
    /// A download went on behind a part that was of another file.
    WrongPart {
        /// How that was seen.
        why: String,
    },
    /// A filesystem of the source is frozen.
    Frozen {
        /// Where it is mounted.
        at: String,
    },
    /// The data of a test was hardly made as fast as it was written.
    Generator {
        /// Name of the test.
        test: String,
        /// Bytes a second.
        rate: u64,
    },
    /// An image whose size is not known is read before the medium is.
    ImageFirst {
        /// Its name.
        image: String,
    },
    /// What came of a network was stored, and where.
    Kept(String),
    /// What the kernel counted while the medium was read back.
    KernelCounters {
        /// Bytes.
        bytes: u64,
    },
    /// The device is connected by a slow link.
    Link(String),
    /// The target is mounted while it is verified.
    Mounted {
        /// Where.
        places: String,
    },
    /// The target can only be reached through the host's cache.
    NoDirectIo {
        /// Its name.
        target: String,
    },
    /// The server sends files from their start only.
    NoParts,
    /// The power profile could not be held, and why.
    NoPowerProfile(String),
    /// The computer could not be kept awake, and why.
    NoSleepLock(String),
    /// The target could not be ejected.
    NotEjected {
        /// Its name.
        target: String,
        /// Why.
        why: String,
    },
    /// The device does not zero blocks by itself.
    NotSparse {
        /// Its name.
        target: String,
    },
    /// A filesystem of the source could not be thawed, and why.
    NotThawed(String),
    /// An NTFS volume is made.
    NtfsBegins {
        /// Where.
        folder: String,
    },
    /// An NTFS volume was made.
    NtfsMade {
        /// Time it took to fill it.
        filled: Duration,
        /// How many files are in it.
        files: usize,
        /// Time it took to compare them.
        compared: Duration,
    },
    /// A download goes on with one connection.
    OneConnection {
        /// Why.
        why: String,
    },
    /// Who vouches for the image, or why nobody does.
    Origin(String),
    /// Files on the medium that the ISO does not have.
    OtherFiles {
        /// One of them.
        first: String,
        /// How many others there are.
        more: usize,
    },
    /// The kernel did not read the new partition table.
    PartitionsNotReread {
        /// Why.
        why: String,
    },
    /// A download goes on behind what an earlier one left.
    Resumed {
        /// Bytes that are there.
        have: u64,
    },
    /// Data of an earlier write had to reach the target first.
    Settled {
        /// Time that took.
        took: Duration,
        /// Name of the target.
        target: String,
    },
    /// The computer slept while it wrote.
    SleptWriting {
        /// How long.
        slept: Duration,
    },
    /// The computer slept while it measured.
    SleptMeasuring,
    /// The device became slower.
    SlowedDown {
        /// Bytes since the phase began.
        at: u64,
        /// Bytes a second before.
        before: u64,
        /// Bytes a second since.
        after: u64,
        /// Bytes that remain, where that is known.
        left: Option<u64>,
    },
    /// What was discarded reads as zeros.
    ReadsAsZeros {
        /// Samples that did.
        zero: u32,
        /// Samples in all.
        taken: u32,
    },
    /// The device zeroes blocks by itself.
    ZeroesItself,
    /// Files that an operating system made on the medium.
    SystemFiles {
        /// One of them.
        first: String,
        /// How many others there are.
        more: usize,
    },
    /// The filesystems of the source are no longer frozen.
    Thawed {
        /// How long they were.
        took: Duration,
    },
    /// A compressed file ends with something else.
    TrailingBytes {
        /// Its name.
        file: String,
        /// How much it is.
        bytes: u64,
    },
    /// How the medium for Windows is made.
    Windows(String),
    /// Zeros of the image that were not sent as data.
    ZerosNotSent {
        /// How many.
        bytes: u64,
    },
}

/// What is the same for all notices of one code.
struct Known {
    code: &'static str,
    warning: bool,
    advice: Option<&'static str>,
}

fn note(code: &'static str) -> Known {
    Known { code, warning: false, advice: None }
}

fn warning(code: &'static str) -> Known {
    Known { code, warning: true, advice: None }
}

impl Known {
    fn advice(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

impl Notice {
    /// Stable word for scripts.
    pub fn code(&self) -> &'static str {
        self.known().code
    }

    /// Whether a person should know; else nothing is wrong.
    pub fn is_warning(&self) -> bool {
        self.known().warning
    }

    /// What a person can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        self.known().advice
    }

    /// One row a code, in order.
    fn known(&self) -> Known {
        match self {
            Self::Again { .. } => {
                note("again").advice("look at the network, if it comes again and again")
            }
            Self::BackupGptInside { .. } => note("backup-gpt-inside")
                .advice("`sgdisk -e` moves the backup to the end, if a tool insists"),
            Self::BeforeWrite(_) => {
                warning("before-write").advice("look whether this is the image that you want")
            }
            Self::Clone(_) => note("clone"),
            Self::DiscardAbandoned { .. } => {
                warning("discard-abandoned").advice("`--discard-timeout` gives it more time")
            }
            Self::DiscardFailed { .. } => {
                warning("discard-failed").advice("`--discard never` leaves it out")
            }
            Self::DiscardSlow { .. } => {
                warning("discard-slow").advice("`--discard never` saves the time")
            }
            Self::DiscardUnsupported { .. } => note("discard-unsupported"),
            Self::Ejected(_) => note("ejected").advice("pull the medium out"),
            Self::Misplaced(_) => warning("file").advice("verify the medium, and write it again"),
            Self::FilesFound { .. } | Self::FilesFoundBefore { .. } => note("files"),
            Self::ForeignIo { .. } => {
                warning("foreign-io").advice("end what else uses the device, and measure again")
            }
            Self::FromZero { .. } | Self::WrongPart { .. } => warning("from-zero"),
            Self::Frozen { .. } => note("frozen")
                .advice("if mediawriter was killed, thaw it with `fsfreeze --unfreeze`"),
            Self::Generator { .. } => {
                note("generator").advice("measure on a faster computer, if the speed matters")
            }
            Self::ImageFirst { .. } => note("image-first"),
            Self::Kept(_) => {
                note("kept").advice("where it may not be whole, compare it with a published digest")
            }
            Self::KernelCounters { .. } => note("kernel-counters"),
            Self::Link(_) => {
                warning("link").advice("use a USB 3 port, without a USB 2 hub or cable")
            }
            Self::Mounted { .. } => {
                warning("mounted").advice("unmount the medium before it is verified")
            }
            Self::NoDirectIo { .. } => warning("no-direct-io")
                .advice("do not take the speeds for those of the device alone"),
            Self::NoParts => {
                warning("no-parts").advice("use another server, if the connection breaks often")
            }
            Self::NoPowerProfile(_) => {
                note(NO_POWER_PROFILE).advice("set the profile for performance before you measure")
            }
            Self::NoSleepLock(_) => {
                note(NO_SLEEP_LOCK).advice("keep the computer awake until the end")
            }
            Self::NotEjected { .. } => {
                warning("not-ejected").advice("wait for the end, and pull the medium out")
            }
            Self::NotSparse { .. } => note("not-sparse"),
            Self::NotThawed(_) => {
                warning("not-thawed").advice("thaw it with `fsfreeze --unfreeze`")
            }
            Self::NtfsBegins { .. } | Self::NtfsMade { .. } => note("ntfs"),
            Self::OneConnection { .. } => note("one-connection"),
            Self::Origin(_) => {
                note(ORIGIN).advice("get the publisher's signature or digest, if it is missing")
            }
            Self::OtherFiles { .. } => {
                note("other-files").advice("look at them, if you did not add them")
            }
            Self::PartitionsNotReread { .. } => {
                note("partitions-not-reread").advice("unplug the medium and plug it in again")
            }
            Self::Resumed { .. } => note("resumed"),
            Self::Settled { .. } => note("settled"),
            Self::SleptWriting { .. } | Self::SleptMeasuring => {
                warning("slept").advice("do not compare the speeds; run it again, if they matter")
            }
            Self::SlowedDown { .. } => note(SLOWED_DOWN),
            Self::ReadsAsZeros { .. } | Self::ZeroesItself => note("sparse"),
            Self::SystemFiles { .. } => note("system-files"),
            Self::Thawed { .. } => note("thawed"),
            Self::TrailingBytes { .. } => {
                warning("trailing-bytes").advice("compare the file with its published digest")
            }
            Self::Windows(_) => note("windows"),
            Self::ZerosNotSent { .. } => note("zeros-not-sent"),
        }
    }
}

impl fmt::Display for Notice {
    #[expect(clippy::too_many_lines, reason = "a list, read one arm at a time")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bytes: &u64| Rate { bytes_per_second: *bytes as f64 };
        match self {
            Self::BeforeWrite(text)
            | Self::Clone(text)
            | Self::Ejected(text)
            | Self::Kept(text)
            | Self::Link(text)
            | Self::Misplaced(text)
            | Self::NoPowerProfile(text)
            | Self::NoSleepLock(text)
            | Self::NotThawed(text)
            | Self::Origin(text)
            | Self::Windows(text) => f.write_str(text),
            Self::Again { why, wait } => write!(f, "{why}; trying again in {}", spoken(*wait)),
            Self::BackupGptInside { at } => write!(
                f,
                "the image's backup partition table lies at {}, not at the end of this larger \
                 medium; kernels and tools may say so, it boots all the same",
                Bytes(*at)
            ),
            Self::DiscardAbandoned { took, done, wanted, rate } => write!(
                f,
                "discarding was given up after {}: {} of {} done; it runs at {rate}",
                spoken(*took),
                Bytes(*done),
                Bytes(*wanted)
            ),
            Self::DiscardFailed { why } => write!(f, "discard failed, going on without: {why}"),
            Self::DiscardSlow { rate } => write!(
                f,
                "discarding ran at {rate}, a speed of writing: the device or its driver seems to \
                 fill with zeros instead of unmapping"
            ),
            Self::DiscardUnsupported { target } => {
                write!(f, "{target} offers no discard: skipped")
            }
            Self::FilesFound { files } => write!(
                f,
                "all {files} files were found by the directories on the medium, each at the place \
                 whose bytes were read back"
            ),
            Self::FilesFoundBefore { files } => write!(
                f,
                "all {files} files were found in the NTFS volume before it was written, and every \
                 cluster in use was read back"
            ),
            Self::ForeignIo { test, counted, moved } => write!(
                f,
                "{test}: the kernel counted {} on the device, the test moved {}: somebody else \
                 uses it",
                Bytes(*counted),
                Bytes(*moved)
            ),
            Self::FromZero { why } => write!(f, "{why}; starting from zero"),
            Self::WrongPart { why } => {
                write!(f, "{why}; a part of it was there before: once more from zero")
            }
            Self::Frozen { at } => write!(
                f,
                "{at} is frozen until the source is read; if this program is killed: fsfreeze \
                 --unfreeze {at}"
            ),
            Self::Generator { test, rate } => write!(
                f,
                "{test}: data is made at {} a second here, less than 3 times what was written; \
                 the processor may have limited it",
                Bytes(*rate)
            ),
            Self::ImageFirst { image } => {
                write!(f, "the size of {image} is not known: it is read first")
            }
            Self::KernelCounters { bytes } => {
                write!(f, "the kernel counted {bytes} bytes read from the device")
            }
            Self::Mounted { places } => write!(
                f,
                "mounted at {places}: an operating system may have changed it since it was written"
            ),
            Self::NoDirectIo { target } => write!(
                f,
                "{target} refuses O_DIRECT: synchronous writes and dropped caches take its place"
            ),
            Self::NoParts => f.write_str(
                "the server does not support resume: it sends the file from its start, and what \
                 is there is skipped",
            ),
            Self::NotEjected { target, why } => write!(
                f,
                "{target} could not be ejected ({why}); everything is flushed, it can be pulled out"
            ),
            Self::NotSparse { target } => {
                write!(f, "{target} was not seen to zero blocks by itself: zeros are written")
            }
            Self::NtfsBegins { folder } => {
                write!(f, "making the NTFS volume in {folder}; the target is not written yet")
            }
            Self::NtfsMade { filled, files, compared } => write!(
                f,
                "filled in {:.1} s; each of {files} files compared with the ISO in {:.1} s",
                filled.as_secs_f64(),
                compared.as_secs_f64()
            ),
            Self::OneConnection { why } => write!(f, "{why}; continuing with one connection"),
            Self::OtherFiles { first, more } => {
                others(f, first, *more)?;
                f.write_str(": not on the ISO: added when the stick was made, or since")
            }
            Self::SystemFiles { first, more } => {
                others(f, first, *more)?;
                f.write_str(": made by an operating system, which is no damage")
            }
            Self::PartitionsNotReread { why } => write!(
                f,
                "the kernel did not read the new partition table ({why}); unplug the stick and \
                 plug it in again"
            ),
            Self::Resumed { have } => {
                write!(f, "{} are there already, going on behind them", Bytes(*have))
            }
            Self::Settled { took, target } => {
                write!(f, "waited {} for data of an earlier write to reach {target}", spoken(*took))
            }
            Self::SleptWriting { slept } => {
                write!(f, "the computer slept for {} during the write", spoken(*slept))
            }
            Self::SleptMeasuring => {
                f.write_str("the computer slept during the measurement: do not compare it")
            }
            Self::SlowedDown { at, before, after, left } => {
                write!(
                    f,
                    "slowed down at {}: {} before, {} now; its cache is probably full",
                    Bytes(*at),
                    rate(before),
                    rate(after)
                )?;
                let Some(left) = left.filter(|_| *after > 0) else { return Ok(()) };
                let time = Duration::from_secs_f64(left as f64 / *after as f64);
                write!(f, "; new estimate at this speed: {} to go", spoken(time))
            }
            Self::ReadsAsZeros { zero, taken } => write!(
                f,
                "what was discarded reads as zeros in {zero} places of {taken}: runs of zeros are \
                 not written there"
            ),
            Self::ZeroesItself => f.write_str(
                "the device zeroes blocks itself (tried and read): runs of zeros are left to it",
            ),
            Self::Thawed { took } => {
                write!(f, "the source's filesystems were frozen for {}", spoken(*took))
            }
            Self::TrailingBytes { file, bytes } => write!(
                f,
                "{file} ends with {bytes} bytes that belong to no compressed member; they were \
                 left out"
            ),
            Self::ZerosNotSent { bytes } => {
                write!(f, "{} of zeros were not sent as data", Bytes(*bytes))
            }
        }
    }
}

fn others(f: &mut fmt::Formatter<'_>, first: &str, more: usize) -> fmt::Result {
    match more {
        0 => f.write_str(first),
        _ => write!(f, "{first} and {more} more"),
    }
}

impl From<Notice> for Event {
    fn from(notice: Notice) -> Self {
        let (code, message) = (notice.code().to_owned(), notice.to_string());
        if notice.is_warning() {
            Self::Warning { code, message }
        } else {
            Self::Note { code, message }
        }
    }
}
