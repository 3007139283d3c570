//! Positional reads, the only input of this module.
//!
//! Owns: the trait [`ReadAt`], its implementations for memory and files, and the `View` that
//! makes short reads whole. Must not know what the bytes mean. Every parser above asks for a
//! length it chose itself, so no field of an image decides how much memory is taken.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Positional reads of an image or a medium; short reads only at the end.
///
/// Offsets and lengths are arbitrary: an implementation over `O_DIRECT` rounds outwards itself.
pub trait ReadAt {
    /// Reads at `offset`; 0 at and after the end.
    ///
    /// # Errors
    /// Whatever the operating system says; it is passed through unchanged.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Length in bytes; `None` for a pipe, of which only a head is there.
    fn size(&self) -> Option<u64>;
}

/// A whole image in memory.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

/// The first bytes of an image of unknown length.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a>(pub &'a [u8]);

/// An image file or a block device.
#[derive(Debug)]
pub struct FileImage {
    file: File,
    size: u64,
}

impl FileImage {
    /// Takes an open regular file or block device; the size is where its end is now.
    ///
    /// # Errors
    /// When the end cannot be found: a pipe is no `FileImage`.
    pub fn new(file: File) -> io::Result<Self> {
        // The metadata of a block device says 0; the end of the seek range is right for both.
        let size = (&file).seek(SeekFrom::End(0))?;
        Ok(Self { file, size })
    }
}

fn copy_at(from: &[u8], offset: u64, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|at| from.get(at..)).unwrap_or_default();
    let len = rest.len().min(buf.len());
    buf[..len].copy_from_slice(&rest[..len]);
    len
}

impl ReadAt for Bytes<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(copy_at(self.0, offset, buf))
    }
    fn size(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }
}

impl ReadAt for Head<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(copy_at(self.0, offset, buf))
    }
    fn size(&self) -> Option<u64> {
        None
    }
}

impl ReadAt for FileImage {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        // pread takes a signed offset; nothing lies past it.
        if i64::try_from(offset).is_err() {
            return Ok(0);
        }
        self.file.read_at(buf, offset)
    }
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }
}

/// Whole reads over a [`ReadAt`].
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    image: &'a dyn ReadAt,
    size: Option<u64>,
}

impl<'a> View<'a> {
    pub(crate) fn new(image: &'a dyn ReadAt) -> Self {
        Self { image, size: image.size() }
    }

    pub(crate) fn sized(image: &'a dyn ReadAt, size: u64) -> Self {
        Self { image, size: Some(size) }
    }

    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Up to `len` bytes at `offset`, fewer only at the end.
    pub(crate) fn some(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let room = self.size.map_or(u64::MAX, |size| size.saturating_sub(offset));
        let len = usize::try_from(room).map_or(len, |room| room.min(len));
        let mut out = vec![0; len];
        let mut done = 0;
        while done < len {
            match self.image.read_at(offset.saturating_add(done as u64), &mut out[done..]) {
                Ok(0) => break,
                // An implementation that claims more than it was given must not hang this loop.
                Ok(n) => done = done.saturating_add(n).min(len),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        out.truncate(done);
        Ok(out)
    }

    /// Exactly `len` bytes at `offset`, or `None` when the image (or its head) ends before.
    pub(crate) fn exact(&self, offset: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        let out = self.some(offset, len)?;
        Ok((out.len() == len).then_some(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// One byte per call, every other call interrupted.
    struct Stingy<'a>(&'a [u8], Cell<bool>);
    impl ReadAt for Stingy<'_> {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            self.1.set(!self.1.get());
            if self.1.get() {
                return Err(ErrorKind::Interrupted.into());
            }
            let len = buf.len().min(1);
            Ok(copy_at(self.0, offset, &mut buf[..len]))
        }
        fn size(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn short_and_interrupted_reads_are_made_whole() {
        let image = Stingy(b"abcdef", Cell::new(false));
        let view = View::new(&image);
        assert_eq!(view.some(1, 3).unwrap(), b"bcd");
        assert_eq!(view.some(4, 9).unwrap(), b"ef");
        assert_eq!(view.exact(4, 9).unwrap(), None);
        assert_eq!(view.some(u64::MAX, 4).unwrap(), b"");
    }

    #[test]
    fn a_head_has_no_size() {
        assert_eq!(Head(b"x").size(), None);
        assert_eq!(Bytes(b"x").size(), Some(1));
    }
}
