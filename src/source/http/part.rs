//! What is there of a file that is being downloaded, and what is missing: the state that is kept
//! beside `NAME.part`, so that a download goes on where it stopped. Pure.
//!
//! ```text
//! piece 0          piece 1          piece 2
//! |#######----|    |####-------|    |-----------|      # = done: always a prefix of the piece
//! ```

use serde::{Deserialize, Serialize};

use reqwest::Url;

use super::client::mark;
use super::head::Version;

/// The schema this version writes and reads.
const SCHEMA: &str = "mediawriter-part/1";

/// Below this a further connection is not worth its handshake.
pub const SMALLEST_PIECE: u64 = 16 << 20;

/// What is known of a download that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    schema: String,
    /// Digest of the address that it was begun from; the address itself may hold tokens.
    pub(super) address: String,
    /// Length of the file.
    pub(super) total: Option<u64>,
    /// Which version of it, where every byte that is there is of that version.
    #[serde(default)]
    pub(super) version: Option<Version>,
    /// In ascending order, without gaps.
    pub(super) pieces: Vec<Piece>,
    /// The file that it is about, by its inode.
    #[serde(default)]
    inode: Option<u64>,
    /// The boot of the computer in which it was saved.
    #[serde(default)]
    boot: Option<String>,
    /// It was saved by a run at whose end a digest would prove the whole, so that bytes written
    /// after it may be of any version.
    #[serde(default)]
    proving: bool,
}

