//! Writing only what differs: a device that reads each stretch before it writes it, and leaves what
//! is there already.
//!
//! Owns: the comparison, and what was written, with its digests, to be read back. Reading goes past
//! the host's caches, which are dropped first where a device is not opened so, and the kernel's
//! count of bytes read is held against what was compared. What cannot be read is written.
//!
//! A medium whose addresses wrap around cannot hide behind this: the first stretch of an image is
//! written last, so a place further on that is the same one holds something else by now, and was
//! written, because it cannot have held its own bytes before.
//!
//! Reading first costs time and saves some; what it comes to is looked at all the time (`pace`).

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Context;
use super::pace::Pace;
use crate::device::{BlockDevice, Discard, full, pass_on};
use crate::digest::{Hasher, Sha256};
use crate::error::{Error, Result};
use crate::event::{Event, Phase, Span, Verdict};
use crate::sys::buffer::AlignedBuf;
use crate::time::Clock;

/// What is compared as one: the erase blocks of flash are no smaller, and one request costs more
/// than the bytes that it saves.
const GRANULE: usize = 64 << 10;
/// Granules between two that differ that are written with them, for the same reason.
const GAP: usize = 4;
/// Stretches that are remembered, at 48 bytes each.
const REMEMBERED: usize = 1 << 18;

/// A stretch that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Where.
    pub(super) span: Span,
    /// Of its bytes.
    pub(super) sha256: Sha256,
}

/// A device that is written where it differs.
pub(super) struct Changed<'a> {
    inner: &'a dyn BlockDevice,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Buffers to read into; one for each thread that writes.
    spare: Mutex<Vec<AlignedBuf>>,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    /// `None` when they became too many.
    written: Option<Vec<Written>>,
    totals: Totals,
}

/// What came of it, in bytes of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Found as it should be, and left.
    pub(super) equal: u64,
    /// Written.
    pub(super) written: u64,
    /// Read from the device to be compared.
    pub(super) fetched: u64,
}

impl fmt::Debug for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changed({:?}, {:?})", self.inner, self.totals())
    }
}

impl<'a> Changed<'a> {
    /// `verify`: what is written will be read back, so what is equal saves that as well.
    pub(super) fn new(inner: &'a dyn BlockDevice, verify: bool, clock: Arc<dyn Clock>) -> Self {
        let state =
            State { pace: Pace::new(verify), written: Some(Vec::new()), totals: Totals::default() };
        Self { inner, clock, state: Mutex::new(state), spare: Mutex::default() }
    }

    /// What came of it so far.
    pub(super) fn totals(&self) -> Totals {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).totals
    }

    /// What was written, in the order in which it was; `None` when it was too much to remember.
    pub(super) fn written(&self) -> Option<Vec<Written>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).written.clone()
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn timed<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Duration)> {
        let start = self.clock.now();
        let done = work()?;
        Ok((done, self.clock.now().saturating_sub(start)))
    }

    /// Which stretches of `buf` the device does not hold.
    fn differing(&self, offset: u64, buf: &[u8]) -> Vec<Range<usize>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut seen = match spare {
            Some(spare) if spare.len() >= buf.len() => spare,
            _ => AlignedBuf::zeroed(buf.len()),
        };
        let read = self.timed(|| full::read_full(self.inner, offset, &mut seen[..buf.len()]));
        let runs = match &read {
            Ok(_) => differing(buf, &seen[..buf.len()]),
            Err(_) => std::iter::once(0..buf.len()).collect(),
        };
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        let differed = runs.iter().map(|run| run.len() as u64).sum::<u64>();
        self.state(|state| {
            let took = read.map_or(Duration::ZERO, |((), took)| took);
            state.pace.compared(buf.len() as u64, took, differed);
            // What a mask leaves out was neither read nor found equal.
            let part = |run: &Range<usize>| {
                self.inner.fetches(offset + run.start as u64, run.len() as u64)
            };
            let fetched = part(&(0..buf.len()));
            state.totals.fetched += fetched;
            state.totals.equal += fetched - runs.iter().map(part).sum::<u64>();
        });
        runs
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let ((), took) = self.timed(|| full::write_full(self.inner, offset, bytes))?;
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        let span = Span { offset, len: bytes.len() as u64 };
        let written = Written { span, sha256: hasher.finish() };
        self.state(|state| {
            state.pace.wrote(span.len, took);
            state.totals.written += self.inner.sends(offset, bytes);
            match &mut state.written {
                Some(known) if known.len() < REMEMBERED => known.push(written),
                known => *known = None,
            }
        });
        Ok(())
    }
}

/// The stretches of one buffer that are not in the other of the same length.
fn differing(wanted: &[u8], seen: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, (wanted, seen)) in
        (0..).step_by(GRANULE).zip(wanted.chunks(GRANULE).zip(seen.chunks(GRANULE)))
    {
        if wanted == seen {
            continue;
        }
        let end = at + wanted.len();
        match runs.last_mut() {
            Some(last) if at - last.end <= GAP * GRANULE => last.end = end,
            _ => runs.push(at..end),
        }
    }
    runs
}

