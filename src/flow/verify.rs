//! `verify`: compares a medium with an image, a digest or an earlier record, and writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::damage::{Locate, Truth, judge};
use super::readback::{ReadBack, Wanted, read_back};
use super::{Context, Transfer};
use crate::device::BlockDevice;
use crate::digest::chunks::{Builder, ChunkMap, level_for};
use crate::digest::ranges::{self, ImageDigest, ImageHasher, Mapped};
use crate::digest::{Digest, FileRead, Sha256};
use crate::error::{Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{Event, Span, Verdict};
use crate::source::{Published, Source, bmap};
use crate::units::Bytes;

/// What the medium should hold.
#[derive(Debug)]
pub enum Expected<'a> {
    /// This image, and what its file and itself should be.
    Image(&'a dyn Source, &'a Published),
    /// Bytes with this digest; where they differ cannot be told.
    Digest(Sha256, u64),
    /// What an earlier run wrote: the digest of all of it, or of the stretches that it wrote.
    Map(ChunkMap, Sha256, Option<Arc<[Mapped]>>),
}

/// Reads the image's bytes from the medium and compares.
///
/// `Err` when the check could not be made; a mismatch is an `Ok` verdict.
pub fn verify(
    device: &dyn BlockDevice,
    expected: &Expected<'_>,
    locate: Locate<'_>,
    transfer: &Transfer,
    cx: &Context,
) -> Result<Verdict> {
    let verdict = match expected {
        Expected::Digest(digest, len) => {
            fits(device, *len, cx)?;
            let wanted = Wanted { len: *len, ..Wanted::default() };
            against_digest(*digest, *len, &read_back(device, wanted, transfer, cx)?)
        }
        Expected::Map(map, digest, mapped) => {
            fits(device, map.len(), cx)?;
            let wanted = Wanted {
                len: map.len(),
                map: Some(map),
                mapped: mapped.clone(),
                ..Wanted::default()
            };
            let seen = read_back(device, wanted, transfer, cx)?;
            with_digest(
                *digest,
                &seen,
                judge(Truth { map, image: None, written: false }, &seen, device, locate, cx),
            )
        }
        Expected::Image(source, published) => {
            against_image(device, *source, published, locate, (transfer, cx))?.verdict
        }
    };
    cx.events.emit(Event::MediaVerdict(verdict.clone()));
    Ok(verdict)
}

fn fits(device: &dyn BlockDevice, len: u64, cx: &Context) -> Result<()> {
    let size = device.geometry().size;
    if len > size {
        return Err(super::too_large(len, size, &cx.target));
    }
    Ok(())
}

/// A medium that was compared with an image.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) verdict: Verdict,
    /// Where it differs or cannot be read, in whole granules of the map.
    pub(super) bad: Vec<Span>,
    /// Of the image.
    pub(super) digest: ImageDigest,
}

/// Image and medium are read at the same time; both become maps.
pub(super) fn against_image(
    device: &dyn BlockDevice,
    source: &dyn Source,
    published: &Published,
    locate: Locate<'_>,
    (transfer, cx): (&Transfer, &Context),
) -> Result<Compared> {
    let level = level_for(device.geometry().size);
    // A stick that was pulled out ends the check now, not after the rest of a large image.
    let given_up = AtomicBool::new(false);
    let whole = published.image.is_some();
    let wanted = |len| Wanted { len, mapped: source.mapped(), ..Wanted::default() };
    let ((map, digest), seen) = if let Some(len) = source.info().len {
        fits(device, len, cx)?;
        let (image, seen) = thread::scope(|scope| {
            let image = scope.spawn(|| map_source(source, whole, (level, len), &given_up, cx));
            let seen = read_back(device, wanted(len), transfer, cx);
            given_up.store(seen.is_err(), Ordering::Relaxed);
            (image.join(), seen)
        });
        let seen = seen?;
        (image.map_err(|_| super::internal("the thread that reads the image panicked"))??, seen)
    } else {
        // How much of the medium is to be read is known when the image has been.
        fits(device, source.at_least().unwrap_or(0), cx)?;
        cx.events.tell(Notice::ImageFirst { image: source.info().name.clone() });
        let room = device.geometry().size;
        let image = map_source(source, whole, (level, room), &given_up, cx)?;
        let seen = read_back(device, wanted(image.0.len()), transfer, cx)?;
        (image, seen)
    };
    check_source(source, published, digest, map.len(), cx)?;
    let image = source.positional();
    let truth = Truth { map: &map, image: image.as_deref(), written: false };
    let verdict = with_digest(digest.proof, &seen, judge(truth, &seen, device, locate, cx));
    let granules = map.differing(&seen.map).into_iter().map(|index| map.span(index));
    let bad = granules.chain(seen.unreadable.iter().copied()).collect();
    Ok(Compared { verdict, bad, digest })
}

