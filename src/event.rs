//! What engines say while they work. Engines emit these typed events and print nothing; screens,
//! the JSON lines, the per-second log and the record fold them. The serialised form is the
//! public JSON of `--json` (docs/record.md), so a field is added, never changed.
//!
//! Events travel over an unbounded channel to the one thread that owns all observers: a terminal
//! that is stopped with Ctrl-S never holds up a write. There are a few events a second.

use std::fmt;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Rate};

pub mod capacity;
pub mod measure;
pub mod notice;

use capacity::Capacity;
use measure::{Measured, Test};
use notice::Notice;

/// A step of a job with a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A file of a web server is written to the disk; no medium has a part in it.
    Download,
    /// Old dirty pages of the target are written out before anything is measured.
    Settle,
    /// The old tables at both ends of the medium are overwritten with zeros.
    Clear,
    /// Blocks are given back to the device (TRIM/UNMAP).
    Discard,
    /// Blocks are overwritten with zeros by the device (BLKZEROOUT).
    ZeroOut,
    /// The image is written, all but what would make the medium look bootable.
    Write,
    /// The medium is compared with the image, and written where it differs.
    Update,
    /// The device is told to empty its write cache.
    Flush,
    /// The held first chunk (and the last, where it touches the end) is written and flushed.
    Release,
    /// Everything is read back from the medium.
    Verify,
    /// Samples are read to see what a discarded device returns.
    Sample,
    /// Files are looked for by the directories on the medium.
    Files,
    /// Samples are written all over the medium and read back, to find out how large it is.
    Probe,
    /// A benchmark writes.
    TestWrite,
    /// A benchmark reads.
    TestRead,
    /// A benchmark waits: to cool down, or for a cache to empty itself.
    Rest,
}

impl Phase {
    /// One word, for tables and progress lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Settle => "settle",
            Self::Clear => "clear",
            Self::Discard => "discard",
            Self::ZeroOut => "zero-out",
            Self::Write => "write",
            Self::Update => "update",
            Self::Flush => "flush",
            Self::Release => "release",
            Self::Verify => "verify",
            Self::Sample => "sample",
            Self::Files => "files",
            Self::Probe => "probe",
            Self::TestWrite => "test-write",
            Self::TestRead => "test-read",
            Self::Rest => "rest",
        }
    }
}

/// How much of a compressed file was read: what is known where the size of the image is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    /// Bytes read.
    pub done: u64,
    /// Bytes there are, when that is known.
    pub total: Option<u64>,
}

/// One second of a phase. Rows have no gaps: a second in which nothing completed is a row with 0.
/// Bytes count in the second in which their I/O completed, so a shown row is never revised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The phase it belongs to.
    pub phase: Phase,
    /// Seconds since the phase began: 0, 1, 2, ...
    pub second: u64,
    /// Length of the row: a whole second, less for the last row of a phase. Nanoseconds.
    pub nanos: u64,
    /// Bytes whose I/O completed in this row.
    pub bytes: u64,
    /// I/Os that completed in this row.
    pub ios: u32,
    /// Longest I/O that completed in this row, from submission to completion. Nanoseconds.
    pub slowest_nanos: u64,
    /// `bytes`, by tenths of a second.
    #[serde(default)]
    pub tenths: [u64; 10],
}

impl Sample {
    /// The speed of this row.
    pub fn rate(&self) -> Rate {
        Rate::of(self.bytes, Duration::from_nanos(self.nanos))
    }
}

/// A finished phase. Averages are `bytes` divided by `nanos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTotals {
    /// Which phase.
    pub phase: Phase,
    /// Payload bytes.
    pub bytes: u64,
    /// Completed I/Os.
    pub ios: u64,
    /// Wall time (or virtual time) of the phase. Nanoseconds.
    pub nanos: u64,
    /// Longest time in which nothing completed. Nanoseconds.
    pub longest_stall_nanos: u64,
    /// When in the phase that stall began. Nanoseconds.
    pub stall_at_nanos: u64,
}

impl PhaseTotals {
    /// How long the phase took.
    pub fn took(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Bytes divided by seconds.
    pub fn rate(&self) -> Rate {
        Rate::of(self.bytes, self.took())
    }
}

/// A stretch of the medium or image, in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Span {
    /// First byte behind the span.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// A stretch that differs, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadRange {
    /// Where. Exact to the sector when `exact`, else whole granules of the chunk map.
    #[serde(flatten)]
    pub span: Span,
    /// Whether both sides were compared byte by byte.
    pub exact: bool,
    /// In words: what was read, in which partition it lies.
    pub detail: String,
}

