//! Several targets at once: one image, read once; each is written, proven and judged as if it were
//! alone.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::lab::{
    self, LoopDev, MIB, Output, clean, code, command, disk_image, eventually, feed, folder,
    lab_has, on_terminal, put, run, sh, sha256sum, target_folder, verify, windows_look_alike,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn many(image: &str, targets: &[&str], more: &[&str]) -> Output {
    run(&[&["flash", image], targets, &["--yes", "--json"], more].concat())
}

/// The ends that the last line tells: target and exit code.
fn ends(output: &Output) -> Vec<(String, i64)> {
    let end = output.events().pop().unwrap();
    assert_eq!(end["event"], "all_finished", "{output}");
    assert_eq!(end["exit_code"], i64::from(output.code));
    let end = |end: &Value| {
        (end["target"].as_str().unwrap().to_owned(), end["exit_code"].as_i64().unwrap())
    };
    output.events().pop().unwrap()["targets"].as_array().unwrap().iter().map(end).collect()
}

fn begins_with(target: &str, image: &[u8]) -> bool {
    fs::read(target).unwrap().starts_with(image)
}

fn files(dir: &tempfile::TempDir, count: usize, size: u64) -> Vec<String> {
    let bytes = vec![0xee; usize::try_from(size).unwrap()];
    (0..count).map(|n| put(dir.path(), format!("stick{n}"), &bytes)).collect()
}

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

