//! Other bytes for a partition table: the backup of a GPT at the end of a larger target, and new
//! identifiers. Pure over a medium that is only read.
//!
//! PARTUUIDs as the kernel has them (block/partitions/msdos.c: disk signature and number of the
//! partition in hexadecimal; block/partitions/efi.c: the entry's unique GUID).

use std::io;
use std::ops::Range;

use super::patch::Patch;
use crate::error::{Context as _, Error, Result};
use crate::image::bytes::le32;
use crate::image::gpt::{self, Gpt, version_4};
use crate::image::{Health, ReadAt, Scheme, Table, View, guid_text};
use crate::units::Bytes;

/// What the copy's table should be.
pub struct Wish<'a> {
    /// Bytes of the source.
    pub source: u64,
    /// Bytes of a larger target, at whose end the backup should be; `None`: it stays.
    pub target: Option<u64>,
    /// Makes identifiers, another one with each call; `None`: they stay.
    pub ids: Option<&'a dyn Fn() -> [u8; 16]>,
    /// Whether blocks that filesystems declare free are left out.
    pub used: bool,
}

impl std::fmt::Debug for Wish<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, target, ids, used } = self;
        write!(f, "Wish({source}, {target:?}, new identifiers: {}, used: {used})", ids.is_some())
    }
}

/// A partition that has another PARTUUID on the copy. In lower case, as the kernel prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Its number.
    pub number: u32,
    /// On the source.
    pub old: String,
    /// On the copy; as long as the old one.
    pub new: String,
}

/// What is other on the copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The bytes.
    pub patches: Vec<Patch>,
    /// In words.
    pub words: Vec<String>,
    /// Partitions with new identifiers.
    pub renamed: Vec<Renamed>,
}

/// Works out what is other. `Err` when new identifiers are wanted and cannot be given; a backup
/// that cannot be moved is only told.
pub fn change(medium: &dyn ReadAt, table: &Table, wish: &Wish<'_>) -> Result<Change> {
    let failed = || "cannot read the source's partition table".to_owned();
    match (table.scheme, table.health) {
        (Scheme::Mbr, Health::Sound) => match wish.ids {
            Some(ids) => mbr(medium, table, ids).context(failed),
            None => Ok(Change::default()),
        },
        (Scheme::Gpt, Health::Sound) => {
            match Copied::read(medium, table, wish.source).context(failed)? {
                Some(copied) => copied.change(wish).context(failed),
                None => unsound(wish),
            }
        }
        _ => unsound(wish),
    }
}

fn unsound(wish: &Wish<'_>) -> Result<Change> {
    if wish.ids.is_some() {
        return Err(Error::refused("the source's partition table is damaged: no new identifiers")
            .hint("repair it first (sgdisk -v shows what is wrong), or leave --new-ids out"));
    }
    let words = match wish.target {
        Some(_) => vec!["the source's partition table is damaged, and copied as it is".to_owned()],
        None => Vec::new(),
    };
    Ok(Change { words, ..Change::default() })
}

/// A disk signature is 4 bytes, and the PARTUUIDs are made of it.
fn mbr(medium: &dyn ReadAt, table: &Table, ids: &dyn Fn() -> [u8; 16]) -> io::Result<Change> {
    let sector = View::new(medium).some(0, 512)?;
    let old = le32(&sector, 440).unwrap_or(0);
    // 0 means that there is none.
    let random = || {
        let bytes = ids();
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let new = std::iter::repeat_with(random).find(|new| *new != 0 && *new != old).unwrap_or(!old);
    let renamed = table.partitions.iter().map(|partition| Renamed {
        number: partition.number,
        old: format!("{old:08x}-{:02x}", partition.number),
        new: format!("{new:08x}-{:02x}", partition.number),
    });
    Ok(Change {
        patches: vec![Patch { at: 440, bytes: new.to_le_bytes().to_vec() }],
        words: vec![format!("disk signature {old:08x} becomes {new:08x}")],
        renamed: renamed.collect(),
    })
}

/// A GPT on its way to the copy.
struct Copied<'a> {
    medium: &'a dyn ReadAt,
    table: &'a Table,
    /// Bytes of the source.
    source: u64,
    unit: u64,
    gpt: Gpt,
}

