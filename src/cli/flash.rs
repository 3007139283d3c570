//! `flash`: look at the source, look at the target, ask, write, prove.

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::args::{DiscardWhen, Flash, SparseWhen};
use super::labels;
use super::open::{Opened, Target, Wish, ask, fits, inspect_medium, locate, resolve, transfer};
use super::probe::genuine;
use super::session::{Session, never_began};
use super::source::{Image, Wanted};
use super::usage;
use super::windows::{self, Media};
use crate::cancel::CancelToken;
use crate::device::BlockDevice;
use crate::device::facts::Facts;
use crate::device::look::Look;
use crate::device::policy::Purpose;
use crate::device::power;
use crate::device::probe::System;
use crate::device::target::{Kind, check_path};
use crate::digest::ranges::{self, Mapped};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::event::{Span, Verdict};
use crate::flow::flash::{DiscardMode, Flashed, Plan, flash};
use crate::host::invoker::{CreateMode, Invoker};
use crate::image::{
    Advice, BootVerdict, Codec, Degree, ImageInfo, ImageKind, Note, sector_size_conflict,
};
use crate::report::record::Settings;
use crate::text::printable_path;
use crate::ui;
use crate::ui::devices::{Verdict as DeviceVerdict, detail, link_warning};
use crate::units::Bytes;
use crate::windows::table::Device;

/// Everything is decided; only the person has not answered yet.
struct Job {
    args: Flash,
    image: Image,
    info: ImageInfo,
    target: Target,
    warnings: Vec<String>,
    /// The files that the image is composed of, where SOURCE is a Windows ISO.
    windows: Option<Media>,
}

pub(super) fn run(args: Flash, words: &[OsString], cancel: CancelToken) -> Result<ExitCode> {
    let output = args.output.clone();
    match prepare(args, &cancel) {
        Ok(job) if job.args.dry_run => {
            ui::print(&format!("{}\nDry run: nothing was written.\n", job.question()));
            Ok(ExitCode::SUCCESS)
        }
        Ok(job) => match job.approved(words, &cancel) {
            Ok((job, opened)) => job.run(&opened, words, cancel),
            Err(error) => never_began(words, &output, error),
        },
        Err(error) => never_began(words, &output, error),
    }
}

