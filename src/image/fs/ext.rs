//! ext2, ext3 and ext4: superblock and groups, and where mounting leaves its marks.
//!
//! Owns: the zones of an ext filesystem: superblock at byte 1024 for 1024 bytes, its copies,
//! group descriptors, inode tables, journal. Layout: Linux fs/ext4/ext4.h and
//! Documentation/filesystems/ext4 (`super.rst`, `group_descr.rst`); kinds told apart as by libblkid.
//! A mount writes the superblock (state, mount count, times), replays the journal, and the
//! first readers update access times in the inode tables.

use std::io;

use super::super::bytes::{has, le16, le32, uuid};
use super::super::printable::label;
use super::super::read::View;
use super::ext_journal::{self, Walk};
use super::{Filesystem, FsKind, ZoneKind};

const SUPERBLOCK: u64 = 1024;
/// Groups looked at for copies and inode tables: 512 GiB with 4 KiB blocks.
const GROUP_LIMIT: u64 = 4096;

pub(super) struct Superblock<'a> {
    pub(super) raw: &'a [u8],
    pub(super) block: u64,
    pub(super) first: u64,
    pub(super) per_group: u64,
    pub(super) blocks: u64,
    compat: u32,
    pub(super) incompat: u32,
    pub(super) ro_compat: u32,
}

impl<'a> Superblock<'a> {
    pub(super) fn parse(raw: &'a [u8]) -> Option<Self> {
        if !has(raw, 0x38, &[0x53, 0xEF]) {
            return None;
        }
        let shift = le32(raw, 0x18).filter(|&shift| shift <= 6)?;
        let dynamic = le32(raw, 0x4C)? >= 1;
        let feature = |at| le32(raw, at).map(|bits| if dynamic { bits } else { 0 });
        let incompat = feature(0x60)?;
        let high = if incompat & 0x80 != 0 { le32(raw, 0x150)? } else { 0 };
        let out = Self {
            raw,
            block: 1024 << shift,
            first: u64::from(le32(raw, 0x14)?),
            per_group: u64::from(le32(raw, 0x20)?),
            blocks: u64::from(high) << 32 | u64::from(le32(raw, 0x04)?),
            compat: feature(0x5C)?,
            incompat,
            ro_compat: feature(0x64)?,
        };
        let journal_device = incompat & 0x8 != 0;
        // A bitmap of one block is the most a group can have.
        let sane = (1..=out.block * 8).contains(&out.per_group)
            && out.blocks > out.first
            && out.first <= 1;
        (sane && !journal_device).then_some(out)
    }

    fn kind(&self) -> FsKind {
        let only_ext3 = self.incompat & !0x17 == 0 && self.ro_compat & !0x7 == 0;
        match (only_ext3, self.compat & 0x4 != 0) {
            (false, _) => FsKind::Ext4,
            (true, true) => FsKind::Ext3,
            (true, false) => FsKind::Ext2,
        }
    }

    pub(super) fn groups(&self) -> u64 {
        (self.blocks - self.first).div_ceil(self.per_group)
    }

    /// Whether group `group` starts with a copy of the superblock.
    pub(super) fn has_copy(&self, group: u64) -> bool {
        if self.compat & 0x200 != 0 {
            let chosen = [le32(self.raw, 0x24C), le32(self.raw, 0x250)];
            return chosen.iter().flatten().any(|&g| u64::from(g) == group);
        }
        let power_of = |base: u64| {
            let mut rest = group;
            while rest.is_multiple_of(base) {
                rest /= base;
            }
            rest == 1
        };
        self.ro_compat & 0x1 == 0 || power_of(3) || power_of(5) || power_of(7)
    }

    pub(super) fn descriptor_size(&self) -> u64 {
        let wide = self.incompat & 0x80 != 0;
        let stated = u64::from(le16(self.raw, 0xFE).unwrap_or(0));
        if wide { stated.clamp(64, 1024) } else { 32 }
    }

    pub(super) fn inode_size(&self) -> u64 {
        match le32(self.raw, 0x4C) {
            Some(1..) => u64::from(le16(self.raw, 0x58).unwrap_or(128)),
            _ => 128,
        }
    }

    pub(super) fn inodes_per_group(&self) -> u64 {
        u64::from(le32(self.raw, 0x28).unwrap_or(0))
    }

    fn inode_table_len(&self) -> u64 {
        self.inodes_per_group() * self.inode_size()
    }
}

