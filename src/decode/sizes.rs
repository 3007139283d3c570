//! How large an image is, before it is decoded: what the formats state. gzip and bzip2 state
//! nothing: the trailer of gzip holds the size modulo 4 GiB, and of the last member alone.

use std::io;

use super::zstd::fill;
use super::{Format, lzip, xz, zstd};
use crate::image::{Codec, ReadAt};

/// What is known of an image before it is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its bytes, when every part of the file states its own.
    pub exact: Option<u64>,
    /// It has no fewer bytes than this.
    pub at_least: u64,
    /// Memory that the file asks for, when that is known, in bytes.
    pub memory: u64,
}

/// Looks at a file, or at the head of a pipe.
pub fn look(format: Format, file: &dyn ReadAt) -> io::Result<Size> {
    let exact = |size: Option<u64>| Size { exact: size, at_least: size.unwrap_or(0), memory: 0 };
    Ok(match format {
        Format::Entry(entry) => exact(Some(entry.size)),
        Format::Stream(Codec::Xz) => Size {
            // Of the first block; the others of a file are made with the same options.
            memory: xz::dictionary(file, xz::HEADER)?.unwrap_or(0),
            ..exact(xz::index(file)?.map(|index| index.size))
        },
        Format::Stream(Codec::Lzip) => exact(lzip::size(file)?),
        Format::Stream(Codec::Zstd) => {
            let seen = zstd::frames(file)?;
            Size {
                exact: seen.exact.then_some(seen.stated),
                at_least: seen.stated,
                memory: seen.window,
            }
        }
        Format::Stream(Codec::Lz4) => lz4(file)?,
        Format::Stream(Codec::Lzma) => lzma(file)?,
        Format::Stream(Codec::Gzip | Codec::Bzip2 | Codec::Compress) => Size::default(),
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The first frame states its size, if the encoder was told; what follows it is not looked for,
/// so that is the least.
fn lz4(file: &dyn ReadAt) -> io::Result<Size> {
    let mut head = [0; 14];
    let len = fill(file, 0, &mut head)?;
    let states = len == head.len() && head[..4] == *b"\x04\x22\x4D\x18" && head[4] & 8 != 0;
    let at_least = if states { number(&head[6..]) } else { 0 };
    Ok(Size { at_least, ..Size::default() })
}

/// A header of 13 bytes: properties, dictionary, size; all ones when there is an end mark instead.
fn lzma(file: &dyn ReadAt) -> io::Result<Size> {
    let mut head = [0; 13];
    let len = fill(file, 0, &mut head)?;
    let size = Some(number(&head[5..])).filter(|size| len == head.len() && *size != u64::MAX);
    Ok(Size { exact: size, at_least: size.unwrap_or(0), memory: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Bytes;

    #[test]
    fn headers_that_state_a_size_are_believed_and_gzip_never() {
        let lzma = [&[0x5D, 0, 0, 0x80, 0][..], &1234_u64.to_le_bytes(), &[0; 5]].concat();
        let mute = [&[0x5D, 0, 0, 0x80, 0][..], &[0xFF; 8], &[0; 5]].concat();
        let lz4 = [&b"\x04\x22\x4D\x18\x6C\x40"[..], &77_u64.to_le_bytes(), &[0; 5]].concat();
        for (codec, file, exact, at_least) in [
            (Codec::Lzma, &lzma[..], Some(1234), 1234),
            (Codec::Lzma, &mute, None, 0),
            (Codec::Lzma, &lzma[..12], None, 0),
            (Codec::Lz4, &lz4, None, 77),
            (Codec::Lz4, &lz4[..13], None, 0),
            (Codec::Gzip, b"\x1F\x8B\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\x01\0\0\0", None, 0),
        ] {
            let size = look(Format::Stream(codec), &Bytes(file)).unwrap();
            assert_eq!((size.exact, size.at_least), (exact, at_least), "{codec:?}");
        }
    }
}
