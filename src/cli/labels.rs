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

/// Whether udev keeps its database here; then nothing needs to be read.
pub(super) fn udev_runs() -> bool {
    Path::new("/run/udev/data").is_dir()
}

/// Fills in types and labels of partitions, or of the whole disk.
pub(super) fn fill(facts: &mut Facts) {
    let known = facts.content.is_some() || facts.partitions.iter().any(|p| p.fs_type.is_some());
    if known || facts.size == 0 {
        return;
    }
    let Some(info) = look(facts) else { return };
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

fn look(facts: &Facts) -> Option<ImageInfo> {
    let rules = Rules { purpose: Purpose::ReadOnly, ..Rules::default() };
    let approved = approve(facts.clone(), &rules).ok()?;
    let device = LinuxDevice::open(&approved, System::host()).ok()?;
    inspect(&Look(&device), "").ok()
}
