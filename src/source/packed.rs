//! An image in a compressed file or an archive: decoded while it is read, while the file itself is
//! hashed and counted by a thread of its own. Also the plain file that has to be hashed apart
//! because its published digest is a SHA-512.

use std::io::{Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Progress, Source, SourceInfo};
use crate::decode::{
    self, Ahead, Feed, Format, Limits, Parallel, Tally, Unpacker, parallel, sizes, zip,
};
use crate::digest::FileRead;
use crate::error::{Context as _, Error, Result};
use crate::image::{self, Archive, Bytes, Codec, Head, ImageKind, ReadAt};

/// How much of the image can be looked at before it is decoded, in bytes: as of a pipe.
const HEAD: u64 = 1 << 20;

/// How to unpack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The entry of an archive that is the image.
    pub member: Option<String>,
    /// What decoding may take.
    pub limits: Limits,
    /// Whether the SHA-512 of the file is wanted as well.
    pub with_sha512: bool,
}

/// A source behind a decoder.
pub struct Packed {
    inner: Arc<dyn Source>,
    info: SourceInfo,
    tally: Arc<Tally>,
    options: Options,
    /// `None`: the file is the image.
    unpack: Option<Unpack>,
    /// A pipe has been begun, and is read on from behind the head.
    begun: Mutex<Option<Unpacker<Feed>>>,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({:?}, {:?})", self.inner, self.packing())
    }
}

#[derive(Debug)]
struct Unpack {
    format: Format,
    words: String,
    at_least: u64,
    head: Vec<u8>,
    /// Whether the head is the whole image.
    whole: bool,
    /// Memory that the file asks for, in bytes; 0 where it does not say.
    memory: u64,
    /// Where several blocks are decoded at the same time.
    parallel: Option<parallel::Plan>,
}

/// The file, for threads that read it where they like.
struct Anywhere(Arc<dyn Source>);

impl ReadAt for Anywhere {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.preview().read_at(offset, buf)
    }
    fn size(&self) -> Option<u64> {
        self.0.preview().size()
    }
}

impl Packed {
    /// A file that is its image, and is hashed apart.
    pub fn plain(inner: impl Into<Arc<dyn Source>>, with_sha512: bool) -> Self {
        let inner = inner.into();
        let options = Options { with_sha512, ..Options::default() };
        let info = inner.info().clone();
        let begun = Mutex::default();
        Self { inner, info, tally: Arc::default(), options, unpack: None, begun }
    }

    /// What a file is; a zip archive may have something in front of it.
    pub fn kind(source: &dyn Source) -> Result<ImageKind> {
        let name = &source.info().name;
        let unread = || format!("cannot look into {name}");
        let file = source.preview();
        let kind = image::inspect(&*file, name).context(unread)?.kind;
        let hidden = matches!(kind, ImageKind::Unknown | ImageKind::Program)
            && zip::ends_like_one(&*file).context(unread)?;
        Ok(if hidden { ImageKind::Archive(Archive::Zip) } else { kind })
    }

    /// Whether [`Packed::open`] can be asked for this kind of file.
    pub fn knows(kind: ImageKind) -> bool {
        match kind {
            ImageKind::Compressed(codec) => codec != Codec::Compress,
            ImageKind::Archive(archive) => archive == Archive::Zip,
            _ => false,
        }
    }

    /// A file of a kind that [`Packed::knows`]. Looks into it: which entry is the image, how
    /// large it is, how it begins. Refuses what cannot be unpacked.
    pub fn open(inner: Box<dyn Source>, kind: ImageKind, options: Options) -> Result<Self> {
        let name = inner.info().name.clone();
        let limits = options.limits;
        let file = inner.preview();
        let (format, words) = format_of(&*file, &name, kind, &options)?;
        let size = sizes::look(format, &*file).context(|| format!("cannot look into {name}"))?;
        if size.memory > limits.memory {
            return Err(decode::too_much_memory(&name, Some(size.memory), limits));
        }
        let (tally, restartable) = (Arc::default(), inner.info().restartable);
        let (head, begun) = if restartable {
            // The way to an entry of an archive is not read.
            let start = if let Format::Entry(entry) = format { entry.start } else { 0 };
            let ahead = Ahead::new(&*file, start);
            (head_of(&mut Unpacker::new(ahead, &name, format, limits.single()), &name)?, None)
        } else {
            // A pipe is read once: what was decoded to look at it is kept.
            let feed = start(&*inner, &name, options.with_sha512, &tally)?;
            let mut unpack = Unpacker::new(feed, &name, format, limits);
            (head_of(&mut unpack, &name)?, Some(unpack))
        };
        let parallel = if restartable {
            let look = || format!("cannot look into {name}");
            parallel::plan(format, &*file, limits).context(look)?
        } else {
            None
        };
        drop(file);
        let whole = (head.len() as u64) < HEAD;
        let len = size.exact.or(whole.then_some(head.len() as u64));
        let (at_least, memory) = (size.at_least, size.memory);
        let unpack = Some(Unpack { format, words, at_least, head, whole, memory, parallel });
        let info = SourceInfo { name, len, restartable };
        let inner = inner.into();
        Ok(Self { inner, info, tally, options, unpack, begun: Mutex::new(begun) })
    }

