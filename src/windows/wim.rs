//! Windows images (WIM): what editions are in one, and how to cut one into parts (`.swm`).
//!
//! Owns: the header, the table of blobs and the XML of a WIM, and the plan of a split set, which
//! copies every resource as it is stored: nothing is decompressed, nothing copied beforehand. Must
//! not know where the parts are put.
//!
//! ```text
//! | header, 208 bytes | resources .. | table of blobs, 50 bytes each | XML, UTF-16LE |
//! ```

use std::fmt;
use std::io;
use std::ops::Range;

use crate::image::ReadAt;
use crate::image::View;
use crate::image::bytes::{has, le16, le32, le64, u8_at};
use crate::text::printable;

const HEADER: u64 = 208;
const HEADER_LEN: usize = 208;
const ENTRY: usize = 50;
/// Windows Vista to now; `SOLID` is that of ESD files.
const VERSION: u32 = 0x10D00;
const VERSION_SOLID: u32 = 0xE00;
const SPANNED: u32 = 8;
/// Five million blobs; Windows has 150,000.
const TABLE_LIMIT: u64 = 256 << 20;
const XML_LIMIT: u64 = 16 << 20;
const EDITIONS_LIMIT: usize = 1000;
/// What Microsoft's instructions say; below 4 GiB, and below what `fsck.vfat` stumbles over.
pub const PART_LIMIT: u64 = 3800 << 20;

const FREE: u8 = 1;
const METADATA: u8 = 2;
const COMPRESSED: u8 = 4;
const SOLID: u8 = 0x10;

/// Why a WIM cannot be read or cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No WIM at all.
    NotWim,
    /// A version of the format that is not known.
    Version(u32),
    /// It is a part of a set.
    AlreadySplit {
        /// Number of this part, from 1.
        part: u16,
        /// Parts of the set.
        parts: u16,
    },
    /// The table of blobs is compressed.
    CompressedTable,
    /// Many files in one compressed resource, as in ESD files.
    Solid,
    /// One resource, or all metadata, is larger than a part may be.
    Oversized {
        /// Bytes that must stay together.
        bytes: u64,
        /// Bytes that a part may have.
        limit: u64,
    },
    /// More parts than can be numbered.
    TooManyParts,
    /// Its fields contradict each other.
    Damaged(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWim => f.write_str("it is no WIM file"),
            Self::Version(v) => write!(f, "its version 0x{v:x} of the format is not known"),
            Self::AlreadySplit { part, parts } => {
                write!(f, "it is part {part} of {parts} of a split set")
            }
            Self::CompressedTable => f.write_str("its table of blobs is compressed"),
            Self::Solid => f.write_str("its files are compressed together (solid)"),
            Self::Oversized { bytes, limit } => {
                write!(f, "{bytes} bytes of it cannot be cut; a part may have {limit}")
            }
            Self::TooManyParts => f.write_str("it would need more than 65534 parts"),
            Self::Damaged(what) => write!(f, "it is damaged: {what}"),
        }
    }
}

/// A read failed, or what was read is refused.
#[derive(Debug)]
pub enum Fault {
    /// The system's or the disc's own words.
    Read(io::Error),
    /// What is wrong with it.
    Refused(Refusal),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

fn damaged(what: impl Into<String>) -> Refusal {
    Refusal::Damaged(what.into())
}

/// Where a resource is and how it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resource {
    stored: u64,
    flags: u8,
    offset: u64,
    original: u64,
}

impl Resource {
    fn parse(bytes: &[u8], at: usize) -> Option<Self> {
        // 56 bits of length and 8 of flags.
        let word = le64(bytes, at)?;
        Some(Self {
            stored: word & ((1 << 56) - 1),
            flags: u8_at(bytes, at + 7)?,
            offset: le64(bytes, at + 8)?,
            original: le64(bytes, at + 16)?,
        })
    }

