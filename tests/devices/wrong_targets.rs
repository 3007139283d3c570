//! Which target is written: the cases B14 to B27 about devices that are somebody else's, in use,
//! protected, empty, or not what was meant. On loop devices; USB disks are in tests/guest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::lab::{
    self, Live, LoopDev, MIB, Mount, Output, Zram, disk_image, flash, folder, gpt_image, lab_has,
    on_terminal, partition, put, remove_loop, run, sh, sha256sum, verify, write_at,
};
use serde_json::Value;

/// The events tell of a medium that matched over this many bytes.
#[track_caller]
fn matched(output: &Output, bytes: u64) {
    let verdict = output.event("media_verdict");
    assert_eq!((&verdict["verdict"], &verdict["bytes"]), (&"matched".into(), &bytes.into()));
}

#[test]
fn b14_another_medium_under_the_same_name_is_not_the_one_that_was_confirmed() {
    if !lab_has(&["losetup", "python3"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 14));
    let a = put(dir.path(), "a", &vec![0xaa; 8 << 20]);
    let b = put(dir.path(), "b", &vec![0xbb; 8 << 20]);
    // A number of its own, far from those that `losetup --find` gives to others.
    let device = format!("/dev/loop{}", 4000 + std::process::id() % 1000);
    sh("losetup", &[&device, &a]);
    let name = device.strip_prefix("/dev/").unwrap();
    let swap = format!("run:losetup --detach {device} && losetup {device} {b}");
    let steps = [&format!("wait:Type {name}"), &swap, &format!("type:{name}")];
    let run = on_terminal(&["flash", &image, &device], &steps.map(String::as_str));
    sh("losetup", &["--detach", &device]);
    remove_loop(&device);
    assert_eq!((run.code, run.steps_done), (3, 3), "{}", run.output);
    assert!(run.output.contains("disk sequence number"), "{}", run.output);
    assert_eq!(fs::read(&a).unwrap(), vec![0xaa; 8 << 20]);
    assert_eq!(fs::read(&b).unwrap(), vec![0xbb; 8 << 20], "zero bytes were written to it");
}

#[test]
fn b16_every_holder_keeps_a_device_from_being_written_and_is_named() {
    if !lab_has(&["losetup", "mkfs.ext4", "mkswap"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 16));
    let refused = |stick: &LoopDev, words: &[&str]| {
        let before = sha256sum(stick.file.to_str().unwrap());
        for more in [&[][..], &["--force"]] {
            flash(&image, &stick.device, more).expect(3).says(words);
        }
        assert_eq!(sha256sum(stick.file.to_str().unwrap()), before);
    };
    let stick = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &stick.device]);
    let mount = Mount::new(&stick.device, &["-o", "ro"]);
    refused(&stick, &["mounted", mount.path(), "umount"]);
    // The one way past it says what it does.
    flash(&image, &stick.device, &["--unmount"]).expect(0).says(&["unmounted", mount.path()]);
    assert!(!lab::is_mounted(&mount.at));

    let stick = LoopDev::new(16 * MIB);
    sh("mkswap", &["-q", &stick.device]);
    if Command::new("swapon").arg(&stick.device).status().unwrap().success() {
        refused(&stick, &["swap", "swapoff"]);
        flash(&image, &stick.device, &["--unmount", "--force"]).expect(3).says(&["swap"]);
        sh("swapoff", &[&stick.device]);
    } else {
        lab::skip("this kernel does not swap on loop devices");
    }

    let stick = LoopDev::new(16 * MIB);
    let above = LoopDev::over(Path::new(&stick.device), &[]);
    refused(&stick, &[&above.device, "losetup"]);
    drop(above);
    flash(&image, &stick.device, &[]).expect(0);
}

