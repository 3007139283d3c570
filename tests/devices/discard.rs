//! Discard and TRIM: the cases B73 to B82 that can be shown without a USB stack.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::{
    self, GIB, KIB, Live, LoopDev, MIB, Mount, Output, Stick, disk_image, fill, flash, folder,
    has_sticks, lab_has, noise, partition, put, read_direct, run, sh, target_folder,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Chunks of a discard: offset, length, seconds.
fn chunks(output: &Output) -> Vec<(u64, u64, f64)> {
    let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
    let triple =
        |e: &Value| (number(e, "offset"), number(e, "len"), number(e, "nanos") as f64 / 1e9);
    output.all("discard_chunk").iter().map(triple).collect()
}

fn image(dir: &tempfile::TempDir, len: u64) -> String {
    put(dir.path(), "image", &disk_image(len, len))
}

#[test]
fn b73_discard_is_done_and_timed_where_it_is_offered_and_skipped_in_words_where_not() {
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let output = flash(&image, "sim:64MiB,discard=no", &[]).expect(0);
    assert!(output.remarked("discard-unsupported"), "{output}");
    assert!(!output.events().iter().any(|event| event["phase"] == "discard"));
    output.says(&["offers no discard: skipped", "every byte matches"]);
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(64 * MIB);
    fill(&stick.device, 0xee, 64 * MIB);
    let output = flash(&image, &stick.device, &[]).expect(0);
    let ended = output.all("phase_ended");
    let discard = ended.iter().find(|totals| totals["phase"] == "discard").unwrap();
    assert_eq!(discard["bytes"], 62 * MIB, "all but the guarded ends");
    assert!(discard["nanos"].as_u64().unwrap() > 0);
    let blocks = sh("stat", &["-c", "%b", stick.file.to_str().unwrap()]);
    let stored = blocks.trim().parse::<u64>().unwrap() * 512;
    assert!(stored < 12 * MIB, "{stored} bytes of the file are still stored");
}

#[test]
fn b74_a_discard_that_is_announced_and_fails_is_a_warning() {
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let failing = "sim:64MiB,prefill=ff,fault=discard#1:error";
    let output = flash(&image, failing, &[]).expect(0);
    assert!(output.remarked("discard-failed"), "{output}");
    output.says(&["discard failed, going on without", "every byte matches"]);
    let output = flash(&image, failing, &["--discard", "always"]).expect(1);
    assert_eq!(output.all("head_released").len(), 0);
    output.never_says(&["done: "]);
    run(&["discard", failing, "--yes"]).expect(1).says(&["FAILED (exit code 1)"]);
}

#[test]
fn b75_without_discard_the_job_goes_on_unless_discard_was_asked_for() {
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let record = dir.path().join("record.json");
    let target = "sim:64MiB,discard=no";
    let more = ["--record", record.to_str().unwrap()];
    flash(&image, target, &more).expect(0).never_says(&["warning: discard", "os error"]);
    let record: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(record["geometry"]["discard_granularity"], 0);
    assert_eq!(record["settings"]["discard"], "auto");
    assert!(record["notes"].to_string().contains("discard-unsupported"));
    let output = flash(&image, target, &["--discard", "always"]).expect(3);
    assert!(!output.events().iter().any(|event| event["event"] == "phase_started"), "{output}");
    output.says(&["offers no discard", "--discard always"]).never_says(&["made unbootable"]);
    assert!(
        !flash(&image, target, &["--discard", "never"]).expect(0).remarked("discard-unsupported")
    );
}

#[test]
fn b77_a_discard_as_slow_as_writing_is_shown_in_chunks_and_said_to_be_one() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let stick = Stick::new(&["size=512M", "discard_bps=150M"]);
    let output = flash(&image, &stick.device, &[]).expect(0);
    let chunks = chunks(&output);
    assert!(chunks.len() >= 3, "{chunks:?}");
    assert!(chunks.iter().all(|chunk| chunk.2 < 3.0), "each is bounded: {chunks:?}");
    assert!(output.remarked("discard-slow"), "{output}");
    let samples = output.all("sample");
    let rows = samples.iter().filter(|row| row["phase"] == "discard").count();
    assert!(rows >= 3, "a row for every second: {rows}");
    output
        .says(&["a speed of writing", "discard: 510.0 MiB (534.8 MB) in"])
        .never_says(&["os error"]);
}

