//! Safety and use: the cases B114 to B120 that can be shown without a USB stack: other users and
//! languages, honest progress, files that are no images, names that want to harm.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use crate::lab::{
    self, KIB, LoopDev, MIB, Output, PROGRAM, Stick, clean, command, disk_image, feed, fill, find,
    finish, flash, folder, has_sticks, lab_has, noise, put, read_direct, run, sh, target_folder,
    verify,
};
use serde_json::Value;

/// A copy of the program where everybody can run it, and a folder for its user.
fn for_nobody() -> (tempfile::TempDir, String) {
    let dir = target_folder();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("mediawriter").to_str().unwrap().to_owned();
    fs::copy(PROGRAM, &program).unwrap();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(65534), Some(65534)).unwrap();
    (dir, program)
}

fn as_nobody(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(find("setpriv").unwrap());
    clean(&mut command, home);
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(args);
    finish(command)
}

#[test]
fn b114_rights_decide_and_without_them_the_line_with_sudo_is_printed() {
    if !lab_has(&["losetup", "setpriv"]) {
        return;
    }
    let (dir, program) = for_nobody();
    let home = dir.path().join("home");
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let stick = LoopDev::new(8 * MIB);
    fill(&stick.device, 0xee, 8 * MIB);
    let args = [program.as_str(), "flash", &image, &stick.device, "--yes"];
    let output = as_nobody(&home, &args);
    assert_ne!(output.code, 0, "{output}");
    let line = format!("sudo {program} flash {image} {} --yes", stick.device);
    let output = output.says(&[&line]).never_says(&["polkit", "pkexec"]);
    assert_eq!(output.code, 1);
    assert_eq!(read_direct(&stick.device, 0, 4096), vec![0xee; 4096]);
    // A member of the node's group needs no root.
    let node = fs::metadata(&stick.device).unwrap();
    chown(&stick.device, None, Some(65534)).unwrap();
    fs::set_permissions(&stick.device, fs::Permissions::from_mode(0o660)).unwrap();
    let output = as_nobody(&home, &args);
    chown(&stick.device, Some(node.uid()), Some(node.gid())).unwrap();
    fs::set_permissions(&stick.device, node.permissions()).unwrap();
    output.expect(0).says(&["every byte matches"]);
    assert_eq!(read_direct(&stick.device, 0, 2 * MIB), disk_image(2 * MIB, 1));
}

#[test]
fn b114_under_sudo_files_belong_to_the_person_who_called() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let (dir, _) = for_nobody();
    let home = dir.path().join("home");
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let sudo = |log: &Path, record: &Path| {
        let mut command = command(&home);
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        command.args(["flash", &image, "sim:8MiB", "--log"]).arg(log).arg("--record").arg(record);
        finish(command)
    };
    let (log, record) = (home.join("log.csv"), home.join("record.json"));
    for _ in 0..2 {
        sudo(&log, &record).expect(0);
        for path in [&log, &record] {
            let meta = fs::symlink_metadata(path).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (65534, 65534), "{}", path.display());
        }
    }
    // What only root may write is out of that person's reach.
    let secret = dir.path().join("secret");
    fs::write(&secret, "root's own").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let planted = home.join("planted");
    symlink(&secret, &planted).unwrap();
    chown_link(&planted);
    let output = sudo(&planted, &record);
    assert_ne!(output.code, 0, "{output}");
    let output = sudo(&log, &planted);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's own");
    // A link is neither followed nor replaced.
    output.expect(3).says(&["is a link to"]);
    assert!(fs::symlink_metadata(&planted).unwrap().is_symlink());
}

fn chown_link(link: &Path) {
    std::os::unix::fs::lchown(link, Some(65534), Some(65534)).unwrap();
}

