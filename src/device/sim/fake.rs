//! The counterfeit stick: claims N bytes and owns fewer. `wrap` maps claimed offsets onto the
//! real ones modulo the real size; `limbo` accepts writes behind it and returns the prefill.

use std::io;

use super::super::{BlockDevice, Discard, Geometry};

/// How the missing capacity behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeCapacity {
    /// Bytes that exist.
    pub real: u64,
    /// Whether offsets wrap around; else writes behind `real` are lost.
    pub wraps: bool,
}

/// A device that lies about its size.
#[derive(Debug)]
pub struct Fake<D> {
    inner: D,
    capacity: FakeCapacity,
}

impl<D> Fake<D> {
    /// Wraps a device of the claimed size.
    pub fn new(inner: D, capacity: FakeCapacity) -> Self {
        Self { inner, capacity }
    }

    /// Real offset and the length up to the next border; `None` where nothing is.
    fn real(&self, offset: u64, len: usize) -> (Option<u64>, usize) {
        let FakeCapacity { real, wraps } = self.capacity;
        let room = real - offset % real;
        let step = len.min(usize::try_from(room).unwrap_or(usize::MAX));
        match (offset < real, wraps) {
            (true, _) => (Some(offset), step),
            (false, true) => (Some(offset % real), step),
            (false, false) => (None, len),
        }
    }
}

impl BlockDevice for Fake<Box<dyn BlockDevice>> {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self.real(offset, buf.len()) {
            (Some(real), step) => self.inner.read_at(real, &mut buf[..step]),
            // Never written there, so the memory below still has its prefill.
            (None, _) => self.inner.read_at(offset, buf),
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        match self.real(offset, buf.len()) {
            (Some(real), step) => self.inner.write_at(real, &buf[..step]),
            (None, step) => Ok(step),
        }
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        let end = (offset + len).min(self.capacity.real);
        if offset < end { self.inner.discard(offset, end - offset, how) } else { Ok(()) }
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        self.inner.invalidate_cache()
    }

    fn check_identity(&self) -> Result<(), String> {
        self.inner.check_identity()
    }

    fn present(&self) -> bool {
        self.inner.present()
    }
}
