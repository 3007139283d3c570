//! Facts of test systems, and of loop devices where the test may make them.

use std::path::{Path, PathBuf};

use super::fixture::{Fixture, PORT, SATA, UsbStick};
use super::{System, parse};
use crate::device::facts::{Bus, Facts, Use, User};
use crate::device::storage::Id;

fn facts(fixture: &Fixture, path: &str) -> Facts {
    fixture.system().facts(Path::new(path)).unwrap()
}

fn used(device: &str, by: User) -> Use {
    Use { device: PathBuf::from(device), by }
}

fn mounted(device: &str, at: &str) -> Use {
    used(device, User::Mount { at: PathBuf::from(at) })
}

#[expect(clippy::unnecessary_wraps, reason = "it stands for optional strings of facts")]
fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

#[test]
fn a_sata_disk_with_the_root_says_why_it_is_needed() {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda1", (8, 1), 1 << 20, 512 << 20);
    fixture.part(&disk, "sda2", (8, 2), 513 << 20, 400 << 30);
    fixture.mount("8:2", "/", "ext4", "/dev/sda2");
    fixture.mount("8:2", "/home", "ext4", "/dev/sda2");
    fixture.mount("8:1", "/boot/efi", "vfat", "/dev/sda1");
    fixture
        .udev((8, 0), &[("ID_MODEL_ENC", "Samsung\\x20SSD\\x20860\\x20EVO\\x20500GB\\x20\\x20")]);
    let facts = facts(&fixture, "/dev/sda");
    assert_eq!(facts.system, text("holds / and /home (on sda2); holds /boot/efi (on sda1)"));
    assert_eq!((facts.bus, facts.removable), (Bus::Ata, false));
    assert_eq!(facts.model, text("Samsung SSD 860 EVO 500GB"));
    assert_eq!(facts.serial, text("S3Z8NB0K"));
    assert_eq!(facts.vendor, None);
    assert_eq!(facts.discard.provisioning_mode, text("full"));
    assert!(
        facts.discard.provisioning_file.unwrap().ends_with("scsi_disk/0:0:0:0/provisioning_mode")
    );
    assert_eq!(
        facts.uses,
        [
            mounted("/dev/sda1", "/boot/efi"),
            mounted("/dev/sda2", "/home"),
            mounted("/dev/sda2", "/")
        ]
    );
    let starts: Vec<u64> = facts.partitions.iter().map(|part| part.start).collect();
    assert_eq!(starts, [1 << 20, 513 << 20]);
}

#[test]
fn a_root_on_lvm_in_luks_is_traced_to_its_disk_and_all_layers_are_listed() {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda3", (8, 3), 1 << 30, 400 << 30);
    fixture.mapping(0, "luks-1", "CRYPT-LUKS2-abc-luks-1", &["sda3"]);
    fixture.mapping(1, "vg0-root", "LVM-abc", &["dm-0"]);
    fixture.mapping(2, "vg0-swap", "LVM-def", &["dm-0"]);
    fixture.mount("253:1", "/", "ext4", "/dev/mapper/vg0-root");
    fixture.swap("/dev/dm-2", "partition");
    let facts = facts(&fixture, "/dev/sda");
    assert_eq!(
        facts.system,
        text(
            "holds / (through dm-1 vg0-root, dm-0 luks-1, sda3); \
             holds active swap (through dm-2 vg0-swap, dm-0 luks-1, sda3)"
        )
    );
    let lvm = |name: &str| used("/dev/mapper/luks-1", User::Lvm { name: name.to_owned() });
    assert_eq!(
        facts.uses,
        [
            mounted("/dev/mapper/vg0-root", "/"),
            lvm("vg0-root"),
            used("/dev/mapper/vg0-swap", User::Swap),
            lvm("vg0-swap"),
            used("/dev/sda3", User::Crypt { name: "luks-1".to_owned() }),
        ]
    );
}

