//! Safety and use: the cases B107 to B113 that can be shown without a USB stack: what is never
//! done unasked, pipes and terminals, signals, staying awake.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use crate::lab::{
    self, KIB, LoopDev, MIB, Mount, PROGRAM, Stick, clean, command, disk_image, feed, fill, find,
    finish, flash, folder, has_sticks, lab_has, on_terminal, put, read_direct, run, sh, sha256sum,
    target_folder,
};
use serde_json::Value;

#[test]
fn b107_no_target_is_ever_chosen() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let candidates = lab_has(&["losetup", "python3"]).then(|| {
        let sticks = [LoopDev::new(8 * MIB), LoopDev::new(8 * MIB)];
        for stick in &sticks {
            fill(&stick.device, 0xee, 8 * MIB);
        }
        sticks
    });
    for more in [&[][..], &["--yes"], &["--yes", "--force"]] {
        let output = run(&[&["flash", &image], more].concat()).expect(2);
        output.says(&["no TARGET was given", "none is ever chosen"]).never_says(&["/dev/loop"]);
    }
    for args in [&["discard"][..], &["discard", "--yes"], &["verify"]] {
        run(args).expect(2);
    }
    let Some(sticks) = candidates else {
        return;
    };
    let on_tty = on_terminal(&["flash", &image], &[]);
    assert_eq!(on_tty.code, 2, "{}", on_tty.output);
    assert!(!on_tty.output.contains("Type "), "{}", on_tty.output);
    // A refused answer is not remembered, and it was for that device only.
    for answer in ["y", "yes", "", sticks[1].name()] {
        let word = format!("wait:Type {}", sticks[0].name());
        let steps = [&word, &format!("type:{answer}")];
        let run = on_terminal(&["flash", &image, &sticks[0].device], &steps.map(String::as_str));
        assert_eq!((run.code, run.settings_kept), (3, true), "{answer}: {}", run.output);
        assert!(run.output.contains("not confirmed; nothing was written"), "{}", run.output);
    }
    for stick in &sticks {
        assert!(read_direct(&stick.device, 0, 8 * MIB).iter().all(|&byte| byte == 0xee));
    }
    let word = sticks[0].name();
    let steps = [format!("wait:Type {word}"), format!("type:{word}")];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let run = on_terminal(&["flash", &image, &sticks[0].device], &steps);
    assert_eq!((run.code, run.settings_kept), (0, true), "{}", run.output);
}

#[test]
fn b109_what_the_running_system_is_mounted_from_is_refused_whatever_is_typed() {
    if !lab_has(&["losetup", "mkfs.ext4", "unshare"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let stick = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &stick.device]);
    let before = sha256sum(&stick.device);
    // In a mount namespace of its own the loop device holds /home or /boot; nobody else sees it.
    for place in ["/home", "/boot"].into_iter().filter(|place| Path::new(place).is_dir()) {
        for flags in ["", "--force --unmount"] {
            let mut command = Command::new("unshare");
            clean(&mut command, dir.path());
            let script = format!(
                "mount -o ro {} {place} && exec {PROGRAM} flash {image} {} --yes {flags}",
                stick.device, stick.device
            );
            command.args(["--mount", "sh", "-c", &script]);
            let output = finish(command).expect(3);
            output.says(&["the running system needs it", place, "no option lifts this"]);
        }
    }
    assert_eq!(sha256sum(&stick.device), before);
}

/// A bus of our own, ended with the test.
struct Bus {
    daemon: Child,
    address: String,
    _dir: tempfile::TempDir,
}

