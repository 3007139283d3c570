//! Disks in use are refused with the way to release them, partitions are not taken for disks, the
//! disk of the system is never touched, and nobody mounts what is being written.

use std::fs;
use std::sync::OnceLock;

use mediawriter::event::Verdict;

use crate::lab::disk_image;
use crate::machine::{Guest, Machine, Setup, Shared, folder, sparse, usable};

const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/held.img
-device usb-storage,bus=xhci.0,drive=a,serial=HELD
-drive if=none,id=b,format=raw,file=DIR/system.img
-device usb-storage,bus=xhci.0,drive=b,serial=SYSTEM
-drive if=none,id=c,format=raw,file=DIR/target.img,throttling.bps-write=10000000
-device usb-storage,bus=xhci.0,drive=c,serial=TARGET
";

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("holders")?;
        for name in ["held", "system", "target"] {
            sparse(&folder.join(format!("{name}.img")), 64 << 20);
        }
        fs::write(folder.join("small.img"), disk_image(6 << 20, 21)).unwrap();
        let setup = Setup {
            folder,
            script: include_str!("holders.sh"),
            options: OPTIONS,
            memory: 1024,
            seconds: 300,
        };
        Machine::start(setup)?.finish()
    }))
}

#[test]
fn b16_b17_every_holder_is_named_at_once_with_the_command_that_releases_it() {
    let Some(guest) = guest() else { return };
    let held = guest.text("held.name");
    let sentences: Vec<String> = [
        "1 is mounted at /mnt/stick [mounted]",
        "2 is active swap space [swap]",
        "3 carries the LVM volume my--group-vol [held]",
        "4 is a member of the RAID array md7 [held]",
        "5 is open as encrypted volume my-secret [held]",
        "6 is part of the device-mapper device piece [held]",
    ]
    .iter()
    .map(|sentence| format!("{held}{sentence}"))
    .collect();
    let words: Vec<&str> = sentences.iter().map(String::as_str).collect();
    guest.run("held").ends_with(3).says(&words);
    // Flags that lift other things lift none of these; only the mount is set aside by --unmount.
    guest.run("held-force").ends_with(3).says(&words[1..]);
    guest.run("held-discard").ends_with(3).says(&words[1..]);
    guest.run("held-list").ends_with(0).says(&["/dev/md7", "my-secret"]);
    assert_eq!(guest.text("held.before"), guest.text("held.after"), "the disk was not touched");

    let commands = guest.text("held.commands");
    for command in [
        "umount /mnt/stick".to_owned(),
        format!("swapoff {held}2"),
        "lvm vgchange -an my-group".to_owned(),
        "mdadm --stop /dev/md7".to_owned(),
        "cryptsetup close my-secret".to_owned(),
        "dmsetup remove piece".to_owned(),
    ] {
        assert!(commands.lines().any(|line| line == command), "{command}:\n{commands}");
    }
    guest.run("held-free").ends_with(0).says(&["Dry run"]);
}

#[test]
fn a_disk_in_use_can_be_verified() {
    let Some(guest) = guest() else { return };
    guest.run("held-verify").ends_with(5);
}

#[test]
fn b26_b27_a_partition_is_refused_with_the_name_of_its_disk() {
    let Some(guest) = guest() else { return };
    let held = guest.text("held.name");
    for name in ["part", "part-link"] {
        guest.run(name).ends_with(3).says(&[
            &format!("refusing to write to {held}1"),
            &format!("it is a partition of {held}; images go to whole disks [partition]"),
            &format!("name {held} if the whole disk is meant"),
        ]);
    }
    guest.run("whole-link").ends_with(0).says(&[&held, "Dry run"]);
}

#[test]
fn b109_the_disk_below_the_system_is_refused_through_mappings_and_swap_files() {
    let Some(guest) = guest() else { return };
    let system = guest.text("system.name");
    let name = system.trim_start_matches("/dev/");
    guest.run("system").ends_with(3).says(&[
        &format!("refusing to write to {system}"),
        "the running system needs it: it holds /boot (through ",
        &format!("{name}1"),
        "[system-disk]",
        "no option lifts this",
    ]);
    guest.run("system-list").ends_with(0).says(&["holds /boot", "system-disk"]);
    guest.run("swapfile").ends_with(3).says(&["active swap file /mnt/stick/swap", "[system-disk]"]);
}

#[test]
fn b30_a_disk_that_ignores_writes_is_found_out() {
    let Some(guest) = guest() else { return };
    guest.run("liar").ends_with(3).says(&["[virtual]", "--force"]);
    let run = guest.run("liar-force");
    run.ends_with(5).says(&["ignore"]);
    let record = guest.record("liar-force");
    assert!(matches!(record.media_verdict, Some(Verdict::Mismatched { .. })));
    assert!(record.first_difference.is_some() && !record.bad_ranges.is_empty());
}

#[test]
fn b32_nobody_mounts_the_stick_until_it_is_verified() {
    let Some(guest) = guest() else { return };
    let image = guest.file("dirty.img");
    // The ext4 superblock is 1024 bytes into the partition at 1 MiB; INCOMPAT_RECOVER is bit 2.
    assert_eq!(image[(1 << 20) + 1024 + 0x60] & 4, 4, "its journal has to be replayed");
    guest.run("auto").ends_with(0).says(&["every byte matches"]);
    let record = guest.record("auto");
    assert!(record.media_verdict.as_ref().unwrap().is_match());
    assert!(guest.number("during.tries") > 3, "{}", guest.text("during.tries"));
    let seconds = |name: &str| guest.text(name).parse::<f64>().unwrap();
    let kept: f64 = record.phases.iter().map(|phase| phase.totals.nanos as f64 / 1e9).sum();
    let mounted = seconds("during.mounted") - seconds("auto.start");
    assert!(mounted >= kept - 0.02, "mounted after {mounted} s of {kept} s");
    assert!(seconds("before.mounted") <= seconds("auto.start"), "the automounter can mount");
}

#[test]
fn b32_a_mount_after_the_flash_is_told_from_a_bad_stick() {
    let Some(guest) = guest() else { return };
    let run = guest.run("auto-verify");
    run.ends_with(5).says(&["mount"]);
}
