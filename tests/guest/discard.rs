//! Disks with and without discard, by UAS and bulk-only, on USB 2 and 3; 4096-byte sectors; trim;
//! eject. What was written is booted afterwards.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use mediawriter::event::{Phase, Verdict};

use crate::lab::disk_image;
use crate::machine::{
    Guest, Machine, Run, Setup, Shared, boot, folder, old_disk, sparse, tool, usable,
};

/// Memtest86+ 6 for BIOS and UEFI, from the Debian package memtest86+.
const MEMTEST: &str = "/usr/lib/memtest86+/memtest86+x64.iso";

/// Two controllers: one has four ports.
const OPTIONS: &str = r#"
-device qemu-xhci,id=xhci2
-drive if=none,id=a,format=raw,file=DIR/uas.img,discard=unmap
-device usb-uas,id=uas,bus=xhci.0,serial=UAS1 -device scsi-hd,bus=uas.0,drive=a
-drive if=none,id=b,format=raw,file=DIR/bot.img,discard=unmap
-device usb-bot,id=bot,bus=xhci.0,serial=BOT1 -device scsi-hd,bus=bot.0,drive=b
-drive if=none,id=c,format=raw,file=DIR/big.img
-device usb-bot,id=big,bus=xhci2.0,serial=BOT4K
-device scsi-hd,bus=big.0,drive=c,logical_block_size=4096,physical_block_size=4096
-blockdev {"driver":"blkdebug","node-name":"d","discard":"unmap","image":{"driver":"file","filename":"DIR/no.img","discard":"unmap"},"inject-error":[{"event":"none","iotype":"discard","errno":22}]}
-device usb-storage,bus=xhci2.0,drive=d,serial=NOUNMAP
-drive if=none,id=e,format=raw,file=DIR/usb2.img
-device usb-storage,bus=ehci.0,drive=e,serial=USB2,removable=on
-drive if=none,id=f,format=raw,file=DIR/usb3.img
-device usb-storage,bus=xhci2.0,drive=f,serial=USB3,removable=on
"#;

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("discard")?;
        for (name, bytes) in [("uas", 96 << 20), ("bot", 96 << 20), ("no", 32 << 20)] {
            old_disk(&folder.join(format!("{name}.img")), bytes);
        }
        for (name, bytes) in [("big", 48 << 20), ("usb2", 48 << 20), ("usb3", 48 << 20)] {
            sparse(&folder.join(format!("{name}.img")), bytes);
        }
        fs::copy(MEMTEST, folder.join("memtest.iso")).unwrap();
        let made =
            Command::new(tool("make-hybrid-iso")).arg(folder.join("hybrid.iso")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for odd in [1, 511, 513, 4095] {
            let image = disk_image((1 << 20) + odd, odd);
            fs::write(folder.join(format!("odd{odd}.img")), image).unwrap();
        }
        let setup = Setup {
            folder,
            script: include_str!("discard.sh"),
            options: OPTIONS,
            memory: 1024,
            seconds: 300,
        };
        Machine::start(setup)?.finish()
    }))
}

/// A run of flash that did all it should: exit code, verdict, and the bytes on the medium.
fn flashed(guest: &Guest, name: &str, image: &str, disk: Option<&str>) {
    let run = guest.run(name);
    run.ends_with(0).says(&["read back: every byte matches"]);
    let record = guest.record(name);
    let bytes = guest.file(image).len() as u64;
    assert_eq!(record.media_verdict, Some(Verdict::Matched { bytes }), "{name}");
    assert!(record.succeeded() && record.head_released);
    let written: u64 = [Phase::Write, Phase::Release]
        .iter()
        .map(|phase| record.phase(*phase).unwrap().totals.bytes)
        .sum();
    assert_eq!(written, bytes, "{name}");
    if let Some(disk) = disk {
        assert!(guest.holds(disk, image), "{disk} does not begin with {image}");
    }
}

#[test]
fn b73_blocks_are_given_back_by_uas_before_the_write() {
    let Some(guest) = guest() else { return };
    flashed(guest, "uas-memtest", "memtest.iso", None);
    flashed(guest, "uas-hybrid", "hybrid.iso", Some("uas.img"));
    let (before, after) = (guest.number("uas.before"), guest.number("uas.after"));
    // Of what was discarded only the image and the cleared ends were written again.
    let written = (guest.file("memtest.iso").len() as u64 + (2 << 20)) / 512;
    assert!(before >= (96 << 20) / 512 && after <= written + 1024, "{before} {after} {written}");
    for (name, setting) in [("uas-memtest", "auto"), ("uas-hybrid", "always")] {
        let record = guest.record(name);
        assert_eq!(record.settings.as_ref().unwrap().discard, setting);
        let discard = record.phase(Phase::Discard).unwrap();
        assert!(discard.ended && discard.totals.nanos > 0);
        assert_eq!(discard.totals.bytes, 94 << 20, "all but a MiB at each end");
        assert_eq!(record.discard_chunks.iter().map(|chunk| chunk.span.len).sum::<u64>(), 94 << 20);
        let usb = record.device.unwrap().usb.unwrap();
        assert_eq!((usb.driver.as_deref(), usb.speed_mbit), (Some("uas"), Some(5000)));
    }
}

