//! Habits of the desktop: colours, narrow terminals, the window's title, the chart, the state on
//! SIGUSR1, notifications. On terminals of their own (tests/lab/terminal.py).

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use crate::bus::Bus;
use crate::lab::{
    self, Live, MIB, PROGRAM, Stick, command, disk_image, finish, folder, has_sticks, lab, pause,
    put,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A stick whose cache is full after a while, in simulated time.
const STICK: &str = "sim:32MiB,write_rate=2MB/s,read_rate=9MB/s,cache=12MiB,cached_rate=6MB/s";

/// What a run on a terminal showed, and how it ended.
fn terminal(columns: u32, variables: &[&str], args: &[&str], steps: &[&str]) -> (String, i64) {
    let home = folder();
    let mut command = Command::new("python3");
    lab::clean(&mut command, home.path());
    command.env("TERM", "xterm-256color").env("TERMINAL_COLUMNS", columns.to_string());
    command.arg(lab("terminal.py")).args(steps).args(["--", "env"]).args(variables);
    command.arg(PROGRAM).args(args);
    let output = finish(command).expect(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["steps_done"], steps.len(), "{result}");
    assert_eq!(result["settings_kept"], true, "{result}");
    (result["output"].as_str().unwrap().to_owned(), result["code"].as_i64().unwrap())
}

fn image(folder: &Path) -> String {
    put(folder, "image.img", &disk_image(24 * MIB, 1))
}

/// Without what moves the cursor, colours and sets titles.
fn visible(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        shown.push_str(before);
        let end = match after.chars().next() {
            Some(']') => after.find('\u{7}').unwrap(),
            _ => after.find(|c: char| c.is_ascii_alphabetic()).unwrap(),
        };
        rest = &after[end + 1..];
    }
    shown + rest
}

#[test]
fn messages_are_coloured_where_they_are_wanted_and_nowhere_else() {
    let dir = folder();
    let image = image(dir.path());
    let flash = ["flash", image.as_str(), "sim:32MiB,rate=20MB/s"];
    let green = "\u{1b}[1;32mdone:\u{1b}[0m";
    let (shown, code) = terminal(100, &[], &flash, &[]);
    assert!(shown.contains(green) && code == 0, "{shown}");
    let (shown, _) = terminal(100, &["NO_COLOR=1"], &flash, &[]);
    assert!(!shown.contains("\u{1b}[1;"), "{shown}");
    let never = [&flash[..], &["--color", "never"]].concat();
    assert!(!terminal(100, &[], &never, &[]).0.contains("\u{1b}[1;"));
    // In a pipe.
    lab::run(&flash).expect(0).plain_text();
    let always = [&["--color=always"], &flash[..]].concat();
    assert!(lab::run(&always).expect(0).stderr.contains(green));
    let mut no_colour = command(dir.path());
    no_colour.env("NO_COLOR", "1").args(&always);
    assert!(finish(no_colour).stderr.contains(green), "what is said for this run counts");
    let wrong = ["flash", "/nonexistent", "sim:32MiB", "--color", "always"];
    let output = lab::run(&wrong);
    assert!(output.stderr.starts_with("\u{1b}[1;31merror:\u{1b}[0m "), "{output}");
    // Help and usage errors as well.
    assert!(lab::run(&["--color", "always", "--help"]).expect(0).stdout.contains('\u{1b}'));
    assert!(lab::run(&["--color", "always", "flash"]).expect(2).stderr.contains('\u{1b}'));
    lab::run(&["--color", "sometimes"]).expect(2).plain_text();
}

#[test]
fn the_moving_line_and_the_lists_fit_forty_columns() {
    let dir = folder();
    let image = image(dir.path());
    for (columns, args) in [
        (40, &["flash", image.as_str(), STICK][..]),
        (57, &["flash", image.as_str(), STICK]),
        (40, &["images"]),
        (40, &["devices"]),
    ] {
        let (shown, code) = terminal(columns, &["LC_ALL=C.UTF-8"], args, &[]);
        assert_eq!(code, 0, "{shown}");
        let shown = visible(&shown);
        let moving = |line: &&str| line.contains(" % ");
        let all = args.len() == 1;
        for line in shown.split(['\r', '\n']).filter(|line| all || moving(line)) {
            let used = line.trim_end().chars().count();
            assert!(used <= columns as usize, "{columns}: {used}: {line}");
        }
    }
}

