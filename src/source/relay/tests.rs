//! One reader for several targets: every byte once, whoever is slow, leaves or fails.

use std::io::Cursor;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::bounded;

use super::*;
use crate::digest::Hasher;

const BLOCK: usize = 4096;

/// Bytes that are decoded, or come from a pipe: nobody reads them in the middle.
#[derive(Debug)]
struct Stream {
    info: SourceInfo,
    bytes: Vec<u8>,
    opened: AtomicUsize,
    fails_at: Option<usize>,
}

impl Stream {
    fn new(len: usize, restartable: bool) -> Arc<Self> {
        Self::failing(len, restartable, None)
    }

    fn failing(len: usize, restartable: bool, fails_at: Option<usize>) -> Arc<Self> {
        let info = SourceInfo { name: "stream".to_owned(), len: None, restartable };
        let bytes = (0..len).map(|i| u8::try_from((i * 7 + i / 251) % 253).unwrap()).collect();
        Arc::new(Self { info, bytes, opened: AtomicUsize::new(0), fails_at })
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }
}

struct Failing(Cursor<Vec<u8>>, Option<usize>);

impl Read for Failing {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.1.is_some_and(|at| self.0.position() >= at as u64) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let len = buf.len().min(1000);
        self.0.read(&mut buf[..len])
    }
}

impl Source for Stream {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let before = self.opened.fetch_add(1, Ordering::SeqCst);
        assert!(before == 0 || self.info.restartable, "a pipe was opened twice");
        Ok(Box::new(Failing(Cursor::new(self.bytes.clone()), self.fails_at)))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        Box::new(crate::image::Head(&self.bytes[..0]))
    }

    fn positional(&self) -> Option<Box<dyn ReadAt + '_>> {
        None
    }
}

fn followers(source: &Arc<Stream>, count: usize) -> Vec<Follower> {
    let inner: Arc<dyn Source> = source.clone();
    Relay::followers(&inner, count, BLOCK, false)
}

/// With a window of a few blocks.
fn narrow(source: &Arc<Stream>, count: usize, window: usize) -> Vec<Follower> {
    let inner: Arc<dyn Source> = source.clone();
    let limits = Limits { window, patience: Duration::from_millis(50) };
    Relay::within(limits, &inner, count, (BLOCK, false))
}

