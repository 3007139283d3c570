//! `bench` from the command line: what it measures, what it keeps, what it refuses; cases B96, B98,
//! B99 and B101.

use std::fs;
use std::path::Path;

use crate::lab::{
    self, KIB, Live, LoopDev, MIB, Output, Stick, has_sticks, lab_has, noise, put, read_direct,
    run, sh, sha256sum, target_folder,
};
use nix::sys::signal::Signal;
use serde_json::Value;

fn bench(target: &str, more: &[&str]) -> Output {
    run(&[&["bench", target, "--yes", "--json"], more].concat())
}

/// A file that stands for a stick, with something on it.
fn file(dir: &tempfile::TempDir, len: u64) -> String {
    put(dir.path(), "stick.img", &noise(len, 3))
}

/// The tests of a run in their order, with what was measured.
fn tests(output: &Output) -> Vec<(String, Value, Value)> {
    let ended: Vec<Value> = output
        .all("phase_ended")
        .into_iter()
        .filter(|e| e["phase"].as_str().unwrap().starts_with("test_"))
        .collect();
    let name = |e: &Value| e["test"]["name"].as_str().unwrap().to_owned();
    let tests = output.all("test");
    let measured = output.all("measured");
    assert_eq!((tests.len(), ended.len()), (measured.len(), measured.len()), "{output}");
    tests.iter().zip(ended).zip(measured).map(|((t, e), m)| (name(t), e, m)).collect()
}

fn rate(ended: &Value) -> f64 {
    ended["bytes"].as_f64().unwrap() / ended["nanos"].as_f64().unwrap() * 1e9
}

