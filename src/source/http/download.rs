//! Downloads into a file beside the final one (`NAME.part`, its state in `NAME.part.json`), which
//! can be gone on with after anything: a lost connection, a full disk, a power failure, another
//! address of the same file. A thread hashes what was written: as it came, or from the file itself
//! where that is behind, out of order, or of an earlier run.
//!
//! The file gets its name from whoever called, after its digest was compared.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use nix::fcntl::{Flock, FlockArg};
use reqwest::Url;
use tokio::sync::mpsc;

use super::part::State;
use super::transfer::{Known, Patience, Remark, Transfer};
use super::{client, stopped, to_its_end};
use crate::cancel::CancelToken;
use crate::digest::{FileHasher, FileRead, Hasher, Trailing};
use crate::error::{Context as _, Error, Kind, Result};
use crate::host::invoker::{CreateMode, Invoker};
use crate::text::printable_path;
use crate::units;

/// How often the state is saved: what a crash costs at most.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Portions that wait to be hashed, of up to 400 KiB each (hyper's largest read).
const AHEAD: usize = 16;
/// Bytes that hashing is at most behind when it keeps up: what waits, twice.
const KEEPS_UP: u64 = 2 * AHEAD as u64 * (400 << 10);
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
    /// How failures are met.
    pub patience: Patience,
    /// Whether a SHA-512 is wanted too.
    pub sha512: bool,
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

/// A file that is whole, and not proven yet.
#[derive(Debug)]
pub struct Fetched {
    /// Its digests.
    pub file: FileRead,
    /// Where it came from in the end.
    pub url: Url,
    /// Whether a part of it was there before this run.
    pub resumed: bool,
}

/// Its state is kept here.
pub fn state_path(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

/// Downloads everything that is missing; the part file is whole and on the disk afterwards.
pub fn download(
    job: &Job<'_>,
    cancel: &CancelToken,
    tell: &(dyn Fn(Told) + Sync),
) -> Result<Fetched> {
    let file = job.invoker.create(job.part, CreateMode::Continue)?;
    let file = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| {
        Error::refused(format!("another program is downloading into {}", printable_path(job.part)))
            .hint("wait for it, or choose another name with -o")
    })?;
    let file = Arc::new(file);
    match attempt(job, &file, saved_state(job, &file), cancel, tell) {
        // What is there belongs to a file that is gone from the server.
        Err(error) if error.kind() == Kind::SourceMismatch => {
            tell(Told::FromZero { why: error.message() });
            attempt(job, &file, None, cancel, tell)
        }
        done => done,
    }
}

/// Throws away what is there of a file.
pub fn forget(job: &Job<'_>) -> Result<()> {
    for path in [state_path(job.part), job.part.to_owned()] {
        if path.symlink_metadata().is_ok() {
            job.invoker.remove(&path)?;
        }
    }
    Ok(())
}

/// The address as the state knows it.
fn mark(url: &Url) -> String {
    let mut hasher = Hasher::default();
    hasher.update(url.as_str().as_bytes());
    hasher.finish().to_string()
}

fn saved_state(job: &Job<'_>, file: &File) -> Option<State> {
    let size = file.metadata().ok()?.len();
    let mut json = Vec::new();
    // Made by this program, for this person; anything else is no state.
    File::open(state_path(job.part)).ok()?.take(1 << 20).read_to_end(&mut json).ok()?;
    let mut state = State::parse(&json, size)?;
    if state.address != mark(job.urls.first()?) {
        // Another address of what should be the same file: only its length can tell.
        state.validator = None;
    }
    (state.have() > 0).then_some(state)
}

fn save(job: &Job<'_>, state: &State) -> Result<()> {
    let json = serde_json::to_vec(state)
        .map_err(|e| Error::new(Kind::Internal, format!("cannot write the state: {e}")))?;
    job.invoker.save_atomically(&state_path(job.part), &json)
}

fn attempt(
    job: &Job<'_>,
    file: &Arc<Flock<File>>,
    state: Option<State>,
    cancel: &CancelToken,
    tell: &(dyn Fn(Told) + Sync),
) -> Result<Fetched> {
    let resumed = state.is_some();
    if !resumed {
        file.set_len(0).context(|| format!("cannot empty {}", printable_path(job.part)))?;
    }
    let (send, marks) = mpsc::channel(AHEAD);
    let hashed_to = AtomicU64::new(0);
    thread::scope(|scope| {
        let hashed = scope.spawn(|| follow(job.part, marks, &hashed_to, job.sha512));
        let marks = Marks { send, hashed_to: &hashed_to };
        let url = to_its_end(fetch(job, file, state, (marks, cancel), tell));
        let hashed =
            hashed.join().map_err(|_| Error::new(Kind::Internal, "the hashing thread panicked"))?;
        let url = url?;
        file.sync_all().context(|| format!("cannot flush {}", printable_path(job.part)))?;
        let file = hashed.context(|| format!("cannot read {} again", printable_path(job.part)))?;
        Ok(Fetched { file, url, resumed })
    })
}

