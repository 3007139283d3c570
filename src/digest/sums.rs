//! Checksum files of every usual make become a table of names and digests. Pure and bounded.
//!
//! GNU coreutils writes `HEX  NAME`, `HEX *NAME`, and a `\` in front of a line whose name is
//! escaped (coreutils manual, "md5sum invocation"); `--tag`, BSD and OpenSSL write
//! `ALGORITHM (NAME) = HEX`. MD5 and SHA-1 are named when nothing better is there, never used.

use super::Digest;

/// The largest list that is read, in bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// The longest list that is read, in entries.
pub const MOST_ENTRIES: usize = 10_000;
/// How many names an answer repeats.
const MOST_NAMES: usize = 20;

/// A checksum file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// As GNU reads it; `None` for a digest without a name.
    name: Option<String>,
    /// The same line read as one of another make: `*` part of the name, blanks not.
    other: Option<String>,
    stated: Stated,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stated {
    Strong(Digest),
    /// An algorithm that is not used.
    Other(String),
}

/// What a list says of a file. Names are as the list has them: escape before printing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// One digest, by the strongest algorithm that the list has for the file.
    Found(Digest),
    /// Only digests by these algorithms, which are not trusted.
    OnlyWeak(Vec<String>),
    /// No entry for it; some of the names that are there.
    Absent(Vec<String>),
    /// Several digests that differ.
    Ambiguous,
}

impl Sums {
    /// Reads a list. One without any digest is an error: it is no list, or an empty one.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!("it has more than {MOST_BYTES} bytes, which no checksum list has"));
        }
        let text = decode(bytes);
        let mut entries = Vec::new();
        for line in text.split('\n') {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(entry) = tagged(line).or_else(|| gnu(line)) {
                if entries.len() == MOST_ENTRIES {
                    return Err(format!("it has more than {MOST_ENTRIES} entries"));
                }
                entries.push(entry);
            }
        }
        if entries.is_empty() {
            return Err("there is no checksum in it".to_owned());
        }
        Ok(Self { entries })
    }

    /// Whether it is one digest that names no file, as in `NAME.sha256`.
    pub fn is_bare(&self) -> bool {
        matches!(self.entries.as_slice(), [Entry { name: None, .. }])
    }

    /// All names, in the order of the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|entry| entry.name.as_deref())
    }

    /// The same list without its SHA-512 digests.
    #[must_use]
    pub fn without_sha512(&self) -> Self {
        let narrow = |e: &&Entry| !matches!(e.stated, Stated::Strong(Digest::Sha512(_)));
        Self { entries: self.entries.iter().filter(narrow).cloned().collect() }
    }

    /// What it says of a file that is known under any of these names (asked for, redirected to).
    pub fn entry(&self, names: &[&str]) -> Lookup {
        let is = |name: &Option<String>| name.as_deref().is_some_and(|name| names.contains(&name));
        let mut hits: Vec<&Entry> = self.entries.iter().filter(|entry| is(&entry.name)).collect();
        if hits.is_empty() {
            hits = self.entries.iter().filter(|entry| is(&entry.other)).collect();
        }
        if hits.is_empty() && self.is_bare() {
            hits = self.entries.iter().collect();
        }
        if hits.is_empty() {
            // Several digests without names: any of them may be meant.
            if self.entries.len() > 1 && self.entries.iter().all(|entry| entry.name.is_none()) {
                return Lookup::Ambiguous;
            }
            return Lookup::Absent(self.names().take(MOST_NAMES).map(str::to_owned).collect());
        }
        strongest(&hits)
    }
}

/// SHA-512 before SHA-256; two that differ are no answer.
fn strongest(hits: &[&Entry]) -> Lookup {
    let strong = |wide: bool| {
        hits.iter().filter_map(move |entry| match entry.stated {
            Stated::Strong(digest) => {
                (matches!(digest, Digest::Sha512(_)) == wide).then_some(digest)
            }
            Stated::Other(_) => None,
        })
    };
    for wide in [true, false] {
        let mut found = strong(wide);
        if let Some(first) = found.next() {
            let same = found.all(|digest| digest == first);
            return if same { Lookup::Found(first) } else { Lookup::Ambiguous };
        }
    }
    let mut weak: Vec<String> = Vec::new();
    for entry in hits {
        if let Stated::Other(algorithm) = &entry.stated
            && !weak.contains(algorithm)
        {
            weak.push(algorithm.clone());
        }
    }
    Lookup::OnlyWeak(weak)
}

