//! The partition table of a stick as bytes, GPT or MBR: one partition, and for NTFS a small one
//! behind it, from which firmware boots.
//!
//! Owns: what is in the table, and an MBR whose code tells a computer that boots the old way what
//! is wrong. Must not know what is in the partition, nor the bytes of a GPT (`image::gpt`).
//! The partition is *basic data*: Windows gives an EFI system partition no letter, and Setup would
//! not find its own files. Firmware boots it all the same.

use crate::image::gpt::{self, Gpt, version_4};

const MIB: u64 = 1 << 20;
/// Where the partition begins.
pub const START: u64 = MIB;
/// Bytes of the entries of a GPT.
const ARRAY: u64 = 128 * 128;

/// EBD0A0A2-B9E5-4433-87C0-68B6B72699C7 as it is stored.
const BASIC_DATA: [u8; 16] = [
    0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44, 0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7,
];
const NAME: &str = "Windows install";
const BOOT_NAME: &str = "UEFI:NTFS";
/// Read-only, and no letter: Windows leaves the partition alone. As Rufus has it (`src/drive.c`).
const BOOT_ATTRIBUTES: u64 = 1 << 60 | 1 << 63;

/// Prints the text behind it through int 10h, then waits for ever. It runs at 0000:7C00.
const STUB: [u8; 25] = [
    0xFA, // cli
    0x31, 0xC0, // xor ax, ax
    0x8E, 0xD8, // mov ds, ax
    0xFC, // cld
    0xBE, 0x19, 0x7C, // mov si, 7C19h: the text
    0xAC, // lodsb
    0x84, 0xC0, // test al, al
    0x74, 0x08, // jz: to the hlt
    0xB4, 0x0E, // mov ah, 0Eh
    0x31, 0xDB, // xor bx, bx
    0xCD, 0x10, // int 10h
    0xEB, 0xF3, // jmp: to the lodsb
    0xF4, // hlt
    0xEB, 0xFD, // jmp: to the hlt
];
const MESSAGE: &str = "\r\nThis stick installs Windows on computers with UEFI.\r\n\
     Switch legacy BIOS boot (CSM) off, or choose the stick's UEFI entry.\r\n";

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GUID partition table.
    Gpt,
    /// Master boot record; up to 2^32 sectors.
    Mbr,
}

/// A table's bytes, by where they go, and the partition that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In ascending order.
    pub structures: Vec<(u64, Vec<u8>)>,
    /// First byte of the partition.
    pub start: u64,
    /// Its length, whole sectors.
    pub len: u64,
    /// First byte of the partition to boot from, where there is one.
    pub boot: Option<u64>,
}

/// A partition of a table, in sectors.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: u64,
    count: u64,
    /// Its type in an MBR.
    kind: u8,
    name: &'static str,
    attributes: u64,
}

/// What tables are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Bytes.
    pub size: u64,
    /// Logical sector: 512 or 4096.
    pub sector: u32,
}

/// Plans a table for FAT32; `None` where the device is too small or its sectors are no usual ones.
/// `seed` makes identifiers.
pub fn plan(kind: Kind, device: Device, seed: [u8; 16]) -> Option<Layout> {
    with_boot(kind, device, seed, 0)
}

