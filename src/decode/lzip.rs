//! Trailers of lzip members (lzip manual, "File format"): 4 bytes CRC, 8 bytes size of the data,
//! 8 bytes size of the member. Read from the end of the file to its start.

use std::io;

use super::zstd::fill;
use crate::image::ReadAt;

/// Header (6), at least one byte of range coder start and end mark, trailer (20).
const LEAST: u64 = 6 + 10 + 20;
/// Members in one file: plzip makes one per 16 MiB and more.
const MEMBERS: u32 = 1 << 20;

/// Bytes of the image; `None` when the file is not members from its first to its last byte.
pub(super) fn size(file: &dyn ReadAt) -> io::Result<Option<u64>> {
    let Some(mut end) = file.size() else { return Ok(None) };
    let mut total = 0_u64;
    for _ in 0..MEMBERS {
        let mut sizes = [0; 16];
        let Some(at) = end.checked_sub(16) else { return Ok(None) };
        if fill(file, at, &mut sizes)? < sizes.len() {
            return Ok(None);
        }
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let (data, member) = (number(&sizes[..8]), number(&sizes[8..]));
        let start = end.checked_sub(member).filter(|_| member >= LEAST);
        let (Some(start), Some(sum)) = (start, total.checked_add(data)) else { return Ok(None) };
        let mut magic = [0; 5];
        if fill(file, start, &mut magic)? < magic.len() || magic != *b"LZIP\x01" {
            return Ok(None);
        }
        (end, total) = (start, sum);
        if end == 0 {
            return Ok(Some(total));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Bytes;

    #[test]
    fn members_add_up_and_anything_else_has_no_size() {
        let member = |data: u64| {
            let mut bytes = b"LZIP\x01\x0C".to_vec();
            bytes.extend_from_slice(&[1; 30]);
            bytes.extend_from_slice(&data.to_le_bytes());
            bytes.extend_from_slice(&52_u64.to_le_bytes());
            bytes
        };
        let two = [member(1000), member(5)].concat();
        assert_eq!(size(&Bytes(&two)).unwrap(), Some(1005));
        for len in (0..two.len()).filter(|len| *len != 52) {
            assert_eq!(size(&Bytes(&two[..len])).unwrap(), None, "{len}");
        }
        let huge = [member(u64::MAX), member(1)].concat();
        assert_eq!(size(&Bytes(&huge)).unwrap(), None);
    }
}
