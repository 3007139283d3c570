//! Filesystems that are recognised by one magic number and a handful of fields.
//!
//! Owns: XFS, btrfs, F2FS, bcachefs, squashfs, erofs, swap and rarer ones. Layouts: the kernel's
//! headers (`xfs_format.h`, `btrfs_tree.h`, `f2fs_fs.h`, `squashfs_fs.h`, `erofs_fs.h`, `swap.h`)
//! and libblkid's probes for the rest. A new kind is one function and one row of `PROBES`.

use super::super::bytes::{be16, be32, be64, has, le16, le32, le64, u8_at, uuid};
use super::super::printable::{label, label16};
use super::{Filesystem, FsKind, ZoneKind};

/// Allocation groups of XFS described: `mkfs.xfs` makes 4 per terabyte.
const GROUP_LIMIT: u64 = 1024;

type Probe = fn(&[u8]) -> Option<Filesystem>;

const PROBES: &[Probe] = &[
    xfs, btrfs, f2fs, bcachefs, squashfs, erofs, swap, bitlocker, refs, apfs, hfsplus, jfs,
    reiserfs, nilfs2, cramfs, romfs,
];

pub(super) fn identify(head: &[u8]) -> Option<Filesystem> {
    PROBES.iter().find_map(|probe| probe(head))
}

fn text(head: &[u8], at: usize, len: usize) -> Option<String> {
    head.get(at..at + len).and_then(label)
}

fn xfs(head: &[u8]) -> Option<Filesystem> {
    if !has(head, 0, b"XFSB") {
        return None;
    }
    let block =
        u64::from(be32(head, 4).filter(|b| b.is_power_of_two() && (512..=65_536).contains(b))?);
    let mut out = Filesystem::new(FsKind::Xfs);
    out.size_bytes = be64(head, 8)?.checked_mul(block);
    out.uuid = uuid(head, 32);
    out.label = text(head, 108, 12);
    // A mount reads the superblock and writes it in sectors.
    let sector = be16(head, 102)?;
    out.block = Some(u32::from(sector));
    out.zone(ZoneKind::Superblock, 0, u64::from(sector));
    let (group_len, shift) = (u64::from(be32(head, 84)?), u32::from(u8_at(head, 124)?));
    // Each group starts with four sectors: superblock, free space, inodes, free list.
    let group_bytes = group_len.checked_mul(block)?;
    let groups = u64::from(be32(head, 88)?).min(GROUP_LIMIT);
    for start in (0..groups).filter_map(|group| group.checked_mul(group_bytes)) {
        let sector = u64::from(sector);
        if start > 0 {
            out.zone(ZoneKind::BackupSuperblock, start, sector);
        }
        out.zone(ZoneKind::Metadata, start.saturating_add(sector), 3 * sector);
    }
    // An address is group << log2 + block within the group.
    let place = |address: u64| {
        let group = address.checked_shr(shift)?;
        let within = address - group.checked_shl(shift)?;
        group.checked_mul(group_len)?.checked_add(within)?.checked_mul(block)
    };
    // A log at zero is on another device.
    let log = be64(head, 48)?;
    if let Some(at) = place(log).filter(|_| log > 0) {
        out.zone(ZoneKind::Journal, at, u64::from(be32(head, 96)?) * block);
    }
    // The chunk of 64 inodes with the root directory, whose access time the first look changes.
    let root = be64(head, 56)?.checked_shr(u32::from(u8_at(head, 123)?))?;
    if let Some(at) = place(root).filter(|_| root > 0) {
        out.zone(ZoneKind::Metadata, at, 64 * u64::from(be16(head, 104)?));
    }
    Some(out)
}

fn btrfs(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(0x1_0000..).filter(|raw| has(raw, 0x40, b"_BHRfS_M"))?;
    let mut out = Filesystem::new(FsKind::Btrfs);
    out.uuid = uuid(raw, 0x20);
    out.label = text(raw, 0x12B, 256);
    out.size_bytes = le64(raw, 0xD1);
    out.block = le32(raw, 0x90);
    // Every commit writes the superblock and its mirrors.
    for at in [0x1_0000, 64 << 20, 256 << 30] {
        if out.size_bytes.is_some_and(|size| at + 4096 <= size) {
            out.zone(ZoneKind::Superblock, at, 4096);
        }
    }
    Some(out)
}

fn f2fs(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(1024..).filter(|raw| has(raw, 0, &[0x10, 0x20, 0xF5, 0xF2]))?;
    let shift = le32(raw, 16).filter(|shift| (9..=16).contains(shift))?;
    let mut out = Filesystem::new(FsKind::F2fs);
    out.size_bytes = le64(raw, 36)?.checked_mul(1 << shift);
    out.block = Some(1 << shift);
    out.uuid = uuid(raw, 108);
    out.label = raw.get(124..124 + 1024).and_then(|field| label16(field, u16::from_le_bytes));
    out.zone(ZoneKind::Superblock, 0, 1 << shift);
    out.zone(ZoneKind::Superblock, 1 << shift, 1 << shift);
    // Two checkpoint packs, one segment each: every mount and sync writes one.
    let checkpoints = u64::from(le32(raw, 80)?) << shift;
    let segment = u64::from(1_u32.checked_shl(le32(raw, 20)?)?) << shift;
    out.zone(ZoneKind::Journal, checkpoints, segment.saturating_mul(2));
    Some(out)
}

