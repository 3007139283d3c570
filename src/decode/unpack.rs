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
