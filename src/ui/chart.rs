//! The chart below the progress line: the whole phase, a second in each column of dots until they
//! are all used, then two seconds in each, and so on. Pure.

use crate::chart::braille;
use crate::chart::plot::{Column, Curve};
use crate::event::Sample;
use crate::meter::series;
use crate::units::Rate;

/// A chart of at most `height` lines, all shorter than `width`; nothing where there is nothing to
/// see yet.
pub(super) fn lines(rows: &[Sample], width: usize, height: usize, ascii: bool) -> Vec<String> {
    let speeds: Vec<f64> = rows
        .iter()
        .filter(|row| series::is_full(row))
        .map(|row| row.rate().bytes_per_second)
        .collect();
    let fastest = speeds.iter().copied().fold(0.0, f64::max);
    // Terminals wrap when the last column is used.
    let cells = width.saturating_sub(1);
    let columns = cells * if ascii { 1 } else { 2 };
    if fastest <= 0.0 || columns == 0 || height < 2 {
        return Vec::new();
    }
    let each = speeds.len().div_ceil(columns);
    let mut curve: Vec<Column> = speeds.chunks(each).enumerate().map(column).collect();
    curve.resize(columns, Column { x: 0.0, low: 0.0, mean: 0.0, high: 0.0 });
    let curve = Curve { label: String::new(), columns: curve, end: speeds.len() as f64 };
    let top = Rate { bytes_per_second: fastest }.decimal();
    let head = format!("0 to {top}, a column of dots is {each} s");
    let drawn = braille::chart(&curve, cells, height - 1, fastest, ascii);
    std::iter::once(head.chars().take(cells).collect())
        .chain(drawn.into_iter().map(|line| line.trim_end_matches([' ', '\u{2800}']).to_owned()))
        .collect()
}

fn column((index, seconds): (usize, &[f64])) -> Column {
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let low = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let high = seconds.iter().copied().fold(0.0, f64::max);
    Column { x: index as f64, low, mean, high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;

    fn rows(megabytes: &[u64]) -> Vec<Sample> {
        let row = |(second, megabytes): (usize, &u64)| Sample {
            phase: Phase::Write,
            second: second as u64,
            nanos: 1_000_000_000,
            bytes: megabytes * 1_000_000,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        };
        megabytes.iter().enumerate().map(row).collect()
    }

    #[test]
    fn a_second_is_a_column_from_the_left_until_all_are_used() {
        let drawn = lines(&rows(&[40, 40, 10, 0]), 11, 5, true);
        assert_eq!(drawn, ["0 to 40.0 ", "##", "##", "##", "###"]);
        let drawn = lines(&rows(&[40, 40, 10, 10]), 41, 3, false);
        assert_eq!(drawn[0], "0 to 40.0 MB/s, a column of dots is 1 s");
        assert_eq!(drawn[1..], ["\u{28ff}", "\u{28ff}\u{28e4}"]);
        let long = vec![40; 25];
        let drawn = lines(&rows(&long), 11, 2, true);
        assert_eq!(drawn[1], "#########", "25 seconds by threes");
    }

    #[test]
    fn it_fits_every_size_and_is_empty_where_nothing_moved() {
        assert!(lines(&rows(&[0, 0]), 80, 6, false).is_empty());
        assert!(lines(&[], 80, 6, false).is_empty());
        for width in 0..120 {
            for line in lines(&rows(&[40, 0, 30]), width, 6, false) {
                assert!(line.chars().count() < width.max(1), "{width}: {line}");
            }
        }
    }
}
