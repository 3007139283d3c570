//! A FAT32 volume, planned into memory: all its structures as bytes, and where each file begins.
//!
//! Owns: geometry, allocation, directories, both FATs. Files lie one behind the other, each in one
//! stretch, the directories before them. Must not know where the bytes of files come from.
//! Times are written as UTC: FAT has no zones.
//!
//! ```text
//! | boot sector, FSInfo, copies, room | FAT | FAT | directories | files .. | free |
//!   start of the partition                          ^ on a MiB of the device
//! ```

mod names;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use names::{Names, name_trouble};
pub use names::{Trouble, key, label};
pub(crate) use names::{UNITS, checksum};

const MIB: u64 = 1 << 20;
/// Most bytes of a cluster.
const CLUSTER: u64 = 32 << 10;
const ENTRY: u64 = 32;
const ENTRIES: u64 = 65_536;
/// Fewer clusters are FAT16, whatever the boot sector says.
const FEWEST: u64 = 65_525;
/// Fewer than this, and clusters are made smaller.
const ENOUGH: u64 = 70_000;
const MOST: u64 = 0x0FFF_FFF4;
const LAST: u32 = 0x0FFF_FFFF;

/// A file or a directory that goes onto the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From the root, with `/` between names.
    pub path: String,
    /// Length of a file; `None`: a directory.
    pub len: Option<u64>,
    /// Seconds since 1970, UTC.
    pub mtime: i64,
}

/// Where the volume lies and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Logical sector: 512 or 4096.
    pub sector: u32,
    /// Byte of the device where it begins, a multiple of a MiB.
    pub start: u64,
    /// Bytes it may take.
    pub len: u64,
    /// As [`label`] returns it.
    pub label: [u8; 11],
    /// Serial number.
    pub serial: u32,
}

/// A file that FAT cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its path, not escaped.
    pub path: String,
    /// Why.
    pub trouble: Trouble,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Files that FAT cannot hold.
    Problems(Vec<Problem>),
    /// The volume is too small for FAT32 itself, or has another shape than it can have.
    Geometry,
    /// The files do not fit.
    Full {
        /// Bytes in whole clusters.
        needed: u64,
        /// Bytes there are.
        had: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problems(problems) => {
                f.write_str("FAT32 cannot hold these files:")?;
                for problem in problems.iter().take(20) {
                    let path = crate::text::printable(&problem.path);
                    write!(f, "\n  {path}: {}", problem.trouble)?;
                }
                match problems.len().saturating_sub(20) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            Self::Geometry => f.write_str("the device is too small for a FAT32 volume"),
            Self::Full { needed, had } => {
                write!(f, "the files need {needed} bytes, the volume has {had}")
            }
        }
    }
}

/// What a stretch of the device is filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// These bytes.
    Bytes(Arc<[u8]>),
    /// So many zeros.
    Zeros(u64),
}

/// A planned volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Structures, by the byte of the device where they begin.
    pub structures: Vec<(u64, Fill)>,
    /// Byte of the device where each file begins, as entries were given; `None` for directories
    /// and empty files.
    pub files: Vec<Option<u64>>,
    /// Bytes of a cluster.
    pub cluster: u64,
    /// Clusters that are free.
    pub free: u32,
}

/// Parent and name of a path.
fn parts(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Every file that FAT cannot hold.
pub fn problems(entries: &[Entry]) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut seen: HashMap<(&str, String), &str> = HashMap::new();
    let directories: HashMap<&str, bool> =
        entries.iter().map(|entry| (entry.path.as_str(), entry.len.is_none())).collect();
    for entry in entries {
        let (parent, name) = parts(&entry.path);
        let other = seen.insert((parent, key(name)), &entry.path);
        let troubles = [
            name_trouble(name),
            // Its parent would be a folder without a name, which is not the root.
            entry.path.starts_with('/').then_some(Trouble::NoName),
            other.map(|other| Trouble::SameAs(other.to_owned())),
            entry.len.filter(|len| *len > u64::from(u32::MAX)).map(Trouble::TooLarge),
            (!parent.is_empty() && directories.get(parent) != Some(&true))
                .then_some(Trouble::NoDirectory),
        ];
        let path = &entry.path;
        out.extend(
            troubles.into_iter().flatten().map(|trouble| Problem { path: path.clone(), trouble }),
        );
    }
    out
}

