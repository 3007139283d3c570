//! What was named on the command line as "a file or an address", and the signatures beside it.
//! Must not know what the bytes mean.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::cancel::CancelToken;
use crate::error::{Context as _, Error, Result};
use crate::proof;
use crate::source::http::small;
use crate::text::{printable, printable_path};

/// Endings of detached signatures.
pub(super) const SIGNATURES: [&str; 4] = [".gpg", ".sign", ".asc", ".sig"];

/// How messages call it.
pub(super) fn shown(word: &str) -> String {
    if is_address(word) { printable(word) } else { printable_path(Path::new(word)) }
}

fn is_address(word: &str) -> bool {
    word.contains("://")
}

/// Its bytes; `None` when there is none of that name.
fn find(word: &str, most: usize, cancel: &CancelToken) -> Result<Option<Vec<u8>>> {
    if is_address(word) {
        small(word, most, cancel)
    } else {
        small_file(Path::new(word), most, true)
    }
}

/// Its bytes; it must be there.
pub(super) fn read(word: &str, most: usize, cancel: &CancelToken) -> Result<Vec<u8>> {
    find(word, most, cancel)?
        .ok_or_else(|| Error::usage(format!("there is no file {}", shown(word))))
}

/// The signature beside it, which nobody named: that there is none is nothing to tell, that one
/// could not be had is a note.
pub(super) fn signature_beside(
    word: &str,
    notes: &mut Vec<String>,
    cancel: &CancelToken,
) -> Result<Option<Vec<u8>>> {
    let mut told = false;
    for ending in SIGNATURES {
        cancel.check()?;
        match find(&format!("{word}{ending}"), proof::MOST_BYTES, cancel) {
            Ok(Some(bytes)) if proof::looks_like_a_signature(&bytes) => return Ok(Some(bytes)),
            // Once: a server that fails does so for every ending.
            Err(error) if !told => {
                told = true;
                notes.push(format!("no signature could be looked for: {}", error.message()));
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

/// A regular file of at most `most` bytes; `None` when there is none of that name.
pub(super) fn small_file(path: &Path, most: usize, follow: bool) -> Result<Option<Vec<u8>>> {
    let name = printable_path(path);
    // Opening a FIFO would wait for its other end.
    let flags = libc::O_NONBLOCK | if follow { 0 } else { libc::O_NOFOLLOW };
    let file: File = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(format!("cannot open {name}"), e)),
    };
    if !file.metadata().context(|| format!("cannot look at {name}"))?.is_file() {
        return Err(Error::refused(format!("{name} is not a regular file")));
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).context(|| format!("cannot read {name}"))?;
    if bytes.len() > most {
        return Err(Error::refused(format!("{name} has more than {most} bytes")));
    }
    Ok(Some(bytes))
}

/// A file that was named and must be there.
pub(super) fn named_file(path: &Path, most: usize) -> Result<Vec<u8>> {
    small_file(path, most, true)?
        .ok_or_else(|| Error::usage(format!("there is no file {}", printable_path(path))))
}
