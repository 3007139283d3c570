//! What is made for whom, and which traps are not walked into.

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
    lab.user.create(&csv, CreateMode::NewOnly).unwrap().write_all(b"a longer first run").unwrap();
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
            // Links and pipes by our own rule, the rest by the kernel's.
            let ours = ["link", "dangling", "fifo"].contains(&name) || name == "folder";
            let kind = if ours { Kind::Refused } else { Kind::Io };
            assert_eq!(error.kind(), kind, "{name} {mode:?}: {error}");
        }
    }
    lab.user.save_atomically(&lab.home.join("folder/new"), b"x").unwrap_err();
    lab.user.create_dir_all(&lab.home.join("folder/new")).unwrap_err();
    for name in ["link", "dangling", "folder"] {
        let before = fs::read_link(lab.home.join(name)).unwrap();
        lab.user.save_atomically(&lab.home.join(name), b"mine").unwrap_err();
        lab.user.text(&lab.home.join(name)).unwrap_err();
        assert_eq!(fs::read_link(lab.home.join(name)).unwrap(), before, "{name}");
    }
    // A second name of a file is replaced, and the file is not.
    lab.user.save_atomically(&lab.home.join("hard"), b"mine").unwrap();
    assert_eq!(owner(&lab.home.join("hard")), (USER, USER));
    assert_eq!(fs::read(lab.home.join("hard")).unwrap(), b"mine");
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
        let error = nobody.create(&lab.dir.path().join("file"), CreateMode::NewOnly).unwrap_err();
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
    let words = format!("is a link to {}, and links are not followed", file.display());
    assert!(error.message().ends_with(&words), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"content");
    for path in ["", "/", "a/.."] {
        me.create(Path::new(path), CreateMode::NewOnly).unwrap_err();
    }
    let missing = me.create(&dir.path().join("no/\x1b[2J"), CreateMode::NewOnly).unwrap_err();
    assert!(missing.message().contains(r"no/\u{1b}[2J: No such file"), "{missing}");
}

#[test]
fn c04_a_new_file_never_takes_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let me = Invoker { home: Some(dir.path().to_owned()), ..Invoker::ourselves() };
    let file = dir.path().join("run.json");
    let winners = thread::scope(|scope| {
        let threads: Vec<_> = (0..8_u8)
            .map(|n| {
                scope.spawn({
                    let (me, file) = (&me, &file);
                    move || (n, me.save_new(file, &[n]).unwrap())
                })
            })
            .collect();
        let all: Vec<(u8, bool)> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        all.into_iter().filter(|(_, won)| *won).map(|(n, _)| n).collect::<Vec<u8>>()
    });
    assert_eq!(winners.len(), 1, "one of them made it");
    assert_eq!(fs::read(&file).unwrap(), winners);
    assert!(!me.save_new(&file, b"later").unwrap());
    assert_eq!(fs::read(&file).unwrap(), winners);
    assert_eq!(tree(dir.path()).len(), 2, "nothing temporary is left");
}
