//! Foreign text made safe to print.
//!
//! Owns: [`printable`]. Labels and names come from whoever made the image; a terminal must not
//! obey them, and a reader must not be misled by text that runs backwards. Every label in this
//! module has passed through here already; passing twice changes nothing.

use std::fmt::Write as _;

/// Escapes control characters (C0, DEL, C1), bidirectional controls, line separators and
/// invisible characters; everything else stays as it is.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing into a String cannot fail.
        let _ignored = match u32::from(c) {
            code @ (0..=0x1F | 0x7F..=0x9F) => write!(out, "\\x{code:02X}"),
            code @ (0xAD
            | 0x061C
            | 0x180E
            | 0x200B..=0x200F
            | 0x2028..=0x202E
            | 0x2060..=0x206F
            | 0xFEFF
            | 0xFFF9..=0xFFFB
            | 0xE0000..=0xE007F) => write!(out, "\\u{{{code:X}}}"),
            _ => out.write_char(c),
        };
    }
    out
}

/// The same for bytes: UTF-8 where it is, `\xNN` for every byte that is not.
#[must_use]
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&printable(chunk.valid()));
        for byte in chunk.invalid() {
            let _ignored = write!(out, "\\x{byte:02X}");
        }
    }
    out
}

/// A padded field: cut at NUL, trailing blanks dropped, escaped; empty is `None`.
pub(crate) fn label(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    let text = printable_bytes(field[..end].trim_ascii_end());
    (!text.is_empty()).then_some(text)
}

/// A padded UTF-16 field, little or big endian by `read`; empty is `None`.
pub(crate) fn label16(field: &[u8], read: fn([u8; 2]) -> u16) -> Option<String> {
    let units: Vec<u16> = field
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| read(*pair))
        .take_while(|&unit| unit != 0)
        .collect();
    let text = printable(String::from_utf16_lossy(&units).trim_end());
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_labels_lose_their_power() {
        for (given, want) in [
            ("plain \u{e9}", "plain \u{e9}"),
            ("a\u{1b}[2Jb", "a\\x1B[2Jb"),
            ("new\nline\r\t", "new\\x0Aline\\x0D\\x09"),
            ("del\u{7f} csi\u{9b}", "del\\x7F csi\\x9B"),
            ("x\u{202e}gpj.exe", "x\\u{202E}gpj.exe"),
            ("\u{feff}\u{2066}", "\\u{FEFF}\\u{2066}"),
        ] {
            assert_eq!(printable(given), want);
            assert_eq!(printable(&printable(given)), want, "twice is once");
        }
        assert_eq!(printable_bytes(b"ok\xff\x00"), "ok\\xFF\\x00");
    }

    #[test]
    fn fields_are_cut_and_trimmed() {
        assert_eq!(label(b"DATA   \0\0"), Some("DATA".into()));
        assert_eq!(label(b"    "), None);
        assert_eq!(
            label16(b"E\0F\0I\0\0\0x\0", u16::from_le_bytes),
            Some("EFI".into())
        );
        assert_eq!(label16(b"\0E\0F", u16::from_be_bytes), Some("EF".into()));
    }
}
