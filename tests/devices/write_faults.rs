//! Write failures and odd devices: the cases B01 to B25 that can be shown without a USB stack, on
//! loop devices, zram and modelled sticks. What only a guest can show is in tests/guest.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::{
    self, GIB, LoopDev, MIB, Mount, Output, PROGRAM, Stick, Zram, disk_image, fill, finish, flash,
    folder, gpt_image, has_sticks, hybrid_iso, lab_has, noise, plain_iso, put, read_direct, run,
    sh, sha256sum, target_folder, windows_iso, write_at,
};
use serde_json::Value;

/// The events tell of a medium that matched over this many bytes.
#[track_caller]
fn matched(output: &Output, bytes: u64) {
    let verdict = output.event("media_verdict");
    assert_eq!((&verdict["verdict"], &verdict["bytes"]), (&"matched".into(), &bytes.into()));
}

/// Payload bytes of a phase.
fn phase_bytes(output: &Output, phase: &str) -> u64 {
    let ended = output.all("phase_ended");
    let of_phase = ended.iter().filter(|totals| totals["phase"] == phase);
    of_phase.map(|totals| totals["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn b01_a_device_that_ends_in_half_a_block_is_written_to_its_last_sector() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(8 * MIB + 512);
    fill(&stick.device, 0xee, 8 * MIB + 512);
    let dir = folder();
    let bytes = disk_image(8 * MIB + 100, 1);
    let image = put(dir.path(), "odd.img", &bytes);
    for more in [&[][..], &["--block-size", "512K"], &["--block-size", "1M", "--discard", "never"]]
    {
        let record = dir.path().join("record.json");
        let args = [more, &["--record", record.to_str().unwrap()]].concat();
        let output = flash(&image, &stick.device, &args).expect(0);
        matched(&output, 8 * MIB + 100);
        assert_eq!(phase_bytes(&output, "write") + phase_bytes(&output, "release"), 8 * MIB + 100);
        assert_eq!(read_direct(&stick.device, 0, 8 * MIB + 100), bytes);
        let padding = read_direct(&stick.device, 8 * MIB + 100, 412);
        assert!(padding.iter().all(|&byte| byte == 0), "padded with zeros to one sector");
        let record: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        assert_eq!(record["source"]["size"], 8 * MIB + 100);
        assert_eq!(record["chunk_map"]["len"], 8 * MIB + 100, "{}", record["chunk_map"]);
    }
}

#[test]
fn b01_padding_goes_no_further_than_one_sector() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(16 * MIB);
    fill(&stick.device, 0xee, 16 * MIB);
    let dir = folder();
    let image = put(dir.path(), "odd.img", &disk_image(8 * MIB + 100, 1));
    flash(&image, &stick.device, &["--discard", "never"]).expect(0);
    let behind = read_direct(&stick.device, 8 * MIB + 512, MIB);
    assert!(behind.iter().all(|&byte| byte == 0xee), "what lies behind the image is not touched");
}

#[test]
fn b03_alignment_follows_the_sectors_of_the_device() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::with(8 * MIB, &["-b", "4096"]);
    let zram = Zram::new(8 * MIB);
    let dir = folder();
    let devices = [Some(stick.device.as_str()), zram.as_ref().map(|zram| zram.device.as_str())];
    for device in devices.into_iter().flatten() {
        for len in [4096 * 700 + 1, 4096 * 700 + 512, 4096 * 700 + 3584, 512, 4095, 4097] {
            let image = noise(len, len);
            let path = put(dir.path(), "image", &image);
            let output = flash(&path, device, &[]).expect(0);
            matched(&output, len);
            assert!(!output.remarked("no-direct-io"), "{output}");
            assert_eq!(read_direct(device, 0, len), image, "{device} {len}");
        }
        let usage =
            flash(&put(dir.path(), "image", &noise(MIB, 1)), device, &["--block-size", "512"]);
        usage.expect(2).says(&["must be a multiple of the sector size, 4096 bytes"]);
    }
}

