//! Groups of runs as tables: for a terminal, Markdown, CSV, JSON. One function for each; all take
//! the same groups. MB/s are 10^6, MiB/s 2^20 bytes a second. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::compare::{Group, Line};
use super::page::{Page, number};
use crate::units::{Bytes, MIB, brief, spoken};

/// For a terminal, at most 80 columns wide.
pub fn text(groups: &[Group]) -> String {
    let mut page = Page::default();
    for group in groups {
        page.blank();
        page.line(&group.test);
        page.line(&row("", &["MB/s", "MiB/s", "IOPS", "p99", "time", "ratio"].map(str::to_owned)));
        for line in &group.lines {
            page.line(&row(&short(&line.device, 24), &cells(line)));
            if line.runs > 1 {
                let (low, high) = (number(line.range.0 / 1e6), number(line.range.1 / 1e6));
                page.line(&format!("  {} runs, {low} to {high} MB/s{}", line.runs, far(line)));
            }
            for note in told(line) {
                page.field("", &note);
            }
        }
        if let Some(why) = &group.not_ranked {
            page.line(&format!("not ranked: {why} (--force ranks them all the same)"));
        }
        for differs in &group.differs_in {
            page.field("differs in", differs);
        }
    }
    page.0.trim_start().to_owned()
}

fn row(name: &str, cells: &[String; 6]) -> String {
    let mut line = format!("{name:<25}");
    for (cell, width) in cells.iter().zip([9, 9, 9, 9, 12, 7]) {
        write!(line, "{cell:>width$}").ok();
    }
    line.trim_end().to_owned()
}

fn short(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().take(width - 2).collect();
    format!("{kept}..")
}

pub(super) fn cells(line: &Line) -> [String; 6] {
    let latency = line.typical.latency.as_ref().map(|latency| latency.p99_nanos);
    [
        number(line.bytes_per_s / 1e6),
        number(line.bytes_per_s / MIB as f64),
        number(line.iops),
        latency.map_or_else(|| "-".to_owned(), |nanos| brief(Duration::from_nanos(nanos))),
        spoken(Duration::from_secs_f64(line.seconds.clamp(0.0, 1e9))),
        line.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
    ]
}

fn far(line: &Line) -> String {
    if line.outliers.is_empty() {
        return String::new();
    }
    let rounds: Vec<String> = line.outliers.iter().map(ToString::to_string).collect();
    format!("; far from the others: round {}", rounds.join(", "))
}

/// The interval, then the verdicts.
fn told(line: &Line) -> Vec<String> {
    let interval = line.interval.iter().map(ToString::to_string);
    let findings = line.typical.analysis.findings.iter();
    interval.chain(findings.map(|finding| finding.sentence.clone())).collect()
}

