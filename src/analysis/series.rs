//! Bytes that completed, step by step: what every verdict is computed from. Steps are tenths of a
//! second where a record has them, else seconds; only the last may be shorter. Pure.

use crate::event::Sample;

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a tenth of a second.
const TENTH: u64 = SECOND / 10;

/// A speed series without gaps: a step in which nothing completed is a 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    step_nanos: u64,
    bytes: Vec<u64>,
    last_nanos: u64,
}

impl Series {
    /// One value a second; the last one covers `last_nanos`.
    pub fn per_second(bytes: Vec<u64>, last_nanos: u64) -> Self {
        Self { step_nanos: SECOND, bytes, last_nanos: last_nanos.min(SECOND) }
    }

    /// Ten values a second; the last one covers `last_nanos`.
    pub fn per_tenth(bytes: Vec<u64>, last_nanos: u64) -> Self {
        Self { step_nanos: TENTH, bytes, last_nanos: last_nanos.min(TENTH) }
    }

    /// The rows of one phase. Older records have no tenths: then a step is a second.
    pub fn of(rows: &[Sample]) -> Self {
        let last = rows.last().map_or(0, |row| row.nanos);
        if rows.iter().any(|row| row.bytes > 0 && row.tenths.iter().all(|&bytes| bytes == 0)) {
            return Self::per_second(rows.iter().map(|row| row.bytes).collect(), last);
        }
        let mut bytes: Vec<u64> = rows.iter().flat_map(|row| row.tenths).collect();
        let absent = SECOND.saturating_sub(last) / TENTH;
        bytes.truncate(bytes.len().saturating_sub(usize::try_from(absent).unwrap_or(0)));
        let rest = last % TENTH;
        Self::per_tenth(bytes, if rest == 0 { TENTH } else { rest })
    }

    /// Length of a step in seconds.
    pub(super) fn step(&self) -> f64 {
        self.step_nanos as f64 / SECOND as f64
    }

    /// How many steps there are, the last one included.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// All bytes.
    pub fn bytes(&self) -> u64 {
        total(&self.bytes)
    }

    /// All the time.
    pub fn nanos(&self) -> u64 {
        self.border(self.bytes.len())
    }

    /// When step `index` begins; of the index behind the last one, when that ends. Nanoseconds.
    pub(super) fn border(&self, index: usize) -> u64 {
        match self.bytes.len() {
            0 => 0,
            len if index >= len => {
                (self.step_nanos.saturating_mul(len as u64 - 1)).saturating_add(self.last_nanos)
            }
            _ => self.step_nanos.saturating_mul(index as u64),
        }
    }

    /// Bytes of each step.
    pub(super) fn values(&self) -> &[u64] {
        &self.bytes
    }

    /// The steps that are not cut short.
    pub(super) fn full(&self) -> &[u64] {
        let partial = usize::from(self.last_nanos < self.step_nanos);
        &self.bytes[..self.bytes.len().saturating_sub(partial)]
    }

    /// The steps `from..to` as a series of their own.
    pub(super) fn part(&self, from: usize, to: usize) -> Self {
        let to = to.min(self.bytes.len());
        let last = if to == self.bytes.len() { self.last_nanos } else { self.step_nanos };
        Self {
            step_nanos: self.step_nanos,
            bytes: self.bytes.get(from..to).unwrap_or_default().to_vec(),
            last_nanos: last,
        }
    }

    /// The same in seconds.
    pub(super) fn seconds(&self) -> Self {
        let each = usize::try_from(SECOND / self.step_nanos.max(1)).unwrap_or(1).max(1);
        let bytes: Vec<u64> = self.bytes.chunks(each).map(total).collect();
        let last = self.nanos().saturating_sub(SECOND * (bytes.len() as u64).saturating_sub(1));
        Self::per_second(bytes, last)
    }

    /// How many steps make at least this many seconds.
    pub(super) fn steps(&self, seconds: f64) -> usize {
        whole((seconds / self.step()).ceil())
    }
}

/// The sum; records of strangers may hold any numbers.
pub(super) fn total(bytes: &[u64]) -> u64 {
    bytes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
}

/// A count that was computed as a fraction; what is no count is 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
pub(super) fn whole(value: f64) -> usize {
    value as usize
}

/// Bytes or nanoseconds that were computed as a fraction, to the nearest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
pub(super) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;

    fn row(second: u64, nanos: u64, tenths: [u64; 10]) -> Sample {
        let bytes = tenths.iter().sum();
        Sample { phase: Phase::Write, second, nanos, bytes, ios: 1, slowest_nanos: 0, tenths }
    }

    #[test]
    fn rows_become_tenths_of_a_second_and_the_last_one_is_cut() {
        let mut short = [0; 10];
        short[..3].copy_from_slice(&[7, 8, 9]);
        let series = Series::of(&[row(0, SECOND, [1; 10]), row(1, 250_000_000, short)]);
        assert_eq!((series.len(), series.bytes(), series.nanos()), (13, 34, 1_250_000_000));
        assert_eq!(series.full().len(), 12);
        assert_eq!(series.seconds(), Series::per_second(vec![10, 24], 250_000_000));
        let whole = Series::of(&[row(0, SECOND, [1; 10])]);
        assert_eq!((whole.len(), whole.nanos(), whole.full().len()), (10, SECOND, 10));
    }

    #[test]
    fn rows_without_tenths_are_seconds() {
        let old = Sample { tenths: [0; 10], ..row(0, SECOND, [5; 10]) };
        let series = Series::of(&[old, Sample { second: 1, nanos: 5, ..old }]);
        assert_eq!(series, Series::per_second(vec![50, 50], 5));
        assert_eq!(series.border(1), SECOND);
    }

    #[test]
    fn nothing_is_a_series_too() {
        let none = Series::of(&[]);
        assert_eq!(
            (none.bytes(), none.nanos(), none.full().len(), none.seconds().len()),
            (0, 0, 0, 0)
        );
        assert_eq!(none.part(3, 9).len(), 0);
    }
}
