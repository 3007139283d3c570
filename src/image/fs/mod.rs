//! What a filesystem looks like from outside: kind, label, extent and the places that change.
//!
//! Owns: the vocabulary ([`FsKind`], [`Filesystem`], [`Zone`]) and the order in which the
//! recognisers are asked. One file per format that needs more than a magic number; the others
//! are in `simple.rs` (filesystems) and `member.rs` (RAID, LVM, LUKS, ZFS). Must not know about
//! partition tables. Layouts: MS FAT spec, kernel headers, each file names its own.

mod exfat;
mod ext;
mod ext_file;
mod ext_journal;
pub(crate) mod fat;
mod file;
pub(crate) mod iso;
pub(crate) mod member;
mod ntfs;
mod simple;
pub(crate) mod udf;
mod used;

use std::fmt;
use std::io;
use std::ops::Range;

pub use fat::{FatGeometry, FatWidth};
pub use file::{FileAt, Placed, file_at};
pub use used::used;

use super::read::View;

/// How far into a partition the recognisers look: btrfs and reiserfs end last, at 64 KiB + 4 KiB.
pub(crate) const HEAD: usize = 0x11000;

/// Zones of one filesystem; an ext3 of a terabyte has that many inode tables.
const ZONE_LIMIT: usize = 8192;

/// Kinds of filesystem and of members of a storage stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it all; Display gives the usual spelling")]
pub enum FsKind {
    Fat12,
    Fat16,
    Fat32,
    Exfat,
    Ntfs,
    Refs,
    Bitlocker,
    Ext2,
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
    F2fs,
    Bcachefs,
    Jfs,
    Reiserfs,
    Nilfs2,
    HfsPlus,
    Apfs,
    Squashfs,
    Erofs,
    Cramfs,
    Romfs,
    Iso9660,
    Udf,
    Swap,
    Luks1,
    Luks2,
    Lvm2,
    LinuxMd,
    Zfs,
}

impl FsKind {
    /// The usual spelling, as `mkfs` and `blkid` have it where they agree.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fat12 => "FAT12",
            Self::Fat16 => "FAT16",
            Self::Fat32 => "FAT32",
            Self::Exfat => "exFAT",
            Self::Ntfs => "NTFS",
            Self::Refs => "ReFS",
            Self::Bitlocker => "BitLocker",
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "XFS",
            Self::Btrfs => "btrfs",
            Self::F2fs => "F2FS",
            Self::Bcachefs => "bcachefs",
            Self::Jfs => "JFS",
            Self::Reiserfs => "reiserfs",
            Self::Nilfs2 => "nilfs2",
            Self::HfsPlus => "HFS+",
            Self::Apfs => "APFS",
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
            Self::Cramfs => "cramfs",
            Self::Romfs => "romfs",
            Self::Iso9660 => "ISO 9660",
            Self::Udf => "UDF",
            Self::Swap => "swap area",
            Self::Luks1 => "LUKS1 volume",
            Self::Luks2 => "LUKS2 volume",
            Self::Lvm2 => "LVM2 member",
            Self::LinuxMd => "Linux RAID member",
            Self::Zfs => "ZFS member",
        }
    }

    /// FAT of any width.
    #[must_use]
    pub fn is_fat(self) -> bool {
        matches!(self, Self::Fat12 | Self::Fat16 | Self::Fat32)
    }

    /// ext2, ext3 or ext4.
    #[must_use]
    pub fn is_ext(self) -> bool {
        matches!(self, Self::Ext2 | Self::Ext3 | Self::Ext4)
    }

    /// No filesystem of its own: swap, or a part of something bigger.
    #[must_use]
    pub fn is_member(self) -> bool {
        matches!(
            self,
            Self::Swap | Self::Luks1 | Self::Luks2 | Self::Lvm2 | Self::LinuxMd | Self::Zfs
        )
    }

    /// Whether an operating system that mounts it read-write writes to it at once. Read-only
    /// formats and containers (LUKS, LVM, RAID until assembled) are left alone.
    #[must_use]
    pub fn changes_on_mount(self) -> bool {
        !matches!(
            self,
            Self::Squashfs
                | Self::Erofs
                | Self::Cramfs
                | Self::Romfs
                | Self::Iso9660
                | Self::Luks1
                | Self::Luks2
                | Self::Lvm2
                | Self::Bitlocker
        )
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a part of a filesystem is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ZoneKind {
    /// Superblock or boot sector: state, mount time, dirty flag.
    Superblock,
    /// A copy of it that only repair tools write.
    BackupSuperblock,
    /// FAT32 free-space summary.
    FsInfo,
    /// The file allocation table, with the dirty bits in its second entry.
    FatTable,
    /// Root directory of FAT and exFAT.
    RootDirectory,
    /// Journal or log.
    Journal,
    /// Group descriptors, inode tables, bitmaps, first MFT records.
    Metadata,
}

/// A part of a filesystem with a known purpose; bytes from the filesystem's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Where, in bytes from the start of the filesystem.
    pub range: Range<u64>,
    /// What for.
    pub kind: ZoneKind,
}

