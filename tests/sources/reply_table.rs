//! The table of replies, played by servers: what they may answer, times what is fetched and how: a server that knows the truth obeys each
//! row of the table, and what is delivered as whole must be one of the files that it has, never
//! parts of two. By default a part of the product is tried, chosen evenly; `MEDIAWRITER_FULL=1`
//! tries all of it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use mediawriter::cancel::CancelToken;
use mediawriter::digest::{Hasher, Sha256};
use mediawriter::error::Kind;
use mediawriter::host::invoker::Invoker;
use mediawriter::source::http::client;
use mediawriter::source::http::download::{Job, download};
use mediawriter::source::http::stream::{self, Ending};
use mediawriter::source::http::transfer::{Flag, Patience};

use crate::lab::{folder, noise};
use crate::server::{Length, Reply, Request, Server};

type Bytes = Arc<Vec<u8>>;

const SIZE: u64 = 100_000;
/// The first reply is cut after so many bytes.
const CUT: usize = 30_000;
const DATES: [&str; 3] = [
    "Tue, 01 Dec 2026 00:00:00 GMT",
    "Tue, 01 Dec 2026 00:00:05 GMT",
    "Tue, 01 Dec 2026 00:00:09 GMT",
];
const NOW: &str = "Wed, 02 Dec 2026 00:00:00 GMT";

/// The file that was begun, another of its length, a longer one; and what a mirror has.
static FILES: LazyLock<[Bytes; 4]> = LazyLock::new(|| {
    [(SIZE, 1), (SIZE, 2), (SIZE + 500, 3), (SIZE, 4)].map(|(len, seed)| noise(len, seed).into())
});

/// How a server says which version it sends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Strong,
    Weak,
    Date,
    Nothing,
}

impl Says {
    fn dress(self, reply: Reply, file: usize) -> Reply {
        let tag = ["\"a\"", "\"b\"", "\"c\"", "\"a\""][file];
        match self {
            Self::Strong => reply.with("ETag", tag),
            Self::Weak => reply.with("ETag", &format!("W/{tag}")),
            Self::Date => reply.with("Last-Modified", DATES[file % 3]).with("Date", NOW),
            Self::Nothing => reply,
        }
    }

    fn word(self, file: usize) -> &'static str {
        match self {
            Self::Strong => ["\"a\"", "\"b\"", "\"c\"", "\"a\""][file],
            Self::Date => DATES[file % 3],
            Self::Weak | Self::Nothing => "",
        }
    }
}

/// What comes instead of the part that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Good,
    /// Whatever `If-Range` says.
    Deaf,
    Whole,
    Part200,
    Part200Bare,
    NoRange,
    NoRangeWhole,
    Whole206,
    Gap,
    Overlap,
    Less,
    Block,
    OtherTotal,
    Star,
    Chunked,
    Closed,
    Cut,
    CutClosed,
    CutChunked,
    /// Says a part and sends more.
    More,
    Weak,
    Silent,
    Packed,
    Multipart,
    Page,
    PageBare,
    Denied,
    DeniedAll,
    DeniedHere,
    Empty,
    /// To another address, with another file under the same tag.
    AwayOther,
    /// To another address, with the same file.
    AwaySame,
    Busy,
    Forbidden,
    Gone,
    /// Also where the whole was asked for.
    Always206,
}

const WAYS: [Way; 36] = [
    Way::Good,
    Way::Deaf,
    Way::Whole,
    Way::Part200,
    Way::Part200Bare,
    Way::NoRange,
    Way::NoRangeWhole,
    Way::Whole206,
    Way::Gap,
    Way::Overlap,
    Way::Less,
    Way::Block,
    Way::OtherTotal,
    Way::Star,
    Way::Chunked,
    Way::Closed,
    Way::Cut,
    Way::CutClosed,
    Way::CutChunked,
    Way::More,
    Way::Weak,
    Way::Silent,
    Way::Packed,
    Way::Multipart,
    Way::Page,
    Way::PageBare,
    Way::Denied,
    Way::DeniedAll,
    Way::DeniedHere,
    Way::Empty,
    Way::AwayOther,
    Way::AwaySame,
    Way::Busy,
    Way::Forbidden,
    Way::Gone,
    Way::Always206,
];
const SAYS: [Says; 4] = [Says::Strong, Says::Weak, Says::Date, Says::Nothing];
const LENGTHS: [Length; 3] = [Length::Told, Length::ChunkedCut, Length::None];

