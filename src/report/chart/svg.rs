//! Charts as SVG 1.1, written by hand: full control over text, no dependency. Colours and dashes
//! are those of CSS classes, so that a page and a single file look alike, light and dark. Text is
//! text; strings are escaped here.
//!
//! Colours: the palette of Okabe and Ito (2008), which people with any colour vision can tell
//! apart, with a dash pattern for each; or Tableau's, as fio-plot has them.

use std::fmt::Write as _;

use crate::chart::plot::{self, Axis, Curve, ticks};
use crate::event::measure::Latency;
use crate::text::printable;

/// Which colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// Told apart with any colour vision.
    #[default]
    Safe,
    /// As in fio-plot.
    FioPlot,
}

impl Palette {
    /// Light and dark background; eight each.
    fn colours(self) -> [[&'static str; 8]; 2] {
        match self {
            Self::Safe => [
                [
                    "#0072b2", "#d55e00", "#009e73", "#b3478f", "#8a6d00", "#1f7fae", "#000000",
                    "#7a5195",
                ],
                [
                    "#56b4e9", "#ff9146", "#2fd6a3", "#e69fcb", "#f0e442", "#9ad7ff", "#ffffff",
                    "#c9a6ff",
                ],
            ],
            Self::FioPlot => {
                let tableau = [
                    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2",
                    "#7f7f7f",
                ];
                [tableau, tableau]
            }
        }
    }

    /// The style sheet of a chart.
    pub fn style(self) -> String {
        let [light, dark] = self.colours();
        let mut css = format!(".chart{{{}}}", variables(LIGHT));
        css.push_str(&rules(light));
        write!(css, "@media (prefers-color-scheme:dark){{.chart{{{}}}", variables(DARK)).ok();
        css.push_str(&coloured(dark));
        css.push('}');
        css
    }

    /// The same for programs that know neither variables nor media queries: light, no choice.
    #[cfg(feature = "png")]
    fn plain_style(self) -> String {
        let [light, _] = self.colours();
        let mut css = rules(light).replace("system-ui,", "");
        for (name, value) in LIGHT {
            css = css.replace(&format!("var(--{name})"), value);
        }
        css
    }
}

/// What is not data: names of CSS variables and their values.
type Ground = [(&'static str, &'static str); 4];
const LIGHT: Ground =
    [("ink", "#1a1a1a"), ("soft", "#595959"), ("grid", "#d5d5d5"), ("paper", "#fff")];
const DARK: Ground =
    [("ink", "#f2f2f2"), ("soft", "#b8b8b8"), ("grid", "#444"), ("paper", "#16181a")];

fn variables(ground: Ground) -> String {
    ground.map(|(name, value)| format!("--{name}:{value}")).join(";")
}

fn rules(colours: [&str; 8]) -> String {
    const DASHES: [&str; 8] =
        ["none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "6 2 1 2 1 2"];
    let mut css = String::from(
        ".chart text{font:13px system-ui,sans-serif;fill:var(--soft)}.chart .head{font-size:15px;fill:var(--ink)}\
         .chart .grid{stroke:var(--grid);stroke-width:1}.chart .axis{stroke:var(--soft);stroke-width:1}\
         .chart .line{fill:none;stroke-width:2;stroke-linejoin:round}.chart .band{opacity:.25;stroke:none}",
    );
    css.push_str(&coloured(colours));
    for (index, dash) in DASHES.iter().enumerate() {
        // A String takes every write.
        write!(css, ".chart .s{index}{{stroke-dasharray:{dash}}}").ok();
    }
    css
}

fn coloured(colours: [&str; 8]) -> String {
    let mut css = String::new();
    for (index, colour) in colours.iter().enumerate() {
        write!(css, ".chart .s{index}{{stroke:{colour}}}.chart .f{index}{{fill:{colour}}}").ok();
    }
    css
}

/// `&`, `<`, `>`, quotes; control characters are made visible.
pub fn escaped(text: &str) -> String {
    let clean = printable(text);
    let mut out = String::with_capacity(clean.len());
    for c in clean.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 62.0;
/// Room for the labels at the ends of lines.
const RIGHT: f64 = 240.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 46.0;
/// Lines of text do not touch at this distance.
const APART: f64 = 16.0;

/// Opens a chart with its accessible name and description.
fn open((width, height): (f64, f64), title: &str, description: &str) -> String {
    let id: u32 = title
        .bytes()
        .fold(2_166_136_261, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(16_777_619));
    let (title, description) = (escaped(title), escaped(description));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
         aria-labelledby=\"t{id:x} d{id:x}\"><title id=\"t{id:x}\">{title}</title><desc id=\"d{id:x}\">{description}</desc>\
         <text class=\"head\" x=\"{LEFT}\" y=\"22\">{title}</text>"
    )
}

/// A file of its own: with its style and a background.
pub fn standalone(chart: &str, palette: Palette) -> String {
    let style = format!("<style>svg{{background:var(--paper)}}{}</style>", palette.style());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
        chart.replacen("<title", &format!("{style}<title"), 1)
    )
}

/// The same without a ground, in the simplest style there is.
#[cfg(feature = "png")]
pub(super) fn plain(chart: &str, palette: Palette) -> String {
    let style = format!("<style>{}</style>", palette.plain_style());
    chart.replacen("<title", &format!("{style}<title"), 1)
}

/// Where data lies on the paper.
struct Frame {
    width: f64,
    /// Room at the right.
    right: f64,
    height: f64,
    x_top: f64,
    y_top: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        LEFT + value / self.x_top * (self.width - LEFT - self.right)
    }