/// The same for NTFS, with a partition of so many bytes to boot from; for 0 bytes, for FAT32.
pub fn with_boot(kind: Kind, device: Device, seed: [u8; 16], boot: u64) -> Option<Layout> {
    let sector = u64::from(device.sector);
    if !matches!(sector, 512 | 4096) {
        return None;
    }
    let sectors = device.size / sector;
    // A sector less than UINT32_MAX at the end: nothing is addressed that an MBR cannot.
    let end = match kind {
        Kind::Gpt => sectors.checked_sub(1 + ARRAY / sector)? * sector / MIB * MIB,
        Kind::Mbr => sectors.min(u64::from(u32::MAX)) * sector / MIB * MIB,
    };
    let boot_len = boot.checked_next_multiple_of(MIB)?;
    let boot_at = end.checked_sub(boot_len)?;
    let len = boot_at.checked_sub(START).filter(|len| *len > 0)?;
    let entry = |start: u64, len: u64, kind, name, attributes| Entry {
        first: start / sector,
        count: len / sector,
        kind,
        name,
        attributes,
    };
    // Types of an MBR: FAT32 with LBA, NTFS, EFI system partition.
    let mut entries = vec![entry(START, len, if boot == 0 { 0x0C } else { 0x07 }, NAME, 0)];
    if boot > 0 {
        entries.push(entry(boot_at, boot_len, 0xEF, BOOT_NAME, BOOT_ATTRIBUTES));
    }
    let structures = match kind {
        Kind::Mbr => {
            let signature = [seed[0], seed[1], seed[2], seed[3] | 1];
            vec![(0, mbr(&entries, sector, signature))]
        }
        Kind::Gpt => gpt(sectors, device.sector, &entries, seed)?,
    };
    Some(Layout { structures, start: START, len, boot: (boot > 0).then_some(boot_at) })
}

/// A sector with an MBR: code, a signature, the first partition marked active.
fn mbr(entries: &[Entry], sector: u64, signature: [u8; 4]) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(sector).unwrap_or(512)];
    out[..STUB.len()].copy_from_slice(&STUB);
    out[STUB.len()..STUB.len() + MESSAGE.len()].copy_from_slice(MESSAGE.as_bytes());
    out[440..444].copy_from_slice(&signature);
    out[446] = 0x80;
    // Cylinders cannot address this; the usual stand-ins.
    let nowhere = [0xFE, 0xFF, 0xFF];
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
    for (slot, entry) in out[446..510].as_chunks_mut::<16>().0.iter_mut().zip(entries) {
        slot[1..4].copy_from_slice(&nowhere);
        slot[4] = entry.kind;
        slot[5..8].copy_from_slice(&nowhere);
        slot[8..12].copy_from_slice(&number(entry.first));
        slot[12..16].copy_from_slice(&number(entry.count));
    }
    out[510..512].copy_from_slice(&[0x55, 0xAA]);
    out
}

/// An identifier out of a seed; `salt` tells several apart.
fn guid(mut seed: [u8; 16], salt: u8) -> [u8; 16] {
    seed[15] ^= salt;
    version_4(seed)
}

