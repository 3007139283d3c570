//! Events as lines of plain text, the same on every screen: what a person must not miss is
//! worded in one place. Everything is cleaned here.

use std::time::Duration;

use crate::event::measure::{Measured, Order, Test};
use crate::event::{BadRange, Ending, Event, Phase, PhaseTotals, Span, Verdict};
use crate::text::printable;
use crate::units::{Bytes, brief, spoken};

/// The lines an event is worth; most events of a second are worth none.
pub(super) fn lines(event: &Event) -> Vec<String> {
    let texts = texts(event);
    texts.iter().map(|text| printable(text)).collect()
}

fn texts(event: &Event) -> Vec<String> {
    match event {
        Event::PhaseStarted { .. }
        | Event::Progress { .. }
        | Event::Sample(_)
        | Event::Busy { .. }
        | Event::Temperature { .. }
        | Event::DiscardChunk { .. } => vec![],
        Event::PhaseEnded(totals) => vec![phase_ended(totals)],
        Event::IoSize { phase, bytes } => {
            let size = Bytes(*bytes).binary();
            vec![format!("{}: slow device, {size} per I/O from now on", phase.name())]
        }
        Event::Cleared { signatures } => {
            let found = signatures.join(", ");
            if found.is_empty() { vec![] } else { vec![format!("cleared: {found}")] }
        }
        Event::SourceRead { bytes, sha256: Some(sha256), .. } => {
            vec![format!("source: {} read, SHA-256 {sha256}", Bytes(*bytes))]
        }
        Event::SourceRead { bytes, sha256: None, .. } => vec![format!(
            "source: {} in all, of which only what is mapped is written; no SHA-256 of the whole image was computed",
            Bytes(*bytes)
        )],
        Event::FileRead { bytes, sha256, .. } => {
            vec![format!("file: {} read, SHA-256 {sha256}", Bytes(*bytes))]
        }
        Event::Test { test, .. } => vec![self::test(test)],
        Event::Measured { measured, .. } => self::measured(measured),
        Event::Capacity(capacity) => {
            let mark = if capacity.is_as_claimed() { "" } else { "WRONG: " };
            vec![format!("capacity: {mark}{capacity}")]
        }
        Event::Compared { equal, written } => vec![format!(
            "compared: {} were there already, {} were written",
            Bytes(*equal),
            Bytes(*written)
        )],
        Event::FirstDifference { offset } => {
            vec![format!("first difference near byte {offset}; the check goes on")]
        }
        Event::BadRange(range) => vec![bad_range(range)],
        Event::HeadReleased => {
            vec!["released: the held first chunk is on the medium and flushed".to_owned()]
        }
        Event::MadeUnbootable { done: true, message } => vec![message.clone()],
        Event::MadeUnbootable { done: false, message } | Event::Warning { message, .. } => {
            vec![format!("warning: {message}")]
        }
        Event::Note { message, .. } => vec![format!("note: {message}")],
        Event::SourceVerdict(found) => verdict("source", found),
        Event::BlockMap(map) => vec![format!("map: {map}")],
        Event::Vouched(voucher) => vec![format!("source: {voucher}")],
        Event::MediaVerdict(found) => verdict("medium", found),
        Event::Finished(ending) => finished(ending),
    }
}

fn phase_ended(totals: &PhaseTotals) -> String {
    let (name, took) = (totals.phase.name(), spoken(totals.took()));
    if totals.bytes == 0 {
        return format!("{name}: {took}");
    }
    if totals.phase == Phase::Discard {
        // No data moves: a speed would only look like one.
        return format!("{name}: {} in {took}", Bytes(totals.bytes));
    }
    let stall = Duration::from_nanos(totals.longest_stall_nanos);
    let stalled = if stall < Duration::from_secs(1) {
        String::new()
    } else {
        let at = spoken(Duration::from_nanos(totals.stall_at_nanos));
        format!(", longest stall {} after {at}", spoken(stall))
    };
    format!("{name}: {} in {took}, {}{stalled}", Bytes(totals.bytes), totals.rate())
}

fn test(test: &Test) -> String {
    let order = match test.order {
        Order::Sequential => "sequential",
        Order::Random => "random",
        Order::Trace => "as recorded",
    };
    let (name, direction, block) = (&test.name, test.direction.name(), Bytes(test.block).binary());
    let flight = match (test.queue_depth, test.threads) {
        (depth, 0 | 1) => format!("{depth} in flight"),
        (depth, threads) => format!("{depth} in flight in each of {threads} threads"),
    };
    format!("test {name}: {direction}, {order}, blocks of {block}, {flight}")
}

fn measured(measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(latency) = &measured.latency {
        let short = |nanos| brief(Duration::from_nanos(nanos));
        lines.push(format!(
            "latency: median {}, p99 {}, slowest {}",
            short(latency.p50_nanos),
            short(latency.p99_nanos),
            short(latency.max_nanos)
        ));
    }
    if measured.wrong_blocks > 0 {
        let (wrong, checked) = (measured.wrong_blocks, measured.checked_blocks);
        lines.push(format!(
            "warning: {wrong} of {checked} blocks do not hold what was written to them"
        ));
    }
    lines
}

