//! Writes a block map, version 2.0 of bmap-tools, as `source::bmap` reads it. Pure.

use std::fmt::Write as _;

use crate::digest::Hasher;
use crate::digest::ranges::Mapped;

/// Bytes of a block in maps that are written here.
pub const BLOCK: u64 = 4096;

/// The map of an image of `size` bytes. Ranges begin at a multiple of [`BLOCK`], end at one or with
/// the image, and have their SHA-256.
pub fn xml(size: u64, ranges: &[Mapped]) -> String {
    let blocks = |bytes: u64| bytes.div_ceil(BLOCK);
    let mapped: u64 = ranges.iter().map(|r| blocks(r.bytes.end - r.bytes.start)).sum();
    let blank = "0".repeat(64);
    let mut text = format!(
        "<?xml version=\"1.0\" ?>\n\
         <bmap version=\"2.0\">\n\
         \x20   <ImageSize> {size} </ImageSize>\n\
         \x20   <BlockSize> {BLOCK} </BlockSize>\n\
         \x20   <BlocksCount> {} </BlocksCount>\n\
         \x20   <MappedBlocksCount> {mapped} </MappedBlocksCount>\n\
         \x20   <ChecksumType> sha256 </ChecksumType>\n\
         \x20   <BmapFileChecksum> {blank} </BmapFileChecksum>\n\
         \x20   <BlockMap>\n",
        blocks(size),
    );
    for Mapped { bytes, digest } in ranges {
        let (first, last) = (bytes.start / BLOCK, blocks(bytes.end).saturating_sub(1));
        let digest = digest.as_deref().unwrap_or_default();
        // A String takes every write.
        writeln!(text, "        <Range chksum=\"{digest}\"> {first}-{last} </Range>").ok();
    }
    text.push_str("    </BlockMap>\n</bmap>\n");
    // The checksum is over the file with zeros in its place.
    let mut hasher = Hasher::default();
    hasher.update(text.as_bytes());
    text.replacen(&blank, &hasher.finish().to_string(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::bmap::parse;

    #[test]
    fn our_own_reader_takes_it_and_sees_a_change() {
        let digest = |byte: u8| Some(format!("{byte:02x}").repeat(32));
        let ranges = vec![
            Mapped { bytes: 0..8192, digest: digest(1) },
            Mapped { bytes: 8192..12288, digest: digest(2) },
            Mapped { bytes: 1 << 20..(1 << 20) + 512, digest: digest(3) },
        ];
        let text = xml((1 << 20) + 512, &ranges);
        let map = parse(&text).unwrap();
        assert_eq!((map.image_size, map.block_size), ((1 << 20) + 512, 4096));
        assert_eq!(map.ranges, ranges);
        assert!(map.proves());
        let changed = text.replace("0-1 ", "0-2 ");
        assert_ne!(changed, text);
        parse(&changed).unwrap_err();
    }
}
