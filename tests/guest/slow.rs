//! Slow sticks: the second at which a write cache runs full, no pile of dirty pages, no gap in the
//! log while nothing moves, and read-back at the speed of the stick.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use mediawriter::event::{Phase, Verdict};
use serde_json::Value;

use crate::lab::{disk_image, run};
use crate::machine::{Guest, Machine, Row, Setup, Shared, folder, sparse, usable};

/// CLIFF takes 3 MB/s for some seconds and then 0.6, and reads at 20; LARGE always takes 12. The
/// emulation of USB carries 8 MB/s when the host is busy with other machines.
const OPTIONS: &str = "
-drive if=none,id=a,format=raw,file=DIR/cliff-stick.img,throttling.bps-write=600000,throttling.bps-write-max=3000000,throttling.bps-write-max-length=6,throttling.bps-read=20000000
-device usb-storage,bus=xhci.0,drive=a,serial=CLIFF
-drive if=none,id=b,format=raw,file=DIR/large-stick.img,throttling.bps-write=12000000
-device usb-storage,bus=xhci.0,drive=b,serial=LARGE
-drive if=none,id=c,format=raw,file=DIR/stall-stick.img,throttling.bps-write=6000000
-device usb-storage,bus=xhci.0,drive=c,serial=STALL
";

const CLIFF: u64 = 30 << 20;
const LARGE: u64 = 300 << 20;
const STALL: u64 = 24 << 20;
/// MiB of memory of the guest: less than the large image.
const MEMORY: u32 = 256;

fn throttle(machine: &Machine, bytes_per_second: u64) -> Shared<String> {
    let limits = format!(
        r#"{{"device": "c", "bps": 0, "bps_rd": 0, "bps_wr": {bytes_per_second}, "iops": 0, "iops_rd": 0, "iops_wr": 0}}"#
    );
    machine.qmp("block_set_io_throttle", &limits)
}

fn guest() -> Option<&'static Guest> {
    static GUEST: OnceLock<Shared<Guest>> = OnceLock::new();
    usable(GUEST.get_or_init(|| {
        let folder = folder("slow")?;
        for (name, bytes) in
            [("cliff", CLIFF + (1 << 20)), ("large", LARGE + (1 << 20)), ("stall", 32 << 20)]
        {
            sparse(&folder.join(format!("{name}-stick.img")), bytes);
        }
        fs::write(folder.join("cliff.img"), disk_image(CLIFF, 3)).unwrap();
        fs::write(folder.join("stall.img"), disk_image(STALL, 4)).unwrap();
        let large = File::create(folder.join("large.img")).unwrap();
        for at in (0..LARGE).step_by(32 << 20) {
            large.write_all_at(&disk_image(1 << 20, at + 5), at).unwrap();
        }
        large.set_len(LARGE).unwrap();
        let mut machine = Machine::start(Setup {
            folder,
            script: include_str!("slow.sh"),
            options: OPTIONS,
            memory: MEMORY,
            seconds: 400,
        })?;
        machine.wait_for("stalling")?;
        throttle(&machine, 1)?;
        thread::sleep(Duration::from_secs(5));
        throttle(&machine, 0)?;
        machine.finish()
    }))
}

/// Rows of the write phase, which hold every byte that the record counts.
fn write_rows(guest: &Guest, name: &str) -> Vec<Row> {
    let rows = guest.rows(name, Phase::Write);
    let record = guest.record(name);
    let write = record.phase(Phase::Write).unwrap();
    assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), write.totals.bytes);
    assert_eq!(rows.len(), write.rows.len());
    rows
}

#[test]
fn the_second_at_which_a_write_cache_runs_full_is_in_the_log() {
    let Some(guest) = guest() else { return };
    guest.run("cliff").ends_with(0);
    let rows = write_rows(guest, "cliff");
    assert!(rows.len() >= 10, "{rows:?}");
    let mean = |rows: &[Row]| rows.iter().map(|r| r.bytes).sum::<u64>() as f64 / rows.len() as f64;
    // The last row is less than a second.
    let (first, last) = (mean(&rows[..4]), mean(&rows[rows.len() - 4..rows.len() - 1]));
    assert!(first > 2.0 * last, "{first} {last} {rows:?}");
    assert!((0.4e6..0.8e6).contains(&last), "the stick takes 0.6 MB/s by then: {last} {rows:?}");
    assert!(guest.holds("cliff-stick.img", "cliff.img"));
}

