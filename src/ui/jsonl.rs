//! The events as JSON, one object a line: the stream of `--json`, described in docs/record.md.
//! The first line names the schema. Progress events are for screens and left out.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::{Failure, Sink, Writer};
use crate::event::{Event, Observer};

/// Schema of the stream; within it fields and events are added, never changed.
const SCHEMA: &str = "mediawriter-events/1";

/// Writes every event as a line of JSON.
#[derive(Debug)]
pub struct JsonLines {
    sink: Sink,
    target: Option<String>,
}

/// A line; where several targets share the stream it says whose it is.
#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(flatten)]
    line: &'a T,
}

/// How the run of one of several targets ended.
#[derive(Clone, Debug, Serialize)]
pub struct TargetEnd {
    /// The target as messages name it.
    pub target: String,
    /// The exit code that it would have had alone.
    pub exit_code: u8,
    /// One sentence.
    pub message: String,
    /// Where its record lies, when it was saved.
    pub record: Option<PathBuf>,
}

/// The last line of a stream that several targets shared.
#[derive(Serialize)]
struct AllFinished<'a> {
    event: &'static str,
    exit_code: u8,
    targets: &'a [TargetEnd],
}

/// The first line.
#[derive(Serialize)]
struct Start<'a> {
    event: &'static str,
    schema: &'static str,
    version: &'static str,
    command: &'a [String],
    started: &'a str,
}

impl JsonLines {
    /// Writes the first line. `command` is the command line as it may be shown, `started` is
    /// RFC 3339 in UTC; both as in the record. `target`: whose lines they are, where several targets
    /// share the stream.
    pub fn new(writer: Writer, command: &[String], started: &str, target: Option<&str>) -> Self {
        let mut lines = Self { sink: Sink::new(writer), target: target.map(str::to_owned) };
        let version = env!("CARGO_PKG_VERSION");
        lines.put(&Start { event: "start", schema: SCHEMA, version, command, started });
        lines
    }

    /// Why lines are missing, when they are.
    pub fn failure(&self) -> Failure {
        self.sink.failure.clone()
    }

    /// Writes the last line of a stream that several targets shared.
    pub fn all_finished(writer: Writer, exit_code: u8, targets: &[TargetEnd]) {
        let mut lines = Self { sink: Sink::new(writer), target: None };
        lines.put(&AllFinished { event: "all_finished", exit_code, targets });
    }

    fn put(&mut self, line: &impl Serialize) {
        match serde_json::to_string(&Line { target: self.target.as_deref(), line }) {
            Ok(json) => self.sink.line(&escape_c1(&json)),
            // Texts and numbers always serialise; were it ever otherwise, the caller is told.
            Err(error) => {
                self.sink.failure.0.get_or_init(|| error.to_string());
            }
        }
    }
}

/// JSON escapes C0 but lets DEL and C1 stand, and C1 holds the one-character form of the escape
/// sequences. Outside of strings JSON has neither, so they can be replaced blindly.
fn escape_c1(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() {
            // A String takes every write.
            write!(out, "\\u{:04x}", u32::from(c)).ok();
        } else {
            out.push(c);
        }
    }
    out
}

impl Observer for JsonLines {
    fn on(&mut self, event: &Event) {
        if !matches!(event, Event::Progress { .. }) {
            self.put(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lab;
    use crate::ui::tests::{Paper, watch};

    fn stream(events: &[Event]) -> String {
        stream_of(None, events)
    }

    fn stream_of(target: Option<&str>, events: &[Event]) -> String {
        let paper = Paper::default();
        let command = ["mediawriter".to_owned(), "flash".to_owned()];
        watch(
            &mut JsonLines::new(Box::new(paper.clone()), &command, "2026-03-01T12:00:00Z", target),
            events,
        );
        paper.text()
    }

    #[test]
    fn the_stream_of_a_flash_is_byte_stable() {
        let text = stream(&lab::events());
        assert_eq!(text, include_str!("golden/events.jsonl"), "\n{text}");
    }

    #[test]
    fn the_lines_read_back_as_the_events_without_progress() {
        let events = lab::events();
        let text = stream(&events);
        let mut lines = text.lines();
        let start: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!((&start["event"], &start["schema"]), (&"start".into(), &SCHEMA.into()));
        let read: Vec<Event> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let without_progress = |event: &&Event| !matches!(event, Event::Progress { .. });
        assert!(read.iter().eq(events.iter().filter(without_progress)));
        assert!(read.len() < events.len());
    }

    #[test]
    fn where_targets_share_a_stream_every_line_says_whose_it_is() {
        let (alone, shared) = (stream(&lab::events()), stream_of(Some("/dev/sdb"), &lab::events()));
        assert_eq!(shared.replace("{\"target\":\"/dev/sdb\",\"event\"", "{\"event\""), alone);
        assert_eq!(shared.matches("\"target\"").count(), alone.lines().count());
        let paper = Paper::default();
        let end = TargetEnd {
            target: "/dev/sdb".to_owned(),
            exit_code: 5,
            message: "differs".to_owned(),
            record: None,
        };
        JsonLines::all_finished(Box::new(paper.clone()), 5, &[end]);
        let told: serde_json::Value = serde_json::from_str(&paper.text()).unwrap();
        assert_eq!(told["event"], "all_finished");
        assert_eq!((&told["exit_code"], &told["targets"][0]["exit_code"]), (&5.into(), &5.into()));
    }

    #[test]
    fn c1_controls_are_escaped_and_read_back() {
        let note =
            Event::Note { code: "n".to_owned(), message: "a\u{9b}2J\u{7f}\u{1b}".to_owned() };
        let text = stream(std::slice::from_ref(&note));
        let line = text.lines().last().unwrap();
        assert!(line.contains(r"a\u009b2J\u007f\u001b"), "{line}");
        assert_eq!(serde_json::from_str::<Event>(line).unwrap(), note);
    }
}