fn prepare(args: Flash, cancel: &CancelToken) -> Result<Job> {
    let Some(word) = args.target.clone() else {
        return Err(usage("no TARGET was given, and none is ever chosen for you").hint(
            "`mediawriter devices` lists the sticks; then: mediawriter flash SOURCE /dev/sdX",
        ));
    };
    if args.changed_only && args.discard == DiscardWhen::Always {
        return Err(usage(
            "--changed-only keeps what is on the medium, --discard always gives it away",
        )
        .hint("leave one of them out"));
    }
    let wanted = Wanted {
        word: &args.source,
        origin: &args.origin,
        network: &args.network,
        keep: args.keep.keep.as_deref(),
        catalogue: &args.network.catalogue,
    };
    let image = Image::open(&wanted, cancel)?;
    let info = image.inspect()?;
    let (image, info, windows) = composed(&args, (image, info), &word, cancel)?;
    let mut warnings = judge_image(&info, &image)?;
    let wish = wish(&args, &image);
    let target = match args.create {
        Some(size) => new_file(Path::new(&word), size, &wish, args.dry_run)?,
        None => resolve(&word, &wish)?,
    };
    if let Some(conflict) = sector_size_conflict(&info, target.sector()) {
        if conflict.degree == Degree::Conflict && !args.gate.force {
            return Err(Error::refused(format!("sector-size: {}", conflict.text)).hint(
                "use a medium with the image's sector size; --force writes it all the same",
            ));
        }
        warnings.push(conflict.text);
    }
    warnings.extend(link_warning(&target.facts()));
    Ok(Job { args, image, info, target, warnings, windows })
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

impl Job {
    /// What would happen, for the person who has to say yes.
    fn question(&self) -> String {
        let mut text = String::new();
        let facts = self.target.facts();
        let source = self.image.source().info();
        let size = match (source.len, self.image.source().at_least()) {
            (Some(len), _) => Bytes(len).to_string(),
            (None, Some(least)) if least > 1 << 20 => format!("at least {}", Bytes(least)),
            (None, _) => "unknown size".to_owned(),
        };
        let size = match self.image.packed() {
            "" => size,
            packed => format!("{size}, unpacked from {packed}"),
        };
        let label =
            self.info.label.as_ref().map_or_else(String::new, |label| format!(" \"{label}\""));
        // A String takes every write.
        writeln!(text, "Source   {}\n         {}{label}, {size}", source.name, self.info.kind).ok();
        let boot = &self.info.boot;
        writeln!(text, "         boots: BIOS {}; UEFI {}", boot.bios, boot.uefi).ok();
        let media = self.windows.iter().flat_map(|media| &media.words);
        for (line, label) in media.zip(std::iter::once("Windows").chain(std::iter::repeat(""))) {
            writeln!(text, "{label:<9}{line}").ok();
        }
        match &self.target {
            Target::Block(_) => {
                let mut facts = facts.clone();
                labels::fill(&mut facts);
                writeln!(text, "Target   everything on it will be lost:").ok();
                let shown = detail(&facts, &DeviceVerdict::of(&facts));
                text.extend(shown.lines().map(|line| format!("         {line}\n")));
            }
            Target::File(path) => {
                let (size, fate) = match self.args.create {
                    Some(size) => (size, "a new file of"),
                    None => (Bytes(facts.size), "its contents will be lost; a file of"),
                };
                writeln!(text, "Target   {} ({fate} {size})", printable_path(path)).ok();
            }
            Target::Sim(spec) => {
                writeln!(text, "Target   a simulated stick of {}", Bytes(spec.size)).ok();
            }
        }
        writeln!(text, "Plan     {}", self.plan_in_words()).ok();
        for warning in &self.warnings {
            writeln!(text, "Warning  {warning}").ok();
        }
        text
    }

    fn plan_in_words(&self) -> String {
        let args = &self.args;
        let mut steps = Vec::new();
        if args.gate.unmount {
            steps.push("unmount");
        }
        if args.probe {
            steps.push("probe the capacity");
        }
        steps.push(match self.discard() {
            DiscardMode::Auto(_) => "discard if the device can",
            DiscardMode::Always => "discard",
            DiscardMode::Never => "no discard",
        });
        steps.push(if args.changed_only {
            "read, write what differs, flush, release the first chunk"
        } else {
            "write, flush, release the first chunk"
        });
        steps.push(match (args.no_verify, args.changed_only) {
            (true, _) => "no verification",
            (false, true) => "read back what was written",
            (false, false) => "read everything back",
        });
        if args.eject {
            steps.push("eject");
        }
        let block =
            args.tuning.block_size.map_or_else(|| "4.00 MiB or less".to_owned(), Bytes::binary);
        format!("{}; blocks of {block}", steps.join(", "))
    }

    /// A discard would give away what is to be kept.
    fn discard(&self) -> DiscardMode {
        match self.args.discard {
            _ if self.args.changed_only => DiscardMode::Never,
            DiscardWhen::Auto => DiscardMode::Auto(self.args.discard_timeout),
            DiscardWhen::Always => DiscardMode::Always,
            DiscardWhen::Never => DiscardMode::Never,
        }
    }

    /// Asks, unmounts, judges again, opens.
    fn approved(mut self, words: &[OsString], cancel: &CancelToken) -> Result<(Self, Opened)> {
        let piped = self.image.is_stdin();
        // A file that was made for this run holds nothing.
        if self.args.create.is_none() {
            ask(&self.question(), &self.target, &self.args.gate, piped, cancel)?;
        }
        let wish = wish(&self.args, &self.image);
        let (target, unmounted) = self.target.freed(&wish, self.args.gate.unmount)?;
        let unmounted = unmounted.iter().map(|at| format!("unmounted {}", printable_path(at)));
        self.warnings.extend(unmounted);
        let opened = target.open(Purpose::Write, words)?;
        self.target = target;
        Ok((self, opened))
    }

    fn run(mut self, opened: &Opened, words: &[OsString], cancel: CancelToken) -> Result<ExitCode> {
        let device = &*opened.device;
        let transfer = transfer(
            &self.args.tuning,
            device.geometry(),
            self.target.is_simulated(),
            self.image.source().memory(),
        )?;
        let session = Session::start(
            "flash",
            words,
            self.args.output.clone(),
            opened.clock.clone(),
            (cancel, self.target.name()),
        )?;
        if let Some(media) = &self.windows {
            match windows::finished(self.image, media, &session.cx) {
                Ok(image) => self.image = image,
                Err(error) => return Ok(session.end(&Err(error))),
            }
        }
        let args = &self.args;
        let plan = Plan {
            transfer,
            published: self.image.published().clone(),
            verify: !args.no_verify,
            mask: self.image.mask().cloned(),
            sparse: args.sparse == SparseWhen::Auto,
            changed_only: args.changed_only,
            discard: self.discard(),
        };
        self.describe(&session, device, &plan);
        self.image.attend(&session.cx);
        let known = OnceCell::new();
        let find = |span: Span| {
            // A pipe is gone by then; what came of it is on the medium.
            let info = known.get_or_init(|| match self.image.source().positional() {
                Some(_) => Some(self.info.clone()),
                None => inspect_medium(&Look(device)),
            });
            info.as_ref().map(|info| locate(info, span)).unwrap_or_default()
        };
        // What is not as large as it says is not worth an image.
        let probed =
            if args.probe { genuine(device, false, &session.cx).map(drop) } else { Ok(()) };
        let done =
            probed.and_then(|()| flash(self.image.source(), device, &plan, &find, &session.cx));
        see_partitions(device, &session);
        let done = done.and_then(|flashed| match &self.windows {
            Some(media) if flashed.media.is_match() => {
                windows::find_files(media, device, &session.cx).map(|()| flashed)
            }
            _ => Ok(flashed),
        });
        let done = done.and_then(|flashed| self.finish(flashed, device, &session));
        let done = self.keep(done, &session);
        Ok(session.end(&done))
    }

    /// What was stored on the way gets its name unless it is known to be wrong.
    fn keep(&self, done: Result<String>, session: &Session) -> Result<String> {
        let wrong = done.as_ref().is_err_and(|error| error.kind() == ErrorKind::SourceMismatch);
        match self.image.keep(!wrong) {
            Ok(None) => done,
            Ok(Some(file)) => {
                session.cx.events.note("kept", format!("stored as {}", printable_path(file)));
                done
            }
            // What went wrong with the stick is told first.
            Err(error) => done.and(Err(error)),
        }
    }

    fn describe(&self, session: &Session, device: &dyn BlockDevice, plan: &Plan) {
        session.edit(|record| {
            record.device = Some(self.target.facts());
            record.geometry = Some(device.geometry().clone());
            record.source = Some(self.image.facts());
            record.mapped =
                self.image.source().mapped().map(|ranges| spans(&ranges)).unwrap_or_default();
            record.settings = Some(Settings {
                block_size: plan.transfer.block as u64,
                queue_depth: u32::try_from(plan.transfer.queue_depth).unwrap_or(u32::MAX),
                direct: device.geometry().direct,
                discard: plan_word(plan.discard).to_owned(),
            });
        });
        if !device.geometry().direct {
            session.cx.events.warn(
                "no-direct-io",
                format!(
                    "{} refuses O_DIRECT: synchronous writes and dropped caches take its place",
                    self.target.name()
                ),
            );
        }
        let backup = self.info.table.as_ref().and_then(|table| table.backup_gpt);
        if let Some(at) = backup.filter(|at| at + 4096 < device.geometry().size) {
            session.cx.events.note(
                "backup-gpt-inside",
                format!(
                    "the image's backup partition table lies at {}, not at the end of this larger medium; \
                     kernels and tools may say so, it boots all the same",
                    Bytes(at)
                ),
            );
        }
        for word in self.windows.iter().flat_map(|media| &media.words) {
            session.cx.events.note("windows", word.clone());
        }
        for note in self.image.notes() {
            session.cx.events.note("origin", note.clone());
        }
        for warning in &self.warnings {
            session.cx.events.warn("before-write", warning.clone());
        }
    }

    /// After the write: the map goes into the record, the stick is ejected.
    fn finish(
        &self,
        flashed: Flashed,
        device: &dyn BlockDevice,
        session: &Session,
    ) -> Result<String> {
        let Flashed { bytes, digest: _, map, media, changed } = flashed;
        let mapped = self.image.source().mapped();
        let bytes = mapped.map_or(bytes, |ranges| ranges::mapped(&ranges));
        session.edit(|record| record.chunk_map = Some(map));
        if self.args.eject {
            eject(device, &self.target.facts(), session);
        }
        if let Verdict::NotChecked { reason } = &media {
            if !self.args.no_verify {
                return Err(Error::new(
                    crate::error::Kind::Unverified,
                    format!("written, but not verified: {reason}"),
                ));
            }
            return Ok(format!("{} written and flushed, not verified ({reason})", Bytes(bytes)));
        }
        if let Some(written) = changed {
            return Ok(format!(
                "{}, of which {} written, flushed and read back, the rest compared: every byte matches",
                Bytes(bytes),
                Bytes(written)
            ));
        }
        Ok(format!("{} written, flushed and read back: every byte matches", Bytes(bytes)))
    }
}

/// The mapped stretches, for the record.
pub(super) fn spans(ranges: &[Mapped]) -> Vec<Span> {
    let span = |range: &Range<u64>| Span { offset: range.start, len: range.end - range.start };
    ranges.iter().map(|range| span(&range.bytes)).collect()
}

pub(super) fn plan_word(discard: DiscardMode) -> &'static str {
    match discard {
        DiscardMode::Auto(_) => "auto",
        DiscardMode::Always => "always",
        DiscardMode::Never => "never",
    }
}

/// The kernel reads the partition table again, only now that nothing is left to be read back.
pub(super) fn see_partitions(device: &dyn BlockDevice, session: &Session) {
    let mut answer = device.reread_partitions();
    for _ in 0..10 {
        // A desktop that tries to mount the old partitions holds them for a moment.
        if !answer.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            break;
        }
        crossbeam_channel::after(Duration::from_millis(200)).recv().ok();
        answer = device.reread_partitions();
    }
    match answer {
        Ok(()) => {}
        // A loop device without partition scanning, a device that is gone: nothing to see.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENXIO | libc::ENODEV | libc::ENOTTY)) => {}
        Err(e) => session.cx.events.note(
            "partitions-not-reread",
            format!("the kernel did not read the new partition table ({e}); unplug the stick and plug it in again"),
        ),
    }
}

pub(super) fn eject(device: &dyn BlockDevice, facts: &Facts, session: &Session) {
    match power::take_off(device, facts) {
        Ok(what) => session.cx.events.note("ejected", what),
        Err(e) => session.cx.events.warn(
            "not-ejected",
            format!(
                "{} could not be ejected ({e}); everything is flushed, it can be pulled out",
                session.cx.target
            ),
        ),
    }
}
