//! Statistics over the rows of one phase. Pure.
//!
//! Averages are bytes divided by seconds, never a mean of row speeds: the latter overstates every
//! device that stalls. Percentiles are nearest-rank (the value at rank `ceil(p * n)` of the
//! sorted rows, so always one that was measured) over full rows. The last row of a phase is
//! shorter than a second and says nothing about a second; it counts for percentiles only when it
//! is the only one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::{PhaseTotals, Sample};

const SECOND: u64 = 1_000_000_000;
/// Rows that stand for how fast it goes now.
const REGIME: usize = 10;
/// Seven eighth blocks and the full one.
const BLOCKS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

/// What the rows of a phase say. Speeds in whole bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// All bytes divided by all the time.
    pub mean_bytes_per_s: u64,
    /// Half of the seconds were at most this fast.
    pub median_bytes_per_s: u64,
    /// The slow end: 1 % of the seconds were at most this fast.
    pub p1_bytes_per_s: u64,
    /// The slowest second.
    pub slowest_bytes_per_s: u64,
    /// Which one, counted from 0; the first of several.
    pub slowest_second: u64,
    /// The fastest second.
    pub fastest_bytes_per_s: u64,
    /// Which one, counted from 0; the first of several.
    pub fastest_second: u64,
    /// Rows that the percentiles are made of.
    pub seconds: u64,
    /// How many of them were slower than half the median.
    pub seconds_below_half_median: u64,
    /// In how many of them nothing completed.
    pub seconds_of_nothing: u64,
}

impl Summary {
    /// Sums up a phase.
    pub fn of(totals: &PhaseTotals, rows: &[Sample]) -> Self {
        let mean_bytes_per_s = per_second(totals.bytes, totals.nanos);
        let rows = judged(rows);
        let mut sorted: Vec<u64> = rows.iter().map(speed).collect();
        sorted.sort_unstable();
        let (Some(&slowest), Some(&fastest)) = (sorted.first(), sorted.last()) else {
            return Self { mean_bytes_per_s, ..Self::default() };
        };
        let median = nearest_rank(&sorted, 50);
        let second_of =
            |wanted| rows.iter().find(|row| speed(row) == wanted).map_or(0, |r| r.second);
        let count = |test: &dyn Fn(u64) -> bool| sorted.iter().filter(|s| test(**s)).count() as u64;
        Self {
            mean_bytes_per_s,
            median_bytes_per_s: median,
            p1_bytes_per_s: nearest_rank(&sorted, 1),
            slowest_bytes_per_s: slowest,
            slowest_second: second_of(slowest),
            fastest_bytes_per_s: fastest,
            fastest_second: second_of(fastest),
            seconds: sorted.len() as u64,
            seconds_below_half_median: count(&|speed| u128::from(speed) * 2 < u128::from(median)),
            seconds_of_nothing: count(&|speed| speed == 0),
        }
    }
}

/// Whether the row covers a whole second.
pub fn is_full(row: &Sample) -> bool {
    row.nanos >= SECOND
}

/// Bytes and nanoseconds of these rows together.
pub fn sums<'a>(rows: impl Iterator<Item = &'a Sample>) -> (u64, u64) {
    rows.fold((0, 0), |(bytes, nanos), row| {
        (row.bytes.saturating_add(bytes), row.nanos.saturating_add(nanos))
    })
}

/// The row's speed in whole bytes a second.
pub fn speed(row: &Sample) -> u64 {
    per_second(row.bytes, row.nanos)
}

