//! Sparse writing: zeros are left out only where the device was seen to have them, and whatever it
//! does later is found by the read-back.

use std::io;
use std::sync::Arc;

use crate::common::{Shared, noise, plan, run};
use crate::lab;
use mediawriter::device::{BlockDevice, Discard, Geometry};
use mediawriter::error::Kind;
use mediawriter::event::{Event, Phase};
use mediawriter::flow::flash::{DiscardMode, Plan};
use mediawriter::source::memory::MemorySource;

const SIZE: u64 = 16 << 20;

/// What a device makes of a request for zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    /// As asked.
    Honest,
    /// It says yes and does nothing.
    Lazy,
    /// It does not know how.
    Refuses,
    /// Zeros are there for the places that a sample looks at.
    FoolsSamples,
}

#[derive(Debug)]
struct Stick {
    inner: Shared,
    discard: Habit,
    zero: Habit,
}

impl BlockDevice for Stick {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        self.inner.write_at(offset, buf)
    }
    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        match if how == Discard::Trim { self.discard } else { self.zero } {
            Habit::Honest => self.inner.discard(offset, len, how),
            Habit::Lazy => Ok(()),
            Habit::Refuses => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
            Habit::FoolsSamples => {
                // All but a stretch that no sample of 64 places can hit (they are 224 KiB apart).
                self.inner.discard(offset, len, how)?;
                let mut old = mediawriter::sys::buffer::AlignedBuf::zeroed(128 << 10);
                old.fill(0xff);
                self.inner.write_at(7104 << 10, &old).map(drop)
            }
        }
    }
    fn invalidate_cache(&self) -> io::Result<()> {
        self.inner.invalidate_cache()
    }
    fn check_identity(&self) -> Result<(), String> {
        self.inner.check_identity()
    }
    fn present(&self) -> bool {
        true
    }
}

/// 1.5 MiB of data, 10 MiB of zeros, half a MiB of data.
fn image() -> Vec<u8> {
    let data = noise(2 << 20, 9);
    let (head, tail) = data.split_at(3 << 19);
    [head, &vec![0; 10 << 20], tail].concat()
}

fn sparse() -> Plan {
    Plan { sparse: true, ..plan(1 << 20) }
}

/// Bytes that were sent, and the codes of what was noted.
fn outcome(discard: Habit, zero: Habit, plan: &Plan) -> (Result<u64, Kind>, Vec<String>, bool) {
    let stick = Stick { inner: Shared::old_stick(SIZE, 512), discard, zero };
    let source = MemorySource::new("image", image());
    let (done, events) = run(&source, &stick, plan, &Arc::default());
    let sent = events.iter().filter_map(|event| match event {
        Event::PhaseEnded(totals) if matches!(totals.phase, Phase::Write | Phase::Release) => {
            Some(totals.bytes)
        }
        _ => None,
    });
    let sent = sent.sum();
    let codes = events.iter().filter_map(|event| match event {
        Event::Note { code, .. } | Event::Warning { code, .. } => Some(code.clone()),
        _ => None,
    });
    let same = stick.inner.bytes(image().len()) == image();
    (done.map(|_| sent).map_err(|e| e.kind()), codes.collect(), same)
}

#[test]
fn zeros_are_left_out_after_a_discard_that_left_zeros_and_by_devices_that_zero() {
    let all = image().len() as u64;
    let never = Plan { discard: DiscardMode::Never, ..sparse() };
    for (discard, zero, plan) in [
        (Habit::Honest, Habit::Refuses, &sparse()),
        (Habit::Lazy, Habit::Honest, &sparse()),
        (Habit::Refuses, Habit::Honest, &sparse()),
        (Habit::Refuses, Habit::Honest, &never),
    ] {
        let (sent, codes, same) = outcome(discard, zero, plan);
        assert!(sent.unwrap() < all - (9 << 20), "{discard:?} {zero:?}: {codes:?}");
        assert!(codes.iter().any(|code| code == "sparse") && same);
    }
}

#[test]
fn b79_a_device_that_only_says_so_gets_every_byte() {
    let all = image().len() as u64;
    for (discard, zero) in [
        (Habit::Lazy, Habit::Refuses),
        (Habit::Lazy, Habit::Lazy),
        (Habit::Refuses, Habit::Lazy),
        (Habit::Refuses, Habit::Refuses),
    ] {
        let (sent, codes, same) = outcome(discard, zero, &sparse());
        assert_eq!(sent.unwrap(), all, "{discard:?} {zero:?}: {codes:?}");
        assert!(codes.iter().any(|code| code == "not-sparse") && same);
    }
    let (sent, _, same) = outcome(Habit::Honest, Habit::Honest, &plan(1 << 20));
    assert!(sent.unwrap() == all && same, "and without --sparse zeros are data");
}

#[test]
fn b79_old_data_where_no_sample_looked_is_found_by_the_read_back() {
    let (done, codes, same) = outcome(Habit::FoolsSamples, Habit::Refuses, &sparse());
    assert!(codes.iter().any(|code| code == "sparse") && !same);
    assert_eq!(done.unwrap_err(), Kind::MediaMismatch);
}

#[test]
fn a_loop_device_gets_the_data_of_a_sparse_image_alone() {
    if !lab::lab_has(&["losetup"]) {
        return;
    }
    let dir = lab::target_folder();
    let image = lab::put(dir.path(), "x.img", &image());
    for more in [&["--discard", "auto"][..], &["--discard", "never"]] {
        let stick = lab::LoopDev::with(SIZE, &["--direct-io=on"]);
        lab::fill(&stick.file.to_string_lossy(), 0xff, SIZE);
        let sparse = [&["--force", "--sparse", "auto"], more].concat();
        let output = lab::flash(&image, &stick.device, &sparse).expect(0);
        assert!(output.remarked("sparse") && output.remarked("zeros-not-sent"), "{output}");
        let seen = lab::read_direct(&stick.device, 0, 12 << 20);
        assert!(seen == std::fs::read(&image).unwrap());
    }
}
