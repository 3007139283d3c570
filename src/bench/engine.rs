//! Keeps the I/Os of one test in flight and takes their times. With io_uring a thread prepares
//! the next buffer and checks the last one while the others are in flight; where it is not to be
//! had, each I/O in flight has a thread of its own. A device on a virtual clock has one thread,
//! and depth means nothing to it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::data::{Data, mix};
use super::latency::Times;
use super::supply::Supply;
use crate::device::{BlockDevice, full};
use crate::error::Result;
use crate::event::measure::{Direction, Test};
use crate::event::{Phase, Span};
use crate::flow::{Context, Crew};
use crate::meter::{Meter, while_ticking};
use crate::sys::buffer::AlignedBuf;
use crate::sys::uring::Ring;

/// Who keeps I/Os in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// io_uring.
    Uring,
    /// A thread for each.
    Threads,
    /// One thread on a virtual clock.
    Simulated,
}

impl Engine {
    /// As records name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uring => "io_uring",
            Self::Threads => "threads",
            Self::Simulated => "simulated",
        }
    }

    /// The best that a device and this system allow.
    pub fn of(device: &dyn BlockDevice, virtual_time: bool) -> Self {
        if virtual_time {
            return Self::Simulated;
        }
        match device.descriptor().map(|fd| Ring::new(fd, 1, 4096)) {
            Some(Ok(_)) => Self::Uring,
            Some(Err(_)) | None => Self::Threads,
        }
    }
}

/// One test with all it needs.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) device: &'a dyn BlockDevice,
    pub(super) test: &'a Test,
    pub(super) engine: Engine,
    pub(super) supply: Supply<'a>,
    /// What is written; what reads are compared with.
    pub(super) data: Option<&'a Data>,
    pub(super) meter: &'a Meter,
    pub(super) cx: &'a Context,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) times: Times,
    pub(super) checked: u64,
    pub(super) wrong: u64,
}

/// Buffers in a ring beside those in flight: one that is filled or checked meanwhile.
const SPARE: usize = 1;
/// Up to this block size, data is made and compared in less time than a second system call for
/// each I/O takes, and than the other processor needs to wake up for it.
const SMALL: u64 = 64 << 10;

impl Job<'_> {
    /// Does all I/Os. The first that fails ends the test.
    pub(super) fn run(&self) -> Result<Outcome> {
        let crew = Crew::new(&self.cx.cancel);
        let times = Mutex::new(Times::new());
        let (checked, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
        let (depth, threads) = (self.test.queue_depth.max(1), self.test.threads.max(1));
        let workers = match self.engine {
            Engine::Uring => threads,
            Engine::Threads => threads * depth,
            Engine::Simulated => 1,
        };
        while_ticking(self.meter, || {
            thread::scope(|scope| {
                for number in 0..u64::from(workers) {
                    let (crew, times, checked, wrong) = (&crew, &times, &checked, &wrong);
                    scope.spawn(move || {
                        crew.guard(|| {
                            let mut worker = Worker::new(self, number, crew);
                            worker.work();
                            times
                                .lock()
                                .unwrap_or_else(PoisonError::into_inner)
                                .join(&worker.times);
                            checked.fetch_add(worker.checked, Ordering::Relaxed);
                            wrong.fetch_add(worker.wrong, Ordering::Relaxed);
                        })
                    });
                }
            });
        });
        crew.result()?;
        let times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Outcome { times, checked: checked.into_inner(), wrong: wrong.into_inner() })
    }

    fn phase(&self) -> Phase {
        match self.test.direction {
            Direction::Read => Phase::TestRead,
            Direction::Write => Phase::TestWrite,
        }
    }
}

/// One thread of a test.
struct Worker<'a> {
    job: &'a Job<'a>,
    crew: &'a Crew<'a>,
    random: u64,
    times: Times,
    checked: u64,
    wrong: u64,
}

/// An I/O in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    piece: Span,
    started: Duration,
}

impl<'a> Worker<'a> {
    fn new(job: &'a Job<'a>, number: u64, crew: &'a Crew<'a>) -> Self {
        Self { job, crew, random: mix(number), times: Times::new(), checked: 0, wrong: 0 }
    }

    fn work(&mut self) {
        let done = match (self.job.engine, self.job.device.descriptor()) {
            (Engine::Uring, Some(fd)) => self.ring(fd),
            _ => self.one_by_one(),
        };
        if let Err((error, piece)) = done {
            let Job { device, cx, .. } = self.job;
            self.crew.fail(cx.io_failed(*device, self.job.phase(), error, piece.offset, piece.len));
        }
    }

    /// The next piece, unless the test is over or somebody failed.
    fn next(&mut self) -> Option<Span> {
        if self.crew.stopped() {
            return None;
        }
        self.job.supply.next(&mut self.random, self.job.meter.now())
    }

    fn prepare(&self, piece: Span, buf: &mut [u8]) {
        if let (Direction::Write, Some(data)) = (self.job.test.direction, self.job.data) {
            data.fill(piece.offset, buf);
        }
    }

    fn check(&mut self, piece: Span, buf: &[u8]) {
        if let (Direction::Read, Some(data)) = (self.job.test.direction, self.job.data) {
            self.checked += 1;
            self.wrong += u64::from(!data.is_at(piece.offset, buf));
        }
    }

