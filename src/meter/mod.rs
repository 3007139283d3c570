//! Measures a phase: the clock, the fold and the event sink behind one lock. Every number that a
//! screen, a log or a record shows comes from the rows made here; nobody else measures.
//!
//! Used by all threads of a phase through `&self`. Time is stamped inside the lock, so the order
//! of stamps is the order of the fold, and rows are emitted under the lock, so they arrive in
//! order. The lock is held for well under a microsecond a call, an event goes to an unbounded
//! channel, and I/O is never done under it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::event::notice::Notice;
use crate::event::{Consumed, Event, Events, Phase, PhaseTotals, Sample};
use crate::time::Clock;
use crate::units::Rate;

pub mod io_size;
mod sampler;
pub mod series;
mod slowdown;
mod ticker;

pub use io_size::IoSize;
pub use sampler::{Obs, Sampler};
pub use slowdown::{Slowdown, Slowed};
pub use ticker::while_ticking;

/// Rows that [`Meter::recent_rate`] looks at.
const RECENT: usize = 10;

/// One phase that is being measured. Dropped without [`Meter::finish`], as after an error, it
/// ends the phase all the same: what was measured is reported.
#[derive(Debug)]
pub struct Meter {
    phase: Phase,
    total: Option<u64>,
    clock: Arc<dyn Clock>,
    events: Events,
    io_size: Option<Arc<IoSize>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    sampler: Sampler,
    /// The last full rows.
    recent: VecDeque<Sample>,
    /// Rows of the call that is being made; kept for its allocation.
    fresh: Vec<Sample>,
    source: Option<Consumed>,
    /// Of writes.
    slowdown: Option<Slowdown>,
    ended: bool,
}

impl Meter {
    /// Begins a phase; `total` is its size in bytes when it is known.
    pub fn start(phase: Phase, total: Option<u64>, clock: Arc<dyn Clock>, events: Events) -> Self {
        events.emit(Event::PhaseStarted { phase, total });
        let sampler = Sampler::new(phase, clock.now());
        let writes = matches!(phase, Phase::Write | Phase::TestWrite);
        let state = State {
            sampler,
            recent: VecDeque::new(),
            fresh: Vec::new(),
            source: None,
            slowdown: writes.then(Slowdown::default),
            ended: false,
        };
        Self { phase, total, clock, events, io_size: None, state: Mutex::new(state) }
    }

    /// Lets finished rows lower the size of single I/Os.
    #[must_use]
    pub fn with_io_size(mut self, io_size: Arc<IoSize>) -> Self {
        self.io_size = Some(io_size);
        self
    }

    /// The time; to be taken before an I/O and given to [`Meter::io`] after it.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// An I/O that began at `started` completed just now and moved `bytes` of payload.
    pub fn io(&self, started: Duration, bytes: u64) {
        let mut state = self.lock();
        let end = self.clock.now();
        self.fold(&mut state, Obs::Io { end, took: end.saturating_sub(started), bytes, ios: 1 });
    }

    /// Several I/Os that were taken back together just now; the slowest began at `started`.
    pub fn ios(&self, started: Duration, bytes: u64, ios: u32) {
        let mut state = self.lock();
        let end = self.clock.now();
        self.fold(&mut state, Obs::Io { end, took: end.saturating_sub(started), bytes, ios });
    }

    /// Does an I/O and counts it as `bytes` of payload unless it fails.
    pub fn observe<T, E>(&self, bytes: u64, io: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = self.now();
        let done = io()?;
        self.io(started, bytes);
        Ok(done)
    }

    /// Lets rows that are over appear, and says how far the phase is.
    pub fn tick(&self) {
        let mut state = self.lock();
        let now = self.clock.now();
        self.fold(&mut state, Obs::Tick { now });
        let (phase, bytes, source) = (self.phase, state.sampler.bytes(), state.source);
        self.events.emit(Event::Progress { phase, bytes, source });
    }

    /// How far the file is read that the image is unpacked from; shown with the next tick.
    pub fn consumed(&self, source: Consumed) {
        self.lock().source = Some(source);
    }

    /// Payload bytes so far.
    pub fn bytes(&self) -> u64 {
        self.lock().sampler.bytes()
    }

    /// The speed of the last 10 full rows; before there is one, of the time since the start.
    pub fn recent_rate(&self) -> Rate {
        let state = self.lock();
        if state.recent.is_empty() {
            let took = self.clock.now().saturating_sub(state.sampler.start());
            return Rate::of(state.sampler.bytes(), took);
        }
        let (bytes, nanos) = series::sums(state.recent.iter());
        Rate::of(bytes, Duration::from_nanos(nanos))
    }

    /// Ends the phase.
    pub fn finish(self) -> PhaseTotals {
        self.end()
    }

    fn end(&self) -> PhaseTotals {
        let mut state = self.lock();
        let now = self.clock.now();
        let State { sampler, fresh, ended, .. } = &mut *state;
        let totals = sampler.finish(now, fresh);
        *ended = true;
        self.emit(&mut state);
        self.events.emit(Event::PhaseEnded(totals));
        totals
    }

    fn fold(&self, state: &mut State, obs: Obs) {
        state.sampler.fold(obs, &mut state.fresh);
        self.emit(state);
    }

