//! Containers by their magic numbers: compressed streams, archives, virtual disks, programs.
//!
//! Owns: the table of magic numbers and the few formats that need more. Must not decode and
//! must not know suffixes. Specifications: RFC 1952, the xz, zstd and lz4 frame formats, lzma.txt
//! of LZMA Utils, POSIX ustar; QEMU's docs/interop and the vendors' papers for the disks.

use super::bytes::{has, le16, le32, le64};
use super::kind::{Archive, Codec, ImageKind, VirtualDisk};

const STRONG: &[(usize, &[u8], ImageKind)] = &[
    (0, b"\x1F\x8B\x08", ImageKind::Compressed(Codec::Gzip)),
    (0, b"\xFD7zXZ\0", ImageKind::Compressed(Codec::Xz)),
    (0, b"\x28\xB5\x2F\xFD", ImageKind::Compressed(Codec::Zstd)),
    (0, b"\x04\x22\x4D\x18", ImageKind::Compressed(Codec::Lz4)),
    (0, b"\x02\x21\x4C\x18", ImageKind::Compressed(Codec::Lz4)),
    (0, b"LZIP\x01", ImageKind::Compressed(Codec::Lzip)),
    (0, b"PK\x03\x04", ImageKind::Archive(Archive::Zip)),
    (0, b"PK\x05\x06", ImageKind::Archive(Archive::Zip)),
    (0, b"7z\xBC\xAF\x27\x1C", ImageKind::Archive(Archive::SevenZip)),
    (0, b"Rar!\x1A\x07", ImageKind::Archive(Archive::Rar)),
    (0, b"MSCF\0\0\0\0", ImageKind::Archive(Archive::Cab)),
    (0, b"MSWIM\0\0\0", ImageKind::Archive(Archive::Wim)),
    (0, b"!<arch>\n", ImageKind::Archive(Archive::Ar)),
    (0, b"\xED\xAB\xEE\xDB", ImageKind::Archive(Archive::Rpm)),
    (0, b"QFI\xFB", ImageKind::VirtualDisk(VirtualDisk::Qcow2)),
    (0, b"KDMV", ImageKind::VirtualDisk(VirtualDisk::Vmdk)),
    (0, b"COWD", ImageKind::VirtualDisk(VirtualDisk::Vmdk)),
    (0, b"# Disk DescriptorFile", ImageKind::VirtualDisk(VirtualDisk::Vmdk)),
    (0, b"vhdxfile", ImageKind::VirtualDisk(VirtualDisk::Vhdx)),
    (0, b"conectix", ImageKind::VirtualDisk(VirtualDisk::Vhd)),
    (64, b"\x7F\x10\xDA\xBE", ImageKind::VirtualDisk(VirtualDisk::Vdi)),
    (0, b"\x3A\xFF\x26\xED", ImageKind::VirtualDisk(VirtualDisk::AndroidSparse)),
];

/// Magic numbers long enough to trust before any look at sectors.
pub(crate) fn strong(head: &[u8]) -> Option<ImageKind> {
    if bzip2(head) {
        return Some(ImageKind::Compressed(Codec::Bzip2));
    }
    if let Some(codec) = skippable(head) {
        return Some(ImageKind::Compressed(codec));
    }
    STRONG.iter().find(|(at, magic, _)| has(head, *at, magic)).map(|(_, _, kind)| *kind)
}

/// Marks that count only when the sectors hold no table and no filesystem.
pub(crate) fn weak(head: &[u8], size: Option<u64>) -> Option<ImageKind> {
    let elf = has(head, 0, b"\x7FELF");
    let pe = has(head, 0, b"MZ")
        && le32(head, 0x3C)
            .and_then(|at| usize::try_from(at).ok())
            .is_some_and(|at| has(head, at, b"PE\0\0"));
    if elf || pe {
        return Some(ImageKind::Program);
    }
    if tar(head) {
        return Some(ImageKind::Archive(Archive::Tar));
    }
    if has(head, 0, b"\x1F\x9D") {
        return Some(ImageKind::Compressed(Codec::Compress));
    }
    lzma(head, size).then_some(ImageKind::Compressed(Codec::Lzma))
}

/// `BZh`, level, then the magic of a block or of the end of an empty stream.
fn bzip2(head: &[u8]) -> bool {
    has(head, 0, b"BZh")
        && head.get(3).is_some_and(|level| (b'1'..=b'9').contains(level))
        && (has(head, 4, b"1AY&SY") || has(head, 4, b"\x17\x72\x45\x38\x50\x90"))
}

/// Skippable frames (0x184D2A50 to 5F) belong to zstd and lz4; the frame behind them tells
/// which. One that reaches past the head is taken for zstd, as pzstd writes them.
fn skippable(head: &[u8]) -> Option<Codec> {
    let mut at = 0_usize;
    for _ in 0..64 {
        if le32(head, at).is_none_or(|magic| magic & 0xFFFF_FFF0 != 0x184D_2A50) {
            break;
        }
        let len = usize::try_from(le32(head, at.checked_add(4)?)?).ok()?;
        at = at.checked_add(8)?.checked_add(len)?;
    }
    match at {
        0 => None,
        _ if has(head, at, b"\x04\x22\x4D\x18") => Some(Codec::Lz4),
        _ => Some(Codec::Zstd),
    }
}

