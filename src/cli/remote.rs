//! A SOURCE of a web server: an address, or the name of an image in the catalogue. What proves it is
//! fetched first: the list of checksums and its signature.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::unbounded;
use reqwest::Url;

use super::args::{Network, Origin};
use super::images::catalogue;
use super::named;
use super::origin::{About, Known, Search, better, conclude, keyring, said};
use super::source::{Image, Wanted};
use crate::cancel::CancelToken;
use crate::catalog::{Entry, Plan};
use crate::digest::sums;
use crate::error::{Error, Result};
use crate::host::invoker::{CreateMode, Invoker};
use crate::proof;
use crate::source::Published;
use crate::source::http::cache::Cache;
use crate::source::http::client::{self, file_name, shown};
use crate::source::http::stream::Ending;
use crate::source::http::transfer::Flag;
use crate::source::http::{small, stream};
use crate::source::keep::Keeping;
use crate::source::pipe::PipeSource;
use crate::text::{printable, printable_path};
use crate::time::unix_time;

/// A file of web servers, and what is known of it.
pub(super) struct Remote {
    /// Where it can be had, best first.
    pub(super) urls: Vec<Url>,
    pub(super) known: Known,
    /// The list of checksums is looked for beside the address.
    beside: bool,
}

/// Lists that lie beside an image on most servers.
const LISTS: [&str; 2] = ["SHA256SUMS", "sha256sums.txt"];

