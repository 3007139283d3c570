//! `verify --repair`: compares a medium with an image, writes what differs and nothing else, and
//! compares again.
//!
//! Nothing is written before the whole image was read and was what it should be. Where the start of
//! the medium differs, as that of another image does, it is blank while the rest is written, and
//! written last; when the repair fails both ends are made blank.

use std::sync::Arc;

use super::changed::Changed;
use super::damage::Locate;
use super::guard::{self, Ends};
use super::verify::against_image;
use super::{Context, Transfer};
use crate::device::{BlockDevice, full};
use crate::error::{Error, Kind, Result};
use crate::event::{Event, Phase, Span, Verdict};
use crate::image::ReadAt;
use crate::source::{Published, Source};
use crate::sys::buffer::AlignedBuf;

/// What a repair came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Of the medium as it is now.
    pub verdict: Verdict,
    /// Bytes that were written; 0 where nothing was.
    pub written: u64,
}

/// Makes a medium hold the image again. The source must be readable at any place.
pub fn repair(
    device: &dyn BlockDevice,
    (source, published): (&dyn Source, &Published),
    locate: Locate<'_>,
    transfer: &Transfer,
    cx: &Context,
) -> Result<Repaired> {
    let image = source
        .positional()
        .ok_or_else(|| super::internal("a repair from an image that cannot be read twice"))?;
    let before = against_image(device, source, published, locate, (transfer, cx))?;
    cx.events.emit(Event::MediaVerdict(before.verdict.clone()));
    if !matches!(before.verdict, Verdict::Mismatched { .. }) {
        return Ok(Repaired { verdict: before.verdict, written: 0 });
    }
    cx.cancel.check()?;
    cx.still_the_same(device)?;
    let changed = Changed::new(device, true, Arc::clone(&cx.clock));
    let mended = blank(device, &before.bad, cx)
        .and_then(|()| write(&changed, &*image, &before.bad, transfer, cx))
        .and_then(|()| {
            // All of it again: the image may have been changed since, and the medium by the writing.
            let after = against_image(device, source, published, locate, (transfer, cx))?;
            if after.digest != before.digest {
                return Err(Error::new(
                    Kind::SourceMismatch,
                    format!("{} was changed while it was used for the repair", source.info().name),
                ));
            }
            if let Verdict::Matched { bytes } = after.verdict {
                let written = changed.totals().written;
                cx.events.emit(Event::Compared { equal: bytes.saturating_sub(written), written });
            }
            cx.events.emit(Event::MediaVerdict(after.verdict.clone()));
            Ok(after.verdict)
        });
    if !mended.as_ref().is_ok_and(Verdict::is_match) {
        guard::make_unbootable(device, cx);
    }
    Ok(Repaired { verdict: mended?, written: changed.totals().written })
}

/// The stretches that are wrong in the first MiB, and the others.
fn parted(device: &dyn BlockDevice, bad: &[Span]) -> (Vec<Span>, Vec<Span>) {
    let head = Ends::of(device.geometry().size).head.end();
    bad.iter().copied().partition(|span| span.offset < head)
}

/// Overwrites with zeros what is wrong in the first MiB.
fn blank(device: &dyn BlockDevice, bad: &[Span], cx: &Context) -> Result<()> {
    let (first, _) = parted(device, bad);
    if first.is_empty() {
        return Ok(());
    }
    cx.timed(Phase::Clear, |meter| {
        for span in first {
            cx.cancel.check()?;
            meter
                .observe(span.len, || guard::write_zeros(device, span))
                .map_err(|e| cx.io_failed(device, Phase::Clear, e, span.offset, span.len))?;
        }
        device.flush().map_err(|e| cx.flush_failed(device, e))
    })
}

/// Writes these stretches of the image: the first MiB after everything else is flushed.
fn write(
    device: &Changed<'_>,
    image: &dyn ReadAt,
    bad: &[Span],
    transfer: &Transfer,
    cx: &Context,
) -> Result<()> {
    let block = u64::from(device.geometry().logical_block);
    let total = bad.iter().map(|span| span.len).sum();
    let meter = cx.meter(Phase::Update, Some(total));
    let mut buf = AlignedBuf::zeroed(transfer.block);
    let mut place = |span: Span| -> Result<()> {
        let mut at = span.offset;
        while at < span.end() {
            cx.cancel.check()?;
            let len = (transfer.block as u64).min(span.end() - at);
            let padded = usize::try_from(len.next_multiple_of(block)).unwrap_or(transfer.block);
            let piece = &mut buf[..padded];
            piece.fill(0);
            fill(image, at, &mut piece[..usize::try_from(len).unwrap_or(padded)])?;
            meter
                .observe(device.sends(at, piece), || full::write_full(device, at, piece))
                .map_err(|e| cx.io_failed(device, Phase::Update, e, at, len))?;
            at += len;
        }
        Ok(())
    };
    let done = crate::meter::while_ticking(&meter, || {
        let (first, rest) = parted(device, bad);
        for group in [rest, first] {
            for span in &group {
                place(*span)?;
            }
            device.flush().map_err(|e| cx.flush_failed(device, e))?;
        }
        Ok(())
    });
    meter.finish();
    done
}

/// The image was read in full before; that it ends early now is an error.
fn fill(image: &dyn ReadAt, offset: u64, buf: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match image.read_at(offset + done as u64, &mut buf[done..]) {
            Ok(0) => {
                return Err(Error::refused(format!(
                    "the image ends at byte {}, earlier than when it was read first",
                    offset + done as u64
                )));
            }
            Ok(n) => done += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("reading the image again failed", e).at(offset, 0)),
        }
    }
    Ok(())
}
