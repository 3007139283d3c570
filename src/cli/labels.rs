//! What is on a disk now, read from the disk itself where udev's database does not say: in a
//! rescue system, in a container, right after plugging in. Opens read-only; any failure only
//! leaves the labels out.

use std::path::Path;

use crate::device::facts::Facts;
use crate::device::linux::LinuxDevice;
use crate::device::look::Look;
use crate::device::policy::{Purpose, Rules, approve};
use crate::device::probe::System;
use crate::image::{ImageInfo, inspect};
use crate::windows::installs::installs;

/// Whether udev looks after disks here.
pub(super) fn udev_runs() -> bool {
    Path::new("/run/udev/data").is_dir()
}

/// Fills in types and labels of partitions, or of the whole disk, where udev does not know them, and
/// what Windows a stick installs.
pub(super) fn fill(facts: &mut Facts) {
    let known = facts.content.is_some() || facts.partitions.iter().any(|p| p.fs_type.is_some());
    let fat = facts.partitions.iter().any(|p| p.fs_type.as_deref() == Some("vfat"));
    if facts.size == 0 || facts.system.is_some() || known && !fat {
        return;
    }
    let Some(device) = open(facts) else { return };
    let medium = Look(&device);
    let mut volumes: Vec<u64> = facts.partitions.iter().map(|partition| partition.start).collect();
    if !known && let Ok(info) = inspect(&medium, "") {
        // A loop device may have a table that the kernel did not read.
        let table = info.table.iter().flat_map(|table| &table.partitions);
        volumes.extend(table.map(|partition| partition.start_bytes));
        volumes.sort_unstable();
        volumes.dedup();
        name(facts, info);
    }
    let editions = volumes.into_iter().flat_map(|start| installs(&medium, start));
    facts.windows = editions.map(|edition| edition.to_string()).collect();
}

fn name(facts: &mut Facts, info: ImageInfo) {
    let Some(table) = &info.table else {
        facts.content = info.filesystem.map(|fs| (fs.kind.name().to_owned(), fs.label));
        return;
    };
    for partition in &mut facts.partitions {
        let found = table.partitions.iter().find(|p| p.start_bytes == partition.start);
        if let Some(fs) = found.and_then(|p| p.fs.as_ref()) {
            partition.fs_type = Some(fs.kind.name().to_owned());
            partition.label = partition.label.take().or_else(|| fs.label.clone());
        }
    }
}

fn open(facts: &Facts) -> Option<LinuxDevice> {
    let rules = Rules { purpose: Purpose::ReadOnly, ..Rules::default() };
    let approved = approve(facts.clone(), &rules).ok()?;
    LinuxDevice::open(&approved, System::host()).ok()
}