    fn y(&self, value: f64) -> f64 {
        self.height - BOTTOM - value / self.y_top * (self.height - TOP - BOTTOM)
    }

    fn axes(&self, out: &mut String, x: &[(f64, String)], x_label: &str, y_label: &str) {
        let (right, bottom) = (self.width - self.right, self.height - BOTTOM);
        for tick in ticks(self.y_top, 5) {
            let y = self.y(tick);
            write!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>").ok();
            let label = trimmed(tick);
            write!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            )
            .ok();
        }
        for (tick, label) in x {
            let x = self.x(*tick);
            write!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 18.0
            )
            .ok();
        }
        write!(out, "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>")
            .ok();
        let middle = f64::midpoint(LEFT, right);
        write!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            self.height - 8.0,
            escaped(x_label)
        )
        .ok();
        let y = f64::midpoint(TOP, bottom);
        write!(
            out,
            "<text transform=\"translate(16 {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            escaped(y_label)
        )
        .ok();
    }
}

fn trimmed(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Speeds of several runs over time or bytes. `None` when nothing is to be drawn.
pub fn speeds(title: &str, curves: &[Curve], axis: Axis) -> Option<String> {
    let frame = Frame {
        width: WIDTH,
        right: RIGHT,
        height: 380.0,
        x_top: curves.iter().map(|curve| curve.end).fold(0.0, f64::max),
        y_top: fastest(curves) / 1e6 * 1.08,
    };
    let names: Vec<&str> = curves.iter().map(|curve| curve.label.as_str()).collect();
    let words = format!("Speed in MB/s of {}", names.join(", "));
    let mut out = lines(&frame, (title, &words), axis, curves.iter().enumerate())?;
    ends(&mut out, &frame, curves);
    out.push_str("</svg>");
    Some(out)
}

/// One run alone and small, on the scale of all: `index` gives its colour, `top` is the fastest
/// second of all runs, bytes a second.
pub fn small(curve: &Curve, index: usize, axis: Axis, top: f64) -> Option<String> {
    let y_top = top / 1e6 * 1.08;
    let frame = Frame { width: 480.0, right: 24.0, height: 240.0, x_top: curve.end, y_top };
    let words = format!("Speed in MB/s of {}", curve.label);
    let mut out = lines(&frame, (&curve.label, &words), axis, std::iter::once((index, curve)))?;
    out.push_str("</svg>");
    Some(out)
}

/// The fastest second of all, bytes a second.
pub fn fastest(curves: &[Curve]) -> f64 {
    curves.iter().flat_map(|curve| &curve.columns).map(|column| column.high).fold(0.0, f64::max)
}

/// An open chart with its axes and lines.
fn lines<'a>(
    frame: &Frame,
    (title, words): (&str, &str),
    axis: Axis,
    curves: impl Iterator<Item = (usize, &'a Curve)>,
) -> Option<String> {
    if frame.x_top <= 0.0 || frame.y_top <= 0.0 {
        return None;
    }
    let mut out = open((frame.width, frame.height), title, words);
    let x_top = frame.x_top;
    let (x_ticks, x_label) = match axis {
        Axis::Time => {
            let ticks = ticks(x_top, 6).into_iter().map(|t| (t, trimmed(t))).collect::<Vec<_>>();
            (ticks, "seconds")
        }
        Axis::Bytes | Axis::Position => {
            let ticks = ticks(x_top / 1e9, 6).into_iter().map(|t| (t * 1e9, trimmed(t)));
            let label =
                if axis == Axis::Bytes { "GB done" } else { "GB from the start of the medium" };
            (ticks.collect::<Vec<_>>(), label)
        }
    };
    frame.axes(&mut out, &x_ticks, x_label, "MB/s");
    for (index, curve) in curves {
        draw(&mut out, frame, index % 8, curve);
    }
    Some(out)
}

fn draw(out: &mut String, frame: &Frame, style: usize, curve: &Curve) {
    let place = |x: f64, speed: f64| format!("{:.1} {:.1}", frame.x(x), frame.y(speed / 1e6));
    let wide = |column: &plot::Column| column.high - column.low > 0.0;
    if curve.columns.iter().any(wide) {
        let up = curve.columns.iter().map(|c| place(c.x, c.high));
        let down = curve.columns.iter().rev().map(|c| place(c.x, c.low));
        let path: Vec<String> = up.chain(down).collect();
        write!(out, "<path class=\"band f{style}\" d=\"M{}Z\"/>", path.join("L")).ok();
    }
    let path: Vec<String> = curve.columns.iter().map(|c| place(c.x, c.mean)).collect();
    let dot = if path.len() == 1 { "h1" } else { "" };
    write!(
        out,
        "<path class=\"line s{style}\" d=\"M{}{dot}\"><title>{}</title></path>",
        path.join("L"),
        escaped(&curve.label)
    )
    .ok();
}

/// Labels at the right, as near to the ends of their lines as they can be without touching.
fn ends(out: &mut String, frame: &Frame, curves: &[Curve]) {
    let mut places: Vec<(usize, f64)> = curves
        .iter()
        .enumerate()
        .filter_map(|(i, curve)| Some((i, frame.y(curve.columns.last()?.mean / 1e6))))
        .collect();
    places.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (mut least, most) = (TOP + 4.0, frame.height - BOTTOM);
    let count = places.len();
    for (rank, (_, y)) in places.iter_mut().enumerate() {
        let room = most - APART * (count - 1 - rank) as f64;
        *y = y.max(least).min(room.max(least));
        least = *y + APART;
    }
    for (index, y) in places {
        let Some(end) = curves[index].columns.last() else { continue };
        let (style, x) = (index % 8, WIDTH - RIGHT + 12.0);
        let (from_x, from_y) = (frame.x(end.x), frame.y(end.mean / 1e6));
        write!(
            out,
            "<path class=\"grid\" fill=\"none\" d=\"M{from_x:.1} {from_y:.1}L{:.1} {y:.1}\"/>",
            x - 4.0
        )
        .ok();
        write!(out, "<path class=\"line s{style}\" d=\"M{x:.1} {y:.1}h18\"/>").ok();
        let label = cut(&curves[index].label, 23);
        write!(out, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 23.0, y + 4.0, escaped(&label))
            .ok();
    }
}

/// At most `most` characters, the end of a longer text left out.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - 2).collect();
    format!("{}..", kept.trim_end())
}