    fn bytes(self) -> [u8; 24] {
        let mut out = [0; 24];
        out[..8].copy_from_slice(&self.stored.to_le_bytes());
        out[7] = self.flags;
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..].copy_from_slice(&self.original.to_le_bytes());
        out
    }

    fn is(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Its bytes, where they lie within `size`.
    fn within(self, size: u64) -> Option<Range<u64>> {
        let end = self.offset.checked_add(self.stored)?;
        (end <= size).then_some(self.offset..end)
    }
}

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    raw: Vec<u8>,
    part: u16,
    parts: u16,
    images: u32,
    table: Resource,
    xml: Resource,
}

fn header(raw: &[u8]) -> Result<Header, Refusal> {
    if !has(raw, 0, b"MSWIM\0\0\0") {
        return Err(Refusal::NotWim);
    }
    let short = || damaged("its header is cut off");
    let version = le32(raw, 0x0C).ok_or_else(short)?;
    if version != VERSION && version != VERSION_SOLID {
        return Err(Refusal::Version(version));
    }
    let raw = raw.get(..HEADER_LEN).ok_or_else(short)?;
    if le32(raw, 8) != Some(208) {
        return Err(damaged("its header has another length than 208"));
    }
    Ok(Header {
        part: le16(raw, 0x28).ok_or_else(short)?,
        parts: le16(raw, 0x2A).ok_or_else(short)?,
        images: le32(raw, 0x2C).ok_or_else(short)?,
        table: Resource::parse(raw, 0x30).ok_or_else(short)?,
        xml: Resource::parse(raw, 0x48).ok_or_else(short)?,
        raw: raw.to_vec(),
    })
}

/// One blob: its resource, and its entry as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Blob {
    resource: Resource,
    /// Reference count and SHA-1.
    rest: [u8; 24],
}

/// The table, without entries that are free.
fn blobs(table: &[u8], size: u64) -> Result<Vec<Blob>, Refusal> {
    let (entries, rest) = table.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Err(damaged("its table of blobs ends within an entry"));
    }
    let mut out = Vec::new();
    for raw in entries {
        let Some(resource) = Resource::parse(raw, 0) else { continue };
        if resource.is(FREE) {
            continue;
        }
        // Offsets of solid ones are within what they are compressed with.
        if !resource.is(SOLID) && resource.within(size).is_none() {
            return Err(damaged("a resource lies behind its end"));
        }
        let mut rest = [0; 24];
        rest.copy_from_slice(&raw[26..]);
        out.push(Blob { resource, rest });
    }
    Ok(out)
}

/// An image of Windows in a WIM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    /// From 1.
    pub index: u32,
    /// As Setup lists it, escaped.
    pub name: String,
    /// `26200.6584`; empty when it is not said.
    pub build: String,
    /// `x64`, `arm64`, `x86`; or the number that is not known.
    pub arch: String,
    /// `en-US`.
    pub languages: Vec<String>,
}

impl fmt::Display for Edition {
    /// `  1  Windows 11 Pro: build 26200, x64, en-US`; nothing that steers a terminal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, build, arch, languages } = self;
        let build = if build.is_empty() { String::new() } else { format!("build {build}") };
        let parts = [build, arch.clone(), languages.join(", ")];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let colon = if parts.is_empty() { "" } else { ": " };
        let text = format!("{name}{colon}{}", parts.join(", "));
        write!(f, "{index:>3}  {}", printable(&text))
    }
}

/// The editions that the XML names.
pub fn editions(xml: &[u8]) -> Result<Vec<Edition>, Refusal> {
    let (pairs, rest) = xml.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(damaged("its XML is no UTF-16"));
    }
    let units: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
    let text = String::from_utf16(&units).map_err(|_| damaged("its XML is no UTF-16"))?;
    let text = text.trim_start_matches('\u{feff}').trim_end_matches('\0');
    let document = roxmltree::Document::parse(text)
        .map_err(|e| damaged(printable(&format!("its XML cannot be read, {e}"))))?;
    let images = document.root_element().children().filter(|n| n.has_tag_name("IMAGE"));
    Ok(images.take(EDITIONS_LIMIT).map(edition).collect())
}

