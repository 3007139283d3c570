//! What `/sys`, `/proc` and `/run/udev` say about block devices, as [`Facts`]. The only code that
//! reads them; it runs no program, sends nothing to a device, and reads each file of `/proc` once
//! per call. It judges nothing (`policy` does) and opens no device, but loop devices for reading: their driver
//! alone knows the file behind them whatever became of its name.
//!
//! Documentation/ABI/stable/sysfs-block, Documentation/ABI/testing/sysfs-bus-usb and
//! Documentation/admin-guide/sysfs-rules.rst of the kernel (6.18). Layout of the files here:
//! `parse` texts, `graph` devices and what lies on what, `stack` mounts and swap on top of it,
//! `describe` one device in detail, `usb` its USB parents, `holders` programs that keep a file to themselves.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::device::facts::{Bus, Facts, Identity};
use crate::device::storage::{Id, Storage};
use crate::error::{Context as _, Error, Result};
use crate::sys::ioctl;
use crate::text::{natural, printable_path};

mod describe;
#[cfg(test)]
pub(crate) mod fixture;
mod graph;
mod holders;
pub mod parse;
mod stack;
#[cfg(test)]
mod tests;
mod usb;

use stack::Snapshot;

/// What a path names, links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Block device with its major and minor number.
    Block(u32, u32),
    /// Character device with its major and minor number.
    Char(u32, u32),
    /// Regular file.
    File,
    /// Folder.
    Directory,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

/// A mounted filesystem.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// Its mount point.
    pub at: PathBuf,
    /// What it says it was mounted from.
    pub source: PathBuf,
    /// Its type.
    pub fs: String,
    /// The device it lies on, where it is one.
    pub device: Option<Facts>,
    /// Whether the path that was asked about is the mount point.
    pub whole: bool,
}

/// Says what a path names. A test without root cannot make device nodes and brings its own.
pub type Stat = fn(&Path) -> io::Result<NodeKind>;

/// A Linux system as seen below one folder.
#[derive(Clone, Debug)]
pub struct System {
    /// Where /sys, /proc, /dev and /run are.
    root: PathBuf,
    stat: Stat,
}

impl System {
    /// The system this program runs on.
    pub fn host() -> Self {
        Self { root: PathBuf::from("/"), stat: stat_node }
    }

    /// A copy of the relevant files of a system below `root`. Links in it must be relative.
    pub fn under(root: &Path, stat: Stat) -> io::Result<Self> {
        Ok(Self { root: fs::canonicalize(root)?, stat })
    }

    /// Everything known about the device that this node or link stands for. The number of the
    /// node counts, not its name.
    pub fn facts(&self, target: &Path) -> Result<Facts> {
        let shown = || printable_path(target);
        let path = self.canonical(target).context(|| format!("cannot find {}", shown()))?;
        let kind = self.kind(&path).context(|| format!("cannot look at {}", shown()))?;
        let NodeKind::Block(major, minor) = kind else {
            return Err(Error::refused(format!("{} is not a block device", shown())));
        };
        let snapshot = Snapshot::read(self);
        let at = snapshot.graph.by_rdev((major, minor)).ok_or_else(|| {
            Error::refused(format!(
                "the kernel knows no block device {major}:{minor} ({})",
                shown()
            ))
            .hint("the node is stale, or /sys is not mounted")
        })?;
        Ok(Facts { path, ..snapshot.facts(at) })
    }

    /// Every whole device, also those without medium, in the order people count.
    pub fn all(&self) -> Vec<Facts> {
        let snapshot = Snapshot::read(self);
        let mut disks: Vec<Facts> =
            snapshot.graph.disks().map(|disk| snapshot.facts(disk)).collect();
        disks.sort_by(|a, b| natural(&a.name, &b.name));
        disks
    }

    /// What makes the device the same device, read anew; `None` once it is gone.
    pub fn identity(&self, rdev: (u32, u32)) -> Option<Identity> {
        describe::identity(&self.folder(rdev)?, rdev)
    }

    /// Bytes that the kernel read from and wrote to the device since it appeared. `None` when it
    /// is gone or does not count (`queue/iostats` is 0).
    pub fn kernel_counters(&self, rdev: (u32, u32)) -> Option<(u64, u64)> {
        let folder = self.folder(rdev)?;
        let disk = if folder.join("partition").exists() { folder.parent()? } else { &folder };
        if number(&disk.join("queue/iostats")) == Some(0) {
            return None;
        }
        parse::stat(&text(&folder.join("stat"))?)
    }

    /// Largest request that the kernel sends to the device, in bytes
    /// (Documentation/ABI/stable/sysfs-block, `max_sectors_kb`).
    pub fn max_request(&self, rdev: (u32, u32)) -> Option<u64> {
        let folder = self.folder(rdev)?;
        let disk = if folder.join("partition").exists() { folder.parent()? } else { &folder };
        number(&disk.join("queue/max_sectors_kb"))?.checked_mul(1024)
    }

    /// The first sensor of the device, thousandths of a degree Celsius: nvme has one since Linux
    /// 5.5, SATA drives through the module drivetemp since 5.6 (Documentation/hwmon/drivetemp.rst).
    pub fn temperature(&self, rdev: (u32, u32)) -> Option<i64> {
        let device = self.folder(rdev)?.join("device");
        let hwmon = |folder: &Path| {
            let name = names(folder).into_iter().find(|name| name.starts_with("hwmon"))?;
            Some(folder.join(name))
        };
        // drivetemp and nvme hang their sensors below a folder `hwmon` of the device.
        let sensor = hwmon(&device.join("hwmon")).or_else(|| hwmon(&device))?;
        text(&sensor.join("temp1_input"))?.parse().ok()
    }