/// The first chunk is small enough for a slow device.
#[test]
fn b77_a_slow_discard_can_be_cancelled_between_chunks() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let stick = Stick::new(&["size=64G", "discard_bps=100M"]);
    let mut live = Live::flash(&image, &stick.device, &[]);
    live.wait_for_phase("discard");
    lab::pause(200);
    live.send(Signal::SIGINT);
    let output = live.end().expect(130);
    assert!(output.took.as_secs() < 4, "{:?}", output.took);
    assert_eq!(output.event("made_unbootable")["done"], true);
    assert_eq!(output.event("finished")["exit_code"], 130);
}

#[test]
fn b79_zeros_are_written_whatever_a_discard_promises() {
    let dir = folder();
    let mut bytes = disk_image(16 * MIB, 79);
    bytes[4 << 20..12 << 20].fill(0);
    let image = put(dir.path(), "image", &bytes);
    flash(&image, "sim:64MiB,prefill=ff", &[]).expect(0);
    if !has_sticks() {
        return;
    }
    // Reads 0xff after a discard, as NAND flash does.
    let stick = Stick::new(&["size=64M", "prefill=ff"]);
    let output = flash(&image, &stick.device, &[]).expect(0);
    assert!(!chunks(&output).is_empty(), "{output}");
    assert!(read_direct(&stick.device, 0, 16 * MIB) == bytes, "zero blocks are zero");
    assert_eq!(read_direct(&stick.device, 32 * MIB, KIB), vec![0xff; 1 << 10], "it was discarded");
}

#[test]
fn b79_a_sample_tells_what_reads_return_and_nothing_says_erased() {
    if !has_sticks() {
        return;
    }
    for (prefill, words) in [("00", "64 return zeros"), ("ff", "64 return 0xff")] {
        let stick = Stick::new(&["size=64M", &format!("prefill={prefill}")]);
        let output = run(&["discard", &stick.device, "--yes", "--sample"]).expect(0);
        output.says(&["of 64 places read", words]).never_says(&["erased"]);
    }
}