/// What is fetched, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    Download,
    Connections,
    /// The mirror has another file, under the same tag.
    Mirror,
    /// The mirror has the same file.
    GoodMirror,
    /// A second run, from the same address.
    Again,
    /// A second run, from another.
    Elsewhere,
    Stream,
    StreamMirror,
}

const COMMANDS: [Command; 8] = [
    Command::Download,
    Command::Connections,
    Command::Mirror,
    Command::GoodMirror,
    Command::Again,
    Command::Elsewhere,
    Command::Stream,
    Command::StreamMirror,
];

/// One row: what the server does, for what.
#[derive(Clone, Copy, Debug)]
struct Row {
    length: Length,
    says: Says,
    way: Way,
    /// The file from the second request on.
    file: usize,
    /// The way is gone once, then all is well.
    once: bool,
    command: Command,
    proven: bool,
}

const ALL: usize = 3 * 4 * 36 * 3 * 2 * 8 * 2;

impl Row {
    fn new(mut at: usize) -> Option<Self> {
        let mut pick = |len: usize| {
            let index = at % len;
            at /= len;
            index
        };
        let row = Self {
            command: COMMANDS[pick(8)],
            way: WAYS[pick(36)],
            says: SAYS[pick(4)],
            file: pick(3),
            length: LENGTHS[pick(3)],
            once: pick(2) == 0,
            proven: pick(2) == 0,
        };
        // A reply that lies in all of its fields at once is found out by the length that is known
        // from before, or by a digest, or not at all.
        let lies = matches!(row.way, Way::Part200Bare | Way::DeniedHere);
        (!lies || row.length == Length::Told || row.proven).then_some(row)
    }

    /// The `number`th reply of the address.
    fn reply(&self, number: usize, request: &Request, other: &Server, path: &str) -> Reply {
        let ranges = |reply: Reply| reply.with("Accept-Ranges", "bytes");
        if number == 0 {
            let whole = self.says.dress(Reply::whole(&FILES[0]), 0).length(self.length);
            return ranges(whole.cut_after(CUT));
        }
        let body = &FILES[self.file];
        let dressed = |reply| ranges(self.says.dress(reply, self.file));
        let whole = dressed(Reply::whole(body));
        let way = if self.once && number > 1 { Way::Good } else { self.way };
        let page = Reply::whole(&Arc::new(b"<html><body>log in</body></html>".to_vec()));
        match way {
            Way::Page => return page.with("Content-Type", "text/html"),
            Way::PageBare => return page,
            Way::Empty => return Reply::status(204),
            Way::Busy => return Reply::status(503),
            Way::Forbidden => return Reply::status(403),
            Way::Gone => return Reply::status(404),
            Way::AwayOther | Way::AwaySame => {
                let to = if way == Way::AwayOther { "other" } else { "same" };
                return Reply::status(302).with("Location", &other.url(&format!("{path}/{to}")));
            }
            _ => {}
        }
        let len = body.len();
        let Some((from, last)) = request.range().filter(|(from, _)| *from < len) else {
            return if way == Way::Always206 { whole.part(0, len) } else { whole };
        };
        let to = last.map_or(len, |last| (last + 1).min(len));
        let asked = request.fields.get("if-range");
        let heard = asked.is_none_or(|asked| asked == self.says.word(self.file));
        if !heard && way == Way::Good {
            return whole;
        }
        let part = || dressed(Reply::whole(body)).part(from, to);
        let bare = |mut reply: Reply| {
            reply.fields.retain(|(name, _)| name != "Content-Range");
            reply
        };
        let half = (to - from) / 2;
        match way {
            Way::Whole => whole,
            Way::Part200 => Reply { status: 200, ..part() },
            Way::Part200Bare => Reply { status: 200, ..bare(part()) },
            Way::NoRange => bare(part()),
            Way::NoRangeWhole => bare(whole.part(0, len)),
            Way::Whole206 => whole.part(0, len),
            Way::Gap => whole.part((from + 7).min(to - 1), to),
            Way::Overlap => whole.part(from.saturating_sub(7), to),
            Way::Less => whole.part(from, from + half.max(1)),
            Way::Block => whole.part(from, to.min(from + 9000)),
            Way::OtherTotal => {
                part().with("Content-Range", &format!("bytes {from}-{}/999999", to - 1))
            }
            Way::Star => part().with("Content-Range", &format!("bytes {from}-{}/*", to - 1)),
            Way::Chunked => part().length(Length::Chunked),
            Way::Closed => part().length(Length::None),
            Way::Cut => part().cut_after(half),
            Way::CutClosed => part().length(Length::None).cut_after(half),
            Way::CutChunked => part().length(Length::ChunkedCut).cut_after(half),
            Way::More => {
                let said = format!("bytes {from}-{}/{len}", from + half.max(1) - 1);
                part().with("Content-Range", &said).length(Length::Chunked)
            }
            Way::Weak => {
                let tag = format!("W/{}", ["\"a\"", "\"b\"", "\"c\""][self.file]);
                part().with("ETag", &tag)
            }
            Way::Silent => Reply::whole(body).part(from, to),
            Way::Packed => part().with("Content-Encoding", "gzip"),
            Way::Multipart => part().with("Content-Type", "multipart/byteranges; boundary=x"),
            Way::Denied => Reply::status(416),
            Way::DeniedAll => {
                dressed(Reply::status(416)).with("Content-Range", &format!("bytes */{len}"))
            }
            Way::DeniedHere => {
                dressed(Reply::status(416)).with("Content-Range", &format!("bytes */{from}"))
            }
            _ => part(),
        }
    }

