//! What a source should be, and who says so: digests on the command line, and lists of checksums
//! with their signatures, named or found beside the file.
//!
//! Only regular files of at most 1 MiB in the source's own folder are looked at. A wrong signature
//! is an error, whichever list it is over; a list that does not name the file is only told.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::args::Origin;
use super::named::{SIGNATURES, named_file, small_file};
use crate::digest::Digest;
use crate::digest::sums::{self, Lookup, Sums};
use crate::error::{Error, Kind, Result};
use crate::event::Voucher;
use crate::proof::{self, Judge, Keyring, Proof};
use crate::source::Published;
use crate::text::{printable, printable_path};
use crate::time::unix_time;

/// Lists of a whole folder, the preferred first: SHA-256 costs nothing more, it is computed anyway.
const FOLDER_LISTS: [&str; 5] =
    ["SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt", "CHECKSUM", "SHA512SUMS"];
/// Endings of lists of one file.
const FILE_LISTS: [&str; 4] = [".sha256", ".sha256sum", ".sha512", ".sha512sum"];
/// Where distributions put keys (Debian's and Ubuntu's -keyring packages).
const SYSTEM_KEYRINGS: &str = "/usr/share/keyrings";
/// Entries of a folder that are looked at.
const MOST_FILES: usize = 4096;

/// What is known of a source beforehand, and what is to be told.
pub(super) struct Known {
    pub(super) published: Published,
    pub(super) notes: Vec<String>,
}

/// A list that was found or named.
struct Listed {
    path: PathBuf,
    about: About,
}

/// What is known of a list before it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    /// Named by the person: it must answer.
    pub(super) named: bool,
    /// It is about this file alone, so it need not name it.
    pub(super) own: bool,
}

/// One list's answer.
pub(super) struct Answer {
    digest: Digest,
    voucher: Voucher,
    list: String,
}

impl Answer {
    fn is_signed(&self) -> bool {
        matches!(self.voucher, Voucher::Signature { .. })
    }
}

/// Of what is piped: nothing lies beside it, and it has no name to look up in a list.
pub(super) fn of_a_stream(origin: &Origin) -> Result<Known> {
    if origin.checksums.is_some() || origin.require_signature {
        return Err(Error::usage("--checksums and --require-signature need a SOURCE with a name")
            .hint("give the image as a file, or its digest with --sha256"));
    }
    Ok(Known { published: said(origin), notes: Vec::new() })
}

/// Of a file of this machine.
pub(super) fn of_a_file(path: &Path, origin: &Origin) -> Result<Known> {
    let mut known = Known { published: said(origin), notes: Vec::new() };
    let asked = origin.checksums.is_some() || origin.require_signature;
    if known.published.file.is_some() && !asked {
        return Ok(known);
    }
    let lists = match &origin.checksums {
        Some(list) => {
            vec![Listed { path: list.into(), about: About { named: true, own: true } }]
        }
        None => beside(path),
    };
    let mut search = Search::of(origin, names(path));
    let mut best: Option<Answer> = None;
    for list in &lists {
        best = better(best, search.ask(list)?)?;
    }
    known.notes = search.notes;
    conclude(&mut known, best, origin, &printable_path(path))?;
    Ok(known)
}

/// Takes over what the lists said; without an answer it may be over.
pub(super) fn conclude(
    known: &mut Known,
    best: Option<Answer>,
    origin: &Origin,
    name: &str,
) -> Result<()> {
    let Some(answer) = best else {
        if !origin.require_signature {
            return Ok(());
        }
        let mut why = format!("no signed list of checksums names {name}");
        for note in &known.notes {
            why.push_str("; ");
            why.push_str(note);
        }
        return Err(Error::new(Kind::SourceMismatch, why)
            .hint("put the publisher's SHA256SUMS and SHA256SUMS.gpg beside it, or name the list with --checksums"));
    };
    adopt(&mut known.published, answer)
}

/// What the person says that the source is.
pub(super) fn said(origin: &Origin) -> Published {
    let (file, image) = (origin.sha256, origin.image_sha256);
    let voucher = (file.is_some() || image.is_some()).then_some(Voucher::You);
    Published { file, image, voucher, proven: None }
}