/// Names of the free columns.
fn labels(groups: &[Group]) -> Vec<String> {
    let all =
        groups.iter().flat_map(|group| &group.lines).flat_map(|line| line.typical.labels.keys());
    let mut names: Vec<String> = all.cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// A table for each test, with the verdicts below it.
pub fn markdown(groups: &[Group]) -> String {
    let cell = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
    let free = labels(groups);
    let mut out = String::new();
    for group in groups {
        // A String takes every write.
        writeln!(out, "### {}\n", cell(&group.test)).ok();
        let mut heads =
            vec!["device", "runs", "size", "MB/s", "MiB/s", "IOPS", "p99", "time", "ratio"];
        heads.extend(free.iter().map(String::as_str));
        let heads: Vec<String> = heads.into_iter().map(cell).collect();
        writeln!(out, "| {} |\n|---{}|", heads.join(" | "), "|---:".repeat(heads.len() - 1)).ok();
        for line in &group.lines {
            let size = Bytes(line.typical.totals.bytes).binary();
            let mut row = vec![cell(&line.device), line.runs.to_string(), size];
            row.extend(cells(line));
            row.extend(
                free.iter()
                    .map(|name| cell(line.typical.labels.get(name).map_or("", String::as_str))),
            );
            writeln!(out, "| {} |", row.join(" | ")).ok();
        }
        out.push('\n');
        for line in &group.lines {
            for note in told(line) {
                writeln!(out, "* {}: {}", cell(&line.device), cell(&note)).ok();
            }
        }
        if let Some(why) = &group.not_ranked {
            writeln!(out, "* not ranked: {}", cell(why)).ok();
        }
        for differs in &group.differs_in {
            writeln!(out, "* differs in {}", cell(differs)).ok();
        }
        out.push('\n');
    }
    out
}

/// A cell of CSV (RFC 4180, 2.7).
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// One line for each device and test; plain bytes, seconds, bytes a second (RFC 4180).
pub fn csv(groups: &[Group]) -> String {
    let free = labels(groups);
    let mut out = "test,device,runs,bytes,seconds,bytes_per_s,slowest_run_bytes_per_s,fastest_run_bytes_per_s,\
                   median_second_bytes_per_s,p1_second_bytes_per_s,iops,latency_p50_ns,latency_p99_ns,ratio"
        .to_owned();
    for name in &free {
        write!(out, ",{}", quoted(name)).ok();
    }
    out.push('\n');
    for (group, line) in groups.iter().flat_map(|g| g.lines.iter().map(move |line| (g, line))) {
        let run = &line.typical;
        let latency = |of: fn(&crate::event::measure::Latency) -> u64| {
            run.latency.as_ref().map_or_else(String::new, |latency| of(latency).to_string())
        };
        let (low, high) = line.range;
        write!(
            out,
            "{},{},{},{},{:.6},{:.0},{low:.0},{high:.0},{},{},{:.1},{},{},{}",
            quoted(&group.test),
            quoted(&line.device),
            line.runs,
            run.totals.bytes,
            line.seconds,
            line.bytes_per_s,
            run.summary.median_bytes_per_s,
            run.summary.p1_bytes_per_s,
            line.iops,
            latency(|latency| latency.p50_nanos),
            latency(|latency| latency.p99_nanos),
            line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.6}")),
        )
        .ok();
        for name in &free {
            write!(out, ",{}", quoted(run.labels.get(name).map_or("", String::as_str))).ok();
        }
        out.push('\n');
    }
    out
}

/// The groups with all figures and verdicts, under a schema name.
pub fn json(groups: &[Group]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Comparison<'a> {
        schema: &'static str,
        groups: &'a [Group],
    }
    let mut text =
        serde_json::to_string_pretty(&Comparison { schema: "mediawriter-comparison/1", groups })?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::groups;
    use crate::report::runs::{Parts, Run};

    fn runs() -> Vec<Run> {
        let run = |device: &str, seconds: u64| {
            let mut run = Run::from(Parts {
                device: device.to_owned(),
                test: "image-write".to_owned(),
                totals: Some((8 << 30, seconds * 1_000_000_000)),
                ..Parts::default()
            });
            run.labels.insert("price".to_owned(), "2,980 \"JPY\" | <b>".to_owned());
            run
        };
        vec![run("a stick", 471), run("another|stick\u{1b}[31m with a very long name", 25)]
    }

    #[test]
    fn the_text_fits_80_columns_and_8_gib_in_471_s_are_17_4_mib_a_second() {
        let text = text(&groups(&runs(), false));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("18.2     17.4"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn markdown_and_csv_escape_what_would_break_them() {
        let groups = groups(&runs(), false);
        let table = markdown(&groups);
        assert!(table.contains("another\\|stick") && !table.contains("<b>"), "{table}");
        let sheet = csv(&groups);
        assert!(sheet.contains("\"2,980 \"\"JPY\"\" | <b>\""), "{sheet}");
        assert_eq!(sheet.lines().count(), 3);
        let back: serde_json::Value = serde_json::from_str(&json(&groups).unwrap()).unwrap();
        assert_eq!(back["groups"][0]["lines"][1]["seconds"], 471.0);
    }
}
