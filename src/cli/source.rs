//! From the word SOURCE, and what was said about it, to a source that was opened and looked at.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::Receiver;

use super::args::{Network, Origin};
use super::bmap::{self, Found};
use super::images::{catalogue, meant};
use super::origin::{self, Known};
use super::remote::{Kept, Remote};
use crate::cancel::CancelToken;
use crate::decode::Limits;
use crate::device::mask::Mask;
use crate::device::probe::System;
use crate::device::storage::Storage;
use crate::digest::Digest;
use crate::error::{Context as _, Error, Kind, Result};
use crate::event::BlockMap;
use crate::flow::Context;
use crate::flow::download::say;
use crate::flow::verify::is_whole;
use crate::image::{self, ImageInfo};
use crate::report::record::{FileFacts, SourceFacts};
use crate::source::bmap::MappedSource;
use crate::source::file::FileSource;
use crate::source::http::transfer::Remark;
use crate::source::interruptible::Interruptible;
use crate::source::packed::{Options, Packed};
use crate::source::pipe::PipeSource;
use crate::source::{Published, Source};
use crate::text::printable_path;
use crate::windows::composed::ComposedSource;

/// A source that was opened, and what it should be.
pub(super) struct Image {
    source: Arc<dyn Source>,
    /// Where it lies, when that is a file of this machine.
    at: Option<Storage>,
    /// `file`, `stdin`, ...: for the record.
    kind: &'static str,
    published: Published,
    /// What it is unpacked from, in words; empty when the file is the image.
    packed: String,
    /// What a transfer has to tell; collected until somebody listens.
    remarks: Option<Receiver<Remark>>,
    kept: Option<Kept>,
    /// What is to be told of lists of checksums.
    notes: Vec<String>,
    /// What of it is written, where a block map says so.
    mask: Option<Mask>,
    /// Which block map, and how much it leaves out.
    map: Option<BlockMap>,
}

impl Image {
    /// Opens a source. What can be no image by its kind of file is refused here.
    pub(super) fn open(wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Self> {
        let image = Self::opened(wanted, cancel)?;
        match bmap::find(wanted, cancel)? {
            Some(map) => image.mapped(map, cancel),
            None => Ok(image),
        }
    }

    fn opened(wanted: &Wanted<'_>, cancel: &CancelToken) -> Result<Self> {
        if let Some(remote) = Remote::find(wanted, cancel)? {
            return remote.open(wanted, cancel);
        }
        if wanted.keep.is_some() {
            return Err(Error::usage("--keep stores what comes from an address; SOURCE is none"));
        }
        if wanted.word == "-" {
            let known = origin::of_a_stream(wanted.origin)?;
            let source = Box::new(standard_input(cancel)?);
            return Self::unpacked(source, None, "stdin", known, wanted.origin);
        }
        let path = Path::new(wanted.word);
        must_be_a_file(path, wanted.catalogue)?;
        let known = origin::of_a_file(path, wanted.origin)?;
        Self::file(path, "file", known, wanted.origin)
    }

    /// A source behind what decodes and hashes its file.
    pub(super) fn unpacked(
        source: Box<dyn Source>,
        at: Option<Storage>,
        kind: &'static str,
        known: Known,
        origin: &Origin,
    ) -> Result<Self> {
        let Known { published, notes } = known;
        let (source, packed) = unpack(source, &published, origin)?;
        let mask = None;
        let source = Arc::from(source);
        let (remarks, kept, map) = (None, None, None);
        Ok(Self { source, at, kind, published, packed, remarks, kept, notes, mask, map })
    }

    /// With what a transfer has to tell, and where the stream is stored.
    pub(super) fn streamed(self, remarks: Receiver<Remark>, kept: Option<Kept>) -> Self {
        Self { remarks: Some(remarks), kept, ..self }
    }

    /// A file of this machine.
    pub(super) fn file(
        path: &Path,
        kind: &'static str,
        known: Known,
        origin: &Origin,
    ) -> Result<Self> {
        let source = Box::new(FileSource::open_path(path)?);
        let at = System::host().storage(path)?;
        Self::unpacked(source, Some(at), kind, known, origin)
    }

    /// Lets what the transfer has to tell become events, from now on.
    pub(super) fn attend(&self, cx: &Context) {
        if let Some(remarks) = self.remarks.clone() {
            let cx = cx.clone();
            // Without the thread the remarks are not told, and nothing else changes.
            let thread = thread::Builder::new().name("remarks".to_owned());
            thread.spawn(move || remarks.iter().for_each(|said| say(&said, &cx))).ok();
        }
    }

    /// Gives what was stored its name, when it is whole and `good`. What may be a part of the
    /// image keeps the name of a part.
    pub(super) fn keep(&self, good: bool) -> Result<Keeping<'_>> {
        let Some(kept) = self.kept.as_ref().filter(|kept| good && kept.is_stored()) else {
            return Ok(Keeping::Nothing);
        };
        if is_whole(&*self.source, &self.published) {
            return kept.give_its_name().map(Keeping::Whole);
        }
        Ok(Keeping::Part(kept.leave()))
    }

