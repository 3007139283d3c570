//! Whole runs of the real program on simulated sticks, where time is exact: rows, JSON lines, exit
//! codes and words to the byte.

use std::fs;

use crate::lab::{
    self, MIB, Output, command, disk_image, finish, flash, folder, noise, put, run, verify,
};
use serde_json::Value;

const CLIFF: &str = "sim:64MiB,rate=20MB/s,cache=16MiB,cached_rate=80MB/s";

/// The per-second log of a flash of 40 MiB, and the run.
fn log_of(target: &str, more: &[&str]) -> (String, Output) {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(40 * MIB, 1));
    let log = dir.path().join("log.csv");
    let output = flash(&image, target, &[&["--log", log.to_str().unwrap()], more].concat());
    (fs::read_to_string(log).unwrap(), output)
}

const HEADER: &str = "phase,second,seconds,bytes,ios,MB_per_s,MiB_per_s,slowest_ms\n";

#[test]
fn a_steady_stick_has_equal_rows() {
    // 10 MiB/s in I/Os of 1 MiB: ten a second.
    let (log, output) = log_of("sim:64MiB,discard=no,rate=10MiB/s", &["--block-size", "1MiB"]);
    output.expect(0);
    let row = "10485760,10,10.486,10.000,100.000";
    let full = |phase: &str, second: u32| format!("{phase},{second},1.000000,{row}\n");
    let mut expected = HEADER.to_owned();
    // The old ends are read before they are cleared.
    let clear = log.lines().find(|line| line.starts_with("clear,")).unwrap();
    expected.extend([clear, "\n"]);
    for second in 0..3 {
        expected.push_str(&full("write", second));
    }
    expected.push_str("write,3,0.900000,9437184,9,10.486,10.000,100.000\n");
    expected.push_str("release,0,0.100000,1048576,1,10.486,10.000,100.000\n");
    for second in 0..4 {
        expected.push_str(&full("verify", second));
    }
    assert_eq!(log, expected);
}

#[test]
fn a_cache_that_runs_full_shows_in_its_second() {
    let (log, output) = log_of(CLIFF, &[]);
    // 36 MiB in blocks of 4 MiB: four at 80 MB/s take 209.7 ms, five at 20 MB/s take 1048.6 ms.
    let expected = "\
        write,0,1.000000,29360128,7,29.360,28.000,209.715\n\
        write,1,0.258291,8388608,2,32.477,30.973,209.715\n\
        release,0,0.209715,4194304,1,20.000,19.073,209.715\n\
        verify,0,1.000000,16777216,4,16.777,16.000,209.715\n\
        verify,1,1.000000,20971520,5,20.972,20.000,209.715\n\
        verify,2,0.097152,4194304,1,43.173,41.173,209.715\n";
    assert!(log.starts_with(HEADER) && log.ends_with(expected), "{log}");
    output.expect(0);
}

#[test]
fn a_stall_is_rows_of_zero_and_is_named_with_its_place() {
    let (log, output) = log_of(&format!("{CLIFF},fault=write@32MiB:stall=3s"), &[]);
    let expected = "\
        write,0,1.000000,29360128,7,29.360,28.000,209.715\n\
        write,1,1.000000,0,0,0.000,0.000,0.000\n\
        write,2,1.000000,0,0,0.000,0.000,0.000\n\
        write,3,1.000000,0,0,0.000,0.000,0.000\n\
        write,4,0.258291,8388608,2,32.477,30.973,3209.715\n";
    assert!(log.contains(expected), "{log}");
    output.expect(0).says(&["longest stall 3.21 s after 0.84 s", "nothing completed: 3 s"]);
}

