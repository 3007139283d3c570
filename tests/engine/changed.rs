//! Writing only what differs: whatever was on the medium before and whatever goes wrong, what is
//! reported as matching does match; and no more is written than has to be.

use std::sync::Arc;

use crate::common::{
    Counting, EFFECTS, Shared, bootable_image, context, faulty, looks_bootable, noise, plan, run,
};
use crate::lab::{self, LoopDev, MIB, folder, lab_has, put};
use mediawriter::device::sim::fake::{Fake, FakeCapacity};
use mediawriter::device::sim::fault::{Effect, Fault, Op, Trigger};
use mediawriter::device::{BlockDevice, full, sim};
use mediawriter::event::{Event, Phase};
use mediawriter::flow::damage::Located;
use mediawriter::flow::flash::{DiscardMode, Plan};
use mediawriter::flow::repair::repair;
use mediawriter::source::memory::MemorySource;
use mediawriter::source::{Published, Source};
use mediawriter::sys::buffer::AlignedBuf;
use mediawriter::time::SimClock;

const BLOCK: usize = 1 << 20;

fn changed() -> Plan {
    Plan { changed_only: true, discard: DiscardMode::Never, ..plan(BLOCK) }
}

/// Overwrites part of a medium, as an earlier write did.
fn place(medium: &dyn BlockDevice, bytes: &[u8]) {
    let mut buf = AlignedBuf::zeroed(bytes.len().next_multiple_of(4096));
    buf[..bytes.len()].copy_from_slice(bytes);
    full::write_full(medium, 0, &buf).unwrap();
}

fn compared(events: &[Event]) -> (u64, u64) {
    let found = events.iter().find_map(|event| match event {
        Event::Compared { equal, written } => Some((*equal, *written)),
        _ => None,
    });
    found.unwrap()
}

/// `image` with some bytes of each of these places changed.
fn edited(image: &[u8], places: &[(usize, usize)]) -> Vec<u8> {
    let mut edited = image.to_vec();
    for &(at, len) in places {
        let end = (at + len).min(edited.len());
        edited[at..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
    edited
}

#[test]
fn whatever_differs_is_written_and_hardly_more_than_that() {
    let image = bootable_image(8 << 20, 3);
    let source = MemorySource::new("image", image.clone());
    // Lengths and places from a fixed seed; none, one, and up to 40 edits.
    let dice = noise(64 << 10, 77);
    let mut dice = dice.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap()) as usize);
    let mut next = |below: usize| dice.next().unwrap() % below;
    for round in 0..60 {
        let edits: Vec<_> = (0..next(41) * usize::from(round > 0))
            .map(|_| {
                let longest = if next(3) == 0 { 1 << 20 } else { 2000 };
                (next(image.len()), 1 + next(longest))
            })
            .collect();
        let stick = Shared::old_stick(16 << 20, 512);
        place(&stick, &edited(&image, &edits));
        let (done, events) = run(&source, &stick, &changed(), &Arc::default());
        let done = done.unwrap();
        assert!(done.media.is_match());
        assert_eq!(stick.bytes(image.len()), image, "round {round}: {edits:?}");
        let (equal, written) = compared(&events);
        assert_eq!(done.changed, Some(written));
        // Each edit spoils the granules it touches, and may take small gaps along; and the start.
        let granule = 64 << 10;
        let most = edits.iter().map(|(_, len)| len.next_multiple_of(granule) + 5 * granule);
        let most = (most.sum::<usize>() + BLOCK) as u64;
        assert!(written <= most, "{written} of {most}: {edits:?}");
        assert!(equal + written == image.len() as u64, "{equal} {written}");
        let read_back: u64 = events
            .iter()
            .filter_map(|event| match event {
                Event::PhaseEnded(totals) if totals.phase == Phase::Verify => Some(totals.bytes),
                _ => None,
            })
            .sum();
        assert_eq!(read_back, written, "what was written is read back, and nothing else");
    }
}

#[test]
fn an_interrupted_write_is_finished_and_only_the_rest_is_written() {
    let image = bootable_image(8 << 20, 5);
    let source = MemorySource::new("image", image.clone());
    let counting = Counting::new(Box::new(Shared::old_stick(16 << 20, 512)));
    run(&source, &counting, &plan(BLOCK), &Arc::default()).0.unwrap();
    let writes = counting.counts.lock().unwrap()[1];
    for nth in 1..=writes {
        let stick = Shared::old_stick(16 << 20, 512);
        let clock = Arc::default();
        let fault =
            Fault { op: Op::Write, trigger: Trigger::Nth(nth), effect: Effect::Error(libc::EIO) };
        let device = faulty(stick.clone(), fault, &clock);
        run(&source, &device, &plan(BLOCK), &clock).0.unwrap_err();
        assert!(!looks_bootable(&stick));
        let there = stick
            .bytes(image.len())
            .chunks(BLOCK)
            .zip(image.chunks(BLOCK))
            .filter(|(seen, wanted)| seen == wanted)
            .count();
        let (done, events) = run(&source, &stick, &changed(), &clock);
        assert!(done.unwrap().media.is_match());
        assert_eq!(stick.bytes(image.len()), image);
        let (equal, _) = compared(&events);
        assert_eq!(equal, (there * BLOCK) as u64, "cut off at write {nth}");
    }
}

