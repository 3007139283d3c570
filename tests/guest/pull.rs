//! Sticks that are pulled out while they are written and read, exchanged while the question waits
//! for an answer, and a reader without a card.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mediawriter::event::{Phase, Verdict};

use crate::lab::{disk_image, noise};
use crate::machine::{Guest, Machine, Setup, Shared, folder, sparse, usable};

/// B is plugged in by the test.
const OPTIONS: &str = r#"
-drive if=none,id=w,format=raw,file=DIR/w.img,throttling.bps-write=4000000
-device usb-storage,id=pull-write,bus=xhci.0,drive=w,serial=PULLW
-drive if=none,id=v,format=raw,file=DIR/v.img,throttling.bps-read=4000000
-device usb-bot,id=pull-verify,bus=xhci.0,serial=PULLV -device scsi-hd,bus=pull-verify.0,drive=v
-drive if=none,id=a,format=raw,file=DIR/a.img
-device usb-storage,id=a-stick,bus=ehci.0,drive=a,serial=AAAA
-blockdev {"driver":"raw","node-name":"b","file":{"driver":"file","filename":"DIR/b.img"}}
"#;

struct Pulled {
    guest: Guest,
    /// How long the program went on after the stick was gone: in write, in verify.
    went_on: [Duration; 2],
    /// What was on B before, and after the refused flash.
    b: [Vec<u8>; 2],
}

fn work() -> Shared<Pulled> {
    let folder = folder("pull")?;
    for name in ["w", "v", "a"] {
        sparse(&folder.join(format!("{name}.img")), 48 << 20);
    }
    fs::write(folder.join("b.img"), noise(48 << 20, 11)).unwrap();
    fs::write(folder.join("slow.img"), disk_image(40 << 20, 12)).unwrap();
    fs::write(folder.join("small.img"), disk_image(6 << 20, 13)).unwrap();
    let before = fs::read(folder.join("b.img")).unwrap();
    let mut machine = Machine::start(Setup {
        folder: folder.clone(),
        script: include_str!("pull.sh"),
        options: OPTIONS,
        memory: 1024,
        seconds: 300,
    })?;
    machine.wait_for("asked")?;
    machine.qmp("device_del", r#"{"id": "a-stick"}"#)?;
    let b = r#"{"driver": "usb-storage", "id": "b-stick", "bus": "ehci.0", "drive": "b", "serial": "BBBB", "removable": true}"#;
    machine.qmp("device_add", b)?;
    machine.tell("swapped");
    machine.wait_for("out/swap.stat-after")?;
    let after = fs::read(folder.join("b.img")).unwrap();
    let mut went_on = [Duration::ZERO; 2];
    for (took, name) in went_on.iter_mut().zip(["pull-write", "pull-verify"]) {
        machine.wait_for(name)?;
        machine.qmp("device_del", &format!(r#"{{"id": "{name}"}}"#))?;
        let gone = Instant::now();
        machine.wait_for(&format!("out/{name}.rc"))?;
        *took = gone.elapsed();
    }
    machine.wait_for("flashed")?;
    machine.qmp(
        "eject",
        r#"{"id": "/machine/peripheral/b-stick/b-stick.0/legacy[0]", "force": true}"#,
    )?;
    machine.tell("emptied");
    Ok(Pulled { guest: machine.finish()?, went_on, b: [before, after] })
}

fn pulled() -> Option<&'static Pulled> {
    static PULLED: OnceLock<Shared<Pulled>> = OnceLock::new();
    usable(PULLED.get_or_init(work))
}

/// A run that lost its stick: soon over, with a message about the stick, and nothing lost of what
/// was measured.
fn lost(guest: &Guest, name: &str, (phase, advice): (Phase, &str), went_on: Duration) {
    let run = guest.run(name);
    let word = format!("disappeared during {}", phase.name());
    run.ends_with(1).says(&[&word, advice]).never_says(&["panicked"]);
    assert!(went_on < Duration::from_secs(10), "{name} went on for {went_on:?}");

    let record = guest.record(name);
    let ending = record.ending.as_ref().unwrap();
    assert_eq!(ending.exit_code, 1);
    assert!(ending.message.contains(&word), "{}", ending.message);
    assert!(ending.place.is_some(), "it says at which offset");
    assert!(!record.made_unbootable.as_ref().unwrap().done);
    assert!(!matches!(record.media_verdict, Some(Verdict::Matched { .. })));
    // The log goes up to the end: as many rows as the phase had seconds.
    let rows = guest.rows(name, phase);
    let lost = record.phase(phase).unwrap();
    assert!(rows.len() as u64 >= lost.totals.nanos / 1_000_000_000, "{} {lost:?}", rows.len());
    assert!(rows.len() >= 3 && rows.iter().map(|row| row.bytes).sum::<u64>() == lost.totals.bytes);
}

#[test]
fn b12_a_stick_pulled_out_during_the_write_ends_the_run_at_once_with_its_log() {
    let Some(Pulled { guest, went_on, .. }) = pulled() else { return };
    lost(guest, "pull-write", (Phase::Write, "must be written again"), went_on[0]);
    assert!(!guest.record("pull-write").head_released);
}

#[test]
fn b12_a_stick_pulled_out_during_the_verification_ends_the_run_at_once_with_its_log() {
    let Some(Pulled { guest, went_on, .. }) = pulled() else { return };
    // All of it was written by then; what is on it was only not proven.
    lost(guest, "pull-verify", (Phase::Verify, "was not proven"), went_on[1]);
}

#[test]
fn b14_another_stick_under_the_approved_name_is_refused_and_not_touched() {
    let Some(Pulled { guest, b, .. }) = pulled() else { return };
    let names = guest.text("swap.names");
    let (was, is) = names.split_once(' ').unwrap();
    assert_eq!(was, is, "B took the name of A");
    let run = guest.run("swap");
    run.ends_with(3).says(&[
        "serial number 'AAAA'",
        "serial number 'BBBB'",
        "disk sequence number",
    ]);
    assert!(b[0] == b[1], "nothing was written to B");
    let written = |name: &str| guest.counters(name).1;
    assert_eq!((written("swap.stat-before"), written("swap.stat-after")), (0, 0));
}

#[test]
fn only_the_typed_name_starts_a_flash() {
    let Some(Pulled { guest, .. }) = pulled() else { return };
    guest.run("unsure").ends_with(3).says(&["not confirmed; nothing was written"]);
    guest.run("sure").ends_with(0).says(&["every byte matches"]);
    assert!(guest.holds("b.img", "small.img"));
}

#[test]
fn b24_a_reader_without_a_card_is_hidden_and_refused() {
    let Some(Pulled { guest, .. }) = pulled() else { return };
    let name = guest.text("empty.name");
    let names = |list: &str| -> Vec<(String, u64)> {
        let list: serde_json::Value = serde_json::from_str(&guest.run(list).out).unwrap();
        let entry = |device: &serde_json::Value| {
            (device["path"].as_str().unwrap().to_owned(), device["size_bytes"].as_u64().unwrap())
        };
        list["devices"].as_array().unwrap().iter().map(entry).collect()
    };
    assert!(!names("empty-list").iter().any(|(path, _)| *path == name));
    assert!(names("empty-all").contains(&(name.clone(), 0)), "{:?}", names("empty-all"));
    guest.run("empty").ends_with(3).says(&["there is no medium in it", "[no-medium]"]);
}
