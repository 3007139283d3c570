//! `NAME.part` and the state beside it, `NAME.part.json`: whose they are, and how they are kept.
//!
//! A file of that name that this program did not begin is never written to. That it began it is
//! said by the state, which is saved before the first byte is; what the state claims was flushed
//! before it says so.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{Flock, FlockArg};
use reqwest::Url;

use super::client::mark;
use super::part::{Beside, State};
use crate::error::{Context as _, Error, Kind, Result};
use crate::host::invoker::{CreateMode, Invoker};
use crate::text::printable_path;

/// States are far smaller.
const MOST_BYTES: u64 = 1 << 20;

/// A part of a file, open and locked.
pub(super) struct PartFile<'a> {
    path: &'a Path,
    invoker: &'a Invoker,
    pub(super) file: Arc<Flock<File>>,
    inode: u64,
    boot: Option<String>,
    /// A digest will prove the whole.
    proven: bool,
}

/// Its state is kept here.
pub fn state_path(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

/// The state beside a part; `None`: there is none.
fn saved(part: &Path) -> Result<Option<State>> {
    let path = state_path(part);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut json = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut json));
    let state = read.ok().and_then(|_| State::parse(&json));
    state.map(Some).ok_or_else(|| foreign(&path, "and is not the state of a download"))
}

/// Whether a part was begun from this address.
pub(super) fn is_begun_from(part: &Path, address: &Url) -> bool {
    matches!(saved(part), Ok(Some(state)) if state.address == mark(address))
}

fn foreign(path: &Path, why: &str) -> Error {
    Error::refused(format!("{} is there, {why}; it was left as it is", printable_path(path)))
        .hint("move it away, or choose another name with -o")
}

impl<'a> PartFile<'a> {
    /// Opens the part, or makes it; what of it is there. Refuses what this program did not begin.
    pub(super) fn open(
        path: &'a Path,
        invoker: &'a Invoker,
        proven: bool,
    ) -> Result<(Self, Option<State>)> {
        let state = saved(path)?;
        let file = invoker.create(path, CreateMode::Continue)?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
            Error::refused(format!("another program is downloading into {}", printable_path(path)))
                .hint("wait for it, or choose another name with -o")
        })?;
        let found =
            file.metadata().context(|| format!("cannot look at {}", printable_path(path)))?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let (file, inode) = (Arc::new(file), found.ino());
        let part = Self { path, invoker, file, inode, boot, proven };
        let state = match state.map(|state| state.beside(part.beside(found.len()), proven)) {
            Some(Some(state)) => Some(state),
            // Nothing is there that could be lost.
            _ if found.len() == 0 => None,
            Some(None) => return Err(foreign(path, "and is not the file that its .json is about")),
            None => return Err(foreign(path, "and this program did not begin it")),
        };
        Ok((part, state.filter(|state| state.have() > 0)))
    }

    fn beside(&self, size: u64) -> Beside<'_> {
        Beside { size, inode: self.inode, boot: self.boot.as_deref() }
    }

    /// Saves a state, after what it claims to be there was flushed.
    pub(super) fn save(&self, state: &State) -> Result<()> {
        self.write(state, self.boot.as_deref())
    }

    /// Saves a state of one piece, and cuts off what the file has beyond it: that would count as
    /// written else, if this process was killed.
    pub(super) fn settle(&self, state: &State) -> Result<()> {
        if state.pieces.len() == 1 {
            // In between, the length of the file says nothing.
            self.write(state, None)?;
            let cut = self.file.set_len(state.contiguous());
            cut.context(|| format!("cannot shorten {}", printable_path(self.path)))?;
        }
        self.save(state)
    }

    fn write(&self, state: &State, boot: Option<&str>) -> Result<()> {
        self.file.sync_data().context(|| format!("cannot flush {}", printable_path(self.path)))?;
        let state = state.clone().of(Beside { boot, ..self.beside(0) }, self.proven);
        let json = serde_json::to_vec(&state)
            .map_err(|e| Error::new(Kind::Internal, format!("cannot write the state: {e}")))?;
        self.invoker.save_atomically(&state_path(self.path), &json)
    }
}

/// Throws away what is there of a file.
pub fn forget(part: &Path, invoker: &Invoker) -> Result<()> {
    for path in [part.to_owned(), state_path(part)] {
        if path.symlink_metadata().is_ok() {
            invoker.remove(&path)?;
        }
    }
    Ok(())
}
