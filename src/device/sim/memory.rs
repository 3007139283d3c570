//! Sparse memory that behaves like a block device: unaligned transfers are EINVAL, transfers
//! behind the end ENOSPC (writes) or short (reads), as the kernel answers (block/fops.c).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::{BlockDevice, Caches, Discard, Geometry};

const PAGE: u64 = 64 << 10;

/// Pages that were never written read as the prefill byte.
#[derive(Debug)]
pub struct Memory {
    pages: Mutex<BTreeMap<u64, Box<[u8]>>>,
    prefill: u8,
    keeps: bool,
    geometry: Geometry,
}

impl Memory {
    /// `size` bytes of `prefill`, in blocks of `sector` bytes.
    pub fn new(size: u64, sector: u32, prefill: u8, discard: bool) -> Self {
        let geometry = Geometry {
            size,
            logical_block: sector,
            physical_block: sector.max(4096),
            direct: true,
            discard_granularity: if discard { u64::from(sector.max(4096)) } else { 0 },
            caches: Caches {
                defeated: vec!["none to defeat (simulated)".to_owned()],
                undefeated: vec![],
            },
        };
        Self { pages: Mutex::default(), prefill, keeps: true, geometry }
    }

    /// The same, but nothing is kept, and reads leave their buffer as it is. For models of devices
    /// that are larger than memory, where the time is all that counts.
    #[must_use]
    pub fn forgetful(self) -> Self {
        Self { keeps: false, ..self }
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<u64, Box<[u8]>>> {
        // A page map is whole after every statement, so a panic elsewhere does not spoil it.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, offset: u64, len: u64) -> io::Result<()> {
        let block = u64::from(self.geometry.logical_block);
        if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(())
    }

    /// Calls `each` with (page number, offset in the page, position in the transfer, length).
    fn pieces(offset: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let inside = usize::try_from(at % PAGE).unwrap_or(0);
            let step = (usize::try_from(PAGE).unwrap_or(0) - inside).min(len - done);
            each(at / PAGE, inside, done..done + step);
            done += step;
        }
    }

    fn new_page(&self) -> Box<[u8]> {
        vec![self.prefill; usize::try_from(PAGE).unwrap_or(0)].into_boxed_slice()
    }
}

impl BlockDevice for Memory {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.check(offset, buf.len() as u64)?;
        let room = self.geometry.size.saturating_sub(offset);
        if !self.keeps {
            // Nobody looks at these bytes, and filling them would be most of the work.
            return Ok(buf.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        }
        let len = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let pages = self.pages();
        Self::pieces(offset, len, |page, inside, range| match pages.get(&page) {
            Some(bytes) => {
                let step = range.len();
                buf[range].copy_from_slice(&bytes[inside..inside + step]);
            }
            None => buf[range].fill(self.prefill),
        });
        Ok(len)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        self.check(offset, buf.len() as u64)?;
        if offset + buf.len() as u64 > self.geometry.size {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if !self.keeps {
            return Ok(buf.len());
        }
        let mut pages = self.pages();
        Self::pieces(offset, buf.len(), |page, inside, range| {
            let step = range.len();
            let bytes = pages.entry(page).or_insert_with(|| self.new_page());
            bytes[inside..inside + step].copy_from_slice(&buf[range]);
        });
        Ok(buf.len())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        self.check(offset, len)?;
        if self.geometry.discard_granularity == 0 && how != Discard::Zero || how == Discard::Secure
        {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let end = (offset + len).min(self.geometry.size);
        let mut pages = self.pages();
        let mut at = offset;
        while at < end {
            let step = (PAGE - at % PAGE).min(end - at);
            if step == PAGE && self.prefill == 0 {
                pages.remove(&(at / PAGE));
            } else {
                let from = usize::try_from(at % PAGE).unwrap_or(0);
                let to = from + usize::try_from(step).unwrap_or(0);
                pages.entry(at / PAGE).or_insert_with(|| self.new_page())[from..to].fill(0);
            }
            at += step;
        }
        Ok(())
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn check_identity(&self) -> Result<(), String> {
        Ok(())
    }

    fn present(&self) -> bool {
        true
    }
}