/// Horizontal bars, one for each name, with its value in words; the values start at 0.
pub fn bars(title: &str, unit: &str, values: &[(String, f64, String)]) -> Option<String> {
    const ROW: f64 = 30.0;
    const NAMES: f64 = 270.0;
    let top = values.iter().map(|value| value.1).fold(0.0, f64::max);
    if top <= 0.0 {
        return None;
    }
    let height = TOP + ROW * values.len() as f64 + 12.0;
    let told: Vec<String> = values.iter().map(|v| format!("{}: {}", v.0, v.2)).collect();
    let mut out = open((WIDTH, height), title, &format!("{unit}. {}", told.join("; ")));
    for (index, (name, value, words)) in values.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let width = value / top * (WIDTH - NAMES - 150.0);
        let name = cut(name, 36);
        write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            NAMES - 8.0,
            y + 15.0,
            escaped(&name)
        )
        .ok();
        write!(
            out,
            "<rect class=\"f{}\" x=\"{NAMES}\" y=\"{:.1}\" width=\"{:.1}\" height=\"20\"/>",
            index % 8,
            y,
            width.max(1.0)
        )
        .ok();
        write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES + width + 8.0,
            y + 15.0,
            escaped(words)
        )
        .ok();
    }
    out.push_str("</svg>");
    Some(out)
}

