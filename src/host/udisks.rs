//! udisks2: opens, unmounts and ejects for people who may not do so themselves, when polkit allows it
//! or an administrator's password does.
//!
//! Sources: the reference manual of udisks2 (`Manager.ResolveDevice` and the option `flags` of
//! `Block.OpenDevice` since 2.7.3, `Filesystem.Unmount`, `Drive.Eject`); its errors in
//! udisks/udiskserror.c; polkit(8). Unlike `Block.OpenForRestore`, `OpenDevice` takes O_EXCL.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use zbus::{OwnedObjectPath, OwnedVariant, Variant};

use super::bus::{self, Failure, Method, Reply, Wait};
use crate::cancel::CancelToken;

const SERVICE: &str = "org.freedesktop.UDisks2";
const MANAGER: &str = "/org/freedesktop/UDisks2/Manager";
const BLOCK: &str = "org.freedesktop.UDisks2.Block";
/// The bus starts the daemon when somebody asks for it, and it looks at every disk first.
const STARTING: Duration = Duration::from_secs(10);
/// What open(2) may say about a disk. udisks2 passes it on as text.
const ERRORS: [Errno; 6] =
    [Errno::EBUSY, Errno::EROFS, Errno::ENOMEDIUM, Errno::ENXIO, Errno::ENOENT, Errno::EINVAL];

type Options = BTreeMap<String, Variant<'static>>;

/// Why udisks2 did not do what it was asked for. The texts are clean.
#[derive(Debug)]
pub enum No {
    /// It could not be asked: there is no bus, no udisks2, or one that is too old.
    Absent(String),
    /// polkit says no, or the person at its dialog did.
    Refused(String),
    /// It was allowed to, and could not.
    Failed(io::Error),
}

impl From<Failure> for No {
    fn from(failure: Failure) -> Self {
        let Failure::Answered { name, text } = failure else {
            return Self::Absent(format!("{SERVICE}: {failure}"));
        };
        let last = name.rsplit('.').next().unwrap_or_default();
        match (name.strip_prefix("org.freedesktop.UDisks2.Error."), last) {
            (Some("NotAuthorizedDismissed"), _) => {
                Self::Refused("the question for a password was dismissed".to_owned())
            }
            (Some("NotAuthorizedCanObtain"), _) => Self::Refused(
                "polkit wants a password, and there is no dialog to ask for it here".to_owned(),
            ),
            (Some("NotAuthorized"), _) => {
                Self::Refused("polkit does not allow it to you".to_owned())
            }
            (Some(_), _) => {
                let known = ERRORS.into_iter().find(|errno| text.ends_with(errno.desc()));
                Self::Failed(known.map_or_else(|| io::Error::other(text), io::Error::from))
            }
            (None, _) => Self::Absent(format!("{name}: {text}")),
        }
    }
}

/// A block device, as udisks2 knows it.
#[derive(Debug)]
pub struct Block {
    socket: PathBuf,
    object: String,
}

/// Looks whether udisks2 is there and knows this node. Takes 10 s at most, nothing without D-Bus.
pub fn find(node: &Path) -> Result<Block, No> {
    find_over(bus::system_bus().map_err(No::Absent)?, node)
}

fn find_over(socket: PathBuf, node: &Path) -> Result<Block, No> {
    let resolve = Method {
        service: SERVICE,
        object: MANAGER,
        interface: "org.freedesktop.UDisks2.Manager",
        name: "ResolveDevice",
    };
    let path = node.to_string_lossy().into_owned();
    let which: Options = BTreeMap::from([("path".to_owned(), Variant::from(path))]);
    let asked = (which, Options::new());
    let reply = bus::call_waiting(&socket, resolve, asked, Wait::AtMost(STARTING))?;
    let found: Vec<OwnedObjectPath> = body(&reply)?;
    match found.first() {
        Some(object) => Ok(Block { object: object.as_str().to_owned(), socket }),
        None => Err(No::Absent(format!("{SERVICE} does not know this device"))),
    }
}

impl Block {
    /// Opens it for reading, or for both, with flags of open(2). As long as a dialog is open this
    /// waits, and ends with the wish to stop.
    pub fn open(&self, write: bool, flags: i32, cancel: &CancelToken) -> Result<File, No> {
        let mode = if write { "rw" } else { "r" };
        let options: Options = BTreeMap::from([("flags".to_owned(), Variant::from(flags))]);
        let reply = self.ask((BLOCK, "OpenDevice"), (mode, options), Wait::ForPerson(cancel))?;
        let fd: zbus::OwnedFd = body(&reply)?;
        let file = File::from(OwnedFd::from(fd));
        let has = fcntl(&file, FcntlArg::F_GETFL).map_err(|e| No::Failed(e.into()))?;
        // The kernel does not tell of O_EXCL afterwards; an udisks2 that knows no flags has neither.
        if (flags & !has) & OFlag::O_DIRECT.bits() != 0 {
            let old =
                "it is older than 2.7.3, and opens devices only in ways that others can share";
            return Err(No::Absent(format!("{SERVICE}: {old}")));
        }
        Ok(file)
    }

    /// Unmounts the filesystem on it.
    pub fn unmount(&self, cancel: &CancelToken) -> Result<(), No> {
        let unmount = ("org.freedesktop.UDisks2.Filesystem", "Unmount");
        self.ask(unmount, (Options::new(),), Wait::ForPerson(cancel)).map(drop)
    }

    /// Ejects the medium of the drive that it is in.
    pub fn eject(&self, cancel: &CancelToken) -> Result<(), No> {
        let get = ("org.freedesktop.DBus.Properties", "Get");
        let reply = self.ask(get, (BLOCK, "Drive"), Wait::AtMost(STARTING))?;
        let drive: OwnedVariant = body(&reply)?;
        let drive = OwnedObjectPath::try_from(drive).map_err(|e| odd(&e))?;
        // What hangs on no drive, as loop devices, has the root for one.
        if drive.as_str() == "/" {
            return Err(No::Failed(Errno::ENOTTY.into()));
        }
        let drive = Self { socket: self.socket.clone(), object: drive.as_str().to_owned() };
        let eject = ("org.freedesktop.UDisks2.Drive", "Eject");
        drive.ask(eject, (Options::new(),), Wait::ForPerson(cancel)).map(drop)
    }

    fn ask<B>(
        &self,
        (interface, name): (&'static str, &'static str),
        body: B,
        wait: Wait<'_>,
    ) -> Result<Reply, No>
    where
        B: serde::Serialize + zbus::DynamicType + Send + 'static,
    {
        let method = Method { service: SERVICE, object: &self.object, interface, name };
        Ok(bus::call_waiting(&self.socket, method, body, wait)?)
    }
}

fn body<T>(reply: &Reply) -> Result<T, No>
where
    T: for<'d> serde::Deserialize<'d> + zbus::Type,
{
    reply.message.body().deserialize().map_err(|e| odd(&e))
}

fn odd(error: &dyn std::fmt::Display) -> No {
    No::Absent(format!("{SERVICE}: {}", error.to_string().escape_debug()))
}
