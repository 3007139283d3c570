//! From a series to everything that is known of it: which looks are taken, in which order, and
//! what one of them rules out for another. The sentences are made in `sentences`. Pure.

use super::regimes::{self, Regimes};
use super::series::SECOND;
use super::{Analysis, Cliff, Confidence, Input, Stats, alternate, period, sentences, steady};
use crate::meter::series::per_second;

/// A shorter run is not judged: it may be one burst into a cache.
pub(super) const SHORTEST: u64 = 10 * SECOND;
/// Regimes that can be told apart; more are unrest.
pub(super) const NAMED: usize = 6;
/// A cliff is a drop to less than this.
const DROP: f64 = 0.93;
/// Share of the whole fall that happens at a cliff; less is a slope.
const SHARP: f64 = 0.5;

/// Judges one phase.
pub fn judge(input: &Input<'_>) -> Analysis {
    let series = input.series;
    let mut analysis = Analysis { stats: Stats::of(series), ..Analysis::default() };
    if series.bytes() == 0 {
        return analysis;
    }
    if series.nanos() < SHORTEST {
        analysis.ceiling = input.link.and_then(|link| link.ceiling(series));
    } else {
        looks(input, &mut analysis);
    }
    analysis.findings = sentences::findings(input, &analysis);
    analysis
}

/// Fills in everything but the findings.
fn looks(input: &Input<'_>, analysis: &mut Analysis) {
    let (series, inflight) = (input.series, input.inflight());
    analysis.alternation = alternate::find(series);
    let turns = analysis.alternation.map(|turns| turns.fast_nanos + turns.slow_nanos);
    // Buckets as long as a rhythm would hide two speeds that take turns.
    let rhythm = || period::rough(&series.part(series.len() / 2, series.len()), inflight);
    let rhythm = if turns.is_some() { None } else { rhythm() };
    let found = regimes::find(series, inflight, rhythm);
    let mut rest = 0;
    if turns.is_none() {
        if let Some((at, cliff)) = cliff(&found) {
            rest = found.cuts[at];
            analysis.cliff = Some(cliff);
        }
        analysis.period = period::find(&series.part(rest, series.len()), inflight, input.block);
    }
    let first = series.part(0, found.cuts.first().copied().unwrap_or(series.len()));
    analysis.ceiling = input.link.and_then(|link| link.ceiling(&first));
    let rhythm = analysis.period.map(|period| period.nanos).or(turns);
    let rhythm = rhythm.map(|nanos| nanos as f64 / SECOND as f64);
    analysis.steady = Some(steady::find(series, inflight, rhythm));
    analysis.slope = found.slope();
    analysis.regimes = found.list;
}

/// The greatest drop and the regime before it, when the drop is sudden and the device does not
/// recover from it.
fn cliff(found: &Regimes) -> Option<(usize, Cliff)> {
    let list = &found.list;
    if list.len() > NAMED {
        return None;
    }
    let drop = |at: usize| list[at].mean as f64 / list[at + 1].mean.max(1) as f64;
    let at = (0..list.len().checked_sub(1)?).max_by(|&a, &b| drop(a).total_cmp(&drop(b)))?;
    let (before, from, end) = (list[at].mean, list[at + 1], list.last()?);
    let bytes = end.end_byte.saturating_sub(from.start_byte);
    let lasted = end.end_nanos.saturating_sub(from.start_nanos);
    let after = per_second(bytes, lasted);
    let half = u64::midpoint(before, after);
    let recovers = list[at + 1..].iter().any(|later| later.mean > half);
    let step = regimes::log_ratio(before as f64, after as f64);
    let fastest = list[..=at].iter().map(|earlier| earlier.mean).max().unwrap_or(before);
    let fall = regimes::log_ratio(fastest as f64, after as f64);
    let falls = (after as f64) < DROP * before as f64;
    if !falls || recovers || found.local[at] < SHARP * fall {
        return None;
    }
    let confidence = match step / found.noise.max(0.01) {
        // A stall at the end would look the same.
        _ if lasted < SHORTEST => Confidence::Suspected,
        step if step >= 8.0 => Confidence::Certain,
        step if step >= 3.0 => Confidence::Likely,
        _ => Confidence::Suspected,
    };
    let (at_bytes, at_nanos) = (from.start_byte, from.start_nanos);
    Some((at, Cliff { at_bytes, at_nanos, before, after, confidence }))
}
