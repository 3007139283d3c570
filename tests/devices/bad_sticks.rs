//! Bad sticks, modelled by tests/lab/stick as real block devices: every kind of damage is found,
//! at its place, in the right words and with the right exit code.

use std::fs;

use crate::lab::{
    KIB, MIB, Output, Stick, disk_image, flash, folder, has_sticks, noise, put, read_direct,
};
use serde_json::Value;

const LEN: u64 = 12 * MIB;

/// Flashes an image of 12 MiB onto a stick of 32 MiB with such keys.
fn onto(keys: &[&str]) -> (Stick, Output) {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(LEN, 5));
    let stick = Stick::new(&[&["size=32M"], keys].concat());
    let output = flash(&image, &stick.device, &[]);
    (stick, output)
}

fn span(event: &Value) -> (u64, u64) {
    (event["offset"].as_u64().unwrap(), event["len"].as_u64().unwrap())
}

/// What must be so after every failure that left the stick reachable.
#[track_caller]
fn unbootable(stick: &Stick, output: &Output) {
    assert_eq!(output.event("made_unbootable")["done"], true, "{output}");
    assert_eq!(read_direct(&stick.device, 0, 64 * KIB), vec![0; 64 << 10]);
    assert!(!output.text().contains("done: "), "{output}");
    assert!(!output.text().contains("every byte matches"), "{output}");
}

#[test]
fn a_sector_that_corrupts_silently_is_named_to_the_byte() {
    if !has_sticks() {
        return;
    }
    let victim = 7 * MIB + 1234;
    let (stick, output) = onto(&[&format!("corrupt={victim}")]);
    let output = output.expect(5);
    assert_eq!(span(&output.event("bad_range")), (victim / 512 * 512, 512));
    assert_eq!(output.event("bad_range")["exact"], true);
    unbootable(&stick, &output);
    output.says(&[
        &format!("1 bit differs: byte {victim} is"),
        "1 scattered wrong bit in 1 place",
        "partition 1",
    ]);
}

#[test]
fn lost_writes_are_found_with_their_exact_range() {
    if !has_sticks() {
        return;
    }
    // With what was there before: zeros, and the content of another day.
    for (prefill, words) in [("00", "reads as zeros"), ("ff", "reads as 0xff")] {
        let keys = ["drop=6M:192K", &format!("prefill={prefill}")];
        let (stick, output) = onto(&keys.map(|key| key));
        let output = output.expect(5);
        assert_eq!(span(&output.event("bad_range")), (6 * MIB, 192 * KIB));
        unbootable(&stick, &output);
        output.says(&[words, "writes that the device accepted and lost"]);
    }
}

#[test]
fn a_bad_sector_in_the_write_stops_the_run_there() {
    if !has_sticks() {
        return;
    }
    let victim = 9 * MIB + 512;
    let (stick, output) = onto(&[&format!("eio_write={victim}")]);
    let output = output.expect(1);
    let (offset, len) = span(&output.event("finished")["place"]);
    assert!((offset..offset + len).contains(&victim), "{offset} {len}");
    assert_eq!(output.all("head_released").len(), 0);
    assert_eq!(output.all("media_verdict").len(), 0);
    unbootable(&stick, &output);
    output.says(&["failed during write at offset", "Input/output error (os error 5)", "worn out"]);
}

#[test]
fn a_bad_sector_in_the_read_back_is_one_range_and_the_rest_is_checked() {
    if !has_sticks() {
        return;
    }
    let victim = 5 * MIB + 8192;
    let (stick, output) = onto(&[&format!("eio_read={victim}")]);
    let output = output.expect(5);
    let (offset, len) = span(&output.event("bad_range"));
    assert!((offset..offset + len).contains(&victim) && len <= 4096, "{offset} {len}");
    unbootable(&stick, &output);
    output.says(&["cannot be read", "bad sectors"]);
}

/// A read error in the table of the old content must not keep the stick from being written.
#[test]
fn a_bad_sector_behind_the_image_harms_nobody() {
    if !has_sticks() {
        return;
    }
    let (_stick, output) = onto(&["eio_read=20M", "eio_write=21M", "corrupt=22M", "drop=23M:1M"]);
    output.expect(0).says(&["every byte matches"]);
}

