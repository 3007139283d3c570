//! A record as a text for people: what the run cost in time and why, what the checks found.
//! Byte-stable: the same record gives the same text in every locale. At most 80 columns wide, so
//! it can be read in a narrow terminal and pasted into a mail. Strings of the record may come
//! from devices and strangers' files; all are cleaned.

use std::path::Path;
use std::time::Duration;

use super::bottleneck;
use super::page::{Page, cells, number, short};
use super::record::{Compared, FileFacts, PhaseRecord, RunRecord};
use super::{runs, tests_table};
use crate::analysis::Confidence;
use crate::device::Geometry;
use crate::device::facts::{Bus, Facts};
use crate::event::{BadRange, Phase, Span, Verdict, notice};
use crate::text::printable;
use crate::units::{Bytes, MIB, Rate, brief, spoken};

/// Bad ranges that are listed; the record has more.
const RANGES: usize = 20;
/// Notes of no use to a reader: a machine without a desktop has neither lock to take, and what
/// was said of a slower write while it went on is a verdict by now.
const HIDDEN: [&str; 3] = [notice::NO_SLEEP_LOCK, notice::NO_POWER_PROFILE, notice::SLOWED_DOWN];
/// Tests of a benchmark that have a table each.
const TABLES: usize = 3;

/// The timing report of a run.
pub fn timing_report(record: &RunRecord) -> String {
    let mut page = Page::default();
    heading(&mut page, record);
    page.blank();
    circumstances(&mut page, record);
    tests_table::setting(&mut page, record);
    page.blank();
    // More tests than these are read as one table.
    let many = record.phases.iter().filter(|phase| phase.test.is_some()).count() > TABLES;
    for phase in &record.phases {
        if phase.test.is_some() && many {
            continue;
        }
        if has_table(phase) {
            page.blank();
            table(&mut page, phase, record);
            page.blank();
        } else {
            one_line(&mut page, phase, record);
        }
    }
    page.blank();
    if record.bench.is_some() {
        tests_table::table(&mut page, record);
        tests_table::boot_times(&mut page, record);
    } else if !only_probed(record) {
        boot_read(&mut page, record);
        compared(&mut page, record);
        page.field("bottleneck", &bottleneck::sentence(record));
    }
    page.blank();
    findings(&mut page, record);
    page.0
}

fn heading(page: &mut Page, record: &RunRecord) {
    let what = format!("mediawriter {} timing report", printable(&record.version));
    if record.succeeded() {
        page.line(&what);
        return;
    }
    // Every byte was read and compared: the check is complete, its answer is no.
    let differs = matches!(record.media_verdict, Some(Verdict::Mismatched { .. }));
    let fake = record.capacity.as_ref().is_some_and(|capacity| !capacity.is_as_claimed());
    let answer = match (fake, differs) {
        (true, _) => "NOT AS CLAIMED",
        (false, true) => "DIFFERS",
        (false, false) => "INCOMPLETE",
    };
    page.line(&format!("{answer} - {what}"));
    match &record.ending {
        None => page.field("", "The run was cut off: the record has no ending."),
        Some(ending) => {
            page.field("", &format!("{} (exit code {})", ending.message, ending.exit_code));
            let told = |at: &Span| ending.message.contains(&format!("at offset {}", at.offset));
            if let Some(place) = ending.place.filter(|at| !told(at)) {
                page.field("", &format!("at offset {}, length {}", place.offset, place.len));
            }
            if let Some(hint) = &ending.hint {
                page.field("", &format!("try: {hint}"));
            }
        }
    }
}

