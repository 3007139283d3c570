//! Block maps: which stretches of an image hold data, with a digest of each. What lies between them
//! is not written, and reads as zeros here.
//!
//! The format is that of bmap-tools (docs of the project; versions 1.2 to 2.0): XML, block numbers
//! from 0, ranges inclusive. Its own checksum is over the file with the digits of that checksum
//! replaced by `0`. Version 1.3 and below have SHA-1, which finds damage and proves nothing.

use std::fmt::Display;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use sha1::Digest as _;

use super::{Progress, Source, SourceInfo};
use crate::cancel::CancelToken;
use crate::digest::ranges::{self, Mapped, Wrong};
use crate::digest::{FileRead, Hasher, Sha2};
use crate::error::{Error, Kind, Result};
use crate::image::ReadAt;
use crate::image::zeros::first_not_zero;
use crate::text::printable;

/// A map is read up to this many bytes.
pub const MOST_BYTES: usize = 64 << 20;

/// A block map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bmap {
    /// Length of the image, in bytes.
    pub image_size: u64,
    /// Bytes per block.
    pub block_size: u64,
    /// In ascending order.
    pub ranges: Vec<Mapped>,
    /// Version of the format, as it says.
    pub version: String,
}

/// How the ranges are digested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha1,
}

impl Bmap {
    /// Whether every range has a digest that proves something.
    pub fn proves(&self) -> bool {
        ranges::proves(&self.ranges)
    }

    /// Bytes with data.
    pub fn mapped(&self) -> u64 {
        ranges::mapped(&self.ranges)
    }
}

/// Reads a map; the message says what is wrong with it.
pub fn parse(text: &str) -> std::result::Result<Bmap, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes"));
    }
    let document =
        roxmltree::Document::parse(text).map_err(|e| printable(&format!("it is no XML: {e}")))?;
    let root = document.root_element();
    if root.tag_name().name() != "bmap" {
        return Err("it is no block map: its outermost element is not <bmap>".to_owned());
    }
    let version = root.attribute("version").unwrap_or_default();
    if !matches!(version.split('.').next(), Some("1" | "2")) {
        return Err(format!("its version is '{}'; 1.x and 2.0 are read", printable(version)));
    }
    let field = |name: &str| {
        let found = root.children().find(|node| node.tag_name().name() == name);
        found.and_then(|node| node.text()).map(str::trim)
    };
    let number = |name: &str| -> std::result::Result<u64, String> {
        let text = field(name).ok_or_else(|| format!("<{name}> is missing"))?;
        text.parse().map_err(|_| format!("<{name}> is no number: '{}'", printable(text)))
    };
    let (image_size, block_size) = (number("ImageSize")?, number("BlockSize")?);
    if !(512..=1 << 30).contains(&block_size) || image_size == 0 {
        return Err(format!("blocks of {block_size} bytes, an image of {image_size}: no map"));
    }
    let kind = field("ChecksumType").map(str::to_lowercase);
    let algorithm = match kind.as_deref() {
        Some("sha256") => Algorithm::Sha256,
        None | Some("sha1") => Algorithm::Sha1,
        Some(other) => return Err(format!("it has checksums of type '{}'", printable(other))),
    };
    check_itself(text, algorithm, field("BmapFileChecksum").or_else(|| field("BmapFileSHA1")))?;
    let map = root.children().find(|node| node.tag_name().name() == "BlockMap");
    let map = map.ok_or("<BlockMap> is missing")?;
    let mut ranges: Vec<Mapped> = Vec::new();
    for node in map.children().filter(|node| node.tag_name().name() == "Range") {
        let blocks = node.text().unwrap_or_default().trim();
        let bytes = stretch(blocks, block_size, image_size).ok_or_else(|| {
            format!("'{}' is no range of blocks of this image", printable(blocks))
        })?;
        if ranges.last().is_some_and(|last| bytes.start < last.bytes.end) {
            return Err(format!("the range '{}' is not behind the one before", printable(blocks)));
        }
        let digest = node.attribute("chksum").or_else(|| node.attribute("sha1"));
        let digest = digest.map(|hex| digits(hex.trim(), algorithm)).transpose()?;
        ranges.push(Mapped { bytes, digest });
    }
    if let Ok(wanted) = number("MappedBlocksCount") {
        let blocks = |range: &Mapped| (range.bytes.end - range.bytes.start).div_ceil(block_size);
        let has: u64 = ranges.iter().map(blocks).sum();
        if has != wanted {
            return Err(format!("it says that {wanted} blocks are mapped, and lists {has}"));
        }
    }
    Ok(Bmap { image_size, block_size, ranges, version: version.to_owned() })
}

