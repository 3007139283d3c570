//! After the write: the files on the medium, found through its own FAT32 structures, against those
//! that were to be there, byte by byte.
//!
//! Owns: the comparison, and which additional files are those that operating systems make. The
//! bytes that were to be there come from the composed image. Must not write.

pub(super) mod volume;

use std::collections::HashMap;
use std::io;

use super::compose::Written;
use super::fat32::key;
use crate::error::{Error, Kind, Result};
use crate::image::{ReadAt, View};
use crate::text::printable;

pub use volume::{Found, Volume};

/// Bytes compared at once.
pub(super) const STEP: u64 = 1 << 20;

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Every byte is as it was to be.
    Same,
    /// It is there, and another one from this byte on.
    Differs {
        /// First byte of the file that is not the expected one.
        first: u64,
    },
    /// It is not there.
    Missing,
    /// The medium does not return it.
    Unreadable {
        /// First byte of the file that could not be read.
        first: u64,
        /// Why.
        why: String,
    },
}

/// A file that was not to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// Its path, not escaped.
    pub path: String,
    /// Whether operating systems make it when they see a stick.
    pub system: bool,
}

/// What a medium has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every expected file, in the order it was given.
    pub files: Vec<(String, Status)>,
    /// Files besides.
    pub extras: Vec<Extra>,
    /// Damage to folders; their files are missing.
    pub damage: Vec<String>,
}

impl Report {
    /// Whether everything that was to be there is, and what came besides is an operating system's.
    pub fn is_good(&self) -> bool {
        self.damage.is_empty()
            && self.files.iter().all(|(_, status)| *status == Status::Same)
            && self.extras.iter().all(|extra| extra.system)
    }
}

/// Compares the volume that begins at `start` of the medium with the files of `image`.
pub fn check(
    medium: &dyn ReadAt,
    start: u64,
    expected: &[Written],
    image: &dyn ReadAt,
) -> Result<Report> {
    let failed = |e: io::Error| Error::from_read(e, "on the medium");
    let volume = Volume::open(medium, start).map_err(failed)?.ok_or_else(|| {
        Error::new(Kind::MediaMismatch, "there is no FAT32 volume where one was written")
            .at(start, 512)
    })?;
    let (found, damage) = volume.list();
    let mut report = Report { damage, ..Report::default() };
    let mut left: HashMap<String, &Found> =
        found.iter().filter(|f| !f.folder).map(|found| (key(&found.path), found)).collect();
    for file in expected {
        let status = match left.remove(&key(&file.path)) {
            Some(found) => compare(&volume, found, file, image)?,
            None => Status::Missing,
        };
        report.files.push((file.path.clone(), status));
    }
    let mut extras: Vec<Extra> = left
        .into_values()
        .map(|found| Extra { path: found.path.clone(), system: is_system(&found.path) })
        .collect();
    extras.sort_by(|a, b| a.path.cmp(&b.path));
    report.extras = extras;
    Ok(report)
}

/// What Windows, macOS and desktops put on every stick.
pub(super) fn is_system(path: &str) -> bool {
    let top = path.split('/').next().unwrap_or_default().to_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    matches!(
        top.as_str(),
        "system volume information"
            | "$recycle.bin"
            | ".trashes"
            | ".fseventsd"
            | ".spotlight-v100"
            | ".temporaryitems"
    ) || top.starts_with(".trash-")
        || matches!(name.as_str(), "wpsettings.dat" | "indexervolumeguid" | ".ds_store")
}

fn compare(
    volume: &Volume<'_>,
    found: &Found,
    file: &Written,
    image: &dyn ReadAt,
) -> Result<Status> {
    let runs = volume.runs(found.first, found.len);
    let view = View::new(image);
    let mut at = 0;
    for (place, len) in runs {
        let end = (at + len).min(file.len).min(found.len);
        let begin = at;
        while at < end {
            let step = usize::try_from((end - at).min(STEP)).unwrap_or(0);
            let offset = file.at.unwrap_or(0).saturating_add(at);
            let want = view
                .exact(offset, step)
                .map_err(|e| Error::from_read(e, &printable(&file.path)))?;
            let want = want.ok_or_else(|| {
                Error::new(Kind::Internal, "a planned file lies behind the image's end")
            })?;
            let has = match volume.medium().some(place.saturating_add(at - begin), step) {
                Ok(has) => has,
                Err(e) => return Ok(Status::Unreadable { first: at, why: e.to_string() }),
            };
            if has != want {
                let same = has.iter().zip(&want).take_while(|(a, b)| a == b).count();
                return Ok(Status::Differs { first: at + same as u64 });
            }
            at += step as u64;
        }
    }
    let same = at == file.len && found.len == file.len;
    Ok(if same { Status::Same } else { Status::Differs { first: at } })
}

#[cfg(test)]
mod tests;
