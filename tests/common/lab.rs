//! What the tests of the real program share: running it, loop devices, modelled sticks, folders,
//! terminals. Everything that is attached, mounted or started here is taken away again when it is
//! dropped, and nothing else is ever touched.
#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a test may die, print, and look at the clock on the wall"
)]

#[path = "lab_devices.rs"]
mod devices;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

pub use devices::{
    LoopDev, Mount, Stick, Zram, gpt_image, hybrid_iso, is_mounted, partition, plain_iso,
    remove_loop, windows_iso,
};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_mediawriter");

/// Says why a test cannot be made here; where nothing may be skipped it is a failure.
pub fn skip(reason: &str) {
    assert!(
        std::env::var_os("MEDIAWRITER_NO_SKIPS").is_none(),
        "skipping is not allowed: {reason}"
    );
    eprintln!("skipped: {reason}");
}

/// Whether this is root and all programs are installed; prints why not.
pub fn lab_has(programs: &[&str]) -> bool {
    if !nix::unistd::geteuid().is_root() {
        skip("loop devices need root");
        return false;
    }
    if !Path::new("/dev/loop-control").exists() {
        skip("there are no loop devices");
        return false;
    }
    for program in programs {
        if find(program).is_none() {
            skip(&format!("{program} is not installed (tests/lab/packages.txt)"));
            return false;
        }
    }
    true
}

/// Where a program is, by PATH and the folders of root.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Whether modelled sticks can be made here.
pub fn has_sticks() -> bool {
    lab_has(&["nbdkit", "nbdfuse", "losetup"])
        && (Path::new("/dev/fuse").exists() || {
            skip("there is no /dev/fuse");
            false
        })
}

/// Runs a helper program, which has to succeed; returns what it printed.
pub fn sh(program: &str, args: &[&str]) -> String {
    let output = Command::new(find(program).unwrap_or_else(|| program.into()))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}{text}{errors}", output.status);
    text
}

/// A folder for targets and mount points, gone after the test. Files below /dev are no targets.
pub fn target_folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("mediawriter-test-").tempdir().unwrap()
}

/// A folder in memory where that is possible, gone after the test.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("mediawriter-test-").tempdir_in(base).unwrap()
}

/// Bytes that look random and are the same in every run (xorshift64*).
pub fn noise(len: u64, seed: u64) -> Vec<u8> {
    let len = usize::try_from(len).unwrap();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Noise with the signature of a boot sector and an MBR with one partition over all of it.
pub fn disk_image(len: u64, seed: u64) -> Vec<u8> {
    let mut image = noise(len, seed);
    image[..1024].fill(0);
    // One Linux partition from sector 1 on: active, type 0x83, start and count in sectors.
    image[446..454].copy_from_slice(&[0x80, 0, 2, 0, 0x83, 0, 2, 0]);
    image[454..458].copy_from_slice(&1u32.to_le_bytes());
    let sectors = u32::try_from(len / 512).unwrap().saturating_sub(1);
    image[458..462].copy_from_slice(&sectors.to_le_bytes());
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image
}

/// Writes a file and returns its path as text.
pub fn put(folder: &Path, name: impl AsRef<Path>, bytes: &[u8]) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Reads from a device around all caches of its own.
pub fn read_direct(path: &str, offset: u64, len: u64) -> Vec<u8> {
    let from = offset / 4096 * 4096;
    let skip = usize::try_from(offset - from).unwrap();
    let len = usize::try_from(len).unwrap();
    let mut buf = mediawriter::sys::buffer::AlignedBuf::zeroed((skip + len).next_multiple_of(4096));
    let file = OpenOptions::new().read(true).custom_flags(libc_o_direct()).open(path).unwrap();
    let mut done = 0;
    while done < skip + len {
        let n = file.read_at(&mut buf[done..], from + done as u64).unwrap();
        assert!(n > 0, "{path} ends at {}", from + done as u64);
        done += n;
    }
    buf[skip..skip + len].to_vec()
}

fn libc_o_direct() -> i32 {
    nix::fcntl::OFlag::O_DIRECT.bits()
}

/// Writes to a file or device and waits until it is there.
pub fn write_at(path: impl AsRef<Path>, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_all().unwrap();
}

/// Fills a device or file with one byte.
pub fn fill(path: &str, byte: u8, len: u64) {
    let block = vec![byte; usize::try_from(MIB).unwrap()];
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for offset in (0..len).step_by(1 << 20) {
        let step = usize::try_from(MIB.min(len - offset)).unwrap();
        file.write_all_at(&block[..step], offset).unwrap();
    }
    file.sync_all().unwrap();
}

/// SHA-256 of a device or file, by a program that is not ours.
pub fn sha256sum(path: &str) -> String {
    sh("sha256sum", &[path]).split(' ').next().unwrap().to_owned()
}

/// What a run left behind.
#[derive(Debug)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    /// The exit code; 128 + N after a death by signal N, as shells show it.
    pub code: i32,
    pub took: Duration,
    /// Which process it was.
    pub pid: u32,
}