/// How long `left` bytes will take. The last 10 rows decide alone when they differ from the
/// whole by more than 30 %, as after a cache is full; else all rows do. `None` when nothing is
/// known, or nothing moves.
pub fn time_left(rows: &[Sample], left: u64) -> Option<Duration> {
    if left == 0 {
        return Some(Duration::ZERO);
    }
    let (bytes, nanos) = sums(rows.iter());
    let overall = per_second(bytes, nanos);
    let (bytes, nanos) = sums(rows[rows.len().saturating_sub(REGIME)..].iter());
    let recent = per_second(bytes, nanos);
    let apart = u128::from(recent.abs_diff(overall)) * 10 > u128::from(overall) * 3;
    let speed = if apart { recent } else { overall };
    let nanos = (u128::from(left) * u128::from(SECOND)).checked_div(u128::from(speed))?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// The speeds as `width` block characters or fewer, scaled to the fastest; more speeds than
/// characters are averaged in groups. A group in which nothing moved is `_`.
pub fn sparkline(speeds: &[u64], width: usize) -> String {
    let groups = speeds.len().min(width);
    let bound = |group: usize| group * speeds.len() / groups.max(1);
    let means: Vec<u128> = (0..groups)
        .map(|group| {
            let part = &speeds[bound(group)..bound(group + 1)];
            let sum: u128 = part.iter().map(|speed| u128::from(*speed)).sum();
            // Rounded up, so that only nothing is nothing.
            sum.div_ceil(part.len().max(1) as u128)
        })
        .collect();
    let top = means.iter().copied().max().unwrap_or(0);
    let block = |mean: u128| {
        let level = (mean * BLOCKS.len() as u128).div_ceil(top.max(1));
        let index = usize::try_from(level).ok().and_then(|level| level.checked_sub(1));
        index.and_then(|index| BLOCKS.get(index)).copied().unwrap_or('_')
    };
    means.into_iter().map(block).collect()
}

/// The full rows; when there is none, all of them (one at most).
fn judged(rows: &[Sample]) -> &[Sample] {
    match rows.split_last() {
        Some((last, full)) if !full.is_empty() && !is_full(last) => full,
        _ => rows,
    }
}

/// The value at rank `ceil(percent / 100 * n)` of ascending values; 0 when there is none.
pub fn nearest_rank(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// Bytes a second, rounded; 0 when no time passed.
pub fn per_second(bytes: u64, nanos: u64) -> u64 {
    let half = u128::from(nanos / 2);
    let speed = (u128::from(bytes) * u128::from(SECOND) + half).checked_div(u128::from(nanos));
    speed.map_or(0, |speed| u64::try_from(speed).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;

    fn phase(full: &[u64], partial: Option<(u64, u64)>) -> (PhaseTotals, Vec<Sample>) {
        let row = |second, nanos, bytes| Sample {
            phase: Phase::Write,
            second,
            nanos,
            bytes,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        };
        let mut rows: Vec<_> =
            (0..).zip(full).map(|(second, bytes)| row(second, SECOND, *bytes)).collect();
        rows.extend(partial.map(|(bytes, nanos)| row(rows.len() as u64, nanos, bytes)));
        let (bytes, nanos) = sums(rows.iter());
        let totals = PhaseTotals {
            phase: Phase::Write,
            bytes,
            ios: 0,
            nanos,
            longest_stall_nanos: 0,
            stall_at_nanos: 0,
        };
        (totals, rows)
    }

    fn summary(full: &[u64], partial: Option<(u64, u64)>) -> Summary {
        let (totals, rows) = phase(full, partial);
        Summary::of(&totals, &rows)
    }

    #[test]
    fn a_phase_is_summed_up_over_its_full_rows() {
        let seen = summary(&[40, 0, 100, 100, 49, 120], Some((1, SECOND / 2)));
        let expected = Summary {
            mean_bytes_per_s: 63, // 410 / 6.5
            median_bytes_per_s: 49,
            p1_bytes_per_s: 0,
            slowest_bytes_per_s: 0,
            slowest_second: 1,
            fastest_bytes_per_s: 120,
            fastest_second: 5,
            seconds: 6,
            seconds_below_half_median: 1,
            seconds_of_nothing: 1,
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_lone_partial_row_is_better_than_nothing_and_no_row_is_no_panic() {
        let seen = summary(&[], Some((30, SECOND / 3)));
        assert_eq!((seen.median_bytes_per_s, seen.slowest_bytes_per_s, seen.seconds), (90, 90, 1));
        assert_eq!(summary(&[], None), Summary::default());
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let many: Vec<u64> = (1..=250).collect();
        let seen = summary(&many, None);
        assert_eq!((seen.p1_bytes_per_s, seen.median_bytes_per_s), (3, 125));
        assert_eq!(summary(&[7], None).p1_bytes_per_s, 7);
    }

    #[test]
    fn the_mean_of_the_article_is_what_471_seconds_say() {
        // 8 GiB in 471 s are 17.4 MiB/s, also when 44 % of the seconds show nothing.
        let mut rows = vec![0; 471];
        rows.iter_mut().step_by(2).for_each(|row| *row = (8 << 30) / 236);
        assert_eq!(summary(&rows, None).mean_bytes_per_s >> 10, 17_810);
        assert_eq!(summary(&rows, None).seconds_of_nothing, 235);
    }

    #[test]
    fn huge_numbers_saturate() {
        let (mut totals, rows) = phase(&[u64::MAX, u64::MAX], Some((u64::MAX, 1)));
        totals.nanos = 1;
        let seen = Summary::of(&totals, &rows);
        assert_eq!((seen.mean_bytes_per_s, seen.fastest_bytes_per_s), (u64::MAX, u64::MAX));
    }

    #[test]
    fn the_time_left_follows_the_regime_it_is_in() {
        let slower = [vec![300; 20], vec![100; 10]].concat();
        let slowing = [vec![1_500_000; 20], vec![1_200_000; 10]].concat();
        let stalled = [vec![100; 5], vec![0; 10]].concat();
        for (name, rows, left, expected) in [
            ("nothing known", vec![], 1, None),
            ("nothing left", vec![], 0, Some(0)),
            ("steady", vec![100; 30], 1_000, Some(10_000)),
            ("a little slower: all rows", slowing, 42_000_000, Some(30_000)),
            ("cache full: the last ten alone", slower, 1_000, Some(10_000)),
            ("nothing moves", stalled, 1_000, None),
        ] {
            let seen = time_left(&phase(&rows, None).1, left).map(|time| time.as_millis());
            assert_eq!(seen, expected, "{name}");
        }
    }

    #[test]
    fn a_sparkline_has_one_block_a_second_or_groups_them() {
        for (speeds, width, line) in [
            (vec![], 10, ""),
            (vec![5], 0, ""),
            (vec![0, 1, 50, 100], 10, "_\u{2581}\u{2584}\u{2588}"),
            (vec![0, 0], 10, "__"),
            (vec![100, 100, 0, 0, 50, 50], 3, "\u{2588}_\u{2584}"),
            (vec![u64::MAX, 1], 10, "\u{2588}\u{2581}"),
        ] {
            assert_eq!(sparkline(&speeds, width), line, "{speeds:?}");
        }
    }
}
