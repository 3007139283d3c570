//! `verify`: the medium against an image, a digest or an earlier record. Opens read-only, but for
//! `--repair`, which is approved as a write is.

use std::cell::OnceCell;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::args::{Gate, Verify};
use super::call::Call;
use super::claim::{Claim, Claimed};
use super::medium;
use super::open::{Opened, Target, Wish, inspect_medium, locate, resolve, transfer, usual_block};
use super::outputs::Outputs;
use super::session::Session;
use super::source::{Image, Wanted};
use super::usage;
use super::windows;
use crate::cancel::CancelToken;
use crate::device::BlockDevice;
use crate::device::facts::User;
use crate::device::look::Look;
use crate::device::mask::{Mask, Masked};
use crate::device::policy::Purpose;
use crate::digest::Digest;
use crate::digest::ranges::Mapped;
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{BlockMap, Event, Span, Verdict};
use crate::flow::flash::mismatch;
use crate::flow::repair::{Repaired, repair};
use crate::flow::verify::{Expected, is_whole, maybe_a_part, verify};
use crate::image::{Advice, ImageInfo};
use crate::report::RunRecord;
use crate::report::record::{Settings, SourceFacts};
use crate::text::printable_path;
use crate::units::Bytes;

/// What to compare with, as it was resolved.
enum Truth {
    Image(Box<Image>, Box<ImageInfo>),
    Record(Box<RunRecord>),
    Digest(u64),
}

pub(super) fn run(args: &Verify, call: &Call) -> Result<ExitCode> {
    let Gate { yes, unmount, force } = args.gate;
    if !args.repair && (yes || unmount || force) {
        return Err(usage("--yes, --unmount and --force are for --repair: verify writes nothing"));
    }
    outputs(args).check()?;
    let truth = truth(args, &call.cancel)?;
    let purpose = if args.repair { Purpose::Write } else { Purpose::ReadOnly };
    let (image_size, source) = match &truth {
        Truth::Image(image, _) if args.repair => (image.source().at_least(), image.at()),
        _ => (None, None),
    };
    let wish = Wish { purpose, gate: &args.gate, image_size, source, measures: false };
    let target = resolve(&args.target, &wish)?;
    let mut claim = Claim { unmount, ..Claim::new(&wish, call) };
    if args.repair {
        can_repair(&truth)?;
        claim.question = Some(question(&target));
    }
    let Claimed { target, opened, .. } = claim.of(target)?;
    work(args, &truth, (&target, &opened), call)
}

/// What the run makes.
fn outputs(args: &Verify) -> Outputs {
    let outputs = Outputs::of(&args.output.clone().into(), "--save-record")
        .reading("the record to compare with", &args.against)
        .target(&args.target, args.repair);
    match &args.source {
        Some(source) => outputs.reading_source(source, &args.origin, &args.network),
        None => outputs,
    }
}

/// Refuses what there is nothing to repair with.
fn can_repair(truth: &Truth) -> Result<()> {
    let Truth::Image(image, info) = truth else {
        return Err(usage("--repair needs the image itself"));
    };
    if info.advice() == Advice::Compose {
        return Err(Error::refused("the stick of a Windows ISO holds its files, not the ISO").hint(
            "mediawriter flash WIN.iso TARGET --changed-only makes it again, and writes only what differs",
        ));
    }
    if image.source().positional().is_none() {
        return Err(Error::refused(format!(
            "{} can only be read from its start to its end",
            image.source().info().name
        ))
        .hint(
            "mediawriter flash SOURCE TARGET --changed-only writes what differs of such an image",
        ));
    }
    Ok(())
}

fn question(target: &Target) -> String {
    let what = medium::in_words(target);
    format!("{what}It is compared with the image, and overwritten where it differs.\n")
}

