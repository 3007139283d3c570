//! Downloads into a file beside the final one (`NAME.part`, its state in `NAME.part.json`), which
//! can be gone on with after anything: a lost connection, a full disk, a power failure, a new
//! address of the same file where a digest proves it. A thread hashes what was written, another
//! saves the state.
//!
//! The file gets its name from whoever called, after its digest was compared.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::Sender;
use nix::fcntl::Flock;
use reqwest::Url;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::mark;
use super::hashing::{AHEAD, Marks, follow};
pub use super::part::SMALLEST_PIECE;
use super::part::State;
use super::partfile::PartFile;
pub use super::partfile::{forget, state_path};
use super::transfer::{Broken, Flag, Known, Outcome, Patience, Piece, Remark, Transfer};
use super::{client, stopped, to_its_end};
use crate::cancel::CancelToken;
use crate::digest::FileRead;
use crate::error::{Context as _, Error, Kind, Result};
use crate::host::invoker::Invoker;
use crate::text::printable_path;
use crate::units;

/// How often the state is saved: what a power failure costs at most. More often at first.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// When it is saved first.
const SAVE_FIRST: Duration = Duration::from_millis(100);
/// Portions that were written and not counted yet.
const REPORTS: usize = 4;

/// What to download.
#[derive(Debug)]
pub struct Job<'a> {
    /// Where it can be had, best first.
    pub urls: &'a [Url],
    /// Where it goes until it is proven.
    pub part: &'a Path,
    /// For whom.
    pub invoker: &'a Invoker,
    /// Connections at once, when the server allows.
    pub connections: u64,
    /// Fewer bytes than these are not worth a connection.
    pub smallest_piece: u64,
    /// How failures are met.
    pub patience: Patience,
    /// Whether a SHA-512 is wanted too.
    pub sha512: bool,
    /// Whether its digest is known, so that wrong bytes cannot pass.
    pub proven: bool,
}

/// Told as it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The server answered.
    Begins {
        /// Length of the file.
        total: Option<u64>,
        /// Bytes that were there already.
        have: u64,
    },
    /// So many bytes more were written.
    Bytes(u64),
    /// What was there is of no use.
    FromZero {
        /// Why.
        why: String,
    },
    /// Something about the connection.
    Remark(Remark),
}

/// A file whose last byte has come, and that is not proven yet.
#[derive(Debug)]
pub struct Fetched {
    /// Its digests.
    pub file: FileRead,
    /// Where it came from in the end.
    pub url: Url,
    /// Whether a part of it was there before this run.
    pub resumed: bool,
    /// Whether somebody stated where it ends. Where nobody did it may be a part of the file.
    pub whole: bool,
}

/// Downloads everything that is missing; the part file is on the disk afterwards, whole as far as
/// the server says.
pub fn download(
    job: &Job<'_>,
    cancel: &CancelToken,
    tell: &(dyn Fn(Told) + Sync),
) -> Result<Fetched> {
    let (part, state) = PartFile::open(job.part, job.invoker, job.proven)?;
    let mut try_ = Attempt {
        urls: job.urls.to_vec(),
        state: State::new(mark(&job.urls[0])),
        connections: job.connections,
        whole: false,
    };
    match state.map(|state| state.continued(job.urls, job.proven)) {
        Some(Ok((first, state))) => {
            try_.urls.rotate_left(first);
            try_.state = state;
        }
        Some(Err(why)) => tell(Told::FromZero { why: format!("what is there is left: {why}") }),
        None => {}
    }
    let (mut changes, mut losses, mut connections) = (0, 1, job.connections);
    loop {
        let broken = match try_.run(job, &part, cancel, tell) {
            Ok(fetched) => return Ok(fetched),
            Err(broken) => broken,
        };
        let why = match broken {
            // What is there belongs to a file that is gone from the server, or may.
            Broken::Anew(error) if changes == 0 => {
                changes += 1;
                // Where each node of a network names the file otherwise, one connection meets one of them.
                if try_.state.pieces.len() > 1 {
                    connections = 1;
                }
                error.message()
            }
            Broken::Lost(error) if losses < try_.urls.len() => {
                losses += 1;
                try_.urls.rotate_left(1);
                error.message()
            }
            // What is there of all pieces stays; they are fetched one after another.
            Broken::Alone(error) if try_.connections > 1 => {
                tell(Told::Remark(Remark::Alone { why: error.message() }));
                try_.connections = 1;
                continue;
            }
            Broken::NoParts => {
                tell(Told::Remark(Remark::NoParts));
                (try_.connections, try_.whole) = (1, true);
                continue;
            }
            broken => return Err(with_file(broken.into_error(), job, try_.state.have())),
        };
        tell(Told::FromZero { why });
        try_.state = State::new(mark(&try_.urls[0]));
        (try_.connections, try_.whole) = (connections, false);
    }
}

