//! Makes an NTFS volume in a file without a name, with mkntfs and ntfs-3g: nothing in Rust writes
//! NTFS. They are the only programs of others that are run.
//!
//! Owns: finding the programs, running them, mounting and unmounting. Must not know what is copied
//! into the volume.
//!
//! Whatever ends this process, SIGKILL included, nothing stays: the file has no name; the mounts are
//! in a mount namespace of one thread, which goes with its last process; and that is ntfs-3g, which
//! the kernel kills when the thread ends. So no desktop sees the volume either, and nobody can keep
//! it busy.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};

use super::privilege;
use crate::cancel::CancelToken;
use crate::error::{Context as _, Error, Kind, Result};
use crate::sys::process::ends_with_this_thread;
use crate::text::{printable, printable_path};

/// Covered by a small tmpfs, for the thread and its two programs alone: a folder that every Linux
/// has, and in which neither program nor anything that is copied is looked for.
const DESK: &str = "/sys";
/// What Windows makes by default up to 16 TiB.
const CLUSTER: &str = "4096";

/// The programs, found.
#[derive(Debug)]
pub struct Tools {
    mkntfs: PathBuf,
    ntfs_3g: PathBuf,
}

/// How a volume is to be.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Its length: that of its partition.
    pub bytes: u64,
    /// Sector of the medium.
    pub sector: u32,
    /// Byte of the medium where it will begin.
    pub start: u64,
    /// Its label, at most 32 UTF-16 units.
    pub label: String,
}

impl Tools {
    /// The programs, where everything else that they need is there as well.
    pub fn find() -> Result<Self> {
        let missing = |program: &str| {
            Error::refused(format!("{program} is not installed, or not in PATH"))
                .hint("apt install ntfs-3g (dnf install ntfs-3g ntfsprogs); it makes and fills the NTFS volume")
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |program| find(&path, program).ok_or_else(|| missing(program));
        let tools = Self { mkntfs: found("mkntfs")?, ntfs_3g: found("ntfs-3g")? };
        if !privilege::is_root() {
            let args: Vec<_> = std::env::args_os().skip(1).collect();
            return Err(Error::refused(
                "an NTFS volume is filled by mounting it, which needs root",
            )
            .hint(privilege::sudo_line(&args)));
        }
        if !Path::new("/dev/fuse").exists() {
            return Err(Error::refused("there is no /dev/fuse, which ntfs-3g needs")
                .hint("modprobe fuse; a container has to be given the device and CAP_SYS_ADMIN"));
        }
        Ok(tools)
    }

    /// A volume in a new file without a name, made in `folder`; `put` is given its root folder.
    pub fn make(
        &self,
        folder: &Path,
        shape: &Shape,
        cancel: &CancelToken,
        put: impl FnOnce(&Path) -> Result<()> + Send,
    ) -> Result<File> {
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("ntfs".to_owned());
            let made = thread.spawn_scoped(scope, || self.made(folder, shape, cancel, put));
            let made = made.context(|| "cannot start a thread".to_owned())?;
            let ended = |_| Err(Error::new(Kind::Internal, "the thread that fills NTFS ended"));
            made.join().unwrap_or_else(ended)
        })
    }

    /// In a thread of its own, whose view of the mounts becomes another one.
    fn made(
        &self,
        folder: &Path,
        shape: &Shape,
        cancel: &CancelToken,
        put: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<File> {
        private_mounts().map_err(|e| {
            Error::io("cannot mount in private, which is how NTFS is filled", e)
                .hint("as root, outside of containers that forbid it (CAP_SYS_ADMIN)")
        })?;
        let (image, volume) = desk().context(|| "cannot prepare the mount".to_owned())?;
        let file = nameless(folder, &image).and_then(|file| {
            file.set_len(shape.bytes)?;
            Ok(file)
        });
        let file = file.map_err(|e| {
            let folder = printable_path(folder);
            Error::io(format!("cannot make a file of {} bytes in {folder}", shape.bytes), e).hint(
                "--temp-dir DIR: a folder of ext4, xfs or btrfs with room for the ISO's files",
            )
        })?;
        self.format(&image, shape)?;
        let mounted = Mounted::start(&self.ntfs_3g, &image, &volume, cancel)?;
        put(&volume)?;
        mounted.finish()?;
        Ok(file)
    }

    fn format(&self, image: &Path, shape: &Shape) -> Result<()> {
        let mut mkntfs = program(&self.mkntfs);
        mkntfs.args(["--fast", "--force", "--quiet", "--cluster-size", CLUSTER, "--label"]);
        mkntfs.arg(&shape.label).args(["--sector-size", &shape.sector.to_string()]);
        // What it would ask of a device: where Windows' boot code looks for the volume.
        let start = shape.start / u64::from(shape.sector.max(1));
        mkntfs.args(["--partition-start", &start.to_string()]);
        mkntfs.args(["--heads", "255", "--sectors-per-track", "63"]).arg(image);
        let Output { status, stderr, .. } =
            mkntfs.output().context(|| "cannot run mkntfs".to_owned())?;
        if status.success() {
            return Ok(());
        }
        Err(Error::new(Kind::Io, format!("mkntfs failed, {status}: {}", last_line(&stderr))))
    }
}