    /// Emits the fresh rows, and what they say: a smaller size of I/Os, a write that slowed down.
    fn emit(&self, state: &mut State) {
        for row in state.fresh.drain(..) {
            self.events.emit(Event::Sample(row));
            if !series::is_full(&row) {
                continue;
            }
            if state.recent.len() == RECENT {
                state.recent.pop_front();
            }
            state.recent.push_back(row);
            if let Some(size) = self.io_size.as_ref().and_then(|io_size| io_size.feed(&row)) {
                self.events.emit(Event::IoSize { phase: self.phase, bytes: u64::from(size) });
            }
            if let Some(slowed) = state.slowdown.as_mut().and_then(|slowdown| slowdown.feed(&row)) {
                let left = self.total.map(|total| total.saturating_sub(state.sampler.bytes()));
                let Slowed { at_bytes: at, before, after } = slowed;
                self.events.tell(Notice::SlowedDown { at, before, after, left });
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way; a poisoned lock still holds whole numbers.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let ended = self.lock().ended;
        if !ended {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::Receiver;

    use super::*;
    use crate::time::{SimClock, SystemClock};

    const MIB: u64 = 1 << 20;

    fn lab(phase: Phase) -> (Meter, Arc<SimClock>, Receiver<Event>) {
        let clock = Arc::new(SimClock::default());
        let (events, received) = Events::channel();
        (Meter::start(phase, Some(100), clock.clone(), events), clock, received)
    }

    fn write(meter: &Meter, clock: &SimClock, millis: u64, bytes: u64) {
        let started = meter.now();
        clock.advance(Duration::from_millis(millis));
        meter.io(started, bytes);
    }

    #[test]
    fn a_phase_emits_start_rows_and_end_in_order() {
        let (meter, clock, received) = lab(Phase::Write);
        write(&meter, &clock, 400, 10);
        write(&meter, &clock, 2_700, 20);
        meter.tick();
        clock.advance(Duration::from_millis(150));
        let totals = meter.finish();
        let row = |second, nanos, bytes, ios, slowest_nanos, tenth: Option<usize>| {
            let (phase, mut tenths) = (Phase::Write, [0; 10]);
            if let Some(tenth) = tenth {
                tenths[tenth] = bytes;
            }
            Event::Sample(Sample { phase, second, nanos, bytes, ios, slowest_nanos, tenths })
        };
        assert_eq!(
            received.try_iter().collect::<Vec<_>>(),
            [
                Event::PhaseStarted { phase: Phase::Write, total: Some(100) },
                row(0, 1_000_000_000, 10, 1, 400_000_000, Some(3)),
                row(1, 1_000_000_000, 0, 0, 0, None),
                row(2, 1_000_000_000, 0, 0, 0, None),
                Event::Progress { phase: Phase::Write, bytes: 30, source: None },
                row(3, 250_000_000, 20, 1, 2_700_000_000, Some(0)),
                Event::PhaseEnded(totals),
            ]
        );
        assert_eq!((totals.bytes, totals.longest_stall_nanos), (30, 2_700_000_000));
    }

    #[test]
    fn a_meter_dropped_on_an_error_path_still_reports_its_rows_and_end_once() {
        let (meter, clock, received) = lab(Phase::Verify);
        write(&meter, &clock, 1_200, 7);
        drop(meter);
        let seen: Vec<_> = received.try_iter().collect();
        assert_eq!(seen.len(), 4, "{seen:?}");
        assert!(matches!(&seen[3], Event::PhaseEnded(totals) if totals.bytes == 7));

        let (meter, _clock, received) = lab(Phase::Flush);
        meter.finish();
        assert_eq!(received.try_iter().filter(|e| matches!(e, Event::PhaseEnded(_))).count(), 1);
    }

    #[test]
    fn a_failed_io_is_not_counted() {
        let (meter, _clock, _received) = lab(Phase::Write);
        assert_eq!(meter.observe(5, || Err::<(), _>("no")), Err("no"));
        assert_eq!(meter.observe(6, || Ok::<_, ()>(1)), Ok(1));
        assert_eq!(meter.bytes(), 6);
    }

    #[test]
    fn the_recent_rate_forgets_what_is_older_than_ten_seconds() {
        let (meter, clock, _received) = lab(Phase::Write);
        write(&meter, &clock, 500, 50);
        assert!((meter.recent_rate().bytes_per_second - 100.0).abs() < 1e-9);
        write(&meter, &clock, 500, 5_000);
        for _ in 0..11 {
            write(&meter, &clock, 1_000, 30);
        }
        assert!((meter.recent_rate().bytes_per_second - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_slow_device_gets_smaller_ios_and_an_event_says_so() {
        let (meter, clock, received) = lab(Phase::Write);
        let size = Arc::new(IoSize::new(1 << 20));
        let meter = meter.with_io_size(size.clone());
        for _ in 0..7 {
            write(&meter, &clock, 1_000, 2 * MIB);
        }
        assert_eq!(size.get(), 512 << 10);
        let changes = received.try_iter().filter(|e| matches!(e, Event::IoSize { .. }));
        let expected = Event::IoSize { phase: Phase::Write, bytes: 512 << 10 };
        assert_eq!(changes.collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn many_threads_lose_nothing_and_rows_stay_in_order() {
        let (events, received) = Events::channel();
        let clock = Arc::new(SystemClock::start());
        let meter = Meter::start(Phase::Write, None, clock, events);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| meter.io(meter.now(), 3)));
            }
        });
        let totals = meter.finish();
        assert_eq!((totals.bytes, totals.ios), (6_000, 2_000));
        let rows = received.try_iter().filter_map(|event| match event {
            Event::Sample(row) => Some(row),
            _ => None,
        });
        let rows: Vec<_> = rows.collect();
        assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), 6_000);
        assert!((0..).zip(&rows).all(|(second, row)| row.second == second));
    }
}
