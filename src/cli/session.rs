//! One run: its clock, events, observers and record, from the first event to the exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::args::Output;
use super::call::{Call, failed};
use super::exit;
use crate::error::{Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{Ending, Event, Events, Observer, run_observers};
use crate::flow::Context;
use crate::host::facts::{HostFacts, governor};
use crate::host::inhibit::{Inhibitor, inhibit};
use crate::host::invoker::Invoker;
use crate::host::notify::notify;
use crate::host::{power, signals};
use crate::report::record::Remark;
use crate::report::{RecordBuilder, RunRecord, timing_report};
use crate::text::{printable, printable_path};
use crate::time::{Clock, wall_clock};
use crate::ui::{self, JsonLines, PlainScreen, SecondsLog, StateScreen, Title, TtyScreen};

/// A run that has begun.
pub(super) struct Session {
    /// What the flow works with.
    pub(super) cx: Context,
    builder: RecordBuilder,
    observers: JoinHandle<()>,
    output: Output,
    name: String,
    log_failure: Option<ui::Failure>,
    _held: Arc<Held>,
}

/// What a run shares with others that go on at the same time.
pub(super) struct Among {
    /// What the person looks at.
    pub(super) screen: Box<dyn Observer>,
    pub(super) held: Arc<Held>,
}

/// A run that is over.
pub(super) struct Closed {
    pub(super) record: RunRecord,
    /// Where the record lies.
    pub(super) saved: Result<PathBuf>,
    /// Why the log is not complete.
    log_failure: Option<String>,
}

/// What is held for as long as a job runs, so that it is not interrupted and that two runs are made
/// under the same conditions.
#[derive(Default)]
pub(super) struct Held {
    awake: Option<Inhibitor>,
    not_awake: Option<String>,
    profile: Option<power::Held>,
    not_profile: Option<String>,
    real: bool,
}

impl Held {
    /// Nothing on a virtual clock: nothing real is measured there.
    pub(super) fn for_a_job(is_virtual: bool) -> Self {
        if is_virtual {
            return Self::default();
        }
        let (awake, not_awake) = inhibit("writing or measuring a medium");
        let (profile, not_profile) = power::hold_performance("measuring a medium");
        Self { awake, not_awake, profile, not_profile, real: true }
    }

    fn describe(&self, record: &mut RunRecord) {
        record.host = HostFacts::read();
        let not_awake = self.not_awake.clone().map(Notice::NoSleepLock);
        record.notes.extend(not_awake.map(Remark::from));
        // Without a bus both are missing for one reason, which is said once.
        if self.not_profile != self.not_awake {
            let not_profile = self.not_profile.clone().map(Notice::NoPowerProfile);
            record.notes.extend(not_profile.map(Remark::from));
        }
        if self.real {
            let conditions = &mut record.conditions;
            conditions.awake = self.awake.as_ref().map(|_| "logind".to_owned());
            conditions.power_profile =
                self.profile.as_ref().map(|_| "performance (held)".to_owned());
            conditions.governor = governor();
        }
    }
}

impl Session {
    /// Opens the log, starts the observers, keeps the computer awake.
    pub(super) fn start(
        command: &str,
        call: &Call,
        clock: &Arc<dyn Clock>,
        target: String,
    ) -> Result<Self> {
        Self::begin(command, call, clock, target, None)
    }

    /// The same as one of several runs, which say together how they stand.
    pub(super) fn start_among(
        command: &str,
        call: &Call,
        clock: &Arc<dyn Clock>,
        target: String,
        others: Among,
    ) -> Result<Self> {
        Self::begin(command, call, clock, target, Some(others))
    }

    fn begin(
        command: &str,
        call: &Call,
        clock: &Arc<dyn Clock>,
        target: String,
        others: Option<Among>,
    ) -> Result<Self> {
        let output = call.output.clone();
        let builder = RecordBuilder::new(&call.text(), wall_clock());
        let (events, received) = Events::channel();
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        let mut log_failure = None;
        if let Some(path) = &output.log {
            let file = Invoker::current().text(path)?;
            let log = SecondsLog::new(Box::new(file));
            log_failure = Some(log.failure());
            observers.push(Box::new(log));
        }
        if output.json {
            let RunRecord { command, started, .. } = builder.record();
            let whose = others.is_some().then_some(target.as_str());
            let lines = JsonLines::new(Box::new(io::stdout()), &command, &started, whose);
            observers.push(Box::new(lines));
        }
        let (shown, held, asked) = match others {
            Some(Among { screen, held }) => (vec![screen], held, crossbeam_channel::never()),
            None => (
                screens(&output, &target),
                Arc::new(Held::for_a_job(clock.is_virtual())),
                signals::asked(),
            ),
        };
        observers.extend(shown);
        observers.push(Box::new(builder.clone()));
        builder.edit(|record| held.describe(record));
        let observers = thread::spawn(move || run_observers(&received, &asked, &mut observers));
        let (clock, cancel) = (Arc::clone(clock), call.cancel.clone());
        let cx = Context { clock, events, cancel, target };
        let name = command.to_owned();
        Ok(Self { cx, builder, observers, output, name, log_failure, _held: held })
    }

    /// Fills in what no event tells.
    pub(super) fn edit(&self, change: impl FnOnce(&mut RunRecord)) {
        self.builder.edit(change);
    }

    /// Ends the run: last event, record. `done` is the sentence of success.
    pub(super) fn close(self, result: &Result<String>) -> Closed {
        let Self { cx, builder, observers, output, name, log_failure, _held } = self;
        let slept = cx.clock.slept();
        cx.events.emit(Event::Finished(ending(result)));
        drop(cx);
        // A panic of a screen must not change the verdict on the medium.
        observers.join().ok();
        builder.edit(|record| {
            record.slept_nanos = u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX);
        });
        let record = builder.record();
        let saved = save(&record, &output, &name);
        let log_failure = log_failure.as_ref().and_then(ui::Failure::get).map(str::to_owned);
        Closed { record, saved, log_failure }
    }

    /// Ends the run and says how it went: report, where the record is, exit code.
    pub(super) fn end(self, result: &Result<String>) -> ExitCode {
        self.say_how_it_ended(result).map_or(ExitCode::SUCCESS, exit)
    }

    /// The same as one of several, whose exit code is made of how all ended.
    pub(super) fn say_how_it_ended(self, result: &Result<String>) -> Option<Kind> {
        let (output, target) = (self.output.clone(), self.cx.target.clone());
        let closed = self.close(result);
        if output.quiet
            && let Err(error) = result
        {
            ui::print_error(error);
        }
        if !output.quiet {
            print_report(&closed.record, output.json);
        }
        if let (Ok(path), false) = (&closed.saved, output.quiet) {
            ui::talk(&format!("record: {}", printable_path(path)));
        }
        closed.complain();
        // Last, because the bus may be slow; whether it worked changes nothing.
        if output.screen.notify {
            notify_of(result, &target, output.quiet);
        }
        let lacks = || closed.lacks_what_was_asked_for(&output).then_some(Kind::Io);
        result.as_ref().err().map(Error::kind).or_else(lacks)
    }
}