#[test]
fn the_json_lines_of_a_run_are_byte_stable() {
    let (_, output) = log_of(&format!("{CLIFF},fault=write@32MiB:stall=3s"), &[]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    let start: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(
        (&start["event"], &start["schema"]),
        (&"start".into(), &"mediawriter-events/1".into())
    );
    let golden: Vec<&str> = include_str!("../golden/sim-stall.jsonl").lines().collect();
    for (seen, wanted) in lines[1..].iter().zip(&golden) {
        assert_eq!(seen, wanted);
    }
    assert_eq!(lines.len() - 1, golden.len());
}

#[test]
fn two_runs_differ_in_time_and_place_only() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(40 * MIB, 1));
    let target = format!("{CLIFF},fault=write@32MiB:stall=3s,fault=read@20MiB:flip");
    let bytes = || {
        let (log, record) = (dir.path().join("log"), dir.path().join("record"));
        let more = ["--log", log.to_str().unwrap(), "--record", record.to_str().unwrap()];
        let Output { stdout, stderr, code, .. } = flash(&image, &target, &more);
        let untimed = |text: &str| {
            let timeless = |line: &&str| !line.starts_with("started ");
            text.lines().filter(timeless).collect::<Vec<_>>().join("\n")
        };
        let json = stdout.lines().skip(1).collect::<Vec<_>>().join("\n");
        let mut record: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
        record["started"] = Value::Null;
        (code, json, untimed(&stderr), fs::read_to_string(log).unwrap(), record)
    };
    let first = bytes();
    assert_eq!(first.0, 5);
    for _ in 0..4 {
        assert_eq!(bytes(), first);
    }
}

/// Command, exit code, words. Paths are put in for `IMAGE` and `EMPTY`.
#[test]
fn every_exit_code_has_its_run() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 1));
    let missing = dir.path().join("missing");
    let wrong = "0".repeat(64);
    let target = |faults: &str| format!("sim:16MiB{faults}");
    let cases: [(&[&str], i32, &[&str]); 15] = [
        (&["flash", &image, &target("")], 0, &["done: ", "every byte matches"]),
        (
            &["flash", &image, &target(",fault=write@4MiB:error")],
            1,
            &["Input/output error (os error 5)", "at offset 4194304"],
        ),
        (
            &["flash", &image, &target(",fault=write@4MiB:enospc")],
            1,
            &["the device ends earlier than it says"],
        ),
        (
            &["flash", &image, &target(",fault=write@4MiB:vanish")],
            1,
            &["disappeared during write", "must be written again"],
        ),
        (&["flash", &image, &target(",fault=flush#3:error")], 1, &["could not be flushed"]),
        (&["flash", missing.to_str().unwrap(), &target("")], 1, &["cannot open the image"]),
        (&["flash", &image, &target(",what=1")], 2, &["'what=1' is not known: keys are"]),
        (
            &["flash", &image, &target(""), "--block-size", "1000"],
            2,
            &["multiple of the sector size"],
        ),
        (&["flash", "--no-such-flag"], 2, &["--no-such-flag"]),
        (&["flash", &image, "sim:4MiB"], 3, &["the image does not fit"]),
        (
            &["flash", &image, &target(",discard=no"), "--discard", "always"],
            3,
            &["offers no discard"],
        ),
        (&["flash", &image, &target(""), "--sha256", &wrong], 4, &["FAILED (exit code 4)", &wrong]),
        (&["flash", &image, &target(",fault=read@5MiB:flip")], 5, &["byte 5242880 is"]),
        (
            &["flash", &image, &target(",fault=write@5MiB:flip")],
            5,
            &["1 scattered wrong bit in 1 place"],
        ),
        (&["verify", &target(""), &image], 5, &["DIFFERS - mediawriter", "never written there"]),
    ];
    for (args, code, words) in cases {
        let output = run(args);
        assert_eq!(output.code, code, "{args:?}: {output}");
        let output = output.says(words);
        if code != 0 {
            output.never_says(&["done: "]);
        }
    }
}

#[test]
fn a_read_error_that_stays_is_a_mismatch_with_its_sectors() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 1));
    let output = flash(&image, "sim:16MiB,fault=read@5MiB:error", &[]).expect(5);
    let range = output.event("bad_range");
    // The smallest unit in which this stick reads.
    assert_eq!((&range["offset"], &range["len"]), (&(5 * MIB).into(), &4096.into()), "{range}");
    output.says(&["cannot be read", "bad sectors"]);
}

#[test]
fn fakes_are_found_with_their_real_size() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(24 * MIB, 1));
    for (mode, words) in [
        ("limbo", "real capacity probably about 16.0 MiB"),
        ("wrap", "real capacity probably about 16.0 MiB"),
    ] {
        let target = format!("sim:64MiB,real=16MiB,mode={mode}");
        let output = flash(&image, &target, &[]).expect(5).says(&[words]);
        assert_eq!(output.event("made_unbootable")["done"], true);
    }
    // An image that fits says nothing of the capacity.
    let small = put(dir.path(), "small", &noise(8 * MIB, 1));
    let limbo = flash(&small, "sim:64MiB,real=16MiB,mode=limbo", &[]).expect(0);
    limbo.never_says(&["capacity"]);
}

