//! One image for several targets: read, decoded and hashed once, handed to each at its own pace.
//!
//! ```text
//!                                        +-> follower 1 -> target 1
//! source -> SHA-256 -> window of blocks -+-> follower 2 -> target 2
//!  (one thread)        (64 MiB)          +-> follower 3: a window behind the others, reads by itself
//! ```
//! Memory is bounded by the window. A follower that holds up others by more than the window goes on
//! by itself: it opens the source again where it stands, so a slow stick costs the fast ones
//! nothing. A pipe cannot be opened again; there everybody goes at the pace of the slowest.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Progress, Source, SourceInfo, bmap, fill, read_failed};
use crate::digest::FileRead;
use crate::digest::prefixes::{Prefixes, Recorder};
use crate::digest::ranges::{ImageDigest, ImageHasher, Mapped};
use crate::error::{Error, Kind, Result};
use crate::image::ReadAt;
use crate::time::{Clock, SystemClock};

/// Bytes between the fastest follower and the slowest that goes along.
const WINDOW: usize = 64 << 20;

/// How long a follower may have held up others, in sum, before it has to go on by itself where that
/// takes a decoder of its own. Sticks stall for a second now and then.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often whoever waits looks around.
const TICK: Duration = Duration::from_millis(20);

/// What the image came to.
#[derive(Clone, Debug)]
pub struct Digests {
    /// Its digests.
    pub digest: ImageDigest,
    /// Their states on the way; `None` when there were too many to be kept.
    pub prefixes: Option<Arc<Prefixes>>,
}

/// Reads a source once for several followers.
#[derive(Debug)]
pub struct Relay {
    inner: Arc<dyn Source>,
    block: usize,
    whole: bool,
    limits: Limits,
    clock: SystemClock,
    state: Mutex<State>,
    /// A block came, or the end: followers wait for it.
    came: Condvar,
    /// A follower took a block or left: the reader waits for it.
    taken: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Blocks.
    window: usize,
    /// See [`PATIENCE`].
    patience: Duration,
}

#[derive(Debug)]
struct State {
    begun: bool,
    blocks: VecDeque<Arc<Vec<u8>>>,
    /// The number of the first of them.
    first: u64,
    followers: Vec<Seat>,
    /// Set when nothing more is read.
    end: Option<std::result::Result<(), Error>>,
    digests: Option<Digests>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seat {
    /// Goes along: the block that it takes next, whether it waits for that, and how long others
    /// have waited for it.
    Along {
        next: u64,
        waits: bool,
        owes: Duration,
    },
    /// Takes no blocks, and still wants the digests.
    Apart,
    Gone,
}

impl State {
    fn along(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.followers.iter().filter_map(|seat| match seat {
            Seat::Along { next, waits, .. } => Some((*next, *waits)),
            Seat::Apart | Seat::Gone => None,
        })
    }

    /// The number of the block that comes next.
    fn end_of_window(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }

    /// Drops the blocks that nobody wants any more.
    fn drop_taken(&mut self) {
        let wanted = self.along().map(|(next, _)| next).min().unwrap_or(u64::MAX);
        while self.first < wanted
            && let Some(block) = self.blocks.pop_front()
        {
            self.first += 1;
            // Whoever still copies from it frees it.
            self.spare.extend(Arc::try_unwrap(block).ok());
        }
    }
}

/// Waits for a change, or for a tick.
fn wait<'a>(change: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    change.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
}

/// What a follower is given.
enum Given {
    Block(Arc<Vec<u8>>),
    End,
    /// It has to read by itself.
    Nothing,
}

impl Relay {
    /// As many sources as there are `followers`, all of this image. `block`: bytes that are hashed
    /// and handed over at a time. `whole`: SHA-256 of all bytes is wanted also where a block map's
    /// stretches are all that counts.
    pub fn followers(
        inner: &Arc<dyn Source>,
        followers: usize,
        block: usize,
        whole: bool,
    ) -> Vec<Follower> {
        // Without a decoder, reading by oneself costs nothing.
        let patience = if inner.positional().is_some() { Duration::ZERO } else { PATIENCE };
        let limits = Limits { window: (WINDOW / block).max(2), patience };
        Self::within(limits, inner, followers, (block, whole))
    }