#[test]
fn b81_each_filesystem_of_a_disk_has_its_line_and_no_other_is_touched() {
    if !lab_has(&["losetup", "mkfs.ext4", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let disk = put(dir.path(), "disk", &vec![0; 96 << 20]);
    partition(&disk, 512, "label: gpt\nsize=32M\nsize=32M\n");
    let stick = LoopDev::over(Path::new(&disk), &["-P"]);
    let (one, two) = (stick.partition(1), stick.partition(2));
    for part in [&one, &two] {
        sh("mkfs.ext4", &["-q", "-E", "nodiscard", part]);
    }
    let mount = Mount::new(&one, &[]);
    put(&mount.at, "gone", &noise(8 * MIB, 81));
    sh("sync", &["-f", mount.path()]);
    fs::remove_file(mount.at.join("gone")).unwrap();
    sh("sync", &["-f", mount.path()]);
    // Another disk's filesystem beside it.
    let other = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &other.device]);
    let elsewhere = Mount::new(&other.device, &[]);
    let output = run(&["discard", "--trim", &stick.device]).expect(0);
    let line = |part: &str| {
        let line = output.stdout.lines().find(|line| line.starts_with(part));
        line.unwrap_or_else(|| panic!("{part}: {output}")).to_owned()
    };
    let trimmed = line(&one);
    let bytes = trimmed.split(": ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(bytes.parse::<u64>().unwrap() >= 8 * MIB, "{trimmed}");
    assert!(line(&two).contains("not mounted, skipped"), "{output}");
    assert!(!output.text().contains(elsewhere.path()) && !output.text().contains(&other.device));
    run(&["discard", "--trim", mount.path()]).expect(0).says(&["bytes trimmed"]);
    // What has no trim says so; no errno, no success.
    let tmpfs = Mount::new("none", &["-t", "tmpfs"]);
    let output = run(&["discard", "--trim", tmpfs.path()]).expect(1);
    output.says(&["not supported here"]);
    drop(mount);
    run(&["discard", "--trim", &stick.device]).expect(3).says(&["is mounted"]);
}

#[test]
fn c05_only_a_mount_point_is_trimmed_and_it_is_named_before_and_after() {
    if !lab_has(&["losetup", "mkfs.ext4", "mount", "unshare"]) {
        return;
    }
    let stick = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &stick.device]);
    let mount = Mount::new(&stick.device, &[]);
    let inside = |name: &str| mount.at.join(name).to_str().unwrap().to_owned();
    fs::create_dir(inside("folder")).unwrap();
    fs::create_dir(inside("folder/deeper")).unwrap();
    fs::write(inside("file"), "x").unwrap();
    let dir = folder();
    let link = |name: &str, to: &str| {
        let path = dir.path().join(name);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (to_point, to_folder) = (link("point", mount.path()), link("to-folder", &inside("folder")));
    let refused = [
        inside("folder"),
        inside("folder/deeper"),
        inside("file"),
        inside("lost+found/.."),
        inside("folder/deeper/.."),
        to_folder,
    ];
    for path in refused.iter().filter(|path| !path.ends_with("lost+found/..")) {
        let output = run(&["discard", "--trim", path]).expect(3);
        output.says(&["is not a mount point", mount.path(), &stick.device, "discard --trim"]);
    }
    let missing = run(&["discard", "--trim", &inside("nothing")]).expect(3);
    missing.says(&["does not exist"]);
    for path in
        [mount.path(), &to_point, &inside("."), &inside("folder/.."), &refused[3], &stick.device]
    {
        let output = run(&["discard", "--trim", path]).expect(0);
        for text in [&output.stdout, &output.stderr] {
            assert!(
                text.contains(mount.path()) && text.contains(&stick.device),
                "{path}: {output}"
            );
        }
    }
    // A disk that the system needs is asked about, as before any other step that could do harm.
    for place in ["/home", "/boot"].into_iter().filter(|place| Path::new(place).is_dir()) {
        for (more, code, words) in
            [("", 3, "nobody can be asked"), ("--yes", 0, "bytes trimmed"), ("--json", 3, "nobody")]
        {
            for path in [place, &stick.device] {
                let mut command = Command::new("unshare");
                lab::clean(&mut command, dir.path());
                let script = format!(
                    "umount {} && mount {} {place} && exec {} discard --trim {path} {more}",
                    mount.path(),
                    stick.device,
                    lab::PROGRAM
                );
                command.args(["--mount", "sh", "-c", &script]);
                lab::finish(command).expect(code).says(&[words]);
            }
        }
    }
}

