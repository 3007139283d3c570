//! Every kind of device against every rule, and what the two flags lift: nothing but what the
//! table says.

use std::path::{Path, PathBuf};

use super::{Identity, Purpose, Refusal, Rules, Storage, approve, same};
use crate::device::facts::{Bus, Facts, Use, User};
use crate::device::probe::fixture::{Fixture, SATA, UsbStick};
use crate::device::storage::{Id, Link};

/// A system, the target in it, and the rules that must refuse it: without flags, with `--force`,
/// with `--unmount`, with both.
struct Case {
    name: &'static str,
    fixture: Fixture,
    target: &'static str,
    refused: [&'static str; 4],
}

/// Refused for the same whatever the flags.
fn always(name: &'static str, fixture: Fixture, target: &'static str, rules: &'static str) -> Case {
    Case { name, fixture, target, refused: [rules; 4] }
}

fn root_disk() -> Fixture {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda1", (8, 1), 1 << 20, 400 << 30);
    fixture.mount("8:1", "/", "ext4", "/dev/sda1");
    fixture
}

fn stick(usb: &UsbStick) -> (Fixture, String) {
    let fixture = Fixture::new();
    let folder = fixture.stick("sdb", 16, usb);
    for (name, minor) in [("sdb1", 17), ("sdb2", 18), ("sdb3", 19), ("sdb4", 20)] {
        fixture.part(&folder, name, (8, minor), u64::from(minor) << 30, 1 << 30);
    }
    (fixture, folder)
}

fn plain_stick() -> Fixture {
    stick(&UsbStick::default()).0
}

fn luks_lvm_root() -> Fixture {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda3", (8, 3), 1 << 30, 400 << 30);
    fixture.mapping(0, "luks", "CRYPT-LUKS2-a", &["sda3"]);
    fixture.mapping(1, "vg0-root", "LVM-a", &["dm-0"]);
    fixture.mount("253:1", "/", "ext4", "/dev/mapper/vg0-root");
    fixture
}

fn btrfs_root() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.sata();
    fixture.disk(&SATA.replace("ata1", "ata2"), "sdc", (8, 32), 1 << 40);
    for name in ["sda", "sdc"] {
        fixture.write(&format!("sys/fs/btrfs/0f0f/devices/{name}"), "");
    }
    fixture.mount("0:30", "/", "btrfs", "/dev/sda");
    fixture
}

fn busy_four_ways() -> Fixture {
    let mut fixture = plain_stick();
    fixture.mount("8:17", "/media/a", "vfat", "/dev/sdb1");
    fixture.swap("/dev/sdb2", "partition");
    fixture.mapping(3, "vg1-data", "LVM-b", &["sdb3"]);
    fixture.over("md5", (9, 5), &["sdb4"]);
    fixture
}

fn zfs_member() -> Fixture {
    let fixture = plain_stick();
    fixture.write("proc/spl/kstat/zfs/tank/state", "ONLINE");
    fixture.udev((8, 17), &[("ID_FS_TYPE", "zfs_member"), ("ID_FS_LABEL", "tank")]);
    fixture
}

fn mounted_stick() -> Fixture {
    let mut fixture = plain_stick();
    fixture.mount("8:17", "/media/a", "vfat", "/dev/sdb1");
    fixture.mount("8:18", "/media/b", "ext4", "/dev/sdb2");
    fixture
}

fn mounted_internal() -> Fixture {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda1", (8, 1), 1 << 20, 1 << 30);
    fixture.mount("8:1", "/data", "ext4", "/dev/sda1");
    fixture
}

fn write_protected() -> Fixture {
    let (fixture, folder) = stick(&UsbStick::default());
    fixture.write(&format!("{folder}/ro"), "1\n");
    fixture
}

fn open_volume_on_stick() -> Fixture {
    let mut fixture = plain_stick();
    fixture.mapping(0, "luks", "CRYPT-LUKS2-a", &["sdb2"]);
    fixture.mapping(1, "vg0-data", "LVM-a", &["dm-0"]);
    fixture.mount("253:1", "/srv", "ext4", "/dev/mapper/vg0-data");
    fixture
}

fn one_disk(host: &str, name: &str, rdev: (u32, u32)) -> Fixture {
    let fixture = Fixture::new();
    let folder = fixture.disk(host, name, rdev, 64_000_000_000);
    if host.contains("mmc1") {
        let device = folder.trim_end_matches("/block/mmcblk1").to_owned();
        fixture.write(&format!("{device}/type"), "MMC\n");
    }
    fixture
}

fn by_id() -> Fixture {
    let fixture = plain_stick();
    let link = "dev/disk/by-id/usb-SanDisk_Ultra_4C53-0:0";
    fixture.link(link, "../../sdb");
    fixture.link(&format!("{link}-part1"), "../../sdb1");
    fixture
}

