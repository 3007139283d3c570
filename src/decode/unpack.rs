//! The image in a compressed file, as a reader: member behind member until nothing follows that
//! begins like one. What does follow is counted and left out; what begins like a member and is
//! none is damage.

use std::fmt;
use std::io::{self, Read};

use super::engine::{Engine, Step};
use super::reach::Reach;
use super::{Entry, Fault, Format, Limits};
use crate::digest::Trailing;
use crate::image::Codec;

/// Calls in which a decoder may do nothing: the threaded one has such, an endless loop has more.
const PATIENCE: u32 = 1000;

/// Decodes while it is read.
pub struct Unpacker<R> {
    input: R,
    name: String,
    format: Format,
    limits: Limits,
    state: State,
    engine: Option<Engine>,
    members: u64,
    trailing: Trailing,
    entry: Option<Checked>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    Inside,
    Over,
}

/// An entry of a zip archive on its way: what is left of it, and what came out.
struct Checked {
    entry: Entry,
    left: u64,
    size: u64,
    crc: flate2::Crc,
}

impl<R: Reach> fmt::Debug for Unpacker<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unpacker({}, {:?} at {})", self.name, self.format, self.input.position())
    }
}

impl<R: Reach> Unpacker<R> {
    /// `name` is what messages call the file.
    pub fn new(input: R, name: &str, format: Format, limits: Limits) -> Self {
        let entry = match format {
            Format::Entry(entry) => {
                Some(Checked { entry, left: entry.packed, size: 0, crc: flate2::Crc::new() })
            }
            Format::Stream(_) => None,
        };
        Self {
            input,
            name: name.to_owned(),
            format,
            limits,
            state: State::Between,
            engine: None,
            members: 0,
            trailing: Trailing::default(),
            entry,
        }
    }

    fn next(&mut self, out: &mut [u8]) -> Result<usize, Fault> {
        let mut idle = 0;
        loop {
            match self.state {
                State::Over => return Ok(0),
                State::Between => {
                    self.state = if self.begin()? {
                        State::Inside
                    } else {
                        self.drain()?;
                        State::Over
                    };
                }
                State::Inside => {
                    let step = self.step(out)?;
                    if step.written > 0 {
                        return Ok(step.written);
                    }
                    idle = if step.read > 0 || step.ended { 0 } else { idle + 1 };
                    if idle > PATIENCE {
                        return Err(Fault::Damaged("the decoder makes no progress".to_owned()));
                    }
                }
            }
        }
    }

    fn step(&mut self, out: &mut [u8]) -> Result<Step, Fault> {
        let Some(engine) = &mut self.engine else {
            return Err(Fault::Damaged("there is no member".to_owned()));
        };
        let mut ahead = self.input.peek(1)?;
        let mut last = ahead.is_empty();
        if let Some(checked) = &self.entry {
            let left = usize::try_from(checked.left).unwrap_or(usize::MAX);
            if last && left > 0 {
                return Err(Fault::Truncated);
            }
            ahead = &ahead[..ahead.len().min(left)];
            last = left == 0;
        }
        let step = engine.step(ahead, out, last)?;
        self.input.consume(step.read);
        if let Some(checked) = &mut self.entry {
            checked.took(step, out)?;
        }
        if step.ended {
            self.members += 1;
            self.state = State::Between;
        } else if last && step.read == 0 && step.written == 0 {
            return Err(Fault::Truncated);
        }
        Ok(step)
    }

    /// Goes to the next member, if there is one.
    fn begin(&mut self) -> Result<bool, Fault> {
        match (self.format, self.members) {
            (Format::Entry(entry), 0) => self.skip_to(entry.start)?,
            (Format::Entry(_), _) => {
                if let Some(checked) = &self.entry {
                    checked.end()?;
                }
                return Ok(false);
            }
            (Format::Stream(_), 0) => {}
            (Format::Stream(codec), _) => {
                if !self.another(codec)? {
                    return Ok(false);
                }
            }
        }
        if self.format == Format::Stream(Codec::Zstd) {
            super::zstd::admit(self.input.peek(18)?, self.limits)?;
        }
        // A context of zstd is large, and good for any number of frames.
        if !matches!(&self.engine, Some(Engine::Zstd(_))) {
            self.engine = Some(Engine::new(self.format, self.limits)?);
        }
        Ok(true)
    }