    /// Whether the server has the file for whoever asks once more.
    fn recovers(&self) -> bool {
        let again = matches!(self.command, Command::Download | Command::Again);
        let ends = matches!(
            self.way,
            Way::Empty | Way::Forbidden | Way::Gone | Way::Packed | Way::AwayOther | Way::PageBare
        );
        again && self.once && !ends && self.length != Length::None
    }
}

/// All rows share two servers; each has a path of its own.
struct Table {
    main: Server,
    other: Arc<Server>,
}

type Rows = Arc<Mutex<HashMap<String, (Row, Arc<AtomicUsize>)>>>;

impl Table {
    fn start(rows: &Rows) -> Self {
        let of = |rows: &Rows, path: &str| {
            let key = path.trim_start_matches('/').split(['/', '?']).next().unwrap().to_owned();
            rows.lock().unwrap()[&key].clone()
        };
        let known = Arc::clone(rows);
        let other = Arc::new(Server::start(move |request| {
            let (row, _) = of(&known, &request.path);
            let (file, tag) = match request.path.rsplit('/').next() {
                // A mirror, or where a redirect leads: as good servers answer.
                Some("other") => (3, "\"a\""),
                Some("same") => (0, "\"a\""),
                Some("good") => (0, "\"m\""),
                // Where the file is now, under the tag that it would have there.
                _ => (row.file, ["\"a\"", "\"b\"", "\"c\""][row.file]),
            };
            Reply::good(request, &FILES[file], tag)
        }));
        let (known, there) = (Arc::clone(rows), Arc::clone(&other));
        let main = Server::start(move |request| {
            let (row, count) = of(&known, &request.path);
            let number = count.fetch_add(1, Ordering::SeqCst);
            row.reply(number, request, &there, &request.path)
        });
        Self { main, other }
    }
}

/// What came of it.
enum End {
    /// Delivered as whole.
    Whole(Vec<u8>),
    /// Delivered as what may be a part.
    MaybePart(Vec<u8>),
    Error(Kind, String),
}

fn patience(tries: u32) -> Patience {
    Patience { tries, first_wait: Duration::ZERO, longest_wait: Duration::ZERO }
}

