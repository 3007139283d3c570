//! Install media of Windows: a disc's files become a stick that firmware boots, as one image.
//!
//! Owns: the plan of that image and the check of what was written. Must not write, print or ask;
//! parsers take bytes, loaders read through [`crate::image::ReadAt`].
//!
//! ```text
//! tree (UDF, ISO 9660) -> compose -> ComposedSource -> the engine that writes every image
//! wim (parts)          -/    \- fat32, table           check: file by file from the medium
//! unattend (answers)   -/
//!
//! volume (NTFS, filled by others) -> ComposedSource    ntfs: file by file from the medium
//! ```

pub mod check;
pub mod compose;
pub mod composed;
pub mod fat32;
pub mod installs;
pub mod ntfs;
pub mod placed;
pub mod stamp;
pub mod table;
pub mod tree;
pub mod unattend;
pub mod volume;
pub mod wim;
