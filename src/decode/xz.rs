//! The index at the end of each stream of an xz file (The .xz File Format 1.2.1, sections 2 and
//! 4): the size of the image without decoding it, and where its blocks are. Read from the end of the file to its start, so
//! that what is not a whole number of streams has no size.

use std::io;

use super::zstd::fill;
use crate::image::ReadAt;

/// Bytes before the first block.
pub(super) const HEADER: u64 = 12;
const FOOTER: u64 = 12;
/// The longest index that is read: 2 records a MiB in a file of a TiB, and more.
const INDEX: u64 = 32 << 20;
/// Streams in one file; `xz` itself has no limit, 4 GiB of `pixz` have a few.
const STREAMS: u32 = 1 << 16;

/// What the indexes of a file say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Bytes of the image.
    pub size: u64,
    /// Streams in the file.
    pub streams: u32,
    /// Blocks in all of them.
    pub blocks: u64,
}

/// A block, which can be decoded without those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Header of its stream.
    pub(super) header: [u8; 12],
    /// First byte in the file.
    pub(super) start: u64,
    /// Bytes in the file.
    pub(super) packed: u64,
    /// Bytes of the image.
    pub(super) size: u64,
}

/// Reads all indexes; `None` when the file is not streams from its first to its last byte.
pub fn index(file: &dyn ReadAt) -> io::Result<Option<Index>> {
    let mut seen = Index::default();
    let whole = streams(file, |stream| {
        let sum = seen.size.checked_add(stream.size);
        let blocks = seen.blocks.saturating_add(stream.blocks);
        seen = Index { size: sum.unwrap_or(0), streams: seen.streams + 1, blocks };
        sum.is_some()
    })?;
    Ok((whole.is_some() && seen.streams > 0).then_some(seen))
}

/// The blocks of the whole file in their order, when there are at most `most`, and the bytes of
/// padding behind them.
pub(super) fn blocks(file: &dyn ReadAt, most: usize) -> io::Result<Option<(Vec<Block>, u64)>> {
    let mut all = Vec::new();
    let padding = streams(file, |stream| {
        let few = usize::try_from(stream.blocks).is_ok_and(|blocks| all.len() + blocks <= most);
        if few {
            let first = all.len();
            stream.list(&mut all);
            all[first..].reverse();
        }
        few
    })?;
    all.reverse();
    Ok(padding.map(|padding| (all, padding)))
}

/// The dictionary that the block beginning at `start` asks for, in bytes (section 3.1, 5.3.1).
pub(super) fn dictionary(file: &dyn ReadAt, start: u64) -> io::Result<Option<u64>> {
    let mut header = [0; 1024];
    let len = fill(file, start, &mut header)?;
    Ok(dictionary_of(&header[..len]))
}

fn dictionary_of(header: &[u8]) -> Option<u64> {
    let (&flags, mut rest) = header.get(1..)?.split_first()?;
    // The sizes of the block, each if it is there.
    for bit in [0x40, 0x80] {
        if flags & bit != 0 {
            number(&mut rest)?;
        }
    }
    for _ in 0..=flags & 3 {
        let (id, len) = (number(&mut rest)?, number(&mut rest)?);
        let (properties, tail) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        rest = tail;
        if let (0x21, &[bits]) = (id, properties) {
            return match bits {
                0..40 => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
                40 => Some(u64::from(u32::MAX)),
                _ => None,
            };
        }
    }
    None
}

/// Shows the streams of a file, the last first, until `each` says no; the padding behind the last,
/// or `None` when it said so, or the file is not streams from its first to its last byte.
fn streams(file: &dyn ReadAt, mut each: impl FnMut(&Stream) -> bool) -> io::Result<Option<u64>> {
    let Some(size) = file.size() else { return Ok(None) };
    let (mut end, mut count, mut padding) = (size, 0, None);
    while end > 0 {
        let Some(stream_end) = without_padding(file, end)? else { return Ok(None) };
        if count == STREAMS {
            return Ok(None);
        }
        let Some(stream) = stream(file, stream_end)? else { return Ok(None) };
        if !each(&stream) {
            return Ok(None);
        }
        padding = padding.or(Some(size - stream_end));
        (end, count) = (stream.start, count + 1);
    }
    Ok(padding)
}

