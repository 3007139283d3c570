//! From "the maps differ" to "this is what is wrong, and where": bad granules are looked at, the
//! ranges narrowed down to sectors where the image can be read again, and the kind of damage is
//! named only where the evidence is positive. `findings` is pure.

use std::collections::HashMap;

use super::Context;
use super::readback::ReadBack;
use crate::device::BlockDevice;
use crate::device::look::Look;
use crate::digest::chunks::{ChunkMap, Tag};
use crate::event::{BadRange, Event, Span, Verdict};
use crate::image::ReadAt;
use crate::units::Bytes;

/// Ranges that are listed; all are counted.
pub const LISTED: usize = 256;
/// Granules that are compared byte by byte: at most 128 MiB are read again.
const EXAMINED: usize = 2048;

/// How the finding begins that clears the stick of blame.
pub const CHANGED_AFTER: &str = "changed after writing";

/// Where a range lies, in words, and whether operating systems change that place on mounting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// E.g. `in partition 2 (FAT32 "ESP"), root directory`.
    pub words: String,
    /// Superblock, dirty flag, FAT, root directory and the like.
    pub changed_by_systems: bool,
}

/// Says where a range lies on the medium.
pub type Locate<'a> = &'a dyn Fn(Span) -> Located;

/// What the medium should hold.
#[derive(Clone, Copy)]
pub struct Truth<'a> {
    /// Its map.
    pub map: &'a ChunkMap,
    /// The image itself, where it can be read again.
    pub image: Option<&'a dyn ReadAt>,
    /// Whether this run wrote it: only then is data that is not there data that was lost.
    pub written: bool,
}

impl std::fmt::Debug for Truth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Truth({} bytes, image {})", self.map.len(), self.image.is_some())
    }
}

/// A bad granule and what the medium holds there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Granule {
    span: Span,
    content: Content,
    /// Differing bits, when compared byte by byte.
    bits: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Zeros,
    Ones,
    /// The image's bytes from this other offset.
    CopyOf(u64),
    /// Wrong at first, right when read again.
    Unstable,
    Other,
}

/// Collects ranges: neighbours are merged, a bounded number is kept, all are counted.
#[derive(Debug, Default)]
struct Ranges {
    kept: Vec<BadRange>,
    count: u64,
    bytes: u64,
    end: u64,
}

impl Ranges {
    fn add(&mut self, span: Span, exact: bool, detail: impl FnOnce() -> String) {
        self.bytes += span.len;
        let joins = self.count > 0 && self.end == span.offset;
        self.end = span.end();
        if joins && self.kept.len() as u64 == self.count {
            if let Some(last) = self.kept.last_mut() {
                last.span.len += span.len;
                last.exact &= exact;
            }
            return;
        }
        if !joins {
            self.count += 1;
            if self.kept.len() < LISTED {
                self.kept.push(BadRange { span, exact, detail: detail() });
            }
        }
    }
}

/// Compares what was read with what should be there; emits the bad ranges and gives the verdict.
pub fn judge(
    truth: Truth<'_>,
    seen: &ReadBack,
    device: &dyn BlockDevice,
    locate: Locate<'_>,
    cx: &Context,
) -> Verdict {
    let level = truth.map.level().max(seen.map.level());
    let (expected, read) = (truth.map.at_level(level), seen.map.at_level(level));
    let bad = expected.differing(&read);
    if bad.is_empty() && seen.unreadable.is_empty() {
        return Verdict::Matched { bytes: expected.len() };
    }
    let copies = Copies::new(&expected, &bad);
    let mut ranges = Ranges::default();
    let mut granules = Vec::with_capacity(bad.len());
    let mut unreadable = seen.unreadable.iter().copied().peekable();
    for (number, &index) in bad.iter().enumerate() {
        let span = expected.span(index);
        while let Some(span) = unreadable.next_if(|u| u.offset < span.offset) {
            ranges.add(span, true, || "cannot be read".to_owned());
        }
        let content = copies.content(&expected, &read, index);
        let image = truth.image.filter(|_| number < EXAMINED);
        let fine = image.and_then(|image| compare(image, device, span, &seen.unreadable));
        granules.push(add_granule(span, content, fine, &mut ranges, &seen.unreadable));
        while unreadable.next_if(|u| u.offset < span.end()).is_some() {}
    }
    for span in unreadable {
        ranges.add(span, true, || "cannot be read".to_owned());
    }
    let mut all_by_systems = true;
    for range in &mut ranges.kept {
        let located = locate(range.span);
        all_by_systems &= located.changed_by_systems;
        if !located.words.is_empty() {
            range.detail = format!("{}, {}", located.words, range.detail);
        }
        cx.events.emit(Event::BadRange(range.clone()));
    }
    let evidence = Evidence {
        granules: &granules,
        ranges: &ranges.kept,
        unreadable: &seen.unreadable,
        expected: &expected,
        written: truth.written,
        all_by_systems: all_by_systems && ranges.count == ranges.kept.len() as u64,
    };
    Verdict::Mismatched {
        bad_bytes: ranges.bytes,
        ranges: ranges.count,
        findings: findings(&evidence),
    }
}

