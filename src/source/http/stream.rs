//! An address as a source: its bytes come over a bounded channel from a thread that runs the
//! transfer, so that the server is read ahead of whoever decodes and hashes, and no further.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use reqwest::Url;

use super::transfer::{Broken, Flag, Known, Patience, Remark, Transfer};
use super::{client, run};
use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};

/// Bytes that are handed over at once: a channel costs next to nothing then.
const PORTION: usize = 256 << 10;
/// Portions that wait for a reader: 4 MiB.
const AHEAD: usize = 16;

/// The bytes of one address, from the first on, over as many requests as it takes.
pub struct Body {
    portions: Receiver<Result<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
    cancel: CancelToken,
    over: bool,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

/// What is known of a stream's end, while it runs and afterwards.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// A digest will prove the whole, so that other addresses may go on with it.
    pub proof: Flag,
    /// It ended with the connection, and nobody had said how long it is.
    pub unstated: Flag,
}

/// Asks for a file; what the server says of it, and its bytes. `remark` is called on the thread
/// of the transfer.
pub fn open(
    urls: &[Url],
    patience: Patience,
    ending: &Ending,
    cancel: &CancelToken,
    remark: impl Fn(Remark) + Send + 'static,
) -> Result<(Known, Body)> {
    let client = client::client()?;
    let transfer = Transfer::new(client, urls, patience, Box::new(remark));
    let mut transfer = transfer.flags(&ending.proof, &Flag::default(), &ending.unstated);
    let (send, portions) = bounded(AHEAD);
    let (tell, told) = bounded(1);
    let token = cancel.clone();
    thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || {
            let failed = run(&token, async {
                let known = transfer.begin().await.map_err(Broken::into_error);
                let go_on = known.is_ok();
                // The other end waits for it.
                tell.send(known).ok();
                if go_on { pump(&mut transfer, &send).await } else { Ok(()) }
            });
            if let Err(error) = failed {
                // Nobody reads any more when this fails.
                send.send(Err(error)).ok();
            }
        })
        .map_err(|e| Error::io("no thread can be started", e))?;
    let known = loop {
        match told.recv_timeout(Duration::from_millis(50)) {
            Ok(known) => break known?,
            Err(RecvTimeoutError::Timeout) => cancel.check()?,
            Err(RecvTimeoutError::Disconnected) => {
                cancel.check()?;
                return Err(Error::new(Kind::Internal, "the thread of the transfer ended"));
            }
        }
    };
    let known =
        known.ok_or_else(|| Error::refused(format!("{} is empty", client::shown(&urls[0]))))?;
    let current = io::Cursor::new(Vec::new());
    Ok((known, Body { portions, current, cancel: cancel.clone(), over: false }))
}

/// Collects what the connection gives into portions.
async fn pump(transfer: &mut Transfer, send: &Sender<Result<Vec<u8>>>) -> Result<()> {
    let mut portion = Vec::with_capacity(PORTION);
    while let Some(bytes) = transfer.chunk().await.map_err(Broken::into_error)? {
        portion.extend_from_slice(&bytes);
        if portion.len() >= PORTION {
            let full = std::mem::replace(&mut portion, Vec::with_capacity(PORTION));
            // Blocks this thread, which has nothing else to do; fails when nobody reads on.
            if send.send(Ok(full)).is_err() {
                return Ok(());
            }
        }
    }
    if !portion.is_empty() {
        send.send(Ok(portion)).ok();
    }
    Ok(())
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.current.read(buf)?;
            if n > 0 || buf.is_empty() || self.over {
                return Ok(n);
            }
            match self.portions.recv_timeout(Duration::from_millis(50)) {
                Ok(Ok(portion)) => self.current = io::Cursor::new(portion),
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(RecvTimeoutError::Timeout) => {
                    if self.cancel.signal().is_some() {
                        // Not `Interrupted`: callers repeat that one.
                        return Err(io::Error::other("cancelled"));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => self.over = true,
            }
        }
    }
}