fn circumstances(page: &mut Page, record: &RunRecord) {
    page.field(
        "command",
        &record.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    );
    page.field("started", &record.started);
    let host = &record.host;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    let cores = host.cores.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let memory = host.memory.map_or_else(|| "?".to_owned(), |n| Bytes(n).binary());
    page.field(
        "host",
        &format!(
            "Linux {} {}; {}; {cores} cores; {memory} memory",
            known(&host.kernel),
            known(&host.machine),
            known(&host.cpu)
        ),
    );
    if record.slept_nanos > 0 {
        let slept = spoken(Duration::from_nanos(record.slept_nanos));
        page.field(
            "",
            &format!("The host was suspended for {slept} during the run: do not compare it."),
        );
    }
    if let Some(facts) = &record.device {
        device(page, facts);
    }
    if let Some(geometry) = &record.geometry {
        access(page, geometry);
    }
    if let Some(settings) = &record.settings {
        let size = Bytes(settings.block_size).binary();
        let (depth, discard) = (settings.queue_depth, &settings.discard);
        page.field("settings", &format!("{size} per I/O, {depth} in flight; discard: {discard}"));
    }
    if let Some(source) = &record.source {
        let size = source.size.map(|size| format!(", {}", Bytes(size))).unwrap_or_default();
        page.field("source", &format!("{} ({}){size}", source.name, source.kind));
        if let Some(sha256) = &source.sha256_actual {
            page.field("SHA-256", sha256);
        } else if source.mapped_sha256.is_some() {
            page.field("SHA-256", "of what is mapped alone, range by range");
        }
        if let Some(map) = &record.block_map {
            page.field("map", &map.to_string());
        }
        if let Some(file) = &source.file {
            file_facts(page, file);
        }
        if source.sha256_expected.is_some() && source.sha256_expected != source.sha256_actual {
            page.field("published", source.sha256_expected.as_deref().unwrap_or_default());
        }
    }
}

/// The file that the image came in.
fn file_facts(page: &mut Page, file: &FileFacts) {
    let size =
        file.size.map_or_else(|| "size not known".to_owned(), |size| Bytes(size).to_string());
    let packed = if file.packed.is_empty() { "as is" } else { &file.packed };
    page.field("file", &format!("{packed}, {size}"));
    if let Some(sha256) = &file.sha256_actual {
        page.field("  SHA-256", sha256);
    }
    if let Some(sha512) = &file.sha512_actual {
        page.field("  SHA-512", sha512);
    }
    let matches = |own: &Option<String>| *own == file.digest_expected;
    if let Some(wanted) = &file.digest_expected
        && !matches(&file.sha256_actual)
        && !matches(&file.sha512_actual)
    {
        page.field("published", wanted);
    }
}

/// A word as one would type it in a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn device(page: &mut Page, facts: &Facts) {
    let names = [&facts.vendor, &facts.model].map(|name| name.as_deref().unwrap_or_default());
    let mut parts = vec![path(&facts.path)];
    parts.push(names.join(" ").trim().to_owned());
    parts.extend(facts.serial.as_ref().map(|serial| format!("serial {serial}")));
    parts.extend(facts.revision.as_ref().map(|revision| format!("firmware {revision}")));
    parts.push(Bytes(facts.size).to_string());
    parts.retain(|part| !part.is_empty());
    page.field("device", &parts.join(", "));
    let mut link = vec![bus(facts.bus).to_owned()];
    if let Some(usb) = &facts.usb {
        link.extend(usb.speed_mbit.map(|speed| format!("link {speed} Mbit/s")));
        link.extend(usb.version.as_ref().map(|version| format!("device says USB {version}")));
        link.extend(usb.driver.as_ref().map(|driver| format!("driver {driver}")));
        link.extend(usb.port.as_ref().map(|port| format!("port {port}")));
    }
    page.field("bus", &link.join(", "));
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn bus(bus: Bus) -> &'static str {
    match bus {
        Bus::Usb => "USB",
        Bus::Sd => "SD card",
        Bus::Mmc => "eMMC",
        Bus::Nvme => "NVMe",
        Bus::Ata => "ATA",
        Bus::Virtio => "virtio",
        Bus::Scsi => "SCSI",
        Bus::External => "external bus",
        Bus::Loop => "loop device",
        Bus::Zram => "zram",
        Bus::Ram => "RAM disk",
        Bus::Nbd => "network block device",
        Bus::Dm => "device mapper",
        Bus::Md => "software RAID",
        Bus::Optical => "optical drive",
        Bus::File => "regular file",
        Bus::Sim => "simulated device",
        Bus::Other => "unknown bus",
    }
}