fn edition(image: roxmltree::Node<'_, '_>) -> Edition {
    let text = |path: &[&str]| -> Option<String> {
        let mut node = image;
        for name in path {
            node = node.children().find(|child| child.has_tag_name(*name))?;
        }
        node.text().map(|text| printable(text.trim())).filter(|text| !text.is_empty())
    };
    let build = text(&["WINDOWS", "VERSION", "BUILD"]).map(|build| {
        match text(&["WINDOWS", "VERSION", "SPBUILD"]) {
            Some(service) => format!("{build}.{service}"),
            None => build,
        }
    });
    let arch = text(&["WINDOWS", "ARCH"]).map(|number| match number.as_str() {
        "0" => "x86".to_owned(),
        "5" => "arm".to_owned(),
        "9" => "x64".to_owned(),
        "12" => "arm64".to_owned(),
        _ => number,
    });
    let languages = image
        .descendants()
        .filter(|node| node.has_tag_name("LANGUAGE"))
        .filter_map(|node| node.text())
        .take(EDITIONS_LIMIT);
    Edition {
        index: image.attribute("INDEX").and_then(|n| n.parse().ok()).unwrap_or(0),
        name: text(&["DISPLAYNAME"]).or_else(|| text(&["NAME"])).unwrap_or_default(),
        build: build.unwrap_or_default(),
        arch: arch.unwrap_or_default(),
        languages: languages.map(|text| printable(text.trim())).collect(),
    }
}

/// What a part is made of, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// New bytes.
    Bytes(Vec<u8>),
    /// Bytes of the file that was cut.
    Original(Range<u64>),
}

/// A part of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its length.
    pub len: u64,
    /// What it is made of.
    pub pieces: Vec<Piece>,
}

/// A WIM's header, table and XML; its resources stay where they are.
#[derive(Clone, Debug)]
pub struct Wim {
    header: Header,
    blobs: Vec<Blob>,
    xml: Vec<u8>,
    size: u64,
}

impl Wim {
    /// Reads what describes the file; `size` is the file's length.
    pub fn load(file: &dyn ReadAt, size: u64) -> Result<Self, Fault> {
        let view = View::sized(file, size);
        let header = header(&view.some(0, HEADER_LEN)?)?;
        let part = |resource: Resource, limit: u64, what: &str| -> Result<Vec<u8>, Fault> {
            let fits = resource.stored <= limit && resource.within(size).is_some();
            let len = usize::try_from(resource.stored).ok().filter(|_| fits);
            let len = len.ok_or_else(|| damaged(format!("{what} lies behind its end")))?;
            let bytes = view.exact(resource.offset, len)?;
            Ok(bytes.ok_or_else(|| damaged(format!("{what} is cut off")))?)
        };
        if header.xml.is(COMPRESSED) {
            return Err(damaged("its XML is compressed").into());
        }
        let xml = part(header.xml, XML_LIMIT, "its XML")?;
        let blobs = if header.table.is(COMPRESSED) {
            Vec::new()
        } else {
            blobs(&part(header.table, TABLE_LIMIT, "its table of blobs")?, size)?
        };
        Ok(Self { header, blobs, xml, size })
    }

    /// The editions in it.
    pub fn editions(&self) -> Result<Vec<Edition>, Refusal> {
        editions(&self.xml)
    }

    /// Images that the header counts.
    pub fn images(&self) -> u32 {
        self.header.images
    }

    /// Whether files are compressed together, which keeps it from being cut.
    pub fn is_solid(&self) -> bool {
        self.blobs.iter().any(|blob| blob.resource.is(SOLID))
    }

    /// Cuts it into parts of up to `limit` bytes, which share the identifier `guid`.
    pub fn split(&self, limit: u64, guid: [u8; 16]) -> Result<Vec<Part>, Refusal> {
        let groups = self.groups(limit)?;
        let total = u16::try_from(groups.len()).ok().filter(|total| *total < u16::MAX);
        let total = total.ok_or(Refusal::TooManyParts)?;
        let numbered = groups.iter().zip(1_u16..);
        Ok(numbered.map(|(group, number)| self.part(group, (number, total), guid)).collect())
    }

