//! The program as people and scripts meet it: what is never done unasked, streams and terminals,
//! golden output, the desktop, reports.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may die, tell what it saw, and look at the clock on the wall"
)]

#[path = "../common/bus.rs"]
mod bus;
#[path = "../common/lab.rs"]
mod lab;

mod cli_golden;
mod desktop;
mod everyday_use;
mod report;
mod safety;