    /// A regular file that stands for a device: who uses it, and what it lies on.
    pub fn file_facts(&self, path: &Path) -> Result<Facts> {
        let shown = || printable_path(path);
        let path = self.canonical(path).context(|| format!("cannot find {}", shown()))?;
        let meta =
            fs::metadata(self.real(&path)).context(|| format!("cannot look at {}", shown()))?;
        let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let snapshot = Snapshot::read(self);
        Ok(Facts {
            name,
            size: meta.len(),
            bus: Bus::File,
            uses: snapshot.uses_of_file(&path),
            storage: snapshot.storage_of_file(&path),
            path,
            ..Facts::default()
        })
    }

    /// A file, folder or block device as storage: what it is, and what it lies on.
    pub fn storage(&self, path: &Path) -> Result<Storage> {
        let shown = || printable_path(path);
        let path = self.canonical(path).context(|| format!("cannot find {}", shown()))?;
        let kind = self.kind(&path).context(|| format!("cannot look at {}", shown()))?;
        let snapshot = Snapshot::read(self);
        Ok(match kind {
            NodeKind::Block(major, minor) => match snapshot.graph.by_rdev((major, minor)) {
                Some(at) => Storage { path, ..snapshot.storage_of_device(at) },
                // Unknown to /sys, and still that device.
                None => Storage { path, itself: vec![Id::Device(major, minor)], below: Vec::new() },
            },
            _ => snapshot.storage_of_file(&path),
        })
    }

    /// The mounted filesystem that a path lies on. `Err` where there is no such path.
    pub fn mounted(&self, path: &Path) -> io::Result<Option<Mounted>> {
        let path = self.canonical(path)?;
        Ok(Snapshot::read(self).mounted(&path))
    }

    /// A file's number.
    fn file_id(&self, path: &Path) -> Option<Id> {
        let meta = fs::metadata(self.real(path)).ok()?;
        Some(Id::File(meta.dev(), meta.ino()))
    }

    /// The file behind a loop device: as its driver says, for those who may ask; else by the name in /sys, which
    /// may be that of another mount namespace.
    fn loop_file(&self, node: &Path, backing: &Path) -> Option<Id> {
        let asked = || {
            // Only of the running system; a copy of its files has no driver.
            let device = fs::File::open(node).ok().filter(|_| self.root == Path::new("/"))?;
            ioctl::loop_file(&device).ok().map(|(dev, ino)| Id::File(dev, ino))
        };
        asked().or_else(|| self.file_id(backing).filter(|_| !backing.starts_with("/dev")))
    }

    /// The path with all links resolved, as seen from this system's root.
    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let real = fs::canonicalize(self.real(path))?;
        let inside = real.strip_prefix(&self.root).unwrap_or(&real);
        Ok(Path::new("/").join(inside))
    }

    /// What the path names.
    pub(crate) fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        (self.stat)(&self.real(path))
    }

    /// Where a path of this system really is. A relative path is relative to the current folder
    /// on the host, to the root elsewhere.
    pub(crate) fn real(&self, path: &Path) -> PathBuf {
        if self.root == Path::new("/") {
            return path.to_owned();
        }
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The folder of a device in /sys, links resolved.
    fn folder(&self, (major, minor): (u32, u32)) -> Option<PathBuf> {
        fs::canonicalize(self.root.join(format!("sys/dev/block/{major}:{minor}"))).ok()
    }

    /// The number behind a node or a link to one.
    fn rdev_of(&self, path: &Path) -> Option<(u32, u32)> {
        match self.kind(path) {
            Ok(NodeKind::Block(major, minor)) => Some((major, minor)),
            Ok(_) | Err(_) => None,
        }
    }
}

/// [`Stat`] of the real system.
fn stat_node(path: &Path) -> io::Result<NodeKind> {
    let meta = fs::metadata(path)?;
    let kind = meta.file_type();
    Ok(if kind.is_block_device() {
        let (major, minor) = split_rdev(meta.rdev());
        NodeKind::Block(major, minor)
    } else if kind.is_char_device() {
        let (major, minor) = split_rdev(meta.rdev());
        NodeKind::Char(major, minor)
    } else if kind.is_dir() {
        NodeKind::Directory
    } else if kind.is_fifo() {
        NodeKind::Fifo
    } else if kind.is_socket() {
        NodeKind::Socket
    } else {
        NodeKind::File
    })
}

/// Major and minor of a `dev_t`; both are below 2^32 by its layout (makedev(3)).
pub(crate) fn split_rdev(rdev: u64) -> (u32, u32) {
    let half = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    (half(nix::sys::stat::major(rdev)), half(nix::sys::stat::minor(rdev)))
}

/// A file of /sys, /proc or /run/udev as bytes. Missing and unreadable are the same here: the
/// fact is not known.
fn bytes(path: &Path) -> Option<Vec<u8>> {
    fs::read(path).ok()
}

/// A file as text without blanks at its ends; `None` when missing or empty.
fn text(path: &Path) -> Option<String> {
    parse::clean(&String::from_utf8_lossy(&bytes(path)?))
}

/// A file that holds one decimal number.
fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// Names in a folder, sorted; empty when it is missing.
fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_by(|a, b| natural(a, b));
    names
}

/// Last part of what a link points to.
fn link_name(link: &Path) -> Option<String> {
    fs::read_link(link).ok()?.file_name()?.to_str().map(str::to_owned)
}
