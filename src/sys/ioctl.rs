//! One function per ioctl. Numbers and argument types: include/uapi/linux/fs.h, linux/loop.h,
//! linux/cdrom.h (Linux 6.1); behaviour: block/ioctl.c.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

mod raw {
    //! The generated wrappers. `_IO`-style block ioctls take bare numbers.
    nix::ioctl_read!(blkgetsize64, 0x12, 114, u64);
    nix::ioctl_read!(blkgetdiskseq, 0x12, 128, u64);
    nix::ioctl_read_bad!(blksszget, 0x1268, libc::c_int);
    nix::ioctl_read_bad!(blkpbszget, 0x127b, libc::c_uint);
    nix::ioctl_read_bad!(blkroget, 0x125e, libc::c_int);
    nix::ioctl_none_bad!(blkrrpart, 0x125f);
    nix::ioctl_none_bad!(blkflsbuf, 0x1261);
    nix::ioctl_write_ptr_bad!(blkdiscard, 0x1277, [u64; 2]);
    nix::ioctl_write_ptr_bad!(blksecdiscard, 0x127d, [u64; 2]);
    nix::ioctl_write_ptr_bad!(blkzeroout, 0x127f, [u64; 2]);
    nix::ioctl_readwrite!(fifreeze, b'X', 119, libc::c_int);
    nix::ioctl_readwrite!(fithaw, b'X', 120, libc::c_int);
    nix::ioctl_readwrite!(fitrim, b'X', 121, super::FsTrimRange);
    nix::ioctl_none_bad!(cdromeject, 0x5309);
    nix::ioctl_read_bad!(loop_get_status64, 0x4c05, super::LoopInfo);
}

/// `struct fstrim_range` of linux/fs.h.
#[repr(C)]
#[derive(Debug)]
pub struct FsTrimRange {
    /// First byte.
    pub start: u64,
    /// Bytes; after the call: bytes trimmed.
    pub len: u64,
    /// Extents shorter than this are left alone.
    pub minlen: u64,
}

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
#[derive(Debug)]
pub struct LoopInfo {
    device: u64,
    inode: u64,
    /// Numbers, sizes, flags, names, a key: nothing that is looked at.
    rest: [u64; 27],
}

fn done(result: nix::Result<libc::c_int>) -> io::Result<()> {
    result.map(drop).map_err(io::Error::from)
}

/// Size of a block device in bytes (BLKGETSIZE64).
pub fn size(fd: impl AsFd) -> io::Result<u64> {
    let mut bytes = 0;
    // SAFETY: the descriptor is open for the whole call and `bytes` is a u64 the kernel fills.
    done(unsafe { raw::blkgetsize64(fd.as_fd().as_raw_fd(), &raw mut bytes) })?;
    Ok(bytes)
}

/// Device number and inode of the file behind a loop device, as stat(2) has them (LOOP_GET_STATUS64). ENXIO
/// where nothing is attached.
pub fn loop_file(fd: impl AsFd) -> io::Result<(u64, u64)> {
    let mut info = LoopInfo { device: 0, inode: 0, rest: [0; 27] };
    // SAFETY: the kernel fills one loop_info64, 232 bytes; `info` has its layout and size (repr(C)).
    done(unsafe { raw::loop_get_status64(fd.as_fd().as_raw_fd(), &raw mut info) })?;
    Ok((info.device, info.inode))
}

/// Disk sequence number, never reused (BLKGETDISKSEQ, Linux 5.15).
pub fn disk_sequence(fd: impl AsFd) -> io::Result<u64> {
    let mut number = 0;
    // SAFETY: as for `size`.
    done(unsafe { raw::blkgetdiskseq(fd.as_fd().as_raw_fd(), &raw mut number) })?;
    Ok(number)
}

/// Logical block size in bytes (BLKSSZGET).
pub fn logical_block(fd: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for the whole call and `bytes` is the int the kernel fills.
    done(unsafe { raw::blksszget(fd.as_fd().as_raw_fd(), &raw mut bytes) })?;
    u32::try_from(bytes).map_err(io::Error::other)
}