/// What a check found. "Not checked" is never "passed".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Positively compared over this many bytes.
    Matched {
        /// Bytes compared.
        bytes: u64,
    },
    /// At least one byte differs.
    Mismatched {
        /// Bytes in all bad ranges, also of those not listed. 0 = not known: a digest alone says
        /// only that something differs.
        bad_bytes: u64,
        /// Number of bad ranges, also of those not listed; 0 = not known.
        ranges: u64,
        /// What kind of damage it looks like, in sentences with their evidence.
        findings: Vec<String>,
    },
    /// The check was not made, or could not be finished.
    NotChecked {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// Positive evidence, nothing less.
    pub fn is_match(&self) -> bool {
        matches!(self, Self::Matched { .. })
    }
}

impl fmt::Display for Verdict {
    /// Without the findings, which are sentences of their own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matched { bytes } => write!(f, "matched over {}", Bytes(*bytes)),
            Self::Mismatched { ranges: 0, .. } => f.write_str("DIFFERS, where is not known"),
            Self::Mismatched { bad_bytes, ranges, .. } => {
                let plural = if *ranges == 1 { "" } else { "s" };
                write!(f, "DIFFERS in {ranges} range{plural}, {} in all", Bytes(*bad_bytes))
            }
            Self::NotChecked { reason } => write!(f, "not checked: {reason}"),
        }
    }
}

/// Who says what the source should be. Without one a digest that matches proves nothing about
/// where the file came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Voucher {
    /// The file is in a list of checksums with a good signature.
    Signature {
        /// Where the list is.
        list: String,
        /// Whose key it is, as the key says.
        owner: String,
        /// Fingerprint of the key, hex.
        fingerprint: String,
    },
    /// The file is in a list of checksums that nobody signed, or whose signature was not there.
    List {
        /// Where the list is.
        list: String,
        /// Why no signature was checked.
        unsigned: String,
    },
    /// The catalogue names this digest.
    Catalogue {
        /// Its entry.
        id: String,
    },
    /// The person who called gave the digest.
    You,
}

impl fmt::Display for Voucher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signature { list, owner, fingerprint } => {
                write!(f, "it is in {list}, signed by {owner} (key {fingerprint})")
            }
            Self::List { list, unsigned } => {
                write!(f, "it is in {list}; list unsigned: {unsigned}")
            }
            Self::Catalogue { id } => {
                write!(f, "it has the digest that the catalogue gives for {id}")
            }
            Self::You => f.write_str("it has the digest that you gave"),
        }
    }
}

/// The block map by which an image is written or compared, and how much of it that is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockMap {
    /// Its file or address.
    pub name: String,
    /// Version of the format.
    pub version: String,
    /// Bytes of the image.
    pub image_size: u64,
    /// Bytes that are written and compared.
    pub mapped: u64,
    /// Bytes that are neither.
    pub left_out: u64,
    /// Ranges in the map.
    pub ranges: u64,
    /// Whether each range has a SHA-256.
    pub proves: bool,
}

impl BlockMap {
    /// `8.00 of 32.0 MiB` is as much as may be claimed.
    pub fn share(&self) -> String {
        let (mapped, size) = (Bytes(self.mapped).binary(), Bytes(self.image_size).binary());
        format!("{mapped} of {size} (the mapped blocks)")
    }
}

impl fmt::Display for BlockMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = Bytes(self.image_size).binary();
        let (mapped, left) = (Bytes(self.mapped).binary(), Bytes(self.left_out).binary());
        let plural = if self.ranges == 1 { "" } else { "s" };
        let with = if self.proves { "each with its SHA-256" } else { "without SHA-256" };
        write!(f, "{} (block map, version {}): ", self.name, self.version)?;
        match self.left_out {
            0 => write!(f, "all of {size} is mapped, ")?,
            _ => write!(f, "{mapped} of {size} are mapped, {left} are left out; ")?,
        }
        write!(f, "{} range{plural}, {with}", self.ranges)
    }
}

/// How the whole run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The process' exit code.
    pub exit_code: u8,
    /// One sentence.
    pub message: String,
    /// What to try, when it went wrong.
    pub hint: Option<String>,
    /// Where it went wrong, when that is an offset on the target.
    pub place: Option<Span>,
}

