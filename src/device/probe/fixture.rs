//! Test systems: trees with the shape of a real /sys, /proc, /dev and /run, made by code in a
//! temporary folder. A device node is a small file that says what it is, so no test needs root.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{NodeKind, System, parse};

/// Folder of a SATA disk's host below /sys/devices.
pub(crate) const SATA: &str = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0";
/// Folder of a USB port below /sys/devices.
pub(crate) const PORT: &str = "pci0000:00/0000:00:14.0/usb2/2-1";

/// A system under construction.
pub(crate) struct Fixture {
    dir: TempDir,
    mounts: String,
    swaps: String,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        for folder in ["sys/dev/block", "sys/devices", "proc/self", "dev", "run/udev/data"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let swaps = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_owned();
        let mounts = "22 1 0:21 / /proc rw - proc proc rw\n".to_owned();
        Self { dir, mounts, swaps }
    }

    /// The system as it stands. Can be asked several times.
    pub(crate) fn system(&self) -> System {
        self.write("proc/self/mountinfo", &self.mounts);
        self.write("proc/swaps", &self.swaps);
        System::under(self.dir.path(), stat).unwrap()
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file, relative to the root.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// A whole disk in `/sys/devices/HOST/block/NAME`; returns its folder relative to the root.
    pub(crate) fn disk(&self, host: &str, name: &str, rdev: (u32, u32), bytes: u64) -> String {
        // NVMe namespaces lie directly in their controller's folder.
        let direct = host.starts_with("virtual") || host.contains("/nvme/");
        let inner = if direct { host.to_owned() } else { format!("{host}/block") };
        let folder = format!("sys/devices/{inner}/{name}");
        self.entry(&folder, name, rdev, bytes, "DEVTYPE=disk\n");
        for (file, text) in [
            ("removable", "0\n"),
            ("diskseq", &format!("{}\n", rdev.0 * 1000 + rdev.1)),
            ("discard_alignment", "0\n"),
            ("queue/logical_block_size", "512\n"),
            ("queue/physical_block_size", "512\n"),
            ("queue/discard_granularity", "0\n"),
            ("queue/discard_max_bytes", "0\n"),
            ("queue/iostats", "1\n"),
        ] {
            self.write(&format!("{folder}/{file}"), text);
        }
        fs::create_dir_all(self.dir.path().join(&folder).join("slaves")).unwrap();
        if !host.starts_with("virtual") {
            self.link(&format!("{folder}/device"), if direct { ".." } else { "../.." });
        }
        folder
    }

    /// A partition of the disk in `folder`.
    pub(crate) fn part(&self, folder: &str, name: &str, rdev: (u32, u32), at: u64, bytes: u64) {
        let inner = format!("{folder}/{name}");
        self.entry(&inner, name, rdev, bytes, "DEVTYPE=partition\n");
        self.write(&format!("{inner}/partition"), "1\n");
        self.write(&format!("{inner}/start"), format!("{}\n", at / 512));
    }

    fn entry(&self, folder: &str, name: &str, (major, minor): (u32, u32), bytes: u64, kind: &str) {
        let node = name.replace('!', "/");
        let event = format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={node}\n{kind}");
        self.write(&format!("{folder}/uevent"), event);
        self.write(&format!("{folder}/dev"), format!("{major}:{minor}\n"));
        self.write(&format!("{folder}/size"), format!("{}\n", bytes / 512));
        self.write(&format!("{folder}/ro"), "0\n");
        self.write(&format!("{folder}/stat"), "1 0 8 0 1 0 16 0 0 0 0 0 0 0 0 0 0\n");
        fs::create_dir_all(self.dir.path().join(folder).join("holders")).unwrap();
        let up = folder.strip_prefix("sys/").unwrap();
        self.link(&format!("sys/dev/block/{major}:{minor}"), &format!("../../{up}"));
        self.write(&format!("dev/{node}"), format!("b {major}:{minor}\n"));
    }

    /// A SATA disk sda of 480 GB.
    pub(crate) fn sata(&self) -> String {
        let folder = self.disk(SATA, "sda", (8, 0), 480_103_981_056);
        let device = format!("sys/devices/{SATA}");
        self.write(&format!("{device}/vendor"), "ATA     \n");
        self.write(&format!("{device}/model"), "Samsung SSD 860 \n");
        self.write(&format!("{device}/vpd_pg80"), b"\0\x80\0\x08S3Z8NB0K");
        self.write(&format!("{device}/scsi_disk/0:0:0:0/provisioning_mode"), "full\n");
        folder
    }

    /// A USB stick on port `2-N`, as disk `name` with minor `minor`.
    pub(crate) fn stick(&self, name: &str, minor: u32, usb: &UsbStick) -> String {
        let device = format!("pci0000:00/0000:00:14.0/usb2/{}", usb.port);
        let host = format!("{device}/{0}:1.0/host4/target4:0:0/4:0:0:{1}", usb.port, usb.lun);
        let folder = self.disk(&host, name, (8, minor), usb.bytes);
        self.write(&format!("{folder}/removable"), "1\n");
        self.write(&format!("sys/devices/{host}/vendor"), format!("{}\n", usb.vendor));
        self.write(&format!("sys/devices/{host}/model"), format!("{}\n", usb.model));
        for (file, text) in [
            ("idVendor", "0781"),
            ("idProduct", "5583"),
            ("speed", usb.speed),
            ("version", usb.version),
            ("serial", usb.serial),
            ("product", "Ultra Fit"),
        ] {
            self.write(&format!("sys/devices/{device}/{file}"), format!("{text}\n"));
        }
        let driver = format!("sys/devices/{device}/{}:1.0/driver", usb.port);
        if !self.dir.path().join(&driver).is_symlink() {
            self.link(&driver, &format!("../../../../../../bus/usb/drivers/{}", usb.driver));
        }
        folder
    }

    /// A virtual disk (`dm-0`, `md127`, `loop3`) over the named slaves.
    pub(crate) fn over(&self, name: &str, rdev: (u32, u32), slaves: &[&str]) -> String {
        let folder = self.disk("virtual/block", name, rdev, 1 << 30);
        for slave in slaves {
            let below = self.folder(slave);
            let up = "../".repeat(below.components().count() - 1);
            let relative = format!("sys/devices/virtual/block/{name}");
            self.link(&format!("{}/holders/{name}", below.display()), &format!("{up}{relative}"));
            self.link(
                &format!("{folder}/slaves/{slave}"),
                &format!("../../../../../../{}", below.display()),
            );
        }
        folder
    }

    /// A device-mapper device over the named slaves.
    pub(crate) fn mapping(&self, number: u32, name: &str, uuid: &str, slaves: &[&str]) {
        let folder = self.over(&format!("dm-{number}"), (253, number), slaves);
        self.write(&format!("{folder}/dm/name"), format!("{name}\n"));
        self.write(&format!("{folder}/dm/uuid"), format!("{uuid}\n"));
        self.link(&format!("dev/mapper/{name}"), &format!("../dm-{number}"));
    }

    /// The folder of a disk or partition relative to the root.
    fn folder(&self, name: &str) -> PathBuf {
        let list = self.dir.path().join("sys/dev/block");
        let links = fs::read_dir(list).unwrap().map(|entry| entry.unwrap().path());
        let link = links.map(|link| fs::read_link(link).unwrap()).find(|link| link.ends_with(name));
        Path::new("sys").join(link.unwrap().strip_prefix("../..").unwrap())
    }

    pub(crate) fn mount(&mut self, rdev: &str, at: &str, fs: &str, source: &str) {
        self.mount_with(rdev, at, fs, source, "rw");
    }

    pub(crate) fn mount_with(
        &mut self,
        rdev: &str,
        at: &str,
        fs: &str,
        source: &str,
        options: &str,
    ) {
        writeln!(self.mounts, "30 1 {rdev} / {at} rw shared:1 - {fs} {source} {options}").unwrap();
    }

    pub(crate) fn swap(&mut self, path: &str, kind: &str) {
        writeln!(self.swaps, "{path}    {kind}\t\t1024\t\t0\t\t-2").unwrap();
    }

    pub(crate) fn udev(&self, (major, minor): (u32, u32), properties: &[(&str, &str)]) {
        let mut text = String::from("I:12345\n");
        for (key, value) in properties {
            writeln!(text, "E:{key}={value}").unwrap();
        }
        self.write(&format!("run/udev/data/b{major}:{minor}"), text);
    }
}

/// What a stick says.
pub(crate) struct UsbStick {
    pub(crate) port: &'static str,
    pub(crate) lun: u32,
    pub(crate) bytes: u64,
    pub(crate) speed: &'static str,
    pub(crate) version: &'static str,
    pub(crate) driver: &'static str,
    pub(crate) vendor: &'static str,
    pub(crate) model: &'static str,
    pub(crate) serial: &'static str,
}

impl Default for UsbStick {
    fn default() -> Self {
        Self {
            port: "2-1",
            lun: 0,
            bytes: 30_752_636_928,
            speed: "5000",
            version: " 3.20",
            driver: "usb-storage",
            vendor: "SanDisk ",
            model: "Ultra Fit       ",
            serial: "4C530001",
        }
    }
}

/// Nodes are files with `b M:m`, `c M:m` or `p` in them.
pub(crate) fn stat(path: &Path) -> io::Result<NodeKind> {
    if fs::metadata(path)?.is_dir() {
        return Ok(NodeKind::Directory);
    }
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())?;
    let number = |kind: &str| parse::rdev(text.strip_prefix(kind)?);
    Ok(if let Some((major, minor)) = number("b ") {
        NodeKind::Block(major, minor)
    } else if let Some((major, minor)) = number("c ") {
        NodeKind::Char(major, minor)
    } else if text == "p" {
        NodeKind::Fifo
    } else {
        NodeKind::File
    })
}