/// A mirror of sda1 and sdb1 at /home, a btrfs of sda2 and sdc1 at /.
fn mirror_and_btrfs() -> Fixture {
    let mut fixture = Fixture::new();
    let first = fixture.sata();
    let second = fixture.disk(&SATA.replace("ata1", "ata2"), "sdb", (8, 16), 1 << 40);
    let third = fixture.disk(&SATA.replace("ata1", "ata3"), "sdc", (8, 32), 1 << 40);
    for (disk, name, minor) in [(&first, "sda1", 1), (&second, "sdb1", 17), (&third, "sdc1", 33)] {
        fixture.part(disk, name, (8, minor), 1 << 20, 1 << 30);
    }
    fixture.part(&first, "sda2", (8, 2), 2 << 30, 1 << 30);
    fixture.over("md127", (9, 127), &["sda1", "sdb1"]);
    fixture.part("sys/devices/virtual/block/md127", "md127p1", (259, 0), 1 << 20, 1 << 29);
    fixture.mount("259:0", "/home", "ext4", "/dev/md127p1");
    let btrfs = "sys/fs/btrfs/0f0f/devices";
    fixture.write("sys/fs/btrfs/features/raid1c34", "0\n");
    fixture.write(&format!("{btrfs}/sda2"), "");
    fixture.write(&format!("{btrfs}/sdc1"), "");
    // The other member is not the one it was mounted from.
    fixture.mount("0:30", "/", "btrfs", "/dev/sdc1");
    fixture
}

#[test]
fn both_disks_of_a_mirror_and_of_a_btrfs_are_needed() {
    let fixture = mirror_and_btrfs();
    let member = |name: &str| used(name, User::Btrfs { uuid: "0f0f".to_owned() });
    let array = |name: &str| used(name, User::Md { name: "md127".to_owned() });
    let sda = facts(&fixture, "/dev/sda");
    assert_eq!(sda.system, text("holds / (on sda2); holds /home (through md127p1, md127, sda1)"));
    assert_eq!(
        sda.uses,
        [
            mounted("/dev/md127p1", "/home"),
            array("/dev/sda1"),
            mounted("/dev/sda2", "/"),
            member("/dev/sda2")
        ]
    );
    let sdb = facts(&fixture, "/dev/sdb");
    assert_eq!(sdb.system, text("holds /home (through md127p1, md127, sdb1)"));
    assert_eq!(sdb.uses, [mounted("/dev/md127p1", "/home"), array("/dev/sdb1")]);
    let sdc = facts(&fixture, "/dev/sdc");
    assert_eq!(sdc.system, text("holds / (on sdc1)"));
    assert_eq!(sdc.uses, [mounted("/dev/sdc1", "/"), member("/dev/sdc1")]);
    assert_eq!(facts(&fixture, "/dev/md127").bus, Bus::Md);
}

#[test]
fn members_of_imported_zfs_pools_are_found_with_and_without_udev() {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda1", (8, 1), 1 << 20, 1 << 30);
    fixture.part(&disk, "sda2", (8, 2), 2 << 30, 1 << 30);
    fixture.part(&disk, "sda3", (8, 3), 4 << 30, 1 << 30);
    let event = "MAJOR=8\nMINOR=3\nDEVNAME=sda3\nDEVTYPE=partition\nPARTNAME=zfs-12ab\n";
    fixture.write(&format!("{disk}/sda3/uevent"), event);
    for (minor, pool) in [(1, "rpool"), (2, "exported")] {
        fixture.udev((8, minor), &[("ID_FS_TYPE", "zfs_member"), ("ID_FS_LABEL", pool)]);
    }
    assert_eq!(facts(&fixture, "/dev/sda").uses, []);
    fixture.write("proc/spl/kstat/zfs/arcstats", "");
    fixture.write("proc/spl/kstat/zfs/rpool/state", "ONLINE\n");
    fixture.mount("0:40", "/", "zfs", "rpool/ROOT/debian");
    let facts = facts(&fixture, "/dev/sda");
    let pool = |device: &str, pool: &str| used(device, User::Zfs { pool: pool.to_owned() });
    assert_eq!(facts.uses, [pool("/dev/sda1", "rpool"), pool("/dev/sda3", "?")]);
    assert_eq!(facts.system, text("holds / (on sda1)"));
}

#[test]
fn a_live_system_needs_the_stick_it_runs_from() {
    let mut fixture = Fixture::new();
    let stick = fixture.stick("sdb", 16, &UsbStick::default());
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 4 << 30);
    let disk = fixture.over("loop0", (7, 0), &[]);
    fixture.write(&format!("{disk}/loop/backing_file"), "/cdrom/live/filesystem.squashfs\n");
    fixture.mount("8:17", "/cdrom", "vfat", "/dev/sdb1");
    fixture.mount("7:0", "/rofs", "squashfs", "/dev/loop0");
    fixture.mount_with(
        "0:29",
        "/",
        "overlay",
        "/cow",
        "rw,lowerdir=/filesystem.squashfs,upperdir=/cow/up",
    );
    assert_eq!(facts(&fixture, "/dev/sdb").system, text("holds / (through loop0, sdb1)"));
    assert_eq!(facts(&fixture, "/dev/sdb").uses, [mounted("/dev/sdb1", "/cdrom")]);
}