/// `5` or `5-9`, inclusive; the last block may be cut by the end of the image.
fn stretch(blocks: &str, block_size: u64, image_size: u64) -> Option<Range<u64>> {
    let (first, last) = blocks.split_once('-').unwrap_or((blocks, blocks));
    let (first, last) = (first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?);
    let start = first.checked_mul(block_size)?;
    let end = last.checked_add(1)?.checked_mul(block_size)?;
    let fits = first <= last && end - block_size < image_size;
    fits.then(|| start..end.min(image_size))
}

fn digits(hex: &str, algorithm: Algorithm) -> std::result::Result<String, String> {
    let wanted = match algorithm {
        Algorithm::Sha256 => 64,
        Algorithm::Sha1 => 40,
    };
    if hex.len() != wanted || !hex.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(format!("'{}' is no digest of {wanted} digits", printable(hex)));
    }
    Ok(hex.to_lowercase())
}

/// The map's checksum of itself; version 1.2 has none.
fn check_itself(
    text: &str,
    algorithm: Algorithm,
    own: Option<&str>,
) -> std::result::Result<(), String> {
    let Some(own) = own else { return Ok(()) };
    let hex = digits(own, algorithm)?;
    let blank = text.replacen(own, &"0".repeat(own.len()), 1);
    if digest(algorithm, blank.as_bytes()) != hex {
        return Err("it is damaged: its own checksum does not fit".to_owned());
    }
    Ok(())
}

fn digest(algorithm: Algorithm, bytes: &[u8]) -> String {
    match algorithm {
        Algorithm::Sha256 => {
            let mut hasher = Hasher::default();
            hasher.update(bytes);
            hasher.finish().to_string()
        }
        Algorithm::Sha1 => {
            let digest: [u8; 20] = sha1::Sha1::new_with_prefix(bytes).finalize().into();
            Sha2::from(digest).to_string()
        }
    }
}

/// An image with its map: the mapped bytes as they are, zeros between. Whoever reads compares each
/// range with its digest ([`Source::mapped`]).
#[derive(Debug)]
pub struct MappedSource {
    inner: Arc<dyn Source>,
    ranges: Arc<[Mapped]>,
    image_size: u64,
    info: SourceInfo,
    /// Whether every byte of the file has to be read, for its own digest.
    whole: bool,
    /// Name of the map.
    map: String,
}

impl MappedSource {
    /// Refuses a map of another image, and one that maps nothing. `name`: of the map. `whole`: a
    /// digest of the whole file was published.
    pub fn new(
        inner: impl Into<Arc<dyn Source>>,
        (name, bmap): (&str, Bmap),
        whole: bool,
    ) -> Result<Self> {
        let inner = inner.into();
        let Bmap { image_size, ranges, .. } = bmap;
        let own = inner.info();
        let refused = |why: String| Err(Error::refused(why).hint(OTHERWISE));
        if let Some(len) = own.len.filter(|len| *len != image_size) {
            return refused(format!(
                "the block map {name} is of an image of {image_size} bytes, {} has {len}",
                own.name
            ));
        }
        // Known for files that do not say how large the image in them is.
        if own.len.is_none() && inner.progress().and_then(|file| file.total) == Some(image_size) {
            return refused(format!(
                "the block map {name} is of the compressed file {}, not of the image in it",
                own.name
            ));
        }
        if ranges.is_empty() {
            return refused(format!(
                "the block map {name} maps nothing of {}: nothing would be written",
                own.name
            ));
        }
        let info = SourceInfo { len: Some(image_size), ..own.clone() };
        let map = name.to_owned();
        Ok(Self { inner, ranges: ranges.into(), image_size, info, whole, map })
    }

