//! Two names of one storage, and files that are in use: every pair as source and target, target and
//! target, source and output, target and output; every way to keep a file to oneself, for every
//! command that writes. The content is compared afterwards.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::stat::{Mode, SFlag, mknod};

use crate::lab::{
    self, LoopDev, MIB, Mount, Output, disk_image, lab_has, put, run, sh, target_folder,
};

/// One image by every name that it can have.
struct Names {
    image: Vec<u8>,
    file: PathBuf,
    /// Regular files.
    files: Vec<(&'static str, String)>,
    /// Devices.
    devices: Vec<(&'static str, String)>,
    /// Detached and unmounted in this order.
    mounts: Vec<PathBuf>,
    _loops: Vec<LoopDev>,
    dir: tempfile::TempDir,
}

impl Drop for Names {
    fn drop(&mut self) {
        for at in &self.mounts {
            Command::new("umount").arg(at).stderr(Stdio::null()).status().ok();
        }
    }
}

impl Names {
    /// `attached`: also as loop devices, which keeps the file from being written by its own names.
    fn new(attached: bool) -> Self {
        let dir = target_folder();
        let at = |name: &str| dir.path().join(name);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let image = disk_image(2 * MIB, 77);
        for folder in ["upper", "lower", "work", "merged", "bound"] {
            fs::create_dir(at(folder)).unwrap();
        }
        let file = at("upper/image.img");
        fs::write(&file, &image).unwrap();
        fs::hard_link(&file, at("hard.img")).unwrap();
        symlink(&file, at("link.img")).unwrap();
        symlink(at("upper"), at("way")).unwrap();
        sh("mount", &["--bind", &text(&at("upper")), &text(&at("bound"))]);
        let mut mounts = vec![at("bound")];
        let mut files = vec![
            ("its name", text(&file)),
            ("a hard link", text(&at("hard.img"))),
            ("a symbolic link", text(&at("link.img"))),
            ("a way through a link", text(&at("way/image.img"))),
            ("a way with dots", text(&at("lower/../upper/./image.img"))),
            ("a bind mount", text(&at("bound/image.img"))),
        ];
        let layers = format!(
            "lowerdir={},upperdir={},workdir={}",
            text(&at("lower")),
            text(&at("upper")),
            text(&at("work"))
        );
        let overlay = Command::new("mount")
            .args(["-t", "overlay", "-o", &layers, "overlay", &text(&at("merged"))])
            .stderr(Stdio::null())
            .status();
        if overlay.is_ok_and(|status| status.success()) {
            mounts.push(at("merged"));
            files.push(("an overlay", text(&at("merged/image.img"))));
        } else {
            println!("an overlay cannot be mounted over this folder, and is left out");
        }
        let mut devices = Vec::new();
        let mut loops = Vec::new();
        if attached {
            for name in ["a loop device", "another loop device"] {
                let device = LoopDev::over(&file, &["-P"]);
                devices.push((name, device.device.clone()));
                loops.push(device);
            }
            let rdev = fs::metadata(&loops[0].device).unwrap().rdev();
            mknod(&at("node"), SFlag::S_IFBLK, Mode::from_bits_truncate(0o600), rdev).unwrap();
            devices.push(("another node of it", text(&at("node"))));
            symlink(&loops[1].device, at("to-node")).unwrap();
            devices.push(("a link to the node", text(&at("to-node"))));
        }
        Self { image, file, files, devices, mounts, _loops: loops, dir }
    }

    fn all(&self) -> Vec<&(&'static str, String)> {
        self.files.iter().chain(&self.devices).collect()
    }

    /// Nothing was written, and the program said no.
    #[track_caller]
    fn untouched(&self, label: &str, output: &Output) {
        assert!(matches!(output.code, 2 | 3), "{label}: {output}");
        assert!(
            fs::read(&self.file).unwrap() == self.image,
            "{label}: the image changed: {output}"
        );
    }
}

fn possible() -> bool {
    lab_has(&["losetup", "mount", "umount", "python3", "mkswap", "swapon", "mkfs.ext4"])
}

#[test]
fn c02_the_source_is_no_target_by_any_of_its_names() {
    if !possible() {
        return;
    }
    let mut pairs = 0;
    for attached in [false, true] {
        let names = Names::new(attached);
        for (from, source) in &names.files {
            for (to, target) in names.all() {
                for more in
                    [&[][..], &["--force", "--unmount"], &["--changed-only"], &["--dry-run"]]
                {
                    let output = run(&[&["flash", source, target, "--yes"], more].concat());
                    names.untouched(&format!("from {from} to {to} {more:?}"), &output);
                    assert_eq!(output.code, 3, "{output}");
                    pairs += 1;
                }
                let output = run(&["verify", target, source, "--repair", "--yes"]);
                names.untouched(&format!("verify {to} against {from}"), &output);
                pairs += 1;
            }
        }
    }
    println!("{pairs} pairs of source and target");
    assert!(pairs >= 400, "{pairs}");
}

#[test]
fn c02_a_disk_is_not_copied_onto_itself_by_any_of_its_names() {
    if !possible() {
        return;
    }
    let names = Names::new(true);
    let mut pairs = 0;
    for (from, source) in &names.devices {
        for (to, target) in names.all() {
            for more in [&[][..], &["--overwrite"], &["--force"]] {
                let output = run(&[&["clone", source, target, "--yes"], more].concat());
                names.untouched(&format!("from {from} to {to} {more:?}"), &output);
                pairs += 1;
            }
        }
    }
    assert!(pairs >= 100, "{pairs}");
    // A file on a filesystem of the source changes what is copied.
    let disk = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &disk.device]);
    let mount = Mount::new(&disk.device, &[]);
    let inside = mount.at.join("inner.img");
    fs::write(&inside, vec![1; 4 << 20]).unwrap();
    let inner = LoopDev::over(&inside, &[]);
    let image = put(names.dir.path(), "small", &disk_image(MIB, 3));
    for (source, target) in [(&disk.device, &inner.device), (&inner.device, &disk.device)] {
        run(&["clone", source, target, "--yes", "--freeze", "--force", "--unmount"]).expect(3);
    }
    // What lies in a file that lies on the target.
    let on_inner = inside.to_str().unwrap();
    run(&["flash", on_inner, &disk.device, "--yes", "--unmount", "--force"])
        .expect(3)
        .says(&["it would overwrite its own source"]);
    assert!(fs::read(&inside).unwrap() == vec![1; 4 << 20]);
    run(&["flash", &image, &inner.device, "--yes"]).expect(0);
}

