//! Several targets at once: the image is read, decoded and hashed once, each target is written,
//! verified, judged and recorded as if it were alone, and none waits for another.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{bounded, select};

use super::job::{self, Job};
use super::{open, outputs};
use crate::cancel::CancelToken;
use crate::cli::args::{Flash, Output};
use crate::cli::call::Call;
use crate::cli::exit;
use crate::cli::open::{Target, ask_for};
use crate::cli::session::{Among, Closed, Held, Session, ending, notify_of};
use crate::cli::source::Image;
use crate::device::facts::Facts;
use crate::device::probe::System;
use crate::device::usb::UsbIds;
use crate::error::{Error, Kind, Result};
use crate::event::{Ending, Event, Observer as _, Verdict};
use crate::host::signals;
use crate::image::Advice;
use crate::source::relay::Relay;
use crate::text::printable_path;
use crate::ui::{self, Board, JsonLines, Outcome, TargetEnd};
use crate::units::MIB;

/// Bytes per I/O where nobody said another number: each target has buffers of its own.
pub(super) const BLOCK: u64 = MIB;

/// How one target ended.
pub(super) struct End {
    name: String,
    ending: Ending,
    kind: Option<Kind>,
    /// `None` where it never began.
    closed: Option<Closed>,
}

/// What all targets share.
pub(super) struct Shared<'a> {
    pub(super) args: &'a Flash,
    pub(super) call: &'a Call,
    pub(super) board: &'a Arc<Board>,
    pub(super) held: &'a Arc<Held>,
}

