//! How large single I/Os are. Bytes count when their I/O completes, so the size of an I/O is the
//! grain of the per-second rows: a stick at 2 MiB/s in blocks of 4 MiB shows seconds of 0 and 4.
//! The size is lowered, never raised, until a slow device completes several I/Os a second.
//! Fed by the meter; read by whoever submits I/O.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::event::Sample;

/// Completions a second below which the size is lowered.
const WANTED: u64 = 4;
/// Rows that a decision looks at.
const WINDOW: usize = 5;
/// Below this the overhead of a request costs more than the finer rows are worth.
const FLOOR: u32 = 256 << 10;

/// The size of single I/Os, shared between the meter and those who do I/O.
#[derive(Debug)]
pub struct IoSize {
    current: AtomicU32,
    window: Mutex<VecDeque<Sample>>,
}

impl IoSize {
    /// Starts at `max` bytes and never goes above it.
    pub fn new(max: u32) -> Self {
        Self { current: AtomicU32::new(max), window: Mutex::default() }
    }

    /// Bytes of the next I/O.
    pub fn get(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// Takes a finished row; the new size when it was lowered.
    pub fn feed(&self, row: &Sample) -> Option<u32> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.back().is_some_and(|last| last.phase != row.phase) {
            window.clear();
        }
        window.push_back(*row);
        if window.len() < WINDOW {
            return None;
        }
        let lowered = decide(self.get(), window.make_contiguous());
        window.pop_front();
        if let Some(size) = lowered {
            // The next decision judges rows of the new size alone.
            window.clear();
            self.current.store(size, Ordering::Relaxed);
        }
        lowered
    }
}

/// The largest power of two with which `rows` would have had enough completions a second, when
/// that is less than `current`. Seconds in which nothing completed say nothing about the speed
/// between stalls and are left out.
fn decide(current: u32, rows: &[Sample]) -> Option<u32> {
    let busy = rows.iter().filter(|row| row.bytes > 0 && row.nanos > 0);
    let (bytes, nanos) = busy.fold((0u128, 0u128), |(bytes, nanos), row| {
        (bytes + u128::from(row.bytes), nanos + u128::from(row.nanos))
    });
    let per_second = u64::try_from((bytes * 1_000_000_000).checked_div(nanos)?).unwrap_or(u64::MAX);
    let wanted = u32::try_from(per_second / WANTED).unwrap_or(u32::MAX);
    if wanted >= current {
        return None;
    }
    let power = wanted.checked_ilog2().map_or(0, |log| 1 << log);
    let size = power.max(FLOOR);
    (size < current).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;

    const KIB: u32 = 1 << 10;
    const MIB: u32 = 1 << 20;

    fn row(phase: Phase, second: u64, bytes: u32) -> Sample {
        let bytes = u64::from(bytes);
        Sample {
            phase,
            second,
            nanos: 1_000_000_000,
            bytes,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        }
    }

    fn rows(bytes: &[u32]) -> Vec<Sample> {
        (0..).zip(bytes).map(|(second, bytes)| row(Phase::Write, second, *bytes)).collect()
    }

    #[test]
    fn the_size_is_lowered_only_when_fewer_than_4_ios_a_second_complete() {
        for (name, current, bytes, lowered) in [
            ("fast enough", MIB, [20 * MIB; 5], None),
            ("just 4 a second", MIB, [4 * MIB; 5], None),
            ("a byte too slow", MIB, [4 * MIB - 1; 5], Some(512 * KIB)),
            (
                "2 MiB/s in 4 MiB blocks: every second row is empty",
                4 * MIB,
                [0, 4 * MIB, 0, 4 * MIB, 0],
                Some(MIB),
            ),
            ("2 MiB/s in 1 MiB blocks", MIB, [2 * MIB; 5], Some(512 * KIB)),
            ("slower than the floor helps", MIB, [100 * KIB; 5], Some(256 * KIB)),
            ("already at the floor", 256 * KIB, [100 * KIB; 5], None),
            ("smaller than the floor from the start", 64 * KIB, [KIB; 5], None),
            ("a fast stick with long stalls", MIB, [0, 0, 100 * MIB, 0, 0], None),
            ("nothing but a stall", MIB, [0; 5], None),
            ("from a size that is no power of two", 3 * MIB, [8 * MIB; 5], Some(2 * MIB)),
        ] {
            assert_eq!(decide(current, &rows(&bytes)), lowered, "{name}");
        }
    }

    #[test]
    fn a_decision_takes_five_rows_of_one_phase_and_starts_over_after_a_change() {
        let size = IoSize::new(4 * MIB);
        let slow = |second| row(Phase::Write, second, 2 * MIB);
        for second in 0..4 {
            assert_eq!(size.feed(&slow(second)), None);
        }
        assert_eq!(size.feed(&row(Phase::Verify, 0, 2 * MIB)), None, "another phase starts over");
        for second in 0..4 {
            assert_eq!(size.feed(&slow(second)), None);
        }
        assert_eq!(size.feed(&slow(4)), Some(512 * KIB));
        assert_eq!(size.get(), 512 * KIB);
        for second in 0..20 {
            assert_eq!(size.feed(&row(Phase::Write, second, 900 * MIB)), None, "never raised");
        }
        for second in 0..4 {
            assert_eq!(size.feed(&row(Phase::Write, second, MIB)), None);
        }
        assert_eq!(size.feed(&row(Phase::Write, 4, MIB)), Some(256 * KIB));
    }
}
