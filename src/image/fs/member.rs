//! Members of a storage stack: LUKS, LVM, Linux RAID, ZFS.
//!
//! Owns: recognising that a partition or a device belongs to something bigger. Linux RAID 0.90
//! and 1.0 and half of the ZFS labels are at the end of the device, which is why stale ones
//! survive a shorter image. Layouts: LUKS2 on-disk format 1.1, lvm2's `layout.h`, Linux'
//! `raid/md_p.h`, the ZFS on-disk specification (`vdev_impl.h`).

use std::io;

use super::super::bytes::{be16, has, le32, le64};
use super::super::printable::label;
use super::super::read::View;
use super::simple::{lvm_uuid, md_uuid};
use super::{Filesystem, FsKind, ZoneKind};

/// Magic of a Linux RAID superblock, as both versions write it on a little-endian machine.
pub(crate) const MD_MAGIC: [u8; 4] = [0xFC, 0x4E, 0x2B, 0xA9];
/// Size of one of the four ZFS labels.
pub(crate) const ZFS_LABEL: u64 = 256 * 1024;
const UBERBLOCKS: u64 = 128 * 1024;

/// Members whose mark is near the start.
pub(super) fn at_start(head: &[u8]) -> Option<Filesystem> {
    luks(head).or_else(|| lvm(head)).or_else(|| md1(head, 0)).or_else(|| md1(head, 4096))
}

fn luks(head: &[u8]) -> Option<Filesystem> {
    if !has(head, 0, b"LUKS\xBA\xBE") {
        return None;
    }
    let mut out = match be16(head, 6)? {
        1 => Filesystem::new(FsKind::Luks1),
        2 => Filesystem::new(FsKind::Luks2),
        _ => return None,
    };
    out.uuid = head.get(168..208).and_then(label);
    if out.kind == FsKind::Luks2 {
        out.label = head.get(24..72).and_then(label);
    }
    Some(out)
}

/// The label may be in any of the first four sectors.
fn lvm(head: &[u8]) -> Option<Filesystem> {
    let at = [0, 512, 1024, 1536]
        .into_iter()
        .find(|&at| has(head, at, b"LABELONE") && has(head, at + 24, b"LVM2 001"))?;
    let mut out = Filesystem::new(FsKind::Lvm2);
    let header = at + usize::try_from(le32(head, at + 20)?).ok()?.min(512);
    out.uuid = head.get(header..header + 32).and_then(lvm_uuid);
    Some(out)
}

/// A version 1 superblock at `at`, which must say itself that it belongs there.
fn md1(bytes: &[u8], at: usize) -> Option<Filesystem> {
    let raw = bytes.get(at..)?;
    let places = le64(raw, 144)?.checked_mul(512)?;
    let here = has(raw, 0, &MD_MAGIC) && le32(raw, 4)? == 1;
    if !here || (at > 0 && places != at as u64) {
        return None;
    }
    let mut out = Filesystem::new(FsKind::LinuxMd);
    out.uuid = md_uuid([&raw[16..20], &raw[20..24], &raw[24..28], &raw[28..32]]);
    out.label = raw.get(32..64).and_then(label);
    out.zone(ZoneKind::Superblock, at as u64, 4096);
    Some(out)
}

/// Where a version 1.0 superblock of a device of `size` bytes is: at least 8 KiB from the end,
/// aligned to 4 KiB (`super_1_load`).
pub(crate) fn md_10_offset(size: u64) -> Option<u64> {
    Some(((size / 512).checked_sub(16)? & !7) * 512)
}

/// Where a version 0.90 superblock is: the last 64 KiB block that is whole, less one.
pub(crate) fn md_090_offset(size: u64) -> Option<u64> {
    (size & !0xFFFF).checked_sub(0x1_0000)
}

/// Members whose mark is at the end of their `size` bytes.
pub(super) fn at_end(view: &View<'_>, start: u64, size: u64) -> io::Result<Option<Filesystem>> {
    if let Some(at) = md_10_offset(size) {
        let raw = view.some(start.saturating_add(at), 256)?;
        let stated = le64(&raw, 144).and_then(|sectors| sectors.checked_mul(512));
        if stated == Some(at)
            && let Some(mut found) = md1(&raw, 0)
        {
            found.zones.clear();
            found.zone(ZoneKind::Superblock, at, 4096);
            return Ok(Some(found));
        }
    }
    if let Some(at) = md_090_offset(size) {
        let raw = view.some(start.saturating_add(at), 64)?;
        if has(&raw, 0, &MD_MAGIC) && le32(&raw, 4) == Some(0) && le32(&raw, 8) == Some(90) {
            let mut out = Filesystem::new(FsKind::LinuxMd);
            out.uuid = md_090_uuid(&raw);
            out.zone(ZoneKind::Superblock, at, 4096);
            return Ok(Some(out));
        }
    }
    Ok(None)
}

