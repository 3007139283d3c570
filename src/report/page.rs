//! The layout of text reports: labelled, wrapped lines, cells of tables, numbers. Knows nothing of
//! records. Columns are counted in characters; a string of double-width ones may run wider.

use std::fmt::Write as _;
use std::time::Duration;

use crate::text::printable;
use crate::units::spoken;

/// Fits a narrow terminal and a mail.
pub(super) const WIDTH: usize = 80;
const LABEL: usize = 12;

/// Lines of `label  text`, wrapped.
#[derive(Default)]
pub(super) struct Page(pub(super) String);

impl Page {
    /// One empty line, never two.
    pub(super) fn blank(&mut self) {
        if !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    /// A line as it is; what it holds must be clean.
    pub(super) fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    /// A labelled text; cleaned here, so that no caller can forget it.
    pub(super) fn field(&mut self, label: &str, text: &str) {
        let mut label = label;
        for part in wrap(&printable(text), WIDTH - LABEL) {
            self.line(&format!("{label:<LABEL$}{part}"));
            label = "";
        }
    }
}

/// Splits at spaces, and inside of words that are longer than a line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let chars: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + chars.len() > width {
            lines.push(String::new());
            used = 0;
        }
        // Between two blanks: names are printed as they are.
        if let Some(line) = lines.last_mut().filter(|_| chars.is_empty() && used > 0) {
            line.push(' ');
            used += 1;
        }
        for (index, c) in chars.iter().enumerate() {
            if used >= width {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                if index == 0 && used > 0 {
                    line.push(' ');
                    used += 1;
                }
                line.push(*c);
                used += 1;
            }
        }
    }
    lines
}

/// A row of a table of speeds.
pub(super) fn cells(label: &str, cells: impl IntoIterator<Item = String>) -> String {
    let mut line = format!("{:<LABEL$}{label:<5}", "");
    for cell in cells {
        // A String takes every write.
        write!(line, "{cell:>11}").ok();
    }
    line
}

/// A time that may be far below a second.
pub(super) fn short(nanos: u64) -> String {
    if nanos < 1_000_000_000 {
        return format!("{:.1} ms", nanos as f64 / 1e6);
    }
    spoken(Duration::from_nanos(nanos))
}

/// Two decimals below 10, one above: a slow stick differs in the second.
pub(super) fn number(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { 1 };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_words_and_inside_of_words_that_are_too_long() {
        for (text, lines) in [
            ("", vec![""]),
            ("one two", vec!["one two"]),
            ("one two three", vec!["one two", "three"]),
            ("abcdefghijklmnopqr", vec!["abcdefgh", "ijklmnop", "qr"]),
            ("a bcdefghijk l", vec!["a", "bcdefghi", "jk l"]),
            ("\u{65e5}\u{672c}", vec!["\u{65e5}\u{672c}"]),
        ] {
            assert_eq!(wrap(text, 8), lines, "{text}");
        }
    }

    #[test]
    fn fields_are_cleaned_and_blank_lines_are_single() {
        let mut page = Page::default();
        page.field("device", "a\u{1b}b");
        page.blank();
        page.blank();
        page.line("end");
        assert_eq!(page.0, "device      a\\u{1b}b\n\nend\n");
    }

    #[test]
    fn small_numbers_keep_two_decimals_and_short_times_milliseconds() {
        assert_eq!([0.0, 9.5, 10.0, 1234.5].map(number), ["0.00", "9.50", "10.0", "1234.5"]);
        assert_eq!([0, 2_660_000, 1_500_000_000].map(short), ["0.0 ms", "2.7 ms", "1.50 s"]);
    }
}
