//! `download`: an image into the cache or a file, proven before it gets its name.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::args::Download;
use super::call::Call;
use super::images::{catalogue, meant};
use super::outputs::Outputs;
use super::remote::{Remote, with_suffix};
use super::session::Session;
use super::source::Wanted;
use super::usage;
use crate::cancel::CancelToken;
use crate::digest::{Digest, FileHasher, FileRead, Trailing};
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::Event;
use crate::event::notice::Notice;
use crate::flow::download::download;
use crate::flow::verify::check_file;
use crate::host::invoker::Invoker;
use crate::image::{FileImage, ImageKind, inspect};
use crate::report::record::{FileFacts, SourceFacts};
use crate::source::Published;
use crate::source::http::cache::{Cache, Entry, Info};
use crate::source::http::client::{file_name, shown};
use crate::source::http::download::{Fetched, Job, SMALLEST_PIECE, forget, state_path};
use crate::text::{printable, printable_path};
use crate::time::{Clock, SystemClock};
use crate::ui;
use crate::units::Bytes;

pub(super) fn run(args: &Download, call: &Call) -> Result<ExitCode> {
    let invoker = Invoker::current();
    if args.list || args.clean {
        let cache = Cache::of(&invoker)?;
        ui::print(&if args.clean { cleaned(&cache)? } else { listed(&cache) });
        return Ok(ExitCode::SUCCESS);
    }
    prepare(args, &invoker, &call.cancel)?.work(args, call)
}

fn listed(cache: &Cache<'_>) -> String {
    let mut text = String::new();
    for entry in cache.list() {
        // A String takes every write.
        match entry {
            Entry::Whole(path, info) => writeln!(
                text,
                "{}  {}\n  SHA-256 {}; {}\n  {}",
                printable(&info.name),
                Bytes(info.size),
                info.sha256,
                info.vouched.as_deref().map_or_else(|| "nobody vouched for it".into(), printable),
                printable_path(&path)
            ),
            Entry::Part(path, size) => {
                writeln!(text, "a part of a file, {}\n  {}", Bytes(size), printable_path(&path))
            }
        }
        .ok();
    }
    if text.is_empty() { "nothing is in the cache\n".to_owned() } else { text }
}

fn cleaned(cache: &Cache<'_>) -> Result<String> {
    Ok(format!("{} freed\n", Bytes(cache.clean()?)))
}

/// Everything is decided.
struct Plan<'a> {
    remote: Remote,
    /// Where it goes while it is not whole.
    part: PathBuf,
    /// The file that was asked for; `None`: the cache.
    file: Option<PathBuf>,
    invoker: &'a Invoker,
}

fn prepare<'a>(args: &Download, invoker: &'a Invoker, cancel: &CancelToken) -> Result<Plan<'a>> {
    let word = args.source.as_deref().unwrap_or_default();
    if args.origin.image_sha256.is_some() {
        return Err(usage("--image-sha256 cannot be checked by a download: nothing is unpacked")
            .hint("give the digest of the file with --sha256"));
    }
    let (part, state) = (args.file.as_deref().map(|file| with_suffix(file, ".part")), state_path);
    let state = part.as_deref().map(state);
    Outputs::of(&args.output, "--record")
        .whole("--output", args.file.as_deref())
        .whole("--output", part.as_deref())
        .whole("--output", state.as_deref())
        .reading_source(OsStr::new(word), &args.origin, &args.network)
        .check()?;
    let wanted = Wanted {
        word: OsStr::new(word),
        origin: &args.origin,
        network: &args.network,
        keep: None,
        catalogue: &args.network.catalogue,
    };
    let remote = Remote::find(&wanted, cancel)?.ok_or_else(|| {
        let all = catalogue(&args.network.catalogue).unwrap_or_default();
        usage(format!("'{}' is no address, and no image of the catalogue", printable(word)))
            .hint(format!("{}; an address begins with https://", meant(&all, word)))
    })?;
    let part = if let Some(file) = &args.file {
        with_suffix(file, ".part")
    } else {
        Cache::of(invoker)?.part(remote.known.published.file.as_ref(), &remote.urls)?
    };
    Ok(Plan { remote, part, file: args.file.clone(), invoker })
}

