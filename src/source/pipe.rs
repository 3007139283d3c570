//! Standard input, or the body of a reply of a web server: cannot be read again. Its first bytes are taken before
//! anything is written, so that a pipe is looked at like a file.

use std::io::{self, Read};
use std::sync::Mutex;

use super::http::transfer::Flag;
use super::{Source, SourceInfo};
use crate::error::{Error, Result};
use crate::image::{Bytes, Head, ReadAt};

/// How much of a pipe is looked at: every table and superblock at the start, and the root
/// directories of ISO images.
const HEAD: u64 = 1 << 20;

/// A pipe whose head has been read.
pub struct PipeSource {
    head: Vec<u8>,
    rest: Mutex<Option<Box<dyn Read + Send>>>,
    info: SourceInfo,
    /// Set when it ended and nobody had stated where it would.
    unstated: Flag,
}

impl std::fmt::Debug for PipeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PipeSource({})", self.info.name)
    }
}

impl PipeSource {
    /// Reads the head; waits until it or the end has come. `len` when somebody told it.
    pub fn new(name: &str, mut pipe: Box<dyn Read + Send>, len: Option<u64>) -> Result<Self> {
        let mut head = Vec::new();
        pipe.by_ref().take(HEAD).read_to_end(&mut head).map_err(|e| Error::from_read(e, name))?;
        // A head shorter than asked for is the whole image.
        let whole = ((head.len() as u64) < HEAD).then_some(head.len() as u64);
        let info = SourceInfo { name: name.to_owned(), len: whole.or(len), restartable: false };
        Ok(Self { head, rest: Mutex::new(Some(pipe)), info, unstated: Flag::default() })
    }

    /// Where to look up, at its end, that nobody had stated where that would be.
    #[must_use]
    pub fn ending(self, unstated: &Flag) -> Self {
        Self { unstated: unstated.clone(), ..self }
    }

    /// The first bytes, up to 1 MiB.
    pub fn head(&self) -> &[u8] {
        &self.head
    }
}

impl Source for PipeSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let rest = self.rest.lock().ok().and_then(|mut rest| rest.take()).ok_or_else(|| {
            Error::io(
                format!("cannot read {} a second time", self.info.name),
                io::Error::from(io::ErrorKind::Unsupported),
            )
        })?;
        Ok(Box::new(io::Cursor::new(self.head.clone()).chain(rest)))
    }

    fn is_end_stated(&self) -> bool {
        !self.unstated.is_set()
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        if (self.head.len() as u64) < HEAD {
            return Box::new(Bytes(&self.head));
        }
        Box::new(Head(&self.head))
    }
}
