//! The block map of an image: named with `--bmap`, or found beside a local file.

use std::path::{Path, PathBuf};

use super::origin::{keyring, named_file};
use super::source::Wanted;
use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};
use crate::event::Voucher;
use crate::proof::{self, Judge};
use crate::source::bmap::{Bmap, MOST_BYTES, parse};
use crate::source::http::small;
use crate::text::{printable, printable_path};
use crate::time::unix_time;
use crate::units::Bytes;

/// A map, and who vouches for it.
pub(super) struct BlockMap {
    pub(super) bmap: Bmap,
    pub(super) voucher: Voucher,
    /// In a sentence.
    pub(super) note: String,
}

/// Endings of signatures over a map.
const SIGNATURES: [&str; 3] = [".asc", ".sig", ".gpg"];

/// The map that was named, or lies beside the file.
pub(super) fn find(wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Option<BlockMap>> {
    match wanted.origin.bmap.as_deref() {
        Some("none") => Ok(None),
        Some(word) => read(word, wanted, cancel).map(Some),
        None => match beside(Path::new(wanted.word)) {
            Some(path) => read(&path.to_string_lossy(), wanted, cancel).map(Some),
            None => Ok(None),
        },
    }
}

/// `x.img.xz` has `x.img.bmap` or `x.img.xz.bmap` beside it (as bmaptool looks for it).
fn beside(image: &Path) -> Option<PathBuf> {
    let name = image.file_name()?;
    let own = image.with_file_name([name, ".bmap".as_ref()].join("".as_ref()));
    let candidates = [own, image.with_extension("bmap")];
    // A map that was named as the image is refused as what it is.
    candidates.into_iter().find(|path| path != image && image.is_file() && path.is_file())
}

fn read(word: &str, wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<BlockMap> {
    let fetch = |word: &str, most: usize| {
        if word.contains("://") {
            let bytes = small(word, most, cancel)?;
            bytes.ok_or_else(|| Error::usage(format!("{}: there is no such file", printable(word))))
        } else {
            named_file(Path::new(word), most)
        }
    };
    let shown =
        if word.contains("://") { printable(word) } else { printable_path(Path::new(word)) };
    let bytes = fetch(word, MOST_BYTES)?;
    let signature = SIGNATURES
        .iter()
        .find_map(|ending| fetch(&format!("{word}{ending}"), proof::MOST_BYTES).ok())
        .filter(|bytes| proof::looks_like_a_signature(bytes));
    let keys = keyring(wanted.origin)?;
    let judge = Judge { keys: &keys, demanded: &[], now: unix_time() };
    let opened = proof::open(&bytes, signature.as_deref(), judge);
    let voucher = opened.proof.voucher(&shown, false)?;
    let bad = |why: String| {
        Error::new(Kind::SourceMismatch, format!("the block map {shown}: {why}"))
            .hint("get it again, or write the whole image with --bmap none")
    };
    let text = String::from_utf8(opened.text).map_err(|_| bad("it is no UTF-8".to_owned()))?;
    let bmap = parse(&text).map_err(bad)?;
    let (mapped, size) = (Bytes(bmap.mapped()), Bytes(bmap.image_size));
    let checks =
        if bmap.proves() { "each with its SHA-256" } else { "without a digest that proves them" };
    let note = format!(
        "block map {shown} (version {}): {mapped} of {size} are written and verified, in {} ranges, {checks}",
        printable(&bmap.version),
        bmap.ranges.len()
    );
    Ok(BlockMap { bmap, voucher, note })
}
