//! Verdicts over speeds from the command line: cases B100 and B105, and what a write says while
//! it goes on. The sticks are modelled, so time is exact.

use crate::lab::{GIB, MIB, Output, disk_image, flash, folder, put, run};
use serde_json::Value;

fn bench(target: &str, more: &[&str]) -> Output {
    run(&[&["bench", target, "--yes", "--destructive"], more].concat()).expect(0)
}

/// The verdicts on the write of a benchmark, by their code.
fn verdicts(target: &str, more: &[&str]) -> Vec<(String, String)> {
    let dir = folder();
    let record = dir.path().join("record.json");
    bench(target, &[&["--record", record.to_str().unwrap()], more].concat());
    let json = run(&["report", record.to_str().unwrap(), "--format", "json"]).expect(0).stdout;
    let report: Value = serde_json::from_str(&json).unwrap();
    let groups = report["groups"].as_array().unwrap();
    let written =
        groups.iter().find(|group| group["lines"][0]["typical"]["direction"] == "write").unwrap();
    let findings = &written["lines"][0]["typical"]["analysis"]["findings"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = findings.as_array().unwrap().iter();
    findings.map(|finding| (text(&finding["code"]), text(&finding["sentence"]))).collect()
}

fn codes(verdicts: &[(String, String)]) -> Vec<&str> {
    verdicts.iter().map(|(code, _)| code.as_str()).collect()
}

#[test]
fn b100_a_cache_is_measured_with_both_speeds_and_said_while_it_is_written() {
    let target = "sim:8GiB,data=no,cache=2GiB,cached_rate=200MB/s,write_rate=20MB/s,noise=3%";
    let dir = folder();
    let record = dir.path().join("record.json");
    let args =
        ["--profile", "image", "--size", "4GiB", "--json", "--record", record.to_str().unwrap()];
    let output = bench(target, &args);
    let notes = output.all("note");
    let note = notes.iter().find(|note| note["code"] == "slowed-down").unwrap();
    let said = note["message"].as_str().unwrap();
    assert!(said.starts_with("slowed down at 2.0") || said.starts_with("slowed down at 1.9"));
    assert!(said.contains("new estimate at this speed: 10"), "{said}");

    let json = run(&["report", record.to_str().unwrap(), "--format", "json"]).expect(0).stdout;
    let report: Value = serde_json::from_str(&json).unwrap();
    let cliff = &report["groups"][0]["lines"][0]["typical"]["analysis"]["cliff"];
    for (field, expected, tolerance) in
        [("at_bytes", 2.0 * GIB as f64, 0.02), ("before", 200e6, 0.03), ("after", 20e6, 0.03)]
    {
        let error = cliff[field].as_f64().unwrap() / expected - 1.0;
        assert!(error.abs() < tolerance, "{field} is off by {error}: {cliff}");
    }
}

#[test]
fn b100_a_run_that_ends_in_the_cache_is_not_called_sustained() {
    let target = "sim:8GiB,data=no,cache=2GiB,cached_rate=100MB/s,write_rate=20MB/s";
    let short = verdicts(target, &["--profile", "image", "--size", "900MiB"]);
    assert_eq!(codes(&short), ["too-short"]);
    let within = verdicts(target, &["--profile", "image", "--size", "1536MiB"]);
    assert_eq!(codes(&within), ["cache-not-reached"]);
    assert!(within[0].1.ends_with("it holds at least 1.50 GiB (1.61 GB)"), "{}", within[0].1);
}

#[test]
fn b100_a_flash_says_that_it_slowed_down_and_its_report_where() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(384 * MIB, 1));
    let target = "sim:1GiB,read_rate=90MB/s,cache=256MiB,cached_rate=20MB/s,write_rate=5MB/s";
    let output = flash(&image, target, &[]).expect(0);
    // The last block in the cache, 4 MiB, completes as a whole.
    output.says(&["- its cache was full at 255.8 MiB (268.2 MB), after 13.6 s: 19.7", "(26 %)"]);
    let plain = run(&["flash", &image, target, "--yes"]).expect(0);
    plain.says(&["note: slowed down at 25", "new estimate at this speed: 17."]);
}

#[test]
fn b105_a_ceiling_of_usb_2_is_named_and_runs_on_other_links_are_told_apart() {
    let dir = folder();
    let record = |link: u32| {
        let path = dir.path().join(format!("{link}.json")).to_str().unwrap().to_owned();
        let target = format!("sim:4GiB,data=no,rate=38MB/s,link={link}");
        (bench(&target, &["--profile", "image", "--size", "1GiB", "--record", &path]), path)
    };
    let ((slow, on_usb2), (fast, on_usb3)) = (record(480), record(5_000));
    slow.says(&[
        "a USB 2 link (480 Mbit/s)",
        "link-limited: ran flat",
        "63 % of the 60 MB/s that 480 Mbit/s carry",
    ]);
    assert!(!fast.stdout.contains("link-limited"), "{fast}");
    assert!(!fast.stdout.contains("USB 2"), "{fast}");
    run(&["report", &on_usb2, &on_usb3]).expect(0).says(&["480 Mbit/s / 5000 Mbit/s"]);
}

#[test]
fn each_stick_of_the_articles_gets_its_verdicts_over_its_whole_size() {
    for (stick, expected) in [
        ("exceria-g2", &["link-limited", "cache-not-reached", "steady"][..]),
        ("sspe-usc250", &["cache-cliff", "link-limited", "steady"]),
        ("ssd-put250", &["cache-cliff", "link-limited", "steady"]),
        ("esd-emc", &["cache-cliff", "link-limited", "steady"]),
        ("esd-ema", &["cache-cliff", "periodic-stalls", "steady"]),
        ("ts32gjf790", &["erratic", "not-steady"]),
        ("nus-ma32g", &["cache-not-reached", "steady"]),
    ] {
        let target = format!("sim:{stick}");
        let found = verdicts(&target, &["--profile", "marathon"]);
        let known = found.iter().map(|(code, _)| code.as_str());
        assert_eq!(known.collect::<Vec<_>>(), expected, "{stick}: {found:?}");
    }
}

#[test]
fn eight_gib_in_471_seconds_are_17_4_mib_a_second() {
    let output = bench("sim:ts32gjf790", &["--profile", "image"]);
    output.says(&["17.4 MiB/s", "erratic: nothing completed in 4"]);
}
