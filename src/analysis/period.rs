//! Periodic stalls: a device that pauses in a rhythm, as when it moves its cache to slower cells.
//! Found by autocorrelation, confirmed by the distances from burst to burst. Pure.

use serde::Serialize;

use super::series::{SECOND, Series, rounded, total, whole};
use super::stats::{longest_run, mean, median, moments};
use crate::meter::series::nearest_rank;

/// Variation of the seconds below which nothing is looked for.
const FLAT: f64 = 0.15;
/// Longest period, seconds.
const LONGEST: f64 = 600.0;
/// Up to this lag tenths of a second are looked at, seconds.
const FINE: f64 = 12.0;
/// Shortest period, seconds.
const SHORTEST: f64 = 1.5;
/// A first burst against the longest later one from which it is a fast start.
const LONG_START: f64 = 1.3;
/// Slow steps within a burst that are noise, against the period.
const DIP: f64 = 1.0 / 15.0;
/// Fast steps between bursts that are noise, against the period.
const BLIP: f64 = 1.0 / 40.0;
/// Seconds that a device may take to come up to speed.
const STARTING: f64 = 3.0;
/// I/Os that a step holds at least: two blocks that take turns with nothing are no rhythm.
const PER_STEP: f64 = 4.0;

/// A rhythm of bursts and slow stretches. Speeds in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Period {
    /// Median distance from burst to burst, nanoseconds.
    pub nanos: u64,
    /// Distance between the quartiles of these distances, nanoseconds.
    pub iqr_nanos: u64,
    /// Bursts that were seen.
    pub bursts: u64,
    /// Share of the time in bursts.
    pub duty: f64,
    /// Speed in bursts: their bytes divided by their time.
    pub burst: u64,
    /// Slow end (p5) of the full seconds between bursts; absent when none fits between them.
    pub floor: Option<u64>,
    /// One I/O block a second: the floor is known no better than this. 0 = block not known.
    pub quantum: u64,
    /// Longest time in which nothing completed, nanoseconds, in whole steps.
    pub longest_gap_nanos: u64,
}

/// Looks for a rhythm. `inflight` bytes are on their way at a time, in blocks of `block` bytes;
/// 0 = not known.
pub(super) fn find(series: &Series, inflight: u64, block: u64) -> Option<Period> {
    let rough = rough(series, inflight)?;
    let turns = Turns::of(series, inflight, rough, 0)?;
    let starts: Vec<usize> =
        (1..turns.high.len()).filter(|&at| turns.high[at] && !turns.high[at - 1]).collect();
    let mut gaps: Vec<u64> =
        starts.windows(2).map(|pair| nanos((pair[1] - pair[0]) as f64 * turns.step)).collect();
    gaps.sort_unstable();
    let floats: Vec<f64> = gaps.iter().map(|&gap| gap as f64).collect();
    let period = median(&floats);
    let iqr = nearest_rank(&gaps, 75) - nearest_rank(&gaps, 25);
    let agrees = (period / 1e9 - rough).abs() <= 0.25 * rough && iqr as f64 <= 0.5 * period;
    if gaps.len() < 2 || !agrees {
        return None;
    }
    let in_bursts = turns.speeds.iter().zip(&turns.high).filter(|(_, high)| **high);
    let in_bursts: Vec<f64> = in_bursts.map(|(speed, _)| *speed).collect();
    let gap = longest_run(series.values(), |&bytes| bytes == 0);
    Some(Period {
        nanos: rounded(period),
        iqr_nanos: iqr,
        bursts: starts.len() as u64,
        duty: in_bursts.len() as f64 / turns.speeds.len() as f64,
        burst: rounded(mean(&in_bursts)),
        floor: floor(series, turns.threshold),
        quantum: block,
        longest_gap_nanos: nanos(gap as f64 * series.step()),
    })
}

/// The step in which a first burst ends that is longer than every later one by far: the device
/// was fast without a pause before its rhythm began. `period` is that of the rhythm, seconds.
pub(super) fn end_of_long_start(series: &Series, inflight: u64, period: f64) -> Option<usize> {
    let turns = Turns::of(series, inflight, period, series.len() / 2)?;
    let runs: Vec<&[bool]> = turns.high.chunk_by(|a, b| a == b).collect();
    let starting = whole(STARTING / turns.step);
    let first = runs.iter().position(|run| run[0])?;
    let before: usize = runs[..first].iter().map(|run| run.len()).sum();
    let later = runs[first + 1..].iter().filter(|run| run[0]).map(|run| run.len()).max()?;
    let long = runs[first].len() as f64 > LONG_START * later as f64;
    let end = (before + runs[first].len()) as f64 * turns.step;
    (long && before <= starting).then(|| series.steps(end - series.step() / 2.0))
}

/// A series as bursts and slow stretches.
struct Turns {
    /// Seconds.
    step: f64,
    speeds: Vec<f64>,
    /// Geometric mean of the slow and the fast end.
    threshold: f64,
    high: Vec<bool>,
}

