//! A bus for tests: of our own, open to every user, without services that it could start.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a test may die, and print"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running dbus-daemon, ended with the test.
#[derive(Debug)]
pub struct Bus {
    daemon: Child,
    pub socket: PathBuf,
    _dir: tempfile::TempDir,
}

impl Bus {
    /// `None` where dbus-daemon is not installed; where nothing may be skipped that is a failure.
    pub fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (socket, config) = (dir.path().join("bus"), dir.path().join("bus.conf"));
        let text = format!(
            "<busconfig><type>session</type><listen>unix:path={}</listen><auth>EXTERNAL</auth>
             <policy context=\"default\"><allow user=\"*\"/><allow own=\"*\"/>
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/>
             </policy></busconfig>",
            socket.display()
        );
        fs::write(&config, text).unwrap();
        let daemon = Command::new("dbus-daemon")
            .args(["--nofork", "--nopidfile", "--print-address=1"])
            .arg(format!("--config-file={}", config.display()))
            .stdout(Stdio::piped())
            .spawn();
        let mut daemon = match daemon {
            Ok(daemon) => daemon,
            Err(e) => return skip(&format!("dbus-daemon (Debian package dbus-daemon): {e}")),
        };
        // It prints its address once it listens.
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let bus = Self { daemon, socket, _dir: dir };
        if line.is_empty() {
            return skip("dbus-daemon ended at once (it wants a user with a name)");
        }
        assert!(line.starts_with("unix:path="), "{line}");
        Some(bus)
    }

    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket.display())
    }

    /// What a service that is served from a test begins with.
    pub fn builder(&self) -> zbus::connection::Builder<'static> {
        zbus::connection::Builder::address(self.address().as_str())
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.daemon.kill().ok();
        self.daemon.wait().ok();
    }
}

fn skip(reason: &str) -> Option<Bus> {
    let strict = std::env::var_os("MEDIAWRITER_NO_SKIPS").is_some();
    assert!(!strict, "skipping is not allowed: {reason}");
    eprintln!("SKIPPED: {reason}");
    None
}
