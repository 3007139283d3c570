//! Users without root on a Linux with the real udisks2, polkit and udev (tests/lab/udisks-root): a
//! stick is theirs to write where polkit says so, the disk of the system never is.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use mediawriter::event::Verdict;

use crate::lab::disk_image;
use crate::machine::{Guest, Machine, Setup, Shared, Trouble, folder, old_disk, tool, usable};

const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/stick.img
-device usb-storage,bus=ehci.0,drive=a,serial=STICK,removable=on
-drive if=none,id=b,format=raw,file=DIR/ssd.img,discard=unmap
-device usb-uas,id=uas,bus=xhci.0,serial=SSD -device scsi-hd,bus=uas.0,drive=b
-drive if=none,id=c,format=raw,file=DIR/built.img
-device virtio-blk-pci,drive=c
";

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("rootless")?;
        for name in ["stick", "ssd", "built"] {
            old_disk(&folder.join(format!("{name}.img")), 64 << 20);
        }
        fs::write(folder.join("small.img"), disk_image(6 << 20, 31)).unwrap();
        let made = Command::new(tool("udisks-root")).arg(folder.join("root.tar")).output().unwrap();
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr);
            return Err(Trouble::Skip(format!("udisks-root (tests/lab/packages.txt): {why}")));
        }
        let script = include_str!("rootless.sh");
        Machine::start(Setup { folder, script, options: OPTIONS, memory: 1024, seconds: 600 })?
            .finish()
    }))
}

#[test]
fn a_user_flashes_a_removable_disk_and_it_is_verified() {
    let Some(guest) = guest() else { return };
    let stick = guest.text("stick.name");
    guest.run("devices").ends_with(0).says(&[&stick, "/dev/vda"]);
    guest.run("flash").ends_with(0).says(&["asking udisks2", "every byte matches"]).never_says(&[
        "not reread",
        "did not read the new partition table",
        "refuses O_DIRECT",
    ]);
    let record = guest.record("flash");
    assert_eq!(record.media_verdict, Some(Verdict::Matched { bytes: 6 << 20 }));
    assert!(record.geometry.as_ref().unwrap().direct && record.head_released);
    assert!(guest.holds("stick.img", "small.img"));
    assert_eq!((guest.number("parts.before"), guest.number("parts.after")), (0, 1));
    guest.run("verify").ends_with(0).says(&["asking udisks2"]);
    guest.run("bench").ends_with(0).says(&["asking udisks2"]);
}

#[test]
fn the_disk_of_the_system_is_refused_by_us_and_by_polkit() {
    let Some(guest) = guest() else { return };
    let asked = "asking udisks2";
    guest.run("system").ends_with(3).says(&["[system-disk]"]).never_says(&[asked]);
    guest.run("fixed").ends_with(3).says(&["[fixed-disk]"]).never_says(&[asked]);
    guest.run("polkit").ends_with(3).says(&[
        asked,
        "/dev/vda was not opened for you, nothing was written: polkit does not allow it to you",
        "sudo /host/mediawriter flash /tmp/small.img /dev/vda --yes --force",
    ]);
    guest.run("polkit-read").ends_with(3).says(&["polkit does not allow it to you"]);
    assert_eq!(guest.text("built.before"), guest.text("built.after"));
}

#[test]
fn who_would_have_to_give_a_password_is_told_so() {
    let Some(guest) = guest() else { return };
    guest.run("bob").ends_with(3).says(&[
        "polkit wants a password, and there is no dialog to ask for it here",
        "sudo /host/mediawriter flash",
    ]);
    let refused = guest.run("bob-mounted");
    refused.ends_with(3).says(&["/mnt/stick was not unmounted", "polkit wants a password"]);
}

#[test]
fn a_user_unmounts_discards_and_ejects() {
    let Some(guest) = guest() else { return };
    guest.run("mounted").ends_with(3).says(&["[mounted]"]).never_says(&["asking udisks2"]);
    guest.run("unmount").ends_with(0).says(&["unmounted /mnt/stick", "every byte matches"]);
    guest.run("discard").ends_with(0).says(&["discarded"]);
    assert!(guest.number("ssd.blocks") < 1024, "{}", guest.text("ssd.blocks"));
    guest.run("eject").ends_with(0).says(&["ejected: it can be pulled out"]);
}

#[test]
fn without_udisks2_there_is_the_line_with_sudo() {
    let Some(guest) = guest() else { return };
    guest.run("alone").ends_with(1).says(&[
        "Permission denied",
        "sudo /host/mediawriter flash",
        "udisks2 could not be asked",
    ]);
}