fn bcachefs(head: &[u8]) -> Option<Filesystem> {
    const MAGIC: [u8; 16] = [
        0xC6, 0x85, 0x73, 0xF6, 0x66, 0xCE, 0x90, 0xA9, 0xD9, 0x6A, 0x60, 0xCF, 0x80, 0x3D, 0xF7,
        0xEF,
    ];
    let raw = head.get(4096..).filter(|raw| has(raw, 24, &MAGIC))?;
    let mut out = Filesystem::new(FsKind::Bcachefs);
    out.uuid = uuid(raw, 56);
    out.label = text(raw, 72, 32);
    out.zone(ZoneKind::Superblock, 4096, 4096);
    Some(out)
}

fn squashfs(head: &[u8]) -> Option<Filesystem> {
    if !has(head, 0, b"hsqs") || le16(head, 28)? != 4 {
        return None;
    }
    let mut out = Filesystem::new(FsKind::Squashfs);
    out.size_bytes = le64(head, 40);
    Some(out)
}

fn erofs(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(1024..).filter(|raw| has(raw, 0, &[0xE2, 0xE1, 0xF5, 0xE0]))?;
    let shift = u8_at(raw, 12).filter(|shift| (9..=16).contains(shift))?;
    let mut out = Filesystem::new(FsKind::Erofs);
    out.size_bytes = Some(u64::from(le32(raw, 36)?) << shift);
    out.uuid = uuid(raw, 48);
    out.label = text(raw, 64, 16);
    Some(out)
}

/// The signature ends the first page, whose size depends on who made it.
fn swap(head: &[u8]) -> Option<Filesystem> {
    let page = [4096, 8192, 16_384, 32_768, 65_536]
        .into_iter()
        .find(|page| has(head, page - 10, b"SWAPSPACE2") || has(head, page - 10, b"SWAP-SPACE"))?;
    let mut out = Filesystem::new(FsKind::Swap);
    if le32(head, 1024) == Some(1) {
        out.uuid = uuid(head, 1036);
        out.label = text(head, 1052, 16);
        out.size_bytes = Some((u64::from(le32(head, 1028)?) + 1) * page as u64);
    }
    out.zone(ZoneKind::Superblock, 0, page as u64);
    Some(out)
}

fn bitlocker(head: &[u8]) -> Option<Filesystem> {
    has(head, 3, b"-FVE-FS-").then(|| Filesystem::new(FsKind::Bitlocker))
}

fn refs(head: &[u8]) -> Option<Filesystem> {
    has(head, 3, b"ReFS\0\0\0\0FSRS").then(|| Filesystem::new(FsKind::Refs))
}

fn apfs(head: &[u8]) -> Option<Filesystem> {
    if !has(head, 32, b"NXSB") {
        return None;
    }
    let mut out = Filesystem::new(FsKind::Apfs);
    let block = le32(head, 36).filter(|b| b.is_power_of_two() && (4096..=65_536).contains(b))?;
    out.size_bytes = le64(head, 40)?.checked_mul(u64::from(block));
    out.uuid = uuid(head, 72);
    out.zone(ZoneKind::Superblock, 0, u64::from(block));
    Some(out)
}

fn hfsplus(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(1024..).filter(|raw| has(raw, 0, b"H+") || has(raw, 0, b"HX"))?;
    let block = be32(raw, 40).filter(|b| b.is_power_of_two() && (512..=1 << 20).contains(b))?;
    if !matches!(be16(raw, 2)?, 4 | 5) {
        return None;
    }
    let mut out = Filesystem::new(FsKind::HfsPlus);
    out.size_bytes = Some(u64::from(be32(raw, 44)?) * u64::from(block));
    out.zone(ZoneKind::Superblock, 1024, 512);
    Some(out)
}

fn jfs(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(0x8000..).filter(|raw| has(raw, 0, b"JFS1"))?;
    let mut out = Filesystem::new(FsKind::Jfs);
    out.uuid = uuid(raw, 136);
    out.label = text(raw, 152, 16);
    out.zone(ZoneKind::Superblock, 0x8000, 4096);
    Some(out)
}

