//! Signatures on a medium: what `wipefs` would list.
//!
//! Owns: the places at both ends of a medium where something recognises it by, so that stale ones
//! can be reported and cleared: a stick that once held an ISO keeps CD001 at 32 KiB after being
//! formatted (exfatprogs#340). Must not write. Names are those of libblkid, whose probes are the
//! referee; unlike it every match is listed, also of what contradicts what.

use std::io;

use super::bytes::{has, le16, le32};
use super::fs::member::{MD_MAGIC, md_10_offset, md_090_offset, uberblocks, zfs_labels};
use super::fs::{self, FatGeometry, FsKind, iso, udf};
use super::read::{ReadAt, View};
use super::table::{gpt, mbr};

/// A magic number on a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature {
    /// First byte.
    pub offset: u64,
    /// Bytes to clear so that nothing recognises it any more.
    pub len: u64,
    /// Name as `wipefs` prints it.
    pub name: &'static str,
}

/// Magic numbers at fixed places that are long enough to stand for themselves.
const FIXED: &[(u64, &[u8], &str)] = &[
    (0, b"XFSB", "xfs"),
    (0, b"hsqs", "squashfs"),
    (0, b"sqsh", "squashfs"),
    (0, b"LUKS\xBA\xBE", "crypto_LUKS"),
    (0x1_0040, b"_BHRfS_M", "btrfs"),
    (0x400_0040, b"_BHRfS_M", "btrfs"),
    (0x40_0000_0040, b"_BHRfS_M", "btrfs"),
    (0x400, b"\x10\x20\xF5\xF2", "f2fs"),
    (0x1400, b"\x10\x20\xF5\xF2", "f2fs"),
    (0x400, b"\xE2\xE1\xF5\xE0", "erofs"),
    (3, b"NTFS    ", "ntfs"),
    (3, b"EXFAT   ", "exfat"),
    (3, b"-FVE-FS-", "BitLocker"),
    (3, b"ReFS\0\0\0\0", "ReFS"),
    (32, b"NXSB", "apfs"),
    (0x8000, b"JFS1", "jfs"),
    (0x1_0034, b"ReIsErFs", "reiserfs"),
    (0x1_0034, b"ReIsEr2Fs", "reiserfs"),
    (0x1_0034, b"ReIsEr3Fs", "reiserfs"),
    (16, b"Compressed ROMFS", "cramfs"),
    (0, b"-rom1fs-", "romfs"),
    (0xFF6, b"SWAPSPACE2", "swap"),
    (0xFF6, b"SWAP-SPACE", "swap"),
    (0x1FF6, b"SWAPSPACE2", "swap"),
    (0x3FF6, b"SWAPSPACE2", "swap"),
    (0x7FF6, b"SWAPSPACE2", "swap"),
    (0xFFF6, b"SWAPSPACE2", "swap"),
];

/// Second headers of LUKS2 may be at any of these (LUKS2 on-disk format, 2.1).
const LUKS2_SECOND: [u64; 9] =
    [0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];