    /// Whether another member begins behind this one, after zeros or none.
    fn another(&mut self, codec: Codec) -> Result<bool, Fault> {
        loop {
            let ahead = self.input.peek(8)?;
            if ahead.is_empty() {
                return Ok(false);
            }
            let zeros = ahead.iter().take_while(|byte| **byte == 0).count();
            if zeros > 0 {
                self.trailing.bytes += zeros as u64;
                self.input.consume(zeros);
            } else if begins(codec, ahead) {
                self.trailing = Trailing::default();
                return Ok(true);
            } else {
                return Ok(false);
            }
        }
    }

    fn skip_to(&mut self, start: u64) -> Result<(), Fault> {
        while self.input.position() < start {
            let left = usize::try_from(start - self.input.position()).unwrap_or(usize::MAX);
            let len = self.input.peek(1)?.len().min(left);
            if len == 0 {
                return Err(Fault::Truncated);
            }
            self.input.consume(len);
        }
        Ok(())
    }

    /// Reads what follows, so that the digest of the file covers all of it.
    fn drain(&mut self) -> Result<(), Fault> {
        loop {
            let ahead = self.input.peek(1)?;
            let len = ahead.len();
            if len == 0 {
                break;
            }
            self.trailing.bytes += len as u64;
            self.trailing.data |= ahead.iter().any(|byte| *byte != 0);
            self.input.consume(len);
        }
        // Behind an entry of an archive come other entries and the directory.
        let trailing = if self.entry.is_some() { Trailing::default() } else { self.trailing };
        self.input.end(trailing);
        Ok(())
    }
}

impl Checked {
    fn took(&mut self, step: Step, out: &[u8]) -> Result<(), Fault> {
        self.left = self.left.saturating_sub(step.read as u64);
        self.size += step.written as u64;
        self.crc.update(&out[..step.written]);
        if self.size > self.entry.size {
            return Err(Fault::Damaged(format!(
                "the entry is longer than the {} bytes that the directory says",
                self.entry.size
            )));
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Fault> {
        if self.size != self.entry.size {
            return Err(Fault::Damaged(format!(
                "the entry has {} bytes, the directory says {}",
                self.size, self.entry.size
            )));
        }
        if self.crc.sum() != self.entry.crc {
            return Err(Fault::Damaged(format!(
                "the entry has CRC-32 {:08x}, the directory says {:08x}",
                self.crc.sum(),
                self.entry.crc
            )));
        }
        Ok(())
    }
}

/// Whether these bytes begin like a member. At the end of a file two bytes of a magic number are
/// enough: that is a member that was cut off.
fn begins(codec: Codec, ahead: &[u8]) -> bool {
    let magic =
        |magic: &[u8]| ahead.starts_with(magic) || (ahead.len() >= 2 && magic.starts_with(ahead));
    // 0x184D2A50 to 5F, little-endian: frames that decoders skip (RFC 8878, 3.1.2).
    let skippable =
        ahead.len() >= 4 && ahead[0] & 0xF0 == 0x50 && ahead[1..4] == [0x2A, 0x4D, 0x18];
    match codec {
        Codec::Gzip => magic(b"\x1F\x8B"),
        Codec::Xz => magic(b"\xFD7zXZ\0"),
        Codec::Zstd => skippable || magic(b"\x28\xB5\x2F\xFD"),
        Codec::Bzip2 => {
            magic(b"BZh") && ahead.get(3).is_none_or(|level| (b'1'..=b'9').contains(level))
        }
        Codec::Lz4 => skippable || magic(b"\x04\x22\x4D\x18") || magic(b"\x02\x21\x4C\x18"),
        Codec::Lzip => magic(b"LZIP"),
        // No magic number: one member is all there can be.
        Codec::Lzma | Codec::Compress => false,
    }
}

impl<R: Reach> Read for Unpacker<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.next(buf).map_err(|fault| {
            io::Error::other(fault.explain(&self.name, self.input.position(), self.limits))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use super::*;
    use crate::decode::{Ahead, Feed, Tally};
    use crate::error::{Error, Kind};
    use crate::image::{Bytes, Head};

    fn data(len: u32) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 27).to_le_bytes()[0]).collect()
    }

