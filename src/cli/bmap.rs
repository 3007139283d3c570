//! The block map of an image: named with `--bmap`, or found beside a file or an address.

use std::path::{Path, PathBuf};

use reqwest::Url;

use super::named;
use super::origin::keyring;
use super::source::Wanted;
use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};
use crate::event::{BlockMap, Voucher};
use crate::proof::{self, Judge};
use crate::source::bmap::{Bmap, MOST_BYTES, parse};
use crate::source::http::small;
use crate::text::printable;
use crate::time::unix_time;

/// A map, and who vouches for it.
pub(super) struct Found {
    pub(super) bmap: Bmap,
    pub(super) voucher: Voucher,
    /// What is to be told of it.
    pub(super) notes: Vec<String>,
    /// Which map it is, and how much it leaves out.
    pub(super) map: BlockMap,
}

/// The map that was named, or lies beside the file or the address.
pub(super) fn find(wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Option<Found>> {
    let (word, bytes) = match wanted.origin.bmap.as_deref() {
        Some("none") => return Ok(None),
        Some(word) => (word.to_owned(), named::read(word, MOST_BYTES, cancel)?),
        None => {
            let address = wanted.word.to_str().filter(|word| word.contains("://"));
            if let Some(url) = address.and_then(|word| Url::parse(word).ok()) {
                match beside_address(&url, cancel)? {
                    Some(found) => found,
                    None => return Ok(None),
                }
            } else {
                let Some(path) = beside(Path::new(wanted.word)) else { return Ok(None) };
                let word = path.to_string_lossy().into_owned();
                let bytes = named::read(&word, MOST_BYTES, cancel)?;
                (word, bytes)
            }
        }
    };
    judged(&word, &bytes, wanted, cancel).map(Some)
}

/// The same names beside an address. A server that answers anything to everything has no maps, and
/// one that fails is told of when the file itself is read.
fn beside_address(url: &Url, cancel: &CancelToken) -> Result<Option<(String, Vec<u8>)>> {
    let Some(name) = url.path_segments().and_then(|mut parts| parts.next_back()) else {
        return Ok(None);
    };
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    for name in [name, stem].iter().filter(|name| !name.is_empty()) {
        cancel.check()?;
        let mut map = url.clone();
        map.set_query(None);
        map.set_fragment(None);
        let Ok(map) = map.join(&format!("./{name}.bmap")) else { continue };
        if let Ok(Some(bytes)) = small(map.as_str(), MOST_BYTES, cancel)
            && bytes.windows(5).take(4096).any(|part| part == b"<bmap")
        {
            return Ok(Some((map.to_string(), bytes)));
        }
    }
    Ok(None)
}

/// `x.img.xz` has `x.img.bmap` or `x.img.xz.bmap` beside it (as bmaptool looks for it).
pub(super) fn beside(image: &Path) -> Option<PathBuf> {
    let name = image.file_name()?;
    let own = image.with_file_name([name, ".bmap".as_ref()].join("".as_ref()));
    let candidates = [own, image.with_extension("bmap")];
    // A map that was named as the image is refused as what it is.
    candidates.into_iter().find(|path| path != image && image.is_file() && path.is_file())
}

fn judged(word: &str, bytes: &[u8], wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Found> {
    let shown = named::shown(word);
    let mut notes = Vec::new();
    let signature = named::signature_beside(word, &mut notes, cancel)?;
    let keys = keyring(wanted.origin)?;
    let judge = Judge { keys: &keys, demanded: &[], now: unix_time() };
    let opened = proof::open(bytes, signature.as_deref(), judge);
    let voucher = opened.proof.voucher(&shown, false)?;
    let bad = |why: String| {
        Error::new(Kind::SourceMismatch, format!("the block map {shown}: {why}"))
            .hint("get it again, or write the whole image with --bmap none")
    };
    let text = String::from_utf8(opened.text).map_err(|_| bad("it is no UTF-8".to_owned()))?;
    let bmap = parse(&text).map_err(bad)?;
    let map = BlockMap {
        name: shown,
        version: printable(&bmap.version),
        image_size: bmap.image_size,
        mapped: bmap.mapped(),
        left_out: bmap.image_size.saturating_sub(bmap.mapped()),
        ranges: bmap.ranges.len() as u64,
        proves: bmap.proves(),
    };
    Ok(Found { bmap, voucher, notes, map })
}
