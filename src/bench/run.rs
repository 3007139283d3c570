//! Does the steps of a benchmark, each test as a phase of its own.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use nix::sys::resource::{UsageWho, getrusage};

use super::data::{Data, mix};
use super::engine::{Engine, Job, Outcome};
use super::supply::{Supply, Until};
use super::{Plan, Step, write_same};
use crate::device::{BlockDevice, Discard};
use crate::error::{Error, Kind, Result};
use crate::event::measure::{Direction, Measured, Test};
use crate::event::notice::Notice;
use crate::event::{Event, Phase, Span};
use crate::flow::{Context, discard, guard};
use crate::meter::Meter;

/// More than this share of foreign I/O spoils a measurement.
const FOREIGN: f64 = 0.02;
/// Heat changes slowly, and reading a sensor is a command to some drives.
const SENSOR: Duration = Duration::from_secs(10);

/// Runs a benchmark. After `Err` of a plan that destroys, the medium holds parts of its data and
/// nothing that looks like a table.
pub fn run(device: &dyn BlockDevice, plan: &Plan, cx: &Context) -> Result<()> {
    cx.cancel.check()?;
    cx.still_the_same(device)?;
    if plan.destroys {
        guard::clear(device, cx)?;
    }
    if plan.discard {
        let range = Span { offset: 0, len: device.geometry().size };
        let wanted = discard::Plan { range, how: Discard::Trim, budget: None };
        discard::discard(device, &wanted, cx)?;
    }
    device.invalidate_cache().map_err(|e| cx.flush_failed(device, e))?;
    let bench = Bench {
        device,
        plan,
        cx,
        engine: plan.engine.unwrap_or_else(|| Engine::of(device, cx.clock.is_virtual())),
        data: plan.holds_data.then(|| Data::new(mix(plan.seed))),
    };
    let slept = cx.clock.slept();
    let wrong = while_reading_temperature(device, cx, || {
        plan.steps.iter().try_fold(0, |wrong, step| {
            cx.cancel.check()?;
            Ok(wrong + bench.step(step)?)
        })
    })?;
    if cx.clock.slept().saturating_sub(slept) > Duration::from_secs(1) {
        cx.events.tell(Notice::SleptMeasuring);
    }
    if wrong > 0 {
        return Err(Error::new(
            Kind::MediaMismatch,
            format!("{} returned {wrong} blocks that are not what was written", cx.target),
        )
        .hint("do not trust this medium; a full `mediawriter flash` and its report say where"));
    }
    Ok(())
}

/// Reads the device's sensor, where it has one, at the start, every [`SENSOR`] and at the end.
fn while_reading_temperature<T>(
    device: &dyn BlockDevice,
    cx: &Context,
    work: impl FnOnce() -> T,
) -> T {
    let read = || {
        if let Some(milli_celsius) = device.temperature() {
            let at_nanos = u64::try_from(cx.clock.now().as_nanos()).unwrap_or(u64::MAX);
            cx.events.emit(Event::Temperature { at_nanos, milli_celsius });
        }
    };
    if device.temperature().is_none() {
        return work();
    }
    read();
    let (stop, stopped) = bounded::<()>(0);
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            while stopped.recv_timeout(SENSOR) == Err(RecvTimeoutError::Timeout) {
                read();
            }
        });
        let _stop = stop;
        work()
    });
    read();
    done
}

struct Bench<'a> {
    device: &'a dyn BlockDevice,
    plan: &'a Plan,
    cx: &'a Context,
    engine: Engine,
    data: Option<Data>,
}