/// The digest of a list, unless the person gave another one by the same algorithm.
fn adopt(published: &mut Published, answer: Answer) -> Result<()> {
    if let Some(given) = published.file
        && given.algorithm() == answer.digest.algorithm()
        && given != answer.digest
    {
        return Err(Error::new(
            Kind::SourceMismatch,
            format!(
                "{} has {} {} for it, you gave {given}",
                answer.list,
                given.algorithm(),
                answer.digest
            ),
        )
        .hint("look up which of the two is the publisher's"));
    }
    published.file = Some(answer.digest);
    published.voucher = Some(answer.voucher);
    Ok(())
}

/// A signed list before an unsigned one; two that contradict each other are an error.
pub(super) fn better(first: Option<Answer>, second: Option<Answer>) -> Result<Option<Answer>> {
    let (first, second) = match (first, second) {
        (Some(first), Some(second)) => (first, second),
        (first, second) => return Ok(first.or(second)),
    };
    if first.digest.algorithm() == second.digest.algorithm() && first.digest != second.digest {
        let (a, b) = (&first.list, &second.list);
        return Err(Error::new(
            Kind::SourceMismatch,
            format!("{a} and {b} give different digests"),
        )
        .hint("keep the list that belongs to this image, or name it with --checksums"));
    }
    Ok(Some(if second.is_signed() && !first.is_signed() { second } else { first }))
}

/// Names under which a list may have the file: its own, and that of the file a link leads to.
fn names(path: &Path) -> Vec<String> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = name(path).into_iter().collect();
    if let Some(real) = fs::canonicalize(path).ok().as_deref().and_then(name)
        && !names.contains(&real)
    {
        names.push(real);
    }
    names
}

/// The lists that lie in the folder of the file.
fn beside(path: &Path) -> Vec<Listed> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let listed = |path: PathBuf, own| Listed { path, about: About { named: false, own } };
    let own = FILE_LISTS.iter().map(|ending| listed(with(path, ending), true));
    let mut lists: Vec<Listed> = own.collect();
    lists.extend(FOLDER_LISTS.iter().map(|name| listed(folder.join(name), false)));
    // Fedora's lists are called after the release.
    let mut others: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .take(MOST_FILES)
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .filter(|name| name.to_string_lossy().ends_with("-CHECKSUM"))
        .map(|name| folder.join(name))
        .collect();
    others.sort();
    lists.extend(others.into_iter().map(|path| listed(path, false)));
    lists.retain(|list| fs::symlink_metadata(&list.path).is_ok_and(|meta| meta.is_file()));
    lists
}

/// Every list beside a file, and every signature over one, as far as they are there.
pub(super) fn all_beside(path: &Path) -> Vec<PathBuf> {
    let lists = beside(path).into_iter().map(|list| list.path);
    let signed = |list: PathBuf| {
        let signatures = SIGNATURES.iter().map(|ending| with(&list, ending));
        let signatures: Vec<PathBuf> = signatures.filter(|path| path.exists()).collect();
        std::iter::once(list).chain(signatures)
    };
    lists.flat_map(signed).collect()
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Asks lists about one file.
pub(super) struct Search<'a> {
    origin: &'a Origin,
    names: Vec<String>,
    /// Read when the first list is there.
    keys: Option<Keyring>,
    pub(super) notes: Vec<String>,
}

impl<'a> Search<'a> {
    /// About a file that may have any of these names in a list.
    pub(super) fn of(origin: &'a Origin, names: Vec<String>) -> Self {
        Self { origin, names, keys: None, notes: Vec::new() }
    }

