//! Several targets at once: a line for each on a terminal, elsewhere their lines with their names in
//! front; and the table of how it ended.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::lines::lines;
use super::tty::TtyScreen;
use super::view::View;
use super::{Sink, Writer};
use crate::event::{Event, Observer, Phase, PhaseTotals, notice};
use crate::meter::series;
use crate::text::printable;
use crate::units::spoken;

/// Where no line can be redrawn, how a target stands is told so often. Seconds.
const EVERY: u64 = 10;

/// What all targets share: the terminal.
#[derive(Debug)]
pub struct Board {
    /// Where lines can be redrawn.
    bars: Option<MultiProgress>,
    quiet: bool,
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    sink: Sink,
    rows: Vec<Shown>,
    /// What was said of the image, which is the same for all.
    image: Vec<String>,
}

/// A target's line.
#[derive(Debug)]
struct Shown {
    name: String,
    view: View,
    /// How it ended.
    end: Option<String>,
    bar: Option<ProgressBar>,
}

impl Shown {
    fn text(&self, width: usize) -> String {
        let name = &self.name;
        match (&self.end, self.view.phase) {
            (Some(end), _) => format!("{name:<width$}  {end}"),
            (None, None) => format!("{name:<width$}  waits"),
            (None, Some(phase)) => format!("{name:<width$}  {}", standing(&self.view, phase)),
        }
    }
}

/// How far a phase is: the most wanted first, because the line is cut where the terminal ends.
fn standing(view: &View, phase: Phase) -> String {
    let name = phase.name();
    let percent = view.percent().map_or_else(String::new, |percent| format!(" {percent:>3} %"));
    if view.done == 0 && view.way().is_none() {
        return format!("{name:<8} {:.0} s", view.elapsed().as_secs_f64());
    }
    let left = view.time_left().map(|left| format!("  ETA {}", spoken(left))).unwrap_or_default();
    let (rate, mean) = (view.rate().decimal(), view.mean().decimal());
    format!("{name:<8}{percent}  {rate}{left}  mean {mean}")
}

impl Board {
    /// On standard error. `quiet`: nothing but what somebody asks for.
    pub fn stderr(quiet: bool) -> Arc<Self> {
        let target = || ProgressDrawTarget::stderr_with_hz(10);
        let bars = (!quiet && TtyScreen::fits()).then(|| MultiProgress::with_draw_target(target()));
        Self::new(quiet, bars, Sink::stderr())
    }

    /// Lines on `writer`.
    pub fn plain(writer: Writer) -> Arc<Self> {
        Self::new(false, None, Sink::new(writer))
    }

    fn new(quiet: bool, bars: Option<MultiProgress>, sink: Sink) -> Arc<Self> {
        Arc::new(Self {
            bars,
            quiet,
            shared: Mutex::new(Shared { sink, rows: Vec::new(), image: Vec::new() }),
        })
    }

