//! How long a simulated stick takes: it moves the virtual clock and nothing else. A write cache
//! of some bytes takes data fast; behind it the steady rate holds, with rhythm, noise and seconds
//! of nothing where the model has them. All of it is computed from the time alone, so that two
//! runs are the same.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::super::{BlockDevice, Discard, Geometry};
use crate::time::{Clock as _, SimClock};

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
    /// Time that the first write costs on top.
    pub spinup: Duration,
    /// Standard deviation of a second's write rate, divided by the rate.
    pub noise: f64,
    /// Share of the seconds of steady writing in which nothing moves.
    pub stalled: f64,
    /// Steady writing begins again every so often; zero: it has no rhythm.
    pub period: Duration,
    /// So much of each period is slow.
    pub low: Duration,
    /// As slow as this.
    pub low_rate: f64,
}

impl Speed {
    /// Whether a rate is the same all the time, so that a transfer is one division.
    fn is_plain(&self) -> bool {
        self.noise <= 0.0 && self.stalled <= 0.0 && self.period.is_zero()
    }

    /// What a second's rate is multiplied with: uniform, with the mean 1 and the deviation `noise`.
    fn wobble(&self, second: u64) -> f64 {
        (1.0 + self.noise * 3f64.sqrt() * (2.0 * unit(second) - 1.0)).max(0.01)
    }

    /// The steady write rate at a time since steady writing began, and for how long it holds.
    fn steady(&self, at: Duration) -> (f64, Duration) {
        let second = at.as_secs();
        let mut holds = Duration::from_secs(second + 1).saturating_sub(at);
        let mut rate = self.write;
        if !self.period.is_zero() {
            let inside = at.as_nanos() % self.period.as_nanos();
            let low = self.low.as_nanos();
            let next = if inside < low {
                rate = self.low_rate;
                low
            } else {
                self.period.as_nanos()
            };
            let left = u64::try_from(next - inside).unwrap_or(u64::MAX);
            holds = holds.min(Duration::from_nanos(left));
        }
        if self.stalled > 0.0 && unit(!second) < self.stalled {
            return (0.0, holds);
        }
        (rate * self.wobble(second), holds)
    }
}

/// A number from 0 to 1 for each second: the output step of SplitMix64.
fn unit(second: u64) -> f64 {
    let mut z = second.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A device with a speed.
#[derive(Debug)]
pub struct Timed {
    inner: Box<dyn BlockDevice>,
    speed: Speed,
    clock: Arc<SimClock>,
    written: AtomicU64,
    /// When steady writing began, in nanoseconds; `u64::MAX` before.
    steady_since: AtomicU64,
}

impl Timed {
    /// Wraps a device.
    pub fn new(inner: Box<dyn BlockDevice>, speed: Speed, clock: Arc<SimClock>) -> Self {
        let steady_since = AtomicU64::new(u64::MAX);
        Self { inner, speed, clock, written: AtomicU64::new(0), steady_since }
    }

    fn spend(&self, bytes: u64, rate: f64) {
        self.clock.advance(self.speed.latency + transfer(bytes as f64, rate));
    }

    /// A transfer at a rate that changes from second to second.
    fn spend_wobbling(&self, bytes: u64, rate: f64) {
        let speed = &self.speed;
        if speed.noise <= 0.0 {
            return self.spend(bytes, rate);
        }
        let second = self.clock.now().as_secs();
        self.spend(bytes, rate * speed.wobble(second));
    }

    /// A steady write.
    fn spend_steady(&self, bytes: u64) {
        let speed = &self.speed;
        if speed.is_plain() || speed.write <= 0.0 {
            return self.spend(bytes, speed.write);
        }
        self.clock.advance(speed.latency);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let since = self.steady_since.fetch_min(nanos(self.clock.now()), Ordering::SeqCst);
        let since = Duration::from_nanos(since.min(nanos(self.clock.now())));
        let mut left = bytes as f64;
        while left > 0.0 {
            let (rate, holds) = speed.steady(self.clock.now().saturating_sub(since));
            let whole = transfer(left, rate);
            if rate > 0.0 && whole <= holds {
                self.clock.advance(whole);
                return;
            }
            left -= rate * holds.as_secs_f64();
            self.clock.advance(holds.max(Duration::from_nanos(1)));
        }
    }
}

fn transfer(bytes: f64, rate: f64) -> Duration {
    Duration::from_secs_f64(if rate > 0.0 { bytes / rate } else { 0.0 })
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
        if before == 0 {
            self.clock.advance(self.speed.spinup);
        }
        let cached = if self.speed.cached > 0.0 {
            self.speed.cache.saturating_sub(before).min(n as u64)
        } else {
            0
        };
        if cached > 0 {
            self.spend_wobbling(cached, self.speed.cached);
            let rest = (n as u64 - cached) as f64;
            self.clock.advance(transfer(rest, self.speed.write));
        } else {
            self.spend_steady(n as u64);
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