/// An image that lies on the stick that is to be written (etcher 3357, rufus 362), by the ways that it is
/// reached, and the reverse: a stick beside the one that the image lies on is not accused (etcher 3591, 3734, 4051).
#[test]
fn c02_an_image_on_the_stick_itself_and_on_its_neighbour() {
    if !lab_has(&["losetup", "mount", "umount", "mkfs.ext4", "sfdisk"]) {
        return;
    }
    let dir = target_folder();
    let disk = put(dir.path(), "disk", &vec![0; 64 << 20]);
    lab::partition(&disk, 512, "label: dos\nsize=40M\nsize=16M\n");
    let stick = LoopDev::over(Path::new(&disk), &["-P"]);
    let (one, two) = (stick.partition(1), stick.partition(2));
    for part in [&one, &two] {
        sh("mkfs.ext4", &["-q", part]);
    }
    let (first, second) = (Mount::new(&one, &[]), Mount::new(&two, &[]));
    let image = disk_image(2 * MIB, 41);
    let inside = put(&first.at, "ubuntu.iso", &image);
    let deep = put(&second.at, "deep.img", &disk_image(4 * MIB, 42));
    let link = dir.path().join("link.iso");
    symlink(&inside, &link).unwrap();
    // A filesystem in a file on the stick, with the image in it.
    let inner_file = put(&second.at, "inner.fs", &vec![0; 8 << 20]);
    let inner = LoopDev::over(Path::new(&inner_file), &[]);
    sh("mkfs.ext4", &["-q", &inner.device]);
    let inner_mount = Mount::new(&inner.device, &[]);
    let inmost = put(&inner_mount.at, "inmost.img", &image);
    let ways = [inside.as_str(), deep.as_str(), link.to_str().unwrap(), inmost.as_str()];
    let before = lab::sha256sum(&stick.device);
    for way in ways {
        for more in
            [&[][..], &["--unmount"], &["--unmount", "--force"], &["--unmount", "--changed-only"]]
        {
            let output = run(&[&["flash", way, &stick.device, "--yes"], more].concat()).expect(3);
            output.says(&["it would overwrite its own source"]);
        }
    }
    // What the run makes is no better there: it would be gone with the filesystem.
    let plain = put(dir.path(), "plain", &image);
    for option in ["--log", "--record"] {
        let on = first.at.join("run.out");
        let on = on.to_str().unwrap();
        run(&["flash", &plain, &stick.device, "--yes", "--unmount", option, on]).expect(3);
        assert!(!Path::new(on).exists());
    }
    assert_eq!(lab::sha256sum(&stick.device), before, "a refusal wrote to the stick");
    // The neighbour of the same size and make.
    let neighbour = LoopDev::new(64 * MIB);
    for way in ways {
        run(&["flash", way, &neighbour.device, "--yes"]).expect(0).says(&["every byte matches"]);
    }
}

