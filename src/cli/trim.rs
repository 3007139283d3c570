//! `discard --trim`: FITRIM on mounted filesystems, a line each. Loses no data.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::device::facts::User;
use crate::device::probe::System;
use crate::device::target::{self, check_path};
use crate::error::{Error, Kind, Result};
use crate::sys::ioctl;
use crate::text::{printable, printable_path};
use crate::time::{Clock as _, SystemClock};
use crate::ui;
use crate::units::{Bytes, spoken};

/// One filesystem, or all that are mounted from a disk.
pub(super) fn run(path: &Path) -> Result<ExitCode> {
    let system = System::host();
    let places = if matches!(check_path(&system, path), Ok(target::Kind::Block)) {
        of_device(&system, path)?
    } else {
        vec![(printable_path(path), Some(path.to_owned()))]
    };
    let mut failed = None;
    let mut trimmed = false;
    for (name, at) in places {
        let Some(at) = at else {
            ui::print(&format!("{name}: not mounted, skipped\n"));
            continue;
        };
        match trim(&at) {
            Ok(line) => {
                trimmed = true;
                ui::print(&format!("{name}: {line}\n"));
            }
            Err(error) => {
                let message = error.message();
                let named = message.starts_with(&name);
                ui::print(&if named { message + "\n" } else { format!("{name}: {message}\n") });
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None if trimmed => Ok(ExitCode::SUCCESS),
        None => {
            Err(Error::refused(format!("no filesystem of {} is mounted", printable_path(path)))
                .hint("mount it first; FITRIM works on mounted filesystems only"))
        }
    }
}

/// Every partition of a disk with its mount point, the disk itself where it carries a filesystem.
fn of_device(system: &System, path: &Path) -> Result<Vec<(String, Option<PathBuf>)>> {
    let facts = system.facts(path)?;
    let mount = |device: &Path| {
        facts.uses.iter().find_map(|used| match &used.by {
            User::Mount { at } if used.device == device => Some(at.clone()),
            _ => None,
        })
    };
    let mut places = Vec::new();
    if facts.partitions.is_empty() || mount(&facts.path).is_some() {
        places.push((printable_path(&facts.path), mount(&facts.path)));
    }
    for partition in &facts.partitions {
        let fs = partition
            .fs_type
            .as_ref()
            .map_or_else(String::new, |fs| format!(" ({})", printable(fs)));
        places.push((format!("{}{fs}", printable_path(&partition.path)), mount(&partition.path)));
    }
    Ok(places)
}

fn trim(at: &Path) -> Result<String> {
    let name = printable_path(at);
    let folder = File::open(at).map_err(|e| Error::io(format!("cannot open {name}"), e))?;
    let clock = SystemClock::start();
    match ioctl::trim_filesystem(&folder) {
        Ok(bytes) => {
            let took = clock.now();
            Ok(format!("{bytes} bytes trimmed ({}) in {:.3} s", Bytes(bytes), took.as_secs_f64())
                + if took.as_secs() > 5 { "; slow for a trim: the drive may overwrite what it is given back" } else { "" })
        }
        Err(e) => Err(match e.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY) => Error::new(
                Kind::Io,
                format!("{name}: not supported here: this filesystem, its driver or the device below has no trim"),
            )
            .hint("mediawriter discard TARGET tells whether the device can; FAT can since Linux 4.19"),
            Some(libc::EPERM | libc::EACCES) => Error::io(format!("cannot trim {name}"), e).hint("run it with sudo"),
            Some(libc::EROFS) => Error::io(format!("{name} is mounted read-only"), e),
            _ => Error::io(format!("cannot trim {name} ({})", spoken(clock.now())), e),
        }),
    }
}
