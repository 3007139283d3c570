//! Saves an image into a compressed file, and proves the file: it is read back, decoded through its
//! block map, and compared.
//!
//! ```text
//! reader thread              this thread                    zstd's threads
//! source -> 4 MiB buffers -> SHA-256, stretches' SHA-256 -> frames -> file
//! ```

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::ops::Range;
use std::path::Path;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::{Context, Crew, internal};
use crate::device::mask::Mask;
use crate::digest::ranges::{ImageHasher, Mapped};
use crate::digest::{FileRead, Hasher, Sha256};
use crate::error::{Error, Kind, Result};
use crate::event::{Event, Phase, Verdict};
use crate::meter::{Meter, while_ticking};
use crate::source::bmap::{self, MappedSource};
use crate::source::file::FileSource;
use crate::source::packed::{Options, Packed};
use crate::source::{Source, fill};
use crate::text::printable_path;

/// Bytes of a buffer.
const PIECE: usize = 4 << 20;
/// Most bytes of a stretch with a digest of its own, so that damage is seen early and has a place.
const STRETCH: u64 = 64 << 20;
/// Speed before size: about as fast as disks are read, and zeros cost nothing.
const LEVEL: i32 = 3;

/// What became of the source.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Bytes of the image.
    pub bytes: u64,
    /// Its SHA-256, with zeros where nothing is mapped.
    pub sha256: Sha256,
    /// Stretches that are mapped, with their SHA-256.
    pub stretches: Vec<Mapped>,
}

/// Writes a source as one zstd frame, with size and checksum. `mask` is what of it is mapped.
pub fn save(source: &dyn Source, mask: &Mask, file: &File, cx: &Context) -> Result<Saved> {
    let len = source.info().len.ok_or_else(|| internal("a device without a size"))?;
    let meter = cx.meter(Phase::Write, Some(mask.bytes_in(0, len)));
    let crew = Crew::new(&cx.cancel);
    let written = while_ticking(&meter, || {
        thread::scope(|scope| {
            let (to_pack, read) = bounded(2);
            let (give_back, spare) = bounded(4);
            let crew = &crew;
            scope.spawn(move || {
                crew.guard(|| {
                    produce(source, &to_pack, &spare, crew).map_err(|e| crew.fail(e)).ok()
                })
            });
            let mut hashes = Hashes::new(mask);
            let packed =
                pack(&read, &give_back, file, (len, mask, &mut hashes), (&meter, crew, cx));
            // Lets the reader see that nobody takes anything any more.
            drop(read);
            packed.map_err(|e| crew.fail(e)).ok();
            hashes
        })
    });
    meter.finish();
    crew.result()?;
    if written.at != len {
        return Err(Error::io(
            format!("{} changed its size while it was read", source.info().name),
            io::Error::from(io::ErrorKind::UnexpectedEof),
        ));
    }
    cx.timed(Phase::Flush, |_| file.sync_all().map_err(|e| write_failed(e, cx)))?;
    let (sha256, stretches) = written.finish();
    cx.events.emit(Event::SourceRead {
        bytes: len,
        sha256: Some(sha256.to_string()),
        mapped_sha256: None,
    });
    Ok(Saved { bytes: len, sha256, stretches })
}

/// Reads the source to its end.
fn produce(
    source: &dyn Source,
    out: &Sender<Vec<u8>>,
    spare: &Receiver<Vec<u8>>,
    crew: &Crew<'_>,
) -> Result<()> {
    let name = &source.info().name;
    let mut reader = source.open()?;
    loop {
        let mut buf = spare.try_recv().unwrap_or_default();
        buf.resize(PIECE, 0);
        let done = fill(&mut *reader, &mut buf, &|| crew.stopped())
            .map_err(|e| Error::from_read(e, name))?;
        buf.truncate(done);
        if crew.stopped() || done == 0 || out.send(buf).is_err() {
            return Ok(());
        }
    }
}

/// Hashes and compresses what comes.
fn pack(
    read: &Receiver<Vec<u8>>,
    give_back: &Sender<Vec<u8>>,
    file: &File,
    (len, mask, hashes): (u64, &Mask, &mut Hashes),
    (meter, crew, cx): (&Meter, &Crew<'_>, &Context),
) -> Result<()> {
    let failed = |e| write_failed(e, cx);
    let mut encoder = zstd::stream::write::Encoder::new(file, LEVEL).map_err(failed)?;
    let workers = thread::available_parallelism().map_or(1, |n| n.get().min(8));
    encoder.multithread(u32::try_from(workers).unwrap_or(1)).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    encoder.include_contentsize(true).map_err(failed)?;
    encoder.set_pledged_src_size(Some(len)).map_err(failed)?;
    for buf in read {
        if crew.stopped() {
            return Ok(());
        }
        let payload = mask.bytes_in(hashes.at, buf.len() as u64);
        hashes.update(&buf);
        meter.observe(payload, || encoder.write_all(&buf)).map_err(failed)?;
        // Nobody minds when the reader has ended.
        give_back.try_send(buf).ok();
    }
    if crew.stopped() || hashes.at != len {
        return Ok(());
    }
    encoder.finish().map_err(failed).map(drop)
}

fn write_failed(error: io::Error, cx: &Context) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => "there is not enough room: choose another disk",
        Some(libc::EFBIG) => {
            "the filesystem has no files of this size (FAT32 ends at 4 GiB): choose another one"
        }
        _ => "check the disk that the file is on",
    };
    Error::io(format!("writing {} failed", cx.target), error).hint(hint)
}