impl Bench<'_> {
    /// Does a step; how many blocks were wrong.
    fn step(&self, step: &Step) -> Result<u64> {
        let cx = self.cx;
        match step {
            Step::Test { test, until, check } => {
                let span = test.span;
                let now = cx.clock.now();
                let supply = Supply::blocks(test.order, span, test.block, *until, now);
                let total = match until {
                    Until::Bytes(bytes) => Some(*bytes),
                    Until::Time(_) => None,
                };
                self.test(test, supply, total, *check)
            }
            Step::Replay { test, list } => {
                let total = list.iter().map(|piece| piece.len).sum();
                self.test(test, Supply::trace(list), Some(total), false)
            }
            Step::WriteSame { test } => {
                write_same::write_same(self.device, &self.complete(test), cx).map(|()| 0)
            }
            Step::Flush => {
                let flush = || self.device.flush().map_err(|e| cx.flush_failed(self.device, e));
                cx.timed(Phase::Flush, |_| flush()).map(|()| 0)
            }
            Step::Rest(time) => self.rest(*time).map(|()| 0),
        }
    }

    /// The test as it is done here.
    fn complete(&self, test: &Test) -> Test {
        let engine = self.engine.name().to_owned();
        Test { engine, round: self.plan.round, ..test.clone() }
    }

    fn test(
        &self,
        test: &Test,
        supply: Supply<'_>,
        total: Option<u64>,
        check: bool,
    ) -> Result<u64> {
        let (device, cx) = (self.device, self.cx);
        let test = self.complete(test);
        let reads = test.direction == Direction::Read;
        let phase = if reads { Phase::TestRead } else { Phase::TestWrite };
        let data = self.data.as_ref().filter(|_| !reads || check);
        let generator = data.filter(|_| !reads).and_then(|data| data.speed(|| cx.clock.now()));
        let (counted, worked) = (device.kernel_counters(), processor_time());
        let meter = Meter::start(phase, total, cx.clock.clone(), cx.events.clone());
        cx.events.emit(Event::Test { phase, test: test.clone() });
        let job = Job { device, test: &test, engine: self.engine, supply, data, meter: &meter, cx };
        let done = job.run();
        let totals = meter.finish();
        let Outcome { times, checked, wrong } = done?;
        let cpu = processor_time().saturating_sub(worked);
        let witness = counted.zip(device.kernel_counters()).map(|(then, now)| {
            if reads { now.0.wrapping_sub(then.0) } else { now.1.wrapping_sub(then.1) }
        });
        let measured = Measured {
            latency: times.latency(),
            witness_bytes: witness,
            cpu_nanos: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            generator_bytes_per_s: generator,
            checked_blocks: checked,
            wrong_blocks: wrong,
        };
        cx.events.emit(Event::Measured { phase, measured });
        self.judge(&test, totals.bytes, witness, generator, totals.rate().bytes_per_second);
        Ok(wrong)
    }

    /// What spoils a measurement is said at once.
    fn judge(
        &self,
        test: &Test,
        bytes: u64,
        witness: Option<u64>,
        generator: Option<u64>,
        rate: f64,
    ) {
        let events = &self.cx.events;
        if let Some(witness) = witness {
            let apart = witness.abs_diff(bytes) as f64;
            if apart > bytes as f64 * FOREIGN && apart > 1e6 {
                let test = test.name.clone();
                events.tell(Notice::ForeignIo { test, counted: witness, moved: bytes });
            }
        }
        if let Some(generator) = generator
            && (generator as f64) < 3.0 * rate
        {
            events.tell(Notice::Generator { test: test.name.clone(), rate: generator });
        }
    }

    fn rest(&self, time: Duration) -> Result<()> {
        let cx = self.cx;
        // Virtual time passes through I/O alone, and a model has no heat.
        if cx.clock.is_virtual() {
            return Ok(());
        }
        cx.timed(Phase::Rest, |meter| {
            let end = meter.now() + time;
            while meter.now() < end {
                cx.cancel.check()?;
                let left = end.saturating_sub(meter.now()).min(Duration::from_millis(100));
                crossbeam_channel::after(left).recv().ok();
            }
            Ok(())
        })
    }
}

/// User and system time of this process so far.
pub(super) fn processor_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let of = |time: nix::sys::time::TimeVal| {
        let micros = u32::try_from(time.tv_usec()).unwrap_or(0);
        Duration::new(u64::try_from(time.tv_sec()).unwrap_or(0), micros * 1_000)
    };
    of(usage.user_time()) + of(usage.system_time())
}
