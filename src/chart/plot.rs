//! Series as they are drawn: columns with the slowest, mean and fastest speed in them; axes with
//! round ticks.

use crate::event::Sample;

/// What the x axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Seconds since the pass began.
    Time,
    /// Bytes since the pass began.
    Bytes,
    /// Place on the medium of a pass from one end to the other, bytes.
    Position,
}

/// A column of a chart: where it is, and the speeds in it, bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// Middle of the column, in units of the axis.
    pub x: f64,
    /// Slowest second.
    pub low: f64,
    /// Bytes divided by time.
    pub mean: f64,
    /// Fastest second.
    pub high: f64,
}

/// A run as a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// What stands at its end.
    pub label: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// Where it ends, in units of the axis.
    pub end: f64,
}

/// What a curve is made of.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// What stands at its end.
    pub label: String,
    /// Its seconds.
    pub rows: &'a [Sample],
    /// Where on the medium it began.
    pub offset: u64,
}

/// Its curve in at most `columns` columns, between `from` and `to` on the axis.
pub fn curve(series: Series<'_>, axis: Axis, columns: usize, (from, to): (f64, f64)) -> Curve {
    let first = if axis == Axis::Position { series.offset as f64 } else { 0.0 };
    let points = points(series.rows, axis, first);
    let inside: Vec<&Point> =
        points.iter().filter(|point| point.end > from && point.start < to).collect();
    let end = inside.last().map_or(0.0, |point| point.end.min(to));
    let start = inside.first().map_or(0.0, |point| point.start.max(from));
    let width = (end - start) / columns.max(1) as f64;
    let mut drawn: Vec<Column> = Vec::new();
    let mut group: Vec<&Point> = Vec::new();
    let mut border = start + width;
    for point in inside {
        let middle = f64::midpoint(point.start, point.end);
        if middle > border && !group.is_empty() {
            drawn.push(column(&group));
            group.clear();
            while middle > border && width > 0.0 {
                border += width;
            }
        }
        group.push(point);
    }
    if !group.is_empty() {
        drawn.push(column(&group));
    }
    Curve { label: series.label, columns: drawn, end }
}

/// A second: its place on the axis, its bytes and its length.
struct Point {
    start: f64,
    end: f64,
    bytes: f64,
    seconds: f64,
}

fn points(rows: &[Sample], axis: Axis, first: f64) -> Vec<Point> {
    let mut at = first;
    let full = rows.iter().filter(|row| row.nanos >= 1_000_000_000).count();
    let points = rows.iter().filter_map(|row| {
        let seconds = row.nanos as f64 / 1e9;
        // A short last row says nothing about a second, unless it is all there is.
        if full > 0 && seconds < 0.999 || seconds <= 0.0 {
            return None;
        }
        let start = at;
        at += match axis {
            Axis::Time => seconds,
            Axis::Bytes | Axis::Position => row.bytes as f64,
        };
        Some(Point { start, end: at, bytes: row.bytes as f64, seconds })
    });
    points.collect()
}

fn column(points: &[&Point]) -> Column {
    let speeds = || points.iter().map(|point| point.bytes / point.seconds);
    let (bytes, seconds) =
        points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.bytes, sum.1 + p.seconds));
    let (first, last) = (points.first(), points.last());
    let x = first.zip(last).map_or(0.0, |(first, last)| f64::midpoint(first.start, last.end));
    Column {
        x,
        low: speeds().fold(f64::INFINITY, f64::min),
        mean: if seconds > 0.0 { bytes / seconds } else { 0.0 },
        high: speeds().fold(0.0, f64::max),
    }
}

/// About `count` round values from 0 to `top`: steps of 1, 2 or 5 times a power of ten.
pub fn ticks(top: f64, count: u32) -> Vec<f64> {
    if top <= 0.0 || !top.is_finite() {
        return vec![0.0];
    }
    let raw = top / f64::from(count.max(1));
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * power >= raw).unwrap_or(10.0) * power;
    (0..=count * 2)
        .map(|index| f64::from(index) * step)
        .take_while(|tick| *tick <= top * 1.000_1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;

    const ALL: (f64, f64) = (0.0, f64::INFINITY);

    fn rows(bytes: &[u64]) -> Vec<Sample> {
        let row = |second, bytes| Sample {
            phase: Phase::TestWrite,
            second,
            nanos: 1_000_000_000,
            bytes,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        };
        (0..).zip(bytes).map(|(second, bytes)| row(second, *bytes)).collect()
    }

    fn drawn(bytes: &[u64], axis: Axis, columns: usize, offset: u64, range: (f64, f64)) -> Curve {
        curve(Series { label: String::new(), rows: &rows(bytes), offset }, axis, columns, range)
    }

    #[test]
    fn one_second_of_nothing_is_seen_in_an_hour() {
        let mut speeds = vec![100; 3_600];
        speeds[1_800] = 0;
        let curve = drawn(&speeds, Axis::Time, 100, 0, ALL);
        assert!(curve.columns.len() <= 101 && curve.columns.len() >= 99);
        let dips: Vec<&Column> = curve.columns.iter().filter(|c| c.low == 0.0).collect();
        assert_eq!(dips.len(), 1);
        assert!(dips[0].mean > 90.0 && (dips[0].x - 1_800.0).abs() < 36.0);
        assert!(curve.columns.iter().all(|c| c.low <= c.mean && c.mean <= c.high));
    }

    #[test]
    fn few_seconds_are_drawn_as_they_are_and_a_range_cuts_them() {
        let all = drawn(&[5, 0, 7], Axis::Time, 600, 0, ALL);
        assert_eq!(all.columns.iter().map(|c| c.mean).collect::<Vec<_>>(), [5.0, 0.0, 7.0]);
        let part = drawn(&[5, 0, 7], Axis::Time, 600, 0, (1.0, 3.0));
        assert_eq!(part.columns.iter().map(|c| c.x).collect::<Vec<_>>(), [1.5, 2.5]);
        let bytes = drawn(&[5, 0, 7], Axis::Bytes, 600, 0, ALL);
        assert!((bytes.end - 12.0).abs() < 1e-9);
        let place = drawn(&[5, 0, 7], Axis::Position, 600, 100, ALL);
        assert_eq!(place.columns.iter().map(|c| c.x).collect::<Vec<_>>(), [102.5, 105.0, 108.5]);
    }

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        assert_eq!(ticks(361.0, 4), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(ticks(0.0, 4), [0.0]);
        assert_eq!(ticks(7.0, 7).len(), 8);
        assert!(ticks(f64::NAN, 4).len() == 1 && ticks(1e-9, 4).len() > 2);
    }
}
