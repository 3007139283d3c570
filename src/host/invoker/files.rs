//! Files made for the person who started the program, with that person's rights.
//!
//! Under sudo a file is created by a short-lived thread whose filesystem ids are those of the
//! user: setfsuid(2), setfsgid(2) and the raw setgroups(2) act on one thread, and a user id other
//! than 0 takes away the capabilities that override permissions (capabilities(7)). The kernel's
//! own checks do the rest. A planted link in the user's folders leads, at worst, where the user
//! could have written without us, and the last component of a path is never followed at all. Root's
//! supplementary groups are dropped with the rest: on some distributions `disk` is among them.
//!
//! Root's own rights are used in one case, see `Place::of_root`. A home on a FUSE filesystem
//! that is mounted without allow_other lets root do nothing in any way: an error, no more.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{
    AtFlags, FcntlArg, OFlag, RenameFlags, fcntl, open, openat, readlinkat, renameat, renameat2,
};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::sys::statfs::{fstatfs, statfs};
use nix::unistd::{
    AccessFlags, Gid, Uid, UnlinkatFlags, faccessat, linkat, setfsgid, setfsuid, unlinkat,
};

use super::Invoker;
use super::outputs::{self, Form, Found, Refusal, no};
use crate::error::{Error, Kind, Result};
use crate::text::printable_path;

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// It is an error.
    NewOnly,
    /// It is emptied. Only a regular file can be.
    Replace,
    /// It is kept and gone on with. Only a regular file can be.
    Continue,
}

/// Creates a file for whoever started the program; see [`Invoker::create`].
pub fn create(path: &Path, mode: CreateMode) -> Result<File> {
    Invoker::current().create(path, mode)
}

/// Saves a file for whoever started the program; see [`Invoker::save_atomically`].
pub fn save_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    Invoker::current().save_atomically(path, bytes)
}

/// Makes folders for whoever started the program; see [`Invoker::create_dir_all`].
pub fn create_dir_all(path: &Path) -> Result<()> {
    Invoker::current().create_dir_all(path)
}

impl Invoker {
    /// Opens a file for writing that is new or, with `Replace`, empty now. It belongs to this
    /// person, unless only root may write there.
    pub fn create(&self, path: &Path, mode: CreateMode) -> Result<File> {
        self.act("create", path, |place| place.create(mode))
    }

    /// Writes a whole file or none: into a temporary file beside it, then over its name. What was
    /// there stays until then. What is no file is written into, where it may be ([`outputs`]).
    pub fn save_atomically(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        if let Some(number) = outputs::descriptor(path) {
            let saved = outputs::open_descriptor(number).and_then(|mut out| out.write_all(bytes));
            return saved.map_err(|e| failed("write to", path, e));
        }
        self.act("save", path, |place| place.save(bytes))
    }

    /// As [`Invoker::save_atomically`], but never over a file that is there.
    pub fn save_new(&self, path: &Path, bytes: &[u8]) -> Result<bool> {
        self.act("save", path, |place| place.save_new(bytes))
    }

    /// Opens what text is written to as it comes: a new or emptied file, or what is no file.
    pub fn text(&self, path: &Path) -> Result<File> {
        match outputs::descriptor(path) {
            Some(number) => {
                outputs::open_descriptor(number).map_err(|e| failed("write to", path, e))
            }
            None => self.act("create", path, Place::text),
        }
    }

    /// What is where an output may go; an error where it may not, or where nothing can be made.
    pub fn look(&self, path: &Path, form: Form) -> Result<Found> {
        match outputs::descriptor(path) {
            Some(number) => outputs::open_descriptor(number)
                .and_then(|file| outputs::judge_descriptor(&file, form))
                .map_err(|e| failed("write to", path, e)),
            None => self.act("create", path, |place| place.look_whether_it_can_be_made(form)),
        }
    }

    /// Gives a file its name: `path` in its own folder, over what has that name. A link of that
    /// name is replaced, not followed.
    pub fn rename(&self, path: &Path, name: &OsStr) -> Result<()> {
        self.act("rename", path, |place| place.rename(name))
    }

    /// Moves a file of this person to another folder of theirs, with their rights only.
    pub fn move_file(&self, from: &Path, to: &Path) -> Result<()> {
        self.with_their_rights(|| std::fs::rename(from, to)).map_err(|e| {
            Error::io(format!("cannot move {} to {}", printable_path(from), printable_path(to)), e)
        })
    }

    /// Removes a file, or a link.
    pub fn remove(&self, path: &Path) -> Result<()> {
        self.act("remove", path, Place::remove)
    }

