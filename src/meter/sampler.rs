//! The fold from completed I/Os to rows of one second. Pure: no clock, no lock, no thread.
//!
//! Row `k` covers the time after `k` seconds up to and including `k + 1` seconds since the phase
//! began, so an I/O that completes exactly on a full second ends the row and never makes a row of
//! no length. Bytes count where their I/O completed: spreading them over the time the I/O took
//! would revise rows that were already shown, and hide stalls. Ticks let a row appear on time
//! while nothing completes; they change no number.
//!
//! ```text
//! seconds   0         1         2         3         4
//! I/Os           a  b                        c      |end
//! rows      |  a + b  |    0    |    0    |    c    |
//! ```

use std::time::Duration;

use crate::event::{Phase, PhaseTotals, Sample};

const SECOND: u64 = 1_000_000_000;
const TENTH: u64 = SECOND / 10;

/// Something that was observed. Times are those of one clock and never go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obs {
    /// An I/O completed.
    Io {
        /// When it completed.
        end: Duration,
        /// From submission to completion.
        took: Duration,
        /// Payload bytes.
        bytes: u64,
        /// How many I/Os it stands for: those of a benchmark are taken back in batches.
        ios: u32,
    },
    /// Time passed.
    Tick {
        /// The time.
        now: Duration,
    },
}

/// One phase on its way to rows.
#[derive(Clone, Debug)]
pub struct Sampler {
    phase: Phase,
    start: Duration,
    /// The row that is being filled.
    row: Sample,
    bytes: u64,
    ios: u64,
    /// When something completed last, in nanoseconds since the start.
    last: u64,
    /// Latest time seen, ticks included.
    latest: u64,
    stall: u64,
    stall_at: u64,
}

impl Sampler {
    /// A phase that begins at `start`.
    pub fn new(phase: Phase, start: Duration) -> Self {
        Self {
            phase,
            start,
            row: empty(phase, 0),
            bytes: 0,
            ios: 0,
            last: 0,
            latest: 0,
            stall: 0,
            stall_at: 0,
        }
    }

    /// Takes one observation; rows that are over now are appended to `rows`.
    pub fn fold(&mut self, obs: Obs, rows: &mut Vec<Sample>) {
        match obs {
            Obs::Tick { now } => {
                self.advance(now, rows);
            }
            Obs::Io { end, took, bytes, ios } => {
                let end = self.advance(end, rows);
                self.gap(end);
                self.last = end;
                self.bytes = self.bytes.saturating_add(bytes);
                self.ios = self.ios.saturating_add(u64::from(ios));
                self.row.bytes = self.row.bytes.saturating_add(bytes);
                // As with rows: a tenth ends with the I/O that completes exactly on its border.
                let tenth = usize::try_from(end.saturating_sub(1) % SECOND / TENTH).unwrap_or(0);
                self.row.tenths[tenth] = self.row.tenths[tenth].saturating_add(bytes);
                self.row.ios = self.row.ios.saturating_add(ios);
                self.row.slowest_nanos = self.row.slowest_nanos.max(nanos(took));
            }
        }
    }

    /// Ends the phase: appends what is left, the last row with its true length, and sums up. A
    /// phase in which no time passed and nothing completed has no rows.
    pub fn finish(&mut self, now: Duration, rows: &mut Vec<Sample>) -> PhaseTotals {
        let end = self.advance(now, rows);
        self.gap(end);
        let left = end - self.row.second * SECOND;
        if left > 0 || self.row.ios > 0 {
            rows.push(Sample { nanos: left, ..self.row });
        }
        PhaseTotals {
            phase: self.phase,
            bytes: self.bytes,
            ios: self.ios,
            nanos: end,
            longest_stall_nanos: self.stall,
            stall_at_nanos: self.stall_at,
        }
    }

    /// Payload bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the phase began.
    pub fn start(&self) -> Duration {
        self.start
    }