pub(super) fn run(args: &Flash, call: &Call) -> Result<ExitCode> {
    let cancel = &call.cancel;
    let targets = targets(args)?;
    let image = open(args, cancel)?;
    let jobs = jobs(args, &image, &targets, cancel)?;
    for (job, files) in jobs.iter().zip(files_of(&jobs)) {
        let own = output_of(&args.output, &files);
        outputs(args, Some((job.target().path().as_os_str(), &own))).check()?;
    }
    let question = question(&jobs);
    if args.dry_run {
        ui::print(&format!("{question}\nDry run: nothing was written.\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let real: Vec<String> =
        jobs.iter().map(Job::target).filter(|t| !t.is_simulated()).map(Target::word).collect();
    if !real.is_empty() {
        ask_for(&question, &word_for(real), &args.gate, image.is_stdin(), call)?;
    }
    let (image, jobs) = following(args, image, jobs);
    let board = Board::stderr(args.output.quiet);
    let held = Arc::new(Held::for_a_job(jobs.iter().all(|job| job.target().is_simulated())));
    let shared = Shared { args, call, board: &board, held: &held };
    let files = files_of(&jobs);
    for job in &jobs {
        // All are seen from the start on, in their order.
        drop(board.row(&job.target().name()));
    }
    let ends = answering(&board, || {
        thread::scope(|scope| {
            let shared = &shared;
            let started: Vec<_> = jobs
                .into_iter()
                .zip(files)
                .map(|(job, files)| {
                    let name = job.target().name();
                    (name.clone(), scope.spawn(move || shared.one(job, &name, &files)))
                })
                .collect();
            started
                .into_iter()
                .map(|(name, thread)| thread.join().unwrap_or_else(|_| End::panicked(name)))
                .collect::<Vec<End>>()
        })
    });
    board.close();
    let failed = ends.iter().find(|end| end.kind == Some(Kind::SourceMismatch));
    let done = failed.map_or(Ok(()), |end| Err(end.error()));
    if let Err(error) = job::keep(&image, done, |kept| ui::talk(&kept))
        && failed.is_none()
    {
        ui::print_error(&error);
    }
    Ok(finish(&args.output, &ends))
}

/// The targets that were named, and those that match.
fn targets(args: &Flash) -> Result<Vec<OsString>> {
    let Some(ids) = &args.fleet.all_matching else { return Ok(args.targets.clone()) };
    let found = plugged_in(ids);
    if found.is_empty() {
        return Err(Error::refused(format!("no disk that is plugged in is a USB device {ids}"))
            .hint("`lsusb` shows the numbers; `mediawriter devices` the disks"));
    }
    Ok(found.into_iter().map(|facts| facts.path.into_os_string()).collect())
}

/// What is plugged in and has these numbers.
pub(super) fn plugged_in(ids: &UsbIds) -> Vec<Facts> {
    System::host().all().into_iter().filter(|facts| ids.match_disk(facts)).collect()
}

/// A job for each target. When one is refused, all that are refused are told, and nothing begins.
fn jobs<'a>(
    args: &'a Flash,
    image: &Image,
    targets: &[OsString],
    cancel: &CancelToken,
) -> Result<Vec<Job<'a>>> {
    let composes = image.inspect()?.advice() == Advice::Compose;
    let job = |word: &OsString| {
        // What is composed for a target is read for it alone.
        let own = if composes { open(args, cancel)? } else { image.for_another(image.shared()) };
        Job::new(args, own, word, BLOCK, cancel)
    };
    let (jobs, refused): (Vec<_>, Vec<_>) = targets.iter().map(job).partition(Result::is_ok);
    let jobs: Vec<Job<'_>> = jobs.into_iter().flatten().collect();
    let refused: Vec<Error> = refused.into_iter().filter_map(Result::err).collect();
    let Some(first) = refused.first() else {
        return different(&jobs).map(|()| jobs);
    };
    refused.iter().for_each(ui::print_error);
    let (some, all) = (refused.len(), targets.len());
    Err(Error::new(first.kind(), format!("{some} of {all} targets cannot be written, so none was"))
        .hint("leave them out, or do what is said above"))
}

/// No two words name one target.
fn different(jobs: &[Job<'_>]) -> Result<()> {
    let real: Vec<_> =
        jobs.iter().map(|job| (job.target().name(), job.target().storage())).collect();
    for (at, (name, storage)) in real.iter().enumerate() {
        for (other, there) in &real[..at] {
            if name == other && !there.itself.is_empty() {
                return Err(Error::usage(format!("{name} is named twice")));
            }
            if let Some(how) = storage.shared_with(there) {
                let how = how.replace("the target", other);
                return Err(Error::refused(format!(
                    "two targets are the same storage: {name} {how}"
                ))
                .hint("name each stick once"));
            }
        }
    }
    Ok(())
}

/// What the files of each target are called by, each once: simulated sticks are all called the same.
fn files_of(jobs: &[Job<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for job in jobs {
        let name = short(&job.target().name());
        let alike = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(alike).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

fn question(jobs: &[Job<'_>]) -> String {
    let Some(first) = jobs.first() else { return String::new() };
    if jobs.iter().any(Job::is_composed) {
        return jobs.iter().map(Job::question).collect::<Vec<_>>().join("\n");
    }
    let mut text = first.source_in_words();
    for (number, job) in (1..).zip(jobs) {
        let which = format!("Target {number} of {}: ", jobs.len());
        text += &job.target_in_words().replacen("Target   ", &which, 1);
    }
    let mut told: Vec<String> = Vec::new();
    for plan in jobs.iter().map(Job::plan_in_words) {
        for line in plan.lines() {
            if !told.iter().any(|before| before == line) {
                told.push(line.to_owned());
            }
        }
    }
    text.extend(told.iter().map(|line| format!("{line}\n")));
    if !first.image().source().info().restartable {
        text += "         the source can be read once only: all go at the pace of the slowest\n";
    }
    text
}

/// The names of all of them, each once: `sdb sdc sdd`.
fn word_for(mut words: Vec<String>) -> String {
    words.dedup();
    words.join(" ")
}

/// Has one reader read for all jobs whose image is the same. The image that stays knows what was
/// stored on the way.
fn following<'a>(args: &Flash, mut image: Image, jobs: Vec<Job<'a>>) -> (Image, Vec<Job<'a>>) {
    if jobs.iter().any(Job::is_composed) {
        return (image, jobs);
    }
    let block = args.tuning.block_size.map_or(BLOCK, |size| size.0);
    let block = usize::try_from(block).unwrap_or(1 << 20).max(512);
    let whole = image.published().image.is_some();
    let followers = Relay::followers(&image.shared(), jobs.len(), block, whole);
    let jobs = jobs
        .into_iter()
        .zip(followers)
        .map(|(job, follower)| {
            // What a transfer has to tell is told by the first.
            let remarks = image.take_remarks();
            let follower = image.for_another(Arc::new(follower));
            job.reading(match remarks {
                Some(remarks) => follower.streamed(remarks, None),
                None => follower,
            })
        })
        .collect();
    (image, jobs)
}

/// Does the work, and says how all stand whenever somebody asks meanwhile.
pub(super) fn answering<T>(board: &Board, work: impl FnOnce() -> T) -> T {
    let (done, over) = bounded::<()>(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            let asked = signals::asked();
            loop {
                select! {
                    recv(asked) -> _ => board.state(),
                    recv(over) -> _ => return,
                }
            }
        });
        let result = work();
        drop(done);
        result
    })
}

impl Shared<'_> {
    /// A station runs day after day, and numbers its sticks from 1 each time.
    pub(super) fn output(&self, files: &str) -> Output {
        Output { numbered: self.args.fleet.station, ..output_of(&self.args.output, files) }
    }

    /// One target from opening to its record. `line`: how the board calls it; `files`: what its
    /// files are called by.
    pub(super) fn one(&self, job: Job<'_>, line: &str, files: &str) -> End {
        let name = job.target().name();
        let mut row = self.board.row(line);
        let opened = job.claimed(None, self.call).and_then(|(job, opened)| {
            let transfer = job.transfer(&*opened.device)?;
            Ok((job, opened, transfer))
        });
        let (job, opened, transfer) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.never_began(name, error, &mut row),
        };
        let output = self.output(files);
        let others = Among { screen: Box::new(row), held: Arc::clone(self.held) };
        let call = self.call.with(output);
        let session = Session::start_among("flash", &call, &opened.clock, name.clone(), others);
        let session = match session {
            Ok(session) => session,
            Err(error) => return self.never_began(name, error, &mut self.board.row(line)),
        };
        let done = job.work(&*opened.device, transfer, &session);
        let (ending, kind) = (ending(&done), done.as_ref().err().map(Error::kind));
        let closed = session.close(&done);
        let name = if line == name { name } else { format!("{line}, {name}") };
        End { name, ending, kind, closed: Some(closed) }
    }

    /// A target that could not be opened: the others go on.
    pub(super) fn never_began(&self, name: String, error: Error, row: &mut ui::Row) -> End {
        let kind = Some(error.kind());
        let ending = ending(&Err(error));
        let event = Event::Finished(ending.clone());
        row.on(&event);
        if self.args.output.json {
            let stdout = Box::new(io::stdout());
            JsonLines::new(stdout, &[], &crate::time::wall_clock(), Some(&name)).on(&event);
        }
        End { name, ending, kind, closed: None }
    }
}

