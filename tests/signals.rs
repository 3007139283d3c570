//! Signals end a real process as they should. The process is this program itself, started again as
//! `helper`; so there is a `main` here instead of libtest, which would have threads of its own in
//! which nothing blocks the signals. `--list` and test names are understood as libtest does, for
//! cargo-nextest.
#![expect(clippy::print_stdout, reason = "the test's own report, and the helper's way to talk")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test without libtest")]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mediawriter::host::signals;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

type Test = (&'static str, fn());

const TESTS: [Test; 5] = [
    ("the_first_signal_is_polite_and_the_process_dies_of_it", polite),
    ("a_shell_sees_130_and_143", seen_by_a_shell),
    ("the_second_wish_ends_a_process_that_does_not_stop", impatient),
    ("one_wish_said_twice_is_one_wish", said_twice),
    ("what_was_ignored_at_the_start_stays_ignored", ignored_before),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["helper", how] = args[..] {
        return helper(how);
    }
    let ignored_only = args.contains(&"--ignored");
    let names: Vec<&str> =
        args.iter().copied().filter(|a| !a.starts_with('-') && *a != "terse").collect();
    let chosen = TESTS.iter().filter(|(name, _)| {
        !ignored_only && (names.is_empty() || names.iter().any(|wanted| name.contains(wanted)))
    });
    for (name, test) in chosen {
        if args.contains(&"--list") {
            println!("{name}: test");
        } else {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// A job: says `ready`, waits for the wish to stop, says which, cleans up and dies of it. The
/// stubborn one cleans up forever.
fn helper(how: &str) -> ExitCode {
    let token = signals::install().unwrap();
    // Idle threads, so that the signals have somewhere to go wrong.
    for _ in 0..3 {
        thread::spawn(|| {
            loop {
                thread::park();
            }
        });
    }
    say(&format!("ready {}", std::process::id()));
    let signal = loop {
        if let Some(signal) = token.signal() {
            break signal;
        }
        wait(5);
    };
    say(&format!("stopping {signal}"));
    if how == "stubborn" {
        wait(30_000);
        return ExitCode::from(99);
    }
    signals::reraise(signal)
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

fn wait(millis: u64) {
    let (_sender, receiver) = mpsc::channel::<()>();
    receiver.recv_timeout(Duration::from_millis(millis)).unwrap_err();
}

/// A running helper, ended with the test.
struct Job {
    child: Child,
    pid: Pid,
    out: BufReader<ChildStdout>,
}

impl Job {
    /// Starts `sh -c script` with the helper as `"$0" "$@"`, and waits until it is ready.
    fn start(script: &str, how: &str) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .args(["helper", how])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut job = Self { child, pid: Pid::from_raw(0), out };
        let line = job.line();
        let Some(pid) = line.strip_prefix("ready ") else { panic!("{line}") };
        job.pid = Pid::from_raw(pid.parse().unwrap());
        job
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn send(&self, signal: Signal) {
        kill(self.pid, signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const BECOME: &str = r#"exec "$0" "$@""#;

fn polite() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut job = Job::start(BECOME, "polite");
        job.send(signal);
        assert_eq!(job.line(), format!("stopping {}", signal as i32));
        assert_eq!(job.end().signal(), Some(signal as i32), "{signal}");
    }
}

fn seen_by_a_shell() {
    for (signal, code) in
        [(Signal::SIGINT, "130"), (Signal::SIGTERM, "143"), (Signal::SIGHUP, "129")]
    {
        // Not with `&`: a shell without job control would ignore SIGINT for it.
        let mut job = Job::start(r#""$0" "$@"; echo "code $?""#, "polite");
        job.send(signal);
        assert_eq!(job.line(), format!("stopping {}", signal as i32));
        assert_eq!(job.line(), format!("code {code}"));
    }
}

fn impatient() {
    for (first, second) in [(Signal::SIGINT, Signal::SIGINT), (Signal::SIGHUP, Signal::SIGTERM)] {
        let mut job = Job::start(BECOME, "stubborn");
        job.send(first);
        assert_eq!(job.line(), format!("stopping {}", first as i32));
        wait(700);
        job.send(second);
        assert_eq!(job.end().signal(), Some(second as i32));
    }
}

fn said_twice() {
    let mut job = Job::start(BECOME, "stubborn");
    job.send(Signal::SIGTERM);
    assert_eq!(job.line(), "stopping 15");
    job.send(Signal::SIGTERM);
    job.send(Signal::SIGHUP);
    wait(700);
    job.send(Signal::SIGHUP);
    wait(100);
    assert!(job.child.try_wait().unwrap().is_none(), "ended by the same wish said twice");
}

fn ignored_before() {
    let mut job = Job::start(r#"trap "" HUP; exec "$0" "$@""#, "polite");
    job.send(Signal::SIGHUP);
    wait(200);
    assert!(job.child.try_wait().unwrap().is_none(), "ended by an ignored signal");
    // The first wish it sees is this one, so SIGHUP was not seen at all.
    job.send(Signal::SIGTERM);
    assert_eq!(job.line(), "stopping 15");
    assert_eq!(job.end().signal(), Some(15));
}
