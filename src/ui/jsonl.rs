//! The events as JSON, one object a line: the stream of `--json`, described in docs/record.md.
//! The first line names the schema. Progress events are for screens and left out.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Failure, Sink, Writer};
use crate::event::{Event, Observer};

/// Schema of the stream; within it fields and events are added, never changed.
const SCHEMA: &str = "mediawriter-events/1";

/// Writes every event as a line of JSON.
#[derive(Debug)]
pub struct JsonLines(Sink);

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
    /// RFC 3339 in UTC; both as in the record.
    pub fn new(writer: Writer, command: &[String], started: &str) -> Self {
        let mut lines = Self(Sink::new(writer));
        let version = env!("CARGO_PKG_VERSION");
        lines.put(&Start { event: "start", schema: SCHEMA, version, command, started });
        lines
    }

    /// Why lines are missing, when they are.
    pub fn failure(&self) -> Failure {
        self.0.failure.clone()
    }

    fn put(&mut self, line: &impl Serialize) {
        match serde_json::to_string(line) {
            Ok(json) => self.0.line(&escape_c1(&json)),
            // Texts and numbers always serialise; were it ever otherwise, the caller is told.
            Err(error) => {
                self.0.failure.0.get_or_init(|| error.to_string());
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
        let paper = Paper::default();
        let command = ["mediawriter".to_owned(), "flash".to_owned()];
        watch(
            &mut JsonLines::new(Box::new(paper.clone()), &command, "2026-03-01T12:00:00Z"),
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
    fn c1_controls_are_escaped_and_read_back() {
        let note =
            Event::Note { code: "n".to_owned(), message: "a\u{9b}2J\u{7f}\u{1b}".to_owned() };
        let text = stream(std::slice::from_ref(&note));
        let line = text.lines().last().unwrap();
        assert!(line.contains(r"a\u009b2J\u007f\u001b"), "{line}");
        assert_eq!(serde_json::from_str::<Event>(line).unwrap(), note);
    }
}
