//! Synthetic devices for tests: speeds in tenths of a second, noise from a fixed seed.

use super::compare::Random;
use super::series::{Series, rounded, whole};

pub(super) const MIB: f64 = 1_048_576.0;

/// Speeds in bytes a second, one every tenth of a second.
#[derive(Clone, Debug, Default)]
pub(super) struct Model(pub(super) Vec<f64>);

impl Model {
    /// Goes on at `speed` for so many seconds.
    pub(super) fn then(mut self, seconds: f64, speed: f64) -> Self {
        self.0.extend(std::iter::repeat_n(speed, whole((seconds * 10.0).round())));
        self
    }

    /// Goes on for `seconds` with turns of `slow` (first) and `fast`, each of its own length;
    /// every turn is longer or shorter by up to `jitter` of it.
    pub(super) fn turns(
        mut self,
        seconds: f64,
        turns: [(f64, f64); 2],
        jitter: f64,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let end = self.0.len() + whole((seconds * 10.0).round());
        while self.0.len() < end {
            for (length, speed) in turns {
                self = self.then(length * (1.0 + jitter * (2.0 * unit(&mut random) - 1.0)), speed);
            }
        }
        self.0.truncate(end);
        self
    }

    /// Multiplies every second by Gaussian noise around 1, and every tenth by half as much more.
    pub(super) fn noisy(mut self, cov: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        for second in self.0.chunks_mut(10) {
            let common = 1.0 + cov * gauss(&mut random);
            for tenth in second {
                *tenth *= (common + cov / 2.0 * gauss(&mut random)).max(0.02);
            }
        }
        self
    }

    /// As it would be measured.
    pub(super) fn series(&self) -> Series {
        self.in_blocks(1.0)
    }

    /// As it would be measured with blocks that complete as a whole.
    pub(super) fn in_blocks(&self, block: f64) -> Series {
        let (mut moved, mut told) = (0.0, 0.0);
        let steps = self.0.iter().map(|speed| {
            moved += speed / 10.0;
            let blocks = (moved / block + 1e-6).floor() * block;
            let fresh = blocks - told;
            told = blocks;
            rounded(fresh)
        });
        Series::per_tenth(steps.collect(), 100_000_000)
    }
}

/// From 0 to 1.
pub(super) fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1u64 << 53) as f64
}

/// Gaussian with mean 0 and standard deviation 1 (Irwin and Hall: the sum of twelve).
pub(super) fn gauss(random: &mut Random) -> f64 {
    (0..12).map(|_| unit(random)).sum::<f64>() - 6.0
}
