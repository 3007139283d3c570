//! Bytes that stand in the place of others. Pure.

use std::ops::Range;

/// What a copy has in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// First byte.
    pub at: u64,
    /// What is there.
    pub bytes: Vec<u8>,
}

impl Patch {
    /// Zeros.
    pub fn zeros(range: &Range<u64>) -> Self {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        Self { at: range.start, bytes: vec![0; len] }
    }

    /// The bytes that it covers.
    pub fn range(&self) -> Range<u64> {
        self.at..self.at.saturating_add(self.bytes.len() as u64)
    }
}

/// Puts patches over the bytes that begin at `at`; of two that overlap the later one counts.
pub fn overlay(patches: &[Patch], at: u64, buf: &mut [u8]) {
    let end = at.saturating_add(buf.len() as u64);
    for patch in patches {
        let range = patch.range();
        let (from, to) = (range.start.max(at), range.end.min(end));
        if from >= to {
            continue;
        }
        let index = |byte: u64, base: u64| usize::try_from(byte - base).unwrap_or(usize::MAX);
        let part = &patch.bytes[index(from, range.start)..index(to, range.start)];
        buf[index(from, at)..index(to, at)].copy_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_cover_what_they_touch_and_the_last_one_wins() {
        let patches = [
            Patch { at: 3, bytes: b"abc".to_vec() },
            Patch { at: 5, bytes: b"XYZ".to_vec() },
            Patch::zeros(&(20..24)),
            Patch { at: u64::MAX, bytes: b"q".to_vec() },
        ];
        for (at, len, expected) in [
            (0, 10, &b"---abXYZ--"[..]),
            (4, 2, b"bX"),
            (7, 2, b"Z-"),
            (9, 5, b"-----"),
            (22, 4, b"\0\0--"),
            (3, 0, b""),
        ] {
            let mut buf = vec![b'-'; len];
            overlay(&patches, at, &mut buf);
            assert_eq!(buf, expected, "{at}");
        }
    }
}
