//! `clone`: a device to another device, or into a file (`clone_file`). The source is judged like a
//! target, and opened for reading alone; what is written is judged, asked about, written and read
//! back as by `flash`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::args::{CloneArgs, DiscardWhen};
use super::call::Call;
use super::claim::{Claim, Claimed};
use super::clone_file;
use super::flash::{plan_word, spans};
use super::labels;
use super::medium;
use super::open::{Opened, Target, Wish, locate, resolve, transfer, usual_block};
use super::outputs::Outputs;
use super::remote::with_suffix;
use super::rootless;
use super::session::Session;
use super::usage;
use super::windows::seed;
use crate::clone::plan::{self, Plan};
use crate::clone::source::DeviceImage;
use crate::clone::table;
use crate::device::BlockDevice;
use crate::device::facts::{Facts, Use};
use crate::device::freeze::Frozen;
use crate::device::linux::LinuxDevice;
use crate::device::look::Look;
use crate::device::policy::{self, Approved, Purpose, Rules, approve};
use crate::device::probe::System;
use crate::device::storage::Storage;
use crate::device::target::{Kind, check_path};
use crate::digest::ranges;
use crate::error::{Context as _, Error, Kind as ErrorKind, Result};
use crate::event::notice::Notice;
use crate::event::{Span, Verdict};
use crate::flow::flash::{DiscardMode, Flashed, Plan as FlashPlan, flash};
use crate::image::{Degree, ImageInfo, inspect, sector_size_conflict};
use crate::report::record::{Settings, SourceFacts};
use crate::source::{Published, Source as _};
use crate::text::printable_path;
use crate::time::Clock;
use crate::ui;
use crate::ui::devices::{Verdict as DeviceVerdict, detail, link_warning};
use crate::units::Bytes;

/// How long `--discard auto` may take.
const DISCARD: Duration = Duration::from_secs(60);

/// The source, judged and opened for reading.
pub(super) struct Source {
    approved: Approved,
    pub(super) at: Storage,
    pub(super) device: Arc<dyn BlockDevice>,
}

/// Everything is decided; only the person has not answered yet.
struct Job<'a> {
    args: &'a CloneArgs,
    source: Source,
    info: ImageInfo,
    plan: Plan,
    target: Target,
    warnings: Vec<String>,
}

pub(super) fn run(args: &CloneArgs, call: &Call) -> Result<ExitCode> {
    let Some(word) = args.target.clone() else {
        return Err(usage("no TARGET was given, and none is ever chosen for you").hint(
            "`mediawriter devices` lists the disks; then: mediawriter clone /dev/sdX /dev/sdY",
        ));
    };
    outputs(args, &word)?.check()?;
    let source = Source::open(args, call)?;
    if is_file(&word)? {
        return clone_file::run(args, source, Path::new(&word), call);
    }
    if args.overwrite {
        return Err(usage("--overwrite is for a FILE; TARGET is a device"));
    }
    let job = Job::prepare(args, source, &word)?;
    if job.args.dry_run {
        ui::print(&format!("{}\nDry run: nothing was written.\n", job.question()));
        return Ok(ExitCode::SUCCESS);
    }
    let (job, opened) = job.claimed(call)?;
    job.run(&opened, call)
}

/// What the run makes: into a file, that file, its part and its map.
fn outputs(args: &CloneArgs, word: &OsStr) -> Result<Outputs> {
    let outputs = Outputs::of(&args.output, "--record")
        .reading("the disk that is copied", [&args.source])
        .target(&args.source, false);
    if !is_file(word)? {
        return Ok(outputs.target(word, true));
    }
    let path = Path::new(word);
    let (part, map) = (with_suffix(path, ".part"), clone_file::map(path));
    Ok(outputs.whole("FILE", Some(path)).whole("FILE", Some(&part)).whole("FILE", map.as_deref()))
}

/// Whether TARGET is a file, there already or to be made.
fn is_file(word: &OsStr) -> Result<bool> {
    if word.to_str().is_some_and(|text| text.starts_with("sim:")) {
        return Ok(false);
    }
    Ok(check_path(&System::host(), Path::new(word))? != Kind::Block)
}

