//! Compressed bytes on their way to a decoder, whoever reads them.

use std::io;

use crate::digest::Trailing;

/// How far [`Reach::peek`] can be asked to look, in bytes: the headers that decide what follows.
pub(super) const PEEK: usize = 64;

/// Bytes that are looked at before they are taken.
pub trait Reach {
    /// What lies ahead: at least `least` bytes (at most 64), fewer only at the end.
    fn peek(&mut self, least: usize) -> io::Result<&[u8]>;
    /// Takes bytes that were seen.
    fn consume(&mut self, len: usize);
    /// How many were taken.
    fn position(&self) -> u64;
    /// Everything was taken; `trailing` belongs to no member.
    fn end(&mut self, trailing: Trailing);
}
