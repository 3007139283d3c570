//! Parses `sim:SIZE,key=value,...` (documented in docs/sim.md and in `flash --help`). Pure.

use super::fake::FakeCapacity;
use super::fault::{Effect, Fault, Op, Trigger};
use super::models;
use super::speed::Speed;
use crate::units::{Bytes, Rate, parse_duration};

/// A simulated stick as it was described.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Claimed size in bytes.
    pub size: u64,
    /// Sector size in bytes.
    pub sector: u32,
    /// What unwritten bytes read as.
    pub prefill: u8,
    /// Whether it can discard.
    pub discard: bool,
    /// Fake capacity.
    pub fake: Option<FakeCapacity>,
    /// Whether it keeps what is written; a model of a large device does not.
    pub data: bool,
    /// Speed model.
    pub speed: Speed,
    /// What it is called, when it is a model of a device.
    pub model: Option<String>,
    /// Its link, Mbit/s, when it is a USB device.
    pub link: Option<u32>,
    /// Faults, innermost first.
    pub faults: Vec<Fault>,
}

/// Parses the text behind `sim:`.
pub fn parse(text: &str) -> Result<Spec, String> {
    let (first, rest) =
        text.split_once(',').map_or((text, None), |(size, rest)| (size, Some(rest)));
    // A model is a spec of its own, to which keys are added.
    let model = models::find(first);
    let first = model.map_or(first, |model| model.spec);
    let mut words = first.split(',').chain(rest.into_iter().flat_map(|rest| rest.split(',')));
    let size = size(words.next().unwrap_or_default())?;
    let mut spec = Spec {
        size,
        sector: 512,
        prefill: 0,
        discard: true,
        fake: None,
        data: true,
        speed: Speed::default(),
        model: model.map(|model| model.title.to_owned()),
        link: None,
        faults: Vec::new(),
    };
    let (mut real, mut wraps) = (None, false);
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("'{}' is not key=value", word.escape_debug()))?;
        match key {
            "sector" => spec.sector = sector(value)?,
            "prefill" => spec.prefill = byte(value)?,
            "discard" => spec.discard = yes_or_no(value)?,
            "rate" => (spec.speed.write, spec.speed.read) = (rate(value)?, rate(value)?),
            "write_rate" => spec.speed.write = rate(value)?,
            "read_rate" => spec.speed.read = rate(value)?,
            "cache" => spec.speed.cache = self::size(value)?,
            "cached_rate" => spec.speed.cached = rate(value)?,
            "latency" => spec.speed.latency = parse_duration(value).map_err(|e| e.to_string())?,
            "spinup" => spec.speed.spinup = parse_duration(value).map_err(|e| e.to_string())?,
            "noise" => spec.speed.noise = percent(value)?,
            "stalled" => spec.speed.stalled = percent(value)?.min(0.99),
            "period" => spec.speed.period = parse_duration(value).map_err(|e| e.to_string())?,
            "low" => spec.speed.low = parse_duration(value).map_err(|e| e.to_string())?,
            "low_rate" => spec.speed.low_rate = rate(value)?,
            "data" => spec.data = yes_or_no(value)?,
            "link" => {
                let speed =
                    value.parse().map_err(|_| format!("link={}: Mbit/s", value.escape_debug()))?;
                spec.link = Some(speed);
            }
            "real" => real = Some(self::size(value)?),
            "mode" if value == "wrap" => wraps = true,
            "mode" if value == "limbo" => wraps = false,
            "fault" => spec.faults.push(fault(value)?),
            _ => {
                return Err(format!(
                    "'{}' is not known: keys are sector, prefill, discard, rate, write_rate, \
                     read_rate, cache, cached_rate, latency, spinup, noise, stalled, period, low, \
                     low_rate, data, link, real, mode=wrap|limbo, fault",
                    word.escape_debug()
                ));
            }
        }
    }
    if spec.size == 0 || !spec.size.is_multiple_of(u64::from(spec.sector)) {
        return Err(format!(
            "the size must be a multiple of the sector size, {} bytes",
            spec.sector
        ));
    }
    if !spec.speed.period.is_zero() && spec.speed.low >= spec.speed.period {
        return Err("low must be shorter than period".to_owned());
    }
    if let Some(real) = real {
        if real == 0 || real >= spec.size || real % u64::from(spec.sector) != 0 {
            return Err("real must be smaller than the size, and whole sectors".to_owned());
        }
        spec.fake = Some(FakeCapacity { real, wraps });
    }
    Ok(spec)
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>().map(|b| b.0).map_err(|e| e.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    text.parse::<Rate>().map(|r| r.bytes_per_second).map_err(|e| e.to_string())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|digits| digits.parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.map(|n| n / 100.0).ok_or_else(|| format!("'{}' is no percentage", text.escape_debug()))
}

