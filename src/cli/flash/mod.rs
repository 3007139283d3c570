//! `flash`: look at the source, look at the targets, ask, write, prove.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use super::args::{DiscardWhen, Flash, Output};
use super::call::Call;
use super::open::{Target, Wish, fits, resolve, usual_block};
use super::outputs::Outputs;
use super::remote::with_suffix;
use super::source::{Image, Wanted};
use super::usage;
use super::windows::{self, Media};
use crate::cancel::CancelToken;
use crate::device::policy::Purpose;
use crate::device::probe::System;
use crate::device::target::{Kind, check_path};
use crate::error::{Error, Result};
use crate::host::invoker::{CreateMode, Invoker};
use crate::image::{Advice, BootVerdict, Codec, ImageInfo, ImageKind, Note};
use crate::text::printable_path;
use crate::ui;
use crate::units::Bytes;
use crate::windows::table::Device;

mod job;
mod many;
mod station;

use job::Job;
pub(super) use job::{plan_word, spans};

pub(super) fn run(args: &Flash, call: &Call) -> Result<ExitCode> {
    check(args)?;
    outputs(args, None).check()?;
    if args.fleet.station {
        station::run(args, call)
    } else if args.targets.len() > 1 || args.fleet.all_matching.is_some() {
        many::run(args, call)
    } else {
        alone(args, call)
    }
}

/// One target.
fn alone(args: &Flash, call: &Call) -> Result<ExitCode> {
    let image = open(args, &call.cancel)?;
    let word = args.targets.first().cloned().unwrap_or_default();
    let usual = usual_block(image.source().memory());
    let job = Job::new(args, image, &word, usual, &call.cancel)?;
    if args.dry_run {
        ui::print(&format!("{}\nDry run: nothing was written.\n", job.question()));
        return Ok(ExitCode::SUCCESS);
    }
    // A file that was made for this run holds nothing.
    let question = args.create.is_none().then(|| job.question());
    let (job, opened) = job.claimed(question, call)?;
    job.run(&opened, call)
}

/// What the command line says of itself.
fn check(args: &Flash) -> Result<()> {
    let several = args.targets.len() > 1 || args.fleet.all_matching.is_some();
    if args.targets.is_empty() && !several {
        return Err(usage("no TARGET was given, and none is ever chosen for you").hint(
            "`mediawriter devices` lists the sticks; then: mediawriter flash SOURCE /dev/sdX",
        ));
    }
    if args.changed_only && args.discard == DiscardWhen::Always {
        return Err(usage(
            "--changed-only keeps what is on the medium, --discard always gives it away",
        )
        .hint("leave one of them out"));
    }
    if several && args.create.is_some() {
        return Err(usage("--create makes one file, and several targets are named")
            .hint("make the files first, e.g. truncate -s 8G FILE, and name them"));
    }
    Ok(())
}

/// What the run makes; `target`: of one of several, with files of its own.
fn outputs(args: &Flash, target: Option<(&OsStr, &Output)>) -> Outputs {
    let several = args.targets.len() > 1 || args.fleet.all_matching.is_some();
    let none = Output { json: false, ..Output::default() };
    let output = match target {
        Some((_, own)) => own,
        // Each has files of its own, which are known when it is.
        None if several => &none,
        None => &args.output,
    };
    let keep = args.keep.keep.as_deref();
    let part = keep.map(|keep| with_suffix(keep, ".part"));
    let windows = &args.windows;
    let mut outputs = Outputs::of(output, "--record")
        .whole("--keep", keep)
        .whole("--keep", part.as_deref())
        .reading_source(&args.source, &args.origin, &args.network)
        .reading(
            "what is put onto the stick",
            [&windows.add, &windows.drivers, &windows.unattend].into_iter().flatten(),
        )
        .reading("what boots the stick", &windows.uefi_ntfs);
    if args.create.is_some() {
        let new = args.targets.first().map(Path::new);
        return outputs.whole("--create", new);
    }
    for word in &args.targets {
        outputs = outputs.target(word, true);
    }
    match target {
        Some((word, _)) => outputs.target(word, true),
        None => outputs,
    }
}

/// Opens the source.
fn open(args: &Flash, cancel: &CancelToken) -> Result<Image> {
    let wanted = Wanted {
        word: &args.source,
        origin: &args.origin,
        network: &args.network,
        keep: args.keep.keep.as_deref(),
        catalogue: &args.network.catalogue,
    };
    Image::open(&wanted, cancel)
}

