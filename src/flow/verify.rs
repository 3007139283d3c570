//! `verify`: compares a medium with an image, a digest or an earlier record, and writes nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::damage::{Locate, Truth, judge};
use super::readback::{ReadBack, read_back};
use super::{Context, Transfer};
use crate::device::BlockDevice;
use crate::digest::chunks::{Builder, ChunkMap, level_for};
use crate::digest::{Hasher, Sha256};
use crate::error::{Error, Kind, Result};
use crate::event::{Event, Verdict};
use crate::source::Source;

/// What the medium should hold.
#[derive(Debug)]
pub enum Expected<'a> {
    /// This image, and the digest that it should have itself, if one is given.
    Image(&'a dyn Source, Option<Sha256>),
    /// Bytes with this digest; where they differ cannot be told.
    Digest(Sha256, u64),
    /// What an earlier run wrote.
    Map(ChunkMap, Sha256),
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
            let seen = read_back(device, *len, None, transfer, cx)?;
            against_digest(*digest, *len, &seen)
        }
        Expected::Map(map, digest) => {
            fits(device, map.len(), cx)?;
            let seen = read_back(device, map.len(), Some(map), transfer, cx)?;
            with_digest(
                *digest,
                &seen,
                judge(Truth { map, image: None, written: false }, &seen, device, locate, cx),
            )
        }
        Expected::Image(source, digest) => {
            against_image(device, *source, *digest, locate, (transfer, cx))?
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

/// Image and medium are read at the same time; both become maps.
fn against_image(
    device: &dyn BlockDevice,
    source: &dyn Source,
    digest: Option<Sha256>,
    locate: Locate<'_>,
    (transfer, cx): (&Transfer, &Context),
) -> Result<Verdict> {
    let len = source.info().len.ok_or_else(|| {
        Error::usage("a medium cannot be compared with a pipe of unknown length")
            .hint("give the image as a file, or --sha256 HEX with --size BYTES")
    })?;
    fits(device, len, cx)?;
    let level = level_for(device.geometry().size);
    // A stick that was pulled out ends the check now, not after the rest of a large image.
    let given_up = AtomicBool::new(false);
    let (image, seen) = thread::scope(|scope| {
        let image = scope.spawn(|| map_source(source, level, &given_up, cx));
        let seen = read_back(device, len, None, transfer, cx);
        given_up.store(seen.is_err(), Ordering::Relaxed);
        (image.join(), seen)
    });
    let seen = seen?;
    let (map, sha256) =
        image.map_err(|_| super::internal("the thread that reads the image panicked"))??;
    cx.events.emit(Event::SourceRead { bytes: map.len(), sha256: sha256.to_string() });
    check_source(digest, sha256, map.len(), cx)?;
    let image = source.positional();
    let truth = Truth { map: &map, image: image.as_deref(), written: false };
    Ok(with_digest(sha256, &seen, judge(truth, &seen, device, locate, cx)))
}

fn map_source(
    source: &dyn Source,
    level: u32,
    given_up: &AtomicBool,
    cx: &Context,
) -> Result<(ChunkMap, Sha256)> {
    let mut reader = source.open()?;
    let (mut map, mut hasher) = (Builder::new(level), Hasher::default());
    let mut buf = vec![0; 1 << 20];
    while !given_up.load(Ordering::Relaxed) {
        cx.cancel.check()?;
        let n = match reader.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => {
                return Err(Error::io(
                    format!("reading the image {} failed", source.info().name),
                    e,
                ));
            }
        };
        map.push(&buf[..n]);
        hasher.update(&buf[..n]);
    }
    Ok((map.finish(), hasher.finish()))
}

/// Compares the source with its published digest and says so; a mismatch ends the run.
pub(super) fn check_source(
    expected: Option<Sha256>,
    actual: Sha256,
    bytes: u64,
    cx: &Context,
) -> Result<()> {
    let Some(expected) = expected else {
        let reason = "no published SHA-256 was given".to_owned();
        cx.events.emit(Event::SourceVerdict(Verdict::NotChecked { reason }));
        return Ok(());
    };
    if expected == actual {
        cx.events.emit(Event::SourceVerdict(Verdict::Matched { bytes }));
        return Ok(());
    }
    cx.events.emit(Event::SourceVerdict(Verdict::Mismatched {
        bad_bytes: bytes,
        ranges: 1,
        findings: vec![format!("expected SHA-256 {expected}, the image has {actual}")],
    }));
    Err(Error::new(
        Kind::SourceMismatch,
        format!("the image is not the published one: expected SHA-256 {expected}, it has {actual}"),
    )
    .hint("download it again, and compare the digest's file name and version with the image's"))
}

/// The map says where, SHA-256 says whether: a match needs both.
pub(super) fn with_digest(digest: Sha256, seen: &ReadBack, verdict: Verdict) -> Verdict {
    if !verdict.is_match() {
        return verdict;
    }
    against_digest(digest, seen.map.len(), seen)
}

fn against_digest(digest: Sha256, len: u64, seen: &ReadBack) -> Verdict {
    if digest == seen.sha256 && seen.unreadable.is_empty() {
        if let Some(counted) = seen.counted {
            let reason = format!(
                "the kernel read only {counted} of {len} bytes from the device, the rest came from a cache"
            );
            return Verdict::NotChecked { reason };
        }
        return Verdict::Matched { bytes: len };
    }
    let mut findings = vec![format!(
        "the first {len} bytes of the medium have SHA-256 {}, expected {digest}; a digest alone does \
         not tell where they differ",
        seen.sha256
    )];
    findings.extend(
        seen.unreadable
            .iter()
            .take(16)
            .map(|u| format!("{} bytes at offset {} cannot be read", u.len, u.offset)),
    );
    Verdict::Mismatched { bad_bytes: 0, ranges: 0, findings }
}
