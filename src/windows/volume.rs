//! A stick with NTFS: table, a volume that others filled, and the image that boots it.
//!
//! Owns: what goes into the volume, and the image of the stick once there is one. Must not write:
//! whoever fills the volume is given the files ([`Draft::files`]).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::check::Report;
use super::compose::{
    self, Added, Content, Extent, Item, Options, Plan, Written, new_bytes, sorted, with_added,
};
use super::fat32;
use super::ntfs::{Volume, Wanted};
use super::stamp::{self, Stamp};
use super::table::{self, Layout};
use super::tree::{Disc, DiscFile};
use crate::digest::Hasher;
use crate::error::{Context as _, Error, Kind, Result};
use crate::image::{Bytes, FatWidth, FileImage, ReadAt, inspect};
use crate::text::{printable, printable_path};

/// Images that boot NTFS have 1 MiB.
pub const MOST_BOOT: u64 = 32 << 20;
/// Characters of an NTFS label.
const LABEL: usize = 32;
/// Bytes of a cluster, and of a record of the MFT.
const CLUSTER: u64 = 4096;
const RECORD: u64 = 1024;

/// A FAT image whose program starts what is on an NTFS partition: UEFI:NTFS.
#[derive(Clone, Debug)]
pub struct BootImage {
    bytes: Arc<[u8]>,
    /// Architectures that it has a program for: `x64`, `aa64`, ...
    pub archs: Vec<&'static str>,
    /// FAT12, FAT16 or FAT32.
    pub width: FatWidth,
}

impl BootImage {
    /// Looks at the bytes of a file, for a medium with sectors of this size.
    pub fn new(bytes: Vec<u8>, name: &str, sector: u32) -> Result<Self> {
        let wrong = |why: String| {
            Error::refused(format!("{name} is no image that boots NTFS: {why}")).hint(
                "--uefi-ntfs takes uefi-ntfs.img of https://github.com/pbatard/rufus (in res/uefi)",
            )
        };
        let len = bytes.len() as u64;
        let info = inspect(&Bytes(&bytes), name).context(|| format!("cannot look into {name}"))?;
        let fat = info.filesystem.and_then(|filesystem| filesystem.fat);
        let fat = fat.ok_or_else(|| wrong(format!("it is {}, not FAT", info.kind)))?;
        if fat.size > len {
            return Err(wrong(format!("it is cut short, {len} bytes of {}", fat.size)));
        }
        if info.boot.uefi_archs.is_empty() {
            return Err(wrong("it has no EFI/BOOT/BOOT*.EFI".to_owned()));
        }
        if fat.sector != sector {
            return Err(Error::refused(format!(
                "{name} is made for sectors of {} bytes, the target has {sector}: firmware would not find it",
                fat.sector
            ))
            .hint(format!("use a target with sectors of {} bytes, or FAT32", fat.sector)));
        }
        Ok(Self { bytes: bytes.into(), archs: info.boot.uefi_archs, width: fat.width })
    }

    /// What a stick keeps of it.
    fn stamp(&self) -> stamp::Boot {
        let mut hasher = Hasher::default();
        hasher.update(&self.bytes);
        stamp::Boot { len: self.bytes.len() as u64, sha256: hasher.finish() }
    }
}

/// The label as NTFS takes it.
pub fn label(wanted: &str) -> String {
    let mut units = 0;
    let fits = |c: &char| {
        units += c.len_utf16();
        units <= LABEL
    };
    wanted.chars().filter(|c| !c.is_control()).take_while(fits).collect()
}

/// A file or a folder on its way into the volume.
#[derive(Debug)]
pub struct Filled<'a> {
    /// From the root, with `/` between names.
    pub path: &'a str,
    /// Seconds since 1970, UTC.
    pub mtime: i64,
    /// Length of a file; `None`: a folder.
    pub len: Option<u64>,
    content: Option<&'a Content>,
}

/// A stick whose volume is still to be filled.
#[derive(Debug)]
pub struct Draft {
    disc: Arc<dyn Disc>,
    items: Vec<Item>,
    hosts: Vec<(PathBuf, u64)>,
    notes: Vec<String>,
    layout: Layout,
    boot: BootImage,
    options: Options,
}

