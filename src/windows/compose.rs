//! A stick as one image: which bytes come where, from the disc, from the host, or new.
//!
//! Owns: what goes onto the stick and what a large `install.wim` becomes. The result is a sorted
//! list without overlaps; [`super::composed::ComposedSource`] streams it. Must not write.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::fat32::{self, Entry, Fill, Volume, key};
use super::stamp::{self, Stamp};
use super::table::{self, Device, Kind};
use super::tree::{Disc, DiscFile, Node};
use super::wim::{self, Fault, Piece, Wim};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::text::{printable, printable_path};

pub(super) const MIB: u64 = 1 << 20;
/// A file from here on is split: below 4 GiB by two clusters, because dosfstools' `fsck.vfat`
/// counts the clusters of a file, and takes 4 GiB of them for none.
const WHOLE: u64 = (4 << 30) - (64 << 10);

/// The way out for files that FAT32 cannot hold.
const NTFS: &str = "make an NTFS stick: --filesystem ntfs --uefi-ntfs FILE, where FILE is the \
                    uefi-ntfs.img of https://github.com/pbatard/rufus (in res/uefi)";

/// Where the bytes of an extent come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// Zeros.
    Zeros,
    /// A file of the disc, by number, from this byte on.
    Disc {
        /// Number among the disc's nodes.
        file: usize,
        /// Byte of the file.
        offset: u64,
    },
    /// A file of the host, by number, from its beginning.
    Host {
        /// Number among [`Plan::hosts`].
        file: usize,
    },
    /// [`Plan::volume`], from this byte on.
    Volume {
        /// Byte of the volume.
        offset: u64,
    },
}

/// A stretch of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// What is there.
    pub content: Content,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

/// Who a file on the stick comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// As it is on the disc.
    Disc,
    /// A part of a file that was too large.
    Part,
    /// Added to what is on the disc.
    Added,
}

/// A file that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// From the root, with `/` between names; not escaped.
    pub path: String,
    /// Bytes.
    pub len: u64,
    /// Its first byte in the image, where it has any; it lies in one stretch.
    pub at: Option<u64>,
    /// Who it comes from.
    pub origin: Origin,
}

/// The bytes of an added file.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory.
    Bytes(Vec<u8>),
    /// A file of this length on the host.
    Host(PathBuf, u64),
}

/// A file that is added to what is on the disc.
#[derive(Clone, Debug)]
pub struct Added {
    /// Where, from the root, with `/` between names.
    pub path: String,
    /// What.
    pub body: Body,
    /// Seconds since 1970, UTC.
    pub mtime: i64,
    /// Whether a file of the disc may make room.
    pub replaces: bool,
}

/// How the stick is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it goes onto.
    pub device: Device,
    /// Its table.
    pub table: Kind,
    /// Wanted volume label.
    pub label: String,
    /// Random bytes, for identifiers.
    pub seed: [u8; 16],
    /// Most bytes of a part of `install.wim`, which is then split when it has more; `None`: it is
    /// split when FAT32 cannot hold it.
    pub part_limit: Option<u64>,
}

/// A planned stick.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Bytes of the device, whole sectors.
    pub size: u64,
    /// Logical sector.
    pub sector: u32,
    /// First byte of the partition.
    pub start: u64,
    /// In ascending order, without overlaps.
    pub extents: Vec<Extent>,
    /// All files, in the order of their paths.
    pub files: Vec<Written>,
    /// Files of the host.
    pub hosts: Vec<(PathBuf, u64)>,
    /// A volume that was filled beforehand.
    pub volume: Option<Arc<File>>,
    /// What to tell: a changed label, files that were replaced or split.
    pub notes: Vec<String>,
}

/// A file or folder on its way to the stick.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) path: String,
    /// `None`: a folder.
    pub(super) file: Option<Pieces>,
    pub(super) mtime: i64,
    pub(super) origin: Origin,
}

