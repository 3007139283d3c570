//! Colours of messages on standard error: a word at the start of a line, never the line itself, so
//! that nothing is said by colour alone. Only the eight colours that every palette has.
//!
//! Sources: <https://no-color.org>; ECMA-48, 8.3.117 (SGR).

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// On a terminal that can, unless NO_COLOR is set.
    Auto,
    /// Whatever standard error is.
    Always,
    /// Nowhere.
    Never,
}

/// One for the process, as standard error is.
static COLOURED: AtomicBool = AtomicBool::new(false);

const RED: &str = "\u{1b}[1;31m";
const GREEN: &str = "\u{1b}[1;32m";
const YELLOW: &str = "\u{1b}[1;33m";
const PLAIN: &str = "\u{1b}[0m";

/// How lines start that a person must not miss.
const STARTS: [(&str, &str); 9] = [
    ("error:", RED),
    ("FAILED", RED),
    ("bad:", RED),
    ("medium: DIFFERS", RED),
    ("source: DIFFERS", RED),
    ("warning:", YELLOW),
    ("done:", GREEN),
    ("medium: matched", GREEN),
    ("source: matched", GREEN),
];

/// Decides for the rest of the process.
pub fn choose(choice: Choice) {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let coloured = decide(choice, io::stderr().is_terminal() && !dumb, unwanted);
    COLOURED.store(coloured, Ordering::Relaxed);
}

fn decide(choice: Choice, able: bool, unwanted: bool) -> bool {
    match choice {
        Choice::Auto => able && !unwanted,
        // Said for this run, it counts for more than a habit said once for all programs.
        Choice::Always => true,
        Choice::Never => false,
    }
}

/// The line as standard error shows it.
pub(super) fn line(text: &str) -> Cow<'_, str> {
    if COLOURED.load(Ordering::Relaxed) { painted(text) } else { Cow::Borrowed(text) }
}

fn painted(text: &str) -> Cow<'_, str> {
    for (start, colour) in STARTS {
        if let Some(rest) = text.strip_prefix(start) {
            return Cow::Owned(format!("{colour}{start}{PLAIN}{rest}"));
        }
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_for_this_run_counts_for_more_than_a_variable() {
        for (choice, able, unwanted, coloured) in [
            (Choice::Auto, true, false, true),
            (Choice::Auto, true, true, false),
            (Choice::Auto, false, false, false),
            (Choice::Always, false, true, true),
            (Choice::Never, true, false, false),
        ] {
            assert_eq!(decide(choice, able, unwanted), coloured, "{choice:?} {able} {unwanted}");
        }
    }

    #[test]
    fn only_the_first_word_is_coloured_and_most_lines_are_not() {
        assert_eq!(painted("error: no"), "\u{1b}[1;31merror:\u{1b}[0m no");
        assert_eq!(
            painted("FAILED (exit code 5): x"),
            "\u{1b}[1;31mFAILED\u{1b}[0m (exit code 5): x"
        );
        assert_eq!(painted("write: 2.00 s"), "write: 2.00 s");
        assert_eq!(painted("an error: no"), "an error: no");
    }
}