impl<'a> Copied<'a> {
    /// `None` where the bytes are not what the parser saw.
    fn read(medium: &'a dyn ReadAt, table: &'a Table, source: u64) -> io::Result<Option<Self>> {
        let gpt = Gpt::of(medium, 1, table.sector_size)?;
        let unit = u64::from(table.sector_size);
        Ok(gpt.map(|gpt| Self { medium, table, source, unit, gpt }))
    }

    fn change(mut self, wish: &Wish<'_>) -> io::Result<Change> {
        let mut change = Change::default();
        if let Some(ids) = wish.ids {
            self.new_ids(ids, &mut change);
        }
        let moved = match wish.target {
            Some(target) => self.move_backup(target, &mut change)?,
            None => false,
        };
        if !moved && change.renamed.is_empty() {
            return Ok(change);
        }
        let backup_array = if moved {
            Some(self.gpt.header.other_lba - self.gpt.array_sectors())
        } else {
            self.backup_array()?
        };
        let [header, array] = self.gpt.own();
        if !change.renamed.is_empty() {
            change.patches.push(self.patch(array));
        }
        change.patches.push(self.patch(header));
        match backup_array {
            Some(lba) => change.patches.extend(self.gpt.other(lba).map(|part| self.patch(part))),
            None => change.words.push(
                "there is no backup of the partition table where it should be: it was not renewed"
                    .to_owned(),
            ),
        }
        Ok(change)
    }

    fn patch(&self, (lba, bytes): gpt::At) -> Patch {
        Patch { at: lba.saturating_mul(self.unit), bytes }
    }

    fn new_ids(&mut self, ids: &dyn Fn() -> [u8; 16], change: &mut Change) {
        let new = version_4(ids());
        let old = std::mem::replace(&mut self.gpt.header.disk, new);
        change.words.push(format!("disk GUID {} becomes {}", guid_text(&old), guid_text(&new)));
        self.gpt.rename(|number, old| {
            let new = version_4(ids());
            change.renamed.push(Renamed { number, old: guid_text(&old), new: guid_text(&new) });
            new
        });
    }

    /// Sets the backup's place to the end of the target; blanks where it was.
    fn move_backup(&mut self, target: u64, change: &mut Change) -> io::Result<bool> {
        let old = self.old_backup()?;
        let sectors = target / self.unit;
        if target <= self.source {
            return Ok(false);
        }
        let Some(more) = self.gpt.end_at(sectors) else { return Ok(false) };
        change.patches.extend(old.iter().map(Patch::zeros));
        change.words.push(format!(
            "the backup of the partition table (GPT) goes to the end of the target, where {} more can be given to partitions",
            Bytes(more * self.unit)
        ));
        let mbr = View::new(self.medium).some(0, 512)?;
        if let Some((at, len)) = gpt::protect(&mbr, sectors) {
            change.patches.push(Patch { at, bytes: len.to_vec() });
        }
        Ok(true)
    }

    /// Where a backup lies on the source, in bytes, as far as nothing else lies there.
    fn old_backup(&self) -> io::Result<Vec<Range<u64>>> {
        let Some(array) = self.backup_array()? else { return Ok(Vec::new()) };
        let (header, sectors) = (&self.gpt.header, self.gpt.array_sectors());
        let span = |lba: u64, sectors: u64| {
            lba.saturating_mul(self.unit)..(lba.saturating_add(sectors)).saturating_mul(self.unit)
        };
        let mut out = vec![span(header.other_lba, 1), span(array, sectors)];
        let free = |range: &Range<u64>| {
            let touches = |other: &Range<u64>| range.start < other.end && other.start < range.end;
            let head = 0..header.array_lba.saturating_add(sectors).saturating_mul(self.unit);
            range.end <= self.source
                && !touches(&head)
                && !self.table.partitions.iter().any(|partition| touches(&partition.range()))
        };
        out.retain(free);
        Ok(out)
    }

