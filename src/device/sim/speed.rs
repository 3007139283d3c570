//! How long a simulated stick takes: it moves the virtual clock and nothing else. A write cache
//! of some bytes takes data fast, behind it the steady rate holds.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::{BlockDevice, Discard, Geometry};
use crate::time::SimClock;

/// Rates in bytes per second; 0 = takes no time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Steady write rate.
    pub write: f64,
    /// Read rate.
    pub read: f64,
    /// Write rate while the write cache has room.
    pub cached: f64,
    /// Bytes that the write cache takes.
    pub cache: u64,
    /// Time that every read, write and flush costs on top.
    pub latency: Duration,
}

/// A device with a speed.
#[derive(Debug)]
pub struct Timed {
    inner: Box<dyn BlockDevice>,
    speed: Speed,
    clock: Arc<SimClock>,
    written: AtomicU64,
}

impl Timed {
    /// Wraps a device.
    pub fn new(inner: Box<dyn BlockDevice>, speed: Speed, clock: Arc<SimClock>) -> Self {
        Self { inner, speed, clock, written: AtomicU64::new(0) }
    }

    fn spend(&self, bytes: u64, rate: f64) {
        let transfer = if rate > 0.0 { bytes as f64 / rate } else { 0.0 };
        self.clock.advance(self.speed.latency + Duration::from_secs_f64(transfer));
    }
}

impl BlockDevice for Timed {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read_at(offset, buf)?;
        self.spend(n as u64, self.speed.read);
        Ok(n)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        let n = self.inner.write_at(offset, buf)?;
        let before = self.written.fetch_add(n as u64, Ordering::SeqCst);
        let cached = self.speed.cache.saturating_sub(before).min(n as u64);
        if cached > 0 && self.speed.cached > 0.0 {
            let rest = (n as u64 - cached) as f64 / self.speed.write.max(1.0);
            let rest = if self.speed.write > 0.0 { rest } else { 0.0 };
            self.clock.advance(Duration::from_secs_f64(rest));
            self.spend(cached, self.speed.cached);
        } else {
            self.spend(n as u64, self.speed.write);
        }
        Ok(n)
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()?;
        self.spend(0, 0.0);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        self.inner.discard(offset, len, how)?;
        self.spend(0, 0.0);
        Ok(())
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        self.inner.invalidate_cache()
    }

    fn check_identity(&self) -> Result<(), String> {
        self.inner.check_identity()
    }

    fn present(&self) -> bool {
        self.inner.present()
    }
}
