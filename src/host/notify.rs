//! A notification on the desktop of whoever started the program.
//!
//! Sources: Desktop Notifications Specification 1.2 (`Notify`); D-Bus Specification 0.43 (session
//! bus: DBUS_SESSION_BUS_ADDRESS; `unix:runtime` is $XDG_RUNTIME_DIR/bus); credentials(7), unix(7)
//! (SO_PEERCRED has the effective user id of the thread that connects).

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::bus::{self, Method};
use super::invoker::Invoker;
use crate::text::printable_path;

const NOTIFY: Method<'static> = Method {
    service: "org.freedesktop.Notifications",
    object: "/org/freedesktop/Notifications",
    interface: "org.freedesktop.Notifications",
    name: "Notify",
};

/// Characters of a text; servers cut it, and a message can be a long list.
const LONGEST: usize = 300;

/// Shows a text, clean already; `Err` says why not. Takes 2 s at most.
pub fn notify(summary: &str, body: &str) -> Result<(), String> {
    let invoker = Invoker::current();
    notify_over(&session_bus(&invoker)?, &invoker, summary, body)
}

fn notify_over(socket: &Path, invoker: &Invoker, summary: &str, body: &str) -> Result<(), String> {
    // A timeout of -1 is the server's own; 0 as what to replace is nothing.
    let no_actions: Vec<String> = Vec::new();
    let no_hints: BTreeMap<String, zbus::Variant<'static>> = BTreeMap::new();
    let arguments = (
        "mediawriter",
        0u32,
        "drive-removable-media",
        short(summary),
        markup(&short(body)),
        no_actions,
        no_hints,
        -1i32,
    );
    bus::call_as(invoker, socket, NOTIFY, arguments).map(drop)
}

/// The socket of the person's session bus. As root the environment is not believed: it is root's,
/// or carried along by sudo -E. There the one place counts that systemd gives each user, if it is
/// that user's.
fn session_bus(invoker: &Invoker) -> Result<PathBuf, String> {
    let address = std::env::var("DBUS_SESSION_BUS_ADDRESS").unwrap_or_default();
    if !invoker.is_other() && !address.is_empty() {
        return bus::socket_of(&address, "session");
    }
    owned_bus(Path::new("/run/user"), invoker.uid)
}

fn owned_bus(run: &Path, uid: u32) -> Result<PathBuf, String> {
    let path = run.join(uid.to_string()).join("bus");
    // Not followed: a link could lead to somebody else's.
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.uid() == uid && found.file_type().is_socket() => Ok(path),
        Ok(_) => Err(format!("{} is no socket of user {uid}", printable_path(&path))),
        Err(_) => Err(format!("no session D-Bus: {} does not exist", printable_path(&path))),
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// Bodies are a subset of HTML for servers that have `body-markup`, and most have.
fn markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::{self, Sender};
    use std::time::Duration;

    use nix::unistd::geteuid;

    use super::super::bus::lab::Bus;
    use super::*;

    /// Stands for the desktop.
    struct Desktop {
        shown: Sender<(String, String, String)>,
    }

    #[zbus::interface(name = "org.freedesktop.Notifications")]
    impl Desktop {
        #[allow(clippy::too_many_arguments, reason = "the specification has eight")]
        fn notify(
            &self,
            app: String,
            replaces: u32,
            icon: String,
            summary: String,
            body: String,
            actions: Vec<String>,
            hints: HashMap<String, zbus::OwnedVariant>,
            timeout: i32,
        ) -> u32 {
            // The macro around it names all of them, so none can begin with an underscore.
            drop((replaces, icon, actions, hints, timeout));
            self.shown.send((app, summary, body)).unwrap();
            7
        }
    }

    fn me() -> Invoker {
        Invoker { uid: geteuid().as_raw(), gid: 0, groups: vec![], home: None }
    }

    #[test]
    fn the_desktop_is_told_and_markup_is_text() {
        let Some(bus) = Bus::start() else { return };
        let (shown, was_shown) = mpsc::channel();
        let builder = bus.builder().serve_at(NOTIFY.object, Desktop { shown }).name(NOTIFY.service);
        let _desktop = zbus::block_on(builder.build()).unwrap();
        notify_over(&bus.socket, &me(), "done", "a <b>stick</b> & more").unwrap();
        let (app, summary, body) = was_shown.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!((app.as_str(), summary.as_str()), ("mediawriter", "done"));
        assert_eq!(body, "a &lt;b&gt;stick&lt;/b&gt; &amp; more");
    }

    #[test]
    fn a_bus_without_a_desktop_is_said_to_have_none() {
        let Some(bus) = Bus::start() else { return };
        let why = notify_over(&bus.socket, &me(), "done", "x").unwrap_err();
        assert!(why.starts_with("org.freedesktop.Notifications: "), "{why}");
    }

    #[test]
    fn root_takes_only_a_socket_that_belongs_to_the_person() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: needs root");
            return;
        }
        let run = tempfile::tempdir().unwrap();
        assert!(owned_bus(run.path(), 12345).unwrap_err().contains("does not exist"));
        let theirs = run.path().join("12345");
        std::fs::create_dir(&theirs).unwrap();
        let path = theirs.join("bus");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(owned_bus(run.path(), 12345).unwrap_err().contains("no socket of user"));
        chown(&path, Some(12345), Some(12345)).unwrap();
        assert_eq!(owned_bus(run.path(), 12345).unwrap(), path);
        std::fs::rename(&path, theirs.join("other")).unwrap();
        std::os::unix::fs::symlink(theirs.join("other"), &path).unwrap();
        assert!(owned_bus(run.path(), 12345).is_err());
    }

    #[test]
    fn root_connects_as_the_person_and_stays_root() {
        if !geteuid().is_root() {
            eprintln!("SKIPPED: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = dir.path().join("bus");
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let person = Invoker { uid: 12345, gid: 12345, groups: vec![], home: None };
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            rustix::net::sockopt::socket_peercred(&stream).unwrap().uid.as_raw()
        });
        notify_over(&path, &person, "done", "x").unwrap_err();
        assert_eq!(server.join().unwrap(), 12345);
        assert!(geteuid().is_root());
    }
}