#[test]
fn b17_all_busy_partitions_are_listed_at_once_each_with_its_user() {
    if !lab_has(&["losetup", "mkfs.ext4", "mkswap", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 17));
    let disk = put(dir.path(), "disk", &vec![0; 64 << 20]);
    partition(&disk, 512, "label: gpt\nsize=12M\nsize=12M\nsize=12M\nsize=12M\n");
    let stick = LoopDev::over(Path::new(&disk), &["-P"]);
    let parts: Vec<String> = (1..=4).map(|number| stick.partition(number)).collect();
    sh("mkfs.ext4", &["-q", &parts[0]]);
    sh("mkswap", &["-q", &parts[1]]);
    sh("mkfs.ext4", &["-q", &parts[3]]);
    let (one, four) = (Mount::new(&parts[0], &["-o", "ro"]), Mount::new(&parts[3], &["-o", "ro"]));
    let swaps = Command::new("swapon").arg(&parts[1]).status().unwrap().success();
    let held = LoopDev::over(Path::new(&parts[2]), &[]);
    let before = without_swap(&disk);
    let output = flash(&image, &stick.device, &["--force"]);
    let listed = run(&["devices", "--all"]);
    if swaps {
        sh("swapoff", &[&parts[1]]);
    }
    assert!(without_swap(&disk) == before);
    let output = output.expect(3).says(&[one.path(), four.path(), &held.device]);
    for (part, word) in parts.iter().zip(["mounted", "swap", "loop", "mounted"]) {
        let line = output.stderr.lines().find(|line| line.contains(part.as_str()));
        if word != "swap" || swaps {
            assert!(line.is_some_and(|line| line.contains(word)), "{part} {word}: {output}");
        }
    }
    listed.expect(0).says(&[one.path(), four.path(), &held.device]);
}

/// A disk's bytes without those behind the header of its second partition, the swap space: the
/// kernel may use what it was given.
fn without_swap(disk: &str) -> Vec<u8> {
    sh("sync", &["-f", disk]);
    let mut bytes = fs::read(disk).unwrap();
    bytes[(13 << 20) + 4096..25 << 20].fill(0);
    bytes
}

#[test]
fn b22_a_write_protected_device_is_refused_up_front() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 22));
    let stick = LoopDev::with(8 * MIB, &["-r"]);
    for more in [&[][..], &["--force"], &["--dry-run"]] {
        let output = flash(&image, &stick.device, more).expect(3);
        output.says(&["write-protected", "losetup -r"]).never_says(&["begins"]);
    }
    let listed: Value = serde_json::from_str(&run(&["devices", "--all", "--json"]).stdout).unwrap();
    assert_eq!(device_in(&listed, &stick.device).unwrap()["read_only"], true);
    run(&["devices", "--all"]).expect(0).says(&["write-protected"]);
    // Reading needs no right to write.
    let zeros = put(dir.path(), "zeros", &vec![0; 1 << 20]);
    verify(&stick.device, &[&zeros]).expect(0);
}

/// The object of a device in the JSON of `devices`.
fn device_in(listed: &Value, path: &str) -> Option<Value> {
    fn search(value: &Value, path: &str) -> Option<Value> {
        match value {
            Value::Object(map) if map.get("path").is_some_and(|p| p == path) => Some(value.clone()),
            Value::Object(map) => map.values().find_map(|value| search(value, path)),
            Value::Array(list) => list.iter().find_map(|value| search(value, path)),
            _ => None,
        }
    }
    search(listed, path)
}

#[test]
fn b24_an_empty_slot_has_no_medium_and_no_size() {
    if !lab_has(&["losetup", "python3"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 24));
    let device = format!("/dev/loop{}", 5000 + std::process::id() % 1000);
    sh("losetup", &[&device, &image]);
    sh("losetup", &["--detach", &device]);
    let zram = Zram::new(0);
    let plain = run(&["devices"]);
    let all = run(&["devices", "--all"]);
    let json = run(&["devices", "--all", "--json"]);
    let mut slots = vec![device.as_str()];
    slots.extend(zram.as_ref().map(|zram| zram.device.as_str()));
    for slot in slots {
        assert!(!plain.stdout.split_whitespace().any(|word| word == slot), "{plain}");
        let line = all.stdout.lines().find(|line| line.starts_with(&format!("{slot} "))).unwrap();
        assert!(line.contains("no medium") && line.contains(" no"), "{line}");
        let listed: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(device_in(&listed, slot).unwrap()["size_bytes"], 0);
        for args in [&["flash", &image, slot, "--yes", "--force"][..], &["discard", slot, "--yes"]]
        {
            run(args).expect(3).says(&["no medium"]).never_says(&["NaN", "inf"]);
        }
        run(&["verify", slot, &image]).expect(3).says(&["no medium"]);
    }
    remove_loop(&device);
}

