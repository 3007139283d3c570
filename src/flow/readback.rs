//! Reads the image's bytes back from the medium: SHA-256, chunk map, and what cannot be read.
//! Several threads read. The calling thread hashes in order; where the states of the digest were
//! kept while the image was written, as many threads hash as there are processors. It is also the
//! measurement of how fast a system could read this stick from end to end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::salvage::Salvage;
use super::{Busy, Context, Crew, Transfer};
use crate::device::pool::{Pool, PoolBuf};
use crate::device::{BlockDevice, full};
use crate::digest::Sha256;
use crate::digest::chunks::{Builder, ChunkMap, LEAF, Tag, level_for, tag};
use crate::digest::prefixes::Prefixes;
use crate::digest::ranges::{self, ImageHasher, Mapped};
use crate::error::{Error, Result};
use crate::event::notice::Notice;
use crate::event::{Event, Phase, Span};
use crate::meter::{IoSize, Meter, while_ticking};

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// Bytes from the start on.
    pub len: u64,
    /// What they should be; differences are announced when first seen.
    pub map: Option<&'a ChunkMap>,
    /// Of which stretches SHA-256 is taken; `None`: of all.
    pub mapped: Option<Arc<[Mapped]>>,
    /// The states of the digest that is expected.
    pub prefixes: Option<&'a Prefixes>,
}

/// What the medium returned.
#[derive(Debug)]
pub struct ReadBack {
    /// Over exactly the image's length, or the digests of its stretches. `Err`: it is another one
    /// than expected, because of the part at this offset.
    pub sha256: std::result::Result<Sha256, u64>,
    /// Where which bytes are.
    pub map: ChunkMap,
    /// Bytes that were compared: all, or those of the stretches.
    pub compared: u64,
    /// Stretches that could not be read; they count as zeros in the map.
    pub unreadable: Vec<Span>,
    /// Set when the kernel counted fewer bytes read from the device than were checked: some came
    /// from a cache, and prove nothing about the medium.
    pub counted: Option<u64>,
}

/// A buffer that was read, with the tags of its leaves.
struct Piece {
    index: u64,
    len: usize,
    leaves: Vec<Tag>,
    content: Content,
}

/// What SHA-256 wants to know of a piece.
enum Content {
    /// Its bytes, to be hashed behind those before it.
    Bytes(PoolBuf),
    /// Whether they are what was expected.
    Holds(bool),
}

/// What the reading threads share.
struct Reading<'a> {
    device: &'a dyn BlockDevice,
    pool: &'a Pool,
    len: u64,
    step: u64,
    next: AtomicU64,
    meter: &'a Meter,
    io_size: &'a IoSize,
    salvage: &'a Salvage,
    busy: &'a Busy,
    cx: &'a Context,
}

/// Reads what should be the image.
pub fn read_back(
    device: &dyn BlockDevice,
    wanted: Wanted<'_>,
    transfer: &Transfer,
    cx: &Context,
) -> Result<ReadBack> {
    device.invalidate_cache().map_err(|e| {
        Error::io(format!("the host's cache of {} could not be dropped", cx.target), e)
    })?;
    let len = wanted.len;
    // Whole leaves per buffer, so that each thread can tag its own.
    let step = (transfer.block as u64).next_multiple_of(LEAF);
    let depth = transfer.queue_depth.max(1);
    let prefixes = wanted.prefixes.filter(|prefixes| prefixes.step() == step);
    let wanted = Wanted { prefixes, ..wanted };
    let hashers = if prefixes.is_some() { hashers(cx) } else { 1 };
    let pool = Pool::new(
        depth + hashers + 2,
        usize::try_from(step).map_err(|_| super::internal("block too large"))?,
    );
    let io_size = transfer.io_size();
    let meter = cx.adapting_meter(Phase::Verify, Some(device.fetches(0, len)), transfer, &io_size);
    let crew = Crew::new(&cx.cancel);
    let salvage = Salvage::default();
    let (busy, hashing) = (Busy::default(), Busy::default());
    let reading = Reading {
        device,
        pool: &pool,
        len,
        step,
        next: AtomicU64::new(0),
        meter: &meter,
        io_size: &io_size,
        salvage: &salvage,
        busy: &busy,
        cx,
    };
    let compared = wanted.mapped.as_ref().map_or(len, |ranges| ranges::mapped(ranges));
    let level = level_for(device.geometry().size);
    let before = device.kernel_counters();
    let (sha256, map) = while_ticking(&meter, || {
        thread::scope(|scope| {
            let (done, read) = unbounded();
            for _ in 0..depth {
                let (reading, crew, done) = (&reading, &crew, done.clone());
                scope.spawn(move || crew.guard(|| reading.run(crew, &done)));
            }
            drop(done);
            let Some(prefixes) = prefixes.filter(|_| hashers > 1) else {
                return in_order(&read, level, wanted, cx, &hashing);
            };
            let (done, checked) = unbounded();
            for _ in 0..hashers {
                let (read, crew, done) = (read.clone(), &crew, done.clone());
                let hashing = &hashing;
                scope.spawn(move || {
                    crew.guard(|| check(&read, prefixes, &done, (crew, cx, hashing)));
                });
            }
            drop((read, done));
            in_order(&checked, level, wanted, cx, &hashing)
        })
    });
    meter.finish();
    let nanos = |busy: &Busy| u64::try_from(busy.total().as_nanos()).unwrap_or(u64::MAX);
    cx.events.emit(Event::Busy {
        phase: Phase::Verify,
        source_nanos: 0,
        hash_nanos: nanos(&hashing) / hashers as u64,
        device_nanos: nanos(&busy) / depth as u64,
    });
    crew.result()?;
    let counted =
        before.zip(device.kernel_counters()).map(|(then, now)| now.0.wrapping_sub(then.0));
    if let Some(bytes) = counted {
        cx.events.tell(Notice::KernelCounters { bytes });
    }
    let counted = counted.filter(|counted| *counted < device.fetches(0, len));
    Ok(ReadBack { sha256, map, compared, unreadable: salvage.finish(len), counted })
}

