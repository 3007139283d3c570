//! A web server that misbehaves on request: answers, cut off, wrong or slow as a test wants them.
//! HTTP/1.1, a connection a request, on the loopback device.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::format_push_string,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a test may die"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What was asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// How many came before it.
    pub number: usize,
    /// With its query.
    pub path: String,
    /// Names in lower case.
    pub fields: BTreeMap<String, String>,
}

impl Request {
    /// First byte of `Range: bytes=N-`, and the last one, when it is given.
    pub fn range(&self) -> Option<(usize, Option<usize>)> {
        let (first, last) = self.fields.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()))
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Arc<Vec<u8>>,
    /// Which bytes of `body` are sent.
    pub from: usize,
    pub to: usize,
    /// The connection is closed after this many bytes of them.
    pub cut: Option<usize>,
    /// Without Content-Length: chunked, else to the end of the connection.
    pub length: Length,
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Told,
    Chunked,
    /// Without the last chunk.
    ChunkedCut,
    None,
}

impl Reply {
    /// 200 with all of it.
    pub fn whole(body: &Arc<Vec<u8>>) -> Self {
        Self {
            status: 200,
            fields: vec![],
            body: Arc::clone(body),
            from: 0,
            to: body.len(),
            cut: None,
            length: Length::Told,
        }
    }

    /// As a good server answers: the range that was asked for, unless If-Range names another tag.
    pub fn good(request: &Request, body: &Arc<Vec<u8>>, tag: &str) -> Self {
        let whole = Self::whole(body).with("ETag", tag).with("Accept-Ranges", "bytes");
        let stale = request.fields.get("if-range").is_some_and(|asked| asked != tag);
        match request.range() {
            Some((first, _)) if first >= body.len() => Self::status(416)
                .with("Content-Range", &format!("bytes */{}", body.len()))
                .with("ETag", tag),
            Some((first, last)) if !stale => {
                let to = last.map_or(body.len(), |last| (last + 1).min(body.len()));
                whole.part(first, to)
            }
            _ => whole,
        }
    }

    /// 206 with these bytes.
    #[must_use]
    pub fn part(mut self, from: usize, to: usize) -> Self {
        let range = format!("bytes {from}-{}/{}", to - 1, self.body.len());
        (self.status, self.from, self.to) = (206, from, to);
        self.with("Content-Range", &range)
    }

    /// Nothing but a status.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::whole(&Arc::default()) }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(known, _)| known != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.cut = Some(bytes);
        self
    }

    #[must_use]
    pub fn length(mut self, length: Length) -> Self {
        self.length = length;
        self
    }

    fn send(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let bytes = &self.body[self.from..self.to];
        let mut head = format!("HTTP/1.1 {} Whatever\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        match self.length {
            Length::Told => head += &format!("Content-Length: {}\r\n", bytes.len()),
            Length::Chunked | Length::ChunkedCut => {
                head.push_str("Transfer-Encoding: chunked\r\n");
            }
            Length::None => {}
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        let sent = &bytes[..self.cut.unwrap_or(bytes.len()).min(bytes.len())];
        if matches!(self.length, Length::Told | Length::None) {
            return stream.write_all(sent);
        }
        for chunk in sent.chunks(64 << 10) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
            stream.write_all(chunk)?;
            stream.write_all(b"\r\n")?;
        }
        if self.length == Length::Chunked { stream.write_all(b"0\r\n\r\n") } else { Ok(()) }
    }
}

/// A running server; it ends with the process.
pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers every request with what `answer` makes of it, but has no lists of checksums and no
    /// maps; that it was asked for some is not recorded.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::listening(answer, false)
    }

    /// Answers requests for lists of checksums and for maps too.
    pub fn with_lists(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::listening(answer, true)
    }

    fn listening(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static, lists: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (answer, seen) = (Arc::new(answer), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                thread::spawn(move || serve(stream, &*answer, &seen, lists));
            }
        });
        Self { port, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Everything that was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// What was asked about one path.
    pub fn asked(&self, path: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.path == path).collect()
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &dyn Fn(&Request) -> Reply,
    seen: &Mutex<Vec<Request>>,
    lists: bool,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut fields = BTreeMap::new();
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(':') {
            fields.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
    let beside = ["SHA256SUMS", "sha256sums", ".sha256", ".bmap"];
    if !lists && beside.iter().any(|list| path.contains(list)) {
        Reply::status(404).send(&mut stream).ok();
        return;
    }
    let request = {
        let mut seen = seen.lock().unwrap();
        let number = seen.len();
        seen.push(Request { number, path, fields });
        seen.last().unwrap().clone()
    };
    // A client that went away is none of our troubles.
    answer(&request).send(&mut stream).ok();
    stream.shutdown(Shutdown::Write).ok();
    // Closing with unread data would reset the connection and lose what was sent.
    std::io::copy(&mut stream.take(1 << 20), &mut std::io::sink()).ok();
}
