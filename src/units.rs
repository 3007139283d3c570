//! Sizes and speeds as people read and type them.
//!
//! Inside the program a size or an offset is a plain `u64` of bytes and a time is a
//! [`Duration`]; these types exist to print and parse. Decimal and binary units are never
//! mixed: `8GB` is 8*10^9 bytes and `8GiB` is 8*2^30 (IEC 80000-13), and what is printed
//! carries its exact unit. Numbers have a decimal point in every locale.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;

/// A number of bytes; prints as `4.70 GiB (5.05 GB)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// In the largest binary unit that leaves at least 1, e.g. `4.70 GiB`.
    pub fn binary(self) -> String {
        scaled(self.0, 1024, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
    }

    /// In the largest decimal unit that leaves at least 1, e.g. `5.05 GB`.
    pub fn decimal(self) -> String {
        scaled(self.0, 1000, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
    }
}

fn scaled(bytes: u64, step: u64, units: &[&str]) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= step as f64 && unit + 1 < units.len() {
        value /= step as f64;
        unit += 1;
    }
    if unit == 0 {
        return format!("{bytes} B");
    }
    let digits = if value < 10.0 { 2 } else { usize::from(value < 1000.0) };
    format!("{value:.digits$} {}", units[unit])
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1000 {
            return write!(f, "{} B", self.0);
        }
        write!(f, "{} ({})", self.binary(), self.decimal())
    }
}

/// Why a text is no size, rate or duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUnit(String);

impl fmt::Display for BadUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUnit {}

impl FromStr for Bytes {
    type Err = BadUnit;

    /// Takes `4096`, `512B`, `8GB` (decimal), `8GiB` and the short binary form `4M` = `4MiB`
    /// that dd, fio and losetup users type. Fractions are taken where they make whole bytes.
    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let (number, unit) = split_number(text);
        let scale: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "k" | "kib" => KIB,
            "m" | "mib" => MIB,
            "g" | "gib" => GIB,
            "t" | "tib" => 1 << 40,
            _ => {
                return Err(BadUnit(format!(
                    "'{}' is not a size: write bytes, or a number with kB, MB, GB, TB (powers of \
                     1000) or KiB, MiB, GiB, TiB (powers of 1024; K, M, G, T for short)",
                    text.escape_debug()
                )));
            }
        };
        decimal_times(number, scale).map(Bytes).ok_or_else(|| {
            BadUnit(format!("'{}' is not a whole number of bytes below 2^64", text.escape_debug()))
        })
    }
}

/// Splits `12.5MB` into `12.5` and `MB`.
fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Exact product of a decimal text and a scale; `None` when it is no number, not whole, or too big.
fn decimal_times(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 12 {
        return None;
    }
    let tens = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = digits.checked_mul(u128::from(scale))?;
    if product % tens != 0 {
        return None;
    }
    u64::try_from(product / tens).ok()
}

/// A speed: bytes over the time they took; prints as `28.3 MB/s (27.0 MiB/s)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes per second.
    pub bytes_per_second: f64,
}

impl Rate {
    /// `bytes` divided by `took`; zero when no time passed.
    pub fn of(bytes: u64, took: Duration) -> Self {
        let seconds = took.as_secs_f64();
        let bytes_per_second = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
        Self { bytes_per_second }
    }

    /// In MB/s (10^6 bytes).
    pub fn decimal(self) -> String {
        three_digits(self.bytes_per_second / 1e6, "MB/s")
    }

    /// In MiB/s (2^20 bytes).
    pub fn binary(self) -> String {
        three_digits(self.bytes_per_second / MIB as f64, "MiB/s")
    }
}

fn three_digits(value: f64, unit: &str) -> String {
    let digits = if value < 10.0 { 2 } else { usize::from(value < 1000.0) };
    format!("{value:.digits$} {unit}")
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.decimal(), self.binary())
    }
}

impl FromStr for Rate {
    type Err = BadUnit;

    /// Takes a size followed by `/s`: `20MB/s`, `20MiB/s`; the `/s` may be left out.
    fn from_str(text: &str) -> Result<Self, BadUnit> {
        let bytes: Bytes = text.trim().trim_end_matches("/s").parse()?;
        Ok(Self { bytes_per_second: bytes.0 as f64 })
    }
}

/// Parses `250ms`, `2s`, `1.5s`, `3m`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, BadUnit> {
    let (number, unit) = split_number(text);
    let nanos = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        _ => 0,
    };
    if nanos == 0 {
        return Err(BadUnit(format!(
            "'{}' is not a time: write e.g. 250ms, 2s or 3m",
            text.escape_debug()
        )));
    }
    decimal_times(number, nanos)
        .map(Duration::from_nanos)
        .ok_or_else(|| BadUnit(format!("'{}' is not a time", text.escape_debug())))
}

/// A time that may be far below a second, in three digits: `85.2 us`, `1.23 ms`, `2.40 s`.
pub fn brief(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (value, unit) = match nanos {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (nanos as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos as f64 / 1e6, "ms"),
        _ => return spoken(time),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

/// A time as people say it: `0.42 s`, `12.3 s`, `3 min 05 s`, `1 h 02 min`.
pub fn spoken(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        return format!("{seconds:.2} s");
    }
    if seconds < 119.95 {
        return format!("{seconds:.1} s");
    }
    let whole = time.as_secs() + u64::from(time.subsec_millis() >= 500);
    if whole < 3600 {
        return format!("{} min {:02} s", whole / 60, whole % 60);
    }
    format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_exactly_and_never_mix_1000_with_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("8GB", 8_000_000_000),
            ("8GiB", 8_589_934_592),
            ("8gib", 8_589_934_592),
            ("4M", 4 << 20),
            ("1.5 MiB", 3 << 19),
            ("0.5K", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
        for text in
            ["", "x", "-1", "1.2.3", "1.0000001", "4Q", "20000000000GiB", ".5K", "1e3", "4 M B"]
        {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_speeds_print_both_units() {
        assert_eq!(Bytes(999).to_string(), "999 B");
        assert_eq!(Bytes(5_046_586_572).to_string(), "4.70 GiB (5.05 GB)");
        assert_eq!(Bytes(3 << 40).to_string(), "3.00 TiB (3.30 TB)");
        let rate = Rate::of(497 << 20, Duration::from_secs(1));
        assert_eq!(rate.to_string(), "521.1 MB/s (497.0 MiB/s)");
        assert_eq!(Rate::of(500_000, Duration::from_secs(1)).decimal(), "0.50 MB/s");
        assert_eq!(Rate::of(5, Duration::ZERO).decimal(), "0.00 MB/s");
    }

    #[test]
    fn times() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert!(parse_duration("5 parsec").is_err());
        assert_eq!(spoken(Duration::from_millis(420)), "0.42 s");
        assert_eq!(spoken(Duration::from_millis(119_960)), "2 min 00 s");
        assert_eq!(spoken(Duration::from_secs(3725)), "1 h 02 min");
    }
}
