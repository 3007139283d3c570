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
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, setfsgid, setfsuid, unlinkat};

use super::Invoker;
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
    /// there stays until then. A link of that name is replaced, not followed.
    pub fn save_atomically(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.act("save", path, |place| place.save(bytes))
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
        let Some(name) = path.file_name() else {
            return Err(Error::new(
                Kind::Io,
                format!("'{}' is no name for a file", printable_path(path)),
            ));
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let theirs = self.with_their_rights(|| task(&Place::of_user(parent, name)?));
        let error = match theirs {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let what = format!("cannot {verb} {}", printable_path(path));
        if !self.is_other() || error.kind() != io::ErrorKind::PermissionDenied {
            return Err(Error::io(what, error));
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

/// A name in an open folder: what is checked is what is used, whatever is renamed meanwhile.
#[derive(Debug)]
struct Place {
    dir: OwnedFd,
    name: OsString,
    /// Root's rights are in use, so an existing file must be root's too.
    of_root: bool,
}

const FOLDER: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

impl Place {
    /// Links on the way are followed, with the rights of the calling thread.
    fn of_user(parent: &Path, name: &OsStr) -> io::Result<Self> {
        let dir = open(parent, FOLDER, Mode::empty())?;
        Ok(Self { dir, name: name.to_owned(), of_root: false })
    }

    /// For places like /var/log, which the person may not write and root may: every folder on the
    /// way must belong to root and none may be a link or the person's home. So nobody else can
    /// have prepared the way, and no file of root comes to be in anybody's home.
    fn of_root(parent: &Path, name: &OsStr, home: Option<&Path>) -> io::Result<Self> {
        let home = home.and_then(|home| home.metadata().ok()).map(|m| (m.dev(), m.ino()));
        let absolute = std::env::current_dir()?.join(parent);
        let mut dir = open("/", FOLDER, Mode::empty())?;
        let mut seen = std::path::PathBuf::from("/");
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
        Ok(Self { dir, name: name.to_owned(), of_root: true })
    }

    fn create(&self, mode: CreateMode) -> io::Result<File> {
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
                    Errno::ELOOP => other("it is a link, and links are not followed".into()),
                    Errno::ENXIO => other("it is not a regular file".into()),
                    e => e.into(),
                },
            )?;
        self.check_replaceable(&fstat(&file)?)?;
        Ok(File::from(file))
    }

    fn rename(&self, name: &OsStr) -> io::Result<()> {
        if self.of_root {
            match fstatat(&self.dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => self.check_replaceable(&stat)?,
                Err(Errno::ENOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
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
        if self.of_root {
            match fstatat(&self.dir, self.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => self.check_replaceable(&stat)?,
                Err(Errno::ENOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let (temporary, mut file) = self.create_temporary()?;
        let saved = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| {
            Ok(renameat(&self.dir, temporary.as_os_str(), &self.dir, self.name.as_os_str())?)
        });
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
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    use nix::unistd::{geteuid, getgroups, mkfifo};

    use super::*;

    const USER: u32 = 12345;
    const SECRET: &str = "root's own";

    /// A home of a user who is not us, and what an attacker would like to reach.
    struct Lab {
        dir: tempfile::TempDir,
        home: PathBuf,
        user: Invoker,
    }

    impl Lab {
        /// `None` without root: there is nobody else to act for.
        fn new() -> Option<Self> {
            if !geteuid().is_root() {
                eprintln!("SKIPPED: needs root");
                return None;
            }
            let dir = tempfile::tempdir().unwrap();
            fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
            let home = dir.path().join("home");
            fs::create_dir(&home).unwrap();
            chown(&home, Some(USER), Some(USER)).unwrap();
            let user = Invoker { uid: USER, gid: USER, groups: vec![], home: Some(home.clone()) };
            Some(Self { dir, home, user })
        }

        /// A folder of this owner, 0755.
        fn folder(&self, name: &str, owner: u32) -> PathBuf {
            let folder = self.dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            chown(&folder, Some(owner), Some(owner)).unwrap();
            folder
        }

        fn secret(&self) -> PathBuf {
            let secret = self.dir.path().join("secret");
            fs::write(&secret, SECRET).unwrap();
            fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
            secret
        }
    }

    fn owner(path: &Path) -> (u32, u32) {
        let metadata = fs::symlink_metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    }

    /// Everything below the folder, itself included.
    fn tree(folder: &Path) -> Vec<PathBuf> {
        let mut all = vec![folder.to_owned()];
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                all.extend(tree(&entry.path()));
            } else {
                all.push(entry.path());
            }
        }
        all
    }

    #[test]
    fn what_root_makes_for_a_user_belongs_to_the_user() {
        let Some(lab) = Lab::new() else { return };
        let state = lab.user.state_dir_with(None).unwrap();
        lab.user.create_dir_all(&state).unwrap();
        lab.user.create_dir_all(&state).unwrap();
        let csv = state.join("run.csv");
        lab.user
            .create(&csv, CreateMode::NewOnly)
            .unwrap()
            .write_all(b"a longer first run")
            .unwrap();
        lab.user.create(&csv, CreateMode::NewOnly).unwrap_err();
        lab.user.create(&csv, CreateMode::Replace).unwrap().write_all(b"second").unwrap();
        assert_eq!(fs::read(&csv).unwrap(), b"second");
        let record = state.join("run.json");
        lab.user.save_atomically(&record, b"one").unwrap();
        lab.user.save_atomically(&record, b"two").unwrap();
        assert_eq!(fs::read(&record).unwrap(), b"two");

        let all = tree(&lab.home);
        assert_eq!(all.len(), 6, "home, three folders, two files, no temporary one: {all:?}");
        for path in all {
            assert_eq!(owner(&path), (USER, USER), "{path:?}");
        }
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn planted_links_are_refused_and_their_targets_untouched() {
        let Some(lab) = Lab::new() else { return };
        let (secret, etc) = (lab.secret(), lab.folder("etc", 0));
        symlink(&secret, lab.home.join("link")).unwrap();
        symlink(etc.join("new"), lab.home.join("dangling")).unwrap();
        symlink(&etc, lab.home.join("folder")).unwrap();
        fs::hard_link(&secret, lab.home.join("hard")).unwrap();
        mkfifo(&lab.home.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
        chown(lab.home.join("fifo"), Some(USER), Some(USER)).unwrap();

        for name in ["link", "dangling", "folder", "folder/new", "hard", "fifo"] {
            for mode in [CreateMode::NewOnly, CreateMode::Replace] {
                let error = lab.user.create(&lab.home.join(name), mode).unwrap_err();
                assert_eq!(error.kind(), Kind::Io, "{name} {mode:?}: {error}");
            }
        }
        lab.user.save_atomically(&lab.home.join("folder/new"), b"x").unwrap_err();
        lab.user.create_dir_all(&lab.home.join("folder/new")).unwrap_err();
        // Saving puts a new file in the place of a link.
        for name in ["link", "dangling", "hard"] {
            lab.user.save_atomically(&lab.home.join(name), b"mine").unwrap();
            assert_eq!(owner(&lab.home.join(name)), (USER, USER), "{name}");
            assert_eq!(fs::read(lab.home.join(name)).unwrap(), b"mine", "{name}");
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
        assert_eq!(owner(&secret), (0, 0));
        assert_eq!(tree(&etc), [etc], "nothing was made there");
    }

    #[test]
    fn a_folder_of_root_in_the_home_is_an_error_and_stays_as_it_is() {
        let Some(lab) = Lab::new() else { return };
        let state = lab.home.join(".local");
        fs::create_dir(&state).unwrap();
        fs::write(state.join("old"), "old").unwrap();
        for name in ["new", "old"] {
            let error = lab.user.create(&state.join(name), CreateMode::Replace).unwrap_err();
            assert!(error.message().contains("as user 12345: Permission denied"), "{error}");
            assert!(error.advice().unwrap().contains("does not belong to root"), "{error}");
            lab.user.save_atomically(&state.join(name), b"x").unwrap_err();
        }
        lab.user.create_dir_all(&state.join("state/mediawriter")).unwrap_err();
        assert_eq!(fs::read_to_string(state.join("old")).unwrap(), "old");
        assert_eq!(tree(&state).len(), 2);
    }

    #[test]
    fn root_writes_where_only_root_may_and_nobody_else_could_set_a_trap() {
        let Some(lab) = Lab::new() else { return };
        let (secret, log) = (lab.secret(), lab.folder("log", 0));
        let file = log.join("x.csv");
        lab.user.create(&file, CreateMode::NewOnly).unwrap().write_all(b"one").unwrap();
        lab.user.create(&file, CreateMode::NewOnly).unwrap_err();
        lab.user.create(&file, CreateMode::Replace).unwrap().write_all(b"2").unwrap();
        assert_eq!((fs::read(&file).unwrap(), owner(&file)), (b"2".to_vec(), (0, 0)));
        lab.user.save_atomically(&file, b"three").unwrap();
        assert_eq!((fs::read(&file).unwrap(), owner(&file)), (b"three".to_vec(), (0, 0)));

        fs::write(log.join("of-another"), "another's").unwrap();
        chown(log.join("of-another"), Some(1), Some(1)).unwrap();
        symlink(&secret, log.join("link")).unwrap();
        fs::hard_link(&secret, log.join("hard")).unwrap();
        symlink(&log, lab.dir.path().join("way")).unwrap();
        lab.folder("of-daemon", 1);
        let mut paths: Vec<PathBuf> =
            ["of-another", "link", "hard"].iter().map(|name| log.join(name)).collect();
        paths.push(lab.dir.path().join("way/new"));
        paths.push(lab.dir.path().join("of-daemon/new"));
        paths.push(lab.home.join("../way/new"));
        for path in paths {
            lab.user.create(&path, CreateMode::Replace).unwrap_err();
            lab.user.save_atomically(&path, b"x").unwrap_err();
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), SECRET);
        assert_eq!(fs::read_to_string(log.join("of-another")).unwrap(), "another's");
        assert_eq!(tree(&log).len(), 5);

        let user = Invoker { home: Some(log.clone()), ..lab.user };
        let error = user.create(&log.join("new"), CreateMode::NewOnly).unwrap_err();
        assert!(error.advice().unwrap().contains("is the home of the user"), "{error}");
    }

    #[test]
    fn groups_are_the_users_and_not_those_of_root() {
        let Some(lab) = Lab::new() else { return };
        let shared = |name: &str, group: u32| {
            let folder = lab.home.join(name);
            fs::create_dir(&folder).unwrap();
            chown(&folder, Some(0), Some(group)).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
            folder.join("file")
        };
        let (roots, team) = (shared("roots", 0), shared("team", 777));
        let member = Invoker { groups: vec![777], ..lab.user.clone() };
        let groups_before = getgroups().unwrap();
        member.create(&team, CreateMode::NewOnly).unwrap();
        assert_eq!(owner(&team), (USER, USER));
        lab.user.create(&team, CreateMode::Replace).unwrap_err();
        lab.user.create(&roots, CreateMode::NewOnly).unwrap_err();
        // Only the thread that made the file ever had other ids.
        assert_eq!(getgroups().unwrap(), groups_before);
        assert_eq!(setfsuid(Uid::from_raw(u32::MAX)).as_raw(), 0);
        assert_eq!(setfsgid(Gid::from_raw(u32::MAX)).as_raw(), 0);
    }

    #[test]
    fn an_id_that_cannot_be_taken_on_is_an_error_and_no_file() {
        let Some(lab) = Lab::new() else { return };
        for (uid, gid) in [(u32::MAX, USER), (USER, u32::MAX)] {
            let nobody = Invoker { uid, gid, ..lab.user.clone() };
            let error =
                nobody.create(&lab.dir.path().join("file"), CreateMode::NewOnly).unwrap_err();
            assert!(error.message().contains("does not let us act"), "{error}");
        }
        assert_eq!(tree(lab.dir.path()).len(), 2);
    }

    #[test]
    fn without_sudo_files_are_made_as_ourselves_and_links_are_refused_too() {
        let dir = tempfile::tempdir().unwrap();
        let me = Invoker { home: Some(dir.path().to_owned()), ..Invoker::ourselves() };
        let state = me.state_dir_with(None).unwrap();
        me.create_dir_all(&state).unwrap();
        let file = state.join("run.json");
        me.save_atomically(&file, b"content").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"content");
        assert_eq!(fs::metadata(&file).unwrap().uid(), geteuid().as_raw());
        symlink(&file, dir.path().join("link")).unwrap();
        let error = me.create(&dir.path().join("link"), CreateMode::Replace).unwrap_err();
        assert!(error.message().ends_with("it is a link, and links are not followed"), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"content");
        for path in ["", "/", "a/.."] {
            me.create(Path::new(path), CreateMode::NewOnly).unwrap_err();
        }
        let missing = me.create(&dir.path().join("no/\x1b[2J"), CreateMode::NewOnly).unwrap_err();
        assert!(missing.message().contains(r"no/\u{1b}[2J: No such file"), "{missing}");
    }
}
