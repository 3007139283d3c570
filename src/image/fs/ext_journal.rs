//! Where the journal of an ext filesystem lies.
//!
//! Owns: following the copy of the journal's inode that `mke2fs` leaves in the superblock
//! (`s_jnl_blocks`: 15 block numbers, then the size), in both of its forms. Layout: Linux
//! Documentation/filesystems/ext4 (`ifork.rst`): an extent tree, or direct, indirect and double
//! indirect blocks. Deeper trees than one level are not followed; no journal needs them.

use std::io;

use super::super::bytes::{le16, le32, u8_at};
use super::super::read::View;

const BLOCKS: usize = 0x10C;
const EXTENT_MAGIC: u16 = 0xF30A;
/// Largest journal that the kernel accepts has 1 GiB; this is in blocks of 4 KiB.
const BLOCK_LIMIT: u64 = 1 << 18;
/// Index or indirect blocks read.
const READ_LIMIT: usize = 300;

/// What a walk needs: the device, where the filesystem starts, its block size.
pub(super) struct Walk<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) start: u64,
    pub(super) block: u64,
}

/// Extents in blocks: (first, count), neighbours merged.
pub(super) fn extents(walk: &Walk<'_>, superblock: &[u8]) -> io::Result<Vec<(u64, u64)>> {
    let fork = superblock.get(BLOCKS..BLOCKS + 60).unwrap_or_default();
    if u8_at(superblock, 0xFD) != Some(1) {
        return Ok(Vec::new());
    }
    if le16(fork, 0) == Some(EXTENT_MAGIC) {
        return walk.tree(fork);
    }
    let size = le32(superblock, BLOCKS + 64).map_or(0, u64::from);
    walk.map(fork, size.div_ceil(walk.block).min(BLOCK_LIMIT))
}

impl Walk<'_> {
    fn read(&self, block: u64) -> io::Result<Vec<u8>> {
        let at = block.checked_mul(self.block).and_then(|at| at.checked_add(self.start));
        let len = usize::try_from(self.block).unwrap_or(0);
        at.map_or_else(|| Ok(Vec::new()), |at| self.view.some(at, len))
    }

    /// A root in the inode and at most one level of leaves.
    fn tree(&self, root: &[u8]) -> io::Result<Vec<(u64, u64)>> {
        if le16(root, 6) == Some(0) {
            return Ok(leaf(root));
        }
        let mut out = Vec::new();
        for node in nodes(root) {
            let low = u64::from(le32(node, 4).unwrap_or(0));
            let high = u64::from(le16(node, 8).unwrap_or(0));
            let raw = self.read(high << 32 | low)?;
            if le16(&raw, 0) == Some(EXTENT_MAGIC) && le16(&raw, 6) == Some(0) {
                out.extend(leaf(&raw));
            }
        }
        Ok(out)
    }

    /// Twelve direct blocks, one indirect, one double indirect; the pointers are part of it.
    fn map(&self, fork: &[u8], count: u64) -> io::Result<Vec<(u64, u64)>> {
        let pointer = |index: usize| le32(fork, 4 * index).map_or(0, u64::from);
        let mut numbers: Vec<u64> = (0..12).map(pointer).collect();
        let mut indirect = vec![pointer(12)];
        if pointer(13) != 0 {
            numbers.push(pointer(13));
            indirect.extend(pointers(&self.read(pointer(13))?));
        }
        let wanted = usize::try_from(count).unwrap_or(0);
        for block in indirect.into_iter().filter(|&block| block != 0).take(READ_LIMIT) {
            // Pointers of every level are counted generously: an estimate of the end is enough.
            if numbers.len() > wanted.saturating_add(READ_LIMIT) {
                break;
            }
            numbers.push(block);
            numbers.extend(pointers(&self.read(block)?));
        }
        numbers.retain(|&number| number != 0);
        numbers.sort_unstable();
        let mut out: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match out.last_mut() {
                Some(last) if last.0 + last.1 == number => last.1 += 1,
                Some(last) if last.0 + last.1 > number => {}
                _ => out.push((number, 1)),
            }
        }
        Ok(out)
    }
}

fn pointers(block: &[u8]) -> impl Iterator<Item = u64> {
    block.as_chunks::<4>().0.iter().map(|raw| u64::from(u32::from_le_bytes(*raw)))
}

/// Entries of a node of the extent tree, 12 bytes each behind a header of 12.
fn nodes(node: &[u8]) -> impl Iterator<Item = &[u8; 12]> {
    let count = usize::from(le16(node, 2).unwrap_or(0));
    node.get(12..).unwrap_or_default().as_chunks::<12>().0.iter().take(count)
}

fn leaf(node: &[u8]) -> Vec<(u64, u64)> {
    let extent = |raw: &[u8; 12]| {
        let high = u64::from(le16(raw, 6)?);
        let len = le16(raw, 4)?;
        // Above 32,768 an extent is allocated but not written.
        let len = if len > 0x8000 { len - 0x8000 } else { len };
        Some((high << 32 | u64::from(le32(raw, 8)?), u64::from(len)))
    };
    nodes(node).filter_map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample::put;
    use super::*;

    fn run(image: &[u8], superblock: &[u8]) -> Vec<(u64, u64)> {
        let bytes = Bytes(image);
        let view = View::new(&bytes);
        extents(&Walk { view: &view, start: 0, block: 1024 }, superblock).unwrap()
    }

    fn superblock(fork: &[u8], size: u32) -> Vec<u8> {
        let mut raw = vec![0; 1024];
        raw[0xFD] = 1;
        put(&mut raw, BLOCKS, fork);
        put(&mut raw, BLOCKS + 64, &size.to_le_bytes());
        raw
    }

    #[test]
    fn trees_of_both_depths() {
        let leaf = [
            &[0x0A, 0xF3, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0][..],
            &[0, 0, 0, 0, 8, 0, 0, 0, 50, 0, 0, 0],
        ]
        .concat();
        assert_eq!(run(&[], &superblock(&leaf, 8192)), [(50, 8)]);
        let mut image = vec![0; 8192];
        put(&mut image, 7 * 1024, &leaf);
        let root = [
            &[0x0A, 0xF3, 1, 0, 4, 0, 1, 0, 0, 0, 0, 0][..],
            &[0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(run(&image, &superblock(&root, 8192)), [(50, 8)]);
        assert_eq!(run(&[], &superblock(&root, 8192)), []);
    }

    #[test]
    fn maps_include_their_pointers() {
        let mut image = vec![0; 64 * 1024];
        let fork: Vec<u8> = (20_u32..32).chain([32, 40]).flat_map(u32::to_le_bytes).collect();
        put(&mut image, 32 * 1024, &33_u32.to_le_bytes());
        put(&mut image, 40 * 1024, &41_u32.to_le_bytes());
        put(&mut image, 41 * 1024, &42_u32.to_le_bytes());
        assert_eq!(run(&image, &superblock(&fork, 15 * 1024)), [(20, 14), (40, 3)]);
    }
}