    fn one_by_one(&mut self) -> std::result::Result<(), (io::Error, Span)> {
        let mut buf = AlignedBuf::zeroed(size(self.job.test.block));
        while let Some(piece) = self.next() {
            let len = size(piece.len);
            self.prepare(piece, &mut buf[..len]);
            let started = self.job.meter.now();
            match self.job.test.direction {
                Direction::Read => full::read_full(self.job.device, piece.offset, &mut buf[..len]),
                Direction::Write => full::write_full(self.job.device, piece.offset, &buf[..len]),
            }
            .map_err(|e| (e, piece))?;
            self.job.meter.io(started, piece.len);
            self.times.add(self.job.meter.now().saturating_sub(started));
            self.check(piece, &buf[..len]);
        }
        Ok(())
    }

    /// With one buffer more than I/Os in flight: where blocks are large it is filled, or compared,
    /// meanwhile.
    fn ring(&mut self, fd: BorrowedFd<'_>) -> std::result::Result<(), (io::Error, Span)> {
        let depth = size(u64::from(self.job.test.queue_depth.max(1)));
        let whole = |e| (e, Span::default());
        let mut ring = Ring::new(fd, depth + SPARE, size(self.job.test.block)).map_err(whole)?;
        let mut flights = vec![Flight::default(); depth + SPARE];
        let mut idle: Vec<usize> = (0..flights.len()).collect();
        let mut landed: Vec<usize> = Vec::with_capacity(depth + SPARE);
        let overlaps = self.job.data.is_some() && self.job.test.block > SMALL;
        let mut ready = None;
        loop {
            while ring.in_flight() < depth {
                let loaded = ready.take().or_else(|| self.load(&mut ring, &mut idle));
                let Some((slot, piece)) = loaded else { break };
                flights[slot] = Flight { piece, started: self.job.meter.now() };
                self.start(&mut ring, slot, piece).map_err(|e| (e, piece))?;
            }
            if overlaps {
                ring.submit().map_err(whole)?;
                self.settle(&mut ring, &flights, (&mut landed, &mut idle));
                ready = ready.or_else(|| self.load(&mut ring, &mut idle));
            }
            if ring.in_flight() == 0 {
                if ready.is_none() {
                    return Ok(());
                }
                continue;
            }
            ring.wait().map_err(whole)?;
            self.take(&mut ring, &flights, &mut landed)?;
            if !overlaps {
                self.settle(&mut ring, &flights, (&mut landed, &mut idle));
            }
        }
    }

    /// Looks at what has come, and has its buffers free again.
    fn settle(
        &mut self,
        ring: &mut Ring<'_>,
        flights: &[Flight],
        (landed, idle): (&mut Vec<usize>, &mut Vec<usize>),
    ) {
        for slot in landed.drain(..) {
            let piece = flights[slot].piece;
            self.check(piece, ring.buf(slot).get(..size(piece.len)).unwrap_or_default());
            idle.push(slot);
        }
    }

    /// A buffer with the data of the next piece.
    fn load(&mut self, ring: &mut Ring<'_>, idle: &mut Vec<usize>) -> Option<(usize, Span)> {
        let slot = idle.pop()?;
        let Some(piece) = self.next() else {
            idle.push(slot);
            return None;
        };
        if let Some(buf) = ring.buf(slot).get_mut(..size(piece.len)) {
            self.prepare(piece, buf);
        }
        Some((slot, piece))
    }

    fn start(&self, ring: &mut Ring<'_>, slot: usize, piece: Span) -> io::Result<()> {
        match self.job.test.direction {
            Direction::Read => ring.read(slot, piece.offset, size(piece.len)),
            Direction::Write => ring.write(slot, piece.offset, size(piece.len)),
        }
    }

    /// Takes back everything that is done, and counts it at one moment.
    fn take(
        &mut self,
        ring: &mut Ring<'_>,
        flights: &[Flight],
        landed: &mut Vec<usize>,
    ) -> std::result::Result<(), (io::Error, Span)> {
        let now = self.job.meter.now();
        let (mut bytes, mut ios, mut oldest) = (0, 0, now);
        while let Some(done) = ring.done() {
            let Flight { piece, started } = flights[done.slot];
            self.complete(ring, done.slot, piece, done.result).map_err(|e| (e, piece))?;
            self.times.add(now.saturating_sub(started));
            bytes += piece.len;
            ios += 1;
            oldest = oldest.min(started);
            landed.push(done.slot);
        }
        if ios > 0 {
            self.job.meter.ios(oldest, bytes, ios);
        }
        Ok(())
    }

    /// A short transfer is legal (block/fops.c); its rest is asked for at once.
    fn complete(
        &self,
        ring: &mut Ring<'_>,
        slot: usize,
        piece: Span,
        result: io::Result<usize>,
    ) -> io::Result<()> {
        let interrupted = [Some(libc::EINTR), Some(libc::EAGAIN)];
        let done = match result {
            Ok(n) if n as u64 == piece.len => return Ok(()),
            Ok(n) => n,
            Err(e) if interrupted.contains(&e.raw_os_error()) => 0,
            Err(e) => return Err(e),
        };
        let block = size(u64::from(self.job.device.geometry().logical_block)).max(1);
        let done = done / block * block;
        let rest = ring.buf(slot).get_mut(done..size(piece.len)).unwrap_or_default();
        let at = piece.offset + done as u64;
        match self.job.test.direction {
            Direction::Read => full::read_full(self.job.device, at, rest),
            Direction::Write => full::write_full(self.job.device, at, rest),
        }
    }
}

/// Lengths of I/Os are far below what fits.
fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