fn truth(args: &Verify, cancel: &CancelToken) -> Result<Truth> {
    if let Some(path) = &args.against {
        let bytes = fs::read(path)
            .context(|| format!("cannot read the record {}", printable_path(path)))?;
        let record = RunRecord::parse(&bytes)?;
        if record.chunk_map.is_none() {
            return Err(no_map(path));
        }
        return Ok(Truth::Record(Box::new(record)));
    }
    if let Some(source) = &args.source {
        let image = Image::open(
            &Wanted {
                word: source,
                origin: &args.origin,
                network: &args.network,
                keep: None,
                catalogue: &args.network.catalogue,
            },
            cancel,
        )?;
        let info = image.inspect()?;
        return Ok(Truth::Image(Box::new(image), Box::new(info)));
    }
    match (args.origin.sha256, args.size) {
        (Some(_), Some(size)) if size.0 > 0 => Ok(Truth::Digest(size.0)),
        (Some(_), _) => Err(usage("--sha256 without SOURCE needs --size: how many bytes to read")),
        _ => {
            Err(usage("nothing to compare with: give SOURCE, or --sha256 with --size, or --record")
                .hint("mediawriter verify /dev/sdX image.iso"))
        }
    }
}

fn no_map(path: &Path) -> Error {
    Error::usage(format!(
        "{} is the record of a run that did not complete a write",
        printable_path(path)
    ))
    .hint("use the record of a flash that ended well")
}

fn work(
    args: &Verify,
    truth: &Truth,
    (target, opened): (&Target, &Opened),
    call: &Call,
) -> Result<ExitCode> {
    let device = &*opened.device;
    let decoding = if let Truth::Image(image, _) = truth { image.source().memory() } else { 0 };
    let usual = usual_block(decoding);
    let transfer = transfer(&args.tuning, device.geometry(), target.is_simulated(), usual)?;
    let session = Session::start("verify", call, &opened.clock, target.name())?;
    medium::describe(&session, target, device);
    session.edit(|record| {
        record.source = Some(describe(truth, args));
        record.settings = Some(Settings {
            block_size: transfer.block as u64,
            queue_depth: u32::try_from(transfer.queue_depth).unwrap_or(u32::MAX),
            direct: device.geometry().direct,
            discard: "none".to_owned(),
        });
    });
    if let Truth::Image(image, _) = truth {
        image.attend(&session.cx);
    }
    warn_of_mounts(target, &session);
    if let Some(map) = block_map(truth).filter(|map| !map.name.is_empty()) {
        session.cx.events.emit(Event::BlockMap(map));
    }
    if let Truth::Image(image, _) = truth {
        image.notes().iter().for_each(|note| session.cx.events.tell(Notice::Origin(note.clone())));
    }
    let known = OnceCell::new();
    let find = |span: Span| {
        let info = known.get_or_init(|| match truth {
            Truth::Image(_, info) => Some((**info).clone()),
            Truth::Record(_) | Truth::Digest(_) => inspect_medium(&Look(device)),
        });
        info.as_ref().map(|info| locate(info, span)).unwrap_or_default()
    };
    let mask = mask(truth)?;
    let masked = mask.as_ref().map(|mask| Masked::new(device, mask));
    let compared: &dyn BlockDevice = masked.as_ref().map_or(device, |masked| masked);
    let windows = match truth {
        Truth::Image(image, info) if info.advice() == Advice::Compose => Some(image),
        _ => None,
    };
    let done = match (windows, truth) {
        (Some(image), _) => windows::verify(image, device, &session.cx).map(only_compared),
        (None, Truth::Image(image, _)) if args.repair => {
            let image = (image.source(), image.published());
            let done = repair(compared, image, &find, &transfer, &session.cx);
            medium::reread_partition_table(device, &session);
            done
        }
        (None, _) => expected(truth, args)
            .and_then(|expected| verify(compared, &expected, &find, &transfer, &session.cx))
            .map(only_compared),
    };
    let done = done.and_then(|done| match done {
        Repaired { verdict: Verdict::Matched { bytes }, written: written @ 1.. } => {
            let (amount, every) = match block_map(truth) {
                Some(map) => (map.share(), "every mapped byte"),
                None => (Bytes(bytes).to_string(), "every byte"),
            };
            Ok(format!("{} repaired; {amount} read back: {every} matches", Bytes(written)))
        }
        Repaired { verdict, .. } => judge(verdict, truth, &session.cx.target),
    });
    Ok(session.end(&done))
}

fn only_compared(verdict: Verdict) -> Repaired {
    Repaired { verdict, written: 0 }
}

