//! Where images come from, by the program: servers that misbehave, lists and signatures that vouch,
//! compressed files, block maps.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test may die, tell what it saw, and look at the clock on the wall"
)]

#[path = "../common/gpg.rs"]
mod gpg;
#[path = "../common/lab.rs"]
mod lab;
#[path = "../common/server.rs"]
mod server;
#[path = "../common/tls.rs"]
mod tls;

mod block_maps;
mod checksum_lists;
mod downloads;
mod mapped;
mod packed_images;
mod published_lists;
mod replies;
mod reply_table;