fn swap_on_zram() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.over("zram0", (252, 0), &[]);
    fixture.swap("/dev/zram0", "partition");
    fixture
}

fn cases() -> Vec<Case> {
    let mut all = system_cases();
    all.extend(busy_cases());
    all.extend(stick_cases());
    all.extend(kind_cases());
    all
}

fn system_cases() -> Vec<Case> {
    vec![
        Case {
            name: "SATA disk with the root",
            fixture: root_disk(),
            target: "/dev/sda",
            refused: [
                "system-disk mounted fixed-disk",
                "system-disk mounted",
                "system-disk fixed-disk",
                "system-disk",
            ],
        },
        Case {
            name: "root on LVM in LUKS",
            fixture: luks_lvm_root(),
            target: "/dev/sda",
            refused: [
                "system-disk mounted held held fixed-disk",
                "system-disk mounted held held",
                "system-disk held held fixed-disk",
                "system-disk held held",
            ],
        },
        Case {
            name: "second disk of a btrfs root",
            fixture: btrfs_root(),
            target: "/dev/sdc",
            refused: [
                "system-disk mounted held fixed-disk",
                "system-disk mounted held",
                "system-disk held fixed-disk",
                "system-disk held",
            ],
        },
        always("zram with swap", swap_on_zram(), "/dev/zram0", "system-disk swap"),
    ]
}

fn busy_cases() -> Vec<Case> {
    let four = "system-disk mounted swap held held";
    let three = "system-disk swap held held";
    let open = "mounted held held";
    vec![
        Case {
            name: "b17 mounted, swap, LVM and md at once",
            fixture: busy_four_ways(),
            target: "/dev/sdb",
            refused: [four, four, three, three],
        },
        Case {
            name: "open volume with a mount on top",
            fixture: open_volume_on_stick(),
            target: "/dev/sdb",
            refused: [open, open, "held held", "held held"],
        },
        Case {
            name: "mounted stick",
            fixture: mounted_stick(),
            target: "/dev/sdb",
            refused: ["mounted mounted", "mounted mounted", "", ""],
        },
        Case {
            name: "mounted disk of the computer",
            fixture: mounted_internal(),
            target: "/dev/sda",
            refused: ["mounted fixed-disk", "mounted", "fixed-disk", ""],
        },
        always("member of an imported pool", zfs_member(), "/dev/sdb", "held"),
    ]
}

fn stick_cases() -> Vec<Case> {
    let slot = stick(&UsbStick { bytes: 0, ..UsbStick::default() }).0;
    let part = "/dev/disk/by-id/usb-SanDisk_Ultra_4C53-0:0-part1";
    let whole = "/dev/disk/by-id/usb-SanDisk_Ultra_4C53-0:0";
    vec![
        always("free stick", plain_stick(), "/dev/sdb", ""),
        always("b27 stick by its id, with colons", by_id(), whole, ""),
        always("b26 partition", plain_stick(), "/dev/sdb1", "partition"),
        always("b27 partition by the stick's id", by_id(), part, "partition"),
        always("b22 write-protected", write_protected(), "/dev/sdb", "read-only"),
        always("b24 empty slot of a card reader", slot, "/dev/sdb", "no-medium"),
    ]
}

/// Disks that nobody uses, one of a kind.
fn kind_cases() -> Vec<Case> {
    let reader = "pci0000:00/0000:00:1d.0/mmc_host/mmc0/mmc0:aaaa";
    let soldered = "pci0000:00/0000:00:1c.0/mmc_host/mmc1/mmc1:0001";
    let nvme = "pci0000:00/0000:00:1d.0/0000:02:00.0/nvme/nvme0";
    let optical = SATA.replace("ata1", "ata5");
    let kernel = "virtual/block";
    [
        (reader, "mmcblk0", "/dev/mmcblk0", ["", ""]),
        (soldered, "mmcblk1", "/dev/mmcblk1", ["fixed-disk", ""]),
        (nvme, "nvme0n1", "/dev/nvme0n1", ["fixed-disk", ""]),
        (&optical, "sr0", "/dev/sr0", ["optical", "optical"]),
        (kernel, "loop0", "/dev/loop0", ["", ""]),
        (kernel, "zram0", "/dev/zram0", ["", ""]),
        (kernel, "md0", "/dev/md0", ["virtual", ""]),
        (kernel, "dm-9", "/dev/dm-9", ["virtual", ""]),
        (kernel, "ram0", "/dev/ram0", ["virtual", ""]),
    ]
    .into_iter()
    .map(|(host, name, target, [plain, forced])| Case {
        name,
        fixture: one_disk(host, name, (240, 0)),
        target,
        refused: [plain, forced, plain, forced],
    })
    .collect()
}

