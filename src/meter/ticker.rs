//! The thread that lets rows appear on time while nothing completes. The only place that waits
//! for time to pass, and it waits on a channel, so that it ends at once with its scope.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};

use super::Meter;

/// Often enough for a screen, and a row is late by a fifth of a second at most.
const PERIOD: Duration = Duration::from_millis(200);

/// Runs `work` with `meter` being ticked beside it. A virtual clock gets no ticker: there, time
/// passes only through I/O.
pub fn while_ticking<T>(meter: &Meter, work: impl FnOnce() -> T) -> T {
    if meter.clock.is_virtual() {
        return work();
    }
    let (stop, stopped) = bounded::<()>(0);
    thread::scope(|scope| {
        let ticking = move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                meter.tick();
            }
        };
        // Without the thread rows come later, with the next I/O, and say the same.
        thread::Builder::new().name("ticker".to_owned()).spawn_scoped(scope, ticking).ok();
        // Moved in here so that it is dropped, and the ticker ends, even when `work` panics.
        let _stop = stop;
        work()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{Event, Events, Phase};
    use crate::time::{Clock, SimClock, SystemClock};

    fn progress_during(clock: &Arc<dyn Clock>, wait: Duration) -> (usize, Duration) {
        let (events, received) = Events::channel();
        let meter = Meter::start(Phase::Flush, None, Arc::clone(clock), events);
        let before = clock.now();
        let (_keep, never) = bounded::<()>(0);
        while_ticking(&meter, || never.recv_timeout(wait).unwrap_err());
        let took = clock.now().saturating_sub(before);
        drop(meter);
        (received.try_iter().filter(|e| matches!(e, Event::Progress { .. })).count(), took)
    }

    #[test]
    fn a_real_clock_is_ticked_and_the_ticker_ends_at_once() {
        let wait = Duration::from_millis(1_100);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let (ticks, took) = progress_during(&clock, wait);
        assert!((2..=5).contains(&ticks), "{ticks}");
        // Ending waits for no period; a machine under load gets half a second.
        assert!(took < wait + Duration::from_millis(500), "{took:?}");
    }

    #[test]
    fn a_virtual_clock_is_not_ticked() {
        let wait = Duration::from_millis(450);
        let clock: Arc<dyn Clock> = Arc::new(SimClock::default());
        assert_eq!(progress_during(&clock, wait).0, 0);
    }

    #[test]
    fn a_panic_in_the_work_ends_the_ticker_too() {
        let (events, _received) = Events::channel();
        let meter = Meter::start(Phase::Flush, None, Arc::new(SystemClock::start()), events);
        let work = std::panic::AssertUnwindSafe(|| while_ticking(&meter, || panic!("on purpose")));
        assert!(std::panic::catch_unwind(work).is_err());
    }
}
