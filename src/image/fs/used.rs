//! Which blocks of FAT and ext filesystems are in use, by their own allocation tables.
//!
//! Owns: reading allocation tables and bitmaps, and doubting them: where anything does not fit the
//! answer is that it is not known, and then everything counts as used. Layout: Linux
//! Documentation/filesystems/ext4 (`bitmaps.rst`, `group_descr.rst`), Microsoft FAT specification 1.03.

use std::io;
use std::ops::Range;

use super::super::bytes::{le16, le32};
use super::super::read::{ReadAt, View};
use super::ext::Superblock;
use super::{FatGeometry, FatWidth, Filesystem};

/// Longest allocation table or list of group descriptors that is read.
const LONGEST: u64 = 256 << 20;

const NEEDS_RECOVERY: u32 = 0x4;
const META_BG: u32 = 0x10;
const BIGALLOC: u32 = 0x200;
const BLOCK_UNINIT: u16 = 0x2;

/// Stretches of the filesystem at `start` that hold something, in bytes of the medium, ascending.
/// They lie within its size. `None`: not known.
///
/// # Errors
/// When the medium cannot be read.
pub fn used(
    medium: &dyn ReadAt,
    start: u64,
    fs: &Filesystem,
) -> io::Result<Option<Vec<Range<u64>>>> {
    let view = View::new(medium);
    let found = match (&fs.fat, fs.kind.is_ext()) {
        (Some(geometry), _) => fat(&view, start, geometry)?,
        (None, true) => ext(&view, start)?,
        (None, false) => None,
    };
    let shift =
        |range: Range<u64>| range.start.saturating_add(start)..range.end.saturating_add(start);
    Ok(found.map(|ranges| ranges.into_iter().map(shift).collect()))
}

/// Ranges in ascending order, neighbours joined.
#[derive(Default)]
struct Ranges(Vec<Range<u64>>);

impl Ranges {
    fn push(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => self.0.push(range),
        }
    }
}

fn fat(view: &View<'_>, start: u64, geometry: &FatGeometry) -> io::Result<Option<Vec<Range<u64>>>> {
    let entries = u64::from(geometry.clusters) + 2;
    let len = match geometry.width {
        FatWidth::Fat12 => (entries * 3).div_ceil(2),
        FatWidth::Fat16 => entries * 2,
        FatWidth::Fat32 => entries * 4,
    };
    if len > geometry.fat_size.min(LONGEST) {
        return Ok(None);
    }
    let at = start.saturating_add(geometry.fat_start);
    let Some(table) = view.exact(at, usize::try_from(len).unwrap_or(0))? else {
        return Ok(None);
    };
    let entry = |cluster: u32| {
        let n = usize::try_from(cluster).unwrap_or(usize::MAX);
        match geometry.width {
            FatWidth::Fat12 => {
                let raw = table.get(n + n / 2..n + n / 2 + 2).and_then(|raw| le16(raw, 0))?;
                Some(u32::from(if n % 2 == 1 { raw >> 4 } else { raw & 0xFFF }))
            }
            FatWidth::Fat16 => le16(&table, n * 2).map(u32::from),
            FatWidth::Fat32 => le32(&table, n * 4).map(|raw| raw & 0x0FFF_FFFF),
        }
    };
    let mut out = Ranges::default();
    out.push(0..geometry.data_start);
    let mut end = geometry.data_start;
    for cluster in (2..).take(usize::try_from(geometry.clusters).unwrap_or(0)) {
        let Some(range) = geometry.cluster_range(cluster) else { return Ok(None) };
        end = range.end;
        if entry(cluster) != Some(0) {
            out.push(range);
        }
    }
    // Sectors behind the last cluster belong to nobody that is known here.
    if end < geometry.size {
        out.push(end..geometry.size);
    }
    Ok(Some(out.0))
}

