//! GUID partition tables as bytes: read, checked, written, moved. The one place that knows where
//! a field of a GPT is.
//!
//! Owns: header, array of entries, both checksums, the protective MBR, where the two copies lie.
//! Must not know what partitions are for, nor which of two copies counts (`table::gpt` does).
//! Specification: UEFI 2.10, 5.2.3 (protective MBR), 5.3.2 (header), 5.3.3 (entries).
//!
//! ```text
//! | protective MBR | header | entries .. | partitions .. | entries .. | header |
//!   LBA 0            LBA 1    LBA 2 ..                                  last LBA
//! ```

use std::io;

use crc32fast::hash as crc32;

use super::bytes::{has, le32, le64};
use super::read::{ReadAt, View};

pub(crate) const MAGIC: &[u8] = b"EFI PART";
/// Bytes of a header that have a meaning; the rest of its sector is reserved.
const HEADER: usize = 92;
/// Usual is 128 entries of 128 bytes, 16 KiB.
const ARRAY_LIMIT: u64 = 2 << 20;
/// Entries that are made here, and the bytes of each.
const COUNT: u32 = 128;
const ENTRY: usize = 128;

/// A header: that of either copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Sector of this header.
    pub lba: u64,
    /// Sector of the other one.
    pub other_lba: u64,
    /// First sector that a partition may have.
    pub first_usable: u64,
    /// Last one.
    pub last_usable: u64,
    /// Identifier of the disk.
    pub disk: [u8; 16],
    /// First sector of the entries.
    pub array_lba: u64,
    /// Number of entries, in use or not.
    pub count: u32,
    /// Bytes of each.
    pub entry_len: u32,
    array_crc: u32,
    /// The sector it was read from without these fields: what is not understood here is kept.
    rest: Vec<u8>,
}

impl Header {
    /// A header whose checksum and own address are right, out of its whole sector.
    pub fn parse(sector: &[u8], lba: u64) -> Option<Self> {
        let len = usize::try_from(le32(sector, 12)?).ok()?;
        let fits = (HEADER..=sector.len()).contains(&len);
        if !has(sector, 0, MAGIC) || !fits || le64(sector, 24)? != lba {
            return None;
        }
        if checksum(sector, len) != le32(sector, 16)? {
            return None;
        }
        let (count, entry_len) = (le32(sector, 80)?, le32(sector, 84)?);
        let array = u64::from(count).checked_mul(u64::from(entry_len))?;
        (array <= ARRAY_LIMIT && entry_len >= 128).then_some(())?;
        Some(Self {
            lba,
            other_lba: le64(sector, 32)?,
            first_usable: le64(sector, 40)?,
            last_usable: le64(sector, 48)?,
            disk: sector.get(56..)?.first_chunk().copied()?,
            array_lba: le64(sector, 72)?,
            count,
            entry_len,
            array_crc: le32(sector, 88)?,
            rest: without_fields(sector),
        })
    }

    /// Bytes of the array.
    pub fn array_len(&self) -> usize {
        // Below the limit, which fits everywhere.
        usize::try_from(u64::from(self.count) * u64::from(self.entry_len)).unwrap_or(0)
    }

