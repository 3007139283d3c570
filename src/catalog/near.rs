//! Ids that may be meant by a word that is none. Pure.

use super::Entry;

/// How many are told.
const TOLD: usize = 3;

/// The ids that have every part of the word between its dashes, or else those that are a few
/// letters away; the nearest first.
pub fn near<'a>(all: &'a [Entry], word: &str) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let parts: Vec<&str> = word.split(['-', '_', ' ']).filter(|part| !part.is_empty()).collect();
    let has = |id: &str| !parts.is_empty() && parts.iter().all(|part| id.contains(part));
    let ids = || all.iter().map(|entry| entry.id.as_str());
    // What begins as the word does is meant before what has it inside.
    let near = |id: &str| (!id.starts_with(&word), distance(id, &word));
    let mut found: Vec<((bool, usize), &str)> =
        ids().filter(|id| has(id)).map(|id| (near(id), id)).collect();
    if found.is_empty() {
        let few = (word.chars().count() / 4).max(2);
        found = ids().map(|id| (near(id), id)).filter(|((_, far), _)| *far <= few).collect();
    }
    found.sort_unstable();
    found.into_iter().take(TOLD).map(|(_, id)| id).collect()
}

/// Letters to insert, remove or replace to get from one to the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{SHIPPED, parse};

    #[test]
    fn a_slip_and_a_part_of_an_id_find_it_and_nonsense_finds_nothing() {
        let all = parse(SHIPPED).unwrap();
        for (word, first) in [
            ("ubuntu-24.04-dekstop", Some("ubuntu-24.04-desktop")),
            ("Ubuntu-24.04-Desktop", Some("ubuntu-24.04-desktop")),
            ("ubuntu_24.04_desktop", Some("ubuntu-24.04-desktop")),
            ("ubuntu-24.04", Some("ubuntu-24.04-server")),
            ("qqqqqqqqqqqq", None),
            ("", None),
            ("/dev/sdx", None),
            ("no-such-image.iso", None),
        ] {
            let found = near(&all, word);
            assert_eq!(found.first().copied(), first, "{word}: {found:?}");
            assert!(found.len() <= TOLD);
        }
    }

    #[test]
    fn distances_are_symmetric_and_count_letters() {
        for (one, other, far) in
            [("", "abc", 3), ("kitten", "sitting", 3), ("same", "same", 0), ("ab", "ba", 2)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (far, far));
        }
    }
}
