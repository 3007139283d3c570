//! Verdicts over speeds on real block devices: sticks modelled by tests/lab/stick, measured by the
//! real program with real time. What is modelled is found, and nobody else is accused.

use crate::lab::{MIB, Stick, folder, has_sticks, run, run_first};
use serde_json::Value;

/// What the report says of the write of a benchmark on a stick with such keys.
fn judged(keys: &[&str], size: &str) -> Value {
    let dir = folder();
    let stick = Stick::new(keys);
    let record = dir.path().join("record.json").to_str().unwrap().to_owned();
    let bench = ["bench", &stick.device, "--profile", "image", "--size", size, "--destructive"];
    run_first(&[&bench[..], &["--yes", "--force", "--record", &record]].concat()).expect(0);
    let json = run(&["report", &record, "--test", "image-write", "--format", "json"]).expect(0);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    report["groups"][0]["lines"][0]["typical"]["analysis"].clone()
}

const ACCUSATIONS: [&str; 6] =
    ["cache-cliff", "thermal-like", "periodic-stalls", "slope", "unsettled", "erratic"];

fn codes(analysis: &Value) -> Vec<String> {
    let findings = analysis["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn within(analysis: &Value, pointer: &str, expected: f64, tolerance: f64) {
    let value = analysis.pointer(pointer).and_then(Value::as_f64);
    let value = value.unwrap_or(0.0);
    let off = value / expected - 1.0;
    assert!(off.abs() <= tolerance, "{pointer} is {value}, not {expected}: {analysis:#}");
}

#[test]
fn a_cache_of_320_mib_is_found_with_both_speeds() {
    if !has_sticks() {
        return;
    }
    let keys = ["size=640M", "fast=320M", "fast_bps=64000000", "slow_bps=20000000"];
    let analysis = judged(&keys, "600MiB");
    within(&analysis, "/cliff/at_bytes", 320.0 * MIB as f64, 0.02);
    within(&analysis, "/cliff/before", 64e6, 0.03);
    within(&analysis, "/cliff/after", 20e6, 0.03);
    assert!(codes(&analysis).contains(&"cache-cliff".to_owned()), "{analysis:#}");
}

#[test]
fn stalls_every_four_seconds_are_found_within_a_second() {
    if !has_sticks() {
        return;
    }
    let analysis = judged(&["size=1G", "write_bps=40000000", "rhythm=4000:1200"], "800MiB");
    assert!(codes(&analysis).contains(&"periodic-stalls".to_owned()), "{analysis:#}");
    let period = analysis["period"]["nanos"].as_f64().unwrap() / 1e9;
    assert!((3.0..=5.0).contains(&period), "{period} s: {analysis:#}");
    assert!(!codes(&analysis).contains(&"cache-cliff".to_owned()), "{analysis:#}");
}

/// Different speeds, one with a delay for every request, one with a single stall that is no rhythm.
#[test]
fn five_flat_sticks_are_accused_of_nothing() {
    if !has_sticks() {
        return;
    }
    for (model, size) in [
        (&["write_bps=12000000"][..], "150MiB"),
        (&["write_bps=30000000"], "360MiB"),
        (&["write_bps=60000000"], "700MiB"),
        (&["write_bps=24000000", "latency_ms=3"], "250MiB"),
        (&["write_bps=30000000", "stall=100M:1500"], "360MiB"),
    ] {
        let analysis = judged(&[&["size=800M"], model].concat(), size);
        assert!(!codes(&analysis).contains(&"too-short".to_owned()), "{model:?}");
        let accused = codes(&analysis).into_iter().filter(|code| ACCUSATIONS.contains(&&**code));
        assert_eq!(accused.collect::<Vec<_>>(), [""; 0], "{model:?}: {analysis:#}");
    }
}
