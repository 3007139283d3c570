//! Who started the program, which under sudo is not the user it runs as; and where that person
//! keeps state. Files for that person are made by [`files`] with his rights, so that nothing in
//! his home ever belongs to root.
//!
//! Sources: sudo(8) (SUDO_UID, SUDO_GID; run0(1) sets them too), pkexec(1) (PKEXEC_UID), doas(1)
//! (DOAS_USER), XDG Base Directory Specification 0.8.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::{getegid, geteuid};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

pub mod files;
pub mod outputs;
pub mod passwd;

pub use files::CreateMode;
use passwd::Account;

/// The person behind this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoker {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Groups beyond the primary one.
    pub groups: Vec<u32>,
    /// Home folder, when there is one.
    pub home: Option<PathBuf>,
}

impl Invoker {
    /// Asks the environment and the user database.
    pub fn current() -> Self {
        let named =
            if geteuid().is_root() { named_by(|key| std::env::var(key).ok()) } else { None };
        match named {
            Some(Named::Id(uid, gid)) if uid != 0 => Self::other(passwd::by_uid(uid), uid, gid),
            Some(Named::Login(name)) => match passwd::by_name(&name) {
                Some(account) if account.uid != 0 => {
                    let (uid, gid) = (account.uid, account.gid);
                    Self::other(Some(account), uid, Some(gid))
                }
                _ => Self::ourselves(),
            },
            _ => Self::ourselves(),
        }
    }

    fn other(account: Option<Account>, uid: u32, gid: Option<u32>) -> Self {
        // Without a group from anywhere: the one that owns nothing by convention.
        let gid = gid.or(account.as_ref().map(|a| a.gid)).unwrap_or(NOGROUP);
        let groups = account.as_ref().map(|a| passwd::groups_of(&a.name)).unwrap_or_default();
        Self { uid, gid, groups, home: account.and_then(|a| a.home) }
    }

    fn ourselves() -> Self {
        let uid = geteuid().as_raw();
        // `su -p` leaves $HOME at the person it came from: not ours, so not taken.
        let from_env = std::env::var_os("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute() && owner_above(home).is_ok_and(|owner| owner == uid));
        let home = from_env.or_else(|| passwd::by_uid(uid).and_then(|a| a.home));
        // The groups of the process are its own already.
        Self { uid, gid: getegid().as_raw(), groups: Vec::new(), home }
    }

    /// The calling thread connects to sockets as this person from now on: SO_PEERCRED has the
    /// effective id. The real and the saved id stay root's, so that the person cannot send signals
    /// to the process meanwhile (kill(2)). For a thread that ends soon.
    pub(super) fn connect_on_this_thread(&self) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let groups: Vec<_> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        // Not libc's calls, which change every thread of the process.
        set_thread_groups(&groups)?;
        set_thread_res_gid(None::<Gid>, gid, None::<Gid>)?;
        set_thread_res_uid(None::<Uid>, uid, None::<Uid>)?;
        Ok(())
    }

    /// Whether this is somebody else than the process runs as.
    pub fn is_other(&self) -> bool {
        geteuid().is_root() && self.uid != 0
    }

    /// Where records go: the state folder of the XDG Base Directory Specification, plus
    /// `mediawriter`. It need not exist. `None` without a home.
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.state_dir_with(std::env::var_os("XDG_STATE_HOME"))
    }

    /// Where what can be fetched again goes: the cache folder, as [`Invoker::state_dir`].
    pub fn cache_dir(&self) -> Option<PathBuf> {
        let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let base = xdg.filter(|base| self.may_be_ours(base));
        let base = base.or_else(|| Some(self.home.as_ref()?.join(".cache")))?;
        Some(base.join("mediawriter"))
    }

    /// Where settings are: the configuration folder of the same specification.
    fn config_dir(&self) -> Option<PathBuf> {
        let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let base = base.filter(|base| self.may_be_ours(base));
        let base = base.or_else(|| Some(self.home.as_ref()?.join(".config")))?;
        Some(base.join("mediawriter"))
    }

    fn state_dir_with(&self, xdg: Option<OsString>) -> Option<PathBuf> {
        let base = xdg.map(PathBuf::from).filter(|base| self.may_be_ours(base));
        let base = base.or_else(|| Some(self.home.as_ref()?.join(".local/state")))?;
        Some(base.join("mediawriter"))
    }

    /// Whether a folder named by the environment is believed to be this person's. sudo -E and
    /// su -p carry variables from one user to another.
    fn may_be_ours(&self, folder: &Path) -> bool {
        // The specification: relative paths are to be ignored.
        if !folder.is_absolute() || folder.components().any(|c| c == Component::ParentDir) {
            return false;
        }
        let owner = owner_above(folder).ok();
        if self.is_other() {
            let below_home = self.home.as_ref().is_some_and(|home| folder.starts_with(home));
            below_home && owner == Some(self.uid)
        } else {
            owner.is_some_and(|owner| owner == self.uid || owner == 0)
        }
    }
}

