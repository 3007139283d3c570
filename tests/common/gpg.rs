//! gpg with a home of its own, to make keys and signatures for tests.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a test may die, and print"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

pub struct Gpg(tempfile::TempDir);

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
}

impl Gpg {
    /// `None` where gpg is not installed, unless nothing may be skipped.
    pub fn new() -> Option<Self> {
        if Command::new("gpg").arg("--version").output().is_err() {
            assert!(std::env::var_os("MEDIAWRITER_NO_SKIPS").is_none(), "gpg is not installed");
            eprintln!("skipped: gpg is not installed");
            return None;
        }
        // Sockets have short names: not below the target folder.
        let home = tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Some(Self(home))
    }

    pub fn run(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("gpg")
            .env("GNUPGHOME", self.0.path())
            .args([
                "--batch",
                "--quiet",
                "--yes",
                "--no-auto-check-trustdb",
                "--pinentry-mode",
                "loopback",
            ])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn prints(&self) -> Vec<String> {
        let listed = self.run(&["--with-colons", "--list-keys"], &[]);
        let listed = String::from_utf8(listed).unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        lines
            .windows(2)
            .filter(|pair| pair[0].starts_with("pub:"))
            .map(|pair| pair[1].split(':').nth(9).unwrap().to_owned())
            .collect()
    }

    /// A new key that may sign; its fingerprint.
    pub fn key(&self, kind: &str, more: &[&str]) -> String {
        self.key_until(kind, "never", more)
    }

    pub fn key_until(&self, kind: &str, until: &str, more: &[&str]) -> String {
        let before = self.prints();
        let name = format!("Tester {} <tester@example.org>", before.len());
        let make = ["--passphrase", "", "--quick-gen-key", &name, kind, "sign", until];
        self.run(&[more, &make].concat(), &[]);
        self.prints().into_iter().find(|print| !before.contains(print)).unwrap()
    }

    pub fn export(&self, print: &str) -> Vec<u8> {
        self.run(&["--export", print], &[])
    }

    pub fn sign(&self, data: &[u8], by: &str, more: &[&str]) -> Vec<u8> {
        self.run(&[more, &["--local-user", by, "--detach-sign"]].concat(), data)
    }

    /// With the revocation that gpg makes for every new key.
    pub fn revoke(&self, print: &str) {
        let file = self.0.path().join(format!("openpgp-revocs.d/{print}.rev"));
        let text = fs::read_to_string(file).unwrap().replace("\n:-----BEGIN", "\n-----BEGIN");
        self.run(&["--import"], text.as_bytes());
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // The agent of this home alone.
        Command::new("gpgconf")
            .env("GNUPGHOME", self.0.path())
            .args(["--kill", "all"])
            .output()
            .ok();
    }
}
