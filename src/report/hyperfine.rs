//! The times of runs in the formats of hyperfine (its `--export-json`, `--export-csv` and
//! `--export-markdown`, version 1.18), for scripts that read those. A run is a command that took so
//! long. Processor time is not told apart by user and system here, so those cells are empty. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::runs::{Run, by_test};
use super::table::quoted;

/// Which of its formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// With the time of each run.
    Json,
    /// One line for each device and test.
    Csv,
    /// The same as a table, in seconds.
    Markdown,
}

impl Format {
    /// By the ending of a file's name.
    pub fn of_ending(ending: Option<&str>) -> Self {
        match ending.map(str::to_lowercase).as_deref() {
            Some("csv") => Self::Csv,
            Some("md" | "markdown") => Self::Markdown,
            _ => Self::Json,
        }
    }
}

/// All runs of a device in a test. Seconds.
struct Timed {
    command: String,
    /// In the order of the runs.
    times: Vec<f64>,
    mean: f64,
    deviation: Option<f64>,
    median: f64,
    least: f64,
    most: f64,
}

impl Timed {
    fn of(command: String, times: Vec<f64>) -> Self {
        let count = times.len().max(1) as f64;
        let mean = times.iter().sum::<f64>() / count;
        let spread: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(at(half.saturating_sub(1)), at(half))
        } else {
            at(half)
        };
        Self {
            command,
            mean,
            deviation: (times.len() > 1).then(|| (spread / (count - 1.0)).sqrt()),
            median,
            least: at(0),
            most: at(sorted.len().saturating_sub(1)),
            times,
        }
    }
}

fn timed(runs: &[Run]) -> Vec<Timed> {
    let mut all = Vec::new();
    for (test, group) in by_test(runs) {
        let mut devices: Vec<&str> = group.iter().map(|run| run.device.as_str()).collect();
        devices.sort_unstable();
        devices.dedup();
        for device in devices {
            let own = group.iter().filter(|run| run.device == device);
            let times = own.map(|run| run.seconds()).collect();
            all.push(Timed::of(format!("{device}: {test}"), times));
        }
    }
    all
}

/// The file.
pub fn export(runs: &[Run], format: Format) -> String {
    let all = timed(runs);
    match format {
        Format::Json => json(&all),
        Format::Csv => csv(&all),
        Format::Markdown => markdown(&all),
    }
}

fn json(all: &[Timed]) -> String {
    let results = all.iter().map(|timed| {
        json!({
            "command": timed.command, "mean": timed.mean, "stddev": timed.deviation,
            "median": timed.median, "user": Value::Null, "system": Value::Null,
            "min": timed.least, "max": timed.most, "times": timed.times,
            "exit_codes": vec![0; timed.times.len()],
        })
    });
    format!("{:#}\n", json!({ "results": results.collect::<Vec<_>>() }))
}

fn csv(all: &[Timed]) -> String {
    let mut out = String::from("command,mean,stddev,median,user,system,min,max\n");
    for timed in all {
        let deviation = timed.deviation.map_or_else(String::new, |value| value.to_string());
        // A String takes every write.
        writeln!(
            out,
            "{},{},{deviation},{},,,{},{}",
            quoted(&timed.command),
            timed.mean,
            timed.median,
            timed.least,
            timed.most
        )
        .ok();
    }
    out
}

fn markdown(all: &[Timed]) -> String {
    let mut out = String::from(
        "| Command | Mean [s] | Min [s] | Max [s] | Relative |\n|:---|---:|---:|---:|---:|\n",
    );
    let fastest = all.iter().map(|timed| timed.mean).fold(f64::INFINITY, f64::min);
    for Timed { command, mean, deviation, least, most, .. } in all {
        let deviation = deviation.map_or_else(String::new, |value| format!(" \u{b1} {value:.3}"));
        let relative = mean / fastest.max(f64::MIN_POSITIVE);
        let command = command.replace('|', "\\|");
        writeln!(
            out,
            "| `{command}` | {mean:.3}{deviation} | {least:.3} | {most:.3} | {relative:.2} |"
        )
        .ok();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::runs::Parts;

    fn run(device: &str, seconds: u64) -> Run {
        Run::from(Parts {
            device: device.to_owned(),
            test: "write".to_owned(),
            totals: Some((1 << 30, seconds * 1_000_000_000)),
            ..Parts::default()
        })
    }

    #[test]
    fn all_three_formats_tell_the_same_times() {
        let runs = [run("b, c", 2), run("a", 8), run("b, c", 4), run("b, c", 4), run("b, c", 6)];
        let value: Value = serde_json::from_str(&export(&runs, Format::Json)).unwrap();
        let results = value["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!(results[0]["stddev"], Value::Null);
        assert_eq!(results[1]["times"], json!([2.0, 4.0, 4.0, 6.0]));
        assert_eq!((&results[1]["median"], &results[1]["mean"]), (&json!(4.0), &json!(4.0)));
        let text = export(&runs, Format::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "\"a: write\",8,,8,,,8,8");
        assert!(lines[2].starts_with("\"b, c: write\",4,1.63"), "{text}");
        let text = export(&runs, Format::Markdown);
        assert!(text.contains("| `a: write` | 8.000 | 8.000 | 8.000 | 2.00 |"), "{text}");
        assert!(text.contains("| 4.000 \u{b1} 1.633 | 2.000 | 6.000 | 1.00 |"), "{text}");
    }

    #[test]
    fn the_ending_names_the_format() {
        for (ending, format) in [
            (Some("csv"), Format::Csv),
            (Some("MD"), Format::Markdown),
            (Some("json"), Format::Json),
            (None, Format::Json),
        ] {
            assert_eq!(Format::of_ending(ending), format);
        }
    }
}