/// Inode tables named by the group descriptors, neighbours merged.
fn inode_tables(sb: &Superblock<'_>, descriptors: &[u8], size: u64) -> Vec<(u64, u64)> {
    let step = usize::try_from(size).unwrap_or(32);
    let len = sb.inode_table_len();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for descriptor in descriptors.chunks_exact(step) {
        let high = if step >= 64 { le32(descriptor, 0x28).unwrap_or(0) } else { 0 };
        let low = le32(descriptor, 0x08).unwrap_or(0);
        let Some(start) = (u64::from(high) << 32 | u64::from(low)).checked_mul(sb.block) else {
            continue;
        };
        if start == 0 {
            continue;
        }
        match out.last_mut() {
            Some(last) if last.0.checked_add(last.1) == Some(start) => {
                last.1 = last.1.saturating_add(len);
            }
            _ => out.push((start, len)),
        }
    }
    out
}

/// Which of the three, by the superblock in the first 2 KiB.
pub(super) fn kind(head: &[u8]) -> Option<FsKind> {
    Superblock::parse(head.get(1024..)?).map(|sb| sb.kind())
}

pub(super) fn identify(view: &View<'_>, start: u64, head: &[u8]) -> io::Result<Option<Filesystem>> {
    let raw = head.get(1024..).unwrap_or_default();
    let Some(sb) = Superblock::parse(raw) else {
        return Ok(None);
    };
    let mut out = Filesystem::new(sb.kind());
    out.label = raw.get(0x78..0x88).and_then(label);
    out.uuid = uuid(raw, 0x68);
    out.size_bytes = sb.blocks.checked_mul(sb.block);
    out.block = u32::try_from(sb.block).ok();
    out.zone(ZoneKind::Superblock, SUPERBLOCK, 1024);
    let groups = sb.groups().min(GROUP_LIMIT);
    for group in (1..groups).filter(|&group| sb.has_copy(group)) {
        let at = (sb.first + group * sb.per_group).saturating_mul(sb.block);
        out.zone(ZoneKind::BackupSuperblock, at, 1024);
    }
    // With meta_bg the descriptors are spread over the groups: left to `Data`.
    if sb.incompat & 0x10 == 0 {
        let size = sb.descriptor_size();
        let at = (sb.first + 1) * sb.block;
        let whole = sb.groups().saturating_mul(size).next_multiple_of(sb.block);
        out.zone(ZoneKind::Metadata, at, whole);
        let wanted = usize::try_from(groups * size).unwrap_or(0);
        let descriptors = view.some(start.saturating_add(at), wanted)?;
        for (at, len) in inode_tables(&sb, &descriptors, size) {
            out.zone(ZoneKind::Metadata, at, len);
        }
    }
    if sb.compat & 0x4 != 0 {
        let walk = Walk { view, start, block: sb.block };
        for (first, count) in ext_journal::extents(&walk, raw)? {
            let (at, len) = (first.saturating_mul(sb.block), count.saturating_mul(sb.block));
            out.zone(ZoneKind::Journal, at, len);
        }
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample;
    use super::*;

    #[test]
    fn superblocks_and_kinds() {
        for (compat, incompat, ro, want) in [
            (0, 0x2, 0x1, FsKind::Ext2),
            (0x4, 0x6, 0x3, FsKind::Ext3),
            (0x4, 0x2C2, 0x3, FsKind::Ext4),
        ] {
            let image = sample::ext(64, compat, incompat, ro);
            let bytes = Bytes(&image);
            let fs = identify(&View::new(&bytes), 0, &image).unwrap().unwrap();
            assert_eq!(fs.kind, want);
            assert_eq!(fs.label.as_deref(), Some("extlabel"));
            assert_eq!(fs.block, Some(1024));
            assert_eq!(fs.zones[0].range, 1024..2048);
        }
    }

    #[test]
    fn copies_lie_in_groups_of_powers_of_3_5_and_7() {
        let image = sample::ext(30 * 8192 + 1, 0, 0x2, 0x1);
        let sb = Superblock::parse(&image[1024..]).unwrap();
        let copies: Vec<u64> = (1..sb.groups()).filter(|&g| sb.has_copy(g)).collect();
        assert_eq!(copies, [1, 3, 5, 7, 9, 25, 27]);
        let bytes = Bytes(&image);
        let fs = identify(&View::new(&bytes), 0, &image).unwrap().unwrap();
        let first = fs.zones.iter().find(|z| z.kind == ZoneKind::BackupSuperblock).unwrap();
        assert_eq!(first.range.start, 8193 * 1024, "first_data_block is 1 with 1 KiB blocks");
    }

    #[test]
    fn absurd_fields_are_refused() {
        for (at, value) in [(0x18, 60_u32), (0x20, 0), (0x20, u32::MAX), (0x04, 0), (0x60, 8)] {
            let mut image = sample::ext(64, 0, 2, 1);
            image[1024 + at..1024 + at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(Superblock::parse(&image[1024..]).is_none(), "field {at:#x}");
        }
    }
}
