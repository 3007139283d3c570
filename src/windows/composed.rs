//! The planned stick as a source of bytes, which the engine writes like any other image.
//!
//! Owns: reads of the image at any offset, and which stretches of it matter. Nothing is copied
//! beforehand: a file's bytes come from the disc when they are asked for.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::compose::{Content, Extent, Plan};
use super::tree::Disc;
use crate::digest::ranges::Mapped;
use crate::error::{Error, Result};
use crate::image::ReadAt;
use crate::source::{Source, SourceInfo};
use crate::text::printable_path;

/// An image composed from the files of a disc.
#[derive(Debug)]
pub struct ComposedSource {
    inner: Arc<Inner>,
    mapped: Arc<[Mapped]>,
    info: SourceInfo,
}

#[derive(Debug)]
struct Inner {
    disc: Arc<dyn Disc>,
    hosts: Vec<File>,
    volume: Option<Arc<File>>,
    extents: Vec<Extent>,
    size: u64,
}

impl ComposedSource {
    /// The image of `plan`, which was made for `disc`; opens the files of the host.
    pub fn new(plan: &Plan, disc: Arc<dyn Disc>, name: &str) -> Result<Self> {
        let mut hosts = Vec::new();
        for (path, len) in &plan.hosts {
            let failed = |e| Error::io(format!("reading {} failed", printable_path(path)), e);
            let file = File::open(path).map_err(failed)?;
            if file.metadata().map_err(failed)?.len() != *len {
                let path = printable_path(path);
                return Err(Error::refused(format!("{path} has changed since it was looked at")));
            }
            hosts.push(file);
        }
        let info = SourceInfo { name: name.to_owned(), len: Some(plan.size), restartable: true };
        let mapped = mapped(&plan.extents, u64::from(plan.sector), plan.size).into();
        let (extents, volume) = (plan.extents.clone(), plan.volume.clone());
        let inner = Arc::new(Inner { disc, hosts, volume, extents, size: plan.size });
        Ok(Self { inner, mapped, info })
    }
}

/// The extents, rounded outwards to sectors, neighbours as one.
fn mapped(extents: &[Extent], sector: u64, size: u64) -> Vec<Mapped> {
    let mut out: Vec<Mapped> = Vec::new();
    for extent in extents {
        let start = extent.at / sector * sector;
        let end = extent.end().next_multiple_of(sector).min(size);
        match out.last_mut() {
            Some(last) if last.bytes.end >= start => last.bytes.end = last.bytes.end.max(end),
            _ => out.push(Mapped { bytes: start..end, digest: None }),
        }
    }
    out
}

impl Inner {
    /// Bytes from one extent, or zeros up to the next one.
    fn piece(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let next = self.extents.partition_point(|extent| extent.end() <= offset);
        let extent = self.extents.get(next);
        let within = extent.filter(|extent| extent.at <= offset);
        let end = match (within, extent) {
            (Some(within), _) => within.end(),
            (None, Some(next)) => next.at,
            (None, None) => self.size,
        };
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(buf.len()).min(buf.len());
        let buf = &mut buf[..len];
        let Some(extent) = within else {
            buf.fill(0);
            return Ok(len);
        };
        let skip = offset - extent.at;
        let n = match &extent.content {
            Content::Zeros => {
                buf.fill(0);
                len
            }
            Content::Bytes(bytes) => {
                let from = usize::try_from(skip).ok().and_then(|skip| bytes.get(skip..skip + len));
                buf.copy_from_slice(from.unwrap_or(&vec![0; len]));
                len
            }
            Content::Disc { file, offset } => {
                self.disc.read_at(*file, offset.saturating_add(skip), buf)?
            }
            Content::Host { file } => match self.hosts.get(*file) {
                Some(file) => file.read_at(buf, skip)?,
                None => 0,
            },
            Content::Volume { offset } => match &self.volume {
                Some(volume) => volume.read_at(buf, offset.saturating_add(skip))?,
                None => 0,
            },
        };
        if n == 0 && len > 0 {
            return Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "a file became shorter than it was when the stick was planned",
            ));
        }
        Ok(n)
    }
}

impl ReadAt for Inner {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(buf.len());
        let len = room.min(buf.len());
        let mut done = 0;
        while done < len {
            match self.piece(offset.saturating_add(done as u64), &mut buf[done..len]) {
                Ok(n) => done += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // What was read is whole; the next call meets the error again.
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }
}

/// The image from its first byte on.
struct Reader {
    inner: Arc<Inner>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Lends the image.
struct Lent<'a>(&'a Inner);

impl ReadAt for Lent<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn size(&self) -> Option<u64> {
        Some(self.0.size)
    }
}

impl Source for ComposedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(Reader { inner: Arc::clone(&self.inner), at: 0 }))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        Box::new(Lent(&self.inner))
    }

    fn mapped(&self) -> Option<Arc<[Mapped]>> {
        Some(Arc::clone(&self.mapped))
    }
}
