//! FAT12, FAT16 and FAT32: geometry, label, and looking up names.
//!
//! Owns: [`FatGeometry`] and directory listing over it. Must not know what the names mean (the
//! boot verdict asks for `EFI/BOOT`). Specification: Microsoft FAT32 File System Specification
//! 1.03 (2000); width by cluster count as there, but no 16-bit FAT size means FAT32 whatever
//! the count, as in Linux (fs/fat/inode.c): `mkfs.fat -F 32` makes small FAT32 volumes.
//!
//! ```text
//! | boot | FSInfo | .. | backup boot at 6 | .. | FAT 1 | FAT 2 | root (12/16) | clusters 2.. |
//! ```

use std::io;
use std::ops::Range;

use super::super::bytes::{has, le16, le32, u8_at};
use super::super::printable::label;
use super::super::read::View;
use super::{Filesystem, FsKind, ZoneKind};
use crate::text::printable;

/// The specification's limit of a directory: 65,536 entries of 32 bytes.
const DIRECTORY_LIMIT: u64 = 65_536 * 32;

/// Width of an entry of the allocation table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum FatWidth {
    Fat12,
    Fat16,
    Fat32,
}

impl FatWidth {
    fn of(fat32: bool, clusters: u32) -> Self {
        match clusters {
            _ if fat32 => Self::Fat32,
            0..4085 => Self::Fat12,
            4085.. => Self::Fat16,
        }
    }
}

/// Layout of a FAT volume. Everything is in bytes from the volume's start, except clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatGeometry {
    /// Width of a table entry.
    pub width: FatWidth,
    /// Bytes per sector.
    pub sector: u32,
    /// Bytes per cluster.
    pub cluster: u32,
    /// Start of the first table.
    pub fat_start: u64,
    /// Length of one table.
    pub fat_size: u64,
    /// Number of tables.
    pub fats: u8,
    /// Start of the fixed root directory of FAT12/16.
    pub root_start: u64,
    /// Its length; 0 on FAT32.
    pub root_size: u64,
    /// First cluster of the root directory; 0 on FAT12/16.
    pub root_cluster: u32,
    /// Start of cluster 2.
    pub data_start: u64,
    /// Number of data clusters.
    pub clusters: u32,
    /// Size of the volume by its boot sector.
    pub size: u64,
    /// FAT32's `FSInfo` sector.
    pub fs_info: Option<u64>,
    /// FAT32's copy of the boot sector.
    pub backup_boot: Option<u64>,
}

impl FatGeometry {
    /// Reads the BIOS parameter block of a boot sector; `None` unless every field is sane.
    #[must_use]
    pub fn parse(boot: &[u8]) -> Option<Self> {
        if !is_sane(boot)? {
            return None;
        }
        let sector = u32::from(le16(boot, 11)?);
        let per_cluster = u32::from(u8_at(boot, 13)?);
        let reserved = u64::from(le16(boot, 14)?);
        let fats = u8_at(boot, 16)?;
        let unit = u64::from(sector);
        let short_fat = le16(boot, 22)?;
        let fat32 = short_fat == 0;
        let fat_sectors = if fat32 { le32(boot, 36)? } else { u32::from(short_fat) };
        let total = match le16(boot, 19)? {
            0 => le32(boot, 32)?,
            short => u32::from(short),
        };
        let root_entries = le16(boot, 17)?;
        if fat_sectors == 0 || fat32 != (root_entries == 0) {
            return None;
        }
        let fat_size = u64::from(fat_sectors) * unit;
        let fat_start = reserved * unit;
        let root_start = fat_start + fat_size * u64::from(fats);
        let root_size = (u64::from(root_entries) * 32).next_multiple_of(unit);
        let data_start = root_start + root_size;
        let size = u64::from(total) * unit;
        let cluster = sector * per_cluster;
        let data = size.checked_sub(data_start)?;
        let clusters = u32::try_from(data / u64::from(cluster)).ok().filter(|&n| n > 0)?;
        // A pointer of 0 or 0xFFFF means there is no such sector.
        let pointer = |at| {
            let lba = le16(boot, at).map(u64::from)?;
            (fat32 && lba > 0 && lba < reserved).then_some(lba * unit)
        };
        Some(Self {
            width: FatWidth::of(fat32, clusters),
            sector,
            cluster,
            fat_start,
            fat_size,
            fats,
            root_start,
            root_size,
            root_cluster: if fat32 { le32(boot, 44)? } else { 0 },
            data_start,
            clusters,
            size,
            fs_info: pointer(48),
            backup_boot: pointer(50),
        })
    }