    /// First sector of the backup's array, when there is a backup header where the primary one says.
    fn backup_array(&self) -> io::Result<Option<u64>> {
        let (header, sectors) = (&self.gpt.header, self.gpt.array_sectors());
        let at = header.other_lba.saturating_mul(self.unit);
        if header.other_lba <= 1 || at.saturating_add(self.unit) > self.source {
            return Ok(None);
        }
        let raw = View::new(self.medium).some(at, 92)?;
        Ok(gpt::array_of(&raw, header.other_lba).filter(|lba| {
            *lba > header.last_usable.min(header.other_lba)
                && lba.saturating_add(sectors) <= header.other_lba
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::patch::overlay;
    use super::*;
    use crate::image::{Bytes, Partition, inspect};
    use crate::windows::table::{Device, Kind, plan};

    fn disk(kind: Kind, size: u64, sector: u32) -> Vec<u8> {
        let layout = plan(kind, Device { size, sector }, [0xA5; 16]).unwrap();
        let mut image = vec![0; usize::try_from(size).unwrap()];
        for (at, bytes) in &layout.structures {
            let at = usize::try_from(*at).unwrap();
            image[at..at + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    fn table(image: &[u8]) -> Table {
        inspect(&Bytes(image), "disk").unwrap().table.unwrap()
    }

    fn counting() -> impl Fn() -> [u8; 16] {
        let count = std::cell::Cell::new(0);
        move || {
            count.set(count.get() + 1);
            [count.get(); 16]
        }
    }

    /// The header's own checksum.
    fn reseal(header: &mut [u8]) {
        header[16..20].fill(0);
        let crc = crc32fast::hash(&header[..92]);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
    }

    /// The copy on a target of this size.
    fn copied(image: &[u8], size: u64, change: &Change) -> Vec<u8> {
        let mut copy = image.to_vec();
        copy.resize(usize::try_from(size).unwrap(), 0);
        overlay(&change.patches, 0, &mut copy);
        copy
    }

    #[test]
    fn a_backup_that_moved_is_sound_alone_and_the_old_one_is_gone() {
        for sector in [512, 4096] {
            let (from, unit) = (8_u64 << 20, u64::from(sector));
            let image = disk(Kind::Gpt, from, sector);
            let before = table(&image);
            for to in [from + unit, from + 3 * unit, from + 40 * unit, 2 * from] {
                let wish = Wish { source: from, target: Some(to), ids: None, used: false };
                let change = change(&Bytes(&image), &before, &wish).unwrap();
                let copy = copied(&image, to, &change);
                let after = table(&copy);
                assert_eq!(after.health, Health::Sound);
                assert_eq!(after.backup_gpt, Some(to - unit), "{sector} {to}");
                assert_eq!(after.partitions, before.partitions);
                assert_eq!(after.disk_guid, before.disk_guid);
                // The backup alone says the same.
                let mut wiped = copy.clone();
                let head = usize::try_from(unit).unwrap();
                wiped[head..2 * head].fill(0);
                let backup = table(&wiped);
                assert_eq!(backup.health, Health::PrimaryDamaged);
                assert_eq!(backup.partitions, before.partitions);
                // The protective entry covers all.
                assert_eq!(u64::from(le32(&copy, 446 + 12).unwrap()), to / unit - 1);
                if to > from + 33 * unit {
                    let old = usize::try_from(from - unit).unwrap();
                    assert!(copy[old..old + head].iter().all(|byte| *byte == 0));
                }
            }
        }
    }

    #[test]
    fn nothing_is_moved_to_where_it_is_or_off_a_smaller_target() {
        let image = disk(Kind::Gpt, 8 << 20, 512);
        for target in [None, Some(8 << 20), Some(4 << 20)] {
            let wish = Wish { source: 8 << 20, target, ids: None, used: false };
            let change = change(&Bytes(&image), &table(&image), &wish).unwrap();
            assert_eq!(change, Change::default(), "{target:?}");
        }
        let mbr = disk(Kind::Mbr, 8 << 20, 512);
        let wish = Wish { source: 8 << 20, target: Some(16 << 20), ids: None, used: false };
        assert_eq!(change(&Bytes(&mbr), &table(&mbr), &wish).unwrap(), Change::default());
    }

    #[test]
    fn identifiers_are_new_in_both_copies_and_partuuids_keep_their_length() {
        let ids = counting();
        for (kind, to) in [(Kind::Gpt, 8 << 20), (Kind::Gpt, 9 << 20), (Kind::Mbr, 8 << 20)] {
            let image = disk(kind, 8 << 20, 512);
            let before = table(&image);
            let wish = Wish { source: 8 << 20, target: Some(to), ids: Some(&ids), used: false };
            let change = change(&Bytes(&image), &before, &wish).unwrap();
            let copy = copied(&image, to, &change);
            let after = table(&copy);
            assert_eq!(after.health, Health::Sound);
            assert_ne!(after.disk_guid, before.disk_guid);
            let ranges = |table: &Table| -> Vec<_> {
                table.partitions.iter().map(Partition::range).collect()
            };
            assert_eq!(ranges(&after), ranges(&before));
            let [renamed] = change.renamed.as_slice() else { panic!("{change:?}") };
            assert_eq!(renamed.old.len(), renamed.new.len());
            assert_ne!(renamed.old, renamed.new);
            if kind == Kind::Gpt {
                let last = copy.len() - 512;
                assert_eq!(copy[512 + 56..512 + 72], copy[last + 56..last + 72]);
                assert_eq!(renamed.new.as_bytes()[14], b'4', "its version");
            } else {
                assert_eq!(renamed.old, "a5a5a5a5-01");
            }
        }
    }

    #[test]
    fn a_damaged_table_is_copied_as_it_is_and_gets_no_identifiers() {
        let mut image = disk(Kind::Gpt, 8 << 20, 512);
        image[512 + 60] ^= 1;
        let damaged = table(&image);
        let wish = Wish { source: 8 << 20, target: Some(16 << 20), ids: None, used: false };
        let told = change(&Bytes(&image), &damaged, &wish).unwrap();
        assert!(told.patches.is_empty() && told.words[0].contains("damaged"), "{told:?}");
        let ids = counting();
        let wish = Wish { ids: Some(&ids), ..wish };
        assert_eq!(change(&Bytes(&image), &damaged, &wish).unwrap_err().kind().exit_code(), 3);
    }

    #[test]
    fn hostile_headers_neither_panic_nor_reach_outside() {
        let image = disk(Kind::Gpt, 8 << 20, 512);
        for at in [24, 32, 40, 48, 72, 80, 84] {
            for value in [0_u64, 1, 2, 0x3fff, u64::from(u32::MAX), u64::MAX, u64::MAX / 512] {
                let mut bad = image.clone();
                let width = if at >= 80 { 4 } else { 8 };
                bad[512 + at..512 + at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                reseal(&mut bad[512..1024]);
                let info = inspect(&Bytes(&bad), "disk").unwrap();
                let Some(table) = info.table else { continue };
                let wish = Wish { source: 8 << 20, target: Some(16 << 20), ids: None, used: false };
                let change = change(&Bytes(&bad), &table, &wish).unwrap();
                for patch in change.patches {
                    assert!(patch.range().end <= 16 << 20, "{at} {value}: {:?}", patch.range());
                }
            }
        }
    }
}