/// Runs of differing sectors within one granule.
struct Fine {
    runs: Vec<Run>,
    bits: u64,
}

struct Run {
    span: Span,
    bits: u64,
    first: (u64, u8, u8),
}

const SECTOR: usize = 512;

/// Reads both sides again and compares them; `None` when one cannot be read.
fn compare(
    image: &dyn ReadAt,
    device: &dyn BlockDevice,
    span: Span,
    unreadable: &[Span],
) -> Option<Fine> {
    if unreadable.iter().any(|u| u.offset < span.end() && span.offset < u.end()) {
        return None;
    }
    let len = usize::try_from(span.len).ok()?;
    let (mut wanted, mut got) = (vec![0; len], vec![0; len]);
    let both =
        [image.read_at(span.offset, &mut wanted), Look(device).read_at(span.offset, &mut got)];
    if both.into_iter().any(|n| n.ok() != Some(len)) {
        return None;
    }
    let mut fine = Fine { runs: Vec::new(), bits: 0 };
    for (index, (a, b)) in wanted.chunks(SECTOR).zip(got.chunks(SECTOR)).enumerate() {
        let offset = span.offset + (index * SECTOR) as u64;
        let bits: u64 = a.iter().zip(b).map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
        let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) else {
            continue;
        };
        fine.bits += bits;
        match fine.runs.last_mut() {
            Some(run) if run.span.end() == offset => {
                run.span.len += a.len() as u64;
                run.bits += bits;
            }
            _ => fine.runs.push(Run {
                span: Span { offset, len: a.len() as u64 },
                bits,
                first: (offset + at as u64, a[at], b[at]),
            }),
        }
    }
    Some(fine)
}

fn add_granule(
    span: Span,
    content: Content,
    fine: Option<Fine>,
    ranges: &mut Ranges,
    unreadable: &[Span],
) -> Granule {
    let Some(fine) = fine else {
        let holes: Vec<Span> = unreadable
            .iter()
            .filter(|u| u.offset < span.end() && span.offset < u.end())
            .copied()
            .collect();
        if holes.is_empty() {
            ranges.add(span, false, || content.words());
        }
        for hole in holes {
            ranges.add(hole, true, || "cannot be read".to_owned());
        }
        return Granule { span, content, bits: None };
    };
    if fine.runs.is_empty() {
        ranges.add(span, false, || Content::Unstable.words());
        return Granule { span, content: Content::Unstable, bits: Some(0) };
    }
    for run in &fine.runs {
        ranges.add(run.span, true, || match (content, run.bits) {
            (Content::Other, 1) => {
                let (at, wanted, got) = run.first;
                format!("1 bit differs: byte {at} is {got:#04x}, should be {wanted:#04x}")
            }
            (Content::Other, bits) => format!("{bits} bits differ, first in byte {}", run.first.0),
            _ => content.words(),
        });
    }
    Granule { span, content, bits: Some(fine.bits) }
}

impl Content {
    fn words(self) -> String {
        match self {
            Self::Zeros => "reads as zeros".to_owned(),
            Self::Ones => "reads as 0xff".to_owned(),
            Self::CopyOf(offset) => format!("holds what belongs at offset {offset}"),
            Self::Unstable => "read wrong once, and right when read again".to_owned(),
            Self::Other => "holds other data".to_owned(),
        }
    }
}