    fn packed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
        match codec {
            Codec::Gzip => {
                let mut made =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                made.write_all(bytes).unwrap();
                made.finish().unwrap()
            }
            Codec::Bzip2 => {
                let mut made = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                made.write_all(bytes).unwrap();
                made.finish().unwrap()
            }
            Codec::Xz => {
                let mut made = liblzma::write::XzEncoder::new(Vec::new(), 0);
                made.write_all(bytes).unwrap();
                made.finish().unwrap()
            }
            Codec::Zstd => {
                let mut made = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
                made.include_checksum(true).unwrap();
                made.write_all(bytes).unwrap();
                made.finish().unwrap()
            }
            other => unreachable!("{other:?} has no encoder here"),
        }
    }

    const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Bzip2, Codec::Xz, Codec::Zstd];

    fn unpacked(codec: Codec, file: &[u8]) -> Result<Vec<u8>, Error> {
        let file = Bytes(file);
        let limits = Limits::default().single();
        let mut unpack = Unpacker::new(Ahead::new(&file, 0), "it", Format::Stream(codec), limits);
        let mut out = Vec::new();
        match unpack.read_to_end(&mut out) {
            Ok(_) => Ok(out),
            Err(error) => Err(Error::from_read(error, "it")),
        }
    }

    #[test]
    fn members_behind_each_other_are_one_image_whatever_the_size_of_reads() {
        let image = data(2_500_000);
        for codec in CODECS {
            let file =
                [packed(codec, &image[..900_000]), packed(codec, &image[900_000..])].concat();
            for step in [1000, 70_001, 1 << 20] {
                let tally = Arc::new(Tally::default());
                let from = Box::new(io::Cursor::new(file.clone()));
                let feed = Feed::start(from, false, Arc::clone(&tally)).unwrap();
                let limits = Limits { threads: 2, ..Limits::default() };
                let mut unpack = Unpacker::new(feed, "it", Format::Stream(codec), limits);
                let (mut out, mut buf) = (Vec::new(), vec![0; step]);
                loop {
                    match unpack.read(&mut buf).unwrap() {
                        0 => break,
                        n => out.extend_from_slice(&buf[..n]),
                    }
                }
                assert!(out == image, "{codec:?} {step}");
                let file_read = tally.file().unwrap();
                assert_eq!(file_read.bytes, file.len() as u64);
                assert_eq!(file_read.trailing, Trailing::default());
            }
        }
    }

    #[test]
    fn no_cut_and_no_flipped_bit_gives_another_image() {
        let image = data(3_000);
        for codec in CODECS {
            let file = packed(codec, &image);
            assert!(unpacked(codec, &file).unwrap() == image);
            for len in 0..file.len() {
                let error = unpacked(codec, &file[..len]).unwrap_err();
                assert_eq!(error.kind(), Kind::Io, "{codec:?} {len}");
                let place = format!("damaged at byte {len} of the compressed file");
                assert!(error.message().contains(&place), "{codec:?} {len}: {error}");
            }
            for at in 0..file.len() {
                let mut bad = file.clone();
                bad[at] ^= 1 << (at % 8);
                if let Ok(out) = unpacked(codec, &bad) {
                    // Fields that say nothing about the data, such as the time in gzip.
                    assert!(out == image, "{codec:?} {at}");
                }
            }
        }
    }

    #[test]
    fn what_begins_like_a_member_is_one_and_zeros_are_none() {
        let gzip = packed(Codec::Gzip, b"image");
        let with = |tail: &[u8]| unpacked(Codec::Gzip, &[&gzip[..], tail].concat());
        for tail in [&b""[..], b"junk", &[0; 700], b"\x1f", &[&[0; 9][..], b"junk"].concat()] {
            assert_eq!(with(tail).unwrap(), b"image", "{tail:?}");
        }
        for tail in [&b"\x1f\x8b"[..], b"\x1f\x8b\x08", b"\0\0\x1f\x8b\x08\0\0\0\0", &gzip[..15]] {
            assert!(with(tail).is_err(), "{tail:?}");
        }
        assert_eq!(with(&gzip).unwrap(), b"imageimage");
    }

    #[test]
    fn an_entry_is_held_to_its_size_and_checksum() {
        let image = data(50_000);
        let mut crc = flate2::Crc::new();
        crc.update(&image);
        let packed = image.len() as u64;
        let right = Entry {
            start: 7,
            packed,
            size: packed,
            crc: crc.sum(),
            method: crate::decode::Method::Stored,
        };
        let file = [&[1; 7][..], &image, b"directory"].concat();
        let read = |entry: Entry| {
            let file = Head(&file);
            let mut out = Vec::new();
            let input = Ahead::new(&file, 0);
            Unpacker::new(input, "it", Format::Entry(entry), Limits::default())
                .read_to_end(&mut out)
                .map(|_| out)
        };
        assert!(read(right).unwrap() == image);
        for wrong in [
            Entry { start: 6, ..right },
            Entry { crc: right.crc ^ 1, ..right },
            Entry { size: packed + 1, ..right },
            Entry { size: packed - 1, ..right },
            Entry { packed: packed - 1, ..right },
            Entry { packed: packed + 10, ..right },
            Entry { start: u64::MAX, ..right },
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
