//! The chunk map: which bytes were written where, as one XXH3-128 digest per stretch of the image.
//! SHA-256 says *whether* the medium holds the image, the map says *where* it does not, also when
//! the source was a pipe that cannot be read again.
//!
//! ```text
//! image    |  64 KiB |  64 KiB |  64 KiB |  64 KiB | rest |
//! level 0  |  leaf   |  leaf   |  leaf   |  leaf   | leaf |   XXH3-128 of the bytes
//! level 1  |   XXH3(leaf,leaf) |   XXH3(leaf,leaf) | ...  |   16 bytes each, little endian
//! ```
//! A higher level covers more bytes per entry, so that the map of a 16 TiB disk takes no more
//! memory than that of a 16 GiB stick. Two maps can be compared at the higher of their levels.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use twox_hash::xxhash3_128;

use crate::event::Span;

/// Bytes under one leaf.
pub const LEAF: u64 = 64 << 10;

/// The map of a device of any size has at most this many entries of 16 bytes.
const MAX_ENTRIES: u64 = 1 << 18;

/// Digest of one stretch of bytes.
pub type Tag = u128;

/// XXH3-128 of these bytes.
pub fn tag(bytes: &[u8]) -> Tag {
    xxhash3_128::Hasher::oneshot(bytes)
}

/// The level at which a map of `size` bytes stays within its bound.
pub fn level_for(size: u64) -> u32 {
    let leaves = size.div_ceil(LEAF);
    let mut level = 0;
    while leaves.div_ceil(1 << level) > MAX_ENTRIES {
        level += 1;
    }
    level
}

/// Digests of a whole image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkMap {
    level: u32,
    len: u64,
    entries: Vec<Tag>,
}

impl ChunkMap {
    /// Bytes that the map covers.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the map covers nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes under one entry.
    pub fn granule(&self) -> u64 {
        LEAF << self.level
    }

    /// One digest per granule.
    pub fn entries(&self) -> &[Tag] {
        &self.entries
    }

    /// The bytes under entry `index`; the last granule may be short.
    pub fn span(&self, index: usize) -> Span {
        let offset = index as u64 * self.granule();
        Span { offset, len: self.granule().min(self.len.saturating_sub(offset)) }
    }

    /// The same image at a higher level.
    #[must_use]
    pub fn raised_to(mut self, level: u32) -> Self {
        while self.level < level {
            self.entries = pairs(&self.entries);
            self.level += 1;
        }
        self
    }

    /// This map, or the same image at a higher level. A map of a large image takes megabytes, so
    /// it is not copied when the levels are equal.
    pub fn at_level(&self, level: u32) -> Cow<'_, Self> {
        if level <= self.level {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.clone().raised_to(level))
    }

    /// Indices of the entries that differ. Both maps must cover the same length; the lower one
    /// is raised to the level of the other.
    pub fn differing(&self, other: &Self) -> Vec<usize> {
        let level = self.level.max(other.level);
        let (a, b) = (self.at_level(level), other.at_level(level));
        let longest = a.entries.len().max(b.entries.len());
        (0..longest).filter(|&i| a.entries.get(i) != b.entries.get(i)).collect()
    }

    /// Level of the entries: each covers 2^level leaves.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The digest that a granule of `len` equal bytes would have at this map's level.
    pub fn tag_of_constant(&self, byte: u8, len: u64) -> Tag {
        let mut builder = Builder::new(self.level);
        let block = vec![byte; usize::try_from(LEAF).unwrap_or(1)];
        let mut left = len;
        while left > 0 {
            let part = left.min(LEAF);
            builder.push(&block[..usize::try_from(part).unwrap_or(0)]);
            left -= part;
        }
        builder.finish().entries.first().copied().unwrap_or_default()
    }
}

fn pairs(tags: &[Tag]) -> Vec<Tag> {
    tags.chunks(2)
        .map(|pair| {
            let bytes: Vec<u8> = pair.iter().flat_map(|t| t.to_le_bytes()).collect();
            tag(&bytes)
        })
        .collect()
}

/// Builds a map from bytes in ascending order.
#[derive(Debug)]
pub struct Builder {
    level: u32,
    len: u64,
    /// Bytes of a leaf that is not full yet; empty as long as whole leaves are pushed.
    part: Vec<u8>,
    /// Leaves of an entry that is not full yet.
    leaves: Vec<Tag>,
    entries: Vec<Tag>,
}

impl Builder {
    /// An empty map at this level.
    pub fn new(level: u32) -> Self {
        Self { level, len: 0, part: Vec::new(), leaves: Vec::new(), entries: Vec::new() }
    }

    /// Leaves added so far, at level 0.
    pub fn leaves(&self) -> usize {
        (self.entries.len() << self.level) + self.leaves.len()
    }

    /// Adds bytes of any length.
    pub fn push(&mut self, mut bytes: &[u8]) {
        let leaf = usize::try_from(LEAF).unwrap_or(usize::MAX);
        while !bytes.is_empty() {
            let take = (leaf - self.part.len()).min(bytes.len());
            let (now, later) = bytes.split_at(take);
            bytes = later;
            if take == leaf {
                self.push_leaf(tag(now), LEAF);
                continue;
            }
            self.part.extend_from_slice(now);
            if self.part.len() == leaf {
                let full = tag(&self.part);
                self.part.clear();
                self.push_leaf(full, LEAF);
            }
        }
    }