fn find(path: &OsStr, program: &str) -> Option<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A program with nothing of our environment; UTF-8, so that labels and names are what they are.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Keys pressed in the terminal are for this program.
    command.process_group(0);
    ends_with_this_thread(&mut command);
    command
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    printable(text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason given"))
}

/// From here on this thread's mounts are its own, and nobody else's reach it.
fn private_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    Ok(mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?)
}

/// Places for the volume's file and for its mount, on a file system of this thread.
fn desk() -> io::Result<(PathBuf, PathBuf)> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), DESK, Some("tmpfs"), flags, Some("mode=0700,size=1m"))?;
    let [image, volume] = ["image", "volume"].map(|name| Path::new(DESK).join(name));
    File::create_new(&image)?;
    fs::create_dir(&volume)?;
    Ok((image, volume))
}

/// A file in `folder` that has lost its name there: its space is free as soon as nobody has it open.
/// It is bound to `image`, because mkntfs and ntfs-3g want a name (both ask realpath(3) for it), and
/// before it loses its own: what has none cannot be bound (ENOENT, Linux 6.18).
fn nameless(folder: &Path, image: &Path) -> io::Result<File> {
    let number = RandomState::new().hash_one(std::process::id());
    let path = folder.join(format!(".mediawriter-{number:016x}"));
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
    let file = options.open(&path)?;
    // The open file itself, whatever has its name by now.
    let own = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let none = None::<&str>;
    let bound = mount(Some(&own), image, none, MsFlags::MS_BIND, none);
    fs::remove_file(&path)?;
    bound?;
    Ok(file)
}

/// A volume that ntfs-3g serves. Dropped, it is killed: what it had not written is lost with it.
#[derive(Debug)]
struct Mounted<'a> {
    server: Child,
    at: &'a Path,
}

impl<'a> Mounted<'a> {
    fn start(ntfs_3g: &Path, image: &Path, at: &'a Path, cancel: &CancelToken) -> Result<Self> {
        // In the foreground, so that its end can be waited for: unmounting a FUSE volume returns
        // before its server has written everything.
        let options = "no_detach,big_writes,noatime,windows_names";
        let mut command = program(ntfs_3g);
        command.args(["-o", options]).args([image, at]);
        let outside = device_of(Path::new(DESK))?;
        let server = command.spawn().context(|| "cannot run ntfs-3g".to_owned())?;
        let mut this = Self { server, at };
        while device_of(at)? == outside {
            cancel.check()?;
            if this.server.try_wait().context(waiting)?.is_some() {
                return Err(this.failed());
            }
            crossbeam_channel::after(Duration::from_millis(10)).recv().ok();
        }
        Ok(this)
    }

    /// Unmounts it, and waits until everything is written.
    fn finish(mut self) -> Result<()> {
        umount2(self.at, MntFlags::UMOUNT_NOFOLLOW)
            .map_err(|errno| Error::io("cannot unmount the NTFS volume", errno.into()))?;
        if self.server.wait().context(waiting)?.success() { Ok(()) } else { Err(self.failed()) }
    }

    /// What an ntfs-3g that ended says of it.
    fn failed(&mut self) -> Error {
        let mut said = Vec::new();
        let status = self.server.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
        if let Some(stderr) = &mut self.server.stderr {
            stderr.read_to_end(&mut said).ok();
        }
        Error::new(Kind::Io, format!("ntfs-3g failed, {status}: {}", last_line(&said)))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Both fail, or do nothing, where it has ended in order.
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

fn waiting() -> String {
    "cannot wait for ntfs-3g".to_owned()
}

fn device_of(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).context(|| format!("cannot look at {}", printable_path(path)))?.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_bound_leaves_no_name() {
        let dir = tempfile::tempdir().unwrap();
        assert!(nameless(dir.path(), Path::new("/nonexistent/image")).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(nameless(Path::new("/nonexistent"), dir.path()).is_err());
    }

    #[test]
    fn programs_are_looked_for_in_absolute_folders_of_path_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mkntfs"), "").unwrap();
        fs::create_dir(dir.path().join("ntfs-3g")).unwrap();
        let path = format!(".:relative:{}", dir.path().display());
        assert_eq!(find(path.as_ref(), "mkntfs"), Some(dir.path().join("mkntfs")));
        assert_eq!(find(path.as_ref(), "ntfs-3g"), None, "a folder");
        assert_eq!(find(OsStr::new(""), "mkntfs"), None);
    }

    #[test]
    fn the_last_line_is_the_reason_and_cannot_move_the_cursor() {
        assert_eq!(last_line(b"first\nthe reason\n\n"), "the reason");
        assert!(!last_line(b"\x1b[2Jx").contains('\x1b'));
        assert_eq!(last_line(b""), "no reason given");
    }
}
