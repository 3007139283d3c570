//! Names on FAT: what it forbids, short names, the slots of long names, volume labels. Pure.

use std::collections::{HashMap, HashSet};

/// Why FAT cannot hold a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A dot or a space at the end.
    Ending(char),
    /// A character that FAT forbids.
    Character(char),
    /// Empty, `.` or `..`.
    NoName,
    /// More than 255 UTF-16 units.
    TooLong(usize),
    /// Another name differs by case alone.
    SameAs(String),
    /// 4 GiB and more.
    TooLarge(u64),
    /// More than 65536 entries in a directory.
    TooMany(u64),
    /// Its directory is a file, or missing.
    NoDirectory,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ending(c) => write!(f, "FAT32 drops the {c:?} at the end of a name"),
            Self::Character(c) => write!(f, "FAT32 forbids {c:?} in names"),
            Self::NoName => f.write_str("this is no name"),
            Self::TooLong(units) => {
                write!(f, "the name has {units} UTF-16 units, FAT32 takes 255")
            }
            Self::SameAs(other) => write!(f, "to FAT32 it is the same name as {other}"),
            Self::TooLarge(bytes) => {
                write!(f, "{bytes} bytes, FAT32 takes up to {} in a file", u32::MAX)
            }
            Self::TooMany(entries) => {
                write!(f, "the directory needs {entries} entries, FAT32 takes 65536")
            }
            Self::NoDirectory => f.write_str("there is no such directory"),
        }
    }
}

/// What is wrong with one name.
pub(super) fn name_trouble(name: &str) -> Option<Trouble> {
    if matches!(name, "" | "." | "..") {
        return Some(Trouble::NoName);
    }
    if let Some(c) = name.chars().find(|c| c.is_control() || "\"*/:<>?\\|".contains(*c)) {
        return Some(Trouble::Character(c));
    }
    if let Some(c) = name.chars().last().filter(|c| matches!(c, '.' | ' ')) {
        return Some(Trouble::Ending(c));
    }
    let units = name.encode_utf16().count();
    (units > 255).then_some(Trouble::TooLong(units))
}

/// Names that FAT takes for the same have the same key.
pub fn key(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

fn is_short(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || "$%'-_@~`!(){}^#&".contains(c)
}

fn padded(base: &str, extension: &str) -> [u8; 11] {
    let mut out = [b' '; 11];
    for (place, byte) in out[..8].iter_mut().zip(base.bytes()) {
        *place = byte;
    }
    for (place, byte) in out[8..].iter_mut().zip(extension.bytes()) {
        *place = byte;
    }
    out
}

fn halves(name: &str) -> (&str, &str) {
    match name.rsplit_once('.') {
        Some((base, extension)) if !base.is_empty() => (base, extension),
        _ => (name, ""),
    }
}

/// The name as it is, upper case, where it is a short one.
fn plain(name: &str) -> Option<[u8; 11]> {
    let (base, extension) = halves(name);
    let fits = (1..=8).contains(&base.len()) && extension.len() <= 3 && !name.ends_with('.');
    let upper = |text: &str| -> Option<String> {
        let text = text.to_ascii_uppercase();
        text.chars().all(is_short).then_some(text)
    };
    fits.then(|| Some(padded(&upper(base)?, &upper(extension)?))).flatten()
}

/// What an entry of a directory is written with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) short: [u8; 11],
    /// Slots of the long name, in the order of the medium.
    pub(super) long: Vec<u8>,
}

/// Short and long names of one directory. Names that are short already keep theirs: boot code
/// looks for `BOOTMGR`.
pub(super) fn assign(names: &[&str]) -> Vec<Names> {
    let mut used = HashSet::new();
    let mut out: Vec<Option<[u8; 11]>> = Vec::with_capacity(names.len());
    for name in names {
        out.push(plain(name).filter(|short| used.insert(*short)));
    }
    let mut next = HashMap::new();
    let pairs = names.iter().zip(out);
    pairs
        .map(|(name, short)| {
            let short = short.unwrap_or_else(|| numbered(name, &mut used, &mut next));
            let long = if as_text(&short) == **name { Vec::new() } else { slots(name, &short) };
            Names { short, long }
        })
        .collect()
}

/// `LONGNA~1.TXT`; counting goes on where it stopped for the same beginning.
fn numbered(
    name: &str,
    used: &mut HashSet<[u8; 11]>,
    next: &mut HashMap<[u8; 11], u32>,
) -> [u8; 11] {
    let clean = |text: &str| -> String {
        let kept = text.chars().filter(|c| !matches!(c, ' ' | '.'));
        let upper = kept.map(|c| c.to_ascii_uppercase());
        upper.map(|c| if is_short(c) { c } else { '_' }).collect()
    };
    let (base, extension) = halves(name);
    let (base, extension) = (clean(base), clean(extension));
    let base = if base.is_empty() { "_" } else { base.as_str() };
    let count = next.entry(padded(&base[..base.len().min(2)], &extension)).or_insert(0);
    loop {
        *count += 1;
        let tail = format!("~{count}");
        let kept = base.len().min(8 - tail.len().min(7));
        let short = padded(&format!("{}{tail}", &base[..kept]), &extension);
        if used.insert(short) {
            return short;
        }
    }
}

