//! One plain line a second, for logs, pipes and dumb terminals: no escape codes, no carriage
//! returns, nothing that is revised.

use super::lines::lines;
use super::view::View;
use super::{Sink, Writer};
use crate::event::{Event, Observer, Phase};
use crate::meter::series;
use crate::units::Bytes;

/// Writes a line for each row and each message.
#[derive(Debug)]
pub struct PlainScreen {
    sink: Sink,
    view: View,
}

impl PlainScreen {
    /// A screen on `writer`.
    pub fn new(writer: Writer) -> Self {
        Self { sink: Sink::new(writer), view: View::default() }
    }

    /// A screen on standard error.
    pub fn stderr() -> Self {
        Self { sink: Sink::stderr(), view: View::default() }
    }
}

impl Observer for PlainScreen {
    fn on(&mut self, event: &Event) {
        self.view.on(event);
        match event {
            Event::PhaseStarted { phase, total } if may_take_long(*phase) => {
                let total = total.map(|total| format!(": {}", Bytes(total))).unwrap_or_default();
                self.sink.line(&format!("{} begins{total}", phase.name()));
            }
            // The last row is part of a second, and the phase's own line follows at once.
            Event::Sample(row) if series::is_full(row) => {
                self.sink.line(&format!("{:<8} {}", row.phase.name(), self.view.row()));
            }
            _ => {}
        }
        for line in lines(event) {
            self.sink.line(&line);
        }
    }

    fn state(&mut self) {
        self.sink.line(&self.view.state());
    }
}

/// Phases that are announced; the others are over before a line is read.
fn may_take_long(phase: Phase) -> bool {
    match phase {
        Phase::Download
        | Phase::Discard
        | Phase::ZeroOut
        | Phase::Write
        | Phase::Update
        | Phase::Flush
        | Phase::TestWrite
        | Phase::TestRead
        | Phase::Probe
        | Phase::Rest
        | Phase::Verify => true,
        Phase::Settle | Phase::Clear | Phase::Release | Phase::Sample | Phase::Files => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::lab;
    use crate::ui::tests::{Paper, watch};

    #[test]
    fn the_screen_of_a_flash_is_byte_stable() {
        let paper = Paper::default();
        watch(&mut PlainScreen::new(Box::new(paper.clone())), &lab::events());
        let text = paper.text();
        assert_eq!(text, include_str!("golden/plain.txt"), "\n{text}");
    }

    #[test]
    fn each_row_is_one_line_stalls_included() {
        let events = lab::events();
        let paper = Paper::default();
        watch(&mut PlainScreen::new(Box::new(paper.clone())), &events);
        let is_second =
            |event: &&Event| matches!(event, Event::Sample(row) if series::is_full(row));
        let rows = events.iter().filter(is_second).count();
        let is_row = |line: &&str| {
            let words: Vec<_> = line.split_whitespace().collect();
            !words[0].ends_with(':') && words[1].parse::<f64>().is_ok()
        };
        let shown = paper.text().lines().filter(is_row).count();
        assert_eq!(shown, rows);
        assert!(paper.text().contains("  0.00 MB/s (0.00 MiB/s)  mean "));
    }
}
