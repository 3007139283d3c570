//! Times of single I/Os in a histogram with three significant digits (HdrHistogram).

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::event::measure::Latency;

/// Longer I/Os count as this long: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Bins of the distribution in a record, per factor of two.
const BINS: u32 = 8;

/// The times of the I/Os so far.
#[derive(Clone, Debug)]
pub(super) struct Times(Option<Histogram<u64>>);

impl Times {
    pub(super) fn new() -> Self {
        // From 64 ns: no I/O is faster, and the histogram stays small.
        Self(Histogram::new_with_bounds(64, LONGEST, 3).ok())
    }

    pub(super) fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(LONGEST);
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(nanos.min(LONGEST));
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        if let (Some(own), Some(other)) = (&mut self.0, &other.0) {
            // Fails only for a histogram with other bounds.
            own.add(other).ok();
        }
    }

    /// `None` without any I/O.
    pub(super) fn latency(&self) -> Option<Latency> {
        let histogram = self.0.as_ref().filter(|histogram| !histogram.is_empty())?;
        let at = |quantile| histogram.value_at_quantile(quantile);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an hour at most"
        )]
        let mean_nanos = histogram.mean() as u64;
        Some(Latency {
            count: histogram.len(),
            mean_nanos,
            min_nanos: histogram.min(),
            p50_nanos: at(0.5),
            p90_nanos: at(0.9),
            p95_nanos: at(0.95),
            p99_nanos: at(0.99),
            p999_nanos: at(0.999),
            p9999_nanos: at(0.9999),
            max_nanos: histogram.max(),
            bins: bins(histogram),
        })
    }
}

/// The distribution on a logarithmic scale, [`BINS`] to a factor of two.
fn bins(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut bins: Vec<(u64, u64)> = Vec::new();
    for step in histogram.iter_recorded() {
        let bound = bound(step.value_iterated_to());
        match bins.last_mut() {
            Some(last) if last.0 == bound => last.1 += step.count_since_last_iteration(),
            _ => bins.push((bound, step.count_since_last_iteration())),
        }
    }
    bins
}

/// The smallest bound of a bin that is not below `nanos`: 2^k, and 8 equal steps to 2^(k+1).
fn bound(nanos: u64) -> u64 {
    let floor = nanos.max(u64::from(BINS)).ilog2();
    let step = (1u64 << floor) / u64::from(BINS);
    nanos.next_multiple_of(step.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_keep_three_digits_and_bins_lose_nothing() {
        let mut times = Times::new();
        for micros in 1..=10_000 {
            times.add(Duration::from_micros(micros));
        }
        let mut other = Times::new();
        other.add(Duration::from_secs(7_200));
        times.join(&other);
        let seen = times.latency().unwrap();
        assert_eq!(seen.count, 10_001);
        for (value, micros) in [(seen.p50_nanos, 5_001), (seen.p99_nanos, 9_901)] {
            let wanted = micros * 1_000;
            assert!(value.abs_diff(wanted) * 1_000 <= wanted, "{value} {wanted}");
        }
        assert!(seen.max_nanos >= LONGEST && seen.min_nanos <= 1_000);
        assert_eq!(seen.bins.iter().map(|bin| bin.1).sum::<u64>(), 10_001);
        assert!(seen.bins.is_sorted() && seen.bins.len() < 200, "{}", seen.bins.len());
    }

    #[test]
    fn nothing_has_no_latency() {
        assert_eq!(Times::new().latency(), None);
    }

    #[test]
    fn bounds_are_never_below_and_close() {
        for nanos in (1..5_000_000).step_by(977) {
            let bound = bound(nanos);
            assert!(bound >= nanos && bound <= nanos + nanos / 8 + 1, "{nanos} {bound}");
        }
    }
}
