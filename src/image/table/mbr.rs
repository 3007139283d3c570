//! Master boot record and the chain of logical partitions.
//!
//! Owns: telling an MBR from a filesystem's boot sector, and guessing the sector size of its
//! units. Accepted as MBR: 55AA, every status byte 0x00 or 0x80, and an entry with a sector
//! count above zero. Type 0x00 counts when it is active: isohybrid images of Debian and
//! memtest86+ have such an entry from LBA 0. Specification: UEFI 2.10, 5.2.1.

use std::io;

use super::super::bytes::{has, hex, le32};
use super::super::fs::{self, FatGeometry, FsKind};
use super::super::read::View;
use super::types::mbr_name;
use super::{Health, Partition, PartitionType, Scheme, Table};

/// Logical partitions followed: the kernel stops at 256 minors.
const LOGICAL_LIMIT: u32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    slot: u32,
    active: bool,
    kind: u8,
    first: u32,
    sectors: u32,
}

/// A parsed sector with at least one entry in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mbr {
    entries: Vec<Entry>,
    signature: u32,
}

fn entries(sector: &[u8]) -> Option<Vec<Entry>> {
    if !has(sector, 510, &[0x55, 0xAA]) {
        return None;
    }
    let raw = sector.get(446..510)?.as_chunks::<16>().0;
    if raw.iter().any(|entry| !matches!(entry[0], 0 | 0x80)) {
        return None;
    }
    let entry = |(slot, raw): (u32, &[u8; 16])| {
        Some(Entry {
            slot,
            active: raw[0] == 0x80,
            kind: raw[4],
            first: le32(raw, 8)?,
            sectors: le32(raw, 12)?,
        })
    };
    let all = (1..).zip(raw).filter_map(entry);
    Some(all.filter(|e| e.sectors > 0 && (e.kind != 0 || e.active)).collect())
}

/// Reads sector 0; `None` when it is no MBR or an empty one.
pub(crate) fn parse(sector: &[u8]) -> Option<Mbr> {
    let entries = entries(sector).filter(|entries| !entries.is_empty())?;
    Some(Mbr { entries, signature: le32(sector, 440)? })
}

impl Mbr {
    /// Announces a GPT.
    pub(crate) fn is_protective(&self) -> bool {
        self.entries.iter().any(|entry| entry.kind == 0xEE)
    }

    /// Partitions besides; the active dummy of type 0x00 in Ubuntu's images is none.
    pub(crate) fn is_hybrid(&self) -> bool {
        self.is_protective() && self.entries.iter().any(|e| !matches!(e.kind, 0 | 0xEE))
    }

    /// A boot sector with a parameter block is a filesystem over the whole medium. The fake
    /// table of `mkfs.fat --mbr=y` says so itself: its only partition starts at LBA 0.
    pub(crate) fn is_filesystem(&self, sector: &[u8]) -> bool {
        let block = FatGeometry::parse(sector).is_some()
            || has(sector, 3, b"NTFS    ")
            || has(sector, 3, b"EXFAT   ");
        block && self.entries.iter().all(|entry| entry.first == 0)
    }

    pub(crate) fn into_table(self, view: &View<'_>) -> io::Result<Table> {
        let sector_size = self.sector_size(view)?;
        let unit = u64::from(sector_size);
        let partition = |number, entry: &Entry, base: u64| Partition {
            number,
            start_bytes: (base + u64::from(entry.first)) * unit,
            size_bytes: u64::from(entry.sectors) * unit,
            kind: PartitionType::Mbr(entry.kind),
            type_name: mbr_name(entry.kind),
            name: None,
            active: entry.active,
            fs: None,
        };
        let mut table = Table {
            scheme: Scheme::Mbr,
            sector_size,
            partitions: self.entries.iter().map(|e| partition(e.slot, e, 0)).collect(),
            backup_gpt: None,
            disk_guid: (self.signature != 0).then(|| hex(&self.signature.to_be_bytes())),
            hybrid_mbr: false,
            health: Health::Sound,
            spans: std::iter::once(0..512).collect(),
        };
        let extended = |entry: &&Entry| matches!(entry.kind, 0x05 | 0x0F | 0x85);
        let mut number = 5;
        for container in self.entries.iter().filter(extended) {
            let base = u64::from(container.first);
            let mut here = base;
            while number < 5 + LOGICAL_LIMIT {
                let Some(raw) = view.exact(here * unit, 512)? else {
                    break;
                };
                table.spans.push(here * unit..here * unit + 512);
                let links = entries(&raw).unwrap_or_default();
                let Some(data) = links.iter().find(|e| !extended(e)) else {
                    break;
                };
                table.partitions.push(partition(number, data, here));
                number += 1;
                // Links count from the container, data from its own record.
                match links.iter().find(extended) {
                    Some(link) => here = base + u64::from(link.first),
                    None => break,
                }
            }
        }
        Ok(table)
    }

