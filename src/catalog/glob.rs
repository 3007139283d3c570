//! Patterns of file names: `*` stands for any characters, `[0-9]` for one digit, all else for
//! itself. What they stand for is the version, and is compared as people count.

use std::cmp::Ordering;

/// One part of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    Digit,
    Byte(u8),
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut rest = pattern;
    let mut parts = Vec::new();
    while let Some(first) = rest.bytes().next() {
        let (part, len) = match first {
            b'*' => (Part::Any, 1),
            b'[' if rest.starts_with("[0-9]") => (Part::Digit, 5),
            byte => (Part::Byte(byte), 1),
        };
        parts.push(part);
        rest = rest.get(len..).unwrap_or_default();
    }
    parts
}

/// Whether a name fits. Goes back to the last `*` only, so it takes at most the product of the
/// two lengths.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (parts, name) = (parts(pattern), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let fits = match parts.get(p) {
            Some(Part::Byte(byte)) => *byte == name[n],
            Some(Part::Digit) => name[n].is_ascii_digit(),
            Some(Part::Any) => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            None => false,
        };
        if fits {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = star {
            (p, n) = (at + 1, from + 1);
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    parts[p..].iter().all(|part| *part == Part::Any)
}

/// Versions in names: runs of digits count as numbers, the shorter of two equal beginnings is the
/// older. In names of one pattern `24.04-` stands before `24.04.2-` and that before `24.04.10-`.
pub(super) fn by_version(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        let number = |text: &[u8]| text.iter().take_while(|c| c.is_ascii_digit()).count();
        let order = match (number(a), number(b)) {
            (0, _) | (_, 0) => match (a.split_first(), b.split_first()) {
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
                (Some((x, rest_a)), Some((y, rest_b))) => {
                    (a, b) = (rest_a, rest_b);
                    // A dot goes on with the version, anything else ends it.
                    (*x == b'.').cmp(&(*y == b'.')).then(x.cmp(y))
                }
            },
            (x, y) => {
                let trim = |text: &[u8]| -> Vec<u8> {
                    text.iter().copied().skip_while(|c| *c == b'0').collect()
                };
                let (left, right) = (trim(&a[..x]), trim(&b[..y]));
                (a, b) = (&a[x..], &b[y..]);
                left.len().cmp(&right.len()).then(left.cmp(&right))
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_names() {
        for (pattern, name, expected) in [
            ("ubuntu-24.04*-desktop-amd64.iso", "ubuntu-24.04.3-desktop-amd64.iso", true),
            ("ubuntu-24.04*-desktop-amd64.iso", "ubuntu-24.04-desktop-amd64.iso", true),
            ("ubuntu-24.04*-desktop-amd64.iso", "ubuntu-24.10-desktop-amd64.iso", false),
            ("debian-[0-9]*-amd64.iso", "debian-edu-13.1-amd64.iso", false),
            ("debian-[0-9]*-amd64.iso", "debian-13.1-amd64.iso", true),
            ("a*b", "aXbX", false),
            ("a*b*c", "abbc", true),
            ("*", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn versions_are_ordered_as_people_count() {
        let ordered =
            ["x-9", "x-24.04-a", "x-24.04.2-a", "x-24.04.3-a", "x-24.04.10-a", "x-24.10-a"];
        for pair in ordered.windows(2) {
            assert_eq!(by_version(pair[0], pair[1]), Ordering::Less, "{pair:?}");
            assert_eq!(by_version(pair[1], pair[0]), Ordering::Greater, "{pair:?}");
        }
        assert_eq!(by_version("a01", "a1"), Ordering::Equal);
    }
}