#[test]
fn b03_a_target_without_direct_io_is_said_once_and_still_read_back_from_the_medium() {
    if !lab_has(&["losetup", "strace"]) {
        return;
    }
    // ramfs has no direct I/O: open(2) with O_DIRECT says EINVAL.
    let ramfs = Mount::new("none", &["-t", "ramfs"]);
    let target = put(&ramfs.at, "stick.img", &vec![0xee; 8 << 20]);
    let dir = folder();
    let image = disk_image(3 * MIB + 777, 3);
    let path = put(dir.path(), "image", &image);
    let (trace, record) = (dir.path().join("trace"), dir.path().join("record.json"));
    let mut command = Command::new("strace");
    lab::clean(&mut command, dir.path());
    command.args(["-f", "-o", trace.to_str().unwrap(), "-e"]);
    command.args([
        "trace=openat,fsync,fdatasync,fadvise64,pread64",
        PROGRAM,
        "flash",
        &path,
        &target,
    ]);
    command.args(["--yes", "--json", "--record", record.to_str().unwrap()]);
    let output = finish(command).expect(0);
    matched(&output, 3 * MIB + 777);
    let said = output.events().iter().filter(|event| event["code"] == "no-direct-io").count();
    assert_eq!(said, 1, "{output}");
    let trace = fs::read_to_string(trace).unwrap();
    let opened = trace.lines().rfind(|l| l.contains("stick.img") && l.contains("O_RDWR")).unwrap();
    assert!(opened.contains("O_DSYNC") && !opened.contains("O_DIRECT"), "{opened}");
    // Synced and dropped before anything is read back.
    assert!(trace.contains("fsync(") && trace.contains("POSIX_FADV_DONTNEED"), "{trace}");
    let record: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(record["geometry"]["direct"], false);
    assert_eq!(record["settings"]["direct"], false);
    assert_eq!(&fs::read(&target).unwrap()[..image.len()], image);
}

#[test]
fn b04_a_write_error_stops_the_run_where_it_happens() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let tmpfs = Mount::new("none", &["-t", "tmpfs", "-o", "size=16m"]);
    let file = tmpfs.at.join("sparse.img");
    fs::File::create(&file).unwrap().set_len(64 * MIB).unwrap();
    let stick = LoopDev::over(&file, &[]);
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(32 * MIB, 4));
    let record = dir.path().join("record.json");
    let args = ["--record", record.to_str().unwrap()];
    let output = flash(&image, &stick.device, &args).expect(1);
    let output =
        output.says(&[&stick.device, "FAILED (exit code 1)", "failed during write at offset"]);
    let output = output.says(&["No space left on device (os error 28)"]).never_says(&["done: "]);
    let offset = output.event("finished")["place"]["offset"].as_u64().unwrap();
    assert!((8 * MIB..=24 * MIB).contains(&offset), "{offset}");
    assert_eq!(output.all("head_released").len(), 0);
    assert_eq!(output.event("made_unbootable")["done"], true, "{output}");
    assert_eq!(read_direct(&stick.device, 0, 4096), vec![0; 4096]);
    let record: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(record["ending"]["exit_code"], 1);
    assert_eq!(record["media_verdict"], Value::Null);
    output.says(&["INCOMPLETE"]);
}

#[test]
fn b04_an_error_at_the_last_partial_block_is_an_error() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let len = 10 * MIB + 700;
    let image = put(dir.path(), "image", &disk_image(len, 4));
    let stick = Stick::new(&["size=16M", &format!("eio_write={}", 10 * MIB + 600)]);
    let output = flash(&image, &stick.device, &[]).expect(1).never_says(&["done: "]);
    let place = &output.event("finished")["place"];
    let (offset, len) = (place["offset"].as_u64().unwrap(), place["len"].as_u64().unwrap());
    assert!((offset..offset + len).contains(&(10 * MIB + 600)), "{place}");
    assert_eq!(output.event("made_unbootable")["done"], true, "{output}");
}