/// Threads that hash: one a processor, but no more than keep up with any device there is. With a
/// virtual clock one, or events would come in another order in every run.
fn hashers(cx: &Context) -> usize {
    if cx.clock.is_virtual() {
        return 1;
    }
    thread::available_parallelism().map_or(1, |count| count.get().min(4))
}

/// Hashes pieces in whatever order they come, each from the state before it.
fn check(
    read: &Receiver<Piece>,
    prefixes: &Prefixes,
    done: &Sender<Piece>,
    (crew, cx, busy): (&Crew<'_>, &Context, &Busy),
) {
    for piece in read {
        let Content::Bytes(buf) = piece.content else { continue };
        if crew.stopped() {
            // Dropping buffers gives them back, so that nobody waits for one.
            continue;
        }
        let holds = busy.computing(&*cx.clock, || prefixes.holds(piece.index, &buf[..piece.len]));
        drop(buf);
        // Fails only when the calling thread is gone.
        done.send(Piece { content: Content::Holds(holds), ..piece }).ok();
    }
}

impl Reading<'_> {
    fn run(&self, crew: &Crew<'_>, done: &Sender<Piece>) {
        // A buffer first, a number second: whoever holds the lowest number has a buffer, so the
        // hasher never waits for a piece that waits for a buffer.
        while let Some(mut buf) = self.pool.take(&|| crew.stopped()) {
            let index = self.next.fetch_add(1, Ordering::SeqCst);
            let offset = index * self.step;
            if offset >= self.len {
                break;
            }
            let len = usize::try_from(self.step.min(self.len - offset)).unwrap_or(0);
            let result =
                self.busy.during(&*self.cx.clock, || self.fill(offset, len, &mut buf, crew));
            if let Err(error) = result {
                crew.fail(error);
                break;
            }
            let leaf = usize::try_from(LEAF).unwrap_or(1);
            let leaves = buf[..len].chunks(leaf).map(tag).collect();
            let content = Content::Bytes(buf);
            if crew.stopped() || done.send(Piece { index, len, leaves, content }).is_err() {
                break;
            }
        }
    }

    /// Reads `len` bytes, rounded up to whole blocks, in pieces of the current I/O size.
    fn fill(&self, offset: u64, len: usize, buf: &mut [u8], crew: &Crew<'_>) -> Result<()> {
        let block = usize::try_from(self.device.geometry().logical_block).unwrap_or(512);
        let padded = len.next_multiple_of(block);
        let mut done = 0;
        while done < padded && !crew.stopped() {
            let step = usize::try_from(self.io_size.get()).unwrap_or(padded).min(padded - done);
            let at = offset + done as u64;
            let payload = len.min(done + step).saturating_sub(done) as u64;
            let piece = &mut buf[done..done + step];
            let started = self.meter.now();
            match full::read_full(self.device, at, piece) {
                Ok(()) => self.meter.io(started, self.device.fetches(at, payload)),
                Err(error) => self.salvage.read(self.device, at, piece, error).map_err(|e| {
                    self.cx.io_failed(self.device, Phase::Verify, e, at, step as u64)
                })?,
            }
            done += step;
        }
        Ok(())
    }
}

/// Puts pieces in ascending order, whatever order they come in, and hashes those that are not yet.
fn in_order(
    read: &Receiver<Piece>,
    level: u32,
    Wanted { map: expected, mapped, prefixes, .. }: Wanted<'_>,
    cx: &Context,
    busy: &Busy,
) -> (std::result::Result<Sha256, u64>, ChunkMap) {
    let mut early: BTreeMap<u64, Piece> = BTreeMap::new();
    let mut hasher = ImageHasher::new(mapped, false);
    let mut map = Builder::new(level);
    let (mut next, mut at, mut differs) = (0, 0, None);
    let mut announced = expected.is_none_or(|map| map.level() != 0);
    for piece in read {
        early.insert(piece.index, piece);
        while let Some(piece) = early.remove(&next) {
            let holds = match (&piece.content, prefixes) {
                (Content::Holds(holds), _) => *holds,
                (Content::Bytes(buf), Some(prefixes)) => {
                    let bytes = &buf[..piece.len];
                    busy.computing(&*cx.clock, || prefixes.holds(piece.index, bytes))
                }
                (Content::Bytes(buf), None) => {
                    busy.computing(&*cx.clock, || hasher.update(&buf[..piece.len]));
                    true
                }
            };
            if !holds && differs.is_none() {
                differs = Some(at);
            }
            (next, at) = (next + 1, at + piece.len as u64);
            let mut left = piece.len as u64;
            for leaf in piece.leaves {
                if !announced && expected.and_then(|e| e.entries().get(map.leaves())) != Some(&leaf)
                {
                    announced = true;
                    cx.events.emit(Event::FirstDifference { offset: map.leaves() as u64 * LEAF });
                }
                map.push_leaf(leaf, left.min(LEAF));
                left = left.saturating_sub(LEAF);
            }
        }
    }
    let sha256 = match (differs, prefixes) {
        (Some(at), _) => Err(at),
        (None, None) => Ok(hasher.finish().proof),
        (None, Some(prefixes)) if next == prefixes.parts() => Ok(prefixes.digest()),
        // What was not looked at holds nothing.
        (None, Some(_)) => Err(at),
    };
    (sha256, map.finish())
}
