//! A device as a source: read with O_DIRECT in large pieces, with patches over what it holds.
//!
//! Owns: the stream that the engine takes, naming what cannot be read, and the end of a freeze as
//! soon as the last byte was read. Never writes: the device was opened for reading alone.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::patch::{Patch, overlay};
use super::plan::Plan;
use crate::device::freeze::Frozen;
use crate::device::look::Look;
use crate::device::mask::Mask;
use crate::device::{BlockDevice, full};
use crate::digest::ranges::Mapped;
use crate::error::{Error, Kind, Result};
use crate::event::Events;
use crate::event::notice::Notice;
use crate::image::ReadAt;
use crate::source::{Source, SourceInfo};
use crate::sys::buffer::AlignedBuf;

/// Bytes of one read: the kernel makes a queue of requests of it, so the device is never idle.
const PIECE: u64 = 4 << 20;
/// Bytes in which a piece that cannot be read is read again, to name the place.
const STEP: u64 = 4096;

/// A device with patches over it.
#[derive(Debug)]
pub struct DeviceImage {
    inner: Arc<Inner>,
    mapped: Option<Arc<[Mapped]>>,
    info: SourceInfo,
}

#[derive(Debug)]
struct Inner {
    device: Arc<dyn BlockDevice>,
    name: String,
    /// Bytes of the copy, and of them those that the device has.
    size: u64,
    source: u64,
    patches: Vec<Patch>,
    mask: Mask,
    frozen: Mutex<Option<Frozen>>,
    events: Mutex<Option<Events>>,
}

impl DeviceImage {
    /// The copy of `device` that was planned. What is frozen is thawed when the last byte was read,
    /// or when this is dropped; such a source is read once, because it changes afterwards.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        name: &str,
        plan: Plan,
        frozen: Option<Frozen>,
    ) -> Result<Self> {
        let Plan { size, source, patches, mapped, words: _ } = plan;
        let whole = || std::iter::once(0..size).collect();
        let ranges: Vec<Range<u64>> = mapped.clone().unwrap_or_else(whole);
        let mask = Mask::new(ranges)
            .map_err(|why| Error::new(Kind::Internal, format!("the planned copy: {why}")))?;
        let stretch = |bytes| Mapped { bytes, digest: None };
        let mapped = mapped.map(|ranges| ranges.into_iter().map(stretch).collect());
        let restartable = frozen.is_none();
        let info = SourceInfo { name: name.to_owned(), len: Some(size), restartable };
        let frozen = Mutex::new(frozen);
        let (name, events) = (name.to_owned(), Mutex::default());
        let inner = Arc::new(Inner { device, name, size, source, patches, mask, frozen, events });
        Ok(Self { inner, mapped, info })
    }

    /// What is copied, where that is not everything.
    pub fn mask(&self) -> Option<&Mask> {
        self.mapped.as_ref().map(|_| &self.inner.mask)
    }

    /// Stretches that are copied.
    pub fn ranges(&self) -> &[Range<u64>] {
        self.inner.mask.ranges()
    }

    /// Who is told how long filesystems were frozen. Let go of with the thaw, because a run ends when
    /// nobody can say anything any more.
    pub fn attend(&self, events: &Events) {
        *self.inner.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(events.clone());
    }

    /// Lets writers go on, where that has not happened yet.
    pub fn thaw(&self) {
        self.inner.thaw();
    }
}

