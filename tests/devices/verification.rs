//! Verification: the cases B29 to B37 that can be shown without a USB stack, with the medium
//! changed under the program's hands between write and read-back.

use std::fs;
use std::process::Command;

use crate::lab::{
    self, KIB, Live, LoopDev, MIB, Mount, Output, PROGRAM, Stick, disk_image, fill, find, finish,
    flash, folder, has_sticks, lab_has, noise, put, read_direct, run, sh, sha256sum, target_folder,
    verify, write_at,
};
use serde_json::{Value, json};

/// With blocks of this size a pass over some MiB takes long enough to be interrupted.
const SLOW: [&str; 4] = ["--block-size", "4096", "--queue-depth", "1"];

/// Flips a bit of the file behind a loop device.
fn flip(stick: &LoopDev, offset: u64) {
    let mut byte = [0];
    let file = fs::File::open(&stick.file).unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, offset).unwrap();
    write_at(&stick.file, offset, &[byte[0] ^ 0x10]);
}

/// Offset, length and exactness of the bad ranges.
fn bad_ranges(output: &Output) -> Vec<(u64, u64, bool)> {
    let number = |range: &Value, key: &str| range[key].as_u64().unwrap();
    let ranges = output.all("bad_range");
    let triple = |r: &Value| (number(r, "offset"), number(r, "len"), r["exact"].as_bool().unwrap());
    ranges.iter().map(triple).collect()
}

/// Flashes, changes the medium when it is complete and before it is read back, goes on.
fn change_before_verify(image: &str, stick: &LoopDev, change: impl FnOnce()) -> Output {
    let mut live = Live::flash(image, &stick.device, &SLOW);
    live.wait_for_phase("verify");
    live.behind_its_back(change);
    live.end()
}

#[test]
fn b29_verification_reads_the_device_and_finds_an_altered_sector() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let len = 48 * MIB;
    let image = put(dir.path(), "image", &disk_image(len, 29));
    let stick = LoopDev::with(64 * MIB, &["--direct-io=on"]);
    let mut live = Live::flash(&image, &stick.device, &SLOW);
    live.wait_for_phase("verify");
    let (read, victim) = (stick.read_so_far(), 47 * MIB + 12_345);
    live.behind_its_back(|| flip(&stick, victim));
    let output = live.end().expect(5);
    assert_eq!(bad_ranges(&output), [(victim / 512 * 512, 512, true)]);
    let output = output.says(&[&format!("byte {victim} is"), "1 bit differs"]);
    // Every byte came from the device, the few that were looked at a second time as well.
    let by_verify = stick.read_so_far() - read;
    assert!(by_verify + 4 * MIB >= len, "{by_verify} of {len} read from the device");
    assert_eq!(output.event("made_unbootable")["done"], true);
}

#[test]
fn b29_a_clean_verification_reads_as_much_as_the_image_has() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(16 * MIB, 29));
    let stick = LoopDev::with(32 * MIB, &["--direct-io=on"]);
    flash(&image, &stick.device, &[]).expect(0);
    for _ in 0..2 {
        let before = stick.read_so_far();
        verify(&stick.device, &[&image]).expect(0);
        let read = stick.read_so_far() - before;
        assert!((16 * MIB..18 * MIB).contains(&read), "{read}");
    }
}

