//! Opening a node or file with O_DIRECT where that works, with O_DSYNC where it does not: the
//! part that real devices and files share. Whether direct I/O works is found out once, by reading
//! the first block, and then is a fact of the run (`Geometry::direct`).
//!
//! O_DSYNC is what keeps a buffered write honest: each write returns when its data is on the
//! medium, so progress is real and the flush at the end has nothing left to do.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::sys::buffer::AlignedBuf;

/// What the caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only reads; the descriptor cannot write.
    Read,
    /// Only reads, and nobody mounts or changes the device through a driver meanwhile (O_EXCL, as
    /// below).
    ReadExclusive,
    /// Reads and writes, and nobody else may have the device: O_EXCL on a block device means
    /// that it is not mounted and no driver holds it (open(2), block/bdev.c `bd_may_claim`).
    Exclusive,
}

/// Opens `path` for blocks of one of the `candidates` sizes; returns the first size that direct
/// reads work with, or `None` when the file had to be opened buffered.
pub fn open(path: &Path, access: Access, candidates: &[u32]) -> io::Result<(File, Option<u32>)> {
    match options(access).custom_flags(flags(access) | libc::O_DIRECT).open(path) {
        Ok(file) => {
            if let Some(block) = candidates.iter().find(|block| reads_directly(&file, **block)) {
                return Ok((file, Some(*block)));
            }
        }
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
        Err(e) => return Err(e),
    }
    let file = options(access).custom_flags(flags(access) | libc::O_DSYNC).open(path)?;
    Ok((file, None))
}

fn options(access: Access) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::Exclusive);
    options
}

fn flags(access: Access) -> i32 {
    // O_NOFOLLOW: the path was resolved when it was checked; a link now would be another target.
    let exclusive = if access == Access::Read { 0 } else { libc::O_EXCL };
    libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | exclusive
}

/// EINVAL is the kernel's word for "not in this size" or "not at all" (open(2), O_DIRECT). Any
/// other error, a bad first sector say, is no reason to give up direct I/O.
fn reads_directly(file: &File, block: u32) -> bool {
    let mut buf = AlignedBuf::zeroed(usize::try_from(block).unwrap_or(4096));
    match file.read_at(&mut buf, 0) {
        Ok(_) => true,
        Err(e) => e.raw_os_error() != Some(libc::EINVAL),
    }
}
