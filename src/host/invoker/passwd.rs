//! Users and groups from /etc/passwd and /etc/group. The parsers are pure.
//!
//! The files come first, the C library's lookup second, for users of directories (LDAP,
//! systemd-homed). A static program has the files alone: the lookup loads plugins, and in a static
//! glibc that crashes (seen: SIGSEGV in getpwuid_r, glibc 2.36). Formats: passwd(5), group(5).

use std::fs;
use std::path::PathBuf;

/// One user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Home folder; `None` when the entry has no absolute path.
    pub home: Option<PathBuf>,
}

/// The user with this id.
pub fn by_uid(uid: u32) -> Option<Account> {
    find(&read("/etc/passwd"), |a| a.uid == uid).or_else(|| library::by_uid(uid))
}

/// The user with this login name.
pub fn by_name(name: &str) -> Option<Account> {
    find(&read("/etc/passwd"), |a| a.name == name).or_else(|| library::by_name(name))
}

/// The C library's lookup.
#[cfg(not(target_feature = "crt-static"))]
mod library {
    use nix::unistd::{Uid, User};

    use super::Account;

    pub(super) fn by_uid(uid: u32) -> Option<Account> {
        User::from_uid(Uid::from_raw(uid)).ok().flatten().map(Account::from)
    }

    pub(super) fn by_name(name: &str) -> Option<Account> {
        User::from_name(name).ok().flatten().map(Account::from)
    }
}

#[cfg(target_feature = "crt-static")]
mod library {
    use super::Account;

    pub(super) fn by_uid(_uid: u32) -> Option<Account> {
        None
    }

    pub(super) fn by_name(_name: &str) -> Option<Account> {
        None
    }
}

/// Groups that list this user as a member. Those that only a directory knows are missing, which
/// can refuse a right but never grants one.
pub fn groups_of(name: &str) -> Vec<u32> {
    groups_in(&read("/etc/group"), name)
}

/// An unreadable file knows nobody. Names are not always UTF-8; ids and paths that matter are
/// compared after the same conversion or not at all.
fn read(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The first matching line of a passwd file, as the C library does.
fn find(passwd: &str, wanted: impl Fn(&Account) -> bool) -> Option<Account> {
    passwd.lines().filter_map(account).find(wanted)
}

/// `name:password:uid:gid:comment:home:shell`.
fn account(line: &str) -> Option<Account> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, _] = fields[..] else {
        return None;
    };
    // `+` and `-` start entries for NIS (compat), which are no users.
    if name.is_empty() || name.starts_with(['+', '-', '#']) {
        return None;
    }
    let home = Some(PathBuf::from(home)).filter(|home| home.is_absolute());
    Some(Account { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()?, home })
}

/// `name:password:gid:member,member`.
fn groups_in(group: &str, user: &str) -> Vec<u32> {
    let gid = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let [_, _, gid, members] = fields[..] else {
            return None;
        };
        if members.split(',').any(|member| member == user) { gid.parse().ok() } else { None }
    };
    group.lines().filter_map(gid).collect()
}

impl From<nix::unistd::User> for Account {
    fn from(user: nix::unistd::User) -> Self {
        let home = Some(user.dir).filter(|dir| dir.is_absolute());
        Self { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw(), home }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        # ann:x:1:1::/no:/bin/sh\n\
        short:x:1000\n\
        +nis:x:1000:1000::/no:/bin/sh\n\
        bad:x:-1:1000::/no:/bin/sh\n\
        ann:x:1000:1001:Ann,,,:/home/ann:/bin/zsh\n\
        twin:x:1000:1002::/home/twin:/bin/sh\n\
        homeless:x:1003:1003:::/usr/sbin/nologin\n";

    #[test]
    fn users_are_found_by_id_and_by_name_and_broken_lines_are_nobody() {
        let ann =
            Account { name: "ann".into(), uid: 1000, gid: 1001, home: Some("/home/ann".into()) };
        assert_eq!(find(PASSWD, |a| a.uid == 1000), Some(ann.clone()));
        assert_eq!(find(PASSWD, |a| a.name == "ann"), Some(ann));
        assert_eq!(find(PASSWD, |a| a.uid == 1003).unwrap().home, None);
        for name in ["short", "+nis", "nis", "bad", "", "# ann"] {
            assert_eq!(find(PASSWD, |a| a.name == name), None, "{name}");
        }
    }

    #[test]
    fn groups_are_those_that_list_the_user_in_full() {
        let group =
            "root:x:0:\ndisk:x:6:ann,bob\nadm:x:4:joann\nbad:x:y:ann\nshort:x:7\nvideo:x:44:ann\n";
        assert_eq!(groups_in(group, "ann"), [6, 44]);
        assert_eq!(groups_in(group, "nobody"), [0u32; 0]);
    }

    #[test]
    fn root_exists_in_the_real_files_and_an_unused_id_does_not() {
        assert_eq!(by_uid(0).map(|a| a.name), Some("root".into()));
        assert_eq!(by_name("root").map(|a| a.uid), Some(0));
        assert_eq!(by_uid(4_123_456_789), None);
    }
}