#[test]
fn b30_a_stick_that_ignores_writes_is_told_from_a_bad_download() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 30));
    let dead = Stick::new(&["size=16M", "ignore_writes=1", "prefill=e5"]);
    let output = flash(&image, &dead.device, &[]).expect(5);
    let first = output.event("first_difference")["offset"].as_u64().unwrap();
    assert!(first < 64 * KIB, "{first}");
    assert_eq!(bad_ranges(&output)[0].0, 0);
    output.says(&["seems to ignore writes"]).never_says(&["done: "]);

    // A worn card that keeps its old content. Where the first bytes were read before they were
    // changed, as on a busy machine, it is another case: once more.
    let old = noise(32 * MIB, 99);
    let worn = |_| {
        let stick = LoopDev::new(32 * MIB);
        change_before_verify(&image, &stick, || write_at(&stick.file, 0, &old)).expect(5)
    };
    let output = (0..20).map(worn).find(|output| bad_ranges(output)[0].0 == 0).unwrap();
    output.says(&["seems to ignore writes", "old or other data"]);

    let wrong = "0".repeat(64);
    let good = LoopDev::new(32 * MIB);
    let output = flash(&image, &good.device, &["--sha256", &wrong]).expect(4);
    assert_eq!(output.event("source_verdict")["verdict"], "mismatched");
    assert_eq!(output.all("head_released").len(), 0);
    output.never_says(&["ignore writes"]);
    assert_eq!(read_direct(&good.device, 0, 64 * KIB), vec![0; 64 << 10]);
}

/// An ext4 filesystem whose journal wants to be replayed.
fn dirty_ext4(dir: &std::path::Path) -> String {
    let path = put(dir, "dirty.ext4", &vec![0; 32 << 20]);
    sh("mkfs.ext4", &["-q", "-F", "-L", "DIRTY", &path]);
    let disk = LoopDev::over(std::path::Path::new(&path), &[]);
    let mount = Mount::new(&disk.device, &[]);
    put(&mount.at, "file", &noise(MIB, 32));
    sh("sync", &["-f", mount.path()]);
    // What is on the disk now, without the unmount that would clean up.
    let copy = put(dir, "image", &fs::read(&path).unwrap());
    drop(mount);
    copy
}

#[test]
fn b32_nobody_mounts_the_medium_between_write_and_verification() {
    if !lab_has(&["losetup", "mkfs.ext4", "flock"]) {
        return;
    }
    let dir = folder();
    let image = dirty_ext4(dir.path());
    let stick = LoopDev::new(64 * MIB);
    let at = target_folder();
    for phase in ["write", "verify"] {
        let mut live = Live::flash(&image, &stick.device, &SLOW);
        live.wait_for_phase(phase);
        let (mounted, locked) = live.behind_its_back(|| {
            let mount = Command::new("mount").arg(&stick.device).arg(at.path()).output().unwrap();
            let lock = Command::new("flock").args(["-n", &stick.device, "true"]).status().unwrap();
            (mount.status.success(), lock.success())
        });
        if mounted {
            sh("umount", &[at.path().to_str().unwrap()]);
        }
        assert!(!mounted && !locked, "{phase}: mounted {mounted}, locked {locked}");
        live.end().expect(0);
    }
}

#[test]
fn b32_partitions_are_looked_for_only_after_the_verification() {
    if !lab_has(&["losetup", "strace"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 32));
    let stick = LoopDev::with(16 * MIB, &["-P"]);
    let trace = dir.path().join("trace");
    let mut command = Command::new("strace");
    lab::clean(&mut command, dir.path());
    command.args(["-f", "-y", "-o", trace.to_str().unwrap(), "-e", "trace=ioctl,pread64,pwrite64"]);
    command.args([PROGRAM, "flash", &image, &stick.device, "--yes"]);
    finish(command).expect(0);
    let trace = fs::read_to_string(trace).unwrap();
    let device = format!("<{}", stick.device);
    let lines: Vec<&str> = trace.lines().filter(|line| line.contains(&device)).collect();
    let reread = lines.iter().position(|line| line.contains("BLKRRPART")).unwrap();
    let io = |line: &&str| line.contains("pread64(") || line.contains("pwrite64(");
    let last = lines.iter().rposition(io).unwrap();
    assert!(last < reread, "{last} {reread}");
    assert_eq!(lines.iter().filter(|line| line.contains("BLKRRPART")).count(), 1);
}

