//! From the word SOURCE, and what was said about it, to a source that was opened and looked at.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::args::Origin;
use super::origin::{self, Known};
use crate::cancel::CancelToken;
use crate::device::policy::SourceAt;
use crate::device::probe::System;
use crate::digest::Digest;
use crate::error::{Context as _, Error, Result};
use crate::image::{self, ImageInfo};
use crate::report::record::{FileFacts, SourceFacts};
use crate::source::file::FileSource;
use crate::source::interruptible::Interruptible;
use crate::source::pipe::PipeSource;
use crate::source::tapped::Tapped;
use crate::source::{Published, Source};
use crate::text::printable_path;

/// A source that was opened, and what it should be.
pub(super) struct Image {
    source: Box<dyn Source>,
    /// Where it lies, when that is a file of this machine.
    at: Option<SourceAt>,
    /// `file`, `stdin`, ...: for the record.
    kind: &'static str,
    published: Published,
    /// What is to be told of lists of checksums.
    notes: Vec<String>,
}

impl Image {
    /// Opens a source. What can be no image by its kind of file is refused here.
    pub(super) fn open(word: &OsStr, origin: &Origin, cancel: &CancelToken) -> Result<Self> {
        if word == "-" {
            let Known { published, notes } = origin::of_a_stream(origin)?;
            let source = tapped(Box::new(standard_input(cancel)?), &published);
            return Ok(Self { source, at: None, kind: "stdin", published, notes });
        }
        let path = Path::new(word);
        must_be_a_file(path)?;
        let Known { published, notes } = origin::of_a_file(path, origin)?;
        let source = tapped(Box::new(FileSource::open_path(path)?), &published);
        let at = System::host().source_at(path)?;
        Ok(Self { source, at: Some(at), kind: "file", published, notes })
    }

    pub(super) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Where it lies, for the policy: a target must not hold it.
    pub(super) fn at(&self) -> Option<SourceAt> {
        self.at.clone()
    }

    /// What it should be, and who says so.
    pub(super) fn published(&self) -> &Published {
        &self.published
    }

    /// What is to be told of the lists of checksums beside it.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether standard input is in use for it, and cannot be asked.
    pub(super) fn is_stdin(&self) -> bool {
        self.kind == "stdin"
    }

    /// What it is.
    pub(super) fn inspect(&self) -> Result<ImageInfo> {
        image::inspect(&*self.source.preview(), &self.source.info().name)
            .context(|| format!("cannot look into {}", self.source.info().name))
    }

    /// What is known of it before it is read.
    pub(super) fn facts(&self) -> SourceFacts {
        let info = self.source.info();
        let packed = self.source.progress();
        // A file that is no other thing than its image has one digest.
        let own = self.published.file.filter(|_| packed.is_none()).map(|digest| digest.to_string());
        SourceFacts {
            name: info.name.clone(),
            kind: self.kind.to_owned(),
            size: info.len,
            sha256_expected: self.published.image.map(|digest| digest.to_string()).or(own),
            sha256_actual: None,
            file: packed.map(|progress| FileFacts {
                size: progress.total,
                digest_expected: self.published.file.map(|digest| digest.to_string()),
                ..FileFacts::default()
            }),
        }
    }
}

/// The flow computes SHA-256 of an image; another published digest needs a tap.
fn tapped(source: Box<dyn Source>, published: &Published) -> Box<dyn Source> {
    match published.file {
        Some(Digest::Sha512(_)) => Box::new(Tapped::new(source)),
        _ => source,
    }
}

fn standard_input(cancel: &CancelToken) -> Result<PipeSource> {
    if io::stdin().is_terminal() {
        return Err(Error::usage("SOURCE is -, but nothing is piped into standard input"));
    }
    let pipe =
        Interruptible::stdin(cancel.clone()).context(|| "cannot read standard input".to_owned())?;
    let source = PipeSource::new("standard input", Box::new(pipe));
    cancel.check()?;
    source
}

fn must_be_a_file(path: &Path) -> Result<()> {
    let name = printable_path(path);
    let meta = fs::metadata(path).map_err(|e| {
        Error::io(format!("cannot open the image {name}"), e)
            .hint("check the name; - reads standard input")
    })?;
    let kind = meta.file_type();
    let no = |what: &str, hint: String| {
        Err(Error::refused(format!("{name} is {what}, not an image")).hint(hint))
    };
    if kind.is_dir() {
        return no("a folder", "name the .iso or .img file in it".to_owned());
    }
    if kind.is_fifo() {
        return no("a pipe (FIFO)", format!("mediawriter flash - TARGET < {name}"));
    }
    if kind.is_block_device() {
        return no(
            "a block device",
            format!("to copy a device: dd if={name} bs=4M | mediawriter flash - TARGET"),
        );
    }
    if !kind.is_file() {
        return no("a special file", "name an image file".to_owned());
    }
    Ok(())
}
