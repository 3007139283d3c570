//! ISO 9660 with Joliet and El Torito: volume descriptors, root directory, boot catalogue.
//!
//! Owns: [`IsoVolume`]. Must not know whether the image also has a partition table.
//! Specification: ECMA-119 (8.4 primary descriptor, 9.1 directory record), Joliet
//! Specification 1995 (UCS-2, big endian), El Torito 1.0 (validation entry, section headers).

use std::io;
use std::ops::Range;

use super::super::bytes::{has, le16, le32, u8_at};
use super::super::printable::{label, label16};
use super::super::read::View;
use super::{Filesystem, FsKind};

const SECTOR: u64 = 2048;
/// Volume descriptors start here and end with a terminator; ECMA-119 sets no limit.
pub(crate) const DESCRIPTORS: u64 = 16 * SECTOR;
const DESCRIPTOR_LIMIT: u64 = 32;
const DIRECTORY_LIMIT: u32 = 1 << 20;
const NAME_LIMIT: usize = 16_384;
/// Folders in folders; ECMA-119 allows eight levels, Rock Ridge more.
const DEPTH_LIMIT: u32 = 16;

/// One entry of the El Torito catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CdBoot {
    /// 0 is 80x86 (BIOS), 0xEF is UEFI.
    pub(crate) platform: u8,
    /// Where the boot image is, in bytes from the volume's start.
    pub(crate) at_bytes: u64,
}

/// A directory's extent and how its names are spelled.
#[derive(Debug, Clone, Copy)]
struct Root {
    at: u64,
    len: u32,
    joliet: bool,
}

/// An ISO 9660 volume.
#[derive(Debug, Clone)]
pub(crate) struct IsoVolume {
    pub(crate) label: Option<String>,
    pub(crate) uuid: Option<String>,
    /// By the primary descriptor. A Windows disc has a stub here that says almost nothing.
    pub(crate) size: u64,
    pub(crate) boot: Vec<CdBoot>,
    start: u64,
    roots: Vec<Root>,
}

impl IsoVolume {
    /// Reads the volume whose system area begins at `start`.
    pub(crate) fn read(view: &View<'_>, start: u64) -> io::Result<Option<Self>> {
        let mut out: Option<Self> = None;
        let (mut joliet_label, mut catalogue) = (None, None);
        for index in 0..DESCRIPTOR_LIMIT {
            let at = start.saturating_add(DESCRIPTORS + index * SECTOR);
            let Some(raw) = view.exact(at, 2048)? else {
                break;
            };
            if !has(&raw, 1, b"CD001") {
                break;
            }
            match (raw[0], &mut out) {
                (255, _) => break,
                (0, _) if has(&raw, 7, b"EL TORITO SPECIFICATION") => {
                    catalogue = le32(&raw, 71);
                }
                (1, None) => out = primary(&raw, start),
                (2, Some(volume)) if is_joliet(&raw) => {
                    joliet_label =
                        raw.get(40..72).and_then(|field| label16(field, u16::from_be_bytes));
                    volume.roots.extend(root(&raw, true));
                }
                _ => {}
            }
        }
        let Some(mut volume) = out else {
            return Ok(None);
        };
        volume.label = better_label(volume.label, joliet_label);
        if let Some(lba) = catalogue {
            let at = start.saturating_add(u64::from(lba) * SECTOR);
            volume.boot = view.exact(at, 2048)?.map(|raw| boot_catalogue(&raw)).unwrap_or_default();
        }
        Ok(Some(volume))
    }

