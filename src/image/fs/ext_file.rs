//! Finds a file of an ext filesystem: root inode, directories, extents or block pointers.
//!
//! Owns: the way from a path to blocks. Layout: Linux Documentation/filesystems/ext4
//! (`inodes.rst`, `ifork.rst`, `directory.rst`). Directories are read block by block: the blocks of
//! a hash tree's index look like empty entries to who reads so, on purpose. Data blocks have no
//! checksums in ext4, so the bytes found here can be other ones without touching metadata.

use std::io;
use std::ops::Range;

use super::super::bytes::{le16, le32};
use super::super::read::View;
use super::ext::Superblock;
use super::file::{FileAt, Placed, cut};

const ROOT: u64 = 2;
const EXTENT_MAGIC: u16 = 0xF30A;
/// Blocks of the extent tree that are read for one file.
const NODES: usize = 1000;
/// Longest directory that is searched, in bytes.
const DIRECTORY: u64 = 16 << 20;

const NEEDS_RECOVERY: u32 = 0x4;
const META_BG: u32 = 0x10;
const FOLDER: u16 = 0x4000;
const REGULAR: u16 = 0x8000;

/// What an inode says.
struct Inode {
    kind: u16,
    len: u64,
    flags: u32,
    fork: Vec<u8>,
}

struct Reader<'a> {
    view: &'a View<'a>,
    start: u64,
    sb: Superblock<'a>,
}

pub(super) fn find(view: &View<'_>, start: u64, path: &[&str]) -> io::Result<FileAt> {
    let raw = view.some(start.saturating_add(1024), 1024)?;
    let Some(sb) = Superblock::parse(&raw) else { return Ok(FileAt::Missing) };
    if sb.incompat & NEEDS_RECOVERY != 0 {
        return Ok(FileAt::Elsewhere(
            "the filesystem was not unmounted, and its journal may hold another state of it",
        ));
    }
    if sb.incompat & META_BG != 0 {
        return Ok(FileAt::Elsewhere("the filesystem's group descriptors are spread (meta_bg)"));
    }
    let reader = Reader { view, start, sb };
    let mut number = ROOT;
    for name in path {
        let Some(folder) = reader.inode(number)? else {
            return Ok(FileAt::Elsewhere("an inode on the way to it cannot be read"));
        };
        if folder.kind != FOLDER {
            return Ok(FileAt::Missing);
        }
        let placed = match reader.placed(&folder)? {
            FileAt::At(placed) if placed.len <= DIRECTORY => placed,
            FileAt::At(_) => return Ok(FileAt::Elsewhere("a folder on the way to it is too long")),
            other => return Ok(other),
        };
        match reader.search(&placed, name.as_bytes())? {
            Some(found) => number = found,
            None => return Ok(FileAt::Missing),
        }
    }
    match reader.inode(number)? {
        Some(inode) if inode.kind == REGULAR => reader.placed(&inode),
        Some(_) => Ok(FileAt::Elsewhere("it is a link or something else that is no plain file")),
        None => Ok(FileAt::Elsewhere("its inode cannot be read")),
    }
}

