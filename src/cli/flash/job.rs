//! One target of `flash`: what the person is shown, and what is done after the yes.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use super::{composed, judge_image, new_file, wish};
use crate::cancel::CancelToken;
use crate::cli::args::{DiscardWhen, Flash, SparseWhen};
use crate::cli::call::Call;
use crate::cli::claim::{Claim, Claimed};
use crate::cli::medium;
use crate::cli::open::{Opened, Target, inspect_medium, locate, resolve, transfer};
use crate::cli::probe::genuine;
use crate::cli::session::Session;
use crate::cli::source::{Image, Keeping};
use crate::cli::windows::{self, Media};
use crate::device::BlockDevice;
use crate::device::look::Look;
use crate::digest::ranges::{self, Mapped};
use crate::error::{Error, Kind as ErrorKind, Result};
use crate::event::notice::Notice;
use crate::event::{Event, Span, Verdict};
use crate::flow::Transfer;
use crate::flow::flash::{DiscardMode, Flashed, Plan, flash};
use crate::flow::verify::{is_whole, maybe_a_part};
use crate::image::{Degree, ImageInfo, sector_size_conflict};
use crate::report::record::Settings;
use crate::text::printable_path;
use crate::ui::devices::link_warning;
use crate::units::Bytes;

/// Everything is decided; only the person has not answered yet.
pub(super) struct Job<'a> {
    args: &'a Flash,
    image: Image,
    info: ImageInfo,
    target: Target,
    warnings: Vec<String>,
    /// The files that the image is composed of, where SOURCE is a Windows ISO.
    windows: Option<Media>,
    /// Bytes per I/O where nobody said another number.
    usual: u64,
}

