//! Users without root: what udisks2 is asked for, what becomes of its answers, and that it is not
//! asked where nobody needs it. A stand-in on a bus of its own takes the place of udisks2; the real one
//! is in tests/guest.

#![allow(clippy::needless_pass_by_value, reason = "methods of a service are given what came")]

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use crate::bus::Bus;
use crate::lab::{
    LoopDev, MIB, Mount, Output, PROGRAM, clean, disk_image, fill, find, finish, is_mounted,
    lab_has, put, read_direct, sh, target_folder,
};
use nix::fcntl::OFlag;
use zbus::{OwnedObjectPath, OwnedVariant};

/// Whose rights the program has: none.
const NOBODY: u32 = 65534;

#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.UDisks2.Error")]
enum No {
    #[zbus(error)]
    ZBus(zbus::Error),
    Failed(String),
    NotAuthorized(String),
    NotAuthorizedCanObtain(String),
    NotAuthorizedDismissed(String),
}

/// How the stand-in behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// Opens what is asked for, as it is asked for.
    Opens,
    /// Says what udisks2 says when polkit does not allow it.
    Refuses(&'static str),
    /// Does not know the option `flags`.
    IsOld,
    /// Hands out the other device.
    Cheats,
    /// Never answers.
    Waits,
}

/// What was asked: method, node, and the rest.
type Asked = Sender<(String, String, String)>;

struct Manager {
    nodes: Vec<String>,
}

#[zbus::interface(name = "org.freedesktop.UDisks2.Manager")]
impl Manager {
    fn resolve_device(
        &self,
        which: HashMap<String, OwnedVariant>,
        options: HashMap<String, OwnedVariant>,
    ) -> Vec<OwnedObjectPath> {
        drop(options);
        let path = String::try_from(which["path"].clone()).unwrap();
        self.nodes.iter().filter(|node| **node == path).map(|node| object(node)).collect()
    }
}

fn object(node: &str) -> OwnedObjectPath {
    let name = node.strip_prefix("/dev/").unwrap();
    let path = format!("/org/freedesktop/UDisks2/block_devices/{name}");
    OwnedObjectPath::try_from(path).unwrap()
}

struct Block {
    node: String,
    other: String,
    manner: Manner,
    asked: Asked,
    drive: &'static str,
}

#[zbus::interface(name = "org.freedesktop.UDisks2.Block")]
impl Block {
    #[zbus(property)]
    fn drive(&self) -> OwnedObjectPath {
        OwnedObjectPath::try_from(self.drive).unwrap()
    }

    fn open_device(
        &self,
        mode: String,
        options: HashMap<String, OwnedVariant>,
    ) -> Result<zbus::OwnedFd, No> {
        let flags = i32::try_from(options["flags"].clone()).unwrap();
        let silent = options.contains_key("auth.no_user_interaction");
        assert!(!silent, "nobody would be asked for a password");
        let asked = (format!("open {mode}"), self.node.clone(), flags.to_string());
        self.asked.send(asked).unwrap();
        let (node, flags) = match self.manner {
            Manner::Opens => (&self.node, flags),
            Manner::IsOld => (&self.node, 0),
            Manner::Cheats => (&self.other, flags),
            Manner::Waits => loop {
                std::thread::park();
            },
            Manner::Refuses("dismissed") => {
                return Err(No::NotAuthorizedDismissed("The dialog was dismissed".into()));
            }
            Manner::Refuses("password") => return Err(No::NotAuthorizedCanObtain("Not".into())),
            Manner::Refuses(_) => return Err(No::NotAuthorized("Not\u{1b}[2J".into())),
        };
        let write = mode == "rw";
        let opened = OpenOptions::new().read(true).write(write).custom_flags(flags).open(node);
        match opened {
            Ok(file) => Ok(OwnedFd::from(file).into()),
            Err(e) => {
                let why = nix::errno::Errno::from_raw(e.raw_os_error().unwrap()).desc();
                Err(No::Failed(format!("Error opening device {node}: {why}")))
            }
        }
    }
}

struct Filesystem {
    node: String,
    at: PathBuf,
    asked: Asked,
}

#[zbus::interface(name = "org.freedesktop.UDisks2.Filesystem")]
impl Filesystem {
    fn unmount(&self, options: HashMap<String, OwnedVariant>) {
        drop(options);
        self.asked.send(("unmount".into(), self.node.clone(), String::new())).unwrap();
        sh("umount", &[self.at.to_str().unwrap()]);
    }
}

struct Drive {
    asked: Asked,
}

#[zbus::interface(name = "org.freedesktop.UDisks2.Drive")]
impl Drive {
    fn eject(&self, options: HashMap<String, OwnedVariant>) {
        drop(options);
        self.asked.send(("eject".into(), String::new(), String::new())).unwrap();
    }
}

const DRIVE: &str = "/org/freedesktop/UDisks2/drives/Stick";

