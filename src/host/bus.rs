//! One method call to a service on a bus, which may be missing, silent or slow.
//!
//! Sources: D-Bus Specification 0.43 (addresses; "Well-known Message Bus Instances").

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use zbus::{Connection, DynamicType, Message};

use super::invoker::Invoker;
use crate::text::printable_path;

/// How long anything on the bus may take, connecting included.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the specification puts the system bus; /var/run is a link to /run.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";

/// Which method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    /// Well-known name of the service.
    pub(crate) service: &'static str,
    /// Object path.
    pub(crate) object: &'static str,
    /// Interface name.
    pub(crate) interface: &'static str,
    /// Member name.
    pub(crate) name: &'static str,
}

/// The answer, and the connection it came over: some services end what they granted when the
/// connection is closed.
#[derive(Debug)]
pub(crate) struct Reply {
    /// What the service said.
    pub(crate) message: Message,
    /// Keeps the connection open.
    pub(crate) connection: Connection,
}

/// The socket of the system bus, or why there is none to try.
pub(crate) fn system_bus() -> Result<PathBuf, String> {
    let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").unwrap_or_default();
    let address = if address.is_empty() { format!("unix:path={SYSTEM_BUS}") } else { address };
    socket_of(&address, "system")
}

/// The socket file in an address; `which` bus it is, for the message.
pub(super) fn socket_of(address: &str, which: &str) -> Result<PathBuf, String> {
    let candidates = paths_in(address);
    match candidates.iter().find(|path| path.exists()) {
        Some(path) => Ok(path.clone()),
        None => match candidates.first() {
            Some(path) => Err(format!("no {which} D-Bus: {} does not exist", printable_path(path))),
            None => Err(format!("no {which} D-Bus: its address names no socket file")),
        },
    }
}

/// The socket files in a D-Bus address, `unix:path=/a,guid=b;tcp:host=c`. Other transports are
/// left out: no bus of ours has a use for them, and some start programs.
fn paths_in(address: &str) -> Vec<PathBuf> {
    address
        .split(';')
        .filter_map(|entry| entry.strip_prefix("unix:"))
        .flat_map(|keys| keys.split(','))
        .filter_map(|key| key.strip_prefix("path="))
        .filter_map(unescaped)
        .collect()
}

/// Undoes `%41`.
fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Calls a method; `Err` says in words why there is no answer. Never takes longer than
/// [`PATIENCE`]: a thread that hangs in connect(2) or waits for a silent bus is left behind.
pub(crate) fn call<B>(socket: &Path, method: Method, body: B) -> Result<Reply, String>
where
    B: Serialize + DynamicType + Send + 'static,
{
    call_with(|| Ok(None), socket, method, body)
}

/// The same on a bus of this person: a session bus lets nobody else in, not even root.
pub(super) fn call_as<B>(
    person: &Invoker,
    socket: &Path,
    method: Method,
    body: B,
) -> Result<Reply, String>
where
    B: Serialize + DynamicType + Send + 'static,
{
    if !person.is_other() {
        return call(socket, method, body);
    }
    let person = person.clone();
    call_with(
        move || person.connect_on_this_thread().map(|()| Some(person.uid)),
        socket,
        method,
        body,
    )
}

/// `become_` says in the thread of the call as whom it connects, if not as everybody here.
fn call_with<B>(
    become_: impl FnOnce() -> io::Result<Option<u32>> + Send + 'static,
    socket: &Path,
    method: Method,
    body: B,
) -> Result<Reply, String>
where
    B: Serialize + DynamicType + Send + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let socket = socket.to_owned();
    thread::Builder::new()
        .name("dbus".into())
        .spawn(move || {
            let answer = match become_() {
                Ok(uid) => zbus::block_on(connect_and_call(&socket, uid, method, &body)),
                Err(error) => Err(error.into()),
            };
            // An answer that comes too late is dropped, and what it granted with it.
            sender.send(answer).ok();
        })
        .map_err(|e| format!("no thread for D-Bus: {e}"))?;
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(e)) => Err(format!("{}: {}", method.service, e.to_string().escape_debug())),
        Err(_) => Err(format!("{}: no answer within {} s", method.service, PATIENCE.as_secs())),
    }
}

async fn connect_and_call<B>(
    socket: &Path,
    uid: Option<u32>,
    method: Method,
    body: &B,
) -> zbus::Result<Reply>
where
    B: Serialize + DynamicType,
{
    let stream = UnixStream::connect(socket).map_err(zbus::Error::from)?;
    let mut builder = zbus::connection::Builder::unix_stream(stream).method_timeout(PATIENCE);
    if let Some(uid) = uid {
        builder = builder.user_id(uid);
    }
    let connection = builder.build().await?;
    let message = connection
        .call_method(Some(method.service), method.object, Some(method.interface), method.name, body)
        .await?;
    Ok(Reply { message, connection })
}

#[cfg(test)]
pub(crate) mod lab {
    //! A bus for tests.

    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};

    /// A bus of our own, ended with the test.
    #[derive(Debug)]
    pub(crate) struct Bus {
        daemon: Child,
        pub(crate) socket: PathBuf,
        _dir: tempfile::TempDir,
    }

    impl Bus {
        /// `None` where dbus-daemon is not installed.
        pub(crate) fn start() -> Option<Self> {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("bus");
            let address = format!("--address=unix:path={}", socket.display());
            let mut daemon = Command::new("dbus-daemon")
                .args(["--session", "--nofork", "--nopidfile", "--print-address=1", &address])
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|e| eprintln!("SKIPPED: dbus-daemon (Debian package dbus): {e}"))
                .ok()?;
            // It prints its address once it listens.
            let mut line = String::new();
            BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let bus = Self { daemon, socket, _dir: dir };
            if line.is_empty() {
                eprintln!("SKIPPED: dbus-daemon ended at once (it wants a user with a name)");
                return None;
            }
            assert!(line.starts_with("unix:path="), "{line}");
            Some(bus)
        }
    }

    impl Drop for Bus {
        fn drop(&mut self) {
            self.daemon.kill().ok();
            self.daemon.wait().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_files_are_found_in_every_form_of_address() {
        for (address, expected) in [
            ("unix:path=/a/b", &["/a/b"][..]),
            ("unix:path=/a/b,guid=00", &["/a/b"]),
            ("unix:guid=00,path=/a%20b%2cc", &["/a b,c"]),
            ("tcp:host=h,port=1;unix:path=/x;unix:path=/y", &["/x", "/y"]),
            ("unix:abstract=/a", &[]),
            ("unixexec:path=/bin/sh", &[]),
            ("unix:path=/a%2", &[]),
            ("unix:path=/a%zz", &[]),
            ("unix:path=/a%ff", &[]),
            ("", &[]),
        ] {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(paths_in(address), expected, "{address}");
        }
    }

    #[test]
    fn a_bus_that_is_not_there_is_said_to_be_missing() {
        let missing = socket_of("unix:path=/nonexistent/bus", "system").unwrap_err();
        assert_eq!(missing, "no system D-Bus: /nonexistent/bus does not exist");
        let other = socket_of("tcp:host=localhost,port=1", "system").unwrap_err();
        assert_eq!(other, "no system D-Bus: its address names no socket file");
    }
}