/// QEMU lets a bucket of 6 s x 3 MB/s fill up at 3 - 0.6 MB/s: that takes 7.5 s, so 22.5 MB. The
/// guest's clock stumbles when the host is busy; `measured_verdicts` has the narrow limits.
#[test]
fn b100_the_cliff_of_a_throttled_disk_is_found_with_its_bytes_and_both_speeds() {
    let Some(guest) = guest() else { return };
    let record = guest.folder.join("out/cliff.json");
    let args = ["report", record.to_str().unwrap(), "--test", "write", "--format", "json"];
    let report: Value = serde_json::from_str(&run(&args).expect(0).stdout).unwrap();
    let cliff = &report["groups"][0]["lines"][0]["typical"]["analysis"]["cliff"];
    for (field, expected, tolerance) in
        [("at_bytes", 22.5e6, 0.05), ("before", 3e6, 0.06), ("after", 0.6e6, 0.06)]
    {
        let value = cliff[field].as_f64().unwrap_or(0.0);
        let off = value / expected - 1.0;
        assert!(off.abs() < tolerance, "{field} {value}, not {expected}: {report:#}");
    }
}

#[test]
fn b29_everything_is_read_back_from_the_stick_at_the_speed_of_the_stick() {
    let Some(guest) = guest() else { return };
    let record = guest.record("cliff");
    let verify = record.phase(Phase::Verify).unwrap();
    assert_eq!(verify.totals.bytes, CLIFF);
    let rate = verify.totals.rate().bytes_per_second;
    assert!(rate < 22e6, "faster than the stick delivers: {rate}");
    let (before, after) = (guest.counters("cliff.stat-before"), guest.counters("cliff.stat-after"));
    assert!(after.0 - before.0 >= CLIFF, "the kernel counted {} bytes read", after.0 - before.0);
    assert!(after.1 - before.1 >= CLIFF);
    assert!(record.notes.iter().any(|note| note.code == "kernel-counters"), "{:?}", record.notes);
}

#[test]
fn b11_memory_does_not_fill_with_dirty_pages_and_the_end_comes_at_once() {
    let Some(guest) = guest() else { return };
    guest.run("large").ends_with(0);
    assert!(guest.number("memory") * 1024 < LARGE, "the image is larger than the memory");
    let dirty: Vec<u64> = guest.text("dirty").lines().map(|line| line.parse().unwrap()).collect();
    assert!(dirty.len() > 15, "{dirty:?}");
    assert!(dirty.iter().all(|kib| *kib < 16 << 10), "KiB dirty, by second: {dirty:?}");
    assert!(guest.number("dirty-buffered") > 16 << 10, "a plain copy would show");
    let record = guest.record("large");
    assert_eq!(record.media_verdict, Some(Verdict::Matched { bytes: LARGE }));
    let took = |phase| record.phase(phase).unwrap().totals.took();
    assert!(took(Phase::Write) > Duration::from_secs(20), "{:?}", took(Phase::Write));
    assert!(took(Phase::Flush) < Duration::from_secs(3), "{:?}", took(Phase::Flush));
    write_rows(guest, "large");
}

#[test]
fn seconds_in_which_nothing_moves_are_rows_of_zero() {
    let Some(guest) = guest() else { return };
    guest.run("stall").ends_with(0);
    let rows = write_rows(guest, "stall");
    let zeros = rows.iter().filter(|row| row.bytes == 0).count();
    assert!((3..=8).contains(&zeros), "{rows:?}");
    assert!(rows[0].bytes > 0 || rows[1].bytes > 0, "the stall came later: {rows:?}");
    let stall = guest.record("stall").phase(Phase::Write).unwrap().totals.longest_stall_nanos;
    assert!((4_000_000_000..12_000_000_000).contains(&stall), "{stall}");
    assert!(guest.holds("stall-stick.img", "stall.img"));
}
