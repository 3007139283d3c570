//! Where the bytes of an image come from. A source is opened once per pass; only a restartable
//! one may be opened again (a file yes, a pipe no).

use std::fmt;
use std::io::Read;

use crate::error::Result;
use crate::image::ReadAt;

pub mod file;
pub mod interruptible;
pub mod memory;
pub mod pipe;

/// What is known of a source before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// How the user named it, control characters escaped.
    pub name: String,
    /// Length in bytes, when it is known.
    pub len: Option<u64>,
    /// Whether it can be opened again.
    pub restartable: bool,
}

/// Where bytes come from.
pub trait Source: Send + Sync + fmt::Debug {
    /// What is known without reading.
    fn info(&self) -> &SourceInfo;
    /// A reader from the first byte. A second call fails unless `info().restartable`.
    fn open(&self) -> Result<Box<dyn Read + Send>>;
    /// What can be looked at before the first pass: the whole image, or a pipe's head.
    fn preview(&self) -> Box<dyn ReadAt + '_>;
    /// The image's bytes at any offset, for comparing bad ranges byte by byte; `None` for a pipe.
    fn positional(&self) -> Option<Box<dyn ReadAt + '_>> {
        self.info().restartable.then(|| self.preview())
    }
}
