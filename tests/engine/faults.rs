//! The fault sweep: every operation of a clean run, times every kind of fault. The invariants are
//! that a success verdict is never given on a wrong medium, and that after a failure the medium
//! does not look bootable.

use std::sync::Arc;

use crate::common::{
    Counting, EFFECTS, Shared, bootable_image, context, faulty, looks_bootable, noise, plan, run,
};
use mediawriter::device::sim::fake::{Fake, FakeCapacity};
use mediawriter::device::sim::fault::{Effect, Fault, Op, Trigger};
use mediawriter::device::sim::memory::Memory;
use mediawriter::device::{BlockDevice, sim};
use mediawriter::error::Kind;
use mediawriter::event::{Event, Verdict};
use mediawriter::flow::flash::DiscardMode;
use mediawriter::source::memory::MemorySource;
use mediawriter::time::SimClock;

const SIZE: u64 = 8 << 20;
const BLOCK: usize = 256 << 10;
/// A smaller stick for the sweeps.
const SWEPT: u64 = 4 << 20;

/// An image that covers the stick to its last byte, and one that ends inside a sector.
fn images() -> [Vec<u8>; 2] {
    [bootable_image(4 << 20, 1), bootable_image((2 << 20) + 777, 2)]
}

/// Operations of a clean run: reads, writes, flushes, discards.
fn clean_run(image: &[u8], sector: u32) -> [u64; 4] {
    let stick = Shared::old_stick(SWEPT, sector);
    let counting = Counting::new(Box::new(stick.clone()));
    let source = MemorySource::new("image", image.to_vec());
    let (outcome, events) = run(&source, &counting, &plan(BLOCK), &Arc::default());
    assert!(outcome.unwrap().media.is_match());
    assert_eq!(stick.bytes(image.len()), image);
    assert!(events.iter().any(|e| matches!(e, Event::HeadReleased)));
    *counting.counts.lock().unwrap()
}

#[test]
fn every_operation_times_every_fault_never_ends_in_a_false_success_or_a_bootable_wreck() {
    let mut swept = 0;
    for image in images() {
        for sector in [512, 4096] {
            let counts = clean_run(&image, sector);
            assert!(counts.iter().all(|&n| n > 0), "{counts:?}");
            for (op, count) in Op::ALL.into_iter().zip(counts) {
                for nth in 1..=count {
                    for effect in EFFECTS {
                        check(&image, sector, &Fault { op, trigger: Trigger::Nth(nth), effect });
                        swept += 1;
                    }
                }
            }
        }
    }
    assert!(swept > 1500, "{swept}");
}

fn check(image: &[u8], sector: u32, fault: &Fault) {
    let stick = Shared::old_stick(SWEPT, sector);
    let clock = Arc::default();
    let device = faulty(stick.clone(), fault.clone(), &clock);
    let source = MemorySource::new("image", image.to_vec());
    let (outcome, events) = run(&source, &device, &plan(BLOCK), &clock);
    let right = stick.bytes(image.len()) == image;
    match outcome {
        Ok(flashed) => {
            assert!(flashed.media.is_match(), "{fault:?}");
            assert!(right, "success on a wrong medium: {fault:?}");
        }
        Err(error) => {
            // A device that is gone cannot be cleared; then the events must say so.
            let gone = fault.effect == Effect::Vanish;
            let said =
                events.iter().any(|e| matches!(e, Event::MadeUnbootable { done: false, .. }));
            assert!(
                !looks_bootable(&*stick.0) || (gone && said),
                "bootable after {error}: {fault:?}"
            );
            assert!(!events.iter().any(|e| matches!(e, Event::MediaVerdict(v) if v.is_match())));
        }
    }
}

#[test]
fn a_vanished_stick_never_looks_bootable_unless_it_was_complete() {
    let image = bootable_image(4 << 20, 3);
    let counts = clean_run(&image, 512);
    for nth in 1..=counts[1] {
        let stick = Shared::old_stick(SWEPT, 512);
        let clock = Arc::default();
        let fault = Fault { op: Op::Write, trigger: Trigger::Nth(nth), effect: Effect::Vanish };
        let device = faulty(stick.clone(), fault, &clock);
        let source = MemorySource::new("image", image.clone());
        let (outcome, _) = run(&source, &device, &plan(BLOCK), &clock);
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("disappeared"), "{error}");
        // Vanished before the first write: untouched, the old table is still there. Vanished at the
        // very last one: everything but the first chunk is there, and flushed.
        assert!(nth <= 2 || nth == counts[1] || !looks_bootable(&*stick.0), "write {nth}");
    }
}