#[test]
fn b116_numbers_are_the_same_in_every_language() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(40 * MIB, 1));
    let target = "sim:64MiB,rate=20MB/s,cache=16MiB,cached_rate=80MB/s";
    let in_language = |language: &str| {
        let log = dir.path().join("log.csv");
        let mut command = command(dir.path());
        command.env("LC_ALL", language).env("LANG", language).env("LC_NUMERIC", language);
        command.args(["flash", &image, target, "--json", "--log"]).arg(&log);
        let output = finish(command).expect(0);
        let untimed = |text: &str| {
            let timeless =
                |line: &&str| !line.starts_with("started ") && !line.starts_with("record: ");
            text.lines().filter(timeless).collect::<Vec<_>>().join("\n")
        };
        let json = output.stdout.lines().skip(1).collect::<Vec<_>>().join("\n");
        (fs::read_to_string(log).unwrap(), json, untimed(&output.stderr))
    };
    let plain = in_language("C");
    assert!(plain.0.contains(",20.972,"), "{}", plain.0);
    for language in
        ["de_DE.UTF-8", "sk_SK", "sk_SK.ISO-8859-2", "de_CH.ISO-8859-1", "C.UTF-8", "xx"]
    {
        assert_eq!(in_language(language), plain, "{language}");
    }
    let mut devices = command(dir.path());
    devices.env("LC_ALL", "de_DE.UTF-8").args(["devices", "--all"]);
    finish(devices).expect(0).says(&["GiB"]);
}

#[test]
fn b116_names_with_blanks_and_other_alphabets_are_taken_as_they_are() {
    let dir = target_folder();
    for name in
        ["\u{17e}lt\u{fd} k\u{f4}\u{148}.img", "two  blanks .img", "-dash.img", "quote'\".img"]
    {
        let image = put(dir.path(), name, &disk_image(2 * MIB, 1));
        let target = put(dir.path(), format!("stick {name}"), &vec![0; 4 << 20]);
        let output = flash(&image, &target, &[]).expect(0).plain_text();
        let source = output.events()[0]["command"][2].clone();
        assert_eq!(source, image, "{output}");
        assert!(output.stderr.replace("\n            ", " ").contains(name), "{output}");
    }
}

#[test]
fn b118_done_and_all_percent_come_when_the_data_is_on_the_medium() {
    if !has_sticks() || !lab_has(&["strace"]) {
        return;
    }
    let dir = folder();
    let len = 24 * MIB;
    let image = put(dir.path(), "image", &disk_image(len, 1));
    let stick = Stick::new(&["size=32M", "write_bps=12M"]);
    let home = folder();
    // The open for direct writes is refused, as by a driver without direct I/O. A first run tells
    // which of the opens it is.
    let traced = |image: &str, inject: &[&str]| {
        let trace = home.path().join("trace");
        let mut command = Command::new("strace");
        clean(&mut command, home.path());
        command.args(["-f", "-o", trace.to_str().unwrap(), "-P", &stick.device]);
        command.args(["-e", "trace=openat"]).args(inject);
        command.args([PROGRAM, "flash", image, &stick.device, "--yes", "--json"]);
        let output = finish(command);
        (output, fs::read_to_string(trace).unwrap())
    };
    let small = put(dir.path(), "small", &disk_image(2 * MIB, 1));
    let (output, trace) = traced(&small, &[]);
    output.expect(0);
    let opens: Vec<&str> = trace.lines().filter(|line| line.contains("openat(")).collect();
    let direct = |line: &&str| line.contains("O_RDWR") && line.contains("O_DIRECT");
    let number = 1 + opens.iter().position(direct).unwrap();
    let inject = format!("inject=openat:error=EINVAL:when={number}");
    let (output, trace) = traced(&image, &["-e", &inject]);
    assert!(trace.contains("O_DSYNC") && trace.contains("INJECTED"), "{trace}");
    let output = output.expect(0);
    assert!(output.remarked("no-direct-io"), "{output}");
    let ended = output.all("phase_ended");
    let nanos = |phase: &str| {
        let of_phase = ended.iter().find(|totals| totals["phase"] == phase).unwrap();
        of_phase["nanos"].as_u64().unwrap() as f64 / 1e9
    };
    // 20 MiB at 12 MiB/s: the write is as long as the stick takes, the flush has nothing left.
    assert!(nanos("write") > 1.5 && nanos("flush") < 0.6, "{ended:?}");
    let names: Vec<String> =
        output.events().iter().map(|e| e["event"].as_str().unwrap().to_owned()).collect();
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    assert!(at("head_released") < at("media_verdict") && at("media_verdict") < at("finished"));
    assert_eq!(output.stderr.matches("done: ").count(), 1);
    assert_eq!(read_direct(&stick.device, 0, len), disk_image(len, 1));
}

