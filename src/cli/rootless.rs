//! What a person without root gets done all the same: through udisks2, which asks polkit, and polkit
//! asks whom it has to. Only where the kernel said no, and never as root. Else: the line with sudo.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::device::facts::{Bus, Facts};
use crate::device::handle::{self, Access};
use crate::error::{Error, Result};
use crate::host::udisks::{self, No};
use crate::host::{privilege, signals};
use crate::text::printable_path;
use crate::ui;

/// Whether somebody else could be allowed what this error denies.
fn denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) && !privilege::is_root()
}

fn sudo(words: &[OsString]) -> String {
    privilege::sudo_line(words.get(1..).unwrap_or_default())
}

/// Opens a node that policy approved ([`handle::Open`]). The error is whole where udisks2 was needed.
pub(super) fn open(
    path: &Path,
    access: Access,
    flags: i32,
    words: &[OsString],
) -> io::Result<File> {
    let kernel = match handle::by_kernel(path, access, flags) {
        Err(error) if denied(&error) => error,
        done => return done,
    };
    let name = printable_path(path);
    let cancel = signals::wish();
    let asked = udisks::find(path).and_then(|block| {
        ui::talk(&format!("{name} is not yours to open: asking udisks2; a password may be wanted"));
        block.open(access == Access::Exclusive, flags, &cancel)
    });
    let no = match asked {
        Ok(file) => return Ok(file),
        Err(no) => no,
    };
    // Whoever stops here had a dialog before him.
    cancel.check().map_err(io::Error::other)?;
    Err(match no {
        No::Absent(why) => {
            io::Error::other(Error::io(format!("cannot open {name}"), kernel).hint(format!(
                "{}\n       (or be in the group that owns the node, often `disk`; \
                 udisks2 could not be asked: {why})",
                sudo(words)
            )))
        }
        No::Refused(why) => io::Error::other(
            Error::refused(format!("{name} was not opened for you, nothing was written: {why}"))
                .hint(sudo(words)),
        ),
        No::Failed(error) if error.raw_os_error().is_some() => error,
        No::Failed(error) => io::Error::other(
            Error::io(format!("udisks2 could not open {name}"), error).hint(sudo(words)),
        ),
    })
}

/// Unmounts `at`, where `node` is mounted.
pub(super) fn unmount(node: &Path, at: &Path) -> Result<()> {
    let flags = nix::mount::MntFlags::UMOUNT_NOFOLLOW;
    let Err(errno) = nix::mount::umount2(at, flags) else { return Ok(()) };
    let (error, at) = (io::Error::from(errno), printable_path(at));
    let cannot = |error| {
        Error::io(format!("cannot unmount {at}"), error)
            .hint(format!("close what uses it (lsof +f -- {at}); as a user: umount or sudo"))
    };
    if !denied(&error) {
        return Err(cannot(error));
    }
    let cancel = signals::wish();
    match udisks::find(node).and_then(|block| block.unmount(&cancel)) {
        Ok(()) => Ok(()),
        Err(_) if cancel.signal().is_some() => cancel.check(),
        Err(No::Absent(_)) => Err(cannot(error)),
        Err(No::Failed(error)) => Err(cannot(error)),
        Err(No::Refused(why)) => Err(Error::refused(format!("{at} was not unmounted: {why}"))
            .hint("unmount it yourself, or use sudo")),
    }
}

/// Ejects, after our own way failed with this error; says what was done.
pub(super) fn eject(facts: &Facts, error: io::Error) -> io::Result<String> {
    if privilege::is_root() || matches!(facts.bus, Bus::File | Bus::Sim) {
        return Err(error);
    }
    match udisks::find(&facts.path).and_then(|block| block.eject(&signals::wish())) {
        Ok(()) => Ok("ejected by udisks2: it can be pulled out".to_owned()),
        Err(No::Failed(error)) => Err(error),
        Err(No::Absent(_)) => Err(error),
        Err(No::Refused(why)) => Err(io::Error::other(why)),
    }
}
