//! Opening a node or file with O_DIRECT where that works, with O_DSYNC where it does not: the
//! part that real devices and files share. Whether direct I/O works is found out once, by reading
//! the first block, and then is a fact of the run (`Geometry::direct`).
//!
//! Who opens is the caller's choice ([`Open`]): the kernel, or somebody who may where this process may
//! not.
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

/// Opens a path with flags of open(2), the way of access aside.
pub type Open<'a> = &'a dyn Fn(&Path, Access, i32) -> io::Result<File>;

/// Opens by open(2).
pub fn by_kernel(path: &Path, access: Access, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::Exclusive).custom_flags(flags).open(path)
}

/// Opens `path` for blocks of one of the `candidates` sizes; returns the first size that direct
/// reads work with, or `None` when the file had to be opened buffered.
pub fn open(
    path: &Path,
    access: Access,
    candidates: &[u32],
    open: Open<'_>,
) -> io::Result<(File, Option<u32>)> {
    match open(path, access, flags(access) | libc::O_DIRECT) {
        Ok(file) => {
            if let Some(block) = candidates.iter().find(|block| reads_directly(&file, **block)) {
                return Ok((file, Some(*block)));
            }
        }
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
        Err(e) => return Err(e),
    }
    let file = open(path, access, flags(access) | libc::O_DSYNC)?;
    Ok((file, None))
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
