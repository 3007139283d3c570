//! One measured pass, whatever it came from: a phase of a record, a job of fio, a log. Everything
//! that compares or draws takes this and nothing else. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::{PhaseRecord, RunRecord};
use crate::analysis::{Analysis, Input, Link, Series, judge};
use crate::device::facts::Facts;
use crate::event::measure::{Direction, Latency, Order};
use crate::event::{Phase, PhaseTotals, Sample};
use crate::meter::series::Summary;
use crate::text::printable;

/// A pass over a medium. Sizes in bytes, times in nanoseconds. Texts are clean.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Which device, as a person calls it; runs of one device have the same.
    pub device: String,
    /// What was done: `write`, `verify`, `image-write`, `SEQ1M-Q8T1-Read`.
    pub test: String,
    /// Reads or writes.
    pub direction: Direction,
    /// In which order.
    pub order: Order,
    /// Repetition, from 1.
    pub round: u32,
    /// First byte on the medium.
    pub offset: u64,
    /// Bytes per I/O; 0 = not known.
    pub block: u64,
    /// I/Os in flight; 0 = not known.
    pub queue_depth: u32,
    /// Bytes, I/Os, time, longest stall.
    #[serde(flatten)]
    pub totals: PhaseTotals,
    /// Whether the pass was seen to end.
    pub ended: bool,
    /// Statistics over its seconds.
    pub summary: Summary,
    /// Times of single I/Os.
    pub latency: Option<Latency>,
    /// Processor time of the program, user and system, where a benchmark took it.
    pub cpu_nanos: Option<u64>,
    /// Conditions by name, in words: what two runs may differ in.
    pub conditions: BTreeMap<&'static str, String>,
    /// What the person noted.
    pub labels: BTreeMap<String, String>,
    /// What the series says.
    pub analysis: Analysis,
    /// Where it was read from.
    pub source: String,
    /// The seconds; not part of the JSON, which has the records for that.
    #[serde(skip)]
    pub rows: Vec<Sample>,
}

/// Conditions that must be equal before two runs are ranked.
pub const DECISIVE: [&str; 4] = ["bytes", "link", "block", "in flight"];

impl Run {
    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.totals.rate().bytes_per_second
    }

    /// The time it took, seconds.
    pub fn seconds(&self) -> f64 {
        self.totals.took().as_secs_f64()
    }

    /// I/Os a second.
    pub fn iops(&self) -> f64 {
        let seconds = self.seconds();
        if seconds > 0.0 { self.totals.ios as f64 / seconds } else { 0.0 }
    }

    /// As a line of a chart is called.
    pub fn label(&self) -> String {
        if self.round > 1 {
            format!("{} #{}", self.device, self.round)
        } else {
            self.device.clone()
        }
    }
}

/// What a run is made of where there is no record.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// As [`Run::device`].
    pub device: String,
    /// As [`Run::test`].
    pub test: String,
    /// As [`Run::direction`].
    pub direction: Direction,
    /// As [`Run::order`].
    pub order: Order,
    /// As [`Run::block`].
    pub block: u64,
    /// As [`Run::queue_depth`].
    pub queue_depth: u32,
    /// The seconds, without gaps.
    pub rows: Vec<Sample>,
    /// I/Os, where they are known beyond the rows.
    pub ios: u64,
    /// Bytes and nanoseconds, where they are known beyond the rows.
    pub totals: Option<(u64, u64)>,
    /// As [`Run::latency`].
    pub latency: Option<Latency>,
    /// As [`Run::source`].
    pub source: String,
}

