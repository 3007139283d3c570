//! Files that are saved beside an image and given by mistake: pages, checksums, signatures.
//!
//! Owns: telling kinds of text apart, over a head of at most 64 KiB. Must not know file names.
//! The wish comes from the field: an HTML page saved as img.zip was written to a card with a
//! cheerful finish line (hypriot/flash#95), a bmap file likewise (bmap-tools#64).

use super::bytes::contains_ignore_case;
use super::kind::ImageKind;

/// How much is looked at.
const LIMIT: usize = 64 * 1024;

/// Kind of text, or `None` when the head is no text. Binary torrents count as text here.
pub(crate) fn sniff(head: &[u8]) -> Option<ImageKind> {
    let head = &head[..head.len().min(LIMIT)];
    if torrent(head) {
        return Some(ImageKind::Torrent);
    }
    let wide = wide_text(head);
    let body = wide.as_deref().unwrap_or(head);
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if body.is_empty() || !is_text(body) {
        return None;
    }
    let start = body.trim_ascii_start();
    Some(markup(start).or_else(|| signature(start)).unwrap_or_else(|| {
        if is_checksums(start) { ImageKind::Checksums } else { ImageKind::Text }
    }))
}

/// ASCII of UTF-16 text with a byte order mark; other characters become question marks.
fn wide_text(head: &[u8]) -> Option<Vec<u8>> {
    let read: fn([u8; 2]) -> u16 = match head.first_chunk()? {
        [0xFF, 0xFE] => u16::from_le_bytes,
        [0xFE, 0xFF] => u16::from_be_bytes,
        _ => return None,
    };
    let units = head[2..].as_chunks::<2>().0.iter().map(|pair| read(*pair));
    Some(units.map(|unit| u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(b'?')).collect())
}

/// UTF-8 (perhaps cut at the end of the head) without control characters.
fn is_text(body: &[u8]) -> bool {
    let valid = match std::str::from_utf8(body) {
        Ok(_) => true,
        Err(e) => e.error_len().is_none() && e.valid_up_to() > 0,
    };
    let control = |b: &u8| matches!(b, 0..=8 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F | 0x7F);
    valid && !body.iter().any(control)
}

fn starts(text: &[u8], with: &str) -> bool {
    text.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()))
}

fn markup(start: &[u8]) -> Option<ImageKind> {
    if start.first() != Some(&b'<') {
        return None;
    }
    let xml = starts(start, "<?xml") || starts(start, "<!--") || starts(start, "<!doctype");
    if starts(start, "<bmap") || (xml && contains_ignore_case(start, b"<bmap")) {
        return Some(ImageKind::Bmap);
    }
    if starts(start, "<metalink") || (xml && contains_ignore_case(start, b"<metalink")) {
        return Some(ImageKind::Metalink);
    }
    let tags = ["<!doctype html", "<html", "<head", "<body", "<title", "<script", "<meta", "<!--"];
    let page = tags.iter().any(|tag| starts(start, tag));
    (page || (xml && contains_ignore_case(start, b"<html"))).then_some(ImageKind::HtmlPage)
}

fn signature(start: &[u8]) -> Option<ImageKind> {
    let detached = ["-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----"];
    if detached.iter().any(|mark| start.starts_with(mark.as_bytes()))
        || start.starts_with(b"untrusted comment:")
    {
        return Some(ImageKind::Signature);
    }
    // A clear-signed list of checksums (Fedora's CHECKSUM) is a list of checksums.
    let body = start.strip_prefix(b"-----BEGIN PGP SIGNED MESSAGE-----")?;
    let lines = body.split(|&b| b == b'\n');
    let listed = lines.filter(|line| is_checksum_line(line)).count();
    Some(if listed > 0 { ImageKind::Checksums } else { ImageKind::Signature })
}

/// A bencoded dictionary whose first key is one that torrents have.
fn torrent(head: &[u8]) -> bool {
    let keys: [&[u8]; 11] = [
        b"announce",
        b"announce-list",
        b"azureus_properties",
        b"comment",
        b"created by",
        b"creation date",
        b"encoding",
        b"httpseeds",
        b"info",
        b"nodes",
        b"url-list",
    ];
    let Some(rest) = head.strip_prefix(b"d") else {
        return false;
    };
    let digits = rest.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = rest.split_at(digits);
    let len = number.iter().fold(0, |len, b| len * 10 + usize::from(b - b'0'));
    let Some(rest) = rest.strip_prefix(b":") else {
        return false;
    };
    rest.get(..len).is_some_and(|key| keys.contains(&key))
}