#[test]
fn b32_what_a_mount_changed_is_no_bad_stick() {
    if !lab_has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let dir = folder();
    let image = dirty_ext4(dir.path());
    let stick = LoopDev::new(64 * MIB);
    flash(&image, &stick.device, &[]).expect(0);
    // Journal replay and the time of the mount.
    drop(Mount::new(&stick.device, &[]));
    let output = verify(&stick.device, &[&image]).expect(5);
    assert!(!bad_ranges(&output).is_empty());
    output.says(&["changed after writing"]).never_says(&["do not trust this stick"]);
}

#[test]
fn b34_verify_alone_writes_nothing_and_pinpoints_a_block() {
    if !lab_has(&["losetup", "mkfs.ext4", "strace"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &vec![0; 16 << 20]);
    sh("mkfs.ext4", &["-q", "-F", &image]);
    let stick = LoopDev::new(32 * MIB);
    let record = dir.path().join("record.json");
    let record = record.to_str().unwrap();
    flash(&image, &stick.device, &["--record", record]).expect(0);
    let sha256 = sha256sum(&image);
    let before = sha256sum(&stick.device);
    let ways: [&[&str]; 3] =
        [&[&image], &["--record", record], &["--sha256", &sha256, "--size", "16MiB"]];
    for way in ways {
        let output = verify(&stick.device, way).expect(0);
        assert_eq!(
            output.event("media_verdict"),
            json!({"event": "media_verdict", "verdict": "matched", "bytes": 16 * MIB})
        );
    }
    let trace = dir.path().join("trace");
    let mut command = Command::new(find("strace").unwrap());
    lab::clean(&mut command, dir.path());
    command.args(["-f", "-o", trace.to_str().unwrap(), "-P", &stick.device]);
    command.args([
        "-e",
        "trace=openat,pwrite64,write,ioctl",
        PROGRAM,
        "verify",
        &stick.device,
        &image,
    ]);
    finish(command).expect(0);
    let trace = fs::read_to_string(trace).unwrap();
    assert!(trace.contains("O_RDONLY"), "{trace}");
    for wrong in
        ["O_RDWR", "O_WRONLY", "write(", "write64(", "BLKDISCARD", "BLKZEROOUT", "BLKRRPART"]
    {
        assert!(!trace.contains(wrong), "{wrong}: {trace}");
    }
    assert_eq!(sha256sum(&stick.device), before);

    // s_mnt_count of the superblock, as a mount would count it.
    write_at(&stick.device, 1024 + 0x34, &[7]);
    let before = sha256sum(&stick.device);
    let output = verify(&stick.device, &[&image]).expect(5);
    assert_eq!(bad_ranges(&output), [(1024, 512, true)]);
    output.says(&["superblock", "changed after writing"]);
    for way in &ways[1..] {
        verify(&stick.device, way).expect(5);
    }
    assert_eq!(sha256sum(&stick.device), before);
}

#[test]
fn b35_every_length_of_an_image_is_verified_to_its_last_byte() {
    let dir = target_folder();
    let target = put(dir.path(), "stick", &vec![0xee; 20 << 20]);
    for block in [4 * KIB, 64 * KIB, MIB, 4 * MIB] {
        for difference in [-4095_i64, -513, -512, -511, -1, 0, 1, 511, 512, 513, 4095] {
            let len = (2 * block).checked_add_signed(difference).unwrap();
            let bytes = noise(len, len);
            let image = put(dir.path(), "image", &bytes);
            let block = block.to_string();
            let record = dir.path().join("record");
            let more = ["--block-size", &block, "--record", record.to_str().unwrap()];
            let output = flash(&image, &target, &more).expect(0);
            assert_eq!(output.event("media_verdict")["bytes"], len);
            let on_it = fs::read(&target).unwrap();
            assert_eq!(&on_it[..bytes.len()], bytes, "{len}");
            let record: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
            assert_eq!(record["source"]["sha256_actual"], sha256sum(&image));
        }
    }
}

#[test]
fn b35_the_last_byte_counts_and_the_padding_does_not() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    for sector in ["512", "4096"] {
        let stick = LoopDev::with(16 * MIB, &["-b", sector]);
        for len in [3 * MIB + 1, 3 * MIB + 511, 3 * MIB + 513, 3 * MIB + 4095] {
            let image = put(dir.path(), "image", &noise(len, len));
            flash(&image, &stick.device, &[]).expect(0);
            // Behind the image's end in the same sector.
            write_at(&stick.device, len, &[0xaa]);
            verify(&stick.device, &[&image]).expect(0);
            write_at(
                &stick.device,
                len - 1,
                &[!noise(len, len)[usize::try_from(len).unwrap() - 1]],
            );
            let output = verify(&stick.device, &[&image]).expect(5);
            let range = bad_ranges(&output)[0];
            assert_eq!(range.0, (len - 1) / 512 * 512, "{len}");
            assert_eq!(range.0 + range.1, len, "no further than the image");
        }
    }
}

