//! A station in a guest: sticks are plugged in and pulled out while it runs.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use mediawriter::event::Verdict;
use mediawriter::report::record::RunRecord;
use serde_json::Value;

use crate::lab::{disk_image, noise};
use crate::machine::{Guest, Machine, Setup, Shared, folder, sparse, usable};

const OPTIONS: &str = r#"
-drive if=none,id=s,format=raw,file=DIR/start.img
-device usb-storage,bus=ehci.0,drive=s,serial=START
-blockdev {"driver":"raw","node-name":"a","file":{"driver":"file","filename":"DIR/a.img"}}
-blockdev {"driver":"raw","node-name":"b","file":{"driver":"file","filename":"DIR/b.img"}}
-blockdev {"driver":"raw","node-name":"c","file":{"driver":"file","filename":"DIR/c.img"}}
-blockdev {"driver":"raw","node-name":"d","file":{"driver":"file","filename":"DIR/d.img"}}
-drive if=none,id=o,format=raw,file=DIR/other.img
"#;

const IMAGE: u64 = 12 << 20;

fn work() -> Shared<Guest> {
    let folder = folder("station")?;
    for name in ["a", "b", "c", "d"] {
        sparse(&folder.join(format!("{name}.img")), 32 << 20);
    }
    for name in ["start", "other"] {
        fs::write(folder.join(format!("{name}.img")), noise(32 << 20, 21)).unwrap();
    }
    fs::write(folder.join("stick.img"), disk_image(IMAGE, 22)).unwrap();
    let mut machine = Machine::start(Setup {
        folder,
        script: include_str!("station.sh"),
        options: OPTIONS,
        memory: 1024,
        seconds: 300,
    })?;
    machine.wait_for("waiting")?;
    // A UAS disk has another product number.
    machine.qmp(
        "device_add",
        r#"{"driver": "usb-uas", "id": "other", "bus": "xhci.0", "port": "4", "serial": "OTHER", "attached": false}"#,
    )?;
    machine.qmp("device_add", r#"{"driver": "scsi-hd", "bus": "other.0", "drive": "o"}"#)?;
    machine.qmp("qom-set", r#"{"path": "other", "property": "attached", "value": true}"#)?;
    let plug = |name: &str, port: u32| {
        format!(
            r#"{{"driver": "usb-storage", "id": "stick-{name}", "bus": "xhci.0", "port": "{port}", "drive": "{name}", "serial": "STICK-{name}", "removable": true}}"#
        )
    };
    for (name, port) in [("a", 1), ("b", 2), ("c", 3)] {
        machine.qmp("device_add", &plug(name, port))?;
    }
    machine.tell("plugged");
    machine.wait_for("three")?;
    machine.qmp("device_del", r#"{"id": "stick-a"}"#)?;
    machine.qmp("device_add", &plug("d", 1))?;
    machine.tell("fourth");
    machine.finish()
}

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(work))
}

/// The records of all runs, by the serial number of the stick.
fn records(out: &Path) -> Vec<(String, RunRecord)> {
    let files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let records = files.filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("run-")
    });
    records
        .map(|path| {
            let record = RunRecord::parse(&fs::read(path).unwrap()).unwrap();
            (record.device.as_ref().unwrap().serial.clone().unwrap(), record)
        })
        .collect()
}

#[test]
fn each_stick_that_is_plugged_in_is_written_and_verified_once() {
    let Some(guest) = guest() else { return };
    let mut records = records(&guest.folder.join("out"));
    records.sort_by(|one, other| one.0.cmp(&other.0));
    let serials: Vec<&str> = records.iter().map(|(serial, _)| serial.as_str()).collect();
    assert_eq!(
        serials,
        ["STICK-a", "STICK-b", "STICK-c", "STICK-d"],
        "{}",
        guest.text("station.err")
    );
    for (serial, record) in &records {
        assert_eq!(record.media_verdict, Some(Verdict::Matched { bytes: IMAGE }), "{serial}");
    }
    for name in ["a", "b", "c", "d"] {
        assert!(guest.holds(&format!("{name}.img"), "stick.img"), "{name}");
    }
    // One line for each port: the stick that came later has that of the one before it.
    let errors = guest.text("station.err");
    let ports: std::collections::BTreeSet<&str> = errors
        .lines()
        .filter_map(|line| line.strip_prefix("port ")?.split([' ', ',']).next())
        .collect();
    assert_eq!(ports.len(), 3, "{errors}");
}

#[test]
fn a_station_ends_well_when_it_is_told_to_and_nothing_is_under_way() {
    let Some(guest) = guest() else { return };
    let code: i32 = guest.text("station.rc").parse().unwrap();
    assert_eq!(code, 0, "{}", guest.text("station.err"));
    let out = guest.text("station.out");
    let end: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&end["event"], end["targets"].as_array().unwrap().len()),
        (&"all_finished".into(), 4)
    );
}

#[test]
fn what_does_not_match_and_what_was_there_before_is_not_touched() {
    let Some(guest) = guest() else { return };
    for name in ["start", "other"] {
        assert!(guest.file(&format!("{name}.img")) == noise(32 << 20, 21), "{name}");
        let (before, after) = (
            guest.counters(&format!("{name}.stat-before")),
            guest.counters(&format!("{name}.stat-after")),
        );
        assert_eq!(before, after, "{name} was opened: bytes read and written");
    }
}
