//! Several blocks of an xz file at the same time, in bounded memory. liblzma's threaded decoder
//! holds whole blocks, packed and unpacked, for every thread: 85 MiB with the 24 MiB of `xz -T0`
//! and two threads. Here a worker reads its block from the file piece by piece, and gets ahead of
//! the others by a part of a block alone.
//!
//! ```text
//! worker 0   |== block 0 ==|== block 2 ==|        what is decoded before its turn waits in the
//! worker 1   |=== 1 ===....|=== 3 ===|            worker's channel; a full one stops the worker
//! reader      0  0  0  0  0 1 1  1  1  1 2
//! ```
//! With `n` workers each is `1/n` of a block behind the one before, so `(n-1)/n` of a block is all
//! that a channel must hold for none to wait.

use std::io::{self, Read};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::engine::Engine;
use super::reach::Reach;
use super::xz::{self, Block};
use super::zstd::fill;
use super::{Fault, Format, Limits};
use crate::digest::Trailing;
use crate::image::{Codec, ReadAt};

/// Bytes of the image that are handed over at once.
const PIECE: usize = 1 << 20;
/// Bytes that a worker reads at once.
const STEP: usize = 256 << 10;
/// Blocks in a file; more are decoded one after the other.
const MOST: usize = 1 << 18;

/// How the blocks of a file are shared out.
#[derive(Clone, Debug)]
pub struct Plan {
    blocks: Arc<[Block]>,
    /// Zeros behind the last one.
    padding: u64,
    workers: usize,
    /// Pieces that a worker gets ahead.
    ahead: usize,
}

/// `None` where one block is decoded after the other: it is another format, there is one block,
/// there is one processor, or two blocks at a time take more than [`Limits::threading`].
pub fn plan(format: Format, file: &dyn ReadAt, limits: Limits) -> io::Result<Option<Plan>> {
    if format != Format::Stream(Codec::Xz) || limits.threads < 2 {
        return Ok(None);
    }
    let Some((blocks, padding)) = xz::blocks(file, MOST)? else { return Ok(None) };
    let Some(first) = blocks.first() else { return Ok(None) };
    let Some(dictionary) = xz::dictionary(file, first.start)? else { return Ok(None) };
    let largest = blocks.iter().map(|block| block.size).max().unwrap_or(0);
    let piece = PIECE as u64;
    let ahead = |workers: u64| (largest / workers).saturating_mul(workers - 1).div_ceil(piece);
    let takes = |workers: u64| {
        // One piece on its way in, one on its way out, and what the decoder has beside.
        let each = (ahead(workers) + 3).saturating_mul(piece).saturating_add(dictionary);
        each.saturating_mul(workers)
    };
    let most = u64::from(limits.threads).min(blocks.len() as u64);
    let workers = (2..=most).rev().find(|workers| takes(*workers) <= limits.threading);
    Ok(workers.and_then(|workers| {
        let ahead = usize::try_from(ahead(workers)).ok()?.max(1);
        let workers = usize::try_from(workers).ok()?;
        Some(Plan { blocks: blocks.into(), padding, workers, ahead })
    }))
}

/// What went wrong, and at which byte of the file.
type Failed = (Fault, u64);

/// A piece: its buffer, and how many bytes of that are the image's.
type Piece = (Vec<u8>, usize);

/// Decodes while it is read.
pub struct Parallel<R> {
    /// The file once more, from its first byte on: it is hashed there.
    input: R,
    name: String,
    limits: Limits,
    plan: Plan,
    workers: Vec<Receiver<Result<Piece, Failed>>>,
    spare: Sender<Vec<u8>>,
    /// The block that is given out, and how much of it was taken from its worker.
    block: usize,
    given: u64,
    piece: Piece,
    at: usize,
    over: bool,
}

impl<R: Reach> std::fmt::Debug for Parallel<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parallel({}, block {} of {:?})", self.name, self.block, self.plan.blocks.len())
    }
}

impl<R: Reach> Parallel<R> {
    /// Starts the workers. `name` is what messages call the file, `file` is the one of the plan.
    pub fn start(
        plan: &Plan,
        (input, file): (R, &Arc<dyn ReadAt + Send + Sync>),
        name: &str,
        limits: Limits,
    ) -> io::Result<Self> {
        let (spare, used) = unbounded();
        let mut workers = Vec::new();
        for first in 0..plan.workers {
            let (out, pieces) = bounded(plan.ahead);
            let (plan, file, used) = (plan.clone(), Arc::clone(file), used.clone());
            let worker = move || {
                let worker = Worker { file: &*file, limits, out: &out, used: &used };
                for block in plan.blocks.iter().skip(first).step_by(plan.workers) {
                    match worker.decode(block) {
                        Ok(true) => {}
                        // Nobody reads any more.
                        Ok(false) => break,
                        Err(failed) => {
                            out.send(Err(failed)).ok();
                            break;
                        }
                    }
                }
            };
            thread::Builder::new().name("xz".to_owned()).spawn(worker)?;
            workers.push(pieces);
        }
        let (name, plan) = (name.to_owned(), plan.clone());
        let (block, given, piece, at, over) = (0, 0, (Vec::new(), 0), 0, false);
        Ok(Self { input, name, limits, plan, workers, spare, block, given, piece, at, over })
    }