#[test]
fn a_root_in_a_file_and_a_swap_file_are_traced_to_the_disk_below() {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda1", (8, 1), 1 << 20, 1 << 30);
    let image = fixture.over("loop7", (7, 7), &[]);
    fixture.write(&format!("{image}/loop/backing_file"), "/host/root image.img (deleted)\n");
    fixture.mount("7:7", "/", "ext4", "/dev/loop7");
    fixture.mount("8:1", "/host", "ntfs", "/dev/sda1");
    fixture.swap("/host/swap\\040file", "file");
    assert_eq!(
        facts(&fixture, "/dev/sda").system,
        text("holds / (through loop7, sda1); holds active swap file /host/swap file (on sda1)")
    );
    let image = facts(&fixture, "/dev/loop7");
    assert_eq!(image.system, text("holds /"));
    assert_eq!(image.backing_file, Some(PathBuf::from("/host/root image.img")));
}

#[test]
fn names_of_any_kind_lead_to_the_device_by_its_number() {
    let fixture = Fixture::new();
    let stick = fixture.stick("sdb", 16, &UsbStick::default());
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 4 << 30);
    let by_id = "/dev/disk/by-id/usb-SanDisk_Ultra_Fit_4C530001-0:0";
    fixture.link(&by_id[1..], "../../sdb");
    fixture.link(&format!("{}-part1", &by_id[1..]), "../../sdb1");
    fixture.write("dev/my disk", "b 8:16");
    let disk = facts(&fixture, by_id);
    assert_eq!((disk.path.as_path(), disk.name.as_str()), (Path::new("/dev/sdb"), "sdb"));
    assert_eq!(disk.by_id, [PathBuf::from(by_id)]);
    assert_eq!(disk.partition_of, None);
    let part = facts(&fixture, &format!("{by_id}-part1"));
    assert_eq!(part.partition_of, Some(PathBuf::from("/dev/sdb")));
    assert_eq!((part.size, part.model), (4 << 30, text("Ultra Fit")));
    assert_eq!(part.diskseq, disk.diskseq);
    assert_eq!(facts(&fixture, "/dev/my disk").name, "sdb");
    let stale = fixture.root().join("dev/stale");
    std::fs::write(stale, "b 8:240").unwrap();
    let error = fixture.system().facts(Path::new("/dev/stale")).unwrap_err();
    assert!(error.to_string().contains("no block device 8:240"), "{error}");
}

#[test]
fn usb_links_and_drivers_are_read_from_the_device_above() {
    // Speed, bcdUSB, BOS, driver -> what the device could do.
    let bos3: &[u8] = &[5, 15, 15, 0, 1, 10, 16, 3, 0, 14, 0, 1, 10, 0, 20];
    let bos2: &[u8] = &[5, 15, 12, 0, 1, 7, 16, 2, 2, 0, 0, 0];
    for (speed, version, bos, driver, capable) in [
        ("5000", " 3.20", Some(bos3), "uas", Some(false)),
        ("480", " 3.00", None, "usb-storage", Some(true)),
        ("480", " 2.10", Some(bos3), "usb-storage", Some(true)),
        ("480", " 2.10", Some(bos2), "uas", Some(false)),
        ("480", " 2.10", None, "uas", None),
        ("480", " 2.00", None, "usb-storage", Some(false)),
        ("1.5", " 1.10", None, "usb-storage", Some(false)),
    ] {
        let fixture = Fixture::new();
        fixture.stick("sdb", 16, &UsbStick { speed, version, driver, ..UsbStick::default() });
        if let Some(bos) = bos {
            fixture.write(&format!("sys/devices/{PORT}/bos_descriptors"), bos);
        }
        let facts = facts(&fixture, "/dev/sdb");
        assert_eq!(facts.bus, Bus::Usb);
        let usb = facts.usb.unwrap();
        assert_eq!(usb.superspeed_capable, capable, "{speed} {version}");
        assert_eq!(usb.driver.as_deref(), Some(driver));
        assert_eq!(usb.speed_mbit, Some(if speed == "1.5" { 1 } else { speed.parse().unwrap() }));
        assert_eq!(usb.port.as_deref(), Some("2-1"));
        assert_eq!((usb.vendor_id, usb.product_id), (text("0781"), text("5583")));
        assert!(usb.sysfs.unwrap().ends_with(PORT));
    }
}