fn map_source(
    source: &dyn Source,
    whole: bool,
    (level, most): (u32, u64),
    given_up: &AtomicBool,
    cx: &Context,
) -> Result<(ChunkMap, ImageDigest)> {
    let mut reader = source.open()?;
    let (mut map, mut hasher) = (Builder::new(level), ImageHasher::new(source.mapped(), whole));
    let (mut buf, mut done) = (vec![0; 1 << 20], 0);
    while !given_up.load(Ordering::Relaxed) {
        cx.cancel.check()?;
        let n = match reader.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => {
                return Err(Error::from_read(e, &source.info().name));
            }
        };
        map.push(&buf[..n]);
        hasher.update(&buf[..n]);
        if let Some(wrong) = hasher.wrong() {
            return Err(bmap::wrong(&source.info().name, wrong));
        }
        done += n as u64;
        if done > most {
            return Err(super::too_large(done, most, &cx.target));
        }
    }
    Ok((map.finish(), hasher.finish()))
}

/// Says what the source was, compares it with what was published, and who vouches for that; a
/// mismatch ends the run.
pub(super) fn check_source(
    source: &dyn Source,
    published: &Published,
    digest: ImageDigest,
    bytes: u64,
    cx: &Context,
) -> Result<()> {
    let hex = |digest: Option<Sha256>| digest.map(|digest| digest.to_string());
    let (sha256, mapped_sha256) = (hex(digest.whole), hex(digest.mapped.then_some(digest.proof)));
    cx.events.emit(Event::SourceRead { bytes, sha256, mapped_sha256 });
    let image = digest.whole.map(Digest::Sha256);
    let file = source.file();
    if let Some(file) = &file {
        cx.events.emit(Event::FileRead {
            bytes: file.bytes,
            sha256: file.sha256.to_string(),
            sha512: file.sha512.map(|digest| digest.to_string()),
        });
        if file.trailing.data {
            let (file, bytes) = (source.info().name.clone(), file.trailing.bytes);
            cx.events.tell(Notice::TrailingBytes { file, bytes });
        }
    }
    let file_has = |wanted: Digest| match (&file, wanted) {
        (Some(file), wanted) => file.like(&wanted),
        // The file is the image.
        (None, Digest::Sha256(_)) => image,
        (None, Digest::Sha512(_)) => None,
    };
    let mut checked = false;
    for (what, wanted, has) in [
        (
            if file.is_some() { "file" } else { "image" },
            published.file,
            published.file.and_then(file_has),
        ),
        ("image", published.image.map(Digest::Sha256), image),
    ] {
        let Some(wanted) = wanted else { continue };
        let has = has.ok_or_else(|| super::internal("the published digest was not computed"))?;
        if wanted != has {
            let hint = match (what, &file) {
                ("file", Some(_)) if Some(wanted) == image => {
                    "that is the digest of the image in the file: give it with --image-sha256"
                }
                ("image", Some(file)) if wanted == Digest::Sha256(file.sha256) => {
                    "that is the digest of the compressed file: give it with --sha256"
                }
                _ => {
                    "download it again, and compare the digest's file name and version with the image's"
                }
            };
            return Err(not_published(what, (wanted, has), bytes, cx).hint(hint));
        }
        checked = true;
    }
    // Each of them was compared when it had been read.
    let ranges = source.mapped().filter(|ranges| !checked && ranges::proves(ranges));
    let before = ranges.map(|ranges| ranges::mapped(&ranges)).or(published.proven);
    if let Some(bytes) = before {
        cx.events.emit(Event::SourceVerdict(Verdict::Matched { bytes }));
        if let Some(voucher) = &published.voucher {
            cx.events.emit(Event::Vouched(voucher.clone()));
        }
        return Ok(());
    }
    if !checked {
        let reason = if source.is_end_stated() {
            "no published SHA-256 was given"
        } else {
            "its length was never stated, and no published SHA-256 was given"
        };
        let reason = reason.to_owned();
        cx.events.emit(Event::SourceVerdict(Verdict::NotChecked { reason }));
        return Ok(());
    }
    let checked = file.filter(|_| published.file.is_some()).map_or(bytes, |file| file.bytes);
    cx.events.emit(Event::SourceVerdict(Verdict::Matched { bytes: checked }));
    if let Some(voucher) = &published.voucher {
        cx.events.emit(Event::Vouched(voucher.clone()));
    }
    Ok(())
}

