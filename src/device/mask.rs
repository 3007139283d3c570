//! A device of which only some stretches belong to the image, as a block map says: what lies
//! between them is neither written nor read, and reads as zeros here.
//!
//! ```text
//! image    |####|        |########|      |##|      # = mapped
//! write      ->   skipped    ->     skipped ->
//! read       <-   zeros      <-     zeros   <-
//! ```

use std::io;
use std::ops::Range;

use super::{BlockDevice, Discard};

/// The mapped stretches of an image, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    ranges: Vec<Range<u64>>,
}

impl Mask {
    /// Of ranges in ascending order that do not overlap; neighbours are joined.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Result<Self, String> {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                _ if range.start >= range.end => {
                    return Err(format!("bytes {} to {} are no range", range.start, range.end));
                }
                Some(last) if range.start < last.end => {
                    return Err(format!(
                        "the range from {} on overlaps the one before",
                        range.start
                    ));
                }
                Some(last) if range.start == last.end => last.end = range.end,
                _ => joined.push(range),
            }
        }
        Ok(Self { ranges: joined })
    }

    /// Whether byte `at` is mapped, and up to which byte that is so.
    pub fn at(&self, at: u64) -> (bool, u64) {
        let next = self.ranges.partition_point(|range| range.end <= at);
        match self.ranges.get(next) {
            Some(range) if range.start <= at => (true, range.end),
            Some(range) => (false, range.start),
            None => (false, u64::MAX),
        }
    }

    /// Mapped bytes among `len` from `offset` on.
    pub fn bytes_in(&self, offset: u64, len: u64) -> u64 {
        let (mut at, end) = (offset, offset.saturating_add(len));
        let mut bytes = 0;
        while at < end {
            let (mapped, until) = self.at(at);
            let until = until.min(end);
            bytes += if mapped { until - at } else { 0 };
            at = until;
        }
        bytes
    }

    /// The mapped stretches.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The same with every range rounded outward to whole blocks: what is transferred.
    #[must_use]
    pub fn in_blocks(&self, block: u64) -> Self {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in &self.ranges {
            let range = range.start / block * block..range.end.next_multiple_of(block);
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
    }
}

/// A device behind a mask.
#[derive(Debug)]
pub struct Masked<'a> {
    inner: &'a dyn BlockDevice,
    mask: Mask,
}

impl<'a> Masked<'a> {
    /// Only what the mask has, in whole blocks of the device, is transferred.
    pub fn new(inner: &'a dyn BlockDevice, mask: &Mask) -> Self {
        let mask = mask.in_blocks(u64::from(inner.geometry().logical_block));
        Self { inner, mask }
    }

    /// The first stretch of a transfer: whether it is mapped, and its length.
    fn first(&self, offset: u64, len: usize) -> (bool, usize) {
        let (mapped, end) = self.mask.at(offset);
        (mapped, usize::try_from(end - offset).unwrap_or(len).min(len))
    }
}

impl BlockDevice for Masked<'_> {
    pass_on!(inner);
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let (mapped, len) = self.first(offset, buf.len());
        if mapped {
            return self.inner.read_at(offset, &mut buf[..len]);
        }
        buf[..len].fill(0);
        Ok(len)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        let (mapped, len) = self.first(offset, buf.len());
        if mapped { self.inner.write_at(offset, &buf[..len]) } else { Ok(len) }
    }
    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        let (mut at, end) = (offset, offset.saturating_add(len));
        while at < end {
            let (mapped, until) = self.mask.at(at);
            let until = until.min(end);
            if mapped {
                self.inner.discard(at, until - at, how)?;
            }
            at = until;
        }
        Ok(())
    }
    fn sends(&self, offset: u64, buf: &[u8]) -> u64 {
        self.mask.bytes_in(offset, buf.len() as u64)
    }
    fn fetches(&self, offset: u64, len: u64) -> u64 {
        self.mask.bytes_in(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::full;
    use crate::device::sim::memory::Memory;
    use crate::sys::buffer::AlignedBuf;

    #[test]
    fn only_what_is_mapped_is_written_and_read() {
        let memory = Memory::new(64 << 10, 512, 0xee, true);
        let mask = Mask::new([1024..2048, 2048..4096, 8192..8200]).unwrap();
        assert_eq!(mask.ranges(), [1024..4096, 8192..8200]);
        let device = Masked::new(&memory, &mask);
        let mut data = AlignedBuf::zeroed(16 << 10);
        data.fill(7);
        full::write_full(&device, 0, &data).unwrap();
        assert_eq!(device.sends(0, &data), 3072 + 512);
        device.discard(0, 4096, Discard::ZeroByDevice).unwrap();
        let mut seen = AlignedBuf::zeroed(4096);
        full::read_full(&memory, 0, &mut seen).unwrap();
        let old = |i: &usize| seen[*i] == 0xee;
        assert!((0..1024).all(|i| old(&i)) && (1024..4096).all(|i| seen[i] == 0));
        full::write_full(&device, 0, &data).unwrap();
        let mut seen = AlignedBuf::zeroed(16 << 10);
        full::read_full(&memory, 0, &mut seen).unwrap();
        let written: Vec<usize> = (0..seen.len()).filter(|i| seen[*i] == 7).collect();
        let wanted: Vec<usize> = (1024..4096).chain(8192..8704).collect();
        assert_eq!(written, wanted, "in whole sectors");
        full::read_full(&device, 0, &mut seen).unwrap();
        let zero = |i: &usize| !wanted.contains(i);
        assert!((0..seen.len()).filter(zero).all(|i| seen[i] == 0), "the rest reads as zeros");
        assert!(wanted.iter().all(|i| seen[*i] == 7));
    }

    #[test]
    fn ranges_that_overlap_or_are_empty_are_no_mask() {
        for bad in [[(0, 10), (10, 10)], [(0, 3), (5, 4)], [(0, 10), (9, 20)], [(10, 20), (0, 5)]] {
            let ranges = bad.map(|(start, end)| start..end);
            assert!(Mask::new(ranges).is_err(), "{bad:?}");
        }
        let none = Mask::new([]).unwrap();
        assert_eq!((none.at(5), none.bytes_in(0, 100)), ((false, u64::MAX), 0));
    }
}
