//! The write test that changes nothing: stretches are read, then written back as they were. The
//! two halves are two phases whose clocks stand still while the other one works, so each has its
//! own rows, as if it had been alone.
//!
//! A power failure in the middle of a block is a risk that every write has; a signal is taken only
//! between stretches, when the medium holds what it held.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::latency::Times;
use super::run::processor_time;
use crate::device::{BlockDevice, full};
use crate::error::Result;
use crate::event::measure::{Direction, Measured, Test};
use crate::event::{Event, Phase};
use crate::flow::Context;
use crate::meter::Meter;
use crate::sys::buffer::AlignedBuf;
use crate::time::Clock;
use crate::units::MIB;

/// Bytes that are read before they are written back: long enough that the change between the two
/// is not what is measured.
const STRETCH: u64 = 32 * MIB;

/// A clock that can be stopped.
#[derive(Debug)]
struct StopWatch {
    inner: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Time that passed while it ran, up to `since`.
    passed: Duration,
    /// When it was started last; `None` while it stands.
    since: Option<Duration>,
}

impl StopWatch {
    fn stopped(inner: Arc<dyn Clock>) -> Self {
        Self { inner, state: Mutex::new(State { passed: Duration::ZERO, since: None }) }
    }

    fn while_running<T>(&self, work: impl FnOnce() -> T) -> T {
        self.lock().since = Some(self.inner.now());
        let done = work();
        let mut state = self.lock();
        if let Some(since) = state.since.take() {
            state.passed += self.inner.now().saturating_sub(since);
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for StopWatch {
    fn now(&self) -> Duration {
        let state = self.lock();
        let running = state.since.map_or(Duration::ZERO, |s| self.inner.now().saturating_sub(s));
        state.passed + running
    }

    fn is_virtual(&self) -> bool {
        self.inner.is_virtual()
    }
}

/// One half of the work.
struct Half {
    phase: Phase,
    clock: Arc<StopWatch>,
    meter: Meter,
    times: Times,
    counted: Option<(u64, u64)>,
}

impl Half {
    fn begin(device: &dyn BlockDevice, test: &Test, cx: &Context) -> Self {
        let reads = test.direction == Direction::Read;
        let phase = if reads { Phase::TestRead } else { Phase::TestWrite };
        let clock = Arc::new(StopWatch::stopped(Arc::clone(&cx.clock)));
        let meter = Meter::start(phase, Some(test.span.len), clock.clone(), cx.events.clone());
        cx.events.emit(Event::Test { phase, test: test.clone() });
        Self { phase, clock, meter, times: Times::new(), counted: device.kernel_counters() }
    }

    /// One I/O of `bytes`.
    fn io(&mut self, bytes: u64, io: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let started = self.meter.now();
        self.meter.observe(bytes, io)?;
        self.times.add(self.meter.now().saturating_sub(started));
        Ok(())
    }

    fn end(self, device: &dyn BlockDevice, cpu: Duration, cx: &Context) {
        let reads = self.phase == Phase::TestRead;
        self.meter.finish();
        let witness = self.counted.zip(device.kernel_counters()).map(|(then, now)| {
            if reads { now.0.wrapping_sub(then.0) } else { now.1.wrapping_sub(then.1) }
        });
        let measured = Measured {
            latency: self.times.latency(),
            witness_bytes: witness,
            cpu_nanos: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            ..Measured::default()
        };
        cx.events.emit(Event::Measured { phase: self.phase, measured });
    }
}

/// Reads and writes back the span of `test`, one I/O at a time.
pub(super) fn write_same(device: &dyn BlockDevice, test: &Test, cx: &Context) -> Result<()> {
    let test = Test { queue_depth: 1, ..test.clone() };
    let reads =
        Test { direction: Direction::Read, name: format!("{}-read", test.name), ..test.clone() };
    let (span, block) = (test.span, test.block);
    let worked = processor_time();
    let mut reading = Half::begin(device, &reads, cx);
    let mut writing = Half::begin(device, &test, cx);
    let stretch = STRETCH.max(block) / block * block;
    let mut buf = AlignedBuf::zeroed(usize::try_from(stretch).unwrap_or(0));
    let mut at = span.offset;
    while at < span.end() {
        cx.cancel.check()?;
        let len = usize::try_from(stretch.min(span.end() - at)).unwrap_or(0);
        let step = usize::try_from(block).unwrap_or(len).max(1);
        let clock = Arc::clone(&reading.clock);
        clock.while_running(|| {
            for (index, piece) in buf[..len].chunks_mut(step).enumerate() {
                let offset = at + (index * step) as u64;
                let bytes = piece.len() as u64;
                reading
                    .io(bytes, || full::read_full(device, offset, piece))
                    .map_err(|e| cx.io_failed(device, Phase::TestRead, e, offset, bytes))?;
            }
            reading.meter.tick();
            Result::Ok(())
        })?;
        let clock = Arc::clone(&writing.clock);
        clock.while_running(|| {
            for (index, piece) in buf[..len].chunks(step).enumerate() {
                let offset = at + (index * step) as u64;
                let bytes = piece.len() as u64;
                writing
                    .io(bytes, || full::write_full(device, offset, piece))
                    .map_err(|e| cx.io_failed(device, Phase::TestWrite, e, offset, bytes))?;
            }
            writing.meter.tick();
            Result::Ok(())
        })?;
        at += len as u64;
    }
    let cpu = processor_time().saturating_sub(worked) / 2;
    reading.end(device, cpu, cx);
    writing.end(device, cpu, cx);
    cx.timed(Phase::Flush, |_| device.flush().map_err(|e| cx.flush_failed(device, e)))
}