#[test]
fn the_title_tells_how_far_it_is_and_is_put_back_at_every_end() {
    let dir = folder();
    let image = image(dir.path());
    let restored = "\u{1b}]0;\u{7}\u{1b}[23;0t";
    let (shown, code) = terminal(100, &[], &["flash", &image, STICK], &[]);
    assert_eq!(code, 0);
    assert!(shown.contains("\u{1b}[22;0t\u{1b}]0;"), "{shown}");
    assert!(shown.contains("\u{1b}]0;write "), "{shown}");
    assert_eq!(shown.matches(restored).count(), 1, "{shown}");
    let last = shown.rfind("\u{1b}]0;").unwrap();
    assert_eq!(&shown[last..last + restored.len()], restored, "no title after the last");
    // A failure.
    let failing = format!("{STICK},fault=write@10MiB:flip");
    let (shown, code) = terminal(100, &[], &["flash", &image, &failing], &[]);
    assert_eq!((code, shown.matches(restored).count()), (5, 1), "{shown}");
    // A signal, while the benchmark rests.
    let place = lab::target_folder();
    let stick = put(place.path(), "stick.img", &vec![0; 8 << 20]);
    let (shown, code) = terminal(100, &[], &resting(&stick), &["wait:rest ", "signal:INT"]);
    assert_eq!((code, shown.matches(restored).count()), (130, 1), "{shown}");
    // Not where there is no terminal, none that has titles, or nothing is to be shown.
    lab::run(&["flash", &image, STICK]).expect(0).plain_text();
    for (variables, more) in [(&["TERM=linux"][..], &[][..]), (&[], &["--quiet"])] {
        let args = [&["flash", image.as_str(), STICK], more].concat();
        let (shown, _) = terminal(100, variables, &args, &[]);
        assert!(!shown.contains("\u{1b}]"), "{shown}");
    }
}

#[test]
fn a_title_has_no_control_characters_from_names() {
    let dir = lab::target_folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let stick = put(dir.path(), "a\u{1b}]0;owned\u{7}\u{9c}b", &vec![0; 4 << 20]);
    let (shown, code) = terminal(100, &[], &["flash", &image, &stick, "--yes"], &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("\u{1b}]0;owned") && !shown.contains('\u{9c}'), "{shown:?}");
    assert!(shown.contains("\u{1b}]0;verify"), "{shown:?}");
}

/// A job that takes a minute on a clock on the wall and does nothing but wait.
fn resting(stick: &str) -> Vec<&str> {
    let profile = ["bench", stick, "--profile", "cdm", "--destructive", "--yes"];
    let times = ["--size", "4MiB", "--runtime", "100ms", "--cooldown", "60s"];
    [profile, times].concat()
}

#[test]
fn sigusr1_prints_the_state_also_without_a_terminal_and_with_quiet() {
    let dir = lab::target_folder();
    let stick = put(dir.path(), "stick.img", &vec![0; 8 << 20]);
    for more in [&[][..], &["--quiet"]] {
        let mut live = Live::start(&[&resting(&stick)[..], more].concat());
        live.wait_for_phase("rest");
        pause(1_200);
        live.send(Signal::SIGUSR1);
        pause(300);
        live.send(Signal::SIGTERM);
        let output = live.end().expect(143);
        assert_eq!(output.stderr.matches("state: rest").count(), 1, "{output}");
        assert!(!output.stdout.contains("state:"), "{output}");
    }
    let steps = ["wait:rest ", "signal:USR1", "wait:state: rest ", "signal:INT"];
    let (shown, code) = terminal(100, &[], &resting(&stick), &steps);
    assert_eq!(code, 130, "{shown}");
}

#[test]
fn sigusr1_prints_the_state_while_a_flush_hangs() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
    let stick = Stick::new(&["size=16M", "flush_ms=3000"]);
    let mut live = Live::flash(&image, &stick.device, &[]);
    live.wait_for_phase("flush");
    pause(1_500);
    live.send(Signal::SIGUSR1);
    let output = live.end().expect(0);
    output.says(&["state: flush"]);
}