fn sha256(bytes: &[u8]) -> Sha256 {
    let mut hasher = Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

fn fetch(row: &Row, urls: &[String], part: &Path, tries: u32) -> End {
    let urls: Vec<_> = urls.iter().map(|url| client::parse(url).unwrap()).collect();
    let invoker = Invoker::current();
    let job = Job {
        urls: &urls,
        part,
        invoker: &invoker,
        connections: if row.command == Command::Connections { 4 } else { 1 },
        smallest_piece: 8000,
        patience: patience(tries),
        sha512: false,
        proven: row.proven,
    };
    match download(&job, &CancelToken::default(), &|_| {}) {
        Ok(fetched) => {
            let bytes = fs::read(part).unwrap();
            assert_eq!(fetched.file.sha256, sha256(&bytes), "it hashed what is not there: {row:?}");
            if fetched.whole { End::Whole(bytes) } else { End::MaybePart(bytes) }
        }
        Err(error) => End::Error(error.kind(), error.to_string()),
    }
}

fn read(row: &Row, urls: &[String]) -> End {
    let urls: Vec<_> = urls.iter().map(|url| client::parse(url).unwrap()).collect();
    let ending = Ending { proof: Flag::new(row.proven), ..Ending::default() };
    let cancel = CancelToken::default();
    let mut bytes = Vec::new();
    let done = stream::open(&urls, patience(4), &ending, &cancel, |_| {}).map(|(_, mut body)| {
        body.read_to_end(&mut bytes).map_err(|e| e.downcast::<mediawriter::error::Error>().unwrap())
    });
    match done {
        Ok(Ok(_)) if ending.unstated.is_set() => End::MaybePart(bytes),
        Ok(Ok(_)) => End::Whole(bytes),
        Ok(Err(error)) | Err(error) => End::Error(error.kind(), error.to_string()),
    }
}

fn run(table: &Table, rows: &Rows, row: Row, key: &str) -> &'static str {
    rows.lock().unwrap().insert(key.to_owned(), (row, Arc::default()));
    let home = folder();
    let part = home.path().join("x.part");
    let (url, mirror) = (table.main.url(&format!("/{key}")), table.other.url(&format!("/{key}")));
    let end = match row.command {
        Command::Download | Command::Connections => fetch(&row, &[url], &part, 4),
        Command::Mirror => fetch(&row, &[url, format!("{mirror}/other")], &part, 4),
        Command::GoodMirror => fetch(&row, &[url, format!("{mirror}/good")], &part, 4),
        Command::Again => {
            fetch(&row, std::slice::from_ref(&url), &part, 1);
            fetch(&row, &[url], &part, 4)
        }
        Command::Elsewhere => {
            fetch(&row, &[url], &part, 1);
            fetch(&row, &[mirror], &part, 4)
        }
        Command::Stream => read(&row, &[url]),
        Command::StreamMirror => read(&row, &[url, format!("{mirror}/other")]),
    };
    // The row stays: a connection that was given up may still send its request.
    match end {
        // What a digest was to prove is compared with it by whoever asked for it.
        End::Whole(bytes) | End::MaybePart(bytes) if row.proven => {
            if bytes == **FILES.first().unwrap() { "proven" } else { "found out" }
        }
        End::Whole(bytes) => {
            let page = bytes.starts_with(b"<html>");
            let file = FILES.iter().any(|file| **file == bytes);
            // What is new may be a page; whoever asked looks at what it is.
            let may_be_page = matches!(row.way, Way::Page | Way::PageBare);
            assert!(file || page && may_be_page, "parts of two files: {row:?}");
            if page { "page" } else { "whole" }
        }
        End::MaybePart(bytes) => {
            let part = FILES.iter().any(|file| file.starts_with(&bytes));
            assert!(part, "parts of two files: {row:?}");
            "may be a part"
        }
        End::Error(kind, text) => {
            assert!(!row.recovers(), "given up although the server has it: {row:?}: {text}");
            assert!(matches!(kind, Kind::Io | Kind::SourceMismatch), "{row:?}: {kind:?} {text}");
            assert!(text.contains("http://127.0.0.1"), "who failed is not said: {row:?}: {text}");
            "error"
        }
    }
}

#[test]
fn c17_c18_what_is_delivered_as_whole_is_one_file_whatever_servers_answer() {
    let step = if std::env::var_os("MEDIAWRITER_FULL").is_some() { 1 } else { 13 };
    let rows = Rows::default();
    let table = Table::start(&rows);
    let next = AtomicUsize::new(0);
    let counts: Mutex<BTreeMap<&str, usize>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst) * step;
                    if at >= ALL {
                        return;
                    }
                    if let Some(row) = Row::new(at) {
                        let outcome = run(&table, &rows, row, &at.to_string());
                        *counts.lock().unwrap().entry(outcome).or_default() += 1;
                    }
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    let runs: usize = counts.values().sum();
    println!("{runs} runs, every {step}. of {ALL} rows: {counts:?}");
    assert!(runs > ALL / step * 9 / 10, "{counts:?}");
    for outcome in ["proven", "found out", "whole", "may be a part", "error"] {
        assert!(counts[outcome] > runs / 100, "{outcome}: {counts:?}");
    }
}