/// `nogroup` or `nobody`: the overflow id of the kernel (/proc/sys/kernel/overflowgid).
const NOGROUP: u32 = 65534;

/// How the environment names the invoking user.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    /// User and, where it says so, group.
    Id(u32, Option<u32>),
    /// Login name.
    Login(String),
}

/// Believed only when we are root: anybody may set variables for a program of his own.
fn named_by(get: impl Fn(&str) -> Option<String>) -> Option<Named> {
    // parse::<u32> takes a plus sign; it is nothing that sudo writes, and does no harm.
    let number = |key: &str| get(key).and_then(|text| text.parse::<u32>().ok());
    if let Some(uid) = number("SUDO_UID") {
        return Some(Named::Id(uid, number("SUDO_GID")));
    }
    if let Some(uid) = number("PKEXEC_UID") {
        return Some(Named::Id(uid, None));
    }
    get("DOAS_USER").map(Named::Login)
}

/// Owner of the folder, or of the nearest folder above it that exists.
fn owner_above(folder: &Path) -> io::Result<u32> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for folder in folder.ancestors() {
        match fs::metadata(folder) {
            Ok(metadata) => return Ok(metadata.uid()),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The configuration folder of whoever started the program.
pub fn config_dir() -> Option<PathBuf> {
    Invoker::current().config_dir()
}

/// The state folder of whoever started the program; see [`Invoker::state_dir`].
pub fn state_dir() -> Option<PathBuf> {
    Invoker::current().state_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invoking_user_is_named_by_sudo_pkexec_or_doas() {
        for (vars, expected) in [
            (&[("SUDO_UID", "1000"), ("SUDO_GID", "1001")][..], Some(Named::Id(1000, Some(1001)))),
            (&[("SUDO_UID", "1000"), ("PKEXEC_UID", "7")], Some(Named::Id(1000, None))),
            (&[("PKEXEC_UID", "1000")], Some(Named::Id(1000, None))),
            (&[("DOAS_USER", "ann")], Some(Named::Login("ann".into()))),
            (&[("SUDO_UID", "-1"), ("SUDO_GID", "0")], None),
            (&[("SUDO_UID", "1000x")], None),
            (&[("SUDO_UID", "4294967296")], None),
            (&[], None),
        ] {
            let get =
                |key: &str| vars.iter().find(|(k, _)| *k == key).map(|(_, v)| (*v).to_owned());
            assert_eq!(named_by(get), expected, "{vars:?}");
        }
    }

    #[test]
    fn the_state_folder_is_in_the_home_unless_a_trusted_variable_says_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        let me =
            Invoker { uid: geteuid().as_raw(), gid: 0, groups: vec![], home: Some(home.clone()) };
        let default = home.join(".local/state/mediawriter");
        for (xdg, expected) in [
            (None, default.clone()),
            (Some(""), default.clone()),
            (Some("relative"), default.clone()),
            (Some("/tmp/../etc"), default.clone()),
            (Some("/nonexistent/state"), "/nonexistent/state/mediawriter".into()),
        ] {
            assert_eq!(me.state_dir_with(xdg.map(OsString::from)), Some(expected), "{xdg:?}");
        }
        let homeless = Invoker { home: None, ..me };
        assert_eq!(homeless.state_dir_with(None), None);
    }

    #[test]
    fn under_sudo_the_variable_counts_only_inside_the_users_own_home() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        fs::create_dir_all(home.join("of-root")).unwrap();
        std::os::unix::fs::chown(&home, Some(12345), Some(12345)).unwrap();
        let user = Invoker { uid: 12345, gid: 12345, groups: vec![], home: Some(home.clone()) };
        let default = home.join(".local/state/mediawriter");
        for (xdg, expected) in [
            (home.join("state"), home.join("state/mediawriter")),
            (home.join("of-root/state"), default.clone()),
            (dir.path().join("other"), default.clone()),
            (home.join("../other"), default.clone()),
        ] {
            assert_eq!(user.state_dir_with(Some(xdg.clone().into())), Some(expected), "{xdg:?}");
        }
    }

    #[test]
    fn a_process_that_nobody_else_started_is_its_own_invoker() {
        let current = Invoker::ourselves();
        assert_eq!(current.uid, geteuid().as_raw());
        assert!(!current.is_other());
    }
}
