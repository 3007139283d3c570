//! Servers with TLS, made by openssl, and other servers that are programs of their own.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a test may die, and looks at the clock on the wall"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A server of another make, ended with the test.
pub struct Other {
    child: Child,
    pub port: u16,
    scheme: &'static str,
}

impl Drop for Other {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Other {
    pub fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.port)
    }

    pub fn ready(child: Child, port: u16, scheme: &'static str) -> Self {
        let end = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "nobody listens on {port}");
            thread::sleep(Duration::from_millis(20));
        }
        Self { child, port, scheme }
    }
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Certificates made by openssl: an authority, and what it signed.
pub fn certificates(dir: &Path) {
    certificates_by(dir, &["openssl"]);
}

/// The same by another command line, as of a computer with another clock.
pub fn certificates_by(dir: &Path, program: &[&str]) {
    let openssl = |args: &str| {
        let out = Command::new(program[0])
            .args(&program[1..])
            .args(args.split_whitespace())
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(out.status.success(), "{args}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("{new} -x509 -days 30 -subj /CN=Lab-CA -keyout ca.key -out ca.pem"));
    for (name, host, address) in
        [("good", "localhost", ",IP:127.0.0.1"), ("other", "example.org", "")]
    {
        openssl(&format!("{new} -subj /CN={host} -keyout {name}.key -out {name}.csr"));
        fs::write(dir.join("ext"), format!("subjectAltName=DNS:{host}{address}\n")).unwrap();
        openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 20 -extfile ext -out {name}.pem"
        ));
    }
    // x509 of OpenSSL 3.0 has no start date, and takes a negative number of days.
    fs::copy(dir.join("good.key"), dir.join("old.key")).unwrap();
    fs::write(dir.join("ext"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        "x509 -req -in good.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days -1 -extfile ext -out old.pem",
    );
}

pub fn https(dir: &Path, name: &str) -> Other {
    let port = free_port();
    let child = Command::new("openssl")
        .args(["s_server", "-HTTP", "-quiet", "-accept", &port.to_string()])
        .args(["-cert", &format!("{name}.pem"), "-key", &format!("{name}.key")])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Other::ready(child, port, "https")
}
