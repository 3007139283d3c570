//! Where the bytes of an image come from. A source is opened once per pass; only a restartable
//! one may be opened again (a file yes, a pipe no).

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use crate::digest::ranges::Mapped;
use crate::digest::{Digest, FileRead, Sha256};
use crate::error::{Error, Result};
use crate::event::Voucher;
use crate::image::ReadAt;

pub mod bmap;
pub mod file;
pub mod http;
pub mod interruptible;
pub mod keep;
pub mod memory;
pub mod packed;
pub mod pipe;
pub mod relay;

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

/// What is known of a source's digests beforehand, and who says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Of the file as it is published, compressed or not.
    pub file: Option<Digest>,
    /// Of the image that is in it.
    pub image: Option<Sha256>,
    /// Who says so.
    pub voucher: Option<Voucher>,
    /// Bytes of the file that were compared with its digest before this source was made of it.
    pub proven: Option<u64>,
}

/// How much of a file was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub done: u64,
    /// Bytes there are, when that is known.
    pub total: Option<u64>,
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
    /// Bytes that the image has at the least, where its length is not known.
    fn at_least(&self) -> Option<u64> {
        self.info().len
    }
    /// What the file as published came to, once a reader of [`Source::open`] has returned its
    /// last byte. `None` when the file is the image, whose digest is known to whoever read it.
    fn file(&self) -> Option<FileRead> {
        None
    }
    /// First byte from `offset` on that may be other than zero, where the file knows its holes (lseek(2),
    /// SEEK_DATA); the end when there is none. `None`: not known.
    fn data_from(&self, _offset: u64) -> Option<u64> {
        None
    }
    /// Whether somebody stated where it ends, once a reader has returned its last byte. `false`: a
    /// connection was closed, and what came may be a part of it.
    fn is_end_stated(&self) -> bool {
        true
    }
    /// The stretches with data, where a block map says which; zeros come between them. Whoever
    /// reads the image compares them with their digests.
    fn mapped(&self) -> Option<Arc<[Mapped]>> {
        None
    }
    /// Bytes of memory that decoding takes for windows and dictionaries, as far as that is known.
    fn memory(&self) -> u64 {
        0
    }
    /// How much of the file as published was read, when that is another thing than the image.
    fn progress(&self) -> Option<Progress> {
        None
    }
    /// Who hashes the image, where several read it; `None`: whoever reads it.
    fn hashed_by(&self) -> Option<&relay::Relay> {
        None
    }
}

/// Fills the buffer unless the source ends first or everybody stops.
pub(crate) fn fill(
    reader: &mut dyn Read,
    buf: &mut [u8],
    stopped: &dyn Fn() -> bool,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() && !stopped() {
        match reader.read(&mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// What it means that reading the image failed at this offset.
pub(crate) fn read_failed(name: &str, error: io::Error, offset: u64, len: u64) -> Error {
    match error.downcast::<Error>() {
        // A decoder knows better where and why: the offset here is one of the image.
        Ok(own) => own,
        Err(error) => Error::io(format!("reading the image {name} failed"), error)
            .at(offset, len)
            .hint("the medium now holds a partial image; check the disk that holds the image file"),
    }
}
