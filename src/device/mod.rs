//! Block devices as the rest of the crate sees them: one trait, implemented by real devices
//! (`linux`), regular files (`file`) and the simulated stick (`sim`). Every fault that tests
//! inject is a wrapper around a device.
//!
//! The seam may misbehave: short transfers and `EINTR` are legal here and made whole in one
//! place, `full`.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

/// The calls that every wrapper passes on as they are.
macro_rules! pass_on {
    ($inner:ident) => {
        fn geometry(&self) -> &$crate::device::Geometry {
            self.$inner.geometry()
        }
        fn flush(&self) -> std::io::Result<()> {
            self.$inner.flush()
        }
        fn invalidate_cache(&self) -> std::io::Result<()> {
            self.$inner.invalidate_cache()
        }
        fn check_identity(&self) -> std::result::Result<(), String> {
            self.$inner.check_identity()
        }
        fn present(&self) -> bool {
            self.$inner.present()
        }
        fn kernel_counters(&self) -> Option<(u64, u64)> {
            self.$inner.kernel_counters()
        }
    };
}
pub(crate) use pass_on;

pub mod facts;
pub mod file;
pub mod freeze;
pub mod full;
pub mod handle;
pub mod linux;
pub mod look;
pub mod mask;
pub mod policy;
pub mod pool;
pub mod power;
pub mod probe;
pub mod refusal;
pub mod scsi;
pub mod sim;
pub mod sparse;
pub mod storage;
pub mod target;
pub mod usb;

/// Sizes and abilities of a device, found out once when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Bytes; a multiple of `logical_block`.
    pub size: u64,
    /// Offsets and lengths of every transfer are multiples of this many bytes.
    pub logical_block: u32,
    /// Unit the device works in, in bytes.
    pub physical_block: u32,
    /// Whether transfers bypass the page cache (O_DIRECT). If not, writes are O_DSYNC and reads
    /// come after the cache was dropped.
    pub direct: bool,
    /// Discard requests are multiples of this many bytes; 0 = no discard.
    pub discard_granularity: u64,
    /// What holds the bytes, in words, and which caches a read-back cannot defeat.
    pub caches: Caches,
}

/// Which caches lie between a read and the medium.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caches {
    /// Those that the read-back goes around, and how.
    pub defeated: Vec<String>,
    /// Those it cannot go around.
    pub undefeated: Vec<String>,
}

/// How blocks are given back or cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// BLKDISCARD: a hint; what reads return afterwards is not defined.
    Trim,
    /// BLKSECDISCARD.
    Secure,
    /// BLKZEROOUT: zeros afterwards, by an offload or by writing them.
    Zero,
    /// Zeros afterwards, by the device itself or not at all: FALLOC_FL_PUNCH_HOLE on a block device
    /// is a zero-out without fallback (block/fops.c, blkdev_fallocate; since 4.9).
    ZeroByDevice,
}

/// A thing with blocks. Offsets and lengths are multiples of `geometry().logical_block`, buffers
/// start at a multiple of 4096 (`sys::buffer`). Transfers may be shorter than asked.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// Sizes and abilities; constant.
    fn geometry(&self) -> &Geometry;
    /// Reads at a byte offset; 0 bytes only at the end of the device.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes at a byte offset.
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize>;
    /// Everything written so far is on the medium when this returns.
    fn flush(&self) -> io::Result<()>;
    /// Gives back or clears blocks.
    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()>;
    /// Drops what the host caches of this device, so that reads come from the medium.
    fn invalidate_cache(&self) -> io::Result<()>;
    /// Whether the device is still the one that was opened: `Err` says what changed.
    fn check_identity(&self) -> Result<(), String>;
    /// Whether the device is still there at all; asked after an I/O error.
    fn present(&self) -> bool;
    /// How many bytes of a write are sent as data; less than all where a mask or sparse writing
    /// stands before the device.
    fn sends(&self, _offset: u64, buf: &[u8]) -> u64 {
        buf.len() as u64
    }
    /// How many bytes of a read come from the device.
    fn fetches(&self, _offset: u64, len: u64) -> u64 {
        len
    }
    /// Bytes that the kernel counted as read from and written to the device
    /// (Documentation/block/stat.rst), where it counts.
    fn kernel_counters(&self) -> Option<(u64, u64)> {
        None
    }
    /// What a sensor of the device says, thousandths of a degree Celsius.
    fn temperature(&self) -> Option<i64> {
        None
    }
    /// For I/O that is started and waited for apart; `None` where only the calls above do. Nobody
    /// closes it, and only offsets within the device are used.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Lets the kernel read the partition table again; nothing where there is no kernel device.
    fn reread_partitions(&self) -> io::Result<()> {
        Ok(())
    }
    /// Stops the drive and ejects the medium.
    fn eject(&self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
