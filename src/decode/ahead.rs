//! Bytes at offsets as input of a decoder: for a look at the head of the image before the pass.

use std::io;

use super::reach::{PEEK, Reach};
use crate::digest::Trailing;
use crate::image::ReadAt;

/// How much is read at once: the head of an image takes a few of these.
const STEP: usize = 64 << 10;

/// Reads a [`ReadAt`] from an offset on.
pub struct Ahead<'a> {
    from: &'a dyn ReadAt,
    buf: Vec<u8>,
    at: usize,
    end: usize,
    taken: u64,
}

impl std::fmt::Debug for Ahead<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ahead({})", self.taken)
    }
}

impl<'a> Ahead<'a> {
    /// Begins at byte `start`.
    pub fn new(from: &'a dyn ReadAt, start: u64) -> Self {
        Self { from, buf: vec![0; STEP + PEEK], at: 0, end: 0, taken: start }
    }
}

impl Reach for Ahead<'_> {
    fn peek(&mut self, least: usize) -> io::Result<&[u8]> {
        while self.end - self.at < least.min(PEEK) {
            self.buf.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
            match self.from.read_at(self.taken + self.end as u64, &mut self.buf[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n.min(self.buf.len() - self.end),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buf[self.at..self.end])
    }

    fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.at);
        self.at += len;
        self.taken += len as u64;
    }

    fn position(&self) -> u64 {
        self.taken
    }

    fn end(&mut self, _: Trailing) {}
}