fn reiserfs(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(0x1_0000..)?;
    let magic = raw.get(52..60)?;
    if ![&b"ReIsErFs"[..], b"ReIsEr2F", b"ReIsEr3F"].contains(&magic) {
        return None;
    }
    let mut out = Filesystem::new(FsKind::Reiserfs);
    out.size_bytes = Some(u64::from(le32(raw, 0)?) * u64::from(le16(raw, 44)?));
    out.uuid = uuid(raw, 84);
    out.label = text(raw, 100, 16);
    out.zone(ZoneKind::Superblock, 0x1_0000, 4096);
    Some(out)
}

fn nilfs2(head: &[u8]) -> Option<Filesystem> {
    let raw = head.get(1024..).filter(|raw| has(raw, 6, &[0x34, 0x34]))?;
    // The magic is two bytes: the revision and the size of the checked part must fit, too.
    if le32(raw, 0)? != 2 || !(248..=1024).contains(&le16(raw, 8)?) {
        return None;
    }
    let mut out = Filesystem::new(FsKind::Nilfs2);
    out.uuid = uuid(raw, 152);
    out.label = text(raw, 168, 80);
    out.zone(ZoneKind::Superblock, 1024, 1024);
    Some(out)
}

fn cramfs(head: &[u8]) -> Option<Filesystem> {
    if !has(head, 0, &[0x45, 0x3D, 0xCD, 0x28]) || !has(head, 16, b"Compressed ROMFS") {
        return None;
    }
    let mut out = Filesystem::new(FsKind::Cramfs);
    out.size_bytes = le32(head, 4).map(u64::from);
    out.label = text(head, 48, 16);
    Some(out)
}

fn romfs(head: &[u8]) -> Option<Filesystem> {
    if !has(head, 0, b"-rom1fs-") {
        return None;
    }
    let mut out = Filesystem::new(FsKind::Romfs);
    out.size_bytes = be32(head, 8).map(u64::from);
    out.label = text(head, 16, 16);
    Some(out)
}

/// Digits in the groups of an LVM identifier: 6-4-4-4-4-4-6.
pub(super) fn lvm_uuid(raw: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(raw)
        .ok()
        .filter(|text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_alphanumeric()))?;
    let cuts = [0, 6, 10, 14, 18, 22, 26, 32];
    Some(cuts.windows(2).map(|w| &text[w[0]..w[1]]).collect::<Vec<_>>().join("-"))
}

/// The identifier of a Linux RAID array: 8:8:8:8 in `mdadm`, RFC groups in `blkid`.
pub(super) fn md_uuid(words: [&[u8]; 4]) -> Option<String> {
    uuid(&words.concat(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
        let mut out = vec![0; len];
        for (at, bytes) in fields {
            out[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        out
    }

    #[test]
    fn magic_numbers_and_labels() {
        let id: Vec<u8> = (1..=16).collect();
        let rows: &[(FsKind, Option<&str>, Vec<u8>)] = &[
            (
                FsKind::Xfs,
                Some("xl"),
                put(4096, &[(0, b"XFSB"), (4, &[0, 0, 16, 0]), (102, &[2, 0]), (108, b"xl")]),
            ),
            (
                FsKind::Btrfs,
                Some("bl"),
                put(super::super::HEAD, &[(0x1_0040, b"_BHRfS_M"), (0x1_012B, b"bl")]),
            ),
            (
                FsKind::F2fs,
                Some("fl"),
                put(
                    8192,
                    &[
                        (1024, &[0x10, 0x20, 0xF5, 0xF2]),
                        (1040, &[12]),
                        (1044, &[9]),
                        (1148, b"f\0l\0"),
                    ],
                ),
            ),
            (FsKind::Squashfs, None, put(96, &[(0, b"hsqs"), (28, &[4])])),
            (
                FsKind::Swap,
                Some("sl"),
                put(4096, &[(4086, b"SWAPSPACE2"), (1024, &[1]), (1036, &id), (1052, b"sl")]),
            ),
        ];
        for (kind, label, bytes) in rows {
            let found = identify(bytes).unwrap();
            assert_eq!((found.kind, found.label.as_deref()), (*kind, *label));
            // Cut anywhere: recognised or not, but never a panic.
            let _cuts =
                (0..2048.min(bytes.len())).filter_map(|len| identify(&bytes[..len])).count();
        }
    }

    #[test]
    fn the_log_of_xfs_is_found_in_its_group() {
        // 4 KiB blocks, 100 blocks per group, 7 bits per group number: log at group 2, block 5.
        let log = (2_u64 << 7 | 5).to_be_bytes();
        let bytes = put(
            512,
            &[
                (0, b"XFSB"),
                (4, &[0, 0, 16, 0]),
                (48, &log),
                (84, &[0, 0, 0, 100]),
                (96, &[0, 0, 0, 10]),
                (102, &[2, 0]),
                (124, &[7]),
            ],
        );
        let zones = identify(&bytes).unwrap().zones;
        let log = zones.iter().find(|zone| zone.kind == ZoneKind::Journal).unwrap();
        assert_eq!(log.range, 205 * 4096..215 * 4096);
    }
}