    /// What a map leaves out must be zeros in the image, or the map is of another one, or of an earlier
    /// state of it. Looked at before anything is written: of a file all of it, holes of its filesystem
    /// aside, which are zeros; of what is unpacked its head. The rest is looked at while it passes.
    pub fn leaves_out_zeros(&self, cancel: &CancelToken) -> Result<()> {
        let image = &*self.inner;
        let whole = image.positional();
        let size = if whole.is_some() { self.image_size } else { self.image_size.min(HEAD) };
        let look = whole.unwrap_or_else(|| image.preview());
        let mut buf = vec![0; 1 << 20];
        let mut at = 0;
        let end_of_image = self.image_size..self.image_size;
        for range in self.ranges.iter().map(|range| &range.bytes).chain([&end_of_image]) {
            let end = range.start.min(size);
            while at < end {
                cancel.check()?;
                at = image.data_from(at).unwrap_or(at).min(end);
                let want = usize::try_from(end - at).unwrap_or(buf.len()).min(buf.len());
                let n = look
                    .read_at(at, &mut buf[..want])
                    .map_err(|e| Error::from_read(e, &self.info.name))?;
                if let Some(place) = first_not_zero(&buf[..n]) {
                    return Err(stale(&self.map, &self.info.name, at + place as u64));
                }
                if n == 0 {
                    break;
                }
                at += n as u64;
            }
            at = at.max(range.end);
            if at >= size {
                break;
            }
        }
        Ok(())
    }
}

const OTHERWISE: &str =
    "take the map that belongs to this image, or write all of it with --bmap none";

/// Bytes that are looked at of what can be read once.
const HEAD: u64 = 1 << 20;

fn stale(map: &str, image: &str, at: u64) -> Error {
    Error::new(
        Kind::SourceMismatch,
        format!(
            "the block map {map} does not fit {image}: it leaves out byte {at}, which is not zero"
        ),
    )
    .hint(OTHERWISE)
}

impl Source for MappedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let skips = !self.whole && self.inner.positional().is_some();
        let stream = if skips { None } else { Some(self.inner.open()?) };
        Ok(Box::new(Reader {
            inner: Arc::clone(&self.inner),
            stream,
            ranges: Arc::clone(&self.ranges),
            image_size: self.image_size,
            name: self.info.name.clone(),
            map: self.map.clone(),
            at: 0,
            next: 0,
        }))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        self.inner.preview()
    }

    fn positional(&self) -> Option<Box<dyn ReadAt + '_>> {
        // Between the ranges it would show what is not written.
        None
    }

    fn file(&self) -> Option<FileRead> {
        self.inner.file()
    }

    fn progress(&self) -> Option<Progress> {
        self.inner.progress()
    }

    fn is_end_stated(&self) -> bool {
        self.inner.is_end_stated()
    }

    fn memory(&self) -> u64 {
        self.inner.memory()
    }

    fn mapped(&self) -> Option<Arc<[Mapped]>> {
        Some(Arc::clone(&self.ranges))
    }
}

/// Reads an image through its map.
struct Reader {
    inner: Arc<dyn Source>,
    /// Read from its first byte to its last; `None`: what is not mapped is not read either.
    stream: Option<Box<dyn Read + Send>>,
    ranges: Arc<[Mapped]>,
    image_size: u64,
    name: String,
    map: String,
    at: u64,
    /// The range that `at` is in, or the next one.
    next: usize,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let range = self.ranges.get(self.next).map(|range| range.bytes.clone());
        let mapped = range.as_ref().is_some_and(|range| range.start <= self.at);
        let end = match &range {
            Some(range) if mapped => range.end,
            Some(range) => range.start,
            None => self.image_size,
        };
        let len = usize::try_from(end - self.at).unwrap_or(buf.len()).min(buf.len());
        if len == 0 {
            return if buf.is_empty() { Ok(0) } else { self.end() };
        }
        let n = self.take(mapped, &mut buf[..len])?;
        if n == 0 {
            return Err(self.wrong(format_args!(
                "it ends after {} bytes, its block map is of {}",
                self.at, self.image_size
            )));
        }
        self.at += n as u64;
        if mapped {
            self.next += usize::from(self.at == end);
        } else if let Some(place) = first_not_zero(&buf[..n]) {
            let at = self.at - n as u64 + place as u64;
            return Err(io::Error::other(stale(&self.map, &self.name, at)));
        }
        Ok(n)
    }
}

