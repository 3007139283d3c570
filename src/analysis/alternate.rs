//! Alternation: a device that goes back and forth between two speeds and stays for tens of
//! seconds with each, as one does that throttles when it is hot and recovers. Pure.

use serde::Serialize;

use super::period::{nanos, without_short};
use super::series::{Series, rounded};
use super::stats::{mean, median};

/// Seconds that a speed is kept at least; shorter ones are stalls.
const DWELL: f64 = 10.0;
/// The slower speed against the faster one: nearer is one regime, farther apart is a stall.
const RATIO: std::ops::Range<f64> = 0.15..0.85;
/// Stretches of both speeds that are seen at least.
const STRETCHES: usize = 7;
/// Standard deviation around the two levels against their distance. Gaussian noise that is cut
/// in two has 0.38, a straight ramp 0.29.
const TIGHT: f64 = 0.32;
/// Seconds of the running median that takes out single stalls.
const SMOOTH: usize = 5;

/// Two speeds that take turns. Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alternation {
    /// The faster speed.
    pub fast: u64,
    /// The slower speed.
    pub slow: u64,
    /// Median time with the faster one, nanoseconds.
    pub fast_nanos: u64,
    /// Median time with the slower one, nanoseconds.
    pub slow_nanos: u64,
    /// Stretches of both that were seen.
    pub stretches: u64,
}

/// Looks for it in the seconds of a series.
pub(super) fn find(series: &Series) -> Option<Alternation> {
    let seconds = series.seconds();
    let speeds: Vec<f64> = seconds.full().iter().map(|&bytes| (bytes as f64).max(1.0)).collect();
    let logs: Vec<f64> = speeds.windows(SMOOTH).map(|near| median(near).log2()).collect();
    let threshold = two_levels(&logs)?;
    let mut high: Vec<bool> = logs.iter().map(|&log| log > threshold).collect();
    without_short(&mut high, false, SMOOTH);
    without_short(&mut high, true, SMOOTH);
    let of = |state: bool| {
        let kept = logs.iter().zip(&high).filter(|(_, high)| **high == state);
        kept.map(|(log, _)| *log).collect::<Vec<f64>>()
    };
    let (fast, slow) = (of(true), of(false));
    let (fast_level, slow_level) = (mean(&fast), mean(&slow));
    let distance = fast_level - slow_level;
    // A faster rhythm that beats with the running median is at neither level.
    let between = speeds[SMOOTH / 2..].iter().zip(&high).filter(|(speed, high)| {
        let level = if **high { fast_level } else { slow_level };
        (speed.log2() - level).abs() > distance / 2.0
    });
    let honest = between.count() * 5 < high.len();
    let error =
        |logs: &[f64], level: f64| logs.iter().map(|log| (log - level).powi(2)).sum::<f64>();
    let errors = error(&fast, fast_level) + error(&slow, slow_level);
    let deviation = (errors / logs.len().max(1) as f64).sqrt();
    let stays = stays(&high);
    let of = |state: bool| {
        let kept = stays.iter().filter(|(high, _)| *high == state);
        kept.map(|(_, seconds)| *seconds).collect::<Vec<f64>>()
    };
    let (fast_stays, slow_stays) = (of(true), of(false));
    let regular = |stays: &[f64]| {
        let middle = mean(stays);
        let spread = stays.iter().map(|stay| (stay - middle).powi(2)).sum::<f64>();
        stays.len() >= 2
            && median(stays) >= DWELL
            && (spread / (stays.len() - 1) as f64).sqrt() < 0.5 * middle
    };
    // A slope that crosses the border in noise flickers there; two speeds take turns all along.
    let turning: f64 = stays.iter().map(|(_, seconds)| seconds).sum();
    // The first and the last stretch are cut off, and not among them.
    let found = stays.len() + 2 >= STRETCHES
        && RATIO.contains(&(-distance).exp2())
        && deviation < TIGHT * distance
        && turning > logs.len() as f64 / 2.0
        && regular(&fast_stays)
        && regular(&slow_stays)
        && honest;
    found.then(|| Alternation {
        fast: rounded(fast_level.exp2()),
        slow: rounded(slow_level.exp2()),
        fast_nanos: nanos(median(&fast_stays)),
        slow_nanos: nanos(median(&slow_stays)),
        stretches: stays.len() as u64 + 2,
    })
}

/// The border between two clusters (2-means).
fn two_levels(logs: &[f64]) -> Option<f64> {
    let low = logs.iter().copied().min_by(f64::total_cmp)?;
    let high = logs.iter().copied().max_by(f64::total_cmp)?;
    let mut border = f64::midpoint(low, high);
    for _ in 0..20 {
        let (above, below): (Vec<f64>, Vec<f64>) = logs.iter().partition(|&&log| log > border);
        if above.is_empty() || below.is_empty() {
            return None;
        }
        border = f64::midpoint(mean(&above), mean(&below));
    }
    Some(border)
}

/// The state and length in seconds of every stretch but the first and the last.
fn stays(high: &[bool]) -> Vec<(bool, f64)> {
    let runs: Vec<(bool, f64)> =
        high.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as f64)).collect();
    runs.get(1..runs.len().saturating_sub(1)).unwrap_or_default().to_vec()
}