/// Where in the image each distinctive granule is, to recognise data that came back elsewhere.
struct Copies {
    offsets: HashMap<Tag, Option<u64>>,
}

impl Copies {
    /// Only built when something is wrong.
    fn new(expected: &ChunkMap, bad: &[usize]) -> Self {
        let mut offsets = HashMap::new();
        if !bad.is_empty() {
            for (index, &tag) in expected.entries().iter().enumerate() {
                // A granule that occurs twice (zeros, say) proves nothing.
                offsets
                    .entry(tag)
                    .and_modify(|place| *place = None)
                    .or_insert_with(|| Some(expected.span(index).offset));
            }
        }
        Self { offsets }
    }

    fn content(&self, expected: &ChunkMap, read: &ChunkMap, index: usize) -> Content {
        let (Some(&tag), len) = (read.entries().get(index), expected.span(index).len) else {
            return Content::Other;
        };
        if tag == expected.tag_of_constant(0, len) {
            return Content::Zeros;
        }
        if tag == expected.tag_of_constant(0xff, len) {
            return Content::Ones;
        }
        self.offsets.get(&tag).copied().flatten().map_or(Content::Other, Content::CopyOf)
    }
}

/// Everything the findings rest on.
struct Evidence<'a> {
    granules: &'a [Granule],
    ranges: &'a [BadRange],
    unreadable: &'a [Span],
    expected: &'a ChunkMap,
    written: bool,
    all_by_systems: bool,
}

/// Names the damage, each sentence with its evidence; what cannot be told apart is not guessed.
fn findings(evidence: &Evidence<'_>) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(first) = evidence.unreadable.first() {
        let bytes: u64 = evidence.unreadable.iter().map(|u| u.len).sum();
        found.push(format!(
            "{} cannot be read, the first at offset {}: bad sectors",
            Bytes(bytes),
            first.offset
        ));
    }
    let granules: Vec<&Granule> = evidence
        .granules
        .iter()
        .filter(|g| {
            !evidence.unreadable.iter().any(|u| u.offset < g.span.end() && g.span.offset < u.end())
        })
        .collect();
    if granules.is_empty() {
        return found;
    }
    if evidence.all_by_systems {
        found.push(format!(
            "{CHANGED_AFTER}: only places that an operating system rewrites when it mounts a \
             filesystem differ; the stick itself is not at fault"
        ));
        return found;
    }
    found.extend(
        wrapped(&granules)
            .or_else(|| lost(&granules, evidence))
            .or_else(|| holes(&granules, evidence.written)),
    );
    found.extend(flipped(&granules));
    found.extend(unstable(&granules));
    if found.is_empty() {
        let (count, verb) = match granules.len() {
            1 => ("1 stretch".to_owned(), "holds"),
            n => (format!("{n} stretches"), "hold"),
        };
        found.push(format!(
            "{count} of {} {verb} data that is neither the image's nor blank: old content, or written \
             by somebody else since",
            Bytes(evidence.expected.granule()).binary()
        ));
    }
    found
}

