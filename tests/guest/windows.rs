//! Install media of Windows on a UAS disk, looked at afterwards by other programs and booted; and
//! made over and over on a stick that a desktop mounts as soon as it sees a partition.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use mediawriter::event::Phase;

use crate::lab::{find, sh, skip};
use crate::machine::{Guest, Machine, Setup, Shared, boot, folder, sparse, tool, usable};

const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/uas.img,discard=unmap
-device usb-uas,id=uas,bus=xhci.0,serial=UAS -device scsi-hd,bus=uas.0,drive=a
-drive if=none,id=b,format=raw,file=DIR/stick.img
-device usb-storage,bus=xhci.0,drive=b,serial=STICK,removable=on
";

const TOOLS: [&str; 8] = [
    "genisoimage",
    "wimlib-imagex",
    "mcopy",
    "mkfs.vfat",
    "fsck.vfat",
    "grub-mkimage",
    "sgdisk",
    "diff",
];

fn has_tools() -> bool {
    let missing = TOOLS.into_iter().find(|tool| find(tool).is_none());
    if let Some(tool) = missing {
        skip(&format!("{tool} is not installed (tests/lab/packages.txt)"));
    }
    missing.is_none()
}

fn make_iso(folder: &Path, size: &str) {
    let work = folder.join(format!("work-{size}"));
    let [out, work] =
        [folder.join(format!("{size}.iso")), work].map(|path| path.display().to_string());
    sh(
        &tool("windows-iso").display().to_string(),
        &["--size", size, "--out", &out, "--work", &work],
    );
}

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    if !has_tools() {
        return None;
    }
    usable(GUEST.get_or_init(|| {
        let folder = folder("windows")?;
        for size in ["small", "tiny"] {
            make_iso(&folder, size);
        }
        sparse(&folder.join("uas.img"), 256 << 20);
        sparse(&folder.join("stick.img"), 128 << 20);
        let setup = Setup {
            folder,
            script: include_str!("windows.sh"),
            options: OPTIONS,
            memory: 1024,
            seconds: 600,
        };
        Machine::start(setup)?.finish()
    }))
}

#[test]
fn a_windows_iso_on_a_uas_disk_passes_every_referee_and_boots() {
    let Some(guest) = guest() else { return };
    guest.run("uas").ends_with(0).says(&["read back: every byte matches", "all 287 files"]);
    guest.run("uas-verify").ends_with(0).says(&["every byte matches"]);
    let record = guest.record("uas");
    let usb = record.device.as_ref().unwrap().usb.as_ref().unwrap();
    assert_eq!(usb.driver.as_deref(), Some("uas"));
    assert!(record.head_released && record.phase(Phase::Files).unwrap().ended);
    let disk = guest.folder.join("uas.img");
    let shown = disk.display().to_string();
    assert!(sh("sgdisk", &["-v", &shown]).contains("No problems found"));
    let [volume, out] =
        ["volume.img", "copied"].map(|name| guest.folder.join(name).display().to_string());
    fs::create_dir_all(&out).unwrap();
    let (from, to) = (format!("if={shown}"), format!("of={volume}"));
    sh("dd", &[&from, &to, "bs=1M", "skip=1", "conv=sparse", "status=none"]);
    sh("fsck.vfat", &["-n", &volume]);
    let copied = Command::new("mcopy")
        .args(["-s", "-m", "-Q", "-i", &volume, "::*", &out])
        .env("LC_ALL", "C.UTF-8")
        .env("MTOOLS_SKIP_CHECK", "1")
        .status();
    assert!(copied.unwrap().success());
    let files = guest.folder.join("work-small/small/iso").display().to_string();
    assert_eq!(sh("diff", &["-r", &files, &out]), "");
    boot(&disk, &["--fw", "ovmf", "--expect", "WINLAB-BOOT-DEV dev=hd0,gpt1 fs=fat"]);
    boot(&disk, &["--fw", "ovmf", "--expect", "WINLAB-BOOT-OK"]);
}

#[test]
fn b95_a_desktop_that_mounts_every_partition_at_once_does_not_get_in_the_way() {
    let Some(guest) = guest() else { return };
    guest.run("held").ends_with(3).says(&["[mounted]"]);
    for number in 1..=10 {
        let name = format!("made{number}");
        guest.run(&name).ends_with(0).says(&["read back: every byte matches"]);
        let record = guest.record(&name);
        assert!(record.media_verdict.as_ref().unwrap().is_match() && record.head_released);
    }
    // The desktop did mount: the partition that was there, and each of the ten that were made.
    assert_eq!(guest.text("mounted").lines().count(), 11, "{}", guest.text("seen"));
    assert_eq!(
        guest.text("files").lines().count(),
        10,
        "files of Windows were to be seen each time"
    );
    boot(&guest.folder.join("stick.img"), &["--fw", "ovmf", "--expect", "WINLAB-BOOT-OK"]);
}