impl Inner {
    fn thaw(&self) {
        let frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner).take();
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(frozen) = frozen else { return };
        let thawed = frozen.thaw();
        if let Some(events) = events {
            events.tell(Notice::Thawed { took: thawed.took });
            for failure in thawed.failed {
                events.tell(Notice::NotThawed(failure));
            }
        }
    }

    /// Everything was read: from the device that was meant, or the copy is worth nothing.
    fn end(&self) -> io::Result<()> {
        self.thaw();
        self.device.check_identity().map_err(|change| {
            io::Error::other(Error::refused(format!(
                "{} is no longer the device that was approved: {change}",
                self.name
            )))
        })
    }

    /// Fills `buf`, a multiple of the device's blocks, from an offset that is one too.
    fn fill(&self, at: u64, buf: &mut [u8]) -> io::Result<()> {
        full::read_full(&*self.device, at, buf).map_err(|error| self.failed(error, at, buf))?;
        overlay(&self.patches, at, buf);
        Ok(())
    }

    /// Names the first place that cannot be read.
    fn failed(&self, error: io::Error, at: u64, buf: &mut [u8]) -> io::Error {
        let name = &self.name;
        if !self.device.present() {
            return io::Error::other(
                Error::io(format!("{name}, the source, disappeared while it was copied"), error)
                    .at(at, buf.len() as u64)
                    .hint("check plug, cable and power, and start again"),
            );
        }
        let step = usize::try_from(STEP).unwrap_or(4096);
        let (mut error, mut place) = (error, (at, buf.len() as u64));
        for (index, piece) in buf.chunks_mut(step).enumerate() {
            let at = at + index as u64 * STEP;
            if let Err(again) = full::read_full(&*self.device, at, piece) {
                (error, place) = (again, (at, piece.len() as u64));
                break;
            }
        }
        io::Error::other(
            Error::io(format!("reading {name}, the source, failed"), error)
                .at(place.0, place.1)
                .hint(
                    "it cannot be copied as it is; ddrescue saves what can be read into a file, which `mediawriter flash` writes",
                ),
        )
    }

    /// Bytes of the copy from `offset` on; zeros where nothing is copied.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(buf.len());
        let len = room.min(buf.len());
        let buf = &mut buf[..len];
        buf.fill(0);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (mapped, until) = self.mask.at(at);
            let until = until.min(offset + len as u64);
            let step = usize::try_from(until - at).unwrap_or(len - done);
            if mapped && at < self.source {
                let have = usize::try_from(self.source - at).unwrap_or(step).min(step);
                let part = &mut buf[done..done + have];
                let got = Look(&*self.device).read_at(at, part)?;
                if got < part.len() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
            }
            done += step;
        }
        overlay(&self.patches, offset, buf);
        Ok(len)
    }
}

/// The copy from its first byte on.
struct Reader {
    inner: Arc<Inner>,
    at: u64,
    piece: AlignedBuf,
    /// Which bytes of the copy are in `piece`.
    held: Range<u64>,
}

impl Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let inner = Arc::clone(&self.inner);
        let Inner { size, source, mask, .. } = &*inner;
        if buf.is_empty() {
            return Ok(0);
        }
        if self.at >= *size {
            self.inner.end()?;
            return Ok(0);
        }
        let (mapped, until) = mask.at(self.at);
        let until = until.min(*size);
        let (at, most) = (self.at, buf.len());
        let room = |end: u64| usize::try_from(end - at).unwrap_or(most).min(most);
        let len = if !mapped {
            let len = room(until);
            buf[..len].fill(0);
            len
        } else if self.at >= *source {
            let len = room(until);
            buf[..len].fill(0);
            overlay(&self.inner.patches, self.at, &mut buf[..len]);
            len
        } else {
            if !self.held.contains(&self.at) {
                self.load(until)?;
            }
            let len = room(self.held.end.min(until));
            let from = usize::try_from(self.at - self.held.start).map_err(io::Error::other)?;
            buf[..len].copy_from_slice(&self.piece[from..from + len]);
            len
        };
        self.at += len as u64;
        Ok(len)
    }
}

impl Reader {
    /// Reads the piece that `at` is in, whose bytes are wanted up to `until`.
    fn load(&mut self, until: u64) -> io::Result<()> {
        let block = u64::from(self.inner.device.geometry().logical_block).max(512);
        let start = self.at / block * block;
        let end = until.next_multiple_of(block).min(self.inner.source).min(start + PIECE);
        let len = usize::try_from(end - start).map_err(io::Error::other)?;
        // Nothing of a piece that failed is handed out.
        self.held = 0..0;
        self.inner.fill(start, &mut self.piece[..len])?;
        self.held = start..end;
        Ok(())
    }
}

/// Lends the copy.
struct Lent<'a>(&'a Inner);

impl ReadAt for Lent<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn size(&self) -> Option<u64> {
        Some(self.0.size)
    }
}

