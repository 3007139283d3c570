//! fio's output: JSON (`--output-format=json`) and bandwidth logs (`write_bw_log`), "Log File
//! Formats" in its HOWTO: `time in ms, KiB/s, direction, block size[, offset[, priority[, ...]]]`.
//!
//! fio writes no line for a second in which nothing completed (`__add_samples` in stat.c), so a
//! mean over its lines overstates every device that stalls. Here the missing seconds are rows of
//! nothing. JSON has the true totals, but no series.

use serde_json::Value;

use super::row;
use crate::event::measure::{Direction, Latency, Order};
use crate::event::{Phase, Sample};
use crate::report::runs::{Parts, Run};

const SECOND: u64 = 1_000_000_000;

/// The jobs of a JSON file. Keys that are missing are not known; nothing is an error but a file
/// without any job.
pub(super) fn json(text: &str, name: &str) -> Result<(Vec<Run>, Vec<String>), String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("broken JSON: {e}"))?;
    let jobs = value["jobs"].as_array().or_else(|| value["client_stats"].as_array());
    let mut runs = Vec::new();
    for job in jobs.into_iter().flatten() {
        for (key, direction) in [("read", Direction::Read), ("write", Direction::Write)] {
            runs.extend(job_run(&value, job, key, direction, name));
        }
    }
    if runs.is_empty() {
        Err("this JSON of fio has no job that read or wrote".to_owned())
    } else {
        Ok((runs, vec![]))
    }
}

fn job_run(value: &Value, job: &Value, key: &str, direction: Direction, name: &str) -> Option<Run> {
    let part = &job[key];
    let bytes = part["io_bytes"].as_u64().filter(|bytes| *bytes > 0)?;
    let nanos = part["runtime"].as_u64()?.saturating_mul(1_000_000);
    let option = |wanted: &str| {
        let place = [&job["job options"][wanted], &value["global options"][wanted]];
        place.into_iter().find_map(|option| option.as_str().map(str::to_owned))
    };
    let mode = option("rw").unwrap_or_else(|| key.to_owned());
    let order = if mode.starts_with("rand") { Order::Random } else { Order::Sequential };
    let device = option("filename").unwrap_or_else(|| name.to_owned());
    let parts = Parts {
        device,
        test: format!("{mode} {}", option("bs").unwrap_or_default()).trim().to_owned(),
        direction,
        order,
        block: option("bs").and_then(|text| size(&text)).unwrap_or(0),
        queue_depth: option("iodepth").and_then(|text| text.parse().ok()).unwrap_or(0),
        rows: Vec::new(),
        ios: part["total_ios"].as_u64().unwrap_or(0),
        totals: Some((bytes, nanos)),
        latency: latency(part),
        source: name.to_owned(),
    };
    Some(Run::from(parts))
}

/// `4M`, `1Mi`, `4096`: powers of 1024 in fio, whatever the suffix (its kb_base).
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].chars().next().map(|c| c.to_ascii_lowercase()) {
        None => 0,
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some(_) => return None,
    };
    number.checked_shl(shift)
}

fn latency(part: &Value) -> Option<Latency> {
    let clat = &part["clat_ns"];
    let at = |percent: &str| clat["percentile"][percent].as_u64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds")]
    let mean_nanos = clat["mean"].as_f64()?.max(0.0) as u64;
    Some(Latency {
        count: part["total_ios"].as_u64().unwrap_or(0),
        mean_nanos,
        min_nanos: clat["min"].as_u64().unwrap_or(0),
        p50_nanos: at("50.000000")?,
        p90_nanos: at("90.000000").unwrap_or(0),
        p95_nanos: at("95.000000").unwrap_or(0),
        p99_nanos: at("99.000000").unwrap_or(0),
        p999_nanos: at("99.900000").unwrap_or(0),
        p9999_nanos: at("99.990000").unwrap_or(0),
        max_nanos: clat["max"].as_u64().unwrap_or(0),
        bins: Vec::new(),
    })
}

/// A bandwidth log of 4 to 8 columns.
pub(super) fn log(text: &str, name: &str) -> Result<(Vec<Run>, Vec<String>), String> {
    let mut lines: [Vec<(u64, u64)>; 2] = Default::default();
    let mut block = 0;
    let whole = text.ends_with('\n');
    let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut remarks = Vec::new();
    for (index, line) in all.iter().enumerate() {
        let cells: Vec<Option<u64>> = line.split(',').map(|c| c.trim().parse().ok()).collect();
        match cells[..] {
            [Some(millis), Some(kib), Some(way @ 0..=1), Some(bs), ..] if cells.len() <= 8 => {
                lines[usize::try_from(way).unwrap_or(0)].push((millis, kib.saturating_mul(1024)));
                block = block.max(bs);
            }
            [Some(_), Some(_), Some(2), ..] => {}
            _ if index > 0 && index + 1 == all.len() && !whole => {
                remarks.push(format!("{name}: its last line is cut off and left out"));
            }
            _ => {
                return Err(
                    "it is neither a record, a per-second log, nor JSON or a log of fio".to_owned()
                );
            }
        }
    }
    let mut runs = Vec::new();
    for (direction, points) in [(Direction::Read, &lines[0]), (Direction::Write, &lines[1])] {
        if points.is_empty() {
            continue;
        }
        let (rows, filled) = rows(direction, points);
        if filled > 0 {
            remarks.push(format!(
                "{name}: fio left {filled} s out of this log, in which nothing completed; they are rows of nothing here"
            ));
        }
        let parts = Parts {
            device: name.to_owned(),
            test: direction.name().to_owned(),
            direction,
            block,
            rows,
            source: name.to_owned(),
            ..Parts::default()
        };
        runs.push(Run::from(parts));
    }
    if runs.is_empty() { Err("the log is empty".to_owned()) } else { Ok((runs, remarks)) }
}

