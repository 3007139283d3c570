//! `bench`: measures targets, one run and one record for each target and round.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::args::{Bench, EngineWord, Output, ProfileWord};
use super::call::Call;
use super::claim::{Claim, Claimed};
use super::exit;
use super::medium;
use super::open::{Opened, Target, Wish, ask, resolve};
use super::outputs::Outputs;
use super::session::Session;
use super::usage;
use crate::bench::profile::{Wishes, steps, will_write, written};
use crate::bench::{Engine, Plan, Profile, Step, boot, trace};
use crate::device::BlockDevice;
use crate::device::look::Look;
use crate::device::policy::Purpose;
use crate::device::probe::System;
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::measure::Test;
use crate::event::notice::Notice;
use crate::host::invoker::Invoker;
use crate::image::live_layout;
use crate::report::record;
use crate::source::Source as _;
use crate::source::file::FileSource;
use crate::text::{printable, printable_path};
use crate::time::wall_clock_nanos;
use crate::ui;
use crate::ui::devices::link_warning;
use crate::units::{Bytes, spoken};

/// What the person notes: name and value.
type Labels = BTreeMap<String, String>;

pub(super) fn run(args: &Bench, call: &Call) -> Result<ExitCode> {
    let (mut targets, labels) = approved(args, call)?;
    let runs = targets.len() * usize::try_from(args.repeat).unwrap_or(1);
    let (mut failed, mut left) = (Vec::new(), runs);
    // A round robin: heat and caches of one have time to calm down while the others work.
    for round in 1..=args.repeat {
        for target in &mut targets {
            call.cancel.check()?;
            left -= 1;
            let mut output = output(args, target.as_ref(), round, runs)?;
            // One job for the person who waits.
            output.screen.notify &= left == 0;
            failed.extend(measure(args, target, round, (&call.with(output), &labels))?);
        }
    }
    Ok(Kind::of_all(failed.iter().copied()).map_or(ExitCode::SUCCESS, exit))
}

fn profile(args: &Bench) -> Profile {
    if args.write_same {
        return Profile::WriteSame;
    }
    match args.profile {
        ProfileWord::Read => Profile::Read,
        ProfileWord::Image => Profile::Image,
        ProfileWord::Marathon => Profile::Marathon,
        ProfileWord::Cdm => Profile::Cdm,
        ProfileWord::CdmDefault => Profile::CdmDefault,
        ProfileWord::Boot => Profile::Boot,
        ProfileWord::WriteSame => Profile::WriteSame,
    }
}

fn purpose(args: &Bench) -> Purpose {
    if profile(args).writes() { Purpose::Write } else { Purpose::ReadOnly }
}

fn wishes(args: &Bench) -> Wishes {
    Wishes {
        size: args.size.map(|size| size.0),
        offset: args.offset.0,
        block: args.tuning.block_size.map(|size| size.0),
        depth: args.tuning.queue_depth.map(u32::from),
        like_fio: args.like_fio,
        runtime: args.runtime,
        cooldown: args.cooldown,
        recovery: args.recovery.clone(),
    }
}

/// All targets are judged and asked about before the first is touched.
fn approved(args: &Bench, call: &Call) -> Result<(Vec<Option<Target>>, Labels)> {
    let profile = profile(args);
    if profile.destroys() && !args.destructive {
        return Err(usage(format!(
            "--profile {} overwrites what is on the target; say --destructive if it may",
            profile.name()
        ))
        .hint("--profile read and boot, and --write-same, keep everything"));
    }
    let labels = labels(args)?;
    if args.output.log.is_some() && (args.targets.len() > 1 || args.repeat > 1) {
        return Err(usage("--log takes one run; the records of several hold the same rows"));
    }
    outputs(args).check()?;
    let wish = wish(args);
    let mut targets = Vec::new();
    for word in &args.targets {
        let target = resolve(word, &wish)?;
        if profile.writes() {
            ask(&question(args, &target), &target, &args.gate, false, call)?;
        }
        targets.push(Some(target));
    }
    Ok((targets, labels))
}