/// Data came back from another offset: addresses wrap.
fn wrapped(granules: &[&Granule]) -> Option<String> {
    let copies: Vec<(u64, u64)> = granules
        .iter()
        .filter_map(|g| match g.content {
            Content::CopyOf(from) => Some((g.span.offset, from.abs_diff(g.span.offset))),
            _ => None,
        })
        .collect();
    // Zeros may be copies as well: images are full of them.
    let blank = |g: &&&Granule| matches!(g.content, Content::Zeros | Content::Ones);
    let telling = granules.len() - granules.iter().filter(blank).count();
    if copies.is_empty() || copies.len() * 2 < telling || copies.len() * 8 < granules.len() {
        return None;
    }
    let real = copies.iter().fold(0, |a, &(_, distance)| gcd(a, distance));
    let (first, _) = *copies.first()?;
    Some(format!(
        "offset {first} and others hold what was written {} further on: addresses wrap around, as \
         on sticks with a fake capacity; real capacity probably about {}",
        Bytes(real),
        Bytes(real)
    ))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// From some offset to the end nothing that was written came back.
fn lost(granules: &[&Granule], evidence: &Evidence<'_>) -> Option<String> {
    let expected = evidence.expected;
    let bad: std::collections::HashSet<u64> = granules.iter().map(|g| g.span.offset).collect();
    // Backwards from the end: a granule that should be zero and is zero proves nothing.
    let mut start = None;
    for (index, &tag) in expected.entries().iter().enumerate().rev() {
        let span = expected.span(index);
        if bad.contains(&span.offset) {
            start = Some(index);
        } else if tag != expected.tag_of_constant(0, span.len) {
            break;
        }
    }
    let start = expected.span(start?);
    let affected: Vec<&&Granule> =
        granules.iter().filter(|g| g.span.offset >= start.offset).collect();
    let damaged_lightly = affected.iter().all(|g| g.bits.is_some_and(|bits| bits < 64));
    if affected.len() < 2 && expected.entries().len() > 1 || damaged_lightly {
        return None;
    }
    let offset = evidence
        .ranges
        .iter()
        .map(|r| r.span.offset)
        .find(|o| *o >= start.offset)
        .unwrap_or(start.offset);
    let what = content_of(&affected);
    if !evidence.written {
        let from = if offset == 0 {
            "nothing of the image is on the medium".to_owned()
        } else {
            format!("from offset {offset} to the end nothing of the image is on the medium")
        };
        return Some(format!(
            "{from}, it {what}: never written there, overwritten since, or lost by the device; \
             which of these cannot be told without writing"
        ));
    }
    if offset == 0 {
        return Some(format!(
            "nothing of the image is on the medium, all of it {what}: the device seems to ignore \
             writes (worn out or write-protected without saying so)"
        ));
    }
    Some(format!(
        "from offset {offset} to the end nothing that was written came back, it {what}: dropped \
         writes, as on sticks with a fake capacity; real capacity probably about {}",
        Bytes(offset)
    ))
}

fn content_of(granules: &[&&Granule]) -> &'static str {
    if granules.iter().all(|g| g.content == Content::Zeros) {
        "reads as zeros"
    } else if granules.iter().all(|g| g.content == Content::Ones) {
        "reads as 0xff"
    } else {
        "holds old or other data"
    }
}

/// Blank stretches in the middle: writes that were acknowledged and lost.
fn holes(granules: &[&Granule], written: bool) -> Option<String> {
    let blank: Vec<&&Granule> =
        granules.iter().filter(|g| matches!(g.content, Content::Zeros | Content::Ones)).collect();
    let first = blank.first()?;
    let bytes: u64 = blank.iter().map(|g| g.span.len).sum();
    Some(format!(
        "{} in the middle {}, the first at offset {}: {}",
        Bytes(bytes),
        content_of(&blank),
        first.span.offset,
        if written {
            "writes that the device accepted and lost"
        } else {
            "blanked since the image was written, or lost by the device when it was"
        }
    ))
}

/// Few wrong bits in otherwise right data.
fn flipped(granules: &[&Granule]) -> Option<String> {
    let few =
        |g: &&&Granule| g.content == Content::Other && g.bits.is_some_and(|b| (1..64).contains(&b));
    let damaged: Vec<&&Granule> = granules.iter().filter(few).collect();
    let bits: u64 = damaged.iter().filter_map(|g| g.bits).sum();
    (bits > 0).then(|| {
        format!(
            "{bits} scattered wrong bit{} in {} place{}: the medium, its controller or the cable \
             corrupts data silently",
            if bits == 1 { "" } else { "s" },
            damaged.len(),
            if damaged.len() == 1 { "" } else { "s" }
        )
    })
}

/// Two reads of the same place differ.
fn unstable(granules: &[&Granule]) -> Option<String> {
    let count = granules.iter().filter(|g| g.content == Content::Unstable).count();
    (count > 0).then(|| {
        format!(
            "{count} place{} read wrong once and right when read again: reads are not reliable \
             (cable, port, power, or a worn medium)",
            if count == 1 { "" } else { "s" }
        )
    })
}
