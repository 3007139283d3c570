//! The per-second log: one CSV row (RFC 4180, with line feeds) for every second of every phase,
//! seconds in which nothing completed included. Decimal points in every locale. Each row is
//! flushed, so that the log of a run that dies is whole up to its last second.

use super::{Failure, Sink, Writer};
use crate::event::{Event, Observer, Sample};
use crate::units::MIB;

const HEADER: &str = "phase,second,seconds,bytes,ios,MB_per_s,MiB_per_s,slowest_ms";

/// Writes rows as CSV.
#[derive(Debug)]
pub struct SecondsLog(Sink);

impl SecondsLog {
    /// Writes the header.
    pub fn new(writer: Writer) -> Self {
        let mut sink = Sink::new(writer);
        sink.line(HEADER);
        Self(sink)
    }

    /// Why rows are missing, when they are.
    pub fn failure(&self) -> Failure {
        self.0.failure.clone()
    }
}

impl Observer for SecondsLog {
    fn on(&mut self, event: &Event) {
        if let Event::Sample(row) = event {
            self.0.line(&csv(row));
        }
    }
}

fn csv(row: &Sample) -> String {
    let speed = row.rate().bytes_per_second;
    format!(
        "{},{},{:.6},{},{},{:.3},{:.3},{:.3}",
        row.phase.name(),
        row.second,
        row.nanos as f64 / 1e9,
        row.bytes,
        row.ios,
        speed / 1e6,
        speed / MIB as f64,
        row.slowest_nanos as f64 / 1e6,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Phase;
    use crate::report::lab;
    use crate::ui::tests::{Paper, watch};

    #[test]
    fn rows_are_exact() {
        let row = |phase, second, nanos, bytes, ios, slowest_nanos| {
            csv(&Sample { phase, second, nanos, bytes, ios, slowest_nanos, tenths: [0; 10] })
        };
        for (seen, expected) in [
            (
                row(Phase::Write, 0, 1_000_000_000, 500_000, 1, 1_234_567),
                "write,0,1.000000,500000,1,0.500,0.477,1.235",
            ),
            (
                row(Phase::ZeroOut, 7, 1_000_000_000, 0, 0, 0),
                "zero-out,7,1.000000,0,0,0.000,0.000,0.000",
            ),
            (
                row(Phase::Verify, 12, 250_000_000, 1 << 20, 1, 9),
                "verify,12,0.250000,1048576,1,4.194,4.000,0.000",
            ),
            (row(Phase::Write, 0, 0, 9, 1, 0), "write,0,0.000000,9,1,0.000,0.000,0.000"),
        ] {
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn the_log_of_a_flash_has_a_row_for_every_second_and_all_bytes() {
        let events = lab::events();
        let paper = Paper::default();
        watch(&mut SecondsLog::new(Box::new(paper.clone())), &events);
        let text = paper.text();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADER));
        let write: Vec<Vec<&str>> = lines
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|r| r[0] == "write")
            .collect();
        let bytes: u64 = write.iter().map(|row| row[3].parse::<u64>().unwrap()).sum();
        assert_eq!(bytes, 8 << 30);
        assert!((0..).zip(&write).all(|(second, row): (u64, _)| row[1] == second.to_string()));
        assert_eq!(write.iter().filter(|row| row[3] == "0").count(), 1, "the stall is a row of 0");
    }
}