    fn within(
        limits: Limits,
        inner: &Arc<dyn Source>,
        followers: usize,
        (block, whole): (usize, bool),
    ) -> Vec<Follower> {
        let along = Seat::Along { next: 0, waits: false, owes: Duration::ZERO };
        let relay = Arc::new(Self {
            inner: Arc::clone(inner),
            block,
            whole,
            limits,
            clock: SystemClock::start(),
            state: Mutex::new(State {
                begun: false,
                blocks: VecDeque::new(),
                first: 0,
                followers: vec![along; followers],
                end: None,
                digests: None,
                spare: Vec::new(),
            }),
            came: Condvar::new(),
            taken: Condvar::new(),
        });
        (0..followers).map(|seat| Follower { relay: Arc::clone(&relay), seat }).collect()
    }

    /// What the image came to; waits until it was read to its end. `None`: `stopped` said so.
    pub fn digests(&self, stopped: &dyn Fn() -> bool) -> Result<Option<Digests>> {
        let mut state = self.lock();
        loop {
            match (&state.end, &state.digests) {
                (Some(Err(error)), _) => return Err(error.again()),
                (Some(Ok(())), Some(digests)) => return Ok(Some(digests.clone())),
                _ if stopped() => return Ok(None),
                _ => state = wait(&self.came, state),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        if !std::mem::replace(&mut state.begun, true) {
            let relay = Arc::clone(self);
            thread::Builder::new().name("relay".to_owned()).spawn(move || {
                // A panic of a decoder must not leave the followers waiting.
                let read = std::panic::AssertUnwindSafe(|| relay.read());
                let done = std::panic::catch_unwind(read).unwrap_or_else(|_| {
                    Err(Error::new(Kind::Internal, "the thread that reads the image panicked"))
                });
                relay.lock().end = Some(done);
                relay.came.notify_all();
            })?;
        }
        Ok(())
    }

    /// Reads and hashes everything; `Ok` as well when nobody is left who wants it.
    fn read(&self) -> Result<()> {
        let name = &self.inner.info().name;
        let mut reader = self.inner.open()?;
        let mut hasher = ImageHasher::new(self.inner.mapped(), self.whole);
        let mut parts = Recorder::new(self.block as u64);
        let mut offset = 0;
        loop {
            let mut block = self.lock().spare.pop().unwrap_or_default();
            block.resize(self.block, 0);
            let len = fill(&mut *reader, &mut block, &|| false)
                .map_err(|e| read_failed(name, e, offset, self.block as u64))?;
            if len == 0 {
                break;
            }
            block.truncate(len);
            offset += len as u64;
            parts.before(&hasher);
            hasher.update(&block);
            if let Some(wrong) = hasher.wrong() {
                return Err(bmap::wrong(name, wrong));
            }
            if !self.publish(block) {
                return Ok(());
            }
        }
        let prefixes = parts.finish(&hasher).map(Arc::new);
        self.lock().digests = Some(Digests { digest: hasher.finish(), prefixes });
        Ok(())
    }

    /// Puts a block into the window, and waits until there is room for another. Whether anybody
    /// still wants one.
    fn publish(&self, block: Vec<u8>) -> bool {
        let mut state = self.lock();
        state.blocks.push_back(Arc::new(block));
        self.came.notify_all();
        loop {
            state.drop_taken();
            if state.followers.iter().all(|seat| *seat == Seat::Gone) {
                return false;
            }
            if state.blocks.len() < self.limits.window {
                return true;
            }
            let (last, next) = (state.first, state.end_of_window());
            let held_up = state.along().any(|(at, waits)| waits && at == next);
            let since = self.clock.now();
            if !(held_up && self.inner.info().restartable) {
                state = wait(&self.taken, state);
                continue;
            }
            let mut let_go = false;
            for seat in &mut state.followers {
                if let Seat::Along { next, owes, .. } = seat
                    && *next == last
                    && *owes >= self.limits.patience
                {
                    (*seat, let_go) = (Seat::Apart, true);
                }
            }
            if let_go {
                continue;
            }
            state = wait(&self.taken, state);
            let waited = self.clock.now().saturating_sub(since);
            for seat in &mut state.followers {
                if let Seat::Along { next, owes, .. } = seat
                    && *next == last
                {
                    *owes += waited;
                }
            }
        }
    }

    /// The next block of a follower. `Interrupted` while there is none, several times a second, so
    /// that whoever reads can look whether it should stop.
    fn next(self: &Arc<Self>, seat: usize) -> io::Result<Given> {
        let mut state = self.lock();
        self.begin(&mut state)?;
        for patient in [true, false] {
            let Some(Seat::Along { next, owes, .. }) = state.followers.get(seat).copied() else {
                return Ok(Given::Nothing);
            };
            let at = usize::try_from(next - state.first).unwrap_or(usize::MAX);
            let block = state.blocks.get(at).cloned();
            let (next, waits) = (next + u64::from(block.is_some()), block.is_none());
            state.followers[seat] = Seat::Along { next, waits, owes };
            if let Some(block) = block {
                self.taken.notify_all();
                return Ok(Given::Block(block));
            }
            match &state.end {
                Some(Ok(())) => return Ok(Given::End),
                Some(Err(error)) => return Err(io::Error::other(error.again())),
                None if patient => state = wait(&self.came, state),
                None => {}
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// A follower takes no more blocks.
    fn leave(&self, seat: usize, to: Seat) {
        let mut state = self.lock();
        match state.followers.get_mut(seat) {
            Some(Seat::Gone) | None => {}
            Some(seat) => *seat = to,
        }
        drop(state);
        self.taken.notify_all();
    }

    /// The image from this byte on, for a follower that reads by itself.
    fn from(&self, offset: u64) -> Result<Box<dyn Read + Send>> {
        if self.inner.positional().is_some() {
            let inner = Arc::clone(&self.inner);
            return Ok(Box::new(Onward { inner, offset }));
        }
        let mut reader = self.inner.open()?;
        // One that has become shorter ends here; that is found by whoever reads on.
        io::copy(&mut (&mut reader).take(offset), &mut io::sink())
            .map_err(|e| Error::from_read(e, &self.inner.info().name))?;
        Ok(reader)
    }
}

/// A source that can be read anywhere, from some byte on.
#[derive(Debug)]
struct Onward {
    inner: Arc<dyn Source>,
    offset: u64,
}

impl Read for Onward {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // A source that was positional stays so.
        let n = self.inner.positional().map_or(Ok(0), |at| at.read_at(self.offset, buf))?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// The image as one of several targets sees it.
#[derive(Debug)]
pub struct Follower {
    relay: Arc<Relay>,
    seat: usize,
}

impl Source for Follower {
    fn info(&self) -> &SourceInfo {
        self.relay.inner.info()
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let (relay, seat) = (Arc::clone(&self.relay), self.seat);
        let (at, block, own) = (0, Arc::default(), None);
        Ok(Box::new(Pull { relay, seat, at, block, taken: 0, own }))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        self.relay.inner.preview()
    }

    fn positional(&self) -> Option<Box<dyn ReadAt + '_>> {
        self.relay.inner.positional()
    }

    fn at_least(&self) -> Option<u64> {
        self.relay.inner.at_least()
    }

    fn file(&self) -> Option<FileRead> {
        self.relay.inner.file()
    }

    fn mapped(&self) -> Option<Arc<[Mapped]>> {
        self.relay.inner.mapped()
    }

    fn is_end_stated(&self) -> bool {
        self.relay.inner.is_end_stated()
    }

    fn memory(&self) -> u64 {
        self.relay.inner.memory()
    }

    fn progress(&self) -> Option<Progress> {
        self.relay.inner.progress()
    }

    fn hashed_by(&self) -> Option<&Relay> {
        Some(&self.relay)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.relay.leave(self.seat, Seat::Gone);
    }
}

/// A follower's way through the image.
struct Pull {
    relay: Arc<Relay>,
    seat: usize,
    /// Bytes of the image that were returned.
    at: u64,
    block: Arc<Vec<u8>>,
    /// Bytes of the block that were returned.
    taken: usize,
    own: Option<Box<dyn Read + Send>>,
}

impl Read for Pull {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.block.len() && self.own.is_none() && !buf.is_empty() {
            match self.relay.next(self.seat)? {
                Given::Block(block) => (self.block, self.taken) = (block, 0),
                Given::End => return Ok(0),
                Given::Nothing => {
                    self.block = Arc::default();
                    self.taken = 0;
                    self.own = Some(self.relay.from(self.at).map_err(io::Error::other)?);
                }
            }
        }
        let n = if let Some(own) = &mut self.own {
            own.read(buf)?
        } else {
            let rest = &self.block[self.taken..];
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            self.taken += n;
            n
        };
        self.at += n as u64;
        Ok(n)
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.relay.leave(self.seat, Seat::Apart);
    }
}

#[cfg(test)]
mod tests;
