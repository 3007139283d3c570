//! Fakes of every make, at random, and genuine sticks that are never accused.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use super::*;
use crate::bench::data::mix;
use crate::cancel::CancelToken;
use crate::device::sim::fake::{Fake, FakeCapacity};
use crate::device::sim::memory::Memory;
use crate::device::{Discard, Geometry};
use crate::event::Events;
use crate::event::capacity::Behind;
use crate::time::SimClock;
use crate::units::GIB;

/// Keeps the last `blocks` blocks of 4 KiB that were written, whatever becomes of them below.
#[derive(Debug)]
struct Cached {
    inner: Box<dyn BlockDevice>,
    blocks: usize,
    kept: Mutex<Kept>,
}

/// By their number, and their numbers in the order in which they were written.
type Kept = (HashMap<u64, Vec<u8>>, VecDeque<u64>);

const BLOCK_OF_CACHE: usize = 4096;

impl BlockDevice for Cached {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read_at(offset, buf)?;
        let kept = self.kept.lock().unwrap();
        for (index, sector) in buf[..read].chunks_mut(SECTOR).enumerate() {
            let at = offset + (index * SECTOR) as u64;
            let (block, inside) =
                (at / BLOCK_OF_CACHE as u64, usize::try_from(at).unwrap() % BLOCK_OF_CACHE);
            if let Some(bytes) = kept.0.get(&block) {
                sector.copy_from_slice(&bytes[inside..inside + sector.len()]);
            }
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        full::write_full(&*self.inner, offset, buf)?;
        let (kept, order) = &mut *self.kept.lock().unwrap();
        for (index, bytes) in buf.chunks(BLOCK_OF_CACHE).enumerate() {
            let at = offset + (index * BLOCK_OF_CACHE) as u64;
            // Whole blocks only; the tail of an odd size goes around the cache.
            if !at.is_multiple_of(BLOCK_OF_CACHE as u64) || bytes.len() < BLOCK_OF_CACHE {
                continue;
            }
            let block = at / BLOCK_OF_CACHE as u64;
            order.push_back(block);
            kept.insert(block, bytes.to_vec());
            if order.len() > self.blocks {
                let oldest = order.pop_front().unwrap();
                if !order.contains(&oldest) {
                    kept.remove(&oldest);
                }
            }
        }
        Ok(buf.len())
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        self.inner.discard(offset, len, how)
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn check_identity(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn present(&self) -> bool {
        true
    }
}

/// Fails behind a border, in reads and writes.
#[derive(Debug)]
struct Ends(Memory, u64);

impl BlockDevice for Ends {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let end = offset + buf.len() as u64;
        if end > self.1 {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            self.0.read_at(offset, buf)
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        let end = offset + buf.len() as u64;
        if end > self.1 {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            self.0.write_at(offset, buf)
        }
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64, _: Discard) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn check_identity(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn present(&self) -> bool {
        true
    }
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % limit.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }
}

fn look(device: &dyn BlockDevice, seed: u64, least: u64, full: bool) -> Capacity {
    let (events, received) = Events::channel();
    let cx = Context {
        clock: Arc::new(SimClock::default()),
        events,
        cancel: CancelToken::default(),
        target: "sim".to_owned(),
    };
    let probe =
        Probe { device, cx: &cx, data: Data::new(seed), size: device.geometry().size, least };
    let capacity = if full { probe.full() } else { probe.quick() }.unwrap();
    drop(received);
    capacity
}

/// A device that claims `size`; `None` for `real`: genuine.
fn device(size: u64, sector: u32, fake: Option<FakeCapacity>, cache: u64) -> Box<dyn BlockDevice> {
    let memory: Box<dyn BlockDevice> = Box::new(Memory::new(size, sector, 0xff, false));
    let inner: Box<dyn BlockDevice> = match fake {
        Some(fake) => Box::new(Fake::new(memory, fake)),
        None => memory,
    };
    let blocks = usize::try_from(cache).unwrap() / BLOCK_OF_CACHE;
    if blocks == 0 {
        return inner;
    }
    Box::new(Cached { inner, blocks, kept: Mutex::default() })
}

/// What is wrong with the answer for a random device, if anything; `least` is the region's size, of
/// which a cache has at most half.
fn wrong_answer(seed: u64, least: u64) -> Option<String> {
    let mut dice = Dice(seed);
    let sector = [512, 512, 512, 4096][usize::try_from(dice.below(4)).unwrap()];
    let unit = u64::from(sector);
    // From two regions to hundreds of them, in any number of sectors.
    let most = (2 * least) << dice.below(9);
    let size = dice.between(2 * least, most + 1) / unit * unit;
    let cache = if dice.below(2) == 0 { 0 } else { least / 2 };
    let real = match dice.below(4) {
        // Lying only at the end: some sectors, or some MiB.
        0 => size - unit * dice.between(1, 64),
        1 => size - (unit * dice.between(1, size / unit / 16)),
        _ => dice.between(size / 64, size) / unit * unit,
    };
    let fake = match dice.below(4) {
        0 | 1 => Some(FakeCapacity { real: real.max(unit), wraps: true }),
        2 => Some(FakeCapacity { real: real.max(unit), wraps: false }),
        _ => None,
    };
    let device = device(size, sector, fake, cache);
    let found = look(&*device, seed, least, false);
    let right = match (&found, fake) {
        (Capacity::AsClaimed { .. }, None) => true,
        (Capacity::Less { real, behind, .. }, Some(fake)) => {
            let expected = if fake.wraps { Behind::Wraps } else { Behind::Lost };
            real.abs_diff(fake.real) <= MIB && *behind == expected
        }
        _ => false,
    };
    (!right).then(|| format!("seed {seed}: {size} bytes, {fake:?}, cache {cache}: {found:?}"))
}

#[test]
fn b123_fakes_of_any_modulus_and_lost_writes_are_found_and_genuine_ones_are_not_accused() {
    let wrong: Vec<String> = (0..400).filter_map(|seed| wrong_answer(seed, 4 * MIB)).collect();
    assert!(wrong.is_empty(), "{} of 400:\n{}", wrong.len(), wrong.join("\n"));
}

/// As above with real sizes: regions of 128 MiB and caches of 64.
#[test]
#[ignore = "writes 60 GB of memory: ten minutes"]
fn fakes_of_real_sizes_with_caches_of_64_mib_are_found() {
    let wrong: Vec<String> = (0..400).filter_map(|seed| wrong_answer(seed, REGION)).collect();
    assert!(wrong.is_empty(), "{} of 400:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_full_probe_names_the_capacity_to_the_sector() {
    for (real, wraps) in [(5 * MIB + 512, true), (5 * MIB + 512, false), (40 * MIB - 512, false)] {
        let device = device(40 * MIB, 512, Some(FakeCapacity { real, wraps }), 0);
        let found = look(&*device, 9, 2 * MIB, true);
        let behind = if wraps { Behind::Wraps } else { Behind::Lost };
        let expected = Capacity::Less { claimed: 40 * MIB, real, within: 0, behind };
        assert_eq!(found, expected);
    }
    let genuine = look(&*device(40 * MIB, 512, None, 0), 9, 2 * MIB, true);
    assert!(
        matches!(genuine, Capacity::AsClaimed { compared, full: true, .. } if compared == 40 * MIB)
    );
}

#[test]
fn a_device_that_fails_from_somewhere_on_is_named_with_its_border() {
    let ends = Ends(Memory::new(GIB, 512, 0, false), 700 * MIB + 1536);
    let Capacity::Less { real, within, behind, .. } = look(&ends, 4, 4 * MIB, false) else {
        panic!("not found")
    };
    assert_eq!(behind, Behind::Fails);
    assert!(real.abs_diff(ends.1) <= 4096 + within, "{real} {within}");
    assert!(within <= MIB);
}

#[test]
fn the_region_and_the_samples_leave_no_gap_that_a_modulus_could_hide_in() {
    for size in [1, 3, 100, 1000, 4096, 30_000, 262_144, 2_097_152_u64].map(|mib| mib * MIB) {
        for extra in [0, 512, 7 * 512] {
            let layout = Layout::of(size + extra, 512, REGION);
            let size = size + extra;
            let mut end = layout.region;
            for sample in &layout.samples {
                assert!(sample.offset >= end && sample.end() <= layout.tail.offset);
                assert!(sample.offset - end <= layout.region, "{size}: {sample:?}");
                end = sample.end();
            }
            assert_eq!(layout.tail.end(), size);
            assert!(layout.tail.offset - end <= layout.region, "{size}: {:?}", layout.tail);
            assert!(layout.samples.len() < 10_000, "{size}: {}", layout.samples.len());
        }
    }
}