/// Most of the lines that are not comments are checksums.
fn is_checksums(text: &[u8]) -> bool {
    let (mut listed, mut others) = (0, 0);
    for line in text.split(|&b| b == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if is_checksum_line(line) {
            listed += 1;
        } else {
            others += 1;
        }
    }
    listed > 0 && others <= listed
}

/// `hash  name`, `hash *name`, bare `hash`, `\hash  name`, `SHA256 (name) = hash`.
fn is_checksum_line(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_hash = |text: &[u8]| {
        matches!(text.len(), 32 | 40 | 56 | 64 | 96 | 128) && text.iter().all(u8::is_ascii_hexdigit)
    };
    let plain = line.strip_prefix(b"\\").unwrap_or(line);
    let word = plain.iter().position(u8::is_ascii_whitespace).unwrap_or(plain.len());
    if is_hash(&plain[..word]) {
        return true;
    }
    let Some(equals) = line.iter().rposition(|&b| b == b'=') else {
        return false;
    };
    let name = line[..equals].trim_ascii_end();
    is_hash(line[equals + 1..].trim_ascii()) && name.ends_with(b")") && name.contains(&b'(')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn pages_and_other_markup() {
        for (text, want) in [
            ("<!DOCTYPE html><p>", ImageKind::HtmlPage),
            ("\n\t <HTML lang=en>", ImageKind::HtmlPage),
            ("\u{feff}<!doctype HTML>", ImageKind::HtmlPage),
            ("<!-- portal -->\n<html>", ImageKind::HtmlPage),
            ("<?xml version=\"1.0\"?>\n<!DOCTYPE html>\n<html>", ImageKind::HtmlPage),
            ("<?xml version=\"1.0\" ?>\n<!-- c -->\n<bmap version=\"2.0\">", ImageKind::Bmap),
            ("<?xml version=\"1.0\"?>\n<metalink xmlns=\"x\">", ImageKind::Metalink),
            ("<?xml version=\"1.0\"?>\n<svg>", ImageKind::Text),
            ("plain words", ImageKind::Text),
            ("{\"error\": 403}", ImageKind::Text),
        ] {
            assert_eq!(sniff(text.as_bytes()), Some(want), "{text}");
        }
        let wide: Vec<u8> = "\u{feff}<html>".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(sniff(&wide), Some(ImageKind::HtmlPage));
    }

    #[test]
    fn lists_of_checksums() {
        for text in [
            format!("{HASH}  debian.iso\n"),
            format!("{HASH} *debian.iso\r\n{HASH} *b.iso\r\n"),
            format!("\\{HASH}  odd\\nname.iso\n"),
            HASH.to_owned(),
            format!("SHA256 (x.iso) = {HASH}\n"),
            format!("SHA256(x.iso)= {HASH}\n"),
            format!("# x.iso: 123 bytes\nSHA256 (x.iso) = {HASH}\n"),
            format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{HASH}  a\n"),
            "d41d8cd98f00b204e9800998ecf8427e".to_owned(),
        ] {
            assert_eq!(sniff(text.as_bytes()), Some(ImageKind::Checksums), "{text}");
        }
        let essay = format!("one\ntwo\nthree\n{HASH}\n");
        assert_eq!(sniff(essay.as_bytes()), Some(ImageKind::Text));
    }

    #[test]
    fn signatures_and_torrents() {
        for (text, want) in [
            ("-----BEGIN PGP SIGNATURE-----\n", Some(ImageKind::Signature)),
            ("-----BEGIN PGP SIGNED MESSAGE-----\nhello\n", Some(ImageKind::Signature)),
            ("untrusted comment: minisign\nRW", Some(ImageKind::Signature)),
            ("d8:announce33:http\u{0}", Some(ImageKind::Torrent)),
            ("d4:infod6:length", Some(ImageKind::Torrent)),
            ("d10:created by5:x", Some(ImageKind::Torrent)),
            ("d4:nope", Some(ImageKind::Text)),
            ("d99:", Some(ImageKind::Text)),
            ("\u{1}\u{2}", None),
            ("", None),
        ] {
            assert_eq!(sniff(text.as_bytes()), want, "{text:?}");
        }
        assert_eq!(sniff(&[0xFF; 64]), None);
        assert_eq!(sniff(&[0; 64]), None);
    }
}