#[test]
fn b73_a_bulk_only_disk_that_announces_unmap_is_explained_and_switched_on_request() {
    let Some(guest) = guest() else { return };
    let explained = guest.run("explain");
    explained.ends_with(1).says(&[
        "discard_max_bytes is 0, provisioning_mode is full",
        "VPD B2 LBPU (UNMAP) 1",
        "LBPME 1",
        "bulk-only (usb-storage)",
        "to try it: echo unmap | sudo tee /sys/devices/",
        "/provisioning_mode",
        "--enable-unmap",
        "Risk",
        "--zero",
    ]);
    assert_eq!(guest.text("mode.before"), "full", "nothing is switched without being asked");
    guest.run("enable").ends_with(0).says(&[
        "wrote unmap to /sys/devices/",
        "100663296 bytes discarded",
        "64 return zeros",
    ]);
    assert_eq!(guest.text("mode.after"), "unmap");
    assert_eq!(guest.number("bot.before"), (96 << 20) / 512);
    assert_eq!(guest.number("bot.after"), 0, "the whole file behind the disk was punched out");
    let record = guest.record("enable");
    assert_eq!(record.phase(Phase::Discard).unwrap().totals.bytes, 96 << 20);
}

#[test]
fn b74_a_forced_provisioning_mode_that_the_bridge_refuses_is_a_warning() {
    let Some(guest) = guest() else { return };
    flashed(guest, "forced", "memtest.iso", Some("no.img"));
    let record = guest.record("forced");
    let warning = record.warnings.iter().find(|w| w.code == "discard-failed").unwrap();
    assert!(warning.message.contains("going on without"), "{}", warning.message);
    // sd itself gives up on discard then; nothing of ours touched the mode.
    assert_eq!(guest.text("mode.forced"), "disabled");
    assert!(record.phase(Phase::Discard).is_some());

    guest.run("no-unmap").ends_with(1).says(&[
        "does not do discard",
        "wrote unmap to /sys/",
        "wrote full to /sys/",
    ]);
    assert_eq!(guest.text("mode.no-unmap"), "full", "what was switched on was put back");
}

#[test]
fn b75_a_stick_without_discard_is_flashed_all_the_same_unless_discard_is_demanded() {
    let Some(guest) = guest() else { return };
    flashed(guest, "auto", "memtest.iso", None);
    let name = guest.text("usb2.name");
    let record = guest.record("auto");
    let note = record.notes.iter().find(|note| note.code == "discard-unsupported").unwrap();
    assert_eq!(note.message, format!("{name} offers no discard: skipped"));
    assert!(record.phase(Phase::Discard).is_none());

    guest.run("always").ends_with(3).says(&[&format!("{name} offers no discard")]);
    let written = |name: &str| guest.counters(name).1;
    assert_eq!(written("always.stat-before"), written("always.stat-after"), "nothing was written");
}

#[test]
fn sectors_of_4096_bytes_take_images_of_any_length() {
    let Some(guest) = guest() else { return };
    let hybrid = guest.run("big-hybrid");
    hybrid.ends_with(0).says(&["counts in 512-byte sectors and the medium has 4096-byte sectors"]);
    flashed(guest, "big-hybrid", "hybrid.iso", None);
    let refused = guest.run("big-partitioned");
    refused.ends_with(3).says(&["sector-size", "4096-byte sectors", "--force"]);
    for (name, image, disk) in [
        ("big-odd1", "odd1.img", None),
        ("big-odd511", "odd511.img", None),
        ("big-odd4095", "odd4095.img", Some("big.img")),
        ("small-odd1", "odd1.img", None),
        ("small-odd513", "odd513.img", None),
    ] {
        flashed(guest, name, image, disk);
    }
    // The last sector is filled up with zeros, and not counted.
    let (medium, len) = (guest.file("big.img"), (1 << 20) + 4095);
    assert_eq!(medium[len], 0);
    assert_eq!(guest.record("big-odd4095").geometry.unwrap().logical_block, 4096);
}

