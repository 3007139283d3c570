//! Gives blocks back to the device in bounded chunks: between two chunks it can be cancelled, and
//! every chunk has its time. A discard is a hint. What reads return afterwards is not defined
//! (Documentation/ABI/stable/sysfs-block, discard_zeroes_data), so nothing here says "erased"; what
//! reads return now can be sampled.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Context;
use crate::device::{BlockDevice, Discard, full};
use crate::error::{Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{Event, Phase, Span};
use crate::meter::while_ticking;
use crate::sys::buffer::AlignedBuf;
use crate::units::{GIB, MIB, Rate};

/// What to discard and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes asked for; what does not fill a granule at either end is left alone.
    pub range: Span,
    /// Mechanism.
    pub how: Discard,
    /// Stop between chunks when more time than this has passed.
    pub budget: Option<Duration>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// The range that was discarded.
    pub done: Span,
    /// Bytes at both ends that do not fill a granule and were left alone.
    pub left_alone: u64,
    /// Nanoseconds.
    pub nanos: u64,
    /// Set when the time budget ended it early.
    pub abandoned: bool,
}

/// A request of this size is one command on most disks (discard_max_bytes is often 4 GiB).
const LARGEST: u64 = GIB;
/// The first one: a device that fills with zeros at 30 MB/s is done with it in 2 s, and until then
/// it cannot be cancelled.
const FIRST: u64 = 64 * MIB;
/// A chunk that takes less than this makes the next ones larger.
const QUICK: Duration = Duration::from_millis(500);
/// A chunk that takes longer than this makes the next ones smaller.
const PATIENCE: Duration = Duration::from_secs(2);
/// Not smaller than this, or the overhead of requests counts.
const SMALLEST: u64 = 16 * MIB;
/// A flash controller unmaps many GB/s; below this rate it looks like zeros being written.
const ZERO_FILL: f64 = 700e6;

/// Discards a range. After `Err` an unknown part of it is discarded.
pub fn discard(device: &dyn BlockDevice, plan: &Plan, cx: &Context) -> Result<Discarded> {
    let phase = match plan.how {
        Discard::Zero | Discard::ZeroByDevice => Phase::ZeroOut,
        Discard::Trim | Discard::Secure => Phase::Discard,
    };
    let geometry = device.geometry();
    let granule = match plan.how {
        Discard::Zero | Discard::ZeroByDevice => u64::from(geometry.logical_block),
        Discard::Trim | Discard::Secure => {
            geometry.discard_granularity.max(u64::from(geometry.logical_block))
        }
    };
    let range = inward(plan.range, granule, geometry.size);
    let meter = cx.meter(phase, Some(range.len));
    let mut at = range.offset;
    let mut step = FIRST;
    let start = meter.now();
    let spent = |meter: &crate::meter::Meter| meter.now().saturating_sub(start);
    let mut abandoned = false;
    let result = while_ticking(&meter, || {
        while at < range.end() {
            cx.cancel.check()?;
            if plan.budget.is_some_and(|budget| spent(&meter) > budget) {
                abandoned = true;
                break;
            }
            let len = (step / granule * granule).max(granule).min(range.end() - at);
            let began = meter.now();
            meter
                .observe(len, || device.discard(at, len, plan.how))
                .map_err(|e| refused_by_device(device, cx, phase, e, Span { offset: at, len }))?;
            let took = meter.now().saturating_sub(began);
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            cx.events.emit(Event::DiscardChunk { span: Span { offset: at, len }, nanos });
            at += len;
            if took > PATIENCE {
                step = (step / 2).max(SMALLEST);
            } else if took < QUICK {
                step = (step * 2).min(LARGEST);
            }
        }
        Ok(())
    });
    let totals = meter.finish();
    result?;
    let done = Span { offset: range.offset, len: at - range.offset };
    if abandoned {
        cx.events.tell(Notice::DiscardAbandoned {
            took: totals.took(),
            done: done.len,
            wanted: range.len,
            rate: totals.rate(),
        });
    }
    warn_of_zero_filling(plan.how, done.len, totals.took(), cx);
    Ok(Discarded { done, left_alone: plan.range.len - range.len, nanos: totals.nanos, abandoned })
}

/// Rounds a range inward to whole granules, within the device.
fn inward(range: Span, granule: u64, size: u64) -> Span {
    let offset = range.offset.next_multiple_of(granule);
    let end = range.end().min(size) / granule * granule;
    Span { offset, len: end.saturating_sub(offset) }
}

fn warn_of_zero_filling(how: Discard, bytes: u64, took: Duration, cx: &Context) {
    let rate = Rate::of(bytes, took);
    if how == Discard::Trim && took > Duration::from_secs(2) && rate.bytes_per_second < ZERO_FILL {
        cx.events.tell(Notice::DiscardSlow { rate });
    }
}

fn refused_by_device(
    device: &dyn BlockDevice,
    cx: &Context,
    phase: Phase,
    error: std::io::Error,
    span: Span,
) -> Error {
    match error.raw_os_error() {
        // EOPNOTSUPP: the queue offers none. EREMOTEIO: the disk rejected the command as an illegal
        // request, and sd switches discard off (drivers/scsi/sd.c, sd_done).
        Some(libc::EOPNOTSUPP | libc::EREMOTEIO) => {
            let what = match phase {
                Phase::ZeroOut => "zeroing by the device",
                _ => "discard",
            };
            Error::new(
                Kind::Io,
                format!("{} does not do {what} (the kernel says: {error})", cx.target),
            )
        }
        _ => cx.io_failed(device, phase, error, span.offset, span.len),
    }
}

/// What reads return from a number of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Places read.
    pub taken: u32,
    /// Places that read as zeros.
    pub zero: u32,
    /// Places that read as 0xff.
    pub ones: u32,
}

/// Reads 64 places spread over a range, past the caches.
pub fn sample(device: &dyn BlockDevice, range: Span, cx: &Context) -> Result<Samples> {
    const PLACES: u64 = 64;
    const LEN: u64 = 4096;
    if range.len < LEN {
        return Ok(Samples::default());
    }
    device.invalidate_cache().ok();
    cx.timed(Phase::Sample, |meter| {
        let mut buf = AlignedBuf::zeroed(4096);
        let mut samples = Samples::default();
        for place in 0..PLACES.min(range.len / LEN) {
            cx.cancel.check()?;
            let spread = (range.len - LEN) / PLACES * place;
            let offset = (range.offset + spread) / LEN * LEN;
            if offset < range.offset {
                continue;
            }
            meter
                .observe(LEN, || full::read_full(device, offset, &mut buf))
                .map_err(|e| cx.io_failed(device, Phase::Sample, e, offset, LEN))?;
            samples.taken += 1;
            samples.zero += u32::from(buf.iter().all(|&b| b == 0));
            samples.ones += u32::from(buf.iter().all(|&b| b == 0xff));
        }
        Ok(samples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_ends_are_left_alone() {
        let span = |offset, len| Span { offset, len };
        for (asked, granule, size, expected) in [
            (span(0, 1 << 20), 4096, 1 << 20, span(0, 1 << 20)),
            (span(512, 1 << 20), 4096, 2 << 20, span(4096, (1 << 20) - 4096)),
            (span(0, u64::MAX), 4096, (1 << 20) + 512, span(0, 1 << 20)),
            (span(100, 200), 4096, 1 << 20, span(4096, 0)),
        ] {
            assert_eq!(inward(asked, granule, size), expected, "{asked:?}");
        }
    }
}