    /// Makes the folder and those above it, always with this person's rights. Below the home they
    /// are private, as the XDG Base Directory Specification asks for.
    pub fn create_dir_all(&self, path: &Path) -> Result<()> {
        let private = self.home.as_ref().is_some_and(|home| path.starts_with(home));
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(if private { 0o700 } else { 0o777 });
        let there = path.ancestors().find(|at| at.is_dir()).unwrap_or_else(|| Path::new("."));
        // One that is made among devices and settings is a switch as well.
        if there != path
            && let Ok(kind) = statfs(there)
        {
            outputs::may_hold_files(&outputs::real(there), kind.filesystem_type().0)
                .map_err(|e| failed("make the folder", path, e))?;
        }
        self.with_their_rights(|| builder.create(path))
            .map_err(|e| Error::io(format!("cannot make the folder {}", printable_path(path)), e))
    }

    /// Does the task with the person's rights; when those do not suffice, with root's, where that
    /// is safe.
    fn act<T: Send>(
        &self,
        verb: &str,
        path: &Path,
        task: impl Fn(&Place) -> io::Result<T> + Sync,
    ) -> Result<T> {
        let Some((parent, name)) = outputs::parts(path) else {
            return Err(Error::new(
                Kind::Io,
                format!("'{}' is no name for a file", printable_path(path)),
            ));
        };
        let theirs = self.with_their_rights(|| task(&Place::of_user(parent, name)?));
        let error = match theirs {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let what = format!("cannot {verb} {}", printable_path(path));
        if !self.is_other() || error.kind() != io::ErrorKind::PermissionDenied {
            return Err(failed(verb, path, error));
        }
        match Place::of_root(parent, name, self.home.as_deref()).and_then(|place| task(&place)) {
            Ok(done) => Ok(done),
            Err(why) => Err(Error::io(format!("{what} as user {}", self.uid), error)
                .hint(format!("choose another place; root does not write there either: {why}"))),
        }
    }

    /// Runs the task on a thread that has this person's rights on files and nothing more. The
    /// thread ends with it, so nobody else ever runs with changed ids.
    pub fn with_their_rights<T: Send>(
        &self,
        task: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        if !self.is_other() {
            return task();
        }
        thread::scope(|scope| {
            let thread =
                thread::Builder::new().name("as-invoker".into()).spawn_scoped(scope, || {
                    self.become_on_this_thread()?;
                    task()
                })?;
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
        })
    }

    fn become_on_this_thread(&self) -> io::Result<()> {
        let groups: Vec<_> =
            self.groups.iter().map(|gid| rustix::process::Gid::from_raw(*gid)).collect();
        // Not libc's setgroups, which changes every thread of the process (setgroups(2), "C
        // library/kernel differences").
        rustix::thread::set_thread_groups(&groups)?;
        // Both calls return the id of before and no error, so a second call tells what came of
        // the first. -1 changes nothing.
        setfsgid(Gid::from_raw(self.gid));
        setfsuid(Uid::from_raw(self.uid));
        let gid = setfsgid(Gid::from_raw(u32::MAX)).as_raw();
        let uid = setfsuid(Uid::from_raw(u32::MAX)).as_raw();
        if uid == self.uid && gid == self.gid {
            Ok(())
        } else {
            Err(io::Error::other(format!("the kernel does not let us act as user {}", self.uid)))
        }
    }
}

/// A refusal says its own kind; all else is what the system says.
fn failed(verb: &str, path: &Path, error: io::Error) -> Error {
    let name = printable_path(path);
    match error.downcast::<Refusal>() {
        Ok(Refusal { why, hint }) => Error::refused(format!("{name} {why}")).hint(hint),
        // A folder of devices that is not there is one all the same.
        Err(error) if error.kind() == io::ErrorKind::NotFound && outputs::is_below_dev(path) => {
            failed(verb, path, outputs::among_devices())
        }
        Err(error) => Error::io(format!("cannot {verb} {name}"), error),
    }
}

/// A name in an open folder: what is checked is what is used, whatever is renamed meanwhile.
#[derive(Debug)]
struct Place {
    dir: OwnedFd,
    name: OsString,
    /// Root's rights are in use, so an existing file must be root's too.
    of_root: bool,
    /// The folder's path without links, for rules about places.
    path: PathBuf,
}

const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

impl Place {
    /// Links on the way are followed, with the rights of the calling thread.
    fn of_user(parent: &Path, name: &OsStr) -> io::Result<Self> {
        let dir = open(parent, FOLDER, Mode::empty())?;
        Ok(Self { dir, name: name.to_owned(), of_root: false, path: outputs::real(parent) })
    }