#[test]
fn every_operation_times_every_fault_never_ends_in_a_false_success_or_a_bootable_wreck() {
    let image = bootable_image(4 << 20, 1);
    let source = MemorySource::new("image", image.clone());
    let old = edited(&image, &[(100_000, 3000), (1_500_000, 10), (2_900_000, 200_000)]);
    let stick = || {
        let stick = Shared::old_stick(4 << 20, 512);
        place(&stick, &old);
        stick
    };
    let counting = Counting::new(Box::new(stick()));
    assert!(run(&source, &counting, &changed(), &Arc::default()).0.unwrap().media.is_match());
    let counts = *counting.counts.lock().unwrap();
    let mut swept = 0;
    for (op, count) in Op::ALL.into_iter().zip(counts) {
        for (nth, effect) in (1..=count).flat_map(|nth| EFFECTS.map(|effect| (nth, effect))) {
            let stick = stick();
            let clock = Arc::default();
            let fault = Fault { op, trigger: Trigger::Nth(nth), effect };
            let device = faulty(stick.clone(), fault.clone(), &clock);
            let (done, events) = run(&source, &device, &changed(), &clock);
            swept += 1;
            match done {
                Ok(flashed) => {
                    assert!(flashed.media.is_match(), "{fault:?}");
                    assert_eq!(stick.bytes(image.len()), image, "{fault:?}");
                }
                Err(error) => {
                    let gone = fault.effect == Effect::Vanish;
                    let said = events
                        .iter()
                        .any(|e| matches!(e, Event::MadeUnbootable { done: false, .. }));
                    assert!(!looks_bootable(&stick) || (gone && said), "{error}: {fault:?}");
                }
            }
        }
    }
    assert!(swept > 100, "{swept}");
}

#[test]
fn a_stick_that_wraps_does_not_pass_because_most_of_it_was_equal() {
    for real in [3 << 20, (3 << 20) + 8192, 5 << 20] {
        let image = noise(8 << 20, 8);
        let source = MemorySource::new("image", image.clone());
        let memory = Shared::old_stick(16 << 20, 512);
        let device =
            Fake::new(Box::new(memory) as Box<dyn BlockDevice>, FakeCapacity { real, wraps: true });
        // Whatever a first write left there.
        run(&source, &device, &plan(BLOCK), &Arc::default()).0.unwrap_err();
        let (done, _) = run(&source, &device, &changed(), &Arc::default());
        let error = done.unwrap_err().message();
        assert!(error.contains("does not hold the image"), "{real}: {error}");
    }
}

/// Sticks whose start is right, or is that of another image.
#[test]
fn a_repair_that_fails_at_any_operation_is_no_success_and_leaves_no_bootable_wreck() {
    let image = bootable_image(4 << 20, 1);
    let source = MemorySource::new("image", image.clone());
    let mut swept = 0;
    for start in [&[][..], &[(0, 1024)]] {
        let old = edited(&image, &[start, &[(1_500_000, 10), (2_900_000, 200_000)]].concat());
        let stick = || {
            let stick = Shared::old_stick(4 << 20, 512);
            place(&stick, &old);
            stick
        };
        let mend = |device: &dyn BlockDevice, clock: &Arc<SimClock>| {
            let (cx, events) = context(clock);
            let what = (&source as &dyn Source, &Published::default());
            let done = repair(device, what, &|_| Located::default(), &plan(BLOCK).transfer, &cx);
            drop(cx);
            (done, events.try_iter().collect::<Vec<_>>())
        };
        let counting = Counting::new(Box::new(stick()));
        let done = mend(&counting, &Arc::default()).0.unwrap();
        assert!(done.verdict.is_match());
        // Granules of 64 KiB: one at the start, one, and four that are touched by the last.
        let granules = start.len() as u64 + 1 + 4;
        assert_eq!(done.written, granules << 16);
        let counts = *counting.counts.lock().unwrap();
        for (op, count) in Op::ALL.into_iter().zip(counts) {
            for (nth, effect) in (1..=count).flat_map(|nth| EFFECTS.map(|effect| (nth, effect))) {
                let stick = stick();
                let clock = Arc::default();
                let fault = Fault { op, trigger: Trigger::Nth(nth), effect };
                let device = faulty(stick.clone(), fault.clone(), &clock);
                let (done, events) = mend(&device, &clock);
                swept += 1;
                let now = stick.bytes(image.len());
                if done.as_ref().is_ok_and(|done| done.verdict.is_match()) {
                    assert_eq!(now, image, "{fault:?}");
                    continue;
                }
                let gone =
                    events.iter().any(|e| matches!(e, Event::MadeUnbootable { done: false, .. }));
                let (untouched, gone) = (now == old, gone && effect == Effect::Vanish);
                // One that is gone cannot be cleared; a start of its own was blank by then.
                assert!(untouched || gone || !looks_bootable(&stick), "{done:?}: {fault:?}");
                if gone && !start.is_empty() && !untouched && now[..512] != image[..512] {
                    assert_ne!(now[510..512], [0x55, 0xaa], "{fault:?}");
                }
            }
        }
    }
    assert!(swept > 200, "{swept}");
}