    /// Whether any of the trees has `path`, case ignored.
    pub(crate) fn has(&self, view: &View<'_>, path: &[&str]) -> io::Result<bool> {
        for root in &self.roots {
            let mut at = Some(*root);
            for name in path {
                at = match at {
                    Some(directory) => self.find(view, directory, name)?,
                    None => None,
                };
            }
            if at.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Names and extents of the files in all folders, the better-named tree where there are two.
    /// Bounded: an image may describe a tree without end.
    pub(crate) fn files(&self, view: &View<'_>) -> io::Result<Vec<(String, Range<u64>)>> {
        let mut files: Vec<(String, Range<u64>)> = Vec::new();
        // Joliet has whole names.
        let tree = self.roots.iter().find(|root| root.joliet).or_else(|| self.roots.first());
        let mut folders: Vec<(Root, u32)> = tree.map(|root| (*root, 0)).into_iter().collect();
        let mut left = NAME_LIMIT;
        while let Some((folder, depth)) = folders.pop() {
            let at = self.start.saturating_add(folder.at.saturating_mul(SECTOR));
            let len = usize::try_from(folder.len.min(DIRECTORY_LIMIT)).unwrap_or(0);
            let bytes = view.some(at, len)?;
            for record in records(&bytes) {
                let (Some(name), Some(extent)) =
                    (record_name(record, folder.joliet), extent(record, folder.joliet))
                else {
                    continue;
                };
                left = left.saturating_sub(1);
                // The entries for the folder itself and its parent are one byte, 0 and 1 (6.8.2.2).
                let own = record.get(32) == Some(&1) && matches!(record.get(33), Some(0 | 1));
                if own || left == 0 {
                    continue;
                }
                // Bit 1 of the file flags: a directory (9.1.6).
                if u8_at(record, 25).is_some_and(|flags| flags & 2 != 0) {
                    if depth < DEPTH_LIMIT {
                        folders.push((extent, depth + 1));
                    }
                } else {
                    let start = self.start.saturating_add(extent.at.saturating_mul(SECTOR));
                    let end = start.saturating_add(u64::from(extent.len));
                    match files.last_mut() {
                        // A file over 4 GiB has several records, one behind the other (6.5.1).
                        Some((last, range)) if *last == name && range.end == start => {
                            range.end = end;
                        }
                        _ => files.push((name, start..end)),
                    }
                }
            }
        }
        Ok(files)
    }

    /// The root folders of all trees, Joliet's first.
    pub(crate) fn trees(&self) -> impl Iterator<Item = Folder> {
        let joliet = self.roots.iter().filter(|root| root.joliet);
        let roots = joliet.chain(self.roots.iter().filter(|root| !root.joliet));
        roots.map(|root| Folder { root: *root, start: self.start })
    }

    fn find(&self, view: &View<'_>, directory: Root, name: &str) -> io::Result<Option<Root>> {
        let at = self.start.saturating_add(directory.at.saturating_mul(SECTOR));
        let len = usize::try_from(directory.len.min(DIRECTORY_LIMIT)).unwrap_or(0);
        let bytes = view.some(at, len)?;
        let found = records(&bytes).take(NAME_LIMIT).find(|record| {
            record_name(record, directory.joliet).is_some_and(|n| n.eq_ignore_ascii_case(name))
        });
        Ok(found.and_then(|record| extent(record, directory.joliet)))
    }
}

/// A folder, for those who walk a tree themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folder {
    root: Root,
    start: u64,
}

/// What a folder lists.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// Not escaped.
    pub(crate) name: String,
    /// Set when it is a folder.
    pub(crate) folder: Option<Folder>,
    /// Its bytes in the image.
    pub(crate) extent: Range<u64>,
    /// Whether the next record has more bytes of the same file (9.1.6, bit 7).
    pub(crate) more: bool,
    /// Seconds since 1970, UTC.
    pub(crate) mtime: i64,
}

impl Folder {
    /// The byte where it is.
    pub(crate) fn at(&self) -> u64 {
        self.start.saturating_add(self.root.at.saturating_mul(SECTOR))
    }

    /// Everything in it, up to 16 MiB of records; itself and its parent are left out.
    pub(crate) fn list(&self, view: &View<'_>) -> io::Result<Vec<Listed>> {
        let len = usize::try_from(self.root.len.min(16 << 20)).unwrap_or(0);
        let bytes = view.some(self.at(), len)?;
        let listed = records(&bytes).filter(|record| {
            // Associated files (bit 2) are not for us.
            let own = record.get(32) == Some(&1) && matches!(record.get(33), Some(0 | 1));
            !own && u8_at(record, 25).is_some_and(|flags| flags & 4 == 0)
        });
        Ok(listed.filter_map(|record| self.listed(record)).collect())
    }

