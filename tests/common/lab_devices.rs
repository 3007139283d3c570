//! Devices and images of the lab: loop devices, mounts, modelled sticks, zram, and images made by
//! other programs. Everything is taken away again when it is dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{
    MIB, eventually, feed, find, folder, lab, noise, put, sh, skip, target_folder, write_at,
};

/// A loop device over a sparse file of its own.
pub struct LoopDev {
    pub device: String,
    pub file: PathBuf,
    folder: Option<tempfile::TempDir>,
}

impl LoopDev {
    /// With sectors of 512 bytes.
    pub fn new(size: u64) -> Self {
        Self::with(size, &[])
    }

    /// With options of losetup, such as `-r`, `-b 4096`, `-P`.
    pub fn with(size: u64, options: &[&str]) -> Self {
        let folder = folder();
        let file = folder.path().join("stick.img");
        File::create(&file).unwrap().set_len(size).unwrap();
        let mut this = Self::over(&file, options);
        this.folder = Some(folder);
        this
    }

    /// Over a file or device that somebody else keeps.
    pub fn over(file: &Path, options: &[&str]) -> Self {
        let mut losetup = Command::new(find("losetup").unwrap());
        losetup.args(["--find", "--show"]).args(options).arg(file);
        let output = losetup.output().unwrap();
        assert!(output.status.success(), "losetup: {output:?}");
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Self { device, file: file.to_owned(), folder: None }
    }

    /// Its name without /dev/.
    pub fn name(&self) -> &str {
        self.device.strip_prefix("/dev/").unwrap()
    }

    /// Bytes that were read from it, as the kernel counts them.
    pub fn read_so_far(&self) -> u64 {
        let stat = fs::read_to_string(format!("/sys/block/{}/stat", self.name())).unwrap();
        stat.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512
    }

    /// A partition's node. The device must have been attached with `-P`.
    pub fn partition(&self, number: u32) -> String {
        let node = format!("{}p{number}", self.device);
        if !Path::new(&node).exists() {
            // Some kernels read no partition tables themselves.
            Command::new("partx").args(["--add", &self.device]).stderr(Stdio::null()).status().ok();
        }
        eventually("the partition's node appears", || Path::new(&node).exists());
        node
    }
}

impl Drop for LoopDev {
    fn drop(&mut self) {
        Command::new("losetup").args(["--detach", &self.device]).status().ok();
    }
}

/// A mounted filesystem.
pub struct Mount {
    pub at: PathBuf,
    _folder: tempfile::TempDir,
}

impl Mount {
    pub fn new(device: &str, options: &[&str]) -> Self {
        let base = target_folder();
        let at = base.path().join("mnt");
        fs::create_dir(&at).unwrap();
        sh("mount", &[options, &[device, at.to_str().unwrap()]].concat());
        Self { at, _folder: base }
    }

    pub fn path(&self) -> &str {
        self.at.to_str().unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.at).stderr(Stdio::null()).status();
        if !status.is_ok_and(|status| status.success()) && is_mounted(&self.at) {
            Command::new("umount").arg("-l").arg(&self.at).status().ok();
        }
    }
}

pub fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == at.to_str())
}

/// A block device with a modelled stick behind it; the keys are in tests/lab/stick_model.py.
pub struct Stick {
    pub device: String,
    state: tempfile::TempDir,
}

impl Stick {
    pub fn new(keys: &[&str]) -> Self {
        Self::with_sectors(keys, 512)
    }

    pub fn with_sectors(keys: &[&str], sector: u32) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut command = Self::script(&state);
        if sector != 512 {
            command.env("SECTOR", sector.to_string());
        }
        let output = command.arg("start").args(keys).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "stick start {keys:?}: {errors}");
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Self { device, state }
    }

    fn script(state: &tempfile::TempDir) -> Command {
        let mut command = Command::new(lab("stick"));
        command.env("STICK_STATE", state.path()).stdin(Stdio::null());
        command
    }
}

impl Drop for Stick {
    fn drop(&mut self) {
        let mut command = Self::script(&self.state);
        command.args(["stop", &self.device]).stderr(Stdio::null()).status().ok();
    }
}

/// A disk image with a GPT of `sector` bytes that covers it, made by sfdisk.
pub fn gpt_image(folder: &Path, name: &str, len: u64, sector: u32) -> String {
    let mut bytes = noise(len, len);
    bytes[..1 << 20].fill(0);
    let end = bytes.len();
    bytes[end - (1 << 20)..].fill(0);
    let path = put(folder, name, &bytes);
    partition(&path, sector, "label: gpt\nsize=4M,type=U,name=ESP\ntype=L,name=root\n");
    path
}