/// Physical block size in bytes (BLKPBSZGET).
pub fn physical_block(fd: impl AsFd) -> io::Result<u32> {
    let mut bytes: libc::c_uint = 0;
    // SAFETY: the descriptor is open for the whole call and `bytes` is the uint the kernel fills.
    done(unsafe { raw::blkpbszget(fd.as_fd().as_raw_fd(), &raw mut bytes) })?;
    Ok(bytes)
}

/// Whether the kernel refuses writes (BLKROGET).
pub fn read_only(fd: impl AsFd) -> io::Result<bool> {
    let mut flag: libc::c_int = 0;
    // SAFETY: the descriptor is open for the whole call and `flag` is the int the kernel fills.
    done(unsafe { raw::blkroget(fd.as_fd().as_raw_fd(), &raw mut flag) })?;
    Ok(flag != 0)
}

/// Reads the partition table again (BLKRRPART).
pub fn reread_partitions(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: takes no argument; the descriptor is open for the whole call.
    done(unsafe { raw::blkrrpart(fd.as_fd().as_raw_fd()) })
}

/// Writes dirty pages of the device and drops its page cache (BLKFLSBUF).
pub fn drop_cache(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: takes no argument; the descriptor is open for the whole call.
    done(unsafe { raw::blkflsbuf(fd.as_fd().as_raw_fd()) })
}

/// Gives blocks back (BLKDISCARD). The contents afterwards are not defined.
pub fn discard(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the kernel reads two u64 behind the pointer; `range` lives for the whole call.
    done(unsafe { raw::blkdiscard(fd.as_fd().as_raw_fd(), &raw const range) })
}

/// Gives blocks back and destroys copies (BLKSECDISCARD).
pub fn secure_discard(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: as for `discard`.
    done(unsafe { raw::blksecdiscard(fd.as_fd().as_raw_fd(), &raw const range) })
}

/// Makes blocks read as zeros, by an offload or by writing them (BLKZEROOUT).
pub fn zero_out(fd: impl AsFd, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: as for `discard`.
    done(unsafe { raw::blkzeroout(fd.as_fd().as_raw_fd(), &raw const range) })
}

/// Trims the free space of the mounted filesystem that `fd` lies on (FITRIM); returns bytes.
pub fn trim_filesystem(fd: impl AsFd) -> io::Result<u64> {
    let mut range = FsTrimRange { start: 0, len: u64::MAX, minlen: 0 };
    // SAFETY: the kernel reads and writes one fstrim_range; `range` has its layout (repr(C)).
    done(unsafe { raw::fitrim(fd.as_fd().as_raw_fd(), &raw mut range) })?;
    Ok(range.len)
}

/// Writes out the mounted filesystem that `fd` lies on, and holds up whoever writes to it until
/// [`thaw_filesystem`] (FIFREEZE; fs/ioctl.c, `ioctl_fsfreeze`). EOPNOTSUPP where the filesystem has
/// no such thing (FAT), EBUSY where it is frozen already.
pub fn freeze_filesystem(fd: impl AsFd) -> io::Result<()> {
    let mut unused = 0;
    // SAFETY: the descriptor is open for the whole call; the kernel does not look at the argument.
    done(unsafe { raw::fifreeze(fd.as_fd().as_raw_fd(), &raw mut unused) })
}

/// Lets the writers of a frozen filesystem go on (FITHAW). EINVAL where it is not frozen.
pub fn thaw_filesystem(fd: impl AsFd) -> io::Result<()> {
    let mut unused = 0;
    // SAFETY: as for `freeze_filesystem`.
    done(unsafe { raw::fithaw(fd.as_fd().as_raw_fd(), &raw mut unused) })
}

/// START STOP UNIT with LoEj through CDROMEJECT, which sd accepts too (drivers/scsi/scsi_ioctl.c).
pub fn eject(fd: impl AsFd) -> io::Result<()> {
    // SAFETY: takes no argument; the descriptor is open for the whole call.
    done(unsafe { raw::cdromeject(fd.as_fd().as_raw_fd()) })
}
