//! One sentence on what limited the speed: source, hashing, link or device. Decided from the
//! record alone, in the order of the strength of the evidence; says "too short" or "not known"
//! rather than guess. What a link carries, and who is limited by it, is in `analysis::link`.

use std::time::Duration;

use super::record::{Busy, PhaseRecord, RunRecord};
use super::runs;
use crate::event::Phase;
use crate::units::{Rate, spoken};

/// A phase shorter than this is little more than one burst into a cache.
pub(super) const SHORTEST: Duration = Duration::from_secs(3);
/// Share of the time that a ceiling must have lasted to be what limited the whole.
const MOST: f64 = 0.7;

/// What limited the run, as a sentence.
pub(super) fn sentence(record: &RunRecord) -> String {
    let moved = |phase: &&PhaseRecord| phase.totals.bytes > 0;
    let phase = [Phase::Write, Phase::Update, Phase::Verify]
        .into_iter()
        .find_map(|phase| record.phase(phase).filter(moved));
    let Some(phase) = phase else {
        return "not known: nothing was written or read.".to_owned();
    };
    let name = phase.totals.phase.name();
    let took = phase.totals.took();
    if took < SHORTEST {
        return format!("too short to judge: {name} took {}.", spoken(took));
    }
    let busy = record.busy.iter().find(|busy| busy.phase == phase.totals.phase);
    busy.and_then(|busy| fed_too_slowly(busy, phase))
        .or_else(|| full_link(record, phase))
        .unwrap_or_else(|| the_device(busy, phase))
}

/// Source or hashing, when it was at work for most of the phase and longer than the device.
fn fed_too_slowly(busy: &Busy, phase: &PhaseRecord) -> Option<String> {
    let share = |nanos| percent(nanos, phase);
    let (source, hash, device) =
        (share(busy.source_nanos), share(busy.hash_nanos), share(busy.device_nanos));
    let (name, most) =
        if source >= hash { ("source: reading it", source) } else { ("hashing: SHA-256", hash) };
    (most >= 70 && most > device).then(|| {
        format!(
            "the {name} took {most} % of the time of {}, the device {device} %.",
            phase.totals.phase.name()
        )
        .replace("the hashing", "hashing")
    })
}

/// The link, when it set the pace for most of the time.
fn full_link(record: &RunRecord, phase: &PhaseRecord) -> Option<String> {
    let analysis = runs::judged(record, phase)?;
    let whole = phase.totals.nanos;
    let lasted = analysis.regimes.first().map_or(whole, |first| first.end_nanos);
    let ceiling = analysis.ceiling.filter(|_| lasted as f64 >= MOST * whole as f64)?;
    Some(format!("the link: {} {ceiling}.", phase.totals.phase.name()))
}

fn the_device(busy: Option<&Busy>, phase: &PhaseRecord) -> String {
    let name = phase.totals.phase.name();
    match busy {
        Some(busy) => {
            let share = percent(busy.device_nanos, phase);
            format!("the device: {name} waited for it {share} % of the time.")
        }
        None => format!(
            "probably the device: {name} at {} fits no ceiling of the link, and what was waited for \
             was not recorded.",
            Rate::of(phase.totals.bytes, phase.totals.took()),
        ),
    }
}

/// Whole percent of the phase.
fn percent(part: u64, phase: &PhaseRecord) -> u128 {
    (u128::from(part) * 100).checked_div(u128::from(phase.totals.nanos)).unwrap_or(0).min(100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::facts::Usb;
    use crate::event::{PhaseTotals, Sample};
    use crate::meter::series::{self, Summary};

    fn run(rows: &[u64], usb: Option<Usb>, busy: Option<[u64; 3]>) -> RunRecord {
        let phase = Phase::Write;
        let row = |second, mb: u64| Sample {
            phase,
            second,
            nanos: 1_000_000_000,
            bytes: mb * 1_000_000,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        };
        let rows: Vec<_> = (0..).zip(rows).map(|(second, mb)| row(second, *mb)).collect();
        let (bytes, nanos) = series::sums(rows.iter());
        let totals =
            PhaseTotals { phase, bytes, ios: 0, nanos, longest_stall_nanos: 0, stall_at_nanos: 0 };
        let summary = Summary::of(&totals, &rows);
        let device = crate::device::facts::Facts { usb, ..Default::default() };
        RunRecord {
            phases: vec![PhaseRecord {
                totals,
                total: None,
                ended: true,
                summary,
                rows,
                test: None,
                measured: None,
            }],
            device: Some(device),
            busy: busy.into_iter().map(|shares| at_work(shares, nanos)).collect(),
            ..RunRecord::default()
        }
    }

    fn usb(speed: u32, driver: &str) -> Usb {
        let driver = Some(driver.to_owned());
        Usb { speed_mbit: Some(speed), driver, superspeed_capable: Some(true), ..Usb::default() }
    }

    /// Shares of the phase in percent: source, hashing, device.
    fn at_work([source, hash, device]: [u64; 3], nanos: u64) -> Busy {
        let of = |share| nanos / 100 * share;
        Busy {
            phase: Phase::Write,
            source_nanos: of(source),
            hash_nanos: of(hash),
            device_nanos: of(device),
        }
    }

    #[test]
    fn the_sentence_follows_the_evidence() {
        let uneven: Vec<u64> = (0..20).map(|i| if i % 2 == 0 { 300 } else { 440 }).collect();
        let late = [vec![90], vec![372; 20]].concat();
        let flat = |speed| vec![speed; 20];
        let (uas, bulk) = (usb(5_000, "uas"), usb(5_000, "usb-storage"));
        for (rows, usb, busy, start) in [
            (vec![370; 2], Some(&uas), None, "too short to judge: write took 2.00 s."),
            (vec![], None, None, "not known: nothing was written"),
            (
                flat(370),
                Some(&uas),
                Some([80, 5, 15]),
                "the source: reading it took 80 % of the time of write, the device 15 %",
            ),
            (
                flat(370),
                Some(&uas),
                Some([5, 75, 35]),
                "hashing: SHA-256 took 75 % of the time of write",
            ),
            (
                flat(370),
                Some(&uas),
                None,
                "the link: write ran flat (varying by 0.0 %) at 74 % of the 500 MB/s that 5000",
            ),
            (late, Some(&uas), Some([1, 1, 98]), "the link:"),
            (uneven, Some(&uas), None, "probably the device:"),
            (flat(120), Some(&uas), Some([1, 2, 97]), "the device: write waited for it 97 %"),
            (flat(250), Some(&uas), None, "probably the device:"),
            (flat(250), Some(&bulk), None, "the link:"),
            (flat(490), Some(&uas), None, "probably the device:"),
            (flat(38), Some(&usb(480, "usb-storage")), None, "the link:"),
            (flat(15), Some(&usb(480, "usb-storage")), None, "probably the device:"),
            (flat(933), Some(&usb(10_000, "uas")), None, "the link: write ran flat"),
            (flat(600), None, None, "probably the device: write at 600.0 MB/s"),
        ] {
            let seen = sentence(&run(&rows, usb.cloned(), busy));
            assert!(seen.starts_with(start), "{seen}\nexpected {start}");
            assert!(seen.ends_with('.'));
        }
    }

    #[test]
    fn a_fast_device_on_a_slow_port_is_told_so() {
        let seen = sentence(&run(&[38; 20], Some(usb(480, "usb-storage")), None));
        assert!(seen.ends_with("the device can do more on a USB 3 port."), "{seen}");
    }
}
