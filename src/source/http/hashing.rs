//! The digests of a file while it is downloaded: a thread hashes what was written, as it came, or
//! from the file itself where that is behind, out of order, or of an earlier run.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::digest::{FileHasher, FileRead, Trailing};

/// Portions that wait to be hashed, of up to 400 KiB each (hyper's largest read).
pub(super) const AHEAD: usize = 16;
/// Bytes that hashing is at most behind when it keeps up: what waits, twice.
const KEEPS_UP: u64 = 2 * AHEAD as u64 * (400 << 10);

/// How far the file can be hashed.
pub(super) struct Mark {
    /// It is there from its first byte to before this one.
    up_to: u64,
    /// Some of its bytes, and where they begin: what has them need not be read again.
    fresh: Option<(u64, Bytes)>,
}

impl Mark {
    pub(super) fn at(up_to: u64) -> Self {
        Self { up_to, fresh: None }
    }
}

/// Where marks go. Nobody takes them only when the file cannot be read; the download itself goes on.
pub(super) struct Marks<'a> {
    pub(super) send: mpsc::Sender<Mark>,
    /// Bytes from the first one on that were hashed.
    pub(super) hashed_to: &'a AtomicU64,
}

impl Marks<'_> {
    /// Has the file hashed up to here.
    pub(super) async fn file(&self, up_to: u64) {
        self.send.send(Mark::at(up_to)).await.unwrap_or_default();
    }

    /// Has these bytes hashed too. It waits for room where hashing keeps up: on two processors the
    /// download would else run away from it, and end long before. Where hashing is behind, as after
    /// an earlier run, or cannot go on before another piece is there, what finds no room is read
    /// from the file after the next mark.
    pub(super) async fn fresh(&self, up_to: u64, at: u64, bytes: Bytes) {
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
pub(super) fn follow(
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