/// Where the padding before `end` begins: zeros, a multiple of four of them (section 2.2).
fn without_padding(file: &dyn ReadAt, end: u64) -> io::Result<Option<u64>> {
    const STEP: usize = 4096;
    let (mut at, mut buf) = (end, [0; STEP]);
    loop {
        let len = usize::try_from(at).unwrap_or(STEP).min(STEP);
        let from = at - len as u64;
        if len == 0 || fill(file, from, &mut buf[..len])? < len {
            return Ok(None);
        }
        let zeros = buf[..len].iter().rev().take_while(|byte| **byte == 0).count();
        at -= zeros as u64;
        if zeros < len {
            return Ok((end - at).is_multiple_of(4).then_some(at));
        }
    }
}

struct Stream {
    header: [u8; 12],
    start: u64,
    size: u64,
    blocks: u64,
    /// Its index field, which was found to be right.
    index: Vec<u8>,
}

impl Stream {
    /// Adds its blocks.
    fn list(&self, all: &mut Vec<Block>) {
        let mut start = self.start + HEADER;
        records(&self.index, |packed, size| {
            all.push(Block { header: self.header, start, packed, size });
            start += packed;
        });
    }
}

fn crc32(bytes: &[u8]) -> [u8; 4] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// The stream that ends at `end`.
fn stream(file: &dyn ReadAt, end: u64) -> io::Result<Option<Stream>> {
    let mut footer = [0; 12];
    let Some(footer_at) = end.checked_sub(FOOTER) else { return Ok(None) };
    if fill(file, footer_at, &mut footer)? < footer.len()
        || footer[10..] != *b"YZ"
        || footer[..4] != crc32(&footer[4..10])
    {
        return Ok(None);
    }
    let backward = u32::from_le_bytes([footer[4], footer[5], footer[6], footer[7]]);
    let len = (u64::from(backward) + 1) * 4;
    let Some(index_at) = footer_at.checked_sub(len).filter(|_| len <= INDEX) else {
        return Ok(None);
    };
    let mut index = vec![0; usize::try_from(len).unwrap_or(0)];
    if fill(file, index_at, &mut index)? < index.len() {
        return Ok(None);
    }
    let Some(records) = records(&index, |_, _| {}) else { return Ok(None) };
    let start = index_at.checked_sub(records.packed).and_then(|at| at.checked_sub(HEADER));
    let Some(start) = start else { return Ok(None) };
    let mut header = [0; 12];
    let whole = fill(file, start, &mut header)? == header.len();
    let fits = header[..6] == *b"\xFD7zXZ\0"
        && header[6..8] == footer[8..10]
        && header[8..] == crc32(&header[6..8]);
    let Records { size, blocks, .. } = records;
    Ok((whole && fits).then_some(Stream { header, start, size, blocks, index }))
}

struct Records {
    packed: u64,
    size: u64,
    blocks: u64,
}

/// Reads an index field (section 4); `each` is told the bytes of every block in the file, and in
/// the image.
fn records(index: &[u8], mut each: impl FnMut(u64, u64)) -> Option<Records> {
    let (body, sum) = index.split_at_checked(index.len().checked_sub(4)?)?;
    if sum != crc32(body) {
        return None;
    }
    let mut rest = body.strip_prefix(&[0])?;
    let blocks = number(&mut rest)?;
    let (mut packed, mut size) = (0_u64, 0_u64);
    for _ in 0..blocks {
        let (unpadded, own) = (number(&mut rest)?, number(&mut rest)?);
        // A block has a header and at least one byte (5 in all), and is padded to four bytes.
        if unpadded < 5 {
            return None;
        }
        let padded = unpadded.checked_next_multiple_of(4)?;
        packed = packed.checked_add(padded)?;
        size = size.checked_add(own)?;
        each(padded, own);
    }
    let padding = rest.len() < 4 && rest.iter().all(|byte| *byte == 0);
    padding.then_some(Records { packed, size, blocks })
}