/// The file that a state lies beside, as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside<'a> {
    /// Its length.
    pub(super) size: u64,
    /// Its inode.
    pub(super) inode: u64,
    /// The running boot of the computer.
    pub(super) boot: Option<&'a str>,
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
    pub(super) fn new(address: String) -> Self {
        let whole = Piece { start: 0, end: None, done: 0 };
        Self {
            schema: SCHEMA.to_owned(),
            address,
            total: None,
            version: None,
            pieces: vec![whole],
            inode: None,
            boot: None,
            proving: false,
        }
    }

    /// Reads a state; `None` when it is none of ours, or makes no sense.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let state: Self = serde_json::from_slice(json).ok()?;
        let mut at = 0;
        for (index, piece) in state.pieces.iter().enumerate() {
            let next = piece.start.checked_add(piece.done)?;
            let last = index + 1 == state.pieces.len();
            let ends_well = match piece.end {
                Some(end) => end >= next && (!last || state.total == Some(end)),
                None => last && state.total.is_none(),
            };
            if piece.start != at || !ends_well {
                return None;
            }
            at = piece.end.unwrap_or(next);
        }
        (state.schema == SCHEMA && !state.pieces.is_empty()).then_some(state)
    }

    /// Says which file it is about, when it is saved, and whether a digest will prove it.
    pub(super) fn of(mut self, file: Beside<'_>, proving: bool) -> Self {
        self.inode = Some(file.inode);
        self.boot = file.boot.map(str::to_owned);
        self.proving = proving;
        self
    }

    /// The state of the file that lies beside it now; `None` when that cannot be the file that it
    /// is about.
    ///
    /// What was written after the last save counts too, as far as the length of the file tells:
    /// bytes are written in their order, and a process that is killed loses none that it wrote.
    /// After a power failure a file may be longer than what reached the disk, so then it does not.
    pub(super) fn beside(mut self, file: Beside<'_>, proven: bool) -> Option<Self> {
        let written = self.pieces.iter().filter(|piece| piece.done > 0).map(Piece::next);
        let written = written.max().unwrap_or(0);
        let same = self.inode == Some(file.inode);
        let fits = written <= file.size
            && self.total.is_none_or(|total| file.size <= total)
            && (same || written == file.size);
        if !fits {
            return None;
        }
        let this_boot = self.boot.is_some() && self.boot.as_deref() == file.boot;
        let counts = same && this_boot && (proven || !self.proving);
        if let ([piece], true) = (self.pieces.as_mut_slice(), counts) {
            piece.done = file.size;
        }
        Some(self)
    }

    /// Which of these addresses goes on with what is there, and with what; else why none can.
    pub(super) fn continued(
        mut self,
        urls: &[Url],
        proven: bool,
    ) -> Result<(usize, Self), &'static str> {
        let at = urls.iter().position(|url| mark(url) == self.address);
        let whole = self.pieces.iter().all(Piece::is_complete);
        match at {
            Some(at) if self.version.is_some() || proven || whole => Ok((at, self)),
            Some(_) => Err(
                "the server did not say of which version of the file it is (no strong ETag), and no digest will tell",
            ),
            None if proven => {
                self.version = None;
                Ok((0, self))
            }
            None => Err(
                "it came from another address, and no digest will tell whether it is the same file",
            ),
        }
    }

    /// Leaves one piece, of what is there without a gap.
    pub(super) fn join(&mut self) {
        let done = self.contiguous();
        self.pieces = vec![Piece { start: 0, end: self.total, done }];
    }

    /// Splits what is missing among connections, where the length is known.
    pub(super) fn split(&mut self, connections: u64, smallest: u64) {
        let ([whole], Some(total)) = (self.pieces.as_slice(), self.total) else { return };
        let (whole, missing) = (*whole, total.saturating_sub(whole.next()));
        let pieces = connections.min(missing / smallest.max(1)).max(1);
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
        let mut state = State::new("a".to_owned());
        (state.total, state.pieces[0].end) = (Some(total), Some(total));
        state
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
            state.split(connections, SMALLEST_PIECE);
            assert_eq!(state.pieces.len(), pieces, "{total} {connections}");
            assert_eq!((state.have(), state.contiguous()), (done, done));
            let json = serde_json::to_vec(&state).unwrap();
            assert_eq!(State::parse(&json), Some(state.clone()), "no gap: {state:?}");
            assert_eq!(state.pieces.last().unwrap().end, Some(total));
        }
    }

    #[test]
    fn only_the_beginning_without_gaps_counts_as_contiguous() {
        let mut state = state(100 * MIB);
        state.split(4, SMALLEST_PIECE);
        state.pieces[1].done = 7;
        assert_eq!((state.contiguous(), state.have()), (0, 7));
        state.pieces[0].done = 25 * MIB;
        assert_eq!(state.contiguous(), 25 * MIB + 7);
    }

    const HERE: Beside<'_> = Beside { size: 0, inode: 7, boot: Some("now") };

    #[test]
    fn a_state_that_makes_no_sense_is_none() {
        let mut good = state(100 * MIB);
        good.split(4, SMALLEST_PIECE);
        good.pieces[0].done = 5 * MIB;
        let parse = |state: &State| State::parse(&serde_json::to_vec(state).unwrap());
        assert!(parse(&good).is_some());
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
            assert!(parse(&bad).is_none(), "{bad:?}");
        }
        assert!(State::parse(b"").is_none());
        // As an earlier version wrote it: of which version of the file it is, is not known.
        let old = br#"{"schema":"mediawriter-part/1","address":"a","total":9,"validator":{"tag":"\"x\""},"pieces":[{"start":0,"end":9,"done":3}]}"#;
        let old = State::parse(old).unwrap();
        assert_eq!((old.have(), &old.version), (3, &None));
    }

    #[test]
    fn the_length_of_a_file_says_what_is_there_when_it_is_ours_and_the_computer_kept_running() {
        let saved = |done: u64| {
            let mut state = state(100);
            state.pieces[0].done = done;
            state.of(HERE, false)
        };
        let other = Beside { inode: 8, ..HERE };
        let (reboot, unknown) =
            (Beside { boot: Some("later"), ..HERE }, Beside { boot: None, ..HERE });
        for (what, done, file, size, wanted) in [
            ("as it was saved", 10, HERE, 10, Some(10)),
            ("killed after the save", 10, HERE, 60, Some(60)),
            ("killed before the first", 0, HERE, 60, Some(60)),
            ("the power failed", 10, reboot, 60, Some(10)),
            ("which boot is not known", 10, unknown, 60, Some(10)),
            ("shorter than what was written", 10, HERE, 9, None),
            ("longer than the file", 10, HERE, 101, None),
            ("copied to another disk", 10, other, 10, Some(10)),
            ("another file of that name", 10, other, 60, None),
            ("another file before the first save", 0, other, 60, None),
        ] {
            let state = saved(done).beside(Beside { size, ..file }, false);
            assert_eq!(state.map(|state| state.have()), wanted, "{what}");
        }
        // What a digest was to prove may have come from anywhere.
        for (proven, have) in [(false, 10), (true, 60)] {
            let mut state = state(100);
            state.pieces[0].done = 10;
            let state = state.of(HERE, true).beside(Beside { size: 60, ..HERE }, proven);
            assert_eq!(state.map(|state| state.have()), Some(have));
        }
        // Of several pieces the length says nothing.
        let mut several = state(100 * MIB);
        several.split(4, SMALLEST_PIECE);
        several.pieces[1].done = 5;
        let state =
            several.of(HERE, false).beside(Beside { size: 60 * MIB, ..HERE }, false).unwrap();
        assert_eq!(state.have(), 5);
    }

    #[test]
    fn what_is_there_is_continued_from_its_own_address_or_by_a_digest() {
        let urls: Vec<Url> = ["http://a/x", "http://b/x"].map(|u| u.parse().unwrap()).to_vec();
        let validator = super::super::head::Validator::Tag("\"1\"".to_owned());
        let version = Some(Version { validator, by: mark(&urls[0]) });
        let begun = |address: &str, version: &Option<Version>, done: u64| {
            let mut state = State::new(mark(&address.parse().unwrap()));
            (state.total, state.pieces[0]) = (Some(9), Piece { start: 0, end: Some(9), done });
            state.version.clone_from(version);
            state
        };
        for (address, version, done, proven, wanted) in [
            ("http://a/x", &version, 3, false, Some(0)),
            ("http://b/x", &version, 3, false, Some(1)),
            ("http://a/x", &None, 3, false, None),
            ("http://a/x", &None, 3, true, Some(0)),
            ("http://a/x", &None, 9, false, Some(0)),
            ("http://c/x", &version, 3, false, None),
            ("http://c/x", &version, 9, false, None),
            ("http://a/x?t=1", &version, 3, false, None),
            ("http://c/x", &version, 3, true, Some(0)),
        ] {
            let state = begun(address, version, done).continued(&urls, proven);
            let what = format!("{address} {version:?} {done} {proven}");
            if let Ok((_, state)) = &state {
                let known = address != "http://c/x";
                assert_eq!(state.version, version.clone().filter(|_| known), "{what}");
            }
            assert_eq!(state.ok().map(|(at, _)| at), wanted, "{what}");
        }
    }

    #[test]
    fn several_pieces_become_one_of_what_is_there_without_a_gap() {
        let mut state = state(100 * MIB);
        state.split(4, SMALLEST_PIECE);
        (state.pieces[0].done, state.pieces[2].done) = (5, 9);
        state.join();
        assert_eq!(state.pieces, [Piece { start: 0, end: Some(100 * MIB), done: 5 }]);
    }
}
