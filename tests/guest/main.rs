//! The program on a Linux with real USB: guests (tests/lab/usbvm) with sticks and SSDs that are
//! discarded, throttled, pulled out and held in every way. A guest takes a quarter of a minute to
//! boot, so one boot serves several tests: each `mod` starts its guest once, runs the script of
//! the same name in it, and its tests look at what came of it (exit codes, texts, records, logs,
//! and the files behind the disks). All of them together take about six minutes on two cores.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "a test may die, and runs on the real clock"
)]

#[path = "../common/lab.rs"]
mod lab;

mod clone;
mod discard;
mod holders;
mod live;
mod machine;
mod measure;
mod pull;
mod rootless;
mod slow;
mod station;
mod windows;