#[test]
fn b05_a_table_for_other_sectors_is_refused_and_a_hybrid_iso_is_warned_of() {
    if !lab_has(&["losetup", "sfdisk", "xorriso"]) {
        return;
    }
    let dir = folder();
    let (gpt512, gpt4096) = (
        gpt_image(dir.path(), "512", 16 * MIB, 512),
        gpt_image(dir.path(), "4096", 16 * MIB, 4096),
    );
    let iso = hybrid_iso(dir.path(), "hybrid.iso");
    let small = LoopDev::with(32 * MIB, &[]);
    let large = LoopDev::with(32 * MIB, &["-b", "4096"]);
    fill(&large.device, 0xee, 32 * MIB);
    let before = sha256sum(&large.device);
    let refused = flash(&gpt512, &large.device, &[]).expect(3);
    refused.says(&["sector-size", "512-byte sectors", "4096-byte sectors", "--force"]);
    assert_eq!(sha256sum(&large.device), before, "nothing was written");
    flash(&gpt4096, &small.device, &[]).expect(3).says(&["made for 4096-byte sectors"]);
    // With the wish spelled out it is written, and still warned of.
    let forced = flash(&gpt512, &large.device, &["--force"]).expect(0);
    forced.says(&["made for 512-byte sectors"]);
    for (image, device) in [(&gpt512, &small.device), (&gpt4096, &large.device)] {
        flash(image, device, &[]).expect(0).never_says(&["-byte sectors and the medium"]);
    }
    let warned = flash(&iso, &large.device, &[]).expect(0);
    warned.says(&["will probably not find", "4096-byte sectors"]);
    flash(&iso, &small.device, &[]).expect(0).never_says(&["will probably not find"]);
}

#[test]
fn b07_a_windows_iso_is_never_copied_raw_onto_a_stick() {
    if !lab_has(&["losetup", "genisoimage"]) {
        return;
    }
    let dir = folder();
    let iso = windows_iso(dir.path());
    for options in [&["-b", "4096"][..], &[]] {
        let stick = LoopDev::with(32 * MIB, options);
        fill(&stick.device, 0xee, 32 * MIB);
        let before = sha256sum(&stick.device);
        let output = flash(&iso, &stick.device, &[]);
        // Either refused before anything is wiped, or made into media of another kind.
        if output.code == 3 {
            output.says(&["Windows"]);
            assert_eq!(sha256sum(&stick.device), before);
        } else {
            let output = output.expect(0);
            assert_ne!(output.event("media_verdict")["verdict"], "not_checked");
            assert_ne!(read_direct(&stick.device, 0x8001, 5), b"CD001");
        }
    }
}

/// Names of regular files in /dev, those aside that other runs of this test make for a moment. Devices
/// come and go on a busy machine.
fn files_in_dev() -> Vec<String> {
    let files = fs::read_dir("/dev").unwrap().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| !name.starts_with("mediawriter-test-")).collect();
    names.sort();
    names
}

#[test]
fn b09_a_name_that_is_no_device_is_refused_and_no_file_is_made_of_it() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 9));
    let stick = LoopDev::new(8 * MIB);
    let before = files_in_dev();
    let with_blank = format!("{} ", stick.device);
    for target in ["/dev/sdzz", &with_blank, "/dev/disk/by-id/usb-Gone-0:0", "/dev/mapper/../sdzz"]
    {
        for more in [&[][..], &["--create", "8M"], &["--force"]] {
            let output = flash(&image, target, more).expect(3).never_says(&["done: "]);
            if more.is_empty() {
                output.says(&["no such device"]);
            }
        }
    }
    flash(&image, &with_blank, &[]).expect(3).says(&["did you mean", &stick.device]);
    assert_eq!(files_in_dev(), before);
    flash(&image, "/dev/null", &[]).expect(3).says(&["character device"]);
    flash(&image, "/dev", &[]).expect(3).says(&["folder"]);
    // A file of another day under /dev, as it is left behind by `dd of=/dev/sdz`.
    let stale = format!("/dev/mediawriter-test-{}", std::process::id());
    fs::write(&stale, b"stale").unwrap();
    let output = flash(&image, &stale, &[]);
    let kept = fs::read(&stale).unwrap();
    fs::remove_file(&stale).unwrap();
    output.expect(3).says(&["a regular file under /dev is never a target"]);
    assert_eq!(kept, b"stale");
    assert_eq!(files_in_dev(), before);
    // Outside of /dev a file is made only when that is asked for.
    let elsewhere = target_folder();
    let new = elsewhere.path().join("new.img");
    flash(&image, new.to_str().unwrap(), &[]).expect(3).says(&["does not exist", "--create"]);
    assert!(!new.exists());
    flash(&image, new.to_str().unwrap(), &["--create", "8M"]).expect(0);
    assert_eq!(fs::metadata(&new).unwrap().len(), 8 * MIB);
    let once_more = flash(&image, new.to_str().unwrap(), &["--create", "16M"]);
    assert_ne!(once_more.code, 0);
    assert_eq!(fs::metadata(&new).unwrap().len(), 8 * MIB);
}

