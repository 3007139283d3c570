//! An image made by the program itself (`demo`), and the sources of tests.

use std::io::{Cursor, Read};
use std::sync::Arc;

use super::{Source, SourceInfo};
use crate::error::Result;
use crate::image::{Bytes, ReadAt};

/// Bytes in memory.
#[derive(Debug)]
pub struct MemorySource {
    bytes: Arc<Vec<u8>>,
    info: SourceInfo,
}

impl MemorySource {
    /// A restartable source of known length.
    pub fn new(name: &str, bytes: Vec<u8>) -> Self {
        let info =
            SourceInfo { name: name.to_owned(), len: Some(bytes.len() as u64), restartable: true };
        Self { bytes: Arc::new(bytes), info }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A shared vector as a slice, for a cursor.
struct Shared(Arc<Vec<u8>>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Source for MemorySource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(Shared(Arc::clone(&self.bytes)))))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        Box::new(Bytes(&self.bytes))
    }
}
