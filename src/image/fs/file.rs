//! Where the bytes of one file lie on a medium, in FAT and ext, so that a copy can have other ones.
//!
//! Owns: the answer [`FileAt`], and the walk through FAT; ext is in `ext_file`. Must not know what
//! is in the file. A file that is there and whose bytes cannot be told apart from metadata, or may
//! be stale, is `Elsewhere` with the reason: who changes files must not guess.

use std::io;
use std::ops::Range;

use super::super::read::{ReadAt, View};
use super::fat::{Directory, Volume};
use super::{Filesystem, ext_file};

/// Where a file's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Length of the file.
    pub len: u64,
    /// Bytes of the medium, in the order of the file; `len` together.
    pub runs: Vec<Range<u64>>,
}

/// What became of the search for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAt {
    /// There is none of that name.
    Missing,
    /// Here.
    At(Placed),
    /// There is one, and its bytes cannot be changed where they are, because of this.
    Elsewhere(&'static str),
}

/// Looks for the file of this path, in the filesystem that begins at `start`. Only FAT and ext have
/// files here.
///
/// # Errors
/// When the medium cannot be read.
pub fn file_at(
    medium: &dyn ReadAt,
    start: u64,
    fs: &Filesystem,
    path: &[&str],
) -> io::Result<FileAt> {
    let view = View::new(medium);
    match (&fs.fat, fs.kind.is_ext()) {
        (Some(geometry), _) => in_fat(Volume { view: &view, base: start, geometry }, path),
        (None, true) => ext_file::find(&view, start, path),
        (None, false) => Ok(FileAt::Missing),
    }
}

fn in_fat(volume: Volume<'_>, path: &[&str]) -> io::Result<FileAt> {
    let mut directory = Directory::Root;
    for (depth, name) in path.iter().enumerate() {
        let listing = volume.list(directory)?;
        let Some(entry) = listing.entries.iter().find(|entry| entry.is_called(name)) else {
            return Ok(if listing.complete {
                FileAt::Missing
            } else {
                FileAt::Elsewhere("the folder it should be in is damaged")
            });
        };
        let last = depth + 1 == path.len();
        if last == entry.directory {
            return Ok(FileAt::Missing);
        }
        directory = Directory::At(entry.cluster);
        if last {
            let len = u64::from(entry.len);
            let ranges = if len == 0 { Vec::new() } else { volume.extents(directory)?.0 };
            return Ok(cut(len, ranges.into_iter().map(|run| shift(run, volume.base))));
        }
    }
    Ok(FileAt::Missing)
}

fn shift(run: Range<u64>, by: u64) -> Range<u64> {
    run.start.saturating_add(by)..run.end.saturating_add(by)
}

/// The first `len` bytes of these runs.
pub(super) fn cut(len: u64, ranges: impl Iterator<Item = Range<u64>>) -> FileAt {
    let (mut left, mut runs) = (len, Vec::new());
    for range in ranges {
        let take = (range.end - range.start).min(left);
        if take > 0 {
            runs.push(range.start..range.start + take);
        }
        left -= take;
    }
    if left == 0 {
        FileAt::At(Placed { len, runs })
    } else {
        FileAt::Elsewhere("its chain of blocks ends before the file does, or it is too long")
    }
}
