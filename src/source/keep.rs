//! A stream that is stored while it is read, for `--keep`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// Writes to a file what is read through it.
#[derive(Debug)]
pub struct Keeping<R> {
    inner: R,
    file: File,
    name: String,
    whole: Arc<AtomicBool>,
}

impl<R: Read> Keeping<R> {
    /// Stores into an empty file that is called `name` in messages. The flag says, in the end,
    /// whether everything was stored and flushed.
    pub fn new(inner: R, file: File, name: String) -> (Self, Arc<AtomicBool>) {
        let whole = Arc::new(AtomicBool::new(false));
        (Self { inner, file, name, whole: Arc::clone(&whole) }, whole)
    }

    fn failed(&self, error: io::Error) -> io::Error {
        let what = format!("cannot store the image in {}", self.name);
        io::Error::other(Error::io(what, error).hint("make room, or flash without --keep"))
    }
}

impl<R: Read> Read for Keeping<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        let stored = if n == 0 && !buf.is_empty() {
            self.file.sync_all()
        } else {
            self.file.write_all(&buf[..n])
        };
        stored.map_err(|e| self.failed(e))?;
        if n == 0 && !buf.is_empty() {
            self.whole.store(true, Ordering::SeqCst);
        }
        Ok(n)
    }
}
