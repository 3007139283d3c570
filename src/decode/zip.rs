//! Which entry of a zip archive is the image. The central directory is the authority: local
//! headers of streamed archives state no size. Nothing is ever extracted under a name from the
//! archive; names are shown, escaped, and compared with what the person typed.

use std::io::{self, Read, Seek, SeekFrom};

use ::zip::ZipArchive;
use ::zip::result::ZipError;

use super::zstd::fill;
use super::{Ahead, Entry, Format, Limits, Method, Unpacker};
use crate::error::{Context as _, Error, Kind, Result};
use crate::image::{self, Advice, Bytes as Whole, Head, ImageKind, ReadAt};
use crate::text::printable;
use crate::units::Bytes;

/// What is looked at of an entry: tables, superblocks, and the volume descriptors of discs.
const SNIFF: usize = 128 << 10;
/// Entries that are looked into; an archive with more is no image with a readme.
const ENTRIES: usize = 1000;
/// Names in a message.
const LISTED: usize = 12;

/// The entry that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name, escaped.
    pub name: String,
    /// Where and what it is.
    pub entry: Entry,
}

/// A file in the archive.
struct Listed {
    /// As the archive has it.
    name: String,
    /// The number of its method; [`Method::of`] knows those that are decoded.
    method: u16,
    encrypted: bool,
    entry: Entry,
}

/// Chooses the image: the one that `member` names, or the only one there is.
pub fn choose(
    file: &dyn ReadAt,
    archive: &str,
    member: Option<&str>,
    limits: Limits,
) -> Result<Choice> {
    let files = directory(file, archive)?;
    if let Some(member) = member {
        let found = files.iter().find(|listed| listed.name == member).ok_or_else(|| {
            Error::usage(format!("{archive} has no entry {}", printable(member)))
                .hint(format!("it has: {}", names(&files.iter().collect::<Vec<_>>())))
        })?;
        return found.usable(archive);
    }
    if files.len() > ENTRIES {
        return Err(Error::refused(format!(
            "{archive} holds {} files; they are not searched for an image",
            files.len()
        ))
        .hint("name the image: --member NAME"));
    }
    only(&files, file, archive, limits)?.usable(archive)
}