/// What people have met with other programs that trim: a device as the name (util-linux 3595), a slash behind
/// it (1312), a mount point that is a file (857), a bind mount (459), an overlay or another filesystem mounted
/// over it (1686), a read-only one (948), an automount or service that trims nothing and says nothing
/// (scylladb 15033): the filesystem is the one that was named, or nothing is trimmed.
#[test]
fn c05_the_reports_of_other_programs() {
    if !lab_has(&["losetup", "mkfs.ext4", "mount", "unshare", "sfdisk"]) {
        return;
    }
    let dir = folder();
    let disk = put(dir.path(), "disk", &vec![0; 64 << 20]);
    partition(&disk, 512, "label: gpt\nsize=32M\n");
    let stick = LoopDev::over(Path::new(&disk), &["-P"]);
    let part = stick.partition(1);
    let other = LoopDev::new(16 * MIB);
    for device in [&part, &other.device] {
        sh("mkfs.ext4", &["-q", "-E", "nodiscard", device]);
    }
    // A name with what needs care: a space, a line break, an octal escape of /proc/self/mountinfo.
    let at = dir.path().join("my stick\n\\040");
    fs::create_dir(&at).unwrap();
    let to_node = dir.path().join("to-node");
    std::os::unix::fs::symlink(&part, &to_node).unwrap();
    let trim = |script: &str, path: &str| {
        let mut command = Command::new("unshare");
        lab::clean(&mut command, dir.path());
        let all = format!("{script}\nexec \"$PROGRAM\" discard --trim {path}");
        command.args(["--mount", "sh", "-ec", &all]).current_dir(dir.path());
        command
            .env("PROGRAM", lab::PROGRAM)
            .env("PART", &part)
            .env("OTHER", &other.device)
            .env("AT", &at)
            .env("DISK", &stick.device);
        lab::finish(command)
    };
    let mount = "mount $PART \"$AT\"; mkdir -p \"$AT\"/folder; touch \"$AT\"/file file; mkdir -p bound lower upper work";
    let whole = [&part[..]];
    for (script, path, code, says) in [
        ("", "\"$AT\"", 0, &whole[..]),
        ("", "\"$AT\"/", 0, &whole),
        ("", "\"$AT\"//.", 0, &whole),
        ("cd \"$AT\"", ".", 0, &whole),
        ("", "$PART", 0, &whole),
        ("", "to-node", 0, &whole),
        ("", "$DISK", 0, &whole),
        // The filesystem is trimmed as a whole through any of its mounts, and named.
        ("mount --bind \"$AT\"/folder bound", "bound", 0, &whole),
        // What is mounted last is what the name means now.
        ("mount $OTHER \"$AT\"", "\"$AT\"", 0, &[&other.device[..]]),
        ("mount --bind \"$AT\"/file file", "file", 0, &whole),
        // What the kernel does: it refuses only where the journal was not replayed (Linux 5.2, fs/ext4/ioctl.c).
        ("mount -o remount,ro \"$AT\"", "\"$AT\"", 0, &whole),
        ("mount -t tmpfs none bound", "bound", 1, &["not supported here"]),
        ("umount \"$AT\"", "\"$AT\"", 3, &["is not a mount point"]),
        ("umount \"$AT\"", "$PART", 3, &["no filesystem of", "is mounted"]),
        ("umount \"$AT\"", "$DISK", 3, &["no filesystem of", "is mounted"]),
    ] {
        let output = trim(&format!("{mount}\n{script}"), path).expect(code).says(says);
        let trimmed = output.stdout.lines().filter(|line| line.contains("bytes trimmed"));
        assert_eq!(trimmed.count(), usize::from(code == 0), "{script} {path}: {output}");
        assert!(!output.text().contains("my stick\n"), "{script} {path}: {output}");
        if says != [&other.device[..]] {
            assert!(!output.text().contains(&other.device), "{script} {path}: {output}");
        }
    }
    // An overlay is no filesystem of a stick, whatever lies below it.
    let layers =
        "mount -t overlay -o lowerdir=lower,upperdir=\"$AT/up\",workdir=\"$AT/work\" overlay bound";
    let over = format!(
        "umount \"$AT\"; AT=plain; mkdir -p plain; mount $PART plain; mkdir -p plain/up plain/work\n{layers}"
    );
    let output = trim(&format!("{mount}\n{over}"), "bound");
    assert!(matches!(output.code, 1 | 3), "{output}");
    assert!(!output.text().contains("bytes trimmed"), "{output}");
}

#[test]
fn b82_a_discard_that_takes_too_long_is_given_up_and_the_write_begins() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let stick = Stick::new(&["size=64G", "discard_bps=100M"]);
    let output = flash(&image, &stick.device, &["--discard-timeout", "2s"]).expect(0);
    assert!(output.remarked("discard-abandoned"), "{output}");
    let chunks = chunks(&output);
    assert!(chunks.iter().all(|(offset, len, _)| offset % 4096 == 0 && len % 4096 == 0));
    let total: f64 = chunks.iter().map(|chunk| chunk.2).sum();
    assert!((1.9..5.0).contains(&total), "{chunks:?}");
    output.says(&["was given up after", "every byte matches"]);
}

/// A queue that the kernel throttles, where control groups can do that to a loop device.
#[test]
fn b82_a_throttled_device_of_64_gib_is_discarded_in_bounded_chunks() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(64 * GIB);
    let Some(group) = Throttle::new(&stick, 50 * MIB) else {
        return;
    };
    let dir = folder();
    let image = image(&dir, 8 * MIB);
    let home = folder();
    let mut command = Command::new("sh");
    lab::clean(&mut command, home.path());
    let script = r#"echo $$ > "$1"; shift; exec "$@""#;
    command.args(["-c", script, "sh"]).arg(group.0.join("cgroup.procs"));
    command.args([lab::PROGRAM, "flash", &image, &stick.device, "--yes", "--json"]);
    command.args(["--discard-timeout", "3s"]);
    let output = lab::finish(command).expect(0);
    let chunks = chunks(&output);
    assert!(chunks.iter().all(|chunk| chunk.1 <= GIB), "{chunks:?}");
    assert!(output.took.as_secs() < 30, "{:?}", output.took);
}