/// A short name as people write it.
pub(super) fn as_text(short: &[u8; 11]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned();
    let (base, extension) = (text(&short[..8]), text(&short[8..]));
    if extension.is_empty() { base } else { format!("{base}.{extension}") }
}

/// Where the thirteen units of a slot are.
pub(crate) const UNITS: [usize; 13] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];

/// The sum over a short name that its slots carry.
pub(crate) fn checksum(short: &[u8]) -> u8 {
    short.iter().fold(0, |sum: u8, byte| sum.rotate_right(1).wrapping_add(*byte))
}

fn slots(name: &str, short: &[u8; 11]) -> Vec<u8> {
    let mut units: Vec<u16> = name.encode_utf16().collect();
    if !units.len().is_multiple_of(13) {
        units.push(0);
        units.resize(units.len().next_multiple_of(13), 0xFFFF);
    }
    let sum = checksum(short);
    let numbered: Vec<(u8, &[u16])> = (1_u8..).zip(units.chunks(13)).collect();
    let mut out = Vec::new();
    for (number, units) in numbered.iter().rev() {
        let mut slot = [0; 32];
        let last = out.is_empty();
        slot[0] = number | if last { 0x40 } else { 0 };
        slot[11] = 0x0F;
        slot[13] = sum;
        for (at, unit) in UNITS.iter().zip(*units) {
            slot[*at..*at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        out.extend(slot);
    }
    out
}

/// A volume label of at most eleven legal characters, and what was changed where it was.
pub fn label(wanted: &str) -> ([u8; 11], Option<String>) {
    let legal = |c: char| is_short(c) || c == ' ';
    let mapped = wanted.trim().chars().map(|c| {
        let upper = c.to_ascii_uppercase();
        if legal(upper) { upper } else { '_' }
    });
    let text: String = mapped.take(11).collect();
    let text = text.trim();
    let text = if text.is_empty() || text.chars().all(|c| c == '_') { "WINDOWS" } else { text };
    let note = (text != wanted.trim()).then(|| {
        let wanted = crate::text::printable(wanted);
        format!("the label '{wanted}' is written as '{text}': FAT32 takes 11 characters, A-Z, 0-9")
    });
    let mut out = [b' '; 11];
    for (place, byte) in out.iter_mut().zip(text.bytes()) {
        *place = byte;
    }
    (out, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shorts(names: &[&str]) -> Vec<String> {
        assign(names).iter().map(|names| as_text(&names.short)).collect()
    }

    #[test]
    fn short_names_are_unique_and_kept_where_they_fit() {
        let names = [
            "Long name one.text",
            "Long name two.text",
            "bootmgr",
            "BOOT.INI",
            "a.b.c",
            ".hidden",
            "\u{65e5}\u{672c}.txt",
            "LONGNA~1.TEX",
            "e+x.t",
        ];
        let want = [
            "LONGNA~2.TEX",
            "LONGNA~3.TEX",
            "BOOTMGR",
            "BOOT.INI",
            "AB~1.C",
            "HIDDEN~1",
            "__~1.TXT",
            "LONGNA~1.TEX",
            "E_X~1.T",
        ];
        assert_eq!(shorts(&names), want);
        let long = |at: usize| assign(&names)[at].long.len();
        assert_eq!((long(3), long(2), long(0)), (0, 32, 64));
    }

    #[test]
    fn very_many_clashes_are_counted() {
        let names: Vec<String> = (0..20_000).map(|n| format!("a long name {n}.txt")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: HashSet<String> = shorts(&names).into_iter().collect();
        assert_eq!(all.len(), 20_000);
        assert!(all.contains("AL~20000.TXT"));
    }

    #[test]
    fn illegal_names_say_why() {
        let long = "x".repeat(256);
        for (name, want) in [
            ("a.", Some(Trouble::Ending('.'))),
            ("a ", Some(Trouble::Ending(' '))),
            ("a:b", Some(Trouble::Character(':'))),
            ("a\u{1}", Some(Trouble::Character('\u{1}'))),
            ("..", Some(Trouble::NoName)),
            (long.as_str(), Some(Trouble::TooLong(256))),
            (&long[1..], None),
            ("Gr\u{f6}\u{df}e \u{65e5}\u{672c}.txt", None),
        ] {
            assert_eq!(name_trouble(name), want, "{name}");
        }
        assert_eq!(key("GR\u{d6}SSE.txt"), key("gr\u{f6}\u{df}e.TXT"));
        assert_ne!(key("a"), key("b"));
    }

    #[test]
    fn labels_become_legal() {
        for (wanted, want, changed) in [
            ("WIN11", "WIN11", false),
            ("A+B=C;D", "A_B_C_D", true),
            ("CCCOMA_X64FRE_EN-US_DV9", "CCCOMA_X64F", true),
            ("lower case", "LOWER CASE", true),
            ("", "WINDOWS", true),
            ("\u{65e5}\u{672c}", "WINDOWS", true),
            ("  x ", "X", true),
            ("Gr\u{f6}\u{df}e", "GR__E", true),
        ] {
            let (label, note) = label(wanted);
            assert_eq!(String::from_utf8_lossy(&label).trim_end(), want, "{wanted}");
            assert_eq!(note.is_some(), changed, "{wanted}: {note:?}");
        }
    }
}