/// Rows of each test: without gaps, their bytes those of the test, its tenths those of the row.
fn rows_are_honest(output: &Output) {
    let rows = output.all("sample");
    for phase in ["test_write", "test_read"] {
        let rows: Vec<&Value> = rows.iter().filter(|row| row["phase"] == phase).collect();
        let bytes: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
        let ended: u64 = output
            .all("phase_ended")
            .iter()
            .filter(|e| e["phase"] == phase)
            .map(|e| e["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(bytes, ended, "{phase}");
        let mut next = 0;
        for row in rows {
            let second = row["second"].as_u64().unwrap();
            assert!(second == next || second == 0, "{row}");
            next = second + 1;
            let tenths = row["tenths"].as_array().unwrap().iter();
            assert_eq!(tenths.map(|t| t.as_u64().unwrap()).sum::<u64>(), row["bytes"]);
        }
    }
}

#[test]
fn what_overwrites_wants_the_word_destructive_and_touches_nothing_without_it() {
    let dir = target_folder();
    let file = file(&dir, 4 * MIB);
    let before = sha256sum(&file);
    for profile in ["image", "marathon", "cdm", "cdm-default"] {
        let output = bench(&file, &["--profile", profile]).expect(2);
        output.says(&["overwrites what is on the target", "--destructive"]);
    }
    // A sentence is asked for, and nobody is there.
    let output = run(&["bench", &file, "--profile", "image", "--destructive"]).expect(3);
    output.says(&["nobody can be asked"]);
    assert_eq!(sha256sum(&file), before);
}

#[test]
fn what_reads_and_what_writes_the_same_changes_no_byte() {
    let dir = target_folder();
    let file = file(&dir, 9 * MIB + 512);
    let before = sha256sum(&file);
    for more in [&["--profile", "read"][..], &["--write-same"], &["--profile", "boot"]] {
        let output = bench(&file, more).expect(0);
        rows_are_honest(&output);
        assert_eq!(sha256sum(&file), before, "{more:?}");
    }
    let same = bench(&file, &["--write-same", "--block-size", "64KiB"]).expect(0);
    let seen = tests(&same);
    let named: Vec<&str> = seen.iter().map(|test| test.0.as_str()).collect();
    assert_eq!(named, ["write-same-read", "write-same"]);
    assert!(seen.iter().all(|test| test.1["bytes"] == 9 * MIB + 512), "{seen:?}");
    assert_eq!(sha256sum(&file), before);
}

#[test]
fn an_image_is_written_flushed_read_and_compared() {
    if !lab_has(&["losetup"]) {
        return;
    }
    for engine in ["auto", "threads"] {
        let stick = LoopDev::new(64 * MIB);
        let more = ["--profile", "image", "--destructive", "--engine", engine];
        let output = bench(&stick.device, &more).expect(0);
        rows_are_honest(&output);
        let seen = tests(&output);
        assert_eq!((seen[0].0.as_str(), seen[1].0.as_str()), ("image-write", "image-read"));
        for (name, ended, measured) in &seen {
            assert_eq!(ended["bytes"], 64 * MIB, "{name}");
            let measured = &measured["measured"];
            // The kernel's own count is the witness.
            let witness = measured["witness_bytes"].as_u64().unwrap();
            assert!((64 * MIB..66 * MIB).contains(&witness), "{name}: {witness}");
            assert_eq!(measured["latency"]["count"], 64, "{name}");
        }
        assert_eq!(seen[1].2["measured"]["checked_blocks"], 64);
        assert_eq!(seen[1].2["measured"]["wrong_blocks"], 0);
        assert!(output.all("phase_ended").iter().any(|e| e["phase"] == "flush"));
        let engine = &output.all("test")[0]["test"]["engine"];
        assert!(engine == "io_uring" || engine == "threads", "{engine}");
        let head = read_direct(&stick.device, 0, 64 * KIB);
        assert_eq!(&head[..8], b"MWBENCH1");
        assert_ne!(&head[510..512], [0x55, 0xaa], "it never looks bootable");
    }
}

#[test]
fn the_eight_tests_of_crystaldiskmark_have_their_names_their_depth_and_their_units() {
    let dir = target_folder();
    let file = file(&dir, 32 * MIB);
    let record = dir.path().join("record.json").display().to_string();
    let more =
        ["--profile", "cdm", "--destructive", "--runtime", "150ms", "--size", "16MiB", "--record"];
    let output = bench(&file, &[&more[..], &[&record]].concat()).expect(0);
    rows_are_honest(&output);
    let named: Vec<String> = tests(&output).into_iter().map(|test| test.0).collect();
    let mut expected = vec!["prepare".to_owned()];
    for direction in ["Read", "Write"] {
        for test in ["SEQ1M-Q8T1", "SEQ128K-Q32T1", "RND4K-Q32T16", "RND4K-Q1T1"] {
            expected.push(format!("{test}-{direction}"));
        }
    }
    assert_eq!(named, expected);
    let deep = &output.all("test")[3]["test"];
    assert_eq!((&deep["queue_depth"], &deep["threads"]), (&32.into(), &16.into()));
    for test in &expected {
        assert!(output.text().contains(test), "{test}");
    }
    let record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert_eq!(record["bench"]["profile"], "cdm");
    assert_eq!(
        record["phases"].as_array().unwrap().iter().filter(|p| !p["test"].is_null()).count(),
        9
    );
}

#[test]
fn a_medium_that_does_not_keep_what_is_written_is_no_success() {
    if !has_sticks() {
        return;
    }
    for keys in [
        &["corrupt=5M"][..],
        &["drop=3M:1M"],
        &["real=8M", "mode=wrap"],
        &["real=8M", "mode=limbo"],
    ] {
        let stick = Stick::new(&[&["size=16M"], keys].concat());
        let output = bench(&stick.device, &["--profile", "image", "--destructive"]).expect(5);
        output.says(&["blocks that are not what was written"]);
    }
    let stick = Stick::new(&["size=16M", "eio_write=5M"]);
    let output = bench(&stick.device, &["--profile", "image", "--destructive"]).expect(1);
    output.says(&["failed during test-write at offset"]);
    assert_eq!(read_direct(&stick.device, 510, 2).len(), 2);
}

#[test]
fn b96_a_short_test_on_a_slow_stick_measures_the_stick_and_no_cache() {
    if !has_sticks() {
        return;
    }
    let stick = Stick::new(&["size=64M", "write_bps=30000000", "read_bps=30000000"]);
    let output = bench(&stick.device, &["--profile", "image", "--destructive"]).expect(0);
    for (name, ended, _) in tests(&output) {
        let rate = rate(&ended);
        assert!((28.5e6..31.5e6).contains(&rate), "{name}: {rate}");
    }
}

#[test]
fn b98_data_is_made_faster_than_the_device_takes_it_or_a_notice_says_so() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(128 * MIB);
    let output = bench(&stick.device, &["--profile", "image", "--destructive"]).expect(0);
    let (_, ended, measured) = tests(&output).remove(0);
    let made = measured["measured"]["generator_bytes_per_s"].as_f64().unwrap();
    assert!(made >= 3.0 * rate(&ended) || output.remarked("generator"), "{made} {ended}");
}

#[test]
fn b99_half_a_megabyte_a_second_is_half_a_megabyte_a_second_everywhere() {
    if !has_sticks() {
        return;
    }
    let stick = Stick::new(&["size=2M", "write_bps=500000", "read_bps=500000"]);
    let more = ["--profile", "image", "--destructive", "--block-size", "64KiB"];
    let output = bench(&stick.device, &more).expect(0);
    for (name, ended, _) in tests(&output) {
        let rate = rate(&ended);
        assert!((475e3..525e3).contains(&rate), "{name}: {rate}");
    }
    output.says(&["0.50", "MB/s", "MiB/s"]);
}

#[test]
fn b101_seven_seconds_of_nothing_are_seven_rows_of_nothing() {
    let more = ["--profile", "image", "--destructive", "--size", "64MiB"];
    let spec = "sim:64MiB,rate=10MB/s,fault=write@40MiB:stall=7s";
    let output = bench(spec, &more).expect(0);
    rows_are_honest(&output);
    let rows = output.all("sample");
    let quiet = rows.iter().filter(|r| r["phase"] == "test_write" && r["bytes"] == 0).count();
    assert!((6..=7).contains(&quiet), "{quiet}");
}

#[test]
fn several_targets_are_measured_in_turn_with_a_record_for_each_run() {
    let dir = target_folder();
    let records = dir.path().join("records");
    let folder = records.display().to_string();
    let args = ["bench", "sim:8MiB,rate=9MB/s", "sim:8MiB,rate=7MB/s", "--repeat", "2"];
    let noted = ["--note", "price=880", "--ambient", "18.5", "--record", &folder];
    run(&[&args[..], &noted].concat()).expect(0);
    let mut speeds = Vec::new();
    for entry in fs::read_dir(&records).unwrap() {
        let record: Value =
            serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        assert_eq!(record["labels"]["price"], "880");
        assert_eq!(record["labels"]["ambient"], "18.5 degrees Celsius");
        let phase = &record["phases"][0];
        let round = phase["test"]["round"].as_u64().unwrap();
        speeds.push((round, phase["summary"]["mean_bytes_per_s"].as_u64().unwrap() / 1_000_000));
    }
    speeds.sort_unstable();
    assert_eq!(speeds, [(1, 7), (1, 9), (2, 7), (2, 9)]);
}

#[test]
fn a_live_image_tells_where_its_files_lie_and_they_are_what_is_read() {
    if !lab_has(&["xorriso"]) {
        return;
    }
    let dir = target_folder();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("casper")).unwrap();
    for (name, len) in
        [("filesystem.squashfs", 24 * MIB), ("vmlinuz", 3 * MIB), ("initrd", 7 * MIB)]
    {
        put(&tree.join("casper"), name, &noise(len, len));
    }
    let iso = dir.path().join("live.iso").display().to_string();
    sh("xorriso", &["-as", "mkisofs", "-quiet", "-J", "-r", "-o", &iso, tree.to_str().unwrap()]);
    let len = fs::metadata(&iso).unwrap().len();
    let stick =
        put(dir.path(), "stick.img", &[fs::read(&iso).unwrap(), noise(8 * MIB, 1)].concat());
    let output = bench(&stick, &["--profile", "boot"]).expect(0);
    let tests = output.all("test");
    let named: Vec<&str> = tests.iter().map(|t| t["test"]["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["R1-image", "R2-boot-bios", "R2-boot-uefi", "R3-install"]);
    assert_eq!(tests[0]["test"]["span"]["len"], len / 512 * 512);
    // The copy reads the root filesystem, which begins with its own bytes.
    let span = &tests[3]["test"]["span"];
    assert_eq!(span["len"], 24 * MIB);
    let at = usize::try_from(span["offset"].as_u64().unwrap()).unwrap();
    let bytes = fs::read(&stick).unwrap();
    assert_eq!(bytes[at..at + 4096], noise(24 * MIB, 24 * MIB)[..4096]);
    output.says(&["for the device on the way to a login", "lower bounds"]);
}

#[test]
fn a_trace_of_ones_own_is_replayed_and_a_bad_one_refused() {
    let dir = target_folder();
    let stick = file(&dir, 4 * MIB);
    let trace =
        put(dir.path(), "trace", b"fio version 2 iolog\nx read 0 4096\nx read 1048576 65536\n");
    let output = bench(&stick, &["--profile", "boot", "--trace", &trace]).expect(0);
    let replayed = tests(&output).into_iter().find(|test| test.0 == "R2-boot").unwrap();
    assert_eq!((&replayed.1["ios"], &replayed.1["bytes"]), (&2.into(), &69_632.into()));
    let bad = put(dir.path(), "bad", b"fio version 2 iolog\nx jump 0 4096\n");
    let output = bench(&stick, &["--profile", "boot", "--trace", &bad]).expect(1);
    output.says(&["is no trace: line 2: unknown action"]);
}

#[test]
fn a_signal_ends_a_benchmark_at_once_and_nothing_looks_bootable() {
    if !has_sticks() {
        return;
    }
    let stick = Stick::new(&["size=64M", "write_bps=4M"]);
    let args = ["bench", &stick.device, "--yes", "--profile", "image", "--destructive"];
    let mut live = Live::start(&args);
    live.wait_for_phase("test_write");
    live.send(Signal::SIGTERM);
    let output = live.end();
    assert_eq!(output.code, 143, "{output}");
    assert_ne!(read_direct(&stick.device, 510, 2), [0x55, 0xaa]);
}

#[test]
fn words_that_make_no_sense_are_refused_before_anything_is_opened() {
    let dir = target_folder();
    let file = file(&dir, 4 * MIB);
    for (more, code, words) in [
        (&["--note", "price"][..], 2, "write KEY=VALUE"),
        (&["--size", "1GiB"], 2, "from there the device has"),
        (&["--block-size", "100"], 2, "multiple of the sector size"),
        (&["--discard"], 2, "--destructive"),
        (&["--profile", "boot", "--image", "/nowhere"], 1, "/nowhere"),
    ] {
        bench(&file, more).expect(code).says(&[words]);
    }
    let output = bench("sim:esd-emc,data=no", &["--profile", "image", "--destructive"]).expect(0);
    output.says(&["image-write"]);
    let image = put(dir.path(), "image", &lab::disk_image(2 * MIB, 1));
    lab::flash(&image, "sim:esd-emc", &[]).expect(3).says(&["keeps no data"]);
    assert!(Path::new(&file).exists());
}