impl From<Parts> for Run {
    fn from(parts: Parts) -> Self {
        let (bytes, nanos) = crate::meter::series::sums(parts.rows.iter());
        let (bytes, nanos) = parts.totals.unwrap_or((bytes, nanos));
        let (stall_at_nanos, longest_stall_nanos) = longest_zeros(&parts.rows);
        let phase = phase_of(parts.direction);
        let ios = parts.ios;
        let totals = PhaseTotals { phase, bytes, ios, nanos, longest_stall_nanos, stall_at_nanos };
        let mut run = Self {
            device: printable(&parts.device),
            test: printable(&parts.test),
            direction: parts.direction,
            order: parts.order,
            round: 1,
            offset: 0,
            block: parts.block,
            queue_depth: parts.queue_depth,
            totals,
            ended: true,
            summary: Summary::of(&totals, &parts.rows),
            latency: parts.latency,
            cpu_nanos: None,
            conditions: BTreeMap::new(),
            labels: BTreeMap::new(),
            analysis: Analysis::default(),
            source: printable(&parts.source),
            rows: parts.rows,
        };
        run.condition();
        run.judge(None, None, run.block);
        run
    }
}

fn phase_of(direction: Direction) -> Phase {
    match direction {
        Direction::Read => Phase::TestRead,
        Direction::Write => Phase::TestWrite,
    }
}

/// The longest run of rows without bytes: start and length.
fn longest_zeros(rows: &[Sample]) -> (u64, u64) {
    let (mut at, mut best, mut here, mut now) = (0, (0, 0), 0, 0);
    for row in rows {
        if row.bytes == 0 {
            if here == 0 {
                at = now;
            }
            here += row.nanos;
            if here > best.1 {
                best = (at, here);
            }
        } else {
            here = 0;
        }
        now += row.nanos;
    }
    best
}

impl Run {
    fn condition(&mut self) {
        self.conditions.insert("bytes", self.totals.bytes.to_string());
        if self.block > 0 {
            self.conditions.insert("block", self.block.to_string());
        }
        if self.queue_depth > 0 {
            self.conditions.insert("in flight", self.queue_depth.to_string());
        }
    }

    /// `block` is the smallest that was used.
    fn judge(&mut self, link: Option<Link>, device_size: Option<u64>, block: u64) {
        let series = Series::of(&self.rows);
        self.analysis = judge(&Input {
            series: &series,
            direction: self.direction,
            block,
            queue_depth: self.queue_depth,
            link,
            device_size,
        });
    }
}

/// The passes of a record: each test of a benchmark, the write and the read-back of a flash.
pub fn of_record(record: &RunRecord, source: &str) -> Vec<Run> {
    record.phases.iter().filter_map(|phase| of_phase(record, phase, source)).collect()
}

/// The verdicts over a phase; `None` of phases that say nothing of the device, as that which reads and
/// writes by turns.
pub(super) fn judged(record: &RunRecord, phase: &PhaseRecord) -> Option<Analysis> {
    of_phase(record, phase, "").map(|run| run.analysis)
}

fn of_phase(record: &RunRecord, phase: &PhaseRecord, source: &str) -> Option<Run> {
    let kind = phase.totals.phase;
    let test = match (&phase.test, kind) {
        (Some(test), _) => test.clone(),
        (None, Phase::Write | Phase::Verify) => {
            let settings = record.settings.clone().unwrap_or_default();
            crate::event::measure::Test {
                name: kind.name().to_owned(),
                direction: if kind == Phase::Write { Direction::Write } else { Direction::Read },
                block: settings.block_size,
                queue_depth: settings.queue_depth,
                threads: 1,
                round: 1,
                ..crate::event::measure::Test::default()
            }
        }
        _ => return None,
    };
    if phase.totals.bytes == 0 {
        return None;
    }
    let facts = record.device.as_ref();
    let mut conditions = conditions(record);
    if test.threads > 1 {
        conditions.insert("threads", test.threads.to_string());
    }
    if !test.engine.is_empty() {
        conditions.insert("engine", printable(&test.engine));
    }
    let mut run = Run {
        device: facts.map_or_else(|| "unknown device".to_owned(), name),
        test: printable(&test.name),
        direction: test.direction,
        order: test.order,
        round: test.round.max(1),
        offset: test.span.offset,
        block: test.block,
        queue_depth: test.queue_depth,
        totals: phase.totals,
        ended: phase.ended,
        summary: phase.summary,
        latency: phase.measured.as_ref().and_then(|measured| measured.latency.clone()),
        cpu_nanos: phase.measured.as_ref().map(|measured| measured.cpu_nanos),
        conditions,
        labels: record.labels.iter().map(|(k, v)| (printable(k), printable(v))).collect(),
        analysis: Analysis::default(),
        source: printable(source),
        rows: phase.rows.clone(),
    };
    run.condition();
    let lowered = record.io_sizes.iter().rfind(|change| change.phase == kind);
    let block = lowered.map_or(run.block, |change| change.bytes);
    run.judge(facts.and_then(link), facts.map(|facts| facts.size), block);
    Some(run)
}

