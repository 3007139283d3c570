//! Statistics over a series. The mean is bytes divided by seconds, never a mean of speeds. All
//! other figures are over full seconds; percentiles are nearest-rank (the value at rank
//! `ceil(p * n)` of the sorted seconds, so always one that was measured), p1 is the slow end. Pure.

use serde::Serialize;

use super::series::{Series, rounded};
use crate::meter::series::{nearest_rank, per_second};

/// What the seconds of a series say. Speeds in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// All bytes divided by all the time.
    pub mean: u64,
    /// The slowest full second.
    pub min: u64,
    /// 1 % of the seconds were at most this fast.
    pub p1: u64,
    /// 5 %.
    pub p5: u64,
    /// 50 %.
    pub median: u64,
    /// 95 %.
    pub p95: u64,
    /// 99 %.
    pub p99: u64,
    /// The fastest full second.
    pub max: u64,
    /// Standard deviation of the full seconds (n - 1).
    pub stddev: u64,
    /// Standard deviation divided by the mean of the full seconds; 0 with fewer than two.
    pub cov: f64,
    /// Full seconds.
    pub seconds: u64,
    /// How many of them were slower than half the median.
    pub below_half: u64,
    /// Slower than a quarter of it.
    pub below_quarter: u64,
    /// Slower than a tenth of it.
    pub below_tenth: u64,
    /// In how many of them nothing completed.
    pub no_progress: u64,
    /// The longest run of steps in which nothing completed. Nanoseconds, in whole steps.
    pub longest_no_progress_nanos: u64,
    /// Share of the bytes that moved in the fastest tenth of the seconds: 0.1 of a flat series.
    pub burstiness: f64,
}

impl Stats {
    /// Sums up a series.
    pub fn of(series: &Series) -> Self {
        let seconds = series.seconds();
        let mut sorted = seconds.full().to_vec();
        sorted.sort_unstable();
        let mean = per_second(series.bytes(), series.nanos());
        let longest = longest_run(series.values(), |&bytes| bytes == 0);
        let longest_no_progress_nanos = rounded(longest as f64 * series.step() * 1e9);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self { mean, longest_no_progress_nanos, ..Self::default() };
        };
        let rank = |percent| nearest_rank(&sorted, percent);
        let median = rank(50);
        let below = |share: u64| {
            let slow =
                sorted.iter().filter(|&&s| u128::from(s) * u128::from(share) < median.into());
            slow.count() as u64
        };
        let (own_mean, stddev) = moments(&sorted);
        let fastest = &sorted[sorted.len() - sorted.len().div_ceil(10)..];
        let sum = |speeds: &[u64]| speeds.iter().map(|&speed| speed as f64).sum::<f64>();
        Self {
            mean,
            min,
            p1: rank(1),
            p5: rank(5),
            median,
            p95: rank(95),
            p99: rank(99),
            max,
            stddev: rounded(stddev),
            cov: if own_mean > 0.0 { stddev / own_mean } else { 0.0 },
            seconds: sorted.len() as u64,
            below_half: below(2),
            below_quarter: below(4),
            below_tenth: below(10),
            no_progress: sorted.iter().filter(|&&speed| speed == 0).count() as u64,
            longest_no_progress_nanos,
            burstiness: if max > 0 { sum(fastest) / sum(&sorted) } else { 0.0 },
        }
    }
}

/// Mean and standard deviation (n - 1) of values; 0 where there are too few.
pub(super) fn moments(values: &[u64]) -> (f64, f64) {
    let floats: Vec<f64> = values.iter().map(|&value| value as f64).collect();
    let mean = mean(&floats);
    let squares: f64 = floats.iter().map(|value| (value - mean).powi(2)).sum();
    let count = floats.len();
    (mean, if count < 2 { 0.0 } else { (squares / (count - 1) as f64).sqrt() })
}

/// The mean of values; 0 of none.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The middle value, of an even number the mean of the two; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.get(half) {
        Some(&upper) if sorted.len().is_multiple_of(2) => f64::midpoint(sorted[half - 1], upper),
        Some(&middle) => middle,
        None => 0.0,
    }
}

/// Length of the longest run of values that pass.
pub(super) fn longest_run<T>(values: &[T], passes: impl Fn(&T) -> bool) -> usize {
    values.split(|value| !passes(value)).map(<[T]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_a_small_series_is_the_one_computed_by_hand() {
        let seconds = vec![100, 100, 100, 100, 100, 100, 100, 49, 24, 0];
        let seen = Stats::of(&Series::per_second([seconds, vec![50]].concat(), 500_000_000));
        assert_eq!(seen.mean, 78); // 823 / 10.5
        assert_eq!((seen.min, seen.p1, seen.p5, seen.median), (0, 0, 0, 100));
        assert_eq!((seen.p95, seen.p99, seen.max, seen.seconds), (100, 100, 100, 10));
        assert_eq!((seen.below_half, seen.below_quarter, seen.below_tenth), (3, 2, 1));
        assert_eq!((seen.no_progress, seen.longest_no_progress_nanos), (1, 1_000_000_000));
        assert_eq!(seen.stddev, 38);
        assert!((seen.cov - 0.496).abs() < 0.001, "{}", seen.cov);
        assert!((seen.burstiness - 100.0 / 773.0).abs() < 1e-9);
    }

    #[test]
    fn the_longest_gap_is_measured_in_tenths_where_there_are_some() {
        let mut tenths = vec![5; 40];
        tenths[3..19].fill(0);
        let seen = Stats::of(&Series::per_tenth(tenths, 100_000_000));
        assert_eq!(seen.longest_no_progress_nanos, 1_600_000_000);
        assert_eq!(seen.no_progress, 0, "no whole second was empty: 0.3 s to 1.9 s");
    }

    #[test]
    fn too_few_seconds_give_zeros_and_no_panic() {
        assert_eq!(Stats::of(&Series::per_second(vec![], 0)), Stats::default());
        let seen = Stats::of(&Series::per_second(vec![30], 500_000_000));
        assert_eq!((seen.mean, seen.seconds, seen.median), (60, 0, 0));
        let huge = Stats::of(&Series::per_second(vec![u64::MAX; 3], 1_000_000_000));
        assert_eq!(huge.max, u64::MAX);
    }
}