    /// Where a data cluster lies; `None` for numbers that are no data cluster.
    #[must_use]
    pub fn cluster_range(&self, cluster: u32) -> Option<Range<u64>> {
        let index = cluster.checked_sub(2).filter(|&index| index < self.clusters)?;
        let start = self.data_start + u64::from(index) * u64::from(self.cluster);
        Some(start..start + u64::from(self.cluster))
    }

    fn kind(&self) -> FsKind {
        match self.width {
            FatWidth::Fat12 => FsKind::Fat12,
            FatWidth::Fat16 => FsKind::Fat16,
            FatWidth::Fat32 => FsKind::Fat32,
        }
    }

    /// The entry of the first table for `cluster`; `None` where the bytes are not there.
    fn next(&self, view: &View<'_>, base: u64, cluster: u32) -> io::Result<Option<u32>> {
        let n = u64::from(cluster);
        let (offset, len) = match self.width {
            FatWidth::Fat12 => (n + n / 2, 2),
            FatWidth::Fat16 => (n * 2, 2),
            FatWidth::Fat32 => (n * 4, 4),
        };
        if offset + len as u64 > self.fat_size {
            return Ok(None);
        }
        let at = base.saturating_add(self.fat_start + offset);
        let Some(raw) = view.exact(at, len)? else {
            return Ok(None);
        };
        Ok(match self.width {
            FatWidth::Fat12 if cluster & 1 == 1 => le16(&raw, 0).map(|v| u32::from(v >> 4)),
            FatWidth::Fat12 => le16(&raw, 0).map(|v| u32::from(v & 0xFFF)),
            FatWidth::Fat16 => le16(&raw, 0).map(u32::from),
            FatWidth::Fat32 => le32(&raw, 0).map(|v| v & 0x0FFF_FFFF),
        })
    }
}

/// The fields that a boot sector of anything else is unlikely to have right.
fn is_sane(boot: &[u8]) -> Option<bool> {
    let media = u8_at(boot, 21)?;
    let marked =
        has(boot, 510, &[0x55, 0xAA]) || has(boot, 54, b"FAT1") || has(boot, 82, b"FAT32   ");
    Some(
        matches!(le16(boot, 11)?, 512 | 1024 | 2048 | 4096)
            && u8_at(boot, 13)?.is_power_of_two()
            && le16(boot, 14)? > 0
            && (1..=2).contains(&u8_at(boot, 16)?)
            && (media == 0xF0 || media >= 0xF8)
            && marked,
    )
}

/// A directory: the root or the one that starts at a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Directory {
    Root,
    At(u32),
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Long name if there is a valid one, else the short one, not escaped.
    pub(crate) name: String,
    pub(crate) short: String,
    pub(crate) cluster: u32,
    /// Bytes of a file; 0 for a directory.
    pub(crate) len: u32,
    pub(crate) directory: bool,
}

impl Entry {
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.short.eq_ignore_ascii_case(name)
    }
}

/// What could be seen of a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Entry>,
    pub(crate) volume_label: Option<String>,
    /// Where it lies, in bytes from the volume's start, neighbours merged.
    pub(crate) extents: Vec<Range<u64>>,
    /// False when part of it lies outside of what can be read, or its chain is broken.
    pub(crate) complete: bool,
}

/// A volume at a place.
#[derive(Clone, Copy)]
pub(crate) struct Volume<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) base: u64,
    pub(crate) geometry: &'a FatGeometry,
}

