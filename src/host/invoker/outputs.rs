//! Where an output may go: the one decision, made from what is there. docs/safety.md has the same table.
//!
//! | there is | text: a log, a record, a table, a page | a file that is proven before it has its name |
//! |---|---|---|
//! | nothing | it is made | it is made |
//! | a regular file | replaced whole (a log: emptied) | replaced whole, where its option may |
//! | a pipe with a reader, a terminal, /dev/null, /dev/full, the descriptors of this process | written into | refused |
//! | a block device, another character device, a socket, a folder, a link | refused | refused |
//!
//! Nothing is made below /dev (but in /dev/shm), nor in the filesystems of the kernel. A link is never followed and
//! never replaced, whoever made it: the message says where it leads.
//!
//! Numbers of devices: Documentation/admin-guide/devices.txt; of filesystems: include/uapi/linux/magic.h.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::stat::{FileStat, SFlag, fstat};

use crate::sys::process;
use crate::text::{printable_path, shell_word};

/// What is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text, which may as well go into a pipe.
    Text,
    /// A file that is looked at again before it has its name.
    Whole,
}

/// What is there, where an output may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing: the name is new, in the folder with this device number and inode.
    New((u64, u64)),
    /// A regular file, by device number and inode.
    File((u64, u64)),
    /// Something that is written into, by device number and inode; `shared`: several outputs may.
    Stream {
        /// Which one.
        id: (u64, u64),
        /// What is written there is for nobody.
        shared: bool,
    },
}

/// Why an output cannot go there.
#[derive(Debug)]
pub struct Refusal {
    /// As the end of a sentence.
    pub(super) why: String,
    /// What to do.
    pub(super) hint: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Refusal {}

pub(super) fn no(why: impl Into<String>, hint: impl Into<String>) -> io::Error {
    io::Error::other(Refusal { why: why.into(), hint: hint.into() })
}

/// The descriptor of this process that a path means.
pub(super) fn descriptor(path: &Path) -> Option<i32> {
    match path.as_os_str().as_bytes() {
        b"-" | b"/dev/stdout" => return Some(1),
        b"/dev/stderr" => return Some(2),
        _ => {}
    }
    let folders = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    let number = folders.iter().find_map(|folder| path.strip_prefix(folder).ok())?;
    number.to_str()?.parse().ok()
}

/// Another descriptor for writing into what this process was started with.
pub(super) fn open_descriptor(number: i32) -> io::Result<File> {
    let file = process::duplicate(number)
        .map_err(|_| no("is a descriptor that is not open", "name a file"))?;
    let flags = nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_GETFL)?;
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(no("is a descriptor for reading", "name a file, or /dev/stdout"));
    }
    Ok(file)
}

/// Judges what a name stands for; `link` is where a link leads. Pure.
pub(super) fn judge(stat: &FileStat, form: Form, link: Option<&Path>) -> io::Result<Found> {
    let id = (stat.st_dev, stat.st_ino);
    let stream = |shared| match form {
        Form::Text => Ok(Found::Stream { id, shared }),
        Form::Whole => Err(no(
            "is not a regular file, and what goes there is read again before it is done",
            "name a file",
        )),
    };
    let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    if format == SFlag::S_IFREG {
        return Ok(Found::File(id));
    }
    if format == SFlag::S_IFIFO {
        return stream(false);
    }
    if format == SFlag::S_IFCHR {
        return match character(stat.st_rdev) {
            Character::Sink => stream(true),
            Character::Terminal => stream(false),
            Character::Other => Err(no(
                "is a character device, not a file",
                "name a file; /dev/null takes what nobody wants",
            )),
        };
    }
    Err(match format {
        SFlag::S_IFBLK => no(
            "is a block device, not a file",
            "did you mean to write a stick? mediawriter flash IMAGE TARGET",
        ),
        SFlag::S_IFDIR => no("is a folder, not a file", "name a file in it"),
        SFlag::S_IFSOCK => no("is a socket, not a file", "name a file"),
        _ => match link {
            Some(to) => no(
                format!("is a link to {}, and links are not followed", printable_path(to)),
                format!("name {} itself, if that is meant", shell_word(&to.to_string_lossy())),
            ),
            None => no("is not a regular file", "name a file"),
        },
    })
}

/// As [`judge`] for a descriptor that is open: a socket can be written into, as a service's standard output is.
pub(super) fn judge_descriptor(file: &File, form: Form) -> io::Result<Found> {
    let stat = fstat(file)?;
    let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    let id = (stat.st_dev, stat.st_ino);
    match (format, form) {
        (SFlag::S_IFSOCK, Form::Text) => Ok(Found::Stream { id, shared: false }),
        // Written on from where it stands, not replaced.
        (SFlag::S_IFREG, Form::Whole) => Err(no("is no name for a file", "name a file")),
        _ => judge(&stat, form, None),
    }
}

enum Character {
    /// Takes everything or nothing, and keeps nothing.
    Sink,
    Terminal,
    Other,
}