impl Output {
    /// The JSON lines of `--json`.
    pub fn events(&self) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        self.stdout.lines().map(parse).collect()
    }

    /// All events of a name.
    pub fn all(&self, name: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == name).collect()
    }

    /// The only event of a name.
    pub fn event(&self, name: &str) -> Value {
        let mut found = self.all(name);
        assert_eq!(found.len(), 1, "{name} in {self}");
        found.remove(0)
    }

    /// Whether a warning or note of this code was given.
    pub fn remarked(&self, code: &str) -> bool {
        self.events().iter().any(|event| event["code"] == code)
    }

    /// Both streams, output first.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Asserts the exit code; shows everything if it is another.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }

    /// Asserts that all words are said.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        // Long lines of reports are wrapped.
        let text = self.text().split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(text.contains(word), "'{word}' is not said in {self}");
        }
        self
    }

    /// Asserts that none of the words is said.
    #[track_caller]
    pub fn never_says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(!self.text().contains(word), "'{word}' is said in {self}");
        }
        self
    }

    /// Asserts that no control character is in any stream, line feeds aside.
    #[track_caller]
    pub fn plain_text(self) -> Self {
        let bad = |c: char| c.is_control() && c != '\n';
        assert!(!self.text().contains(bad), "control characters in {self:?}");
        self
    }

    /// Every percentage that was shown.
    pub fn percentages(&self) -> Vec<u32> {
        let text = self.text().replace(" %", "%");
        let words = text.split_whitespace().filter_map(|word| word.strip_suffix('%'));
        words.filter_map(|number| number.parse().ok()).collect()
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a run that ended with {}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

pub fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
}

/// The program with a clean environment, nothing on standard input, and records in `home`.
pub fn command(home: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    clean(&mut command, home);
    command
}

/// The same as the first process of a session of its own, whose number is its pid: so what it starts
/// can be told from what others started, even after it has ended.
pub fn command_in_session(home: &Path) -> Command {
    let mut command = Command::new("setsid");
    clean(&mut command, home);
    command.arg(PROGRAM);
    command
}

/// Command lines of what still runs in a session.
pub fn running_in(session: u32) -> Vec<String> {
    let in_session = |process: &Path| {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        // proc(5): the name, in which anything may stand, ends at the last bracket; then state, ppid, pgrp, session.
        let field = stat.rsplit_once(')')?.1.split_whitespace().nth(3)?.to_owned();
        let line = fs::read(process.join("cmdline")).ok()?;
        (field == session.to_string()).then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    };
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes.filter_map(|process| in_session(&process.path())).collect()
}

/// A clean environment for a program that starts ours.
pub fn clean(command: &mut Command, home: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    command.env_clear().env("PATH", path).env("HOME", home).env("XDG_STATE_HOME", home);
    command.current_dir(home).stdin(Stdio::null());
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Output {
    let start = Instant::now();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    ended(command.spawn().unwrap(), start)
}

fn ended(child: Child, start: Instant) -> Output {
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: code(output.status),
        took: start.elapsed(),
        pid,
    }
}

/// Runs the program before other work of a busy machine: what it measures in real time is then its own.
pub fn run_first<S: AsRef<OsStr>>(args: &[S]) -> Output {
    let home = folder();
    let mut command = Command::new("nice");
    clean(&mut command, home.path());
    command.args(["-n", "-15", PROGRAM]).args(args);
    finish(command)
}

/// Runs the program.
pub fn run<S: AsRef<OsStr>>(args: &[S]) -> Output {
    let home = folder();
    let mut command = command(home.path());
    command.args(args);
    finish(command)
}

/// `flash IMAGE TARGET --yes --json` and more.
pub fn flash(image: &str, target: &str, more: &[&str]) -> Output {
    run(&[&["flash", image, target, "--yes", "--json"], more].concat())
}

