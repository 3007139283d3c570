//! The one owner of time. Everything that measures asks a [`Clock`]; nobody calls `Instant::now`
//! (clippy.toml forbids it), so a simulated run is exact and instant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};

/// Monotonic time since an arbitrary start.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Time since the clock's start; never goes back.
    fn now(&self) -> Duration;

    /// How long the host was suspended since the clock's start.
    fn slept(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether time passes by itself. A virtual clock is moved by devices alone, so a ticker
    /// beside it would have nothing to show.
    fn is_virtual(&self) -> bool {
        false
    }
}

/// CLOCK_MONOTONIC, which stands still while the host is suspended (clock_gettime(2)).
#[derive(Debug)]
pub struct SystemClock {
    start: Duration,
    /// CLOCK_BOOTTIME minus CLOCK_MONOTONIC at the start: all suspends before this run.
    slept_before: Duration,
}

impl SystemClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: read(ClockId::CLOCK_MONOTONIC), slept_before: suspended_so_far() }
    }
}

fn read(id: ClockId) -> Duration {
    // Both clocks exist on every kernel this runs on (BOOTTIME since 2.6.39).
    clock_gettime(id).map_or(Duration::ZERO, Duration::from)
}

fn suspended_so_far() -> Duration {
    read(ClockId::CLOCK_BOOTTIME).saturating_sub(read(ClockId::CLOCK_MONOTONIC))
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        read(ClockId::CLOCK_MONOTONIC).saturating_sub(self.start)
    }

    fn slept(&self) -> Duration {
        suspended_so_far().saturating_sub(self.slept_before)
    }
}

/// Time that passes only when a simulated device says so.
#[derive(Debug, Default)]
pub struct SimClock {
    nanos: AtomicU64,
}

impl SimClock {
    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn is_virtual(&self) -> bool {
        true
    }
}

/// The wall clock in seconds since 1970, for the validity of keys; OpenPGP's times have 32 bits.
pub fn unix_time() -> u32 {
    let now = read(ClockId::CLOCK_REALTIME);
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// Nanoseconds since 1970 from the wall clock, wrapped: a seed that no two runs share.
pub fn wall_clock_nanos() -> u64 {
    let now = read(ClockId::CLOCK_REALTIME);
    now.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(now.subsec_nanos()))
}

/// The wall clock as RFC 3339 in UTC, e.g. `2026-03-01T12:00:00Z`; for records only.
#[expect(clippy::disallowed_methods, reason = "the one reading of the wall clock")]
pub fn wall_clock() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
