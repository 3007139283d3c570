//! One method call to a service on a bus, which may be missing, silent or slow, or may have to ask a
//! person first.
//!
//! Sources: D-Bus Specification 0.43 (addresses; "Well-known Message Bus Instances").

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use zbus::{Connection, DynamicType, Message};

use super::invoker::Invoker;
use crate::cancel::CancelToken;
use crate::text::printable_path;

/// How long anything on the bus may take, connecting included.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at whether the person at the terminal has had enough.
const LOOK: Duration = Duration::from_millis(100);

/// Where the specification puts the system bus; /var/run is a link to /run.
const SYSTEM_BUS: &str = "/run/dbus/system_bus_socket";

/// Which method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method<'a> {
    /// Well-known name of the service.
    pub(crate) service: &'static str,
    /// Object path.
    pub(crate) object: &'a str,
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

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait<'a> {
    /// So long at the most.
    AtMost(Duration),
    /// A dialog may ask a person: until there is an answer, or the wish to stop.
    ForPerson(&'a CancelToken),
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The service, or the bus for it, answered with an error: its name, and what it says. Clean.
    Answered {
        /// Such as `org.freedesktop.DBus.Error.ServiceUnknown`.
        name: String,
        /// For people.
        text: String,
    },
    /// Anything else, in words.
    Silent(String),
}

impl Failure {
    fn of(error: &zbus::Error) -> Self {
        let clean = |text: &str| text.escape_debug().to_string();
        match error {
            zbus::Error::MethodError(name, text, _) => Self::Answered {
                name: clean(name.as_str()),
                text: clean(text.as_deref().unwrap_or_default()),
            },
            other => Self::Silent(clean(&other.to_string())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { name, text } => write!(f, "{name}: {text}"),
            Self::Silent(why) => f.write_str(why),
        }
    }
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
pub(crate) fn call<B>(socket: &Path, method: Method<'_>, body: B) -> Result<Reply, String>
where
    B: Serialize + DynamicType + Send + 'static,
{
    said(method, call_with(|| Ok(None), socket, method, body, Wait::AtMost(PATIENCE)))
}

/// The same with more patience, and with the reason as the service gave it.
pub(super) fn call_waiting<B>(
    socket: &Path,
    method: Method<'_>,
    body: B,
    wait: Wait<'_>,
) -> Result<Reply, Failure>
where
    B: Serialize + DynamicType + Send + 'static,
{
    call_with(|| Ok(None), socket, method, body, wait)
}

fn said(method: Method<'_>, reply: Result<Reply, Failure>) -> Result<Reply, String> {
    reply.map_err(|failure| format!("{}: {failure}", method.service))
}

/// The same on a bus of this person: a session bus lets nobody else in, not even root.
pub(super) fn call_as<B>(
    person: &Invoker,
    socket: &Path,
    method: Method<'_>,
    body: B,
) -> Result<Reply, String>
where
    B: Serialize + DynamicType + Send + 'static,
{
    if !person.is_other() {
        return call(socket, method, body);
    }
    let person = person.clone();
    let become_ = move || person.connect_on_this_thread().map(|()| Some(person.uid));
    said(method, call_with(become_, socket, method, body, Wait::AtMost(PATIENCE)))
}

/// `become_` says in the thread of the call as whom it connects, if not as everybody here.
fn call_with<B>(
    become_: impl FnOnce() -> io::Result<Option<u32>> + Send + 'static,
    socket: &Path,
    method: Method<'_>,
    body: B,
    wait: Wait<'_>,
) -> Result<Reply, Failure>
where
    B: Serialize + DynamicType + Send + 'static,
{
    let (sender, receiver) = mpsc::channel();
    let (socket, object) = (socket.to_owned(), method.object.to_owned());
    let Method { service, interface, name, .. } = method;
    let limit = match wait {
        Wait::AtMost(limit) => Some(limit),
        Wait::ForPerson(_) => None,
    };
    thread::Builder::new()
        .name("dbus".into())
        .spawn(move || {
            let method = Method { service, object: &object, interface, name };
            let answer = match become_() {
                Ok(uid) => zbus::block_on(connect_and_call(&socket, uid, method, &body, limit)),
                Err(error) => Err(error.into()),
            };
            // An answer that comes too late is dropped, and what it granted with it.
            sender.send(answer).ok();
        })
        .map_err(|e| Failure::Silent(format!("no thread for D-Bus: {e}")))?;
    let answer = match wait {
        Wait::AtMost(limit) => receiver
            .recv_timeout(limit)
            .map_err(|_| Failure::Silent(format!("no answer within {} s", limit.as_secs())))?,
        Wait::ForPerson(cancel) => loop {
            match receiver.recv_timeout(LOOK) {
                Ok(answer) => break answer,
                Err(RecvTimeoutError::Timeout) if cancel.signal().is_none() => {}
                Err(_) => return Err(Failure::Silent("it was not waited for".to_owned())),
            }
        },
    };
    answer.map_err(|error| Failure::of(&error))
}

async fn connect_and_call<B>(
    socket: &Path,
    uid: Option<u32>,
    method: Method<'_>,
    body: &B,
    limit: Option<Duration>,
) -> zbus::Result<Reply>
where
    B: Serialize + DynamicType,
{
    let stream = UnixStream::connect(socket).map_err(zbus::Error::from)?;
    let mut builder = zbus::connection::Builder::unix_stream(stream);
    if let Some(limit) = limit {
        builder = builder.method_timeout(limit);
    }
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
#[path = "../../tests/common/bus.rs"]
pub(crate) mod lab;

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