/// One way to get the file, with what is there of it.
struct Attempt {
    /// The first one is where what is there came from.
    urls: Vec<Url>,
    state: State,
    connections: u64,
    /// The first address is not to be asked for parts.
    whole: bool,
}

/// Shared by the transfers of an attempt.
struct Flags {
    proof: Flag,
    joined: Flag,
    unstated: Flag,
}

impl Attempt {
    fn run(
        &mut self,
        job: &Job<'_>,
        part: &PartFile<'_>,
        cancel: &CancelToken,
        tell: &(dyn Fn(Told) + Sync),
    ) -> Outcome<Fetched> {
        let resumed = self.state.have() > 0;
        let (send, marks) = mpsc::channel(AHEAD);
        let (save, states) = crossbeam_channel::bounded::<State>(1);
        let hashed_to = AtomicU64::new(0);
        let flags = Flags {
            proof: Flag::new(job.proven),
            joined: Flag::default(),
            unstated: Flag::default(),
        };
        let panicked = |_| Error::new(Kind::Internal, "a thread of the download panicked");
        thread::scope(|scope| {
            let hashed = scope.spawn(|| follow(job.part, marks, &hashed_to, job.sha512));
            let saved = scope.spawn(|| states.iter().try_for_each(|state| part.save(&state)));
            let work = Work {
                job,
                part,
                flags: &flags,
                marks: Marks { send, hashed_to: &hashed_to },
                save,
                cancel,
                tell,
            };
            let url = to_its_end(work.fetch(self));
            let saved = saved.join().map_err(panicked)?;
            let hashed = hashed.join().map_err(panicked)?;
            let url = url?;
            // Of what went wrong with the transfer and the disk at once, the first is told.
            saved?;
            part.file
                .sync_all()
                .context(|| format!("cannot flush {}", printable_path(job.part)))?;
            let file =
                hashed.context(|| format!("cannot read {} again", printable_path(job.part)))?;
            Ok(Fetched { file, url, resumed, whole: !flags.unstated.is_set() })
        })
    }
}

/// Pieces that are fetched, and those whose turn comes when one is done.
struct Tasks<F> {
    running: tokio::task::JoinSet<Outcome<()>>,
    waiting: std::vec::IntoIter<F>,
}

impl<F: Future<Output = Outcome<()>> + Send + 'static> Tasks<F> {
    /// So many at the same time.
    fn new(fills: Vec<F>, connections: u64) -> Self {
        let mut tasks = Self { running: tokio::task::JoinSet::new(), waiting: fills.into_iter() };
        (0..connections.max(1)).for_each(|_| tasks.next());
        tasks
    }

    fn next(&mut self) {
        if let Some(fill) = self.waiting.next() {
            self.running.spawn(fill);
        }
    }
}

/// What a connection wrote of its piece.
struct Progress {
    piece: usize,
    at: u64,
    bytes: Bytes,
}

/// What the transfers of an attempt work with.
struct Work<'a> {
    job: &'a Job<'a>,
    part: &'a PartFile<'a>,
    flags: &'a Flags,
    marks: Marks<'a>,
    save: Sender<State>,
    cancel: &'a CancelToken,
    tell: &'a (dyn Fn(Told) + Sync),
}