    fn listed(&self, record: &[u8]) -> Option<Listed> {
        let root = extent(record, self.root.joliet)?;
        let folder = Self { root, start: self.start };
        let flags = u8_at(record, 25)?;
        let at = folder.at();
        Some(Listed {
            name: raw_name(record, self.root.joliet)?,
            extent: at..at.saturating_add(u64::from(root.len)),
            folder: (flags & 2 != 0).then_some(folder),
            more: flags & 0x80 != 0,
            mtime: record_time(record.get(18..25)?),
        })
    }
}

/// A name as it is, without version; code units that are no text become U+FFFD.
fn raw_name(record: &[u8], joliet: bool) -> Option<String> {
    let len = usize::from(u8_at(record, 32)?);
    let raw = record.get(33..33 + len)?;
    let text: String = if joliet {
        let units = raw.as_chunks::<2>().0.iter().map(|pair| u16::from_be_bytes(*pair));
        char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    } else {
        raw.iter().map(|&b| char::from(b)).collect()
    };
    let text = text.split_once(';').map_or(text.as_str(), |(stem, _version)| stem);
    // Without extension, ISO 9660 has a dot all the same.
    Some(if joliet { text } else { text.trim_end_matches('.') }.to_owned())
}

/// Seven bytes (9.1.5): years since 1900, month, day, hour, minute, second, quarters of an hour
/// from UTC.
fn record_time(raw: &[u8]) -> i64 {
    let &[year, month, day, hour, minute, second, zone] = raw else { return 0 };
    let [month, day] = [i64::from(month), i64::from(day)];
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return 0;
    }
    // Days since 1970-01-01; years begin in March here, so that a leap day is the last.
    let year = 1900 + i64::from(year) - i64::from(month <= 2);
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468;
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    days * 86_400 + seconds - i64::from(zone.cast_signed()) * 900
}

fn primary(raw: &[u8], start: u64) -> Option<IsoVolume> {
    let block = le16(raw, 128).filter(|&block| matches!(block, 512 | 1024 | 2048))?;
    // The modification date (8.4.27), else the creation date; sixteen digits each.
    let date = [830, 813].into_iter().find_map(|at| {
        let digits = raw.get(at..at + 16)?;
        let text = std::str::from_utf8(digits).ok()?;
        let set = text.bytes().all(|b| b.is_ascii_digit()) && text.bytes().any(|b| b != b'0');
        set.then(|| {
            let cuts = [0, 4, 6, 8, 10, 12, 14, 16];
            cuts.windows(2).map(|w| &text[w[0]..w[1]]).collect::<Vec<_>>().join("-")
        })
    });
    Some(IsoVolume {
        label: raw.get(40..72).and_then(label),
        uuid: date,
        size: u64::from(le32(raw, 80)?) * u64::from(block),
        boot: Vec::new(),
        start,
        roots: root(raw, false).into_iter().collect(),
    })
}

fn is_joliet(raw: &[u8]) -> bool {
    [b"%/@", b"%/C", b"%/E"].iter().any(|escape| has(raw, 88, *escape))
}

/// The root directory record of a descriptor (8.4.18).
fn root(raw: &[u8], joliet: bool) -> Option<Root> {
    extent(raw.get(156..190)?, joliet)
}

fn extent(record: &[u8], joliet: bool) -> Option<Root> {
    Some(Root { at: u64::from(le32(record, 2)?), len: le32(record, 10)?, joliet })
}

/// Directory records; a zero length means the rest of the sector is empty (6.8.1.1).
fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let sectors = bytes.chunks(2048);
    sectors.flat_map(|sector| {
        let mut at = 0;
        std::iter::from_fn(move || {
            let len = usize::from(u8_at(sector, at)?);
            let record = sector.get(at..at + len).filter(|_| len >= 34)?;
            at += len;
            Some(record)
        })
    })
}

fn record_name(record: &[u8], joliet: bool) -> Option<String> {
    let len = usize::from(u8_at(record, 32)?);
    let raw = record.get(33..33 + len)?;
    let text = if joliet {
        label16(raw, u16::from_be_bytes)?
    } else {
        raw.iter().map(|&b| char::from(b)).collect()
    };
    let text = text.split_once(';').map_or(text.as_str(), |(stem, _version)| stem);
    Some(text.trim_end_matches('.').to_owned())
}