    /// What one list says; `None` when it says nothing of the file.
    fn ask(&mut self, list: &Listed) -> Result<Option<Answer>> {
        let shown = printable_path(&list.path);
        let bytes = if list.about.named {
            named_file(&list.path, sums::MOST_BYTES)?
        } else {
            match small_file(&list.path, sums::MOST_BYTES, false) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(None),
                Err(e) => return self.leave(list.about, e.message()),
            }
        };
        let signature = self.signature(&list.path)?;
        self.judge(&shown, list.about, &bytes, signature.as_deref())
    }

    /// What the bytes of a list, shown as `shown`, say; `None` when they say nothing of the file.
    pub(super) fn judge(
        &mut self,
        shown: &str,
        about: About,
        bytes: &[u8],
        signature: Option<&[u8]>,
    ) -> Result<Option<Answer>> {
        let opened = self.open(bytes, signature)?;
        // A wrong signature ends it here, whatever the list says.
        let voucher = opened.proof.voucher(shown, false)?;
        let parsed = match Sums::parse(&opened.text) {
            Ok(parsed) => parsed,
            Err(why) => return self.leave(about, format!("{shown}: {why}")),
        };
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let name = printable(names.first().copied().unwrap_or_default());
        let narrow = parsed.without_sha512().entry(&names);
        let found = match narrow {
            Lookup::Found(_) | Lookup::Ambiguous => narrow,
            _ => parsed.entry(&names),
        };
        match found {
            Lookup::Found(_) if parsed.is_bare() && !about.own => {
                self.leave(about, format!("{shown} has a digest without a name"))
            }
            Lookup::Found(digest) => {
                if self.origin.require_signature {
                    opened.proof.voucher(shown, true)?;
                }
                Ok(Some(Answer { digest, voucher, list: shown.to_owned() }))
            }
            Lookup::Ambiguous => Err(Error::new(
                Kind::SourceMismatch,
                format!("{shown} has several digests that may be meant for {name}"),
            )
            .hint("give the right one with --sha256")),
            Lookup::OnlyWeak(weak) => self.leave(
                about,
                format!(
                    "{shown} has only {} for {name}, which proves nothing",
                    printable(&weak.join(" and "))
                ),
            ),
            Lookup::Absent(there) => {
                let there: Vec<String> = there.iter().take(5).map(|name| printable(name)).collect();
                self.leave(
                    about,
                    format!("{shown} has no entry for {name}; it has {}", there.join(", ")),
                )
            }
        }
    }

    /// A list that does not help: an error when it was asked for or is about this file alone.
    fn leave(&mut self, about: About, why: String) -> Result<Option<Answer>> {
        if about.named || about.own {
            return Err(Error::new(Kind::SourceMismatch, why).hint(
                "take the list that belongs to this image, or give its digest with --sha256",
            ));
        }
        self.notes.push(why);
        Ok(None)
    }

    fn signature(&self, list: &Path) -> Result<Option<Vec<u8>>> {
        if let Some(path) = &self.origin.signature {
            return named_file(Path::new(path), proof::MOST_BYTES).map(Some);
        }
        for ending in SIGNATURES {
            if let Some(bytes) = small_file(&with(list, ending), proof::MOST_BYTES, false)? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// With the keys of the program and of `--keyring`; with the system's when those are not enough.
    fn open(&mut self, list: &[u8], signature: Option<&[u8]>) -> Result<proof::Opened> {
        let keys = match self.keys.take() {
            Some(keys) => keys,
            None => keyring(self.origin)?,
        };
        let judge = |keys: &Keyring| {
            proof::open(list, signature, Judge { keys, demanded: &[], now: unix_time() })
        };
        let mut opened = judge(&keys);
        if matches!(opened.proof, Proof::UnknownKey(_)) {
            let mut more = keys.clone();
            add_system_keys(&mut more);
            opened = judge(&more);
        }
        self.keys = Some(keys);
        Ok(opened)
    }
}

pub(super) fn keyring(origin: &Origin) -> Result<Keyring> {
    let mut keys = Keyring::shipped().map_err(|why| Error::new(Kind::Internal, why))?;
    for path in &origin.keyring {
        let bytes = named_file(path, proof::MOST_BYTES)?;
        keys.add(&bytes)
            .map_err(|why| Error::usage(format!("the keyring {}: {why}", printable_path(path))))?;
    }
    Ok(keys)
}

/// Adds what /usr/share/keyrings has; a file that is no keyring, or a huge one, is passed over.
fn add_system_keys(keys: &mut Keyring) {
    let mut paths: Vec<PathBuf> = fs::read_dir(SYSTEM_KEYRINGS)
        .into_iter()
        .flatten()
        .take(MOST_FILES)
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "gpg" || e == "asc" || e == "pgp"))
        .collect();
    paths.sort();
    for path in paths.iter().take(64) {
        if let Ok(Some(bytes)) = small_file(path, proof::MOST_BYTES, true) {
            keys.add(&bytes).ok();
        }
    }
}
