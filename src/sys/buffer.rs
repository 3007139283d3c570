//! Memory for O_DIRECT: starts at a multiple of 4096 bytes, which satisfies the DMA alignment of
//! every block device (queue/dma_alignment, at most a page). It over-allocates and skips to the
//! first aligned byte. Large buffers ask for huge pages: the kernel pins the pages of every direct
//! I/O, and pinning one page of 2 MiB is cheaper than pinning 512 of 4 KiB.

use std::ops::{Deref, DerefMut};

/// Alignment of every buffer, in bytes.
pub const ALIGN: usize = 4096;

/// A huge page of x86-64 and of arm64 with 4 KiB pages.
const HUGE: usize = 2 << 20;

/// A zeroed, aligned, fixed-size buffer.
pub struct AlignedBuf {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let align = if len >= HUGE { HUGE } else { ALIGN };
        let memory = vec![0; len + align];
        // The heap block never moves while the Vec is neither grown nor shrunk, and it is not.
        let start = memory.as_ptr().align_offset(align);
        let mut buf = Self { memory, start, len };
        ask_for_huge_pages(&mut buf);
        buf
    }
}

/// Only advice: a kernel without transparent huge pages refuses it, and all works as before
/// (Documentation/admin-guide/mm/transhuge.rst).
fn ask_for_huge_pages(buf: &mut [u8]) {
    let whole = buf.len() / HUGE * HUGE;
    if whole == 0 {
        return;
    }
    // SAFETY: the range is memory of this exclusive borrow and starts at a page. MADV_HUGEPAGE
    // changes neither the contents nor the validity of any address.
    unsafe { libc::madvise(buf.as_mut_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_exactly_as_long_as_asked() {
        for len in [0, 1, 511, 4096, 4 << 20] {
            let mut buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr().align_offset(ALIGN), 0);
            buf.fill(1);
            assert!(buf.iter().all(|&b| b == 1));
        }
    }
}