/// SHA-256 of everything, and of each stretch that is mapped.
struct Hashes {
    at: u64,
    whole: Hasher,
    stretches: Vec<Mapped>,
    next: usize,
    running: Hasher,
}

impl Hashes {
    fn new(mask: &Mask) -> Self {
        let stretches = mask.ranges().iter().flat_map(cut);
        let stretches = stretches.map(|bytes| Mapped { bytes, digest: None }).collect();
        let (whole, running) = Default::default();
        Self { at: 0, whole, stretches, next: 0, running }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        self.whole.update(bytes);
        while let Some(stretch) = self.stretches.get_mut(self.next) {
            let Range { start, end } = stretch.bytes;
            let mapped = start <= self.at;
            let until = if mapped { end } else { start };
            let len = usize::try_from(until - self.at).unwrap_or(bytes.len()).min(bytes.len());
            let (now, later) = bytes.split_at(len);
            (bytes, self.at) = (later, self.at + len as u64);
            if mapped {
                self.running.update(now);
            }
            if self.at < until {
                return;
            }
            if mapped {
                stretch.digest = Some(std::mem::take(&mut self.running).finish().to_string());
                self.next += 1;
            }
        }
        self.at += bytes.len() as u64;
    }

    fn finish(self) -> (Sha256, Vec<Mapped>) {
        (self.whole.finish(), self.stretches)
    }
}

/// A range in pieces that end at multiples of [`STRETCH`].
fn cut(range: &Range<u64>) -> Vec<Range<u64>> {
    let Range { mut start, end } = range.clone();
    let mut out = Vec::new();
    while start < end {
        let until = ((start / STRETCH + 1) * STRETCH).min(end);
        out.push(start..until);
        start = until;
    }
    out
}

/// Reads the file as a restore would: decoded, through its map; every stretch against its digest,
/// all of it against what was read from the source.
pub fn check(path: &Path, map: &str, saved: &Saved, cx: &Context) -> Result<FileRead> {
    let name = printable_path(path);
    let file = FileSource::open_path(path)?;
    // It was synced: what is dropped is on the disk. Advice alone, on filesystems without a cache.
    posix_fadvise(file.file(), 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).ok();
    let kind = Packed::kind(&file)?;
    let packed = Packed::open(Box::new(file), kind, Options::default())?;
    let map = bmap::parse(map).map_err(|why| internal(&format!("the block map: {why}")))?;
    let image = MappedSource::new(Box::new(packed) as Box<dyn Source>, (&name, map), true)?;
    let mut hasher = ImageHasher::new(image.mapped(), true);
    let meter = cx.meter(Phase::Verify, Some(saved.bytes));
    let mut reader = image.open()?;
    let mut buf = vec![0; 1 << 20];
    while_ticking(&meter, || {
        loop {
            cx.cancel.check()?;
            let started = meter.now();
            let n =
                reader.read(&mut buf).map_err(|e| damaged(&name, &Error::from_read(e, &name)))?;
            if n == 0 {
                return Ok(());
            }
            hasher.update(&buf[..n]);
            if let Some(wrong) = hasher.wrong() {
                return Err(damaged(&name, &bmap::wrong(&name, wrong)));
            }
            meter.io(started, n as u64);
        }
    })?;
    meter.finish();
    let whole = hasher.finish().whole;
    if whole != Some(saved.sha256) {
        return Err(Error::new(Kind::MediaMismatch, format!("{name} does not hold what was read")));
    }
    let read = image.file().ok_or_else(|| internal("the file's own digest is missing"))?;
    cx.events.emit(Event::FileRead {
        bytes: read.bytes,
        sha256: read.sha256.to_string(),
        sha512: None,
    });
    cx.events.emit(Event::MediaVerdict(Verdict::Matched { bytes: saved.bytes }));
    Ok(read)
}

/// What comes back is not what was written: the disk below, or the memory.
fn damaged(name: &str, error: &Error) -> Error {
    Error::new(
        Kind::MediaMismatch,
        format!("{name} cannot be read back as it was written: {}", error.message()),
    )
    .hint("check the disk that the file is on, and the computer's memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha256(bytes: &[u8]) -> String {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish().to_string()
    }

    #[test]
    fn stretches_end_at_multiples_and_with_their_range() {
        let (a, s) = (4096, STRETCH);
        assert_eq!(cut(&(0..a)).as_slice(), std::slice::from_ref(&(0..a)));
        assert_eq!(cut(&(a..2 * s + a)), [a..s, s..2 * s, 2 * s..2 * s + a]);
        assert_eq!(cut(&(s..2 * s)).as_slice(), std::slice::from_ref(&(s..2 * s)));
        assert_eq!(cut(&(5..5)), []);
    }

    #[test]
    fn digests_are_those_of_the_mapped_bytes_however_they_come() {
        let data: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
        let mask = Mask::new([4096..8192, 12288..20_000]).unwrap();
        for step in [1, 7, 4096, 5000, 20_000] {
            let mut hashes = Hashes::new(&mask);
            data.chunks(step).for_each(|bytes| hashes.update(bytes));
            assert_eq!(hashes.at, 20_000);
            let (whole, stretches) = hashes.finish();
            assert_eq!(whole.to_string(), sha256(&data));
            let found: Vec<_> = stretches.iter().map(|s| s.digest.clone().unwrap()).collect();
            assert_eq!(found, [sha256(&data[4096..8192]), sha256(&data[12288..])], "{step}");
        }
    }
}
