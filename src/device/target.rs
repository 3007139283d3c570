//! What a person typed as target, looked at before anything is opened: does it exist, is it a
//! block device, is it a slip of the finger. Nothing is created here, and nothing below /dev is
//! ever created or written but block devices: a program that opens a missing node with O_CREAT
//! fills the memory behind /dev with an image.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::device::probe::{NodeKind, System};
use crate::error::{Error, Result};
use crate::text::{printable_path, shell_word};

/// What a target path names, where it may be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block device.
    Block,
    /// A regular file outside of /dev. Whether it may be a target is for the caller's flags.
    RegularFile,
    /// Nothing yet, outside of /dev, in a folder that exists.
    Missing,
}

/// Looks at a target. Every error is a refusal and says what to do instead.
pub fn check_path(system: &System, path: &Path) -> Result<Kind> {
    let shown = printable_path(path);
    let resolved = match system.canonical(path) {
        Ok(resolved) => resolved,
        Err(error) if error.kind() == ErrorKind::NotFound => return missing(system, path),
        Err(error) => return Err(Error::io(format!("cannot look at {shown}"), error)),
    };
    let kind = system
        .kind(&resolved)
        .map_err(|error| Error::io(format!("cannot look at {shown}"), error))?;
    match kind {
        NodeKind::Block(..) => Ok(Kind::Block),
        NodeKind::File if below_dev(&resolved) => Err(Error::refused(format!(
            "{shown} is a regular file, not a device; a regular file under /dev is never a target"
        ))
        .hint("remove it (another program put it there), plug the device in again and look with `mediawriter devices`")),
        NodeKind::File => Ok(Kind::RegularFile),
        NodeKind::Char(..) => Err(character_device(system, &resolved, &shown)),
        NodeKind::Directory => Err(Error::refused(format!("{shown} is a folder, not a block device"))
            .hint("name the device itself; `mediawriter devices` shows where it is mounted")),
        NodeKind::Fifo => Err(Error::refused(format!("{shown} is a pipe, not a block device"))),
        NodeKind::Socket => Err(Error::refused(format!("{shown} is a socket, not a block device"))),
    }
}

fn below_dev(path: &Path) -> bool {
    path.starts_with("/dev")
}

fn is_block(system: &System, path: &Path) -> bool {
    matches!(system.canonical(path).and_then(|path| system.kind(&path)), Ok(NodeKind::Block(..)))
}

fn did_you_mean(path: &Path) -> String {
    format!("did you mean {}?", shell_word(&path.to_string_lossy()))
}

fn missing(system: &System, path: &Path) -> Result<Kind> {
    let shown = printable_path(path);
    let no_such =
        |hint: String| Err(Error::refused(format!("'{shown}': no such device")).hint(hint));
    // Blanks at the ends come along when a name is copied.
    let trimmed = PathBuf::from(OsStr::from_bytes(path.as_os_str().as_bytes().trim_ascii()));
    if trimmed != path && is_block(system, &trimmed) {
        return no_such(format!("the name has blanks around it: {}", did_you_mean(&trimmed)));
    }
    // `sdb` for /dev/sdb, `dev/sdb` from a folder that is not /.
    if path.is_relative() {
        let parent = if path.starts_with("dev") { "/" } else { "/dev" };
        let absolute = Path::new(parent).join(&trimmed);
        if is_block(system, &absolute) {
            return no_such(did_you_mean(&absolute));
        }
    }
    if let Ok(link) = std::fs::read_link(system.real(path)) {
        return no_such(format!(
            "it is a link to {}, which does not exist: the device is gone",
            printable_path(&link)
        ));
    }
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => path,
    };
    let folder = system.canonical(folder);
    // Where /dev/disk/by-id itself is missing, the name still says that a device was meant.
    if below_dev(path) || folder.as_ref().is_ok_and(|folder| below_dev(folder)) {
        return no_such(
            "`mediawriter devices` lists those there are; a card or stick that is not \
            listed was not recognised: plug it in again, try another port"
                .to_owned(),
        );
    }
    match folder {
        Ok(_) => Ok(Kind::Missing),
        Err(error) => Err(Error::io(format!("cannot look at {shown}"), error)),
    }
}