#[test]
fn the_table_of_exit_codes_in_the_readme_is_that_of_the_program() {
    use mediawriter::error::Kind;
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let readme = readme.unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let code = cells.next()?.trim_matches('`').to_owned();
        code.starts_with(|c: char| c.is_ascii_digit()).then_some(code)
    };
    let documented: Vec<String> = readme.lines().filter_map(row).collect();
    assert!(!documented.is_empty(), "README.md has a table of exit codes");
    for kind in Kind::ALL {
        let code = kind.exit_code().to_string();
        assert!(documented.contains(&code), "{kind:?} ends with {code}: {documented:?}");
    }
    assert!(documented.contains(&"0".to_owned()));
    let known: Vec<String> = Kind::ALL.iter().map(|kind| kind.exit_code().to_string()).collect();
    for code in &documented {
        let plain = code.parse::<u8>().is_ok_and(|code| code > 0 && code < 128);
        assert!(!plain || known.contains(code), "{code} is documented, and no kind has it");
    }
    let help = run(&["--help"]).expect(0);
    for code in known {
        assert!(help.stdout.contains(&format!("{code} ")), "{code} is not in the help");
    }
}

#[test]
fn usage_errors_are_answered_before_anything_is_looked_at() {
    let cases: [&[&str]; 12] = [
        &[],
        &["flash"],
        &["nonsense"],
        &["verify", "a", "b", "c"],
        &["flash", "a", "b", "--discard", "sometimes"],
        &["flash", "a", "b", "--sha256", "xyz"],
        &["flash", "a", "b", "--queue-depth", "0"],
        &["flash", "a", "b", "--block-size", "much"],
        &["flash", "a", "b", "--create", "0x"],
        &["verify"],
        &["verify", "a", "b", "--record", "c"],
        &["discard"],
    ];
    for args in cases {
        let output = run(args);
        assert_eq!(output.code, 2, "{args:?}: {output}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}: {output}");
    }
    for args in [&["--help"][..], &["--version"], &["flash", "--help"]] {
        let output = run(args).expect(0);
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{output}");
    }
}

#[test]
fn quiet_prints_errors_only() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 1));
    let output = run(&["flash", &image, "sim:16MiB", "--quiet"]).expect(0);
    assert_eq!(output.text(), "");
    let output = run(&["flash", &image, "sim:16MiB,fault=write@4MiB:error", "--quiet"]).expect(1);
    assert!(output.stdout.is_empty() && output.stderr.starts_with("error: "), "{output}");
}

#[test]
fn a_record_that_cannot_be_saved_is_no_success() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 1));
    let nowhere = dir.path().join("nowhere/record.json");
    let output = flash(&image, "sim:16MiB", &["--record", nowhere.to_str().unwrap()]).expect(1);
    // Found out before anything is written.
    output.says(&["--record: cannot create"]);
    let output = flash(&image, "sim:16MiB", &["--log", nowhere.to_str().unwrap()]);
    assert_ne!(output.code, 0);
    assert!(!output.events().iter().any(|event| event["event"] == "phase_started"), "{output}");
}

#[test]
fn what_one_run_recorded_another_can_verify() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB + 300, 1));
    let target = lab::target_folder();
    let stick = put(target.path(), "stick.img", &vec![0xee; 16 << 20]);
    let mut command = command(dir.path());
    command.args(["flash", &image, &stick, "--yes"]);
    let output = finish(command).expect(0);
    // Without --record it goes into the state folder, under a name of its own.
    let records: Vec<_> = fs::read_dir(dir.path().join("mediawriter/records")).unwrap().collect();
    assert_eq!(records.len(), 1, "{output}");
    let record = records[0].as_ref().unwrap().path();
    let record = record.to_str().unwrap();
    assert!(record.contains("-flash-") && output.text().contains(record), "{record}");
    verify(&stick, &["--record", record]).expect(0);
    lab::write_at(&stick, 5 * MIB, b"changed");
    let output = verify(&stick, &["--record", record]).expect(5);
    let range = output.event("bad_range");
    let (offset, len) = (range["offset"].as_u64().unwrap(), range["len"].as_u64().unwrap());
    assert!((offset..offset + len).contains(&(5 * MIB)) && len <= MIB, "{range}");
}
