//! What a copy is: how long, which bytes are other than on the source, which stretches are there.

use std::ops::Range;

use super::bmap::BLOCK;
use super::names;
use super::patch::Patch;
use super::table::{self, Wish};
use crate::error::{Context as _, Error, Result};
use crate::image::{Filesystem, ImageInfo, ReadAt, used};
use crate::units::Bytes;

/// A copy as it is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of the copy.
    pub size: u64,
    /// Bytes of the source.
    pub source: u64,
    /// Over the source's bytes, in this order.
    pub patches: Vec<Patch>,
    /// Stretches that are copied, in ascending order; what lies between them is left out, and reads
    /// as zeros. `None`: everything.
    pub mapped: Option<Vec<Range<u64>>>,
    /// What is other, in words.
    pub words: Vec<String>,
}

/// Plans the copy of a medium that was looked at.
pub fn plan(medium: &dyn ReadAt, info: &ImageInfo, wish: &Wish<'_>) -> Result<Plan> {
    let source = wish.source;
    let mut plan = Plan { size: source, source, patches: vec![], mapped: None, words: vec![] };
    if let Some(table) = &info.table {
        let change = table::change(medium, table, wish)?;
        (plan.patches, plan.words) = (change.patches, change.words);
        if wish.ids.is_some() {
            let names = names::rename(medium, table, &change.renamed)?;
            plan.patches.extend(names.patches);
            plan.words.extend(names.words);
        }
    } else if wish.ids.is_some() {
        return Err(Error::refused("the source has no partition table: no new identifiers")
            .hint("leave --new-ids out"));
    }
    let free = if wish.used { free(medium, info, source, &mut plan.words)? } else { Vec::new() };
    let mut kept = without(source, free);
    // A table that was moved lies behind the end of the source.
    if let (Some(target), true) = (wish.target, reaches_behind(&plan.patches, source)) {
        plan.size = target;
    }
    let outward = |range: Range<u64>| {
        range.start / BLOCK * BLOCK..range.end.next_multiple_of(BLOCK).min(plan.size)
    };
    kept.extend(plan.patches.iter().map(|patch| outward(patch.range())));
    let kept = joined(kept);
    let whole = matches!(kept.as_slice(), [all] if *all == (0..plan.size));
    plan.mapped = (!whole).then_some(kept);
    Ok(plan)
}

fn reaches_behind(patches: &[Patch], source: u64) -> bool {
    patches.iter().any(|patch| patch.range().end > source)
}

/// What filesystems declare free, in whole blocks, ascending.
fn free(
    medium: &dyn ReadAt,
    info: &ImageInfo,
    source: u64,
    words: &mut Vec<String>,
) -> Result<Vec<Range<u64>>> {
    let mut free = Vec::new();
    let mut volumes: Vec<(Range<u64>, Option<&Filesystem>, String)> = Vec::new();
    match &info.table {
        Some(table) => {
            let parts = table.partitions.iter().filter(|part| !part.is_extended());
            volumes.extend(
                parts.map(|p| (p.range(), p.fs.as_ref(), format!("partition {}", p.number))),
            );
        }
        None => volumes.push((0..source, info.filesystem.as_ref(), "the disk".to_owned())),
    }
    for (index, (room, fs, name)) in volumes.iter().enumerate() {
        // What is free in one partition may be in use in another that lies over it.
        let alone = volumes.iter().enumerate().all(|(other, (range, ..))| {
            other == index || range.end <= room.start || room.end <= range.start
        });
        let found = match fs {
            Some(fs) if alone => used(medium, room.start, fs)
                .context(|| format!("cannot read which blocks of {name} are in use"))?
                .zip(fs.size_bytes),
            _ => None,
        };
        let Some((used, size)) = found else {
            words.push(format!("{name} is copied whole: it is not known which blocks are in use"));
            continue;
        };
        let end = room.start.saturating_add(size).min(room.end).min(source);
        let gaps = gaps(room.start..end, &used);
        let bytes: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        words.push(format!("{} that are free in {name} are left out", Bytes(bytes)));
        free.extend(gaps);
    }
    free.sort_unstable_by_key(|range| range.start);
    Ok(free)
}

/// What of `room` is not in use, rounded inwards to whole blocks. `used` is in ascending order.
fn gaps(room: Range<u64>, used: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut out, mut at) = (Vec::new(), room.start);
    let end = std::iter::once(room.end..room.end);
    for range in used.iter().cloned().chain(end) {
        let gap = at.next_multiple_of(BLOCK)..range.start.min(room.end) / BLOCK * BLOCK;
        if gap.start < gap.end {
            out.push(gap);
        }
        at = at.max(range.end);
    }
    out
}

/// `0..end` without these ranges, which ascend.
fn without(end: u64, free: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let (mut out, mut at) = (Vec::new(), 0);
    for range in free {
        if at < range.start {
            out.push(at..range.start);
        }
        at = at.max(range.end);
    }
    if at < end {
        out.push(at..end);
    }
    out
}

/// In ascending order, what touches or overlaps as one.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut out: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_whole_blocks_that_nobody_uses() {
        let used = [0..100, 4096..8192, 20_000..20_001, 40_000..60_000];
        assert_eq!(gaps(0..65536, &used), [8192..16384, 20480..36864, 61440..65536]);
        assert_eq!(gaps(0..50_000, &used), [8192..16384, 20480..36864]);
        assert_eq!(gaps(8192..12288, &[]), [8192..12288]);
        assert_eq!(gaps(100..4000, &[]), [0..0; 0]);
        assert_eq!(without(100, vec![0..10, 20..30]), [10..20, 30..100]);
        assert_eq!(without(30, vec![20..30]), [0..20]);
        assert_eq!(joined(vec![5..9, 0..3, 3..4, 8..12, 7..7]), [0..4, 5..12]);
    }
}
