//! Reads FAT32 as anybody else would: boot sector, chains of clusters, folders, long names. What
//! the medium says is doubted, because it may be damaged.

use std::collections::HashSet;
use std::io;

use crate::image::bytes::{has, le16, le32, u8_at};
use crate::image::{ReadAt, View};
use crate::text::printable;
use crate::windows::fat32::{UNITS, checksum};

const DEPTH: usize = 64;
const FILES: usize = 400_000;
/// Most bytes of a folder on FAT.
const FOLDER: u64 = 65_536 * 32;
const LAST: u32 = 0x0FFF_FFF8;

/// A file or a folder that the medium has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// From the root, not escaped.
    pub path: String,
    /// Whether it is a folder.
    pub folder: bool,
    /// Bytes of a file.
    pub len: u64,
    /// Its first cluster.
    pub first: u32,
    /// Date and time as they are stored.
    pub stamp: (u16, u16),
}

/// A FAT32 volume on a medium.
#[derive(Clone, Copy)]
pub struct Volume<'a> {
    view: View<'a>,
    start: u64,
    fat: u64,
    data: u64,
    cluster: u64,
    clusters: u32,
    root: u32,
}

impl std::fmt::Debug for Volume<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume")
            .field("start", &self.start)
            .field("cluster", &self.cluster)
            .field("clusters", &self.clusters)
            .finish_non_exhaustive()
    }
}

impl<'a> Volume<'a> {
    /// The volume that begins at `start`; `None`: there is no FAT32.
    pub fn open(medium: &'a dyn ReadAt, start: u64) -> io::Result<Option<Self>> {
        let view = View::new(medium);
        let sector = view.some(start, 512)?;
        Ok(parse(&sector).map(|mut volume: Volume<'a>| {
            volume.view = view;
            volume.start = start;
            volume.fat = volume.fat.saturating_add(start);
            volume.data = volume.data.saturating_add(start);
            volume
        }))
    }

    pub(super) fn medium(&self) -> View<'a> {
        self.view
    }

    fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= 2 && cluster - 2 < self.clusters
    }

    fn at(&self, cluster: u32) -> u64 {
        let index = u64::from(cluster.saturating_sub(2));
        self.data.saturating_add(index.saturating_mul(self.cluster))
    }

    /// Where the first `len` bytes of a chain are: byte of the medium and length, in order. Fewer
    /// where the chain ends before.
    pub fn runs(&self, first: u32, len: u64) -> Vec<(u64, u64)> {
        let mut out: Vec<(u64, u64)> = Vec::new();
        let (mut cluster, mut left) = (first, len);
        let mut window = Window::default();
        while left > 0 && self.is_cluster(cluster) {
            let (at, step) = (self.at(cluster), self.cluster.min(left));
            match out.last_mut() {
                Some((before, len)) if before.saturating_add(*len) == at => *len += step,
                _ => out.push((at, step)),
            }
            left -= step;
            cluster = window.next(self, cluster).unwrap_or(0);
        }
        out
    }

    /// Everything on it, and what is damaged.
    pub fn list(&self) -> (Vec<Found>, Vec<String>) {
        let (mut out, mut damage) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        let mut folders = vec![(String::new(), self.root)];
        while let Some((path, first)) = folders.pop() {
            let shown = if path.is_empty() { "the root" } else { path.as_str() };
            let shown = printable(shown);
            if !seen.insert(first) || path.split('/').count() > DEPTH {
                damage.push(format!("{shown}: this folder is in itself"));
                continue;
            }
            let bytes = match self.folder(first) {
                Ok(bytes) => bytes,
                Err(e) => {
                    damage.push(format!("{shown}: {e}"));
                    continue;
                }
            };
            for mut found in entries(&bytes) {
                if out.len() >= FILES {
                    damage.push(format!("{shown}: more than {FILES} files"));
                    return (out, damage);
                }
                if !path.is_empty() {
                    found.path = format!("{path}/{}", found.path);
                }
                if found.folder {
                    folders.push((found.path.clone(), found.first));
                }
                out.push(found);
            }
        }
        (out, damage)
    }

    /// The file or folder at a path; names are the same in capitals.
    pub fn find(&self, path: &[&str]) -> Option<Found> {
        let (last, folders) = path.split_last()?;
        let entry = |folder: u32, name: &str| {
            let same = |found: &Found| found.path.eq_ignore_ascii_case(name);
            entries(&self.folder(folder).ok()?).into_iter().find(same)
        };
        let mut at = self.root;
        for name in folders {
            at = entry(at, name).filter(|found| found.folder)?.first;
        }
        entry(at, last)
    }

    /// The bytes of a folder, up to the end of its chain.
    fn folder(&self, first: u32) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let runs = self.runs(first, FOLDER);
        if runs.is_empty() {
            return Err(io::Error::other("its first cluster is none"));
        }
        for (at, len) in runs {
            let len = usize::try_from(len).unwrap_or(0);
            out.extend(self.view.some(at, len)?);
            // A zero in the first byte of an entry ends a folder.
            if out.as_chunks::<32>().0.last().is_some_and(|entry| entry[0] == 0) {
                break;
            }
        }
        Ok(out)
    }
}

