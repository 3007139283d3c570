//! A disc out of few sectors, its checksums made right: what is read has sound paths and stretches
//! on the disc, and a stick that is planned from it has no overlap and can be read to its end.
//!
//! An input is two bytes for the disc's length in units of 32 sectors, two for switches, and then
//! sectors: number, length, that many bytes (`fuzz/seeds` makes them of an ISO).
#![no_main]

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use mediawriter::image::ReadAt;
use mediawriter::source::Source;
use mediawriter::windows::compose::{Options, plan};
use mediawriter::windows::composed::ComposedSource;
use mediawriter::windows::table::{Device, Kind};
use mediawriter::windows::tree::{Disc, IsoDisc};

const SECTOR: usize = 2048;

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
fn sectors(input: &[u8]) -> Option<(Sectors, u16)> {
    let (units, switches) = (word(input, 0)?, word(input, 2)?);
    let (mut stored, mut at) = (BTreeMap::new(), 4);
    while let (Some(number), Some(len)) = (word(input, at), word(input, at + 2)) {
        let len = usize::from(len).min(SECTOR).min(input.len() - at - 4);
        let mut sector = [0; SECTOR];
        sector[..len].copy_from_slice(&input[at + 4..at + 4 + len]);
        stored.insert(u64::from(number), sector);
        at += 4 + len;
    }
    if switches & 1 == 0 {
        stored.iter_mut().for_each(|(number, sector)| mend(*number, sector));
    }
    let size = u64::from(units) * 32 * SECTOR as u64;
    Some((Sectors { size, stored }, switches))
}

/// CRC of ECMA-167: polynomial 0x1021, from 0.
fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// Makes the tags in a sector right: without that, no change would get further than to them.
fn mend(number: u64, sector: &mut [u8; SECTOR]) {
    let mut at = 0;
    while at + 38 <= SECTOR {
        let id = word(sector, at).unwrap_or(0);
        if !(1..=9).contains(&id) && !(256..=266).contains(&id) {
            return;
        }
        let len = usize::from(word(sector, at + 10).unwrap_or(0)).min(SECTOR - at - 16);
        let sum = crc(&sector[at + 16..at + 16 + len]);
        sector[at + 8..at + 10].copy_from_slice(&sum.to_le_bytes());
        sector[at + 10..at + 12].copy_from_slice(&(len as u16).to_le_bytes());
        let absolute = id < 256 && sector[at + 12..at + 16] != (number as u32).to_le_bytes();
        if absolute {
            sector[at + 12..at + 16].copy_from_slice(&(number as u32).to_le_bytes());
        }
        sector[at + 4] = 0;
        sector[at + 4] = sector[at..at + 16].iter().fold(0, |sum, b| sum.wrapping_add(*b));
        // Descriptors of files in a folder lie one behind the other.
        if id != 257 {
            return;
        }
        let own = usize::from(word(sector, at + 36).unwrap_or(0));
        at += (38 + usize::from(sector[at + 19]) + own).next_multiple_of(4);
    }
}

fn sound(disc: &IsoDisc, size: u64) {
    let mut folders = HashSet::from([""]);
    for (file, node) in disc.nodes().iter().enumerate() {
        let (parent, name) = node.path.rsplit_once('/').unwrap_or(("", &node.path));
        assert!(!matches!(name, "" | "." | "..") && !name.contains('\\'), "{:?}", node.path);
        assert!(!node.path.chars().any(char::is_control), "{:?}", node.path);
        assert!(folders.contains(parent), "{:?} before its folder", node.path);
        let Some(len) = node.len else {
            folders.insert(&node.path);
            continue;
        };
        let ends = node.runs.iter().filter_map(|run| run.at.map(|at| at.checked_add(run.len)));
        assert!(ends.into_iter().all(|end| end.is_some_and(|end| end <= size)));
        assert_eq!(node.runs.iter().map(|run| u128::from(run.len)).sum::<u128>(), u128::from(len));
        let mut buf = [0; 600];
        for offset in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
            assert!(disc.read_at(file, offset, &mut buf).unwrap_or(1) > 0, "{offset} of {len}");
        }
        assert_eq!(disc.read_at(file, len, &mut buf).ok(), Some(0));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((sectors, switches)) = sectors(input) else { return };
    let size = sectors.size;
    let Ok(disc) = IsoDisc::open(Arc::new(sectors), "disc") else { return };
    sound(&disc, size);
    let options = Options {
        device: Device { size: 400 << 20, sector: if switches & 2 == 0 { 512 } else { 4096 } },
        table: if switches & 4 == 0 { Kind::Gpt } else { Kind::Mbr },
        label: "DISC".to_owned(),
        seed: [7; 16],
        part_limit: (switches & 8 != 0).then_some(u64::from(switches >> 4) << 8),
    };
    let Ok(plan) = plan(&disc, &[], &options) else { return };
    let mut end = 0;
    for extent in &plan.extents {
        assert!(end <= extent.at && extent.len > 0);
        end = extent.at + extent.len;
    }
    assert!(end <= plan.size);
    let image = ComposedSource::new(&plan, Arc::new(disc), "stick").expect("no files of the host");
    let image = image.preview();
    let mut buf = [0; 64];
    for extent in plan.extents.iter().take(1000) {
        for at in [extent.at, extent.at + extent.len - 1] {
            assert!(image.read_at(at, &mut buf).is_ok_and(|n| n > 0), "{at}");
        }
    }
});