/// A control group in which a device is slow.
struct Throttle(std::path::PathBuf);

impl Throttle {
    fn new(stick: &LoopDev, bps: u64) -> Option<Self> {
        let number = fs::read_to_string(format!("/sys/block/{}/dev", stick.name())).unwrap();
        let number = number.trim();
        let name = format!("mediawriter-test-{}", std::process::id());
        let old = Path::new("/sys/fs/cgroup/blkio");
        let (folder, file, line) = if old.is_dir() {
            (old.join(name), "blkio.throttle.write_bps_device", format!("{number} {bps}"))
        } else {
            (Path::new("/sys/fs/cgroup").join(name), "io.max", format!("{number} wbps={bps}"))
        };
        fs::create_dir(&folder).ok();
        let group = Self(folder);
        if fs::write(group.0.join(file), line).is_err() {
            lab::skip("there is no control group that can throttle a loop device");
            return None;
        }
        Some(group)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        fs::remove_dir(&self.0).ok();
    }
}

#[test]
fn b82_what_fills_no_granule_is_left_alone() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(16 * MIB);
    fill(&stick.device, 0xee, 16 * MIB);
    let (offset, length) = ((MIB + 512).to_string(), (2 * MIB).to_string());
    let args =
        ["discard", &stick.device, "--yes", "--json", "--offset", &offset, "--length", &length];
    let output = run(&args).expect(0);
    assert_eq!(chunks(&output).len(), 1, "{output}");
    let (at, len, _) = chunks(&output)[0];
    assert_eq!((at, len), (MIB + 4096, 2 * MIB - 4096));
    for (from, len, byte) in
        [(0, MIB + 4096, 0xee), (MIB + 4096, 2 * MIB - 4096, 0), (3 * MIB, 13 * MIB, 0xee)]
    {
        let seen = read_direct(&stick.device, from, len);
        assert!(seen.iter().all(|&seen| seen == byte), "{from} {len}");
    }
    output.says(&["4096 bytes at the ends fill no granule and were left alone"]);
}

#[test]
fn discard_needs_a_yes_and_zeros_are_zeros() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(16 * MIB);
    fill(&stick.device, 0xee, 16 * MIB);
    run(&["discard", &stick.device]).expect(3).says(&["--yes"]);
    assert_eq!(read_direct(&stick.device, 0, 4096), vec![0xee; 4096]);
    let output = run(&["discard", &stick.device, "--yes", "--zero", "--sample"]).expect(0);
    output.says(&["16777216 bytes zeroed", "64 return zeros"]);
    assert!(read_direct(&stick.device, 0, 16 * MIB).iter().all(|&byte| byte == 0));
    for bad in [["--offset", "16MiB"], ["--length", "32MiB"]] {
        run(&[&["discard", &stick.device, "--yes"], &bad[..]].concat()).expect(2);
    }
    // A file keeps its length, too.
    let dir = target_folder();
    let file = put(dir.path(), "stick.img", &vec![0xee; 8 << 20]);
    run(&["discard", &file, "--yes"]).expect(0);
    assert_eq!(fs::read(&file).unwrap(), vec![0; 8 << 20]);
}

#[test]
fn a_range_that_gives_nothing_back_is_an_error_before_anything_is_opened() {
    for (offset, length) in [("2MiB", "1"), ("0", "0"), ("0", "2MiB"), ("1MiB", "1")] {
        let run = run(&["discard", "sim:1MiB", "--offset", offset, "--length", length]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(!run.stdout.contains("INCOMPLETE"), "{run:?}");
    }
    let run = run(&["discard", "sim:1MiB", "--offset", "7", "--length", "9"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("nothing was discarded"), "{run:?}");
}
