//! Notices while a write goes on that it became slower for good, as when a cache is full. Pure.
//!
//! A one-sided CUSUM (Page 1954) on the logarithm of the rows against their median so far. Before
//! it is told, five more seconds must say the same: a stall is no slowdown. On a device whose
//! seconds vary by more than 12 % anyway nothing is told; the report judges those.

use std::time::Duration;

use super::series::{nearest_rank, speed};
use crate::event::Sample;

/// Rows that the speed before is known from, at least and at most.
const REFERENCE: std::ops::RangeInclusive<usize> = 5..=30;
/// Variation of these rows above which nothing is told.
const NOISY: f64 = 0.12;
/// Log2 units of slowness in a row that are none, at least, and per standard deviation.
const SLACK: (f64, f64) = (0.12, 0.6);
/// Log2 units that add up to a change, at least, and per standard deviation.
const ALARM: (f64, f64) = (1.5, 10.0);
/// Rows that must agree, and in how many of them something must have completed.
const AGREE: (usize, usize) = (5, 3);
/// Share of the speed before that is no longer one speed with it.
const DROP: f64 = 0.85;
/// A device that becomes slower again and again is told of so often.
const TOLD: u8 = 3;

/// The rows of one phase, as far as they matter.
#[derive(Debug, Default)]
pub struct Slowdown {
    started: bool,
    /// Bytes up to the last row.
    bytes: u64,
    /// Speeds of the rows before a change.
    reference: Vec<u64>,
    /// Speeds of the rows since the first that may be one.
    doubtful: Vec<u64>,
    sum: f64,
    told: u8,
}

/// Where a device became slower. Speeds in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowed {
    /// Bytes since the phase began.
    pub at_bytes: u64,
    /// Mean of the seconds before.
    pub before: u64,
    /// Mean of the seconds since.
    pub after: u64,
}

impl Slowdown {
    /// Takes the next full row.
    pub fn feed(&mut self, row: &Sample) -> Option<Slowed> {
        self.bytes = self.bytes.saturating_add(row.bytes);
        // The first one is a start.
        if !std::mem::replace(&mut self.started, true) || self.told == TOLD {
            return None;
        }
        let (least, most) = (*REFERENCE.start(), *REFERENCE.end());
        if self.reference.len() < least {
            self.reference.push(speed(row));
            return None;
        }
        let before = median(&self.reference).max(1);
        let noise = self.noise(before);
        let below = (before as f64 / speed(row).max(before / 64).max(1) as f64).log2();
        self.sum = (self.sum + below - SLACK.0.max(SLACK.1 * noise)).max(0.0);
        self.doubtful.push(speed(row));
        if self.sum == 0.0 {
            self.reference.append(&mut self.doubtful);
            let surplus = self.reference.len().saturating_sub(most);
            self.reference.drain(..surplus);
            return None;
        }
        if self.sum < ALARM.0.max(ALARM.1 * noise) {
            return None;
        }
        self.decide(before, noise)
    }

    /// The sum says that it changed; whether the rows since agree, when there are enough.
    fn decide(&mut self, before: u64, noise: f64) -> Option<Slowed> {
        let last = self.doubtful.len().checked_sub(AGREE.0)?;
        let after = median(&self.doubtful[last..]);
        let half = u64::midpoint(before, after);
        let change = self.doubtful.iter().position(|&speed| speed < half).unwrap_or(0);
        let since = &self.doubtful[change + 1..];
        let alive = since.iter().filter(|&&speed| speed > 0).count();
        if since.len() < AGREE.0 || alive < AGREE.1 {
            return None;
        }
        let slower = (after as f64) < DROP * before as f64;
        let change = slower.then(|| {
            // Means, of what belongs to one speed: blocks that are long against a second average
            // out. Slow rows of a start do not belong.
            let usual = self.reference.iter().filter(|&&s| s as f64 > DROP * before as f64);
            let (before, after) = (average(usual), average(since.iter()));
            Slowed { at_bytes: self.place(change, before, after), before, after }
        });
        let since = since.to_vec();
        self.doubtful.clear();
        self.sum = 0.0;
        if slower {
            self.reference = since;
            self.told += 1;
        }
        change.filter(|_| noise * std::f64::consts::LN_2 <= NOISY)
    }

    /// In the row of the change and the one before it, as much time has the speed before as makes
    /// up their bytes.
    fn place(&self, change: usize, before: u64, after: u64) -> u64 {
        let earlier = match change {
            0 => self.reference.last().copied().unwrap_or(before),
            _ => self.doubtful[change - 1],
        };
        let both = earlier as f64 + self.doubtful[change] as f64;
        let (fast, slow) = (before as f64, after as f64);
        let first = ((both - 2.0 * slow) / (fast - slow)).clamp(0.0, 2.0);
        let later = self.doubtful[change..].iter().sum::<u64>().saturating_add(earlier);
        let start = self.bytes.saturating_sub(later);
        start.saturating_add(Duration::from_secs_f64(first * fast).as_secs())
    }