/// The boot sector; offsets are from the volume's start.
fn parse<'a>(sector: &[u8]) -> Option<Volume<'a>> {
    let unit = u64::from(le16(sector, 11)?);
    let per_cluster = u64::from(u8_at(sector, 13)?);
    let reserved = u64::from(le16(sector, 14)?);
    let copies = u64::from(u8_at(sector, 16)?);
    let (sectors, fat) = (u64::from(le32(sector, 32)?), u64::from(le32(sector, 36)?));
    let sound = has(sector, 510, &[0x55, 0xAA])
        && matches!(unit, 512 | 1024 | 2048 | 4096)
        && per_cluster.is_power_of_two()
        && matches!(copies, 1 | 2)
        && le16(sector, 17)? == 0
        && le16(sector, 22)? == 0
        && reserved > 0
        && fat > 0;
    let before = reserved + copies * fat;
    let clusters = sectors.checked_sub(before).filter(|_| sound)? / per_cluster;
    // Two entries of the FAT are no clusters.
    let clusters = clusters.min((fat * unit / 4).saturating_sub(2));
    (clusters > 0).then_some(())?;
    Some(Volume {
        view: View::new(&crate::image::Bytes(&[])),
        start: 0,
        fat: reserved * unit,
        data: before * unit,
        cluster: per_cluster * unit,
        clusters: u32::try_from(clusters).ok()?,
        root: le32(sector, 44)? & 0x0FFF_FFFF,
    })
}

/// A part of the FAT.
#[derive(Default)]
struct Window {
    at: u64,
    bytes: Vec<u8>,
}

impl Window {
    const LEN: usize = 32 << 10;

    fn next(&mut self, volume: &Volume<'_>, cluster: u32) -> Option<u32> {
        let offset = volume.fat.saturating_add(u64::from(cluster) * 4);
        let within = |window: &Self| {
            let index = usize::try_from(offset.checked_sub(window.at)?).ok()?;
            le32(&window.bytes, index)
        };
        let entry = if let Some(entry) = within(self) {
            entry
        } else {
            self.bytes = volume.view.some(offset, Self::LEN).ok()?;
            self.at = offset;
            within(self)?
        };
        Some(entry & 0x0FFF_FFFF).filter(|next| *next < LAST)
    }
}

/// The entries of a folder with their long names.
fn entries(bytes: &[u8]) -> Vec<Found> {
    let mut out = Vec::new();
    // Slots in the order of the medium: the last piece of the name first.
    let mut slots: Vec<&[u8; 32]> = Vec::new();
    for entry in bytes.as_chunks::<32>().0 {
        match (entry[0], entry[11]) {
            (0, _) => break,
            (0xE5, _) => slots.clear(),
            (_, attributes) if attributes & 0x3F == 0x0F => slots.push(entry),
            (_, attributes) if attributes & 8 != 0 => slots.clear(),
            (b'.', _) => slots.clear(),
            _ => {
                let name = long_name(&slots, &entry[..11]).unwrap_or_else(|| short_name(entry));
                slots.clear();
                let half = |at: usize| u32::from(le16(entry, at).unwrap_or(0));
                out.push(Found {
                    path: name,
                    folder: entry[11] & 0x10 != 0,
                    len: u64::from(le32(entry, 28).unwrap_or(0)),
                    first: ((half(20) << 16) | half(26)) & 0x0FFF_FFFF,
                    stamp: (le16(entry, 24).unwrap_or(0), le16(entry, 22).unwrap_or(0)),
                });
            }
        }
    }
    out
}

fn long_name(slots: &[&[u8; 32]], short: &[u8]) -> Option<String> {
    let sum = checksum(short);
    let count = u8::try_from(slots.len()).ok().filter(|count| (1..=20).contains(count))?;
    let mut units = Vec::new();
    for (slot, number) in slots.iter().rev().zip(1..) {
        let wanted = if number == count { number | 0x40 } else { number };
        if slot[0] != wanted || slot[13] != sum {
            return None;
        }
        units.extend(UNITS.iter().filter_map(|at| le16(*slot, *at)));
    }
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    let name = String::from_utf16(&units[..end]).ok()?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

fn short_name(entry: &[u8; 32]) -> String {
    let text = |bytes: &[u8], lower: bool| {
        let text = bytes.trim_ascii_end().iter().map(|b| char::from(*b));
        text.map(|c| if lower { c.to_ascii_lowercase() } else { c }).collect::<String>()
    };
    // Bits of Windows NT: base, or extension, in lower case.
    let base = text(&entry[..8], entry[12] & 8 != 0);
    let extension = text(&entry[8..11], entry[12] & 16 != 0);
    if extension.is_empty() { base } else { format!("{base}.{extension}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::image::Bytes;

    proptest! {
        #[test]
        fn no_volume_makes_it_panic(
            boot in proptest::collection::vec(any::<u8>(), 90),
            rest in proptest::collection::vec(any::<u8>(), 0..4000),
            first in any::<u32>(),
        ) {
            let mut image = vec![0; 512];
            image[..90].copy_from_slice(&boot);
            // Sound enough to be read on.
            image[11..18].copy_from_slice(&[0, 2, 1, 1, 0, 1, 0]);
            image[18] = 0;
            image[22..24].fill(0);
            image[34..36].fill(0);
            image[36..40].copy_from_slice(&[1, 0, 0, 0]);
            image[44..48].copy_from_slice(&[2, 0, 0, 0]);
            image[510..].copy_from_slice(&[0x55, 0xAA]);
            image.extend(rest);
            if let Some(volume) = Volume::open(&Bytes(&image), 0).unwrap() {
                volume.list();
                volume.runs(first, 1 << 20);
            }
        }
    }
}