impl Volume<'_> {
    /// Extents of a directory or file, bounded by the longest directory that FAT allows; a chain
    /// that loops runs into the same bound.
    pub(crate) fn extents(&self, directory: Directory) -> io::Result<(Vec<Range<u64>>, bool)> {
        let g = self.geometry;
        let first = match directory {
            Directory::Root if g.root_size > 0 => {
                let fixed = g.root_start..g.root_start + g.root_size;
                return Ok((Vec::from([fixed]), true));
            }
            Directory::Root => g.root_cluster,
            Directory::At(cluster) => cluster,
        };
        let mut out: Vec<Range<u64>> = Vec::new();
        let mut cluster = first;
        let mut len = 0;
        while let Some(range) = g.cluster_range(cluster) {
            match out.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => out.push(range),
            }
            len += u64::from(g.cluster);
            if len >= DIRECTORY_LIMIT {
                return Ok((out, false));
            }
            match g.next(self.view, self.base, cluster)? {
                Some(next) => cluster = next,
                None => return Ok((out, false)),
            }
        }
        let end = match g.width {
            FatWidth::Fat12 => 0xFF8,
            FatWidth::Fat16 => 0xFFF8,
            FatWidth::Fat32 => 0x0FFF_FFF8,
        };
        Ok((out, cluster >= end))
    }

    /// Everything a directory names.
    pub(crate) fn list(&self, directory: Directory) -> io::Result<Listing> {
        let (extents, whole_chain) = self.extents(directory)?;
        let mut listing = Listing { complete: whole_chain, extents, ..Listing::default() };
        let mut reader = Names::default();
        'extents: for range in listing.extents.clone() {
            let len = (range.end - range.start).min(DIRECTORY_LIMIT);
            let wanted = usize::try_from(len).unwrap_or(0);
            let bytes = self.view.some(self.base.saturating_add(range.start), wanted)?;
            for raw in bytes.as_chunks::<32>().0 {
                if raw[0] == 0 {
                    // The end mark: nothing behind it counts, so what is missing there does not.
                    listing.complete = true;
                    break 'extents;
                }
                reader.take(raw, &mut listing);
            }
            if bytes.len() < wanted {
                listing.complete = false;
                break;
            }
        }
        Ok(listing)
    }
}

/// Collects the pieces of a long name until its short entry comes.
#[derive(Default)]
struct Names {
    long: Vec<u16>,
    expected: u8,
    checksum: u8,
}

impl Names {
    fn take(&mut self, raw: &[u8; 32], listing: &mut Listing) {
        let attributes = raw[11];
        if raw[0] == 0xE5 {
            *self = Self::default();
        } else if attributes & 0x3F == 0x0F {
            self.long_piece(raw);
        } else if attributes & 0x08 != 0 {
            *self = Self::default();
            if listing.volume_label.is_none() {
                listing.volume_label = volume_label(&raw[..11]);
            }
        } else {
            let short = short_name(raw);
            let long = std::mem::take(self).finish(&raw[..11]);
            let high = u32::from(u16::from_le_bytes([raw[20], raw[21]]));
            let low = u32::from(u16::from_le_bytes([raw[26], raw[27]]));
            listing.entries.push(Entry {
                name: long.unwrap_or_else(|| short.clone()),
                short,
                cluster: high << 16 | low,
                len: u32::from_le_bytes([raw[28], raw[29], raw[30], raw[31]]),
                directory: attributes & 0x10 != 0,
            });
        }
    }

    /// Pieces come last first, numbered down to 1; the first one met carries 0x40.
    fn long_piece(&mut self, raw: &[u8; 32]) {
        let number = raw[0] & 0x1F;
        if raw[0] & 0x40 != 0 && (1..=20).contains(&number) {
            *self = Self { long: Vec::new(), expected: number, checksum: raw[13] };
        }
        if number == 0 || number != self.expected || raw[13] != self.checksum {
            *self = Self::default();
            return;
        }
        self.expected -= 1;
        let fields = raw[1..11].iter().chain(&raw[14..26]).chain(&raw[28..32]).copied();
        let bytes: Vec<u8> = fields.collect();
        let piece = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
        self.long.splice(0..0, piece);
    }

    fn finish(self, short: &[u8]) -> Option<String> {
        let sum = short.iter().fold(0_u8, |sum, &b| sum.rotate_right(1).wrapping_add(b));
        if self.long.is_empty() || self.expected != 0 || sum != self.checksum {
            return None;
        }
        let end = self.long.iter().position(|&unit| unit == 0).unwrap_or(self.long.len());
        Some(String::from_utf16_lossy(&self.long[..end]))
    }
}

fn short_name(raw: &[u8; 32]) -> String {
    let text = |field: &[u8]| -> String {
        let field = field.trim_ascii_end();
        field.iter().map(|&b| char::from(b)).collect()
    };
    let mut stem = raw[..8].to_vec();
    if stem[0] == 0x05 {
        stem[0] = 0xE5;
    }
    let extension = text(&raw[8..11]);
    if extension.is_empty() { text(&stem) } else { format!("{}.{extension}", text(&stem)) }
}

fn volume_label(field: &[u8]) -> Option<String> {
    if field == b"NO NAME    " {
        return None;
    }
    // The code page is not known; ASCII is what everybody writes.
    label(field).map(|text| printable(&text))
}