/// What the run makes; of several runs `--record` names a folder.
fn outputs(args: &Bench) -> Outputs {
    let mut output = args.output.clone();
    if args.targets.len() > 1 || args.repeat > 1 {
        output.record = None;
    }
    let outputs = Outputs::of(&output, "--record")
        .reading("the image that is read", &args.image)
        .reading("the trace that is replayed", &args.trace);
    let written = profile(args).writes();
    args.targets.iter().fold(outputs, |outputs, word| outputs.target(word, written))
}

fn wish(args: &Bench) -> Wish<'_> {
    Wish {
        purpose: purpose(args),
        gate: &args.gate,
        image_size: None,
        source: None,
        measures: true,
    }
}

fn labels(args: &Bench) -> Result<Labels> {
    let mut labels = BTreeMap::new();
    for note in &args.notes {
        let (key, value) = note
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| usage(format!("--note {}: write KEY=VALUE", printable(note))))?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    if let Some(celsius) = args.ambient {
        labels.insert("ambient".to_owned(), format!("{celsius} degrees Celsius"));
    }
    Ok(labels)
}

fn question(args: &Bench, target: &Target) -> String {
    let facts = target.facts();
    let mut text = medium::in_words(target);
    // A String takes every write.
    if profile(args).destroys() {
        writeln!(text, "Everything on it will be lost: it is overwritten to be measured.").ok();
        if let Some(bytes) = will_write(profile(args), facts.size, &wishes(args)) {
            let drives = bytes as f64 / facts.size.max(1) as f64;
            writeln!(text, "Wear     {} are written, {drives:.2} of the whole drive", Bytes(bytes))
                .ok();
        }
    } else {
        writeln!(text, "What is on it is read and written back as it is, block by block.").ok();
    }
    if let Some(warning) = link_warning(&facts) {
        writeln!(text, "Warning  {warning}").ok();
    }
    text
}

/// Where a run's record goes: of several runs, into a folder.
fn output(args: &Bench, target: Option<&Target>, round: u32, runs: usize) -> Result<Output> {
    let mut output = args.output.clone();
    if let (Some(folder), true) = (&args.output.record, runs > 1) {
        Invoker::current().create_dir_all(folder)?;
        let name = target.map_or_else(String::new, |target| target.facts().name);
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = name.chars().take(32).map(plain).collect();
        output.record = Some(folder.join(format!("{name}-{round}.json")));
        output.numbered = true;
    }
    Ok(output)
}

/// One run on one target; how it failed.
fn measure(
    args: &Bench,
    slot: &mut Option<Target>,
    round: u32,
    (call, labels): (&Call, &Labels),
) -> Result<Option<Kind>> {
    let wish = wish(args);
    let target = slot.take().ok_or_else(|| usage("a target was lost on the way"))?;
    let unmount = args.gate.unmount && profile(args).writes();
    let claim = Claim { unmount, ..Claim::new(&wish, call) };
    let Claimed { target, opened, .. } = claim.of(target)?;
    let (plan, bench) = plan(args, &target, &opened, round)?;
    let device = &*opened.device;
    let session = Session::start("bench", call, &opened.clock, target.name())?;
    medium::describe(&session, &target, device);
    session.edit(|record| {
        record.conditions.max_request = System::host().max_request(target.facts().rdev);
        record.bench = Some(bench);
        record.labels.clone_from(labels);
    });
    if let Some(warning) = link_warning(&target.facts()) {
        session.cx.events.tell(Notice::Link(warning));
    }
    let done = crate::bench::run(device, &plan, &session.cx);
    if plan.destroys {
        medium::reread_partition_table(device, &session);
    }
    let done = done.map(|()| format!("{} measured", target.name()));
    let failed = session.say_how_it_ended(&done);
    drop(opened);
    *slot = Some(target);
    Ok(failed)
}

