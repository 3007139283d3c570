//! The progress line on a terminal. Messages scroll above it, each finished phase leaves its
//! line there, and only the end of the run says "done". The terminal is never put into raw mode
//! and the cursor is never hidden, so after a signal or a panic there is nothing to restore; a
//! panic at worst leaves the last progress line standing.

use std::fmt;
use std::io::{self, IsTerminal as _};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::lines::lines;
use super::view::View;
use super::{Sink, chart};
use crate::event::{Event, Observer};
use crate::meter::series;
use crate::units::{Bytes, spoken};

/// Width that is assumed when the terminal does not say.
const USUAL: usize = 80;
/// The same for lines.
const USUAL_LINES: usize = 24;
/// Columns that a bar needs to be worth its place.
const BAR: usize = 14;
/// Seconds in the line of blocks.
const SPARK: usize = 20;

/// Asks for columns and lines of the terminal.
type Size = Box<dyn Fn() -> (usize, usize) + Send>;

/// A progress line with messages above it.
pub struct TtyScreen {
    bar: ProgressBar,
    view: View,
    size: Size,
    /// Whether the speeds are drawn below the line.
    chart: bool,
    /// Whether the terminal can show block characters.
    blocks: bool,
    /// Takes the messages; the same terminal as the bar's.
    sink: Sink,
}

/// Whether the locale says that the terminal can show more than ASCII.
pub fn speaks_unicode() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    speaks_utf8(&locale.unwrap_or_default())
}

/// Columns of the terminal on standard output; 80 where there is none.
pub fn columns() -> usize {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map_or(USUAL, |(width, _)| usize::from(width.0))
}

impl TtyScreen {
    /// A screen on standard error. For terminals; elsewhere messages are written and no progress.
    pub fn stderr() -> Self {
        let size = || {
            let size = terminal_size::terminal_size_of(io::stderr());
            size.map_or((USUAL, USUAL_LINES), |(width, height)| (width.0.into(), height.0.into()))
        };
        let blocks = speaks_unicode();
        let target = ProgressDrawTarget::stderr_with_hz(10);
        Self::new(target, Box::new(size), blocks, Sink::stderr())
    }

    /// The same with a chart of the phase below the line.
    #[must_use]
    pub fn with_chart(mut self, chart: bool) -> Self {
        self.chart = chart;
        self
    }

    /// Whether standard error is a terminal on which a line can be redrawn.
    pub fn fits() -> bool {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        io::stderr().is_terminal() && !dumb
    }

    fn new(target: ProgressDrawTarget, size: Size, blocks: bool, sink: Sink) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        let screen = Self { bar, view: View::default(), size, chart: false, blocks, sink };
        screen.style("");
        screen
    }

    fn draw(&self) {
        let (width, _) = (self.size)();
        let Line { prefix, bar, message } = render(&self.view, width, self.blocks);
        let bar = if bar { " [{wide_bar}] " } else { "" };
        let below = self.drawn().iter().fold(String::new(), |below, line| below + "\n" + line);
        self.style(&format!("{prefix}{bar}{message}{below}"));
        let (done, total) = self.view.way().unwrap_or((0, 0));
        let done = done.min(total);
        // One update is one redraw: no part of the line is ever older than another.
        self.bar.update(|state| {
            state.set_len(total);
            state.set_pos(done);
        });
    }

    /// The chart, where one is wanted: a third of the terminal, eight lines at most.
    fn drawn(&self) -> Vec<String> {
        if !self.chart {
            return Vec::new();
        }
        let (width, height) = (self.size)();
        chart::lines(&self.view.rows, width, (height / 3).min(8), !self.blocks)
    }

    fn style(&self, template: &str) {
        // The template is made of names of phases, numbers and dots, which have no braces.
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }

    /// Writes a message where the progress line was, and the line below it.
    fn print(&mut self, line: &str) {
        let sink = &mut self.sink;
        self.bar.suspend(|| sink.line(line));
    }
}

impl Observer for TtyScreen {
    fn on(&mut self, event: &Event) {
        self.view.on(event);
        match event {
            Event::PhaseStarted { .. } | Event::Progress { .. } | Event::Sample(_) => self.draw(),
            // It stays to be looked at, above the phase's own line.
            Event::PhaseEnded(_) => {
                for line in self.drawn() {
                    self.print(&line);
                }
            }
            Event::Finished(_) => self.bar.finish_and_clear(),
            _ => {}
        }
        for line in lines(event) {
            self.print(&line);
        }
    }