pub(super) fn identify(view: &View<'_>, start: u64, head: &[u8]) -> io::Result<Option<Filesystem>> {
    let Some(geometry) = FatGeometry::parse(head) else {
        return Ok(None);
    };
    let g = &geometry;
    let mut out = Filesystem::new(g.kind());
    let root = Volume { view, base: start, geometry: g }.list(Directory::Root)?;
    let extended = if g.width == FatWidth::Fat32 { 64 } else { 36 };
    if has(head, extended + 2, &[0x29]) || has(head, extended + 2, &[0x28]) {
        let field = head.get(extended + 7..extended + 18).unwrap_or_default();
        out.label = volume_label(field).filter(|_| has(head, extended + 2, &[0x29]));
        out.uuid = le32(head, extended + 3)
            .filter(|&serial| serial != 0)
            .map(|serial| format!("{:04X}-{:04X}", serial >> 16, serial & 0xFFFF));
    }
    out.label = root.volume_label.or(out.label);
    out.size_bytes = Some(g.size);
    out.block = Some(g.sector);
    let unit = u64::from(g.sector);
    out.zone(ZoneKind::Superblock, 0, unit);
    if let Some(at) = g.fs_info {
        out.zone(ZoneKind::FsInfo, at, unit);
    }
    if let Some(at) = g.backup_boot {
        out.zone(ZoneKind::BackupSuperblock, at, unit);
    }
    out.zone(ZoneKind::FatTable, g.fat_start, g.fat_size * u64::from(g.fats));
    for range in root.extents {
        out.zone(ZoneKind::RootDirectory, range.start, range.end - range.start);
    }
    out.fat = Some(geometry);
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample::{self, FatSpec};
    use super::*;

    #[test]
    fn geometry_of_the_three_widths() {
        for (width, size, want) in [
            (FatWidth::Fat12, 1 << 20, FsKind::Fat12),
            (FatWidth::Fat16, 8 << 20, FsKind::Fat16),
            (FatWidth::Fat32, 2 << 20, FsKind::Fat32),
        ] {
            let image = sample::fat(&FatSpec { width, size, ..FatSpec::default() });
            let view = Bytes(&image);
            let fs = identify(&View::new(&view), 0, &image).unwrap().unwrap();
            assert_eq!(fs.kind, want);
            assert_eq!(fs.label.as_deref(), Some("ROOTLABEL"));
            assert_eq!(fs.uuid.as_deref(), Some("1234-ABCD"));
            assert_eq!(fs.size_bytes, Some(size as u64));
        }
    }

    #[test]
    fn unlikely_parameter_blocks_are_refused() {
        let good = sample::fat(&FatSpec::default());
        assert!(FatGeometry::parse(&good).is_some());
        for (at, bytes) in [
            (11, &[0, 3][..]),
            (13, &[3]),
            (13, &[0]),
            (14, &[0, 0]),
            (16, &[0]),
            (16, &[9]),
            (21, &[7]),
            (22, &[0xFF, 0xFF]),
            (17, &[0, 0]),
        ] {
            let mut bad = good.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(FatGeometry::parse(&bad), None, "field at {at}");
        }
        assert_eq!(FatGeometry::parse(&good[..20]), None);
    }

    #[test]
    fn a_chain_that_loops_ends() {
        let mut image = sample::fat(&FatSpec { width: FatWidth::Fat32, ..FatSpec::default() });
        let g = FatGeometry::parse(&image).unwrap();
        let at = usize::try_from(g.fat_start).unwrap() + 4 * g.root_cluster as usize;
        image[at..at + 4].copy_from_slice(&g.root_cluster.to_le_bytes());
        // No end mark either: fill the root cluster.
        let root = g.cluster_range(g.root_cluster).unwrap();
        let root = usize::try_from(root.start).unwrap()..usize::try_from(root.end).unwrap();
        image[root].fill(b'A');
        let bytes = Bytes(&image);
        let volume = Volume { view: &View::new(&bytes), base: 0, geometry: &g };
        let listing = volume.list(Directory::Root).unwrap();
        assert!(!listing.complete);
    }

    #[test]
    fn long_names_need_their_checksum() {
        let spec = FatSpec { files: &["EFI/BOOT/BOOTRISCV64.EFI"], ..FatSpec::default() };
        let image = sample::fat(&spec);
        let g = FatGeometry::parse(&image).unwrap();
        let bytes = Bytes(&image);
        let view = View::new(&bytes);
        let volume = Volume { view: &view, base: 0, geometry: &g };
        let mut at = Directory::Root;
        for name in ["efi", "boot"] {
            let listing = volume.list(at).unwrap();
            at = Directory::At(listing.entries.iter().find(|e| e.is_called(name)).unwrap().cluster);
        }
        let listing = volume.list(at).unwrap();
        assert!(listing.entries.iter().any(|e| e.is_called("BootRiscV64.efi")), "{listing:?}");
    }
}
