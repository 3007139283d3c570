//! Labels of foreign making: cut at NUL, trailing blanks dropped, escaped. What a terminal must
//! not see is decided in `crate::text`; bytes that are no UTF-8 become `\xNN`.

use std::fmt::Write as _;

use crate::text::printable;

/// Text for bytes: UTF-8 where it is, `\xNN` for every byte that is not.
#[must_use]
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&printable(chunk.valid()));
        for byte in chunk.invalid() {
            // A String takes every write.
            write!(out, "\\x{byte:02X}").ok();
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
        assert_eq!(label(b"a\x1b[2Jb\0junk").unwrap(), "a\\u{1b}[2Jb");
        assert_eq!(label(b"\xff\xfeab   ").unwrap(), "\\xFF\\xFEab");
        assert_eq!(label(b"    \0"), None);
        assert_eq!(label16(b"A\0B\0\0\0C\0", u16::from_le_bytes).unwrap(), "AB");
    }
}
