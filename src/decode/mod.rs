//! Images out of compressed files and zip archives: how large they are, which entry of an archive
//! is one, and the decoders.
//!
//! ```text
//! Box<dyn Read> -> Feed (a thread: reads, hashes, counts) -> Unpacker -> bytes of the image
//! the same, and ReadAt, for blocks of xz                  -> Parallel -> bytes of the image
//! ReadAt        -> Ahead                                  -> Unpacker -> the image's head
//!               -> sizes, zip::choose
//! ```
//! Hostile input is an error of the file, never a panic and never the end of the image.

use crate::error::{Error, Kind};
use crate::image::Codec;
use crate::units::Bytes;

mod ahead;
mod engine;
mod feed;
mod lz4;
mod lzip;
pub mod parallel;
mod reach;
pub mod sizes;
mod unpack;
mod xz;
pub mod zip;
mod zstd;

pub use ahead::Ahead;
pub use feed::{Feed, Tally};
pub use parallel::Parallel;
pub use unpack::Unpacker;
pub use xz::{Index, index as xz_index};
pub use zstd::{Frames, frames as zstd_frames};

/// What an image is packed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One or several members of a compressed stream, one behind the other.
    Stream(Codec),
    /// An entry of a zip archive.
    Entry(Entry),
}

/// Where an entry of a zip archive lies, and what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First compressed byte in the file.
    pub start: u64,
    /// Compressed bytes.
    pub packed: u64,
    /// Bytes of the image.
    pub size: u64,
    /// CRC-32 of the image.
    pub crc: u32,
    /// How it is compressed.
    pub method: Method,
}

/// Compression methods of zip entries (APPNOTE.TXT 6.3.10, 4.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Method {
    Stored,
    Deflate,
    Bzip2,
    Zstd,
    Xz,
}

impl Method {
    /// By its number in the archive.
    pub fn of(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Stored),
            8 => Some(Self::Deflate),
            12 => Some(Self::Bzip2),
            93 => Some(Self::Zstd),
            95 => Some(Self::Xz),
            _ => None,
        }
    }
}

/// What decoding may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory that the file itself may ask for: windows and dictionaries.
    pub memory: u64,
    /// Bytes of memory for decoding blocks of xz at the same time; a file whose blocks want more
    /// is decoded by fewer threads.
    pub threading: u64,
    /// Threads that decode.
    pub threads: u32,
}

impl Limits {
    /// What a file may ask for when nobody said more: the window that `zstd -d` accepts.
    pub const MEMORY: u64 = 128 << 20;
    /// Two blocks of `xz -6 -T0` (24 MiB of image each) fit at the same time, two of `xz -9 -T0`
    /// (192 MiB) do not; with everything else it makes less than 96 MiB.
    pub const THREADING: u64 = 48 << 20;

    /// The memory given, and as many threads as the computer has processors.
    pub fn new(memory: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory,
            threading: if memory > Self::MEMORY { memory } else { Self::THREADING },
            threads: u32::try_from(threads).unwrap_or(1),
        }
    }

    /// For looking at the head alone.
    #[must_use]
    pub fn single(self) -> Self {
        Self { threads: 1, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(Self::MEMORY)
    }
}

/// Why a file cannot be unpacked.
#[derive(Debug)]
enum Fault {
    /// Bytes that no encoder writes, or a checksum that does not match.
    Damaged(String),
    /// It ends in the middle.
    Truncated,
    /// It wants more than [`Limits::memory`]; how much, when that is known.
    Memory(Option<u64>),
    /// A feature of the format that is not decoded.
    Unsupported(String),
    /// Reading it failed.
    Input(std::io::Error),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Input(error)
    }
}

impl Fault {
    /// In words for a person; `at` is the number of compressed bytes that were consumed.
    fn explain(self, name: &str, at: u64, limits: Limits) -> Error {
        let again = "download it again, and compare its size and digest with the published ones";
        match self {
            Self::Damaged(why) => Error::new(
                Kind::Io,
                format!("the image {name} is damaged at byte {at} of the compressed file: {why}"),
            )
            .hint(again),
            Self::Truncated => Error::new(
                Kind::Io,
                format!(
                    "the image {name} is damaged at byte {at} of the compressed file: it ends there, \
                     in the middle of the data"
                ),
            )
            .hint(again),
            Self::Memory(needs) => too_much_memory(name, needs, limits),
            Self::Unsupported(what) => Error::refused(format!("{name} cannot be unpacked: {what}"))
                .hint("unpack it with another program, and flash the image that comes out"),
            Self::Input(error) => Error::io(format!("reading {name} failed"), error)
                .at(at, 0)
                .hint("check the disk that holds the file"),
        }
    }
}

/// The refusal of a file that wants more memory than it may have.
pub fn too_much_memory(name: &str, needs: Option<u64>, limits: Limits) -> Error {
    let limit = Bytes(limits.memory).binary();
    let (needs, size) = match needs {
        Some(needs) => {
            (Bytes(needs).binary(), format!("{}MiB", needs.div_ceil(1 << 20).next_power_of_two()))
        }
        None => (format!("more than {limit}"), "1GiB".to_owned()),
    };
    Error::refused(format!("to unpack {name} takes {needs} of memory; the limit is {limit}"))
        .hint(format!("if this computer has that memory to spare: --decode-memory {size}"))
}
