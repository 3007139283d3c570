//! What a stick installs, as its own files say: for whoever looks at a stick, or is about to
//! overwrite it. Reads a few sectors; what is damaged says nothing.

use std::io;

use super::check::volume::Volume;
use super::wim::{Edition, Wim};
use crate::image::ReadAt;

/// Most bytes of a file on FAT32.
const LONGEST: u64 = u32::MAX as u64;

/// A file on FAT32 as its own bytes.
struct Chain<'a> {
    medium: &'a dyn ReadAt,
    /// Where its bytes are: byte of the medium and length, in order.
    runs: Vec<(u64, u64)>,
    len: u64,
}

impl ReadAt for Chain<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut before = 0;
        for &(at, len) in &self.runs {
            if offset < before + len {
                let within = offset - before;
                let left = usize::try_from(len - within).unwrap_or(buf.len()).min(buf.len());
                return self.medium.read_at(at.saturating_add(within), &mut buf[..left]);
            }
            before += len;
        }
        Ok(0)
    }

    fn size(&self) -> Option<u64> {
        Some(self.len)
    }
}

/// The editions in `sources/install.wim`, in its first part, or in `install.esd`, on the FAT32
/// volume that begins at this byte of a medium.
pub fn installs(medium: &dyn ReadAt, start: u64) -> Vec<Edition> {
    editions(medium, start).unwrap_or_default()
}

fn editions(medium: &dyn ReadAt, start: u64) -> Option<Vec<Edition>> {
    let volume = Volume::open(medium, start).ok()??;
    let names = ["install.wim", "install.swm", "install.esd"];
    let file = names.iter().find_map(|name| volume.find(&["sources", name]))?;
    let len = file.len.min(LONGEST);
    let file = Chain { medium, runs: volume.runs(file.first, len), len };
    Wim::load(&file, len).ok()?.editions().ok()
}