#[test]
fn c03_targets_are_told_apart_before_the_first_write() {
    if !possible() {
        return;
    }
    let mut pairs = 0;
    for attached in [false, true] {
        let names = Names::new(attached);
        let image = put(names.dir.path(), "other", &disk_image(MIB, 3));
        for (one, first) in names.all() {
            for (two, second) in names.all() {
                let output = run(&["flash", &image, first, second, "--yes"]);
                names.untouched(&format!("{one} and {two}"), &output);
                pairs += 1;
            }
        }
    }
    println!("{pairs} pairs of targets");
    assert!(pairs >= 100, "{pairs}");
}

#[test]
fn c02_no_output_replaces_what_is_read_or_written() {
    if !possible() {
        return;
    }
    let mut pairs = 0;
    for attached in [false, true] {
        let names = Names::new(attached);
        let image = put(names.dir.path(), "other", &disk_image(MIB, 3));
        let stick = put(names.dir.path(), "stick", &vec![0; 4 << 20]);
        let outputs = || names.files.iter().filter(|(name, _)| *name != "a symbolic link");
        for (name, output) in outputs() {
            for option in ["--log", "--record"] {
                for (role, source, target) in names.all().into_iter().flat_map(|(one, path)| {
                    let source = names.files.iter().any(|(_, file)| file == path);
                    let read = source.then_some((format!("{one} as source"), path, &stick));
                    read.into_iter().chain([(format!("{one} as target"), &image, path)])
                }) {
                    let done = run(&["flash", source, target, "--yes", option, output]);
                    names.untouched(&format!("{option} {name}, {role}"), &done);
                    pairs += 1;
                }
            }
            for (device, path) in &names.devices {
                let done = run(&["clone", path, "sim:8MiB", "--log", output]);
                names.untouched(&format!("--log {name}, clone of {device}"), &done);
                pairs += 1;
            }
            let done = run(&["verify", &stick, output, "--log", output]);
            names.untouched(&format!("verify against {name}"), &done);
        }
        // What is read besides the image, found or named.
        let beside = ["SHA256SUMS", "SHA256SUMS.gpg", "other.sha256", "X-CHECKSUM", "other.bmap"];
        let beside: Vec<String> =
            beside.iter().map(|name| put(names.dir.path(), name, b"of its own")).collect();
        for path in &beside {
            let done = run(&["flash", &image, &stick, "--yes", "--log", path]).expect(3);
            assert_eq!(fs::read(path).unwrap(), b"of its own", "{done}");
        }
        for path in &beside {
            fs::remove_file(path).unwrap();
        }
        for option in ["--checksums", "--bmap", "--keyring", "--catalogue"] {
            let path = put(names.dir.path(), "named", b"something\n");
            let done = run(&["flash", &image, &stick, "--yes", option, &path, "--record", &path])
                .expect(3);
            assert_eq!(fs::read(&path).unwrap(), b"something\n", "{option}: {done}");
        }
    }
    println!("{pairs} pairs of an output and what is read or written");
    assert!(pairs >= 200, "{pairs}");
}

