//! A fixed set of aligned buffers: the program's memory is bounded because whoever wants one more
//! waits until one comes back. A buffer returns by being dropped, on whatever thread.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::sys::buffer::AlignedBuf;

/// The buffers that are not in use.
#[derive(Debug)]
pub struct Pool {
    free: Receiver<AlignedBuf>,
    back: Sender<AlignedBuf>,
}

impl Pool {
    /// `count` buffers of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        let (back, free) = bounded(count);
        for _ in 0..count {
            // The channel was made with room for all of them.
            back.send(AlignedBuf::zeroed(size)).ok();
        }
        Self { free, back }
    }

    /// A buffer with unspecified contents. Waits for one to come back; `None` once `stop` says
    /// so, asked several times a second.
    pub fn take(&self, stop: &dyn Fn() -> bool) -> Option<PoolBuf> {
        loop {
            match self.free.recv_timeout(Duration::from_millis(50)) {
                Ok(buf) => {
                    return Some(PoolBuf { buf: Some(buf), back: self.back.clone() });
                }
                Err(RecvTimeoutError::Timeout) if !stop() => {}
                Err(_) => return None,
            }
        }
    }
}

/// A buffer on loan.
#[derive(Debug)]
pub struct PoolBuf {
    buf: Option<AlignedBuf>,
    back: Sender<AlignedBuf>,
}

impl Deref for PoolBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.buf.as_deref().unwrap_or_default()
    }
}

impl DerefMut for PoolBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.buf.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for PoolBuf {
    fn drop(&mut self) {
        if let Some(buf) = self.buf.take() {
            // Fails only when the pool is gone, and then the memory is simply freed.
            self.back.send(buf).ok();
        }
    }
}