/// System calls of a flash that could change the length of its target.
fn length_changes(image: &str, target: &str) -> String {
    let dir = folder();
    let trace = dir.path().join("trace");
    let mut command = Command::new("strace");
    lab::clean(&mut command, dir.path());
    command.args(["-f", "-y", "-o", trace.to_str().unwrap()]);
    command.args(["-e", "trace=ftruncate,truncate,fallocate,openat,creat"]);
    command.args([PROGRAM, "flash", image, target, "--yes"]);
    finish(command).expect(0);
    let trace = fs::read_to_string(trace).unwrap();
    assert!(trace.contains(target), "the trace shows the target: {trace}");
    let of_target = trace.lines().filter(|line| line.contains(target));
    let changing = |line: &&str| {
        line.contains("truncate(") || line.contains("O_TRUNC") || line.contains("O_CREAT")
    };
    of_target.filter(changing).collect::<Vec<_>>().join("\n")
}

#[test]
fn b10_a_device_is_never_truncated_and_a_file_keeps_its_length() {
    if !lab_has(&["losetup", "strace"]) {
        return;
    }
    let dir = folder();
    let bytes = disk_image(3 * MIB + 100, 10);
    let image = put(dir.path(), "image", &bytes);
    let stick = LoopDev::new(8 * MIB);
    assert_eq!(length_changes(&image, &stick.device), "");
    assert_eq!(read_direct(&stick.device, 0, 3 * MIB + 100), bytes);
    let files = target_folder();
    let file = put(files.path(), "longer.img", &vec![0xee; 8 << 20]);
    assert_eq!(length_changes(&image, &file), "");
    let after = fs::read(&file).unwrap();
    assert_eq!(after.len() as u64, 8 * MIB, "a file keeps its length");
    assert_eq!(&after[..bytes.len()], bytes);
    // A shorter file does not grow.
    let short = put(files.path(), "short.img", &vec![0xee; 2 << 20]);
    flash(&image, &short, &[]).expect(3).says(&["does not fit"]);
    assert_eq!(fs::read(&short).unwrap(), vec![0xee; 2 << 20]);
}

#[test]
fn b12_a_stick_that_goes_away_ends_the_run_within_seconds_and_names_the_phase() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(32 * MIB, 12));
    let log = dir.path().join("seconds.csv");
    let stick = Stick::new(&["size=64M", "write_bps=20M", "vanish=24M"]);
    let output = flash(&image, &stick.device, &["--log", log.to_str().unwrap()]).expect(1);
    let place = output.event("finished")["place"]["offset"].as_u64().unwrap();
    assert!((20 * MIB..=28 * MIB).contains(&place), "two are in flight: {place}");
    assert_eq!(output.event("made_unbootable")["done"], false);
    assert!(output.took.as_secs() < 20, "{:?}", output.took);
    let output = output.says(&["during write", "could not be made unbootable", "try: "]);
    output.never_says(&["done: "]);
    let rows = fs::read_to_string(log).unwrap();
    assert!(rows.lines().any(|row| row.starts_with("write,0,1.000000,")), "{rows}");
}