fn all_of(follower: &Follower) -> Vec<u8> {
    let mut bytes = Vec::new();
    follower.open().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn sha256(bytes: &[u8]) -> crate::digest::Sha256 {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

#[test]
fn everybody_gets_every_byte_and_the_image_is_read_and_hashed_once() {
    for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK, 300 * BLOCK + 77] {
        for count in [1, 2, 8] {
            let source = Stream::new(len, true);
            let followers = followers(&source, count);
            thread::scope(|scope| {
                for follower in &followers {
                    scope.spawn(|| {
                        assert!(all_of(follower) == source.bytes);
                        let digests =
                            follower.hashed_by().unwrap().digests(&|| false).unwrap().unwrap();
                        assert_eq!(digests.digest.proof, sha256(&source.bytes));
                        let prefixes = digests.prefixes.unwrap();
                        assert_eq!(prefixes.digest(), sha256(&source.bytes));
                        for (index, part) in (0..).zip(source.bytes.chunks(BLOCK)) {
                            assert!(prefixes.holds(index, part));
                        }
                    });
                }
            });
            assert_eq!(source.opened(), 1, "{len} {count}");
        }
    }
}

#[test]
fn who_holds_up_others_goes_on_by_itself_and_they_do_not_wait_for_it() {
    let source = Stream::new(100 * BLOCK + 5, true);
    let mut followers = narrow(&source, 3, 4);
    let slow = followers.pop().unwrap();
    let mut reader = slow.open().unwrap();
    let mut begun = vec![0; 10_000];
    reader.read_exact(&mut begun).unwrap();
    thread::scope(|scope| {
        for follower in &followers {
            scope.spawn(|| assert!(all_of(follower) == source.bytes));
        }
    });
    // They are at the end, and it has 10,000 bytes.
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!([begun, rest].concat() == source.bytes);
    assert_eq!(source.opened(), 2);
    let digests = slow.hashed_by().unwrap().digests(&|| false).unwrap().unwrap();
    assert_eq!(digests.digest.proof, sha256(&source.bytes));
}

/// One that discards for a minute before it begins is as good as a slow one.
#[test]
fn who_has_not_begun_is_not_waited_for_either() {
    let source = Stream::new(50 * BLOCK, true);
    let followers = narrow(&source, 2, 4);
    assert!(all_of(&followers[0]) == source.bytes);
    assert!(all_of(&followers[1]) == source.bytes);
    assert_eq!(source.opened(), 2);
}

#[test]
fn a_pipe_goes_at_the_pace_of_the_slowest_within_the_window() {
    let source = Stream::new(60 * BLOCK, false);
    let followers = narrow(&source, 2, 4);
    let (go, wait) = bounded::<()>(0);
    let relay = Arc::clone(&followers[0].relay);
    thread::scope(|scope| {
        let source = &source;
        let fast = scope.spawn(|| assert!(all_of(&followers[0]) == source.bytes));
        let slow = &followers[1];
        scope.spawn(move || {
            let mut reader = slow.open().unwrap();
            let mut bytes = vec![0; 1];
            reader.read_exact(&mut bytes).unwrap();
            wait.recv().unwrap();
            reader.read_to_end(&mut bytes).unwrap();
            assert!(bytes == source.bytes);
        });
        while !matches!(relay.lock().followers[0], Seat::Along { next: 5, waits: true, .. }) {
            thread::yield_now();
        }
        assert_eq!(relay.lock().blocks.len(), 4);
        assert!(!fast.is_finished());
        go.send(()).unwrap();
    });
    assert_eq!(source.opened(), 1);
}

#[test]
fn an_error_of_the_source_reaches_everybody() {
    let source = Stream::failing(20 * BLOCK, true, Some(9 * BLOCK));
    let followers = followers(&source, 3);
    for follower in &followers {
        let mut bytes = Vec::new();
        let error = follower.open().unwrap().read_to_end(&mut bytes).unwrap_err();
        let error = error.downcast::<Error>().unwrap();
        assert_eq!((error.place().unwrap().offset, error.errno()), (9 * BLOCK as u64, Some(5)));
        assert!(bytes == source.bytes[..9 * BLOCK]);
        let digests = follower.hashed_by().unwrap().digests(&|| false);
        assert_eq!(digests.unwrap_err().to_string(), error.to_string());
    }
}

#[test]
fn who_leaves_is_missed_by_nobody() {
    let source = Stream::new(100 * BLOCK, false);
    let mut followers = narrow(&source, 3, 4);
    // One never began, one gives up on the way.
    drop(followers.pop());
    let one = followers.pop().unwrap();
    let mut reader = one.open().unwrap();
    reader.read_exact(&mut [0; 100]).unwrap();
    drop((reader, one));
    assert!(all_of(&followers[0]) == source.bytes);
}

#[test]
fn the_image_is_read_to_its_end_for_those_who_have_all_bytes_and_want_the_digests() {
    let source = Stream::new(100 * BLOCK, true);
    let followers = narrow(&source, 1, 4);
    let mut reader = followers[0].open().unwrap();
    reader.read_exact(&mut [0; 100]).unwrap();
    drop(reader);
    let digests = followers[0].hashed_by().unwrap().digests(&|| false).unwrap().unwrap();
    assert_eq!(digests.digest.proof, sha256(&source.bytes));
}

#[test]
fn whoever_stops_is_not_kept_waiting() {
    let source = Stream::new(20 * BLOCK, false);
    let followers = narrow(&source, 2, 4);
    let mut reader = followers[0].open().unwrap();
    // The other one takes nothing: the window is full, and no block comes.
    let mut bytes = vec![0; 4 * BLOCK];
    reader.read_exact(&mut bytes).unwrap();
    let error = reader.read(&mut bytes).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    assert!(followers[0].hashed_by().unwrap().digests(&|| true).unwrap().is_none());
}
