//! Checked little and big endian fields of a byte slice.
//!
//! Owns: the only way this module reads a number out of foreign bytes. A field that is not
//! there is `None`, so a truncated structure is an ordinary "not recognised", never a panic.

macro_rules! field {
    ($name:ident, $type:ty, $from:ident) => {
        pub(crate) fn $name(bytes: &[u8], at: usize) -> Option<$type> {
            bytes.get(at..)?.first_chunk().copied().map(<$type>::$from)
        }
    };
}

field!(le16, u16, from_le_bytes);
field!(le32, u32, from_le_bytes);
field!(le64, u64, from_le_bytes);
field!(be16, u16, from_be_bytes);
field!(be32, u32, from_be_bytes);
field!(be64, u64, from_be_bytes);

pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// Whether `bytes` holds `magic` at `at`.
pub(crate) fn has(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// Whether `needle` occurs anywhere, ASCII case ignored.
pub(crate) fn contains_ignore_case(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && haystack.windows(needle.len()).any(|w| w.eq_ignore_ascii_case(needle))
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, b| {
        // Writing into a String cannot fail.
        write!(out, "{b:02x}").ok();
        out
    })
}

/// Sixteen bytes in the order of RFC 4122 text: `8-4-4-4-12`. All zero is no identifier.
pub(crate) fn uuid(bytes: &[u8], at: usize) -> Option<String> {
    let raw: [u8; 16] = bytes.get(at..)?.first_chunk().copied()?;
    if raw == [0; 16] {
        return None;
    }
    let digits = hex(&raw);
    Some(format!(
        "{}-{}-{}-{}-{}",
        &digits[0..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..32]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_is_none() {
        assert_eq!(le32(&[1, 2, 3], 0), None);
        assert_eq!(le32(&[1, 2, 3, 4], usize::MAX), None);
        assert_eq!(le32(&[1, 2, 3, 4], 0), Some(0x0403_0201));
        assert_eq!(be16(&[1, 2, 3, 4], 2), Some(0x0304));
    }

    #[test]
    fn identifiers_have_the_usual_groups() {
        let raw: Vec<u8> = (1..=16).collect();
        assert_eq!(uuid(&raw, 0).as_deref(), Some("01020304-0506-0708-090a-0b0c0d0e0f10"));
        assert_eq!(uuid(&[0; 16], 0), None);
    }
}
