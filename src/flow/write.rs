//! The write pass. All threads live in one scope; the calling thread hashes.

use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::guard::Ends;
use super::produce::{Chunk, Production, produce};
use super::{Busy, Context, Crew, Transfer, internal};
use crate::device::{BlockDevice, full, pool::Pool};
use crate::digest::chunks::{ChunkMap, level_for};
use crate::digest::prefixes::{Prefixes, Recorder};
use crate::digest::ranges::{ImageDigest, ImageHasher};
use crate::error::{Error, Result};
use crate::event::{Event, Phase};
use crate::meter::{IoSize, Meter, while_ticking};
use crate::source::relay::{Digests, Relay};
use crate::source::{Source, bmap};

/// The image is on the medium but for the chunks that touch its ends.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) digest: ImageDigest,
    pub(super) map: ChunkMap,
    /// For a read-back by several threads.
    pub(super) prefixes: Option<Arc<Prefixes>>,
    /// Held back, in ascending order.
    pub(super) held: Vec<Chunk>,
}

/// Reads, hashes and writes the image, as this phase; returns when every write but the held ones
/// completed.
/// `whole`: its SHA-256 is wanted also where a block map's stretches are all that counts.
pub(super) fn write(
    source: &dyn Source,
    whole: bool,
    device: &dyn BlockDevice,
    (phase, transfer): (Phase, &Transfer),
    cx: &Context,
) -> Result<Written> {
    let geometry = device.geometry();
    let ends = Ends::of(geometry.size);
    let pool = Pool::new(buffers(transfer, ends), transfer.block);
    let io_size = transfer.io_size();
    let total = source.info().len.map(|len| {
        let held = ends.held(len, transfer.block as u64);
        device.fetches(0, len).saturating_sub(device.fetches(0, held))
    });
    let meter = cx.adapting_meter(phase, total, transfer, &io_size);
    let crew = Crew::new(&cx.cancel);
    let (reading, hashing, writing) = (Busy::default(), Busy::default(), Busy::default());
    let job = Production {
        source,
        pool: &pool,
        block: transfer.block,
        logical_block: usize::try_from(geometry.logical_block).unwrap_or(512),
        room: geometry.size,
        level: level_for(geometry.size),
        busy: &reading,
        meter: &meter,
    };
    let writer = Writer { device, meter: &meter, io_size: &io_size, cx, phase, busy: &writing };
    let (map, digests, held) = while_ticking(&meter, || {
        thread::scope(|scope| {
            let (to_hash, produced) = unbounded();
            let (to_write, hashed) = unbounded();
            let (crew, job, writer) = (&crew, &job, &writer);
            let reader = scope.spawn(move || {
                crew.guard(|| produce(job, cx, crew, &to_hash).map_err(|e| crew.fail(e)).ok())
                    .flatten()
            });
            for _ in 0..transfer.queue_depth.max(1) {
                let hashed: Receiver<Chunk> = hashed.clone();
                scope.spawn(move || crew.guard(|| writer.run(crew, &hashed)));
            }
            drop(hashed);
            let mut digests = Hashing::new(source, whole, transfer.block);
            let held = pass_on(&produced, &to_write, ends, crew, |bytes| {
                hashing.computing(&*cx.clock, || digests.update(bytes))
            });
            drop(to_write);
            let digests = digests.finish(crew);
            (reader.join(), digests, held)
        })
    });
    meter.finish();
    cx.events.emit(Event::Busy {
        phase,
        source_nanos: nanos(&reading),
        hash_nanos: nanos(&hashing),
        device_nanos: nanos(&writing) / transfer.queue_depth.max(1) as u64,
    });
    crew.result()?;
    let map =
        map.ok().flatten().ok_or_else(|| internal("the reader thread ended without a result"))?;
    let Digests { digest, prefixes } =
        digests.ok_or_else(|| internal("the image was read and not hashed"))?;
    Ok(Written { digest, map, prefixes, held })
}

fn nanos(busy: &Busy) -> u64 {
    u64::try_from(busy.total().as_nanos()).unwrap_or(u64::MAX)
}

