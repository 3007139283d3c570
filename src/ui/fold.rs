//! Lists and reports on narrow terminals. They are made for 80 columns; where there are fewer,
//! lines are folded at blanks, and what continues is indented. Pure.

/// The text in lines of at most `width` characters; a word that is longer stays whole, for it may
/// be a path that is to be copied.
pub(super) fn folded(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        fold(line, width, &mut out);
    }
    out
}

fn fold(line: &str, width: usize, out: &mut String) {
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let indent = " ".repeat((indent + 2).min(width / 2));
    let mut rest = line.to_owned();
    while rest.trim_end().chars().count() > width {
        let words = rest.char_indices().enumerate();
        // Blanks at the front are the indentation: nothing stands before them.
        let start = rest.len() - rest.trim_start().len();
        let fits = words.filter(|(n, (at, c))| *c == ' ' && *at > start && *n <= width);
        let Some(at) = fits.map(|(_, (at, _))| at).last() else { break };
        out.push_str(rest[..at].trim_end());
        out.push('\n');
        rest = format!("{indent}{}", rest[at..].trim_start_matches(' '));
    }
    out.push_str(&rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_at_blanks_and_what_continues_is_indented() {
        for (text, width, expected) in [
            ("short\nlines\n", 40, "short\nlines\n"),
            ("one two three\n", 8, "one two\n  three\n"),
            ("  one two three\n", 10, "  one two\n    three\n"),
            ("id      signed list     Debian\n", 14, "id      signed\n  list\n  Debian\n"),
            ("/a/path/that/is/long yes\n", 10, "/a/path/that/is/long yes\n"),
            ("yes /a/path/that/is/long\n", 10, "yes\n  /a/path/that/is/long\n"),
            ("no end", 4, "no\n  end"),
            ("", 4, ""),
            ("          deep words here\n", 16, "          deep\n        words\n        here\n"),
        ] {
            assert_eq!(folded(text, width), expected, "{text:?} {width}");
        }
    }

    #[test]
    fn whatever_the_width_no_word_is_lost() {
        let text = "DEVICE  SIZE   LINK\n  flash  no: it holds / and more\n\n\u{fc}ber \u{1f}\n";
        let words: Vec<&str> = text.split_whitespace().collect();
        for width in 0..50 {
            let folded = folded(text, width);
            assert_eq!(folded.split_whitespace().collect::<Vec<_>>(), words, "{width}");
        }
    }
}
