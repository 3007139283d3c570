//! Images from web servers: streamed into a medium, or downloaded into a file.
//!
//! ```text
//! head      the fields of a reply, each by its grammar: pure
//! judge     what a reply is worth, by all of them together: pure
//! client    TLS, proxies, redirects, words for what went wrong
//! transfer  one file from some byte on, over as many requests and mirrors as it takes
//! stream    a transfer as a Source: a thread of its own hands bytes over a bounded channel
//! cache     where downloads are kept
//! download  transfers into a file that can be gone on with, over several connections
//! part      what is there of such a file: pure; partfile: whose it is, and how its state is kept
//! hashing   its digests, while it comes
//! ```
//! Async lives here and nowhere else in the program; every runtime has one thread.

pub mod cache;
pub mod client;
pub mod download;
mod hashing;
pub mod head;
pub mod judge;
mod part;
mod partfile;
pub mod stream;
pub mod transfer;

use std::future::Future;
use std::time::Duration;

use reqwest::header::ACCEPT_ENCODING;

use judge::{Asked, Judgement, judge};

use crate::cancel::CancelToken;
use crate::error::{Error, Kind, Result};

/// Ends once somebody asks to stop, with the error that says so.
async fn stopped(cancel: &CancelToken) -> Error {
    loop {
        if let Err(stop) = cancel.check() {
            return stop;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs network work to its end, or until somebody asks to stop.
fn run<T>(cancel: &CancelToken, work: impl Future<Output = Result<T>>) -> Result<T> {
    to_its_end(async {
        tokio::select! {
            done = work => done,
            stop = stopped(cancel) => Err(stop),
        }
    })
}

/// Runs network work that looks itself whether it shall stop.
fn to_its_end<T, E: From<Error>>(
    work: impl Future<Output = std::result::Result<T, E>>,
) -> std::result::Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::io("the network cannot be used", e))?;
    runtime.block_on(work)
}

/// Fetches a small file, such as a list of checksums. `None` when the server has no such file.
pub fn small(address: &str, limit: usize, cancel: &CancelToken) -> Result<Option<Vec<u8>>> {
    let url = client::parse(address)?;
    let client = client::client()?;
    run(cancel, async {
        let failed = |e: &reqwest::Error| {
            Error::new(Kind::Io, format!("{}: {}", client::shown(&url), client::cause(e)))
                .hint(client::advice(e))
        };
        let asked = client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
        let mut reply = asked.send().await.map_err(|e| failed(&e))?;
        if matches!(reply.status().as_u16(), 404 | 410) {
            return Ok(None);
        }
        let said = |why: &str| Error::new(Kind::Io, format!("{}: {why}", client::shown(&url)));
        match judge(&Asked::default(), &client::head(&reply)) {
            Judgement::Take { .. } => {}
            Judgement::No { why, hint } => return Err(said(&why).hint(hint)),
            Judgement::Later { why, .. }
            | Judgement::NoPart { why }
            | Judgement::Changed { why }
            | Judgement::Unproven { why } => return Err(said(&why)),
            Judgement::Complete => return Ok(None),
        }
        let mut bytes = Vec::new();
        while let Some(more) = reply.chunk().await.map_err(|e| failed(&e))? {
            bytes.extend_from_slice(&more);
            if bytes.len() > limit {
                return Err(Error::refused(format!(
                    "{} is larger than a list of checksums: over {limit} bytes",
                    client::shown(&url)
                )));
            }
        }
        Ok(Some(bytes))
    })
}
