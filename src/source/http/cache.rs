//! Downloaded images that were kept: whole files, each proven to have the digest that it is filed
//! under when it came in, and hashed again by whoever uses it.
//!
//! ```text
//! ~/.cache/mediawriter/parts/<digest of the address>.part   and .part.json: not whole yet
//! ~/.cache/mediawriter/images/<SHA-256>/NAME                whole
//!                                       info.json           where it came from, other digests
//! ```

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use reqwest::Url;

use super::partfile::{is_begun_from, state_path};
use crate::digest::{Digest, FileRead, Hasher, Sha256};
use crate::error::{Context as _, Error, Kind, Result};
use crate::host::invoker::Invoker;
use crate::text::printable_path;

/// The cache of one person.
#[derive(Debug)]
pub struct Cache<'a> {
    root: PathBuf,
    invoker: &'a Invoker,
}

/// What is known of a file in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Its digest.
    pub sha256: Sha256,
    /// SHA-512, where that was published.
    pub sha512: Option<Digest>,
    /// Where it came from, without passwords and queries.
    pub from: String,
    /// Who vouched for it, in words; `None`: nobody.
    pub vouched: Option<String>,
}

/// One thing in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A whole file.
    Whole(PathBuf, Info),
    /// A part of one, in bytes.
    Part(PathBuf, u64),
}

impl<'a> Cache<'a> {
    /// The cache of whoever started the program.
    pub fn of(invoker: &'a Invoker) -> Result<Self> {
        let root = invoker.cache_dir().ok_or_else(|| {
            Error::new(Kind::Io, "there is no home folder, so nothing can be cached")
                .hint("name a file with -o")
        })?;
        Ok(Self { root, invoker })
    }

    fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    fn parts(&self) -> PathBuf {
        self.root.join("parts")
    }

    /// Where a file is downloaded to: by its published digest, which survives a new link, else by
    /// its first address. What was begun by an address of it is gone on with, also where a digest
    /// is given now, or was then and is not now.
    pub fn part(&self, digest: Option<&Digest>, urls: &[Url]) -> Result<PathBuf> {
        self.invoker.create_dir_all(&self.parts())?;
        let keys = digest.map(ToString::to_string).into_iter();
        let paths = keys.chain(urls.iter().map(ToString::to_string)).map(|key| {
            let mut hasher = Hasher::default();
            hasher.update(key.as_bytes());
            self.parts().join(format!("{}.part", hasher.finish()))
        });
        let paths: Vec<PathBuf> = paths.collect();
        let begun = paths.iter().find(|path| path.exists()).cloned();
        let by_digest = || {
            folders(&self.parts()).into_iter().find(|path| {
                let is_part = path.extension().is_some_and(|ending| ending == "part");
                is_part && urls.iter().any(|url| is_begun_from(path, url))
            })
        };
        let begun = begun.or_else(|| if digest.is_none() { by_digest() } else { None });
        begun
            .or_else(|| paths.first().cloned())
            .ok_or_else(|| Error::new(Kind::Internal, "a download without an address"))
    }

    /// A whole file with this digest.
    pub fn find(&self, digest: &Digest) -> Option<(PathBuf, Info)> {
        self.list().into_iter().find_map(|entry| match entry {
            Entry::Whole(path, info) => {
                let same = match digest {
                    Digest::Sha256(wanted) => info.sha256 == *wanted,
                    Digest::Sha512(_) => info.sha512 == Some(*digest),
                };
                same.then_some((path, info))
            }
            Entry::Part(..) => None,
        })
    }

    /// Takes a part in that is whole; its place from then on.
    pub fn keep(&self, part: &Path, name: &str, file: &FileRead, info: &Info) -> Result<PathBuf> {
        let folder = self.images().join(file.sha256.to_string());
        self.invoker.create_dir_all(&folder)?;
        let json = serde_json::to_vec(info)
            .map_err(|e| Error::new(Kind::Internal, format!("cannot write what is known: {e}")))?;
        let whole = folder.join(name);
        self.invoker.move_file(part, &whole)?;
        self.invoker.save_atomically(&folder.join(INFO), &json)?;
        let state = state_path(part);
        if state.symlink_metadata().is_ok() {
            self.invoker.remove(&state)?;
        }
        Ok(whole)
    }

    /// Everything in it.
    pub fn list(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> =
            folders(&self.images()).iter().filter_map(|folder| whole(folder)).collect();
        entries.extend(folders(&self.parts()).into_iter().filter_map(|path| {
            let size = path.metadata().ok().filter(fs::Metadata::is_file)?.len();
            (path.extension()? == "part").then_some(Entry::Part(path, size))
        }));
        entries
    }

    /// Removes everything; the number of bytes that this gave back.
    pub fn clean(&self) -> Result<u64> {
        let mut freed = 0;
        for folder in [self.images(), self.parts()] {
            if !folder.exists() {
                continue;
            }
            for entry in self.list() {
                freed += match entry {
                    Entry::Whole(path, info) if path.starts_with(&folder) => info.size,
                    Entry::Part(path, size) if path.starts_with(&folder) => size,
                    Entry::Whole(..) | Entry::Part(..) => 0,
                };
            }
            self.invoker
                .with_their_rights(|| fs::remove_dir_all(&folder))
                .context(|| format!("cannot remove {}", printable_path(&folder)))?;
        }
        Ok(freed)
    }
}

const INFO: &str = "info.json";

fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    found.sort();
    found
}

/// The whole file in a folder, when what is said of it fits.
fn whole(folder: &Path) -> Option<Entry> {
    let mut json = Vec::new();
    fs::File::open(folder.join(INFO)).ok()?.take(64 << 10).read_to_end(&mut json).ok()?;
    let info: Info = serde_json::from_slice(&json).ok()?;
    let filed = folder.file_name()?.to_str()? == info.sha256.to_string();
    let path = folder.join(Path::new(&info.name).file_name()?);
    let meta = path.symlink_metadata().ok()?;
    (filed && meta.is_file() && meta.len() == info.size).then_some(Entry::Whole(path, info))
}