/// UTF-8 with or without a byte order mark, UTF-16 with one (PowerShell's `>` writes that).
/// Bytes that are no text match no name.
fn decode(bytes: &[u8]) -> String {
    let wide = |bytes: &[u8], order: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| order([pair[0], pair[1]])).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// The name behind a `\` at the start of the line; `None` for an escape that GNU does not write.
fn unescape(name: &str) -> Option<String> {
    let mut plain = String::with_capacity(name.len());
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        plain.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                '\\' => '\\',
                _ => return None,
            },
            c => c,
        });
    }
    Some(plain)
}

/// Takes the mark of an escaped line off.
fn marked(line: &str) -> (bool, &str) {
    line.strip_prefix('\\').map_or((false, line), |rest| (true, rest))
}

/// `SHA256 (NAME) = HEX`, `SHA2-256(NAME)= HEX`.
fn tagged(line: &str) -> Option<Entry> {
    let (escaped, line) = marked(line);
    let open = line.find('(')?;
    let algorithm = line[..open].trim_end_matches(' ');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-/_".contains(c);
    if algorithm.is_empty() || algorithm.len() > 16 || !algorithm.chars().all(plain) {
        return None;
    }
    // A name may hold parentheses and equal signs; digits of a digest are neither.
    let equals = line.rfind('=')?;
    let hex = line[equals + 1..].trim();
    let name = line.get(open + 1..equals)?.trim_end_matches(' ').strip_suffix(')')?;
    let name = if escaped { unescape(name)? } else { name.to_owned() };
    if !is_hex(hex) {
        return None;
    }
    let stated = match algorithm.to_ascii_uppercase().as_str() {
        "SHA256" | "SHA-256" | "SHA2-256" if hex.len() == 64 => Stated::Strong(hex.parse().ok()?),
        "SHA512" | "SHA-512" | "SHA2-512" if hex.len() == 128 => Stated::Strong(hex.parse().ok()?),
        // A digest that is too short or too long for its tag says nothing.
        "SHA256" | "SHA-256" | "SHA2-256" | "SHA512" | "SHA-512" | "SHA2-512" => return None,
        other => Stated::Other(other.to_owned()),
    };
    let other = name.strip_prefix("./").map(str::to_owned);
    Some(Entry { name: Some(name), other, stated })
}

