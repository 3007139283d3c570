//! Any tree of files on any volume: a plan has no overlaps, lies within the volume, and a reader
//! that knows nothing of it finds each file under its name, at its place.
#![no_main]

use std::collections::{BTreeMap, HashMap};
use std::io;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use mediawriter::image::ReadAt;
use mediawriter::windows::check;
use mediawriter::windows::fat32::{Entry, Fill, Layout, Volume, label, plan};

/// Parts of names that meet each other, cut each other's short names, or are forbidden.
#[derive(Arbitrary, Clone, Debug)]
enum Piece {
    Common(u8),
    Many(u8),
    Any(char),
    Text(String),
}

const COMMON: [&str; 16] = [
    "a",
    "A",
    "LONG NAME",
    "long name",
    "~1",
    "~2",
    ".",
    "TXT",
    "x.y",
    " ",
    "\u{e9}",
    "\u{df}",
    "\u{130}",
    "\u{1f4be}",
    "CON",
    "~999999",
];

impl Piece {
    fn text(self) -> String {
        match self {
            Self::Common(which) => COMMON[usize::from(which) % COMMON.len()].to_owned(),
            Self::Many(count) => "M".repeat(usize::from(count)),
            Self::Any(c) => c.to_string(),
            Self::Text(text) => text,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Item {
    /// Which folder of those before it; the root is one of them.
    folder: u8,
    name: Vec<Piece>,
    len: Option<Len>,
    mtime: i64,
    /// Files of the same kind, numbered.
    more: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Len {
    Small(u16),
    Medium(u32),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
struct Input {
    large_sectors: bool,
    start: u16,
    /// In units of 64 KiB, and some bytes.
    units: u32,
    rest: u16,
    label: String,
    serial: u32,
    items: Vec<Item>,
}

fn entries(items: Vec<Item>) -> Vec<Entry> {
    let (mut folders, mut out) = (vec![String::new()], Vec::new());
    for item in items.into_iter().take(300) {
        let folder = &folders[usize::from(item.folder) % folders.len()];
        let name: String = item.name.into_iter().take(6).map(Piece::text).collect();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let len = item.len.map(|len| match len {
            Len::Small(len) => len.into(),
            Len::Medium(len) => len.into(),
            Len::Any(len) => len,
        });
        if len.is_none() {
            folders.push(path.clone());
        }
        for number in 1..=item.more.checked_mul(2).unwrap_or(0) {
            out.push(Entry { path: format!("{path}{number}"), len: Some(1), mtime: 0 });
        }
        out.push(Entry { path, len, mtime: item.mtime });
    }
    out
}

/// The planned volume, of which files have no bytes.
struct Medium<'a> {
    structures: BTreeMap<u64, &'a Fill>,
    size: u64,
}

impl ReadAt for Medium<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(room);
        let buf = &mut buf[..len];
        buf.fill(0);
        for (at, fill) in self.structures.range(..offset.saturating_add(len as u64)).rev() {
            let Fill::Bytes(bytes) = fill else { continue };
            let end = at + bytes.len() as u64;
            let (from, to) = (offset.max(*at), end.min(offset + len as u64));
            if from < to {
                let (there, here) = ((from - at) as usize, (from - offset) as usize);
                let n = (to - from) as usize;
                buf[here..here + n].copy_from_slice(&bytes[there..there + n]);
            }
        }
        Ok(len)
    }

    fn size(&self) -> Option<u64> {
        Some(self.size)
    }
}

fn fill_len(fill: &Fill) -> u64 {
    match fill {
        Fill::Bytes(bytes) => bytes.len() as u64,
        Fill::Zeros(len) => *len,
    }
}

fn apart(layout: &Layout, entries: &[Entry], volume: Volume) {
    let structures = layout.structures.iter().map(|(at, fill)| (*at, fill_len(fill)));
    let files = layout.files.iter().zip(entries);
    let files = files.filter_map(|(at, entry)| Some(((*at)?, entry.len?)));
    let mut all: Vec<_> = structures.chain(files).filter(|(_, len)| *len > 0).collect();
    all.sort_unstable();
    let mut end = volume.start;
    for (at, len) in all {
        assert!(at >= end, "{at} comes before {end}");
        end = at + len;
    }
    assert!(end <= volume.start + volume.len);
    for at in layout.files.iter().flatten() {
        assert_eq!((at - volume.start) % u64::from(volume.sector), 0);
    }
}

fuzz_target!(|input: Input| {
    let (label, _) = label(&input.label);
    let len = u64::from(input.units) * (64 << 10) + u64::from(input.rest);
    let volume = Volume {
        sector: if input.large_sectors { 4096 } else { 512 },
        start: u64::from(input.start) << 20,
        // A FAT of 64 MiB and less is what there is time for.
        len: len % (512 << 30),
        label,
        serial: input.serial,
    };
    let entries = entries(input.items);
    // The used beginning of both FATs is in memory.
    if entries.iter().filter_map(|e| e.len).fold(0, u64::saturating_add) > 64 << 30 {
        return;
    }
    let Ok(layout) = plan(&entries, volume) else { return };
    assert_eq!(layout.files.len(), entries.len());
    apart(&layout, &entries, volume);
    let structures = layout.structures.iter().map(|(at, fill)| (*at, fill)).collect();
    let medium = Medium { structures, size: volume.start + volume.len };
    let read = check::Volume::open(&medium, volume.start).expect("memory can be read");
    let read = read.expect("it is FAT32");
    let (found, damage) = read.list();
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(found.len(), entries.len());
    let found: HashMap<_, _> = found.iter().map(|file| (file.path.as_str(), file)).collect();
    for (entry, at) in entries.iter().zip(&layout.files) {
        let file = found[entry.path.as_str()];
        assert_eq!(file.folder, entry.len.is_none(), "{entry:?}");
        let Some(len) = entry.len else { continue };
        assert_eq!(file.len, len, "{entry:?}");
        let runs = read.runs(file.first, len);
        let wanted: Vec<_> = at.iter().map(|at| (*at, len)).collect();
        assert_eq!(runs, wanted, "{entry:?}");
    }
});
