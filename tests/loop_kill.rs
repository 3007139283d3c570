//! Killed at 200 moments of a write to a loop device, nothing that looks bootable is left unless
//! the image is complete: neither the table of the old content nor that of the new one.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may die and tell its counts")]
#![allow(clippy::disallowed_methods, reason = "moments are on the clock on the wall")]

#[path = "common/lab.rs"]
mod lab;

use std::process::Stdio;
use std::time::{Duration, Instant};

use lab::{Live, LoopDev, MIB, command, folder, gpt_image, lab_has, read_direct, write_at};

const SIZE: u64 = 10 * MIB;
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

/// How long a clean run takes until it releases the first chunk.
fn time_to_release(image: &str, stick: &LoopDev) -> Duration {
    let measure = || {
        let start = Instant::now();
        let mut live = Live::flash(image, &stick.device, &SLOW);
        live.wait_for_phase("release");
        let took = start.elapsed();
        live.end().expect(0);
        took
    };
    let mut times: Vec<Duration> = (0..5).map(|_| measure()).collect();
    times.sort();
    times[1]
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
    old[END..(SIZE as usize) - END].fill(0xee);
    let image_bytes = std::fs::read(&image).unwrap();
    for medium in [&old, &image_bytes] {
        assert!(has_table_at_start(medium) && has_table_at_end(medium));
    }
    let stick = LoopDev::new(SIZE);
    let whole = time_to_release(&image, &stick);
    let home = folder();
    let mut counts = Counts::default();
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..ROUNDS {
        write_at(&stick.device, 0, &old);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // One moment in each of 200 equal parts, at a random place in it.
        let part = f64::from(round) + (random % 1000) as f64 / 1000.0;
        let moment = whole.mul_f64(part / f64::from(ROUNDS));
        let mut command = command(home.path());
        command.args(["flash", &image, &stick.device, "--yes", "--json"]).args(SLOW);
        command.args(["--discard", if round % 2 == 0 { "auto" } else { "never" }]);
        let start = Instant::now();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(moment.saturating_sub(start.elapsed()));
        child.kill().unwrap();
        child.wait().unwrap();
        let medium = read_direct(&stick.device, 0, SIZE);
        judge(&medium, &old, &image_bytes, &mut counts, moment);
    }
    eprintln!("{ROUNDS} kills within {whole:?}: {counts:?}");
    assert!(counts.writing * 2 > ROUNDS, "most kills land in the write: {counts:?}");
    assert!(counts.complete * 3 < ROUNDS, "few come too late: {counts:?}");
}