    /// The units are the medium's sectors, which an image does not tell: a partition whose
    /// filesystem shows at 4096-byte units, and none at 512, decides.
    fn sector_size(&self, view: &View<'_>) -> io::Result<u32> {
        let seen_at = |unit: u64| -> io::Result<bool> {
            let data = self.entries.iter().filter(|e| e.first > 0 && e.kind != 0xEE);
            for entry in data {
                let start = u64::from(entry.first) * unit;
                let size = u64::from(entry.sectors) * unit;
                let known = match entry.kind {
                    0x05 | 0x0F | 0x85 => {
                        let sector = view.some(start, 512)?;
                        entries(&sector).is_some_and(|links| !links.is_empty())
                    }
                    _ => fs::identify(view, start, Some(size))?.is_some_and(|fs| {
                        // A superfluous match of a tiny volume inside a bigger one is no proof.
                        fs.kind != FsKind::Zfs && fs.size_bytes.is_none_or(|len| len <= size)
                    }),
                };
                if known {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(if !seen_at(512)? && seen_at(4096)? { 4096 } else { 512 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample::{self, FatSpec};
    use super::*;

    fn read(image: &[u8]) -> Option<Table> {
        let bytes = Bytes(image);
        super::super::read(&View::new(&bytes)).unwrap()
    }

    #[test]
    fn isohybrid_entries_from_sector_zero() {
        let mut image = vec![0; 1 << 20];
        sample::mbr(&mut image, &[(0x80, 0x00, 0, 2048), (0, 0xEF, 100, 200)]);
        let table = read(&image).unwrap();
        let seen: Vec<_> =
            table.partitions.iter().map(|p| (p.number, p.start_bytes, p.is_esp())).collect();
        assert_eq!(seen, [(1, 0, false), (2, 51_200, true)]);
    }

    #[test]
    fn what_is_no_table() {
        let mut image = vec![0; 4096];
        assert!(read(&image).is_none(), "zeros");
        sample::mbr(&mut image, &[(0, 0x00, 5, 9)]);
        assert!(read(&image).is_none(), "type 0 without the active flag");
        sample::mbr(&mut image, &[(0x42, 0x83, 5, 9)]);
        assert!(read(&image).is_none(), "status byte");
        let mut fat = sample::fat(&FatSpec::default());
        assert!(read(&fat).is_none(), "boot sector of a filesystem");
        sample::mbr(&mut fat, &[(0x80, 0x0C, 0, 2048)]);
        assert!(read(&fat).is_none(), "mkfs.fat --mbr=y");
    }

    #[test]
    fn logical_partitions_and_a_chain_that_loops() {
        let mut image = vec![0; 1 << 20];
        sample::mbr(&mut image, &[(0, 0x0F, 100, 1000)]);
        sample::mbr(&mut image[100 * 512..], &[(0, 0x83, 10, 20), (0, 0x05, 50, 100)]);
        sample::mbr(&mut image[150 * 512..], &[(0, 0x83, 10, 30)]);
        let table = read(&image).unwrap();
        let seen: Vec<_> =
            table.partitions.iter().map(|p| (p.number, p.start_bytes / 512)).collect();
        assert_eq!(seen, [(1, 100), (5, 110), (6, 160)]);
        // The second record points back to itself.
        sample::mbr(&mut image[150 * 512..], &[(0, 0x83, 10, 30), (0, 0x05, 50, 100)]);
        assert_eq!(read(&image).unwrap().partitions.len(), 129);
    }

    #[test]
    fn units_of_4096_show_by_the_filesystem() {
        let fat = sample::fat(&FatSpec { size: 256 * 1024, ..FatSpec::default() });
        let mut image = vec![0; 1 << 20];
        image[64 * 4096..64 * 4096 + fat.len()].copy_from_slice(&fat);
        sample::mbr(&mut image, &[(0x80, 0x0C, 64, 64)]);
        assert_eq!(read(&image).unwrap().sector_size, 4096);
        sample::mbr(&mut image, &[(0x80, 0x0C, 64 * 8, 64 * 8)]);
        assert_eq!(read(&image).unwrap().sector_size, 512);
    }
}