impl Bus {
    fn start() -> Option<Self> {
        let Some(program) = find("dbus-daemon") else {
            lab::skip("dbus-daemon (Debian package dbus) is not installed");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let address = format!("unix:path={}", dir.path().join("bus").display());
        let mut daemon = Command::new(program)
            .args(["--session", "--nofork", "--nopidfile", "--print-address=1"])
            .arg(format!("--address={address}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let bus = Self { daemon, address, _dir: dir };
        if line.is_empty() {
            lab::skip("dbus-daemon ended at once");
            return None;
        }
        Some(bus)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.daemon.kill().ok();
        self.daemon.wait().ok();
    }
}

/// Stands for logind: hands out one end of a pipe, keeps the other.
struct FakeLogind(Sender<([String; 4], std::io::PipeReader)>);

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl FakeLogind {
    fn inhibit(&self, what: String, who: String, why: String, mode: String) -> zbus::OwnedFd {
        let (reader, writer) = std::io::pipe().unwrap();
        self.0.send(([what, who, why, mode], reader)).unwrap();
        OwnedFd::from(writer).into()
    }
}

#[test]
fn b110_the_computer_is_kept_awake_for_the_whole_job_and_not_longer() {
    let Some(bus) = Bus::start() else {
        return;
    };
    let (asked, was_asked) = mpsc::channel();
    let builder = zbus::connection::Builder::address(bus.address.as_str())
        .serve_at("/org/freedesktop/login1", FakeLogind(asked))
        .name("org.freedesktop.login1");
    let _logind = zbus::block_on(builder.build()).unwrap();
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(16 * MIB, 1));
    let target = put(dir.path(), "stick", &vec![0; 32 << 20]);
    let record = dir.path().join("record.json");
    let mut command = command(dir.path());
    command.env("DBUS_SYSTEM_BUS_ADDRESS", &bus.address);
    command.args(["flash", &image, &target, "--yes", "--json", "--record"]).arg(&record);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (words, mut lock) = was_asked.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(words[0], "sleep:idle:shutdown");
    assert_eq!(words[1], "mediawriter");
    assert_eq!(words[3], "block");
    // The other end is closed when the program lets go of the lock, not before its last event.
    let (closed, was_closed) = mpsc::channel();
    let watcher = std::thread::spawn(move || {
        lock.read_to_end(&mut Vec::new()).unwrap();
        closed.send(()).unwrap();
    });
    let mut finished = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        finished |= event["event"] == "finished";
        if event["event"] == "phase_ended" {
            assert!(was_closed.try_recv().is_err(), "released before {event}");
        }
    }
    assert!(finished && child.wait().unwrap().success());
    was_closed.recv_timeout(Duration::from_secs(10)).expect("released after the job");
    watcher.join().unwrap();
    let record = fs::read_to_string(record).unwrap();
    assert!(!record.contains("no-sleep-lock"), "{record}");
}

#[test]
fn b110_without_a_bus_nothing_is_said_and_nothing_waits() {
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let target = put(dir.path(), "stick", &vec![0; 4 << 20]);
    let mut command = command(dir.path());
    command.env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus");
    command.args(["flash", &image, &target, "--yes"]);
    let output = finish(command).expect(0);
    assert!(!output.stderr.contains("D-Bus"), "no warning while it runs: {output}");
    assert!(output.took < Duration::from_secs(5), "{:?}", output.took);
}

#[test]
fn b111_without_a_terminal_it_refuses_instead_of_waiting_and_prints_plain_lines() {
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(8 * MIB, 1));
    let target = put(dir.path(), "stick", &vec![0xee; 16 << 20]);
    let output = run(&["flash", &image, &target]).expect(3).plain_text();
    output.says(&["nobody can be asked", "--yes"]);
    assert_eq!(fs::read(&target).unwrap(), vec![0xee; 16 << 20]);
    // A yes on standard input is no terminal.
    let mut piped = command(dir.path());
    piped.args(["flash", &image, &target]);
    feed(piped, b"overwrite\n".to_vec()).expect(3);
    assert_eq!(fs::read(&target).unwrap(), vec![0xee; 16 << 20]);

    let output = run(&["flash", &image, &target, "--yes"]).expect(0).plain_text();
    for line in ["write begins: 4.00 MiB", "verify begins", "done: "] {
        assert!(output.stderr.lines().any(|l| l.starts_with(line)), "{line}: {output}");
    }
    // JSON on request, nothing but JSON on standard output.
    let output = flash(&image, &target, &[]).expect(0).plain_text();
    assert_eq!(output.event("finished")["exit_code"], 0);
    let refused = run(&["flash", &image, &target, "--json"]).expect(3);
    assert_eq!(refused.event("finished")["exit_code"], 3);
    assert!(refused.event("finished")["hint"].is_string(), "{refused}");
    // Closed streams harm nobody.
    let mut closed = Command::new("sh");
    clean(&mut closed, dir.path());
    closed.args(["-c", &format!("exec {PROGRAM} flash {image} {target} --yes >&- 2>&- <&-")]);
    finish(closed).expect(0);
    let mut devices = command(dir.path());
    devices.args(["devices", "--all"]);
    finish(devices).expect(0).plain_text();
}