/// Who computes the digests of the image: this pass, or whoever reads it for several targets.
enum Hashing<'a> {
    Here { name: &'a str, digests: Box<(ImageHasher, Recorder)> },
    Elsewhere(&'a Relay),
}

impl<'a> Hashing<'a> {
    fn new(source: &'a dyn Source, whole: bool, block: usize) -> Self {
        if let Some(relay) = source.hashed_by() {
            return Self::Elsewhere(relay);
        }
        let hasher = ImageHasher::new(source.mapped(), whole);
        let digests = Box::new((hasher, Recorder::new(block as u64)));
        Self::Here { name: &source.info().name, digests }
    }

    /// The next block of the image; an error when it is known to be wrong.
    fn update(&mut self, bytes: &[u8]) -> Option<Error> {
        let Self::Here { name, digests } = self else { return None };
        let (hasher, parts) = &mut **digests;
        parts.before(hasher);
        hasher.update(bytes);
        hasher.wrong().map(|wrong| bmap::wrong(name, wrong))
    }

    /// `None` only when the crew has stopped.
    fn finish(self, crew: &Crew<'_>) -> Option<Digests> {
        match self {
            Self::Here { digests, .. } => {
                let (hasher, parts) = *digests;
                let prefixes = parts.finish(&hasher).map(Arc::new);
                Some(Digests { digest: hasher.finish(), prefixes })
            }
            Self::Elsewhere(relay) => {
                relay.digests(&|| crew.stopped()).map_err(|error| crew.fail(error)).ok().flatten()
            }
        }
    }
}

/// Enough buffers for one at the reader, one at the hasher, one waiting, one per writer, and all
/// that are held back at both ends.
fn buffers(transfer: &Transfer, ends: Ends) -> usize {
    let per_end = |len: u64| usize::try_from(len).unwrap_or(0).div_ceil(transfer.block);
    3 + transfer.queue_depth + per_end(ends.head.len) + per_end(ends.tail.len) + 1
}

/// Hashes chunks in order, unless that finds an error, and passes them on, but for those that
/// touch an end of the device.
fn pass_on(
    produced: &Receiver<Chunk>,
    to_write: &Sender<Chunk>,
    ends: Ends,
    crew: &Crew<'_>,
    mut hash: impl FnMut(&[u8]) -> Option<Error>,
) -> Vec<Chunk> {
    let mut held = Vec::new();
    for chunk in produced {
        if crew.stopped() {
            // Dropping chunks gives their buffers back, so that nobody waits for one.
            continue;
        }
        if let Some(error) = hash(&chunk.buf[..chunk.len]) {
            crew.fail(error);
        } else if ends.touch(chunk.offset, chunk.end()) {
            held.push(chunk);
        } else {
            // Fails only when every writer is gone; then the crew has stopped, and the chunk is
            // dropped like those that follow.
            to_write.send(chunk).ok();
        }
    }
    held
}

/// What a writer thread works with.
#[derive(Debug)]
struct Writer<'a> {
    device: &'a dyn BlockDevice,
    meter: &'a Meter,
    io_size: &'a IoSize,
    cx: &'a Context,
    phase: Phase,
    busy: &'a Busy,
}

impl Writer<'_> {
    fn run(&self, crew: &Crew<'_>, hashed: &Receiver<Chunk>) {
        for chunk in hashed {
            if crew.stopped() {
                continue;
            }
            if let Err(error) = self.busy.during(&*self.cx.clock, || self.write(&chunk, crew)) {
                crew.fail(error);
            }
        }
    }

    /// Writes a chunk in pieces of the current I/O size.
    fn write(&self, chunk: &Chunk, crew: &Crew<'_>) -> Result<()> {
        let mut done = 0;
        while done < chunk.padded && !crew.stopped() {
            let step = usize::try_from(self.io_size.get())
                .unwrap_or(chunk.padded)
                .min(chunk.padded - done);
            write_piece(self.device, chunk, done..done + step, self.meter).map_err(|(e, at)| {
                self.cx.io_failed(self.device, self.phase, e, at, step as u64)
            })?;
            done += step;
        }
        Ok(())
    }
}

/// Writes part of a chunk; counts its payload, not its padding.
fn write_piece(
    device: &dyn BlockDevice,
    chunk: &Chunk,
    part: std::ops::Range<usize>,
    meter: &Meter,
) -> std::result::Result<(), (std::io::Error, u64)> {
    let offset = chunk.offset + part.start as u64;
    let end = chunk.len.min(part.end).max(part.start);
    let payload = device.sends(offset, &chunk.buf[part.start..end]);
    meter
        .observe(payload, || full::write_full(device, offset, &chunk.buf[part.clone()]))
        .map_err(|e| (e, offset))
}

/// Writes the held chunks: those at the end in ascending order, so that the last sector with its
/// backup table comes late; flush; then the first chunk, and flush again.
pub(super) fn release(device: &dyn BlockDevice, held: &[Chunk], cx: &Context) -> Result<()> {
    cx.timed(Phase::Release, |meter| {
        let (first, rest) =
            held.split_first().map_or((None, held), |(first, rest)| (Some(first), rest));
        for group in [rest, first.map_or(&[][..], std::slice::from_ref)] {
            for chunk in group {
                cx.cancel.check()?;
                write_piece(device, chunk, 0..chunk.padded, meter).map_err(|(e, at)| {
                    cx.io_failed(device, Phase::Release, e, at, chunk.padded as u64)
                })?;
            }
            if !group.is_empty() {
                device.flush().map_err(|e| cx.flush_failed(device, e))?;
            }
        }
        Ok(())
    })?;
    cx.events.emit(Event::HeadReleased);
    Ok(())
}
