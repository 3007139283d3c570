//! Any bytes as a WIM: its editions can be shown, and parts that it is cut into are no larger than
//! they may be, hold each of its bytes at most once, and are read again as parts.
//!
//! The first four bytes of an input are the limit of a part, the rest is the file.
#![no_main]

use std::io;

use libfuzzer_sys::fuzz_target;
use mediawriter::image::{Bytes, ReadAt};
use mediawriter::windows::wim::{Part, Piece, Refusal, Wim};

/// The bytes of a part.
struct Cut<'a> {
    part: &'a Part,
    file: &'a [u8],
}

impl ReadAt for Cut<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut before = 0;
        for piece in &self.part.pieces {
            let bytes = match piece {
                Piece::Bytes(bytes) => bytes.as_slice(),
                Piece::Original(range) => &self.file[range.start as usize..range.end as usize],
            };
            let end = before + bytes.len() as u64;
            if offset < end {
                return Bytes(bytes).read_at(offset - before, buf);
            }
            before = end;
        }
        Ok(0)
    }

    fn size(&self) -> Option<u64> {
        Some(self.part.len)
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((limit, file)) = input.split_first_chunk::<4>() else { return };
    let limit = u64::from(u32::from_le_bytes(*limit));
    let size = file.len() as u64;
    let Ok(wim) = Wim::load(&Bytes(file), size) else { return };
    for edition in wim.editions().unwrap_or_default() {
        let shown = [&edition.name, &edition.build, &edition.arch];
        assert!(shown.into_iter().chain(&edition.languages).all(|t| !t.contains(char::is_control)));
    }
    let parts = match wim.split(limit, [9; 16]) {
        Ok(parts) => parts,
        Err(Refusal::Solid) => {
            assert!(wim.is_solid());
            return;
        }
        Err(_) => return,
    };
    let mut taken = 0;
    for (part, number) in parts.iter().zip(1_u16..) {
        assert!(part.len <= limit, "{} bytes, {limit} are allowed", part.len);
        let mut len = 0;
        for piece in &part.pieces {
            len += match piece {
                Piece::Bytes(bytes) => bytes.len() as u64,
                Piece::Original(range) => {
                    assert!(range.start < range.end && range.end <= size);
                    taken += range.end - range.start;
                    range.end - range.start
                }
            };
        }
        assert_eq!(len, part.len);
        let again = Wim::load(&Cut { part, file }, part.len).expect("a part is a WIM");
        assert_eq!(again.images(), wim.images());
        assert_eq!(again.editions(), wim.editions());
        let refused = again.split(u64::MAX, [0; 16]).err();
        if parts.len() > 1 {
            let parts = parts.len() as u16;
            assert_eq!(refused, Some(Refusal::AlreadySplit { part: number, parts }));
        }
    }
    assert!(taken <= size, "bytes are in more than one part");
});
