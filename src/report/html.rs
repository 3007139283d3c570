//! The comparison as one page that needs nothing else: tables, charts, verdicts and conditions, in
//! light and dark, on paper and on a telephone, for eyes and for screen readers. No script; the
//! figures are in it a second time as JSON. Strings of devices and files are escaped. Pure.

use std::fmt::Write as _;

use super::chart::curve;
use super::chart::svg::{Palette, bars, escaped, fastest, latencies, small, speeds};
use super::compare::{Group, groups};
use super::runs::{Run, by_test};
use super::table;
use crate::chart::plot::{Axis, Curve};
use crate::event::measure::Order;
use crate::units::{Bytes, spoken};

/// How a page is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its heading.
    pub title: String,
    /// Part of the time axis that is drawn, seconds.
    pub range: (f64, f64),
    /// Colours.
    pub palette: Palette,
    /// Ranks what is not comparable too.
    pub force: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            title: "Comparison of media".to_owned(),
            range: (0.0, f64::INFINITY),
            palette: Palette::default(),
            force: false,
        }
    }
}

/// Columns that a chart has: more cannot be seen.
const COLUMNS: usize = 640;
/// More runs than this in one chart cover each other.
const TOGETHER: usize = 5;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#555;--grid:#d5d5d5;--paper:#fff;--panel:#f5f6f7}\
@media (prefers-color-scheme:dark){:root{--ink:#f2f2f2;--soft:#b8b8b8;--grid:#444;--paper:#16181a;--panel:#202326}}\
*{box-sizing:border-box}body{margin:0 auto;max-width:1100px;padding:1rem;background:var(--paper);color:var(--ink);\
font:16px/1.5 system-ui,sans-serif}h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem;border-bottom:1px solid var(--grid)}\
h3{font-size:1rem}.scroll{overflow-x:auto}.scroll:focus{outline:2px solid #0072b2}table{border-collapse:collapse;width:100%}\
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}svg.chart{width:100%;min-width:620px;height:auto}.grid svg.chart{min-width:0}\
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1rem}\
.note{color:var(--soft)}ul{padding-left:1.2rem}li{overflow-wrap:anywhere}\
@media print{.scroll{overflow:visible}svg.chart{min-width:0;break-inside:avoid}body{max-width:none}}";

/// The page.
pub fn page(runs: &[Run], options: &Options) -> Result<String, serde_json::Error> {
    let compared = groups(runs, options.force);
    let mut out = String::with_capacity(1 << 20);
    let title = escaped(&options.title);
    // A String takes every write.
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{title}</title><style>{STYLE}{}</style></head><body><main>\
         <h1>{title}</h1><p class=\"note\">Averages are bytes divided by time. MB/s are 10<sup>6</sup>, MiB/s 2<sup>20</sup> \
         bytes a second. Where a pixel stands for several seconds, the band reaches from the slowest to the fastest of \
         them.</p>",
        options.palette.style()
    )
    .ok();
    for (group, (_, members)) in compared.iter().zip(by_test(runs)) {
        section(&mut out, group, &members, options);
    }
    let data = table::json(&compared)?.replace('<', "\\u003c");
    writeln!(
        out,
        "</main><script type=\"application/json\" id=\"data\">{data}</script></body></html>"
    )
    .ok();
    Ok(out)
}

fn section(out: &mut String, group: &Group, runs: &[&Run], options: &Options) {
    write!(out, "<section><h2>{}</h2>", escaped(&group.test)).ok();
    results(out, group);
    if let Some(why) = &group.not_ranked {
        write!(out, "<p>Not ranked: {}.</p>", escaped(why)).ok();
    }
    charts(out, group, runs, options);
    verdicts(out, group);
    if !group.differs_in.is_empty() {
        out.push_str("<h3>Differs in</h3><ul>");
        for differs in &group.differs_in {
            write!(out, "<li>{}</li>", escaped(differs)).ok();
        }
        out.push_str("</ul>");
    }
    out.push_str("</section>");
}

