//! Text from devices, files and servers on its way to a terminal or a log. A volume label or a
//! model string may hold escape sequences; nothing is printed that was not passed through here.
//! Knows nothing of what the text means.

use std::borrow::Cow;

/// `text` with everything that could act on a terminal made visible: control characters
/// (C0, DEL, C1), line and paragraph separators, and the marks that reorder or hide text
/// (Unicode Standard Annex 9, section 2). A line feed becomes `\n`, so one message stays one
/// line.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{61c}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_made_visible_and_the_rest_stays() {
        for (text, shown) in [
            ("SanDisk Ultra", "SanDisk Ultra"),
            ("", ""),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            (
                "bell\u{7}del\u{7f}csi\u{9b}",
                "bell\\u{7}del\\u{7f}csi\\u{9b}",
            ),
            ("rtl\u{202e}fdp", "rtl\\u{202e}fdp"),
            (
                "U\u{308}ber \u{65e5}\u{672c}",
                "U\u{308}ber \u{65e5}\u{672c}",
            ),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
    }
}