#[test]
fn fakes_of_both_kinds_are_found_with_their_real_capacity() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    // The second is no power of two.
    for (real, words) in [(8 * MIB, "8.00 MiB"), (10 * MIB, "10.0 MiB")] {
        let image = put(dir.path(), "image", &disk_image(real + 4 * MIB, real));
        for mode in ["limbo", "wrap"] {
            let stick = Stick::new(&["size=64M", &format!("real={real}"), &format!("mode={mode}")]);
            let output = flash(&image, &stick.device, &[]).expect(5);
            let first = span(&output.all("bad_range")[0]).0;
            if mode == "limbo" {
                assert_eq!(first, real, "the first byte that is lost");
                assert_eq!(output.all("bad_range").len(), 1);
            }
            assert_eq!(output.event("made_unbootable")["done"], true);
            output.says(&[&format!("real capacity probably about {words}"), "fake capacity"]);
        }
        // One that fits is fine, and nothing is claimed of the capacity.
        let small = put(dir.path(), "small", &noise(real - 2 * MIB, real));
        let stick = Stick::new(&["size=64M", &format!("real={real}"), "mode=limbo"]);
        flash(&small, &stick.device, &[]).expect(0).never_says(&["capacity"]);
    }
}

#[test]
fn a_stick_that_ignores_writes_is_named_so() {
    if !has_sticks() {
        return;
    }
    for prefill in ["00", "ff", "5a"] {
        let (_stick, output) = onto(&["ignore_writes=1", &format!("prefill={prefill}")]);
        let output = output.expect(5).says(&["seems to ignore writes"]);
        // Whether it is unbootable is told as it is: zeros were not kept either.
        assert_eq!(output.event("made_unbootable")["done"], prefill == "00");
    }
}

#[test]
fn a_cache_cliff_is_in_the_rows_and_in_the_report() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(100 * MIB, 5));
    let stick = Stick::new(&["size=128M", "fast=64M", "fast_bps=40M", "slow_bps=10M"]);
    let log = dir.path().join("log.csv");
    let more = ["--block-size", "1MiB", "--log", log.to_str().unwrap()];
    let output = flash(&image, &stick.device, &more).expect(0);
    let log = fs::read_to_string(log).unwrap();
    let write: Vec<Vec<f64>> = log
        .lines()
        .filter_map(|line| line.strip_prefix("write,"))
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert!((0_u32..).zip(&write).all(|(second, row)| (row[0] - f64::from(second)).abs() < 0.1));
    let total: f64 = write.iter().map(|row| row[2]).sum();
    assert!((total - (99 * MIB) as f64).abs() < 1.0, "all but the held chunk: {total}");
    let full: Vec<f64> = write.iter().filter(|row| row[1] > 0.99).map(|row| row[4]).collect();
    let (first, last) = (full[0], full[full.len() - 1]);
    assert!((first - 41.9).abs() < 8.0 && (last - 10.5).abs() < 4.0, "{full:?}");
    assert!(output.percentages().iter().all(|&percent| percent <= 100));
}

#[test]
fn a_pause_of_the_stick_is_rows_of_zero() {
    if !has_sticks() {
        return;
    }
    let (_stick, output) = onto(&["write_bps=20M", "stall=8M:3500"]);
    let output = output.expect(0);
    let samples = output.all("sample");
    let write: Vec<&Value> = samples.iter().filter(|row| row["phase"] == "write").collect();
    let zero = write.iter().filter(|row| row["bytes"] == 0).count();
    assert!((2..=4).contains(&zero), "{write:?}");
    let ended = output.all("phase_ended");
    let stall =
        ended.iter().find(|e| e["phase"] == "write").unwrap()["longest_stall_nanos"].as_u64();
    assert!((3_300_000_000..5_000_000_000).contains(&stall.unwrap()), "{stall:?}");
    for (second, row) in (0_u64..).zip(&write) {
        assert_eq!(row["second"], second);
    }
}