impl End {
    fn panicked(name: String) -> Self {
        let error = Error::new(Kind::Internal, "the thread of this target panicked")
            .hint("this is a bug in mediawriter; write the stick again, and please report it");
        let kind = Some(error.kind());
        Self { name, ending: ending(&Err(error)), kind, closed: None }
    }

    fn error(&self) -> Error {
        Error::new(self.kind.unwrap_or(Kind::Internal), self.ending.message.clone())
    }

    fn is_verified(&self) -> bool {
        let verdict = self.closed.as_ref().and_then(|end| end.record.media_verdict.as_ref());
        verdict.is_some_and(Verdict::is_match)
    }

    fn outcome(&self) -> Outcome {
        let record = self.closed.as_ref().map(|closed| &closed.record);
        let phases = record.iter().flat_map(|record| &record.phases);
        Outcome {
            name: self.name.clone(),
            phases: phases.map(|phase| phase.totals).collect(),
            exit_code: self.ending.exit_code,
            verified: self.is_verified(),
        }
    }

    fn for_json(&self) -> TargetEnd {
        let saved = self.closed.as_ref().and_then(|closed| closed.saved.as_ref().ok());
        TargetEnd {
            target: self.name.clone(),
            exit_code: self.ending.exit_code,
            message: self.ending.message.clone(),
            record: saved.cloned(),
        }
    }
}