    /// Its sector, sealed.
    fn bytes(&self) -> Vec<u8> {
        let mut out = self.rest.clone();
        for (at, value) in [
            (24, self.lba),
            (32, self.other_lba),
            (40, self.first_usable),
            (48, self.last_usable),
            (72, self.array_lba),
        ] {
            out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        out[56..72].copy_from_slice(&self.disk);
        for (at, value) in [(80, self.count), (84, self.entry_len), (88, self.array_crc)] {
            out[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let len = le32(&out, 12).and_then(|len| usize::try_from(len).ok()).unwrap_or(HEADER);
        let crc = checksum(&out, len.clamp(HEADER, out.len()));
        out[16..20].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

fn without_fields(sector: &[u8]) -> Vec<u8> {
    let mut rest = sector.to_vec();
    rest[16..20].fill(0);
    rest[24..HEADER].fill(0);
    rest
}

/// The header's own checksum, whose field counts as zero.
fn checksum(sector: &[u8], len: usize) -> u32 {
    let mut checked = sector[..len].to_vec();
    checked[16..20].fill(0);
    crc32(&checked)
}

/// Where a header says that its array is, if it says that this is its sector; its checksum is not
/// asked for.
pub fn array_of(sector: &[u8], lba: u64) -> Option<u64> {
    let own = has(sector, 0, MAGIC) && le64(sector, 24)? == lba;
    own.then(|| le64(sector, 72)).flatten()
}

/// An entry that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its type, in the order on disk.
    pub kind: [u8; 16],
    /// Its identifier, in the order on disk: what PARTUUID shows.
    pub id: [u8; 16],
    /// First sector.
    pub first: u64,
    /// Last sector, itself a part of it.
    pub last: u64,
    /// Attributes; the upper 16 bits belong to the type.
    pub attributes: u64,
    /// Its name, UTF-16, filled up with zeros.
    pub name: [u8; 72],
}

impl Entry {
    /// Out of its slot; `None` where the slot is not in use.
    fn parse(slot: &[u8]) -> Option<Self> {
        let kind: [u8; 16] = slot.first_chunk().copied()?;
        (kind != [0; 16]).then_some(())?;
        Some(Self {
            kind,
            id: slot.get(16..)?.first_chunk().copied()?,
            first: le64(slot, 32)?,
            last: le64(slot, 40)?,
            attributes: le64(slot, 48)?,
            name: slot.get(56..)?.first_chunk().copied()?,
        })
    }

    fn put(&self, slot: &mut [u8]) {
        slot[..16].copy_from_slice(&self.kind);
        slot[16..32].copy_from_slice(&self.id);
        for (at, value) in [(32, self.first), (40, self.last), (48, self.attributes)] {
            slot[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        slot[56..128].copy_from_slice(&self.name);
    }
}

/// A name as an entry has it, at most 36 units of UTF-16.
pub fn name(text: &str) -> [u8; 72] {
    let mut out = [0; 72];
    for (place, unit) in out.as_chunks_mut::<2>().0.iter_mut().zip(text.encode_utf16()) {
        *place = unit.to_le_bytes();
    }
    out
}

/// A random GUID (RFC 9562, version 4) of 16 random bytes, in its mixed-endian order on disk.
pub fn version_4(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[7] = bytes[7] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}

/// One copy of a table, its checksums right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpt {
    /// Its header.
    pub header: Header,
    array: Vec<u8>,
    sector: u32,
}

/// A copy, as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    /// All of it.
    Whole(Gpt),
    /// The entries are beyond what can be read of a pipe.
    EntriesUnseen(Header),
}

/// Bytes that belong at a sector.
pub type At = (u64, Vec<u8>);

impl Gpt {
    /// The copy whose header is at a sector of a medium, if there is a sound one.
    ///
    /// # Errors
    /// Those of reading.
    pub fn of(medium: &dyn ReadAt, lba: u64, sector: u32) -> io::Result<Option<Self>> {
        Ok(match Self::read(&View::new(medium), lba, sector)? {
            Some(Copy::Whole(gpt)) => Some(gpt),
            Some(Copy::EntriesUnseen(_)) | None => None,
        })
    }

    /// The same, as far as the header where that is all that can be read.
    pub(crate) fn read(view: &View<'_>, lba: u64, sector: u32) -> io::Result<Option<Copy>> {
        let unit = u64::from(sector);
        let Some(at) = lba.checked_mul(unit) else { return Ok(None) };
        let raw = view.some(at, usize::try_from(sector).unwrap_or(512))?;
        let Some(header) = Header::parse(&raw, lba) else { return Ok(None) };
        let Some(array_at) = header.array_lba.checked_mul(unit) else { return Ok(None) };
        Ok(match view.exact(array_at, header.array_len())? {
            Some(array) if crc32(&array) == header.array_crc => {
                Some(Copy::Whole(Self { header, array, sector }))
            }
            None if view.size().is_none() => Some(Copy::EntriesUnseen(header)),
            _ => None,
        })
    }

    /// A new table for a medium of so many sectors, as its first copy; `None` where it has no room
    /// for both copies.
    pub fn new(sectors: u64, sector: u32, disk: [u8; 16], entries: &[Entry]) -> Option<Self> {
        let mut rest = vec![0; usize::try_from(sector).ok().filter(|len| *len >= 512)?];
        rest[..8].copy_from_slice(MAGIC);
        rest[8..16].copy_from_slice(&[0, 0, 1, 0, HEADER.to_le_bytes()[0], 0, 0, 0]);
        let mut array = vec![0; COUNT as usize * ENTRY];
        for (slot, entry) in array.as_chunks_mut::<ENTRY>().0.iter_mut().zip(entries) {
            entry.put(slot);
        }
        let each = (array.len() as u64).div_ceil(u64::from(sector));
        let last_usable = sectors.checked_sub(2 + each).filter(|last| *last >= 2 + each)?;
        let header = Header {
            lba: 1,
            other_lba: sectors - 1,
            first_usable: 2 + each,
            last_usable,
            disk,
            array_lba: 2,
            count: COUNT,
            entry_len: u32::try_from(ENTRY).unwrap_or(COUNT),
            array_crc: crc32(&array),
            rest,
        };
        Some(Self { header, array, sector })
    }

    /// The entries in use, by their numbers.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Entry)> + '_ {
        let len = self.header.entry_len as usize;
        let slots = (1..).zip(self.array.chunks_exact(len));
        slots.filter_map(|(number, slot)| Some((number, Entry::parse(slot)?)))
    }

    /// Gives entries in use another identifier, each by its number and the one it had.
    pub fn rename(&mut self, mut id: impl FnMut(u32, [u8; 16]) -> [u8; 16]) {
        let len = self.header.entry_len as usize;
        for (number, slot) in (1..).zip(self.array.chunks_exact_mut(len)) {
            if let Some(entry) = Entry::parse(slot) {
                slot[16..32].copy_from_slice(&id(number, entry.id));
            }
        }
        self.header.array_crc = crc32(&self.array);
    }

    /// Sectors of the array.
    pub fn array_sectors(&self) -> u64 {
        (self.array.len() as u64).div_ceil(u64::from(self.sector))
    }

    /// Has the other copy at the end of a medium of so many sectors. Returns the sectors that
    /// partitions can have besides; `None`, and nothing is changed, where it would have to give
    /// some up.
    pub fn end_at(&mut self, sectors: u64) -> Option<u64> {
        let last_usable = sectors.checked_sub(2 + self.array_sectors())?;
        let more = last_usable.checked_sub(self.header.last_usable)?;
        self.header.other_lba = sectors - 1;
        self.header.last_usable = last_usable;
        Some(more)
    }

    /// This copy: its header, its array.
    pub fn own(&self) -> [At; 2] {
        let Header { lba, array_lba, .. } = self.header;
        [(lba, self.header.bytes()), (array_lba, self.array.clone())]
    }

    /// The other copy, with its array at a sector: the array, its header.
    pub fn other(&self, array_lba: u64) -> [At; 2] {
        let Header { lba, other_lba, .. } = self.header;
        let header = Header { lba: other_lba, other_lba: lba, array_lba, ..self.header.clone() };
        [(array_lba, self.array.clone()), (other_lba, header.bytes())]
    }
}

/// The entry of a protective MBR: what older programs see instead of a GPT.
const PROTECTIVE: u8 = 0xEE;

/// A sector with a protective MBR over all of a medium of so many sectors.
pub fn protective(sectors: u64, sector: u32) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(sector).unwrap_or(512)];
    let len = u32::try_from(sectors.saturating_sub(1)).unwrap_or(u32::MAX);
    // From sector 1 on; cylinders, heads and sectors as 5.2.3 has them.
    out[446..458].copy_from_slice(&[0, 0, 2, 0, PROTECTIVE, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0]);
    out[458..462].copy_from_slice(&len.to_le_bytes());
    out[510..512].copy_from_slice(&[0x55, 0xAA]);
    out
}

/// Where the length of the protective entry is and what it becomes on a medium of so many sectors:
/// it covers all of it, as far as 32 bits do. One that has others behind it, as hybrid tables may,
/// stays as it is.
pub fn protect(mbr: &[u8], sectors: u64) -> Option<(u64, [u8; 4])> {
    let slots = mbr.get(446..510)?.as_chunks::<16>().0;
    let first = |slot: &[u8; 16]| le32(slot, 8).unwrap_or(0);
    let in_use = |slot: &[u8; 16]| le32(slot, 12).unwrap_or(0) > 0;
    let (index, slot) = slots.iter().enumerate().find(|(_, slot)| slot[4] == PROTECTIVE)?;
    if slots.iter().any(|other| in_use(other) && first(other) > first(slot)) {
        return None;
    }
    let len = sectors.saturating_sub(u64::from(first(slot)));
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    Some((446 + 16 * index as u64 + 12, len.to_le_bytes()))
}

#[cfg(test)]
mod tests;
