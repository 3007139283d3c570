//! Benchmarks on throttled disks: what they deliver is what is measured, whatever the memory could
//! hide; a USB 2 link is told as one.

use std::sync::OnceLock;

use mediawriter::report::record::PhaseRecord;

use crate::machine::{Guest, Machine, Setup, Shared, folder, sparse, usable};

/// PLAIN reads and writes 4 MB/s, which the emulation of USB keeps up with on any host; OLD is on a
/// USB 2 port.
const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/plain.img,throttling.bps-total=4000000
-device usb-storage,bus=xhci.0,drive=a,serial=PLAIN
-drive if=none,id=b,format=raw,file=DIR/old.img
-device usb-storage,bus=ehci.0,drive=b,serial=OLD
";

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("measure")?;
        sparse(&folder.join("plain.img"), 40 << 20);
        sparse(&folder.join("old.img"), 64 << 20);
        let setup = Setup {
            folder,
            script: include_str!("measure.sh"),
            options: OPTIONS,
            memory: 1024,
            seconds: 200,
        };
        Machine::start(setup)?.finish()
    }))
}

fn test<'a>(phases: &'a [PhaseRecord], name: &str) -> &'a PhaseRecord {
    phases.iter().find(|phase| phase.test.as_ref().is_some_and(|test| test.name == name)).unwrap()
}

#[test]
fn b96_32_mib_on_a_stick_of_4_mb_a_second_are_no_test_of_1_gib_of_memory() {
    let Some(guest) = guest() else { return };
    guest.run("plain").ends_with(0);
    let record = guest.record("plain");
    for name in ["image-write", "image-read"] {
        let totals = &test(&record.phases, name).totals;
        assert_eq!(totals.bytes, 32 << 20);
        let rate = totals.rate().bytes_per_second;
        assert!((3.8e6..4.2e6).contains(&rate), "{name}: {rate}");
    }
}

/// What the emulation carries there depends on the host, so that it filled its link is found in
/// `speed_verdicts`, with the speeds of real sticks.
#[test]
fn b96_a_disk_on_a_usb_2_port_is_told_with_its_link() {
    let Some(guest) = guest() else { return };
    guest.run("old").ends_with(0).says(&[
        "link 480 Mbit/s",
        "driver usb-storage",
        "USB 2 link (480 Mbit/s",
    ]);
}
