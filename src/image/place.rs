//! In words: where on a medium do these bytes lie?
//!
//! Owns: [`describe_range`]. A verification that finds a difference can say "the superblock of
//! partition 2, which every mount changes" instead of an offset (etcher#1877: a stick that was
//! mounted no longer verifies). Must not read: it works from an [`ImageInfo`] taken before.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use super::ImageInfo;
use super::fs::{Filesystem, FsKind, ZoneKind};

/// A filesystem at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    /// Which filesystem.
    pub fs: FsKind,
    /// Number of its partition; `None` without a table.
    pub partition: Option<u32>,
}

/// What a byte range belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Superblock or boot sector.
    Superblock(Spot),
    /// Copy of it.
    BackupSuperblock(Spot),
    /// `FSInfo` of FAT32.
    FsInfo(Spot),
    /// File allocation table.
    FatTable(Spot),
    /// Root directory of FAT or exFAT.
    RootDirectory(Spot),
    /// Journal.
    Journal(Spot),
    /// Group descriptors, inode tables, bitmaps, MFT.
    Metadata(Spot),
    /// MBR, GPT or its backup, links of logical partitions.
    PartitionTable,
    /// Anything else in a partition or filesystem.
    Data {
        /// Number of the partition; `None` without a table.
        partition: Option<u32>,
    },
    /// Between partitions.
    Unpartitioned,
    /// Beyond the end.
    Outside,
}

impl Place {
    /// Operating systems write here merely because the medium was mounted or opened.
    #[must_use]
    pub fn changes_on_mount(&self) -> bool {
        match self {
            Self::Superblock(spot)
            | Self::FsInfo(spot)
            | Self::FatTable(spot)
            | Self::RootDirectory(spot)
            | Self::Journal(spot)
            | Self::Metadata(spot) => spot.fs.changes_on_mount(),
            // Windows writes a disk signature into an MBR that has none; partitioning tools move
            // the backup GPT. Neither is a mount.
            Self::BackupSuperblock(_)
            | Self::PartitionTable
            | Self::Data { .. }
            | Self::Unpartitioned
            | Self::Outside => false,
        }
    }

    /// Number of the partition it lies in.
    #[must_use]
    pub fn partition(&self) -> Option<u32> {
        match self {
            Self::Superblock(spot)
            | Self::BackupSuperblock(spot)
            | Self::FsInfo(spot)
            | Self::FatTable(spot)
            | Self::RootDirectory(spot)
            | Self::Journal(spot)
            | Self::Metadata(spot) => spot.partition,
            Self::Data { partition } => *partition,
            Self::PartitionTable | Self::Unpartitioned | Self::Outside => None,
        }
    }

    fn zone(kind: ZoneKind, spot: Spot) -> Self {
        match kind {
            ZoneKind::Superblock => Self::Superblock(spot),
            ZoneKind::BackupSuperblock => Self::BackupSuperblock(spot),
            ZoneKind::FsInfo => Self::FsInfo(spot),
            ZoneKind::FatTable => Self::FatTable(spot),
            ZoneKind::RootDirectory => Self::RootDirectory(spot),
            ZoneKind::Journal => Self::Journal(spot),
            ZoneKind::Metadata => Self::Metadata(spot),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut part = |what: &str, spot: &Spot| match spot.partition {
            Some(number) => write!(f, "{what} of {} in partition {number}", spot.fs),
            None => write!(f, "{what} of {}", spot.fs),
        };
        match self {
            Self::Superblock(spot) => part("superblock", spot),
            Self::BackupSuperblock(spot) => part("backup superblock", spot),
            Self::FsInfo(spot) => part("FSInfo sector", spot),
            Self::FatTable(spot) => part("allocation table", spot),
            Self::RootDirectory(spot) => part("root directory", spot),
            Self::Journal(spot) => part("journal", spot),
            Self::Metadata(spot) => part("metadata", spot),
            Self::PartitionTable => f.write_str("partition table"),
            Self::Data { partition: Some(number) } => write!(f, "data in partition {number}"),
            Self::Data { partition: None } => f.write_str("data"),
            Self::Unpartitioned => f.write_str("space outside of partitions"),
            Self::Outside => f.write_str("beyond the end"),
        }
    }
}

/// A part of the range asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Bytes of the medium.
    pub range: Range<u64>,
    /// What they belong to.
    pub place: Place,
}

/// An area with a meaning; the highest rank wins, among equals the smallest.
struct Area {
    range: Range<u64>,
    place: Place,
    rank: u8,
}

/// Splits `range` into the places it covers, ascending, without gaps.
#[must_use]
pub fn describe_range(info: &ImageInfo, range: Range<u64>) -> Vec<Located> {
    let mut areas = areas(info);
    areas.retain(|area| area.range.start < range.end && area.range.end > range.start);
    // A sweep over the borders: a hostile table may have a hundred thousand areas.
    let mut borders: Vec<(u64, Option<usize>)> = vec![(range.end, None)];
    for (index, area) in areas.iter().enumerate() {
        borders.push((area.range.start.max(range.start), Some(index)));
        borders.push((area.range.end.min(range.end), Some(index)));
    }
    borders.sort_unstable();
    let mut out: Vec<Located> = Vec::new();
    let mut open: BTreeSet<(u8, u64, usize)> = BTreeSet::new();
    let mut at = range.start;
    for (border, index) in borders {
        if border > at {
            let place = open.first().map_or(Place::Unpartitioned, |best| areas[best.2].place);
            match out.last_mut() {
                Some(last) if last.place == place => last.range.end = border,
                _ => out.push(Located { range: at..border, place }),
            }
            at = border;
        }
        if let Some(index) = index {
            let area = &areas[index];
            // Highest rank first, then the innermost: isohybrid partitions lie in each other.
            let key = (u8::MAX - area.rank, area.range.end - area.range.start, index);
            // The first border of an area opens it, the second closes it.
            if !open.remove(&key) {
                open.insert(key);
            }
        }
    }
    out
}

