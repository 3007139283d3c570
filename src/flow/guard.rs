//! What makes a medium look bootable, and how it is taken away: boot sector, partition table,
//! ISO 9660 and superblocks lie in the first MiB, backup GPT (UEFI 2.10, 5.3.2), md and ZFS labels
//! in the last. Both ends are cleared before anything else is written, what the image puts there
//! is held back until everything else is flushed, and after a failure both are cleared again.
//!
//! ```text
//! | head 1 MiB |            body             | tail 1 MiB |
//!   cleared      written                       cleared
//!   written last                               written before the head
//! ```
//! A kill at any moment before the release therefore leaves no table at either end.

use std::io;

use super::Context;
use crate::device::{BlockDevice, full, look::Look};
use crate::error::Result;
use crate::event::{Event, Phase, Span};
use crate::image;
use crate::sys::buffer::AlignedBuf;
use crate::units::MIB;

/// Bytes guarded at each end.
const END: u64 = MIB;

/// The two guarded ends of a device; they overlap on one smaller than 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) head: Span,
    pub(super) tail: Span,
}

impl Ends {
    /// Of a device of `size` bytes.
    pub(super) fn of(size: u64) -> Self {
        let len = END.min(size);
        Self { head: Span { offset: 0, len }, tail: Span { offset: size - len, len } }
    }

    /// Whether bytes of a chunk may make the medium look bootable.
    pub(super) fn touch(self, offset: u64, end: u64) -> bool {
        offset < self.head.end() || end > self.tail.offset
    }

    /// Bytes of an image of `len` bytes that are held back when it is written in `block`s.
    pub(super) fn held(self, len: u64, block: u64) -> u64 {
        let head = self.head.end().next_multiple_of(block).min(len);
        let tail = (self.tail.offset / block * block).max(head);
        head + if len > self.tail.offset { len.saturating_sub(tail) } else { 0 }
    }
}

/// Overwrites both ends with zeros where they are not zero yet, flushes, and says what was there.
pub(crate) fn clear(device: &dyn BlockDevice, cx: &Context) -> Result<()> {
    cx.timed(Phase::Clear, |meter| {
        let geometry = device.geometry();
        let found = image::signatures(&Look(device), geometry.size, geometry.logical_block);
        let Ends { head, tail } = Ends::of(geometry.size);
        for span in [head, tail] {
            cx.cancel.check()?;
            let failed = |e| cx.io_failed(device, Phase::Clear, e, span.offset, span.len);
            if !is_zero(device, span) {
                meter.observe(span.len, || write_zeros(device, span)).map_err(failed)?;
            }
        }
        device.flush().map_err(|e| cx.flush_failed(device, e))?;
        // A medium that cannot be looked at is cleared all the same; there is nothing to tell.
        let signatures: Vec<String> = found
            .unwrap_or_default()
            .iter()
            .map(|s| format!("{} at offset {}", s.name, s.offset))
            .collect();
        if !signatures.is_empty() {
            cx.events.emit(Event::Cleared { signatures });
        }
        Ok(())
    })
}

/// After a failure: clears both ends, best effort, and says whether that worked.
pub(super) fn make_unbootable(device: &dyn BlockDevice, cx: &Context) {
    let Ends { head, tail } = Ends::of(device.geometry().size);
    let cleared = if device.present() {
        // The head first: it is what firmware looks at. One failure does not keep us from the rest.
        // What is zero already needs no write, which a device that failed may refuse.
        let wipe = |span| if is_zero(device, span) { Ok(()) } else { write_zeros(device, span) };
        let (head, tail) = (wipe(head), wipe(tail));
        head.and(tail).and_then(|()| device.flush())
    } else {
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    };
    let proven = cleared.and_then(|()| {
        device.invalidate_cache()?;
        if is_zero(device, head) && is_zero(device, tail) {
            Ok(())
        } else {
            Err(io::Error::other("the device did not keep the zeros that were written"))
        }
    });
    let (done, message) = match proven {
        Ok(()) => {
            (true, format!("{} was made unbootable: it holds an incomplete image", cx.target))
        }
        Err(e) => (
            false,
            format!("{} could not be made unbootable ({e}): do not trust what is on it", cx.target),
        ),
    };
    cx.events.emit(Event::MadeUnbootable { done, message });
}

/// In whole blocks.
pub(super) fn write_zeros(device: &dyn BlockDevice, span: Span) -> io::Result<()> {
    let len = span.len.next_multiple_of(u64::from(device.geometry().logical_block));
    let zeros = AlignedBuf::zeroed(usize::try_from(len).map_err(io::Error::other)?);
    full::write_full(device, span.offset, &zeros)
}

/// A span that cannot be read is not known to be zero.
fn is_zero(device: &dyn BlockDevice, span: Span) -> bool {
    let mut buf = AlignedBuf::zeroed(usize::try_from(span.len).unwrap_or(0));
    full::read_full(device, span.offset, &mut buf).is_ok() && buf.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_is_what_touches_an_end() {
        for (size, len, block) in [
            (64 * MIB, 64 * MIB, 4 * MIB),
            (64 * MIB, 60 * MIB + 5, 4 * MIB),
            (64 * MIB, 63 * MIB + 512, MIB),
            (64 * MIB, 3000, 4 * MIB),
            (3 * MIB, 3 * MIB, 4096),
            (MIB, MIB, 4 * MIB),
            (64 * MIB + 512, 64 * MIB + 512, 96 << 10),
        ] {
            let ends = Ends::of(size);
            let chunks =
                (0..len.div_ceil(block)).map(|i| (i * block, (i * block + block).min(len)));
            let held: u64 =
                chunks.filter(|(from, to)| ends.touch(*from, *to)).map(|(a, b)| b - a).sum();
            assert_eq!(ends.held(len, block), held, "{size} {len} {block}");
        }
    }
}
