//! The record of a run: everything that was measured and found, as one JSON object with a schema
//! name. Described field by field in docs/record.md. Sizes are bytes, times are nanoseconds.
//!
//! Within one schema fields are added and never changed, so readers take unknown fields, and
//! fields that an older record lacks have a default. Saving belongs to `host`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::Geometry;
use crate::device::facts::{Facts, Usb, Use, User};
use crate::digest::chunks::StoredMap;
use crate::error::{Error, Kind, Result};
use crate::event::capacity::Capacity;
use crate::event::measure::{Measured, Test};
use crate::event::notice::Notice;
use crate::event::{
    BadRange, BlockMap, Ending, Phase, PhaseTotals, Sample, Span, Verdict, Voucher,
};
use crate::host::facts::HostFacts;
use crate::meter::series::Summary;
use crate::text::printable;

/// The schema this version writes and reads.
pub const SCHEMA: &str = "mediawriter-record/1";

/// Bad ranges and discard chunks that a record lists at most; the verdict counts all of them.
pub const LISTED: usize = 10_000;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Version of mediawriter.
    pub version: String,
    /// The command line, word by word, as typed; passwords in addresses are taken out.
    pub command: Vec<String>,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// Where it ran.
    pub host: HostFacts,
    /// The target, as it was before the run.
    pub device: Option<Facts>,
    /// The target, as it was opened.
    pub geometry: Option<Geometry>,
    /// What was written or compared with.
    pub source: Option<SourceFacts>,
    /// How it was written.
    pub settings: Option<Settings>,
    /// The phases in the order in which they began.
    pub phases: Vec<PhaseRecord>,
    /// Each lowering of the size of single I/Os.
    pub io_sizes: Vec<IoSizeChange>,
    /// What each chunk of a discard took; the first [`LISTED`].
    pub discard_chunks: Vec<DiscardChunk>,
    /// Old tables and signatures that were overwritten.
    pub cleared: Vec<String>,
    /// Warnings in their order.
    pub warnings: Vec<Remark>,
    /// Notes in their order.
    pub notes: Vec<Remark>,
    /// Near which byte the first difference was seen.
    pub first_difference: Option<u64>,
    /// Ranges that differ; the first [`LISTED`].
    pub bad_ranges: Vec<BadRange>,
    /// Who vouches for the source, when it matched what was published.
    pub voucher: Option<Voucher>,
    /// Source against its published digest.
    pub source_verdict: Option<Verdict>,
    /// Medium against the image.
    pub media_verdict: Option<Verdict>,
    /// The whole image, its first chunk included, was written and flushed.
    pub head_released: bool,
    /// What became of the attempt to make the medium unbootable, when there was one.
    pub made_unbootable: Option<MadeUnbootable>,
    /// How the run ended; absent when it was cut off.
    pub ending: Option<Ending>,
    /// Stretches of the image that were written, where a block map said so; empty: all of it. What
    /// lies between them counts as zeros in `chunk_map`.
    pub mapped: Vec<Span>,
    /// The block map by which the image was written or compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_map: Option<BlockMap>,
    /// Digests of the image by chunk, with which a later run can verify the medium alone.
    pub chunk_map: Option<StoredMap>,
    /// How long each part of the write and the verify pass was at work.
    pub busy: Vec<Busy>,
    /// How long the host was suspended during the run. Nanoseconds; not part of any phase.
    pub slept_nanos: u64,
    /// How large the medium really is, when that was probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What was left and what was written, when the medium was only written where it differed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// What was benchmarked, when the run was a benchmark.
    pub bench: Option<Bench>,
    /// What else could have had a part in the speeds.
    pub conditions: Conditions,
    /// What the person noted with --note and --ambient: price, rated speed, room temperature.
    pub labels: BTreeMap<String, String>,
}

/// A medium that was written only where it differed from the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compared {
    /// Bytes that were there already, and were left.
    pub equal: u64,
    /// Bytes that were written.
    pub written: u64,
}

/// A benchmark as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bench {
    /// `image`, `marathon`, `cdm`, `boot`, `read`, `write-same`, or `imported`.
    pub profile: String,
    /// Bytes that each test of it covers.
    pub size: u64,
    /// With the block size and depth of the articles (4 MiB, one in flight).
    pub like_fio: bool,
    /// From which the data and the random offsets are made.
    pub seed: u64,
    /// How often every test is repeated.
    pub rounds: u32,
    /// Bytes that the run may write, divided by the size of the medium.
    pub full_drive_writes: f64,
    /// The state before: `discarded`, `as found`.
    pub precondition: String,
}

/// What else could have had a part in the speeds; `None` where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Who keeps the host awake: `logind`, or why nobody does.
    pub awake: Option<String>,
    /// The power profile during the run, and whether it was held: `performance (held)`.
    pub power_profile: Option<String>,
    /// scaling_governor of the first processor.
    pub governor: Option<String>,
    /// Largest request that the kernel sends to the device, bytes (queue/max_sectors_kb).
    pub max_request: Option<u64>,
    /// Temperatures of the device, where a sensor has them.
    pub temperatures: Vec<Temperature>,
}