fn areas(info: &ImageInfo) -> Vec<Area> {
    let mut out = Vec::new();
    if let Some(size) = info.size {
        out.push(Area { range: size..u64::MAX, place: Place::Outside, rank: 3 });
    }
    let Some(table) = &info.table else {
        let end = info.size.unwrap_or(u64::MAX);
        let place = Place::Data { partition: None };
        out.push(Area { range: 0..end, place, rank: 0 });
        out.extend(info.filesystem.iter().flat_map(|fs| zones(fs, 0..end, None)));
        return out;
    };
    for span in &table.spans {
        out.push(Area { range: span.clone(), place: Place::PartitionTable, rank: 2 });
    }
    for partition in table.partitions.iter().filter(|partition| !partition.is_extended()) {
        let number = Some(partition.number);
        let place = Place::Data { partition: number };
        out.push(Area { range: partition.range(), place, rank: 0 });
        out.extend(partition.fs.iter().flat_map(|fs| zones(fs, partition.range(), number)));
    }
    out
}

/// Zones of a filesystem on the medium, cut at its partition.
fn zones(fs: &Filesystem, inside: Range<u64>, partition: Option<u32>) -> Vec<Area> {
    let spot = Spot { fs: fs.kind, partition };
    let area = |zone: &super::fs::Zone| {
        let start = inside.start.saturating_add(zone.range.start);
        let end = inside.start.saturating_add(zone.range.end).min(inside.end);
        (start < end).then(|| Area {
            range: start..end,
            place: Place::zone(zone.kind, spot),
            rank: 1,
        })
    };
    fs.zones.iter().filter_map(area).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fs::FatWidth;
    use super::super::inspect;
    use super::super::read::Bytes;
    use super::super::sample::{self, FatSpec};
    use super::*;

    fn at(info: &ImageInfo, byte: u64) -> Place {
        describe_range(info, byte..byte + 1)[0].place
    }

    #[test]
    fn fat_volumes_are_exact() {
        let spec = FatSpec { width: FatWidth::Fat32, size: 2 << 20, ..FatSpec::default() };
        let mut image = vec![0; 4 << 20];
        let base = 1 << 20;
        sample::put(&mut image, base, &sample::fat(&spec));
        sample::mbr(&mut image, &[(0, 0x0C, 2048, 4096)]);
        let info = inspect(&Bytes(&image), "x").unwrap();
        let geometry = info.table.as_ref().unwrap().partitions[0].fs.as_ref().unwrap();
        let geometry = geometry.fat.as_ref().unwrap();
        let spot = Spot { fs: FsKind::Fat32, partition: Some(1) };
        let base = base as u64;
        for (byte, want) in [
            (0, Place::PartitionTable),
            (512, Place::Unpartitioned),
            (base, Place::Superblock(spot)),
            (base + 511, Place::Superblock(spot)),
            (base + 512, Place::FsInfo(spot)),
            (base + 1024, Place::Data { partition: Some(1) }),
            (base + 6 * 512, Place::BackupSuperblock(spot)),
            (base + geometry.fat_start, Place::FatTable(spot)),
            (base + geometry.fat_start + geometry.fat_size - 1, Place::FatTable(spot)),
            (base + geometry.data_start, Place::RootDirectory(spot)),
            (base + geometry.data_start + 512, Place::Data { partition: Some(1) }),
            (3 << 20, Place::Unpartitioned),
            (4 << 20, Place::Outside),
        ] {
            assert_eq!(at(&info, byte), want, "byte {byte}");
        }
    }

    #[test]
    fn ext_superblocks_are_exact() {
        let image = sample::ext(30 * 8192 + 1, 0, 0x2, 0x1);
        let info = inspect(&Bytes(&image), "x").unwrap();
        let spot = Spot { fs: FsKind::Ext2, partition: None };
        assert_eq!(at(&info, 1023), Place::Data { partition: None });
        assert_eq!(at(&info, 1024), Place::Superblock(spot));
        assert_eq!(at(&info, 2047), Place::Superblock(spot));
        assert_eq!(at(&info, 2048), Place::Metadata(spot));
        assert_eq!(at(&info, 20 * 1024), Place::Metadata(spot), "inode table");
        assert!(at(&info, 1024).changes_on_mount());
        assert!(!Place::BackupSuperblock(spot).changes_on_mount());
    }

    #[test]
    fn a_range_is_covered_without_gaps() {
        let mut image = sample::iso(&[]);
        sample::mbr(&mut image, &[(0x80, 0, 0, 256), (0, 0xEF, 100, 20)]);
        let info = inspect(&Bytes(&image), "x").unwrap();
        let size = image.len() as u64;
        let found = describe_range(&info, 0..size + 10);
        assert_eq!((found[0].range.start, found.last().unwrap().range.end), (0, size + 10));
        assert!(found.array_windows().all(|[a, b]| a.range.end == b.range.start));
        assert_eq!(at(&info, 110 * 512), Place::Data { partition: Some(2) }, "innermost");
        assert_eq!(at(&info, 200 * 512), Place::Data { partition: Some(1) });
        assert_eq!(describe_range(&info, 5..5), []);
    }
}
