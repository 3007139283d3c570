//! A real block device. It is opened only as what policy approved: after the open, device number,
//! size and disk sequence number are compared with what was judged, because names and nodes are
//! reused (sequence numbers are not; kernel commit cf179948554a, Linux 5.15). The node is opened
//! O_EXCL and locked from the first write to the end of the verification: O_EXCL keeps mounts
//! away, the lock keeps udev from probing (systemd.io/BLOCK_DEVICE_LOCKING).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::PathBuf;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{major, minor};

use super::facts::{Bus, Facts, Identity};
use super::handle::{self, Access, Open};
use super::policy::{self, Approved, Purpose};
use super::probe::System;
use super::{BlockDevice, Caches, Discard, Geometry};
use crate::error::{Context, Error, Result};
use crate::sys::ioctl;
use crate::text::printable_path;

/// An opened, approved device.
#[derive(Debug)]
pub struct LinuxDevice {
    file: Descriptor,
    path: PathBuf,
    expected: Identity,
    geometry: Geometry,
    system: System,
}

#[derive(Debug)]
enum Descriptor {
    /// For reading: others may use the device too, unless it was opened for oneself.
    Plain(File),
    Locked(Flock<File>),
}

impl std::ops::Deref for Descriptor {
    type Target = File;
    fn deref(&self) -> &File {
        match self {
            Self::Plain(file) => file,
            Self::Locked(file) => file,
        }
    }
}

impl LinuxDevice {
    /// Opens what was approved, for what it was approved for.
    pub fn open(approved: &Approved, system: System) -> Result<Self> {
        Self::open_by(approved, system, &handle::by_kernel)
    }

    /// The same through somebody who may open it. What was handed out is looked at as closely.
    pub fn open_by(approved: &Approved, system: System, open: Open<'_>) -> Result<Self> {
        let facts = approved.facts();
        let path = facts.path.clone();
        let name = printable_path(&path);
        let access = match approved.purpose() {
            Purpose::ReadOnly => Access::Read,
            // What is mounted and frozen cannot be had alone.
            Purpose::Copy if !approved.to_freeze().is_empty() => Access::Read,
            Purpose::Copy => Access::ReadExclusive,
            Purpose::Write | Purpose::Discard => Access::Exclusive,
        };
        let candidates = [facts.logical_block, 4096];
        let (file, direct) = handle::open(&path, access, &candidates, open)
            .map_err(|e| open_failed(&name, access, e))?;
        let now = identity_of(&file, facts)?;
        policy::same(&approved.identity(), &now)
            .map_err(|change| Error::refused(format!("{name}: {change}")))?;
        let logical_block =
            ioctl::logical_block(&file).context(|| format!("cannot ask {name} for its sectors"))?;
        let file = match access {
            Access::Read | Access::ReadExclusive => Descriptor::Plain(file),
            Access::Exclusive => Descriptor::Locked(lock(file, &name)?),
        };
        let geometry = Geometry {
            size: now.size,
            logical_block,
            physical_block: ioctl::physical_block(&*file).unwrap_or(logical_block),
            direct: direct.is_some(),
            discard_granularity: discard_granularity(facts),
            caches: caches(facts, direct.is_some()),
        };
        Ok(Self { file, path, expected: now, geometry, system })
    }

    /// The descriptor, for SG_IO.
    pub fn file(&self) -> &File {
        &self.file
    }
}

fn lock(file: File, name: &str) -> Result<Flock<File>> {
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        Error::refused(format!("another program holds a lock on {name} ({errno})"))
            .hint("a partitioning tool or another mediawriter is working on it; wait for it to end")
    })
}

fn identity_of(file: &File, facts: &Facts) -> Result<Identity> {
    let name = printable_path(&facts.path);
    let meta = file.metadata().context(|| format!("cannot look at {name}"))?;
    if !meta.file_type().is_block_device() {
        return Err(Error::refused(format!("{name} is no longer a block device")));
    }
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Ok(Identity {
        rdev: (number(major(meta.rdev())), number(minor(meta.rdev()))),
        size: ioctl::size(file).context(|| format!("cannot ask {name} for its size"))?,
        serial: facts.serial.clone(),
        // A partition has the number of its disk; kernels before 5.15 have none.
        diskseq: facts.diskseq.and(ioctl::disk_sequence(file).ok()),
    })
}

