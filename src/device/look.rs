//! Looks at a medium at any offset and length, through a device that transfers whole blocks.

use std::io;

use super::{BlockDevice, full};
use crate::image::ReadAt;
use crate::sys::buffer::AlignedBuf;

/// A device as bytes.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a>(pub &'a dyn BlockDevice);

/// More is read in several steps.
const STEP: u64 = 1 << 20;

impl ReadAt for Look<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let geometry = self.0.geometry();
        let block = u64::from(geometry.logical_block);
        let end = geometry.size.min(offset.saturating_add(buf.len() as u64));
        let mut at = offset;
        while at < end {
            let first = at / block * block;
            let last = (first + STEP).min(end.next_multiple_of(block));
            let mut blocks =
                AlignedBuf::zeroed(usize::try_from(last - first).map_err(io::Error::other)?);
            full::read_full(self.0, first, &mut blocks)?;
            let part = (last.min(end) - at).min(STEP);
            let from = usize::try_from(at - first).map_err(io::Error::other)?;
            let to = usize::try_from(at - offset).map_err(io::Error::other)?;
            let len = usize::try_from(part).map_err(io::Error::other)?;
            buf[to..to + len].copy_from_slice(&blocks[from..from + len]);
            at += part;
        }
        usize::try_from(end.saturating_sub(offset)).map_err(io::Error::other)
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.geometry().size)
    }
}
