//! The verdicts as sentences, each with its figures and how sure it is; what hinders first, then
//! what is fine. Codes are stable, docs/measuring.md lists them; sentences may change. Pure.

use std::time::Duration;

use super::period::grouped;
use super::series::{SECOND, rounded};
use super::verdicts::{NAMED, SHORTEST};
use super::{Alternation, Analysis, Cliff, Confidence, Finding, Input, Link, Period, Steady};
use crate::event::measure::Direction;
use crate::meter::series::nearest_rank;
use crate::units::{Bytes, Rate, spoken};
use Confidence::{Certain, Likely, Suspected};

/// Distance of the quartiles of stretches of 10 I/Os and more against their median from which a
/// device is erratic; Gaussian noise of 30 % has 0.4.
const ERRATIC: f64 = 0.6;
/// I/Os that such a stretch holds at least.
const PER_STRETCH: f64 = 10.0;
/// One I/O a second against the median second from which single seconds say little.
const COARSE: f64 = 0.2;

/// All verdicts that apply.
pub(super) fn findings(input: &Input<'_>, analysis: &Analysis) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut tell = |code, confidence, sentence: String| {
        found.push(Finding { code, sentence, confidence });
    };
    let writes = input.direction == Direction::Write;
    if let Some(sentence) = faster_than_link(input, analysis) {
        tell("faster-than-link", Certain, sentence);
    }
    match input.link {
        Some(link) if link.is_usb3_on_usb2() => {
            tell("usb3-on-usb2", Certain, usb3_on_usb2().to_owned());
        }
        Some(Link::Usb { mbit: 480, superspeed, .. }) => {
            tell("usb2-link", Certain, usb2_link(superspeed).to_owned());
        }
        _ => {}
    }
    if input.series.nanos() < SHORTEST {
        let took = spoken(Duration::from_nanos(input.series.nanos()));
        let limit = SHORTEST / SECOND;
        tell(
            "too-short",
            Certain,
            format!("too short to judge the device by these speeds: {took}, less than {limit} s"),
        );
        return found;
    }
    if let Some(cliff) = &analysis.cliff {
        let code = if writes { "cache-cliff" } else { "slower-part" };
        tell(code, cliff.confidence, self::cliff(cliff, writes));
    }
    if let Some(turns) = &analysis.alternation {
        tell("thermal-like", Suspected, thermal_like(turns));
    }
    if let Some(period) = &analysis.period {
        tell("periodic-stalls", Likely, periodic_stalls(period));
    }
    if let Some(slope) = analysis.slope {
        tell("slope", Likely, self::slope(slope));
    }
    let unrest = unrest(input, analysis);
    let at_rest = unrest.is_none() && analysis.slope.is_none();
    if let Some((code, sentence)) = unrest {
        tell(code, Likely, sentence);
    }
    if let Some(ceiling) = &analysis.ceiling {
        let first = if analysis.regimes.len() > 1 { ", as long as it was fast" } else { "" };
        tell("link-limited", Likely, format!("link-limited{first}: {ceiling}"));
    }
    if let Some(sentence) = coarse_blocks(input, analysis) {
        tell("coarse-blocks", Certain, sentence);
    }
    if writes && at_rest && analysis.regimes.len() == 1 {
        tell("cache-not-reached", Certain, not_reached(input));
    }
    match analysis.steady {
        Some(Steady::Attained { at_nanos, at_bytes, speed }) => {
            tell("steady", Certain, steady(at_nanos, at_bytes, speed));
        }
        Some(Steady::NotAttained) => {
            tell("not-steady", Certain, "no steady state within this run".to_owned());
        }
        Some(Steady::TooShort { .. }) | None => {}
    }
    found
}

fn speed(bytes_per_second: u64) -> Rate {
    Rate { bytes_per_second: bytes_per_second as f64 }
}

fn time(nanos: u64) -> String {
    spoken(Duration::from_nanos(nanos))
}

/// Whole percent.
fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

fn faster_than_link(input: &Input<'_>, analysis: &Analysis) -> Option<String> {
    let payload = input.link.and_then(|link| link.payload())?;
    let (median, whole) = (analysis.stats.median, analysis.stats.mean);
    (median.max(whole) > payload).then(|| {
        format!(
            "{} is more than the link can carry ({}): what was measured is a cache of this \
             computer, not the device",
            speed(median.max(whole)),
            speed(payload).decimal(),
        )
    })
}

/// The same words before a run and after it.
pub(super) fn usb3_on_usb2() -> &'static str {
    "a USB 3 device on a USB 2 link (480 Mbit/s, 30 to 48 MB/s): the port, the cable or a hub is \
     USB 2, or the plug is not all the way in; on a USB 3 port it would be up to 10 times as fast"
}