impl Work<'_> {
    /// Fetches all that is missing; where it came from.
    async fn fetch(self, attempt: &mut Attempt) -> Outcome<Url> {
        let client = client::client()?;
        let (remark, mut remarks) = mpsc::unbounded_channel();
        let Attempt { urls, state, connections, whole } = attempt;
        let transfer = |urls: &[Url], state: &State, piece: usize| {
            let remark = remark.clone();
            // Nobody listens any more once the download is over.
            let told = Box::new(move |said| remark.send(said).unwrap_or_default());
            let part = state.pieces[piece];
            let Flags { proof, joined, unstated } = self.flags;
            Transfer::new(client.clone(), urls, self.job.patience, told)
                .piece(Piece {
                    offset: part.next(),
                    end: part.end,
                    total: state.total,
                    version: state.version.clone(),
                    several: state.pieces.len() > 1,
                    others: state.pieces.len() > 1 && *connections > 1,
                    whole: *whole,
                })
                .flags(proof, joined, unstated)
        };
        // The first piece that lacks something begins alone; what the server says decides the rest.
        let Some(first) = state.pieces.iter().position(|piece| !piece.is_complete()) else {
            self.marks.file(state.contiguous()).await;
            (self.tell)(Told::Begins { total: state.total, have: state.have() });
            return Ok(urls[0].clone());
        };
        let mut begun = transfer(urls, state, first);
        let known = tokio::select! {
            known = drain(&mut remarks, self.tell, begun.begin()) => known,
            stop = stopped(self.cancel) => return Err(stop.into()),
        };
        let known = match known {
            Err(Broken::NoParts) => return Err(self.joined(state)),
            known => known?,
        };
        let url = known.as_ref().map_or_else(|| urls[0].clone(), |known| known.url.clone());
        if let Some(known) = &known {
            if state.have() == 0 {
                urls.rotate_left(known.address);
                state.address = mark(&urls[0]);
                state.version.clone_from(&known.version);
            }
            self.adopt(state, known, *connections);
        }
        room_for(self.job, state, &self.part.file)?;
        // From here on what was there of another file is gone.
        self.part.settle(state)?;
        (self.tell)(Told::Begins { total: state.total, have: state.have() });
        self.marks.file(state.contiguous()).await;

        let (report, mut reports) = mpsc::channel(REPORTS);
        let several = state.pieces.len() > 1;
        let mut begun =
            Some(begun.ends(state.pieces[first].end, several, several && *connections > 1));
        let missing = (0..state.pieces.len()).filter(|at| !state.pieces[*at].is_complete());
        let fills: Vec<_> = missing
            .map(|index| {
                let begun = begun.take_if(|_| index == first);
                let transfer = begun.unwrap_or_else(|| transfer(urls, state, index));
                fill(transfer, index, Arc::clone(&self.part.file), report.clone())
            })
            .collect();
        drop((report, remark));
        let mut tasks = Tasks::new(fills, *connections);
        let done = self.count(state, &mut tasks, (&mut reports, &mut remarks)).await;
        tasks.running.shutdown().await;
        while let Ok(Progress { piece, bytes, .. }) = reports.try_recv() {
            state.pieces[piece].done += bytes.len() as u64;
            (self.tell)(Told::Bytes(bytes.len() as u64));
        }
        if matches!(done, Err(Broken::NoParts)) {
            return Err(self.joined(state));
        }
        self.marks.file(state.contiguous()).await;
        self.saved(state, true);
        done.map(|()| url)
    }

    /// Counts what the transfers write until all have ended, or one failed.
    async fn count(
        &self,
        state: &mut State,
        tasks: &mut Tasks<impl Future<Output = Outcome<()>> + Send + 'static>,
        (reports, remarks): (&mut mpsc::Receiver<Progress>, &mut mpsc::UnboundedReceiver<Remark>),
    ) -> Outcome<()> {
        let mut wait = SAVE_FIRST;
        let mut save_at = Instant::now() + wait;
        let stop = stopped(self.cancel);
        tokio::pin!(stop);
        loop {
            tokio::select! {
                // What is there is kept, and the state says so.
                stop = &mut stop => return Err(stop.into()),
                Some(Progress { piece, at, bytes }) = reports.recv() => {
                    let len = bytes.len() as u64;
                    state.pieces[piece].done += len;
                    self.marks.fresh(state.contiguous(), at, bytes).await;
                    (self.tell)(Told::Bytes(len));
                    if Instant::now() >= save_at {
                        self.saved(state, false);
                        wait = (wait * 2).min(SAVE_EVERY);
                        save_at = Instant::now() + wait;
                    }
                }
                Some(said) = remarks.recv() => (self.tell)(Told::Remark(said)),
                ended = tasks.running.join_next() => match ended {
                    Some(Ok(Ok(()))) => tasks.next(),
                    Some(Ok(Err(error))) => return Err(error),
                    Some(Err(_)) => {
                        return Err(Error::new(Kind::Internal, "a transfer panicked").into());
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    /// Has the state saved by the thread that does it; one that is not the last may be left out.
    fn saved(&self, state: &mut State, last: bool) {
        if self.flags.joined.is_set() {
            state.version = None;
        }
        // The thread ends early only with an error, which its end tells.
        if last {
            self.save.send(state.clone()).ok();
        } else {
            self.save.try_send(state.clone()).ok();
        }
    }

    /// The server does not send parts: what is there without a gap goes on as one piece.
    fn joined(&self, state: &mut State) -> Broken {
        state.join();
        match self.part.settle(state) {
            Ok(()) => Broken::NoParts,
            Err(error) => error.into(),
        }
    }

    /// Takes over what the server said of the file.
    fn adopt(&self, state: &mut State, known: &Known, connections: u64) {
        if state.total.is_none() {
            state.total = known.total;
            if let Some(last) = state.pieces.last_mut() {
                last.end = known.total;
            }
        }
        // Pieces of which nothing says that they are of one version are none of one file.
        if known.ranges && (known.version.is_some() || self.job.proven) {
            state.split(connections.max(1), self.job.smallest_piece);
        }
    }
}

/// Passes remarks on while something else is waited for.
async fn drain<T>(
    remarks: &mut mpsc::UnboundedReceiver<Remark>,
    tell: &(dyn Fn(Told) + Sync),
    work: impl Future<Output = T>,
) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            Some(said) = remarks.recv() => tell(Told::Remark(said)),
        }
    }
}

/// Refuses what will not fit on the disk, before an hour of downloading.
fn room_for(job: &Job<'_>, state: &State, file: &File) -> Result<()> {
    let Some(total) = state.total else { return Ok(()) };
    let missing = total.saturating_sub(state.have());
    let folder = job.part.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(disk) = nix::sys::statvfs::statvfs(folder) else { return Ok(()) };
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
    // What is there of another file is cut off.
    let old =
        file.metadata().map_or(0, |meta| if state.have() == 0 { meta.blocks() * 512 } else { 0 });
    let free = free.saturating_add(old);
    if free < missing {
        return Err(Error::refused(format!(
            "{} has {} free, and {} are still to come",
            printable_path(folder),
            units::Bytes(free),
            units::Bytes(missing)
        ))
        .hint("make room, or choose another place with -o; what is there is kept"));
    }
    Ok(())
}

/// Says what is left of a download that failed.
fn with_file(error: Error, job: &Job<'_>, have: u64) -> Error {
    if error.kind() == Kind::SourceMismatch {
        return error;
    }
    let hint = match error.errno() {
        Some(libc::ENOSPC | libc::EDQUOT) => "the disk is full: make room, then the same again",
        _ => error.advice().unwrap_or("run the same command again: it goes on where it stopped"),
    };
    let hint = format!("{hint}; {} are kept in {}", units::Bytes(have), printable_path(job.part));
    error.hint(hint)
}

/// Fetches one piece into the file.
async fn fill(
    mut transfer: Transfer,
    piece: usize,
    file: Arc<Flock<File>>,
    report: mpsc::Sender<Progress>,
) -> Outcome<()> {
    loop {
        let at = transfer.offset();
        let Some(bytes) = transfer.chunk().await? else { return Ok(()) };
        file.write_all_at(&bytes, at).map_err(|e| {
            Error::io("writing the downloaded file failed", e).at(at, bytes.len() as u64)
        })?;
        // Nobody listens any more when it was stopped.
        report.send(Progress { piece, at, bytes }).await.ok();
    }
}