#[test]
fn b119_no_percentage_is_over_a_hundred_and_old_data_is_waited_for_first() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let len = 12 * MIB + 321;
    let image = put(dir.path(), "image", &disk_image(len, 1));
    let stick = Stick::new(&["size=64M", "write_bps=12M"]);
    // An earlier writer left its data in memory, and still has the device open.
    let earlier = fs::OpenOptions::new().write(true).open(&stick.device).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&earlier, &noise(16 * MIB, 3), 32 * MIB).unwrap();
    let output = flash(&image, &stick.device, &[]).expect(0);
    drop(earlier);
    assert!(output.remarked("settled"), "{output}");
    assert!(output.percentages().iter().all(|&percent| percent <= 100), "{output}");
    let ended = output.all("phase_ended");
    let write = ended.iter().find(|totals| totals["phase"] == "write").unwrap();
    let seconds = write["nanos"].as_u64().unwrap() as f64 / 1e9;
    let rate = write["bytes"].as_u64().unwrap() as f64 / seconds / MIB as f64;
    assert!((8.0..15.0).contains(&rate), "{rate} MiB/s, not counting what others wrote");
    assert_eq!(read_direct(&stick.device, 0, len), disk_image(len, 1));
}

#[test]
fn b119_a_pipe_has_no_length_and_no_percentage() {
    let dir = target_folder();
    for len in [3 * MIB + 1, 9 * MIB] {
        let image = disk_image(len, 1);
        let target = put(dir.path(), "stick", &vec![0xee; 16 << 20]);
        let mut command = command(dir.path());
        command.args(["flash", "-", &target, "--yes", "--json"]);
        let output = feed(command, image.clone()).expect(0);
        assert!(output.percentages().iter().all(|&percent| percent <= 100), "{output}");
        let starts = output.all("phase_started");
        let write = starts.iter().find(|event| event["phase"] == "write").unwrap();
        assert_eq!(write["total"], Value::Null);
        assert_eq!(output.event("media_verdict")["bytes"], len);
        assert_eq!(&fs::read(&target).unwrap()[..image.len()], image);
    }
    // Larger than the target, which shows only at its end.
    let target = put(dir.path(), "small", &vec![0xee; 4 << 20]);
    let mut command = command(dir.path());
    command.args(["flash", "-", &target, "--yes", "--json"]);
    let output = feed(command, disk_image(9 * MIB, 1)).expect(3);
    assert_eq!(output.event("made_unbootable")["done"], true);
    output.says(&["the image is larger than"]).never_says(&["done: "]);
}

