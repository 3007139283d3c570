//! The computer the program runs on and the person who started it: who that is, what the machine
//! is made of, signals, rights, and how to keep it awake.
//!
//! Knows nothing about devices, images or screens, and prints nothing.

use std::fmt::Write as _;
use std::path::Path;

mod bus;
pub mod facts;
pub mod inhibit;
pub mod invoker;
pub mod privilege;
pub mod signals;

/// A path as messages show it: control and other invisible characters are escaped, because a file
/// name can hold terminal sequences.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) {
            // A String takes every write.
            write!(out, "{}", c.escape_default()).ok();
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters, and those that the standard library does not count as printable: format
/// characters such as U+202E, which turns the text around it.
pub(crate) fn is_invisible(c: char) -> bool {
    // `escape_debug` gives two characters to what it only quotes (\n, \', \\).
    c.is_control() || c.escape_debug().count() > 2
}