    /// Puts a block map before it.
    pub(super) fn mapped(self, map: Found, cancel: &CancelToken) -> Result<Self> {
        let Found { bmap, voucher, notes: more, map } = map;
        let mask = Mask::new(bmap.ranges.iter().map(|range| range.bytes.clone()))
            .map_err(|why| Error::refused(format!("the block map: {why}")))?;
        let whole = self.published.file.is_some() || self.published.image.is_some();
        // A tap, so that the digest of a file that is no other thing than its image is known.
        let tapped = whole && self.source.progress().is_none();
        let inner: Arc<dyn Source> = if tapped {
            let sha512 = matches!(self.published.file, Some(Digest::Sha512(_)));
            Arc::new(Packed::plain(self.source, sha512))
        } else {
            self.source
        };
        let source = MappedSource::new(inner, (&map.name, bmap), whole)?;
        source.leaves_out_zeros(cancel)?;
        let source = Arc::new(source);
        let mut notes = self.notes;
        notes.extend(more);
        let mut published = self.published;
        if published.file.is_none() && published.image.is_none() {
            published.voucher = Some(voucher);
        }
        Ok(Self { source, notes, published, mask: Some(mask), map: Some(map), ..self })
    }

    /// Which block map is used, and how much it leaves out.
    pub(super) fn map(&self) -> Option<&BlockMap> {
        self.map.as_ref()
    }

    /// The image that was composed of this one, whose file is `proven` when it was compared.
    pub(super) fn composed(
        self,
        composed: ComposedSource,
        proven: Option<u64>,
        more: Vec<String>,
    ) -> Result<Self> {
        let ranges = composed.mapped().unwrap_or_default();
        let mask = Mask::new(ranges.iter().map(|range| range.bytes.clone()))
            .map_err(|why| Error::new(Kind::Internal, format!("the composed image: {why}")))?;
        let voucher = self.published.voucher.clone().filter(|_| proven.is_some());
        let published = Published { voucher, proven, ..Published::default() };
        let mut notes = self.notes;
        notes.extend(more);
        let source = Arc::new(composed);
        Ok(Self { source, kind: "windows", published, mask: Some(mask), notes, ..self })
    }

    /// The source, for whoever keeps it.
    pub(super) fn shared(&self) -> Arc<dyn Source> {
        Arc::clone(&self.source)
    }

    /// The same image for another target, which reads it by this source.
    pub(super) fn for_another(&self, source: Arc<dyn Source>) -> Self {
        let Self { at, kind, published, packed, notes, mask, map, .. } = self;
        Self {
            source,
            at: at.clone(),
            kind,
            published: published.clone(),
            packed: packed.clone(),
            remarks: None,
            kept: None,
            notes: notes.clone(),
            mask: mask.clone(),
            map: map.clone(),
        }
    }

