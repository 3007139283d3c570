//! Folds events into a record. One handle is an observer, its clones stay with the caller, who
//! fills in what no event tells (device, geometry, settings) and takes the record at the end.
//! The fold is total: whatever the order of events, something sensible is recorded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::record::{
    Busy, Compared, DiscardChunk, IoSizeChange, LISTED, MadeUnbootable, PhaseRecord, Remark,
    RunRecord, SCHEMA, Temperature,
};
use crate::event::{Event, Observer, Phase, PhaseTotals, Sample};
use crate::meter::series::Summary;

/// A record that is being made. All clones are one record.
#[derive(Clone, Debug)]
pub struct RecordBuilder(Arc<Mutex<RunRecord>>);

impl RecordBuilder {
    /// A record of a run of `command` that began at `started` (RFC 3339, UTC).
    pub fn new(command: &[String], started: String) -> Self {
        Self(Arc::new(Mutex::new(RunRecord {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.iter().map(|word| without_secrets(word)).collect(),
            started,
            ..RunRecord::default()
        })))
    }

    /// Fills in what no event tells.
    pub fn edit(&self, change: impl FnOnce(&mut RunRecord)) {
        change(&mut self.lock());
    }

    /// The record as it is now. Complete once `run_observers` has returned.
    pub fn record(&self) -> RunRecord {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, RunRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for RecordBuilder {
    fn on(&mut self, event: &Event) {
        fold(&mut self.lock(), event);
    }
}

fn fold(record: &mut RunRecord, event: &Event) {
    let remark =
        |code: &String, message: &String| Remark { code: code.clone(), message: message.clone() };
    match event {
        Event::PhaseStarted { phase, total } => record.phases.push(begun(*phase, *total)),
        Event::Progress { .. } => {}
        Event::Sample(row) => add_row(open(record, row.phase), row),
        Event::PhaseEnded(totals) => end(open(record, totals.phase), totals),
        Event::IoSize { phase, bytes } => {
            record.io_sizes.push(IoSizeChange { phase: *phase, bytes: *bytes });
        }
        Event::Cleared { signatures } => record.cleared.extend(signatures.iter().cloned()),
        Event::SourceRead { bytes, sha256, mapped_sha256 } => {
            let source = record.source.get_or_insert_default();
            source.size = Some(*bytes);
            source.sha256_actual.clone_from(sha256);
            source.mapped_sha256.clone_from(mapped_sha256);
        }
        Event::DiscardChunk { span, nanos } => {
            if record.discard_chunks.len() < LISTED {
                record.discard_chunks.push(DiscardChunk { span: *span, nanos: *nanos });
            }
        }
        Event::Busy { phase, source_nanos, hash_nanos, device_nanos } => record.busy.push(Busy {
            phase: *phase,
            source_nanos: *source_nanos,
            hash_nanos: *hash_nanos,
            device_nanos: *device_nanos,
        }),
        Event::Test { phase, test } => open(record, *phase).test = Some(test.clone()),
        Event::Measured { phase, measured } => {
            if let Some(last) = record.phases.iter_mut().rfind(|p| p.totals.phase == *phase) {
                last.measured = Some(measured.clone());
            }
        }
        Event::Temperature { at_nanos, milli_celsius } => {
            let reading = Temperature { at_nanos: *at_nanos, milli_celsius: *milli_celsius };
            record.conditions.temperatures.push(reading);
        }
        Event::Capacity(capacity) => record.capacity = Some(capacity.clone()),
        Event::Compared { equal, written } => {
            record.compared = Some(Compared { equal: *equal, written: *written });
        }
        Event::FirstDifference { offset } => {
            record.first_difference.get_or_insert(*offset);
        }
        Event::BadRange(range) => {
            if record.bad_ranges.len() < LISTED {
                record.bad_ranges.push(range.clone());
            }
        }
        Event::HeadReleased => record.head_released = true,
        Event::MadeUnbootable { done, message } => {
            record.made_unbootable = Some(MadeUnbootable { done: *done, message: message.clone() });
        }
        Event::Warning { code, message } => record.warnings.push(remark(code, message)),
        Event::Note { code, message } => record.notes.push(remark(code, message)),
        Event::FileRead { bytes, sha256, sha512 } => {
            let source = record.source.get_or_insert_default();
            let file = source.file.get_or_insert_default();
            file.size = Some(*bytes);
            file.sha256_actual = Some(sha256.clone());
            file.sha512_actual.clone_from(sha512);
        }
        Event::BlockMap(map) => record.block_map = Some(map.clone()),
        Event::Vouched(voucher) => record.voucher = Some(voucher.clone()),
        Event::SourceVerdict(verdict) => record.source_verdict = Some(verdict.clone()),
        Event::MediaVerdict(verdict) => record.media_verdict = Some(verdict.clone()),
        Event::Finished(ending) => record.ending = Some(ending.clone()),
    }
}

fn begun(phase: Phase, total: Option<u64>) -> PhaseRecord {
    let totals = PhaseTotals {
        phase,
        bytes: 0,
        ios: 0,
        nanos: 0,
        longest_stall_nanos: 0,
        stall_at_nanos: 0,
    };
    PhaseRecord {
        totals,
        total,
        ended: false,
        summary: Summary::default(),
        rows: Vec::new(),
        test: None,
        measured: None,
    }
}

/// The phase that is going on; begun now if its start was not seen.
fn open(record: &mut RunRecord, phase: Phase) -> &mut PhaseRecord {
    let going_on = |p: &PhaseRecord| p.totals.phase == phase && !p.ended;
    let index = record.phases.iter().rposition(going_on).unwrap_or_else(|| {
        record.phases.push(begun(phase, None));
        record.phases.len() - 1
    });
    &mut record.phases[index]
}

fn add_row(phase: &mut PhaseRecord, row: &Sample) {
    phase.rows.push(*row);
    phase.totals.bytes = phase.totals.bytes.saturating_add(row.bytes);
    phase.totals.ios = phase.totals.ios.saturating_add(u64::from(row.ios));
    phase.totals.nanos = phase.totals.nanos.saturating_add(row.nanos);
}

fn end(phase: &mut PhaseRecord, totals: &PhaseTotals) {
    phase.totals = *totals;
    phase.ended = true;
    phase.summary = Summary::of(totals, &phase.rows);
}

/// `https://user:secret@host/x?token=t` loses the secret and the token: records and JSON lines are
/// shown around.
pub fn without_secrets(word: &str) -> String {
    let word = match word.split_once("://").and_then(|(_, rest)| rest.find('?')) {
        Some(_) => format!("{}?...", word.split('?').next().unwrap_or_default()),
        None => word.to_owned(),
    };
    without_password(&word)
}

fn without_password(word: &str) -> String {
    let parts = word.split_once("://").and_then(|(scheme, rest)| {
        let authority = rest.split(['/', '?', '#']).next()?;
        let (login, _) = authority.rsplit_once('@')?;
        let (user, _) = login.split_once(':')?;
        Some((scheme, user, &rest[login.len()..]))
    });
    match parts {
        Some((scheme, user, rest)) => format!("{scheme}://{user}:...{rest}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BadRange, Span};
    use crate::report::lab;

    fn fold_all(events: &[Event]) -> RunRecord {
        let mut builder = RecordBuilder::new(&["mediawriter".to_owned()], "T".to_owned());
        for event in events {
            builder.on(event);
        }
        builder.record()
    }

    #[test]
    fn a_run_is_recorded_phase_by_phase_with_all_rows() {
        let events = lab::events();
        let record = fold_all(&events);
        let ended = events.iter().filter_map(|event| match event {
            Event::PhaseEnded(totals) => Some(*totals),
            _ => None,
        });
        let phases: Vec<_> = record.phases.iter().map(|phase| phase.totals).collect();
        assert_eq!(phases, ended.collect::<Vec<_>>());
        let write = record.phase(Phase::Write).unwrap();
        assert_eq!(write.rows.iter().map(|row| row.bytes).sum::<u64>(), write.totals.bytes);
        assert_eq!(write.summary, Summary::of(&write.totals, &write.rows));
        assert!(record.head_released && record.succeeded());
        assert_eq!(record.warnings.len(), 1);
        assert_eq!(record.source.unwrap().sha256_actual.as_deref(), Some(lab::SHA256));
    }

    #[test]
    fn a_run_that_was_cut_off_keeps_its_rows_and_has_no_ending() {
        let mut events = lab::events();
        let last_row = events.iter().rposition(|event| matches!(event, Event::Sample(_)));
        events.truncate(last_row.unwrap() + 1);
        let record = fold_all(&events);
        let verify = record.phase(Phase::Verify).unwrap();
        assert!(!verify.ended && !record.succeeded());
        assert_eq!(verify.totals.bytes, verify.rows.iter().map(|row| row.bytes).sum::<u64>());
        assert_eq!(record.ending, None);
    }

    #[test]
    fn the_same_phase_twice_is_two_phases_and_a_stray_row_is_kept() {
        let row = Sample {
            phase: Phase::Verify,
            second: 0,
            nanos: 1,
            bytes: 3,
            ios: 1,
            slowest_nanos: 1,
            tenths: [0; 10],
        };
        let totals = begun(Phase::Verify, None).totals;
        let record = fold_all(&[
            Event::Sample(row),
            Event::PhaseEnded(totals),
            Event::PhaseStarted { phase: Phase::Verify, total: Some(9) },
            Event::Sample(row),
        ]);
        let seen: Vec<_> = record.phases.iter().map(|p| (p.ended, p.total, p.rows.len())).collect();
        assert_eq!(seen, [(true, None, 1), (false, Some(9), 1)]);
    }

    #[test]
    fn lists_are_bounded() {
        let span = Span { offset: 0, len: 1 };
        let range = BadRange { span, exact: true, detail: String::new() };
        let events = [Event::BadRange(range), Event::DiscardChunk { span, nanos: 1 }];
        let many: Vec<_> = events.iter().cycle().take(2 * LISTED + 20).cloned().collect();
        let record = fold_all(&many);
        assert_eq!((record.bad_ranges.len(), record.discard_chunks.len()), (LISTED, LISTED));
    }

    #[test]
    fn passwords_in_addresses_are_not_recorded() {
        for (typed, kept) in [
            ("https://joe:s3cret@host/x.iso", "https://joe:...@host/x.iso"),
            ("--from=http://joe:a@b:c@host", "--from=http://joe:...@host"),
            ("https://joe@host/x", "https://joe@host/x"),
            ("https://host/x.iso?t=secret&a=b#c", "https://host/x.iso?..."),
            ("https://joe:pw@host/x?t=1", "https://joe:...@host/x?..."),
            ("what?", "what?"),
            ("https://host:8080/a@b:c", "https://host:8080/a@b:c"),
            ("/dev/sdb", "/dev/sdb"),
        ] {
            assert_eq!(without_secrets(typed), kept);
        }
    }
}