#[test]
fn b18_a_backup_table_in_the_middle_is_one_line_and_no_failure() {
    if !lab_has(&["losetup", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let image = gpt_image(dir.path(), "gpt.img", 64 * MIB, 512);
    let stick = LoopDev::new(256 * MIB);
    let output = flash(&image, &stick.device, &[]).expect(0);
    matched(&output, 64 * MIB);
    let notes = output.events().into_iter().filter(|e| e["code"] == "backup-gpt-inside").count();
    assert_eq!(notes, 1, "{output}");
    assert_eq!(read_direct(&stick.device, 64 * MIB - 512, 8), b"EFI PART");
    let end = read_direct(&stick.device, 255 * MIB, MIB);
    assert!(end.iter().all(|&byte| byte == 0), "nothing is relocated unasked");
    let exact = LoopDev::new(64 * MIB);
    assert!(!flash(&image, &exact.device, &[]).expect(0).remarked("backup-gpt-inside"));
}

#[test]
fn b20_nothing_of_an_old_iso_is_left_under_a_new_filesystem() {
    if !lab_has(&["losetup", "xorriso", "genisoimage", "mkfs.vfat", "wipefs"]) {
        return;
    }
    let dir = folder();
    let fat = dir.path().join("fat.img");
    sh("mkfs.vfat", &["-C", "-n", "NEWFAT", fat.to_str().unwrap(), "2048"]);
    let bridge = windows_iso(dir.path());
    let isos = [plain_iso(dir.path(), "plain.iso"), hybrid_iso(dir.path(), "hybrid.iso")];
    for more in [&[][..], &["--discard", "never"]] {
        let stick = LoopDev::new(16 * MIB);
        for iso in &isos {
            flash(iso, &stick.device, more).expect(0);
            assert!(sh("wipefs", &["-n", &stick.device]).contains("iso9660"));
            only_fat(&fat, &stick, more);
        }
        // A UDF bridge has anchors at both ends; put there by another tool.
        write_at(&stick.device, 0, &fs::read(&bridge).unwrap());
        only_fat(&fat, &stick, more);
    }
}

#[track_caller]
fn only_fat(fat: &Path, stick: &LoopDev, more: &[&str]) {
    let output = flash(fat.to_str().unwrap(), &stick.device, more).expect(0);
    let cleared = output.event("cleared").to_string();
    assert!(cleared.contains("iso9660"), "{cleared}");
    let left = sh("wipefs", &["-n", &stick.device]);
    assert!(left.contains("vfat"), "{left}");
    assert!(!left.contains("iso9660") && !left.contains("udf"), "{left}");
    let area = read_direct(&stick.device, 0x8000, 0x1000);
    for signature in [&b"CD001"[..], b"NSR0", b"BEA01"] {
        assert!(!area.windows(signature.len()).any(|window| window == signature));
    }
}

#[test]
fn b25_nothing_wraps_on_a_device_of_3_tib() {
    if !lab_has(&["losetup", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let image = gpt_image(dir.path(), "image", 16 * MIB, 512);
    let stick = LoopDev::new(3072 * GIB);
    let end = 3072 * GIB;
    // What an old disk has at its end: a 32-bit offset would clear another place.
    write_at(&stick.device, end - 512, b"EFI PART");
    write_at(&stick.device, 2048 * GIB + 512, b"not the end");
    let output = flash(&image, &stick.device, &["--discard", "never"]).expect(0);
    matched(&output, 16 * MIB);
    assert_eq!(read_direct(&stick.device, end - 512, 8), [0; 8]);
    assert_eq!(read_direct(&stick.device, 2048 * GIB + 512, 11), b"not the end");
    let output = run(&["flash", &image, &stick.device, "--dry-run"]).expect(0);
    output.says(&["3.00 TiB (3.30 TB)", "3298534883328 bytes"]);
    // Offsets beyond 2 TiB.
    let offset = (2560 * GIB).to_string();
    write_at(&stick.device, 2560 * GIB, b"to be given back");
    let args = ["discard", &stick.device, "--yes", "--json", "--offset", &offset, "--length", "1G"];
    let output = run(&args).expect(0);
    let chunks = output.all("discard_chunk");
    assert_eq!(chunks.first().unwrap()["offset"], 2560 * GIB);
    assert_eq!(chunks.iter().map(|chunk| chunk["len"].as_u64().unwrap()).sum::<u64>(), GIB);
    assert_eq!(read_direct(&stick.device, 2560 * GIB, 16), [0; 16]);
    assert_eq!(read_direct(&stick.device, 2048 * GIB + 512, 11), b"not the end");
    assert!(output.percentages().iter().all(|&percent| percent <= 100));
}
