//! The module `image` against the tools that own the formats: mkfs, blkid, wipefs, genisoimage,
//! xorriso, grub-mkrescue, gzip and friends. A tool that is not installed is a line that says so.

mod changes;
mod lab;
mod made;
mod tables;