    /// The next piece of the image; `false` at its end.
    fn next(&mut self) -> Result<bool, Failed> {
        loop {
            let Some(&block) = self.plan.blocks.get(self.block) else { return Ok(false) };
            if self.given == block.size {
                self.follow(block.start + block.packed)?;
                (self.block, self.given) = (self.block + 1, 0);
                continue;
            }
            let died = || (Fault::Input(io::Error::other("a decoding thread died")), block.start);
            let piece = self.workers[self.block % self.plan.workers].recv();
            let (old, _) = std::mem::replace(&mut self.piece, piece.map_err(|_| died())??);
            // The workers are gone at the end.
            self.spare.send(old).ok();
            self.at = 0;
            self.given += self.piece.1 as u64;
            let part = u128::from(block.packed) * u128::from(self.given) / u128::from(block.size);
            self.follow(block.start + u64::try_from(part).unwrap_or(block.packed))?;
            return Ok(true);
        }
    }

    /// Hashes the file up to where decoding is.
    fn follow(&mut self, to: u64) -> Result<(), Failed> {
        while self.input.position() < to {
            let at = self.input.position();
            let len = self.input.peek(1).map_err(|e| (e.into(), at))?.len();
            if len == 0 {
                return Err((Fault::Truncated, at));
            }
            self.input.consume(len.min(usize::try_from(to - at).unwrap_or(len)));
        }
        Ok(())
    }

    /// Reads what follows the last block, so that the digest covers all of the file.
    fn end(&mut self) -> Result<(), Failed> {
        loop {
            let at = self.input.position();
            let len = self.input.peek(1).map_err(|e| (e.into(), at))?.len();
            if len == 0 {
                break;
            }
            self.input.consume(len);
        }
        self.input.end(Trailing { bytes: self.plan.padding, data: false });
        self.over = true;
        Ok(())
    }
}

impl<R: Reach> Read for Parallel<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let explain = |(fault, at): Failed, name: &str, limits| {
            io::Error::other(fault.explain(name, at, limits))
        };
        if self.at == self.piece.1 && !buf.is_empty() && !self.over {
            let more = self.next().and_then(|more| if more { Ok(()) } else { self.end() });
            more.map_err(|failed| explain(failed, &self.name, self.limits))?;
        }
        let ahead = &self.piece.0[self.at..self.piece.1];
        let len = ahead.len().min(buf.len());
        buf[..len].copy_from_slice(&ahead[..len]);
        self.at += len;
        Ok(len)
    }
}

/// What a worker works with.
struct Worker<'a> {
    file: &'a dyn ReadAt,
    limits: Limits,
    out: &'a Sender<Result<Piece, Failed>>,
    used: &'a Receiver<Vec<u8>>,
}