/// Everything on a medium of `size` bytes that something would recognise, by offset.
///
/// `sector` is the logical block size of the medium; tables for both sector sizes are listed.
///
/// # Errors
/// When the medium cannot be read.
pub fn signatures(medium: &dyn ReadAt, size: u64, sector: u32) -> io::Result<Vec<Signature>> {
    let view = View::sized(medium, size);
    let head = view.some(0, fs::HEAD)?;
    let mut out = Vec::new();
    tables(&view, &head, size, sector, &mut out)?;
    for (offset, magic, name) in FIXED {
        if has(&view.some(*offset, magic.len())?, 0, magic) {
            out.push(Signature { offset: *offset, len: magic.len() as u64, name });
        }
    }
    for offset in LUKS2_SECOND {
        if has(&view.some(offset, 6)?, 0, b"SKUL\xBA\xBE") {
            out.push(Signature { offset, len: 6, name: "crypto_LUKS" });
        }
    }
    short_magics(&head, &mut out);
    discs(&view, &mut out)?;
    members(&view, &head, size, &mut out)?;
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

fn tables(
    view: &View<'_>,
    head: &[u8],
    size: u64,
    sector: u32,
    out: &mut Vec<Signature>,
) -> io::Result<()> {
    if has(head, 510, &[0x55, 0xAA]) {
        let mbr = mbr::parse(&head[..512]);
        let name = match mbr.filter(|mbr| !mbr.is_filesystem(head)) {
            Some(mbr) if mbr.is_protective() => "PMBR",
            None if FatGeometry::parse(head).is_some() => "vfat",
            // Also an MBR without entries, and the boot sector of exFAT or NTFS.
            Some(_) | None => "dos",
        };
        out.push(Signature { offset: 510, len: 2, name });
    }
    // Apple's map, which grub-mkrescue puts beside the others.
    let block = le16(head, 2).map_or(0, |block| usize::from(block.swap_bytes()));
    if has(head, 0, b"ER") && block >= 512 && has(head, block, b"PM") {
        out.push(Signature { offset: 0, len: 2, name: "mac" });
        out.push(Signature { offset: block as u64, len: 2, name: "mac" });
    }
    let mut sizes = gpt::SECTORS.to_vec();
    if !sizes.contains(&sector) && sector >= 512 {
        sizes.push(sector);
    }
    for unit in sizes.into_iter().map(u64::from) {
        let last = (size / unit).checked_sub(1).map(|lba| lba * unit);
        for offset in [Some(unit), last].into_iter().flatten() {
            if has(&view.some(offset, 8)?, 0, gpt::MAGIC) {
                out.push(Signature { offset, len: 8, name: "gpt" });
            }
        }
    }
    Ok(())
}

/// Magic numbers of two bytes, or that mean nothing alone.
fn short_magics(head: &[u8], out: &mut Vec<Signature>) {
    if FatGeometry::parse(head).is_some() {
        let texts: [(u64, &[u8]); 4] =
            [(0x52, b"FAT32   "), (0x36, b"FAT16   "), (0x36, b"FAT12   "), (0x36, b"FAT     ")];
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        for (offset, text) in texts.iter().filter(|(offset, text)| has(head, at(*offset), text)) {
            out.push(Signature { offset: *offset, len: text.len() as u64, name: "vfat" });
        }
        let jump = head.first().copied();
        if matches!(jump, Some(0xEB | 0xE9)) {
            out.push(Signature { offset: 0, len: 1, name: "vfat" });
        }
    }
    if has(head, 0x438, &[0x53, 0xEF]) && le32(head, 0x418).is_some_and(|shift| shift <= 6) {
        let name = ext_name(head);
        out.push(Signature { offset: 0x438, len: 2, name });
    }
    let plus = has(head, 0x400, b"H+") || has(head, 0x400, b"HX");
    if plus && matches!(le16(head, 0x402).map(u16::swap_bytes), Some(4 | 5)) {
        out.push(Signature { offset: 0x400, len: 2, name: "hfsplus" });
    }
    if has(head, 0x406, &[0x34, 0x34]) && le32(head, 0x400) == Some(2) {
        out.push(Signature { offset: 0x406, len: 2, name: "nilfs2" });
    }
}

fn ext_name(head: &[u8]) -> &'static str {
    match fs::ext_kind(head) {
        Some(FsKind::Ext2) => "ext2",
        Some(FsKind::Ext3) => "ext3",
        _ => "ext4",
    }
}

/// The recognition sequence of optical discs.
fn discs(view: &View<'_>, out: &mut Vec<Signature>) -> io::Result<()> {
    for index in 0..16 {
        let at = iso::DESCRIPTORS + index * 2048 + 1;
        if !has(&view.some(at, 5)?, 0, b"CD001") {
            break;
        }
        out.push(Signature { offset: at, len: 5, name: "iso9660" });
    }
    let sequence = udf::recognition(view, 0)?;
    if !sequence.is_empty() {
        // On a bridge disc the sequence starts with ISO 9660's descriptors.
        out.push(Signature { offset: iso::DESCRIPTORS + 1, len: 5, name: "udf" });
    }
    for (at, _) in sequence {
        out.push(Signature { offset: at + 1, len: 5, name: "udf" });
    }
    Ok(())
}