impl Remote {
    /// What a word means, unless it is a file or standard input.
    pub(super) fn find(wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Option<Self>> {
        let Some(word) = wanted.word.to_str().filter(|word| !Path::new(word).exists()) else {
            return Ok(None);
        };
        if word.contains("://") {
            return Self::address(word, wanted, cancel).map(Some);
        }
        let all = catalogue(wanted.catalogue)?;
        match all.into_iter().find(|entry| entry.id == word) {
            Some(entry) => Self::entry(&entry, wanted, cancel).map(Some),
            None => Ok(None),
        }
    }

    fn address(word: &str, wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Self> {
        let urls = with_mirrors(vec![client::parse(word)?], wanted.network)?;
        let origin = wanted.origin;
        let published = said(origin);
        let asked = origin.checksums.is_some() || origin.require_signature;
        let beside = published.file.is_none() || asked;
        let known = Known { published, notes: Vec::new() };
        let mut remote = Self { urls, known, beside };
        remote.ask_lists(None, origin, cancel)?;
        Ok(remote)
    }

    /// An image of the catalogue: its list is fetched and proven, and says which file it is.
    fn entry(entry: &Entry, wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Self> {
        let image = match entry.plan() {
            Plan::File(image) => image,
            Plan::Page(page) => {
                let note = entry.note.as_ref().map(|note| format!(" ({})", printable(note)));
                return Err(Error::refused(format!(
                    "{} has no address that lasts{}",
                    entry.id,
                    note.unwrap_or_default()
                ))
                .hint(format!(
                    "get it from {page}, then give the file: mediawriter flash FILE TARGET"
                )));
            }
            Plan::List { list, signature } => {
                let list = fetch_any(&list, sums::MOST_BYTES, cancel)?;
                let signature = match signature {
                    Some(urls) => Some(fetch_any(&urls, proof::MOST_BYTES, cancel)?),
                    None => None,
                };
                let keys = keyring(wanted.origin)?;
                let required = wanted.origin.require_signature;
                entry.prove(&list, signature.as_deref(), (&keys, unix_time()), required)?
            }
        };
        let urls = image.addresses.iter().map(|url| client::parse(url)).collect::<Result<_>>()?;
        let given = said(wanted.origin);
        if given.file.is_some_and(|given| {
            given.algorithm() == image.digest.algorithm() && given != image.digest
        }) {
            return Err(Error::new(
                crate::error::Kind::SourceMismatch,
                format!("{} has another digest than the one you gave: {}", entry.id, image.digest),
            )
            .hint("leave --sha256 out: the publisher's list is used"));
        }
        let published = Published {
            file: Some(image.digest),
            image: given.image,
            voucher: Some(image.voucher),
            proven: None,
        };
        let known = Known { published, notes: Vec::new() };
        Ok(Self { urls: with_mirrors(urls, wanted.network)?, known, beside: false })
    }

    /// Asks the lists about the file, by the name in its address and by `other`, the name that it
    /// has after redirects.
    pub(super) fn ask_lists(
        &mut self,
        other: Option<&Url>,
        origin: &Origin,
        cancel: &CancelToken,
    ) -> Result<()> {
        if !self.beside {
            return Ok(());
        }
        let mut names: Vec<String> =
            [Some(&self.urls[0]), other].into_iter().flatten().filter_map(file_name).collect();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        let mut search = Search::of(origin, names);
        let best = match &origin.checksums {
            Some(word) => named_list(word, origin, &mut search, cancel)?,
            None => lists_beside(other.unwrap_or(&self.urls[0]), &mut search, cancel)?,
        };
        self.known.notes = search.notes;
        // Before redirects were followed its name may be one that no list has.
        let final_answer = other.is_some() || best.is_some();
        if best.is_some() {
            self.beside = false;
        }
        if final_answer {
            conclude(&mut self.known, best, origin, &shown(&self.urls[0]))?;
        }
        Ok(())
    }

    /// Whether a digest of the file or of its image is known, so that wrong bytes cannot pass.
    fn is_known(&self) -> bool {
        self.known.published.file.is_some() || self.known.published.image.is_some()
    }

    /// From the cache when it is there, else a stream.
    pub(super) fn open(mut self, wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Image> {
        let invoker = Invoker::current();
        let digest = self.known.published.file;
        let cached = digest.and_then(|digest| Cache::of(&invoker).ok()?.find(&digest));
        if let Some((path, _)) = cached.filter(|_| wanted.keep.is_none()) {
            return Image::file(&path, "cache", self.known, wanted.origin);
        }
        let (send, remarks) = unbounded();
        // Nobody listens when the image was refused.
        let remark = move |said| send.send(said).unwrap_or_default();
        let ending = Ending { proof: Flag::new(self.is_known()), ..Ending::default() };
        let patience = wanted.network.patience();
        let (answer, body) = stream::open(&self.urls, patience, &ending, cancel, remark)?;
        self.ask_lists(Some(&answer.url), wanted.origin, cancel)?;
        if self.is_known() {
            ending.proof.set();
        }
        let (reader, kept) = match wanted.keep {
            None => (Box::new(body) as Box<dyn Read + Send>, None),
            Some(file) => {
                let (reader, kept) = Kept::new(body, file, &invoker)?;
                (Box::new(reader) as Box<dyn Read + Send>, Some(kept))
            }
        };
        let name = shown(&self.urls[0]);
        let source = PipeSource::new(&name, reader, answer.total)?.ending(&ending.unstated);
        let source = Box::new(source);
        let image = Image::unpacked(source, None, "http", self.known, wanted.origin)?;
        Ok(image.streamed(remarks, kept))
    }
}

fn with_mirrors(mut urls: Vec<Url>, network: &Network) -> Result<Vec<Url>> {
    for mirror in &network.mirrors {
        urls.push(client::parse(mirror)?);
    }
    Ok(urls)
}

/// The first of several addresses that has the file.
fn fetch_any(urls: &[String], limit: usize, cancel: &CancelToken) -> Result<Vec<u8>> {
    let mut last = Error::usage("there is no address to fetch it from");
    for url in urls {
        match small(url, limit, cancel) {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => {
                last = Error::new(
                    crate::error::Kind::Io,
                    format!("{}: the server does not have it", printable(url)),
                )
                .hint("the catalogue may be out of date: `mediawriter images show ID` says where it looks");
            }
            Err(error) => {
                cancel.check()?;
                last = error;
            }
        }
    }
    Err(last)
}

/// The list that the person named, a file or an address.
fn named_list(
    word: &str,
    origin: &Origin,
    search: &mut Search<'_>,
    cancel: &CancelToken,
) -> Result<Option<super::origin::Answer>> {
    let list = named::read(word, sums::MOST_BYTES, cancel)?;
    let signature = match &origin.signature {
        Some(word) => Some(named::read(word, proof::MOST_BYTES, cancel)?),
        None => named::signature_beside(word, &mut search.notes, cancel)?,
    };
    let about = About { named: true, own: true };
    search.judge(&named::shown(word), about, &list, signature.as_deref())
}

/// What lies beside an address. A server that answers anything to everything has no lists; one
/// that cannot be asked will be told of when the file itself is fetched.
fn lists_beside(
    url: &Url,
    search: &mut Search<'_>,
    cancel: &CancelToken,
) -> Result<Option<super::origin::Answer>> {
    let mut best = None;
    let own = format!("{}.sha256", url.path());
    let at = |name: &str| {
        let mut list = url.clone();
        list.set_query(None);
        list.set_fragment(None);
        list.join(name).ok()
    };
    let lists = LISTS.iter().map(|name| (at(name), false)).chain([(at(&own), true)]);
    for (list, own) in lists.filter_map(|(url, own)| Some((url?, own))) {
        cancel.check()?;
        let Ok(Some(bytes)) = small(list.as_str(), sums::MOST_BYTES, cancel) else { continue };
        if !sums::Sums::parse(&bytes).is_ok_and(|sums| own || !sums.is_bare())
            && !bytes.starts_with(b"-----BEGIN PGP SIGNED MESSAGE")
        {
            continue;
        }
        let signature = named::signature_beside(list.as_str(), &mut search.notes, cancel)?;
        let about = About { named: false, own };
        best = better(best, search.judge(&shown(&list), about, &bytes, signature.as_deref())?)?;
        if best.is_some() {
            break;
        }
    }
    Ok(best)
}

/// A stream that is stored while it is read; what was not given its name is removed.
pub(super) struct Kept {
    part: PathBuf,
    file: PathBuf,
    /// All that came was stored.
    whole: Arc<AtomicBool>,
    /// It stays, under the name of a part.
    left: AtomicBool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.left.load(Ordering::SeqCst) && self.part.symlink_metadata().is_ok() {
            // Left behind where that fails; its name says that it is a part.
            Invoker::current().remove(&self.part).ok();
        }
    }
}

impl Kept {
    /// Stores what is read in `FILE.part`.
    fn new<R: Read>(inner: R, file: &Path, invoker: &Invoker) -> Result<(Keeping<R>, Self)> {
        if file.symlink_metadata().is_ok() {
            return Err(Error::refused(format!("{} exists", printable_path(file)))
                .hint("choose another name for --keep"));
        }
        let part = with_suffix(file, ".part");
        if part.symlink_metadata().is_ok() {
            let part = printable_path(&part);
            return Err(Error::refused(format!("{part} is there; it was left as it is"))
                .hint("move it away, or choose another name for --keep"));
        }
        let out = invoker.create(&part, CreateMode::NewOnly)?;
        let (reader, whole) = Keeping::new(inner, out, printable_path(&part));
        Ok((reader, Self { part, file: file.to_owned(), whole, left: AtomicBool::new(false) }))
    }

    /// Whether all that came is there.
    pub(super) fn is_stored(&self) -> bool {
        self.whole.load(Ordering::SeqCst)
    }

    /// Gives what was stored its name.
    pub(super) fn give_its_name(&self) -> Result<&Path> {
        Invoker::current().rename(&self.part, self.file.file_name().unwrap_or(OsStr::new("")))?;
        Ok(&self.file)
    }

    /// Leaves what was stored where it is.
    pub(super) fn leave(&self) -> &Path {
        self.left.store(true, Ordering::SeqCst);
        &self.part
    }
}

/// `path` with something behind its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
