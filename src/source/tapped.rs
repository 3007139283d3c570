//! A source that is its own image, hashed as a file on its way: for digests that the flow does not
//! compute of images (SHA-512). SHA-256 is computed twice then, once here and once by the flow.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Source, SourceInfo};
use crate::digest::{FileHasher, FileRead, Trailing};
use crate::error::Result;
use crate::image::ReadAt;

/// Another source, with a digest of all that was read from it.
#[derive(Debug)]
pub struct Tapped {
    inner: Box<dyn Source>,
    read: Arc<Mutex<Option<FileRead>>>,
}

impl Tapped {
    /// Hashes with SHA-256 and SHA-512 what is read from `inner`.
    pub fn new(inner: Box<dyn Source>) -> Self {
        Self { inner, read: Arc::default() }
    }
}

impl Source for Tapped {
    fn info(&self) -> &SourceInfo {
        self.inner.info()
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let (inner, read) = (self.inner.open()?, Arc::clone(&self.read));
        Ok(Box::new(Tap { inner, hasher: Some(FileHasher::new(true)), read }))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        self.inner.preview()
    }

    fn positional(&self) -> Option<Box<dyn ReadAt + '_>> {
        self.inner.positional()
    }

    fn file(&self) -> Option<FileRead> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Tap {
    inner: Box<dyn Read + Send>,
    /// Until the end was seen.
    hasher: Option<FileHasher>,
    read: Arc<Mutex<Option<FileRead>>>,
}

impl Read for Tap {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        if n > 0 {
            if let Some(hasher) = &mut self.hasher {
                hasher.update(&buf[..n]);
            }
        } else if !buf.is_empty()
            && let Some(hasher) = self.hasher.take()
        {
            *self.read.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(hasher.finish(Trailing::default()));
        }
        Ok(n)
    }
}