/// Runs sfdisk on a file, through a loop device that has such sectors.
pub fn partition(path: &str, sector: u32, script: &str) {
    let disk = LoopDev::over(Path::new(path), &["-b", &sector.to_string()]);
    let mut sfdisk = Command::new(find("sfdisk").unwrap());
    sfdisk.args(["--quiet", "--wipe", "never", "--no-reread", &disk.device]);
    let output = feed(sfdisk, script.as_bytes().to_vec());
    assert_eq!(output.code, 0, "{output}");
}

/// An ISO 9660 image without a partition table, made by xorriso.
pub fn plain_iso(folder: &Path, name: &str) -> String {
    let tree = folder.join(format!("{name}.tree"));
    fs::create_dir(&tree).unwrap();
    put(&tree, "DATA.BIN", &noise(2 * MIB, 9660));
    let path = folder.join(name).to_str().unwrap().to_owned();
    let tree = tree.to_str().unwrap();
    sh("xorriso", &["-as", "mkisofs", "-quiet", "-V", "TESTISO", "-o", &path, tree]);
    path
}

/// The same with an MBR, as the images for sticks have it.
pub fn hybrid_iso(folder: &Path, name: &str) -> String {
    let path = plain_iso(folder, name);
    let len = fs::metadata(&path).unwrap().len();
    let sectors = u32::try_from(len / 512).unwrap();
    let mut entry = [0x80, 0, 1, 0, 0x17, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    write_at(&path, 446, &entry);
    write_at(&path, 510, &[0x55, 0xaa]);
    path
}

/// A zram device, gone after the test.
pub struct Zram {
    pub device: String,
    number: String,
}

impl Zram {
    /// `None`, with the reason printed, where there is none to be had. Size 0 stays unconfigured.
    pub fn new(size: u64) -> Option<Self> {
        let Ok(number) = fs::read_to_string("/sys/class/zram-control/hot_add") else {
            skip("there is no zram");
            return None;
        };
        let number = number.trim().to_owned();
        if size > 0 {
            fs::write(format!("/sys/block/zram{number}/disksize"), size.to_string()).unwrap();
        }
        Some(Self { device: format!("/dev/zram{number}"), number })
    }

    /// Writes fail once so much memory is taken.
    pub fn limit(&self, bytes: u64) {
        fs::write(format!("/sys/block/zram{}/mem_limit", self.number), bytes.to_string()).unwrap();
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        fs::write(format!("/sys/block/zram{}/reset", self.number), "1").ok();
        fs::write("/sys/class/zram-control/hot_remove", &self.number).ok();
    }
}

/// What a Windows ISO looks like: a readme for ISO 9660, everything else in UDF.
pub fn windows_iso(dir: &Path) -> String {
    let tree = dir.join("windows");
    for sub in ["sources", "efi/boot", "boot"] {
        fs::create_dir_all(tree.join(sub)).unwrap();
    }
    put(&tree, "README.TXT", b"This disc contains a UDF file system.\r\n");
    put(&tree, "bootmgr", &noise(4096, 1));
    put(&tree, "sources/boot.wim", &[&b"MSWIM\0\0\0"[..], &noise(60_000, 2)].concat());
    put(&tree, "sources/install.wim", &[&b"MSWIM\0\0\0"[..], &noise(90_000, 3)].concat());
    put(&tree, "efi/boot/bootx64.efi", &[&b"MZ"[..], &noise(9000, 4)].concat());
    let (iso, tree) = (dir.join("windows.iso"), tree.to_str().unwrap().to_owned());
    let iso = iso.to_str().unwrap().to_owned();
    let hidden = ["sources", "efi", "boot", "bootmgr"].map(|name| ["-hide", name]).concat();
    let args = [&["-quiet", "-udf", "-V", "CCCOMA_X64FRE"], &hidden[..], &["-o", &iso, &tree]];
    sh("genisoimage", &args.concat());
    iso
}

/// Takes an unconfigured loop device away (LOOP_CTL_REMOVE).
pub fn remove_loop(device: &str) {
    let number = device.strip_prefix("/dev/loop").unwrap();
    let script = "import fcntl, os, sys; fcntl.ioctl(os.open('/dev/loop-control', os.O_RDWR), 0x4C81, int(sys.argv[1]))";
    Command::new("python3").args(["-c", script, number]).status().ok();
}
