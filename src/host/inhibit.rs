//! Keeps the computer awake for a whole job: suspending in the middle of a write leaves a broken
//! medium, and the device may come back as another one.
//!
//! logind hands out a file descriptor and refuses to suspend, to act on idleness and to shut down
//! for as long as a copy of it is open, so a crash releases it too. Source: `Inhibit()` in
//! org.freedesktop.login1(5) and <https://systemd.io/INHIBITOR_LOCKS/>; elogind has the same.

use std::os::fd::OwnedFd;
use std::path::Path;

use super::bus::{self, Method};

const INHIBIT: Method<'static> = Method {
    service: "org.freedesktop.login1",
    object: "/org/freedesktop/login1",
    interface: "org.freedesktop.login1.Manager",
    name: "Inhibit",
};

/// While this lives the computer does not go to sleep by itself or through its menus.
#[derive(Debug)]
pub struct Inhibitor {
    /// Closing it is what releases the lock.
    _lock: OwnedFd,
}

/// Asks logind to keep the computer awake; `why` is what `systemd-inhibit --list` shows. The text
/// says why not, for the record: a job goes on without. Takes 2 s at most, nothing without D-Bus.
pub fn inhibit(why: &str) -> (Option<Inhibitor>, Option<String>) {
    match bus::system_bus().and_then(|socket| inhibit_over(&socket, why)) {
        Ok(inhibitor) => (Some(inhibitor), None),
        Err(why_not) => (None, Some(why_not)),
    }
}

fn inhibit_over(socket: &Path, why: &str) -> Result<Inhibitor, String> {
    let body = ("sleep:idle:shutdown", "mediawriter", why.to_owned(), "block");
    let reply = bus::call(socket, INHIBIT, body)?;
    let lock: zbus::OwnedFd = reply
        .message
        .body()
        .deserialize()
        .map_err(|e| format!("{}: {}", INHIBIT.service, e.to_string().escape_debug()))?;
    // The lock hangs on the descriptor, not on the connection (unlike names and signals).
    drop(reply.connection);
    Ok(Inhibitor { _lock: lock.into() })
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, PipeReader, Read};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{self, Sender};
    use std::time::Duration;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::super::bus::lab::Bus;
    use super::*;
    use crate::time::{Clock, SystemClock};

    /// Stands for logind: hands out one end of a pipe and passes on what it was asked.
    struct FakeLogind {
        asked: Sender<([String; 4], PipeReader)>,
    }

    #[zbus::interface(name = "org.freedesktop.login1.Manager")]
    impl FakeLogind {
        fn inhibit(&self, what: String, who: String, why: String, mode: String) -> zbus::OwnedFd {
            let (reader, writer) = std::io::pipe().unwrap();
            self.asked.send(([what, who, why, mode], reader)).unwrap();
            OwnedFd::from(writer).into()
        }
    }

    fn serve(bus: &Bus, fake: FakeLogind) -> zbus::Connection {
        let builder = bus.builder().serve_at(INHIBIT.object, fake).name(INHIBIT.service);
        zbus::block_on(builder.build()).unwrap()
    }

    #[test]
    fn the_lock_is_asked_for_in_full_held_while_alive_and_released_on_drop() {
        let Some(bus) = Bus::start() else { return };
        let (asked, was_asked) = mpsc::channel();
        let _logind = serve(&bus, FakeLogind { asked });

        let inhibitor = inhibit_over(&bus.socket, "writing debian.iso to /dev/sdb").unwrap();
        let (arguments, mut pipe) = was_asked.recv_timeout(Duration::from_secs(5)).unwrap();
        let expected =
            ["sleep:idle:shutdown", "mediawriter", "writing debian.iso to /dev/sdb", "block"];
        assert_eq!(arguments, expected);

        // Reading ends when the last copy of the other end is closed. The bus and the service close
        // theirs after passing it on, so look for a while.
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        for _ in 0..20 {
            let held = pipe.read(&mut [0]).unwrap_err();
            assert_eq!(held.kind(), ErrorKind::WouldBlock);
            was_asked.recv_timeout(Duration::from_millis(10)).unwrap_err();
        }
        drop(inhibitor);
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        let (ended, has_ended) = mpsc::channel();
        std::thread::spawn(move || ended.send(pipe.read(&mut [0]).unwrap()));
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(5)), Ok(0), "still held after drop");
    }

    #[test]
    fn a_bus_without_logind_says_so_at_once() {
        let Some(bus) = Bus::start() else { return };
        let clock = SystemClock::start();
        let why_not = inhibit_over(&bus.socket, "test").unwrap_err();
        assert!(why_not.starts_with("org.freedesktop.login1: "), "{why_not}");
        assert!(why_not.contains("ServiceUnknown"), "{why_not}");
        assert!(clock.now() < Duration::from_secs(1), "{:?}", clock.now());
    }

    #[test]
    fn a_silent_bus_costs_two_seconds_and_a_dead_one_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("bus");
        let listener = UnixListener::bind(&socket).unwrap();
        let clock = SystemClock::start();
        let why_not = inhibit_over(&socket, "test").unwrap_err();
        assert_eq!(why_not, "org.freedesktop.login1: no answer within 2 s");
        let silent = clock.now();
        assert!(silent < Duration::from_secs(4), "{silent:?}");

        drop(listener);
        let why_not = inhibit_over(&socket, "test").unwrap_err();
        assert!(why_not.contains("Connection refused"), "{why_not}");
        let dead = clock.now().saturating_sub(silent);
        assert!(dead < Duration::from_secs(1), "{dead:?}");
    }

    #[test]
    fn whatever_this_machine_has_there_is_a_lock_or_a_reason_soon() {
        let clock = SystemClock::start();
        let (inhibitor, why_not) = inhibit("mediawriter's own tests");
        assert_ne!(inhibitor.is_some(), why_not.is_some(), "{why_not:?}");
        let limit = if bus::system_bus().is_ok() { 4000 } else { 100 };
        assert!(clock.now() < Duration::from_millis(limit), "{:?}", clock.now());
    }
}
