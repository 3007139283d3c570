//! Measurements from files: our records and per-second logs, fio's JSON and bandwidth logs. What a
//! file is, is seen from its content, never from its name. Pure: bytes in, runs out.

use super::record::RunRecord;
use super::runs::{Run, of_record};
use crate::event::Sample;

mod fio;
mod logs;

/// The runs in a file called `name`, and what had to be said about it; `Err` says why it has none.
pub fn read(bytes: &[u8], name: &str) -> Result<(Vec<Run>, Vec<String>), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not a text".to_owned())?;
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.is_empty() {
        return Err("it is empty".to_owned());
    }
    if start.starts_with("phase,second,") {
        return logs::seconds(start, name);
    }
    if start.starts_with('{') || start.starts_with('[') || start.starts_with("fio: ") {
        // fio prints notes before its JSON.
        let json = &start[start.find('{').unwrap_or(0)..];
        if json.contains("\"fio version\"") {
            return fio::json(json, name);
        }
        let record = RunRecord::parse(json.as_bytes()).map_err(|error| error.message())?;
        let runs = of_record(&record, name);
        if runs.is_empty() {
            return Err("the record holds no finished second of a write or a read".to_owned());
        }
        return Ok((runs, Vec::new()));
    }
    fio::log(start, name)
}

/// A row of an imported series; its tenths are not known.
fn row(phase: crate::event::Phase, second: u64, nanos: u64, bytes: u64, ios: u32) -> Sample {
    Sample { phase, second, nanos, bytes, ios, slowest_nanos: 0, tenths: [0; 10] }
}