impl Turns {
    /// The ends are those of the steps from `typical` on.
    fn of(series: &Series, inflight: u64, period: f64, typical: usize) -> Option<Self> {
        let grain = grain(series, inflight).min(period / 8.0);
        let steps = series.steps(grain).max(1);
        let (step, speeds) = (steps as f64 * series.step(), grouped(series, steps));
        let mut sorted: Vec<u64> =
            speeds.get(typical / steps..)?.iter().map(|&speed| rounded(speed)).collect();
        sorted.sort_unstable();
        let (slow, fast) = (nearest_rank(&sorted, 5) as f64, nearest_rank(&sorted, 95) as f64);
        let slow = slow.max(fast / 100.0);
        let threshold = (slow * fast).sqrt();
        let mut high: Vec<bool> = speeds.iter().map(|&speed| speed > threshold).collect();
        let runs = |share: f64| whole(share * period / step);
        without_short(&mut high, false, runs(DIP));
        without_short(&mut high, true, runs(BLIP));
        (fast >= 2.0 * slow && fast > 0.0).then_some(Self { step, speeds, threshold, high })
    }
}

/// The period in seconds by autocorrelation alone.
pub(super) fn rough(series: &Series, inflight: u64) -> Option<f64> {
    let grain = grain(series, inflight);
    let coarse = series.steps(grain.max(1.0));
    let as_bytes: Vec<u64> = grouped(series, coarse).into_iter().map(rounded).collect();
    let (middle, deviation) = moments(&as_bytes);
    if middle <= 0.0 || deviation / middle < FLAT {
        return None;
    }
    let peak = |steps: usize, most: f64| {
        let (step, values) = (steps as f64 * series.step(), grouped(series, steps));
        let lags = whole(most / step).min(values.len() * 2 / 5);
        first_peak(&values, lags).map(|lag| lag * step)
    };
    let fine = if grain < 1.0 { peak(series.steps(grain), FINE) } else { None };
    let found = fine.or_else(|| peak(coarse, LONGEST))?;
    (found >= SHORTEST.max(4.0 * grain)).then_some(found)
}

/// The finest step that still holds several blocks, seconds.
fn grain(series: &Series, inflight: u64) -> f64 {
    let average = series.bytes() as f64 / (series.nanos() as f64 / 1e9).max(1e-9);
    (PER_STEP * inflight as f64 / average.max(1.0)).max(series.step())
}

/// Mean speeds of groups of full steps.
pub(super) fn grouped(series: &Series, steps: usize) -> Vec<f64> {
    let took = steps.max(1) as f64 * series.step();
    series.full().chunks_exact(steps.max(1)).map(|group| total(group) as f64 / took).collect()
}

/// The lag of the first peak of the autocorrelation above 0.3 behind its first zero, when there
/// is another at twice that lag; between two lags by a parabola.
fn first_peak(values: &[f64], lags: usize) -> Option<f64> {
    let middle = mean(values);
    let centred: Vec<f64> = values.iter().map(|value| value - middle).collect();
    let own = centred.iter().map(|value| value * value).sum::<f64>() / centred.len().max(1) as f64;
    let at = |lag: usize| {
        let pairs = centred.iter().zip(centred.get(lag..).unwrap_or_default());
        let count = centred.len().saturating_sub(lag).max(1) as f64;
        pairs.map(|(a, b)| a * b).sum::<f64>() / count / own.max(1e-12)
    };
    // What chance makes of a short series lies below four standard deviations.
    let least = (4.0 / (values.len().max(1) as f64).sqrt()).max(0.3);
    let correlation: Vec<f64> = (0..=lags).map(at).collect();
    let zero = correlation.iter().position(|&r| r <= 0.0)?;
    let start = zero + correlation[zero..].iter().position(|&r| r > least)?;
    let end = start + correlation[start..].iter().position(|&r| r <= least)?;
    let peak = (start..end).max_by(|&a, &b| correlation[a].total_cmp(&correlation[b]))?;
    let again = (2 * peak).saturating_sub(peak / 10)..=2 * peak + peak / 10;
    if !again.into_iter().any(|lag| lag < values.len() && at(lag) > 0.15) {
        return None;
    }
    let (left, top, right) = (at(peak - 1), correlation[peak], at(peak + 1));
    let bend = left - 2.0 * top + right;
    let shift = if bend < 0.0 { 0.5 * (left - right) / bend } else { 0.0 };
    Some(peak as f64 + shift.clamp(-0.5, 0.5))
}

/// Takes inner runs of `state` with at most `short` steps for what is around them.
pub(super) fn without_short(states: &mut [bool], state: bool, short: usize) {
    let mut start = 0;
    while start < states.len() {
        let len = states[start..].iter().take_while(|&&other| other == states[start]).count();
        let inside = start > 0 && start + len < states.len();
        if states[start] == state && inside && len <= short {
            states[start..start + len].fill(!state);
        }
        start += len;
    }
}

/// The slow end of the full seconds below the threshold.
fn floor(series: &Series, threshold: f64) -> Option<u64> {
    let seconds = series.seconds();
    let slow = seconds.full().iter().copied().filter(|&speed| (speed as f64) < threshold);
    let mut slow: Vec<u64> = slow.collect();
    slow.sort_unstable();
    (!slow.is_empty()).then(|| nearest_rank(&slow, 5))
}

/// Seconds as nanoseconds.
pub(super) fn nanos(seconds: f64) -> u64 {
    rounded(seconds * SECOND as f64)
}
