//! Our own per-second log (docs/record.md): `phase,second,seconds,bytes,ios,...`.

use super::row;
use crate::event::measure::Direction;
use crate::event::{Phase, Sample};
use crate::report::runs::{Parts, Run};

/// The writes and reads of a log. A last line that is cut off is left out, and said.
pub(super) fn seconds(text: &str, name: &str) -> Result<(Vec<Run>, Vec<String>), String> {
    let mut passes: Vec<(&str, Vec<Sample>)> = Vec::new();
    let mut remarks = Vec::new();
    let whole = text.ends_with('\n');
    let lines: Vec<&str> = text.lines().skip(1).collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((phase, sample)) = parse(line) else {
            if index + 1 == lines.len() && !whole {
                remarks.push(format!("{name}: its last line is cut off and left out"));
                continue;
            }
            return Err(format!("line {} is no row of a per-second log", index + 2));
        };
        match passes.last_mut() {
            Some((last, rows)) if *last == phase && sample.second > 0 => rows.push(sample),
            _ => passes.push((phase, vec![sample])),
        }
    }
    let runs = passes.into_iter().filter_map(|(phase, rows)| {
        let direction = match phase {
            "write" | "test_write" => Direction::Write,
            "verify" | "test_read" => Direction::Read,
            _ => return None,
        };
        let ios = rows.iter().map(|row| u64::from(row.ios)).sum();
        let parts = Parts {
            device: name.to_owned(),
            test: phase.replace('_', "-"),
            direction,
            rows,
            ios,
            source: name.to_owned(),
            ..Parts::default()
        };
        Some(Run::from(parts))
    });
    let runs: Vec<Run> = runs.collect();
    if runs.is_empty() {
        Err("the log has no row of a write or a read".to_owned())
    } else {
        Ok((runs, remarks))
    }
}

fn parse(line: &str) -> Option<(&str, Sample)> {
    let mut cells = line.split(',');
    let phase = cells.next()?;
    let second = cells.next()?.parse().ok()?;
    let length: f64 = cells.next()?.parse().ok().filter(|length| (0.0..=1.0).contains(length))?;
    let (bytes, ios) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
    // A whole line has eight cells.
    cells.nth(2)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1 second")]
    let nanos = (length * 1e9).round() as u64;
    let kind = if phase.contains("read") || phase == "verify" {
        Phase::TestRead
    } else {
        Phase::TestWrite
    };
    Some((phase, row(kind, second, nanos, bytes, ios)))
}