/// Where everything of a volume lies, in sectors from its start.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    volume: Volume,
    sector: u64,
    sectors: u32,
    per_cluster: u8,
    reserved: u16,
    fat: u32,
    clusters: u32,
}

impl Geometry {
    fn new(volume: Volume) -> Option<Self> {
        let sector = u64::from(volume.sector);
        if !matches!(sector, 512 | 4096) || !volume.start.is_multiple_of(MIB) {
            return None;
        }
        let sectors = (volume.len / sector).min(u64::from(u32::MAX));
        let mut per_cluster = CLUSTER / sector;
        while per_cluster > 1 && sectors / per_cluster < ENOUGH {
            per_cluster /= 2;
        }
        let fat = ((sectors / per_cluster + 2) * 4).div_ceil(sector);
        // The first cluster is on a MiB of the device; the room before it is reserved.
        let reserved = (32 + 2 * fat).next_multiple_of(MIB / sector) - 2 * fat;
        let clusters = sectors.checked_sub(reserved + 2 * fat)? / per_cluster;
        (FEWEST..=MOST).contains(&clusters).then_some(())?;
        Some(Self {
            volume,
            sector,
            sectors: u32::try_from(sectors).ok()?,
            per_cluster: u8::try_from(per_cluster).ok()?,
            reserved: u16::try_from(reserved).ok()?,
            fat: u32::try_from(fat).ok()?,
            clusters: u32::try_from(clusters).ok()?,
        })
    }

    fn cluster(&self) -> u64 {
        u64::from(self.per_cluster) * self.sector
    }

    fn fat_at(&self, copy: u64) -> u64 {
        let sectors = u64::from(self.reserved) + copy * u64::from(self.fat);
        self.volume.start + sectors * self.sector
    }

    /// The byte of the device where a cluster begins.
    fn at(&self, cluster: u32) -> u64 {
        self.fat_at(2) + u64::from(cluster.saturating_sub(2)) * self.cluster()
    }
}

/// Directories with what is in them, and their names.
struct Folder<'a> {
    /// Index of its entry; `None`: the root.
    own: Option<usize>,
    parent: Option<&'a str>,
    children: Vec<usize>,
    names: Vec<Names>,
    first: u32,
}

impl Folder<'_> {
    fn entries(&self) -> u64 {
        let fixed = if self.own.is_some() { 2 } else { 1 };
        let long: u64 = self.names.iter().map(|names| names.long.len() as u64 / ENTRY).sum();
        fixed + long + self.names.len() as u64
    }
}

/// Plans a volume with these files. Their parents must be among them.
pub fn plan(entries: &[Entry], volume: Volume) -> Result<Layout, Refusal> {
    let mut problems = problems(entries);
    if !problems.is_empty() {
        return Err(Refusal::Problems(problems));
    }
    let geometry = Geometry::new(volume).ok_or(Refusal::Geometry)?;
    let (mut folders, index) = folders(entries);
    for folder in folders.iter().filter(|folder| folder.entries() > ENTRIES) {
        let path = folder.own.map_or("", |own| entries[own].path.as_str()).to_owned();
        problems.push(Problem { path, trouble: Trouble::TooMany(folder.entries()) });
    }
    if !problems.is_empty() {
        return Err(Refusal::Problems(problems));
    }
    let cluster = geometry.cluster();
    let clusters = |bytes: u64| bytes.div_ceil(cluster);
    let needed = folders.iter().map(|folder| clusters(folder.entries() * ENTRY)).sum::<u64>()
        + entries.iter().map(|entry| clusters(entry.len.unwrap_or(0))).sum::<u64>();
    if needed > u64::from(geometry.clusters) {
        let had = u64::from(geometry.clusters) * cluster;
        return Err(Refusal::Full { needed: needed * cluster, had });
    }
    let mut fat = Chains(vec![0x0FFF_FFF8, LAST]);
    for folder in &mut folders {
        folder.first = fat.take(clusters(folder.entries() * ENTRY));
    }
    let firsts: Vec<u32> = entries
        .iter()
        .map(|entry| match entry.len {
            Some(len) => fat.take(clusters(len)),
            None => index.get(entry.path.as_str()).map_or(0, |at| folders[*at].first),
        })
        .collect();
    let free = geometry.clusters - fat.next().saturating_sub(2);
    let mut structures = boot(&geometry, free, fat.next());
    structures.extend(fat.structures(&geometry));
    for folder in &folders {
        let parent = folder.parent.and_then(|parent| index.get(parent));
        // The root is cluster 0 to the folders in it.
        let up = parent.filter(|at| **at != 0).map_or(0, |at| folders[*at].first);
        let bytes = directory(folder, up, (entries, &firsts), &geometry);
        structures.push((geometry.at(folder.first), Fill::Bytes(bytes.into())));
    }
    let files = entries.iter().zip(&firsts);
    let files = files
        .map(|(entry, first)| entry.len.filter(|len| *len > 0).map(|_| geometry.at(*first)))
        .collect();
    Ok(Layout { structures, files, cluster, free })
}