fn access(page: &mut Page, geometry: &Geometry) {
    let (logical, physical) = (geometry.logical_block, geometry.physical_block);
    page.field("sectors", &format!("{logical} bytes logical, {physical} bytes physical"));
    let direct = if geometry.direct {
        "O_DIRECT: around the page cache"
    } else {
        "through the page cache: writes are synchronous, reads come after the cache was dropped"
    };
    page.field("access", direct);
    let list = |names: &[String]| {
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let caches = &geometry.caches;
    page.field("caches", &format!("defeated: {}", list(&caches.defeated)));
    page.field("", &format!("not defeated: {}", list(&caches.undefeated)));
}

fn table(page: &mut Page, phase: &PhaseRecord, record: &RunRecord) {
    let totals = &phase.totals;
    if let Some(test) = &phase.test {
        page.field("test", &test.name);
    }
    let name = totals.phase.name();
    page.field(name, &format!("{} bytes = {}", totals.bytes, Bytes(totals.bytes)));
    let (seconds, ios) = (totals.took().as_secs_f64(), totals.ios);
    let ended = if phase.ended { "" } else { "; cut off" };
    page.field("", &format!("{seconds:.3} seconds, {ios} I/Os{ended}"));
    let sum = &phase.summary;
    let mean = totals.rate().bytes_per_second;
    let rest = [
        sum.median_bytes_per_s,
        sum.p1_bytes_per_s,
        sum.slowest_bytes_per_s,
        sum.fastest_bytes_per_s,
    ];
    let speeds: Vec<f64> =
        std::iter::once(mean).chain(rest.into_iter().map(|speed| speed as f64)).collect();
    let heads = ["mean", "median", "p1 (slow)", "slowest s", "fastest s"];
    page.line(&cells("", heads.map(str::to_owned)));
    for (unit, scale) in [("MB/s", 1e6), ("MiB/s", MIB as f64)] {
        page.line(&cells(unit, speeds.iter().map(|speed| number(speed / scale))));
    }
    let (stall, at) = (short(totals.longest_stall_nanos), short(totals.stall_at_nanos));
    page.field("", &format!("longest stall {stall}, after {at}"));
    let (below, all, nothing) =
        (sum.seconds_below_half_median, sum.seconds, sum.seconds_of_nothing);
    page.field(
        "",
        &format!("below half the median: {below} of {all} s; nothing completed: {nothing} s"),
    );
    let brief = |nanos| brief(Duration::from_nanos(nanos));
    if let Some(latency) = phase.measured.as_ref().and_then(|measured| measured.latency.as_ref()) {
        page.field(
            "",
            &format!(
                "latency: median {}, p99 {}, p99.9 {}, slowest {}",
                brief(latency.p50_nanos),
                brief(latency.p99_nanos),
                brief(latency.p999_nanos),
                brief(latency.max_nanos)
            ),
        );
    }
    for change in record.io_sizes.iter().filter(|change| change.phase == totals.phase) {
        page.field(
            "",
            &format!("slow device: {} per I/O from then on", Bytes(change.bytes).binary()),
        );
    }
    verdicts(page, phase, record);
}

/// What the speeds of a phase say, but for what the line on the bottleneck says of it.
fn verdicts(page: &mut Page, phase: &PhaseRecord, record: &RunRecord) {
    let link = format!("the link: {} ", phase.totals.phase.name());
    let told = record.bench.is_none() && bottleneck::sentence(record).starts_with(&link);
    let findings = runs::judged(record, phase).into_iter().flat_map(|analysis| analysis.findings);
    for finding in findings.filter(|finding| !(told && finding.code == "link-limited")) {
        let doubt = match finding.confidence {
            Confidence::Certain => String::new(),
            other => format!(" ({})", other.name()),
        };
        page.field("", &format!("- {}{doubt}", finding.sentence));
    }
}

/// Whether speeds are worth a table: those of the two passes always, others from a second on.
fn has_table(phase: &PhaseRecord) -> bool {
    let long = matches!(
        phase.totals.phase,
        Phase::Write
            | Phase::Update
            | Phase::Verify
            | Phase::Download
            | Phase::TestWrite
            | Phase::TestRead
    ) || phase.totals.took() >= Duration::from_secs(1);
    phase.totals.bytes > 0 && long
}

/// Phases of which the time is all there is to say.
fn one_line(page: &mut Page, phase: &PhaseRecord, record: &RunRecord) {
    let mut text = format!("{:.3} seconds", phase.totals.took().as_secs_f64());
    if phase.totals.bytes > 0 {
        text.push_str(", ");
        text.push_str(&Bytes(phase.totals.bytes).binary());
    }
    match phase.totals.phase {
        Phase::Flush => text.push_str(&with_flush(record).unwrap_or_default()),
        Phase::Discard => text.push_str(&chunks(record).unwrap_or_default()),
        Phase::Settle
        | Phase::Clear
        | Phase::ZeroOut
        | Phase::Write
        | Phase::Update
        | Phase::Release
        | Phase::Verify
        | Phase::Sample
        | Phase::Files
        | Phase::TestWrite
        | Phase::TestRead
        | Phase::Probe
        | Phase::Rest
        | Phase::Download => {}
    }
    if !phase.ended {
        text.push_str("; cut off");
    }
    page.field(phase.totals.phase.name(), &text);
}

fn chunks(record: &RunRecord) -> Option<String> {
    let slowest = record.discard_chunks.iter().map(|chunk| chunk.nanos).max()?;
    Some(format!("; chunks: {}, the slowest {}", record.discard_chunks.len(), short(slowest)))
}

/// What was written over the time of writing and flushing: what was waited for.
fn with_flush(record: &RunRecord) -> Option<String> {
    // A small image is held back whole and leaves nothing for this phase.
    let write = record.phase(Phase::Write).filter(|write| write.totals.bytes > 0)?;
    let flushes = record.phases.iter().filter(|phase| phase.totals.phase == Phase::Flush);
    let took =
        flushes.fold(write.totals.took(), |sum, flush| sum.saturating_add(flush.totals.took()));
    Some(format!("; write with flush: {}", Rate::of(write.totals.bytes, took)))
}

/// Firmware and installers read the image from its start; the read-back does the same.
fn boot_read(page: &mut Page, record: &RunRecord) {
    // Of what was written only here and there, only that was read back.
    if record.compared.is_some() {
        return;
    }
    let Some(read) = record.phase(Phase::Verify).filter(|phase| phase.totals.bytes > 0) else {
        return;
    };
    let mut text = format!("boot-read, sequential  {}", read.totals.rate());
    if read.totals.took() < bottleneck::SHORTEST {
        text.push_str("  (too short to judge)");
    }
    page.line(&text);
}

/// What a medium that was written only where it differed was spared.
fn compared(page: &mut Page, record: &RunRecord) {
    let Some(Compared { equal, written }) = record.compared else { return };
    let text = format!(
        "{} were there already and were left, {} were written; the speeds of the update are those of reading and \
         writing together",
        Bytes(equal),
        Bytes(written)
    );
    page.field("compared", &text);
}

/// A probe of the capacity and nothing else: there is no image.
fn only_probed(record: &RunRecord) -> bool {
    record.capacity.is_some() && record.source.is_none()
}

fn findings(page: &mut Page, record: &RunRecord) {
    if let Some(capacity) = &record.capacity {
        page.field("capacity", &capacity.to_string());
    }
    let measured = record.bench.is_some() || only_probed(record);
    for (label, verdict) in [("source", &record.source_verdict), ("medium", &record.media_verdict)]
    {
        let download = record.phases.iter().any(|phase| phase.totals.phase == Phase::Download);
        if (label == "medium" && download || measured) && verdict.is_none() {
            continue;
        }
        let missing = || "not checked".to_owned();
        page.field(label, &verdict.as_ref().map_or_else(missing, ToString::to_string));
        if let Some(voucher) = record.voucher.as_ref().filter(|_| label == "source") {
            page.field("", &voucher.to_string());
        }
        if let Some(Verdict::Mismatched { findings, .. }) = verdict {
            for finding in findings {
                page.field("", &format!("- {finding}"));
            }
        }
    }
    if let Some(unbootable) = &record.made_unbootable {
        page.field("", &unbootable.message);
    }
    bad_ranges(page, &record.bad_ranges, record.media_verdict.as_ref());
    for remark in &record.warnings {
        page.field("warning", &format!("{} [{}]", remark.message, remark.code));
    }
    for remark in record.notes.iter().filter(|remark| !HIDDEN.contains(&&*remark.code)) {
        page.field("note", &format!("{} [{}]", remark.message, remark.code));
    }
}

fn bad_ranges(page: &mut Page, ranges: &[BadRange], verdict: Option<&Verdict>) {
    for range in ranges.iter().take(RANGES) {
        let exact = if range.exact { "" } else { " (whole chunks)" };
        let (offset, len, detail) = (range.span.offset, range.span.len, &range.detail);
        page.field("bad", &format!("offset {offset}, {len} bytes{exact}: {detail}"));
    }
    let counted = match verdict {
        Some(Verdict::Mismatched { ranges, .. }) => *ranges,
        Some(Verdict::Matched { .. } | Verdict::NotChecked { .. }) | None => 0,
    };
    let more = counted.max(ranges.len() as u64).saturating_sub(ranges.len().min(RANGES) as u64);
    if more > 0 {
        page.field("", &format!("... and {more} more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ending;
    use crate::report::lab;
    use crate::report::page::WIDTH;
    use crate::report::record::IoSizeChange;

    const GOLDEN: &str = include_str!("golden/flash.txt");

    #[test]
    fn the_report_of_a_flash_is_byte_stable() {
        let text = timing_report(&lab::record());
        assert_eq!(text, GOLDEN, "\n{text}");
    }

    #[test]
    fn no_line_is_wider_than_80_columns_whatever_the_names() {
        let mut record = lab::record();
        record.command.push("x".repeat(300));
        record.source.get_or_insert_default().name = "long name ".repeat(40);
        for line in timing_report(&record).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn a_failed_run_is_headed_incomplete_and_says_what_to_try() {
        let mut record = lab::record();
        record.ending = Some(Ending {
            exit_code: 1,
            message: "the device went away".to_owned(),
            hint: Some("another port".to_owned()),
            place: Some(Span { offset: 4096, len: 512 }),
        });
        let text = timing_report(&record);
        assert!(text.starts_with("INCOMPLETE - mediawriter 0.1.0 timing report\n"), "{text}");
        for part in [
            "the device went away (exit code 1)",
            "at offset 4096, length 512",
            "try: another port",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        record.ending = None;
        assert!(timing_report(&record).contains("The run was cut off"));
    }

    #[test]
    fn a_mismatch_lists_ranges_and_counts_the_rest() {
        let mut record = lab::record();
        let range = |offset| BadRange {
            span: Span { offset, len: 4096 },
            exact: offset > 0,
            detail: "zeros were read\u{7}".to_owned(),
        };
        record.bad_ranges = (0..25).map(range).collect();
        let findings = vec!["looks like a fake".to_owned()];
        record.media_verdict = Some(Verdict::Mismatched { bad_bytes: 8192, ranges: 31, findings });
        let text = timing_report(&record);
        for part in [
            "medium      DIFFERS in 31 ranges, 8.00 KiB (8.19 kB) in all\n",
            "            - looks like a fake\n",
            "bad         offset 0, 4096 bytes (whole chunks): zeros were read\\u{7}\n",
            "bad         offset 1, 4096 bytes: zeros",
            "            ... and 11 more\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn short_phases_and_lowered_sizes_carry_their_caution() {
        let mut record = lab::record();
        record.io_sizes = vec![IoSizeChange { phase: Phase::Write, bytes: 256 << 10 }];
        record.slept_nanos = 5_000_000_000;
        let verify = record.phases.iter_mut().find(|p| p.totals.phase == Phase::Verify);
        verify.unwrap().totals.nanos = 2_999_999_999;
        let text = timing_report(&record);
        for part in [
            "slow device: 256.0 KiB per I/O from then on",
            "MiB/s)  (too short to judge)",
            "The host was suspended for 5.00 s",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn an_empty_or_absurd_record_is_no_panic() {
        let text = timing_report(&RunRecord::default());
        assert!(text.contains("medium      not checked\n"), "{text}");
        let mut record = lab::record();
        for phase in &mut record.phases {
            phase.totals.nanos = u64::MAX;
            phase.totals.bytes = u64::MAX;
            phase.summary.p1_bytes_per_s = u64::MAX;
            phase.rows.clear();
        }
        assert!(timing_report(&record).lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn words_are_quoted_as_one_would_type_them() {
        for (word, typed) in
            [("a.iso", "a.iso"), ("", "''"), ("two words", "'two words'"), ("it's", "'it'\\''s'")]
        {
            assert_eq!(quoted(word), typed);
        }
    }
}