fn ext(view: &View<'_>, start: u64) -> io::Result<Option<Vec<Range<u64>>>> {
    let raw = view.some(start.saturating_add(1024), 1024)?;
    let Some(sb) = Superblock::parse(&raw) else { return Ok(None) };
    let odd = sb.incompat & (NEEDS_RECOVERY | META_BG) != 0 || sb.ro_compat & BIGALLOC != 0;
    // Unmounted cleanly, and no errors found (`s_state`).
    if odd || le16(&raw, 0x3A) != Some(1) {
        return Ok(None);
    }
    let (groups, size) = (sb.groups(), sb.descriptor_size());
    let (table, bits) = (groups.saturating_mul(size), sb.blocks - sb.first);
    if table > LONGEST || bits > LONGEST * 8 {
        return Ok(None);
    }
    let at = start.saturating_add((sb.first + 1).saturating_mul(sb.block));
    let Some(descriptors) = view.exact(at, usize::try_from(table).unwrap_or(0))? else {
        return Ok(None);
    };
    // A bit for each block, from the first block of the first group on.
    let mut map = vec![0_u8; usize::try_from(bits.div_ceil(8)).unwrap_or(0)];
    let block_len = usize::try_from(sb.block).unwrap_or(0);
    let step = usize::try_from(size).unwrap_or(32);
    let number = |descriptor: &[u8], low: usize, high: usize| {
        let high = if step >= 64 { le32(descriptor, high).unwrap_or(0) } else { 0 };
        u64::from(high) << 32 | u64::from(le32(descriptor, low).unwrap_or(0))
    };
    let inode_blocks = (sb.inodes_per_group() * sb.inode_size()).div_ceil(sb.block);
    let copies = 1 + table.div_ceil(sb.block) + u64::from(le16(&raw, 0xCE).unwrap_or(0));
    for (group, descriptor) in (0..groups).zip(descriptors.chunks_exact(step)) {
        let first = group * sb.per_group;
        let count = sb.per_group.min(bits - first);
        if le16(descriptor, 0x12).unwrap_or(0) & BLOCK_UNINIT == 0 {
            let place = number(descriptor, 0, 0x20).checked_mul(sb.block);
            let place = place.and_then(|at| at.checked_add(start));
            let Some(bitmap) = (match place {
                Some(at) => view.exact(at, block_len)?,
                None => None,
            }) else {
                return Ok(None);
            };
            for bit in (0..count).filter(|bit| is_set(&bitmap, *bit)) {
                set(&mut map, first + bit);
            }
        }
        // What the kernel works out for groups without a bitmap: their own metadata. It is in the
        // bitmaps of the others, so nothing is lost by marking it everywhere.
        if group == 0 || sb.has_copy(group) {
            (first..first + copies.min(count)).for_each(|block| set(&mut map, block));
        }
        for (low, high, count) in [(0, 0x20, 1), (4, 0x24, 1), (8, 0x28, inode_blocks)] {
            let Some(place) = number(descriptor, low, high).checked_sub(sb.first) else {
                return Ok(None);
            };
            (place..place.saturating_add(count).min(bits)).for_each(|block| set(&mut map, block));
        }
    }
    // The filesystem's own count has to agree, or blocks that are in use would be missed.
    let free_high = if sb.incompat & 0x80 != 0 { le32(&raw, 0x158).unwrap_or(0) } else { 0 };
    let free = u64::from(free_high) << 32 | u64::from(le32(&raw, 0x0C).unwrap_or(0));
    let marked: u64 = map.iter().map(|byte| u64::from(byte.count_ones())).sum();
    if marked.checked_add(free).is_none_or(|all| all < bits) {
        return Ok(None);
    }
    let mut out = Ranges::default();
    out.push(0..sb.first.max(1) * sb.block);
    for block in (0..bits).filter(|block| is_set(&map, *block)) {
        let at = (block + sb.first) * sb.block;
        out.push(at..at + sb.block);
    }
    Ok(Some(out.0))
}

fn is_set(map: &[u8], bit: u64) -> bool {
    let byte = usize::try_from(bit / 8).ok().and_then(|at| map.get(at));
    byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

fn set(map: &mut [u8], bit: u64) {
    if let Some(byte) = usize::try_from(bit / 8).ok().and_then(|at| map.get_mut(at)) {
        *byte |= 1 << (bit % 8);
    }
}
