//! A regular file that stands for a stick. It keeps its length, as a device would: an image that
//! is shorter leaves the rest alone, a longer one is refused. Discard punches holes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{
    FallocateFlags, FcntlArg, Flock, FlockArg, PosixFadviseAdvice, fallocate, fcntl, posix_fadvise,
};

use super::handle::{self, Access};
use super::{BlockDevice, Caches, Discard, Geometry};
use crate::error::{Context, Error, Result};

/// An opened file.
#[derive(Debug)]
pub struct FileDevice {
    file: Flock<File>,
    path: PathBuf,
    inode: (u64, u64),
    geometry: Geometry,
}

/// A stick's size is a multiple of this.
const SECTOR: u32 = 512;

impl FileDevice {
    /// Opens an existing regular file.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let name = path.display().to_string().escape_debug().to_string();
        let sizes: &[u32] = &[SECTOR, 4096];
        let (file, block) = match access {
            // O_EXCL means something on devices only (open(2)); a lock takes its place below.
            Access::Exclusive | Access::ReadExclusive | Access::Read => {
                handle::open(path, access, sizes, &handle::by_kernel)
            }
        }
        .map_err(|e| match e.raw_os_error() {
            // With O_NONBLOCK a lease is not waited for (fcntl(2), "Leases").
            Some(libc::EAGAIN) => held(&name, "a program has a lease on it"),
            Some(libc::ETXTBSY) => held(&name, "it is active swap space, or a program that runs"),
            _ => Error::io(format!("cannot open the file {name}"), e),
        })?;
        let meta = file.metadata().context(|| format!("cannot read the size of {name}"))?;
        let size = meta.len();
        if !size.is_multiple_of(u64::from(SECTOR)) || size == 0 {
            return Err(Error::refused(format!(
                "{name} has {size} bytes: a file that stands for a stick needs a size that is a \
                 multiple of {SECTOR}"
            ))
            .hint(format!("truncate --size=%{SECTOR} FILE, or let --create SIZE make the file")));
        }
        let arg = match access {
            Access::Read | Access::ReadExclusive => FlockArg::LockSharedNonblock,
            Access::Exclusive => FlockArg::LockExclusiveNonblock,
        };
        let file = Flock::lock(file, arg).map_err(|(_, errno)| {
            held(&name, &format!("another program holds a lock on it ({errno})"))
        })?;
        lock_for_this_open(&file, access).map_err(|e| match e {
            Errno::EAGAIN | Errno::EACCES => held(&name, "another program holds a lock on it"),
            e => Error::io(format!("cannot lock {name}"), e.into()),
        })?;
        // A 4096-byte direct block only serves when the file ends on one.
        let direct = block.is_some_and(|b| size.is_multiple_of(u64::from(b)));
        if block.is_some() && !direct {
            return Err(Error::refused(format!(
                "{name} lies on storage with 4096-byte sectors, but its size of {size} bytes is no multiple of that"
            ))
            .hint("truncate --size=%4096 FILE"));
        }
        let geometry = Geometry {
            size,
            logical_block: block.unwrap_or(SECTOR),
            physical_block: 4096,
            direct,
            discard_granularity: 4096,
            caches: Caches {
                defeated: vec![if direct {
                    "page cache (O_DIRECT)".to_owned()
                } else {
                    "page cache (synced, then dropped with POSIX_FADV_DONTNEED)".to_owned()
                }],
                undefeated: vec!["caches of the storage below the file".to_owned()],
            },
        };
        let inode = (meta.dev(), meta.ino());
        Ok(Self { file, path: path.to_owned(), inode, geometry })
    }
}

/// Locks of fcntl(2) and of flock(2) do not see each other. The one that belongs to this open file is that of
/// QEMU, and meets those of processes (POSIX) as well. Filesystems without locks are used without.
fn lock_for_this_open(file: &File, access: Access) -> nix::Result<()> {
    let kind = if access == Access::Exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
    let short = |n: i32| libc::c_short::try_from(n).unwrap_or_default();
    let whole = libc::flock {
        l_type: short(kind),
        l_whence: short(libc::SEEK_SET),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole)) {
        Ok(_) | Err(Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::EINVAL) => Ok(()),
        Err(e) => Err(e),
    }
}

fn held(name: &str, why: &str) -> Error {
    Error::refused(format!("{name} is in use: {why}"))
        .hint("wait until that program ends, or end it")
}

impl BlockDevice for FileDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        if offset + buf.len() as u64 > self.geometry.size {
            // A file would grow; a device says this.
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.file.write_at(buf, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let flags = match how {
            Discard::Trim | Discard::ZeroByDevice => FallocateFlags::FALLOC_FL_PUNCH_HOLE | keep,
            Discard::Zero => FallocateFlags::FALLOC_FL_ZERO_RANGE | keep,
            Discard::Secure => return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        };
        let signed = |n: u64| i64::try_from(n).map_err(io::Error::other);
        fallocate(&*self.file, flags, signed(offset)?, signed(len)?).map_err(io::Error::from)
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        if !self.geometry.direct {
            self.file.sync_all()?;
        }
        posix_fadvise(&*self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(io::Error::from)
    }

    fn check_identity(&self) -> std::result::Result<(), String> {
        let now =
            self.path.metadata().map_err(|e| format!("it cannot be looked up any more ({e})"))?;
        if (now.dev(), now.ino()) != self.inode {
            return Err("another file took its name".to_owned());
        }
        if now.len() != self.geometry.size {
            return Err(format!(
                "its size changed from {} to {} bytes",
                self.geometry.size,
                now.len()
            ));
        }
        Ok(())
    }

    fn present(&self) -> bool {
        true
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.geometry.direct.then(|| self.file.as_fd())
    }
}
