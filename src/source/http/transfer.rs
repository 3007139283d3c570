//! One file of a web server from some byte on, over as many requests as it takes. Runs on the
//! runtime of whoever drives it; waits only here.
//!
//! Whatever goes wrong on the way is tried again from the first byte that is missing, with
//! `Range` and `If-Range`, after a wait that doubles, at the next mirror when there is one. What
//! came is counted by what it is: bytes that `judge` did not place are never handed on.

use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    IF_RANGE, LAST_MODIFIED, RANGE, RETRY_AFTER,
};
use reqwest::{Client, Response, Url};

use super::client;
use super::judge::{Asked, Head, Judgement, Validator, judge};
use crate::error::{Error, Kind, Result};

/// How failures are met.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Failures in a row, without 64 KiB in between, until it is given up.
    pub tries: u32,
    /// The first wait; each further one is twice as long.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 8,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
        }
    }
}

/// A server that was never reached gets fewer attempts: the address is probably wrong.
const TRIES_TO_BEGIN: u32 = 3;

/// An attempt that brought this many bytes was worth it; the next failure counts as the first.
const WORTH: u64 = 64 << 10;

/// Told as it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// An attempt failed; another follows.
    Again {
        /// Why.
        why: String,
        /// After this wait.
        wait: Duration,
    },
    /// The server does not send parts: what is there already is sent again and skipped.
    NoParts,
}

/// Where the bytes are on the server, and where they may come from.
pub struct Transfer {
    client: Client,
    mirrors: Vec<Mirror>,
    current: usize,
    offset: u64,
    /// First byte that is not wanted; the end of the file when `None`.
    end: Option<u64>,
    total: Option<u64>,
    open: Option<Body>,
    patience: Patience,
    failures: u32,
    since_failure: u64,
    reached: bool,
    remark: Box<dyn Fn(Remark) + Send>,
}

impl std::fmt::Debug for Transfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Transfer(from {})", self.offset)
    }
}

/// One address of the file. Entity tags of different servers differ for the same file.
struct Mirror {
    url: Url,
    validator: Option<Validator>,
    hopeless: bool,
}

/// The body of a reply that was taken.
struct Body {
    reply: Response,
    skip: u64,
    /// Bytes still to come, where the server said how many; else the end is the end.
    left: Option<u64>,
}

/// What is known of a file before its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its length.
    pub total: Option<u64>,
    /// Which version it is.
    pub validator: Option<Validator>,
    /// Where it came from in the end, after redirects.
    pub url: Url,
    /// Whether the server says that it sends parts.
    pub ranges: bool,
}

impl Transfer {
    /// Begins at byte `offset` of a file of which `total` and `validator` may be known.
    pub fn new(
        client: Client,
        urls: &[Url],
        patience: Patience,
        remark: Box<dyn Fn(Remark) + Send>,
    ) -> Self {
        let mirror = |url: &Url| Mirror { url: url.clone(), validator: None, hopeless: false };
        Self {
            client,
            mirrors: urls.iter().map(mirror).collect(),
            current: 0,
            offset: 0,
            end: None,
            total: None,
            open: None,
            patience,
            failures: 0,
            since_failure: 0,
            reached: false,
            remark,
        }
    }

    /// Only the bytes from `offset` to `end`, of a file that has that length and version.
    #[must_use]
    pub fn part(
        mut self,
        offset: u64,
        end: Option<u64>,
        total: Option<u64>,
        validator: Option<Validator>,
    ) -> Self {
        (self.offset, self.end, self.total) = (offset, end, total);
        if let Some(first) = self.mirrors.first_mut() {
            first.validator = validator;
        }
        self
    }

    /// Ends before this byte.
    #[must_use]
    pub fn part_ends(mut self, end: Option<u64>) -> Self {
        self.end = end;
        self
    }