/// The table, the records, the exit code.
pub(super) fn finish(output: &Output, ends: &[End]) -> ExitCode {
    let failed: Vec<&End> = ends.iter().filter(|end| end.kind.is_some()).collect();
    let total = ends.len();
    let sentence = match failed.len() {
        0 if ends.iter().all(End::is_verified) => {
            let mapped =
                |end: &End| end.closed.as_ref().is_some_and(|c| c.record.block_map.is_some());
            Ok(if ends.iter().any(mapped) {
                format!("all {total} targets hold the mapped blocks: every mapped byte matches")
            } else {
                format!("all {total} targets hold the image: every byte matches")
            })
        }
        0 => Ok(format!("all {total} targets written and flushed, not all verified")),
        some => Err(Error::new(
            Kind::of_all(failed.iter().filter_map(|end| end.kind)).unwrap_or(Kind::Internal),
            format!("{some} of {total} targets failed; {} are done", total - some),
        )),
    };
    if !output.quiet {
        let outcomes: Vec<Outcome> = ends.iter().map(End::outcome).collect();
        let table = ui::table(&outcomes);
        if output.json { ui::talk(table.trim_end()) } else { ui::print(&table) }
    }
    for end in &failed {
        let Ending { message, hint, .. } = &end.ending;
        let hint = hint.as_ref().map(|hint| format!("\n  try: {hint}")).unwrap_or_default();
        ui::talk(&format!("{}: {}{}", end.name, ui::printable(message), hint));
    }
    for closed in ends.iter().filter_map(|end| end.closed.as_ref()) {
        closed.complain();
    }
    if !output.quiet {
        let saved = ends.iter().filter_map(|end| end.closed.as_ref()?.saved.as_ref().ok());
        for path in saved {
            ui::talk(&format!("record: {}", printable_path(path)));
        }
    }
    match &sentence {
        Ok(sentence) if !output.quiet => ui::talk(&format!("done: {sentence}")),
        Ok(_) => {}
        Err(error) => ui::print_error(error),
    }
    if output.json {
        let code = sentence.as_ref().err().map_or(0, |error| error.kind().exit_code());
        let ends: Vec<TargetEnd> = ends.iter().map(End::for_json).collect();
        JsonLines::all_finished(Box::new(io::stdout()), code, &ends);
    }
    if output.screen.notify {
        notify_of(&sentence, &format!("{total} targets"), output.quiet);
    }
    if let Err(error) = sentence {
        return exit(error.kind());
    }
    let lost = |end: &End| {
        end.closed.as_ref().is_some_and(|closed| closed.lacks_what_was_asked_for(output))
    };
    if ends.iter().any(lost) { exit(Kind::Io) } else { ExitCode::SUCCESS }
}

/// The files that were asked for, one for each target: `run.json` becomes `run-sdb.json`.
fn output_of(output: &Output, name: &str) -> Output {
    let own = |path: &Option<PathBuf>| path.as_ref().map(|path| with_name(path, name));
    Output { log: own(&output.log), record: own(&output.record), ..output.clone() }
}

fn with_name(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{name}{end}"))
}

/// `sdb` of `/dev/sdb`, with nothing in it that a file name should not have.
fn short(name: &str) -> String {
    let last = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    last.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_asked_for_have_their_targets_names() {
        for (path, name, own) in [
            ("run.json", "/dev/sdb", "run-sdb.json"),
            ("/a/b.c/seconds", "/dev/disk 1", "/a/b.c/seconds-disk-1"),
            ("x.tar.csv", "stick.img", "x.tar-stick.img.csv"),
        ] {
            assert_eq!(with_name(Path::new(path), &short(name)), Path::new(own));
        }
    }

    #[test]
    fn the_word_names_every_disk() {
        let words = |words: &[&str]| word_for(words.iter().map(|&w| w.to_owned()).collect());
        assert_eq!(words(&["sdb", "sdc"]), "sdb sdc");
        assert_eq!(words(&["overwrite", "overwrite", "sdb"]), "overwrite sdb");
    }
}