impl Plan<'_> {
    fn work(mut self, args: &Download, call: &Call) -> Result<ExitCode> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let name = shown(&self.remote.urls[0]);
        let target = self.file.as_deref().map_or_else(|| "the cache".to_owned(), printable_path);
        let session = Session::start("download", call, &clock, target)?;
        session.edit(|record| {
            record.source = Some(SourceFacts {
                name,
                kind: "http".to_owned(),
                file: Some(FileFacts {
                    digest_expected: self
                        .remote
                        .known
                        .published
                        .file
                        .map(|digest| digest.to_string()),
                    ..FileFacts::default()
                }),
                ..SourceFacts::default()
            });
        });
        for note in &self.remote.known.notes {
            session.cx.events.tell(Notice::Origin(note.clone()));
        }
        let done = self.fetch(args, &session);
        Ok(session.end(&done))
    }

    fn fetch(&mut self, args: &Download, session: &Session) -> Result<String> {
        if self.file.is_none()
            && let Some(digest) = &self.remote.known.published.file
            && let Some((path, info)) = Cache::of(self.invoker)?.find(digest)
        {
            return Ok(format!(
                "it is in the cache: {} ({})",
                printable_path(&path),
                Bytes(info.size)
            ));
        }
        let (urls, part) = (self.remote.urls.clone(), self.part.clone());
        let published = &self.remote.known.published;
        let job = Job {
            urls: &urls,
            part: &part,
            invoker: self.invoker,
            connections: args.connections,
            smallest_piece: SMALLEST_PIECE,
            patience: args.network.patience(),
            sha512: matches!(published.file, Some(Digest::Sha512(_))),
            proven: published.file.is_some(),
        };
        let mut fetched = download(&job, &session.cx)?;
        // Where redirects led it may have a name that the list knows.
        self.remote.ask_lists(Some(&fetched.url), &args.origin, &session.cx.cancel)?;
        with_sha512(&mut fetched, &part, &self.remote.known.published)?;
        let mut proven = self.prove(&fetched, session);
        if let Err(error) = &proven
            && fetched.resumed
        {
            // What an earlier run left may have been of another file.
            session.cx.events.tell(Notice::WrongPart { why: error.message() });
            forget(&part, self.invoker)?;
            fetched = download(&job, &session.cx)?;
            with_sha512(&mut fetched, &part, &self.remote.known.published)?;
            proven = self.prove(&fetched, session);
        }
        if let Err(error) = proven {
            // Nobody goes on with what is known to be wrong.
            forget(&part, self.invoker)?;
            return Err(error);
        }
        if !fetched.whole && self.remote.known.published.file.is_none() {
            return Err(self.maybe_a_part(&fetched));
        }
        let path = self.keep(&job, &fetched)?;
        let proof = if self.remote.known.published.file.is_some() {
            "it matches what was published"
        } else {
            "not checked"
        };
        Ok(format!("{} in {}; {proof}", Bytes(fetched.file.bytes), printable_path(&path)))
    }

    /// The error of a file whose length nobody stated, and that no digest proves.
    fn maybe_a_part(&self, fetched: &Fetched) -> Error {
        Error::new(
            Kind::Unverified,
            format!(
                "{} came from {}, but the file may be longer: the server closed the connection and never \
                 said how long it is",
                Bytes(fetched.file.bytes),
                shown(&fetched.url)
            ),
        )
        .hint(format!(
            "run it again with the file's digest (--sha256), which proves that it is whole; what came is in {}",
            printable_path(&self.part)
        ))
    }

    fn prove(&self, fetched: &Fetched, session: &Session) -> Result<()> {
        let FileRead { bytes, sha256, sha512, .. } = &fetched.file;
        session.cx.events.emit(Event::FileRead {
            bytes: *bytes,
            sha256: sha256.to_string(),
            sha512: sha512.map(|digest| digest.to_string()),
        });
        check_file(&self.remote.known.published, &fetched.file, &session.cx)?;
        let what = File::open(&self.part)
            .and_then(FileImage::new)
            .and_then(|file| inspect(&file, &shown(&fetched.url)))
            .context(|| format!("cannot look into {}", printable_path(&self.part)))?;
        if what.kind == ImageKind::HtmlPage {
            return Err(Error::refused(format!("what the server sent is {}", what.kind)).hint(
                "open the address in a browser: it may want you to log in, or the link has expired",
            ));
        }
        Ok(())
    }

    /// Gives the file its name.
    fn keep(&self, job: &Job<'_>, fetched: &Fetched) -> Result<PathBuf> {
        let name = file_name(&fetched.url)
            .or_else(|| file_name(&self.remote.urls[0]))
            .unwrap_or_else(|| "image".to_owned());
        let Some(file) = &self.file else {
            let info = Info {
                name: name.clone(),
                size: fetched.file.bytes,
                sha256: fetched.file.sha256,
                sha512: fetched.file.sha512.map(Digest::Sha512),
                from: shown(&self.remote.urls[0]),
                vouched: self.remote.known.published.voucher.as_ref().map(ToString::to_string),
            };
            return Cache::of(self.invoker)?.keep(&self.part, &name, &fetched.file, &info);
        };
        let last = file.file_name().map(OsStr::to_owned).ok_or_else(|| {
            Error::new(Kind::Io, format!("'{}' is no name for a file", printable_path(file)))
        })?;
        self.invoker.rename(job.part, &last)?;
        let state = state_path(job.part);
        if state.symlink_metadata().is_ok() {
            self.invoker.remove(&state)?;
        }
        Ok(file.clone())
    }
}

/// A list that was found only after the download may have no other digest.
fn with_sha512(fetched: &mut Fetched, part: &Path, published: &Published) -> Result<()> {
    if !matches!(published.file, Some(Digest::Sha512(_))) || fetched.file.sha512.is_some() {
        return Ok(());
    }
    let mut hasher = FileHasher::new(true);
    let mut buf = vec![0; 1 << 20];
    let failed = || format!("cannot read {} again", printable_path(part));
    let mut file = File::open(part).context(failed)?;
    loop {
        match file.read(&mut buf).context(failed)? {
            0 => break,
            n => hasher.update(&buf[..n]),
        }
    }
    fetched.file = hasher.finish(Trailing::default());
    Ok(())
}