#[test]
fn b26_a_partition_is_refused_and_the_disk_to_name_is_told() {
    if !lab_has(&["losetup", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 26));
    let disk = gpt_image(dir.path(), "disk", 32 * MIB, 512);
    let stick = LoopDev::over(Path::new(&disk), &["-P"]);
    let part = stick.partition(1);
    let before = sha256sum(&disk);
    for more in [&[][..], &["--force"], &["--unmount"]] {
        let output = flash(&image, &part, more).expect(3);
        output.says(&["partition", &format!("it is a partition of {}", stick.device)]);
    }
    run(&["discard", &part, "--yes"]).expect(3).says(&["partition"]);
    assert_eq!(sha256sum(&disk), before);
    // Reading one is another matter.
    let bytes = fs::read(&disk).unwrap();
    let slice = put(dir.path(), "slice", &bytes[1 << 20..5 << 20]);
    verify(&part, &[&slice]).expect(0);
}

#[test]
fn b27_links_are_resolved_before_anything_is_judged() {
    if !lab_has(&["losetup", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 27));
    let disk = gpt_image(dir.path(), "disk", 32 * MIB, 512);
    let stick = LoopDev::over(Path::new(&disk), &["-P"]);
    let part = stick.partition(1);
    let [to_part, to_disk] =
        ["usb-Test-0:0-part1", "usb-Test-0:0"].map(|name| dir.path().join(name));
    symlink(&part, &to_part).unwrap();
    symlink(&stick.device, &to_disk).unwrap();
    let before = sha256sum(&disk);
    flash(&image, to_part.to_str().unwrap(), &[]).expect(3).says(&["partition of", &stick.device]);
    assert_eq!(sha256sum(&disk), before);
    let output = flash(&image, to_disk.to_str().unwrap(), &[]).expect(0);
    matched(&output, 2 * MIB);
    output.says(&[&stick.device]);
}

#[test]
fn the_source_on_the_target_is_refused() {
    if !lab_has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let stick = LoopDev::new(32 * MIB);
    let behind = stick.file.to_str().unwrap();
    fs::write(&stick.file, disk_image(32 * MIB, 1)).unwrap();
    flash(behind, &stick.device, &[]).expect(3).says(&["its own source"]);
    let stick = LoopDev::new(32 * MIB);
    sh("mkfs.ext4", &["-q", &stick.device]);
    let mount = Mount::new(&stick.device, &[]);
    let image = put(&mount.at, "image", &disk_image(2 * MIB, 1));
    flash(&image, &stick.device, &["--unmount"]).expect(3).says(&["its own source"]);
    flash(&image, &image, &[]).expect(3).says(&["it would overwrite its own source"]);
    assert!(lab::is_mounted(&mount.at));
}

#[test]
fn nobody_mounts_or_locks_a_device_while_it_is_written() {
    if !lab_has(&["losetup", "mkfs.ext4", "flock"]) {
        return;
    }
    let dir = folder();
    let fs_image = put(dir.path(), "fs", &vec![0; 16 << 20]);
    sh("mkfs.ext4", &["-q", "-F", &fs_image]);
    let stick = LoopDev::new(64 * MIB);
    write_at(&stick.device, 0, &fs::read(&fs_image).unwrap());
    let image = put(dir.path(), "image", &disk_image(48 * MIB, 5));
    let slow = ["--block-size", "4096", "--queue-depth", "1"];
    let mut live = Live::flash(&image, &stick.device, &slow);
    live.wait_for_phase("write");
    let second = live.behind_its_back(|| flash(&image, &stick.device, &[]));
    live.send(nix::sys::signal::Signal::SIGTERM);
    live.end().expect(143);
    second.expect(3).says(&[&stick.device]);
}