impl Reader {
    /// Bytes of the image from `at` on; those that are not mapped only where a stream passes them.
    fn take(&mut self, mapped: bool, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Some(stream) => stream.read(buf),
            None if !mapped => {
                buf.fill(0);
                Ok(buf.len())
            }
            None => match self.inner.positional() {
                Some(image) => image.read_at(self.at, buf),
                None => Err(io::Error::from(io::ErrorKind::Unsupported)),
            },
        }
    }

    /// Everything was read; a stream must end here too, and its digest be known.
    fn end(&mut self) -> io::Result<usize> {
        if let Some(stream) = &mut self.stream
            && stream.read(&mut [0; 1])? > 0
        {
            let size = self.image_size;
            return Err(
                self.wrong(format_args!("it goes on behind the {size} bytes of its block map"))
            );
        }
        Ok(0)
    }

    fn wrong(&self, why: impl Display) -> io::Error {
        io::Error::other(not_its_image(&self.name, why))
    }
}

/// What a stretch that is not the published one means.
pub fn wrong(name: &str, Wrong { bytes, has, wanted }: &Wrong) -> Error {
    let (first, last) = (bytes.start, bytes.end - 1);
    not_its_image(
        name,
        format_args!("bytes {first} to {last} have the digest {has}, its block map says {wanted}"),
    )
}

fn not_its_image(name: &str, why: impl Display) -> Error {
    Error::new(Kind::SourceMismatch, format!("{name} is not the image of its block map: {why}"))
        .hint("download both again; --bmap none writes the image without its map")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A map as bmaptool writes it, with a checksum that fits.
    fn map(body: &str) -> String {
        let text = format!(
            "<?xml version=\"1.0\" ?>\n<bmap version=\"2.0\">\n<ImageSize> 10000 </ImageSize>\n\
             <BlockSize> 4096 </BlockSize>\n<ChecksumType> sha256 </ChecksumType>\n\
             <BmapFileChecksum> {} </BmapFileChecksum>\n{body}</bmap>\n",
            "0".repeat(64)
        );
        let own = digest(Algorithm::Sha256, text.as_bytes());
        text.replacen(&"0".repeat(64), &own, 1)
    }

    fn block_map(ranges: &str) -> String {
        map(&format!("<BlockMap>{ranges}</BlockMap>\n"))
    }

    #[test]
    fn ranges_are_blocks_and_the_last_one_ends_with_the_image() {
        let chksum = "aB".repeat(32);
        let text = block_map(&format!("<Range chksum=\"{chksum}\"> 0 </Range><Range>2-2</Range>"));
        let bmap = parse(&text).unwrap();
        let bytes: Vec<_> = bmap.ranges.iter().map(|range| range.bytes.clone()).collect();
        assert_eq!(bytes, [0..4096, 8192..10000]);
        assert_eq!(bmap.ranges[0].digest, Some(chksum.to_lowercase()));
        assert!(!bmap.proves(), "one range has no digest");
        assert_eq!(bmap.mapped(), 4096 + 1808);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("", "no XML"),
            ("<a/>", "no block map"),
            ("<bmap version=\"3.0\"/>", "version is '3.0'"),
            ("<bmap version=\"2.0\"/>", "<ImageSize> is missing"),
            (block_map("<Range>1-0</Range>").as_str(), "no range of blocks"),
            (block_map("<Range>3</Range>").as_str(), "no range of blocks"),
            (block_map("<Range>18446744073709551615</Range>").as_str(), "no range of blocks"),
            (block_map("<Range>0-1</Range><Range>1</Range>").as_str(), "not behind"),
            (block_map("<Range chksum=\"12\">0</Range>").as_str(), "no digest"),
            (block_map("").replace("10000", "20000").as_str(), "does not fit"),
            (
                map(
                    "<MappedBlocksCount>2</MappedBlocksCount><BlockMap><Range>0</Range></BlockMap>",
                )
                .as_str(),
                "says that 2",
            ),
            (map("").as_str(), "<BlockMap> is missing"),
        ] {
            let got = parse(text).unwrap_err();
            assert!(got.contains(words), "{text}: {got}");
        }
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let text = block_map("<Range> 0-1 </Range>");
        let good = parse(&text).unwrap();
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert!(parse(&changed).is_err(), "byte {at} of {good:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}", body in "[ -~]{0,80}") {
            parse(&text).ok();
            parse(&block_map(&body)).ok();
        }
    }
}
