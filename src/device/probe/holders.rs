//! Programs that keep a regular file to themselves: locks and leases by /proc/locks, shared mappings that can be
//! written by /proc/PID/maps. Of other people's processes only root sees more than the locks.
//!
//! Formats: fs/locks.c (`lock_get_status`), Documentation/filesystems/proc.rst 1.1 (maps).

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use super::{System, bytes, names, parse, text};
use crate::device::facts::{Grip, User};
use crate::device::storage::Id;

/// Who keeps the file to himself; `on` is the device that the mount table names for its filesystem, by which
/// the kernel lists locks (on btrfs it is another one than stat(2) reports). Each program once, for a reason.
pub(super) fn of_file(system: &System, file: Id, on: Option<(u32, u32)>) -> Vec<User> {
    let Id::File(dev, inode) = file else { return Vec::new() };
    let devices: Vec<_> = std::iter::once(super::split_rdev(dev)).chain(on).collect();
    let ourselves = std::process::id();
    let mut found: Vec<User> = Vec::new();
    let mut add = |grip, pid: Option<u32>, name| {
        let known = |user: &User| matches!(user, User::Program { pid: other, .. } if *other == pid);
        if pid != Some(ourselves) && !found.iter().any(known) {
            found.push(User::Program { grip, pid, name });
        }
    };
    let locks = parse::locks(&bytes(&system.root.join("proc/locks")).unwrap_or_default());
    for lock in locks {
        if lock.inode != inode || !devices.contains(&lock.device) {
            continue;
        }
        // A lock of an open file has no owner (fs/locks.c: -1); whoever has the file open may be it.
        let pid = lock
            .pid
            .or_else(|| processes(system).into_iter().find(|pid| has_open(system, *pid, file)));
        add(lock.grip, pid, pid.and_then(|pid| program(system, pid)));
    }
    for pid in processes(system) {
        let maps = bytes(&system.root.join(format!("proc/{pid}/maps"))).unwrap_or_default();
        if parse::shared_writable(&maps)
            .iter()
            .any(|(at, ino)| *ino == inode && devices.contains(at))
        {
            add(Grip::Mapping, Some(pid), program(system, pid));
        }
    }
    found
}

/// All processes but this one.
fn processes(system: &System) -> Vec<u32> {
    let all = names(&system.root.join("proc")).into_iter().filter_map(|name| name.parse().ok());
    all.filter(|pid| *pid != std::process::id()).collect()
}

fn program(system: &System, pid: u32) -> Option<String> {
    text(&system.root.join(format!("proc/{pid}/comm")))
}

fn has_open(system: &System, pid: u32, file: Id) -> bool {
    let folder: PathBuf = system.root.join(format!("proc/{pid}/fd"));
    let is_it = |name: &String| {
        folder.join(name).metadata().is_ok_and(|meta| Id::File(meta.dev(), meta.ino()) == file)
    };
    names(&folder).iter().any(is_it)
}
