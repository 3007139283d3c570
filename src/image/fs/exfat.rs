//! exFAT: boot sector, label, and where mounting leaves its marks.
//!
//! Owns: the zones of an exFAT volume. Specification: Microsoft exFAT file system
//! specification (2019), sections 3 (boot sector), 6 and 7 (directory entries). A mount sets
//! `VolumeDirty` in the boot sector; `PercentInUse` beside it follows the first write.

use std::io;

use super::super::bytes::{has, le32, le64, u8_at};
use super::super::printable::label16;
use super::super::read::View;
use super::{Filesystem, FsKind, ZoneKind};

/// Root directory clusters followed; a root directory is rarely more than one.
const ROOT_CLUSTERS: usize = 64;
/// Bytes of one root cluster looked at for the label and the bitmap, which come first.
const ROOT_BYTES: u64 = 64 * 1024;

struct Boot {
    sector: u64,
    cluster: u64,
    fat_start: u64,
    fat_size: u64,
    heap_start: u64,
    clusters: u32,
    root: u32,
    size: u64,
    serial: u32,
}

impl Boot {
    fn parse(raw: &[u8]) -> Option<Self> {
        if !has(raw, 3, b"EXFAT   ") || !has(raw, 510, &[0x55, 0xAA]) {
            return None;
        }
        let shift = u8_at(raw, 108).filter(|shift| (9..=12).contains(shift))?;
        let per_cluster = u8_at(raw, 109).filter(|&more| more <= 25 - shift)?;
        let sectors = |count: u64| count.checked_mul(1 << shift);
        let fats = u64::from(u8_at(raw, 110).filter(|fats| (1..=2).contains(fats))?);
        Some(Self {
            sector: 1 << shift,
            cluster: 1 << (shift + per_cluster),
            size: sectors(le64(raw, 72)?)?,
            fat_start: sectors(u64::from(le32(raw, 80)?))?,
            fat_size: sectors(u64::from(le32(raw, 84)?) * fats)?,
            heap_start: sectors(u64::from(le32(raw, 88)?))?,
            clusters: le32(raw, 92)?,
            root: le32(raw, 96)?,
            serial: le32(raw, 100)?,
        })
    }

    fn cluster_start(&self, cluster: u32) -> Option<u64> {
        let index = cluster.checked_sub(2).filter(|&index| index < self.clusters)?;
        self.heap_start.checked_add(u64::from(index).checked_mul(self.cluster)?)
    }
}

pub(super) fn identify(view: &View<'_>, start: u64, head: &[u8]) -> io::Result<Option<Filesystem>> {
    let Some(boot) = Boot::parse(head) else {
        return Ok(None);
    };
    let mut out = Filesystem::new(FsKind::Exfat);
    out.size_bytes = Some(boot.size);
    out.block = u32::try_from(boot.sector).ok();
    let serial = boot.serial;
    out.uuid = (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xFFFF));
    out.zone(ZoneKind::Superblock, 0, boot.sector);
    // The whole boot region is 12 sectors; its copy follows.
    out.zone(ZoneKind::BackupSuperblock, 12 * boot.sector, boot.sector);
    out.zone(ZoneKind::FatTable, boot.fat_start, boot.fat_size);
    let mut cluster = boot.root;
    for _ in 0..ROOT_CLUSTERS {
        let Some(at) = boot.cluster_start(cluster) else {
            break;
        };
        out.zone(ZoneKind::RootDirectory, at, boot.cluster);
        let len = usize::try_from(boot.cluster.min(ROOT_BYTES)).unwrap_or(0);
        let bytes = view.some(start.saturating_add(at), len)?;
        for entry in bytes.as_chunks::<32>().0 {
            root_entry(&boot, entry, &mut out);
        }
        let slot = boot.fat_start.saturating_add(4 * u64::from(cluster));
        let next = view.exact(start.saturating_add(slot), 4)?.and_then(|raw| le32(&raw, 0));
        match next {
            Some(next) => cluster = next,
            None => break,
        }
    }
    Ok(Some(out))
}

/// 0x83 is the label, 0x81 the allocation bitmap.
fn root_entry(boot: &Boot, entry: &[u8; 32], out: &mut Filesystem) {
    match entry[0] {
        0x83 if out.label.is_none() => {
            let units = usize::from(entry[1]).min(11);
            out.label = label16(&entry[2..2 + 2 * units], u16::from_le_bytes);
        }
        0x81 if out.zones.iter().all(|zone| zone.kind != ZoneKind::Metadata) => {
            let at = le32(entry, 20).and_then(|cluster| boot.cluster_start(cluster));
            if let (Some(at), Some(len)) = (at, le64(entry, 24)) {
                out.zone(ZoneKind::Metadata, at, len.min(u64::from(boot.clusters).div_ceil(8)));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample;
    use super::*;

    #[test]
    fn label_bitmap_and_zones() {
        let image = sample::exfat();
        let bytes = Bytes(&image);
        let fs = identify(&View::new(&bytes), 0, &image).unwrap().unwrap();
        assert_eq!(fs.label.as_deref(), Some("exlabel"));
        assert_eq!(fs.uuid.as_deref(), Some("CAFE-BABE"));
        let kinds: Vec<ZoneKind> = fs.zones.iter().map(|z| z.kind).collect();
        assert_eq!(
            kinds,
            [
                ZoneKind::Superblock,
                ZoneKind::BackupSuperblock,
                ZoneKind::FatTable,
                ZoneKind::RootDirectory,
                ZoneKind::Metadata
            ]
        );
    }

    #[test]
    fn shifts_out_of_range_are_refused() {
        for (at, value) in [(108, 8), (108, 13), (109, 17), (110, 0), (110, 3)] {
            let mut image = sample::exfat();
            image[at] = value;
            assert!(Boot::parse(&image).is_none(), "byte {at} = {value}");
        }
    }
}
