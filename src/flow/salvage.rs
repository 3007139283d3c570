//! Reading on behind an error: the transfer that failed is read again block by block, so that the
//! report names the sectors that cannot be read and the check goes on after them.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::device::{BlockDevice, full};
use crate::event::Span;

/// A disk may retry an unreadable sector for half a minute; after this many failed transfers the
/// rest is reported as whole transfers.
const FINE: usize = 16;

/// Unit of the second reading, in bytes.
const STEP: usize = 4096;

/// What could not be read.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    unreadable: Mutex<Vec<Span>>,
}

impl Salvage {
    /// Reads again what failed, in small steps. What stays unreadable is filled with zeros and
    /// remembered. `Err` when the device is gone.
    pub(super) fn read(
        &self,
        device: &dyn BlockDevice,
        offset: u64,
        buf: &mut [u8],
        error: io::Error,
    ) -> io::Result<()> {
        if !device.present() {
            return Err(error);
        }
        if self.spans().len() >= FINE {
            buf.fill(0);
            self.remember(offset, buf.len());
            return Ok(());
        }
        for (index, piece) in buf.chunks_mut(STEP).enumerate() {
            let at = offset + (index * STEP) as u64;
            if full::read_full(device, at, piece).is_err() {
                piece.fill(0);
                self.remember(at, piece.len());
                if !device.present() {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn remember(&self, offset: u64, len: usize) {
        let span = Span { offset, len: len as u64 };
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).push(span);
    }

    fn spans(&self) -> Vec<Span> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All unreadable stretches within the first `len` bytes, merged and in order.
    pub(super) fn finish(self, len: u64) -> Vec<Span> {
        let mut spans = self.unreadable.into_inner().unwrap_or_else(PoisonError::into_inner);
        spans.sort_unstable();
        let mut merged: Vec<Span> = Vec::new();
        for span in spans {
            let span = Span { len: span.end().min(len).saturating_sub(span.offset), ..span };
            match merged.last_mut() {
                Some(last) if last.end() == span.offset => last.len += span.len,
                _ if span.len > 0 => merged.push(span),
                _ => {}
            }
        }
        merged
    }
}