/// How many of the I/Os were at most so slow, over a logarithmic axis.
pub fn latencies(title: &str, runs: &[(String, &Latency)]) -> Option<String> {
    let bins = || runs.iter().flat_map(|(_, latency)| &latency.bins);
    let low = bins().map(|bin| bin.0).min()?.max(1) as f64;
    let high = bins().map(|bin| bin.0).max()?.max(2) as f64;
    let (start, decades) =
        (low.log10().floor(), (high.log10().ceil() - low.log10().floor()).max(1.0));
    let frame = Frame { width: WIDTH, right: RIGHT, height: 320.0, x_top: decades, y_top: 100.0 };
    let names: Vec<&str> = runs.iter().map(|run| run.0.as_str()).collect();
    let mut out = open(
        (frame.width, frame.height),
        title,
        &format!("Share of I/Os by latency of {}", names.join(", ")),
    );
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a dozen decades")]
    let marks = (0..=decades as u32).map(|decade| {
        let nanos = 10f64.powf(start + f64::from(decade));
        let label = match nanos {
            n if n < 1e3 => format!("{n:.0} ns"),
            n if n < 1e6 => format!("{:.0} us", n / 1e3),
            n if n < 1e9 => format!("{:.0} ms", n / 1e6),
            n => format!("{:.0} s", n / 1e9),
        };
        (f64::from(decade), label)
    });
    let marks: Vec<(f64, String)> = marks.collect();
    frame.axes(&mut out, &marks, "latency, at most", "% of I/Os");
    let mut curves = Vec::new();
    for (index, (label, latency)) in runs.iter().enumerate() {
        let total: u64 = latency.bins.iter().map(|bin| bin.1).sum();
        let mut sum = 0;
        let mut path = Vec::new();
        let mut last = 0.0;
        for (bound, count) in &latency.bins {
            sum += count;
            last = ((*bound).max(1) as f64).log10() - start;
            let share = sum as f64 / total.max(1) as f64 * 100.0;
            path.push(format!("{:.1} {:.1}", frame.x(last), frame.y(share)));
        }
        write!(
            out,
            "<path class=\"line s{}\" d=\"M{}\"><title>{}</title></path>",
            index % 8,
            path.join("L"),
            escaped(label)
        )
        .ok();
        let column = plot::Column { x: last, low: 1e8, mean: 1e8, high: 1e8 };
        curves.push(Curve { label: label.clone(), columns: vec![column], end: decades });
    }
    ends(&mut out, &frame, &curves);
    out.push_str("</svg>");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::plot::Column;

    fn curve(label: &str, speed: f64) -> Curve {
        let column = |x| Column { x, low: speed / 2.0, mean: speed, high: speed };
        Curve { label: label.to_owned(), columns: vec![column(0.5), column(1.5)], end: 2.0 }
    }

    /// Attributes `name` of elements that start with `element`.
    fn numbers(svg: &str, element: &str, name: &str) -> Vec<f64> {
        let parts = svg.split(element).skip(1);
        let value = |part: &str| -> Option<f64> {
            part.split('>')
                .next()?
                .split(&format!("{name}=\""))
                .nth(1)?
                .split('"')
                .next()?
                .parse()
                .ok()
        };
        parts.filter_map(value).collect()
    }

    #[test]
    fn labels_at_the_ends_never_touch_and_stay_on_the_paper() {
        let curves: Vec<Curve> =
            (0..8).map(|i| curve(&format!("run {i}"), 1e8 + f64::from(i))).collect();
        let svg = speeds("t", &curves, Axis::Time).unwrap();
        let x = WIDTH - RIGHT + 35.0;
        let mut ys: Vec<f64> = svg
            .split(&format!("<text x=\"{x:.1}\" y=\""))
            .skip(1)
            .map(|part| part.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(ys.len(), 8, "{svg}");
        ys.sort_by(f64::total_cmp);
        assert!(ys.windows(2).all(|pair| pair[1] - pair[0] >= APART - 0.2), "{ys:?}");
        assert!(ys[0] > 0.0 && ys[7] < 380.0);
    }

    #[test]
    fn text_of_devices_is_escaped() {
        let svg = speeds(
            "<script>alert('1')</script>",
            &[curve("a\u{1b}[31m<b>&\"", 1.0e6)],
            Axis::Bytes,
        );
        let svg = svg.unwrap();
        assert!(
            !svg.contains("<script") && !svg.contains("<b>") && !svg.contains('\u{1b}'),
            "{svg}"
        );
        assert!(roxmltree::Document::parse(&standalone(&svg, Palette::Safe)).is_ok());
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let values = [("a", 471.0), ("b", 23.55)].map(|(n, v)| (n.to_owned(), v, format!("{v} s")));
        let svg = bars("seconds", "seconds", &values).unwrap();
        let widths = numbers(&svg, "<rect", "width");
        assert!((widths[0] / widths[1] - 20.0).abs() < 0.1, "{widths:?}");
        assert_eq!(bars("x", "y", &[]), None);
    }

    #[test]
    fn nothing_makes_no_chart_and_latencies_reach_100_percent() {
        assert_eq!(speeds("t", &[], Axis::Time), None);
        let latency = Latency { bins: vec![(80_000, 90), (2_000_000, 10)], ..Latency::default() };
        let svg = latencies("l", &[("a".to_owned(), &latency)]).unwrap();
        assert!(svg.contains("100 us") && svg.contains("10 ms"), "{svg}");
        assert!(roxmltree::Document::parse(&svg).is_ok());
    }
}
