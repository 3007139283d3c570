//! SIGINT, SIGTERM and SIGHUP become the wish to stop ([`CancelToken`]); the job then makes the
//! medium unbootable, says so, and `main` ends the process by the same signal, so that shells and
//! service managers see how it ended (130 and 143 in a shell).
//!
//! SIGUSR1 asks a job for its state ([`asked`]), as it asks dd; Linux has no SIGINFO.
//!
//! No handler is installed: the signals are blocked in every thread and one thread takes them with
//! sigwait(3). So their default action stays in place (signal(7)) and needs no unsafe code to be
//! restored. A program that this process starts inherits the blocked mask across execve(2): Ctrl-C
//! reaches it through this process alone, which ends it (`host::ntfs3g`). SIGPIPE stays ignored (Rust's start-up), SIGTSTP keeps its default.

use std::fs;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::sys::signal::{SigSet, Signal, raise};

use crate::cancel::CancelToken;
use crate::error::{Context, Kind, Result};
use crate::time::{Clock, SystemClock};

/// The signals that ask a job to stop.
const POLITE: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// A repetition sooner than this is the same wish. timeout(1) sends its signal to the command and
/// at once to the command's group, and logind sends SIGTERM and SIGHUP together.
const SAME_WISH: Duration = Duration::from_millis(500);

/// The wish to stop, for what waits where none is handed down.
static WISH: OnceLock<CancelToken> = OnceLock::new();

/// Who wants to know how the job stands. One request is as good as several.
static ASKED: OnceLock<(Sender<()>, Receiver<()>)> = OnceLock::new();

/// What is still to be done when the process is ended at once.
static LAST_WORDS: OnceLock<fn()> = OnceLock::new();

/// A message for each time that somebody wants to know how the job stands.
pub fn asked() -> Receiver<()> {
    ASKED.get_or_init(|| bounded(1)).1.clone()
}

/// The wish to stop of this process; before [`install`] nobody sets it.
pub fn wish() -> CancelToken {
    WISH.get_or_init(CancelToken::default).clone()
}

/// Has `act` called before a second signal ends the process at once. It must not take long.
pub fn before_the_end(act: fn()) {
    LAST_WORDS.get_or_init(|| act);
}

/// Blocks the signals in this thread and in those it starts from now on, and starts the thread
/// that waits for them. Call it in `main` before any thread exists: one that does not block them
/// would be ended by them, and the process with it.
pub fn install() -> Result<CancelToken> {
    let ignored = fs::read_to_string("/proc/self/status").map_or(0, |text| ignored_mask(&text));
    // A signal that was ignored at the start stays so: nohup, and `&` in shells without job
    // control. Were it blocked, it would be queued and seen nevertheless (`sig_ignored` in
    // kernel/signal.c).
    let watched = POLITE.into_iter().chain([Signal::SIGUSR1]);
    let set: SigSet = watched.filter(|s| !is_in(ignored, *s)).collect();
    set.thread_block().context(|| "cannot block signals".into())?;
    let token = wish();
    let watched = token.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || watch(set, &watched))
        .context(|| "cannot start the thread that waits for signals".into())?;
    Ok(token)
}

/// Ends this process by the signal, as the last thing that `main` does. Returns only where the
/// signal does nothing by default (process 1 of a container), with the exit code that a shell
/// would have shown.
pub fn reraise(signal: i32) -> ExitCode {
    if let Ok(signal) = Signal::try_from(signal) {
        end_by(signal);
    }
    ExitCode::from(Kind::Cancelled(signal).exit_code())
}

fn watch(set: SigSet, token: &CancelToken) {
    let clock = SystemClock::start();
    let mut patience = Patience::default();
    while let Ok(signal) = set.wait() {
        if signal == Signal::SIGUSR1 {
            // Handed on, not answered here: this thread must never wait for a terminal. Full means
            // that a request waits already.
            ASKED.get_or_init(|| bounded(1)).0.try_send(()).ok();
            continue;
        }
        match patience.on(signal, clock.now()) {
            Reaction::Stop => token.cancel(signal as i32),
            Reaction::Nothing => {}
            Reaction::End => {
                if let Some(act) = LAST_WORDS.get() {
                    act();
                }
                end_by(signal);
                exit_now(Kind::Cancelled(signal as i32).exit_code());
            }
        }
    }
    // Not known to happen. The default action is better than a process nobody can stop.
    if set.thread_unblock().is_ok() {
        loop {
            thread::park();
        }
    }
}

/// The default action, in this thread. Blocking it in the others does not matter: raise(3) aims at
/// the calling thread, and the action ends all of them.
fn end_by(signal: Signal) {
    let mut set = SigSet::empty();
    set.add(signal);
    if set.thread_unblock().is_ok() {
        // What is left when it fails is the exit code.
        raise(signal).ok();
    }
}

#[expect(clippy::exit, reason = "the person asked twice and process 1 does not die of signals")]
fn exit_now(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// What a signal leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaction {
    Stop,
    Nothing,
    End,
}

/// When the first signal came.
#[derive(Debug, Default)]
struct Patience {
    first: Option<Duration>,
}

impl Patience {
    fn on(&mut self, signal: Signal, now: Duration) -> Reaction {
        let Some(first) = self.first else {
            self.first = Some(now);
            return Reaction::Stop;
        };
        // A closed terminal can say SIGHUP twice, from the kernel and from the shell, at any
        // distance; it is not a person in a hurry.
        if signal == Signal::SIGHUP || now.saturating_sub(first) < SAME_WISH {
            Reaction::Nothing
        } else {
            Reaction::End
        }
    }
}

/// The ignored signals as /proc/PID/status gives them: bit N-1 is signal N (`proc_pid_status(5)`).
fn ignored_mask(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal as i32 - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_stops_and_only_a_later_wish_of_a_person_ends() {
        use Reaction::{End, Nothing, Stop};
        use Signal::{SIGHUP, SIGINT, SIGTERM};
        for row in [
            &[(SIGINT, 0, Stop), (SIGINT, 499, Nothing), (SIGINT, 500, End)][..],
            &[(SIGTERM, 3, Stop), (SIGTERM, 4, Nothing), (SIGHUP, 5, Nothing), (SIGINT, 9000, End)],
            &[(SIGHUP, 3, Stop), (SIGHUP, 9000, Nothing), (SIGTERM, 9001, End)],
        ] {
            let mut patience = Patience::default();
            for (signal, millis, expected) in row {
                assert_eq!(
                    patience.on(*signal, Duration::from_millis(*millis)),
                    *expected,
                    "{row:?}"
                );
            }
        }
    }

    #[test]
    fn ignored_signals_are_read_from_the_status_file() {
        let status = "Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        let mask = ignored_mask(status);
        assert!(is_in(mask, Signal::SIGHUP) && is_in(mask, Signal::SIGPIPE));
        assert!(!is_in(mask, Signal::SIGINT) && !is_in(mask, Signal::SIGTERM));
        assert_eq!(ignored_mask("SigIgn:\tzz\n"), 0);
        assert_eq!(ignored_mask(""), 0);
        // Rust's start-up ignores SIGPIPE, so the real file must say that.
        let own = ignored_mask(&fs::read_to_string("/proc/self/status").unwrap());
        assert!(is_in(own, Signal::SIGPIPE));
    }
}