/// How far the file can be hashed.
struct Mark {
    /// It is there from its first byte to before this one.
    up_to: u64,
    /// Some of its bytes, and where they begin: what has them need not be read again.
    fresh: Option<(u64, Bytes)>,
}

impl Mark {
    fn at(up_to: u64) -> Self {
        Self { up_to, fresh: None }
    }
}

/// Where marks go. Nobody takes them only when the file cannot be read; the download itself goes on.
struct Marks<'a> {
    send: mpsc::Sender<Mark>,
    /// Bytes from the first one on that were hashed.
    hashed_to: &'a AtomicU64,
}

impl Marks<'_> {
    /// Has the file hashed up to here.
    async fn file(&self, up_to: u64) {
        self.send.send(Mark::at(up_to)).await.unwrap_or_default();
    }

    /// Has these bytes hashed too. It waits for room where hashing keeps up: on two processors the
    /// download would else run away from it, and end long before. Where hashing is behind, as after
    /// an earlier run, or cannot go on before another piece is there, what finds no room is read
    /// from the file after the next mark.
    async fn fresh(&self, up_to: u64, at: u64, bytes: Bytes) {
        let end = at + bytes.len() as u64;
        let keeps_up =
            end == up_to && at.saturating_sub(self.hashed_to.load(Ordering::Relaxed)) <= KEEPS_UP;
        let mark = Mark { up_to, fresh: Some((at, bytes)) };
        if keeps_up {
            self.send.send(mark).await.unwrap_or_default();
        } else {
            drop(self.send.try_send(mark));
        }
    }
}

/// Hashes a file up to each mark, which come in ascending order.
fn follow(
    path: &Path,
    mut marks: mpsc::Receiver<Mark>,
    hashed_to: &AtomicU64,
    sha512: bool,
) -> io::Result<FileRead> {
    let mut hasher = FileHasher::new(sha512);
    let file = File::open(path)?;
    let (mut buf, mut at) = (vec![0; 1 << 20], 0);
    let mut read = |hasher: &mut FileHasher, at: &mut u64, up_to: u64| {
        while *at < up_to {
            let want = usize::try_from(up_to - *at).unwrap_or(usize::MAX).min(buf.len());
            file.read_exact_at(&mut buf[..want], *at)?;
            hasher.update(&buf[..want]);
            *at += want as u64;
        }
        Ok::<_, io::Error>(())
    };
    while let Some(Mark { up_to, fresh }) = marks.blocking_recv() {
        if let Some((start, bytes)) = fresh {
            read(&mut hasher, &mut at, start.min(up_to))?;
            let end = start + bytes.len() as u64;
            if at == start && end <= up_to {
                hasher.update(&bytes);
                at = end;
            }
        }
        read(&mut hasher, &mut at, up_to)?;
        hashed_to.store(at, Ordering::Relaxed);
    }
    Ok(hasher.finish(Trailing::default()))
}

/// What a connection wrote of its piece.
struct Progress {
    piece: usize,
    at: u64,
    bytes: Bytes,
}