#[test]
fn cancelling_at_any_operation_leaves_an_unbootable_medium_and_ends_as_cancelled() {
    let image = bootable_image(4 << 20, 4);
    let total: u64 = clean_run(&image, 512).iter().sum();
    for at in 1..=total {
        let stick = Shared::old_stick(SWEPT, 512);
        let clock: Arc<SimClock> = Arc::default();
        let (cx, received) = context(&clock);
        let mut device = Counting::new(Box::new(stick.clone()));
        device.cancel_at = Some((at, cx.cancel.clone()));
        let source = MemorySource::new("image", image.clone());
        let outcome = mediawriter::flow::flash::flash(
            &source,
            &device,
            &plan(BLOCK),
            &|_| mediawriter::flow::damage::Located::default(),
            &cx,
        );
        drop(cx);
        let events: Vec<Event> = received.try_iter().collect();
        match outcome {
            // The last reads were already under way: the check is complete all the same.
            Ok(flashed) => assert!(flashed.media.is_match() && stick.bytes(image.len()) == image),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Cancelled(15), "operation {at}: {error}");
                assert!(!looks_bootable(&*stick.0), "operation {at}");
                assert!(
                    events.iter().any(|e| matches!(e, Event::MadeUnbootable { done: true, .. }))
                );
            }
        }
    }
}

#[test]
fn a_panic_of_a_worker_at_any_write_is_a_failure_and_leaves_an_unbootable_medium() {
    let image = bootable_image(4 << 20, 4);
    let [reads, writes, ..] = clean_run(&image, 512);
    let mut caught = 0;
    for at in 1..=reads + writes {
        let stick = Shared::old_stick(SWEPT, 512);
        let mut device = Counting::new(Box::new(stick.clone()));
        device.panic_at = Some(at);
        let source = MemorySource::new("image", image.clone());
        let work = || run(&source, &device, &plan(BLOCK), &Arc::default()).0;
        // What runs on the calling thread panics through; workers must not take the job along.
        let Ok(outcome) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) else {
            continue;
        };
        if let Err(error) = outcome {
            caught += 1;
            assert_eq!(error.kind(), Kind::Internal, "operation {at}: {error}");
            assert!(!looks_bootable(&*stick.0), "operation {at}");
        }
    }
    assert!(caught > 10, "{caught}");
}

#[test]
fn a_source_that_is_not_the_published_one_is_never_released() {
    let image = bootable_image(3 << 20, 5);
    let stick = Shared::old_stick(SIZE, 512);
    let mut plan = plan(BLOCK);
    plan.published.image = Some("00".repeat(32).parse().unwrap());
    let source = MemorySource::new("image", image);
    let (outcome, events) = run(&source, &stick, &plan, &Arc::default());
    assert_eq!(outcome.unwrap_err().kind(), Kind::SourceMismatch);
    assert!(!looks_bootable(&*stick.0));
    assert!(!events.iter().any(|e| matches!(e, Event::HeadReleased)));
}

/// Fakes of every kind: nothing that lost data passes, and the words name the real capacity.
#[test]
fn fake_capacity_is_found_and_its_real_size_is_named() {
    for (wraps, word) in [(true, "wrap around"), (false, "nothing that was written came back")] {
        let real = 5 << 20;
        let boxed: Box<dyn BlockDevice> = Box::new(Memory::new(SIZE, 512, 0, true));
        let fake = Fake::new(boxed, FakeCapacity { real, wraps });
        let source = MemorySource::new("image", bootable_image(7 << 20, 6));
        let (outcome, events) = run(&source, &fake, &plan(BLOCK), &Arc::default());
        assert_eq!(outcome.unwrap_err().kind(), Kind::MediaMismatch);
        let findings = findings(&events);
        assert!(findings.contains(word) && findings.contains("5.00 MiB"), "{findings}");
        assert!(!looks_bootable(&fake));
    }
}

fn findings(events: &[Event]) -> String {
    let found = events.iter().find_map(|e| match e {
        Event::MediaVerdict(Verdict::Mismatched { findings, .. }) => Some(findings.join("; ")),
        _ => None,
    });
    found.unwrap()
}