impl Worker<'_> {
    fn buffer(&self) -> Vec<u8> {
        let used = self.used.try_recv().ok().filter(|used| used.len() == PIECE);
        used.unwrap_or_else(|| vec![0; PIECE])
    }

    /// Decodes a block as if it were the only one of its stream; its check is part of it. `false`:
    /// nobody wants it.
    fn decode(&self, block: &Block) -> Result<bool, Failed> {
        let alone = Limits { threads: 1, ..self.limits };
        let xz = Engine::new(Format::Stream(Codec::Xz), alone);
        let mut engine = xz.map_err(|fault| (fault, block.start))?;
        engine.step(&block.header, &mut [], false).map_err(|fault| (fault, block.start))?;
        let (mut bytes, mut read, mut size) = (vec![0; STEP], 0, 0);
        let (mut piece, mut filled) = (self.buffer(), 0);
        while read < block.packed {
            let at = block.start + read;
            let left = usize::try_from(block.packed - read).unwrap_or(STEP).min(STEP);
            let len = fill(self.file, at, &mut bytes[..left]).map_err(|e| (e.into(), at))?;
            if len == 0 {
                return Err((Fault::Truncated, at));
            }
            let step = engine.step(&bytes[..len], &mut piece[filled..], false);
            let step = step.map_err(|fault| (fault, at))?;
            filled += step.written;
            (read, size) = (read + step.read as u64, size + step.written as u64);
            if step.read + step.written == 0 || size > block.size {
                return Err((Fault::Damaged("a block is not what the index says".to_owned()), at));
            }
            if filled == PIECE {
                let full = std::mem::replace(&mut piece, self.buffer());
                filled = 0;
                if self.out.send(Ok((full, PIECE))).is_err() {
                    return Ok(false);
                }
            }
        }
        if size < block.size {
            let why = "a block is shorter than the index says".to_owned();
            return Err((Fault::Damaged(why), block.start + read));
        }
        Ok(filled == 0 || self.out.send(Ok((piece, filled))).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use liblzma::stream::{Check, MtStreamBuilder};
    use liblzma::write::XzEncoder;

    use super::*;
    use crate::decode::{Feed, Tally};
    use crate::digest::Hasher;
    use crate::error::{Error, Kind};

    impl ReadAt for Vec<u8> {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            crate::image::Bytes(self).read_at(offset, buf)
        }
        fn size(&self) -> Option<u64> {
            Some(self.len() as u64)
        }
    }

    fn data(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        (0..len.div_ceil(16)).flat_map(|_| [next(), [7; 8]].concat()).take(len).collect()
    }

    fn packed(bytes: &[u8], block: u64) -> Vec<u8> {
        let mut builder = MtStreamBuilder::new();
        builder.threads(1).preset(0).block_size(block).check(Check::Crc32);
        let mut made = XzEncoder::new_stream(Vec::new(), builder.encoder().unwrap());
        made.write_all(bytes).unwrap();
        made.finish().unwrap()
    }

    fn limits(threads: u32, threading: u64) -> Limits {
        Limits { threading, threads, ..Limits::default() }
    }

    fn plan_of(file: &Vec<u8>, limits: Limits) -> Option<Plan> {
        plan(Format::Stream(Codec::Xz), file, limits).unwrap()
    }

    fn unpacked(plan: &Plan, file: &[u8], step: usize) -> (Result<Vec<u8>, Error>, Arc<Tally>) {
        let tally = Arc::new(Tally::default());
        let from = Box::new(io::Cursor::new(file.to_vec()));
        let feed = Feed::start(from, false, Arc::clone(&tally)).unwrap();
        let file: Arc<dyn ReadAt + Send + Sync> = Arc::new(file.to_vec());
        let mut unpack = Parallel::start(plan, (feed, &file), "it", Limits::default()).unwrap();
        let (mut out, mut buf) = (Vec::new(), vec![0; step]);
        loop {
            match unpack.read(&mut buf) {
                Ok(0) => return (Ok(out), tally),
                Ok(n) => out.extend_from_slice(&buf[..n]),
                Err(error) => return (Err(Error::from_read(error, "it")), tally),
            }
        }
    }

    #[test]
    fn blocks_come_in_their_order_whatever_their_size_and_number_of_workers() {
        let image = data(9_000_001);
        let streams = [
            packed(&image[..5_000_000], 1_300_000),
            packed(&[], 1 << 20),
            packed(&image[5_000_000..5_000_003], 1 << 20),
            vec![0; 8],
            packed(&image[5_000_003..], 700_001),
            vec![0; 12],
        ];
        let file = streams.concat();
        let mut hasher = Hasher::default();
        hasher.update(&file);
        let sha256 = hasher.finish();
        for (threads, step) in [(2, 1 << 20), (3, 70_001), (16, 4_000_000)] {
            let plan = plan_of(&file, limits(threads, 1 << 30)).unwrap();
            assert_eq!(plan.workers, usize::try_from(threads.min(11)).unwrap());
            let (out, tally) = unpacked(&plan, &file, step);
            assert!(out.unwrap() == image, "{threads} {step}");
            let seen = tally.file().unwrap();
            assert_eq!((seen.bytes, seen.sha256), (file.len() as u64, sha256));
            assert_eq!(seen.trailing, Trailing { bytes: 12, data: false });
            assert_eq!(tally.done(), file.len() as u64);
        }
    }

    #[test]
    fn a_file_whose_blocks_do_not_fit_into_memory_has_no_plan_for_two() {
        let file = packed(&data(9_000_000), 3_000_000);
        assert!(plan_of(&file, limits(1, 1 << 30)).is_none(), "one processor");
        assert!(plan_of(&file, limits(2, 8 << 20)).is_none(), "too little memory");
        assert_eq!(plan_of(&file, limits(8, 20 << 20)).unwrap().workers, 3);
        assert!(plan_of(&packed(&data(9_000), 10_000), limits(2, 1 << 30)).is_none(), "one block");
        assert!(plan_of(&b"no xz".to_vec(), limits(2, 1 << 30)).is_none());
        let gzip = plan(Format::Stream(Codec::Gzip), &file, limits(2, 1 << 30));
        assert!(gzip.unwrap().is_none());
    }

    #[test]
    fn no_flipped_bit_gives_another_image_and_a_cut_says_where() {
        let image = data(1_500);
        let file = packed(&image, 500);
        let plan = plan_of(&file, limits(3, 1 << 30)).unwrap();
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1 << (at % 8);
            let (out, _) = unpacked(&plan, &bad, 1 << 16);
            // The index, and the stream around it, were read before.
            assert!(out.is_err() || out.unwrap() == image, "{at}");
        }
        let within = usize::try_from(plan.blocks[2].start + 50).unwrap();
        let (out, _) = unpacked(&plan, &file[..within], 1 << 16);
        let error = out.unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        let place = format!("damaged at byte {within} of the compressed file");
        assert!(error.message().contains(&place), "{error}");
    }
}