/// Plans a stick with the files of `disc` and those that are added.
pub fn plan(disc: &dyn Disc, added: &[Added], options: &Options) -> Result<Plan> {
    let mut notes = Vec::new();
    let (label, note) = fat32::label(&options.label);
    notes.extend(note);
    let items = items(disc, options, &mut notes)?;
    let (items, hosts) = with_added(items, added, &mut notes)?;
    let too_small = || {
        Error::refused(format!(
            "a Windows stick needs more than {} bytes in sectors of {}: FAT32 has 65525 clusters at the least",
            options.device.size, options.device.sector
        ))
        .hint("use a larger stick")
    };
    let layout = table::plan(options.table, options.device, options.seed).ok_or_else(too_small)?;
    let [a, b, c, d, ..] = options.seed;
    let volume = Volume {
        sector: options.device.sector,
        start: layout.start,
        len: layout.len,
        label,
        serial: u32::from_le_bytes([a, b, c, d]),
    };
    let entries: Vec<Entry> = items.iter().map(Item::entry).collect();
    let fat = fat32::plan(&entries, volume).map_err(|refusal| match refusal {
        fat32::Refusal::Geometry => too_small(),
        fat32::Refusal::Problems(ref problems)
            if problems.iter().any(|p| matches!(p.trouble, fat32::Trouble::TooLarge(_))) =>
        {
            Error::refused(refusal.to_string()).hint(NTFS)
        }
        other => Error::refused(other.to_string()),
    })?;
    let mut extents: Vec<Extent> = layout.structures.into_iter().map(new_bytes).collect();
    let stamp = Stamp {
        seed: options.seed,
        table: options.table,
        part_limit: options.part_limit,
        boot: None,
    };
    extents.push(new_bytes((stamp::AT, stamp.to_bytes())));
    extents.extend(fat.structures.into_iter().map(filled));
    let mut files = Vec::new();
    for (item, at) in items.into_iter().zip(fat.files) {
        let Some((len, pieces)) = item.file else { continue };
        let mut next = at.unwrap_or(0);
        for (len, content) in pieces {
            extents.push(Extent { at: next, len, content });
            next = next.saturating_add(len);
        }
        files.push(Written { path: item.path, len, at, origin: item.origin });
    }
    let sector = u64::from(options.device.sector);
    let size = options.device.size / sector * sector;
    let extents = sorted(extents, size)?;
    Ok(Plan {
        size,
        sector: options.device.sector,
        start: layout.start,
        extents,
        files,
        hosts,
        volume: None,
        notes,
    })
}

impl Item {
    /// What is number `file` on the disc, as it is.
    pub(super) fn of_disc(file: usize, node: &Node) -> Self {
        let content = |len| (len > 0).then_some((len, Content::Disc { file, offset: 0 }));
        let file = node.len.map(|len| (len, content(len).into_iter().collect()));
        Self { path: node.path.clone(), file, mtime: node.mtime, origin: Origin::Disc }
    }

    pub(super) fn entry(&self) -> Entry {
        let len = self.file.as_ref().map(|(len, _)| *len);
        Entry { path: self.path.clone(), len, mtime: self.mtime }
    }
}

pub(super) fn new_bytes((at, bytes): (u64, Vec<u8>)) -> Extent {
    Extent { at, len: bytes.len() as u64, content: Content::Bytes(bytes.into()) }
}

fn filled((at, fill): (u64, Fill)) -> Extent {
    match fill {
        Fill::Bytes(bytes) => {
            Extent { at, len: bytes.len() as u64, content: Content::Bytes(bytes) }
        }
        Fill::Zeros(len) => Extent { at, len, content: Content::Zeros },
    }
}

/// What the disc has, with parts for what is too large.
fn items(disc: &dyn Disc, options: &Options, notes: &mut Vec<String>) -> Result<Vec<Item>> {
    let threshold = options.part_limit.unwrap_or(WHOLE);
    let mut out = Vec::new();
    for (file, node) in disc.nodes().iter().enumerate() {
        let path = &node.path;
        let Some(len) = node.len else {
            out.push(Item::of_disc(file, node));
            continue;
        };
        let lower = format!("/{}", path.to_ascii_lowercase());
        if len >= threshold && lower.ends_with("/sources/install.wim") {
            let parts = parts((disc, file), len, options)?;
            notes.push(format!("{} is split into {} parts", printable(path), parts.len()));
            let stem = &path[..path.len() - 4];
            let numbered = parts.into_iter().zip(1..);
            out.extend(numbered.map(|(part, number)| Item {
                path: wim::part_name(stem, number),
                file: Some(part),
                mtime: node.mtime,
                origin: Origin::Part,
            }));
            continue;
        }
        if len > u64::from(u32::MAX) && lower.ends_with("/sources/install.esd") {
            return Err(unsplittable(path, "its files are compressed together (solid)"));
        }
        out.push(Item::of_disc(file, node));
    }
    Ok(out)
}

fn unsplittable(path: &str, why: impl fmt::Display) -> Error {
    let name = crate::text::shell_word(path.rsplit('/').next().unwrap_or(path));
    let path = printable(path);
    Error::refused(format!("{path} is too large for FAT32 and cannot be split: {why}")).hint(format!(
        "make a WIM that can be split, and put it into the ISO instead: wimlib-imagex export {name} all \
         new.wim --compress=LZX\n       or {NTFS}"
    ))
}

/// Files of the host with their lengths.
pub(super) type Hosts = Vec<(PathBuf, u64)>;
/// Length and pieces of a file.
pub(super) type Pieces = (u64, Vec<(u64, Content)>);

