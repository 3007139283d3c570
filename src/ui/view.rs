//! What screens show of the phase that is going on: how far, how fast, how long still. Pure.

use std::time::Duration;

use crate::event::{Consumed, Event, Phase, Sample};
use crate::meter::series;
use crate::units::{Bytes, Rate, spoken};

/// The phase that is going on.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) phase: Option<Phase>,
    pub(super) total: Option<u64>,
    pub(super) rows: Vec<Sample>,
    /// Bytes done: of the rows, or of a progress event that is ahead of them.
    pub(super) done: u64,
    /// How much of a compressed file was read.
    pub(super) source: Option<Consumed>,
}

impl View {
    /// Takes any event.
    pub(super) fn on(&mut self, event: &Event) {
        match event {
            Event::PhaseStarted { phase, total } => {
                *self = Self { phase: Some(*phase), total: *total, ..Self::default() };
            }
            Event::Progress { phase, bytes, source } if self.phase == Some(*phase) => {
                self.done = self.done.max(*bytes);
                self.source = source.or(self.source);
            }
            Event::Sample(row) if self.phase == Some(row.phase) => {
                self.rows.push(*row);
                self.done = self.done.max(series::sums(self.rows.iter()).0);
            }
            _ => {}
        }
    }

    /// How far it is, and where the end lies: in the image, or, where its size is not known, in the
    /// compressed file.
    pub(super) fn way(&self) -> Option<(u64, u64)> {
        let packed = || self.source.and_then(|source| Some((source.done, source.total?)));
        self.total.map(|total| (self.done, total)).or_else(packed)
    }

    /// Rounded down and never above 100, whatever was announced.
    pub(super) fn percent(&self) -> Option<u64> {
        let (done, total) = self.way()?;
        let percent = (u128::from(done) * 100).checked_div(u128::from(total));
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

    /// Time since the phase began, bytes done, speed of this second, speed of the phase, time left.
    pub(super) fn row(&self) -> String {
        let (elapsed, done) = (self.elapsed().as_secs_f64(), Bytes(self.done).binary());
        if self.done == 0 && self.way().is_none() {
            return format!("{elapsed:>7.1} s");
        }
        let of = match (self.total, self.percent()) {
            (Some(total), Some(percent)) => {
                format!(" of {}  {percent:>3} %", Bytes(total).binary())
            }
            // The image's size is not known; the file's is.
            (None, Some(percent)) => format!("  {percent:>3} % of the file"),
            _ => String::new(),
        };
        let left =
            self.time_left().map(|left| format!("  ETA {}", spoken(left))).unwrap_or_default();
        let (rate, mean) = (self.rate(), self.mean().decimal());
        format!("{elapsed:>7.1} s  {done:>10}{of}  {rate}  mean {mean}{left}")
    }

    /// The same for whoever asks in between.
    pub(super) fn state(&self) -> String {
        match self.phase {
            Some(phase) => format!("state: {:<8} {}", phase.name(), self.row()),
            None => "state: no phase has begun".to_owned(),
        }
    }

    /// How long it will take still; nothing when it is done or not known.
    pub(super) fn time_left(&self) -> Option<Duration> {
        let (done, total) = self.way()?;
        let left = total.saturating_sub(done);
        if left == 0 {
            return None;
        }
        if self.total.is_some() {
            return series::time_left(&self.rows, left);
        }
        // What is left of the file takes as long as what was read of it did: rows know only the
        // image. Nothing is said in the first second, and while nothing was read.
        let elapsed = self.elapsed();
        let ratio = left as f64 / done as f64;
        (done > 0 && !elapsed.is_zero() && ratio < 1e6).then(|| elapsed.mul_f64(ratio))
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
            tenths: [0; 10],
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
        let progress = |bytes| Event::Progress { phase: Phase::Write, bytes, source: None };
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

    #[test]
    fn where_the_image_has_no_size_the_file_says_how_far_it_is() {
        let source = |done| Event::Progress {
            phase: Phase::Write,
            bytes: 600,
            source: Some(Consumed { done, total: Some(400) }),
        };
        let seen = view(None, &[row(Phase::Write, 500), source(100)]);
        assert_eq!((seen.done, seen.percent()), (600, Some(25)));
        assert_eq!(seen.time_left(), Some(Duration::from_secs(3)));
        let seen = view(None, &[row(Phase::Write, 500), source(400)]);
        assert_eq!((seen.percent(), seen.time_left()), (Some(100), None));
        let seen = view(None, &[source(0)]);
        assert_eq!((seen.percent(), seen.time_left()), (Some(0), None));
        // The image's own size is the better measure.
        assert_eq!(view(Some(1200), &[source(100)]).percent(), Some(50));
        let unknown = Consumed { done: 5, total: None };
        let source = Event::Progress { phase: Phase::Write, bytes: 1, source: Some(unknown) };
        assert_eq!(view(None, &[source]).percent(), None);
    }
}