/// A program that keeps a file to itself.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn new(how: &str, path: &Path) -> Self {
        let script = format!(
            "import fcntl,sys,time,mmap,struct\nf=open(sys.argv[1],'r+b')\n{how}\nprint('held',flush=True)\ntime.sleep(600)"
        );
        let mut child = Command::new("python3")
            .args(["-c", &script])
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut word = [0; 4];
        child.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        assert_eq!(&word, b"held", "{how}");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn c03_a_file_that_is_in_use_is_no_target_of_any_command() {
    if !possible() {
        return;
    }
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(256 << 10, 3));
    let ofd = "flock=struct.pack('hhqqi4x',%s,0,0,0,0)\nfcntl.fcntl(f,37,flock)";
    let holders: Vec<(&str, String, &str)> = vec![
        ("flock", "fcntl.flock(f,fcntl.LOCK_EX)".to_owned(), "locked by python3"),
        ("flock, shared", "fcntl.flock(f,fcntl.LOCK_SH)".to_owned(), "locked by python3"),
        ("POSIX", "fcntl.lockf(f,fcntl.LOCK_EX)".to_owned(), "locked by python3"),
        ("POSIX, a part", "fcntl.lockf(f,fcntl.LOCK_EX,1,100)".to_owned(), "locked by python3"),
        ("OFD", ofd.replace("%s", "fcntl.F_WRLCK"), "locked by python3"),
        ("OFD, shared", ofd.replace("%s", "fcntl.F_RDLCK"), "locked by python3"),
        (
            "lease",
            "f.close();f=open(sys.argv[1],'rb')\nfcntl.fcntl(f,fcntl.F_SETLEASE,fcntl.F_RDLCK)"
                .to_owned(),
            "leased to python3",
        ),
        ("mapping", "m=mmap.mmap(f.fileno(),4096)".to_owned(), "memory of python3"),
    ];
    let refused = |label: &str, target: &Path, words: &[&str]| {
        let before = fs::read(target).unwrap();
        let path = target.to_str().unwrap();
        for command in [
            &["flash", &image, path, "--yes", "--force", "--unmount"][..],
            &["flash", &image, path, "--yes", "--changed-only"],
            &["discard", path, "--yes", "--force"],
            &["verify", path, &image, "--repair", "--yes"],
            &["bench", path, "--profile", "image", "--size", "1MiB", "--destructive", "--yes"],
            &["bench", path, "--write-same", "--size", "1MiB", "--yes"],
            &["probe", path, "--destructive", "--yes"],
            &["flash", &image, path, "--dry-run"],
            &["demo", "--record", path],
        ] {
            let output = run(command).expect(3).says(words);
            assert!(fs::read(target).unwrap() == before, "{label} {command:?}: {output}");
        }
    };
    let stick = |name: &str| PathBuf::from(put(dir.path(), name, &vec![0x33; 4 << 20]));
    for (number, (label, how, words)) in holders.iter().enumerate() {
        let target = stick(&format!("held-{number}"));
        let holder = Holder::new(how, &target);
        refused(label, &target, &[words]);
        // To be read is nobody's loss, but for exclusive locks of flock.
        drop(holder);
        run(&["flash", &image, target.to_str().unwrap(), "--yes"]).expect(0);
    }
    let target = stick("attached");
    let device = LoopDev::over(&target, &[]);
    refused("loop", &target, &[&format!("in use as {}", device.device), "losetup -d"]);
    sh("mkfs.ext4", &["-q", &device.device]);
    let mount = Mount::new(&device.device, &["-o", "ro"]);
    refused("mounted loop", &target, &["mounted at", mount.path(), "umount"]);
    drop(mount);
    // Its name is gone, and it is still the loop's.
    let other = dir.path().join("second-name");
    fs::hard_link(&target, &other).unwrap();
    fs::remove_file(&target).unwrap();
    refused("deleted name", &other, &[&device.device]);
    drop(device);
    run(&["flash", &image, other.to_str().unwrap(), "--yes"]).expect(0);

    let swap = stick("swap");
    sh("chmod", &["600", swap.to_str().unwrap()]);
    sh("mkswap", &["-q", swap.to_str().unwrap()]);
    if Command::new("swapon").arg(&swap).status().unwrap().success() {
        let output = run(&["flash", &image, swap.to_str().unwrap(), "--yes", "--force"]);
        sh("swapoff", &[swap.to_str().unwrap()]);
        output.expect(3).says(&["active swap", "swapoff"]);
    } else {
        lab::skip("this kernel does not swap into files here");
    }
}

#[test]
fn c03_while_a_file_is_written_other_programs_see_it_locked() {
    if !possible() {
        return;
    }
    let dir = target_folder();
    let image = put(dir.path(), "image", &disk_image(MIB, 3));
    let target = put(dir.path(), "stick", &vec![0; 8 << 20]);
    let fifo = dir.path().join("slow");
    nix::unistd::mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
    // The image comes through a pipe that is held open, so that the run stands still in the middle.
    let home = lab::folder();
    let mut command = lab::command(home.path());
    command.args(["flash", "-", &target, "--yes"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &fs::read(&image).unwrap()).unwrap();
    let test = "import fcntl,sys,struct\nf=open(sys.argv[1],'r+b')\nr=fcntl.fcntl(f,36,struct.pack('hhqqi4x',fcntl.F_WRLCK,0,0,0,0))\nprint(struct.unpack('hhqqi4x',r)[0]!=fcntl.F_UNLCK)";
    lab::eventually("the lock is seen", || sh("python3", &["-c", test, &target]).trim() == "True");
    let second = run(&["flash", &image, &target, "--yes"]).expect(3);
    second.says(&["locked by mediawriter"]);
    drop(stdin);
    assert!(child.wait().unwrap().success());
    let file = File::open(&target).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 8 << 20);
}