fn sector(text: &str) -> Result<u32, String> {
    match text {
        "512" => Ok(512),
        "4096" | "4K" | "4KiB" => Ok(4096),
        _ => Err(format!("sector size '{}' is neither 512 nor 4096", text.escape_debug())),
    }
}

fn byte(text: &str) -> Result<u8, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u8::from_str_radix(digits, 16)
        .map_err(|_| format!("'{}' is no byte in hex", text.escape_debug()))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("'{}' is neither yes nor no", text.escape_debug())),
    }
}

/// `write#3:error` (the third write), `read@1MiB:flip` (each read that touches the byte),
/// `write@8MiB:stall=7s`.
fn fault(text: &str) -> Result<Fault, String> {
    let bad = || {
        format!(
            "'{}' is no fault: write OP#N:EFFECT or OP@OFFSET:EFFECT, with OP one of read, write, \
             flush, discard and EFFECT one of error, enospc, short, flip, drop, stall=TIME, vanish",
            text.escape_debug()
        )
    };
    let (target, effect) = text.split_once(':').ok_or_else(bad)?;
    let at = target.find(['#', '@']).ok_or_else(bad)?;
    let op = match &target[..at] {
        "read" => Op::Read,
        "write" => Op::Write,
        "flush" => Op::Flush,
        "discard" => Op::Discard,
        _ => return Err(bad()),
    };
    let place = &target[at + 1..];
    let trigger = if target[at..].starts_with('#') {
        Trigger::Nth(place.parse().map_err(|_| bad())?)
    } else {
        Trigger::Touching(size(place)?)
    };
    let effect = match effect {
        "error" => Effect::Error(libc::EIO),
        "enospc" => Effect::Error(libc::ENOSPC),
        "short" => Effect::Short,
        "flip" => Effect::Flip,
        "drop" => Effect::Drop,
        "vanish" => Effect::Vanish,
        _ => {
            let time = effect.strip_prefix("stall=").ok_or_else(bad)?;
            Effect::Stall(parse_duration(time).map_err(|e| e.to_string())?)
        }
    };
    Ok(Fault { op, trigger, effect })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_spec_is_understood() {
        let spec = parse(
            "64MiB,sector=4096,rate=20MB/s,cache=16MiB,cached_rate=80MB/s,latency=1ms,real=32MiB,\
             mode=wrap,prefill=0xff,discard=no,fault=write#3:error,fault=read@1MiB:stall=7s",
        )
        .unwrap();
        assert_eq!(
            (spec.size, spec.sector, spec.prefill, spec.discard),
            (64 << 20, 4096, 255, false)
        );
        assert_eq!(spec.fake, Some(FakeCapacity { real: 32 << 20, wraps: true }));
        assert!((spec.speed.write - 2e7).abs() < 1.0 && (spec.speed.cached - 8e7).abs() < 1.0);
        assert_eq!(
            spec.faults[0],
            Fault { op: Op::Write, trigger: Trigger::Nth(3), effect: Effect::Error(libc::EIO) }
        );
        assert_eq!(spec.faults[1].trigger, Trigger::Touching(1 << 20));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for bad in [
            "",
            "0",
            "1000",
            "1MiB,x",
            "1MiB,x=1",
            "1MiB,sector=100",
            "1MiB,real=2MiB",
            "1MiB,fault=write",
            "1MiB,fault=eat#1:error",
            "1MiB,fault=write#x:error",
            "1MiB,fault=write#1:burn",
            "1MiB,prefill=xyz",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