#[test]
fn b120_what_accompanies_an_image_is_refused_by_its_kind() {
    let dir = target_folder();
    let target = put(dir.path(), "stick.img", &vec![0xee; 8 << 20]);
    let sum = format!("{}  debian.iso\n", "a1".repeat(32));
    let torrent = b"d8:announce35:http://tracker.example/announce7:comment4:test4:infod6:lengthi1e4:name1:xee";
    let signature =
        "-----BEGIN PGP SIGNATURE-----\n\niQIzBAABCgAdFiEE\n-----END PGP SIGNATURE-----\n";
    let page = "<!DOCTYPE html>\n<html><head><title>Please log in</title></head></html>";
    let bmap =
        "<?xml version=\"1.0\" ?>\n<bmap version=\"2.0\">\n<ImageSize> 1 </ImageSize>\n</bmap>\n";
    for (name, bytes, words) in [
        ("debian.iso.sha256", sum.as_bytes(), "checksums"),
        ("debian.torrent", torrent, "torrent"),
        ("debian.iso.asc", signature.as_bytes(), "signature"),
        ("debian.iso", page.as_bytes(), "web page (HTML)"),
        ("debian.bmap", bmap.as_bytes(), "bmap"),
        ("empty.iso", b"", "empty"),
        ("notes.txt", b"These are the release notes.\n", "text"),
        ("program", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0", "program"),
    ] {
        let image = put(dir.path(), name, bytes);
        for more in [&[][..], &["--force"]] {
            let output = flash(&image, &target, more).expect(3);
            output.says(&[words, name]).never_says(&["begins"]);
        }
    }
    let folder = dir.path().join("folder.iso");
    fs::create_dir(&folder).unwrap();
    flash(folder.to_str().unwrap(), &target, &[]).expect(3).says(&["folder"]);
    let fifo = dir.path().join("fifo.iso");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    flash(fifo.to_str().unwrap(), &target, &[]).expect(3).says(&["FIFO"]);
    flash("/dev/zero", &target, &[]).expect(3).says(&["special file"]);
    // The same through a pipe, which has no name to go by.
    for bytes in [page.as_bytes(), b"", sum.as_bytes()] {
        let mut command = command(dir.path());
        command.args(["flash", "-", &target, "--yes"]);
        feed(command, bytes.to_vec()).expect(3);
    }
    assert_eq!(fs::read(&target).unwrap(), vec![0xee; 8 << 20], "the target was not opened");
}

#[test]
fn b120_a_tiny_image_is_warned_of_before_the_question() {
    let dir = target_folder();
    let target = put(dir.path(), "stick.img", &vec![0xee; 8 << 20]);
    let image = put(dir.path(), "tiny.img", &disk_image(64 * KIB, 1));
    let output = run(&["flash", &image, &target, "--dry-run"]).expect(0);
    output.says(&[
        "65536 bytes",
        "too few for anything that boots",
        "Dry run: nothing was written",
    ]);
    run(&["flash", &image, &target]).expect(3);
    assert_eq!(fs::read(&target).unwrap(), vec![0xee; 8 << 20]);
}

#[test]
fn hostile_names_reach_no_stream_raw() {
    let dir = target_folder();
    let hostile = OsString::from_vec(b"evil\x1b[2J\x1b]0;owned\x07\nname\xff\xc2\x9b.img".to_vec());
    let path = |prefix: &str| {
        let mut name = OsString::from(prefix);
        name.push(&hostile);
        dir.path().join(name)
    };
    let (image, stick, log) = (path("image"), path("stick"), path("log"));
    fs::write(&image, disk_image(2 * MIB, 1)).unwrap();
    fs::write(&stick, vec![0; 4 << 20]).unwrap();
    let flash = |source: &Path, target: &Path, more: &[&str]| {
        let mut command = command(dir.path());
        command.arg("flash").arg(source).arg(target).args(more).arg("--log").arg(&log);
        finish(command)
    };
    for more in
        [&["--yes"][..], &["--yes", "--json"], &["--dry-run"], &[], &["--yes", "--create", "8M"]]
    {
        flash(&image, &stick, more).plain_text();
    }
    flash(&image, &stick, &["--yes"]).expect(0);
    flash(&path("missing"), &stick, &["--yes", "--json"]).expect(1).plain_text();
    flash(&image, &path("missing"), &["--yes"]).expect(3).plain_text();
    flash(&stick, &stick, &["--yes", "--json"]).expect(3).plain_text();
    let page = path("page");
    fs::write(&page, "<html>").unwrap();
    flash(&page, &stick, &["--yes"]).expect(3).plain_text();
    let mut command = command(dir.path());
    command.arg("verify").arg(&stick).arg(&image).arg("--json");
    finish(command).expect(0).plain_text();
    let csv = fs::read_to_string(&log).unwrap();
    assert!(!csv.contains('\x1b'));
    if !lab_has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    // Behind a loop device, as a label of a filesystem, and as a mount point.
    let device = LoopDev::over(&stick, &[]);
    for args in [&["devices", "--all"][..], &["devices", "--all", "--json"]] {
        run(args).expect(0).plain_text();
    }
    let fs_stick = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", "-L", "L\x1b[2J\n\x07\u{9b}", &fs_stick.device]);
    let at = path("mnt");
    fs::create_dir(&at).unwrap();
    assert!(Command::new("mount").arg(&fs_stick.device).arg(&at).status().unwrap().success());
    let image = put(dir.path(), "plain", &disk_image(2 * MIB, 1));
    let outputs = [
        run(&["devices", "--all"]),
        lab::flash(&image, &fs_stick.device, &[]),
        run(&["discard", "--trim", &fs_stick.device]),
    ];
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    // The label and the mount point are shown, made harmless.
    assert!(outputs[0].text().matches("\\u{1b}[2J").count() >= 2, "{}", outputs[0]);
    for output in outputs {
        output.plain_text();
    }
    verify(&device.device, &[&image]).plain_text();
}