    /// Makes sure that a reply is there; what it says of the file. `None`: there is no byte left.
    pub async fn begin(&mut self) -> Result<Option<Known>> {
        if self.open.is_none() && !self.connect().await? {
            return Ok(None);
        }
        let Some(body) = &self.open else { return Ok(None) };
        let ranges = body.reply.status() == 206
            || body.reply.headers().get("accept-ranges").is_some_and(|v| v == "bytes");
        Ok(Some(Known {
            total: self.total,
            validator: self.mirrors[self.current].validator.clone(),
            url: body.reply.url().clone(),
            ranges,
        }))
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<bytes::Bytes>> {
        loop {
            if self.is_complete() {
                return Ok(None);
            }
            if self.open.is_none() && !self.connect().await? {
                return Ok(None);
            }
            let Some(body) = &mut self.open else { continue };
            match body.reply.chunk().await {
                Ok(Some(mut bytes)) => {
                    body.left = body.left.map(|left| left.saturating_sub(bytes.len() as u64));
                    let skip = body.skip.min(bytes.len() as u64);
                    body.skip -= skip;
                    drop(bytes.split_to(usize::try_from(skip).unwrap_or(bytes.len())));
                    let wanted = self.end.or(self.total).map(|end| end.saturating_sub(self.offset));
                    if let Some(wanted) = wanted.and_then(|n| usize::try_from(n).ok()) {
                        bytes.truncate(wanted);
                    }
                    if bytes.is_empty() {
                        continue;
                    }
                    self.offset += bytes.len() as u64;
                    self.since_failure += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                Ok(None) => self.ended().await?,
                Err(error) => {
                    self.open = None;
                    self.failed(client::cause(&error), None).await?;
                }
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.end.or(self.total).is_some_and(|end| self.offset >= end)
    }

    /// The body of a reply is over.
    async fn ended(&mut self) -> Result<()> {
        let known = self.open.take().is_some_and(|body| body.left.is_some());
        if self.is_complete() {
            return Ok(());
        }
        if self.total.is_none() && !known {
            // Nobody said how long it is, and the connection was closed in order.
            self.total = Some(self.offset);
            return Ok(());
        }
        let why = match self.total {
            Some(total) => format!("the server sent {} of {total} bytes and closed", self.offset),
            None => "the server sent less than it said".to_owned(),
        };
        self.failed(why, None).await
    }

    /// Asks until a reply can be taken. `false`: every byte is there.
    async fn connect(&mut self) -> Result<bool> {
        loop {
            let asked = Asked {
                offset: self.offset,
                total: self.total,
                validator: self.mirrors[self.current].validator.clone(),
            };
            let reply = match self.request(&asked).send().await {
                Ok(reply) => reply,
                Err(error) => {
                    let why = client::cause(&error);
                    if client::is_final(&error) {
                        self.no(&why, client::advice(&error))?;
                    } else if self.failures + 1 >= self.tries() {
                        self.failures += 1;
                        return Err(self.given_up(&why).hint(client::advice(&error)));
                    } else {
                        self.failed(why, None).await?;
                    }
                    continue;
                }
            };
            self.reached = true;
            match judge(&asked, &head(&reply)) {
                Judgement::Take { skip, total, body, validator } => {
                    if reply.status() == 200 && skip > 0 {
                        (self.remark)(Remark::NoParts);
                    }
                    self.total = self.total.or(total);
                    self.mirrors[self.current].validator = validator;
                    self.open = Some(Body { reply, skip, left: body });
                    return Ok(true);
                }
                Judgement::Complete => {
                    self.total = Some(self.offset);
                    return Ok(false);
                }
                Judgement::Changed { why } => {
                    return Err(Error::new(
                        Kind::SourceMismatch,
                        format!(
                            "{} changed while it was downloaded: {why}",
                            client::shown(&self.mirrors[self.current].url)
                        ),
                    )
                    .hint("start over; what was downloaded belongs to the file of before"));
                }
                Judgement::Later { why, after } => self.failed(why, after).await?,
                Judgement::No { why, hint } => self.no(&why, hint)?,
            }
        }
    }

    fn request(&self, asked: &Asked) -> reqwest::RequestBuilder {
        let url = self.mirrors[self.current].url.clone();
        let mut request = self.client.get(url).header(ACCEPT_ENCODING, "identity");
        if asked.offset > 0 {
            let last = self.end.map_or_else(String::new, |end| (end - 1).to_string());
            request = request.header(RANGE, format!("bytes={}-{last}", asked.offset));
            if let Some(validator) = &asked.validator {
                request = request.header(IF_RANGE, validator.as_str());
            }
        }
        request
    }

    /// This address will not do: the next one, or the end.
    fn no(&mut self, why: &str, hint: &str) -> Result<()> {
        let error = self.error(why).hint(hint);
        self.mirrors[self.current].hopeless = true;
        if self.next_mirror() { Ok(()) } else { Err(error) }
    }

    /// Goes to the next address that may do.
    fn next_mirror(&mut self) -> bool {
        let count = self.mirrors.len();
        let next = (1..=count)
            .map(|step| (self.current + step) % count)
            .find(|index| !self.mirrors[*index].hopeless);
        self.current = next.unwrap_or(self.current);
        next.is_some()
    }

    /// Waits, and goes to the next mirror; gives up after too many failures in a row.
    async fn failed(&mut self, why: String, after: Option<Duration>) -> Result<()> {
        self.failures = if self.since_failure >= WORTH { 1 } else { self.failures + 1 };
        self.since_failure = 0;
        if self.failures >= self.tries() {
            return Err(self.given_up(&why).hint(
                "check the network, then run the same command again: a download goes on where it stopped",
            ));
        }
        let doubled = self.patience.first_wait * 2u32.saturating_pow(self.failures - 1);
        let wait =
            after.unwrap_or(doubled).min(self.patience.longest_wait.max(after.unwrap_or_default()));
        (self.remark)(Remark::Again { why, wait });
        self.next_mirror();
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn tries(&self) -> u32 {
        if self.reached { self.patience.tries } else { self.patience.tries.min(TRIES_TO_BEGIN) }
    }

    fn given_up(&self, why: &str) -> Error {
        self.error(&format!("given up after {} attempts in a row: {why}", self.failures.max(1)))
    }

    fn error(&self, why: &str) -> Error {
        let after =
            if self.offset > 0 { format!(" (after {} bytes)", self.offset) } else { String::new() };
        let url = client::shown(&self.mirrors[self.current].url);
        Error::new(Kind::Io, format!("{url}: {why}{after}"))
    }
}

/// The fields of a reply that matter.
fn head(reply: &Response) -> Head {
    let headers: &HeaderMap = reply.headers();
    // A field that is no ASCII is none that we could use.
    let field = |name: HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    Head {
        status: reply.status().as_u16(),
        content_length: field(CONTENT_LENGTH),
        content_range: field(CONTENT_RANGE),
        content_type: field(CONTENT_TYPE),
        etag: field(ETAG),
        last_modified: field(LAST_MODIFIED),
        retry_after: field(RETRY_AFTER),
    }
}