/// Everything an engine can say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A phase began; `total` is its size in bytes when it is known.
    PhaseStarted {
        /// Which.
        phase: Phase,
        /// Bytes it will cover.
        total: Option<u64>,
    },
    /// How far a phase is; for screens, several times a second, never in records.
    Progress {
        /// Which.
        phase: Phase,
        /// Bytes done.
        bytes: u64,
        /// How much of the file was read that the image is unpacked from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Consumed>,
    },
    /// A finished row.
    Sample(Sample),
    /// A phase ended, well or badly.
    PhaseEnded(PhaseTotals),
    /// The size of single I/Os was lowered so that a slow device still completes several a second.
    IoSize {
        /// Phase in which it happened.
        phase: Phase,
        /// Bytes per I/O from now on.
        bytes: u64,
    },
    /// Old tables and signatures that were found at the ends of the medium and overwritten.
    Cleared {
        /// What each was.
        signatures: Vec<String>,
    },
    /// How long each part of a pass was at work; the largest, against the length of the phase,
    /// is the bottleneck.
    Busy {
        /// Which pass.
        phase: Phase,
        /// Reading (and decoding) the source. Nanoseconds.
        source_nanos: u64,
        /// SHA-256. Nanoseconds.
        hash_nanos: u64,
        /// Waiting for the device, per thread that does. Nanoseconds.
        device_nanos: u64,
    },
    /// The image was read to its end.
    SourceRead {
        /// Its length.
        bytes: u64,
        /// Its SHA-256, in hex; not computed where a block map has digests of what is written.
        sha256: Option<String>,
        /// SHA-256 over the SHA-256 digests of the stretches that a block map names, in hex.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mapped_sha256: Option<String>,
    },
    /// The file as it was published was read to its end, when that is another thing than the
    /// image: it is compressed, or its digest is no SHA-256.
    FileRead {
        /// Its length.
        bytes: u64,
        /// Its SHA-256, in hex.
        sha256: String,
        /// Its SHA-512, in hex, when that is what was published.
        sha512: Option<String>,
    },
    /// Which test of a benchmark the phase is that goes on.
    Test {
        /// The phase.
        phase: Phase,
        /// The test.
        test: Test,
    },
    /// What a test measured besides its rows; after the phase ended.
    Measured {
        /// The phase.
        phase: Phase,
        /// What was measured.
        measured: Measured,
    },
    /// The device's own sensor was read.
    Temperature {
        /// Nanoseconds since the start of the run.
        at_nanos: u64,
        /// Thousandths of a degree Celsius.
        milli_celsius: i64,
    },
    /// How large the medium really is.
    Capacity(Capacity),
    /// An image was written only where the medium differed. Bytes.
    Compared {
        /// Found there already, and left.
        equal: u64,
        /// Written.
        written: u64,
    },
    /// One chunk of a discard.
    DiscardChunk {
        /// Where.
        #[serde(flatten)]
        span: Span,
        /// How long it took. Nanoseconds.
        nanos: u64,
    },
    /// The first difference was seen; the check goes on.
    FirstDifference {
        /// Near this byte.
        offset: u64,
    },
    /// A range that differs, after the check; a bounded number of them is listed.
    BadRange(BadRange),
    /// The image is on the medium and flushed, its first chunk included.
    HeadReleased,
    /// The start (and end) of the medium were overwritten after a failure.
    MadeUnbootable {
        /// Whether that worked; if not the medium may still look bootable.
        done: bool,
        /// In a sentence.
        message: String,
    },
    /// Something a person should know; the run goes on.
    Warning {
        /// Stable word for scripts.
        code: String,
        /// In a sentence.
        message: String,
    },
    /// Something worth a line; nothing is wrong.
    Note {
        /// Stable word for scripts.
        code: String,
        /// In a sentence.
        message: String,
    },
    /// The image is written, or compared, by a block map.
    BlockMap(BlockMap),
    /// Source against its published digest.
    SourceVerdict(Verdict),
    /// Who vouches for the source; after a verdict that it matches.
    Vouched(Voucher),
    /// Medium against the image.
    MediaVerdict(Verdict),
    /// The end; nothing follows.
    Finished(Ending),
}

/// Takes events; each screen, log and record is one.
pub trait Observer: Send {
    /// Called for every event in the order they were emitted, from one thread.
    fn on(&mut self, event: &Event);

    /// Somebody asked how it stands (SIGUSR1). Screens say it; logs and records do not care.
    fn state(&mut self) {}
}

/// Where engines put events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events(Sender<Event>);

impl Events {
    /// A sink and the end that observers read from.
    pub fn channel() -> (Self, Receiver<Event>) {
        let (sender, receiver) = crossbeam_channel::unbounded();
        (Self(sender), receiver)
    }

    /// Never blocks. Without a receiver the event is dropped: nobody watches.
    pub fn emit(&self, event: Event) {
        self.0.send(event).ok();
    }

    /// Emits a note or a warning.
    pub fn tell(&self, notice: Notice) {
        self.emit(notice.into());
    }
}

/// Feeds every event to every observer until all senders are gone; between them, and while none
/// come, passes on who `asked` for the state.
pub fn run_observers(
    events: &Receiver<Event>,
    asked: &Receiver<()>,
    observers: &mut [Box<dyn Observer>],
) {
    loop {
        crossbeam_channel::select! {
            recv(events) -> event => match event {
                Ok(event) => {
                    for observer in observers.iter_mut() {
                        observer.on(&event);
                    }
                }
                Err(_) => return,
            },
            recv(asked) -> asked => if asked.is_ok() {
                for observer in observers.iter_mut() {
                    observer.state();
                }
            },
        }
    }
}

/// `4.70 GiB (5.05 GB)` for messages of engines.
pub fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}