/// Joliet keeps case but only 16 characters: it wins when it says the same and no less.
fn better_label(primary: Option<String>, joliet: Option<String>) -> Option<String> {
    match (primary, joliet) {
        (Some(primary), Some(joliet)) => {
            let same = joliet.to_lowercase().starts_with(&primary.to_lowercase());
            Some(if same { joliet } else { primary })
        }
        (primary, joliet) => primary.or(joliet),
    }
}

/// Bootable entries of one catalogue sector.
fn boot_catalogue(raw: &[u8]) -> Vec<CdBoot> {
    let words = raw.get(..32).unwrap_or_default().as_chunks::<2>().0;
    let sum = words.iter().fold(0_u16, |sum, pair| sum.wrapping_add(u16::from_le_bytes(*pair)));
    if u8_at(raw, 0) != Some(1) || sum != 0 || !has(raw, 30, &[0x55, 0xAA]) {
        return Vec::new();
    }
    let mut platform = raw[1];
    let mut out = Vec::new();
    for entry in raw.as_chunks::<32>().0.iter().skip(1) {
        match entry[0] {
            0x90 | 0x91 => platform = entry[1],
            0x88 => out.extend(
                le32(entry, 8).map(|lba| CdBoot { platform, at_bytes: u64::from(lba) * SECTOR }),
            ),
            _ => {}
        }
    }
    out
}

pub(super) fn identify(view: &View<'_>, start: u64) -> io::Result<Option<Filesystem>> {
    Ok(IsoVolume::read(view, start)?.map(|volume| {
        let mut out = Filesystem::new(FsKind::Iso9660);
        out.label = volume.label;
        out.uuid = volume.uuid;
        out.size_bytes = Some(volume.size);
        out.block = Some(2048);
        out
    }))
}

#[cfg(test)]
mod tests {
    use super::super::super::read::Bytes;
    use super::super::super::sample;
    use super::*;

    #[test]
    fn label_size_catalogue_and_names() {
        let image = sample::iso(&["BOOTMGR.;1", "SOURCES"]);
        let bytes = Bytes(&image);
        let view = View::new(&bytes);
        let volume = IsoVolume::read(&view, 0).unwrap().unwrap();
        assert_eq!(volume.label.as_deref(), Some("SAMPLE_CD"));
        assert_eq!(volume.size, image.len() as u64);
        let platforms: Vec<u8> = volume.boot.iter().map(|b| b.platform).collect();
        assert_eq!(platforms, [0, 0xEF]);
        assert!(volume.has(&view, &["bootmgr"]).unwrap());
        assert!(!volume.has(&view, &["sources", "boot.wim"]).unwrap());
        assert!(!volume.has(&view, &["nothing"]).unwrap());
    }

    #[test]
    fn labels_prefer_joliet_only_when_it_says_the_same() {
        let some = |text: &str| Some(text.to_owned());
        for (primary, joliet, want) in [
            (some("UBUNTU_24"), some("Ubuntu_24"), some("Ubuntu_24")),
            (some("DEBIAN"), some("other"), some("DEBIAN")),
            (some("Debian 12 amd64 n"), some("Debian 12 amd64"), some("Debian 12 amd64 n")),
            (None, some("Only"), some("Only")),
            (some("ONLY"), None, some("ONLY")),
        ] {
            assert_eq!(better_label(primary, joliet), want);
        }
    }

    #[test]
    fn times_of_records_have_a_zone() {
        for (raw, want) in [
            ([70, 1, 1, 0, 0, 0, 0], 0),
            ([120, 9, 13, 12, 26, 40, 0], 1_600_000_000),
            ([120, 9, 13, 14, 26, 40, 8], 1_600_000_000),
            ([124, 2, 29, 23, 59, 59, 0], 1_709_251_199),
            ([124, 13, 1, 0, 0, 0, 0], 0),
        ] {
            assert_eq!(record_time(&raw), want);
        }
    }

    #[test]
    fn a_catalogue_with_a_wrong_sum_is_empty() {
        let mut raw = vec![0_u8; 2048];
        raw[0] = 1;
        raw[30..32].copy_from_slice(&[0x55, 0xAA]);
        raw[32] = 0x88;
        assert!(boot_catalogue(&raw).is_empty());
        raw[28..30].copy_from_slice(&(0_u16.wrapping_sub(0xAA55 + 1)).to_le_bytes());
        assert_eq!(boot_catalogue(&raw).len(), 1);
    }
}