/// Whether what came of a source is known to be all of it: its end was stated, or what came was
/// compared with a digest. Asked after everything that came has been written, or compared.
pub fn is_whole(source: &dyn Source, published: &Published) -> bool {
    source.is_end_stated()
        || published.file.is_some()
        || published.image.is_some()
        || source.mapped().is_some_and(|ranges| ranges::proves(&ranges))
}

/// The error of a source that may be a part of what it should be.
pub fn maybe_a_part(source: &dyn Source, bytes: u64, target: &str) -> Error {
    let (name, bytes) = (&source.info().name, Bytes(bytes));
    Error::new(
        Kind::Unverified,
        format!(
            "{target} holds the {bytes} that came from {name}, but the image may be longer: the server \
             closed the connection and never said how long it is"
        ),
    )
    .hint("run it again with the image's digest (--sha256), which proves that it is whole")
}

/// The same for a file that nothing was unpacked from.
pub fn check_file(published: &Published, file: &FileRead, cx: &Context) -> Result<()> {
    let Some(wanted) = published.file else {
        let reason = "no published digest is known".to_owned();
        cx.events.emit(Event::SourceVerdict(Verdict::NotChecked { reason }));
        return Ok(());
    };
    let has = file
        .like(&wanted)
        .ok_or_else(|| super::internal("the published digest was not computed"))?;
    if wanted != has {
        return Err(not_published("file", (wanted, has), file.bytes, cx)
            .hint("compare the digest's file name and version with the address"));
    }
    cx.events.emit(Event::SourceVerdict(Verdict::Matched { bytes: file.bytes }));
    if let Some(voucher) = &published.voucher {
        cx.events.emit(Event::Vouched(voucher.clone()));
    }
    Ok(())
}

fn not_published(what: &str, (wanted, has): (Digest, Digest), bytes: u64, cx: &Context) -> Error {
    let algorithm = wanted.algorithm();
    cx.events.emit(Event::SourceVerdict(Verdict::Mismatched {
        bad_bytes: bytes,
        ranges: 1,
        findings: vec![format!("expected {algorithm} {wanted}, the {what} has {has}")],
    }));
    Error::new(
        Kind::SourceMismatch,
        format!("the {what} is not the published one: expected {algorithm} {wanted}, it has {has}"),
    )
}

/// The map says where, SHA-256 says whether: a match needs both.
pub(super) fn with_digest(digest: Sha256, seen: &ReadBack, verdict: Verdict) -> Verdict {
    if !verdict.is_match() {
        return verdict;
    }
    against_digest(digest, seen.map.len(), seen)
}

fn against_digest(digest: Sha256, len: u64, seen: &ReadBack) -> Verdict {
    if seen.sha256 == Ok(digest) && seen.unreadable.is_empty() {
        if let Some(counted) = seen.counted {
            let reason = format!(
                "the kernel read only {counted} of {len} bytes from the device, the rest came from a cache"
            );
            return Verdict::NotChecked { reason };
        }
        return Verdict::Matched { bytes: seen.compared };
    }
    let mut findings = vec![match seen.sha256 {
        Ok(has) => format!(
            "the first {len} bytes of the medium have SHA-256 {has}, expected {digest}; a digest alone does \
             not tell where they differ"
        ),
        Err(at) => format!(
            "the first {len} bytes of the medium do not have SHA-256 {digest}: the part at offset {at} differs"
        ),
    }];
    findings.extend(
        seen.unreadable
            .iter()
            .take(16)
            .map(|u| format!("{} bytes at offset {} cannot be read", u.len, u.offset)),
    );
    Verdict::Mismatched { bad_bytes: 0, ranges: 0, findings }
}