fn members(view: &View<'_>, head: &[u8], size: u64, out: &mut Vec<Signature>) -> io::Result<()> {
    for label in [0, 512, 1024, 1536_u64] {
        let at = usize::try_from(label).unwrap_or(0);
        if has(head, at, b"LABELONE") && has(head, at + 24, b"LVM2 001") {
            out.push(Signature { offset: label + 24, len: 8, name: "LVM2_member" });
        }
    }
    let raids = [Some(0), Some(4096), md_10_offset(size), md_090_offset(size)];
    for offset in raids.into_iter().flatten() {
        let raw = view.some(offset, 12)?;
        if has(&raw, 0, &MD_MAGIC) && matches!(le32(&raw, 4), Some(0 | 1)) {
            out.push(Signature { offset, len: 4, name: "linux_raid_member" });
        }
    }
    let firmware = [(1024, &b"Intel Raid ISM Cfg Sig. "[..], "isw_raid_member")];
    for (back, magic, name) in firmware {
        let Some(offset) = size.checked_sub(back) else {
            continue;
        };
        if has(&view.some(offset, magic.len())?, 0, magic) {
            out.push(Signature { offset, len: magic.len() as u64, name });
        }
    }
    if let Some(offset) = size.checked_sub(512) {
        let raw = view.some(offset, 4)?;
        if has(&raw, 0, &[0xDE, 0x11, 0xDE, 0x11]) || has(&raw, 0, &[0x11, 0xDE, 0x11, 0xDE]) {
            out.push(Signature { offset, len: 4, name: "ddf_raid_member" });
        }
    }
    for label in zfs_labels(size) {
        for offset in uberblocks(view, label)? {
            out.push(Signature { offset, len: 8, name: "zfs_member" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::read::Bytes;
    use super::super::sample::{self, FatSpec};
    use super::*;

    fn names(image: &[u8]) -> Vec<(u64, &'static str)> {
        let found = signatures(&Bytes(image), image.len() as u64, 512).unwrap();
        found.into_iter().map(|s| (s.offset, s.name)).collect()
    }

    #[test]
    fn both_ends_of_a_gpt() {
        for sector in [512, 4096] {
            let mut image = vec![0; 2 << 20];
            sample::gpt(&mut image, sector, &[([1; 16], 64, 100, "a")]);
            let last = (image.len() - sector) as u64;
            assert_eq!(names(&image), [(510, "PMBR"), (sector as u64, "gpt"), (last, "gpt")]);
        }
    }

    #[test]
    fn stale_disc_under_a_new_filesystem() {
        let mut image = vec![0; 1 << 20];
        sample::put(&mut image, 0, &sample::iso(&[]));
        let fat = sample::fat(&FatSpec::default());
        sample::put(&mut image, 0, &fat[..4096]);
        let found = names(&image);
        assert!(found.contains(&(32_769, "iso9660")) && found.contains(&(510, "vfat")));
    }

    #[test]
    fn marks_at_the_end_of_the_device() {
        let mut image = vec![0; 2 << 20];
        let md = md_10_offset(2 << 20).unwrap();
        let at = usize::try_from(md).unwrap();
        sample::put(&mut image, at, &MD_MAGIC);
        image[at + 4] = 1;
        let label = (2 << 20) - 256 * 1024;
        for i in 0..4 {
            sample::put(&mut image, label + 128 * 1024 + i * 1024, &[0x0C, 0xB1, 0xBA, 0]);
        }
        let found = names(&image);
        assert_eq!(found.iter().filter(|(_, name)| *name == "zfs_member").count(), 4);
        assert!(found.contains(&(md, "linux_raid_member")));
    }

    #[test]
    fn blank_and_short_media_have_none() {
        for len in [0, 1, 511, 512, 4096, 1 << 20] {
            assert_eq!(names(&vec![0; len]), [], "{len}");
        }
    }
}