/// Vendor and model, and the end of the serial number where two sticks may be of one kind.
fn name(facts: &Facts) -> String {
    let part = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let name = format!("{} {}", part(&facts.vendor), part(&facts.model));
    let name = name.trim();
    let name = if name.is_empty() { facts.name.as_str() } else { name };
    let serial = part(&facts.serial);
    let tail: String = {
        let chars: Vec<char> = serial.chars().collect();
        chars[chars.len().saturating_sub(4)..].iter().collect()
    };
    printable(&if tail.is_empty() { name.to_owned() } else { format!("{name} ({tail})") })
}

/// The link as verdicts take it.
fn link(facts: &Facts) -> Option<Link> {
    let usb = facts.usb.as_ref()?;
    Some(Link::Usb {
        mbit: usb.speed_mbit?,
        bulk_only: usb.driver.as_deref() == Some("usb-storage"),
        superspeed: usb.superspeed_capable,
    })
}

fn conditions(record: &RunRecord) -> BTreeMap<&'static str, String> {
    let mut known = BTreeMap::new();
    let mut add = |name, value: Option<String>| {
        if let Some(value) = value {
            known.insert(name, printable(&value));
        }
    };
    let usb = record.device.as_ref().and_then(|facts| facts.usb.as_ref());
    add("link", usb.and_then(|usb| usb.speed_mbit).map(|speed| format!("{speed} Mbit/s")));
    add("driver", usb.and_then(|usb| usb.driver.clone()));
    add(
        "direct I/O",
        record.geometry.as_ref().map(|g| if g.direct { "yes" } else { "no" }.to_owned()),
    );
    add("kernel", record.host.kernel.clone());
    add("processor", record.host.cpu.clone());
    add("power profile", record.conditions.power_profile.clone());
    add("governor", record.conditions.governor.clone());
    add("largest request", record.conditions.max_request.map(|bytes| bytes.to_string()));
    let discard = record.settings.as_ref().map(|settings| settings.discard.clone());
    add("before", record.bench.as_ref().map(|bench| bench.precondition.clone()).or(discard));
    if record.slept_nanos > 0 {
        add("host slept", Some("yes".to_owned()));
    }
    known
}

/// What the runs of one comparison differ in: condition, and its values in their order.
pub fn differences(runs: &[&Run]) -> Vec<(&'static str, Vec<String>)> {
    let names: std::collections::BTreeSet<&'static str> =
        runs.iter().flat_map(|run| run.conditions.keys().copied()).collect();
    let mut differing = Vec::new();
    for name in names {
        let mut values: Vec<String> = Vec::new();
        for run in runs {
            let value = run.conditions.get(name).cloned().unwrap_or_else(|| "not known".to_owned());
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if values.len() > 1 {
            differing.push((name, values));
        }
    }
    differing
}

/// Runs of one test, in the order in which the tests were first seen.
pub fn by_test(runs: &[Run]) -> Vec<(String, Vec<&Run>)> {
    let mut groups: Vec<(String, Vec<&Run>)> = Vec::new();
    for run in runs {
        match groups.iter_mut().find(|(test, _)| *test == run.test) {
            Some((_, group)) => group.push(run),
            None => groups.push((run.test.clone(), vec![run])),
        }
    }
    groups
}