#[test]
fn a_flipped_bit_is_found_at_its_byte() {
    let image = noise(3 << 20, 7);
    let clock = Arc::default();
    let stick = Shared::old_stick(SIZE, 512);
    let at = (2 << 20) + 12_345;
    let fault = Fault { op: Op::Write, trigger: Trigger::Touching(at), effect: Effect::Flip };
    let device = faulty(stick, fault, &clock);
    let source = MemorySource::new("image", image);
    let (outcome, events) = run(&source, &device, &plan(BLOCK), &clock);
    assert_eq!(outcome.unwrap_err().kind(), Kind::MediaMismatch);
    let ranges: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            Event::BadRange(r) => Some(r),
            _ => None,
        })
        .collect();
    assert_eq!(ranges.len(), 1);
    assert_eq!(
        (ranges[0].span.offset, ranges[0].span.len, ranges[0].exact),
        (at / 512 * 512, 512, true)
    );
    assert!(ranges[0].detail.contains(&format!("byte {at} is")), "{}", ranges[0].detail);
    assert!(findings(&events).contains("1 scattered wrong bit in 1 place"));
}

#[test]
fn a_device_that_ignores_writes_is_called_that() {
    let clock = Arc::default();
    let mut device: Box<dyn BlockDevice> = Box::new(Shared::old_stick(SIZE, 512));
    for offset in (0..SIZE).step_by(4096) {
        let fault =
            Fault { op: Op::Write, trigger: Trigger::Touching(offset), effect: Effect::Drop };
        device = Box::new(sim::fault::Faulty::new(device, fault, None));
        if offset > 64 << 10 {
            break;
        }
    }
    let whole = FakeCapacity { real: 512, wraps: false };
    let source = MemorySource::new("image", noise(3 << 20, 8));
    let mut plan = plan(BLOCK);
    plan.discard = DiscardMode::Never;
    let (outcome, events) = run(&source, &Fake::new(device, whole), &plan, &clock);
    assert_eq!(outcome.unwrap_err().kind(), Kind::MediaMismatch);
    assert!(findings(&events).contains("seems to ignore writes"), "{}", findings(&events));
}

#[test]
fn a_pipe_is_proven_too_to_the_granule() {
    let image = noise((3 << 20) + 5, 9);
    let clock = Arc::default();
    let fault = Fault { op: Op::Read, trigger: Trigger::Touching(2 << 20), effect: Effect::Flip };
    let device = faulty(Shared::old_stick(SIZE, 512), fault, &clock);
    let reader = std::io::Cursor::new(image);
    let source =
        mediawriter::source::pipe::PipeSource::new("stdin", Box::new(reader), None).unwrap();
    let (outcome, events) = run(&source, &device, &plan(BLOCK), &clock);
    assert_eq!(outcome.unwrap_err().kind(), Kind::MediaMismatch);
    let range = events
        .iter()
        .find_map(|e| match e {
            Event::BadRange(r) => Some(r),
            _ => None,
        })
        .unwrap();
    assert_eq!((range.span.offset, range.span.len, range.exact), (2 << 20, 64 << 10, false));
}

#[test]
fn a_sector_that_cannot_be_read_is_named_and_the_check_goes_on_behind_it() {
    let image = noise(4 << 20, 10);
    let clock = Arc::default();
    let at = (1 << 20) + 4096 * 7;
    let bad =
        Fault { op: Op::Read, trigger: Trigger::Touching(at), effect: Effect::Error(libc::EIO) };
    let flip = Fault { op: Op::Write, trigger: Trigger::Touching(3 << 20), effect: Effect::Flip };
    let device = faulty(faulty(Shared::old_stick(SIZE, 512), flip, &clock), bad, &clock);
    let source = MemorySource::new("image", image);
    let (outcome, events) = run(&source, &device, &plan(BLOCK), &clock);
    assert_eq!(outcome.unwrap_err().kind(), Kind::MediaMismatch);
    let ranges: Vec<_> = events
        .iter()
        .filter_map(|e| match e {
            Event::BadRange(r) => Some(r),
            _ => None,
        })
        .collect();
    assert_eq!(ranges.len(), 2, "{ranges:?}");
    assert_eq!((ranges[0].span.offset, ranges[0].span.len), (at, 4096));
    assert!(ranges[0].detail.contains("cannot be read"));
    assert_eq!(ranges[1].span.offset, 3 << 20);
    let findings = findings(&events);
    assert!(
        findings.contains("bad sectors") && findings.contains("1 scattered wrong bit"),
        "{findings}"
    );
}