/// A number of 7 bits a byte, the lowest first (section 1.2); the shortest form alone is valid.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in 0..9 {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7F) << (7 * shift);
        if byte & 0x80 == 0 {
            return (byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use liblzma::stream::{Check, MtStreamBuilder, Stream};
    use liblzma::write::XzEncoder;

    use super::*;
    use crate::image::{Bytes, Head};

    fn packed(bytes: &[u8], block: u64) -> Vec<u8> {
        let stream = match block {
            0 => Stream::new_easy_encoder(1, Check::Crc64).unwrap(),
            _ => MtStreamBuilder::new()
                .threads(1)
                .preset(0)
                .block_size(block)
                .check(Check::Crc32)
                .encoder()
                .unwrap(),
        };
        let mut made = XzEncoder::new_stream(Vec::new(), stream);
        made.write_all(bytes).unwrap();
        made.finish().unwrap()
    }

    fn look(file: &[u8]) -> Option<Index> {
        index(&Bytes(file)).unwrap()
    }

    #[test]
    fn streams_and_blocks_are_counted_and_their_sizes_add_up() {
        let data: Vec<u8> = (0..300_000_u32).map(|i| i.to_le_bytes()[1]).collect();
        let (one, many, none) = (packed(&data, 0), packed(&data, 40_000), packed(b"", 0));
        let want = |size, streams, blocks| Some(Index { size, streams, blocks });
        for (parts, want) in [
            (vec![&one[..]], want(300_000, 1, 1)),
            (vec![&many], want(300_000, 1, 8)),
            (vec![&one, &many], want(600_000, 2, 9)),
            (vec![&one, &[0; 4], &many, &[0; 8192]], want(600_000, 2, 9)),
            (vec![&none], want(0, 1, 0)),
            (vec![&one, &[0; 3]], None),
            (vec![&one, b"junk"], None),
            (vec![b"junk", &one], None),
            (vec![&[0; 4], &one], None),
            (vec![&[0; 64]], None),
            (vec![b""], None),
        ] {
            assert_eq!(look(&parts.concat()), want);
        }
        assert_eq!(index(&Head(&one)).unwrap(), None);
    }

    #[test]
    fn no_cut_and_no_flipped_bit_gives_a_wrong_size() {
        let data: Vec<u8> = (0..9_000_u32).map(|i| i.wrapping_mul(77).to_le_bytes()[1]).collect();
        let file = [packed(&data, 4096), packed(&data[..500], 0)].concat();
        let right = look(&file).unwrap();
        assert_eq!((right.size, right.streams), (9_500, 2));
        let second = packed(&data, 4096).len();
        for len in 0..file.len() {
            let cut = look(&file[..len]);
            // The first stream alone is a whole file.
            assert_eq!(cut.map(|seen| seen.size), (len == second).then_some(9_000), "{len}");
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut bad = file.clone();
                bad[at] ^= 1 << bit;
                let seen = look(&bad);
                assert!(seen.is_none_or(|seen| seen == right), "{at} {bit}");
            }
        }
    }

    #[test]
    fn numbers_have_one_form_and_an_end() {
        for (bytes, value) in [
            (&[0][..], Some(0)),
            (&[0x7F], Some(127)),
            (&[0x80, 1], Some(128)),
            (&[0x80, 0], None),
            (&[0x80], None),
            (&[], None),
            (&[0xFF; 9], None),
            (&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], Some(u64::MAX >> 1)),
        ] {
            assert_eq!(number(&mut &*bytes), value, "{bytes:?}");
        }
    }

    #[test]
    fn the_dictionary_stands_in_the_header_of_the_block() {
        for (preset, dictionary) in [(0, 256 << 10), (1, 1 << 20), (6, 8 << 20)] {
            let mut made = XzEncoder::new(Vec::new(), preset);
            made.write_all(b"data").unwrap();
            let file = made.finish().unwrap();
            assert_eq!(super::dictionary(&Bytes(&file), HEADER).unwrap(), Some(dictionary));
            for len in 0..17 {
                assert_eq!(super::dictionary(&Bytes(&file[..len]), HEADER).unwrap(), None, "{len}");
            }
        }
        // Sizes are stated, x86 is before LZMA2.
        let header = [5, 0xC1, 9, 0x80, 1, 4, 0, 0x21, 1, 40];
        assert_eq!(dictionary_of(&header), Some(u64::from(u32::MAX)));
    }
}
