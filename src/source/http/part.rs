//! What is there of a file that is being downloaded, and what is missing: the state that is kept
//! beside `NAME.part`, so that a download goes on where it stopped. Pure.
//!
//! ```text
//! piece 0          piece 1          piece 2
//! |#######----|    |####-------|    |-----------|      # = done: always a prefix of the piece
//! ```

use serde::{Deserialize, Serialize};

use super::judge::Validator;

/// The schema this version writes and reads.
const SCHEMA: &str = "mediawriter-part/1";

/// Below this a further connection is not worth its handshake.
const SMALLEST_PIECE: u64 = 16 << 20;

/// What is known of a download that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    schema: String,
    /// Digest of the address that the validator belongs to; the address itself may hold tokens.
    pub(super) address: String,
    /// Length of the file.
    pub(super) total: Option<u64>,
    /// Which version of it.
    pub(super) validator: Option<Validator>,
    /// In ascending order, without gaps.
    pub(super) pieces: Vec<Piece>,
}

/// A stretch that one connection fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    /// First byte.
    pub(super) start: u64,
    /// First byte behind it; `None`: to the end of a file of unknown length.
    pub(super) end: Option<u64>,
    /// Bytes that are there, from the start on.
    pub(super) done: u64,
}

impl Piece {
    /// First byte that is missing.
    pub(super) fn next(&self) -> u64 {
        self.start + self.done
    }

    pub(super) fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.next() >= end)
    }
}

impl State {
    /// Nothing is there yet.
    pub(super) fn new(address: String, total: Option<u64>, validator: Option<Validator>) -> Self {
        let whole = Piece { start: 0, end: total, done: 0 };
        Self { schema: SCHEMA.to_owned(), address, total, validator, pieces: vec![whole] }
    }

    /// Reads a state; `None` when it is none, or does not fit a file of `size` bytes.
    pub(super) fn parse(json: &[u8], size: u64) -> Option<Self> {
        let state: Self = serde_json::from_slice(json).ok()?;
        let mut at = 0;
        for (index, piece) in state.pieces.iter().enumerate() {
            let next = piece.start.checked_add(piece.done)?;
            let last = index + 1 == state.pieces.len();
            let ends_well = match piece.end {
                Some(end) => end >= next && (!last || state.total == Some(end)),
                None => last && state.total.is_none(),
            };
            // Bytes that the file does not have cannot have been written.
            if piece.start != at || !ends_well || (piece.done > 0 && next > size) {
                return None;
            }
            at = piece.end.unwrap_or(next);
        }
        (state.schema == SCHEMA && !state.pieces.is_empty()).then_some(state)
    }

    /// Splits what is missing among connections, where the length is known.
    pub(super) fn split(&mut self, connections: u64) {
        let ([whole], Some(total)) = (self.pieces.as_slice(), self.total) else { return };
        let (whole, missing) = (*whole, total.saturating_sub(whole.next()));
        let pieces = connections.min(missing / SMALLEST_PIECE).max(1);
        let step = missing.div_ceil(pieces);
        self.pieces = (0..pieces)
            .map(|n| {
                let from = whole.next() + n * step;
                let end = Some((from + step).min(total));
                if n == 0 { Piece { end, ..whole } } else { Piece { start: from, end, done: 0 } }
            })
            .collect();
    }

    /// Bytes that are there.
    pub(super) fn have(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.done).sum()
    }

    /// Bytes that are there from the start of the file on, without a gap.
    pub(super) fn contiguous(&self) -> u64 {
        let mut at = 0;
        for piece in &self.pieces {
            at = piece.next();
            if !piece.is_complete() {
                break;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn state(total: u64) -> State {
        State::new("a".to_owned(), Some(total), None)
    }

    #[test]
    fn what_is_missing_is_split_without_gaps() {
        for (total, done, connections, pieces) in [
            (100 * MIB, 0, 4, 4),
            (100 * MIB + 1, 0, 3, 3),
            (40 * MIB, 0, 8, 2),
            (MIB, 0, 4, 1),
            (0, 0, 4, 1),
            (100 * MIB, 60 * MIB, 4, 2),
            (100 * MIB, 0, 1, 1),
        ] {
            let mut state = state(total);
            state.pieces[0].done = done;
            state.split(connections);
            assert_eq!(state.pieces.len(), pieces, "{total} {connections}");
            assert_eq!((state.have(), state.contiguous()), (done, done));
            let json = serde_json::to_vec(&state).unwrap();
            assert_eq!(State::parse(&json, total), Some(state.clone()), "no gap: {state:?}");
            assert_eq!(state.pieces.last().unwrap().end, Some(total));
        }
    }

    #[test]
    fn only_the_beginning_without_gaps_counts_as_contiguous() {
        let mut state = state(100 * MIB);
        state.split(4);
        state.pieces[1].done = 7;
        assert_eq!((state.contiguous(), state.have()), (0, 7));
        state.pieces[0].done = 25 * MIB;
        assert_eq!(state.contiguous(), 25 * MIB + 7);
    }

    #[test]
    fn a_state_that_does_not_fit_its_file_is_none() {
        let mut good = state(100 * MIB);
        good.split(4);
        good.pieces[0].done = 5 * MIB;
        let parse = |state: &State, size| State::parse(&serde_json::to_vec(state).unwrap(), size);
        assert!(parse(&good, 5 * MIB).is_some());
        assert!(parse(&good, 5 * MIB - 1).is_none(), "the file is shorter than what was written");
        for spoil in [
            |s: &mut State| s.pieces.clear(),
            |s: &mut State| s.pieces[1].start += 1,
            |s: &mut State| s.pieces[1].done = u64::MAX,
            |s: &mut State| s.pieces[3].end = None,
            |s: &mut State| s.total = Some(7),
            |s: &mut State| s.schema.push('2'),
        ] {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(parse(&bad, u64::MAX).is_none(), "{bad:?}");
        }
        assert!(State::parse(b"", 0).is_none());
    }
}
