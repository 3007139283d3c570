//! Killed at 200 moments of a write to a loop device, nothing that looks bootable is left unless
//! the image is complete: neither the table of the old content nor that of the new one.

use std::time::{Duration, Instant};

use crate::lab::{Live, LoopDev, MIB, folder, gpt_image, lab_has, read_direct, write_at};
use nix::sys::signal::Signal;

const SIZE: u64 = 8 * MIB;
const ROUNDS: u32 = 200;
const BLOCK: usize = 2048;
/// The guarded ends.
const END: usize = 1 << 20;

/// Small blocks, one at a time: the write is what takes the time.
const SLOW: [&str; 4] = ["--block-size", "2048", "--queue-depth", "1"];

/// What is on the medium after a kill.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    untouched: u32,
    clearing: u32,
    writing: u32,
    complete: u32,
}

/// Whether firmware or a kernel would find a table in these bytes of a whole medium.
fn has_table_at_start(medium: &[u8]) -> bool {
    medium[510..512] == [0x55, 0xaa] || &medium[512..520] == b"EFI PART"
}

fn has_table_at_end(medium: &[u8]) -> bool {
    let last = medium.len() - 512;
    &medium[last..last + 8] == b"EFI PART"
}

/// Asserts what must be so after a kill at any moment, and counts what it is.
fn judge(medium: &[u8], old: &[u8], image: &[u8], counts: &mut Counts, moment: Duration) {
    let body = END..medium.len() - END;
    let blocks = body.clone().step_by(BLOCK);
    let total = blocks.clone().count();
    let written = blocks.filter(|&at| medium[at..at + BLOCK] == image[at..at + BLOCK]).count();
    let (start, end) = (has_table_at_start(medium), has_table_at_end(medium));
    if medium == old {
        counts.untouched += 1;
    } else if medium[body.clone()] == old[body] {
        // Between the first and the last zero at the ends: each end is either as it was or blank.
        assert!(!start || medium[..END] == old[..END], "half a head after {moment:?}");
        let tail = medium.len() - END;
        assert!(!end || medium[tail..] == old[tail..], "half a tail after {moment:?}");
        counts.clearing += 1;
    } else if written < total {
        assert!(!start, "a table at the start of {written}/{total} blocks after {moment:?}");
        assert!(!end, "a table at the end of {written}/{total} blocks after {moment:?}");
        counts.writing += 1;
    } else {
        // The release puts the end before the start.
        let tail = medium.len() - END;
        assert!(!start || medium[tail..] == image[tail..], "the start before the end");
        counts.complete += 1;
    }
}

/// How long a clean run takes until it writes, and from then until it releases the first chunk.
fn times(image: &str, stick: &LoopDev) -> (Duration, Duration) {
    let measure = || {
        let start = Instant::now();
        let mut live = Live::flash(image, &stick.device, &SLOW);
        live.wait_for_phase("write");
        let begun = start.elapsed();
        live.wait_for_phase("release");
        let released = start.elapsed();
        live.end().expect(0);
        (begun, released.saturating_sub(begun))
    };
    let (mut begun, mut written): (Vec<Duration>, Vec<Duration>) =
        (0..5).map(|_| measure()).unzip();
    begun.sort();
    written.sort();
    (begun[2], written[2])
}

#[test]
fn a_kill_at_any_moment_before_the_release_leaves_nothing_that_boots() {
    if !lab_has(&["losetup", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let image = gpt_image(dir.path(), "image", SIZE, 512);
    // The old content has tables of its own at both ends.
    let mut old = std::fs::read(gpt_image(dir.path(), "old", SIZE, 512)).unwrap();
    let tail = old.len() - END;
    old[END..tail].fill(0xee);
    let image_bytes = std::fs::read(&image).unwrap();
    for medium in [&old, &image_bytes] {
        assert!(has_table_at_start(medium) && has_table_at_end(medium));
    }
    let stick = LoopDev::new(SIZE);
    let (begun, written) = times(&image, &stick);
    let mut counts = Counts::default();
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..ROUNDS {
        write_at(&stick.device, 0, &old);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // One moment in each of equal parts, at a random place in it.
        let part = (f64::from(round) + (random % 1000) as f64 / 1000.0) / f64::from(ROUNDS);
        let discard = if round % 2 == 0 { "auto" } else { "never" };
        let mut live =
            Live::flash(&image, &stick.device, &[&SLOW[..], &["--discard", discard]].concat());
        let start = Instant::now();
        // A fifth of the kills come before the write, spread from the very start.
        let (start, moment) = if round % 5 == 0 {
            (start, begun.mul_f64(part))
        } else {
            live.wait_for_phase("write");
            (Instant::now(), written.mul_f64(part))
        };
        std::thread::sleep(moment.saturating_sub(start.elapsed()));
        live.send(Signal::SIGKILL);
        drop(live);
        let medium = read_direct(&stick.device, 0, SIZE);
        judge(&medium, &old, &image_bytes, &mut counts, moment);
    }
    eprintln!("{ROUNDS} kills within {begun:?} and {written:?}: {counts:?}");
    assert!(counts.writing * 2 > ROUNDS, "most kills land in the write: {counts:?}");
    assert!(counts.complete * 3 < ROUNDS, "few come too late: {counts:?}");
}