    /// Which blobs go into which part: metadata into the first, the rest in the file's order.
    fn groups(&self, limit: u64) -> Result<Vec<Vec<Blob>>, Refusal> {
        let Header { part, parts, table, .. } = self.header;
        if parts > 1 || part > 1 {
            return Err(Refusal::AlreadySplit { part, parts });
        }
        if table.is(COMPRESSED) {
            return Err(Refusal::CompressedTable);
        }
        if self.is_solid() {
            return Err(Refusal::Solid);
        }
        let mut blobs = self.blobs.clone();
        blobs.sort_by_key(|blob| (!blob.resource.is(METADATA), blob.resource.offset));
        let stored = blobs.iter().try_fold(0_u64, |sum, b| sum.checked_add(b.resource.stored));
        if stored.is_none_or(|sum| sum > self.size) {
            return Err(damaged("its resources overlap"));
        }
        // As wimlib has it, every part is given room for the whole table.
        let fixed = HEADER + table.stored + self.header.xml.stored;
        if fixed > limit {
            return Err(Refusal::Oversized { bytes: fixed, limit });
        }
        let (mut groups, mut last, mut size) = (Vec::new(), Vec::new(), 0_u64);
        for blob in blobs {
            let Resource { stored, .. } = blob.resource;
            let bytes = if blob.resource.is(METADATA) { size + stored } else { stored };
            if bytes + fixed > limit {
                return Err(Refusal::Oversized { bytes: bytes + fixed, limit });
            }
            if size > 0 && size + stored + fixed > limit {
                groups.push(std::mem::take(&mut last));
                size = 0;
            }
            size += stored;
            last.push(blob);
        }
        groups.push(last);
        Ok(groups)
    }

    fn part(&self, blobs: &[Blob], (number, total): (u16, u16), guid: [u8; 16]) -> Part {
        let mut pieces = vec![Piece::Bytes(Vec::new())];
        let (mut table, mut at) = (Vec::with_capacity(blobs.len() * ENTRY), HEADER);
        for blob in blobs {
            let old = blob.resource;
            table.extend(Resource { offset: at, ..old }.bytes());
            table.extend(number.to_le_bytes());
            table.extend(blob.rest);
            at += old.stored;
            let range = old.offset..old.offset + old.stored;
            match pieces.last_mut() {
                _ if range.is_empty() => {}
                Some(Piece::Original(last)) if last.end == range.start => last.end = range.end,
                _ => pieces.push(Piece::Original(range)),
            }
        }
        let len = table.len() as u64;
        let table_at =
            Resource { stored: len, flags: self.header.table.flags, offset: at, original: len };
        let xml_at = Resource { offset: at + len, ..self.header.xml };
        let mut raw = self.header.raw.clone();
        let flags = le32(&raw, 0x10).unwrap_or(0) | SPANNED;
        raw[0x10..0x14].copy_from_slice(&flags.to_le_bytes());
        raw[0x18..0x28].copy_from_slice(&guid);
        raw[0x28..0x2A].copy_from_slice(&number.to_le_bytes());
        raw[0x2A..0x2C].copy_from_slice(&total.to_le_bytes());
        raw[0x30..0x48].copy_from_slice(&table_at.bytes());
        raw[0x48..0x60].copy_from_slice(&xml_at.bytes());
        // Metadata to boot from, its index, and integrity: a set has none of them.
        raw[0x60..0x94].fill(0);
        pieces[0] = Piece::Bytes(raw);
        table.extend(&self.xml);
        pieces.push(Piece::Bytes(table));
        Part { len: at + len + self.xml.len() as u64, pieces }
    }
}

/// `install.swm`, `install2.swm`, ...: names of the parts of `stem`.wim, from 1.
pub fn part_name(stem: &str, number: usize) -> String {
    if number <= 1 { format!("{stem}.swm") } else { format!("{stem}{number}.swm") }
}

#[cfg(test)]
mod tests;