fn describe(truth: &Truth, args: &Verify) -> SourceFacts {
    let sha256 = args.origin.sha256.map(|digest| digest.to_string());
    match truth {
        Truth::Image(image, _) => image.facts(),
        Truth::Record(record) => {
            let kind = "record".to_owned();
            record
                .source
                .clone()
                .map_or_else(SourceFacts::default, |source| SourceFacts { kind, ..source })
        }
        Truth::Digest(size) => SourceFacts {
            name: "a digest".to_owned(),
            kind: "digest".to_owned(),
            size: Some(*size),
            sha256_expected: sha256,
            ..SourceFacts::default()
        },
    }
}

fn expected<'a>(truth: &'a Truth, args: &Verify) -> Result<Expected<'a>> {
    match truth {
        Truth::Image(image, _) => Ok(Expected::Image(image.source(), image.published())),
        Truth::Digest(size) => match args.origin.sha256 {
            Some(Digest::Sha256(digest)) => Ok(Expected::Digest(digest, *size)),
            Some(Digest::Sha512(_)) => {
                Err(usage("the target's bytes are compared by SHA-256; this is a SHA-512"))
            }
            None => Err(usage("--sha256 is missing")),
        },
        Truth::Record(record) => {
            let broken = |why: String| Error::usage(format!("the record cannot be used: {why}"));
            let map = record
                .chunk_map
                .as_ref()
                .ok_or_else(|| broken("it has no chunk map".to_owned()))?;
            let source = record.source.as_ref();
            let of_ranges = source.and_then(|source| source.mapped_sha256.as_deref());
            let digest = of_ranges.or_else(|| source.and_then(|s| s.sha256_actual.as_deref()));
            let digest = digest.ok_or_else(|| broken("it has no SHA-256".to_owned()))?;
            let digest = digest.parse().map_err(broken)?;
            let mapped = |span: &Span| Mapped { bytes: span.offset..span.end(), digest: None };
            let mapped = of_ranges.map(|_| record.mapped.iter().map(mapped).collect());
            Ok(Expected::Map(map.to_map().map_err(broken)?, digest, mapped))
        }
    }
}

/// Which stretches are compared; `None`: all of them.
fn mask(truth: &Truth) -> Result<Option<Mask>> {
    let ranges = match truth {
        Truth::Image(image, _) => return Ok(image.mask().cloned()),
        Truth::Digest(_) => return Ok(None),
        Truth::Record(record) => record.mapped.iter().map(|span| span.offset..span.end()),
    };
    if ranges.len() == 0 {
        return Ok(None);
    }
    let broken = |why: String| Error::usage(format!("the record cannot be used: {why}"));
    Mask::new(ranges).map(Some).map_err(broken)
}

fn warn_of_mounts(target: &Target, session: &Session) {
    let facts = target.facts();
    let mounts = facts.uses.iter().filter_map(|used| match &used.by {
        User::Mount { at } => Some(printable_path(at)),
        _ => None,
    });
    let mounts: Vec<String> = mounts.collect();
    if !mounts.is_empty() {
        session.cx.events.tell(Notice::Mounted { places: mounts.join(", ") });
    }
}

/// The block map by which it is compared. Of a record that has ranges and no map, what they come to.
fn block_map(truth: &Truth) -> Option<BlockMap> {
    match truth {
        Truth::Image(image, _) => image.map().cloned(),
        Truth::Record(record) if record.block_map.is_none() && !record.mapped.is_empty() => {
            let image_size = record.source.as_ref().and_then(|source| source.size).unwrap_or(0);
            let mapped = record.mapped.iter().map(|span| span.len).sum();
            Some(BlockMap { image_size: image_size.max(mapped), mapped, ..BlockMap::default() })
        }
        Truth::Record(record) => record.block_map.clone(),
        Truth::Digest(_) => None,
    }
}

fn judge(verdict: Verdict, truth: &Truth, target: &str) -> Result<String> {
    match verdict {
        Verdict::Matched { bytes } => match truth {
            Truth::Image(image, _) if !is_whole(image.source(), image.published()) => {
                Err(maybe_a_part(image.source(), bytes, target))
            }
            _ => Ok(match block_map(truth) {
                Some(map) => format!("{} read back: every mapped byte matches", map.share()),
                None => format!("{} read back: every byte matches", Bytes(bytes)),
            }),
        },
        Verdict::Mismatched { bad_bytes, ranges, findings } => {
            Err(mismatch(bad_bytes, ranges, &findings, target))
        }
        Verdict::NotChecked { reason } => {
            Err(Error::new(Kind::Unverified, format!("not verified: {reason}")))
        }
    }
}
