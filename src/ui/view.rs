//! What screens show of the phase that is going on: how far, how fast, how long still. Pure.

use std::time::Duration;

use crate::event::{Event, Phase, Sample};
use crate::meter::series;
use crate::units::Rate;

/// The phase that is going on.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) phase: Option<Phase>,
    pub(super) total: Option<u64>,
    pub(super) rows: Vec<Sample>,
    /// Bytes done: of the rows, or of a progress event that is ahead of them.
    pub(super) done: u64,
}

impl View {
    /// Takes any event.
    pub(super) fn on(&mut self, event: &Event) {
        match event {
            Event::PhaseStarted { phase, total } => {
                *self = Self { phase: Some(*phase), total: *total, ..Self::default() };
            }
            Event::Progress { phase, bytes } if self.phase == Some(*phase) => {
                self.done = self.done.max(*bytes);
            }
            Event::Sample(row) if self.phase == Some(row.phase) => {
                self.rows.push(*row);
                self.done = self.done.max(series::sums(self.rows.iter()).0);
            }
            _ => {}
        }
    }

    /// Rounded down and never above 100, whatever was announced.
    pub(super) fn percent(&self) -> Option<u64> {
        let total = self.total?;
        let percent = (u128::from(self.done) * 100).checked_div(u128::from(total));
        Some(percent.map_or(100, |percent| u64::try_from(percent).unwrap_or(100).min(100)))
    }

    /// The speed of the last second.
    pub(super) fn rate(&self) -> Rate {
        self.rows.last().map_or(Rate { bytes_per_second: 0.0 }, Sample::rate)
    }

    /// The speed since the phase began.
    pub(super) fn mean(&self) -> Rate {
        let (bytes, nanos) = series::sums(self.rows.iter());
        Rate::of(bytes, Duration::from_nanos(nanos))
    }

    /// How much time the rows cover.
    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_nanos(series::sums(self.rows.iter()).1)
    }

    /// How long it will take still; nothing when it is done or not known.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let left = self.total?.saturating_sub(self.done);
        if left == 0 {
            return None;
        }
        series::time_left(&self.rows, left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(phase: Phase, bytes: u64) -> Event {
        let second = 0;
        Event::Sample(Sample {
            phase,
            second,
            nanos: 1_000_000_000,
            bytes,
            ios: 1,
            slowest_nanos: 0,
        })
    }

    fn view(total: Option<u64>, events: &[Event]) -> View {
        let mut view = View::default();
        view.on(&Event::PhaseStarted { phase: Phase::Write, total });
        for event in events {
            view.on(event);
        }
        view
    }

    #[test]
    fn the_percentage_is_never_above_100_whatever_was_announced() {
        for (total, done, percent) in [
            (None, 5, None),
            (Some(0), 0, Some(100)),
            (Some(1000), 0, Some(0)),
            (Some(1000), 999, Some(99)),
            (Some(1000), 1000, Some(100)),
            (Some(1000), 1999, Some(100)),
            (Some(1), u64::MAX, Some(100)),
        ] {
            assert_eq!(
                view(total, &[row(Phase::Write, done)]).percent(),
                percent,
                "{total:?} {done}"
            );
        }
    }

    #[test]
    fn progress_runs_ahead_of_rows_and_never_goes_back() {
        let progress = |bytes| Event::Progress { phase: Phase::Write, bytes };
        let seen = view(Some(1000), &[progress(70), row(Phase::Write, 50), progress(60)]);
        assert_eq!((seen.done, seen.percent()), (70, Some(7)));
        assert_eq!(seen.time_left(), Some(Duration::from_millis(18_600)));
    }

    #[test]
    fn other_phases_do_not_count_and_a_new_phase_starts_over() {
        let started = Event::PhaseStarted { phase: Phase::Verify, total: None };
        let events = [row(Phase::Verify, 9), row(Phase::Write, 5), started];
        assert_eq!(view(Some(10), &events[..2]).done, 5);
        let seen = view(Some(10), &events);
        assert_eq!((seen.done, seen.percent(), seen.time_left()), (0, None, None));
    }
}
