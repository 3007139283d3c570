//! The tests of a benchmark as one table, named and ordered as CrystalDiskMark's users know it.
//! MB/s are 10^6 bytes a second, exactly; an average is bytes divided by time.

use std::fmt::Write as _;
use std::time::Duration;

use super::page::{Page, number};
use super::record::{PhaseRecord, RunRecord};
use crate::event::measure::Test;
use crate::units::{Bytes, MIB, brief};

/// What was benchmarked and under which conditions.
pub(super) fn setting(page: &mut Page, record: &RunRecord) {
    let Some(bench) = &record.bench else { return };
    let mut text = format!("{}, {} each", bench.profile, Bytes(bench.size));
    if bench.like_fio {
        text.push_str(", 4 MiB with one in flight");
    }
    if bench.full_drive_writes > 0.0 {
        write!(text, ", writes {:.2} of the drive", bench.full_drive_writes).ok();
    }
    page.field("profile", &text);
    page.field("before", &bench.precondition);
    let conditions = &record.conditions;
    let unknown = "not known";
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| unknown.to_owned());
    page.field(
        "conditions",
        &format!(
            "power profile {}; governor {}; largest request {}",
            or_unknown(&conditions.power_profile),
            or_unknown(&conditions.governor),
            conditions.max_request.map_or_else(|| unknown.to_owned(), |n| Bytes(n).binary()),
        ),
    );
    let degrees = conditions.temperatures.iter().map(|reading| reading.milli_celsius);
    if let (Some(low), Some(high)) = (degrees.clone().min(), degrees.max()) {
        let celsius = |milli: i64| milli as f64 / 1e3;
        let (low, high) = (celsius(low), celsius(high));
        page.field("", &format!("the device was {low:.1} to {high:.1} degrees Celsius"));
    }
    for (key, value) in &record.labels {
        page.field("", &format!("{key}: {value}"));
    }
}

/// All tests of the run, a line each.
pub(super) fn table(page: &mut Page, record: &RunRecord) {
    let tests: Vec<(&PhaseRecord, &Test)> =
        record.phases.iter().filter_map(|p| p.test.as_ref().map(|test| (p, test))).collect();
    if tests.is_empty() {
        return;
    }
    page.blank();
    let heads = ["MB/s", "MiB/s", "IOPS", "median", "p99", "slowest"];
    page.line(&row("test", &heads.map(str::to_owned)));
    for (phase, test) in tests {
        let rate = phase.totals.rate().bytes_per_second;
        let seconds = phase.totals.took().as_secs_f64();
        let iops = if seconds > 0.0 { phase.totals.ios as f64 / seconds } else { 0.0 };
        let latency = phase.measured.as_ref().and_then(|measured| measured.latency.as_ref());
        let time = |nanos: Option<u64>| {
            nanos.map_or_else(|| "-".to_owned(), |nanos| brief(Duration::from_nanos(nanos)))
        };
        let cells = [
            number(rate / 1e6),
            number(rate / MIB as f64),
            number(iops),
            time(latency.map(|latency| latency.p50_nanos)),
            time(latency.map(|latency| latency.p99_nanos)),
            time(latency.map(|latency| latency.max_nanos)),
        ];
        page.line(&row(&crate::text::printable(&test.name), &cells));
    }
    page.blank();
}

fn row(name: &str, cells: &[String; 6]) -> String {
    let mut line = format!("{name:<20}");
    for (cell, width) in cells.iter().zip([9, 9, 11, 10, 10, 10]) {
        // A String takes every write.
        write!(line, "{cell:>width$}").ok();
    }
    line
}

/// What a boot and an installation wait for the device alone.
pub(super) fn boot_times(page: &mut Page, record: &RunRecord) {
    let seconds = |wanted: &str| {
        let named = |p: &&PhaseRecord| p.test.as_ref().is_some_and(|test| test.name == wanted);
        record.phases.iter().find(named).map(|phase| phase.totals.took().as_secs_f64())
    };
    let boots = [("R2-boot", ""), ("R2-boot-uefi", "UEFI "), ("R2-boot-bios", "BIOS ")];
    let boots: Vec<(&str, f64)> =
        boots.iter().filter_map(|(name, word)| Some((*word, seconds(name)?))).collect();
    for (firmware, boot) in &boots {
        page.field(
            "boot",
            &format!("{firmware}waits {boot:.2} s for the device on the way to a login"),
        );
    }
    if let (Some((_, boot)), Some(copy)) = (boots.first(), seconds("R3-install")) {
        page.field(
            "install",
            &format!("{:.2} s: the boot, then the copy of its files", boot + copy),
        );
        page.field(
            "",
            "These are lower bounds: the processor's share comes on top, the same for every stick.",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::measure::{Direction, Latency, Measured};
    use crate::event::{Phase, PhaseTotals};
    use crate::meter::series::Summary;

    fn phase(name: &str, bytes: u64, ios: u64, nanos: u64) -> PhaseRecord {
        let phase = Phase::TestRead;
        let (longest_stall_nanos, stall_at_nanos) = (0, 0);
        PhaseRecord {
            totals: PhaseTotals { phase, bytes, ios, nanos, longest_stall_nanos, stall_at_nanos },
            total: None,
            ended: true,
            summary: Summary::default(),
            rows: vec![],
            test: Some(Test {
                name: name.to_owned(),
                direction: Direction::Read,
                ..Test::default()
            }),
            measured: Some(Measured {
                latency: Some(Latency {
                    p50_nanos: 85_200,
                    p99_nanos: 1_230_000,
                    max_nanos: 2_400_000_000,
                    ..Latency::default()
                }),
                ..Measured::default()
            }),
        }
    }

    fn shown(phases: Vec<PhaseRecord>) -> String {
        let record = RunRecord { phases, ..RunRecord::default() };
        let mut page = Page::default();
        table(&mut page, &record);
        boot_times(&mut page, &record);
        page.0
    }

    #[test]
    fn b99_497_ios_of_1_mib_a_second_are_521_1_mb_a_second() {
        let text = shown(vec![phase("SEQ1M-Q8T1-Read", 497 << 20, 497, 1_000_000_000)]);
        assert!(text.contains("SEQ1M-Q8T1-Read         521.1    497.0      497.0"), "{text}");
        assert!(text.contains("85.2 us   1.23 ms"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        // A twelfth of a MB/s is not a MB/s.
        let slow = shown(vec![phase("RND4K-Q1T1-Read", 500_000, 122, 1_000_000_000)]);
        assert!(slow.contains("0.50"), "{slow}");
    }

    #[test]
    fn a_boot_is_what_its_reads_took() {
        let text = shown(vec![
            phase("R2-boot-bios", 70 << 20, 4_000, 3_000_000_000),
            phase("R2-boot-uefi", 70 << 20, 1_800, 2_000_000_000),
            phase("R3-install", 240 << 20, 2_000, 8_000_000_000),
        ]);
        assert!(text.contains("UEFI waits 2.00 s") && text.contains("BIOS waits 3.00 s"), "{text}");
        assert!(text.contains("10.00 s: the boot"), "{text}");
    }
}