/// Plans a stick with the files of `disc`, as they are, and those that are added.
pub fn draft(
    disc: Arc<dyn Disc>,
    added: &[Added],
    options: Options,
    boot: BootImage,
) -> Result<Draft> {
    let of_disc = disc.nodes().iter().enumerate();
    let items = of_disc.map(|(file, node)| Item::of_disc(file, node)).collect();
    let mut notes = Vec::new();
    let (items, hosts) = with_added(items, added, &mut notes)?;
    names(&items)?;
    let device = options.device;
    let layout = table::with_boot(options.table, device, options.seed, boot.bytes.len() as u64);
    let layout = layout.ok_or_else(|| {
        Error::refused(format!("{} bytes are too few for a Windows stick", device.size))
            .hint("use a larger stick")
    })?;
    let draft = Draft { disc, items, hosts, notes, layout, boot, options };
    let (needed, had) = (draft.needed(), draft.layout.len);
    if needed > had {
        return Err(Error::refused(format!(
            "the files need {needed} bytes of NTFS, the volume has {had}"
        ))
        .hint("use a larger stick"));
    }
    Ok(draft)
}

/// Windows takes the same names on NTFS as on FAT; ntfs-3g would take more.
fn names(items: &[Item]) -> Result<()> {
    use fat32::Trouble::{TooLarge, TooMany};
    let entries: Vec<_> = items.iter().map(Item::entry).collect();
    let mut problems = fat32::problems(&entries);
    problems.retain(|problem| !matches!(problem.trouble, TooLarge(_) | TooMany(_)));
    if problems.is_empty() {
        return Ok(());
    }
    let refusal = fat32::Refusal::Problems(problems).to_string();
    Err(Error::refused(refusal.replace("FAT32", "Windows")))
}

impl Draft {
    /// Byte of the medium where the volume begins, and where it ends.
    pub fn range(&self) -> Range<u64> {
        self.layout.start..self.layout.start + self.layout.len
    }

    /// Bytes that the volume has in use at the least: whole clusters, a record for each file, a
    /// cluster for the index of each folder, and what mkntfs makes (about 5 MB, and the bitmap).
    pub fn needed(&self) -> u64 {
        let files = self.items.iter().map(|item| match &item.file {
            Some((len, _)) => len.next_multiple_of(CLUSTER) + RECORD,
            None => CLUSTER + RECORD,
        });
        files.sum::<u64>() + self.layout.len / CLUSTER / 8 + (5 << 20)
    }

    /// What goes into the volume; folders before what is in them.
    pub fn files(&self) -> impl Iterator<Item = Filled<'_>> {
        self.items.iter().map(|item| Filled {
            path: &item.path,
            mtime: item.mtime,
            len: item.file.as_ref().map(|(len, _)| *len),
            content: item.file.as_ref().and_then(|(_, pieces)| pieces.first()).map(|(_, c)| c),
        })
    }

    /// The bytes of a file.
    pub fn bytes<'a>(&'a self, file: &Filled<'a>) -> Result<Box<dyn ReadAt + 'a>> {
        Ok(match file.content {
            Some(Content::Disc { file, .. }) => {
                Box::new(DiscFile { disc: &*self.disc, file: *file })
            }
            Some(Content::Bytes(bytes)) => Box::new(Bytes(bytes)),
            Some(Content::Host { file }) => {
                let (path, len) = self.hosts.get(*file).ok_or_else(no_content)?;
                let failed = |e| Error::io(format!("reading {} failed", printable_path(path)), e);
                let image = FileImage::new(File::open(path).map_err(failed)?).map_err(failed)?;
                if image.size() != Some(*len) {
                    let path = printable_path(path);
                    return Err(Error::refused(format!(
                        "{path} has changed since it was looked at"
                    )));
                }
                Box::new(image)
            }
            Some(Content::Zeros | Content::Volume { .. }) => return Err(no_content()),
            None => Box::new(Bytes(&[])),
        })
    }

    /// The stick as far as it is known before there is a volume.
    pub fn outline(&self) -> Result<Plan> {
        self.planned(None)
    }

    /// The stick with this volume, whose every file was found to be what it was to be.
    pub fn plan(&self, volume: File) -> Result<Plan> {
        let image = volume.try_clone().and_then(FileImage::new);
        let image = image.context(|| "cannot read the NTFS volume".to_owned())?;
        let mut ntfs = Volume::open(&image, 0..self.layout.len)?;
        let bodies = self.files().map(|file| match file.len {
            Some(_) => self.bytes(&file).map(|bytes| (file.path, Some(bytes))),
            None => Ok((file.path, None)),
        });
        let bodies = bodies.collect::<Result<Vec<_>>>()?;
        let wanted: Vec<_> = bodies
            .iter()
            .map(|(path, bytes)| Wanted { path, bytes: bytes.as_ref().map(|bytes| &**bytes) })
            .collect();
        let report = ntfs.check(&wanted)?;
        if !report.is_good() {
            return Err(unlike(&report));
        }
        self.planned(Some((Arc::new(volume), ntfs.used()?)))
    }

    fn planned(&self, volume: Option<(Arc<File>, Vec<Range<u64>>)>) -> Result<Plan> {
        let Layout { structures, start, boot, .. } = self.layout.clone();
        let Options { device, seed, table, .. } = self.options;
        let stamp = Stamp { seed, table, part_limit: None, boot: Some(self.boot.stamp()) };
        let mut extents: Vec<Extent> = structures.into_iter().map(new_bytes).collect();
        extents.push(new_bytes((stamp::AT, stamp.to_bytes())));
        let len = self.boot.bytes.len() as u64;
        let content = Content::Bytes(Arc::clone(&self.boot.bytes));
        extents.extend(boot.map(|at| Extent { at, len, content }));
        let (volume, used) = volume.unzip();
        extents.extend(used.into_iter().flatten().map(|Range { start: from, end }| Extent {
            at: start + from,
            len: end - from,
            content: Content::Volume { offset: from },
        }));
        let sector = u64::from(device.sector);
        let size = device.size / sector * sector;
        let files = self.items.iter().filter_map(|item| {
            let (len, _) = item.file.as_ref()?;
            // Where in the volume, others decide.
            Some(Written { path: item.path.clone(), len: *len, at: None, origin: item.origin })
        });
        Ok(Plan {
            size,
            sector: device.sector,
            start,
            extents: sorted(extents, size)?,
            files: files.collect(),
            hosts: Vec::new(),
            volume,
            notes: self.notes.clone(),
        })
    }
}