impl BlockDevice for Changed<'_> {
    pass_on!(inner);
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buf)
    }
    /// All or nothing; after `Err` an unknown part of the range is written.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        // What makes a medium bootable is at its start, and written as one, after all else.
        if offset > 0 && self.state(|state| state.pace.pays()) {
            for run in self.differing(offset, buf) {
                self.write(offset + run.start as u64, &buf[run])?;
            }
        } else {
            self.write(offset, buf)?;
        }
        Ok(buf.len())
    }
    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        self.inner.discard(offset, len, how)
    }
    fn sends(&self, offset: u64, buf: &[u8]) -> u64 {
        self.inner.sends(offset, buf)
    }
    fn fetches(&self, offset: u64, len: u64) -> u64 {
        self.inner.fetches(offset, len)
    }
}

/// Tells what was left and what was written.
pub(super) fn tell(changed: &Changed<'_>, cx: &Context) {
    let totals = changed.totals();
    cx.events.emit(Event::Compared { equal: totals.equal, written: totals.written });
}

/// Reads back what was written of `bytes` in all; `None` when that is not enough of a proof, or
/// finds something: then everything has to be read. `before`: the kernel's count of bytes read
/// when the first was compared.
pub(super) fn read_back(
    device: &dyn BlockDevice,
    changed: &Changed<'_>,
    (bytes, before): (u64, Option<u64>),
    cx: &Context,
) -> Result<Option<Verdict>> {
    let Some(mut written) = changed.written() else { return Ok(None) };
    written.sort_by_key(|written| written.span.offset);
    device.invalidate_cache().map_err(|e| {
        Error::io(format!("the host's cache of {} could not be dropped", cx.target), e)
    })?;
    let fetches = |written: &Written| device.fetches(written.span.offset, written.span.len);
    let total = written.iter().map(fetches).sum();
    let longest = written.iter().map(|written| written.span.len).max().unwrap_or(0);
    let mut buf = AlignedBuf::zeroed(usize::try_from(longest).unwrap_or(0));
    let meter = cx.meter(Phase::Verify, Some(total));
    let holds = crate::meter::while_ticking(&meter, || {
        for written in &written {
            cx.cancel.check()?;
            let piece = &mut buf[..usize::try_from(written.span.len).unwrap_or(0)];
            let read = || full::read_full(device, written.span.offset, piece);
            // What cannot be read is looked at by the whole verification, piece by piece.
            if meter.observe(fetches(written), read).is_err() {
                return Ok(false);
            }
            let mut hasher = Hasher::default();
            hasher.update(piece);
            if hasher.finish() != written.sha256 {
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    });
    meter.finish();
    if !holds? {
        return Ok(None);
    }
    let read = changed.totals().fetched + total;
    let counted = before.zip(device.kernel_counters()).map(|(then, now)| now.0.wrapping_sub(then));
    Ok(Some(match counted.filter(|counted| *counted < read) {
        Some(counted) => Verdict::NotChecked {
            reason: format!(
                "the kernel read only {counted} of {read} bytes from the device, the rest came from a cache"
            ),
        },
        None => Verdict::Matched { bytes },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::mask::{Mask, Masked};
    use crate::device::sim::memory::Memory;
    use crate::time::SimClock;

    fn filled(value: u8, len: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(len);
        buf.fill(value);
        buf
    }

    #[test]
    fn what_a_mask_leaves_out_is_not_counted() {
        let memory = Memory::new(4 << 20, 512, 7, true);
        let granule = GRANULE as u64;
        let mask = Mask::new([granule..3 * granule, 20 * granule..21 * granule + 512]).unwrap();
        let masked = Masked::new(&memory, &mask);
        let device = Changed::new(&masked, true, Arc::new(SimClock::default()));
        let mut wanted = filled(0, 2 << 20);
        wanted[..3 * GRANULE].fill(7);
        wanted[2 * GRANULE..3 * GRANULE].fill(8);
        wanted[20 * GRANULE..21 * GRANULE + 512].fill(7);
        full::write_full(&device, granule, &wanted[GRANULE..]).unwrap();
        let totals = device.totals();
        assert_eq!((totals.written, totals.equal), (granule, 2 * granule + 512));
        assert_eq!(totals.fetched, 3 * granule + 512);
    }

    #[test]
    fn only_granules_that_differ_are_written_and_small_gaps_with_them() {
        let memory = Memory::new(4 << 20, 512, 7, true);
        let device = Changed::new(&memory, true, Arc::new(SimClock::default()));
        let mut wanted = filled(7, 4 << 20);
        for at in [5, 200_000, 2_000_000] {
            wanted[(1 << 20) + at] = 8;
        }
        let first = 1 << 20;
        full::write_full(&device, first, &wanted[1 << 20..]).unwrap();
        let spans: Vec<_> = device.written().unwrap().iter().map(|w| w.span).collect();
        let third = first + (2_000_000 / GRANULE * GRANULE) as u64;
        let granule = GRANULE as u64;
        let expected =
            [Span { offset: first, len: 4 * granule }, Span { offset: third, len: granule }];
        assert_eq!(spans, expected);
        let totals = device.totals();
        assert_eq!((totals.written, totals.equal), (5 * granule, (3 << 20) - 5 * granule));
        let mut seen = AlignedBuf::zeroed(4 << 20);
        full::read_full(&memory, 0, &mut seen).unwrap();
        assert!(seen[..] == wanted[..]);
        full::write_full(&device, first, &wanted[1 << 20..]).unwrap();
        assert_eq!(device.totals().written, 5 * granule, "the second time there is nothing to do");
        full::write_full(&device, 0, &wanted[..1 << 20]).unwrap();
        assert_eq!(device.totals().written, 5 * granule + first, "the start is written as one");
    }
}