    fn state(&mut self) {
        self.print(&self.view.state());
    }
}

impl Drop for TtyScreen {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl fmt::Debug for TtyScreen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtyScreen").field("view", &self.view).finish_non_exhaustive()
    }
}

/// The value of a locale variable that says UTF-8, e.g. `de_DE.UTF-8` or `C.utf8`.
fn speaks_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The progress line: phase and percentage, then perhaps a bar, then the rest.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    prefix: String,
    bar: bool,
    message: String,
}

/// Fits the line into `width` columns, the most wanted parts first. One column stays free:
/// terminals wrap when the last one is used.
fn render(view: &View, width: usize, blocks: bool) -> Line {
    let mut room = width.saturating_sub(1);
    let mut take = |text: String| {
        let fits = text.chars().count() <= room;
        room -= if fits { text.chars().count() } else { 0 };
        if fits { text } else { String::new() }
    };
    let name = view.phase.map_or("", crate::event::Phase::name);
    let prefix = take(match view.percent() {
        Some(percent) => format!("{name:<8} {percent:>3} %"),
        None if view.done == 0 => format!("{name:<8} {:.0} s", view.elapsed().as_secs_f64()),
        None => format!("{name:<8} {}", Bytes(view.done).binary()),
    });
    if view.way().is_none() && view.done == 0 {
        // Nothing moves in this phase, e.g. a flush: there is no speed to show.
        return Line { prefix, bar: false, message: String::new() };
    }
    let rate = take(format!("  {}", view.rate().decimal()));
    let left = view.time_left().map(|left| take(format!("  ETA {}", spoken(left))));
    let mean = take(format!("  mean {}", view.mean().decimal()));
    let bar = view.way().is_some() && !take(" ".repeat(BAR)).is_empty();
    let spark = if blocks { take(recent(view)) } else { String::new() };
    let done = match view.total {
        Some(total) => {
            Some(take(format!("  {} of {}", Bytes(view.done).binary(), Bytes(total).binary())))
        }
        None => view.way().map(|_| take(format!("  {}", Bytes(view.done).binary()))),
    };
    let message = [done.unwrap_or_default(), rate, mean, left.unwrap_or_default(), spark].concat();
    // Behind a bar stands one space already.
    let message = if bar { message.trim_start().to_owned() } else { message };
    Line { prefix, bar, message }
}