/// By number, because opening some devices does something: a watchdog starts, a tape rewinds.
fn character(rdev: u64) -> Character {
    match (nix::sys::stat::major(rdev), nix::sys::stat::minor(rdev)) {
        (1, 3 | 7) => Character::Sink,
        // tty and ttyS, /dev/tty and console, pts, then serial lines: ACM, USB, AMA and others, hvc.
        (4 | 136..=143 | 166 | 188 | 204 | 229, _) | (5, 0 | 1) => Character::Terminal,
        _ => Character::Other,
    }
}

/// Whether files may be made in a folder with this path, on this kind of filesystem.
pub(super) fn may_hold_files(folder: &Path, filesystem: i64) -> io::Result<()> {
    if is_below_dev(folder) || KERNEL.contains(&filesystem) {
        return Err(among_devices());
    }
    Ok(())
}

pub(super) fn is_below_dev(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

pub(super) fn among_devices() -> io::Error {
    no("would be a file among devices and settings of the kernel", "name a file in another folder")
}

/// proc, sysfs, debugfs, tracefs, securityfs, selinuxfs, smackfs, cgroup, cgroup2, devpts, efivarfs, bpf, configfs,
/// pstore, binfmt_misc: a file there is a switch of the kernel, or of the firmware.
const KERNEL: [i64; 15] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xf97c_ff8c,
    0x4341_5d53,
    0x27_e0eb,
    0x6367_7270,
    0x1cd1,
    0xde5e_81e4,
    0xcafe_4a11,
    0x6265_6570,
    0x6165_676c,
    0x4249_4e4d,
];

/// Where a folder really is.
pub(super) fn real(folder: &Path) -> PathBuf {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// `path` as it is opened: `-` has no folder.
pub(super) fn parts(path: &Path) -> Option<(&Path, &OsStr)> {
    let name = path.file_name()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Some((parent.unwrap_or_else(|| Path::new(".")), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(mode: SFlag, rdev: u64) -> FileStat {
        let mut stat = nix::sys::stat::stat("/").unwrap();
        (stat.st_mode, stat.st_rdev) = (mode.bits() | 0o644, rdev);
        stat
    }

    #[test]
    fn c01_the_table_of_what_is_there() {
        let node = nix::sys::stat::makedev;
        let character = SFlag::S_IFCHR;
        for (mode, rdev, text, whole) in [
            (SFlag::S_IFREG, 0, "file", "file"),
            (SFlag::S_IFIFO, 0, "stream", "no"),
            (character, node(1, 3), "stream", "no"),
            (character, node(1, 7), "stream", "no"),
            (character, node(136, 0), "stream", "no"),
            (character, node(5, 0), "stream", "no"),
            (character, node(188, 0), "stream", "no"),
            // mem, zero, random, kmsg, ptmx, watchdog, sg, nvme, loop-control.
            (character, node(1, 1), "no", "no"),
            (character, node(1, 5), "no", "no"),
            (character, node(1, 8), "no", "no"),
            (character, node(1, 11), "no", "no"),
            (character, node(5, 2), "no", "no"),
            (character, node(10, 130), "no", "no"),
            (character, node(21, 0), "no", "no"),
            (character, node(240, 0), "no", "no"),
            (character, node(10, 237), "no", "no"),
            (SFlag::S_IFBLK, node(8, 0), "no", "no"),
            (SFlag::S_IFDIR, 0, "no", "no"),
            (SFlag::S_IFSOCK, 0, "no", "no"),
            (SFlag::S_IFLNK, 0, "no", "no"),
        ] {
            let word = |form| match judge(&stat(mode, rdev), form, None) {
                Ok(Found::File(_)) => "file",
                Ok(Found::Stream { .. }) => "stream",
                Ok(Found::New(_)) => "new",
                Err(error) => {
                    assert!(error.to_string().starts_with("is "), "{error}");
                    "no"
                }
            };
            assert_eq!((word(Form::Text), word(Form::Whole)), (text, whole), "{mode:?} {rdev:x}");
        }
    }

    #[test]
    fn descriptors_have_many_names() {
        for (path, number) in [
            ("-", Some(1)),
            ("/dev/stdout", Some(1)),
            ("/dev/stderr", Some(2)),
            ("/dev/fd/63", Some(63)),
            ("/proc/self/fd/4", Some(4)),
            ("./-", None),
            ("/dev/fd", None),
            ("/dev/fd/x", None),
            ("/dev/stdin", None),
            ("/proc/1/fd/1", None),
        ] {
            assert_eq!(descriptor(Path::new(path)), number, "{path}");
        }
    }

    #[test]
    fn nothing_is_made_among_devices_and_settings() {
        let tmpfs = 0x0102_1994;
        for (folder, filesystem, may) in [
            ("/dev", tmpfs, false),
            ("/dev/disk/by-id", tmpfs, false),
            ("/dev/shm", tmpfs, true),
            ("/dev/shm/x", tmpfs, true),
            ("/devices", tmpfs, true),
            ("/proc/sys/kernel", 0x9fa0, false),
            ("/mnt", 0x6265_6572, false),
            ("/tmp", tmpfs, true),
        ] {
            assert_eq!(may_hold_files(Path::new(folder), filesystem).is_ok(), may, "{folder}");
        }
    }
}
