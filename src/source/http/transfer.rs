//! One file of a web server from some byte on, over as many requests as it takes. Runs on the
//! runtime of whoever drives it; waits only here.
//!
//! Whatever goes wrong on the way is tried again from the first byte that is missing, with
//! `Range` and `If-Range`, after a wait that doubles, at the next mirror when there is one. What
//! came is counted by what it is: bytes that `judge` did not place are never handed on.
//!
//! Bytes of two addresses are joined only where a digest will prove the whole. Where it will not,
//! the address that began has to go on, with the validator that it had.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, RANGE};
use reqwest::{Client, Response, Url};

use super::client::{self, head};
use super::judge::{Asked, Framing, Judgement, Version, judge};
use crate::error::{Error, Kind};

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
    /// The server refused one of several connections: from now on there is one.
    Alone {
        /// Why.
        why: String,
    },
}

/// Something that may become true while others run, and stays so.
#[derive(Clone, Debug, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    /// One that is true if `is`.
    pub fn new(is: bool) -> Self {
        Self(Arc::new(AtomicBool::new(is)))
    }

    /// From now on.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether it is.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Why a transfer ended before its last byte.
#[derive(Debug)]
pub enum Broken {
    /// What is there cannot be continued; the whole file from its first byte can be.
    Anew(Error),
    /// The address that began is lost; another has to begin from the first byte.
    Lost(Error),
    /// The server does not send parts, and this is one of several.
    NoParts,
    /// The server may refuse only that there are others at the same time.
    Alone(Error),
    /// Anything else.
    Failed(Error),
}

/// What comes of a step of a transfer.
pub type Outcome<T> = Result<T, Broken>;

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Broken {
    /// The error, for whoever cannot begin from the first byte.
    pub fn into_error(self) -> Error {
        match self {
            Self::Anew(error) | Self::Lost(error) | Self::Alone(error) | Self::Failed(error) => {
                error
            }
            Self::NoParts => Error::new(Kind::Io, "the server does not send parts of the file"),
        }
    }
}

/// Where the bytes are on the server, and where they may come from.
pub struct Transfer {
    client: Client,
    mirrors: Vec<Mirror>,
    current: usize,
    /// The address that what is there came from.
    origin: usize,
    offset: u64,
    /// First byte that is not wanted; the end of the file when `None`.
    end: Option<u64>,
    total: Option<u64>,
    /// One of several pieces of the file.
    several: bool,
    /// Others are fetched at the same time.
    others: bool,
    /// A digest will prove the whole.
    proof: Flag,
    /// Bytes were joined that only a digest can prove to belong together.
    joined: Flag,
    /// The end of the file was never stated: the connection was closed.
    unstated: Flag,
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

/// One address of the file.
struct Mirror {
    url: Url,
    /// Where it led to in the end: asked first after a failure, because a validator is good for
    /// that address alone.
    led_to: Option<Url>,
    version: Option<Version>,
    /// It may be asked for parts.
    ranges: bool,
    hopeless: bool,
}

/// The body of a reply that was taken.
struct Body {
    reply: Response,
    skip: u64,
    /// Bytes still to come, where the server said how many; else the end is the end.
    left: Option<u64>,
    framing: Framing,
}

/// What is known of a file before its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its length.
    pub total: Option<u64>,
    /// Which version it is.
    pub version: Option<Version>,
    /// Which of the addresses has it.
    pub address: usize,
    /// Where it came from in the end, after redirects.
    pub url: Url,
    /// Whether the server says that it sends parts.
    pub ranges: bool,
}

/// The piece of a file that a transfer is for.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// Its first byte that is missing.
    pub offset: u64,
    /// First byte that is not wanted; the end of the file when `None`.
    pub end: Option<u64>,
    /// Length of the file, when it is known.
    pub total: Option<u64>,
    /// Which version of it, by the first address.
    pub version: Option<Version>,
    /// Whether it has other pieces.
    pub several: bool,
    /// Whether those are fetched at the same time.
    pub others: bool,
    /// Whether the first address is not to be asked for parts.
    pub whole: bool,
}

impl Transfer {
    /// Begins at the first byte of a file that has these addresses, best first.
    pub fn new(
        client: Client,
        urls: &[Url],
        patience: Patience,
        remark: Box<dyn Fn(Remark) + Send>,
    ) -> Self {
        let mirror = |url: &Url| Mirror {
            url: url.clone(),
            led_to: None,
            version: None,
            ranges: true,
            hopeless: false,
        };
        Self {
            client,
            mirrors: urls.iter().map(mirror).collect(),
            current: 0,
            origin: 0,
            offset: 0,
            end: None,
            total: None,
            several: false,
            others: false,
            proof: Flag::default(),
            joined: Flag::default(),
            unstated: Flag::default(),
            open: None,
            patience,
            failures: 0,
            since_failure: 0,
            reached: false,
            remark,
        }
    }

