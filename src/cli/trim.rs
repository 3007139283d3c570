//! `discard --trim`: FITRIM on mounted filesystems, a line each. Loses no data. PATH is a mount point or a device
//! with one, so that no other filesystem is trimmed than the one that was meant.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::Gate;
use super::call::Call;
use super::open::ask_for;
use crate::device::facts::{Facts, User};
use crate::device::probe::{Mounted, System};
use crate::device::target::{self, check_path};
use crate::error::{Error, Kind, Result};
use crate::sys::ioctl;
use crate::text::{printable, printable_path, shell_word};
use crate::time::{Clock as _, SystemClock};
use crate::ui;
use crate::units::{Bytes, spoken};

/// A filesystem to be trimmed.
struct Place {
    /// The filesystem as a person knows it.
    name: String,
    /// Where it is mounted; `None`: nowhere.
    at: Option<PathBuf>,
    /// Why the running system needs the device, when it does.
    system: Option<String>,
}

/// One filesystem, or all that are mounted from a disk.
pub(super) fn run(path: &Path, gate: &Gate, call: &Call) -> Result<ExitCode> {
    let system = System::host();
    let places = if matches!(check_path(&system, path), Ok(target::Kind::Block)) {
        of_device(&system.facts(path)?)
    } else {
        vec![of_mount_point(&system, path)?]
    };
    if places.iter().all(|place| place.at.is_none()) {
        return Err(Error::refused(format!(
            "no filesystem of {} is mounted",
            printable_path(path)
        ))
        .hint("mount it first; FITRIM works on mounted filesystems only"));
    }
    let needed = places.iter().find_map(|place| Some((place, place.system.as_ref()?)));
    if let Some((place, why)) = needed {
        let question = format!(
            "Trim     the free space of {}\n         the running system needs this disk: it {}\n         \
             No data is lost, but a drive that trims badly may hang or damage it.",
            place.name,
            printable(why)
        );
        ask_for(&question, "trim", gate, false, call)?;
    }
    let mut failed = None;
    for place in &places {
        let Some(at) = &place.at else {
            ui::print(&format!("{}: not mounted, skipped\n", place.name));
            continue;
        };
        ui::talk(&format!("trimming {}", place.name));
        match trim(at) {
            Ok(line) => ui::print(&format!("{}: {line}\n", place.name)),
            Err(error) => {
                ui::print(&format!("{}: {}\n", place.name, error.message()));
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The filesystem that is mounted at a path, and no other.
fn of_mount_point(system: &System, path: &Path) -> Result<Place> {
    let shown = printable_path(path);
    let mounted = system.mounted(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => Error::refused(format!("{shown} does not exist"))
            .hint("`mediawriter devices` shows where sticks are mounted"),
        _ => Error::io(format!("cannot look at {shown}"), e),
    })?;
    let Some(Mounted { at, source, fs, device, whole }) = mounted else {
        return Err(Error::refused(format!("{shown} lies on no mounted filesystem that is known"))
            .hint("is /proc mounted? name a device, or a mount point"));
    };
    let point = printable_path(&at);
    let from = printable_path(device.as_ref().map_or(source.as_path(), |facts| &facts.path));
    if !whole {
        let hint = format!(
            "if that filesystem is meant: mediawriter discard --trim {}",
            shell_word(&at.to_string_lossy())
        );
        return Err(Error::refused(format!(
            "{shown} is not a mount point: it lies on {from}, mounted at {point}"
        ))
        .hint(hint));
    }
    let name = format!("{point} ({}, on {from})", printable(&fs));
    Ok(Place { name, at: Some(at), system: device.and_then(|facts| facts.system) })
}

/// Every partition of a disk with its mount point, the disk itself where it carries a filesystem.
fn of_device(facts: &Facts) -> Vec<Place> {
    let mount = |device: &Path| {
        facts.uses.iter().find_map(|used| match &used.by {
            User::Mount { at } if used.device == device => Some(at.clone()),
            _ => None,
        })
    };
    let place = |device: &Path, fs: Option<&str>| {
        let at = mount(device);
        let fs = fs.map_or_else(String::new, |fs| format!(" ({})", printable(fs)));
        let on = at
            .as_ref()
            .map_or_else(String::new, |at| format!(", mounted at {}", printable_path(at)));
        let name = format!("{}{fs}{on}", printable_path(device));
        Place { name, system: facts.system.clone().filter(|_| at.is_some()), at }
    };
    let mut places = Vec::new();
    if facts.partitions.is_empty() || mount(&facts.path).is_some() {
        let fs = facts.content.as_ref().map(|(fs, _)| fs.as_str());
        places.push(place(&facts.path, fs));
    }
    let parts = facts.partitions.iter();
    places.extend(parts.map(|part| place(&part.path, part.fs_type.as_deref())));
    places
}

fn trim(at: &Path) -> Result<String> {
    let name = printable_path(at);
    let folder = File::open(at).map_err(|e| Error::io(format!("cannot open {name}"), e))?;
    let clock = SystemClock::start();
    match ioctl::trim_filesystem(&folder) {
        Ok(bytes) => {
            let took = clock.now();
            Ok(format!("{bytes} bytes trimmed ({}) in {:.3} s", Bytes(bytes), took.as_secs_f64())
                + if took.as_secs() > 5 {
                    "; slow for a trim: the drive may overwrite what it is given back"
                } else {
                    ""
                })
        }
        Err(e) => Err(match e.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY) => Error::new(
                Kind::Io,
                "not supported here: this filesystem, its driver or the device below has no trim",
            )
            .hint(
                "mediawriter discard TARGET tells whether the device can; FAT can since Linux 4.19",
            ),
            Some(libc::EPERM | libc::EACCES) => {
                Error::io(format!("cannot trim {name}"), e).hint("run it with sudo")
            }
            Some(libc::EROFS) => Error::io(format!("{name} is mounted read-only"), e),
            _ => Error::io(format!("cannot trim {name} ({})", spoken(clock.now())), e),
        }),
    }
}