fn no_content() -> Error {
    Error::new(Kind::Internal, "a planned file has no content")
}

fn unlike(report: &Report) -> Error {
    let files = report.files.iter().filter(|(_, status)| *status != super::check::Status::Same);
    let what = files.map(|(path, status)| format!("{path}: {status:?}"));
    let what = report.damage.iter().cloned().chain(what).next();
    let what =
        what.or_else(|| report.extras.first().map(|extra| format!("{} is there", extra.path)));
    let what = printable(&what.unwrap_or_default());
    Error::new(Kind::Io, format!("the NTFS volume is not what was copied into it: {what}"))
        .hint("nothing was written to the target; is the disk of --temp-dir sound?")
}

/// Compares an NTFS stick with the files of `disc`.
pub fn check(
    medium: &dyn ReadAt,
    disc: &dyn Disc,
    device: table::Device,
    stamp: &Stamp,
) -> Result<Report> {
    let layout = stamp
        .boot
        .as_ref()
        .and_then(|boot| table::with_boot(stamp.table, device, stamp.seed, boot.len))
        .zip(stamp.boot.as_ref());
    let (layout, boot) = layout.ok_or_else(|| {
        Error::new(Kind::MediaMismatch, "the stick says that it is NTFS of another size")
            .at(stamp::AT, 512)
    })?;
    let files: Vec<DiscFile<'_>> =
        (0..disc.nodes().len()).map(|file| DiscFile { disc, file }).collect();
    let wanted: Vec<Wanted<'_>> = disc
        .nodes()
        .iter()
        .zip(&files)
        .map(|(node, file)| Wanted {
            path: &node.path,
            bytes: node.len.is_some().then_some(file as &dyn ReadAt),
        })
        .collect();
    let range = layout.start..layout.start + layout.len;
    let mut report = Volume::open(medium, range)?.check(&wanted)?;
    if let Some(at) = layout.boot
        && !boots(medium, at, boot).map_err(|e| Error::from_read(e, "on the medium"))?
    {
        report
            .damage
            .push("the partition that boots it (UEFI:NTFS) is not as it was written".to_owned());
    }
    Ok(report)
}

/// Whether the bytes at this place are those that a stick keeps the digest of.
fn boots(medium: &dyn ReadAt, at: u64, boot: &stamp::Boot) -> io::Result<bool> {
    let (view, mut hasher, mut done) = (crate::image::View::new(medium), Hasher::default(), 0);
    while done < boot.len {
        let step = usize::try_from((boot.len - done).min(compose::MIB)).unwrap_or(1);
        let Some(bytes) = view.exact(at.saturating_add(done), step)? else { return Ok(false) };
        hasher.update(&bytes);
        done += step as u64;
    }
    Ok(hasher.finish() == boot.sha256)
}
