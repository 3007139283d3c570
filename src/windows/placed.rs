//! Whether the medium's own directories lead to the places where files were written. With a
//! read-back of those places, that proves the files without reading them a second time.

use std::collections::HashMap;
use std::io;

use super::check::{Found, Volume};
use super::compose::Written;
use super::fat32::key;
use crate::error::{Error, Kind, Result};
use crate::image::ReadAt;

/// What is wrong with the volume that begins at `start`, in words; names are not escaped.
pub fn misplaced(medium: &dyn ReadAt, start: u64, expected: &[Written]) -> Result<Vec<String>> {
    let failed = |e: io::Error| Error::from_read(e, "on the medium");
    let volume = Volume::open(medium, start).map_err(failed)?.ok_or_else(|| {
        Error::new(Kind::MediaMismatch, "there is no FAT32 volume where one was written")
            .at(start, 512)
    })?;
    let (found, mut wrong) = volume.list();
    let mut left: HashMap<String, &Found> =
        found.iter().filter(|f| !f.folder).map(|found| (key(&found.path), found)).collect();
    for file in expected {
        let Some(found) = left.remove(&key(&file.path)) else {
            wrong.push(format!("{} is missing", file.path));
            continue;
        };
        let mut next = file.at.unwrap_or(0);
        let in_place = volume.runs(found.first, found.len).into_iter().all(|(at, len)| {
            let here = at == next;
            next += len;
            here
        });
        let whole = next - file.at.unwrap_or(0) == file.len && found.len == file.len;
        if !in_place || !whole {
            wrong.push(format!("{} is not at its place", file.path));
        }
    }
    wrong.extend(left.into_values().map(|found| format!("{} was not written", found.path)));
    Ok(wrong)
}