fn bad_range(range: &BadRange) -> String {
    let exact = if range.exact { "" } else { " (whole chunks)" };
    format!("bad: offset {}, {} bytes{exact}: {}", range.span.offset, range.span.len, range.detail)
}

fn verdict(what: &str, verdict: &Verdict) -> Vec<String> {
    let mut lines = vec![format!("{what}: {verdict}")];
    if let Verdict::Mismatched { findings, .. } = verdict {
        lines.extend(findings.iter().map(|finding| format!("  {finding}")));
    }
    lines
}

fn finished(ending: &Ending) -> Vec<String> {
    if ending.exit_code == 0 {
        return vec![format!("done: {}", ending.message)];
    }
    let mut lines = vec![format!("FAILED (exit code {}): {}", ending.exit_code, ending.message)];
    let told = |at: &Span| ending.message.contains(&format!("at offset {}", at.offset));
    let place = ending.place.filter(|at| !told(at));
    lines.extend(place.map(|at| format!("  at offset {}, length {}", at.offset, at.len)));
    lines.extend(ending.hint.as_ref().map(|hint| format!("  try: {hint}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(bytes: u64, stall: u64) -> Event {
        Event::PhaseEnded(PhaseTotals {
            phase: Phase::Write,
            bytes,
            ios: 1,
            nanos: 2_000_000_000,
            longest_stall_nanos: stall,
            stall_at_nanos: 500_000_000,
        })
    }

    fn said(event: &Event, expected: &[&str]) {
        assert_eq!(lines(event), expected, "{event:?}");
    }

    #[test]
    fn the_end_of_a_phase_tells_its_speed_and_its_stall() {
        said(&totals(0, 0), &["write: 2.00 s"]);
        said(
            &totals(2_000_000, 9),
            &["write: 1.91 MiB (2.00 MB) in 2.00 s, 1.00 MB/s (0.95 MiB/s)"],
        );
        let with_stall = "write: 1.91 MiB (2.00 MB) in 2.00 s, 1.00 MB/s (0.95 MiB/s), \
                          longest stall 1.00 s after 0.50 s";
        said(&totals(2_000_000, 1_000_000_000), &[with_stall]);
    }

    #[test]
    fn what_happens_every_second_is_worth_no_line() {
        let span = Span { offset: 0, len: 1 };
        said(&Event::Progress { phase: Phase::Write, bytes: 1, source: None }, &[]);
        said(&Event::DiscardChunk { span, nanos: 1 }, &[]);
        said(&Event::Cleared { signatures: vec![] }, &[]);
    }

    #[test]
    fn remarks_are_single_lines_without_control_characters() {
        let (code, message) = ("x".to_owned(), "a\u{1b}[1m\nb".to_owned());
        let cleaned = "warning: a\\u{1b}[1m\\nb";
        said(&Event::Warning { code: code.clone(), message: message.clone() }, &[cleaned]);
        said(&Event::MadeUnbootable { done: false, message: message.clone() }, &[cleaned]);
        said(&Event::MadeUnbootable { done: true, message: "blank".to_owned() }, &["blank"]);
        said(&Event::Note { code, message: "m".to_owned() }, &["note: m"]);
        let signatures = vec!["GPT".to_owned(), "\u{7}x".to_owned()];
        said(&Event::Cleared { signatures }, &["cleared: GPT, \\u{7}x"]);
        let slow = "verify: slow device, 256.0 KiB per I/O from now on";
        said(&Event::IoSize { phase: Phase::Verify, bytes: 256 << 10 }, &[slow]);
    }

    #[test]
    fn findings_and_bad_ranges_are_told_in_full() {
        let findings = vec!["wraps at 8 GiB".to_owned()];
        let differs = Verdict::Mismatched { bad_bytes: 512, ranges: 1, findings };
        let told = ["medium: DIFFERS in 1 range, 512 B in all", "  wraps at 8 GiB"];
        said(&Event::MediaVerdict(differs), &told);
        let unchecked = Verdict::NotChecked { reason: "no digest".to_owned() };
        said(&Event::SourceVerdict(unchecked), &["source: not checked: no digest"]);
        let span = Span { offset: 4096, len: 512 };
        let range = BadRange { span, exact: false, detail: "zeros".to_owned() };
        said(&Event::BadRange(range), &["bad: offset 4096, 512 bytes (whole chunks): zeros"]);
    }

    #[test]
    fn only_success_is_done_and_a_failure_says_where_and_what_to_try() {
        let done = Ending { exit_code: 0, message: "fine".to_owned(), hint: None, place: None };
        said(&Event::Finished(done), &["done: fine"]);
        let failed = Ending {
            exit_code: 5,
            message: "differs".to_owned(),
            hint: Some("another stick".to_owned()),
            place: Some(Span { offset: 4096, len: 512 }),
        };
        let told = [
            "FAILED (exit code 5): differs",
            "  at offset 4096, length 512",
            "  try: another stick",
        ];
        said(&Event::Finished(failed.clone()), &told);
        let message = "writing failed at offset 4096 (0.0 MiB), length 512".to_owned();
        let told = format!("FAILED (exit code 5): {message}");
        let once = Ending { message, ..failed };
        said(&Event::Finished(once), &[&told, "  try: another stick"]);
    }
}