    /// For places like /var/log, which the person may not write and root may: every folder on the
    /// way must belong to root and none may be a link or the person's home. So nobody else can
    /// have prepared the way, and no file of root comes to be in anybody's home.
    fn of_root(parent: &Path, name: &OsStr, home: Option<&Path>) -> io::Result<Self> {
        let home = home.and_then(|home| home.metadata().ok()).map(|m| (m.dev(), m.ino()));
        let absolute = std::env::current_dir()?.join(parent);
        let mut dir = open("/", FOLDER, Mode::empty())?;
        let mut seen = PathBuf::from("/");
        for component in absolute.components() {
            let step = match component {
                Component::Normal(step) => step,
                Component::ParentDir => OsStr::new(".."),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
            };
            seen.push(step);
            // With O_PATH a link itself would be opened; O_DIRECTORY refuses it.
            dir = openat(&dir, step, FOLDER | OFlag::O_NOFOLLOW, Mode::empty()).map_err(
                |e| match e {
                    Errno::ENOTDIR | Errno::ELOOP => {
                        other(format!("{} is a link", printable_path(&seen)))
                    }
                    e => e.into(),
                },
            )?;
            let stat = fstat(&dir)?;
            if stat.st_uid != 0 {
                return Err(other(format!("{} does not belong to root", printable_path(&seen))));
            }
            if home == Some((stat.st_dev, stat.st_ino)) {
                return Err(other(format!("{} is the home of the user", printable_path(&seen))));
            }
        }
        Ok(Self { dir, name: name.to_owned(), of_root: true, path: outputs::real(parent) })
    }

    /// What has the name.
    fn look(&self, form: Form) -> io::Result<Found> {
        let stat = match fstatat(&self.dir, self.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => {
                let folder = fstat(&self.dir)?;
                return Ok(Found::New((folder.st_dev, folder.st_ino)));
            }
            Err(e) => return Err(e.into()),
        };
        let link = readlinkat(&self.dir, self.name.as_os_str()).ok();
        let found = outputs::judge(&stat, form, link.as_deref().map(Path::new))?;
        if matches!(found, Found::File(_)) {
            self.check_replaceable(&stat)?;
        }
        Ok(found)
    }

    /// The same for what is about to be made.
    fn look_for_a_place(&self, form: Form) -> io::Result<Found> {
        let found = self.look(form)?;
        if !matches!(found, Found::Stream { .. }) {
            outputs::may_hold_files(&self.path, fstatfs(&self.dir)?.filesystem_type().0)?;
        }
        Ok(found)
    }

    /// Beforehand: with the rights that it will be made with.
    fn look_whether_it_can_be_made(&self, form: Form) -> io::Result<Found> {
        let found = self.look_for_a_place(form)?;
        match found {
            Found::Stream { .. } => drop(self.stream()?),
            Found::New(_) | Found::File(_) => {
                let rights = AccessFlags::W_OK | AccessFlags::X_OK;
                faccessat(&self.dir, ".", rights, AtFlags::AT_EACCESS)?;
            }
        }
        Ok(found)
    }

    fn text(&self) -> io::Result<File> {
        match self.look_for_a_place(Form::Text)? {
            Found::Stream { .. } => self.stream(),
            Found::New(_) | Found::File(_) => self.create(CreateMode::Replace),
        }
    }

    /// Opens what is no file, to write into it.
    fn stream(&self) -> io::Result<File> {
        // O_NONBLOCK: a pipe that nobody reads is an error, not a wait (fifo(7)); O_NOCTTY: a terminal stays
        // what it was.
        let flags = OFlag::O_WRONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY;
        let stream = openat(&self.dir, self.name.as_os_str(), flags, Mode::empty()).map_err(
            |e| match e {
                Errno::ENXIO => no("is a pipe that nobody reads", "start its reader first"),
                e => e.into(),
            },
        )?;
        // Another thing may have taken the name since it was looked at.
        match outputs::judge(&fstat(&stream)?, Form::Text, None)? {
            Found::Stream { .. } => {}
            Found::New(_) | Found::File(_) => {
                return Err(other("it changed while it was opened".into()));
            }
        }
        fcntl(&stream, FcntlArg::F_SETFL(OFlag::empty()))?;
        Ok(File::from(stream))
    }

    fn create(&self, mode: CreateMode) -> io::Result<File> {
        self.look_for_a_place(Form::Whole)?;
        match (self.create_new(&self.name), mode) {
            (Err(Errno::EEXIST), CreateMode::Replace) => {
                let file = self.existing()?;
                file.set_len(0)?;
                Ok(file)
            }
            (Err(Errno::EEXIST), CreateMode::Continue) => self.existing(),
            (result, CreateMode::NewOnly | CreateMode::Replace | CreateMode::Continue) => {
                Ok(result?)
            }
        }
    }