#[test]
fn a_pipe_is_read_once_for_all_and_every_target_is_proven_and_recorded() {
    let dir = target_folder();
    let image = disk_image(40 * MIB + 512, 1);
    let targets = files(&dir, 8, 64 * MIB);
    let home = folder();
    let mut flash = command(home.path());
    let record = dir.path().join("run.json");
    flash.args(["flash", "-"]).args(&targets).args(["--yes", "--json", "--record"]).arg(&record);
    flash.arg("--log").arg(dir.path().join("seconds.csv"));
    let output = feed(flash, image.clone()).expect(0).says(&["done: all 8 targets"]);
    assert_eq!(ends(&output).len(), 8);
    let digest = sha256sum(&put(dir.path(), "image", &image));
    for (n, target) in targets.iter().enumerate() {
        assert!(begins_with(target, &image), "{target}");
        let own = |name: &str| dir.path().join(name);
        let record = fs::read(own(&format!("run-stick{n}.json"))).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        assert_eq!(record["source"]["sha256_actual"], digest.as_str());
        assert_eq!(record["media_verdict"]["verdict"], "matched");
        let log = fs::read_to_string(own(&format!("seconds-stick{n}.csv"))).unwrap();
        let bytes = log.lines().filter(|line| line.starts_with("verify,"));
        let bytes: u64 =
            bytes.map(|line| line.split(',').nth(3).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(bytes, image.len() as u64);
    }
    // Every line but the last says whose it is, and every target has a whole stream of its own.
    for target in &targets {
        let own = output.events().into_iter().filter(|event| event["target"] == target.as_str());
        let names: Vec<String> =
            own.map(|event| event["event"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            (names.first().unwrap(), names.last().unwrap()),
            (&"start".into(), &"finished".into())
        );
    }
}

#[test]
fn packed_images_are_decoded_for_all() {
    if !lab_has(&["xz", "losetup"]) {
        return;
    }
    let dir = target_folder();
    let image = disk_image(24 * MIB, 2);
    let plain = put(dir.path(), "image", &image);
    let sha256 = sha256sum(&plain);
    sh("xz", &["-0", &plain]);
    let sticks = [LoopDev::new(32 * MIB), LoopDev::new(40 * MIB), LoopDev::new(64 * MIB)];
    let targets: Vec<&str> = sticks.iter().map(|stick| stick.device.as_str()).collect();
    let packed = format!("{plain}.xz");
    let output = many(&packed, &targets, &["--image-sha256", &sha256]).expect(0);
    for target in &targets {
        assert!(begins_with(target, &image), "{target}");
    }
    let matched = output.all("source_verdict");
    assert!(matched.len() == 3 && matched.iter().all(|event| event["verdict"] == "matched"));
    for target in &targets {
        verify(target, &[&packed]).expect(0);
    }
    // What was not read back is not called so.
    let output = many(&packed, &targets, &["--no-verify"]).expect(0);
    output
        .says(&[
            "done: all 3 targets written and flushed, not all verified",
            "written, not verified",
        ])
        .never_says(&["every byte matches"]);
}

#[test]
fn one_that_fails_changes_nothing_for_the_others_and_the_code_says_how() {
    let dir = target_folder();
    let image = disk_image(24 * MIB, 3);
    let path = put(dir.path(), "image", &image);
    let good = files(&dir, 2, 32 * MIB);
    let sim = |fault: &str| format!("sim:32MiB,discard=no,{fault}");
    let (broken, flips, lies) =
        (sim("fault=write@9MiB:error"), sim("fault=read@9MiB:flip"), sim("real=16MiB"));
    for (bad, code, kind) in [
        (vec![&broken], 1, 1),
        (vec![&flips], 5, 5),
        (vec![&flips, &lies], 5, 5),
        (vec![&flips, &broken], 1, 0),
    ] {
        for target in &good {
            fs::write(target, vec![0xee; 32 << 20]).unwrap();
        }
        let mut targets = words(&good);
        targets.extend(bad.iter().map(|word| word.as_str()));
        let failed = bad.len();
        let told = format!("{failed} of {} targets failed; 2 are done", targets.len());
        let output = many(&path, &targets, &[]).expect(code).says(&[&told, "FAILED"]);
        let ends = ends(&output);
        assert_eq!(ends.iter().filter(|(_, code)| *code == 0).count(), 2, "{ends:?}");
        for (_, code) in &ends[2..] {
            assert!(*code == kind || kind == 0 && [1, 5].contains(code), "{ends:?}");
        }
        for target in &good {
            assert!(begins_with(target, &image), "{target}");
        }
        // What failed was made unbootable, as it is alone.
        assert_eq!(output.all("made_unbootable").len(), failed);
    }
}

#[test]
fn a_wrong_source_leaves_no_target_bootable() {
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(24 * MIB, 4));
    let targets = files(&dir, 3, 32 * MIB);
    let wrong = "0".repeat(64);
    let output = many(&image, &words(&targets), &["--sha256", &wrong]).expect(4);
    assert!(ends(&output).iter().all(|(_, code)| *code == 4));
    assert_eq!(output.all("made_unbootable").len(), 3);
    for target in &targets {
        assert!(fs::read(target).unwrap()[..1 << 20].iter().all(|byte| *byte == 0), "{target}");
    }
}

/// What is refused is refused before anything is written to any of them.
#[test]
fn one_that_is_refused_stops_all_before_they_begin() {
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(24 * MIB, 5));
    let good = files(&dir, 2, 32 * MIB);
    let small = put(dir.path(), "small", &[0xee; 4096]);
    let untouched =
        || good.iter().all(|file| fs::read(file).unwrap().iter().all(|byte| *byte == 0xee));
    let missing = dir.path().join("missing").display().to_string();
    for (bad, code, words_of_it) in [
        (vec![small.as_str()], 3, "the image does not fit"),
        (vec![&missing], 3, "does not exist"),
        (vec!["/dev/null"], 3, "/dev/null"),
        (vec![&small, &missing], 3, "2 of 4 targets cannot be written, so none was"),
        (vec!["sim:1"], 2, "sim:"),
        (vec![&good[0]], 2, "is named twice"),
        (vec![&image], 3, "it would overwrite its own source"),
    ] {
        let targets = [words(&good), bad].concat();
        many(&image, &targets, &[]).expect(code).says(&[words_of_it]);
        assert!(untouched(), "{targets:?}");
    }
    let create = many(&image, &words(&good), &["--create", "32MiB"]).expect(2);
    create.says(&["--create makes one file"]);
    let dry = many(&image, &words(&good), &["--dry-run"]).expect(0);
    dry.says(&["Target 1 of 2: ", "Target 2 of 2: ", "nothing was written"]);
    assert!(untouched());
}