impl<'a> Job<'a> {
    /// Looks at image and target, and judges them. Nothing is opened for writing.
    pub(super) fn new(
        args: &'a Flash,
        image: Image,
        word: &OsStr,
        usual: u64,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let info = image.inspect()?;
        let (image, info, windows) = composed(args, (image, info), word, cancel)?;
        let mut warnings = judge_image(&info, &image)?;
        let wish = wish(args, &image);
        let target = match args.create {
            Some(size) => new_file(Path::new(word), size, &wish, args.dry_run)?,
            None => resolve(word, &wish)?,
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
        Ok(Self { args, image, info, target, warnings, windows, usual })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// Whether the image was composed for this target alone.
    pub(super) fn is_composed(&self) -> bool {
        self.windows.is_some()
    }

    /// Has another one read the image.
    pub(super) fn reading(self, image: Image) -> Self {
        Self { image, ..self }
    }

    /// What would happen, for the person who has to say yes.
    pub(super) fn question(&self) -> String {
        [self.source_in_words(), self.target_in_words(), self.plan_in_words()].concat()
    }

    /// What is written.
    pub(super) fn source_in_words(&self) -> String {
        let mut text = String::new();
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
        if let Some(map) = self.image.map() {
            writeln!(text, "Map      {map}").ok();
            if map.left_out > 0 {
                writeln!(text, "         what it leaves out keeps what is on the stick now").ok();
            }
        }
        let media = self.windows.iter().flat_map(|media| &media.words);
        for (line, label) in media.zip(std::iter::once("Windows").chain(std::iter::repeat(""))) {
            writeln!(text, "{label:<9}{line}").ok();
        }
        text
    }

    /// Where it is written to.
    pub(super) fn target_in_words(&self) -> String {
        let mut text = String::new();
        let facts = self.target.facts();
        match &self.target {
            Target::Block(_) => text += &medium::to_be_lost(&self.target),
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
        text
    }

    /// How, and what is to be thought of.
    pub(super) fn plan_in_words(&self) -> String {
        let mut text = format!("Plan     {}\n", self.plan());
        for warning in &self.warnings {
            writeln!(text, "Warning  {warning}").ok();
        }
        text
    }

    fn plan(&self) -> String {
        let args = self.args;
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
        let mapped = self.image.map().is_some();
        steps.push(match (args.changed_only, mapped) {
            (true, false) => "read, write what differs, flush, release the first chunk",
            (true, true) => {
                "read the mapped blocks, write what differs, flush, release the first chunk"
            }
            (false, false) => "write, flush, release the first chunk",
            (false, true) => "write the mapped blocks, flush, release the first chunk",
        });
        steps.push(match (args.no_verify, args.changed_only, mapped) {
            (true, _, _) => "no verification",
            (false, true, _) => "read back what was written",
            (false, false, true) => "read the mapped blocks back",
            (false, false, false) => "read everything back",
        });
        if args.eject {
            steps.push("eject");
        }
        let block = args
            .tuning
            .block_size
            .map_or_else(|| format!("{} or less", Bytes(self.usual).binary()), Bytes::binary);
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

    /// Asks, where there is something to ask, and claims the target.
    pub(super) fn claimed(
        mut self,
        question: Option<String>,
        call: &Call,
    ) -> Result<(Self, Opened)> {
        let wish = wish(self.args, &self.image);
        let claim = Claim {
            question,
            unmount: self.args.gate.unmount,
            stdin_is_source: self.image.is_stdin(),
            ..Claim::new(&wish, call)
        };
        let Claimed { target, opened, unmounted } = claim.of(self.target)?;
        self.warnings.extend(unmounted);
        self.target = target;
        Ok((self, opened))
    }

    /// As a run of its own.
    pub(super) fn run(self, opened: &Opened, call: &Call) -> Result<ExitCode> {
        let transfer = self.transfer(&*opened.device)?;
        let session = Session::start("flash", call, &opened.clock, self.target.name())?;
        let done = self.work(&*opened.device, transfer, &session);
        Ok(session.end(&done))
    }

    /// How bytes are moved to this device.
    pub(super) fn transfer(&self, device: &dyn BlockDevice) -> Result<Transfer> {
        let simulated = self.target.is_simulated();
        transfer(&self.args.tuning, device.geometry(), simulated, self.usual)
    }

    /// Writes and proves; the sentence of success.
    pub(super) fn work(
        mut self,
        device: &dyn BlockDevice,
        transfer: Transfer,
        session: &Session,
    ) -> Result<String> {
        if let Some(media) = &self.windows {
            self.image = windows::finished(self.image, media, &session.cx)?;
        }
        let args = self.args;
        let plan = Plan {
            transfer,
            published: self.image.published().clone(),
            verify: !args.no_verify,
            mask: self.image.mask().cloned(),
            sparse: args.sparse == SparseWhen::Auto,
            changed_only: args.changed_only,
            discard: self.discard(),
        };
        self.describe(session, device, &plan);
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
        medium::reread_partition_table(device, session);
        let done = done.and_then(|flashed| match &self.windows {
            Some(media) if flashed.media.is_match() => {
                windows::find_files(media, device, &session.cx).map(|()| flashed)
            }
            _ => Ok(flashed),
        });
        let done = done.and_then(|flashed| self.finish(flashed, device, session));
        keep(&self.image, done, |kept| session.cx.events.tell(Notice::Kept(kept)))
    }

    fn describe(&self, session: &Session, device: &dyn BlockDevice, plan: &Plan) {
        medium::describe(session, &self.target, device);
        session.edit(|record| {
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
        let backup = self.info.table.as_ref().and_then(|table| table.backup_gpt);
        if let Some(at) = backup.filter(|at| at + 4096 < device.geometry().size) {
            session.cx.events.tell(Notice::BackupGptInside { at });
        }
        for word in self.windows.iter().flat_map(|media| &media.words) {
            session.cx.events.tell(Notice::Windows(word.clone()));
        }
        if let Some(map) = self.image.map() {
            session.cx.events.emit(Event::BlockMap(map.clone()));
        }
        for note in self.image.notes() {
            session.cx.events.tell(Notice::Origin(note.clone()));
        }
        for warning in &self.warnings {
            session.cx.events.tell(Notice::BeforeWrite(warning.clone()));
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
        // Of what a map leaves out nothing was compared, and nothing is claimed.
        let (amount, every) = match self.image.map() {
            Some(map) => (map.share(), "every mapped byte"),
            None => (Bytes(bytes).to_string(), "every byte"),
        };
        let source = self.image.source();
        let whole = if is_whole(source, self.image.published()) {
            Ok(())
        } else {
            Err(maybe_a_part(source, bytes, &self.target.name()))
        };
        if self.args.eject {
            medium::eject(device, &self.target.facts(), session);
        }
        if let Verdict::NotChecked { reason } = &media {
            if !self.args.no_verify {
                return Err(Error::new(
                    crate::error::Kind::Unverified,
                    format!("written, but not verified: {reason}"),
                ));
            }
            whole?;
            return Ok(format!("{amount} written and flushed, not verified ({reason})"));
        }
        whole?;
        if let Some(written) = changed {
            return Ok(format!(
                "{amount}, of which {} written, flushed and read back, the rest compared: {every} matches",
                Bytes(written)
            ));
        }
        Ok(format!("{amount} written, flushed and read back: {every} matches"))
    }
}

/// What was stored on the way gets its name unless it is known to be wrong.
pub(super) fn keep<T>(image: &Image, done: Result<T>, say: impl FnOnce(String)) -> Result<T> {
    let wrong = done.as_ref().is_err_and(|error| error.kind() == ErrorKind::SourceMismatch);
    match image.keep(!wrong) {
        Ok(Keeping::Nothing) => done,
        Ok(Keeping::Whole(file)) => {
            say(format!("stored as {}", printable_path(file)));
            done
        }
        Ok(Keeping::Part(part)) => {
            say(format!(
                "stored as {}, which may not be the whole image: its length was never stated",
                printable_path(part)
            ));
            done
        }
        // What went wrong with the stick is told first.
        Err(error) => done.and(Err(error)),
    }
}

/// The mapped stretches, for the record.
pub(in crate::cli) fn spans(ranges: &[Mapped]) -> Vec<Span> {
    let span = |range: &Range<u64>| Span { offset: range.start, len: range.end - range.start };
    ranges.iter().map(|range| span(&range.bytes)).collect()
}

pub(in crate::cli) fn plan_word(discard: DiscardMode) -> &'static str {
    match discard {
        DiscardMode::Auto(_) => "auto",
        DiscardMode::Always => "always",
        DiscardMode::Never => "never",
    }
}
