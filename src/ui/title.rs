//! The title of the terminal's window while a job runs: how far it is, for whoever looks at
//! another window. The title of before is put back at every end; where the terminal keeps no
//! titles it is emptied, and the shell sets its own with the next prompt.
//!
//! Source: XTerm Control Sequences (OSC 0; CSI 22 ; 0 t and CSI 23 ; 0 t, the stack of titles).

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::view::View;
use super::{Sink, Writer};
use crate::event::{Event, Observer};
use crate::text::printable;

/// Terminals known to take OSC 0, by the start of TERM. Others print what they do not know: the
/// Linux console did until 5.13.
const TERMS: [&str; 13] = [
    "alacritty",
    "contour",
    "foot",
    "gnome",
    "konsole",
    "putty",
    "rxvt",
    "screen",
    "st-",
    "tmux",
    "vte",
    "wezterm",
    "xterm",
];

const KEEP: &str = "\u{1b}[22;0t";
const RESTORE: &str = "\u{1b}]0;\u{7}\u{1b}[23;0t";

/// Characters of a title; windows and tabs show less.
const LONGEST: usize = 60;

/// How long the end waits for a terminal that was stopped with Ctrl-S.
const PATIENCE: Duration = Duration::from_millis(200);

/// Whether a title of ours stands there.
static RAISED: AtomicBool = AtomicBool::new(false);

/// Puts the title of before back when it is dropped, also in a panic. For `main`.
#[derive(Debug)]
pub struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the title of before back, if one of ours stands there. Takes 200 ms at most.
pub fn restore() {
    if !RAISED.swap(false, Ordering::SeqCst) {
        return;
    }
    let (sender, done) = mpsc::channel();
    // Left behind with its write if the terminal takes nothing.
    let write = move || {
        io::stderr().write_all(RESTORE.as_bytes()).ok();
        sender.send(()).ok();
    };
    if thread::Builder::new().name("title".into()).spawn(write).is_ok() {
        done.recv_timeout(PATIENCE).ok();
    }
}

/// Shows phase, percentage and target in the title.
pub struct Title {
    sink: Sink,
    view: View,
    target: String,
    shown: String,
}

impl Title {
    /// Whether standard error is a terminal that has a title.
    pub fn fits() -> bool {
        let term = std::env::var("TERM").unwrap_or_default();
        io::stderr().is_terminal() && takes_titles(&term)
    }

    /// On standard error, for a job on this target.
    pub fn stderr(target: &str) -> Self {
        Self::new(target, Box::new(io::stderr()))
    }

    fn new(target: &str, writer: Writer) -> Self {
        let (sink, view) = (Sink::new(writer), View::default());
        Self { sink, view, target: printable(target), shown: String::new() }
    }

    fn show(&mut self) {
        let title = title(&self.view, &self.target);
        if title == self.shown {
            return;
        }
        let first = self.shown.is_empty();
        self.sink.put(&format!("{}\u{1b}]0;{title}\u{7}", if first { KEEP } else { "" }));
        self.shown = title;
        RAISED.store(true, Ordering::SeqCst);
    }

    fn end(&mut self) {
        if !self.shown.is_empty() {
            self.sink.put(RESTORE);
            self.shown.clear();
            RAISED.store(false, Ordering::SeqCst);
        }
    }
}

impl Observer for Title {
    fn on(&mut self, event: &Event) {
        self.view.on(event);
        match event {
            Event::PhaseStarted { .. } | Event::Progress { .. } | Event::Sample(_) => self.show(),
            Event::Finished(_) => self.end(),
            _ => {}
        }
    }
}

impl Drop for Title {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Title").field("shown", &self.shown).finish_non_exhaustive()
    }
}

fn takes_titles(term: &str) -> bool {
    TERMS.iter().any(|known| term.starts_with(known))
}

fn title(view: &View, target: &str) -> String {
    let name = view.phase.map_or("", crate::event::Phase::name);
    let percent = view.percent().map(|percent| format!(" {percent} %")).unwrap_or_default();
    format!("{name}{percent} {target}").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lab;
    use crate::ui::tests::{Paper, watch};

    #[test]
    fn the_title_is_kept_set_and_put_back_and_has_no_control_characters_of_others() {
        let paper = Paper::default();
        let mut screen = Title::new("/tmp/a\u{1b}]0;owned\u{7}\u{9c}b", Box::new(paper.clone()));
        watch(&mut screen, &lab::events());
        drop(screen);
        let text = paper.text();
        assert!(text.starts_with("\u{1b}[22;0t\u{1b}]0;"), "{text:?}");
        assert!(text.ends_with("\u{7}\u{1b}]0;\u{7}\u{1b}[23;0t"), "{text:?}");
        assert_eq!(text.matches("[23;0t").count(), 1);
        let titles: Vec<&str> = text.split("\u{1b}]0;").skip(1).collect();
        assert!(titles.len() > 5);
        for title in titles {
            let title = title.split('\u{7}').next().unwrap();
            assert!(!title.contains(char::is_control) && title.len() <= LONGEST, "{title:?}");
        }
        assert!(text.contains("0;write "), "{text:?}");
        assert!(text.contains("\\u{1b}]0"), "the name is shown, made harmless: {text:?}");
    }

    #[test]
    fn a_panic_puts_the_title_back() {
        let paper = Paper::default();
        let writer = Box::new(paper.clone());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let mut screen = Title::new("x", writer);
            watch(&mut screen, &lab::events()[..30]);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(paper.text().ends_with(RESTORE), "{:?}", paper.text());
    }

    #[test]
    fn only_terminals_that_have_titles_get_one() {
        for (term, takes) in [
            ("xterm-256color", true),
            ("screen.xterm", true),
            ("linux", false),
            ("dumb", false),
            ("vt100", false),
            ("", false),
        ] {
            assert_eq!(takes_titles(term), takes, "{term}");
        }
    }
}