/// A stick, another one, a user without rights, and a udisks2 that stands in.
struct Desk {
    stick: LoopDev,
    other: LoopDev,
    image: String,
    home: PathBuf,
    program: String,
    bus: Bus,
    was_asked: Receiver<(String, String, String)>,
    service: Option<zbus::Connection>,
    asked: Asked,
    _dir: tempfile::TempDir,
}

impl Desk {
    fn new(manner: Manner) -> Option<Self> {
        if !lab_has(&["losetup", "setpriv", "mkfs.ext2"]) {
            return None;
        }
        let bus = Bus::start()?;
        let dir = target_folder();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = dir.path().join("mediawriter").to_str().unwrap().to_owned();
        fs::copy(PROGRAM, &program).unwrap();
        let home = dir.path().join("home");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        let image = put(dir.path(), "image", &disk_image(2 * MIB, 1));
        let (stick, other) = (LoopDev::new(8 * MIB), LoopDev::new(8 * MIB));
        for device in [&stick, &other] {
            fill(&device.device, 0xee, 8 * MIB);
        }
        let (asked, was_asked) = mpsc::channel();
        let mut desk = Self {
            stick,
            other,
            image,
            home,
            program,
            bus,
            was_asked,
            service: None,
            asked,
            _dir: dir,
        };
        desk.serve(manner, None);
        Some(desk)
    }

    fn serve(&mut self, manner: Manner, mounted: Option<&Path>) {
        let (node, other) = (self.stick.device.clone(), self.other.device.clone());
        let block = Block {
            node: node.clone(),
            other,
            manner,
            asked: self.asked.clone(),
            drive: if mounted.is_some() { "/" } else { DRIVE },
        };
        self.service = None;
        let mut builder = self
            .bus
            .builder()
            .serve_at("/org/freedesktop/UDisks2/Manager", Manager { nodes: vec![node.clone()] })
            .serve_at(object(&node), block)
            .serve_at(DRIVE, Drive { asked: self.asked.clone() });
        if let Some(at) = mounted {
            let (asked, at) = (self.asked.clone(), at.to_owned());
            builder = builder.serve_at(object(&node), Filesystem { node, at, asked });
        }
        let builder = builder.name("org.freedesktop.UDisks2");
        self.service = Some(zbus::block_on(builder.build()).unwrap());
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(find("setpriv").unwrap());
        clean(&mut command, &self.home);
        command.env("DBUS_SYSTEM_BUS_ADDRESS", self.bus.address());
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", &self.program]);
        command.args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        finish(self.command(args))
    }

    fn flash(&self, more: &[&str]) -> Output {
        let args = ["flash", self.image.as_str(), &self.stick.device, "--yes"];
        self.run(&[&args[..], more].concat())
    }

    fn asked(&self) -> Vec<(String, String, String)> {
        self.was_asked.try_iter().collect()
    }

    /// That nothing was written, to either.
    #[track_caller]
    fn untouched(&self) {
        for device in [&self.stick, &self.other] {
            assert_eq!(read_direct(&device.device, 0, 8 * MIB), vec![0xee; 8 << 20]);
        }
    }

    fn sudo(&self) -> String {
        format!("sudo {} flash {} {} --yes", self.program, self.image, self.stick.device)
    }
}

#[test]
fn a_user_flashes_what_udisks2_opens_exclusively_and_directly() {
    let Some(desk) = Desk::new(Manner::Opens) else { return };
    let output = desk.flash(&["--json"]).expect(0).says(&["asking udisks2"]);
    assert!(!output.remarked("no-direct-io"), "{output}");
    let flags =
        OFlag::O_DIRECT | OFlag::O_EXCL | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let node = desk.stick.device.clone();
    assert_eq!(desk.asked(), [("open rw".into(), node.clone(), flags.bits().to_string())]);
    assert_eq!(read_direct(&node, 0, 2 * MIB), disk_image(2 * MIB, 1));
    // To read, it is not opened for writing, and others may have it as well.
    let output = desk.run(&["verify", &node, &desk.image]).expect(0);
    let flags = flags & !OFlag::O_EXCL;
    assert_eq!(desk.asked(), [("open r".into(), node, flags.bits().to_string())], "{output}");
    let output = desk.run(&["devices", "--all"]).expect(0);
    assert!(desk.asked().is_empty(), "to look at disks needs no rights: {output}");
}

#[test]
fn whoever_has_the_rights_asks_nobody() {
    let Some(desk) = Desk::new(Manner::Opens) else { return };
    let mut as_root = Command::new(PROGRAM);
    clean(&mut as_root, &desk.home);
    as_root.env("DBUS_SYSTEM_BUS_ADDRESS", desk.bus.address());
    as_root.args(["flash", &desk.image, &desk.stick.device, "--yes"]);
    finish(as_root).expect(0).never_says(&["udisks2"]);
    let node = fs::metadata(&desk.stick.device).unwrap();
    fs::set_permissions(&desk.stick.device, fs::Permissions::from_mode(0o666)).unwrap();
    let output = desk.flash(&[]);
    fs::set_permissions(&desk.stick.device, node.permissions()).unwrap();
    output.expect(0).never_says(&["udisks2"]);
    assert!(desk.asked().is_empty());
}

