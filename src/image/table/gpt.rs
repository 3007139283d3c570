//! What a GUID partition table says, from whichever of its copies is sound.
//!
//! Owns: finding a copy for sectors of 512 or 4096 bytes. The sector size is where the header is:
//! an image made for one size has no table for the other. The bytes are those of `image::gpt`.

use std::io;
use std::ops::Range;

use super::super::gpt::{Copy, Entry, Gpt, Header};
use super::super::printable::label16;
use super::super::read::View;
use super::types::{guid_name, guid_text};
use super::{Health, Partition, PartitionType, Scheme, Table};

pub(crate) use super::super::gpt::MAGIC;
pub(crate) const SECTORS: [u32; 2] = [512, 4096];
const ENTRY_LIMIT: u32 = 1024;

fn partition(number: u32, entry: &Entry, unit: u64) -> Option<Partition> {
    let sectors = entry.last.checked_sub(entry.first)?.checked_add(1)?;
    Some(Partition {
        number,
        start_bytes: entry.first.checked_mul(unit)?,
        size_bytes: sectors.checked_mul(unit)?,
        kind: PartitionType::Gpt(entry.kind),
        type_name: guid_name(&entry.kind),
        name: label16(&entry.name, u16::from_le_bytes),
        active: entry.attributes & 0x4 != 0,
        fs: None,
    })
}

/// One copy: `Sound`, or `EntriesUnseen` when the array is beyond what can be read.
fn copy(view: &View<'_>, lba: u64, sector: u32) -> io::Result<Option<Table>> {
    let unit = u64::from(sector);
    let (header, partitions, health) = match Gpt::read(view, lba, sector)? {
        Some(Copy::Whole(gpt)) => {
            let entries = gpt.entries().take_while(|(number, _)| *number <= ENTRY_LIMIT);
            let found = entries.filter_map(|(number, entry)| partition(number, &entry, unit));
            let found = found.collect();
            (gpt.header, found, Health::Sound)
        }
        Some(Copy::EntriesUnseen(header)) => (header, Vec::new(), Health::EntriesUnseen),
        None => return Ok(None),
    };
    let other = header.other_lba.checked_mul(unit).filter(|&at| at > 0);
    Ok(Some(Table {
        scheme: Scheme::Gpt,
        sector_size: sector,
        partitions,
        backup_gpt: if lba == 1 { other } else { lba.checked_mul(unit) },
        disk_guid: Some(guid_text(&header.disk)),
        hybrid_mbr: false,
        health,
        spans: spans(&header, unit),
    }))
}

/// Both copies occupy the same room at both ends.
fn spans(header: &Header, unit: u64) -> Vec<Range<u64>> {
    let span = |start: u64, len: u64| {
        let start = start.saturating_mul(unit);
        start..start.saturating_add(len)
    };
    let array = (header.array_len() as u64).next_multiple_of(unit);
    let mut out = vec![span(header.lba, unit), span(header.array_lba, array)];
    if header.lba == 1 {
        // The array of the backup precedes its header.
        let before = header.other_lba.saturating_sub(array / unit);
        out.push(span(before, array));
        out.push(span(header.other_lba, unit));
    }
    out
}

/// The table of a whole medium from its primary copy, else from the backup at the very end.
pub(crate) fn read(view: &View<'_>) -> io::Result<Option<Table>> {
    for sector in SECTORS {
        if let Some(table) = copy(view, 1, sector)? {
            return Ok(Some(table));
        }
    }
    let Some(size) = view.size() else {
        return Ok(None);
    };
    for sector in SECTORS {
        let last = (size / u64::from(sector)).saturating_sub(1);
        if last > 1
            && let Some(mut table) = copy(view, last, sector)?
        {
            table.health = Health::PrimaryDamaged;
            return Ok(Some(table));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::super::read::{Bytes, Head};
    use super::super::super::sample;
    use super::*;

    fn image(sector: usize) -> Vec<u8> {
        let mut image = vec![0; 2 << 20];
        sample::gpt(&mut image, sector, &[(super::super::types::ESP, 64, 127, "EFI \u{202e}x")]);
        image
    }

    #[test]
    fn both_sector_sizes_are_found_where_they_are() {
        for sector in [512, 4096] {
            let image = image(sector);
            let bytes = Bytes(&image);
            let table = read(&View::new(&bytes)).unwrap().unwrap();
            assert_eq!(table.sector_size as usize, sector);
            assert_eq!(table.backup_gpt, Some((image.len() - sector) as u64));
            let part = &table.partitions[0];
            assert_eq!(
                (part.start_bytes, part.size_bytes),
                (64 * sector as u64, 64 * sector as u64)
            );
            assert_eq!(part.name.as_deref(), Some("EFI \\u{202e}x"));
            assert!(part.is_esp());
        }
    }

    #[test]
    fn a_damaged_primary_falls_back_to_the_end() {
        for at in [512 + 60, 1024 + 40] {
            let mut image = image(512);
            image[at] ^= 1;
            let bytes = Bytes(&image);
            let table = read(&View::new(&bytes)).unwrap().unwrap();
            assert_eq!(table.health, Health::PrimaryDamaged, "byte {at}");
            assert_eq!(table.partitions.len(), 1);
            let last = image.len() - 512 + 60;
            image[last] ^= 1;
            let bytes = Bytes(&image);
            assert_eq!(read(&View::new(&bytes)).unwrap(), None);
            let announced = super::super::read(&View::new(&bytes)).unwrap().unwrap();
            assert_eq!(announced.health, Health::Damaged);
        }
    }

    #[test]
    fn the_mbr_decides_whether_a_gpt_counts() {
        let health = |image: &[u8]| {
            let bytes = Bytes(image);
            super::super::read(&View::new(&bytes)).unwrap().map(|t| (t.scheme, t.health))
        };
        let mut image = image(512);
        assert_eq!(health(&image), Some((Scheme::Gpt, Health::Sound)));
        // Debian: entries of its own, none of type 0xEE. Ubuntu: an active dummy beside it.
        sample::mbr(&mut image, &[(0x80, 0, 0, 4096), (0, 0xEF, 100, 20)]);
        assert_eq!(health(&image), Some((Scheme::Mbr, Health::Sound)));
        sample::mbr(&mut image, &[(0, 0xEE, 1, 4095), (0x80, 0, 0, 1)]);
        assert_eq!(health(&image), Some((Scheme::Gpt, Health::Sound)));
        image[..512].fill(0);
        assert_eq!(health(&image), Some((Scheme::Gpt, Health::NotAnnounced)));
    }

    #[test]
    fn a_head_may_end_before_the_entries() {
        let image = image(512);
        let head = Head(&image[..4096]);
        let table = read(&View::new(&head)).unwrap().unwrap();
        assert_eq!(table.health, Health::EntriesUnseen);
    }

    #[test]
    fn absurd_counts_are_refused() {
        let mut image = image(512);
        for (count, len) in [(u32::MAX, 128_u32), (128, u32::MAX), (1, 8), (u32::MAX, u32::MAX)] {
            image[512 + 80..512 + 84].copy_from_slice(&count.to_le_bytes());
            image[512 + 84..512 + 88].copy_from_slice(&len.to_le_bytes());
            sample::seal_gpt_header(&mut image[512..1024]);
            assert_eq!(Header::parse(&image[512..1024], 1), None, "{count} x {len}");
        }
    }
}