    /// Adds a leaf whose digest was made elsewhere. Only the last leaf may be shorter than
    /// [`LEAF`], and no bytes may be pending.
    pub fn push_leaf(&mut self, leaf: Tag, len: u64) {
        self.len += len;
        self.leaves.push(leaf);
        if self.leaves.len() as u64 == 1 << self.level {
            self.close_entry();
        }
    }

    fn close_entry(&mut self) {
        let mut tags = std::mem::take(&mut self.leaves);
        for _ in 0..self.level {
            tags = pairs(&tags);
        }
        self.entries.extend(tags);
    }

    /// The map of everything that was added.
    pub fn finish(mut self) -> ChunkMap {
        if !self.part.is_empty() {
            let (last, len) = (tag(&self.part), self.part.len() as u64);
            self.push_leaf(last, len);
        }
        if !self.leaves.is_empty() {
            self.close_entry();
        }
        ChunkMap { level: self.level, len: self.len, entries: self.entries }
    }
}

/// A map as it stands in a record: at most [`StoredMap::MAX`] entries, in hex.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredMap {
    /// Bytes under one leaf; 65536.
    pub leaf_bytes: u64,
    /// An entry covers `leaf_bytes` times 2^level bytes.
    pub level: u32,
    /// Bytes covered.
    pub len: u64,
    /// XXH3-128 of each granule, 32 hex digits each.
    pub entries: Vec<String>,
}

impl StoredMap {
    /// A record stays below 200 KiB.
    pub const MAX: usize = 4096;

    /// Raises a map until it is small enough to be stored.
    pub fn from_map(map: &ChunkMap) -> Self {
        let mut map = map.clone();
        while map.entries.len() > Self::MAX {
            let level = map.level + 1;
            map = map.raised_to(level);
        }
        Self {
            leaf_bytes: LEAF,
            level: map.level,
            len: map.len,
            entries: map.entries.iter().map(|t| format!("{t:032x}")).collect(),
        }
    }

    /// The map; `Err` says what in the record is wrong.
    pub fn to_map(&self) -> Result<ChunkMap, String> {
        if self.leaf_bytes != LEAF || self.level > 40 {
            return Err(format!(
                "chunk map with leaves of {} bytes at level {}",
                self.leaf_bytes, self.level
            ));
        }
        let entries = self
            .entries
            .iter()
            .map(|t| {
                Tag::from_str_radix(t, 16).map_err(|_| "chunk map with a bad digest".to_owned())
            })
            .collect::<Result<Vec<_>, _>>()?;
        if entries.len() as u64 != self.len.div_ceil(LEAF << self.level) {
            return Err(format!("chunk map with {} entries for {} bytes", entries.len(), self.len));
        }
        Ok(ChunkMap { level: self.level, len: self.len, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from(i * 31 % 251).unwrap()).collect()
    }

    fn map(bytes: &[u8], step: usize, level: u32) -> ChunkMap {
        let mut builder = Builder::new(level);
        bytes.chunks(step).for_each(|c| builder.push(c));
        builder.finish()
    }

    #[test]
    fn the_map_does_not_depend_on_how_the_bytes_arrive() {
        let bytes = image(5 * 65536 + 100);
        let whole = map(&bytes, bytes.len(), 0);
        assert_eq!(whole.entries().len(), 6);
        assert_eq!(whole.span(5), Span { offset: 5 * 65536, len: 100 });
        for step in [1000, 4096, 65536, 65537, 200_000] {
            assert_eq!(map(&bytes, step, 0), whole, "step {step}");
            for level in 1..4 {
                assert_eq!(map(&bytes, step, level), whole.clone().raised_to(level));
            }
        }
    }

    #[test]
    fn maps_of_different_levels_say_which_granules_differ() {
        let bytes = image(9 * 65536 + 1);
        let mut changed = bytes.clone();
        changed[4 * 65536 + 7] ^= 1;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(map(&bytes, 4096, 0).differing(&map(&changed, 4096, 0)), [4, 9]);
        assert_eq!(map(&bytes, 4096, 0).differing(&map(&changed, 4096, 2)), [1, 2]);
    }

    #[test]
    fn stored_maps_round_trip_and_damaged_ones_are_refused() {
        let full = map(&image(3 * 65536), 65536, 0);
        let stored = StoredMap::from_map(&full);
        assert_eq!(stored.to_map().unwrap(), full);
        for damage in [
            StoredMap { len: 1, ..stored.clone() },
            StoredMap { entries: vec!["xyz".into(); 3], ..stored.clone() },
            StoredMap { level: 99, ..stored.clone() },
        ] {
            assert!(damage.to_map().is_err());
        }
    }

    #[test]
    fn constant_granules_are_recognised() {
        let zeros = map(&vec![0; 65536 * 2 + 10], 4096, 1);
        assert_eq!(zeros.tag_of_constant(0, 131_072), zeros.entries()[0]);
        assert_eq!(zeros.tag_of_constant(0, 10), zeros.entries()[1]);
        assert_ne!(zeros.tag_of_constant(255, 10), zeros.entries()[1]);
    }

    #[test]
    fn the_map_of_any_device_stays_small() {
        assert_eq!(level_for(16 << 30), 0);
        assert_eq!(level_for((16 << 30) + 1), 1);
        assert_eq!(level_for(16 << 40), 10);
    }
}