#[test]
fn polkit_s_no_is_a_refusal_with_the_line_that_would_do() {
    let Some(mut desk) = Desk::new(Manner::Opens) else { return };
    for (manner, says) in [
        ("no", "polkit does not allow it to you"),
        ("dismissed", "the question for a password was dismissed"),
        ("password", "polkit wants a password, and there is no dialog to ask for it here"),
    ] {
        desk.serve(Manner::Refuses(manner), None);
        let output = desk.flash(&[]).expect(3).plain_text();
        output.says(&["was not opened for you, nothing was written", says, &desk.sudo()]);
        assert_eq!(desk.asked().len(), 1);
        desk.untouched();
    }
}

#[test]
fn our_own_refusals_come_first_and_nobody_is_asked() {
    let Some(desk) = Desk::new(Manner::Opens) else { return };
    sh("mkfs.ext2", &["-q", &desk.other.device]);
    let mount = Mount::new(&desk.other.device, &[]);
    let args = ["flash", &desk.image, &desk.other.device, "--yes"];
    desk.run(&args).expect(3).says(&["[mounted]"]);
    drop(mount);
    let large = put(desk.home.parent().unwrap(), "large", &disk_image(9 * MIB, 2));
    let args = ["flash", &large, &desk.stick.device, "--yes"];
    desk.run(&args).expect(3).says(&["[too-small]"]);
    desk.run(&["flash", &desk.image, &desk.stick.device]).expect(3).says(&["--yes"]);
    assert!(desk.asked().is_empty());
}

#[test]
fn what_udisks2_hands_out_is_looked_at_as_closely_as_what_the_kernel_does() {
    let Some(mut desk) = Desk::new(Manner::Cheats) else { return };
    desk.flash(&[]).expect(3).says(&["it is not the device it was"]);
    desk.untouched();
    // Without O_DIRECT it was opened without O_EXCL too.
    desk.serve(Manner::IsOld, None);
    desk.flash(&[]).expect(1).says(&["Permission denied", "older than 2.7.3", &desk.sudo()]);
    desk.untouched();
}

#[test]
fn what_the_kernel_told_udisks2_is_told_as_if_it_had_told_us() {
    let Some(desk) = Desk::new(Manner::Opens) else { return };
    let exclusive = OFlag::O_EXCL.bits();
    let holder = OpenOptions::new().read(true).custom_flags(exclusive).open(&desk.stick.device);
    desk.flash(&[]).expect(3).says(&["is in use: the kernel refuses exclusive access"]);
    drop(holder);
    desk.untouched();
}

#[test]
fn without_udisks2_there_is_the_line_with_sudo() {
    let Some(mut desk) = Desk::new(Manner::Opens) else { return };
    desk.service = None;
    let output = desk.flash(&[]).expect(1);
    output.says(&["Permission denied", &desk.sudo(), "ServiceUnknown"]);
    // A device that came after it looked, or that it leaves alone.
    desk.serve(Manner::Opens, None);
    let args = ["flash", &desk.image, &desk.other.device, "--yes"];
    desk.run(&args).expect(1).says(&["does not know this device", "sudo "]);
    desk.untouched();
}

#[test]
fn who_stops_while_a_dialog_waits_has_written_nothing() {
    let Some(desk) = Desk::new(Manner::Waits) else { return };
    let mut command = desk.command(&["flash", &desk.image, &desk.stick.device, "--yes"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let asked = desk.was_asked.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(asked.0, "open rw");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(2), "{errors}");
    assert!(errors.contains("cancelled by SIGINT"), "{errors}");
    desk.untouched();
}

#[test]
fn a_user_has_udisks2_unmount_and_eject() {
    let Some(mut desk) = Desk::new(Manner::Opens) else { return };
    sh("mkfs.ext2", &["-q", &desk.stick.device]);
    let mount = Mount::new(&desk.stick.device, &[]);
    desk.serve(Manner::Opens, Some(&mount.at));
    desk.flash(&[]).expect(3).says(&["[mounted]"]);
    assert!(desk.asked().is_empty() && is_mounted(&mount.at));
    desk.flash(&["--unmount", "--eject"]).expect(0).says(&["unmounted", "could not be ejected"]);
    let asked: Vec<String> = desk.asked().into_iter().map(|(what, ..)| what).collect();
    assert_eq!(asked, ["unmount", "open rw"], "it hangs on no drive");
    assert!(!is_mounted(&mount.at));
    assert_eq!(read_direct(&desk.stick.device, 0, 2 * MIB), disk_image(2 * MIB, 1));
    desk.serve(Manner::Opens, None);
    desk.flash(&["--eject"]).expect(0).says(&["ejected by udisks2"]);
    let asked: Vec<String> = desk.asked().into_iter().map(|(what, ..)| what).collect();
    assert_eq!(asked, ["open rw", "eject"]);
}