/// 64 MiB of which a twentieth differs, on a stick that reads at 100 and writes at 30 MB/s.
#[test]
fn a_point_release_takes_at_most_four_tenths_of_a_plain_write() {
    let image = noise(64 << 20, 6);
    let edits: Vec<_> = (0..16).map(|n| (n * (4 << 20) + 12345, 200 << 10)).collect();
    let old = MemorySource::new("old", edited(&image, &edits));
    let new = MemorySource::new("new", image);
    let clock: Arc<SimClock> = Arc::default();
    let spec = sim::spec::parse("128MiB,read_rate=100MB/s,write_rate=30MB/s").unwrap();
    let stick = sim::build(&spec, &clock);
    let took = |source: &MemorySource, plan: &Plan| {
        let (done, events) = run(source, &*stick, plan, &clock);
        assert!(done.unwrap().media.is_match());
        let nanos = events.iter().filter_map(|event| match event {
            Event::PhaseEnded(totals) => Some(totals.nanos),
            _ => None,
        });
        nanos.sum::<u64>()
    };
    let plain = took(&old, &plan(4 << 20));
    let update = took(&new, &Plan { transfer: plan(4 << 20).transfer, ..changed() });
    let ratio = update as f64 / plain as f64;
    assert!(ratio < 0.4, "{ratio}");
}

#[test]
fn on_a_loop_device_the_kernel_counts_what_was_written() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = noise(32 << 20, 9);
    let first = put(dir.path(), "first.img", &lab::disk_image(32 * MIB, 9));
    let stick = LoopDev::new(64 * MIB);
    lab::flash(&first, &stick.device, &[]).expect(0);
    let mut second = std::fs::read(&first).unwrap();
    second[20 << 20..21 << 20].copy_from_slice(&image[..1 << 20]);
    let second = put(dir.path(), "second.img", &second);
    let sectors = || {
        let name = stick.device.trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    };
    let before = sectors();
    let output = lab::flash(&second, &stick.device, &["--changed-only"]).expect(0);
    // Both ends are cleared, and the first block of 4 MiB is written as one.
    let written = sectors() - before;
    assert!((5 << 20..9 << 20).contains(&written), "{written}");
    output.says(&["compared: ", "the rest compared: every byte matches"]);
    lab::verify(&stick.device, &[&second]).expect(0);
    // It was read in full before, and the name of the option for an interrupted write is the same.
    lab::flash(&second, &stick.device, &["--resume"]).expect(0).says(&["every byte matches"]);
    let refused = lab::flash(&second, &stick.device, &["--resume", "--discard", "always"]);
    refused.expect(2).says(&["--changed-only keeps what is on the medium"]);
}

#[test]
fn a_repair_writes_the_bad_stretches_and_nothing_else() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image.img", &lab::disk_image((32 * MIB) + 512, 11));
    let stick = LoopDev::new(64 * MIB);
    lab::flash(&image, &stick.device, &[]).expect(0);
    let whole = std::fs::read(&image).unwrap();
    let repair = |more: &[&str]| {
        lab::verify(&stick.device, &[&[image.as_str(), "--repair", "--yes"], more].concat())
    };
    let spoil = |at: u64| lab::write_at(&stick.device, at, &[0xa5; 512]);
    let sectors = || {
        let name = stick.device.trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    };
    repair(&[]).expect(0).never_says(&["compared: "]);
    // The boot sector, two places in one granule, the last sector of the image.
    for places in [&[0, 512][..], &[9 << 20, (9 << 20) + 8192], &[32 << 20], &[0, 20 << 20]] {
        for at in places {
            spoil(*at);
        }
        lab::verify(&stick.device, &[&image]).expect(5);
        let before = sectors();
        repair(&[]).expect(0).says(&["compared: ", " repaired; ", "every byte matches"]);
        let granules = places.iter().map(|at| at >> 16).collect::<std::collections::BTreeSet<_>>();
        let written = sectors() - before;
        // Those of the first MiB are blank while the others are written.
        let twice = granules.iter().filter(|granule| **granule < 16).count();
        let most = (granules.len() + twice) as u64 * (64 << 10);
        assert!(written <= most, "{written}: {places:?}");
        lab::verify(&stick.device, &[&image]).expect(0);
        assert_eq!(lab::read_direct(&stick.device, 0, 512), whole[..512]);
    }
    // Nothing is written when the image is not what it should be, or nobody said yes.
    spoil(5 << 20);
    let before = sectors();
    let wrong = "0".repeat(64);
    repair(&["--sha256", &wrong]).expect(4);
    lab::verify(&stick.device, &[&image, "--repair"]).expect(3).says(&["--yes"]);
    lab::verify(&stick.device, &[&image, "--yes"]).expect(2).says(&["--repair"]);
    assert_eq!(sectors(), before);
}
