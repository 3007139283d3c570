//! NTFS: boot sector, label, and where mounting leaves its marks.
//!
//! Owns: the zones of an NTFS volume. Layout: Linux fs/ntfs3/ntfs.h. A mount writes `$LogFile`
//! (MFT record 2) and the dirty flag in `$Volume` (record 3); the boot sector stays.

use std::io;

use super::super::bytes::{has, le16, le32, le64, u8_at};
use super::super::printable::label16;
use super::super::read::View;
use super::{Filesystem, FsKind, ZoneKind};

/// The first records of the MFT describe the volume itself.
const SYSTEM_RECORDS: u64 = 16;
const ATTRIBUTE_LIMIT: usize = 32;
const RUN_LIMIT: usize = 32;

struct Boot {
    cluster: u64,
    record: u64,
    mft: u64,
    mirror: u64,
    sector: u32,
    size: u64,
    serial: u64,
}

impl Boot {
    fn parse(raw: &[u8]) -> Option<Self> {
        if !has(raw, 3, b"NTFS    ") || !has(raw, 510, &[0x55, 0xAA]) {
            return None;
        }
        let sector = u32::from(le16(raw, 11)?);
        if !matches!(sector, 512 | 1024 | 2048 | 4096) {
            return None;
        }
        // Values above 0x80 are negative binary logarithms.
        let scaled = |value: u8, unit: u64| match value {
            0 => None,
            1..=0x80 => Some(u64::from(value) * unit),
            0x81.. => 1_u64.checked_shl(u32::from(value.wrapping_neg())),
        };
        let cluster = match u8_at(raw, 13)? {
            0 => return None,
            few @ 1..=0x80 => u64::from(few) * u64::from(sector),
            many => u64::from(sector) << many.wrapping_neg().min(12),
        };
        let record = scaled(u8_at(raw, 64)?, cluster).filter(|len| (256..=65_536).contains(len))?;
        Some(Self {
            cluster,
            record,
            mft: le64(raw, 48)?.checked_mul(cluster)?,
            mirror: le64(raw, 56)?.checked_mul(cluster)?,
            sector,
            // The last sector is the copy of the boot sector and not counted.
            size: le64(raw, 40)?.checked_add(1)?.checked_mul(u64::from(sector))?,
            serial: le64(raw, 72)?,
        })
    }
}

/// The value of the first attribute of a type: its header and what follows.
fn attribute(record: &[u8], kind: u32) -> Option<&[u8]> {
    if !has(record, 0, b"FILE") {
        return None;
    }
    let mut at = usize::from(le16(record, 20)?);
    for _ in 0..ATTRIBUTE_LIMIT {
        let len = usize::try_from(le32(record, at + 4)?).ok().filter(|&len| len >= 16)?;
        if le32(record, at)? == kind {
            return record.get(at..at.checked_add(len)?);
        }
        at = at.checked_add(len).filter(|&at| at < record.len())?;
    }
    None
}

/// The bytes of a resident attribute.
fn resident(attribute: &[u8]) -> Option<&[u8]> {
    if u8_at(attribute, 8)? != 0 {
        return None;
    }
    let len = usize::try_from(le32(attribute, 16)?).ok()?;
    let at = usize::from(le16(attribute, 20)?);
    attribute.get(at..at.checked_add(len)?)
}

/// Data runs of a non-resident attribute: (first cluster, clusters).
fn runs(attribute: &[u8]) -> Option<Vec<(u64, u64)>> {
    if u8_at(attribute, 8)? != 1 {
        return None;
    }
    let mut rest = attribute.get(usize::from(le16(attribute, 32)?)..)?;
    let mut out = Vec::new();
    let mut cluster: i64 = 0;
    for _ in 0..RUN_LIMIT {
        let (&head, tail) = rest.split_first()?;
        if head == 0 {
            break;
        }
        let (lengths, offsets) = (usize::from(head & 15), usize::from(head >> 4));
        let len = number(tail.get(..lengths)?, false)?;
        let step = number(tail.get(lengths..lengths + offsets)?, true)?;
        cluster = cluster.checked_add(step)?;
        out.push((u64::try_from(cluster).ok()?, u64::try_from(len).ok()?));
        rest = &tail[lengths + offsets..];
    }
    Some(out)
}

/// A little-endian number of up to 8 bytes.
fn number(bytes: &[u8], signed: bool) -> Option<i64> {
    let last = *bytes.last()?;
    let mut raw = [if signed && last & 0x80 != 0 { 0xFF } else { 0 }; 8];
    raw.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(raw))
}

pub(super) fn identify(view: &View<'_>, start: u64, head: &[u8]) -> io::Result<Option<Filesystem>> {
    let Some(boot) = Boot::parse(head) else {
        return Ok(None);
    };
    let mut out = Filesystem::new(FsKind::Ntfs);
    out.size_bytes = Some(boot.size);
    out.block = Some(boot.sector);
    out.uuid = (boot.serial != 0).then(|| format!("{:016X}", boot.serial));
    out.zone(ZoneKind::Superblock, 0, u64::from(boot.sector));
    out.zone(ZoneKind::Metadata, boot.mft, SYSTEM_RECORDS * boot.record);
    out.zone(ZoneKind::Metadata, boot.mirror, 4 * boot.record);
    let at = |index: u64| start.saturating_add(boot.mft).saturating_add(index * boot.record);
    let len = usize::try_from(boot.record).unwrap_or(0);
    if let Some(record) = view.exact(at(2), len)? {
        for (cluster, count) in attribute(&record, 0x80).and_then(runs).unwrap_or_default() {
            let place = cluster.checked_mul(boot.cluster).zip(count.checked_mul(boot.cluster));
            if let Some((at, len)) = place {
                out.zone(ZoneKind::Journal, at, len);
            }
        }
    }
    if let Some(record) = view.exact(at(3), len)? {
        let name = attribute(&record, 0x60).and_then(resident);
        out.label = name.and_then(|name| label16(name, u16::from_le_bytes));
    }
    if let Some(size) = out.size_bytes.and_then(|size| size.checked_sub(u64::from(boot.sector))) {
        out.zone(ZoneKind::BackupSuperblock, size, u64::from(boot.sector));
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample;
    use super::*;

    #[test]
    fn label_and_log_file() {
        let image = sample::ntfs();
        let bytes = Bytes(&image);
        let fs = identify(&View::new(&bytes), 0, &image).unwrap().unwrap();
        assert_eq!(fs.label.as_deref(), Some("ntlabel"));
        assert_eq!(fs.uuid.as_deref(), Some("0123456789ABCDEF"));
        let log = fs.zones.iter().find(|z| z.kind == ZoneKind::Journal).unwrap();
        assert_eq!(log.range, 0x20 * 4096..0x24 * 4096);
    }

    #[test]
    fn runs_may_go_backwards_but_not_below_zero() {
        // Type 0x80, non-resident, runs at 40.
        let mut attribute = vec![0_u8; 40];
        attribute[8] = 1;
        attribute[32] = 40;
        let with = |tail: &[u8]| [attribute.as_slice(), tail].concat();
        assert_eq!(runs(&with(&[0x11, 2, 0x40, 0x11, 1, 0xF0, 0])), Some(vec![(64, 2), (48, 1)]));
        assert_eq!(runs(&with(&[0x11, 2, 0x40, 0x11, 1, 0x80, 0])), None);
        assert_eq!(runs(&with(&[0xFF, 2])), None);
    }
}
