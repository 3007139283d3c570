//! UDF: recognition sequence, label, size.
//!
//! Owns: whether NSR02/NSR03 is in the volume recognition sequence, and what the volume
//! descriptors say. Must not walk directories: the composer of Windows media does. Specification:
//! ECMA-167 2/8 and 3/9.1 (recognition), 3/10 (descriptors), OSTA UDF 2.60 2.1.3 (dstring).

use std::io;

use super::super::bytes::{has, le16, le32};
use super::super::read::View;
use super::{Filesystem, FsKind, ZoneKind};
use crate::text::printable;

/// The recognition sequence starts here in every layout.
const SEQUENCE: u64 = 32 * 1024;
const SEQUENCE_LIMIT: u64 = 64;
const DESCRIPTOR_LIMIT: u64 = 64;

/// Places of the identifiers of the recognition sequence that are UDF's: (offset, name).
pub(crate) fn recognition(view: &View<'_>, start: u64) -> io::Result<Vec<(u64, [u8; 5])>> {
    let mut found: Vec<(u64, [u8; 5])> = Vec::new();
    let mut at = SEQUENCE;
    let mut step = 2048;
    for index in 0..SEQUENCE_LIMIT {
        let raw = view.some(start.saturating_add(at), 6)?;
        let Some(id) = raw.get(1..).and_then(|rest| rest.first_chunk::<5>().copied()) else {
            break;
        };
        match &id {
            b"CD001" | b"CDW02" | b"BOOT2" => {}
            b"BEA01" | b"NSR02" | b"NSR03" | b"TEA01" => found.push((at, id)),
            // With sectors of 4096 bytes the descriptors are that far apart.
            _ if index == 1 && step == 2048 => {
                step = 4096;
                at = SEQUENCE + step;
                continue;
            }
            _ => break,
        }
        at += step;
    }
    let nsr = found.iter().any(|(_, id)| matches!(id, b"NSR02" | b"NSR03"));
    Ok(if nsr { found } else { Vec::new() })
}

/// What the volume descriptor sequence tells.
#[derive(Debug, Default, PartialEq, Eq)]
struct Volume {
    label: Option<String>,
    /// End of the last partition, in bytes.
    end: u64,
    block: u32,
}

/// Follows the anchor at block 256 for every block size there is.
fn volume(view: &View<'_>, start: u64) -> io::Result<Option<Volume>> {
    for block in [2048_u32, 512, 4096, 1024] {
        let unit = u64::from(block);
        let raw = view.some(start.saturating_add(256 * unit), 512)?;
        if !tagged(&raw, 2, 256) {
            continue;
        }
        let (Some(len), Some(first)) = (le32(&raw, 16), le32(&raw, 20)) else {
            continue;
        };
        let count = (u64::from(len) / unit).min(DESCRIPTOR_LIMIT);
        let mut out = Volume { block, ..Volume::default() };
        for index in 0..count {
            let lba = u64::from(first) + index;
            let raw = view.some(start.saturating_add(lba * unit), 512)?;
            if descriptor(&raw, lba, unit, &mut out) {
                break;
            }
        }
        return Ok(Some(out));
    }
    Ok(None)
}

/// Folds one descriptor in; true at the terminator.
fn descriptor(raw: &[u8], lba: u64, unit: u64, out: &mut Volume) -> bool {
    if tagged(raw, 8, lba) {
        return true;
    }
    if tagged(raw, 6, lba) {
        out.label = raw.get(84..212).and_then(dstring);
    }
    if tagged(raw, 5, lba)
        && let (Some(first), Some(count)) = (le32(raw, 188), le32(raw, 192))
    {
        out.end = out.end.max((u64::from(first) + u64::from(count)) * unit);
    }
    false
}

/// A descriptor tag with its checksum and place (3/7.2).
fn tagged(raw: &[u8], kind: u16, lba: u64) -> bool {
    let Some(tag) = raw.first_chunk::<16>() else {
        return false;
    };
    let sum = tag.iter().enumerate().filter(|(i, _)| *i != 4);
    let sum = sum.fold(0_u8, |sum, (_, &b)| sum.wrapping_add(b));
    le16(tag, 0) == Some(kind) && tag[4] == sum && le32(tag, 12).map(u64::from) == Some(lba)
}

/// A string with its length in the last byte and 8 or 16 bits per character.
fn dstring(field: &[u8]) -> Option<String> {
    let (&len, body) = field.split_last()?;
    let used = body.get(..usize::from(len))?;
    let text: String = match used.split_first()? {
        (8, raw) => raw.iter().map(|&b| char::from(b)).collect(),
        (16, raw) => {
            let units = raw.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair));
            String::from_utf16_lossy(&units.collect::<Vec<_>>())
        }
        _ => return None,
    };
    let text = printable(text.trim_end_matches(['\0', ' ']));
    (!text.is_empty()).then_some(text)
}

pub(super) fn identify(view: &View<'_>, start: u64, head: &[u8]) -> io::Result<Option<Filesystem>> {
    // Cheap first look: the sequence has one of these at its start.
    let marks = [&b"CD001"[..], b"BEA01", b"NSR02", b"NSR03"];
    if !marks.iter().any(|mark| has(head, 0x8001, mark)) {
        return Ok(None);
    }
    if recognition(view, start)?.is_empty() {
        return Ok(None);
    }
    let mut out = Filesystem::new(FsKind::Udf);
    if let Some(volume) = volume(view, start)? {
        out.label = volume.label;
        out.block = Some(volume.block);
        out.size_bytes = Some(volume.end).filter(|&end| end > 0);
        // The integrity descriptor of a writable volume moves; the anchors do not change.
        out.zone(ZoneKind::Superblock, 256 * u64::from(volume.block), 512);
    }
    Ok(Some(out))
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample;
    use super::*;

    #[test]
    fn sequence_label_and_end() {
        for block in [2048, 512] {
            let image = sample::udf(block, "UdfLabel");
            let bytes = Bytes(&image);
            let fs = identify(&View::new(&bytes), 0, &image).unwrap().unwrap();
            assert_eq!(fs.label.as_deref(), Some("UdfLabel"), "block {block}");
            assert_eq!(fs.block, u32::try_from(block).ok());
            assert_eq!(fs.size_bytes, Some(image.len() as u64));
        }
    }

    #[test]
    fn strings_of_both_widths() {
        for (field, want) in [
            (&[8, b'a', b'b', 0, 3][..], Some("ab")),
            (&[16, 0, b'a', 0x20, 0xAC, 5], Some("a\u{20ac}")),
            (&[8, b'a', 200], None),
            (&[9, b'a', 2], None),
            (&[0], None),
        ] {
            assert_eq!(dstring(field).as_deref(), want);
        }
    }
}
