//! The thread that reads a file as it was published: hashes it, counts it, and hands it over in
//! buffers that come back. So the digest of the file costs the decoder nothing, and neither waits
//! for the other for longer than the buffers last. It also serves a file that is not compressed
//! but whose digest is no SHA-256.

use std::fmt;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::reach::{PEEK, Reach};
use crate::digest::{FileHasher, FileRead, Trailing};

/// Bytes in a buffer.
const STEP: usize = 1 << 20;
/// Buffers: one being read into, one being decoded, two between.
const BUFFERS: usize = 4;

/// What is known of a file while it is read.
#[derive(Debug, Default)]
pub struct Tally {
    done: AtomicU64,
    file: Mutex<Option<FileRead>>,
}

impl Tally {
    /// Bytes read so far in the pass that is going on.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// What the file came to; known at the end of a pass.
    pub fn file(&self) -> Option<FileRead> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

enum Message {
    /// A buffer, whose bytes begin at [`PEEK`], and how many they are.
    Bytes(Vec<u8>, usize),
    End(Box<FileHasher>),
    Failed(io::Error),
}

/// A file that a thread reads ahead. Dropping it ends the thread at its next buffer.
pub struct Feed {
    full: Receiver<Message>,
    empty: Sender<Vec<u8>>,
    /// The bytes at hand lie at `at..end`; before them is room for what a peek left over.
    buf: Vec<u8>,
    at: usize,
    end: usize,
    taken: u64,
    hasher: Option<Box<FileHasher>>,
    over: bool,
    tally: Arc<Tally>,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Feed {
    /// Starts the thread.
    pub fn start(
        from: Box<dyn Read + Send>,
        with_sha512: bool,
        tally: Arc<Tally>,
    ) -> io::Result<Self> {
        let (to_reader, full) = bounded(BUFFERS + 1);
        let (empty, from_reader) = bounded(BUFFERS);
        for _ in 0..BUFFERS {
            // The channel has room for all of them, and its other end is held here.
            empty.send(vec![0; PEEK + STEP]).ok();
        }
        tally.done.store(0, Ordering::Relaxed);
        let counted = Arc::clone(&tally);
        thread::Builder::new().name("feed".to_owned()).spawn(move || {
            read_all(from, FileHasher::new(with_sha512), &counted, &from_reader, &to_reader);
        })?;
        Ok(Self {
            full,
            empty,
            buf: Vec::new(),
            at: 0,
            end: 0,
            taken: 0,
            hasher: None,
            over: false,
            tally,
        })
    }

    /// Takes the next buffer and puts the bytes that are left in front of it.
    fn next(&mut self) -> io::Result<()> {
        match self.full.recv() {
            Ok(Message::Bytes(mut next, len)) => {
                let left = self.end - self.at;
                let at = PEEK - left;
                next[at..PEEK].copy_from_slice(&self.buf[self.at..self.end]);
                let old = std::mem::replace(&mut self.buf, next);
                (self.at, self.end) = (at, PEEK + len);
                if !old.is_empty() {
                    // Nobody takes it when the file is at its end.
                    self.empty.send(old).ok();
                }
                Ok(())
            }
            Ok(Message::End(hasher)) => {
                self.hasher = Some(hasher);
                self.over = true;
                Ok(())
            }
            Ok(Message::Failed(error)) => {
                self.over = true;
                Err(error)
            }
            Err(_) => Err(io::Error::other("the thread that reads the file died")),
        }
    }
}

impl Reach for Feed {
    fn peek(&mut self, least: usize) -> io::Result<&[u8]> {
        while self.end - self.at < least.min(PEEK) && !self.over {
            self.next()?;
        }
        Ok(&self.buf[self.at..self.end])
    }

    fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.at);
        self.at += len;
        self.taken += len as u64;
    }

    fn position(&self) -> u64 {
        self.taken
    }

    fn end(&mut self, trailing: Trailing) {
        if let Some(hasher) = self.hasher.take() {
            let file = hasher.finish(trailing);
            *self.tally.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
        }
    }
}

/// A file that is the image: what it holds is passed on.
impl Read for Feed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let ahead = self.peek(1)?;
        let len = ahead.len().min(buf.len());
        buf[..len].copy_from_slice(&ahead[..len]);
        self.consume(len);
        if len == 0 && !buf.is_empty() {
            self.end(Trailing::default());
        }
        Ok(len)
    }
}

fn read_all(
    mut from: Box<dyn Read + Send>,
    mut hasher: FileHasher,
    tally: &Tally,
    empty: &Receiver<Vec<u8>>,
    full: &Sender<Message>,
) {
    for mut buf in empty {
        let mut len = 0;
        let mut failed = None;
        while len < STEP {
            match from.read(&mut buf[PEEK + len..]) {
                Ok(0) => break,
                Ok(n) => {
                    len += n;
                    tally.done.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        hasher.update(&buf[PEEK..PEEK + len]);
        if len > 0 && full.send(Message::Bytes(buf, len)).is_err() {
            return;
        }
        let last = match failed {
            Some(error) => Message::Failed(error),
            None if len < STEP => Message::End(Box::new(hasher)),
            None => continue,
        };
        // Whoever gave up needs no last word.
        full.send(last).ok();
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Hasher;

    /// Gives as few bytes as it likes.
    struct Drip(Vec<u8>, usize);
    impl Read for Drip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = (self.0.len() - self.1).min(buf.len()).min(70_001);
            buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| u8::try_from(i * 31 / 7 % 251).unwrap()).collect()
    }

    #[test]
    fn a_tap_changes_nothing_and_knows_the_digest_at_the_end() {
        for len in [0, 1, STEP - 1, STEP, STEP + 1, 5 * STEP + 77] {
            let (data, tally) = (bytes(len), Arc::new(Tally::default()));
            let drip = Box::new(Drip(data.clone(), 0));
            let mut feed = Feed::start(drip, true, Arc::clone(&tally)).unwrap();
            let mut out = Vec::new();
            feed.read_to_end(&mut out).unwrap();
            assert!(out == data, "{len}");
            let mut hasher = Hasher::default();
            hasher.update(&data);
            let file = tally.file().unwrap();
            assert_eq!((file.bytes, file.sha256), (len as u64, hasher.finish()));
            assert!(file.sha512.is_some());
            assert_eq!(tally.done(), len as u64);
        }
    }

    #[test]
    fn a_peek_reaches_over_the_end_of_a_buffer() {
        let data = bytes(3 * STEP);
        let mut feed = Feed::start(Box::new(Drip(data.clone(), 0)), false, Arc::default()).unwrap();
        for at in [STEP - 5, 2 * STEP - 1] {
            while feed.position() < at as u64 {
                let step = usize::try_from(at as u64 - feed.position()).unwrap();
                let len = feed.peek(1).unwrap().len().min(step);
                feed.consume(len);
            }
            assert_eq!(&feed.peek(40).unwrap()[..40], &data[at..at + 40]);
        }
    }

    #[test]
    fn a_reader_that_is_dropped_ends_the_thread() {
        struct Endless(Sender<()>);
        impl Read for Endless {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                Ok(buf.len())
            }
        }
        impl Drop for Endless {
            fn drop(&mut self) {
                self.0.send(()).ok();
            }
        }
        let (gone, seen) = bounded(1);
        let mut feed = Feed::start(Box::new(Endless(gone)), false, Arc::default()).unwrap();
        feed.peek(1).unwrap();
        drop(feed);
        seen.recv_timeout(std::time::Duration::from_secs(20)).unwrap();
    }
}