/// Head and tail of the medium.
fn gpt(
    sectors: u64,
    sector: u32,
    entries: &[Entry],
    seed: [u8; 16],
) -> Option<Vec<(u64, Vec<u8>)>> {
    let entry = |(salt, entry): (u8, &Entry)| gpt::Entry {
        kind: BASIC_DATA,
        id: guid(seed, salt),
        first: entry.first,
        last: entry.first + entry.count - 1,
        attributes: entry.attributes,
        name: gpt::name(entry.name),
    };
    let entries: Vec<gpt::Entry> = (1..).zip(entries).map(entry).collect();
    let table = Gpt::new(sectors, sector, guid(seed, 0), &entries)?;
    let joined = |parts: [gpt::At; 2]| parts.map(|(_, bytes)| bytes).concat();
    let head = [gpt::protective(sectors, sector), joined(table.own())].concat();
    let tail = table.header.other_lba - table.array_sectors();
    Some(vec![(0, head), (tail * u64::from(sector), joined(table.other(tail)))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Bytes, Health, PartitionType, Scheme, inspect};

    fn image(kind: Kind, device: Device) -> (Layout, Vec<u8>) {
        let layout = plan(kind, device, [0xA5; 16]).unwrap();
        let mut image = vec![0; usize::try_from(device.size).unwrap()];
        for (at, bytes) in &layout.structures {
            let at = usize::try_from(*at).unwrap();
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
        (layout, image)
    }

    #[test]
    fn our_own_reader_takes_them() {
        for sector in [512, 4096] {
            for kind in [Kind::Gpt, Kind::Mbr] {
                let device = Device { size: 8 << 20, sector };
                let (layout, image) = image(kind, device);
                let info = inspect(&Bytes(&image), "stick").unwrap();
                let Some(table) = info.table else { panic!("{kind:?} {sector}: no table") };
                let [partition] = table.partitions.as_slice() else { panic!("{table:?}") };
                match kind {
                    Kind::Gpt => {
                        assert_eq!((table.scheme, table.health), (Scheme::Gpt, Health::Sound));
                        assert_eq!(table.sector_size, sector);
                        assert_eq!(partition.kind, PartitionType::Gpt(BASIC_DATA));
                        assert_eq!(partition.name.as_deref(), Some(NAME));
                    }
                    Kind::Mbr => {
                        assert_eq!(partition.kind, PartitionType::Mbr(0x0C));
                        assert!(partition.active);
                    }
                }
                if kind == Kind::Gpt || sector == 512 {
                    let range = layout.start..layout.start + layout.len;
                    assert_eq!(partition.range(), range, "{kind:?} {sector}");
                }
                let want = if kind == Kind::Gpt { 6 << 20 } else { 7 << 20 };
                assert_eq!((layout.start, layout.len), (MIB, want));
            }
        }
    }

    #[test]
    fn what_boots_ntfs_is_at_the_end_behind_it() {
        for (kind, end) in [(Kind::Gpt, 7 << 20), (Kind::Mbr, 8 << 20)] {
            let device = Device { size: 8 << 20, sector: 512 };
            let layout = with_boot(kind, device, [0xA5; 16], MIB + 1).unwrap();
            assert_eq!((layout.start, layout.boot), (MIB, Some(end - 2 * MIB)));
            assert_eq!(layout.start + layout.len, end - 2 * MIB);
            let mut image = vec![0; 8 << 20];
            for (at, bytes) in &layout.structures {
                let at = usize::try_from(*at).unwrap();
                image[at..at + bytes.len()].copy_from_slice(bytes);
            }
            let table = inspect(&Bytes(&image), "stick").unwrap().table.unwrap();
            let ranges: Vec<_> =
                table.partitions.iter().map(crate::image::Partition::range).collect();
            assert_eq!(ranges, [MIB..end - 2 * MIB, end - 2 * MIB..end], "{kind:?}");
            let kinds: Vec<_> = table.partitions.iter().map(|partition| partition.kind).collect();
            let wanted = match kind {
                Kind::Gpt => [PartitionType::Gpt(BASIC_DATA); 2],
                Kind::Mbr => [PartitionType::Mbr(0x07), PartitionType::Mbr(0xEF)],
            };
            assert_eq!(kinds, wanted);
        }
        let device = Device { size: 4 << 20, sector: 512 };
        assert_eq!(with_boot(Kind::Gpt, device, [0; 16], 2 * MIB), None);
        assert_eq!(with_boot(Kind::Gpt, device, [0; 16], u64::MAX), None);
    }

    #[test]
    fn the_stub_jumps_where_it_should() {
        let (_, image) = image(Kind::Mbr, Device { size: 8 << 20, sector: 512 });
        assert_eq!(usize::from(STUB[7]), STUB.len(), "the text's address");
        // jz over ah, bx, int and jmp; back to lodsb; hlt for ever.
        assert_eq!((12 + 2 + usize::from(STUB[13]), 22 - usize::from(256 - 0xF3_u16)), (22, 9));
        assert_eq!((STUB[22], STUB[9]), (0xF4, 0xAC));
        let end = STUB.len() + MESSAGE.len();
        assert_eq!(image[end], 0);
        assert!(end < 440 && MESSAGE.is_ascii());
    }

    #[test]
    fn what_is_too_small_has_no_table() {
        for (size, sector) in [(0, 512), (1 << 20, 512), (2 << 20, 4096), (1 << 30, 520)] {
            assert_eq!(plan(Kind::Gpt, Device { size, sector }, [0; 16]), None, "{size}");
        }
        assert!(plan(Kind::Mbr, Device { size: 2 << 20, sector: 512 }, [0; 16]).is_some());
        let large = plan(Kind::Mbr, Device { size: 4 << 40, sector: 512 }, [0; 16]).unwrap();
        assert!(large.start + large.len <= (1 << 32) * 512);
        assert!(plan(Kind::Gpt, Device { size: u64::MAX, sector: 512 }, [0; 16]).is_some());
    }
}
