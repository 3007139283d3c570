//! A local image. Read through the page cache: O_DIRECT was measured slower here, since hashing
//! is the limit and the cache's read-ahead overlaps with it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::unistd::{Whence, lseek};

use super::{Source, SourceInfo};
use crate::error::{Context, Result};
use crate::image::ReadAt;

/// An opened image file.
#[derive(Debug)]
pub struct FileSource {
    file: Arc<File>,
    path: PathBuf,
    info: SourceInfo,
}

impl FileSource {
    /// Opens a regular file for reading; what it is was decided before.
    pub fn open_path(path: &Path) -> Result<Self> {
        let name = path.display().to_string().escape_debug().to_string();
        let file = File::open(path).context(|| format!("cannot open the image {name}"))?;
        let len = file.metadata().context(|| format!("cannot read the size of {name}"))?.len();
        // Only advice: a filesystem without read-ahead ignores it.
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL).ok();
        let info = SourceInfo { name, len: Some(len), restartable: true };
        Ok(Self { file: Arc::new(file), path: path.to_owned(), info })
    }

    /// The opened file, for looking at it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor number of the device that the file lies on.
    pub fn device(&self) -> io::Result<(u32, u32)> {
        let dev = self.file.metadata()?.dev();
        let split = (nix::sys::stat::major(dev), nix::sys::stat::minor(dev));
        Ok((u32::try_from(split.0).unwrap_or(0), u32::try_from(split.1).unwrap_or(0)))
    }
}

impl Source for FileSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn data_from(&self, offset: u64) -> Option<u64> {
        let len = self.info.len?;
        match lseek(&*self.file, i64::try_from(offset).ok()?, Whence::SeekData) {
            Ok(at) => u64::try_from(at).ok(),
            // Nothing but a hole up to the end.
            Err(Errno::ENXIO) => Some(len),
            Err(_) => None,
        }
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(At { file: Arc::clone(&self.file), offset: 0 }))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        Box::new(Whole(self))
    }
}

/// Reads a shared file from the start without moving its cursor.
#[derive(Debug)]
struct At {
    file: Arc<File>,
    offset: u64,
}

impl Read for At {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.offset)?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// The file as bytes at offsets.
#[derive(Debug)]
struct Whole<'a>(&'a FileSource);

impl ReadAt for Whole<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.file.read_at(buf, offset)
    }

    fn size(&self) -> Option<u64> {
        self.0.info.len
    }
}