/// Each line is the mean speed of the interval that ended then; what it says is spread over the
/// seconds of its interval, at most one second long, and the seconds without a line are nothing.
fn rows(direction: Direction, points: &[(u64, u64)]) -> (Vec<Sample>, u64) {
    let phase = if direction == Direction::Read { Phase::TestRead } else { Phase::TestWrite };
    let end = points.iter().map(|point| point.0).max().unwrap_or(0);
    let seconds = usize::try_from(end.div_ceil(1_000)).unwrap_or(0).min(10_000_000);
    let mut bytes = vec![0u64; seconds];
    let mut seen = vec![false; seconds];
    // Logs of several jobs in one file restart; the interval of a line is then a second.
    let mut before = 0;
    for (millis, speed) in points {
        let interval = millis.checked_sub(before).filter(|ms| (1..=1_000).contains(ms));
        let interval = interval.unwrap_or(1_000);
        before = *millis;
        let second = usize::try_from(millis.saturating_sub(1) / 1_000).unwrap_or(0);
        if let Some(slot) = bytes.get_mut(second) {
            *slot = slot.saturating_add(speed.saturating_mul(interval) / 1_000);
            seen[second] = true;
        }
    }
    let filled = seen.iter().filter(|seen| !**seen).count() as u64;
    let last = match end % 1_000 {
        0 => SECOND,
        rest => rest * 1_000_000,
    };
    let count = bytes.len();
    let rows = (0u64..).zip(bytes).map(|(second, bytes)| {
        let nanos = if second + 1 == count as u64 { last } else { SECOND };
        row(phase, second, nanos, bytes, 0)
    });
    (rows.collect(), filled)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn seconds_that_fio_left_out_are_rows_of_nothing() {
        // 36.4 MiB/s in truth: bursts of half a second, then 4 s of nothing.
        let mut text = String::new();
        for burst in 0..5 {
            writeln!(text, "{}, 167731, 1, 4194304, 0", burst * 4_500 + 1_000).unwrap();
        }
        text.push_str("22500, 0, 1, 4194304, 0\n");
        let (runs, remarks) = log(&text, "x_bw.1.log").unwrap();
        assert_eq!(runs[0].rows.len(), 23);
        assert!((0u64..).zip(&runs[0].rows).all(|(second, row)| row.second == second));
        let mean = runs[0].rate() / f64::from(1 << 20);
        assert!((mean - 36.4).abs() < 0.3, "{mean}");
        assert!(remarks[0].contains("left 17 s out"), "{remarks:?}");
    }

    #[test]
    fn four_to_eight_columns_are_read_and_others_refused() {
        for columns in ["", ", 0", ", 0, 0", ", 0, 0, 0", ", 0, 0, 0, 0"] {
            let text = format!("1000, 100, 0, 4096{columns}\n2000, 100, 0, 4096{columns}\n");
            let (runs, _) = log(&text, "x").unwrap();
            assert_eq!(runs[0].totals.bytes, 2 * 100 * 1024, "{columns}");
            assert_eq!(runs[0].direction, Direction::Read);
        }
        assert!(log("hello\n", "x").is_err());
        assert!(log("1, 2, 3, 4, 5, 6, 7, 8, 9\n", "x").is_err());
        let (runs, remarks) = log("1000, 100, 1, 4096\n2000, 100, 1, 4096\n3000, 1", "x").unwrap();
        assert_eq!((runs[0].rows.len(), remarks.len()), (2, 1));
    }

    #[test]
    fn a_json_without_optional_keys_still_has_its_totals() {
        let text = r#"{"fio version":"fio-3.33","jobs":[{"read":{"io_bytes":0},
            "write":{"io_bytes":8589934592,"runtime":471000}}]}"#;
        let (runs, _) = json(text, "old.json").unwrap();
        assert_eq!(runs.len(), 1);
        assert!((runs[0].rate() / f64::from(1 << 20) - 17.4).abs() < 0.05);
        assert!(json(r#"{"fio version":"x","jobs":[]}"#, "x").is_err());
        assert!(json("{", "x").is_err());
    }

    #[test]
    fn sizes_of_fio_are_powers_of_1024() {
        assert_eq!(
            (size("4M"), size("4k"), size("1Mi"), size("512")),
            (Some(4 << 20), Some(4096), Some(1 << 20), Some(512))
        );
        assert_eq!(size("x"), None);
    }
}
