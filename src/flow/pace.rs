//! Whether reading a medium before it is written pays, by what the last stretches cost. Pure.
//!
//! A byte costs r to be read and w to be written. Writing all of them costs w, and r when they are
//! read back; comparing costs r, and for the share d that differs what writing costs. Sticks that
//! read hardly faster than they write gain nothing from it unless most is equal.

use std::time::Duration;

/// Bytes that are compared before reading first can be given up.
const ENOUGH: u64 = 32 << 20;
/// Writes without reading first, until it is tried again.
const PAUSE: u32 = 15;

/// What was seen, and what follows from it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Written bytes are read back.
    verify: bool,
    /// Of what was compared since the last decision.
    read: Cost,
    differed: u64,
    /// Of all that was written.
    write: Cost,
    /// Writes to come that are not compared.
    pause: u32,
    /// The next decision is made on one stretch.
    trial: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    bytes: u64,
    took: Duration,
}

impl Cost {
    fn add(&mut self, bytes: u64, took: Duration) {
        self.bytes += bytes;
        self.took += took;
    }

    /// Seconds for a byte; `None`: not known.
    fn per_byte(self) -> Option<f64> {
        (self.bytes > 0).then(|| self.took.as_secs_f64() / self.bytes as f64)
    }
}

impl Pace {
    /// `verify`: what is written will be read back.
    pub(super) fn new(verify: bool) -> Self {
        Self { verify, ..Self::default() }
    }

    /// This much was read in this time, of which so much differed.
    pub(super) fn compared(&mut self, bytes: u64, took: Duration, differed: u64) {
        self.read.add(bytes, took);
        self.differed += differed;
    }

    /// This much was written in this time.
    pub(super) fn wrote(&mut self, bytes: u64, took: Duration) {
        self.write.add(bytes, took);
    }

    /// Whether the next stretch is to be read before it is written.
    pub(super) fn pays(&mut self) -> bool {
        if self.pause > 0 {
            self.pause -= 1;
            self.trial = true;
            return self.pause == 0;
        }
        let enough = if self.trial { 1 } else { ENOUGH };
        let (Some(read), Some(write)) = (self.read.per_byte(), self.write.per_byte()) else {
            return true;
        };
        if self.read.bytes < enough {
            return true;
        }
        let differing = self.differed as f64 / self.read.bytes as f64;
        let plain = if self.verify { write + read } else { write };
        let pays = read + differing * plain <= plain;
        (self.read, self.differed, self.trial) = (Cost::default(), 0, false);
        self.pause = if pays { 0 } else { PAUSE };
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(verify: bool, read: u64, write: u64, differing: u64) -> (u32, Pace) {
        let mut pace = Pace::new(verify);
        let mut compared = 0;
        for _ in 0..100 {
            if pace.pays() {
                compared += 1;
                pace.compared(4 << 20, Duration::from_millis(read), (4 << 20) * differing / 100);
                let part = Duration::from_micros(write * 10 * differing);
                pace.wrote((4 << 20) * differing / 100, part);
            } else {
                pace.wrote(4 << 20, Duration::from_millis(write));
            }
        }
        (compared, pace)
    }

    #[test]
    fn reading_first_is_given_up_where_it_does_not_pay_and_tried_again_later() {
        for (verify, read, write, differing, compared) in [
            (true, 40, 130, 5, 100),
            (true, 40, 130, 70, 100), // 40 + 0.7 x 170 = 159 < 170
            (true, 40, 130, 100, 13),
            (true, 40, 44, 5, 100), // what is equal is not read back either
            (false, 40, 44, 5, 100),
            (false, 40, 44, 20, 13),
            (true, 40, 130, 0, 100),
        ] {
            let seen = pace(verify, read, write, differing).0;
            assert_eq!(seen, compared, "{verify} {read} {write} {differing}");
        }
        let mut back = pace(true, 40, 130, 100).1;
        let mut compared = 0;
        for _ in 0..100 {
            if back.pays() {
                compared += 1;
                back.compared(4 << 20, Duration::from_millis(40), 0);
            }
        }
        assert!(compared >= 84, "what is equal again is not written: {compared}");
    }
}
