//! One run: its clock, events, observers and record, from the first event to the exit code.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::args::Output;
use super::exit;
use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};
use crate::event::{Ending, Event, Events, Observer, Span, run_observers};
use crate::flow::Context;
use crate::host::facts::HostFacts;
use crate::host::inhibit::{Inhibitor, inhibit};
use crate::host::invoker::{CreateMode, Invoker};
use crate::report::record::Remark;
use crate::report::{RecordBuilder, RunRecord, timing_report, without_secrets};
use crate::text::printable_path;
use crate::time::{Clock, wall_clock};
use crate::ui::{self, JsonLines, PlainScreen, SecondsLog, TtyScreen};

/// A run that has begun.
pub(super) struct Session {
    /// What the flow works with.
    pub(super) cx: Context,
    builder: RecordBuilder,
    observers: JoinHandle<()>,
    output: Output,
    name: String,
    log_failure: Option<ui::Failure>,
    _awake: Option<Inhibitor>,
}

/// The words of the command line as text, without what is nobody's business.
fn text(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| without_secrets(&word.to_string_lossy())).collect()
}

impl Session {
    /// Opens the log, starts the observers, keeps the computer awake.
    pub(super) fn start(
        command: &str,
        words: &[OsString],
        output: Output,
        clock: Arc<dyn Clock>,
        (cancel, target): (CancelToken, String),
    ) -> Result<Self> {
        let builder = RecordBuilder::new(&text(words), wall_clock());
        let (events, received) = Events::channel();
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        let mut log_failure = None;
        if let Some(path) = &output.log {
            let file = Invoker::current().create(path, CreateMode::Replace)?;
            let log = SecondsLog::new(Box::new(file));
            log_failure = Some(log.failure());
            observers.push(Box::new(log));
        }
        if output.json {
            let record = builder.record();
            observers.push(Box::new(JsonLines::new(
                Box::new(io::stdout()),
                &record.command,
                &record.started,
            )));
        }
        if !output.quiet {
            observers.push(if TtyScreen::fits() {
                Box::new(TtyScreen::stderr())
            } else {
                Box::new(PlainScreen::new(Box::new(io::stderr())))
            });
        }
        observers.push(Box::new(builder.clone()));
        let (awake, why_not) =
            if clock.is_virtual() { (None, None) } else { inhibit("writing install media") };
        builder.edit(|record| {
            record.host = HostFacts::read();
            record.notes.extend(
                why_not.map(|message| Remark { code: "no-sleep-lock".to_owned(), message }),
            );
        });
        let observers = thread::spawn(move || run_observers(&received, &mut observers));
        let cx = Context { clock, events, cancel, target };
        Ok(Self {
            cx,
            builder,
            observers,
            output,
            name: command.to_owned(),
            log_failure,
            _awake: awake,
        })
    }

    /// Fills in what no event tells.
    pub(super) fn edit(&self, change: impl FnOnce(&mut RunRecord)) {
        self.builder.edit(change);
    }

    /// Ends the run: last event, report, record, exit code. `done` is the sentence of success.
    pub(super) fn end(self, result: &Result<String>) -> ExitCode {
        let Self { cx, builder, observers, output, name, log_failure, _awake } = self;
        let kind = result.as_ref().err().map(Error::kind);
        let slept = cx.clock.slept();
        cx.events.emit(Event::Finished(ending(result)));
        drop(cx);
        // A panic of a screen must not change the verdict on the medium.
        observers.join().ok();
        builder.edit(|record| {
            record.slept_nanos = u64::try_from(slept.as_nanos()).unwrap_or(u64::MAX);
        });
        let record = builder.record();
        if output.quiet
            && let Err(error) = result
        {
            ui::print_error(error);
        }
        if !output.quiet {
            print_report(&record, output.json);
        }
        let saved = save(&record, &output, &name);
        match &saved {
            Ok(path) if !output.quiet => ui::talk(&format!("record: {}", printable_path(path))),
            Ok(_) => {}
            Err(error) => ui::talk(&format!("warning: the record was not saved: {error}")),
        }
        if let Some(failure) = log_failure.as_ref().and_then(ui::Failure::get) {
            ui::talk(&format!("warning: the log is not complete: {failure}"));
        }
        match kind {
            Some(kind) => exit(kind),
            // Asked for by name, it is part of the job.
            None if saved.is_err() && output.record.is_some() => exit(Kind::Io),
            None => ExitCode::SUCCESS,
        }
    }
}

fn print_report(record: &RunRecord, json: bool) {
    let report = timing_report(record);
    if json { ui::talk(report.trim_end()) } else { ui::print(&report) }
}

fn ending(result: &Result<String>) -> Ending {
    match result {
        Ok(message) => Ending { exit_code: 0, message: message.clone(), hint: None, place: None },
        Err(error) => failed(error),
    }
}

fn failed(error: &Error) -> Ending {
    Ending {
        exit_code: error.kind().exit_code(),
        message: error.message(),
        hint: error.advice().map(str::to_owned),
        place: error.place().map(|place| Span { offset: place.offset, len: place.len }),
    }
}

/// Saves the record where it was asked for, else in the state folder of the person who called.
fn save(record: &RunRecord, output: &Output, command: &str) -> Result<PathBuf> {
    let invoker = Invoker::current();
    let json = record.to_json()?;
    let path = if let Some(path) = &output.record {
        path.clone()
    } else {
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
        folder.join(format!("{stem}.json"))
    };
    invoker.save_atomically(&path, json.as_bytes())?;
    Ok(path)
}

/// Tells of a failure before a run began: in JSON too, when that was asked for.
pub(super) fn never_began(words: &[OsString], output: &Output, error: Error) -> Result<ExitCode> {
    if output.json {
        let mut lines = JsonLines::new(Box::new(io::stdout()), &text(words), &wall_clock());
        lines.on(&Event::Finished(failed(&error)));
    }
    Err(error)
}
