//! `flash`: settle, clear, discard, write, flush, release, verify; each a phase with its own time.
//! On any failure or signal the medium is made unbootable again.

use std::sync::Arc;
use std::time::Duration;

use super::changed::{self, Changed};
use super::damage::{CHANGED_AFTER, Locate, Truth, judge};
use super::guard::{self, Ends};
use super::readback::{Wanted, read_back};
use super::verify::{check_source, with_digest};
use super::write::{self, Written};

use super::{Context, Transfer, discard, zeros};
use crate::device::mask::{Mask, Masked};
use crate::device::sparse::Sparse;
use crate::device::{BlockDevice, Discard};
use crate::digest::chunks::StoredMap;
use crate::digest::ranges::{self, ImageDigest};
use crate::error::{Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{Event, Phase, Span, Verdict};
use crate::source::{Published, Source};
use crate::units::MIB;

/// Whether blocks are given back before the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardMode {
    /// Where the device can; a failure is a warning. Given up after this time.
    Auto(Duration),
    /// Or the flash does not begin.
    Always,
    /// Not at all.
    Never,
}

/// What to do; decided, not typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How bytes are moved.
    pub transfer: Transfer,
    /// What the source should be.
    pub published: Published,
    /// Whether everything is read back.
    pub verify: bool,
    /// Whether blocks are given back first.
    pub discard: DiscardMode,
    /// Which stretches belong to the image; `None`: all of it.
    pub mask: Option<Mask>,
    /// Whether runs of zeros are left to the device, where it is proven that they are zeros then.
    pub sparse: bool,
    /// Whether the medium is read first, and written only where it differs.
    pub changed_only: bool,
}

/// The image is on the medium.
#[derive(Clone, Debug)]
pub struct Flashed {
    /// Length of the image in bytes.
    pub bytes: u64,
    /// What it came to.
    pub digest: ImageDigest,
    /// Its map, small enough for a record.
    pub map: StoredMap,
    /// What the read-back found.
    pub media: Verdict,
    /// Bytes that were written, where the rest was there already.
    pub changed: Option<u64>,
}

/// Writes an image and proves it. After `Err` the medium is unbootable, or the events say why it
/// may not be.
pub fn flash(
    source: &dyn Source,
    device: &dyn BlockDevice,
    plan: &Plan,
    locate: Locate<'_>,
    cx: &Context,
) -> Result<Flashed> {
    cx.cancel.check()?;
    cx.still_the_same(device)?;
    require_discard(device, plan, cx)?;
    steps(source, device, plan, locate, cx).inspect_err(|_| guard::make_unbootable(device, cx))
}

/// `--discard always` on a device without discard ends the run before anything is written.
fn require_discard(device: &dyn BlockDevice, plan: &Plan, cx: &Context) -> Result<()> {
    if plan.discard == DiscardMode::Always && device.geometry().discard_granularity == 0 {
        return Err(Error::refused(format!(
            "{} offers no discard, and --discard always asks for it",
            cx.target
        ))
        .hint("mediawriter discard TARGET explains why; --discard auto goes on without"));
    }
    Ok(())
}

fn steps(
    source: &dyn Source,
    device: &dyn BlockDevice,
    plan: &Plan,
    locate: Locate<'_>,
    cx: &Context,
) -> Result<Flashed> {
    settle(device, cx)?;
    guard::clear(device, cx)?;
    let discarded = give_back(device, plan, cx)?;
    let zeros = if plan.sparse { zeros::prove(device, discarded, cx)? } else { None };
    let slept = cx.clock.slept();
    let (raw, masked) = (device, plan.mask.as_ref().map(|mask| Masked::new(device, mask)));
    let device: &dyn BlockDevice = masked.as_ref().map_or(raw, |masked| masked);
    let sparse = zeros.map(|zeros| Sparse::new(device, zeros));
    let changed =
        plan.changed_only.then(|| Changed::new(device, plan.verify, Arc::clone(&cx.clock)));
    let counted = device.kernel_counters().map(|counters| counters.0);
    let (phase, out): (Phase, &dyn BlockDevice) = match (&changed, &sparse) {
        (Some(changed), _) => (Phase::Update, changed),
        (None, Some(sparse)) => (Phase::Write, sparse),
        (None, None) => (Phase::Write, device),
    };
    let whole = plan.published.image.is_some();
    let Written { digest, map, prefixes, held } =
        write::write(source, whole, out, (phase, &plan.transfer), cx)?;
    if let Some(sparse) = &sparse {
        cx.events.tell(Notice::ZerosNotSent { bytes: sparse.skipped() });
    }
    if map.is_empty() {
        return Err(Error::refused(format!("the image {} is empty", source.info().name)));
    }
    check_source(source, &plan.published, digest, map.len(), cx)?;
    cx.timed(Phase::Flush, |_| device.flush().map_err(|e| cx.flush_failed(device, e)))?;
    after_sleep(device, slept, cx)?;
    cx.cancel.check()?;
    let end: &dyn BlockDevice = changed.as_ref().map_or(device, |changed| changed);
    write::release(end, &held, cx)?;
    // The verification makes buffers of its own.
    drop(held);
    if let Some(changed) = &changed {
        changed::tell(changed, cx);
    }
    let bytes = map.len();
    let proven = match &changed {
        Some(changed) if plan.verify => {
            cx.still_the_same(device)?;
            let mapped = source.mapped().map_or(bytes, |ranges| ranges::mapped(&ranges));
            changed::read_back(device, changed, (mapped, counted), cx)?
        }
        _ => None,
    };
    let media = if let Some(proven) = proven {
        proven
    } else if plan.verify {
        cx.still_the_same(device)?;
        let wanted = Wanted {
            len: bytes,
            map: Some(&map),
            mapped: source.mapped(),
            prefixes: prefixes.as_deref(),
        };
        let seen = read_back(device, wanted, &plan.transfer, cx)?;
        let image = source.positional();
        let truth = Truth { map: &map, image: image.as_deref(), written: true };
        with_digest(digest.proof, &seen, judge(truth, &seen, device, locate, cx))
    } else {
        Verdict::NotChecked { reason: "--no-verify was given".to_owned() }
    };
    cx.events.emit(Event::MediaVerdict(media.clone()));
    if let Verdict::Mismatched { bad_bytes, ranges, findings } = &media {
        return Err(mismatch(*bad_bytes, *ranges, findings, &cx.target));
    }
    let changed = changed.map(|changed| changed.totals().written);
    Ok(Flashed { bytes, digest, map: StoredMap::from_map(&map), media, changed })
}