    /// A line for another target; the one that has this name already begins anew.
    pub fn row(self: &Arc<Self>, name: &str) -> Row {
        let mut shared = self.lock();
        let name = printable(name);
        let number = shared.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let bar = self.bars.as_ref().map(|bars| {
                let bar = bars.add(ProgressBar::new(0));
                // A template of one word that is known.
                if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                    bar.set_style(style);
                }
                bar
            });
            shared.rows.push(Shown { name, view: View::default(), end: None, bar });
            shared.rows.len() - 1
        });
        shared.rows[number].view = View::default();
        shared.rows[number].end = None;
        drop(shared);
        let row = Row { board: Arc::clone(self), number };
        row.board.draw(number);
        row
    }

    /// Says something of no target.
    pub fn say(&self, line: &str) {
        if !self.quiet {
            self.print(&[printable(line)]);
        }
    }

    /// Says how all stand.
    pub fn state(&self) {
        let shared = self.lock();
        let width = width(&shared);
        let lines: Vec<String> =
            shared.rows.iter().map(|row| format!("state: {}", row.text(width))).collect();
        drop(shared);
        self.print(&lines);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, lines: &[String]) {
        let print = || {
            let mut shared = self.lock();
            for line in lines {
                shared.sink.line(line);
            }
        };
        match &self.bars {
            Some(bars) => bars.suspend(print),
            None => print(),
        }
    }

    fn draw(&self, number: usize) {
        let shared = self.lock();
        let width = width(&shared);
        let Some(row) = shared.rows.get(number) else { return };
        let drawn = row.bar.clone().map(|bar| (bar, row.text(width)));
        drop(shared);
        if let Some((bar, text)) = drawn {
            bar.set_message(text);
        }
    }

    fn on(&self, number: usize, event: &Event) {
        let mut shared = self.lock();
        let width = width(&shared);
        let Some(row) = shared.rows.get_mut(number) else { return };
        row.view.on(event);
        if let Event::Finished(ending) = event {
            let failed = || format!("FAILED (exit code {}): {}", ending.exit_code, ending.message);
            let end = if ending.exit_code == 0 { "done".to_owned() } else { failed() };
            row.end = Some(printable(&end));
        }
        let moves = self.bars.is_some();
        let wanted = !self.quiet && (!moves || must_be_seen(event));
        let mut told = if wanted { lines(event) } else { Vec::new() };
        if let Event::Sample(sample) = event
            && !moves
            && !self.quiet
            && series::is_full(sample)
            && sample.second % EVERY == EVERY - 1
        {
            told.push(standing(&row.view, sample.phase));
        }
        let told: Vec<String> = if is_of_the_image(event) {
            told.retain(|line| !shared.image.contains(line));
            shared.image.extend(told.iter().cloned());
            told
        } else {
            told.iter().map(|line| format!("{:<width$}  {line}", row.name)).collect()
        };
        drop(shared);
        if !told.is_empty() {
            self.print(&told);
        }
        self.draw(number);
    }

    /// Leaves the lines as they are, and what follows below them.
    pub fn close(&self) {
        let mut shared = self.lock();
        for bar in shared.rows.iter().filter_map(|row| row.bar.as_ref()) {
            bar.abandon();
        }
        if self.bars.is_some() && !shared.rows.is_empty() {
            shared.sink.put("\n");
        }
    }
}

fn width(shared: &Shared) -> usize {
    shared.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0)
}

/// What is the same for all targets, and told once.
fn is_of_the_image(event: &Event) -> bool {
    match event {
        Event::SourceRead { .. }
        | Event::FileRead { .. }
        | Event::SourceVerdict(_)
        | Event::BlockMap(_)
        | Event::Vouched(_) => true,
        Event::Note { code, .. } => code == notice::ORIGIN,
        _ => false,
    }
}

/// What is told on a terminal, where a target has one line: what went wrong.
fn must_be_seen(event: &Event) -> bool {
    match event {
        Event::Warning { .. } | Event::BadRange(_) | Event::MadeUnbootable { .. } => true,
        Event::Finished(ending) => ending.exit_code != 0,
        _ => is_of_the_image(event),
    }
}

/// The screen of one of the targets.
#[derive(Debug)]
pub struct Row {
    board: Arc<Board>,
    number: usize,
}

impl Observer for Row {
    fn on(&mut self, event: &Event) {
        self.board.on(self.number, event);
    }
}

/// How one of several targets ended, for the table.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The target as messages name it.
    pub name: String,
    /// Its phases.
    pub phases: Vec<PhaseTotals>,
    /// Its exit code.
    pub exit_code: u8,
    /// Whether it was read back and matched.
    pub verified: bool,
}