    /// Closes the rows before the one that `now` falls into; nanoseconds since the start.
    fn advance(&mut self, now: Duration, rows: &mut Vec<Sample>) -> u64 {
        // A time that goes back is taken as "now": a row that was shown is never revised.
        self.latest = self.latest.max(nanos(now.saturating_sub(self.start)));
        let current = self.latest.saturating_sub(1) / SECOND;
        while self.row.second < current {
            rows.push(Sample { nanos: SECOND, ..self.row });
            self.row = empty(self.phase, self.row.second + 1);
        }
        self.latest
    }

    fn gap(&mut self, end: u64) {
        let gap = end - self.last;
        if gap > self.stall {
            (self.stall, self.stall_at) = (gap, self.last);
        }
    }
}

fn empty(phase: Phase, second: u64) -> Sample {
    Sample { phase, second, nanos: 0, bytes: 0, ios: 0, slowest_nanos: 0, tenths: [0; 10] }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Duration = Duration::from_millis(12_345);

    fn io(at_millis: u64, bytes: u64) -> Obs {
        let took = Duration::from_millis(1 + at_millis % 7);
        Obs::Io { end: START + Duration::from_millis(at_millis), took, bytes, ios: 1 }
    }

    fn run(list: &[Obs], end_millis: u64) -> (Vec<Sample>, PhaseTotals) {
        let mut rows = Vec::new();
        let mut sampler = Sampler::new(Phase::Write, START);
        for obs in list {
            sampler.fold(*obs, &mut rows);
        }
        let totals = sampler.finish(START + Duration::from_millis(end_millis), &mut rows);
        (rows, totals)
    }

    fn bytes_of(rows: &[Sample]) -> Vec<u64> {
        rows.iter().map(|row| row.bytes).collect()
    }

    #[test]
    fn the_drawing_in_the_header_is_what_happens() {
        let (rows, totals) = run(&[io(600, 3), io(900, 4), io(3_500, 5)], 4_000);
        assert_eq!(bytes_of(&rows), [7, 0, 0, 5]);
        assert!(rows.iter().all(|row| row.nanos == SECOND));
        assert_eq!((rows[0].tenths, rows[3].tenths[4]), ([0, 0, 0, 0, 0, 3, 0, 0, 4, 0], 5));
        assert_eq!(rows[0].ios, 2);
        assert_eq!(rows[0].slowest_nanos, 6_000_000);
        assert_eq!((totals.bytes, totals.ios, totals.nanos), (12, 3, 4 * SECOND));
        assert_eq!(
            (totals.longest_stall_nanos, totals.stall_at_nanos),
            (2_600_000_000, 900_000_000)
        );
    }

    #[test]
    fn the_last_row_has_its_true_length() {
        for (end, lengths) in [
            (0, vec![]),
            (1, vec![1_000_000]),
            (999, vec![999_000_000]),
            (1_000, vec![SECOND]),
            (1_001, vec![SECOND, 1_000_000]),
            (2_500, vec![SECOND, SECOND, 500_000_000]),
        ] {
            let (rows, totals) = run(&[], end);
            assert_eq!(rows.iter().map(|row| row.nanos).collect::<Vec<_>>(), lengths, "{end}");
            assert_eq!(totals.nanos, end * 1_000_000);
        }
    }

    #[test]
    fn an_io_on_the_full_second_ends_the_row_even_after_a_tick_at_that_moment() {
        let tick = Obs::Tick { now: START + Duration::from_secs(1) };
        let (rows, _) = run(&[io(500, 1), tick, io(1_000, 2)], 1_000);
        assert_eq!(bytes_of(&rows), [3]);
    }

    #[test]
    fn bytes_that_took_no_time_are_counted_all_the_same() {
        let (rows, totals) = run(&[io(0, 9)], 0);
        assert_eq!(bytes_of(&rows), [9]);
        assert_eq!((rows[0].nanos, totals.bytes, totals.nanos), (0, 9, 0));
    }

    #[test]
    fn the_longest_stall_may_be_at_the_start_between_or_at_the_end() {
        for (list, end, stall, at) in [
            (vec![io(700, 1), io(800, 1)], 900, 700, 0),
            (vec![io(100, 1), io(800, 1)], 900, 700, 100),
            (vec![io(100, 1), io(200, 1)], 900, 700, 200),
            (vec![], 900, 900, 0),
        ] {
            let (_, totals) = run(&list, end);
            let expected = (stall * 1_000_000, at * 1_000_000);
            assert_eq!((totals.longest_stall_nanos, totals.stall_at_nanos), expected);
        }
    }

    #[test]
    fn a_row_appears_as_soon_as_a_tick_is_past_it() {
        let mut rows = Vec::new();
        let mut sampler = Sampler::new(Phase::Verify, START);
        sampler.fold(Obs::Tick { now: START + Duration::from_secs(1) }, &mut rows);
        assert!(rows.is_empty());
        sampler.fold(Obs::Tick { now: START + Duration::from_millis(3_200) }, &mut rows);
        assert_eq!(bytes_of(&rows), [0, 0, 0]);
    }

    /// Distances in milliseconds and sizes; the first is never 0 so that no I/O completes at the
    /// very start.
    fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((1u64..4_000, 0u64..9_000_000), 0..60)
    }

    fn ios(steps: &[(u64, u64)]) -> (Vec<Obs>, u64) {
        let mut at = 0;
        let list = steps.iter().map(|(step, bytes)| {
            at += step;
            io(at, *bytes)
        });
        (list.collect(), steps.iter().map(|(step, _)| step).sum())
    }

    proptest! {
        #[test]
        fn rows_are_contiguous_and_lose_nothing(steps in steps(), tail in 0u64..5_000) {
            let (list, end) = ios(&steps);
            let (rows, totals) = run(&list, end + tail);
            for (second, row) in (0u64..).zip(&rows) {
                prop_assert_eq!(row.second, second);
            }
            let full = rows.len().saturating_sub(1);
            prop_assert!(rows[..full].iter().all(|row| row.nanos == SECOND));
            prop_assert_eq!(rows.iter().map(|row| row.nanos).sum::<u64>(), totals.nanos);
            prop_assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), totals.bytes);
            prop_assert!(rows.iter().all(|row| row.tenths.iter().sum::<u64>() == row.bytes));
            prop_assert_eq!(totals.bytes, steps.iter().map(|(_, bytes)| bytes).sum::<u64>());
            prop_assert_eq!(rows.iter().map(|row| u64::from(row.ios)).sum::<u64>(), totals.ios);
        }

        #[test]
        fn ticks_never_change_a_number(
            steps in steps(),
            ticks in prop::collection::vec(0u64..240_000, 0..80),
        ) {
            let (list, end) = ios(&steps);
            let plain = run(&list, end);
            let mut ticked = list;
            ticked.extend(
                ticks.iter().filter(|at| **at <= end)
                    .map(|at| Obs::Tick { now: START + Duration::from_millis(*at) }),
            );
            // Stable: at the same moment the tick comes after the I/O; the other order is a test above.
            ticked.sort_by_key(|obs| match obs {
                Obs::Io { end, .. } => *end,
                Obs::Tick { now } => *now,
            });
            prop_assert_eq!(run(&ticked, end), plain);
        }

        #[test]
        fn a_stall_of_k_seconds_gives_at_least_k_minus_1_zero_rows(
            steps in steps(), stall in 1u64..40, tail in 1u64..3_000,
        ) {
            let (mut list, end) = ios(&steps);
            let after = end + stall * 1_000;
            list.push(io(after, 1));
            let (rows, totals) = run(&list, after + tail);
            let silent = rows.iter().filter(|row| {
                row.ios == 0 && row.second * 1_000 >= end && (row.second + 1) * 1_000 < after + 1_000
            });
            prop_assert!(silent.count() as u64 >= stall - 1);
            prop_assert!(totals.longest_stall_nanos >= stall * SECOND);
        }
    }
}
