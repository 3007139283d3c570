//! Tables that are made, read back, changed and moved; and bytes that are none.

use proptest::prelude::*;

use super::super::{Bytes, Health, inspect};
use super::*;

/// Entries side by side: kinds, identifiers and names are anything, as are the gaps.
fn entries() -> impl Strategy<Value = Vec<(Entry, u64)>> {
    let entry = (1..=u64::MAX, any::<[u8; 16]>(), any::<u64>(), ".{0,40}", 1..40_u64, 0..5_u64);
    let entry = entry.prop_map(|(kind, id, attributes, text, sectors, gap)| {
        let mut bytes = [7; 16];
        bytes[..8].copy_from_slice(&kind.to_le_bytes());
        let entry =
            Entry { kind: bytes, id, first: gap, last: sectors, attributes, name: name(&text) };
        (entry, gap)
    });
    proptest::collection::vec(entry, 0..20)
}

/// Lays them out from a sector on.
fn laid_out(entries: Vec<(Entry, u64)>, mut at: u64) -> Vec<Entry> {
    let placed = entries.into_iter().map(|(entry, gap)| {
        let first = at + gap;
        let last = first + entry.last - 1;
        at = last + 1;
        Entry { first, last, ..entry }
    });
    placed.collect()
}

/// A medium with both copies.
fn medium(gpt: &Gpt, sectors: u64) -> Vec<u8> {
    let unit = gpt.sector as usize;
    let mut out = vec![0; usize::try_from(sectors).unwrap() * unit];
    let backup = gpt.header.other_lba - gpt.array_sectors();
    let parts = gpt.own().into_iter().chain(gpt.other(backup));
    for (lba, bytes) in parts.chain([(0, protective(sectors, gpt.sector))]) {
        let at = usize::try_from(lba).unwrap() * unit;
        out[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    out
}

fn read(medium: &[u8], lba: u64, sector: u32) -> Option<Gpt> {
    Gpt::of(&Bytes(medium), lba, sector).unwrap()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_from_both_copies_and_after_a_move(
        found in entries(), disk: [u8; 16], large: bool, sectors in 1000..2000_u64, more in 0..300_u64,
        salt: u8,
    ) {
        let sector = if large { 4096 } else { 512 };
        let entries = laid_out(found, 34);
        let mut gpt = Gpt::new(sectors, sector, disk, &entries).unwrap();
        let first = medium(&gpt, sectors);
        let listed = |gpt: &Gpt| gpt.entries().map(|(_, entry)| entry).collect::<Vec<_>>();
        prop_assert!(read(&first, 1, sector) == Some(gpt.clone()));
        let backup = read(&first, sectors - 1, sector).unwrap();
        prop_assert_eq!(listed(&backup), entries.clone());
        // The copies are made of each other.
        prop_assert_eq!(backup.other(2), { let [header, array] = gpt.own(); [array, header] });

        gpt.rename(|number, old| old.map(|byte| byte ^ salt ^ u8::try_from(number).unwrap()));
        gpt.header.disk = version_4(disk);
        prop_assert_eq!(gpt.end_at(sectors + more), Some(more));
        let moved = medium(&gpt, sectors + more);
        for lba in [1, sectors + more - 1] {
            let seen = read(&moved, lba, sector).unwrap();
            prop_assert_eq!(seen.header.disk, version_4(disk));
            prop_assert_eq!(seen.header.last_usable, sectors + more - 2 - gpt.array_sectors());
            prop_assert_eq!(listed(&seen), listed(&gpt));
        }
        let table = inspect(&Bytes(&moved), "medium").unwrap().table.unwrap();
        prop_assert_eq!((table.health, table.partitions.len()), (Health::Sound, entries.len()));
    }

    #[test]
    fn no_bit_of_a_copy_can_change_unnoticed(found in entries(), bit in 0..(92 + 128 * 128) * 8_usize) {
        let gpt = Gpt::new(1000, 512, [1; 16], &laid_out(found, 34)).unwrap();
        let mut bytes = medium(&gpt, 1000);
        // The header, then the array behind the sector of the header.
        let at = if bit / 8 < 92 { 512 + bit / 8 } else { 1024 + bit / 8 - 92 };
        bytes[at] ^= 1 << (bit % 8);
        prop_assert_eq!(read(&bytes, 1, 512), None);
        prop_assert!(read(&bytes, 999, 512).is_some());
    }

    #[test]
    fn sealed_nonsense_neither_panics_nor_is_read_outside(
        fields: [u64; 9], counts: [u32; 3], size in 0..4096_usize, target: u64,
    ) {
        let mut bytes = medium(&Gpt::new(100, 512, [1; 16], &[]).unwrap(), 100);
        for (at, value) in (24..92).step_by(8).zip(fields) {
            bytes[512 + at..512 + at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[512 + 24..512 + 32].copy_from_slice(&1_u64.to_le_bytes());
        for (at, value) in [80, 84, 88].into_iter().zip(counts) {
            bytes[512 + at..512 + at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let crc = checksum(&bytes[512..1024], 92);
        bytes[512 + 16..512 + 20].copy_from_slice(&crc.to_le_bytes());
        bytes.truncate(1024 + size);
        if let Some(mut gpt) = read(&bytes, 1, 512) {
            gpt.end_at(target);
            gpt.own();
        }
        inspect(&Bytes(&bytes), "medium").unwrap();
    }
}

#[test]
fn what_is_not_understood_is_kept() {
    let gpt = Gpt::new(1000, 512, [1; 16], &[]).unwrap();
    let mut bytes = medium(&gpt, 1000);
    // A header of 100 bytes, its last ones of a later specification; something in the reserved rest.
    bytes[512 + 12] = 100;
    bytes[512 + 95] = 0xA5;
    bytes[512 + 300] = 0x5A;
    let crc = checksum(&bytes[512..1024], 100);
    bytes[512 + 16..512 + 20].copy_from_slice(&crc.to_le_bytes());
    let read = read(&bytes, 1, 512).unwrap();
    assert_eq!(read.own()[0], (1, bytes[512..1024].to_vec()));
}

#[test]
fn a_medium_without_room_for_both_copies_has_no_table() {
    for (sectors, sector, fits) in
        [(67, 512, false), (68, 512, true), (11, 4096, false), (12, 4096, true), (1000, 256, false)]
    {
        assert_eq!(Gpt::new(sectors, sector, [0; 16], &[]).is_some(), fits, "{sectors} {sector}");
    }
    let mut gpt = Gpt::new(1000, 512, [0; 16], &[]).unwrap();
    let before = gpt.clone();
    assert_eq!((gpt.end_at(999), gpt.end_at(0)), (None, None));
    assert_eq!(gpt, before);
}

#[test]
fn a_protective_entry_covers_all_and_one_before_others_stays() {
    let mbr = protective(1000, 512);
    assert_eq!(protect(&mbr, 5000), Some((458, 4999_u32.to_le_bytes())));
    assert_eq!(protect(&mbr, 1 << 40), Some((458, u32::MAX.to_le_bytes())));
    let mut hybrid = mbr.clone();
    hybrid[462 + 4] = 0x83;
    hybrid[462 + 8..462 + 16].copy_from_slice(&[100, 0, 0, 0, 9, 0, 0, 0]);
    assert_eq!(protect(&hybrid, 5000), None);
    assert_eq!(protect(&[0; 512], 5000), None);
    assert_eq!(protect(&mbr[..100], 5000), None);
}