/// One disk of every kind.
fn every_bus() -> Fixture {
    let fixture = Fixture::new();
    let nvme = "pci0000:00/0000:00:1d.0/0000:02:00.0/nvme/nvme0";
    fixture.disk(nvme, "nvme0n1", (259, 1), 1 << 40);
    let inner = format!("sys/devices/{nvme}");
    for (file, value) in [
        ("model", "Samsung SSD 980 PRO 1TB   "),
        ("serial", "S5GX  "),
        ("firmware_rev", "5B2QGXA7"),
    ] {
        fixture.write(&format!("{inner}/{file}"), value);
    }
    let thunder = "pci0000:00/0000:00:07.0/0000:20:00.0/nvme/nvme1";
    fixture.disk(thunder, "nvme1n1", (259, 2), 1 << 40);
    fixture.write("sys/devices/pci0000:00/0000:00:07.0/0000:20:00.0/removable", "removable\n");
    for (name, kind, minor) in [("mmcblk0", "SD", 0), ("mmcblk1", "MMC", 8)] {
        let host = format!("platform/emmc/mmc_host/mmc{minor}/mmc{minor}:aaaa");
        fixture.disk(&host, name, (179, minor), 32_000_000_000);
        for (file, value) in [("type", kind), ("name", "SC32G"), ("serial", "0x1234abcd")] {
            fixture.write(&format!("sys/devices/{host}/{file}"), value);
        }
    }
    let vda = fixture.disk("pci0000:00/0000:00:02.0/virtio1", "vda", (254, 0), 1 << 40);
    fixture.write("sys/devices/pci0000:00/0000:00:02.0/virtio1/vendor", "0x0000\n");
    fixture.write(&format!("{vda}/serial"), "disk-1");
    fixture.disk(
        "pci0000:00/0000:00:03.0/virtio2/host2/target2:0:0/2:0:0:0",
        "sdc",
        (8, 32),
        1 << 40,
    );
    fixture.disk("pci0000:00/0000:03:00.0/host3/target3:0:0/3:0:0:0", "sdd", (8, 48), 1 << 40);
    fixture
        .write("sys/devices/pci0000:00/0000:03:00.0/host3/target3:0:0/3:0:0:0/scsi_level", "7\n");
    fixture.disk(&SATA.replace("ata1", "ata4"), "sr0", (11, 0), 0);
    for (name, rdev) in [
        ("zram0", (252, 0)),
        ("ram0", (1, 0)),
        ("nbd0", (43, 0)),
        ("loop2", (7, 2)),
        ("pmem0", (259, 9)),
    ] {
        fixture.over(name, rdev, &[]);
    }
    fixture
}

#[test]
fn buses_are_told_apart() {
    let all = every_bus().system().all();
    let found: Vec<(&str, Bus)> =
        all.iter().map(|facts| (facts.name.as_str(), facts.bus)).collect();
    assert_eq!(
        found,
        [
            ("loop2", Bus::Loop),
            ("mmcblk0", Bus::Sd),
            ("mmcblk1", Bus::Mmc),
            ("nbd0", Bus::Nbd),
            ("nvme0n1", Bus::Nvme),
            ("nvme1n1", Bus::External),
            ("pmem0", Bus::Other),
            ("ram0", Bus::Ram),
            ("sdc", Bus::Virtio),
            ("sdd", Bus::Scsi),
            ("sr0", Bus::Optical),
            ("vda", Bus::Virtio),
            ("zram0", Bus::Zram),
        ]
    );
    let named = |name: &str| all.iter().find(|facts| facts.name == name).unwrap();
    assert_eq!(named("nvme0n1").model, text("Samsung SSD 980 PRO 1TB"));
    assert_eq!(named("nvme0n1").serial, text("S5GX"));
    assert_eq!(named("nvme0n1").revision, text("5B2QGXA7"));
    assert_eq!(named("mmcblk0").model, text("SC32G"));
    assert_eq!(named("mmcblk0").serial, text("0x1234abcd"));
    assert_eq!(named("vda").serial, text("disk-1"));
    assert_eq!(named("vda").vendor, None);
}