    /// O_EXCL never follows a link, not even one that leads nowhere (open(2)).
    fn create_new(&self, name: &OsStr) -> nix::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.dir, name, flags, Mode::from_bits_truncate(0o666)).map(File::from)
    }

    /// A file that is there already, after a look at what it is.
    fn existing(&self) -> io::Result<File> {
        // O_NONBLOCK: a FIFO must not make us wait.
        let flags = OFlag::O_WRONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY;
        let file =
            openat(&self.dir, self.name.as_os_str(), flags, Mode::empty()).map_err(
                |e| match e {
                    Errno::ELOOP => {
                        no("is a link, and links are not followed", "name the file itself")
                    }
                    Errno::ENXIO => other("it is not a regular file".into()),
                    e => e.into(),
                },
            )?;
        self.check_replaceable(&fstat(&file)?)?;
        Ok(File::from(file))
    }

    fn rename(&self, name: &OsStr) -> io::Result<()> {
        let there = Self {
            dir: self.dir.try_clone()?,
            name: name.to_owned(),
            of_root: self.of_root,
            path: self.path.clone(),
        };
        there.look_for_a_place(Form::Whole)?;
        renameat(&self.dir, self.name.as_os_str(), &self.dir, name)?;
        self.sync_folder();
        Ok(())
    }

    fn remove(&self) -> io::Result<()> {
        if self.of_root {
            let stat = fstatat(&self.dir, self.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
            self.check_replaceable(&stat)?;
        }
        unlinkat(&self.dir, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir)?;
        Ok(())
    }

    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        if let Found::Stream { .. } = self.look_for_a_place(Form::Text)? {
            return self.stream()?.write_all(bytes);
        }
        self.save_by(bytes, |temporary| {
            renameat(&self.dir, temporary, &self.dir, self.name.as_os_str())
        })
    }

    /// Whether the name was free, and is this file's now.
    fn save_new(&self, bytes: &[u8]) -> io::Result<bool> {
        if !matches!(self.look_for_a_place(Form::Whole)?, Found::New(_)) {
            return Ok(false);
        }
        let saved = self.save_by(bytes, |temporary| self.take_name(temporary));
        match saved {
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            saved => saved.map(|()| true),
        }
    }

    /// Gives a file the name, unless somebody was quicker. By renameat2(2); a second name and the removal of the
    /// first where the filesystem has no such rename (NFS); where it has no second names either (FAT), between
    /// looking and renaming another run could be lost, in the same microseconds.
    fn take_name(&self, temporary: &OsStr) -> nix::Result<()> {
        let name = self.name.as_os_str();
        let keep = RenameFlags::RENAME_NOREPLACE;
        match renameat2(&self.dir, temporary, &self.dir, name, keep) {
            Err(Errno::EINVAL | Errno::ENOSYS) => {}
            done => return done,
        }
        match linkat(&self.dir, temporary, &self.dir, name, AtFlags::empty()) {
            Ok(()) => unlinkat(&self.dir, temporary, UnlinkatFlags::NoRemoveDir),
            Err(Errno::EPERM | Errno::EOPNOTSUPP) => {
                renameat(&self.dir, temporary, &self.dir, name)
            }
            Err(e) => Err(e),
        }
    }

    fn save_by(
        &self,
        bytes: &[u8],
        name: impl FnOnce(&OsStr) -> nix::Result<()>,
    ) -> io::Result<()> {
        let (temporary, mut file) = self.create_temporary()?;
        let saved = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(name(temporary.as_os_str())?));
        if saved.is_err() {
            // The first error is the one to tell.
            unlinkat(&self.dir, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir).ok();
        } else {
            self.sync_folder();
        }
        saved
    }

    fn create_temporary(&self) -> io::Result<(OsString, File)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut last = Errno::EEXIST;
        for _ in 0..100 {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".mediawriter-{}-{count}.part", std::process::id()));
            match self.create_new(&name) {
                Ok(file) => return Ok((name, file)),
                // Left behind by a process of the same number that was killed.
                Err(Errno::EEXIST) => {}
                Err(e) => {
                    last = e;
                    break;
                }
            }
        }
        Err(last.into())
    }

    /// Makes the new name durable, where the folder may be read; the content is durable already.
    fn sync_folder(&self) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        if let Ok(dir) = openat(self.dir.as_fd(), ".", flags, Mode::empty()) {
            nix::unistd::fsync(dir).ok();
        }
    }

    fn check_replaceable(&self, stat: &FileStat) -> io::Result<()> {
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
            return Err(other("it is not a regular file".into()));
        }
        // Where others may make names (/tmp), a second name of a file of root could be a trap
        // (fs.protected_hardlinks in Documentation/admin-guide/sysctl/fs.rst).
        if self.of_root && (stat.st_uid != 0 || stat.st_nlink != 1) {
            return Err(other("the file that is there is not root's alone".into()));
        }
        Ok(())
    }
}

fn other(why: String) -> io::Error {
    io::Error::other(why)
}

#[cfg(test)]
mod tests;