    /// What a transfer has to tell, for whoever tells it instead.
    pub(super) fn take_remarks(&mut self) -> Option<Receiver<Remark>> {
        self.remarks.take()
    }

    /// What of it is written, where a block map says so.
    pub(super) fn mask(&self) -> Option<&Mask> {
        self.mask.as_ref()
    }

    /// What is to be told of lists of checksums.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What it is unpacked from: `xz`, `zip: NAME`; empty when the file is the image.
    pub(super) fn packed(&self) -> &str {
        &self.packed
    }

    pub(super) fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Where it lies, for the policy: a target must not hold it.
    pub(super) fn at(&self) -> Option<Storage> {
        self.at.clone()
    }

    /// What it should be, and who says so.
    pub(super) fn published(&self) -> &Published {
        &self.published
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
            mapped_sha256: None,
            file: packed.map(|progress| FileFacts {
                size: progress.total,
                packed: self.packed.clone(),
                digest_expected: self.published.file.map(|digest| digest.to_string()),
                ..FileFacts::default()
            }),
        }
    }
}

/// What became of a stream that is stored.
pub(super) enum Keeping<'a> {
    /// It is not stored, or what was is removed.
    Nothing,
    /// It has its name.
    Whole(&'a Path),
    /// Nobody knows whether it is whole.
    Part(&'a Path),
}

/// What was typed about a source.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) word: &'a OsStr,
    pub(super) origin: &'a Origin,
    pub(super) network: &'a Network,
    pub(super) keep: Option<&'a Path>,
    /// Catalogues besides the shipped one and the user's own.
    pub(super) catalogue: &'a [PathBuf],
}

/// Puts a decoder behind a file that needs one, and a second digest behind one that has one.
fn unpack(
    source: Box<dyn Source>,
    published: &Published,
    origin: &Origin,
) -> Result<(Box<dyn Source>, String)> {
    let kind = Packed::kind(&*source)?;
    let with_sha512 = matches!(published.file, Some(Digest::Sha512(_)));
    if Packed::knows(kind) {
        let memory = origin.decode_memory.map_or(Limits::MEMORY, |memory| memory.0);
        let limits = Limits::new(memory);
        let options = Options { member: origin.member.clone(), limits, with_sha512 };
        let packed = Packed::open(source, kind, options)?;
        let words = packed.packing().unwrap_or_default().to_owned();
        return Ok((Box::new(packed), words));
    }
    if origin.member.is_some() {
        let name = &source.info().name;
        return Err(Error::usage(format!("--member is for zip archives; {name} is {kind}")));
    }
    if with_sha512 {
        return Ok((Box::new(Packed::plain(source, true)), String::new()));
    }
    Ok((source, String::new()))
}

fn standard_input(cancel: &CancelToken) -> Result<PipeSource> {
    if io::stdin().is_terminal() {
        return Err(Error::usage("SOURCE is -, but nothing is piped into standard input"));
    }
    let pipe =
        Interruptible::stdin(cancel.clone()).context(|| "cannot read standard input".to_owned())?;
    let source = PipeSource::new("standard input", Box::new(pipe), None);
    cancel.check()?;
    source
}

fn must_be_a_file(path: &Path, named: &[PathBuf]) -> Result<()> {
    let name = printable_path(path);
    let meta = fs::metadata(path).map_err(|e| {
        let all = catalogue(named).unwrap_or_default();
        let meant = meant(&all, &path.to_string_lossy());
        Error::io(format!("cannot open the image {name}"), e)
            .hint(format!("check the name; {meant}; - reads standard input"))
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
        return no("a block device", format!("to copy a device: mediawriter clone {name} TARGET"));
    }
    if !kind.is_file() {
        return no("a special file", "name an image file".to_owned());
    }
    Ok(())
}