/// Whether a device can do more is in its BOS descriptor (USB 3.2, 9.6.2), which few of USB 2 have.
fn usb2_link(superspeed: Option<bool>) -> &'static str {
    match superspeed {
        Some(false) => {
            "a USB 2 device on a USB 2 link (480 Mbit/s): 30 to 48 MB/s at most, on any port"
        }
        _ => {
            "a USB 2 link (480 Mbit/s): 30 to 48 MB/s at most; whether the device could do more on \
             a USB 3 port is not known"
        }
    }
}

fn cliff(cliff: &Cliff, writes: bool) -> String {
    let what = if writes { "its cache was full at" } else { "slower from" };
    format!(
        "{what} {}, after {}: {} before, {} after ({})",
        Bytes(cliff.at_bytes),
        time(cliff.at_nanos),
        speed(cliff.before),
        speed(cliff.after),
        percent(cliff.after as f64 / cliff.before.max(1) as f64),
    )
}

fn thermal_like(turns: &Alternation) -> String {
    format!(
        "thermal-like: {} for {} and {} for {} take turns ({} stretches); a temperature or a run \
         after cooling down would tell",
        speed(turns.fast).decimal(),
        time(turns.fast_nanos),
        speed(turns.slow).decimal(),
        time(turns.slow_nanos),
        turns.stretches,
    )
}

fn periodic_stalls(period: &Period) -> String {
    let floor = period.floor.map_or_else(String::new, |floor| {
        let quantum = match period.quantum {
            0 => String::new(),
            quantum => format!(" +/- {}", speed(quantum).decimal()),
        };
        format!(", floor {}{quantum}", speed(floor).decimal())
    });
    format!(
        "stalls every {} (+/- {}): bursts of {} in {} of the time{floor}; longest time without \
         progress {}",
        time(period.nanos),
        time(period.iqr_nanos / 2),
        speed(period.burst),
        percent(period.duty),
        time(period.longest_gap_nanos),
    )
}

fn slope(ratio: f64) -> String {
    let way = if ratio < 1.0 { "slower" } else { "faster" };
    format!("gradually {way}, to {} of the speed at the start: no cliff", percent(ratio))
}

/// Speeds that fit no other verdict.
fn unrest(input: &Input<'_>, analysis: &Analysis) -> Option<(&'static str, String)> {
    if analysis.alternation.is_some() || analysis.period.is_some() || analysis.slope.is_some() {
        return None;
    }
    let stats = &analysis.stats;
    if analysis.regimes.len() > NAMED {
        let count = analysis.regimes.len() - 1;
        let means = analysis.regimes.iter().map(|regime| regime.mean);
        let (slow, fast) = (means.clone().min()?, means.max()?);
        let (slow, fast) = (speed(slow).decimal(), speed(fast).decimal());
        return Some(("unsettled", format!("{count} changes of speed between {slow} and {fast}")));
    }
    // Behind the last change: a cliff is not erratic.
    let from = analysis.regimes.last()?.start_nanos;
    let series = input.series;
    let rest = series.part(series.steps(from as f64 / 1e9), series.len());
    let average = rest.bytes() as f64 / (rest.nanos() as f64 / 1e9).max(1e-9);
    let stretch = (PER_STRETCH * input.inflight() as f64 / average.max(1.0)).max(1.0);
    let mut stretches: Vec<u64> =
        grouped(&rest, rest.steps(stretch)).into_iter().map(rounded).collect();
    stretches.sort_unstable();
    let rank = |percent| nearest_rank(&stretches, percent) as f64;
    // Not the standard deviation: one long stall makes no device erratic.
    (stretches.len() >= 10 && rank(75) - rank(25) > ERRATIC * rank(50)).then(|| {
        let share = |seconds: u64| percent(seconds as f64 / stats.seconds.max(1) as f64);
        let sentence = format!(
            "erratic: nothing completed in {} of the seconds, {} were below half the median; {} \
             in all, the fastest tenth of the seconds moved {} of the bytes",
            share(stats.no_progress),
            share(stats.below_half),
            speed(stats.mean),
            percent(stats.burstiness),
        );
        ("erratic", sentence)
    })
}

fn coarse_blocks(input: &Input<'_>, analysis: &Analysis) -> Option<String> {
    let coarse = input.block as f64 > COARSE * analysis.stats.mean as f64;
    coarse.then(|| {
        format!(
            "single seconds say little: one I/O of {} more or less makes {}",
            Bytes(input.block).binary(),
            speed(input.block).decimal(),
        )
    })
}

fn not_reached(input: &Input<'_>) -> String {
    let bytes = input.series.bytes();
    let whole = input.device_size.is_some_and(|size| bytes as f64 > 0.95 * size as f64);
    if whole {
        return format!("one speed over the whole device, {}", Bytes(bytes));
    }
    format!("a write cache, if it has one, was not filled: it holds at least {}", Bytes(bytes))
}

fn steady(at_nanos: u64, at_bytes: u64, sustained: u64) -> String {
    let from = match at_nanos {
        0 => "from the start".to_owned(),
        _ => format!("from {} ({}) on", Bytes(at_bytes), time(at_nanos)),
    };
    format!("steady {from}: {}", speed(sustained))
}