/// One reading of a sensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Temperature {
    /// Nanoseconds since the start of the run.
    pub at_nanos: u64,
    /// Thousandths of a degree Celsius.
    pub milli_celsius: i64,
}

/// Where the bytes came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceFacts {
    /// As a person calls it: a file name, an address, an entry of the catalogue.
    pub name: String,
    /// In a word: `file`, `stdin`, `device`, ...
    pub kind: String,
    /// Bytes of the image, when known.
    pub size: Option<u64>,
    /// The published SHA-256 of the image, hex.
    pub sha256_expected: Option<String>,
    /// The SHA-256 of what was read, hex; absent where a block map has digests of what is written.
    pub sha256_actual: Option<String>,
    /// SHA-256 over the SHA-256 digests (32 bytes each) of the stretches in [`RunRecord::mapped`].
    pub mapped_sha256: Option<String>,
    /// The file as it was published, when that is another thing than the image.
    pub file: Option<FileFacts>,
}

/// The file that an image came in. Its digests are never compared with those of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileFacts {
    /// Its bytes.
    pub size: Option<u64>,
    /// How the image is packed in it: `xz`, `gzip`, `zip`, ...; empty when it is not.
    pub packed: String,
    /// The published digest, hex; its length tells the algorithm.
    pub digest_expected: Option<String>,
    /// The SHA-256 of what was read, hex.
    pub sha256_actual: Option<String>,
    /// The SHA-512 of what was read, hex, when that is what was published.
    pub sha512_actual: Option<String>,
}

/// How I/O was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Bytes per I/O at the start; `io_sizes` tells what became of it.
    pub block_size: u64,
    /// I/Os in flight.
    pub queue_depth: u32,
    /// Whether `O_DIRECT` was asked for; whether it was had is in `geometry`.
    pub direct: bool,
    /// What was done about discard, in a word.
    pub discard: String,
}

/// One phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Phase, bytes, I/Os, time and longest stall.
    #[serde(flatten)]
    pub totals: PhaseTotals,
    /// Bytes it was to cover, when known.
    #[serde(default)]
    pub total: Option<u64>,
    /// Whether the phase was seen to end; if not the totals are those of its rows.
    #[serde(default)]
    pub ended: bool,
    /// Statistics over its rows.
    #[serde(default)]
    pub summary: Summary,
    /// One row a second.
    #[serde(default)]
    pub rows: Vec<Sample>,
    /// Which test of a benchmark it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// What a test measured besides its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// The size of single I/Os was lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoSizeChange {
    /// In which phase.
    pub phase: Phase,
    /// Bytes per I/O from then on.
    pub bytes: u64,
}

/// What a chunk of a discard took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardChunk {
    /// Where.
    #[serde(flatten)]
    pub span: Span,
    /// How long. Nanoseconds.
    pub nanos: u64,
}

/// A warning or a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Stable word for scripts.
    pub code: String,
    /// In a sentence.
    pub message: String,
}

impl From<Notice> for Remark {
    fn from(notice: Notice) -> Self {
        Self { code: notice.code().to_owned(), message: notice.to_string() }
    }
}

/// An attempt to make the medium unbootable after a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeUnbootable {
    /// Whether it worked.
    pub done: bool,
    /// In a sentence.
    pub message: String,
}

/// How long each part of a pass was at work; the parts overlap, so the one that was busy for as
/// long as the phase took is the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// Which pass.
    pub phase: Phase,
    /// Reading (and decoding) the source.
    pub source_nanos: u64,
    /// SHA-256.
    pub hash_nanos: u64,
    /// Inside reads and writes of the target, per thread that does them.
    pub device_nanos: u64,
}

impl RunRecord {
    /// The record as JSON, one object and a line feed.
    pub fn to_json(&self) -> Result<String> {
        let record = Self { device: self.device.clone().map(writable), ..self.clone() };
        let mut text = serde_json::to_string(&record)
            .map_err(|e| Error::new(Kind::Internal, format!("cannot write the record: {e}")))?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a record of this schema.
    pub fn parse(json: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Peek {
            schema: Option<String>,
        }
        let bad = |why: String| {
            let hint = "give a file that was written with --record";
            Error::new(Kind::Io, format!("this is no record of a run: {why}")).hint(hint)
        };
        let peek: Peek =
            serde_json::from_slice(json).map_err(|e| bad(printable(&e.to_string())))?;
        match peek.schema.as_deref() {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(bad(format!("its schema is '{}', not {SCHEMA}", printable(other))));
            }
            None => return Err(bad("it names no schema".to_owned())),
        }
        serde_json::from_slice(json).map_err(|e| bad(printable(&e.to_string())))
    }

    /// The last phase of this kind.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseRecord> {
        self.phases.iter().rev().find(|record| record.totals.phase == phase)
    }

    /// Whether the run did all it was asked to do.
    pub fn succeeded(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.exit_code == 0)
    }
}