fn open_failed(name: &str, access: Access, error: io::Error) -> Error {
    let error = match error.downcast::<Error>() {
        Ok(told) => return told,
        Err(other) => other,
    };
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::io(format!("cannot open {name}"), error)
            .hint("run it with sudo, or join the group that owns the node (often `disk`)"),
        Some(libc::EBUSY) => {
            Error::refused(format!("{name} is in use: the kernel refuses exclusive access"))
                .hint("unmount it, or see `mediawriter devices` for what holds it; a mount in a container does too")
        }
        Some(libc::EROFS) => Error::refused(format!("{name} is write-protected by the device"))
            .hint("check the switch on the stick or card, or its own protection"),
        Some(libc::ENOMEDIUM) => Error::refused(format!("there is no medium in {name}")),
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
            Error::refused(format!("{name} disappeared after it was checked"))
                .hint("plug it in again and start over")
        }
        _ if access != Access::Exclusive => Error::io(format!("cannot open {name} for reading"), error),
        _ => Error::io(format!("cannot open {name} for writing"), error),
    }
}

/// 0 unless the queue takes discards.
fn discard_granularity(facts: &Facts) -> u64 {
    if facts.discard.max_bytes == 0 {
        return 0;
    }
    facts.discard.granularity.max(u64::from(facts.logical_block))
}

fn caches(facts: &Facts, direct: bool) -> Caches {
    let page_cache = if direct {
        "page cache (BLKFLSBUF, then O_DIRECT)"
    } else {
        "page cache (fsync, then BLKFLSBUF; O_DIRECT was not to be had)"
    };
    let below = match facts.bus {
        Bus::Loop => "the page cache below the loop device's file, unless it does direct I/O",
        Bus::Nbd => "the server's caches",
        Bus::Zram | Bus::Ram => "none: it is memory",
        _ => "the drive's own cache, which no command empties for reads",
    };
    Caches { defeated: vec![page_cache.to_owned()], undefeated: vec![below.to_owned()] }
}

impl BlockDevice for LinuxDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        match how {
            Discard::Trim => ioctl::discard(&*self.file, offset, len),
            Discard::Secure => ioctl::secure_discard(&*self.file, offset, len),
            Discard::ZeroByDevice => {
                let signed = |n: u64| i64::try_from(n).map_err(io::Error::other);
                let how =
                    FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
                Ok(fallocate(&*self.file, how, signed(offset)?, signed(len)?)?)
            }
            Discard::Zero => ioctl::zero_out(&*self.file, offset, len),
        }
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        match ioctl::drop_cache(&*self.file) {
            // BLKFLSBUF wants CAP_SYS_ADMIN (block/ioctl.c). With O_DIRECT the page cache is gone
            // around anyway; without it the reads would not come from the medium.
            Err(e) if e.raw_os_error() == Some(libc::EACCES) && self.geometry.direct => Ok(()),
            done => done,
        }
    }

    fn check_identity(&self) -> std::result::Result<(), String> {
        let now = self.system.identity(self.expected.rdev).ok_or("it is gone")?;
        policy::same(&self.expected, &now).map_err(|change| change.to_string())?;
        let node = std::fs::metadata(&self.path).map_err(|e| format!("its node is gone ({e})"))?;
        let here = self.file.metadata().map_err(|e| e.to_string())?;
        if node.rdev() != here.rdev() {
            return Err(format!("{} names another device now", printable_path(&self.path)));
        }
        Ok(())
    }

    fn present(&self) -> bool {
        // A removed disk has no capacity (block/genhd.c, del_gendisk) and no entry in /sys.
        ioctl::size(&*self.file).is_ok_and(|size| size > 0)
            && self
                .system
                .identity(self.expected.rdev)
                .is_some_and(|now| now.diskseq == self.expected.diskseq)
    }

    fn kernel_counters(&self) -> Option<(u64, u64)> {
        self.system.kernel_counters(self.expected.rdev)
    }

    fn temperature(&self) -> Option<i64> {
        self.system.temperature(self.expected.rdev)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.geometry.direct.then(|| self.file.as_fd())
    }

    fn reread_partitions(&self) -> io::Result<()> {
        ioctl::reread_partitions(&*self.file)
    }

    fn eject(&self) -> io::Result<()> {
        ioctl::eject(&*self.file)
    }
}