/// The parts of a WIM on the disc.
fn parts((disc, file): (&dyn Disc, usize), len: u64, options: &Options) -> Result<Vec<Pieces>> {
    let path = disc.nodes().get(file).map_or("", |node| node.path.as_str());
    let fault = |fault: Fault| match fault {
        Fault::Read(e) => Error::from_read(e, &printable(path)),
        Fault::Refused(why @ wim::Refusal::Damaged(_)) => {
            Error::new(ErrorKind::SourceMismatch, format!("{}: {why}", printable(path)))
        }
        Fault::Refused(why) => unsplittable(path, why),
    };
    let wim = Wim::load(&DiscFile { disc, file }, len).map_err(fault)?;
    let limit = options.part_limit.unwrap_or(wim::PART_LIMIT);
    let mut guid = options.seed;
    guid.rotate_left(5);
    let parts = wim.split(limit, guid).map_err(|refusal| fault(refusal.into()))?;
    let content = |piece: Piece| match piece {
        Piece::Bytes(bytes) => (bytes.len() as u64, Content::Bytes(bytes.into())),
        Piece::Original(range) => {
            (range.end - range.start, Content::Disc { file, offset: range.start })
        }
    };
    let parts = parts.into_iter();
    Ok(parts.map(|part| (part.len, part.pieces.into_iter().map(content).collect())).collect())
}

/// Adds files, with the folders that they need; sorted by path.
pub(super) fn with_added(
    items: Vec<Item>,
    added: &[Added],
    notes: &mut Vec<String>,
) -> Result<(Vec<Item>, Hosts)> {
    let mut hosts = Vec::new();
    let mut items: BTreeMap<String, Vec<Item>> =
        items.into_iter().fold(BTreeMap::new(), |mut all: BTreeMap<String, Vec<Item>>, item| {
            // Names that differ by case alone are found, and named, by the planner.
            all.entry(key(&item.path)).or_default().push(item);
            all
        });
    let mut ours = HashSet::new();
    for file in added {
        let own = key(&file.path);
        let shown = printable(&file.path);
        if !ours.insert(own.clone()) {
            return Err(Error::usage(format!("{shown} is added twice")));
        }
        let before = items.get(&own).and_then(|items| items.first());
        let is_file = before.is_some_and(|item| item.file.is_some());
        if before.is_some() && !(is_file && file.replaces) {
            return Err(Error::refused(format!("{shown} is on the disc already")));
        }
        notes.extend(is_file.then(|| format!("{shown} replaces the one of the disc")));
        let path = spelled(&mut items, &file.path, file.mtime);
        let (len, content) = match &file.body {
            Body::Bytes(bytes) => (bytes.len() as u64, Content::Bytes(bytes.as_slice().into())),
            Body::Host(path, len) => {
                hosts.push((path.clone(), *len));
                (*len, Content::Host { file: hosts.len() - 1 })
            }
        };
        let body = if len == 0 { Vec::new() } else { vec![(len, content)] };
        let item = Item { path, file: Some((len, body)), mtime: file.mtime, origin: Origin::Added };
        items.insert(own, vec![item]);
    }
    Ok((items.into_values().flatten().collect(), hosts))
}

/// The path with its folders spelled as they are on the disc; makes those that are missing.
fn spelled(items: &mut BTreeMap<String, Vec<Item>>, path: &str, mtime: i64) -> String {
    let Some((folder, name)) = path.rsplit_once('/') else { return path.to_owned() };
    let mut out = String::new();
    for part in folder.split('/') {
        let path = if out.is_empty() { part.to_owned() } else { format!("{out}/{part}") };
        let items = items
            .entry(key(&path))
            .or_insert_with(|| vec![Item { path, file: None, mtime, origin: Origin::Added }]);
        out = items.first().map(|item| item.path.clone()).unwrap_or_default();
    }
    format!("{out}/{name}")
}

/// In order, without what is empty, both ends filled with zeros where nothing else is.
pub(super) fn sorted(mut extents: Vec<Extent>, size: u64) -> Result<Vec<Extent>> {
    extents.retain(|extent| extent.len > 0);
    extents.sort_by_key(|extent| extent.at);
    let mut zeros = Vec::new();
    for (from, to) in [(0, MIB.min(size)), (size.saturating_sub(MIB).max(MIB.min(size)), size)] {
        let mut at = from;
        for extent in extents.iter().filter(|extent| extent.at < to && extent.end() > from) {
            if extent.at > at {
                zeros.push(Extent { at, len: extent.at - at, content: Content::Zeros });
            }
            at = at.max(extent.end());
        }
        if at < to {
            zeros.push(Extent { at, len: to - at, content: Content::Zeros });
        }
    }
    extents.extend(zeros);
    extents.sort_by_key(|extent| extent.at);
    let overlap = extents.windows(2).any(|pair| pair[0].end() > pair[1].at);
    if overlap || extents.last().is_some_and(|last| last.end() > size) {
        return Err(Error::new(ErrorKind::Internal, "the plan of the stick overlaps itself"));
    }
    Ok(extents)
}

/// A file of the host that is added as it is.
pub fn host_file(path: PathBuf, at: String, mtime: i64) -> Result<Added> {
    let meta = std::fs::metadata(&path)
        .map_err(|e| Error::io(format!("reading {} failed", printable_path(&path)), e))?;
    if !meta.is_file() {
        return Err(Error::usage(format!("{} is no file", printable_path(&path))));
    }
    Ok(Added { path: at, body: Body::Host(path, meta.len()), mtime, replaces: false })
}

#[cfg(test)]
pub(super) mod tests;
