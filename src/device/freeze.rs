//! Mounted filesystems that are held still while their device is read: FIFREEZE, and FITHAW on
//! every way out. What is frozen is listed for the whole process as well, because a second signal
//! ends it without unwinding. SIGKILL cannot be met: `fsfreeze --unfreeze` is what is left then.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::probe::split_rdev;
use crate::error::{Context as _, Error, Result};
use crate::sys::ioctl;
use crate::text::{printable_path, shell_word};
use crate::time::Clock;

/// Everything that this process has frozen.
static HELD: Mutex<Vec<Arc<File>>> = Mutex::new(Vec::new());

/// Filesystems that are frozen for as long as this lives.
#[derive(Debug)]
pub struct Frozen {
    held: Vec<(PathBuf, Arc<File>)>,
    clock: Arc<dyn Clock>,
    since: Duration,
}

/// What became of a freeze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thawed {
    /// How long it lasted.
    pub took: Duration,
    /// What could not be thawed, and why.
    pub failed: Vec<String>,
}

impl Frozen {
    /// Freezes what is mounted at these places, each filesystem once. `devices` are the numbers
    /// of the device and its partitions: a place where something else is mounted by now is refused.
    pub fn new(mounts: &[PathBuf], devices: &[(u32, u32)], clock: Arc<dyn Clock>) -> Result<Self> {
        let since = clock.now();
        // Dropped on the way out of an error, it thaws what was frozen before.
        let mut frozen = Self { held: Vec::new(), clock, since };
        let mut seen = Vec::new();
        for at in mounts {
            let name = printable_path(at);
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK)
                .open(at)
                .context(|| format!("cannot open {name}"))?;
            let device = file.metadata().context(|| format!("cannot look at {name}"))?.dev();
            let device = split_rdev(device);
            if !devices.contains(&device) {
                return Err(Error::refused(format!(
                    "what is mounted at {name} cannot be told to lie on the source alone, and is not frozen"
                ))
                .hint(format!("umount {}", shell_word(&at.to_string_lossy()))));
            }
            if seen.contains(&device) {
                continue;
            }
            seen.push(device);
            frozen.hold(at, file)?;
        }
        Ok(frozen)
    }

    fn hold(&mut self, at: &Path, file: File) -> Result<()> {
        let file = Arc::new(file);
        // Listed first: thawing what is not frozen does no harm.
        lock().push(Arc::clone(&file));
        let frozen = ioctl::freeze_filesystem(&*file);
        if let Err(error) = frozen {
            forget(&file);
            return Err(not_frozen(at, error));
        }
        self.held.push((at.to_owned(), file));
        Ok(())
    }

    /// Where filesystems are frozen.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.held.iter().map(|(at, _)| at.as_path())
    }

    /// Lets everybody write again.
    pub fn thaw(mut self) -> Thawed {
        let failed = self.release();
        Thawed { took: self.clock.now().saturating_sub(self.since), failed }
    }

    fn release(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        // The last one first, as for anything that is stacked.
        while let Some((at, file)) = self.held.pop() {
            if let Err(error) = ioctl::thaw_filesystem(&*file) {
                failed.push(format!(
                    "{} could not be thawed ({error}): fsfreeze --unfreeze {}",
                    printable_path(&at),
                    shell_word(&at.to_string_lossy())
                ));
            }
            forget(&file);
        }
        failed
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Whoever wants to know what failed calls `thaw`.
        self.release();
    }
}

fn lock() -> std::sync::MutexGuard<'static, Vec<Arc<File>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(file: &Arc<File>) {
    lock().retain(|held| !Arc::ptr_eq(held, file));
}

/// Thaws everything that this process froze; for a process that ends at once.
pub fn thaw_all() {
    for file in lock().drain(..) {
        // Nobody is left to be told.
        ioctl::thaw_filesystem(&*file).ok();
    }
}

fn not_frozen(at: &Path, error: io::Error) -> Error {
    let (name, word) = (printable_path(at), shell_word(&at.to_string_lossy()));
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => Error::refused(format!(
            "the filesystem at {name} cannot be frozen: its kind has no such thing (FAT and exFAT have none)"
        ))
        .hint(format!("umount {word}")),
        Some(libc::EBUSY) => Error::refused(format!("the filesystem at {name} is frozen already"))
            .hint(format!("fsfreeze --unfreeze {word}, unless another program needs it so")),
        Some(libc::EPERM) => Error::io(format!("cannot freeze the filesystem at {name}"), error)
            .hint("only root may; run it with sudo"),
        _ => Error::io(format!("cannot freeze the filesystem at {name}"), error)
            .hint(format!("umount {word}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SimClock;

    #[test]
    fn what_lies_elsewhere_is_refused_before_anything_is_frozen() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SimClock::default());
        let here = [dir.path().to_owned()];
        let error = Frozen::new(&here, &[(8, 17)], Arc::clone(&clock)).unwrap_err();
        assert_eq!(error.kind().exit_code(), 3, "{error}");
        assert!(error.message().contains("not frozen"), "{error}");
        let missing = [dir.path().join("no")];
        assert!(Frozen::new(&missing, &[], Arc::clone(&clock)).is_err());
        assert!(lock().is_empty());
        let none = Frozen::new(&[], &[], clock).unwrap();
        assert_eq!(none.thaw(), Thawed { took: Duration::ZERO, failed: vec![] });
    }

    #[test]
    fn each_reason_has_its_advice() {
        for (errno, says, code) in [
            (libc::EOPNOTSUPP, "FAT and exFAT have none", 3),
            (libc::EBUSY, "frozen already", 3),
            (libc::EPERM, "sudo", 1),
            (libc::EIO, "umount /mnt", 1),
        ] {
            let error = not_frozen(Path::new("/mnt"), io::Error::from_raw_os_error(errno));
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(error.kind().exit_code(), code);
        }
    }
}