/// "ustar" and the checksum of the header, which GNU and POSIX share.
fn tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512).filter(|header| has(header, 257, b"ustar")) else {
        return false;
    };
    let field = header[148..156].iter().skip_while(|b| **b == b' ');
    let stated = field
        .take_while(|b| (b'0'..=b'7').contains(b))
        .fold(0_u32, |value, b| value.wrapping_mul(8).wrapping_add(u32::from(b - b'0')));
    let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
    let field: u32 = header[148..156].iter().map(|&b| u32::from(b)).sum();
    sum - field + 8 * u32::from(b' ') == stated
}

/// No magic: the usual properties byte, a dictionary of 2^n or 2^n + 2^(n-1), and a plausible
/// size, as `lzma_alone_decoder` of liblzma insists.
fn lzma(head: &[u8], size: Option<u64>) -> bool {
    let (Some(dictionary), Some(length)) = (le32(head, 1), le64(head, 5)) else {
        return false;
    };
    let top = 1_u32.checked_shl(31 - dictionary.leading_zeros().min(31)).unwrap_or(0);
    let round = dictionary == top || dictionary == top | top >> 1;
    let plausible = length == u64::MAX || (length < 1 << 38 && length > 0);
    let longer = size.is_none_or(|size| size > 13);
    // The first byte of the range coder is always zero.
    let coder = head.get(13) == Some(&0);
    head.first() == Some(&0x5D) && dictionary >= 4096 && round && plausible && longer && coder
}

/// What the last 512 bytes say: fixed VHD and DMG have their header there.
pub(crate) fn trailer(last: &[u8]) -> Option<VirtualDisk> {
    if has(last, 0, b"conectix") {
        Some(VirtualDisk::Vhd)
    } else if has(last, 0, b"koly") && has(last, 8, &[0, 0, 2, 0]) {
        Some(VirtualDisk::Dmg)
    } else {
        None
    }
}

/// A `PGP` signature packet (RFC 4880, 4.2 and 5.2) that is all there is.
pub(crate) fn binary_signature(head: &[u8], size: Option<u64>) -> bool {
    let Some(&tag) = head.first() else {
        return false;
    };
    let (body, len) = match tag {
        0x88 => (2, head.get(1).copied().map(u64::from)),
        0x89 => (3, le16(head, 1).map(|len| u64::from(len.swap_bytes()))),
        0xC2 => match (head.get(1).copied(), head.get(2).copied()) {
            (Some(short @ 0..=191), _) => (2, Some(u64::from(short))),
            (Some(high @ 192..=223), Some(low)) => {
                (3, Some((u64::from(high) - 192) * 256 + u64::from(low) + 192))
            }
            _ => return false,
        },
        _ => return false,
    };
    let version = head.get(body).is_some_and(|version| (3..=6).contains(version));
    let small = size.unwrap_or(head.len() as u64) < 1 << 16;
    let fits = len.is_some_and(|len| len > 8 && size.is_none_or(|s| s >= body as u64 + len));
    version && small && fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_archives_and_disks() {
        let skip = [&[0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 9, 9, 9, 9][..]].concat();
        let zstd = [&skip[..], b"\x28\xB5\x2F\xFD"].concat();
        let lz4 = [&skip[..], b"\x04\x22\x4D\x18"].concat();
        for (head, want) in [
            (&b"\x1F\x8B\x08\0"[..], Some(ImageKind::Compressed(Codec::Gzip))),
            (b"\xFD7zXZ\0\0\x04", Some(ImageKind::Compressed(Codec::Xz))),
            (b"BZh91AY&SY", Some(ImageKind::Compressed(Codec::Bzip2))),
            (b"BZh91AYxSY", None),
            (&zstd, Some(ImageKind::Compressed(Codec::Zstd))),
            (&lz4, Some(ImageKind::Compressed(Codec::Lz4))),
            (b"PK\x03\x04", Some(ImageKind::Archive(Archive::Zip))),
            (b"7z\xBC\xAF\x27\x1C", Some(ImageKind::Archive(Archive::SevenZip))),
            (b"QFI\xFB", Some(ImageKind::VirtualDisk(VirtualDisk::Qcow2))),
            (b"PK", None),
            (b"", None),
        ] {
            assert_eq!(strong(head), want, "{head:?}");
        }
    }

    #[test]
    fn lzma_is_a_guess_with_conditions() {
        let good = [&[0x5D, 0, 0, 0x80, 0][..], &[0xFF; 8], &[0, 1, 2]].concat();
        assert!(lzma(&good, Some(100)));
        for (at, value) in [(0, 0x5C), (2, 7), (13, 1)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(!lzma(&bad, Some(100)), "byte {at}");
        }
        assert!(!lzma(&[0; 64], None));
    }

    #[test]
    fn tar_needs_its_checksum() {
        let mut header = vec![0_u8; 512];
        header[257..262].copy_from_slice(b"ustar");
        assert!(!tar(&header));
        let sum = header.iter().map(|&b| u32::from(b)).sum::<u32>() + 8 * 32;
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert!(tar(&header));
    }

    #[test]
    fn signatures_are_small_and_whole() {
        let packet = [&[0x89, 0x02, 0x33, 4, 0][..], &[7; 0x231]].concat();
        assert!(binary_signature(&packet, Some(packet.len() as u64)));
        assert!(!binary_signature(&packet, Some(100)), "shorter than it says");
        assert!(!binary_signature(&packet, Some(1 << 30)), "an image");
        assert!(!binary_signature(&[0x88, 0x5E, 9], Some(96)), "version");
    }
}