impl Source for DeviceImage {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let piece = AlignedBuf::zeroed(usize::try_from(PIECE).unwrap_or(1 << 20));
        Ok(Box::new(Reader { inner: Arc::clone(&self.inner), at: 0, piece, held: 0..0 }))
    }

    fn preview(&self) -> Box<dyn ReadAt + '_> {
        Box::new(Lent(&self.inner))
    }

    fn mapped(&self) -> Option<Arc<[Mapped]>> {
        self.mapped.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::fault::{Effect, Fault, Faulty, Op, Trigger};
    use crate::device::sim::memory::Memory;

    const SIZE: u64 = 16 << 20;

    fn byte(at: u64) -> u8 {
        let [low, _, high, ..] = (at / 7).to_le_bytes();
        low ^ high
    }

    fn filled(sector: u32) -> Memory {
        let memory = Memory::new(SIZE, sector, 0, true);
        let mut buf = AlignedBuf::zeroed(usize::try_from(SIZE).unwrap());
        (0..).zip(buf.iter_mut()).for_each(|(at, out)| *out = byte(at));
        full::write_full(&memory, 0, &buf).unwrap();
        memory
    }

    fn image(device: impl BlockDevice + 'static, plan: Plan) -> DeviceImage {
        DeviceImage::new(Arc::new(device), "/dev/sdx", plan, None).unwrap()
    }

    /// What is to come of it, by the plan alone.
    fn expected(plan: &Plan) -> Vec<u8> {
        let mut out: Vec<u8> =
            (0..plan.size).map(|at| if at < plan.source { byte(at) } else { 0 }).collect();
        if let Some(mapped) = &plan.mapped {
            for (at, out) in (0..).zip(&mut out) {
                if !mapped.iter().any(|range| range.contains(&at)) {
                    *out = 0;
                }
            }
        }
        overlay(&plan.patches, 0, &mut out);
        out
    }

    #[test]
    fn the_stream_and_every_place_are_the_device_with_its_patches() {
        let patch = |at: u64, len: usize| Patch { at, bytes: vec![0xAB; len] };
        let patches = vec![patch(0, 512), patch(PIECE - 3, 7), patch(SIZE - 100, 300)];
        let plain = Plan { size: SIZE, source: SIZE, patches: vec![], mapped: None, words: vec![] };
        let larger = SIZE + (1 << 20);
        for (sector, plan) in [
            (512, plain.clone()),
            (512, Plan { size: larger, patches: patches.clone(), ..plain.clone() }),
            (
                4096,
                Plan {
                    size: larger,
                    patches: vec![patch(larger - 4096, 4096), patch(5, 5)],
                    mapped: Some(vec![0..SIZE, larger - 4096..larger]),
                    ..plain.clone()
                },
            ),
            (4096, Plan { mapped: Some(vec![4096..8192, PIECE + 512..PIECE + 9999]), ..plain }),
        ] {
            let image = image(filled(sector), plan.clone());
            let expected = expected(&plan);
            for step in [1 << 20, 99_991] {
                let (mut reader, mut seen) = (image.open().unwrap(), Vec::new());
                let mut buf = vec![0xFF; step];
                loop {
                    match reader.read(&mut buf).unwrap() {
                        0 => break,
                        n => seen.extend_from_slice(&buf[..n]),
                    }
                }
                assert!(seen == expected, "{plan:?} in steps of {step}");
            }
            let preview = image.preview();
            for at in [0, 1, 511, 4095, PIECE - 5, SIZE - 200, SIZE - 1, plan.size - 1, plan.size] {
                let mut buf = vec![0xFF; 1000];
                let n = preview.read_at(at, &mut buf).unwrap();
                let at = usize::try_from(at).unwrap();
                let end = (at + 1000).min(expected.len());
                assert_eq!(buf[..n], expected[at..end], "{at}");
            }
        }
    }

    #[test]
    fn a_place_that_cannot_be_read_is_named_and_a_source_that_is_gone_is_said_to_be() {
        let plan = Plan { size: SIZE, source: SIZE, patches: vec![], mapped: None, words: vec![] };
        for (effect, says) in
            [(Effect::Error(libc::EIO), "ddrescue"), (Effect::Vanish, "disappeared")]
        {
            let fault = Fault { op: Op::Read, trigger: Trigger::Touching(6 << 20), effect };
            let device = Faulty::new(Box::new(filled(512)), fault, None);
            let image = image(device, plan.clone());
            let mut out = Vec::new();
            let error = image.open().unwrap().read_to_end(&mut out).unwrap_err();
            let error = Error::from_read(error, "");
            assert_eq!(out.len() as u64, PIECE, "nothing of a piece that failed");
            assert!(error.to_string().contains(says), "{error}");
            assert!(error.message().contains("/dev/sdx, the source"), "{error}");
            if says == "ddrescue" {
                let place = error.place().unwrap();
                assert_eq!((place.offset, place.len), (6 << 20, 4096));
            }
        }
    }
}
