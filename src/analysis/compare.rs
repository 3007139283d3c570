//! Whether two sets of repeated runs differ: the ratio of their medians with a 95 % interval from
//! 2,000 bootstrap resamples (Efron 1979, percentile method) and a fixed seed, so that the same
//! runs give the same text. Outliers by the median absolute deviation. Pure.

use std::fmt;

use serde::Serialize;

use super::series::whole;
use super::stats::median;

const RESAMPLES: usize = 2_000;
/// Runs of each that a claim needs.
pub const FEWEST: usize = 3;
/// Median absolute deviations (times 1.4826, which makes them standard deviations of Gaussian
/// values) from the median beyond which a run is an outlier.
const OUTLIER: f64 = 5.0;

/// New against base.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Median of the new runs divided by that of the base.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Comparison {
    /// Whether the interval leaves 1 out.
    pub fn differs(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ratio, low, high } = self;
        if !self.differs() {
            f.write_str("no measurable difference: ")?;
        }
        write!(f, "{ratio:.3} times (95 % interval {low:.3} to {high:.3})")
    }
}

/// Compares values of repeated runs. `None` with fewer than [`FEWEST`] of each, or when the base
/// has a median of 0.
pub fn compare(base: &[f64], new: &[f64]) -> Option<Comparison> {
    let middle = median(base);
    if base.len() < FEWEST || new.len() < FEWEST || middle <= 0.0 {
        return None;
    }
    let mut random = Random::new(42);
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let below = median(&random.resample(base));
            median(&random.resample(new)) / below
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let rank = |share: f64| ratios[whole(share * RESAMPLES as f64).min(RESAMPLES - 1)];
    Some(Comparison { ratio: median(new) / middle, low: rank(0.025), high: rank(0.975) })
}

/// Which values lie far from the others; none of fewer than [`FEWEST`].
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let middle = median(values);
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    // Values that agree to all digits would make the smallest difference an outlier.
    let scale = (1.4826 * median(&away)).max(middle.abs() * 1e-3);
    if values.len() < FEWEST || scale == 0.0 {
        return Vec::new();
    }
    (0..values.len()).filter(|&at| away[at] / scale > OUTLIER).collect()
}

/// splitmix64.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// As many values, drawn with replacement.
    fn resample(&mut self, values: &[f64]) -> Vec<f64> {
        let mut draw = || {
            let index = (u128::from(self.next()) * values.len() as u128) >> 64;
            values[usize::try_from(index).unwrap_or(0)]
        };
        (0..values.len()).map(|_| draw()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_differ_have_an_interval_without_one() {
        let seen = compare(&[100.0, 101.0, 99.0, 100.5], &[150.0, 151.0, 149.5, 152.0]).unwrap();
        assert!(seen.differs() && seen.low < seen.ratio && seen.ratio < seen.high);
        assert!((seen.ratio - 1.502).abs() < 0.001, "{seen}");
        assert!((1.47..1.53).contains(&seen.low) && (1.47..1.54).contains(&seen.high), "{seen}");
        let told = seen.to_string();
        assert!(
            told.starts_with("1.501 times (95 % interval 1.4") || told.starts_with("1.502"),
            "{told}"
        );
    }

    #[test]
    fn runs_that_scatter_alike_show_no_measurable_difference() {
        let seen = compare(&[100.0, 110.0, 95.0, 104.0, 99.0], &[103.0, 97.0, 108.0, 101.0, 99.0]);
        assert!(seen.unwrap().to_string().starts_with("no measurable difference: "));
        let same = compare(&[7.0; 3], &[7.0; 3]).unwrap();
        assert_eq!((same.low, same.high, same.differs()), (1.0, 1.0, false));
    }

    #[test]
    fn false_differences_are_as_rare_as_the_interval_says() {
        let mut random = Random::new(7);
        let mut draw = || -> Vec<f64> {
            let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
            (0..10).map(|_| 100.0 + (0..12).map(|_| unit(random.next())).sum::<f64>()).collect()
        };
        let wrong = (0..300).filter(|_| compare(&draw(), &draw()).unwrap().differs()).count();
        // 5 % are 15; twice that is beyond chance.
        assert!(wrong < 30, "{wrong} of 300");
    }

    #[test]
    fn too_few_runs_and_nothing_as_base_give_no_claim() {
        assert_eq!(compare(&[1.0, 2.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(compare(&[0.0; 3], &[1.0; 3]), None);
        assert_eq!(outliers(&[1.0, 9.0]), [0; 0]);
    }

    #[test]
    fn one_run_far_from_the_others_is_an_outlier() {
        assert_eq!(outliers(&[23.1, 23.0, 23.2, 31.0, 22.9]), [3]);
        assert_eq!(outliers(&[23.1, 23.0, 23.2, 22.8, 22.9]), [0; 0]);
        assert_eq!(outliers(&[23.0, 23.0, 23.0, 23.001]), [0; 0]);
        assert_eq!(outliers(&[0.0, 0.0, 0.0, 0.0]), [0; 0]);
    }
}