/// `HEX  NAME`, `HEX *NAME`, `HEX NAME`, with a tab between, or `HEX` alone.
fn gnu(line: &str) -> Option<Entry> {
    let (escaped, line) = marked(line);
    let line = line.trim_start_matches([' ', '\t']);
    let end = line.find([' ', '\t']).unwrap_or(line.len());
    let (hex, rest) = line.split_at(end);
    if !is_hex(hex) {
        return None;
    }
    let stated = match hex.len() {
        64 | 128 => Stated::Strong(hex.parse().ok()?),
        32 => Stated::Other("MD5".to_owned()),
        40 => Stated::Other("SHA-1".to_owned()),
        56 => Stated::Other("SHA-224".to_owned()),
        96 => Stated::Other("SHA-384".to_owned()),
        _ => return None,
    };
    let blank = rest.trim_matches([' ', '\t']);
    if blank.is_empty() {
        return Some(Entry { name: None, other: None, stated });
    }
    let name = match rest.strip_prefix("  ").or_else(|| rest.strip_prefix(" *")) {
        Some(name) if !name.is_empty() => name,
        _ => rest.trim_start_matches([' ', '\t']),
    };
    let read = |name: &str| if escaped { unescape(name) } else { Some(name.to_owned()) };
    let name = read(name)?;
    let spaced = read(rest.trim_start_matches([' ', '\t']))?;
    let other =
        if spaced == name { name.strip_prefix("./").map(str::to_owned) } else { Some(spaced) };
    Some(Entry { name: Some(name), other, stated })
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const B: &str = "a3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn found(list: &str, name: &str) -> Option<String> {
        match Sums::parse(list.as_bytes()).unwrap().entry(&[name]) {
            Lookup::Found(digest) => Some(digest.to_string()),
            _ => None,
        }
    }

    #[test]
    fn every_make_of_line_is_read() {
        for line in [
            format!("{A}  x.iso"),
            format!("{A} *x.iso"),
            format!("{A} x.iso\r\n"),
            format!("{A}\tx.iso"),
            format!("{A} \t x.iso"),
            format!("{A}  ./x.iso"),
            format!("{A}   x.iso"),
            format!("{}  x.iso", A.to_uppercase()),
            format!("SHA256 (x.iso) = {A}"),
            format!("SHA2-256(x.iso)= {A}\r"),
            format!("\u{feff}{A}  x.iso"),
            format!("# c\n; d\n\n{B}  y.iso\n{A} *x.iso\n"),
            format!("-----BEGIN\nHash: SHA256\n{A}  x.iso"),
            A.to_owned(),
        ] {
            assert_eq!(found(&line, "x.iso").as_deref(), Some(A), "{line:?}");
        }
    }

    #[test]
    fn sixteen_bit_text_with_a_mark_is_read() {
        let text = format!("\u{feff}{A}  x.iso\r\n");
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for bytes in [little, big] {
            let sums = Sums::parse(&bytes).unwrap();
            assert!(matches!(sums.entry(&["x.iso"]), Lookup::Found(_)));
        }
    }

    #[test]
    fn escapes_count_only_behind_a_mark() {
        assert!(found(&format!("\\{A}  back\\\\slash\\n.iso"), "back\\slash\n.iso").is_some());
        assert!(found(&format!("{A}  back\\\\slash.iso"), "back\\\\slash.iso").is_some());
        assert!(found(&format!("{A}  back\\\\slash.iso"), "back\\slash.iso").is_none());
        assert!(found(&format!("{A}  a b (c) = d.iso"), "a b (c) = d.iso").is_some());
        assert!(found(&format!("SHA256 (a (b) = c) = {A}"), "a (b) = c").is_some());
    }

    #[test]
    fn the_strongest_algorithm_wins_and_weak_ones_are_only_named() {
        let long = [A, B].concat();
        let list =
            format!("MD5 (x) = {}\nSHA256 (x) = {A}\n{long}  x\nSHA3-256 (y) = {A}", &A[..32]);
        assert_eq!(found(&list, "x"), Some(long));
        let sums = Sums::parse(list.as_bytes()).unwrap();
        assert_eq!(sums.entry(&["y"]), Lookup::OnlyWeak(vec!["SHA3-256".into()]));
        let md5 = Sums::parse(&A.as_bytes()[..32]).unwrap();
        assert_eq!(md5.entry(&["x"]), Lookup::OnlyWeak(vec!["MD5".into()]));
    }

    #[test]
    fn what_is_not_one_digest_is_none() {
        let entry = |list: &str, names: &[&str]| Sums::parse(list.as_bytes()).unwrap().entry(names);
        assert_eq!(entry(&format!("{A}\n{B}\n"), &["x"]), Lookup::Ambiguous);
        assert_eq!(entry(&format!("{A}  x\n{B}  x\n"), &["x"]), Lookup::Ambiguous);
        assert_eq!(entry(&format!("{A}  x\n{B}  y\n"), &["x", "y"]), Lookup::Ambiguous);
        assert_eq!(entry(&format!("{A}  y"), &["x"]), Lookup::Absent(vec!["y".into()]));
        assert!(matches!(entry(&format!("{A}  y"), &["x", "y"]), Lookup::Found(_)));
        for empty in ["", "\n\n", "<html>not found</html>", "abcd  x", "SHA256 (x) = abcd"] {
            assert!(Sums::parse(empty.as_bytes()).is_err(), "{empty}");
        }
        assert!(Sums::parse(&vec![b'a'; MOST_BYTES + 1]).is_err());
        assert!(Sums::parse(format!("{A}\n").repeat(MOST_ENTRIES + 1).as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            if let Ok(sums) = Sums::parse(&bytes) {
                sums.entry(&["x"]);
            }
        }

        #[test]
        fn any_name_that_gnu_can_write_is_found(name in "[^\0/]{1,20}", star in any::<bool>()) {
            let escaped = name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
            let mark = if escaped == name { "" } else { "\\" };
            let line = format!("{mark}{A} {}{escaped}\n", if star { '*' } else { ' ' });
            let sums = Sums::parse(line.as_bytes()).unwrap();
            // A line may also be a tagged one by chance only if it has hex behind an equal sign.
            prop_assert!(matches!(sums.entry(&[&name]), Lookup::Found(_)), "{line:?}");
        }
    }
}
