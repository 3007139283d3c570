//! Benchmarks on throttled disks: what they deliver is what is measured, whatever the memory could
//! hide; a USB 2 link is called one.

use std::sync::OnceLock;

use mediawriter::report::record::PhaseRecord;

use crate::machine::{Guest, Machine, Setup, Shared, folder, sparse, usable};

/// PLAIN reads and writes 10 MB/s; OLD, on a USB 2 port, reads 34.
const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/plain.img,throttling.bps-total=10000000
-device usb-storage,bus=xhci.0,drive=a,serial=PLAIN
-drive if=none,id=b,format=raw,file=DIR/old.img,throttling.bps-read=34000000
-device usb-storage,bus=ehci.0,drive=b,serial=OLD
";

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("measure")?;
        sparse(&folder.join("plain.img"), 80 << 20);
        sparse(&folder.join("old.img"), 400 << 20);
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
fn b96_64_mib_on_a_stick_of_10_mb_a_second_are_no_test_of_1_gib_of_memory() {
    let Some(guest) = guest() else { return };
    guest.run("plain").ends_with(0);
    let record = guest.record("plain");
    for name in ["image-write", "image-read"] {
        let totals = &test(&record.phases, name).totals;
        assert_eq!(totals.bytes, 64 << 20);
        let rate = totals.rate().bytes_per_second;
        assert!((9.5e6..10.5e6).contains(&rate), "{name}: {rate}");
    }
}

#[test]
fn b96_a_disk_on_a_usb_2_port_is_called_limited_by_that_link() {
    let Some(guest) = guest() else { return };
    guest.run("old").ends_with(0).says(&[
        "link 480 Mbit/s",
        "link-limited: ran flat",
        "of the 60 MB/s that 480 Mbit/s carry",
    ]);
}