/// Character devices that people take for the disk beside them.
fn character_device(system: &System, path: &Path, shown: &str) -> Error {
    let error = Error::refused(format!("{shown} is a character device, not a block device"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name == "loop-control" {
        return error.hint(
            "it makes loop devices: `losetup --find --show FILE` attaches a file and prints its device",
        );
    }
    // /dev/nvme0 is the controller, /dev/nvme0n1 its first namespace.
    let namespace = PathBuf::from(format!("/dev/{name}n1"));
    if name.starts_with("nvme") && is_block(system, &namespace) {
        return error.hint(format!("it is the controller: {}", did_you_mean(&namespace)));
    }
    if name.starts_with("sg") || name.starts_with("bsg") {
        return error.hint("it is the SCSI command channel; `mediawriter devices` shows the disk");
    }
    error.hint("`mediawriter devices` lists block devices")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::probe::fixture::{Fixture, UsbStick};

    fn desk() -> Fixture {
        let fixture = Fixture::new();
        fixture.stick("sdb", 16, &UsbStick::default());
        fixture.link("dev/disk/by-id/usb-Stick-0:0", "../../sdb");
        fixture.link("dev/disk/by-id/usb-Gone-0:0", "../../sdq");
        fixture.write("dev/sdx", "an image of another day");
        fixture.link("tmp/to-stale", "../dev/sdx");
        fixture.write("dev/pipe", "p");
        for (name, node) in [("null", "c 1:3"), ("sg1", "c 21:1"), ("nvme0", "c 240:0")] {
            fixture.write(&format!("dev/{name}"), node);
        }
        fixture.write("dev/loop-control", "c 10:237");
        fixture.write("dev/nvme0n1", "b 259:0");
        fixture.write("home/me/stick.img", "image");
        fixture
    }

    #[test]
    fn b09_what_is_no_device_is_refused_and_nothing_is_created() {
        let fixture = desk();
        let system = fixture.system();
        let count = || walk(fixture.root());
        let before = count();
        for (path, says) in [
            ("/dev/sdzz", "'/dev/sdzz': no such device"),
            ("/dev/sdb ", "did you mean /dev/sdb?"),
            (" /dev/sdb", "did you mean /dev/sdb?"),
            ("sdb", "did you mean /dev/sdb?"),
            ("dev/sdzz", "no such device"),
            ("/dev/disk/by-id/usb-Gone-0:0", "link to ../../sdq, which does not exist"),
            ("/dev/disk/by-label/X", "no such device"),
            ("/dev/sdx", "a regular file under /dev is never a target"),
            ("/tmp/to-stale", "a regular file under /dev is never a target"),
            ("/tmp/../dev/new", "no such device"),
            ("/dev", "is a folder"),
            ("/dev/pipe", "is a pipe"),
            ("/dev/null", "is a character device"),
            ("/dev/sg1", "command channel"),
            ("/dev/nvme0", "did you mean /dev/nvme0n1?"),
            ("/dev/loop-control", "losetup --find --show"),
            ("/dev/sd\u{1b}b", "'/dev/sd\\u{1b}b': no such device"),
            ("/nowhere/at/all.img", "cannot look at /nowhere/at/all.img"),
        ] {
            let error = check_path(&system, Path::new(path)).unwrap_err();
            assert!(error.to_string().contains(says), "{path}: {error}");
        }
        assert_eq!(count(), before);
    }

    #[test]
    fn devices_and_files_elsewhere_are_told_apart() {
        let fixture = desk();
        let system = fixture.system();
        for (path, kind) in [
            ("/dev/sdb", Kind::Block),
            ("/dev/disk/by-id/usb-Stick-0:0", Kind::Block),
            ("/home/me/stick.img", Kind::RegularFile),
            ("/home/me/new.img", Kind::Missing),
            ("/home/me/ blank ", Kind::Missing),
        ] {
            assert_eq!(check_path(&system, Path::new(path)).unwrap(), kind, "{path}");
        }
    }

    /// Every path below a folder.
    fn walk(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                found.extend(walk(&path));
            }
            found.push(path);
        }
        found.sort();
        found
    }
}
