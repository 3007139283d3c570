//! Partition types in words.
//!
//! Owns: the two name tables. Sources: UEFI 2.10 table 5.7, the Discoverable Partitions
//! Specification, and the MBR types that `fdisk` lists and install media use.

use super::super::bytes::hex;

/// EFI system partition, C12A7328-F81F-11D2-BA4B-00A0C93EC93B in on-disk order.
pub(super) const ESP: [u8; 16] = [
    0x28, 0x73, 0x2A, 0xC1, 0x1F, 0xF8, 0xD2, 0x11, 0xBA, 0x4B, 0x00, 0xA0, 0xC9, 0x3E, 0xC9, 0x3B,
];

const GUIDS: &[(&str, &str)] = &[
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI system"),
    ("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "Microsoft basic data"),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Microsoft reserved"),
    ("de94bba4-06d1-4d40-a16a-bfd50179d6ac", "Windows recovery"),
    ("0fc63daf-8483-4772-8e79-3d69d8477de4", "Linux filesystem"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "Linux swap"),
    ("e6d6d379-f507-44c2-a23c-238f2a3df928", "Linux LVM"),
    ("a19d880f-05fc-4d3b-a006-743f0f84911e", "Linux RAID"),
    ("ca7d7ccb-63ed-4c53-861c-1742536059cc", "Linux LUKS"),
    ("bc13c2ff-59e6-4262-a352-b275fd6f7172", "Linux extended boot"),
    ("933ac7e1-2eb4-4f13-b844-0e14e2aef915", "Linux home"),
    ("44479540-f297-41b2-9af7-d131d5f0458a", "Linux root (x86)"),
    ("4f68bce3-e8cd-4db1-96e7-fbcaf984b709", "Linux root (x86-64)"),
    ("69dad710-2ce4-4e3c-b16c-21a1d49abed3", "Linux root (ARM)"),
    ("b921b045-1df0-41c3-af44-4c6f280d3fae", "Linux root (ARM64)"),
    ("72ec70a6-cf74-40e6-bd49-4bda08e8f224", "Linux root (RISC-V 64)"),
    ("48465300-0000-11aa-aa11-00306543ecac", "Apple HFS+"),
    ("7c3457ef-0000-11aa-aa11-00306543ecac", "Apple APFS"),
    ("fe3a2a5d-4f32-41a7-b725-accc3285a309", "ChromeOS kernel"),
    ("3cb8e202-3b7e-47dd-8a3c-7ff2a13cfcec", "ChromeOS root"),
    ("516e7cb6-6ecf-11d6-8ff8-00022d09712b", "FreeBSD UFS"),
    ("83bd6b9d-7f41-11dc-be0b-001560b84f0f", "FreeBSD boot"),
];

/// Text of a GUID in its mixed-endian on-disk order.
pub(crate) fn guid_text(raw: &[u8; 16]) -> String {
    let reversed = |range: std::ops::Range<usize>| {
        let mut part = raw[range].to_vec();
        part.reverse();
        hex(&part)
    };
    format!(
        "{}-{}-{}-{}-{}",
        reversed(0..4),
        reversed(4..6),
        reversed(6..8),
        hex(&raw[8..10]),
        hex(&raw[10..16])
    )
}

pub(super) fn guid_name(raw: &[u8; 16]) -> String {
    let text = guid_text(raw);
    let known = GUIDS.iter().find(|(guid, _)| *guid == text);
    known.map_or(text, |(_, name)| (*name).to_owned())
}

pub(super) fn mbr_name(byte: u8) -> String {
    let name = match byte {
        0x00 => "unnamed (isohybrid)",
        0x01 => "FAT12",
        0x04 | 0x06 | 0x0E => "FAT16",
        0x05 | 0x0F | 0x85 => "extended",
        0x07 => "NTFS or exFAT",
        0x0B | 0x0C => "FAT32",
        0x17 => "hidden NTFS (isohybrid)",
        0x27 => "Windows recovery",
        0x82 => "Linux swap",
        0x83 => "Linux",
        0x8E => "Linux LVM",
        0xA5 => "FreeBSD",
        0xA6 => "OpenBSD",
        0xAF => "Apple HFS+",
        0xCD => "ISO 9660 (isohybrid)",
        0xDA => "data",
        0xEE => "GPT protective",
        0xEF => "EFI system",
        0xFD => "Linux RAID",
        _ => return format!("type 0x{byte:02X}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(guid_name(&ESP), "EFI system");
        assert_eq!(guid_text(&ESP), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b");
        assert_eq!(mbr_name(0xEF), "EFI system");
        assert_eq!(mbr_name(0x42), "type 0x42");
        assert_eq!(guid_name(&[1; 16]), "01010101-0101-0101-0101-010101010101");
    }
}