#[test]
fn b81_trim_has_a_line_for_every_filesystem() {
    let Some(guest) = guest() else { return };
    let bot = guest.text("bot.name");
    let path = guest.run("trim-path");
    path.ends_with(0);
    let bytes = |line: &str| -> u64 {
        let (_, rest) = line.split_once(": ").unwrap();
        rest.split_once(" bytes trimmed").unwrap_or_else(|| panic!("{line}")).0.parse().unwrap()
    };
    assert!(
        path.out.starts_with("/mnt/ext4 (ext4, on /dev/") && bytes(&path.out) > 10 << 20,
        "{}",
        path.out
    );
    let disk = guest.run("trim-disk");
    disk.ends_with(0);
    let lines: Vec<&str> = disk.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}", disk.out);
    assert!(bytes(lines[1]) > 24 << 20, "the deleted file was trimmed: {}", disk.out);
    for (n, line) in (1..).zip(&lines) {
        assert!(line.starts_with(&format!("{bot}{n}")), "{line}");
        assert_eq!(line.ends_with("not mounted, skipped"), n > 2, "{line}");
    }
    let (before, after) = (guest.number("trim.before"), guest.number("trim.after"));
    // A little less than the file: the host's filesystem gives back whole blocks of its own.
    assert!(before >= after + (20 << 20) / 512, "{before} {after}");
    assert_eq!(guest.text("trim.kept"), "kept\nkept", "no file was lost");

    let none = guest.run("trim-none");
    none.ends_with(3).says(&["is mounted", "mount it first"]);
    let cannot = guest.run("trim-cannot");
    cannot.ends_with(1).says(&["/mnt/other (ext4, on /dev/", "): not supported here"]);
}

/// The entry of a device with this serial number in `devices --json`.
fn listed(list: &Run, serial: &str) -> serde_json::Value {
    let list: serde_json::Value = serde_json::from_str(&list.out).unwrap();
    let devices = list["devices"].as_array().unwrap();
    devices.iter().find(|device| device["serial"] == serial).unwrap().clone()
}

#[test]
fn b105_links_and_transports_are_told_apart() {
    let Some(guest) = guest() else { return };
    let list = guest.run("devices");
    list.ends_with(0);
    for (serial, mbit, transport, removable, discard) in [
        ("USB2", 480, "bulk-only", true, false),
        ("USB3", 5000, "bulk-only", true, false),
        ("BOT1", 5000, "bulk-only", false, false),
        ("UAS1", 5000, "uas", false, true),
    ] {
        let device = listed(&list, serial);
        assert_eq!(device["usb"]["speed_mbit"], mbit, "{device}");
        assert_eq!(device["usb"]["transport"], transport, "{device}");
        assert_eq!(device["removable"], removable, "{device}");
        assert_eq!(device["discard"]["offered"], discard, "{device}");
        // QEMU's stick is a plain USB 2 one on that port: it can do no more than the link does.
        let capable = device["usb"]["superspeed_capable"] == true;
        assert_eq!(capable && mbit == 480, !device["warnings"].as_array().unwrap().is_empty());
        assert_eq!(device["flash"]["accepted"], true, "USB disks may be called fixed: {device}");
    }
    guest.run("list").ends_with(0).says(&["480 Mbit/s link, bulk-only", "5 Gbit/s link, UAS"]);
    guest.run("auto").says(&["link 480 Mbit/s"]);
    guest.run("uas-hybrid").says(&["link 5000 Mbit/s", "driver uas"]);
}

#[test]
fn eject_takes_the_stick_off_the_bus() {
    let Some(guest) = guest() else { return };
    flashed(guest, "eject", "memtest.iso", Some("usb3.img"));
    guest.run("eject").says(&["it can be pulled out"]);
    assert_eq!(guest.text("eject.gone"), "");
}

/// Boots what a guest wrote.
fn boots(disk: &str, arguments: &[&str]) {
    let Some(guest) = guest() else { return };
    boot(&guest.folder.join(disk), arguments);
}

#[test]
fn a_flashed_hybrid_iso_boots_with_bios_and_uefi() {
    for firmware in ["seabios", "ovmf"] {
        boots("uas.img", &["--fw", firmware, "--expect", "mediawriter-test login:"]);
    }
}

#[test]
fn a_flashed_memtest_boots_with_bios_and_uefi() {
    boots("usb3.img", &["--bios-text", "--expect", "Memtest86"]);
    // Under UEFI it draws on the framebuffer: its blue background is what there is to see.
    boots("usb3.img", &["--fw", "ovmf", "--pixel", "0,0,170:0.3"]);
}
