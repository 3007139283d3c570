//! A chart of one run in characters: braille dots, two by four in a cell, or `#` where the terminal
//! has no Unicode.

use super::plot::Curve;

/// Dots of a braille cell by column and row (Unicode 16, block 2800).
const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// `height` lines of `width` characters; the top is `fastest` bytes a second. Filled from the mean
/// down to 0, with a gap where the slowest second of a column was below it.
pub fn chart(curve: &Curve, width: usize, height: usize, fastest: f64, ascii: bool) -> Vec<String> {
    let (across, up) = if ascii { (1, 1) } else { (2, 4) };
    let (columns, rows) = (width * across, height * up);
    let level = |speed: f64| {
        let share = if fastest > 0.0 { speed / fastest } else { 0.0 };
        share * rows as f64
    };
    let mut heights = vec![(0.0, 0.0); columns];
    for (index, slot) in heights.iter_mut().enumerate() {
        let at = index * curve.columns.len() / columns.max(1);
        if let Some(column) = curve.columns.get(at) {
            *slot = (level(column.low), level(column.mean));
        }
    }
    let filled = |column: usize, row: usize| {
        let (low, mean) = heights[column];
        let bottom = row as f64;
        // The line itself, and everything below the slowest second.
        bottom < low || bottom < mean && mean - bottom <= 1.0
    };
    (0..height)
        .rev()
        .map(|line| {
            (0..width)
                .map(|cell| {
                    if ascii {
                        return if filled(cell, line) { '#' } else { ' ' };
                    }
                    let mut dots = 0;
                    for (x, column) in DOTS.iter().enumerate() {
                        for (y, dot) in column.iter().enumerate() {
                            if filled(cell * across + x, line * up + (up - 1 - y)) {
                                dots |= dot;
                            }
                        }
                    }
                    char::from_u32(0x2800 + dots).unwrap_or(' ')
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::plot::Column;
    use super::*;

    fn curve(speeds: &[f64]) -> Curve {
        let columns = speeds.iter().enumerate();
        let columns = columns.map(|(x, s)| Column { x: x as f64, low: *s, mean: *s, high: *s });
        Curve { label: String::new(), columns: columns.collect(), end: speeds.len() as f64 }
    }

    #[test]
    fn a_cliff_is_a_step() {
        let lines = chart(&curve(&[100.0, 100.0, 25.0, 25.0]), 4, 4, 100.0, true);
        assert_eq!(lines, ["##  ", "##  ", "##  ", "####"]);
        let lines = chart(&curve(&[100.0, 100.0, 25.0, 25.0]), 4, 2, 100.0, false);
        assert_eq!(lines[0], "\u{28ff}\u{28ff}\u{2800}\u{2800}");
        assert_eq!(lines[1], "\u{28ff}\u{28ff}\u{28e4}\u{28e4}");
    }

    #[test]
    fn nothing_is_blank() {
        assert_eq!(chart(&curve(&[]), 3, 1, 0.0, true), ["   "]);
    }
}