fn rules_of(refusals: &[Refusal]) -> String {
    refusals.iter().map(Refusal::rule).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_device_is_refused_for_the_right_reasons_and_flags_lift_no_more_than_documented() {
    for Case { name, fixture, target, refused } in cases() {
        let facts = fixture.system().facts(Path::new(target)).unwrap();
        let flags = [(false, false), (true, false), (false, true), (true, true)];
        for ((force, unmount), expected) in flags.into_iter().zip(refused) {
            for purpose in [Purpose::Write, Purpose::Discard] {
                let rules = Rules { force, unmount, purpose, ..Rules::default() };
                let found = approve(facts.clone(), &rules).err().unwrap_or_default();
                assert_eq!(rules_of(&found), expected, "{name}, force {force}, unmount {unmount}");
            }
        }
    }
}

#[test]
fn reading_is_refused_for_nothing_but_a_missing_medium() {
    for Case { name, fixture, target, .. } in cases() {
        let facts = fixture.system().facts(Path::new(target)).unwrap();
        let empty = facts.size == 0;
        let rules =
            Rules { purpose: Purpose::ReadOnly, image_size: Some(u64::MAX), ..Rules::default() };
        let found = approve(facts, &rules).err().unwrap_or_default();
        let expected = if empty { "no-medium" } else { "" };
        assert_eq!(rules_of(&found), expected, "{name}");
    }
}

#[test]
fn what_is_copied_must_not_change_and_a_freeze_lifts_mounts_that_the_system_can_do_without() {
    let copy = |freeze| Rules { purpose: Purpose::Copy, freeze, ..Rules::default() };
    let mut seen = Vec::new();
    for Case { name, fixture, target, .. } in cases() {
        let facts = fixture.system().facts(Path::new(target)).unwrap();
        let mounts = |used: &&Use| matches!(used.by, User::Mount { .. });
        let mounted = facts.uses.iter().filter(mounts).count();
        for freeze in [false, true] {
            let found = approve(facts.clone(), &copy(freeze));
            let lifted = freeze && facts.system.is_none();
            let stay = facts.uses.len() - if lifted { mounted } else { 0 };
            let stay = stay + usize::from(facts.size == 0);
            match found {
                Ok(approved) => {
                    assert_eq!(stay, 0, "{name}");
                    assert_eq!(approved.to_freeze().len(), mounted, "{name}");
                    assert!(approved.to_unmount().is_empty(), "{name}");
                }
                Err(refusals) => {
                    assert_eq!(refusals.len(), stay, "{name}: {refusals:?}");
                    seen.extend(refusals.iter().map(|r| (r.rule(), r.lifted_by())));
                }
            }
        }
    }
    for wanted in [
        ("source-mounted", Some(super::Lift::Freeze)),
        ("source-mounted", None),
        ("source-in-use", None),
    ] {
        assert!(seen.contains(&wanted), "{wanted:?} in {seen:?}");
    }
}

#[test]
fn what_was_lifted_is_kept_and_mounts_come_in_the_order_to_release_them() {
    let facts = mounted_internal().system().facts(Path::new("/dev/sda")).unwrap();
    let rules = Rules { force: true, unmount: true, ..Rules::default() };
    let approved = approve(facts.clone(), &rules).unwrap();
    assert_eq!(rules_of(approved.lifted()), "mounted fixed-disk");
    assert_eq!(approved.to_unmount(), [(Path::new("/dev/sda1"), Path::new("/data"))]);
    assert_eq!(approved.facts(), &facts);
    assert_eq!(approved.identity(), facts.identity());
    assert_eq!(approved.purpose(), Purpose::Write);
}

fn facts_of(size: u64) -> Facts {
    Facts { path: "/dev/sdb".into(), rdev: (8, 16), size, bus: Bus::Usb, ..Facts::default() }
}

#[test]
fn an_image_must_fit_to_the_byte() {
    for (size, image, fits) in [
        (1000, Some(1000), true),
        (1000, Some(1001), false),
        (3 << 40, Some((3 << 40) - 1), true),
        (3 << 40, Some((3 << 40) + 512), false),
        (1000, None, true),
    ] {
        let rules = Rules { image_size: image, ..Rules::default() };
        let found = approve(facts_of(size), &rules).err().unwrap_or_default();
        let expected = if fits { "" } else { "too-small" };
        assert_eq!(rules_of(&found), expected, "{size} {image:?}");
    }
    let rules = Rules { image_size: Some(5), ..Rules::default() };
    assert_eq!(rules_of(&approve(facts_of(0), &rules).unwrap_err()), "no-medium");
}

#[test]
fn a_source_is_never_overwritten_by_itself() {
    let at = |path: &str, itself: Id, below: &[Id]| Storage {
        path: PathBuf::from(path),
        itself: vec![itself],
        below: below.iter().map(|id| Link { id: *id, how: "lies on it".to_owned() }).collect(),
    };
    let (stick, file) = (Id::Device(8, 16), Id::File(1, 7));
    let mut target = facts_of(1 << 30);
    target.storage = at("/dev/sdb", stick, &[]);
    target.storage.itself.extend([Id::Device(8, 17), file]);
    for (source, refused) in [
        (at("/mnt/a.iso", Id::File(1, 9), &[Id::Device(8, 1), Id::Device(8, 0)]), false),
        (at("/mnt/a.iso", Id::File(1, 9), &[Id::Device(253, 0), Id::Device(8, 17), stick]), true),
        (at("/tmp/stick.img", file, &[Id::Device(8, 1), Id::Device(8, 0)]), true),
        (at("/tmp/other.img", Id::File(1, 10), &[]), false),
    ] {
        let rules = Rules { force: true, unmount: true, source: Some(source), ..Rules::default() };
        let found = approve(target.clone(), &rules).err().unwrap_or_default();
        let expected = if refused { "source-on-target" } else { "" };
        assert_eq!(rules_of(&found), expected, "{rules:?}");
    }
}

#[test]
fn a_loop_whose_file_lies_on_the_target_is_no_source_for_it() {
    let mut fixture = plain_stick();
    fixture.mount("8:17", "/media/a", "ext4", "/dev/sdb1");
    let image = fixture.over("loop4", (7, 4), &[]);
    fixture.write(&format!("{image}/loop/backing_file"), "/media/a/backup.img\n");
    let system = fixture.system();
    let source = system.storage(Path::new("/dev/loop4")).unwrap();
    let rules = Rules { unmount: true, source: Some(source), ..Rules::default() };
    let refusals = approve(system.facts(Path::new("/dev/sdb")).unwrap(), &rules).unwrap_err();
    assert_eq!(
        refusals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["it would overwrite its own source: /dev/loop4 lies on /dev/sdb1"]
    );
}

#[test]
fn each_change_of_identity_is_named() {
    let before = Identity {
        rdev: (8, 16),
        size: 32_000_000_000,
        serial: Some("A".to_owned()),
        diskseq: Some(7),
    };
    assert_eq!(same(&before, &before.clone()), Ok(()));
    let now = |change: fn(&mut Identity)| {
        let mut now = before.clone();
        change(&mut now);
        same(&before, &now).unwrap_err().to_string()
    };
    let sentence =
        |was: &str, is: &str| format!("it is not the device it was: {was} before, {is} now");
    for (text, was, is) in [
        (now(|i| i.rdev = (8, 32)), "device number 8:16", "device number 8:32"),
        (now(|i| i.size += 512), "size 32000000000 bytes", "size 32000000512 bytes"),
        (
            now(|i| i.serial = Some("\u{1b}B".to_owned())),
            "serial number 'A'",
            "serial number '\\u{1b}B'",
        ),
        (now(|i| i.serial = None), "serial number 'A'", "serial number none"),
        (now(|i| i.diskseq = Some(8)), "disk sequence number 7", "disk sequence number 8"),
        (
            now(|i| {
                i.serial = Some("B".to_owned());
                i.diskseq = None;
            }),
            "serial number 'A', disk sequence number 7",
            "serial number 'B', disk sequence number unknown",
        ),
    ] {
        assert_eq!(text, sentence(was, is));
    }
}

#[test]
fn the_table_of_rules_lists_every_rule_and_what_lifts_it() {
    let table: Vec<&str> =
        include_str!("../policy.rs").lines().filter(|line| line.starts_with("//! | `")).collect();
    let mut seen: Vec<&str> =
        vec!["too-small", "source-on-target", "source-mounted", "source-in-use", "changed"];
    for Case { fixture, target, .. } in cases() {
        let facts = fixture.system().facts(Path::new(target)).unwrap();
        for refusal in approve(facts, &Rules::default()).err().unwrap_or_default() {
            let row = table.iter().find(|row| row.contains(&format!("| `{}` |", refusal.rule())));
            let lifted = match refusal.lifted_by() {
                Some(super::Lift::Force) => "| `--force` |",
                Some(super::Lift::Unmount) => "| `--unmount` |",
                Some(super::Lift::Freeze) => "| `--freeze`",
                None => "| nothing",
            };
            assert!(row.unwrap().contains(lifted), "{row:?}");
            seen.push(refusal.rule());
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), table.len(), "{seen:?}");
}