impl Reader<'_> {
    fn block(&self, block: u64) -> io::Result<Vec<u8>> {
        let at = block.checked_mul(self.sb.block).and_then(|at| at.checked_add(self.start));
        let len = usize::try_from(self.sb.block).unwrap_or(0);
        at.map_or_else(|| Ok(Vec::new()), |at| self.view.some(at, len))
    }

    fn inode(&self, number: u64) -> io::Result<Option<Inode>> {
        let sb = &self.sb;
        let per_group = sb.inodes_per_group();
        let Some(index) = number.checked_sub(1).filter(|_| per_group > 0) else { return Ok(None) };
        let (group, index) = (index / per_group, index % per_group);
        if group >= sb.groups() {
            return Ok(None);
        }
        let size = sb.descriptor_size();
        let at = self.start.saturating_add((sb.first + 1) * sb.block + group * size);
        let descriptor = self.view.some(at, usize::try_from(size).unwrap_or(32))?;
        let high = if size >= 64 { le32(&descriptor, 0x28).unwrap_or(0) } else { 0 };
        let low = le32(&descriptor, 8).unwrap_or(0);
        let table = (u64::from(high) << 32 | u64::from(low)).saturating_mul(sb.block);
        let at = table.saturating_add(index * sb.inode_size()).saturating_add(self.start);
        let raw = self.view.some(at, 128)?;
        Ok(parse(&raw))
    }

    /// Where the bytes of an inode are.
    fn placed(&self, inode: &Inode) -> io::Result<FileAt> {
        let odd = [
            (0x800, "it is encrypted"),
            (0x1000_0000, "its bytes are in its inode"),
            (0x10_0000, "it is sealed (fs-verity)"),
            (0x4, "it is compressed"),
        ];
        if let Some((_, why)) = odd.iter().find(|(flag, _)| inode.flags & flag != 0) {
            return Ok(FileAt::Elsewhere(why));
        }
        let wanted = inode.len.div_ceil(self.sb.block);
        let found = if inode.flags & 0x8_0000 != 0 {
            let mut budget = NODES;
            let mut found = Vec::new();
            if !self.tree(&inode.fork, &mut budget, &mut found)? {
                return Ok(FileAt::Elsewhere("its extents cannot be read"));
            }
            found
        } else {
            self.pointers(&inode.fork, wanted)?
        };
        // Every block of the file, in order and without holes.
        let mut next = 0;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for Extent { logical, physical, count } in found {
            if next >= wanted {
                break;
            }
            if logical != next || physical == 0 || physical.saturating_add(count) > self.sb.blocks {
                return Ok(FileAt::Elsewhere("it has holes, or blocks outside of the filesystem"));
            }
            next += count;
            let at = self.start.saturating_add(physical.saturating_mul(self.sb.block));
            ranges.push(at..at.saturating_add(count.saturating_mul(self.sb.block)));
        }
        Ok(cut(inode.len, ranges.into_iter()))
    }

    /// Adds the leaves below a node; `false` when one makes no sense.
    fn tree(&self, node: &[u8], budget: &mut usize, found: &mut Vec<Extent>) -> io::Result<bool> {
        let (Some(EXTENT_MAGIC), Some(count), Some(depth)) =
            (le16(node, 0), le16(node, 2), le16(node, 6))
        else {
            return Ok(false);
        };
        let entries = node.get(12..).unwrap_or_default().as_chunks::<12>().0;
        for raw in entries.iter().take(usize::from(count)) {
            if depth == 0 {
                let len = u64::from(le16(raw, 4).unwrap_or(0));
                // Longer ones are allocated and read as zeros: no bytes of the file.
                let physical = wide(le16(raw, 6), le32(raw, 8));
                let physical = if len > 0x8000 { 0 } else { physical };
                let logical = u64::from(le32(raw, 0).unwrap_or(0));
                found.push(Extent { logical, physical, count: len });
                continue;
            }
            let Some(left) = budget.checked_sub(1) else { return Ok(false) };
            *budget = left;
            let below = self.block(wide(le16(raw, 8), le32(raw, 4)))?;
            // Each level is one less, or a loop of hostile blocks would go on for long.
            if le16(&below, 6) != depth.checked_sub(1) || !self.tree(&below, budget, found)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Twelve direct blocks and those of the first indirect one: 4 MiB with blocks of 4 KiB.
    fn pointers(&self, fork: &[u8], wanted: u64) -> io::Result<Vec<Extent>> {
        let pointer = |raw: &[u8; 4]| u64::from(u32::from_le_bytes(*raw));
        let (direct, rest) = fork.as_chunks::<4>().0.split_at(fork.len().min(48) / 4);
        let mut numbers: Vec<u64> = direct.iter().map(pointer).collect();
        if let (true, Some(indirect)) = (wanted > 12, rest.first().map(pointer)) {
            numbers.extend(self.block(indirect)?.as_chunks::<4>().0.iter().map(pointer));
        }
        let extent = |(logical, physical)| Extent { logical, physical, count: 1 };
        Ok((0..wanted).zip(numbers).map(extent).collect())
    }

    /// The inode of a name in a folder.
    fn search(&self, folder: &Placed, name: &[u8]) -> io::Result<Option<u64>> {
        let step = usize::try_from(self.sb.block).unwrap_or(4096);
        for run in &folder.runs {
            let len = usize::try_from(run.end - run.start).unwrap_or(0);
            let bytes = self.view.some(run.start, len)?;
            let found = bytes.chunks(step).find_map(|block| in_block(block, name));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Blocks of a file that lie together; physical 0: no blocks.
struct Extent {
    logical: u64,
    physical: u64,
    count: u64,
}

fn wide(high: Option<u16>, low: Option<u32>) -> u64 {
    u64::from(high.unwrap_or(0)) << 32 | u64::from(low.unwrap_or(0))
}

fn parse(raw: &[u8]) -> Option<Inode> {
    let mode = le16(raw, 0).filter(|mode| *mode != 0)?;
    let high = if mode & 0xF000 == REGULAR { le32(raw, 108)? } else { 0 };
    Some(Inode {
        kind: mode & 0xF000,
        len: u64::from(high) << 32 | u64::from(le32(raw, 4)?),
        flags: le32(raw, 0x20)?,
        fork: raw.get(40..100)?.to_vec(),
    })
}

fn in_block(block: &[u8], name: &[u8]) -> Option<u64> {
    let mut at = 0;
    while let (Some(inode), Some(step), Some(len)) =
        (le32(block, at), le16(block, at + 4), block.get(at + 6))
    {
        let here = block.get(at + 8..at + 8 + usize::from(*len));
        if inode != 0 && here == Some(name) {
            return Some(u64::from(inode));
        }
        if step < 8 {
            break;
        }
        at += usize::from(step);
    }
    None
}