    /// Only this piece.
    #[must_use]
    pub fn piece(mut self, piece: Piece) -> Self {
        (self.offset, self.end, self.total) = (piece.offset, piece.end, piece.total);
        (self.several, self.others) = (piece.several, piece.others);
        if let Some(first) = self.mirrors.first_mut() {
            (first.version, first.ranges) = (piece.version, !piece.whole);
        }
        self
    }

    /// Where to look up whether a digest will prove the whole, and where to say that bytes were
    /// joined which need that, and that the end was not stated.
    #[must_use]
    pub fn flags(mut self, proof: &Flag, joined: &Flag, unstated: &Flag) -> Self {
        (self.proof, self.joined) = (proof.clone(), joined.clone());
        self.unstated = unstated.clone();
        self
    }

    /// Ends before this byte; whether there are other pieces, and at the same time.
    #[must_use]
    pub fn ends(mut self, end: Option<u64>, several: bool, others: bool) -> Self {
        (self.end, self.several, self.others) = (end, several, others);
        self
    }

    /// Makes sure that a reply is there; what it says of the file. `None`: there is no byte left.
    pub async fn begin(&mut self) -> Outcome<Option<Known>> {
        if self.open.is_none() && !self.connect().await? {
            return Ok(None);
        }
        let Some(body) = &self.open else { return Ok(None) };
        let ranges = body.reply.status() == 206
            || body.reply.headers().get("accept-ranges").is_some_and(|v| v == "bytes");
        let mirror = &self.mirrors[self.current];
        Ok(Some(Known {
            total: self.total,
            version: mirror.version.clone(),
            address: self.current,
            url: body.reply.url().clone(),
            ranges: ranges && mirror.ranges,
        }))
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Outcome<Option<bytes::Bytes>> {
        loop {
            if self.is_complete() {
                self.nothing_more().await?;
                return Ok(None);
            }
            if self.open.is_none() && !self.connect().await? {
                return Ok(None);
            }
            let Some(body) = &mut self.open else { continue };
            match body.reply.chunk().await {
                Ok(Some(mut bytes)) => {
                    if body.left.is_some_and(|left| left < bytes.len() as u64) {
                        return Err(self.more_than_said());
                    }
                    body.left = body.left.map(|left| left - bytes.len() as u64);
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

    /// Where nothing counts the bytes of a body but what its head says of them, one byte more
    /// gives that the lie, and then the bytes before were not what it says either.
    async fn nothing_more(&mut self) -> Outcome<()> {
        let Some(mut body) = self.open.take() else { return Ok(()) };
        if body.left != Some(0) || matches!(body.framing, Framing::Counted(_)) {
            return Ok(());
        }
        loop {
            match body.reply.chunk().await {
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(Some(_)) => return Err(self.more_than_said()),
                // As many as were said did come.
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }

    fn more_than_said(&mut self) -> Broken {
        self.open = None;
        Broken::Anew(
            self.error("the server sent more bytes than it said, so none of them can be trusted")
                .hint("try another address, or give the file's digest with --sha256"),
        )
    }

    /// The body of a reply is over.
    async fn ended(&mut self) -> Outcome<()> {
        let body = self.open.take();
        if self.is_complete() {
            return Ok(());
        }
        if let (None, Some(Body { left: None, framing, .. })) = (self.total, &body) {
            // The connection was closed in order, and nobody said how long the file is.
            if *framing == Framing::Closed {
                self.unstated.set();
            }
            self.total = Some(self.offset);
            return Ok(());
        }
        let why = match self.total {
            Some(total) => format!("the server sent {} of {total} bytes and closed", self.offset),
            None => "the server sent less than it said".to_owned(),
        };
        self.failed(why, None).await
    }

    fn asked(&self) -> Asked {
        let mirror = &self.mirrors[self.current];
        let joins = self.several || self.offset > 0;
        let ours = joins && (self.proof.is_set() || self.current == self.origin);
        Asked {
            offset: self.offset,
            ranged: self.offset > 0 && mirror.ranges,
            joins,
            total: self.total.filter(|_| joins),
            version: mirror.version.clone().filter(|_| ours),
            proven: self.proof.is_set(),
            names: client::file_name(&mirror.url).into_iter().collect(),
        }
    }

    /// Asks until a reply can be taken. `false`: every byte is there.
    async fn connect(&mut self) -> Outcome<bool> {
        loop {
            let asked = self.asked();
            let reply = match self.request(&asked).send().await {
                Ok(reply) => reply,
                Err(error) => {
                    self.unanswered(&error).await?;
                    continue;
                }
            };
            self.reached = true;
            let mut asked = asked;
            asked.names.extend(client::file_name(reply.url()));
            let judgement = judge(&asked, &head(&reply));
            let whole = asked.ranged && reply.status() == 200;
            let taken = matches!(judgement, Judgement::Take { .. });
            if self.several && (whole && taken || matches!(judgement, Judgement::NoPart { .. })) {
                return Err(Broken::NoParts);
            }
            match judgement {
                taken @ Judgement::Take { .. } => {
                    self.take(&asked, taken, reply);
                    return Ok(true);
                }
                Judgement::Complete => {
                    self.total = Some(self.offset);
                    return Ok(false);
                }
                Judgement::Changed { why } => return Err(Broken::Anew(self.changed(&why))),
                Judgement::Unproven { why } => self.unproven(&why)?,
                Judgement::NoPart { .. } => {
                    self.mirrors[self.current].ranges = false;
                    (self.remark)(Remark::NoParts);
                }
                Judgement::Later { why, after } => self.failed(why, after).await?,
                Judgement::No { why, hint } => self.no(&why, hint)?,
            }
        }
    }

    fn take(&mut self, asked: &Asked, taken: Judgement, reply: Response) {
        let Judgement::Take { skip, total, body, version, framing, same } = taken else { return };
        if asked.ranged && reply.status() == 200 {
            (self.remark)(Remark::NoParts);
        }
        let mirror = &mut self.mirrors[self.current];
        mirror.led_to = Some(reply.url().clone());
        if asked.joins {
            self.total = self.total.or(total);
            if !same {
                self.joined.set();
                mirror.version = version;
            }
        } else {
            (self.origin, self.total, mirror.version) = (self.current, total, version);
        }
        self.open = Some(Body { reply, skip, left: body, framing });
    }

    /// Nothing came back.
    async fn unanswered(&mut self, error: &reqwest::Error) -> Outcome<()> {
        let why = client::cause(error);
        if client::is_final(error) {
            return self.no(&why, client::advice(error));
        }
        self.mirrors[self.current].led_to = None;
        if self.failures + 1 >= self.tries() {
            self.failures += 1;
            let error = self.given_up(&why).hint(client::advice(error));
            return Err(self.lost(error));
        }
        self.failed(why, None).await
    }

    fn request(&self, asked: &Asked) -> reqwest::RequestBuilder {
        let mirror = &self.mirrors[self.current];
        let url = mirror.led_to.as_ref().unwrap_or(&mirror.url).clone();
        let mut request = self.client.get(url).header(ACCEPT_ENCODING, "identity");
        if asked.ranged {
            let last = self.end.map_or_else(String::new, |end| (end - 1).to_string());
            request = request.header(RANGE, format!("bytes={}-{last}", asked.offset));
            if let Some(version) = &asked.version {
                request = request.header(IF_RANGE, version.validator.as_str());
            }
        }
        request
    }

    fn changed(&self, why: &str) -> Error {
        let url = client::shown(&self.mirrors[self.current].url);
        Error::new(Kind::SourceMismatch, format!("{url} changed while it was downloaded: {why}"))
            .hint("start over; what was downloaded belongs to the file of before")
    }

    /// Where an address leads may change, and then it can begin anew, but not go on.
    fn unproven(&mut self, why: &str) -> Outcome<()> {
        if self.forget_the_way() {
            return Ok(());
        }
        let error = self.error(&format!("it cannot be continued: {why}")).hint(
            "give the file's digest with --sha256: then it is continued, and proven in the end",
        );
        Err(Broken::Anew(error))
    }

    /// Asks the address itself again, not what it led to. `false`: that is what was asked.
    fn forget_the_way(&mut self) -> bool {
        let mirror = &mut self.mirrors[self.current];
        mirror.led_to.take().is_some_and(|url| url != mirror.url)
    }

    /// This address will not do: the next one, or the end.
    fn no(&mut self, why: &str, hint: &str) -> Outcome<()> {
        if self.forget_the_way() {
            return Ok(());
        }
        let error = self.error(why).hint(hint);
        self.mirrors[self.current].hopeless = true;
        if self.next_mirror() { Ok(()) } else { Err(self.lost(error)) }
    }

    /// What it means that no address can go on.
    fn lost(&self, error: Error) -> Broken {
        if self.others {
            return Broken::Alone(error);
        }
        let others = self.mirrors.iter().enumerate();
        let mut others = others.filter(|(index, mirror)| *index != self.origin && !mirror.hopeless);
        let joins = self.several || self.offset > 0;
        if joins && !self.proof.is_set() && others.next().is_some() {
            return Broken::Lost(error);
        }
        Broken::Failed(error)
    }

    /// Goes to the next address that may do: which may continue what is there.
    fn next_mirror(&mut self) -> bool {
        let any = self.proof.is_set() || !(self.several || self.offset > 0);
        let count = self.mirrors.len();
        let next = (1..=count)
            .map(|step| (self.current + step) % count)
            .find(|index| !self.mirrors[*index].hopeless && (any || *index == self.origin));
        self.current = next.unwrap_or(self.current);
        next.is_some()
    }

    /// Waits, and goes to the next mirror; gives up after too many failures in a row.
    async fn failed(&mut self, why: String, after: Option<Duration>) -> Outcome<()> {
        self.failures = if self.since_failure >= WORTH { 1 } else { self.failures + 1 };
        self.since_failure = 0;
        if self.failures >= self.tries() {
            let error = self.given_up(&why).hint(
                "check the network, then run the same command again: a download goes on where it stopped",
            );
            return Err(self.lost(error));
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