/// The folders, the root first, and where each is in the list, by its path.
fn folders(entries: &[Entry]) -> (Vec<Folder<'_>>, HashMap<&str, usize>) {
    let root =
        Folder { own: None, parent: None, children: Vec::new(), names: Vec::new(), first: 0 };
    let mut out = vec![root];
    let mut index = HashMap::from([("", 0)]);
    for (own, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.len.is_none()) {
        index.insert(entry.path.as_str(), out.len());
        let parent = Some(parts(&entry.path).0);
        out.push(Folder {
            own: Some(own),
            parent,
            children: Vec::new(),
            names: Vec::new(),
            first: 0,
        });
    }
    for (child, entry) in entries.iter().enumerate() {
        if let Some(at) = index.get(parts(&entry.path).0) {
            out[*at].children.push(child);
        }
    }
    for folder in &mut out {
        let names: Vec<&str> =
            folder.children.iter().map(|child| parts(&entries[*child].path).1).collect();
        folder.names = names::assign(&names);
    }
    (out, index)
}

/// The FAT's used beginning.
struct Chains(Vec<u32>);

impl Chains {
    fn next(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(LAST)
    }

    /// The next `count` clusters, one behind the other; 0 for none.
    fn take(&mut self, count: u64) -> u32 {
        if count == 0 {
            return 0;
        }
        let first = self.next();
        for left in (0..count).rev() {
            let next = self.next().saturating_add(1);
            self.0.push(if left == 0 { LAST } else { next });
        }
        first
    }

    /// Both copies, with their zeros.
    fn structures(self, geometry: &Geometry) -> Vec<(u64, Fill)> {
        let bytes: Arc<[u8]> = self.0.into_iter().flat_map(u32::to_le_bytes).collect();
        let used = bytes.len() as u64;
        let zeros = (u64::from(geometry.fat) * geometry.sector).saturating_sub(used);
        let copies = [0, 1].map(|copy| {
            let at = geometry.fat_at(copy);
            [(at, Fill::Bytes(Arc::clone(&bytes))), (at + used, Fill::Zeros(zeros))]
        });
        copies.into_iter().flatten().collect()
    }
}