async fn fetch(
    job: &Job<'_>,
    file: &Arc<Flock<File>>,
    state: Option<State>,
    (marks, cancel): (Marks<'_>, &CancelToken),
    tell: &(dyn Fn(Told) + Sync),
) -> Result<Url> {
    let client = client::client()?;
    let (remark, mut remarks) = mpsc::unbounded_channel();
    let transfer = |state: &State, piece: usize| {
        let remark = remark.clone();
        // Nobody listens any more once the download is over.
        let told = Box::new(move |said| remark.send(said).unwrap_or_default());
        let part = state.pieces[piece];
        Transfer::new(client.clone(), job.urls, job.patience, told).part(
            part.next(),
            part.end,
            state.total,
            state.validator.clone(),
        )
    };
    let fresh = State::new(mark(&job.urls[0]), None, None);
    let mut state = state.unwrap_or(fresh);
    // The first piece that lacks something begins alone; what the server says decides the rest.
    let Some(first) = state.pieces.iter().position(|piece| !piece.is_complete()) else {
        marks.file(state.contiguous()).await;
        tell(Told::Begins { total: state.total, have: state.have() });
        return Ok(job.urls[0].clone());
    };
    let mut begun = transfer(&state, first);
    let known = tokio::select! {
        known = drain(&mut remarks, tell, begun.begin()) => known?,
        stop = stopped(cancel) => return Err(stop),
    };
    let url = known.as_ref().map_or_else(|| job.urls[0].clone(), |known| known.url.clone());
    adopt(&mut state, known.as_ref(), job.connections);
    room_for(job, &state)?;
    tell(Told::Begins { total: state.total, have: state.have() });
    marks.file(state.contiguous()).await;

    let (report, mut reports) = mpsc::channel(REPORTS);
    let mut tasks = tokio::task::JoinSet::new();
    let mut begun = Some(begun.part_ends(state.pieces[first].end));
    for (index, piece) in state.pieces.iter().enumerate() {
        if piece.is_complete() {
            continue;
        }
        let transfer =
            begun.take().filter(|_| index == first).unwrap_or_else(|| transfer(&state, index));
        tasks.spawn(fill(transfer, index, Arc::clone(file), report.clone()));
    }
    drop((report, begun, remark));
    let mut save_at = tokio::time::Instant::now() + SAVE_EVERY;
    let stop = stopped(cancel);
    tokio::pin!(stop);
    let done = loop {
        tokio::select! {
            // What is there is kept, and the state says so.
            stop = &mut stop => break Err(stop),
            Some(Progress { piece, at, bytes }) = reports.recv() => {
                let len = bytes.len() as u64;
                state.pieces[piece].done += len;
                marks.fresh(state.contiguous(), at, bytes).await;
                tell(Told::Bytes(len));
                if tokio::time::Instant::now() >= save_at {
                    save(job, &state)?;
                    save_at = tokio::time::Instant::now() + SAVE_EVERY;
                }
            }
            Some(said) = remarks.recv() => tell(Told::Remark(said)),
            ended = tasks.join_next() => match ended {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => break Err(error),
                Some(Err(_)) => break Err(Error::new(Kind::Internal, "a transfer panicked")),
                None => break Ok(()),
            },
        }
    };
    tasks.shutdown().await;
    while let Ok(Progress { piece, bytes, .. }) = reports.try_recv() {
        state.pieces[piece].done += bytes.len() as u64;
        tell(Told::Bytes(bytes.len() as u64));
    }
    marks.file(state.contiguous()).await;
    save(job, &state)?;
    done.map_err(|error| with_file(error, job, state.have()))?;
    Ok(url)
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

/// Takes over what the server said of the file.
fn adopt(state: &mut State, known: Option<&Known>, connections: u64) {
    let Some(known) = known else { return };
    if state.total.is_none() {
        state.total = known.total;
        if let Some(last) = state.pieces.last_mut() {
            last.end = known.total;
        }
    }
    state.validator.clone_from(&known.validator);
    if known.ranges {
        state.split(connections.max(1));
    }
}

/// Refuses what will not fit on the disk, before an hour of downloading.
fn room_for(job: &Job<'_>, state: &State) -> Result<()> {
    let Some(total) = state.total else { return Ok(()) };
    let missing = total.saturating_sub(state.have());
    let folder = job.part.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(disk) = nix::sys::statvfs::statvfs(folder) else { return Ok(()) };
    let free = disk.blocks_available().saturating_mul(disk.fragment_size());
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
) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hashed_is_the_file_whatever_came_fresh_late_or_not_at_all() {
        let data: Vec<u8> =
            (0..3_000_000_u32).map(|i| i.wrapping_mul(77).to_le_bytes()[1]).collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.part");
        std::fs::write(&path, &data).unwrap();
        let fresh =
            |from: usize, to: usize| Some((from as u64, Bytes::copy_from_slice(&data[from..to])));
        // What is handed over is not looked up in the file: these bytes would show.
        let mut spoilt = data.clone();
        spoilt[1_500_000] ^= 1;
        let other = Some((1_400_000, Bytes::copy_from_slice(&spoilt[1_400_000..1_600_000])));
        let marks = |fourth| {
            [
                Mark::at(500_000),
                Mark { up_to: 700_000, fresh: fresh(500_000, 700_000) },
                // One before it found no room.
                Mark { up_to: 1_400_000, fresh: fresh(1_200_000, 1_400_000) },
                Mark { up_to: 1_600_000, fresh: fourth },
                // Of a later piece: there is a gap before it, then it was read already.
                Mark { up_to: 1_700_000, fresh: fresh(2_500_000, 2_600_000) },
                Mark { up_to: 2_900_000, fresh: fresh(1_700_000, 1_800_000) },
                Mark { up_to: 2_900_000, fresh: fresh(2_600_000, 2_700_000) },
                Mark::at(3_000_000),
            ]
        };
        let hashed = |marks: [Mark; 8]| {
            let (send, receive) = mpsc::channel(marks.len());
            for mark in marks {
                assert!(send.try_send(mark).is_ok());
            }
            drop(send);
            let hashed_to = AtomicU64::new(0);
            let read = follow(&path, receive, &hashed_to, true).unwrap();
            assert_eq!(hashed_to.into_inner(), 3_000_000);
            read
        };
        let mut whole = FileHasher::new(true);
        whole.update(&data);
        let whole = whole.finish(Trailing::default());
        assert_eq!(hashed(marks(fresh(1_400_000, 1_600_000))), whole);
        assert_eq!(hashed(marks(None)), whole);
        assert_ne!(hashed(marks(other)).sha256, whole.sha256);
    }
}