/// The error of a medium that does not hold what it should.
pub fn mismatch(bad_bytes: u64, ranges: u64, findings: &[String], target: &str) -> Error {
    let hint = if findings.iter().any(|finding| finding.starts_with(CHANGED_AFTER)) {
        "write it again if it has to equal the image, and mount it read-only"
    } else {
        "try another port and cable once; if it differs again, do not trust this stick"
    };
    let amount = match ranges {
        // A digest says whether, not where or how much.
        0 => "its digest differs".to_owned(),
        1 => format!("{bad_bytes} bytes differ in 1 range"),
        _ => format!("{bad_bytes} bytes differ in {ranges} ranges"),
    };
    Error::new(
        Kind::MediaMismatch,
        format!("{target} does not hold the image: {amount}; {}", findings.join("; ")),
    )
    .hint(hint)
}

/// Dirty pages that somebody else left behind are written out first, or their time would count
/// as ours.
fn settle(device: &dyn BlockDevice, cx: &Context) -> Result<()> {
    let start = cx.clock.now();
    cx.timed(Phase::Settle, |_| {
        device.flush().map_err(|e| cx.flush_failed(device, e))?;
        // Only the page cache of earlier users; the write itself goes around it.
        device.invalidate_cache().map_err(|e| cx.flush_failed(device, e))
    })?;
    let took = cx.clock.now().saturating_sub(start);
    if took > Duration::from_millis(500) {
        cx.events.tell(Notice::Settled { took, target: cx.target.clone() });
    }
    Ok(())
}

/// Everything between the guarded ends; those were overwritten with zeros, and a discard promises
/// nothing about what reads return.
///
/// What was discarded.
fn give_back(device: &dyn BlockDevice, plan: &Plan, cx: &Context) -> Result<Option<Span>> {
    let geometry = device.geometry();
    let budget = match plan.discard {
        DiscardMode::Never => return Ok(None),
        DiscardMode::Auto(_) if geometry.discard_granularity == 0 => {
            cx.events.tell(Notice::DiscardUnsupported { target: cx.target.clone() });
            return Ok(None);
        }
        DiscardMode::Auto(budget) => Some(budget),
        DiscardMode::Always => None,
    };
    if geometry.size < 4 * MIB {
        return Ok(None);
    }
    let ends = Ends::of(geometry.size);
    let range = Span { offset: ends.head.end(), len: ends.tail.offset - ends.head.end() };
    let wanted = discard::Plan { range, how: Discard::Trim, budget };
    match discard::discard(device, &wanted, cx) {
        Ok(discarded) => Ok(Some(discarded.done)),
        Err(error) if plan.discard == DiscardMode::Always => Err(error),
        Err(error) if matches!(error.kind(), Kind::Cancelled(_)) || !device.present() => Err(error),
        Err(error) => {
            cx.events.tell(Notice::DiscardFailed { why: error.message() });
            Ok(None)
        }
    }
}

/// A host that slept may have lost the device or got another one under its name.
fn after_sleep(device: &dyn BlockDevice, slept_before: Duration, cx: &Context) -> Result<()> {
    let slept = cx.clock.slept().saturating_sub(slept_before);
    if slept > Duration::from_secs(1) {
        cx.events.tell(Notice::SleptWriting { slept });
        cx.still_the_same(device)?;
    }
    Ok(())
}