#[test]
fn the_names_of_all_disks_are_the_word_that_starts_it() {
    if !lab_has(&["losetup", "python3"]) {
        return;
    }
    let dir = target_folder();
    let bytes = disk_image(8 * MIB, 6);
    let image = put(dir.path(), "image", &bytes);
    let sticks = [LoopDev::new(16 * MIB), LoopDev::new(16 * MIB)];
    let (one, other) = (sticks[0].name(), sticks[1].name());
    let targets = sticks.each_ref().map(|stick| stick.device.as_str());
    let args = [&["flash", &image], &targets[..]].concat();
    for (answer, code) in
        [("yes", 3), (one, 3), (&format!("{other} {one}"), 3), (&format!("{one} {other}"), 0)]
    {
        let steps = [format!("wait:Type {one} {other} to go on"), format!("type:{answer}")];
        let run = on_terminal(&args, &steps.each_ref().map(String::as_str));
        assert_eq!((run.code, run.settings_kept), (code, true), "{answer}: {}", run.output);
        assert_eq!(begins_with(targets[1], &bytes), code == 0, "{answer}");
    }
}

/// Ctrl-C while the source stalls: all stop at once, none boots.
#[test]
fn a_signal_stops_all_and_none_boots() {
    let dir = target_folder();
    let targets = files(&dir, 3, 64 * MIB);
    let home = folder();
    let mut flash = Command::new(lab::PROGRAM);
    clean(&mut flash, home.path());
    flash.args(["flash", "-"]).args(&targets).args(["--yes", "--json"]);
    flash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = flash.process_group(0).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&disk_image(20 * MIB, 7)).unwrap();
    // The pipe stays open, and nothing more comes.
    eventually("all are written to", || {
        targets.iter().all(|file| {
            fs::read(file).unwrap()[10 << 20..11 << 20].iter().any(|b| ![0, 0xee].contains(b))
        })
    });
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(OwnedFd::from(stdin));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 130, "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        stdout.matches("\"event\":\"made_unbootable\",\"done\":true").count(),
        3,
        "{stdout}"
    );
    for target in &targets {
        assert!(fs::read(target).unwrap()[..1 << 20].iter().all(|byte| *byte == 0), "{target}");
    }
}

/// The files of a Windows ISO make another image for each size of target.
#[test]
fn a_windows_iso_is_composed_for_each_target() {
    if !lab_has(&["losetup", "genisoimage", "wimlib-imagex", "grub-mkimage", "fsck.vfat", "sgdisk"])
    {
        return;
    }
    let dir = windows_look_alike(&[]);
    let iso = dir.path().join("windows.iso").display().to_string();
    let sticks = [LoopDev::new(400 * MIB), LoopDev::new(600 * MIB)];
    let targets = sticks.each_ref().map(|stick| stick.device.as_str());
    many(&iso, &targets, &[]).expect(0).says(&["done: all 2 targets"]);
    for target in targets {
        assert!(sh("sgdisk", &["-v", target]).contains("No problems found"), "{target}");
        verify(target, &[&iso]).expect(0);
    }
    // What a stick installs is told by the list, and by whoever is about to overwrite it.
    let edition = "Windows 11 Home: build";
    run(&["devices", "--all"]).expect(0).says(&["installs", edition]);
    run(&["flash", &iso, targets[0], "--dry-run"]).expect(0).says(&["installs", edition]);
    let list = run(&["devices", "--all", "--json"]).expect(0);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let devices = list["devices"].as_array().unwrap();
    let ours = devices.iter().find(|device| device["path"] == targets[1]).unwrap();
    assert!(ours["installs"][0].as_str().unwrap().contains(edition), "{ours}");
}

#[test]
fn what_matches_is_found_by_its_numbers_or_refused() {
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(MIB, 8));
    // Reserved for nobody: no such device is plugged in.
    let nobody = ["flash", &image, "--all-matching", "fffe:fffe", "--yes"];
    run(&nobody).expect(3).says(&["no disk that is plugged in is a USB device fffe:fffe", "lsusb"]);
    let args = |more: &[&'static str]| -> Vec<String> {
        ["flash", &image].iter().chain(more).map(|&word| word.to_owned()).collect()
    };
    run(&args(&["--all-matching", "sandisk"])).expect(2).says(&["VENDOR:PRODUCT"]);
    run(&args(&["--station", "--yes"])).expect(2).says(&["--all-matching"]);
    run(&args(&["/dev/null", "--all-matching", "0781:5583"])).expect(2);
    let piped = ["flash", "-", "--all-matching", "fffe:fffe", "--station", "--yes"];
    let home = folder();
    let mut station = command(home.path());
    station.args(piped);
    feed(station, disk_image(MIB, 9)).expect(3).says(&["can be read once"]);
}