/// The only candidate, by content.
fn only<'a>(
    files: &'a [Listed],
    file: &dyn ReadAt,
    archive: &str,
    limits: Limits,
) -> Result<&'a Listed> {
    let (mut images, mut maybe, mut packed) = (Vec::new(), Vec::new(), Vec::new());
    let mut opaque = Vec::new();
    let mut broken = None;
    for listed in files.iter().filter(|listed| listed.entry.size > 0) {
        if listed.encrypted || Method::of(listed.method).is_none() {
            opaque.push(listed);
            continue;
        }
        match listed.sniff(file, archive, limits).map(ImageKind::advice) {
            Ok(Advice::Write | Advice::Compose) => images.push(listed),
            Ok(Advice::Confirm) => maybe.push(listed),
            Ok(Advice::Decode) => packed.push(listed),
            Ok(Advice::Refuse) => {}
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    // What cannot be looked into may be the image as well.
    let candidates = [if images.is_empty() { maybe } else { images }, opaque].concat();
    match (candidates.as_slice(), packed.first(), broken) {
        ([], _, Some(error)) => Err(error),
        ([], Some(inner), None) => Err(Error::refused(format!(
            "{archive} holds no image but a file that is packed itself: {}",
            printable(&inner.name)
        ))
        .hint("unpack the archive, and flash the file that is in it")),
        ([], None, None) => Err(Error::refused(format!("{archive} holds no disk image"))
            .hint(format!("it has: {}", names(&files.iter().collect::<Vec<_>>())))),
        ([one], ..) => Ok(one),
        (several, ..) => Err(Error::refused(format!(
            "{archive} holds {} files that may be the image: {}",
            several.len(),
            names(several)
        ))
        .hint("choose one: --member NAME")),
    }
}

fn names(files: &[&Listed]) -> String {
    let shown = files.iter().take(LISTED).map(|listed| {
        format!("{} ({})", printable(&listed.name), Bytes(listed.entry.size).binary())
    });
    let text = shown.collect::<Vec<_>>().join(", ");
    match files.len() {
        0 => "nothing".to_owned(),
        many if many > LISTED => format!("{text} and {} more", many - LISTED),
        _ => text,
    }
}

impl Listed {
    fn sniff(&self, file: &dyn ReadAt, archive: &str, limits: Limits) -> Result<ImageKind> {
        let ahead = Ahead::new(file, self.entry.start);
        let name = format!("{} in {archive}", printable(&self.name));
        let unpack = Unpacker::new(ahead, &name, Format::Entry(self.entry), limits.single());
        let mut head = Vec::new();
        unpack.take(SNIFF as u64).read_to_end(&mut head).map_err(|e| Error::from_read(e, &name))?;
        let whole = head.len() as u64 == self.entry.size;
        let image: &dyn ReadAt = if whole { &Whole(&head) } else { &Head(&head) };
        Ok(image::inspect(image, &name).context(|| format!("cannot look into {name}"))?.kind)
    }

    /// Whether it can be unpacked; why not.
    fn usable(&self, archive: &str) -> Result<Choice> {
        let name = printable(&self.name);
        let no = |why: &str| Error::refused(format!("{name} in {archive} {why}"));
        if self.encrypted {
            return Err(no("is encrypted").hint("unpack it with its password, and flash the image"));
        }
        if Method::of(self.method).is_none() {
            return Err(no(&format!(
                "is compressed by method {}, which is not decoded",
                self.method
            ))
            .hint("unpack it with another program, and flash the image"));
        }
        if tricky(&self.name) {
            return Err(no("has a name that leads out of the folder it would be unpacked to")
                .hint("archives of images have no such names: where does this one come from?"));
        }
        Ok(Choice { name, entry: self.entry })
    }
}

/// Names that are absolute, climb, or have characters that no name has.
fn tricky(name: &str) -> bool {
    let drive = name.as_bytes().get(1) == Some(&b':');
    name.starts_with(['/', '\\'])
        || drive
        || name.split(['/', '\\']).any(|part| part == "..")
        || name.chars().any(char::is_control)
}

/// All files in the archive; folders and links are left out.
fn directory(file: &dyn ReadAt, archive: &str) -> Result<Vec<Listed>> {
    let bad = |error: ZipError| match error {
        ZipError::Io(e) if e.kind() != io::ErrorKind::UnexpectedEof => {
            Error::io(format!("cannot read the directory of {archive}"), e)
        }
        other => Error::new(
            Kind::Io,
            format!("the zip archive {archive} is damaged, or cut off at its end: {other}"),
        )
        .hint("download it again, and compare its size and digest with the published ones"),
    };
    let size = file.size().ok_or_else(|| {
        Error::refused(format!("{archive} is a zip archive, and its directory is at its end"))
            .hint("save it as a file first, and flash that")
    })?;
    let mut zip = ZipArchive::new(Cursor { file, size, at: 0 }).map_err(bad)?;
    let mut files = Vec::new();
    for index in 0..zip.len() {
        let found = zip.by_index_raw(index).map_err(bad)?;
        if !found.is_file() {
            continue;
        }
        #[allow(deprecated, reason = "the number is the format's; its variants are features")]
        let method = found.compression().to_u16();
        let start = found.data_start().ok_or_else(|| bad(ZipError::FileNotFound))?;
        files.push(Listed {
            name: String::from_utf8_lossy(found.name_raw()).into_owned(),
            method,
            encrypted: found.encrypted(),
            entry: Entry {
                start,
                packed: found.compressed_size(),
                size: found.size(),
                crc: found.crc32(),
                method: Method::of(method).unwrap_or(Method::Stored),
            },
        });
    }
    Ok(files)
}

/// Whether a file that does not begin like a zip archive ends like one: the end of the central
/// directory (APPNOTE.TXT 4.3.16), whose comment reaches the end of the file. Self-extracting
/// archives and those with something in front are such.
pub fn ends_like_one(file: &dyn ReadAt) -> io::Result<bool> {
    const RECORD: usize = 22;
    let Some(size) = file.size() else { return Ok(false) };
    let len = usize::try_from(size.min(RECORD as u64 + 0xFFFF)).unwrap_or(0);
    let mut tail = vec![0; len];
    if fill(file, size - len as u64, &mut tail)? < len {
        return Ok(false);
    }
    let ends = tail.windows(RECORD).enumerate().any(|(at, record)| {
        let comment = usize::from(u16::from_le_bytes([record[20], record[21]]));
        record.starts_with(b"PK\x05\x06") && at + RECORD + comment == len
    });
    Ok(ends)
}

/// A file as the zip reader wants it.
struct Cursor<'a> {
    file: &'a dyn ReadAt,
    size: u64,
    at: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_known() {
        for name in [
            "../x.img",
            "a/../../x",
            "/etc/x",
            "C:\\x.img",
            "\\\\host\\x",
            "a\u{1b}[2J",
            "a\\..\\b",
        ] {
            assert!(tricky(name), "{name:?}");
        }
        for name in ["x.img", "folder/x..img", "a/b/c.iso", "..x", "\u{e4}.img"] {
            assert!(!tricky(name), "{name:?}");
        }
    }

    #[test]
    fn an_end_record_counts_only_where_its_comment_ends_the_file() {
        let mut end = vec![0; 22];
        end[..4].copy_from_slice(b"PK\x05\x06");
        let file = [&[9; 500][..], &end].concat();
        assert!(ends_like_one(&Whole(&file)).unwrap());
        assert!(!ends_like_one(&Whole(&[&file[..], b"x"].concat())).unwrap());
        assert!(!ends_like_one(&Whole(b"PK\x05\x06")).unwrap());
        assert!(!ends_like_one(&Head(&file)).unwrap());
    }
}
