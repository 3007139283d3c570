//! One synthetic run for the golden tests of reports and screens: an 8 GiB image on a USB stick
//! that writes flat out at 3/4 of a 5 Gbit/s link, with one stall of 2.4 s. Made by the real
//! meter on a virtual clock, so the numbers are those a run would give.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::record::{Busy, Settings, SourceFacts};
use super::{RecordBuilder, RunRecord};
use crate::device::facts::{Bus, Facts, Usb};
use crate::device::{Caches, Geometry};
use crate::digest::chunks::{LEAF, StoredMap};
use crate::event::{Ending, Event, Events, Observer as _, Phase, Span, Verdict};
use crate::host::facts::HostFacts;
use crate::meter::Meter;
use crate::time::SimClock;

pub(crate) const SHA256: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const MIB: u64 = 1 << 20;
const IMAGE: u64 = 8192 * MIB;

struct Lab {
    clock: Arc<SimClock>,
    events: Events,
    received: Receiver<Event>,
}

impl Lab {
    fn new() -> Self {
        let (events, received) = Events::channel();
        Self { clock: Arc::default(), events, received }
    }

    fn phase(&self, phase: Phase, total: Option<u64>, work: impl FnOnce(&Meter)) {
        let meter = Meter::start(phase, total, self.clock.clone(), self.events.clone());
        work(&meter);
        meter.finish();
    }

    fn idle(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    fn ios(&self, meter: &Meter, count: u64, micros: u64) {
        for _ in 0..count {
            let started = meter.now();
            self.clock.advance(Duration::from_micros(micros));
            meter.io(started, MIB);
        }
    }
}

/// Everything the engine says during the run.
pub(crate) fn events() -> Vec<Event> {
    let lab = Lab::new();
    let emit = |event| lab.events.emit(event);
    lab.phase(Phase::Settle, None, |_| {
        lab.idle(120);
    });
    lab.phase(Phase::Clear, Some(2 * MIB), |meter| {
        lab.ios(meter, 2, 3_000);
    });
    emit(Event::Cleared { signatures: vec!["GPT".to_owned(), "ext4 \u{1b}[31mroot".to_owned()] });
    lab.phase(Phase::Discard, Some(IMAGE), |_| lab.idle(800));
    emit(Event::DiscardChunk { span: Span { offset: 0, len: IMAGE }, nanos: 800_000_000 });
    lab.phase(Phase::Write, Some(IMAGE), |meter| {
        lab.ios(meter, 4_000, 2_800);
        meter.tick();
        lab.idle(2_400);
        lab.ios(meter, 4_192, 2_800);
    });
    emit(Event::SourceRead { bytes: IMAGE, sha256: Some(SHA256.to_owned()), mapped_sha256: None });
    emit(Event::SourceVerdict(Verdict::Matched { bytes: IMAGE }));
    lab.phase(Phase::Flush, None, |_| lab.idle(840));
    lab.phase(Phase::Release, Some(MIB), |meter| {
        lab.ios(meter, 1, 9_000);
    });
    emit(Event::HeadReleased);
    emit(Event::Warning {
        code: "undefeated-cache".to_owned(),
        message: "the drive's own cache may answer for the medium".to_owned(),
    });
    lab.phase(Phase::Verify, Some(IMAGE), |meter| {
        lab.ios(meter, 8_192, 2_660);
    });
    emit(Event::MediaVerdict(Verdict::Matched { bytes: IMAGE }));
    let message = "written and verified".to_owned();
    emit(Event::Finished(Ending { exit_code: 0, message, hint: None, place: None }));
    lab.received.try_iter().collect()
}

/// The record of these events.
pub(crate) fn record() -> RunRecord {
    let command = ["mediawriter", "flash", "noble desktop.iso", "/dev/sdb"].map(str::to_owned);
    let mut builder = RecordBuilder::new(&command, "2026-03-01T12:00:00Z".to_owned());
    builder.edit(facts);
    for event in &events() {
        builder.on(event);
    }
    builder.record()
}

fn facts(record: &mut RunRecord) {
    "0.1.0".clone_into(&mut record.version);
    record.host = HostFacts {
        kernel: Some("6.8.0-45-generic".to_owned()),
        machine: Some("x86_64".to_owned()),
        cpu: Some("AMD Ryzen 7 5800X 8-Core Processor".to_owned()),
        cores: Some(16),
        memory: Some(32 << 30),
        page_size: Some(4096),
    };
    record.device = Some(Facts {
        path: "/dev/sdb".into(),
        name: "sdb".to_owned(),
        size: 256_060_514_304,
        logical_block: 512,
        physical_block: 4096,
        bus: Bus::Usb,
        usb: Some(Usb {
            speed_mbit: Some(5_000),
            driver: Some("uas".to_owned()),
            port: Some("2-1.4".to_owned()),
            ..Usb::default()
        }),
        vendor: Some("BUFFALO".to_owned()),
        model: Some("SSD-PUT".to_owned()),
        serial: Some("4C53\u{1b}0001".to_owned()),
        revision: Some("1.00".to_owned()),
        ..Facts::default()
    });
    record.geometry = Some(Geometry {
        size: 256_060_514_304,
        logical_block: 512,
        physical_block: 4096,
        direct: true,
        discard_granularity: 4096,
        caches: Caches {
            defeated: vec!["page cache (O_DIRECT)".to_owned()],
            undefeated: vec!["the drive's own cache".to_owned()],
        },
    });
    record.source = Some(SourceFacts {
        name: "noble desktop.iso".to_owned(),
        kind: "file".to_owned(),
        size: None,
        sha256_expected: Some(SHA256.to_owned()),
        sha256_actual: None,
        mapped_sha256: None,
        file: None,
    });
    record.settings = Some(Settings {
        block_size: MIB,
        queue_depth: 2,
        direct: true,
        discard: "trim".to_owned(),
    });
    record.busy = vec![Busy {
        phase: Phase::Write,
        source_nanos: 300_000_000,
        hash_nanos: 700_000_000,
        device_nanos: 49_000_000_000,
    }];
    record.chunk_map = Some(StoredMap {
        leaf_bytes: LEAF,
        level: 2,
        len: IMAGE,
        entries: vec!["00".repeat(16); 3],
    });
}