#[test]
fn b37_silent_corruption_in_two_places_is_listed_in_both() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(48 * MIB, 37));
    let stick = LoopDev::new(64 * MIB);
    let (one, two) = (46 * MIB + 700, 47 * MIB + 4096);
    let output = change_before_verify(&image, &stick, || {
        flip(&stick, one);
        flip(&stick, two);
    });
    let output = output.expect(5);
    assert_eq!(bad_ranges(&output), [(46 * MIB + 512, 512, true), (two, 512, true)]);
    let verdict = output.event("media_verdict");
    assert_eq!((&verdict["ranges"], &verdict["bad_bytes"]), (&2.into(), &1024.into()));
    output.says(&["corrupts data silently", "FAILED (exit code 5)"]).never_says(&["done: "]);
}

#[test]
fn b37_the_list_is_bounded_and_the_count_is_not() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(32 * MIB, 38));
    let stick = LoopDev::new(32 * MIB);
    flash(&image, &stick.device, &[]).expect(0);
    for place in 0..300 {
        flip(&stick, MIB + place * 64 * KIB);
    }
    let output = verify(&stick.device, &[&image]).expect(5);
    assert_eq!(bad_ranges(&output).len(), 256);
    assert_eq!(output.event("media_verdict")["ranges"], 300);
    assert_eq!(output.event("media_verdict")["bad_bytes"], 300 * 512);
}

#[test]
fn b37_without_read_back_the_result_is_not_called_proven() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 37));
    let stick = LoopDev::new(16 * MIB);
    fill(&stick.device, 0xee, 16 * MIB);
    let output = flash(&image, &stick.device, &["--no-verify"]).expect(0);
    assert_eq!(output.event("media_verdict")["verdict"], "not_checked");
    output.says(&["not verified"]).never_says(&["every byte matches"]);
    // A verification that nobody can make is no success.
    let output = run(&["verify", &stick.device]);
    output.expect(2).says(&["nothing to compare with"]);
}

#[test]
fn verify_accuses_no_device_of_losing_what_it_never_saw_written() {
    let dir = target_folder();
    let stick = put(dir.path(), "other.img", &noise(8 * MIB, 71));
    let image = put(dir.path(), "image.img", &disk_image(6 * MIB, 72));
    let run = run(&["verify", &stick, &image]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("never written there, overwritten since, or lost"), "{run:?}");
    for word in ["ignore writes", "fake capacity", "accepted and lost"] {
        assert!(!run.stderr.contains(word), "{word}: {run:?}");
    }
}

#[test]
fn a_digest_alone_claims_no_range() {
    let dir = target_folder();
    let stick = put(dir.path(), "stick.img", &noise(MIB, 73));
    let digest = "0".repeat(64);
    let run = run(&["verify", &stick, "--sha256", &digest, "--size", "1MiB"]);
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("its digest differs"), "{run:?}");
    assert!(!run.stderr.contains("in 1 range"), "{run:?}");
}
