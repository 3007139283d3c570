//! Frames of zstd without decoding them (RFC 8878, section 3.1): how large the image is, and how
//! large a window they want. A file is walked from block to block, 3 bytes of each.

use std::io;

use super::{Fault, Limits};
use crate::image::ReadAt;

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Blocks that are walked before the rest is left unknown: hostile files have many empty ones.
/// Blocks hold up to 128 KiB, so this is 512 GiB of image.
const BLOCKS: u32 = 4 << 20;

/// What the frames of a file say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Bytes of the image in all frames that state theirs.
    pub stated: u64,
    /// Every frame states its size, and the last one ends where the file does.
    pub exact: bool,
    /// The largest window, in bytes: the memory that decoding takes.
    pub window: u64,
}

/// The part of a frame before its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    len: u64,
    window: u64,
    content: Option<u64>,
    checksum: bool,
}

/// Reads a frame header; `None` when these bytes are none, or not all of it.
fn header(bytes: &[u8]) -> Option<Header> {
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (&descriptor, mut rest) = rest.split_first()?;
    let single = descriptor & 0x20 != 0;
    if descriptor & 0x08 != 0 {
        return None;
    }
    let mut window = 0;
    if !single {
        let (&byte, tail) = rest.split_first()?;
        // 3.1.1.1.2: exponent in the upper 5 bits, eighths of it in the lower 3.
        let base = 1_u64 << (10 + (byte >> 3));
        window = base + base / 8 * u64::from(byte & 7);
        rest = tail;
    }
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    rest = rest.get(dictionary..)?;
    let len = match (descriptor >> 6, single) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let field = rest.get(..len)?;
    let value = field.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    let content = match len {
        0 => None,
        2 => Some(value + 256),
        _ => Some(value),
    };
    let window = if single { content.unwrap_or(0) } else { window };
    let len = (bytes.len() - rest.len() + len) as u64;
    Some(Header { len, window, content, checksum: descriptor & 4 != 0 })
}

/// The exponent of the largest window that the decoder may take; 31 is the library's own limit.
pub(super) fn window_log(limits: Limits) -> u32 {
    limits.memory.checked_ilog2().unwrap_or(0).clamp(10, 31)
}

/// Refuses a frame whose window is too large; `ahead` is its beginning.
pub(super) fn admit(ahead: &[u8], limits: Limits) -> Result<(), Fault> {
    match header(ahead) {
        Some(header) if header.window > 1 << window_log(limits) => {
            Err(Fault::Memory(Some(header.window)))
        }
        _ => Ok(()),
    }
}

/// Looks at all frames of a file, or at the first of a pipe's head.
pub fn frames(file: &dyn ReadAt) -> io::Result<Frames> {
    let mut seen = Frames::default();
    let mut blocks = BLOCKS;
    let (mut at, mut all_state) = (0, true);
    loop {
        let mut bytes = [0; 18];
        let len = fill(file, at, &mut bytes)?;
        if len == 0 && at > 0 {
            return Ok(Frames { exact: all_state && file.size() == Some(at), ..seen });
        }
        if bytes[0] & 0xF0 == 0x50 && bytes[1..4] == [0x2A, 0x4D, 0x18] && len >= 8 {
            let size = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            at += 8 + u64::from(size);
            continue;
        }
        let Some(header) = header(&bytes[..len]) else {
            return Ok(seen);
        };
        seen.window = seen.window.max(header.window);
        all_state &= header.content.is_some();
        seen.stated = seen.stated.saturating_add(header.content.unwrap_or(0));
        let Some(end) = skip_blocks(file, at + header.len, &mut blocks)? else {
            return Ok(seen);
        };
        at = end + if header.checksum { 4 } else { 0 };
    }
}

/// Goes from block to block; where the last one ends, or `None` where that cannot be found out.
fn skip_blocks(file: &dyn ReadAt, mut at: u64, left: &mut u32) -> io::Result<Option<u64>> {
    while *left > 0 {
        *left -= 1;
        let mut bytes = [0; 4];
        if fill(file, at, &mut bytes[..3])? < 3 {
            return Ok(None);
        }
        let block = u32::from_le_bytes(bytes);
        let size = match block >> 1 & 3 {
            // A byte that is repeated.
            1 => 1,
            3 => return Ok(None),
            _ => u64::from(block >> 3),
        };
        at += 3 + size;
        if block & 1 != 0 {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// As many bytes as there are.
pub(super) fn fill(file: &dyn ReadAt, at: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(at.saturating_add(done as u64), &mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n.min(buf.len() - done),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Bytes, Head};

    fn packed(bytes: &[u8], state: bool) -> Vec<u8> {
        let mut made = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        if state {
            made.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
        }
        made.include_contentsize(state).unwrap();
        made.include_checksum(true).unwrap();
        io::Write::write_all(&mut made, bytes).unwrap();
        made.finish().unwrap()
    }

    fn look(file: &[u8]) -> (u64, bool) {
        let seen = frames(&Bytes(file)).unwrap();
        (seen.stated, seen.exact)
    }

    #[test]
    fn sizes_of_frames_add_up_and_are_exact_only_when_every_frame_states_its_own() {
        let noise: Vec<u8> =
            (0..700_001_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let (a, b) = (packed(&noise, true), packed(&noise[..300], true));
        let mute = packed(&noise, false);
        let skip = [0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];
        for (parts, want) in [
            (vec![&a[..]], (700_001, true)),
            (vec![&a, &b], (700_301, true)),
            (vec![&skip, &a, &skip, &b, &skip], (700_301, true)),
            (vec![&mute], (0, false)),
            (vec![&a, &mute], (700_001, false)),
            (vec![&mute, &b], (300, false)),
            (vec![&a, b"junk"], (700_001, false)),
            (vec![&a, &[0; 20]], (700_001, false)),
            (vec![&skip], (0, true)),
            (vec![b"junk"], (0, false)),
            (vec![b""], (0, false)),
        ] {
            assert_eq!(look(&parts.concat()), want, "{} parts", parts.len());
        }
        let head = frames(&Head(&a[..100])).unwrap();
        assert_eq!((head.stated, head.exact), (700_001, false));
    }

    #[test]
    fn no_cut_is_taken_for_the_whole_and_no_flip_panics() {
        let file = packed(&[7; 5000], true);
        for len in 0..file.len() {
            assert!(!look(&file[..len]).1, "{len}");
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut bad = file.clone();
                bad[at] ^= 1 << bit;
                frames(&Bytes(&bad)).unwrap();
            }
        }
    }

    #[test]
    fn a_window_is_read_from_either_field() {
        let with = |bytes: &[u8]| header(&[&MAGIC[..], bytes].concat()).map(|header| header.window);
        // Exponent 31 - 10 in the upper 5 bits.
        assert_eq!(with(&[0, 21 << 3]), Some(1 << 31));
        assert_eq!(with(&[0, 17 << 3 | 4]), Some((1 << 27) + (1 << 26)));
        // A single segment: the content is the window.
        assert_eq!(with(&[0xA0, 0, 0, 0, 16]), Some(1 << 28));
        assert_eq!(with(&[0xA0, 0, 0]), None);
        assert_eq!(with(&[8, 0]), None, "a reserved bit");
        let long = [&MAGIC[..], &[0, 21 << 3]].concat();
        let limits = |memory| Limits { memory, threading: 0, threads: 1 };
        assert!(
            matches!(admit(&long, limits(1 << 27)), Err(Fault::Memory(Some(n))) if n == 1 << 31)
        );
        assert!(admit(&long, limits(1 << 31)).is_ok());
    }
}
