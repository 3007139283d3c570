//! The reader thread: source bytes into pool buffers, with their place in the chunk map.

use std::io::{self, Read};

use crossbeam_channel::Sender;

use super::{Busy, Context, Crew, too_large};
use crate::device::pool::{Pool, PoolBuf};
use crate::digest::chunks::{Builder, ChunkMap};
use crate::error::{Error, Result};
use crate::event::Consumed;
use crate::meter::Meter;
use crate::source::{Progress, Source, fill, read_failed};

/// Half of the level-2 cache of a common core.
const BITE: usize = 256 << 10;

/// A buffer on its way to the device. The bytes between `len` and `padded` are zero.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Where it belongs on the medium, in bytes.
    pub(super) offset: u64,
    /// Payload.
    pub(super) len: usize,
    /// Payload rounded up to the device's logical block.
    pub(super) padded: usize,
    pub(super) buf: PoolBuf,
}

impl Chunk {
    /// First byte behind what is written.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.padded as u64
    }
}

/// What the reader thread needs to know.
#[derive(Debug)]
pub(super) struct Production<'a> {
    pub(super) source: &'a dyn Source,
    pub(super) pool: &'a Pool,
    pub(super) block: usize,
    pub(super) logical_block: usize,
    pub(super) room: u64,
    pub(super) level: u32,
    pub(super) busy: &'a Busy,
    pub(super) meter: &'a Meter,
}

/// Reads the source to its end; returns the map of everything that was sent.
pub(super) fn produce(
    job: &Production<'_>,
    cx: &Context,
    crew: &Crew<'_>,
    out: &Sender<Chunk>,
) -> Result<ChunkMap> {
    let name = &job.source.info().name;
    let mut reader = job.source.open()?;
    let mut map = Builder::new(job.level);
    let mut offset = 0;
    while let Some(mut buf) = job.pool.take(&|| crew.stopped()) {
        let filled = job
            .busy
            .computing(&*cx.clock, || take_in(&mut *reader, &mut buf[..job.block], &mut map, crew));
        let len = filled.map_err(|e| read_failed(name, e, offset, job.block as u64))?;
        if let Some(Progress { done, total }) = job.source.progress() {
            job.meter.consumed(Consumed { done, total });
        }
        if len == 0 {
            break;
        }
        if offset + len as u64 > job.room {
            return Err(too_large(offset + len as u64, job.room, &cx.target));
        }
        let padded = len.next_multiple_of(job.logical_block);
        buf[len..padded].fill(0);
        if out.send(Chunk { offset, len, padded, buf }).is_err() {
            break;
        }
        offset += len as u64;
    }
    if !crew.stopped() {
        check_length(job.source, offset)?;
    }
    Ok(map.finish())
}

/// Fills a buffer in bites and tags each while it is still in the core's own cache.
fn take_in(
    reader: &mut dyn Read,
    buf: &mut [u8],
    map: &mut Builder,
    crew: &Crew<'_>,
) -> io::Result<usize> {
    let mut done = 0;
    for bite in buf.chunks_mut(BITE) {
        let len = fill(reader, bite, &|| crew.stopped())?;
        map.push(&bite[..len]);
        done += len;
        if len < bite.len() {
            break;
        }
    }
    Ok(done)
}

/// A file that shrinks or grows under us is not the image that was looked at.
fn check_length(source: &dyn Source, got: u64) -> Result<()> {
    let info = source.info();
    match info.len {
        Some(len) if len != got => Err(Error::io(
            format!(
                "the image {} changed while it was read: {len} bytes before, {got} now",
                info.name
            ),
            io::Error::from(io::ErrorKind::UnexpectedEof),
        )
        .hint("is it still being downloaded? start again when it is complete")),
        _ => Ok(()),
    }
}
