//! Install media of Windows, against the tools and the order of elements that others made.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may die, tell what it saw, and look at the clock on the wall"
)]

#[path = "../common/lab.rs"]
mod lab;

mod answers;
mod ntfs;
mod plans;
mod sticks;