/// The table of several targets: how fast, how long, how it ended.
pub fn table(outcomes: &[Outcome]) -> String {
    let head = ["target", "write", "verify", "time", "result"].map(str::to_owned);
    let rows = outcomes.iter().map(|outcome| {
        let rate = |phases: &[Phase]| {
            let found = outcome.phases.iter().find(|totals| phases.contains(&totals.phase));
            found.map_or_else(|| "-".to_owned(), |totals| totals.rate().decimal())
        };
        let time = outcome.phases.iter().map(PhaseTotals::took).sum();
        [
            printable(&outcome.name),
            rate(&[Phase::Write, Phase::Update]),
            rate(&[Phase::Verify]),
            spoken(time),
            match (outcome.exit_code, outcome.verified) {
                (0, true) => "done".to_owned(),
                (0, false) => "written, not verified".to_owned(),
                (code, _) => format!("FAILED (exit code {code})"),
            },
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths = [0, 1, 2, 3].map(width);
    rows.iter().fold(String::new(), |mut text, row| {
        let [name, write, verify, time, result] = row;
        let [a, b, c, d] = widths;
        // A String takes every write.
        fmt::Write::write_fmt(
            &mut text,
            format_args!("{name:<a$}  {write:>b$}  {verify:>c$}  {time:>d$}  {result}\n"),
        )
        .ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ending;
    use crate::report::lab;
    use crate::ui::tests::Paper;

    #[test]
    fn every_line_has_its_targets_name_in_front() {
        let paper = Paper::default();
        let board = Board::plain(Box::new(paper.clone()));
        let (mut one, mut other) = (board.row("/dev/sdb"), board.row("/dev/sdaa"));
        for event in lab::events() {
            one.on(&event);
            other.on(&event);
        }
        board.state();
        board.say("all are through");
        let text = paper.text();
        let (last, lines) = text
            .lines()
            .collect::<Vec<_>>()
            .split_last()
            .map_or_else(Default::default, |(last, lines)| {
                (last.to_string(), lines.iter().map(ToString::to_string).collect())
            });
        let lines: Vec<String> = lines;
        assert_eq!(last, "all are through");
        let of = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
        assert!(of("/dev/sdb   ") > 5, "{text}");
        assert_eq!(of("/dev/sdb   "), of("/dev/sdaa  "));
        // What is said of the image is said once, of no target.
        let named = of("/dev/sdb   ") + of("/dev/sdaa  ") + of("state: /dev/sd");
        let image = lines.iter().filter(|line| !line.contains("/dev/sd")).count();
        assert_eq!(
            (named + image, of("source: "), text.matches("SHA-256").count()),
            (lines.len(), image, 1)
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_stick_in_the_same_port_takes_its_line() {
        let paper = Paper::default();
        let board = Board::plain(Box::new(paper.clone()));
        let end = Ending { exit_code: 3, message: "no".to_owned(), hint: None, place: None };
        board.row("1-2").on(&Event::Finished(end));
        let _again = board.row("1-2");
        board.state();
        let told: Vec<String> = paper.text().lines().map(str::to_owned).collect();
        assert_eq!(told, ["1-2  FAILED (exit code 3): no", "state: 1-2  waits"]);
    }

    #[test]
    fn the_table_has_speeds_times_and_ends() {
        let totals = |phase, bytes, seconds: u64| PhaseTotals {
            phase,
            bytes,
            ios: 1,
            nanos: seconds * 1_000_000_000,
            longest_stall_nanos: 0,
            stall_at_nanos: 0,
        };
        let outcomes = [
            Outcome {
                name: "/dev/sdb".to_owned(),
                phases: vec![
                    totals(Phase::Write, 300_000_000, 10),
                    totals(Phase::Verify, 300_000_000, 3),
                ],
                exit_code: 0,
                verified: true,
            },
            Outcome {
                name: "/dev/sd\u{7}".to_owned(),
                phases: vec![],
                exit_code: 5,
                verified: false,
            },
            Outcome { name: "x".to_owned(), phases: vec![], exit_code: 0, verified: false },
        ];
        let lines = [
            "target            write      verify    time  result",
            "/dev/sdb      30.0 MB/s  100.0 MB/s  13.0 s  done",
            "/dev/sd\\u{7}          -           -  0.00 s  FAILED (exit code 5)",
            "x                     -           -  0.00 s  written, not verified",
        ];
        assert_eq!(table(&outcomes).lines().collect::<Vec<_>>(), lines);
    }
}
