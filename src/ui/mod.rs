//! Screens and logs: observers that fold events into bytes for people and scripts. The only
//! place that prints; measures nothing, decides nothing. Writers are injected, so tests see what
//! a terminal or a file would. Run by the one thread that owns all observers; a slow terminal
//! holds up nobody else.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, OnceLock};

use crate::error::Error;

mod board;
mod chart;
pub mod color;
pub mod confirm;
pub mod devices;
mod fold;
pub mod images;
mod jsonl;
mod lines;
mod plain;
mod seclog;
mod state;
pub mod title;
mod tty;
mod view;

pub use crate::text::printable;
pub use board::{Board, Outcome, Row, table};
pub use jsonl::{JsonLines, TargetEnd};
pub use plain::PlainScreen;
pub use seclog::SecondsLog;
pub use state::StateScreen;
pub use title::Title;
pub use tty::{TtyScreen, columns, speaks_unicode};

/// Where a screen or log writes to.
pub type Writer = Box<dyn Write + Send>;

/// A writer that never fails its user: a run goes on when its log cannot be written. After the
/// first failure nothing more is written, so that no line follows half a line.
struct Sink {
    writer: Writer,
    stopped: bool,
    /// Lines are for standard error, which may be coloured.
    coloured: bool,
    failure: Failure,
}

/// Why a log is not complete; to be asked after the run.
#[derive(Clone, Debug, Default)]
pub struct Failure(Arc<OnceLock<String>>);

impl Failure {
    /// The first error, unless it was a reader that went away: it has seen what it wanted.
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl Sink {
    fn new(writer: Writer) -> Self {
        Self { writer, stopped: false, coloured: false, failure: Failure::default() }
    }

    /// Standard error.
    fn stderr() -> Self {
        Self { coloured: true, ..Self::new(Box::new(io::stderr())) }
    }

    /// Writes and flushes `text`.
    fn put(&mut self, text: &str) {
        if self.stopped {
            return;
        }
        let done = self.writer.write_all(text.as_bytes()).and_then(|()| self.writer.flush());
        if let Err(error) = done {
            self.stopped = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.failure.0.get_or_init(|| error.to_string());
            }
        }
    }

    /// Writes a line.
    fn line(&mut self, text: &str) {
        let text = if self.coloured { color::line(text) } else { text.into() };
        self.put(&format!("{text}\n"));
    }
}

/// Prints an error on standard error.
pub fn print_error(error: &Error) {
    let text = error.to_string();
    let lines: Vec<String> = text.lines().map(printable).collect();
    talk(&format!("error: {}", lines.join("\n")));
}

/// Prints text, clean already, on standard error. Whoever closed it has seen enough.
pub fn talk(text: &str) {
    let text = color::line(text);
    io::stderr().write_all(format!("{text}\n").as_bytes()).ok();
}

/// Columns that lists and reports are made for.
const MADE_FOR: usize = 80;

/// Prints text, clean already, on standard output; on a narrow terminal folded, unless it is JSON.
pub fn print(text: &str) {
    let narrow = io::stdout().is_terminal() && columns() < MADE_FOR;
    let folded = (narrow && !text.starts_with(['{', '['])).then(|| fold::folded(text, columns()));
    let text = folded.as_deref().unwrap_or(text);
    io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()).ok();
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("stopped", &self.stopped).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::event::{Event, Observer};
    use crate::report::lab;

    /// Keeps what was written.
    #[derive(Clone, Default)]
    pub(super) struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Paper {
        pub(super) fn text(&self) -> String {
            let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            String::from_utf8(bytes).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(buf);
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Fails from the second line on.
    struct Broken(io::ErrorKind, usize);

    impl Write for Broken {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1 > 1 { Err(self.0.into()) } else { Ok(buf.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(super) fn watch(observer: &mut dyn Observer, events: &[Event]) {
        for event in events {
            observer.on(event);
        }
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is_one_told_later() {
        let events = lab::events();
        for (kind, told) in [
            (io::ErrorKind::BrokenPipe, None),
            (io::ErrorKind::StorageFull, Some("no storage space")),
        ] {
            let mut log = SecondsLog::new(Box::new(Broken(kind, 0)));
            let failure = log.failure();
            watch(&mut log, &events);
            assert_eq!(failure.get(), told);
            watch(&mut PlainScreen::new(Box::new(Broken(kind, 0))), &events);
            watch(&mut JsonLines::new(Box::new(Broken(kind, 0)), &[], "", None), &events);
        }
    }

    #[test]
    fn no_screen_lets_an_escape_sequence_through() {
        let events = lab::events();
        let (plain, json, csv) = (Paper::default(), Paper::default(), Paper::default());
        let word = ["\u{1b}[2J".to_owned()];
        watch(&mut PlainScreen::new(Box::new(plain.clone())), &events);
        watch(&mut JsonLines::new(Box::new(json.clone()), &word, "", None), &events);
        watch(&mut SecondsLog::new(Box::new(csv.clone())), &events);
        for text in [plain.text(), json.text(), csv.text()] {
            assert!(!text.is_empty());
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
        }
    }
}