fn results(out: &mut String, group: &Group) {
    let name = escaped(&group.test);
    write!(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results of {name}\"><table><thead><tr>").ok();
    let mut heads =
        vec!["device", "runs", "size", "MB/s", "MiB/s", "IOPS", "p99 latency", "time", "ratio"];
    let mut free: Vec<&String> =
        group.lines.iter().flat_map(|line| line.typical.labels.keys()).collect();
    free.sort();
    free.dedup();
    heads.extend(free.iter().map(|name| name.as_str()));
    for head in heads {
        write!(out, "<th scope=\"col\">{}</th>", escaped(head)).ok();
    }
    out.push_str("</tr></thead><tbody>");
    for line in &group.lines {
        write!(out, "<tr><td>{}</td><td>{}</td>", escaped(&line.device), line.runs).ok();
        write!(out, "<td>{}</td>", Bytes(line.typical.totals.bytes).binary()).ok();
        for cell in table::cells(line) {
            write!(out, "<td>{}</td>", escaped(&cell)).ok();
        }
        for name in &free {
            let value = line.typical.labels.get(*name).map_or("", String::as_str);
            write!(out, "<td>{}</td>", escaped(value)).ok();
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
}

fn figure(out: &mut String, label: &str, chart: &str) {
    write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{chart}</div>",
        escaped(label)
    )
    .ok();
}

fn charts(out: &mut String, group: &Group, runs: &[&Run], options: &Options) {
    let drawn = drawings(group, runs, options);
    for (index, (name, chart)) in drawn.charts.into_iter().enumerate() {
        figure(out, &name, &chart);
        if index == 0 && !drawn.multiples.is_empty() {
            write!(out, "<div class=\"grid\">{}</div>", drawn.multiples.concat()).ok();
        }
    }
}

/// The charts of a test.
#[derive(Clone, Debug, Default)]
pub struct Drawings {
    /// Name and SVG.
    pub charts: Vec<(String, String)>,
    /// One small chart over time for each run, on one scale, where together they cover each other.
    pub multiples: Vec<String>,
}

/// Draws a test.
pub fn drawings(group: &Group, runs: &[&Run], options: &Options) -> Drawings {
    let (mut drawn, mut multiples) = (Vec::new(), Vec::new());
    let mut add =
        |name: String, chart: Option<String>| drawn.extend(chart.map(|chart| (name, chart)));
    let all = (0.0, f64::INFINITY);
    let mut axes = vec![(Axis::Time, "time", options.range), (Axis::Bytes, "bytes", all)];
    // From the first byte on, the place on the medium is the number of bytes done.
    if runs.iter().any(|run| run.offset > 0 && run.order == Order::Sequential) {
        axes.push((Axis::Position, "position", all));
    }
    for (axis, what, range) in axes {
        let curves: Vec<Curve> = runs
            .iter()
            .map(|run| curve(run, axis, COLUMNS, range))
            .filter(|c| !c.columns.is_empty())
            .collect();
        let title = format!("{}: speed over {what}", group.test);
        add(title.clone(), speeds(&title, &curves, axis));
        let crowded = curves.len() > TOGETHER || one_hides_the_others(&curves);
        if axis == Axis::Time && crowded {
            let top = fastest(&curves);
            let each =
                curves.iter().enumerate().filter_map(|(i, alone)| small(alone, i, axis, top));
            each.for_each(|chart| multiples.push(chart));
        }
    }
    let times: Vec<(String, f64, String)> = group
        .lines
        .iter()
        .map(|line| {
            let time = spoken(std::time::Duration::from_secs_f64(line.seconds.clamp(0.0, 1e9)));
            (line.device.clone(), line.seconds, time)
        })
        .collect();
    let by_the_clock = group.test.starts_with("SEQ") || group.test.starts_with("RND");
    if by_the_clock {
        let rates = group.lines.iter().map(|line| {
            let megabytes = line.bytes_per_s / 1e6;
            (line.device.clone(), megabytes, format!("{megabytes:.1} MB/s"))
        });
        let title = format!("{}: MB/s, more is better", group.test);
        add(title.clone(), bars(&title, "MB/s", &rates.collect::<Vec<_>>()));
    } else {
        let title = format!("{}: seconds to finish, less is better", group.test);
        add(title.clone(), bars(&title, "seconds", &times));
    }
    let latency: Vec<_> = group
        .lines
        .iter()
        .filter_map(|line| Some((line.device.clone(), line.typical.latency.as_ref()?)))
        .filter(|(_, latency)| !latency.bins.is_empty())
        .collect();
    let title = format!("{}: latency", group.test);
    add(title.clone(), latencies(&title, &latency));
    Drawings { charts: drawn, multiples }
}

/// Whether one run is so much longer that the others are a line at the left.
fn one_hides_the_others(curves: &[Curve]) -> bool {
    let mut ends: Vec<f64> = curves.iter().map(|curve| curve.end).collect();
    ends.sort_by(f64::total_cmp);
    match ends[..] {
        [.., second, last] => last > 4.0 * second,
        _ => false,
    }
}

fn verdicts(out: &mut String, group: &Group) {
    out.push_str("<h3>Verdicts</h3><ul>");
    for line in &group.lines {
        let interval = line.interval.map(|interval| format!("{interval} the speed of the first"));
        let findings = &line.typical.analysis.findings;
        let sentences =
            findings.iter().map(|f| format!("{} ({})", f.sentence, f.confidence.name()));
        let all: Vec<String> = interval.into_iter().chain(sentences).collect();
        let told = if all.is_empty() { "nothing to say".to_owned() } else { all.join("; ") };
        write!(out, "<li><strong>{}</strong>: {}</li>", escaped(&line.device), escaped(&told)).ok();
    }
    out.push_str("</ul>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::runs::Parts;

    #[test]
    fn a_page_carries_no_foreign_markup_and_its_data_cannot_end_the_script() {
        let run = Run::from(Parts {
            device: "</script><script>alert(1)</script>\u{1b}".to_owned(),
            test: "<img onerror=x>".to_owned(),
            totals: Some((1 << 30, 1_000_000_000)),
            ..Parts::default()
        });
        let text = page(&[run], &Options::default()).unwrap();
        assert_eq!(text.matches("<script").count(), 1, "{text}");
        assert!(!text.contains("<img") && !text.contains('\u{1b}'));
        assert_eq!(text.matches("</script>").count(), 1);
        let data = text.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(value["groups"][0]["lines"][0]["seconds"], 1.0);
    }
}
