//! A device to which runs of zeros are not sent as data: they are zeros already, as a discard left
//! them, or the device makes them so itself. Which of the two is decided, and proven, by whoever
//! makes this; the read-back proves it once more.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{BlockDevice, Discard};
use crate::image::zeros::first_not_zero;

/// Runs shorter than this are sent: a request of its own costs more than they do.
const RUN: usize = 64 << 10;

/// How a run of zeros comes to be on the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// These bytes read as zeros already.
    AreThere(Range<u64>),
    /// The device zeroes them itself.
    MadeByDevice,
}

/// A device behind which zeros cost nothing.
#[derive(Debug)]
pub struct Sparse<'a> {
    inner: &'a dyn BlockDevice,
    zeros: Zeros,
    skipped: AtomicU64,
}

impl<'a> Sparse<'a> {
    /// Of zeros that were proven.
    pub fn new(inner: &'a dyn BlockDevice, zeros: Zeros) -> Self {
        Self { inner, zeros, skipped: AtomicU64::new(0) }
    }

    /// Bytes of zeros that were not sent.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Whether the zeros of this place need not be sent.
    fn covers(&self, offset: u64, len: usize) -> bool {
        match &self.zeros {
            Zeros::AreThere(range) => range.start <= offset && offset + len as u64 <= range.end,
            Zeros::MadeByDevice => true,
        }
    }

    /// The first stretch of a buffer that is all of one kind: whether it is left out, its length.
    fn first(&self, offset: u64, buf: &[u8]) -> (bool, usize) {
        let left_out = |at: usize, piece: &[u8]| {
            piece.len() == RUN
                && first_not_zero(piece).is_none()
                && self.covers(offset + at as u64, piece.len())
        };
        let mut pieces = buf.chunks(RUN).scan(0, |at, piece| {
            let kind = left_out(*at, piece);
            *at += piece.len();
            Some((kind, *at))
        });
        let Some((kind, mut len)) = pieces.next() else { return (false, 0) };
        for (other, end) in pieces {
            if other != kind {
                break;
            }
            len = end;
        }
        (kind, len)
    }
}

impl BlockDevice for Sparse<'_> {
    pass_on!(inner);
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        let (left_out, len) = self.first(offset, buf);
        if !left_out {
            return self.inner.write_at(offset, &buf[..len]);
        }
        if self.zeros == Zeros::MadeByDevice
            && self.inner.discard(offset, len as u64, Discard::ZeroByDevice).is_err()
        {
            // It did so before; whatever the reason is now, data is always right.
            return self.inner.write_at(offset, &buf[..len]);
        }
        self.skipped.fetch_add(self.inner.sends(offset, &buf[..len]), Ordering::Relaxed);
        Ok(len)
    }
    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        self.inner.discard(offset, len, how)
    }
    fn sends(&self, offset: u64, buf: &[u8]) -> u64 {
        let mut bytes = 0;
        let mut at = 0;
        while at < buf.len() {
            let (left_out, len) = self.first(offset + at as u64, &buf[at..]);
            if !left_out {
                bytes += self.inner.sends(offset + at as u64, &buf[at..at + len]);
            }
            at += len;
        }
        bytes
    }
    fn fetches(&self, offset: u64, len: u64) -> u64 {
        self.inner.fetches(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::full;
    use crate::device::sim::memory::Memory;
    use crate::sys::buffer::AlignedBuf;

    /// 1 MiB: data, zeros, data, a run that is too short, data.
    fn data() -> AlignedBuf {
        let mut data = AlignedBuf::zeroed(1 << 20);
        data.fill(7);
        data[128 << 10..512 << 10].fill(0);
        data[700 << 10..704 << 10].fill(0);
        data
    }

    #[test]
    fn zeros_that_are_there_are_not_sent_and_only_where_they_are() {
        let memory = Memory::new(4 << 20, 512, 0xee, true);
        let proven = (1 << 20)..(1 << 20) + (256 << 10);
        let device = Sparse::new(&memory, Zeros::AreThere(proven));
        full::write_full(&device, 1 << 20, &data()).unwrap();
        assert_eq!(device.skipped(), 128 << 10);
        assert_eq!(device.sends(1 << 20, &data()), (1 << 20) - (128 << 10));
        let mut seen = AlignedBuf::zeroed(1 << 20);
        full::read_full(&memory, 1 << 20, &mut seen).unwrap();
        assert!(seen[128 << 10..256 << 10].iter().all(|b| *b == 0xee), "nothing was sent there");
        assert!(seen[256 << 10..512 << 10].iter().all(|b| *b == 0), "not proven, so sent");
    }

    #[test]
    fn a_device_that_zeroes_gets_requests_and_one_that_stops_doing_so_gets_data() {
        let memory = Memory::new(4 << 20, 512, 0xee, true);
        let device = Sparse::new(&memory, Zeros::MadeByDevice);
        full::write_full(&device, 0, &data()).unwrap();
        assert_eq!(device.skipped(), 384 << 10);
        let mut seen = AlignedBuf::zeroed(1 << 20);
        full::read_full(&memory, 0, &mut seen).unwrap();
        assert!(seen[..] == data()[..]);
        let memory = Memory::new(4 << 20, 512, 0xee, false);
        let device = Sparse::new(&memory, Zeros::MadeByDevice);
        full::write_full(&device, 0, &data()).unwrap();
        assert_eq!(device.skipped(), 0);
        full::read_full(&memory, 0, &mut seen).unwrap();
        assert!(seen[..] == data()[..]);
    }
}