    /// `xz`, `zip: NAME`, ...; nothing when the file is the image.
    pub fn packing(&self) -> Option<&str> {
        self.unpack.as_ref().map(|unpack| unpack.words.as_str())
    }
}

/// What the image is packed in, and the words for it.
fn format_of(
    file: &dyn ReadAt,
    name: &str,
    kind: ImageKind,
    options: &Options,
) -> Result<(Format, String)> {
    match kind {
        ImageKind::Archive(Archive::Zip) => {
            let choice = zip::choose(file, name, options.member.as_deref(), options.limits)?;
            Ok((Format::Entry(choice.entry), format!("zip: {}", choice.name)))
        }
        _ if options.member.is_some() => {
            Err(Error::usage(format!("--member is for zip archives; {name} is {kind}")))
        }
        ImageKind::Compressed(codec) if codec != Codec::Compress => {
            Ok((Format::Stream(codec), codec.name().to_owned()))
        }
        _ => Err(Error::refused(format!("{name} is {kind}, which is not unpacked here"))),
    }
}

/// The first bytes of the image; fewer than [`HEAD`] are all of it.
fn head_of(unpack: &mut dyn Read, name: &str) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    match unpack.take(HEAD).read_to_end(&mut head) {
        Ok(_) => Ok(head),
        Err(error) => Err(Error::from_read(error, name)),
    }
}

fn start(inner: &dyn Source, name: &str, with_sha512: bool, tally: &Arc<Tally>) -> Result<Feed> {
    Feed::start(inner.open()?, with_sha512, Arc::clone(tally))
        .context(|| format!("cannot start reading {name}"))
}

impl Source for Packed {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let name = &self.info.name;
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(rest), Some(unpack)) = (begun, &self.unpack) {
            return Ok(Box::new(Cursor::new(unpack.head.clone()).chain(rest)));
        }
        let feed = start(&*self.inner, name, self.options.with_sha512, &self.tally)?;
        let limits = self.options.limits;
        let Some(unpack) = &self.unpack else { return Ok(Box::new(feed)) };
        if let Some(plan) = &unpack.parallel {
            let file: Arc<dyn ReadAt + Send + Sync> = Arc::new(Anywhere(Arc::clone(&self.inner)));
            let started = Parallel::start(plan, (feed, &file), name, limits);
            return Ok(Box::new(started.context(|| format!("cannot start unpacking {name}"))?));
        }
        Ok(Box::new(Unpacker::new(feed, name, unpack.format, limits)))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        match &self.unpack {
            Some(unpack) if unpack.whole => Box::new(Bytes(&unpack.head)),
            Some(unpack) => Box::new(Head(&unpack.head)),
            None => self.inner.preview(),
        }
    }

    fn positional(&self) -> Option<Box<dyn ReadAt + '_>> {
        match &self.unpack {
            // Bytes in the middle are behind all those before them.
            Some(_) => None,
            None => self.inner.positional(),
        }
    }

    fn data_from(&self, offset: u64) -> Option<u64> {
        match &self.unpack {
            Some(_) => None,
            None => self.inner.data_from(offset),
        }
    }

    fn at_least(&self) -> Option<u64> {
        self.info
            .len
            .or(self.unpack.as_ref().map(|unpack| unpack.at_least.max(unpack.head.len() as u64)))
    }

    fn file(&self) -> Option<FileRead> {
        self.tally.file()
    }

    fn is_end_stated(&self) -> bool {
        self.inner.is_end_stated()
    }

    fn memory(&self) -> u64 {
        self.unpack.as_ref().map_or(0, |unpack| unpack.memory)
    }

    fn progress(&self) -> Option<Progress> {
        Some(Progress { done: self.tally.done(), total: self.inner.info().len })
    }
}
