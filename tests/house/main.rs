//! The repository against itself: the shape of the source, documents, manual, completions, the
//! catalogue. Nothing here writes to a device.

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

#[path = "../../examples/docs/manual.rs"]
mod manual;
#[path = "../../examples/docs/texts.rs"]
mod texts;

mod architecture;
mod catalogue;
mod docs;
mod manual_pages;
