//! A medium out of few sectors as an NTFS volume: whatever it says, reading it comes to an end, takes
//! memory that is bounded, and panics of the crate that reads it stay within our reader.
//!
//! An input is two bytes for the volume's length in units of 64 sectors, one for switches, and then
//! sectors: number, length, that many bytes (`fuzz/seeds` makes them of real volumes).
#![no_main]

use std::collections::BTreeMap;
use std::io;
use std::panic;
use std::sync::Once;

use libfuzzer_sys::fuzz_target;
use mediawriter::image::{Bytes, ReadAt};
use mediawriter::windows::ntfs::{Volume, Wanted};

const SECTOR: usize = 512;

#[derive(Debug)]
struct Sectors {
    size: u64,
    stored: BTreeMap<u64, [u8; SECTOR]>,
}

impl ReadAt for Sectors {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let within = usize::try_from(offset % SECTOR as u64).unwrap_or(0);
        let len = buf.len().min(room).min(SECTOR - within);
        match self.stored.get(&(offset / SECTOR as u64)) {
            Some(bytes) => buf[..len].copy_from_slice(&bytes[within..within + len]),
            None => buf[..len].fill(0),
        }
        Ok(len)
    }

    fn size(&self) -> Option<u64> {
        Some(self.size)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The sectors of an input; `None`: it has not even a head.
fn sectors(input: &[u8]) -> Option<(Sectors, u8)> {
    let (units, switches) = (word(input, 0)?, *input.get(2)?);
    let (mut stored, mut at) = (BTreeMap::new(), 3);
    while let (Some(number), Some(len)) = (word(input, at), word(input, at + 2)) {
        let len = usize::from(len).min(SECTOR).min(input.len() - at - 4);
        let mut sector = [0; SECTOR];
        sector[..len].copy_from_slice(&input[at + 4..at + 4 + len]);
        stored.insert(u64::from(number), sector);
        at += 4 + len;
    }
    if switches & 1 == 0 {
        mend(&mut stored);
    }
    Some((Sectors { size: u64::from(units) * 64 * SECTOR as u64, stored }, switches))
}

/// Puts the number at the end of each sector of a record that its beginning announces: without that,
/// most changes would get no further than to it.
fn mend(stored: &mut BTreeMap<u64, [u8; SECTOR]>) {
    let starts: Vec<_> = stored
        .iter()
        .filter_map(|(number, first)| {
            let sectors = match &first[..4] {
                // Bytes of the record, as its head has them.
                b"FILE" => u64::from(word(first, 28)? / 512).min(8),
                b"INDX" => 8,
                _ => return None,
            };
            let own = word(first, usize::from(word(first, 4)?))?;
            Some((*number, sectors, own.to_le_bytes()))
        })
        .collect();
    for (number, sectors, own) in starts {
        for sector in number..number + sectors {
            stored.entry(sector).or_insert([0; SECTOR])[SECTOR - 2..].copy_from_slice(&own);
        }
    }
}

/// A panic of the crate that our reader catches is damage like any other. The fuzzer's own hook would
/// end the process; one that is caught by nobody still does.
fn let_panics_be_caught() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|panic| {
            let place = panic.location().map_or("", |place| place.file());
            if !place.contains("/ntfs-") {
                eprintln!("{panic}");
            }
        }));
    });
}

fuzz_target!(|input: &[u8]| {
    let_panics_be_caught();
    let Some((sectors, switches)) = sectors(input) else { return };
    let size = sectors.size;
    let range = if switches & 2 == 0 { 0..size } else { size / 4..size };
    let len = range.end - range.start;
    let Ok(mut volume) = Volume::open(&sectors, range) else { return };
    let (data, zeros) = (b"DATA".repeat(1250), vec![0; 5000]);
    let (data, zeros) = (Bytes(&data), Bytes(&zeros));
    let wanted = [
        Wanted { path: "sources", bytes: None },
        Wanted { path: "bootmgr", bytes: Some(&Bytes(b"DATADATADA")) },
        Wanted { path: "sources/boot.wim", bytes: Some(&data) },
        Wanted { path: "sources/zeros", bytes: Some(&zeros) },
        Wanted { path: "sources/empty", bytes: Some(&Bytes(b"")) },
        Wanted { path: "deep/er/and/er/file", bytes: Some(&Bytes(b"D")) },
    ];
    let report = volume.check(&wanted).expect("memory can be read");
    assert_eq!(report.files.len(), wanted.len());
    let mut end = 0;
    for used in volume.used().unwrap_or_default() {
        assert!(used.start >= end && used.end > used.start && used.end <= len, "{used:?} of {len}");
        end = used.end;
    }
});
