//! The program on block devices that are made here (loop devices, zram, modelled sticks): what is
//! written, refused, verified, discarded, copied and measured.

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
#[path = "../common/server.rs"]
mod server;

mod bad_sticks;
mod bench;
mod clone;
mod counterfeits;
mod discard;
mod facts;
mod loop_kill;
mod many;
mod measured_verdicts;
mod outputs;
mod overwriting;
mod rootless;
mod same_storage;
mod speed_verdicts;
mod verification;
mod write_faults;
mod wrong_targets;