#[test]
fn the_chart_is_drawn_on_a_terminal_and_elsewhere_said_once_to_be_missing() {
    let dir = folder();
    let image = image(dir.path());
    let args = ["flash", image.as_str(), STICK, "--chart"];
    let (shown, code) = terminal(80, &["LC_ALL=C.UTF-8"], &args, &[]);
    assert_eq!(code, 0, "{shown}");
    let head = " MB/s, a column of dots is 1 s";
    assert!(shown.contains(head) && shown.contains('\u{28ff}'), "{shown}");
    let (shown, _) = terminal(80, &["LC_ALL=C"], &args, &[]);
    assert!(shown.contains(head) && shown.contains("##") && !shown.contains('\u{28ff}'), "{shown}");
    let output = lab::run(&args).expect(0).plain_text();
    assert_eq!(output.stderr.matches("note: --chart needs a terminal").count(), 1, "{output}");
}

/// Stands for the desktop.
struct Desktop(Sender<(String, String)>);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Desktop {
    #[allow(clippy::too_many_arguments, reason = "the specification has eight")]
    fn notify(
        &self,
        app: String,
        replaces: u32,
        icon: String,
        summary: String,
        body: String,
        actions: Vec<String>,
        hints: HashMap<String, zbus::OwnedVariant>,
        timeout: i32,
    ) -> u32 {
        // The macro around it names all of them, so none can begin with an underscore.
        drop((app, replaces, icon, actions, hints, timeout));
        self.0.send((summary, body)).unwrap();
        1
    }
}

#[test]
fn the_desktop_is_told_of_the_end_good_or_bad() {
    let dir = folder();
    let Some(bus) = Bus::start() else { return };
    let (sender, told) = mpsc::channel();
    let builder = bus
        .builder()
        .serve_at("/org/freedesktop/Notifications", Desktop(sender))
        .name("org.freedesktop.Notifications");
    let _desktop = zbus::block_on(builder.build()).unwrap();
    let image = image(dir.path());
    let failing = format!("{STICK},fault=write@10MiB:flip");
    for (target, code, summary, says) in [
        (STICK, 0, "mediawriter: done", "every byte matches"),
        (&failing, 5, "mediawriter: FAILED (exit code 5)", "does not"),
    ] {
        let mut command = command(dir.path());
        command.env("DBUS_SESSION_BUS_ADDRESS", bus.address());
        command.args(["flash", &image, target, "--notify"]);
        finish(command).expect(code).never_says(&["no notification"]);
        let (title, body) = told.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!(title, summary);
        assert!(body.contains(says) && body.starts_with("the simulated stick: "), "{body}");
    }
    assert!(told.try_recv().is_err(), "once for each");
}

#[test]
fn without_a_desktop_the_job_is_as_good_and_it_is_said_once() {
    let dir = folder();
    let image = put(dir.path(), "image.img", &disk_image(2 * MIB, 1));
    let missing = format!("unix:path={}", dir.path().join("nobody").display());
    for (variable, value, says) in [
        ("DBUS_SESSION_BUS_ADDRESS", missing.as_str(), "no session D-Bus: "),
        // As root for somebody: what root's environment says is not believed.
        ("SUDO_UID", "4242", "no session D-Bus: /run/user/4242/bus does not exist"),
    ] {
        if variable == "SUDO_UID" && !nix::unistd::geteuid().is_root() {
            lab::skip("needs root");
            continue;
        }
        let mut command = command(dir.path());
        command.env(variable, value).args(["flash", &image, "sim:8MiB", "--notify"]);
        command.arg("--record").arg(dir.path().join("run.json"));
        let output = finish(command);
        assert_eq!(output.stderr.matches("note: no notification: ").count(), 1, "{output}");
        assert!(output.stderr.contains(says), "{output}");
        assert!(output.stderr.contains("every byte matches"), "{output}");
        assert!(fs::exists(dir.path().join("run.json")).unwrap() || variable == "SUDO_UID");
    }
}