/// JSON is UTF-8 and file names are not: bytes that are none become U+FFFD, so that one odd
/// mount point does not cost the record.
fn writable(mut facts: Facts) -> Facts {
    fn name(path: &Path) -> PathBuf {
        path.to_string_lossy().into_owned().into()
    }
    facts.path = name(&facts.path);
    facts.partition_of = facts.partition_of.as_deref().map(name);
    facts.by_id.iter_mut().for_each(|path| *path = name(path));
    facts.backing_file = facts.backing_file.as_deref().map(name);
    let provisioning = facts.discard.provisioning_file.as_deref().map(name);
    facts.discard.provisioning_file = provisioning;
    facts.usb = facts.usb.map(|usb| Usb { sysfs: usb.sysfs.as_deref().map(name), ..usb });
    facts.partitions.iter_mut().for_each(|part| part.path = name(&part.path));
    let readable = |used: &Use| Use {
        device: name(&used.device),
        by: match &used.by {
            User::Mount { at } => User::Mount { at: name(at) },
            other => other.clone(),
        },
    };
    facts.uses = facts.uses.iter().map(readable).collect();
    facts
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;
    use crate::report::lab;

    #[test]
    fn a_record_survives_the_way_through_json() {
        for record in
            [lab::record(), RunRecord { schema: SCHEMA.to_owned(), ..RunRecord::default() }]
        {
            let json = record.to_json().unwrap();
            assert_eq!(json.lines().count(), 1);
            assert_eq!(RunRecord::parse(json.as_bytes()).unwrap(), record);
        }
    }

    #[test]
    fn unknown_fields_are_taken_and_missing_ones_have_defaults() {
        let json = r#"{"schema":"mediawriter-record/1","planet":"earth","busy":[{"phase":"write",
            "source_nanos":1,"hash_nanos":2,"device_nanos":7,"x":1}],"phases":[{"phase":"write","bytes":5,"ios":1,"nanos":9,"longest_stall_nanos":0,
            "stall_at_nanos":0,"mood":"good"}]}"#;
        let record = RunRecord::parse(json.as_bytes()).unwrap();
        assert_eq!(record.busy[0].device_nanos, 7);
        assert_eq!(record.phase(Phase::Write).unwrap().totals.bytes, 5);
        assert_eq!(record.phase(Phase::Verify), None);
        assert!(!record.succeeded(), "a run without an ending did not succeed");
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_reason() {
        for (json, reason) in [
            ("", "EOF"),
            ("[1]", "invalid type"),
            ("{}", "names no schema"),
            (r#"{"schema":7}"#, "invalid type"),
            (r#"{"schema":"mediawriter-record/2"}"#, "schema is 'mediawriter-record/2', not"),
            (r#"{"schema":"\u001b[2Jx"}"#, "'\\u{1b}[2Jx'"),
            (r#"{"schema":"mediawriter-record/1","phases":[{}]}"#, "missing field"),
            ("\u{0}\u{1}", "expected value"),
        ] {
            let error = RunRecord::parse(json.as_bytes()).unwrap_err();
            assert!(error.message().contains(reason), "{json}: {}", error.message());
            assert!(!error.message().contains('\u{1b}'));
        }
    }

    #[test]
    fn names_that_are_not_utf_8_do_not_cost_the_record() {
        let odd = PathBuf::from(OsStr::from_bytes(b"/mnt/b\xfcro"));
        let uses = vec![Use { device: odd.clone(), by: User::Mount { at: odd.clone() } }];
        let mut facts = Facts {
            path: odd.clone(),
            partition_of: Some(odd.clone()),
            by_id: vec![odd.clone()],
            backing_file: Some(odd.clone()),
            usb: Some(Usb { sysfs: Some(odd.clone()), ..Usb::default() }),
            uses,
            ..Facts::default()
        };
        facts.discard.provisioning_file = Some(odd);
        let record =
            RunRecord { schema: SCHEMA.to_owned(), device: Some(facts), ..RunRecord::default() };
        let json = record.to_json().unwrap();
        let read = RunRecord::parse(json.as_bytes()).unwrap();
        assert_eq!(read.device.unwrap().path, PathBuf::from("/mnt/b\u{fffd}ro"));
    }

    #[test]
    fn every_field_of_a_record_is_documented() {
        fn names(value: &serde_json::Value, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Object(map) => {
                    for (name, value) in map {
                        found.push(name.clone());
                        names(value, found);
                    }
                }
                serde_json::Value::Array(list) => list.iter().for_each(|item| names(item, found)),
                _ => {}
            }
        }
        let docs = include_str!("../../docs/record.md");
        let words: Vec<&str> =
            docs.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let json = lab::record().to_json().unwrap();
        let mut found = Vec::new();
        names(&serde_json::from_str(&json).unwrap(), &mut found);
        for name in &found {
            assert!(words.contains(&name.as_str()), "{name} is not in docs/record.md");
        }
        assert!(found.len() > 100);
    }
}