/// A folder with `windows.iso`, made by tests/lab/windows-iso, and what is on it in `files`.
pub fn windows_look_alike(options: &[&str]) -> tempfile::TempDir {
    let dir = target_folder();
    let (iso, work) = (dir.path().join("windows.iso"), dir.path().join("work"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/windows-iso");
    let args = ["--out", iso.to_str().unwrap(), "--work", work.to_str().unwrap()];
    sh(script.to_str().unwrap(), &[&args, options].concat());
    fs::rename(work.join("small/iso"), dir.path().join("files")).unwrap();
    fs::remove_dir_all(work).unwrap();
    dir
}

/// `verify TARGET --json` and more.
pub fn verify(target: &str, more: &[&str]) -> Output {
    run(&[&["verify", target, "--json"], more].concat())
}

/// A run that is watched while it goes on. It always gets `--json`.
pub struct Live {
    child: Child,
    events: Receiver<Value>,
    seen: Vec<Value>,
    reader: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<String>>,
    start: Instant,
    _home: tempfile::TempDir,
}

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(90);

impl Live {
    pub fn flash(image: &str, target: &str, more: &[&str]) -> Self {
        Self::start(&[&["flash", image, target, "--yes"], more].concat())
    }

    pub fn start(args: &[&str]) -> Self {
        let home = folder();
        let mut command = command(home.path());
        command.args(args);
        Self::begin(command, home)
    }

    /// A command that was made with this home.
    pub fn begin(mut command: Command, home: tempfile::TempDir) -> Self {
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let (sender, events) = mpsc::channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                sender.send(serde_json::from_str(&line.unwrap()).unwrap()).ok();
            }
        });
        let errors = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        let (reader, errors) = (Some(reader), Some(errors));
        Self { child, events, seen: vec![], reader, errors, start: Instant::now(), _home: home }
    }

    /// Waits for an event.
    #[track_caller]
    pub fn wait_for(&mut self, what: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            let event = event.unwrap_or_else(|e| panic!("{e} after {:#?}", self.seen));
            self.seen.push(event.clone());
            if what(&event) {
                return event;
            }
        }
    }

    #[track_caller]
    pub fn wait_for_phase(&mut self, phase: &str) {
        self.wait_for(|event| event["event"] == "phase_started" && event["phase"] == phase);
    }

    pub fn send(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Stops it, does something to its world, lets it go on.
    pub fn behind_its_back<T>(&self, act: impl FnOnce() -> T) -> T {
        self.send(Signal::SIGSTOP);
        let done = act();
        self.send(Signal::SIGCONT);
        done
    }

    /// Waits for the end.
    pub fn end(mut self) -> Output {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(5));
        };
        let took = self.start.elapsed();
        self.reader.take().unwrap().join().unwrap();
        self.seen.extend(self.events.try_iter());
        let lines = self.seen.iter().map(|event| format!("{event}\n"));
        let stderr = self.errors.take().unwrap().join().unwrap();
        let pid = self.child.id();
        Output { stdout: lines.collect(), stderr, code: code(status), took, pid }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// Looks again and again until something is so.
#[track_caller]
pub fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        pause(20);
    }
}

/// What a run on a terminal of its own left behind; from tests/lab/terminal.py.
#[derive(Debug)]
pub struct OnTerminal {
    pub output: String,
    pub code: i32,
    /// Whether the settings of the terminal are those of before.
    pub settings_kept: bool,
    pub steps_done: usize,
}

/// Runs the program on a new terminal. Each step is `wait:TEXT`, `type:TEXT`, `signal:NAME`,
/// `run:SHELL COMMAND` or `sleep:MILLIS`.
pub fn on_terminal(args: &[&str], steps: &[&str]) -> OnTerminal {
    let home = folder();
    let mut command = Command::new("python3");
    clean(&mut command, home.path());
    command.env("TERM", "xterm-256color").arg(lab("terminal.py"));
    command.args(steps).arg("--").arg(PROGRAM).args(args);
    let output = finish(command);
    assert_eq!(output.code, 0, "terminal.py: {output}");
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    OnTerminal {
        output: result["output"].as_str().unwrap().to_owned(),
        code: i32::try_from(result["code"].as_i64().unwrap()).unwrap(),
        settings_kept: result["settings_kept"].as_bool().unwrap(),
        steps_done: usize::try_from(result["steps_done"].as_u64().unwrap()).unwrap(),
    }
}

/// Feeds bytes to a command and runs it to its end.
pub fn feed(mut command: Command, input: Vec<u8>) -> Output {
    let start = Instant::now();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(&input).ok());
    let output = ended(child, start);
    writer.join().unwrap();
    output
}

/// A file of the lab.
pub fn lab(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab").join(name)
}
