//! io_uring for one file: a fixed set of buffers, each either ours or in flight. A buffer in
//! flight cannot be reached, and the ring waits for the kernel before it frees one, so no
//! sequence of calls lets the kernel write into memory that somebody else holds.
//!
//! io_uring(7), io_uring_enter(2); IORING_OP_READ and IORING_OP_WRITE are there since Linux 5.6.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use super::buffer::AlignedBuf;

/// A ring over `fd`.
pub struct Ring<'fd> {
    uring: IoUring,
    fd: BorrowedFd<'fd>,
    slots: Vec<Slot>,
    in_flight: usize,
}

struct Slot {
    buf: AlignedBuf,
    busy: bool,
}

/// What became of an I/O.
#[derive(Debug)]
pub struct Done {
    /// Which buffer it was.
    pub slot: usize,
    /// Bytes moved, possibly fewer than asked.
    pub result: io::Result<usize>,
}

impl<'fd> Ring<'fd> {
    /// `slots` buffers of `size` bytes. Fails where io_uring is not there or not allowed
    /// (kernel.io_uring_disabled, seccomp).
    pub fn new(fd: BorrowedFd<'fd>, slots: usize, size: usize) -> io::Result<Self> {
        let entries = u32::try_from(slots.next_power_of_two()).map_err(io::Error::other)?;
        // Completions are worked off when we wait, without interrupting us (Linux 6.1).
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))?;
        let slot = |_| Slot { buf: AlignedBuf::zeroed(size), busy: false };
        Ok(Self { uring: ring, fd, slots: (0..slots).map(slot).collect(), in_flight: 0 })
    }

    /// I/Os that were started and not taken back yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A buffer that is not in flight; empty when it is.
    pub fn buf(&mut self, slot: usize) -> &mut [u8] {
        match self.slots.get_mut(slot) {
            Some(slot) if !slot.busy => &mut slot.buf,
            _ => &mut [],
        }
    }

    /// Starts reading `len` bytes into a buffer; the kernel is told with the next [`Ring::wait`].
    pub fn read(&mut self, slot: usize, offset: u64, len: usize) -> io::Result<()> {
        let (fd, buf) = (types::Fd(self.fd.as_raw_fd()), self.lend(slot, len)?);
        let len = u32::try_from(len).map_err(io::Error::other)?;
        self.push(&opcode::Read::new(fd, buf, len).offset(offset).build().user_data(slot as u64))
    }

    /// Starts writing the first `len` bytes of a buffer.
    pub fn write(&mut self, slot: usize, offset: u64, len: usize) -> io::Result<()> {
        let (fd, buf) = (types::Fd(self.fd.as_raw_fd()), self.lend(slot, len)?);
        let len = u32::try_from(len).map_err(io::Error::other)?;
        self.push(&opcode::Write::new(fd, buf, len).offset(offset).build().user_data(slot as u64))
    }

    /// Marks a buffer as in flight.
    fn lend(&mut self, slot: usize, len: usize) -> io::Result<*mut u8> {
        let slot = self.slots.get_mut(slot).filter(|slot| !slot.busy && slot.buf.len() >= len);
        let slot = slot.ok_or_else(|| io::Error::other("this buffer is in flight or too small"))?;
        slot.busy = true;
        self.in_flight += 1;
        Ok(slot.buf.as_mut_ptr())
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry's buffer belongs to a slot that is busy from now until its completion
        // was taken, is never handed out meanwhile, and is freed by nobody before (see Drop); the
        // descriptor is borrowed for as long as the ring lives.
        let pushed = unsafe { self.uring.submission().push(entry) };
        // There are as many entries as slots, so there is room.
        pushed.map_err(|_| io::Error::other("the submission queue is full"))
    }

    /// Hands what was started to the kernel without waiting.
    pub fn submit(&mut self) -> io::Result<()> {
        self.uring.submit().map(drop)
    }

    /// Hands what was started to the kernel and waits until at least one I/O is done.
    pub fn wait(&mut self) -> io::Result<()> {
        if self.in_flight == 0 {
            return Ok(());
        }
        match self.uring.submit_and_wait(1) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// Takes one I/O that is done.
    pub fn done(&mut self) -> Option<Done> {
        let entry = self.uring.completion().next()?;
        let index = usize::try_from(entry.user_data()).ok()?;
        self.slots.get_mut(index)?.busy = false;
        self.in_flight -= 1;
        let result = match entry.result() {
            n if n < 0 => Err(io::Error::from_raw_os_error(-n)),
            n => usize::try_from(n).map_err(io::Error::other),
        };
        Some(Done { slot: index, result })
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.wait().is_err() {
                // The kernel may still write into the buffers: they are never freed.
                self.slots.drain(..).for_each(std::mem::forget);
                return;
            }
            while self.done().is_some() {}
        }
    }
}

impl std::fmt::Debug for Ring<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} buffers, {} in flight)", self.slots.len(), self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_a_buffer_in_flight_is_out_of_reach() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![0; 1 << 16]).unwrap();
        let mut ring = match Ring::new(file.as_fd(), 4, 4096) {
            Ok(ring) => ring,
            Err(e) => {
                eprintln!("SKIPPED: io_uring is not to be had here: {e}");
                return;
            }
        };
        for slot in 0..4 {
            ring.buf(slot).fill(u8::try_from(slot).unwrap() + 1);
            ring.write(slot, slot as u64 * 4096, 4096).unwrap();
            assert!(ring.buf(slot).is_empty());
            assert!(ring.read(slot, 0, 4096).is_err());
        }
        let mut seen = Vec::new();
        while ring.in_flight() > 0 {
            ring.wait().unwrap();
            while let Some(done) = ring.done() {
                assert_eq!(done.result.unwrap(), 4096);
                seen.push(done.slot);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
        ring.read(0, 3 * 4096, 4096).unwrap();
        ring.wait().unwrap();
        assert_eq!(ring.done().unwrap().slot, 0);
        assert!(ring.buf(0).iter().all(|byte| *byte == 4));
        assert!(ring.buf(9).is_empty());
        assert!(ring.read(9, 0, 1).is_err());
    }

    #[test]
    fn a_ring_that_is_dropped_with_io_in_flight_waits_for_it() {
        let file = tempfile::tempfile().unwrap();
        let Ok(mut ring) = Ring::new(file.as_fd(), 2, 4096) else { return };
        ring.buf(0).fill(7);
        ring.write(0, 0, 4096).unwrap();
        drop(ring);
        assert_eq!(file.metadata().unwrap().len(), 4096);
    }

    #[test]
    fn an_error_of_the_kernel_is_the_error_of_that_io() {
        let file = std::fs::OpenOptions::new().read(true).open("/proc/self/exe").unwrap();
        let Ok(mut ring) = Ring::new(file.as_fd(), 1, 4096) else { return };
        ring.write(0, 0, 4096).unwrap();
        ring.wait().unwrap();
        let done = ring.done().unwrap();
        assert_eq!(done.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