impl Closed {
    /// A record and a log that were asked for by name are part of the job.
    pub(super) fn lacks_what_was_asked_for(&self, output: &Output) -> bool {
        self.log_failure.is_some() || self.saved.is_err() && output.record.is_some()
    }

    /// Says what could not be written down.
    pub(super) fn complain(&self) {
        if let Err(error) = &self.saved {
            ui::talk(&format!("warning: the record was not saved: {error}"));
        }
        if let Some(failure) = &self.log_failure {
            ui::talk(&format!("warning: the log is not complete: {failure}"));
        }
    }
}

/// What a person looks at: on a terminal a line that moves, elsewhere lines.
fn screens(output: &Output, target: &str) -> Vec<Box<dyn Observer>> {
    if output.quiet {
        return vec![Box::new(StateScreen::stderr())];
    }
    let mut screens: Vec<Box<dyn Observer>> = Vec::new();
    let moves = TtyScreen::fits();
    if Title::fits() {
        screens.push(Box::new(Title::stderr(target)));
    }
    if output.screen.chart && !moves {
        ui::talk("note: --chart needs a terminal; --log has the same numbers");
    }
    screens.push(if moves {
        Box::new(TtyScreen::stderr().with_chart(output.screen.chart))
    } else {
        Box::new(PlainScreen::stderr())
    });
    screens
}

/// Tells the desktop how it ended.
pub(super) fn notify_of(result: &Result<String>, target: &str, quiet: bool) {
    let (summary, message) = match result {
        Ok(message) => ("mediawriter: done".to_owned(), message.clone()),
        Err(error) => (
            format!("mediawriter: FAILED (exit code {})", error.kind().exit_code()),
            error.message(),
        ),
    };
    if let Err(why) = notify(&summary, &printable(&format!("{target}: {message}")))
        && !quiet
    {
        ui::talk(&format!("note: no notification: {why}"));
    }
}

fn print_report(record: &RunRecord, json: bool) {
    let report = timing_report(record);
    if json { ui::talk(report.trim_end()) } else { ui::print(&report) }
}

pub(super) fn ending(result: &Result<String>) -> Ending {
    match result {
        Ok(message) => Ending { exit_code: 0, message: message.clone(), hint: None, place: None },
        Err(error) => failed(error),
    }
}

/// Records of one second, command, target and process.
const MOST_ALIKE: u32 = 10_000;

/// Saves the record where it was asked for, else in the state folder of the person who called.
fn save(record: &RunRecord, output: &Output, command: &str) -> Result<PathBuf> {
    let invoker = Invoker::current();
    let json = record.to_json()?;
    if let Some(path) = output.record.as_ref().filter(|_| !output.numbered) {
        invoker.save_atomically(path, json.as_bytes())?;
        return Ok(path.clone());
    }
    if let Some(path) = &output.record {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        return save_numbered(&invoker, path, &stem, json.as_bytes());
    }
    let folder = invoker
        .state_dir()
        .ok_or_else(|| Error::new(Kind::Io, "there is no home folder"))?
        .join("records");
    invoker.create_dir_all(&folder)?;
    let name = record.device.as_ref().map_or("target", |facts| facts.name.as_str());
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let target: String = name.chars().take(32).map(plain).collect();
    let started = record.started.replace(':', "");
    let stem = format!("{started}-{command}-{target}-{}", std::process::id());
    // Several targets of one call, and processes of other containers, may share all of that.
    let path = folder.join(format!("{stem}.json"));
    if invoker.save_new(&path, json.as_bytes())? {
        return Ok(path);
    }
    save_numbered(&invoker, &path, &stem, json.as_bytes())
}

/// Saves under the first name `STEM-N` that is free; no record replaces another run's.
fn save_numbered(invoker: &Invoker, path: &Path, stem: &str, json: &[u8]) -> Result<PathBuf> {
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    for number in 1..=MOST_ALIKE {
        let path = path.with_file_name(format!("{stem}-{number}{end}"));
        if invoker.save_new(&path, json)? {
            return Ok(path);
        }
    }
    Err(Error::new(Kind::Io, format!("{MOST_ALIKE} records are called {}", printable(stem))))
}
