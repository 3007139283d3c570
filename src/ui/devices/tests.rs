//! The list as people and scripts get it, from test systems.

use serde_json::Value;

use super::{Show, json, list};
use crate::device::probe::fixture::{Fixture, PORT, UsbStick};

/// A laptop with its own disk, a mounted stick on a slow link, a card reader with an empty slot
/// and a stick that is free.
fn desk() -> Fixture {
    let mut fixture = Fixture::new();
    let disk = fixture.sata();
    fixture.part(&disk, "sda1", (8, 1), 1 << 20, 400 << 30);
    fixture.mount("8:1", "/", "ext4", "/dev/sda1");
    let slow = UsbStick { speed: "480", version: " 2.10", ..UsbStick::default() };
    let stick = fixture.stick("sdb", 16, &slow);
    fixture.write(&format!("sys/devices/{PORT}/bos_descriptors"), [5, 15, 8, 0, 1, 3, 16, 3]);
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 30_751_588_352);
    fixture.udev((8, 17), &[("ID_FS_TYPE", "vfat"), ("ID_FS_LABEL_ENC", "MY\\x20STICK")]);
    fixture.link("dev/disk/by-id/usb-SanDisk_Ultra_Fit_4C530001-0:0", "../../sdb");
    fixture.mount("8:17", "/media/me/MY\\040STICK", "vfat", "/dev/sdb1");
    let empty = UsbStick { port: "2-3", bytes: 0, model: "Card Reader", ..UsbStick::default() };
    fixture.stick("sdc", 32, &empty);
    let ssd = UsbStick {
        port: "2-4",
        driver: "uas",
        vendor: "KIOXIA",
        model: "EXCERIA G2",
        ..UsbStick::default()
    };
    let ssd = fixture.stick("sdd", 48, &ssd);
    for (file, value) in [("discard_granularity", "512"), ("discard_max_bytes", "4294966784")] {
        fixture.write(&format!("{ssd}/queue/{file}"), value);
    }
    let host =
        format!("{}/scsi_disk/4:0:0:0/provisioning_mode", ssd.trim_end_matches("/block/sdd"));
    fixture.write(&host, "unmap\n");
    fixture.over("loop0", (7, 0), &[]);
    fixture
}

#[test]
fn the_list_fits_80_columns_and_says_what_to_do() {
    let text = list(&desk().system().all(), Show::Media);
    let expected = include_str!("list.txt");
    assert_eq!(text, expected, "\n{text}");
    for line in text.lines() {
        let path = line.contains("/dev/disk/by-id/");
        assert!(path || line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn everything_is_shown_with_all() {
    let text = list(&desk().system().all(), Show::All);
    assert!(text.contains("/dev/loop0"), "{text}");
    assert!(text.contains("/dev/sdc    no medium             USB 5G    no"), "{text}");
    assert!(text.contains("/dev/sda1 is mounted at /"), "{text}");
    assert!(!text.contains("Not shown"), "{text}");
}

#[test]
fn json_has_the_same_devices_and_verdicts() {
    let all = desk().system().all();
    let value: Value = serde_json::from_str(&json(&all, Show::Media)).unwrap();
    assert_eq!(value["schema"], "mediawriter-devices/1");
    let devices = value["devices"].as_array().unwrap();
    let paths: Vec<&str> = devices.iter().map(|d| d["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/dev/sda", "/dev/sdb", "/dev/sdd"]);
    let [system, slow, ssd] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!(system["system"], "holds / (on sda1)");
    assert_eq!(system["flash"]["accepted"], false);
    assert_eq!(system["flash"]["refusals"][0]["rule"], "system-disk");
    assert_eq!(slow["mounts"][0], "/media/me/MY STICK");
    assert_eq!(slow["partitions"][0]["label"], "MY STICK");
    assert_eq!(slow["flash"]["refusals"][0]["rule"], "mounted");
    assert_eq!(slow["flash"]["refusals"][0]["liftable"], true);
    assert_eq!(slow["usb"]["superspeed_capable"], true);
    assert_eq!(slow["usb"]["transport"], "bulk-only");
    assert_eq!(slow["warnings"].as_array().unwrap().len(), 1);
    assert_eq!(ssd["flash"], serde_json::json!({"accepted": true, "refusals": []}));
    assert_eq!(ssd["usb"]["transport"], "uas");
    assert_eq!(ssd["size_bytes"], 30_752_636_928_u64);
    assert_eq!(ssd["size_gb"], 30.75);
    assert_eq!(ssd["discard"]["provisioning_mode"], "unmap");
    let all: Value = serde_json::from_str(&json(&all, Show::All)).unwrap();
    assert_eq!(all["devices"].as_array().unwrap().len(), 5);
}

#[test]
fn hostile_names_cannot_steer_the_terminal() {
    let mut fixture = Fixture::new();
    let evil = UsbStick {
        vendor: "\u{1b}]0;x\u{7}",
        model: "\u{1b}[2J\u{9b}1m\u{202e}",
        serial: "\r\nyes",
        ..UsbStick::default()
    };
    let stick = fixture.stick("sdb", 16, &evil);
    fixture.part(&stick, "sdb1", (8, 17), 1 << 20, 1 << 30);
    fixture.udev((8, 17), &[("ID_FS_TYPE", "vfat"), ("ID_FS_LABEL_ENC", "\\x1b[31m\\x0a")]);
    fixture.mount("8:17", "/media/\u{1b}[5m\\012x", "vfat", "/dev/sdb1");
    let all = fixture.system().all();
    for text in [list(&all, Show::All), json(&all, Show::All)] {
        let raw = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.chars().any(raw), "{text:?}");
        assert!(!text.contains("\nx"), "{text:?}");
    }
}

#[test]
fn a_system_without_a_usable_device_is_told_what_to_do() {
    let says = "There is no device that flash would write to.";
    assert!(list(&[], Show::Media).starts_with(says));
    let mut fixture = Fixture::new();
    fixture.sata();
    fixture.mount("8:0", "/", "ext4", "/dev/sda");
    let text = list(&fixture.system().all(), Show::Media);
    assert!(text.contains(&format!("holds /\n\n{says}")), "{text}");
}
