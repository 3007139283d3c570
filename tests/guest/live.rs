//! A live ISO of tests/lab/make-live-iso, flashed in a guest and booted from the flashed disk in
//! both firmwares. Not part of a usual run: making the ISO needs a mirror of Debian, and its boots
//! take minutes each in emulation; the small hybrid ISO of `discard` stands for it there.
//!
//! MEDIAWRITER_LIVE_ISO=/var/tmp/live.iso cargo test --test guest live -- --ignored

use std::fs;
use std::path::PathBuf;

use mediawriter::event::{Phase, Verdict};

use crate::machine::{Machine, Setup, boot, folder, old_disk, usable};

const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/live.img,discard=unmap
-device usb-uas,id=uas,bus=xhci.0,serial=LIVE -device scsi-hd,bus=uas.0,drive=a
";

#[test]
#[ignore = "needs MEDIAWRITER_LIVE_ISO=FILE (tests/lab/make-live-iso FILE) and ten minutes"]
fn a_flashed_live_iso_boots_to_its_login_with_bios_and_uefi() {
    let iso = PathBuf::from(
        std::env::var_os("MEDIAWRITER_LIVE_ISO").expect("MEDIAWRITER_LIVE_ISO is not set"),
    );
    let made = folder("live").and_then(|folder| {
        old_disk(&folder.join("live.img"), 512 << 20);
        fs::copy(&iso, folder.join("live.iso")).unwrap();
        let script = include_str!("live.sh");
        Machine::start(Setup { folder, script, options: OPTIONS, memory: 1024, seconds: 400 })?
            .finish()
    });
    let Some(guest) = usable(&made) else { return };
    guest.run("live").ends_with(0).says(&["read back: every byte matches"]);
    let record = guest.record("live");
    let bytes = fs::metadata(&iso).unwrap().len();
    assert_eq!(record.media_verdict, Some(Verdict::Matched { bytes }));
    assert!(record.phase(Phase::Discard).unwrap().ended && record.head_released);
    let (before, after) = (guest.number("live.before"), guest.number("live.after"));
    println!("blocks of 512 bytes behind the disk: {before} before, {after} after");
    assert!(after < before && after <= bytes / 512 + (4 << 20) / 512, "{before} {after}");
    for firmware in ["seabios", "ovmf"] {
        let options = ["--fw", firmware, "--expect", "login:", "--timeout", "600", "--mem", "1024"];
        println!("{firmware}: {} s to the login", boot(&guest.folder.join("live.img"), &options));
    }
}
