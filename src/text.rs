//! Text for terminals: what devices, files and servers say is made harmless before a person sees
//! it, and names are put into the order and quoting that people expect. Pure functions.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::path::Path;

/// Replaces everything that could steer a terminal or reorder its text by a visible escape: C0
/// and C1 control characters, DEL, and the invisible formatting characters of Unicode (bidi
/// overrides, zero-width characters, byte order mark).
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            // A line feed becomes `\n`, so one message stays one line.
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// [`printable`] for a path; bytes that are no UTF-8 become replacement characters.
pub fn printable_path(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// The same text as JSON with those characters as `\uXXXX`: still the exact value, and safe when
/// it is looked at in a terminal. `json` must be serialised JSON; they occur only in its strings.
pub fn safe_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Line feeds outside of strings are layout; inside strings serde_json escapes them.
        if c != '\n' && is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").ok();
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character could steer a terminal or hide or reorder text.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// One word for a shell, quoted only when it must be, control characters escaped (bash's `$'..'`).
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+:@%,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if !word.chars().any(is_unsafe) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            _ if is_unsafe(c) => {
                write!(out, "\\U{:08x}", u32::from(c)).ok();
            }
            _ => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Order of names as people count: `loop2` before `loop10`, `sdz` before `sdaa` is left to length
/// within letters of one prefix, as the kernel hands them out.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        let (run_a, rest_a) = first_run(a);
        let (run_b, rest_b) = first_run(b);
        let digits = |run: &str| run.starts_with(|c: char| c.is_ascii_digit());
        let order = if digits(run_a) && digits(run_b) {
            let (x, y) = (run_a.trim_start_matches('0'), run_b.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y)).then_with(|| run_a.cmp(run_b))
        } else if is_sd_like(run_a) && is_sd_like(run_b) && run_a[..2] == run_b[..2] {
            run_a.len().cmp(&run_b.len()).then_with(|| run_a.cmp(run_b))
        } else {
            run_a.cmp(run_b)
        };
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The drivers that count in letters: sda ... sdz, sdaa (sd, virtio_blk, xen-blkfront, IDE).
fn is_sd_like(run: &str) -> bool {
    ["sd", "vd", "hd"].iter().any(|prefix| run.starts_with(prefix))
}

/// The longest start of only digits or only other characters, and the rest.
fn first_run(text: &str) -> (&str, &str) {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_device_says_reaches_the_terminal_raw() {
        for (raw, shown) in [
            ("Ultra Fit", "Ultra Fit"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("a\u{9b}31mb\r\n", "a\\u{9b}31mb\\r\\n"),
            ("evil\u{202e}cod", "evil\\u{202e}cod"),
            ("\u{e4} \u{65e5}", "\u{e4} \u{65e5}"),
        ] {
            assert_eq!(printable(raw), shown);
        }
    }

    #[test]
    fn json_stays_exact_and_becomes_harmless() {
        let value = "a\u{9b}b\u{7f}\u{202e}\u{e0041}\u{1b}\u{fc}";
        let json = safe_json(&serde_json::to_string(value).unwrap());
        assert!(json.chars().all(|c| !is_unsafe(c)), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
    }

    #[test]
    fn shell_words_survive_a_shell() {
        for (word, quoted) in [
            ("/media/STICK", "/media/STICK"),
            ("/media/My Stick", "'/media/My Stick'"),
            ("it's", "'it'\\''s'"),
            ("a\u{1b}b'", "$'a\\U0000001bb\\''"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }

    #[test]
    fn names_sort_as_people_count() {
        let mut names = [
            "sdaa", "loop10", "sdb", "loop2", "nvme1n1", "nvme0n1", "mmcblk0", "sda", "sdz",
            "loop1",
        ];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            [
                "loop1", "loop2", "loop10", "mmcblk0", "nvme0n1", "nvme1n1", "sda", "sdb", "sdz",
                "sdaa"
            ]
        );
    }
}