/// The reserved sectors: boot sector and FSInfo, twice, and zeros.
fn boot(geometry: &Geometry, free: u32, next: u32) -> Vec<(u64, Fill)> {
    let Geometry { volume, sector, .. } = *geometry;
    let mut boot = [0; 512];
    boot[..3].copy_from_slice(&[0xEB, 0x58, 0x90]);
    boot[3..11].copy_from_slice(b"MSWIN4.1");
    boot[11..13].copy_from_slice(&u16::try_from(sector).unwrap_or(0).to_le_bytes());
    boot[13] = geometry.per_cluster;
    boot[14..16].copy_from_slice(&geometry.reserved.to_le_bytes());
    boot[16] = 2;
    boot[21] = 0xF8;
    boot[24..26].copy_from_slice(&63_u16.to_le_bytes());
    boot[26..28].copy_from_slice(&255_u16.to_le_bytes());
    let hidden = u32::try_from(volume.start / sector).unwrap_or(0);
    boot[28..32].copy_from_slice(&hidden.to_le_bytes());
    boot[32..36].copy_from_slice(&geometry.sectors.to_le_bytes());
    boot[36..40].copy_from_slice(&geometry.fat.to_le_bytes());
    boot[44] = 2;
    boot[48] = 1;
    boot[50] = 6;
    boot[64] = 0x80;
    boot[66] = 0x29;
    boot[67..71].copy_from_slice(&volume.serial.to_le_bytes());
    boot[71..82].copy_from_slice(&volume.label);
    boot[82..90].copy_from_slice(b"FAT32   ");
    // int 18h: nothing to boot here; then stop.
    boot[90..94].copy_from_slice(&[0xCD, 0x18, 0xEB, 0xFE]);
    boot[510..].copy_from_slice(&[0x55, 0xAA]);
    let mut info = [0; 512];
    info[..4].copy_from_slice(b"RRaA");
    info[484..488].copy_from_slice(b"rrAa");
    info[488..492].copy_from_slice(&free.to_le_bytes());
    info[492..496].copy_from_slice(&next.to_le_bytes());
    info[510..].copy_from_slice(&[0x55, 0xAA]);
    let unit = usize::try_from(sector).unwrap_or(512);
    let mut bytes = vec![0; unit * 8];
    for copy in [0, 6] {
        bytes[copy * unit..copy * unit + 512].copy_from_slice(&boot);
        bytes[(copy + 1) * unit..(copy + 1) * unit + 512].copy_from_slice(&info);
    }
    let used = bytes.len() as u64;
    let rest = u64::from(geometry.reserved) * sector - used;
    vec![(volume.start, Fill::Bytes(bytes.into())), (volume.start + used, Fill::Zeros(rest))]
}

/// The bytes of a directory, whole clusters.
fn directory(
    folder: &Folder<'_>,
    up: u32,
    (entries, firsts): (&[Entry], &[u32]),
    geometry: &Geometry,
) -> Vec<u8> {
    let mut out = Vec::new();
    match folder.own {
        Some(own) => {
            let time = entries[own].mtime;
            out.extend(record(b".          ", 0x10, (folder.first, 0), time));
            out.extend(record(b"..         ", 0x10, (up, 0), time));
        }
        None => out.extend(record(&geometry.volume.label, 8, (0, 0), 0)),
    }
    for (child, names) in folder.children.iter().zip(&folder.names) {
        let entry = &entries[*child];
        out.extend(&names.long);
        let len = u32::try_from(entry.len.unwrap_or(0)).unwrap_or(u32::MAX);
        let attributes = if entry.len.is_some() { 0x20 } else { 0x10 };
        out.extend(record(&names.short, attributes, (firsts[*child], len), entry.mtime));
    }
    let cluster = usize::try_from(geometry.cluster()).unwrap_or(512);
    out.resize(out.len().next_multiple_of(cluster), 0);
    out
}

fn record(short: &[u8; 11], attributes: u8, (first, len): (u32, u32), mtime: i64) -> [u8; 32] {
    let (date, time) = stamp(mtime);
    let mut out = [0; 32];
    out[..11].copy_from_slice(short);
    out[11] = attributes;
    out[14..16].copy_from_slice(&time.to_le_bytes());
    for at in [16, 18, 24] {
        out[at..at + 2].copy_from_slice(&date.to_le_bytes());
    }
    let first = first.to_le_bytes();
    out[20..22].copy_from_slice(&first[2..]);
    out[22..24].copy_from_slice(&time.to_le_bytes());
    out[26..28].copy_from_slice(&first[..2]);
    out[28..].copy_from_slice(&len.to_le_bytes());
    out
}

/// Date and time as FAT has them: from 1980 to 2107, two seconds apart.
fn stamp(unix: i64) -> (u16, u16) {
    // 1980-01-01 and 2108-01-01.
    let unix = unix.clamp(315_532_800, 4_354_819_198);
    let (days, seconds) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // Days since 0000-03-01; years begin in March here, so that a leap day is the last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let date = ((year - 1980) << 9) | (month << 5) | day;
    let time = ((seconds / 3600) << 11) | ((seconds / 60 % 60) << 5) | (seconds % 60 / 2);
    (u16::try_from(date).unwrap_or(0x21), u16::try_from(time).unwrap_or(0))
}

#[cfg(test)]
mod tests;