#[test]
fn labels_come_from_udev_and_partition_names_from_the_kernel() {
    let fixture = Fixture::new();
    let stick = fixture.stick("sdb", 16, &UsbStick::default());
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 1 << 30);
    fixture.part(&stick, "sdb2", (8, 18), 2 << 30, 1 << 30);
    let event = "MAJOR=8\nMINOR=18\nDEVNAME=sdb2\nDEVTYPE=partition\nPARTNAME=EFI system\n";
    fixture.write(&format!("{stick}/sdb2/uevent"), event);
    fixture.udev(
        (8, 17),
        &[("ID_FS_TYPE", "vfat"), ("ID_FS_LABEL", "MY_STICK"), ("ID_FS_LABEL_ENC", "MY\\x20STICK")],
    );
    let with_udev = facts(&fixture, "/dev/sdb").partitions;
    assert_eq!(
        (with_udev[0].fs_type.clone(), with_udev[0].label.clone()),
        (text("vfat"), text("MY STICK"))
    );
    assert_eq!(
        (with_udev[1].fs_type.clone(), with_udev[1].label.clone()),
        (None, text("EFI system"))
    );
    std::fs::remove_dir_all(fixture.root().join("run")).unwrap();
    assert_eq!(facts(&fixture, "/dev/sdb").partitions[0].label, None);
}

#[test]
fn a_loop_over_the_disk_itself_holds_it() {
    let fixture = Fixture::new();
    fixture.stick("sdb", 16, &UsbStick::default());
    let over = fixture.over("loop0", (7, 0), &[]);
    fixture.write(&format!("{over}/loop/backing_file"), "/dev/sdb\n");
    assert_eq!(
        facts(&fixture, "/dev/sdb").uses,
        [used("/dev/sdb", User::Other { name: "loop0".to_owned() })]
    );
}

#[test]
fn sources_are_followed_to_every_device_below() {
    let mut fixture = Fixture::new();
    let stick = fixture.stick("sdb", 16, &UsbStick::default());
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 4 << 30);
    fixture.mapping(0, "luks", "CRYPT-LUKS2-x", &["sdb1"]);
    fixture.mount("253:0", "/media/me/data", "ext4", "/dev/mapper/luks");
    fixture.write("media/me/data/a.iso", "iso");
    let system = fixture.system();
    let at = system.storage(Path::new("/media/me/data/../data/a.iso")).unwrap();
    assert_eq!(at.path, Path::new("/media/me/data/a.iso"));
    let chain: Vec<(Id, &str)> = at.below.iter().map(|link| (link.id, link.how.as_str())).collect();
    let lies = "lies on /media/me/data, which is /dev/mapper/luks";
    assert_eq!(
        chain,
        [
            (Id::Device(253, 0), lies),
            (Id::Device(8, 17), &format!("{lies} on /dev/sdb1")),
            (Id::Device(8, 16), &format!("{lies} on /dev/sdb")),
        ]
    );
    let device = system.storage(Path::new("/dev/sdb1")).unwrap();
    assert_eq!(device.itself, [Id::Device(8, 17)]);
    assert_eq!(device.below.len(), 1);
    assert_eq!(device.below[0].how, "lies on /dev/sdb");
}

#[test]
fn identity_is_what_the_facts_say_and_goes_with_the_device() {
    let fixture = Fixture::new();
    let stick = fixture.stick("sdb", 16, &UsbStick::default());
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 1 << 30);
    let system = fixture.system();
    for path in ["/dev/sdb", "/dev/sdb1"] {
        let facts = facts(&fixture, path);
        assert_eq!(system.identity(facts.rdev), Some(facts.identity()), "{path}");
    }
    assert_eq!(system.identity((8, 16)).unwrap().serial, text("4C530001"));
    fixture.write(&format!("{stick}/diskseq"), "99\n");
    assert_eq!(system.identity((8, 16)).unwrap().diskseq, Some(99));
    std::fs::remove_file(fixture.root().join("sys/dev/block/8:16")).unwrap();
    assert_eq!(system.identity((8, 16)), None);
}

#[test]
fn counters_are_bytes_and_unknown_when_the_kernel_does_not_count() {
    let fixture = Fixture::new();
    let stick = fixture.stick("sdb", 16, &UsbStick::default());
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 1 << 30);
    let system = fixture.system();
    for rdev in [(8, 16), (8, 17)] {
        assert_eq!(system.kernel_counters(rdev), Some((8 * 512, 16 * 512)));
    }
    fixture.write(&format!("{stick}/queue/iostats"), "0\n");
    for rdev in [(8, 16), (8, 17), (8, 240)] {
        assert_eq!(system.kernel_counters(rdev), None);
    }
}

#[test]
fn a_system_without_sys_and_proc_has_no_devices() {
    let empty = tempfile::tempdir().unwrap();
    let system = System::under(empty.path(), super::fixture::stat).unwrap();
    assert_eq!(system.all(), []);
    assert_eq!(parse::mountinfo(b""), []);
}