    /// Standard deviation of the reference in log2 units, from its median deviation.
    fn noise(&self, median_speed: u64) -> f64 {
        let away: Vec<u64> =
            self.reference.iter().map(|&speed| speed.abs_diff(median_speed)).collect();
        1.4826 * median(&away) as f64 / median_speed as f64 * std::f64::consts::LOG2_E
    }
}

fn average<'a>(values: impl Iterator<Item = &'a u64> + Clone) -> u64 {
    let sum: u128 = values.clone().map(|&value| u128::from(value)).sum();
    let mean = sum.checked_div(values.count() as u128).unwrap_or(0);
    u64::try_from(mean).unwrap_or(u64::MAX)
}

fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    nearest_rank(&sorted, 50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;

    /// What is told, and after which row.
    fn fed(speeds: impl IntoIterator<Item = u64>) -> Vec<(u64, Slowed)> {
        let mut slowdown = Slowdown::default();
        let row = |(second, speed): (u64, u64)| Sample {
            phase: Phase::Write,
            second,
            nanos: 1_000_000_000,
            bytes: speed * 1_000_000,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        };
        let rows = (0..).zip(speeds).map(row);
        rows.filter_map(|row| slowdown.feed(&row).map(|slowed| (row.second, slowed))).collect()
    }

    fn noise(len: u64, middle: u64, percent: u64, seed: u64) -> Vec<u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40
        };
        // The sum of twelve uniform values has the standard deviation 1.
        let mut gauss = || (0..12).map(|_| next()).sum::<u64>() as f64 / f64::from(1 << 24) - 6.0;
        let mut value = || (middle as f64 * (1.0 + percent as f64 / 100.0 * gauss())).max(0.0);
        (0..len).map(|_| Duration::from_secs_f64(value()).as_secs()).collect()
    }

    #[test]
    fn a_full_cache_is_told_within_seconds_with_its_bytes_and_both_speeds() {
        // 13.3 s at 362 MB/s, then 85.
        let speeds = [vec![362; 13], vec![168], vec![85; 40]].concat();
        let told = fed(speeds);
        let [(second, slowed)] = told[..] else { panic!("{told:?}") };
        assert!((18..=20).contains(&second), "{second}");
        assert_eq!((slowed.before, slowed.after), (362_000_000, 85_000_000));
        let expected: f64 = 13.3 * 362e6;
        assert!((slowed.at_bytes as f64 / expected - 1.0).abs() < 0.003, "{slowed:?}");
    }

    #[test]
    fn a_step_of_a_fifth_is_told_too_and_a_slow_start_is_none() {
        let speeds = [vec![40, 200], vec![361; 38], vec![290; 40]].concat();
        let told = fed(speeds);
        assert!(matches!(told[..], [(second, _)] if second < 40 + 12), "{told:?}");
    }

    #[test]
    fn stalls_and_flat_devices_are_not_told() {
        let stall = [vec![100; 20], vec![0; 7], vec![100; 40]].concat();
        assert_eq!(fed(stall), []);
        let blocks: Vec<u64> = (0..100).map(|second| second % 2 * 4).collect();
        assert_eq!(fed(blocks), []);
        assert_eq!(fed(vec![0; 100]), []);
        assert_eq!(fed(noise(600, 1_000, 30, 3)), [], "varies too much to say anything");
    }

    #[test]
    fn flat_noise_raises_no_false_alarm_and_a_cliff_in_it_is_seen() {
        let mut seen = 0;
        for seed in 0..400 {
            let percent = [1, 3, 5, 8][usize::try_from(seed % 4).unwrap()];
            let flat = noise(600, 1_000, percent, seed);
            assert_eq!(fed(flat), [], "seed {seed}, {percent} %");
            let cliff = [noise(40, 350, percent, seed), noise(60, 120, percent, seed + 1)].concat();
            let told = fed(cliff);
            seen += usize::from(told.len() == 1 && (45..=50).contains(&told[0].0));
        }
        assert!(seen >= 390, "{seen} of 400 cliffs");
    }

    #[test]
    fn a_second_step_is_told_as_well_but_not_for_ever() {
        let two = [vec![400; 20], vec![200; 20], vec![50; 20]].concat();
        assert_eq!(fed(two).len(), 2);
        let many = (0..12).flat_map(|step| vec![4_000_000 >> (step * 2); 15]);
        assert_eq!(fed(many).len(), usize::from(TOLD));
    }
}
