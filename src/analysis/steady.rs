//! Whether and when a device came to a steady state, after the idea of the SNIA performance test
//! specification: no excursion of more than 20 % and no slope of more than 10 % over a window.
//! Means of 5 s are compared; of a device with a rhythm, means of its periods. Pure.

use serde::Serialize;

use super::period::grouped;
use super::regimes::line;
use super::series::{Series, rounded, total, whole};
use super::stats::mean;

/// Length of a mean, seconds.
const ROUND: f64 = 5.0;
/// Shortest window, seconds.
const WINDOW: f64 = 60.0;
/// Largest deviation of a mean from that of its window.
const EXCURSION: f64 = 0.2;
/// Largest change over a window.
const SLOPE: f64 = 0.1;
/// I/Os that a mean holds at least.
const PER_ROUND: f64 = 20.0;

/// When the speed settled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "steady", rename_all = "snake_case")]
pub enum Steady {
    /// From here to the end.
    Attained {
        /// Nanoseconds since the phase began.
        at_nanos: u64,
        /// Bytes since the phase began.
        at_bytes: u64,
        /// Bytes a second from there on.
        speed: u64,
    },
    /// Not in this run.
    NotAttained,
    /// The run is shorter than a window.
    TooShort {
        /// A window. Nanoseconds.
        needs_nanos: u64,
    },
}

/// Judges a series. `period` is that of its rhythm in seconds.
pub(super) fn find(series: &Series, inflight: u64, period: Option<f64>) -> Steady {
    let average = series.bytes() as f64 / (series.nanos() as f64 / 1e9).max(1e-9);
    let by_blocks = PER_ROUND * inflight as f64 / average.max(1.0);
    let steps = series.steps(period.unwrap_or(ROUND).max(by_blocks)).max(1);
    let round = steps as f64 * series.step();
    let window = whole((WINDOW / round).ceil()).max(3);
    let rounds = grouped(series, steps);
    if rounds.len() < window {
        return Steady::TooShort { needs_nanos: rounded(window as f64 * round * 1e9) };
    }
    let unsettled = rounds.windows(window).rposition(|window| !is_steady(window));
    let start = unsettled.map_or(0, |last| last + 1);
    if start + window > rounds.len() {
        return Steady::NotAttained;
    }
    let from = start * steps;
    let (at_nanos, at_bytes) = (series.border(from), total(&series.values()[..from]));
    let took = series.nanos().saturating_sub(at_nanos) as f64 / 1e9;
    let speed = rounded(series.bytes().saturating_sub(at_bytes) as f64 / took.max(1e-9));
    Steady::Attained { at_nanos, at_bytes, speed }
}

fn is_steady(window: &[f64]) -> bool {
    let middle = mean(window);
    let (slope, _) = line(window);
    let change = (slope * (window.len() - 1) as f64).abs();
    let excursion = window.iter().map(|round| (round - middle).abs()).fold(0.0, f64::max);
    excursion <= EXCURSION * middle && change <= SLOPE * middle && middle > 0.0
}
