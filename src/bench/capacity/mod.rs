//! Whether a medium is as large as it says. Sectors that say where they belong are written all
//! over it, all of them before any is read, and past every cache.
//!
//! ```text
//! 0        F                                                        size
//! |########|   #        #        #        #        #        #       ##|
//!  region     samples, not farther apart than F                   tail
//!  written last                                            written in full
//! ```
//! The region finds every modulus: where offsets start over at R, one sample lies in R..R + F, and
//! the region, written after it, overwrote it; what is read there names R to the sector (baby steps
//! and giant steps: Shanks 1971). f3probe, which knows a medium by powers of two, misses others. The
//! region is also more than a write cache holds, so nothing that was written before it is still in
//! one. Where writes are only lost, rounds of samples between the last good and the first bad place
//! narrow the end down.

mod judge;

use std::io;

use judge::{Found, Meaning, Seen};

use super::data::{Data, SECTOR};
use crate::device::{BlockDevice, full};
use crate::error::Result;
use crate::event::capacity::Capacity;
use crate::event::measure::{Direction, Order, Test};
use crate::event::{Event, Phase, Span};
use crate::flow::{Context, guard};
use crate::meter::{Meter, while_ticking};
use crate::sys::buffer::AlignedBuf;
use crate::units::{KIB, MIB};

/// A sample.
const SAMPLE: u64 = 4 * KIB;
/// The region at least: twice the 64 MiB of the largest caches seen in sticks.
const REGION: u64 = 128 * MIB;
/// A slow stick writes 20 MB/s in a row, or a block in 5 ms: the region and its samples take
/// the least time together when the region is the square root of this times the size.
const BALANCE: u64 = 100_000;
/// Samples at least, so that damage here and there is met too.
const SAMPLES: u64 = 256;
/// Samples of a round that narrows the end down.
const ROUND: u64 = 32;
/// Good and bad place are near enough.
const NEAR: u64 = 64 * KIB;
/// Bytes of an I/O in a row.
const BLOCK: u64 = 4 * MIB;
/// Runs that are told apart within places.
const RUNS: usize = 100_000;
/// Failures in a row after which the rest is taken for failed: each may take half a minute.
const GIVE_UP: u32 = 8;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From which the data is made; another in every run.
    pub seed: u64,
    /// Every byte, instead of samples.
    pub full: bool,
}

/// Finds out how large a medium really is. Everything on it is lost; after `Err` it holds parts of
/// the data and nothing that looks like a table.
pub fn probe(device: &dyn BlockDevice, plan: Plan, cx: &Context) -> Result<Capacity> {
    cx.cancel.check()?;
    cx.still_the_same(device)?;
    guard::clear(device, cx)?;
    let data = Data::new(super::data::mix(plan.seed));
    let probe = Probe { device, cx, data, size: device.geometry().size, least: REGION };
    let capacity = if plan.full { probe.full()? } else { probe.quick()? };
    cx.events.emit(Event::Capacity(capacity.clone()));
    Ok(capacity)
}

struct Probe<'a> {
    device: &'a dyn BlockDevice,
    cx: &'a Context,
    data: Data,
    size: u64,
    /// The region is not smaller; a test of small devices says how much.
    least: u64,
}

/// Where a quick probe writes.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    region: u64,
    samples: Vec<Span>,
    tail: Span,
}

impl Layout {
    /// Of a device of `size` bytes in sectors of `sector`, which divide it; the region is not
    /// smaller than `least` if there is room.
    fn of(size: u64, sector: u64, least: u64) -> Self {
        let unit = SAMPLE.max(sector);
        let tail_at = size.saturating_sub(MIB) / sector * sector;
        let balanced = size.saturating_mul(BALANCE).isqrt();
        let region = balanced.max(least).next_multiple_of(BLOCK).min(tail_at);
        let apart = (size / SAMPLES).min(region).max(unit) / unit * unit;
        let end = tail_at.saturating_sub(unit);
        let first = region.next_multiple_of(unit);
        let starts = if region < tail_at { first..end + 1 } else { 0..0 };
        let samples = starts
            .step_by(usize::try_from(apart).unwrap_or(usize::MAX))
            .map(|offset| Span { offset, len: unit })
            .collect();
        Self { region, samples, tail: Span { offset: tail_at, len: size - tail_at } }
    }

    /// Where the region is read: a sample in each MiB.
    fn of_region(&self, unit: u64) -> Vec<Span> {
        let starts = (0..self.region).step_by(usize::try_from(MIB).unwrap_or(1));
        starts.map(|offset| Span { offset, len: unit.min(self.region - offset) }).collect()
    }

    /// Right behind the region, as much as a cache may hold.
    fn behind(&self, least: u64) -> Span {
        Span { offset: self.region, len: least.min(self.tail.offset - self.region) }
    }