/// Of a Windows ISO, the image that its files make on this target; any other source as it is.
fn composed(
    args: &Flash,
    (image, info): (Image, ImageInfo),
    word: &OsStr,
    cancel: &CancelToken,
) -> Result<(Image, ImageInfo, Option<Media>)> {
    if info.advice() != Advice::Compose {
        if windows::is_wanted(&args.windows) {
            return Err(usage(format!(
                "--table, --filesystem, --label, --split-size, --add, --drivers and --unattend are for Windows ISOs; {} is {}",
                image.source().info().name,
                info.kind
            )));
        }
        return Ok((image, info, None));
    }
    let device = if let Some(size) = args.create {
        Device { size: size.0, sector: 512 }
    } else {
        let wish = Wish { image_size: None, ..wish(args, &image) };
        let target = resolve(word, &wish)?;
        Device { size: target.facts().size, sector: target.sector() }
    };
    let label = info.label.clone();
    let (image, media) = windows::compose(image, &args.windows, device, label.as_deref(), cancel)?;
    let info = image.inspect()?;
    Ok((image, info, Some(media)))
}

fn wish<'a>(args: &'a Flash, image: &Image) -> Wish<'a> {
    Wish {
        purpose: Purpose::Write,
        gate: &args.gate,
        image_size: image.source().at_least(),
        source: image.at(),
        measures: false,
    }
}

/// Refuses what is no image; returns what else is to be told.
fn judge_image(info: &ImageInfo, image: &Image) -> Result<Vec<String>> {
    let name = &match image.packed() {
        "" => image.source().info().name.clone(),
        packed => format!("what is in {} ({packed})", image.source().info().name),
    };
    // That only the head of a pipe can be looked at is in the nature of a pipe.
    let told = info.notes.iter().filter(|note| **note != Note::OnlyHead);
    let mut warnings: Vec<String> = told.map(ToString::to_string).collect();
    match info.advice() {
        Advice::Refuse => Err(refusal(info, name, &warnings)),
        Advice::Decode if !image.packed().is_empty() => {
            Err(Error::refused(format!("{name} is {}: it is packed twice", info.kind))
                .hint("unpack it once, and flash the file that comes out"))
        }
        Advice::Decode => Err(Error::refused(format!("{name} is {}: it must be unpacked first", info.kind))
            .hint(unpacking(info, name))),
        Advice::Compose => Err(Error::refused(format!(
            "{name} is a Windows install ISO within another image: copied raw it does not boot from a stick"
        ))
        .hint("flash the ISO itself")),
        Advice::Write | Advice::Confirm => {
            let no = |verdict: &BootVerdict| matches!(verdict, BootVerdict::No(_));
            if no(&info.boot.bios) && no(&info.boot.uefi) && !info.boot.raspberry_pi {
                warnings.push(format!("will probably not boot: BIOS {}; UEFI {}", info.boot.bios, info.boot.uefi));
            }
            Ok(warnings)
        }
    }
}

/// The line that unpacks this format.
fn unpacking(info: &ImageInfo, name: &str) -> String {
    match info.kind {
        ImageKind::Compressed(Codec::Compress) => {
            format!("gzip -dc {name} | mediawriter flash - TARGET")
        }
        _ => "unpack it, and flash the image that is in it".to_owned(),
    }
}

fn refusal(info: &ImageInfo, name: &str, notes: &[String]) -> Error {
    let hint = match notes.first() {
        Some(note) => note.clone(),
        None => "name the image itself, not what accompanies it".to_owned(),
    };
    Error::refused(format!("{name} is {}, not a disk image", info.kind)).hint(hint)
}

/// Makes a new sparse file, owned by the person who called; a dry run only looks whether it could.
fn new_file(path: &Path, size: Bytes, wish: &Wish<'_>, dry_run: bool) -> Result<Target> {
    let name = printable_path(path);
    if path.starts_with("/dev") {
        return Err(Error::refused(format!("{name}: no file is ever created below /dev")));
    }
    if size.0 == 0 || !size.0.is_multiple_of(512) {
        return Err(usage(format!(
            "--create {}: a stick's size is a multiple of 512 bytes",
            size.0
        )));
    }
    // Also finds out when the folder is a way into /dev.
    if check_path(&System::host(), path)? != Kind::Missing {
        return Err(Error::refused(format!("{name} exists; --create makes a new file"))
            .hint("leave --create out to overwrite it, or choose another name"));
    }
    fits(wish.image_size, size.0, &name)?;
    if !dry_run {
        let file = Invoker::current().create(path, CreateMode::NewOnly)?;
        file.set_len(size.0)
            .map_err(|e| Error::io(format!("cannot make {name} {size} long"), e))?;
    }
    Ok(Target::File(path.canonicalize().unwrap_or_else(|_| path.to_owned())))
}