impl Source {
    fn open(args: &CloneArgs, call: &Call) -> Result<Self> {
        let (system, path) = (System::host(), Path::new(&args.source));
        let name = printable_path(path);
        match check_path(&system, path)? {
            Kind::Block => {}
            Kind::RegularFile => {
                return Err(Error::refused(format!("{name} is a file, and devices are cloned"))
                    .hint(format!("mediawriter flash {name} TARGET writes an image")));
            }
            Kind::Missing => {
                return Err(Error::refused(format!("'{name}' does not exist"))
                    .hint("`mediawriter devices` lists the disks"));
            }
        }
        let approved = judge(&system, path, args.freeze)?;
        let at = system.storage(path)?;
        let open = |path: &Path, access, flags| rootless::open(path, access, flags, &call.words);
        let device = LinuxDevice::open_by(&approved, system, &open)?;
        Ok(Self { approved, at, device: Arc::new(device) })
    }

    pub(super) fn name(&self) -> String {
        printable_path(&self.approved.facts().path)
    }

    pub(super) fn facts(&self) -> &Facts {
        self.approved.facts()
    }

    pub(super) fn size(&self) -> u64 {
        self.device.geometry().size
    }

    /// What it holds, and what the copy is, on a target of so many bytes.
    pub(super) fn planned(
        &self,
        args: &CloneArgs,
        target: Option<u64>,
    ) -> Result<(ImageInfo, Plan)> {
        let (look, name, source) = (Look(&*self.device), self.name(), self.size());
        let info = inspect(&look, &name).context(|| format!("cannot look at {name}"))?;
        let sector = self.device.geometry().logical_block;
        let fits = info.table.as_ref().is_some_and(|table| table.sector_size == sector);
        let target = target.filter(|size| *size > source && fits && !args.keep_table);
        let ids = args.new_ids.then_some(&seed as &dyn Fn() -> [u8; 16]);
        let plan = plan::plan(&look, &info, &table::Wish { source, target, ids, used: args.used })?;
        Ok((info, plan))
    }

    /// Refuses places that would wait for a filesystem that is frozen.
    pub(super) fn apart(&self, args: &CloneArgs, more: &[&Path]) -> Result<()> {
        if self.approved.to_freeze().is_empty() {
            return Ok(());
        }
        let state = crate::host::invoker::state_dir();
        let output = &args.output;
        let own = [output.log.as_deref(), output.record.as_deref(), state.as_deref()];
        for path in own.into_iter().flatten().chain(more.iter().copied()) {
            let absolute = std::path::absolute(path)
                .context(|| format!("cannot resolve {}", printable_path(path)))?;
            let Some(there) = absolute.ancestors().find(|path| path.exists()) else { continue };
            if System::host()
                .storage(there)?
                .below
                .iter()
                .any(|link| self.at.itself.contains(&link.id))
            {
                return Err(Error::refused(format!(
                    "{} lies on the source, which is frozen while it is read: nothing could be written there",
                    printable_path(path)
                ))
                .hint("choose a place on another disk (--log, --record, FILE)"));
            }
        }
        Ok(())
    }

    /// Device numbers of the source and its partitions.
    fn numbers(&self) -> Vec<(u32, u32)> {
        let facts = self.facts();
        facts.partitions.iter().map(|part| part.rdev).chain([facts.rdev]).collect()
    }

    /// Holds up who writes to it, where it is mounted.
    fn freeze(&self, clock: &Arc<dyn Clock>) -> Result<Option<Frozen>> {
        let mounts: Vec<PathBuf> =
            self.approved.to_freeze().into_iter().map(Path::to_owned).collect();
        if mounts.is_empty() {
            return Ok(None);
        }
        Frozen::new(&mounts, &self.numbers(), Arc::clone(clock)).map(Some)
    }

    /// The source as an image. What is mounted is frozen first, and looked at anew.
    pub(super) fn image(
        &self,
        args: &CloneArgs,
        (plan, target): (&Plan, Option<u64>),
        session: &Session,
    ) -> Result<DeviceImage> {
        let events = &session.cx.events;
        let frozen = self.freeze(&session.cx.clock)?;
        let mut plan = plan.clone();
        if let Some(frozen) = &frozen {
            for at in frozen.places() {
                let at = printable_path(at);
                events.tell(Notice::Frozen { at });
            }
            plan = self.planned(args, target)?.1;
        }
        for word in &plan.words {
            events.tell(Notice::Clone(word.clone()));
        }
        let image = DeviceImage::new(Arc::clone(&self.device), &self.name(), plan, frozen)?;
        image.attend(events);
        Ok(image)
    }