fn plan(
    args: &Bench,
    target: &Target,
    opened: &Opened,
    round: u32,
) -> Result<(Plan, record::Bench)> {
    let (device, profile, wishes) = (&*opened.device, profile(args), wishes(args));
    let geometry = device.geometry();
    if let Some(block) = wishes.block
        && (block == 0 || !block.is_multiple_of(u64::from(geometry.logical_block)))
    {
        return Err(usage(format!(
            "--block-size {block} must be a multiple of the sector size, {} bytes",
            geometry.logical_block
        )));
    }
    let engine = engine(args, device, opened.clock.is_virtual())?;
    let steps = match profile {
        Profile::Boot => boot(args, device)?,
        _ => steps(profile, geometry, &wishes)?,
    };
    let covered = steps.iter().find_map(|step| test_of(step).map(|test| test.span.len));
    if args.discard && geometry.discard_granularity == 0 {
        return Err(Error::refused(format!("{} offers no discard", target.name()))
            .hint("`mediawriter discard` explains why; leave --discard out"));
    }
    let seed = args.seed.unwrap_or_else(wall_clock_nanos);
    let wear = written(&steps).map_or(0.0, |bytes| bytes as f64 / geometry.size.max(1) as f64);
    let bench = record::Bench {
        profile: profile.name().to_owned(),
        size: covered.unwrap_or(0),
        like_fio: args.like_fio,
        seed,
        rounds: args.repeat,
        full_drive_writes: wear,
        precondition: if args.discard { "discarded" } else { "as found" }.to_owned(),
    };
    if profile == Profile::Marathon && !args.output.quiet {
        ui::talk(&format!(
            "this run writes {} in all, {wear:.2} of the whole drive{}",
            Bytes(written(&steps).unwrap_or(0)),
            cooling(args.cooldown)
        ));
    }
    let plan = Plan {
        steps,
        seed,
        destroys: profile.destroys(),
        discard: args.discard,
        round,
        engine,
        holds_data: !matches!(target, Target::Sim(spec) if !spec.data),
    };
    Ok((plan, bench))
}

/// The boot profile, mapped onto the image: on the medium, or in the file that was named.
fn boot(args: &Bench, device: &dyn BlockDevice) -> Result<Vec<Step>> {
    let cannot = |what: &Path| format!("cannot read {}", printable_path(what));
    let layout = match &args.image {
        Some(path) => {
            let file = FileSource::open_path(path)?;
            let image = file.positional();
            let layout = image.map(|image| live_layout(&*image)).transpose();
            layout.context(|| cannot(path))?.flatten()
        }
        None => live_layout(&Look(device)).context(|| "cannot read the medium".to_owned())?,
    };
    if let (Some(path), None) = (&args.image, &layout) {
        return Err(Error::refused(format!(
            "{} is no live image: it has no ISO 9660 tree with a squashfs in it",
            printable_path(path)
        ))
        .hint("without --image the boots are replayed at the places where they were recorded"));
    }
    let own = args.trace.as_deref().map(|path| {
        let text = fs::read(path).context(|| cannot(path))?;
        trace::parse(&String::from_utf8_lossy(&text)).map_err(|why| {
            Error::new(Kind::Io, format!("{} is no trace: {why}", printable_path(path)))
                .hint("docs/boot-traces.md has the formats")
        })
    });
    let own = own.transpose()?;
    boot::steps(device.geometry(), layout.as_ref(), own.as_deref())
        .map_err(|why| Error::new(Kind::Io, why))
}

fn cooling(cooldown: Duration) -> String {
    if cooldown.is_zero() {
        return String::new();
    }
    format!(", with rests of {}", spoken(cooldown))
}

fn test_of(step: &Step) -> Option<&Test> {
    match step {
        Step::Test { test, .. } | Step::Replay { test, .. } | Step::WriteSame { test } => {
            Some(test)
        }
        Step::Flush | Step::Rest(_) => None,
    }
}

fn engine(args: &Bench, device: &dyn BlockDevice, virtual_time: bool) -> Result<Option<Engine>> {
    match args.engine {
        EngineWord::Auto => Ok(None),
        EngineWord::Threads if virtual_time => Ok(None),
        EngineWord::Threads => Ok(Some(Engine::Threads)),
        EngineWord::IoUring if Engine::of(device, virtual_time) == Engine::Uring => {
            Ok(Some(Engine::Uring))
        }
        EngineWord::IoUring => Err(Error::refused("io_uring is not to be had for this target")
            .hint("it may be switched off (kernel.io_uring_disabled), or O_DIRECT is refused; --engine threads")),
    }
}
