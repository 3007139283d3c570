//! SG_IO: SCSI commands that only ask (scsi/sg.h; the kernel lets INQUIRY and READ CAPACITY(16)
//! through on a read-only descriptor, drivers/scsi/scsi_ioctl.c `scsi_cmd_allowed`). Used where
//! /sys has no vpd files: bulk-only USB disks have none, since the kernel does not ask them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `struct sg_io_hdr` of scsi/sg.h.
#[repr(C)]
struct SgIoHdr {
    interface_id: libc::c_int,
    dxfer_direction: libc::c_int,
    cmd_len: libc::c_uchar,
    mx_sb_len: libc::c_uchar,
    iovec_count: libc::c_ushort,
    dxfer_len: libc::c_uint,
    dxferp: *mut libc::c_void,
    cmdp: *mut libc::c_uchar,
    sbp: *mut libc::c_uchar,
    timeout: libc::c_uint,
    flags: libc::c_uint,
    pack_id: libc::c_int,
    usr_ptr: *mut libc::c_void,
    status: libc::c_uchar,
    masked_status: libc::c_uchar,
    msg_status: libc::c_uchar,
    sb_len_wr: libc::c_uchar,
    host_status: libc::c_ushort,
    driver_status: libc::c_ushort,
    resid: libc::c_int,
    duration: libc::c_uint,
    info: libc::c_uint,
}

const SG_IO: libc::Ioctl = 0x2285;
const SG_DXFER_FROM_DEV: libc::c_int = -3;
const TIMEOUT_MS: libc::c_uint = 5000;

/// Sends a command that reads `answer.len()` bytes (at most 252); returns how many came.
fn ask(fd: impl AsFd, command: &mut [u8], answer: &mut [u8]) -> io::Result<usize> {
    let mut sense = [0u8; 32];
    let length = u8::try_from(answer.len()).map_err(io::Error::other)?;
    let mut header = SgIoHdr {
        interface_id: libc::c_int::from(b'S'),
        dxfer_direction: SG_DXFER_FROM_DEV,
        cmd_len: u8::try_from(command.len()).map_err(io::Error::other)?,
        mx_sb_len: 32,
        iovec_count: 0,
        dxfer_len: libc::c_uint::from(length),
        dxferp: answer.as_mut_ptr().cast(),
        cmdp: command.as_mut_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        usr_ptr: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sb_len_wr: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: header has the kernel's layout (repr(C)); its three pointers are live, exclusive
    // buffers of the lengths given in it, and the kernel is done with them when the call returns.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), SG_IO, &raw mut header) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if header.status != 0 || header.host_status != 0 {
        return Err(io::Error::other(format!(
            "SCSI status {:#04x}, host status {:#06x}, sense key {:#x}",
            header.status,
            header.host_status,
            sense[2] & 0x0f
        )));
    }
    Ok(answer.len().saturating_sub(usize::try_from(header.resid).unwrap_or(0)))
}

/// INQUIRY of a vital product data page (SPC-4, 6.4).
pub fn vpd_page(fd: impl AsFd, page: u8) -> io::Result<Vec<u8>> {
    let mut answer = [0u8; 64];
    let mut command = [0x12, 1, page, 0, 64, 0];
    let got = ask(fd, &mut command, &mut answer)?;
    let wanted = 4 + usize::from(u16::from_be_bytes([answer[2], answer[3]]));
    if answer[1] != page {
        return Err(io::Error::other("the device answered with another page"));
    }
    Ok(answer[..wanted.min(got)].to_vec())
}

/// READ CAPACITY(16) (SBC-3, 5.16): 32 bytes.
pub fn read_capacity_16(fd: impl AsFd) -> io::Result<Vec<u8>> {
    let mut answer = [0u8; 32];
    let mut command = [0u8; 16];
    (command[0], command[1], command[13]) = (0x9e, 0x10, 32);
    let got = ask(fd, &mut command, &mut answer)?;
    Ok(answer[..got].to_vec())
}
