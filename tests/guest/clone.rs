//! A live system that was flashed to a USB disk, copied in the guest to a larger one, and booted from
//! that. What is mounted is refused as source.

use std::process::Command;
use std::sync::OnceLock;

use mediawriter::event::Phase;

use crate::machine::{Guest, Machine, Setup, Shared, boot, folder, old_disk, sparse, tool, usable};

const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/small.img,discard=unmap
-device usb-uas,id=uas,bus=xhci.0,serial=SMALL -device scsi-hd,bus=uas.0,drive=a
-drive if=none,id=b,format=raw,file=DIR/large.img
-device usb-storage,bus=xhci.0,drive=b,serial=LARGE,removable=on
-drive if=none,id=c,format=raw,file=DIR/stick.img
-device usb-storage,bus=ehci.0,drive=c,serial=STICK,removable=on
";

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("clone")?;
        let made =
            Command::new(tool("make-hybrid-iso")).arg(folder.join("hybrid.iso")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        sparse(&folder.join("small.img"), 64 << 20);
        // An old stick: what is not written shows.
        old_disk(&folder.join("large.img"), 96 << 20);
        sparse(&folder.join("stick.img"), 8 << 20);
        let script = include_str!("clone.sh");
        Machine::start(Setup { folder, script, options: OPTIONS, memory: 1024, seconds: 300 })?
            .finish()
    }))
}

#[test]
fn a_live_system_cloned_from_one_usb_disk_to_a_larger_one_boots() {
    let Some(guest) = guest() else { return };
    guest.run("live").ends_with(0);
    guest.run("clone").ends_with(0).says(&["every byte matches"]);
    // The source is what it was.
    guest.run("verify").ends_with(0);
    let record = guest.record("clone");
    assert!(record.media_verdict.as_ref().unwrap().is_match() && record.head_released);
    assert_eq!(record.source.as_ref().unwrap().kind, "device");
    assert!(record.phase(Phase::Verify).unwrap().ended);
    let disk = guest.folder.join("large.img");
    for firmware in ["seabios", "ovmf"] {
        boot(&disk, &["--fw", firmware, "--expect", "mediawriter-test login:"]);
    }
}

#[test]
fn a_mounted_source_is_refused_and_a_fat_cannot_be_frozen() {
    let Some(guest) = guest() else { return };
    guest.run("mounted").ends_with(3).says(&["is mounted at /mnt/stick", "[source-mounted]"]);
    guest.run("frozen").ends_with(3).says(&["cannot be frozen", "umount /mnt/stick"]);
    guest.run("same").ends_with(3).says(&["[source-on-target]"]);
}
