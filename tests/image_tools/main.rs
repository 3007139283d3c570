//! The module `image` against the tools that own the formats: mkfs, blkid, wipefs, genisoimage,
//! xorriso, grub-mkrescue, gzip and friends. A tool that is not installed is a line that says so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "a test says what it skipped, and stops where it stands"
)]

mod changes;
mod lab;
mod made;
