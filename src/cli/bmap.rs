//! The block map of an image: named with `--bmap`, or found beside a local file.

use std::path::{Path, PathBuf};

use super::named;
use super::origin::keyring;
use super::source::Wanted;
use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};
use crate::event::Voucher;
use crate::proof::{self, Judge};
use crate::source::bmap::{Bmap, MOST_BYTES, parse};
use crate::text::printable;
use crate::time::unix_time;
use crate::units::Bytes;

/// A map, and who vouches for it.
pub(super) struct BlockMap {
    pub(super) bmap: Bmap,
    pub(super) voucher: Voucher,
    /// What is to be told of it.
    pub(super) notes: Vec<String>,
    /// Which map it is, and how much it leaves out.
    pub(super) words: String,
}

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
pub(super) fn beside(image: &Path) -> Option<PathBuf> {
    let name = image.file_name()?;
    let own = image.with_file_name([name, ".bmap".as_ref()].join("".as_ref()));
    let candidates = [own, image.with_extension("bmap")];
    // A map that was named as the image is refused as what it is.
    candidates.into_iter().find(|path| path != image && image.is_file() && path.is_file())
}

fn read(word: &str, wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<BlockMap> {
    let shown = named::shown(word);
    let bytes = named::read(word, MOST_BYTES, cancel)?;
    let mut notes = Vec::new();
    let signature = named::signature_beside(word, &mut notes, cancel)?;
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
    let words = format!(
        "block map {shown} (version {}): {mapped} of {size} are written and verified, in {} ranges, {checks}",
        printable(&bmap.version),
        bmap.ranges.len()
    );
    notes.push(words.clone());
    Ok(BlockMap { bmap, voucher, notes, words })
}