    /// What is written last: more than a cache holds, as long as the device is large enough.
    fn last(&self, least: u64) -> Span {
        let len = if self.samples.is_empty() { self.region / 2 } else { least.min(self.region) };
        Span { offset: 0, len: len / BLOCK * BLOCK }
    }
}

impl Probe<'_> {
    fn quick(&self) -> Result<Capacity> {
        let sector = u64::from(self.device.geometry().logical_block);
        let layout = Layout::of(self.size, sector, self.least);
        let Layout { region, samples, tail } = &layout;
        let meter = Meter::start(
            Phase::Probe,
            None,
            std::sync::Arc::clone(&self.cx.clock),
            self.cx.events.clone(),
        );
        let done = while_ticking(&meter, || {
            let places: Vec<Span> = samples.iter().copied().chain([*tail]).collect();
            let mut failed = self.write(&meter, &places)?;
            let first = layout.last(self.least);
            let rest = Span { offset: first.len, len: region - first.len };
            failed.extend(self.write(&meter, &blocks(rest))?);
            failed.extend(self.write(&meter, &blocks(first))?);
            self.settle()?;
            let of_region = layout.of_region(SAMPLE.max(sector));
            let mut seen = self.read(&meter, &of_region, &failed)?;
            let of_rest = self.read(&meter, &places, &failed)?;
            seen.extend(&of_rest);
            let mut meaning = judge::judge(&seen);
            let behind = layout.behind(self.least);
            if matches!(meaning, Meaning::Ends { .. } | Meaning::Damaged { .. }) {
                // The end may lie in the region, whose last bytes may only be in a cache.
                self.write(&meter, &blocks(behind))?;
                self.settle()?;
                seen = self.read(&meter, &of_region, &failed)?;
                seen.extend(of_rest);
                meaning = judge::judge(&seen);
            }
            let meaning =
                self.narrow(&meter, meaning, |good| if good < *region { behind } else { first })?;
            let compared = of_region.iter().chain(&places).map(|place| place.len).sum();
            Ok(judge::capacity(meaning, self.size, (compared, false, first.len / 2)))
        });
        meter.finish();
        done
    }

    /// More samples between the last good and the first bad place. `evict` is what is written after
    /// them, so that they are in no cache.
    fn narrow(
        &self,
        meter: &Meter,
        meaning: Meaning,
        evict: impl Fn(u64) -> Span,
    ) -> Result<Meaning> {
        let sector = u64::from(self.device.geometry().logical_block);
        let unit = SAMPLE.max(sector);
        let Meaning::Ends { mut good, mut bad, behind } = meaning else { return Ok(meaning) };
        while bad.saturating_sub(good) > NEAR {
            let step = ((bad - good) / (ROUND + 1)).max(unit) / unit * unit;
            let from = good.next_multiple_of(unit);
            let places: Vec<Span> = (0..ROUND)
                .map(|n| Span { offset: from + n * step, len: unit })
                .take_while(|place| place.end() <= bad)
                .collect();
            if places.is_empty() {
                break;
            }
            let failed = self.write(meter, &places)?;
            self.write(meter, &blocks(evict(good)))?;
            self.settle()?;
            for seen in self.read(meter, &places, &failed)? {
                if seen.found == Found::Right {
                    good = good.max(seen.span.end());
                } else {
                    bad = bad.min(seen.span.offset);
                    break;
                }
            }
            bad = bad.max(good);
            if step == unit {
                break;
            }
        }
        Ok(Meaning::Ends { good, bad, behind })
    }

    fn full(&self) -> Result<Capacity> {
        let all = Span { offset: 0, len: self.size };
        let last = Span { offset: 0, len: self.least.min(self.size / 2) / BLOCK * BLOCK };
        let mut failed = Failures::default();
        self.test("full-write", Direction::Write, |meter| {
            failed = self.write(meter, &blocks(all))?;
            // Once more, so that the end is in no cache; what fails now came through before.
            self.write(meter, &blocks(last)).map(drop)
        })?;
        self.cx.timed(Phase::Flush, |_| self.settle())?;
        let mut seen = Vec::new();
        self.test("full-read", Direction::Read, |meter| {
            seen = self.read(meter, &blocks(all), &failed)?;
            Ok(())
        })?;
        let cache = last.len / 2;
        Ok(judge::capacity(judge::judge(&seen), self.size, (self.size, true, cache)))
    }

    /// A test of its own, so that reports show its speeds like those of any other.
    fn test(
        &self,
        name: &str,
        direction: Direction,
        work: impl FnOnce(&Meter) -> Result<()>,
    ) -> Result<()> {
        let phase = match direction {
            Direction::Read => Phase::TestRead,
            Direction::Write => Phase::TestWrite,
        };
        let (clock, events) = (std::sync::Arc::clone(&self.cx.clock), self.cx.events.clone());
        let meter = Meter::start(phase, Some(self.size), clock, events);
        let test = Test {
            name: name.to_owned(),
            direction,
            order: Order::Sequential,
            block: BLOCK,
            queue_depth: 1,
            threads: 1,
            span: Span { offset: 0, len: self.size },
            engine: "blocking".to_owned(),
            round: 1,
        };
        self.cx.events.emit(Event::Test { phase, test });
        let done = while_ticking(&meter, || work(&meter));
        meter.finish();
        done
    }

    /// Everything is on the medium, and no read is answered from memory.
    fn settle(&self) -> Result<()> {
        let failed = |e| self.cx.flush_failed(self.device, e);
        match self.device.flush() {
            // What could not be written is seen when it is read.
            Err(e) if !self.device.present() => return Err(failed(e)),
            Ok(()) | Err(_) => {}
        }
        self.device.invalidate_cache().map_err(failed)
    }

    /// Writes places in this order; those that could not be written.
    fn write(&self, meter: &Meter, places: &[Span]) -> Result<Failures> {
        let mut buf = AlignedBuf::zeroed(longest(places));
        let mut failures = Failures::default();
        let mut row = 0;
        for place in places {
            self.cx.cancel.check()?;
            if row >= GIVE_UP {
                failures.push(*place);
                continue;
            }
            let buf = &mut buf[..usize::try_from(place.len).unwrap_or(0)];
            self.data.fill(place.offset, buf);
            let write = || full::write_full(self.device, place.offset, buf);
            match meter.observe(place.len, write) {
                Ok(()) => row = 0,
                Err(e) => {
                    self.gone(Phase::TestWrite, e, *place)?;
                    failures.push(*place);
                    row += 1;
                }
            }
        }
        Ok(failures)
    }

    /// Reads places in this order and says what was found, runs of the same made one.
    fn read(&self, meter: &Meter, places: &[Span], failed: &Failures) -> Result<Vec<Seen>> {
        let mut buf = AlignedBuf::zeroed(longest(places));
        let mut seen = Vec::new();
        let mut row = 0;
        for place in places {
            self.cx.cancel.check()?;
            if failed.touch(*place) || row >= GIVE_UP {
                seen.push(Seen { span: *place, found: Found::Failed });
                continue;
            }
            let buf = &mut buf[..usize::try_from(place.len).unwrap_or(0)];
            match meter.observe(place.len, || full::read_full(self.device, place.offset, buf)) {
                Ok(()) => {
                    self.compare(*place, buf, &mut seen);
                    row = 0;
                }
                Err(e) => {
                    self.gone(Phase::TestRead, e, *place)?;
                    seen.push(Seen { span: *place, found: Found::Failed });
                    row += 1;
                }
            }
        }
        Ok(seen)
    }

    /// A device that is gone ends the probe; anything else is an answer.
    fn gone(&self, phase: Phase, error: io::Error, place: Span) -> Result<()> {
        if self.device.present() {
            return Ok(());
        }
        Err(self.cx.io_failed(self.device, phase, error, place.offset, place.len))
    }

    fn compare(&self, place: Span, buf: &[u8], seen: &mut Vec<Seen>) {
        if self.data.is_at(place.offset, buf) {
            seen.push(Seen { span: place, found: Found::Right });
            return;
        }
        let from = seen.len();
        let mut offset = place.offset;
        for sector in buf.chunks_exact(SECTOR) {
            let found = match self.data.origin(sector) {
                Some(at) if at == offset => Found::Right,
                Some(at) => Found::From(at),
                None => Found::Lost,
            };
            let span = Span { offset, len: SECTOR as u64 };
            match seen[from..].last_mut() {
                Some(last) if last.continues(found) => last.span.len += span.len,
                // Enough to judge by, and not the memory that a ruined medium could ask for.
                _ if from > RUNS => {
                    seen.push(Seen { span: place, found });
                    return;
                }
                _ => seen.push(Seen { span, found }),
            }
            offset = span.end();
        }
    }
}

impl Seen {
    /// Whether a sector found so, right behind it, is more of the same.
    fn continues(&self, found: Found) -> bool {
        match (self.found, found) {
            (Found::From(first), Found::From(at)) => at == first + self.span.len,
            (one, other) => one == other,
        }
    }
}

/// Places that could not be written.
#[derive(Debug, Default)]
struct Failures(Vec<Span>);

impl Failures {
    fn push(&mut self, place: Span) {
        match self.0.last_mut() {
            Some(last) if last.end() == place.offset => last.len += place.len,
            _ => self.0.push(place),
        }
    }

    fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    fn touch(&self, place: Span) -> bool {
        self.0.iter().any(|span| span.offset < place.end() && place.offset < span.end())
    }
}

/// A stretch in blocks.
fn blocks(span: Span) -> Vec<Span> {
    let starts = (span.offset..span.end()).step_by(usize::try_from(BLOCK).unwrap_or(1));
    starts.map(|offset| Span { offset, len: BLOCK.min(span.end() - offset) }).collect()
}

fn longest(places: &[Span]) -> usize {
    places.iter().map(|place| usize::try_from(place.len).unwrap_or(0)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