    /// After the copy: nobody mounted another part of it meanwhile.
    pub(super) fn still_as_it_was(&self, done: Result<String>) -> Result<String> {
        let done = done?;
        let before: &[Use] = &self.facts().uses;
        let now = System::host().facts(&self.facts().path).map(|facts| facts.uses);
        match now {
            Ok(now) if now.iter().any(|used| !before.contains(used)) => Err(Error::new(
                ErrorKind::Unverified,
                format!("{} was mounted or taken into use while it was copied", self.name()),
            )
            .hint("the copy may hold two states of it; unmount it and copy it again")),
            // Without exclusive access that is all that can be known.
            _ => Ok(done),
        }
    }

    /// For the person who has to say yes.
    pub(super) fn in_words(&self, info: &ImageInfo, plan: &Plan) -> String {
        let mut facts = self.facts().clone();
        labels::fill(&mut facts);
        let shown = detail(&facts, &DeviceVerdict { refusals: vec![] });
        // Whether it could be written to is another matter.
        let lines = shown.lines().filter(|line| !line.starts_with("  flash"));
        let mut text = "Source   only read:\n".to_owned();
        text.extend(lines.map(|line| format!("         {line}\n")));
        let label = info.label.as_ref().map_or_else(String::new, |label| format!(" \"{label}\""));
        // A String takes every write.
        writeln!(text, "         {}{label}", info.kind).ok();
        let boot = &info.boot;
        writeln!(text, "         boots: BIOS {}; UEFI {}", boot.bios, boot.uefi).ok();
        for at in self.approved.to_freeze() {
            writeln!(text, "Freeze   {}, while the source is read", printable_path(at)).ok();
        }
        for word in &plan.words {
            writeln!(text, "Change   {word}").ok();
        }
        text
    }

    /// For the record.
    pub(super) fn record(&self, plan: &Plan) -> SourceFacts {
        SourceFacts {
            name: self.name(),
            kind: "device".to_owned(),
            size: Some(plan.size),
            ..SourceFacts::default()
        }
    }
}

fn judge(system: &System, path: &Path, freeze: bool) -> Result<Approved> {
    let facts = system.facts(path)?;
    let node = facts.path.clone();
    let rules = Rules { purpose: Purpose::Copy, freeze, ..Rules::default() };
    approve(facts, &rules).map_err(|refusals| policy::report("copy", &node, &refusals))
}

impl<'a> Job<'a> {
    fn prepare(args: &'a CloneArgs, source: Source, word: &OsStr) -> Result<Self> {
        let target = resolve(word, &wish(args, &source))?;
        if let Target::Block(approved) = &target {
            source.apart(args, &[&approved.facts().path])?;
        }
        let (info, plan) = source.planned(args, Some(target.facts().size))?;
        let mut warnings = Vec::new();
        if let Some(conflict) = sector_size_conflict(&info, target.sector()) {
            if conflict.degree == Degree::Conflict && !args.gate.force {
                return Err(Error::refused(format!("sector-size: {}", conflict.text)).hint(
                    "use a target with the source's sector size; --force writes it all the same",
                ));
            }
            warnings.push(conflict.text);
        }
        warnings.extend(link_warning(source.facts()));
        warnings.extend(link_warning(&target.facts()));
        Ok(Self { args, source, info, plan, target, warnings })
    }

    fn question(&self) -> String {
        let mut text = self.source.in_words(&self.info, &self.plan);
        match &self.target {
            Target::Block(_) => text += &medium::to_be_lost(&self.target),
            Target::File(_) | Target::Sim(_) => {
                let size = Bytes(self.target.facts().size);
                // A String takes every write.
                writeln!(text, "Target   {}, {size}", self.target.name()).ok();
            }
        }
        let verify = if self.args.no_verify { "no verification" } else { "read everything back" };
        let unmount = if self.args.gate.unmount { "unmount, " } else { "" };
        let plan = format!(
            "{unmount}discard {}, write, flush, release the first chunk, {verify}",
            plan_word(self.discard())
        );
        writeln!(text, "Plan     {plan}").ok();
        for warning in &self.warnings {
            writeln!(text, "Warning  {warning}").ok();
        }
        text
    }