/// Ends a flash in a phase by a signal, on a terminal.
fn interrupted(device: &str, image: &str, phase: &str, signal: &str, code: i32) {
    let steps = [format!("wait:{phase}"), "sleep:150".to_owned(), format!("signal:{signal}")];
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let run = on_terminal(&["flash", image, device, "--yes"], &steps);
    let shown = &run.output;
    assert_eq!((run.code, run.steps_done), (code, 3), "{phase} {signal}: {shown}");
    assert!(run.settings_kept, "{phase} {signal}: the terminal's settings changed");
    assert!(shown.contains("was made unbootable"), "{phase} {signal}: {shown}");
    // What hides the cursor shows it again.
    let (hidden, again) = (shown.rfind("\u{1b}[?25l"), shown.rfind("\u{1b}[?25h"));
    assert!(hidden <= again, "{phase} {signal}: the cursor stays hidden");
    assert!(shown.ends_with('\n'), "{phase} {signal}: {shown:?}");
    assert_eq!(read_direct(device, 0, 64 * KIB), vec![0; 64 << 10], "{phase} {signal}");
}

#[test]
fn b113_a_signal_in_any_phase_ends_the_job_and_leaves_the_terminal_as_it_was() {
    if !has_sticks() || !lab_has(&["python3"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(24 * MIB, 1));
    let stick = Stick::new(&["size=1G", "write_bps=16M", "read_bps=12M", "discard_bps=700M"]);
    for (phase, signal, code) in [
        ("discard", "INT", 130),
        ("discard", "TERM", 143),
        ("write", "INT", 130),
        ("write", "TERM", 143),
        ("write", "HUP", 129),
        ("verify", "INT", 130),
        ("verify", "TERM", 143),
        ("verify", "HUP", 129),
    ] {
        interrupted(&stick.device, &image, phase, signal, code);
        // Nobody holds the device any more.
        assert!(
            Command::new("flock").args(["-n", &stick.device, "true"]).status().unwrap().success()
        );
    }
}

#[test]
fn b113_at_the_question_a_signal_ends_it_and_nothing_was_written() {
    if !lab_has(&["losetup", "python3"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let stick = LoopDev::new(8 * MIB);
    fill(&stick.device, 0xee, 8 * MIB);
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let steps = ["wait:Type ", "sleep:100", &format!("signal:{signal}")];
        let run = on_terminal(&["flash", &image, &stick.device], &steps);
        assert_eq!((run.code, run.settings_kept), (code, true), "{signal}: {}", run.output);
    }
    assert!(read_direct(&stick.device, 0, 8 * MIB).iter().all(|&byte| byte == 0xee));
}

#[test]
fn b113_stopped_with_ctrl_z_it_goes_on_afterwards() {
    if !has_sticks() || !lab_has(&["python3"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(16 * MIB, 1));
    let stick = Stick::new(&["size=32M", "write_bps=16M"]);
    let steps = ["wait:write", "sleep:200", "signal:TSTP", "sleep:700", "signal:CONT"];
    let run = on_terminal(&["flash", &image, &stick.device, "--yes"], &steps);
    assert_eq!((run.code, run.settings_kept, run.steps_done), (0, true, 5), "{}", run.output);
    assert_eq!(read_direct(&stick.device, 0, 16 * MIB), disk_image(16 * MIB, 1));
}

#[test]
fn mounted_targets_are_unmounted_only_when_that_was_said() {
    if !lab_has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let stick = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &stick.device]);
    let mount = Mount::new(&stick.device, &[]);
    run(&["flash", &image, &stick.device, "--unmount"]).expect(3).says(&["nobody can be asked"]);
    assert!(lab::is_mounted(&mount.at), "nothing happens before the answer");
    // In use: the unmount fails, and nothing is written.
    let held = fs::File::create(mount.at.join("open")).unwrap();
    let output = flash(&image, &stick.device, &["--unmount"]).expect(1);
    output.says(&["cannot unmount", mount.path()]);
    drop(held);
    assert!(lab::is_mounted(&mount.at));
    flash(&image, &stick.device, &["--unmount"]).expect(0);
}
