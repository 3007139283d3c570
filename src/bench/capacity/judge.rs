//! What the places of a probe say together. Pure.

use crate::event::Span;
use crate::event::capacity::{Behind, Capacity};

/// What was read where something had been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// What was written there.
    Right,
    /// What was written elsewhere, by its first byte's offset.
    From(u64),
    /// Anything else.
    Lost,
    /// An error, of the write or of the read.
    Failed,
}

/// Places in a row that were found the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) span: Span,
    pub(super) found: Found,
}

/// What all places of a round mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// All came back.
    Whole,
    /// Offsets start over at this one.
    Wraps { real: u64 },
    /// All is right up to `good`, and nothing from `bad` on.
    Ends { good: u64, bad: u64, behind: Behind },
    /// Right and wrong lie among each other.
    Damaged { first: u64, wrong: u64 },
}

/// Smallest distance at which offsets are believed to start over: no flash chip is smaller.
const SMALLEST: u64 = 1 << 20;
/// Of the places behind the first wrong one so many may be right all the same: what a cache still
/// had, or the last lap over a small part.
const STRAY: usize = 10;

/// Judges the places of a round, which are in ascending order.
pub(super) fn judge(seen: &[Seen]) -> Meaning {
    let wrong = |seen: &&Seen| seen.found != Found::Right;
    let Some(first) = seen.iter().position(|seen| wrong(&seen)) else { return Meaning::Whole };
    if let Some(real) = wraps(seen) {
        return Meaning::Wraps { real };
    }
    let behind = &seen[first..];
    let right = behind.iter().filter(|seen| !wrong(seen)).count();
    if right * STRAY <= behind.len() && behind.last().is_some_and(|last| wrong(&last)) {
        let failed = behind.iter().filter(|seen| seen.found == Found::Failed).count();
        // What fails further on may still be lost silently before that.
        let fails = failed * 2 > behind.len() || behind[0].found == Found::Failed;
        return Meaning::Ends {
            good: seen[..first].last().map_or(0, |last| last.span.end()),
            bad: seen[first].span.offset,
            behind: if fails { Behind::Fails } else { Behind::Lost },
        };
    }
    let bytes = behind.iter().filter(wrong).map(|seen| seen.span.len).sum();
    Meaning::Damaged { first: seen[first].span.offset, wrong: bytes }
}

/// The modulus of offsets, from what was found at the place of something else: every distance is a
/// multiple of it.
fn wraps(seen: &[Seen]) -> Option<u64> {
    let distance = |seen: &Seen| match seen.found {
        Found::From(other) => Some(seen.span.offset.abs_diff(other)),
        Found::Right | Found::Lost | Found::Failed => None,
    };
    let common = seen.iter().filter_map(distance).reduce(gcd)?;
    let least = seen.iter().filter_map(distance).min()?;
    // A shift beside the wrap spoils the common divisor, and the first lap has the distance.
    Some(if common >= SMALLEST.min(least) { common } else { least })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// As events and people get it.
pub(super) fn capacity(
    meaning: Meaning,
    claimed: u64,
    (compared, full, cache): (u64, bool, u64),
) -> Capacity {
    match meaning {
        Meaning::Whole => Capacity::AsClaimed { claimed, compared, full, cache },
        Meaning::Wraps { real } => {
            Capacity::Less { claimed, real, within: 0, behind: Behind::Wraps }
        }
        Meaning::Ends { good, bad, behind } => {
            Capacity::Less { claimed, real: good, within: bad - good, behind }
        }
        Meaning::Damaged { first, wrong } => Capacity::Damaged { claimed, first, wrong, compared },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{GIB, MIB};

    fn seen(places: &[(u64, Found)]) -> Vec<Seen> {
        let place = |&(offset, found)| Seen { span: Span { offset, len: 4096 }, found };
        places.iter().map(place).collect()
    }

    #[test]
    fn distances_of_laps_have_the_real_capacity_as_their_divisor() {
        let real = 1_000_003 * 512;
        let places = seen(&[
            (0, Found::Right),
            (GIB, Found::From(GIB - real)),
            (2 * GIB, Found::From(2 * GIB - 4 * real)),
            (3 * GIB, Found::From(3 * GIB - 6 * real)),
        ]);
        assert_eq!(judge(&places), Meaning::Wraps { real });
        // Shifted by a few sectors: the first lap tells.
        let shifted = seen(&[
            (GIB, Found::From(GIB - real + 1024)),
            (2 * GIB, Found::From(2 * GIB - 4 * real + 1024)),
            (3 * GIB, Found::From(3 * GIB - 6 * real + 1024)),
        ]);
        assert_eq!(judge(&shifted), Meaning::Wraps { real: real - 1024 });
    }

    #[test]
    fn an_end_is_told_from_damage() {
        use Found::{Failed, Lost, Right};
        let at = |n: u64| n * MIB;
        let end = seen(&[(0, Right), (at(1), Right), (at(2), Lost), (at(3), Lost)]);
        let expected = Meaning::Ends { good: at(1) + 4096, bad: at(2), behind: Behind::Lost };
        assert_eq!(judge(&end), expected);
        let fails = seen(&[(0, Right), (at(1), Failed), (at(2), Failed)]);
        assert_eq!(judge(&fails), Meaning::Ends { good: 4096, bad: at(1), behind: Behind::Fails });
        let hole = seen(&[(0, Right), (at(1), Lost), (at(2), Right)]);
        assert_eq!(judge(&hole), Meaning::Damaged { first: at(1), wrong: 4096 });
        let nothing = seen(&[(0, Lost), (at(1), Lost)]);
        assert_eq!(judge(&nothing), Meaning::Ends { good: 0, bad: 0, behind: Behind::Lost });
        assert_eq!(judge(&seen(&[(0, Right)])), Meaning::Whole);
    }
}