    fn discard(&self) -> DiscardMode {
        match self.args.discard {
            DiscardWhen::Auto => DiscardMode::Auto(DISCARD),
            DiscardWhen::Always => DiscardMode::Always,
            DiscardWhen::Never => DiscardMode::Never,
        }
    }

    fn claimed(mut self, call: &Call) -> Result<(Self, Opened)> {
        let wish = wish(self.args, &self.source);
        let question = Some(self.question());
        let claim = Claim { question, unmount: self.args.gate.unmount, ..Claim::new(&wish, call) };
        let Claimed { target, opened, unmounted } = claim.of(self.target)?;
        self.warnings.extend(unmounted);
        self.target = target;
        Ok((self, opened))
    }

    fn run(self, opened: &Opened, call: &Call) -> Result<ExitCode> {
        let device = &*opened.device;
        let simulated = self.target.is_simulated();
        let transfer = transfer(&self.args.tuning, device.geometry(), simulated, usual_block(0))?;
        let session = Session::start("clone", call, &opened.clock, self.target.name())?;
        let size = Some(self.target.facts().size);
        let image = match self.source.image(self.args, (&self.plan, size), &session) {
            Ok(image) => image,
            Err(error) => return Ok(session.end(&Err(error))),
        };
        let plan = FlashPlan {
            transfer,
            published: Published::default(),
            verify: !self.args.no_verify,
            mask: image.mask().cloned(),
            sparse: false,
            changed_only: false,
            discard: self.discard(),
        };
        self.describe(&session, device, (&plan, &image));
        let find = |span: Span| locate(&self.info, span);
        let done = flash(&image, device, &plan, &find, &session.cx);
        // After a failure too, before anything else.
        image.thaw();
        medium::reread_partition_table(device, &session);
        let done = done.and_then(|flashed| self.finish(flashed, &image, device, &session));
        let done = self.source.still_as_it_was(done);
        Ok(session.end(&done))
    }

    fn describe(
        &self,
        session: &Session,
        device: &dyn BlockDevice,
        (plan, image): (&FlashPlan, &DeviceImage),
    ) {
        medium::describe(session, &self.target, device);
        session.edit(|record| {
            record.source = Some(self.source.record(&self.plan));
            record.mapped = image.mapped().map(|ranges| spans(&ranges)).unwrap_or_default();
            record.settings = Some(Settings {
                block_size: plan.transfer.block as u64,
                queue_depth: u32::try_from(plan.transfer.queue_depth).unwrap_or(u32::MAX),
                direct: device.geometry().direct,
                discard: plan_word(plan.discard).to_owned(),
            });
        });
        for warning in &self.warnings {
            session.cx.events.tell(Notice::BeforeWrite(warning.clone()));
        }
    }

    fn finish(
        &self,
        flashed: Flashed,
        image: &DeviceImage,
        device: &dyn BlockDevice,
        session: &Session,
    ) -> Result<String> {
        let Flashed { bytes, digest: _, map, media, changed: _ } = flashed;
        let bytes = Bytes(image.mapped().map_or(bytes, |ranges| ranges::mapped(&ranges)));
        session.edit(|record| record.chunk_map = Some(map));
        if self.args.eject {
            medium::eject(device, &self.target.facts(), session);
        }
        let name = self.source.name();
        match media {
            Verdict::NotChecked { reason } if self.args.no_verify => {
                Ok(format!("{bytes} of {name} written and flushed, not verified ({reason})"))
            }
            Verdict::NotChecked { reason } => Err(Error::new(
                ErrorKind::Unverified,
                format!("written, but not verified: {reason}"),
            )),
            _ => {
                Ok(format!("{bytes} of {name} written, flushed and read back: every byte matches"))
            }
        }
    }
}

fn wish<'a>(args: &'a CloneArgs, source: &Source) -> Wish<'a> {
    Wish {
        purpose: Purpose::Write,
        gate: &args.gate,
        image_size: Some(source.size()),
        source: Some(source.at.clone()),
        measures: false,
    }
}