/// Word 5 and words 13 to 15, little endian here, big endian in the text.
fn md_090_uuid(raw: &[u8]) -> Option<String> {
    let word = |at| le32(raw, at).map(u32::to_be_bytes);
    md_uuid([&word(20)?, &word(52)?, &word(56)?, &word(60)?])
}

/// Places of uberblocks in one label, the first four that have the magic number in either byte
/// order; fewer than four are no label (libblkid's rule).
pub(crate) fn uberblocks(view: &View<'_>, label_at: u64) -> io::Result<Vec<u64>> {
    let ring = view.some(label_at.saturating_add(UBERBLOCKS), 128 * 1024)?;
    let magic = [[0x0C, 0xB1, 0xBA, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0xBA, 0xB1, 0x0C]];
    let slots = ring.chunks_exact(1024).zip(0_u64..);
    let found: Vec<u64> = slots
        .filter(|(slot, _)| magic.iter().any(|magic| has(slot, 0, magic)))
        .map(|(_, index)| label_at + UBERBLOCKS + index * 1024)
        .collect();
    Ok(if found.len() < 4 { Vec::new() } else { found })
}

/// Starts of the four labels on a device of `size` bytes.
pub(crate) fn zfs_labels(size: u64) -> Vec<u64> {
    let end = size & !(ZFS_LABEL - 1);
    if end < 4 * ZFS_LABEL {
        return Vec::new();
    }
    vec![0, ZFS_LABEL, end - 2 * ZFS_LABEL, end - ZFS_LABEL]
}

pub(super) fn zfs(
    view: &View<'_>,
    start: u64,
    size: Option<u64>,
) -> io::Result<Option<Filesystem>> {
    if size.is_some_and(|size| size < 4 * ZFS_LABEL) {
        return Ok(None);
    }
    for label_at in [0, ZFS_LABEL] {
        if !uberblocks(view, start.saturating_add(label_at))?.is_empty() {
            return Ok(Some(Filesystem::new(FsKind::Zfs)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::*;

    fn md(version: u32, at: u64) -> Vec<u8> {
        let mut raw = vec![0_u8; 256];
        raw[..4].copy_from_slice(&MD_MAGIC);
        raw[4..8].copy_from_slice(&version.to_le_bytes());
        if version == 0 {
            raw[8] = 90;
        }
        raw[16..32].fill(7);
        raw[32..36].copy_from_slice(b"host");
        raw[144..152].copy_from_slice(&(at / 512).to_le_bytes());
        raw
    }

    #[test]
    fn raid_superblocks_of_all_four_versions() {
        let size = 1 << 20;
        for (version, at) in
            [(1, 0), (1, 4096), (1, md_10_offset(size).unwrap()), (0, md_090_offset(size).unwrap())]
        {
            let mut image = vec![0_u8; 1 << 20];
            let place = usize::try_from(at).unwrap();
            image[place..place + 256].copy_from_slice(&md(version, at));
            let bytes = Bytes(&image);
            let found = super::super::identify(&View::new(&bytes), 0, Some(size)).unwrap().unwrap();
            assert_eq!(found.kind, FsKind::LinuxMd, "version {version} at {at}");
            assert_eq!(found.zones[0].range.start, at);
        }
    }

    #[test]
    fn a_raid_superblock_that_was_copied_elsewhere_is_none() {
        let mut image = vec![0_u8; 1 << 20];
        image[4096..4352].copy_from_slice(&md(1, 8192));
        assert!(at_start(&image).is_none());
    }

    #[test]
    fn encrypted_volumes_and_physical_volumes() {
        let mut image = vec![0_u8; 4096];
        image[..8].copy_from_slice(b"LUKS\xBA\xBE\0\x02");
        image[24..28].copy_from_slice(b"vault"[..4].as_ref());
        assert_eq!(at_start(&image).unwrap().label.as_deref(), Some("vaul"));
        let mut image = vec![0_u8; 4096];
        image[512..520].copy_from_slice(b"LABELONE");
        image[536..544].copy_from_slice(b"LVM2 001");
        image[532] = 32;
        image[544..576].copy_from_slice(b"abcdefghijklmnopqrstuvwxyz012345");
        assert_eq!(
            at_start(&image).unwrap().uuid.as_deref(),
            Some("abcdef-ghij-klmn-opqr-stuv-wxyz-012345")
        );
    }

    #[test]
    fn zfs_needs_four_uberblocks() {
        let mut image = vec![0_u8; 2 << 20];
        for (n, want) in [(3, false), (4, true)] {
            for i in 0..n {
                let at = 128 * 1024 + i * 1024;
                image[at..at + 4].copy_from_slice(&[0x0C, 0xB1, 0xBA, 0]);
            }
            let bytes = Bytes(&image);
            let found = zfs(&View::new(&bytes), 0, Some(2 << 20)).unwrap();
            assert_eq!(found.is_some(), want);
        }
    }
}
