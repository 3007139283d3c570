//! A block device as the source of an image: what is copied, and which bytes the copy has other
//! than its original.
//!
//! Owns: the device as a [`crate::source::Source`], and the changes that a copy may need: a GPT
//! whose backup lies at the end of a larger target, new identifiers, the files that name them. All
//! of them are bytes that are known before the first write, so the engine hashes, writes and reads
//! back what is meant to be there. Must not write, print or ask.
//!
//! ```text
//! source (read-only) -> plan: table (pure) + names (files of FAT and ext) -> patches
//!                    -> DeviceImage: device bytes, patches over them -> flow::flash or flow::save
//! ```

pub mod bmap;
mod names;
pub mod patch;
pub mod plan;
pub mod source;
pub mod table;