/// A recognised filesystem. Labels are already safe to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystem {
    /// Which.
    pub kind: FsKind,
    /// Volume label, escaped.
    pub label: Option<String>,
    /// Identifier as `blkid` prints it.
    pub uuid: Option<String>,
    /// Size according to its own superblock.
    pub size_bytes: Option<u64>,
    /// Smallest unit it can be read in: FAT and exFAT sector, ext block, 2048 for ISO 9660.
    pub block: Option<u32>,
    /// Places with a purpose, ascending where the format is.
    pub zones: Vec<Zone>,
    /// Layout of a FAT volume.
    pub fat: Option<FatGeometry>,
}

impl Filesystem {
    pub(crate) fn new(kind: FsKind) -> Self {
        Self {
            kind,
            label: None,
            uuid: None,
            size_bytes: None,
            block: None,
            zones: Vec::new(),
            fat: None,
        }
    }

    /// Adds a zone unless it is empty, past the end of the number range, or one too many.
    pub(crate) fn zone(&mut self, kind: ZoneKind, start: u64, len: u64) {
        let room = self.zones.len() < ZONE_LIMIT;
        if let Some(end) = start.checked_add(len).filter(|_| len > 0 && room) {
            self.zones.push(Zone { range: start..end, kind });
        }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match &self.label {
            Some(label) => write!(f, " '{label}'"),
            None => Ok(()),
        }
    }
}

/// Looks for a filesystem that starts at `start` and may use `size` bytes.
///
/// Members of a stack come first (a RAID 1 member shows the filesystem inside it at its start),
/// then formats with long magic numbers, then FAT, whose marks are weak.
pub(crate) fn identify(
    view: &View<'_>,
    start: u64,
    size: Option<u64>,
) -> io::Result<Option<Filesystem>> {
    let room = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
    let head = view.some(start, HEAD.min(room))?;
    if let Some(found) = member::at_start(&head) {
        return Ok(Some(found));
    }
    if let Some(size) = size
        && let Some(found) = member::at_end(view, start, size)?
    {
        return Ok(Some(found));
    }
    if let Some(found) = simple::identify(&head) {
        return Ok(Some(found));
    }
    if let Some(found) = ntfs::identify(view, start, &head)? {
        return Ok(Some(found));
    }
    if let Some(found) = exfat::identify(view, start, &head)? {
        return Ok(Some(found));
    }
    if let Some(found) = ext::identify(view, start, &head)? {
        return Ok(Some(found));
    }
    if let Some(found) = fat::identify(view, start, &head)? {
        return Ok(Some(found));
    }
    if let Some(found) = udf::identify(view, start, &head)? {
        return Ok(Some(found));
    }
    if let Some(found) = iso::identify(view, start)? {
        return Ok(Some(found));
    }
    member::zfs(view, start, size)
}

/// Which ext it is by its superblock alone.
pub(crate) fn ext_kind(head: &[u8]) -> Option<FsKind> {
    ext::kind(head)
}
