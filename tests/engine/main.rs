//! The library from inside: the engine on simulated sticks that fail in every way, the parsers of
//! images and signatures against the tools that own the formats.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may die, tell what it saw, and look at the clock on the wall"
)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/gpg.rs"]
mod gpg;
#[path = "../common/lab.rs"]
mod lab;

mod changed;
mod faults;
mod image_tools;
mod signatures;
mod sparse;