/// The last seconds as blocks.
fn recent(view: &View) -> String {
    let full: Vec<u64> =
        view.rows.iter().filter(|row| series::is_full(row)).map(series::speed).collect();
    if full.is_empty() {
        return String::new();
    }
    format!("  {}", series::sparkline(&full[full.len().saturating_sub(SPARK)..], SPARK))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex, PoisonError};

    use indicatif::TermLike;

    use super::*;
    use crate::event::{Phase, Sample};
    use crate::report::lab;
    use crate::ui::tests::{Paper, watch};

    /// A terminal that remembers what stands on it and all that was ever written to it.
    #[derive(Clone, Debug)]
    struct Glass {
        width: usize,
        state: Arc<Mutex<Screen>>,
    }

    #[derive(Debug, Default)]
    struct Screen {
        lines: Vec<Vec<char>>,
        row: usize,
        column: usize,
        written: String,
    }

    impl Glass {
        fn new(width: usize) -> Self {
            Self { width, state: Arc::default() }
        }

        fn with<T>(&self, f: impl FnOnce(&mut Screen) -> T) -> T {
            f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
        }

        /// What stands on the screen, without empty lines.
        fn shown(&self) -> Vec<String> {
            let text = |line: &Vec<char>| line.iter().collect::<String>().trim_end().to_owned();
            let lines = self.with(|s| s.lines.iter().map(text).collect::<Vec<_>>());
            lines.into_iter().filter(|line| !line.is_empty()).collect()
        }

        fn written(&self) -> String {
            self.with(|s| s.written.clone())
        }

        fn column(&self) -> usize {
            self.with(|s| s.column)
        }
    }

    impl Write for Glass {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.write_str(std::str::from_utf8(buf).unwrap())?;
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl TermLike for Glass {
        fn width(&self) -> u16 {
            u16::try_from(self.width).unwrap()
        }

        fn move_cursor_up(&self, n: usize) -> io::Result<()> {
            self.with(|s| s.row = s.row.saturating_sub(n));
            Ok(())
        }

        fn move_cursor_down(&self, n: usize) -> io::Result<()> {
            self.with(|s| s.row += n);
            Ok(())
        }

        fn move_cursor_right(&self, n: usize) -> io::Result<()> {
            self.with(|s| s.column += n);
            Ok(())
        }

        fn move_cursor_left(&self, n: usize) -> io::Result<()> {
            self.with(|s| s.column = s.column.saturating_sub(n));
            Ok(())
        }

        fn write_line(&self, s: &str) -> io::Result<()> {
            self.write_str(s)?;
            self.write_str("\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.with(|s| {
                s.written.push_str(text);
                for c in text.chars() {
                    if c == '\n' || (s.column == self.width && c != '\r') {
                        (s.row, s.column) = (s.row + 1, 0);
                    }
                    if c == '\r' {
                        s.column = 0;
                    } else if c != '\n' {
                        s.lines.resize_with(s.lines.len().max(s.row + 1), Vec::new);
                        let line = &mut s.lines[s.row];
                        line.resize(line.len().max(s.column + 1), ' ');
                        line[s.column] = c;
                        s.column += 1;
                    }
                }
            });
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.with(|s| {
                s.column = 0;
                if let Some(line) = s.lines.get_mut(s.row) {
                    line.clear();
                }
            });
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn screen(glass: &Glass) -> TtyScreen {
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(glass.clone()), 255);
        let width = glass.width;
        TtyScreen::new(
            target,
            Box::new(move || (width, 24)),
            true,
            Sink::new(Box::new(glass.clone())),
        )
    }

    fn half_way() -> View {
        let mut view = View::default();
        view.on(&Event::PhaseStarted { phase: Phase::Write, total: Some(8 << 30) });
        for second in 0..12 {
            let bytes = if second == 5 { 0 } else { 357 << 20 };
            let (phase, nanos) = (Phase::Write, 1_000_000_000);
            view.on(&Event::Sample(Sample {
                phase,
                second,
                nanos,
                bytes,
                ios: 1,
                slowest_nanos: 0,
                tenths: [0; 10],
            }));
        }
        view
    }

    #[test]
    fn the_line_fits_every_width_and_keeps_the_most_wanted_parts() {
        let view = half_way();
        for width in 0..200 {
            let line = render(&view, width, true);
            let bar = if line.bar { BAR - 2 } else { 0 };
            let used = line.prefix.chars().count() + bar + line.message.chars().count();
            assert!(used < width.max(1), "{width}: {line:?}");
        }
        for (width, parts) in [
            (40, vec!["write     47 %", "374.3 MB/s", "ETA 13.0 s"]),
            (80, vec!["write     47 %", "374.3 MB/s", "ETA 13.0 s", "mean 343.1 MB/s"]),
            (120, vec!["374.3 MB/s", "3.83 GiB of 8.00 GiB", "\u{2588}_\u{2588}"]),
        ] {
            let line = render(&view, width, true);
            let text = format!("{}{}", line.prefix, line.message);
            for part in parts {
                assert!(text.contains(part), "{width}: {part}: {text}");
            }
            assert_eq!(line.bar, width > 40);
        }
        assert!(render(&view, 200, false).message.is_ascii());
    }

    #[test]
    fn a_phase_of_unknown_size_shows_bytes_and_no_percentage() {
        let mut view = half_way();
        view.total = None;
        let line = render(&view, 80, false);
        assert_eq!((line.prefix.as_str(), line.bar), ("write    3.83 GiB", false));
        assert!(!line.message.contains("ETA"));
    }

    #[test]
    fn a_phase_in_which_nothing_moves_shows_its_time_alone() {
        let mut view = View::default();
        view.on(&Event::PhaseStarted { phase: Phase::Flush, total: None });
        for second in 0..3 {
            let (phase, nanos) = (Phase::Flush, 1_000_000_000);
            view.on(&Event::Sample(Sample {
                phase,
                second,
                nanos,
                bytes: 0,
                ios: 0,
                slowest_nanos: 0,
                tenths: [0; 10],
            }));
        }
        let prefix = "flush    3 s".to_owned();
        assert_eq!(render(&view, 80, true), Line { prefix, bar: false, message: String::new() });
    }

    #[test]
    fn a_finished_run_leaves_messages_and_phases_and_no_bar() {
        let glass = Glass::new(80);
        let mut screen = screen(&glass);
        let events = lab::events();
        let (last, rest) = events.split_last().unwrap();
        watch(&mut screen, rest);
        assert!(!glass.written().contains("done"), "only the end says done");
        watch(&mut screen, std::slice::from_ref(last));
        let shown = glass.shown();
        let starts = [
            "settle: ",
            "clear: ",
            "cleared: ",
            "discard: ",
            "write: ",
            "source: ",
            "source: ",
            "flush: ",
            "release: ",
            "released: ",
            "warning: ",
            "verify: ",
            "medium: ",
            "done: written and verified",
        ];
        // The line on writing is longer than 80 columns and goes on in the next one.
        let firsts: Vec<_> = shown.iter().filter(|line| line.contains(": ")).collect();
        assert_eq!(firsts.len(), starts.len(), "{shown:#?}");
        for (line, start) in firsts.iter().zip(starts) {
            assert!(line.starts_with(start), "{start}\n{shown:#?}");
        }
        assert!(!shown.iter().any(|line| line.contains('%')), "{shown:#?}");
        assert!(glass.written().contains("[===="), "a bar was seen");
        assert_eq!(glass.column(), 0, "a prompt starts on a line of its own");
    }

    #[test]
    fn the_chart_stands_below_the_line_while_a_phase_runs_and_stays_above_when_it_ended() {
        let glass = Glass::new(60);
        let mut screen = screen(&glass).with_chart(true);
        let view = half_way();
        screen.on(&Event::PhaseStarted { phase: Phase::Write, total: Some(8 << 30) });
        for row in &view.rows {
            screen.on(&Event::Sample(*row));
        }
        let shown = glass.shown();
        assert!(shown[0].starts_with("write     47 %"), "{shown:#?}");
        assert_eq!(shown[1], "0 to 374.3 MB/s, a column of dots is 1 s");
        // Five seconds, one without anything, six seconds.
        assert_eq!(shown.last().unwrap(), "\u{28ff}\u{28ff}\u{2847}\u{28ff}\u{28ff}\u{28ff}");
        assert_eq!(shown.len(), 1 + 8, "{shown:#?}");
        screen.state();
        assert!(glass.shown()[0].starts_with("state: write       12.0 s"), "{:#?}", glass.shown());
        drop(screen);
        assert!(!glass.shown().concat().contains('\u{28ff}'), "{:#?}", glass.shown());
    }

    #[test]
    fn a_screen_that_is_dropped_clears_its_line() {
        let glass = Glass::new(60);
        let mut screen = screen(&glass);
        screen.on(&Event::PhaseStarted { phase: Phase::Write, total: Some(100) });
        screen.on(&Event::Progress { phase: Phase::Write, bytes: 150, source: None });
        let shown = glass.shown();
        assert!(shown.len() == 1 && shown[0].starts_with("write    100 % [==="), "{shown:?}");
        drop(screen);
        assert_eq!((glass.shown(), glass.column()), (vec![], 0));
    }

    #[test]
    fn nothing_is_ever_written_that_a_panic_would_have_to_undo() {
        let glass = Glass::new(60);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut screen = screen(&glass);
            watch(&mut screen, &lab::events()[..30]);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let text = glass.written();
        assert!(text.contains('%'), "{text}");
        let acts = |c: char| c.is_control() && c != '\r' && c != '\n';
        assert!(!text.contains(acts), "{text:?}");
    }

    #[test]
    fn without_a_terminal_messages_are_written_all_the_same() {
        let paper = Paper::default();
        let size = Box::new(|| (80, 24));
        let target = ProgressDrawTarget::hidden();
        let sink = Sink::new(Box::new(paper.clone()));
        let mut screen = TtyScreen::new(target, size, true, sink);
        watch(&mut screen, &lab::events());
        let text = paper.text();
        assert!(text.contains("warning: the drive's own cache"), "{text}");
        assert!(text.ends_with("done: written and verified\n"), "{text}");
    }

    #[test]
    fn block_characters_need_a_locale_that_has_them() {
        for (locale, utf8) in [
            ("de_DE.UTF-8", true),
            ("C.utf8", true),
            ("C", false),
            ("", false),
            ("ja_JP.eucJP", false),
        ] {
            assert_eq!(speaks_utf8(locale), utf8, "{locale}");
        }
    }
}
