//! Whole looks at small images, and the promise that no image makes them panic.

use super::sample::{self, FatSpec};
use super::*;

fn kind(bytes: &[u8]) -> ImageKind {
    inspect(&Bytes(bytes), "image").unwrap().kind
}

#[test]
fn kinds_by_content() {
    let fat = sample::fat(&FatSpec::default());
    let iso = sample::iso(&[]);
    let mut hybrid = iso.clone();
    sample::mbr(&mut hybrid, &[(0x80, 0, 0, 256)]);
    let mut disk = vec![0; 2 << 20];
    sample::gpt(&mut disk, 512, &[([1; 16], 64, 100, "a")]);
    let mut windows = sample::udf(2048, "WIN");
    sample::put(&mut windows, 280 * 2048, b"\x08bootmgr...\x08Sources");
    let mut unused_table = iso.clone();
    sample::mbr(&mut unused_table, &[]);
    for (bytes, want) in [
        (&b""[..], ImageKind::Empty),
        (&vec![0; 5000], ImageKind::BlankZeros),
        (&fat, ImageKind::Filesystem(FsKind::Fat12)),
        (&iso, ImageKind::PlainIso),
        (&unused_table, ImageKind::PlainIso),
        (&hybrid, ImageKind::HybridIso),
        (&disk, ImageKind::DiskImage),
        (&windows, ImageKind::WindowsIso),
        (&sample::udf(2048, "X"), ImageKind::Filesystem(FsKind::Udf)),
        (&sample::ntfs(), ImageKind::Filesystem(FsKind::Ntfs)),
        (b"<html>", ImageKind::HtmlPage),
        (b"\x1F\x8B\x08\0", ImageKind::Compressed(Codec::Gzip)),
        (b"\x01\x02\x03", ImageKind::Unknown),
    ] {
        assert_eq!(kind(bytes), want);
    }
}

#[test]
fn the_advice_asks_before_tiny_images() {
    let mut small = sample::iso(&[]);
    assert_eq!(inspect(&Bytes(&small), "x").unwrap().advice(), Advice::Confirm);
    small.resize(1 << 20, 0);
    assert_eq!(inspect(&Bytes(&small), "x").unwrap().advice(), Advice::Write);
}

#[test]
fn labels_are_safe_to_print() {
    let mut image = sample::iso(&[]);
    sample::put(&mut image, 16 * 2048 + 40, b"A\x1B[31mB");
    assert_eq!(inspect(&Bytes(&image), "x").unwrap().label.as_deref(), Some("A\\u{1b}[31mBCD"));
}

#[test]
fn a_read_error_is_passed_on() {
    struct Broken;
    impl ReadAt for Broken {
        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("bad sector"))
        }
        fn size(&self) -> Option<u64> {
            Some(1 << 20)
        }
    }
    assert!(inspect(&Broken, "x").is_err());
    assert!(signatures(&Broken, 1 << 20, 512).is_err());
}

/// xorshift64*: the same images on every machine.
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
}

/// Images that together reach every parser, and the places in each that parsers read.
fn corpus() -> Vec<(Vec<u8>, Vec<usize>)> {
    let files = &["EFI/BOOT/BOOTX64.EFI", "EFI/BOOT/BOOTRISCV64.EFI"][..];
    let fat = |width, size| sample::fat(&FatSpec { width, size, files, code: b"\xFA\xFC" });
    let mut gpt = vec![0; 256 << 10];
    sample::gpt(&mut gpt, 512, &[([1; 16], 64, 400, "a")]);
    sample::put(&mut gpt, 64 * 512, &fat(FatWidth::Fat12, 100 << 10));
    let mut mbr = vec![0; 256 << 10];
    sample::mbr(&mut mbr, &[(0x80, 0x0C, 64, 200), (0, 0x0F, 300, 100)]);
    sample::put(&mut mbr, 64 * 512, &fat(FatWidth::Fat32, 100 << 10));
    sample::mbr(&mut mbr[300 * 512..], &[(0, 0x83, 10, 20), (0, 0x05, 20, 20)]);
    sample::put(&mut mbr, 310 * 512, &sample::ext(64, 4, 0x2C2, 3));
    let mut hybrid = sample::iso(&["BOOTMGR.;1", "SOURCES"]);
    sample::mbr(&mut hybrid, &[(0x80, 0, 0, 256), (0, 0xEF, 100, 20)]);
    vec![
        (gpt, vec![446, 512, 1024, 64 * 512, 66 * 512, 511 * 512]),
        (mbr, vec![446, 64 * 512, 96 * 512, 97 * 512, 300 * 512 + 446, 312 * 512]),
        (hybrid, vec![446, 16 * 2048, 17 * 2048, 20 * 2048, 22 * 2048]),
        (sample::iso(&["BOOTMGR.;1", "SOURCES"]), vec![16 * 2048, 17 * 2048, 20 * 2048]),
        (sample::exfat(), vec![0, 64, 26 * 512, 24 * 512]),
        (sample::ntfs(), vec![0, 32, 4 * 4096 + 2048, 4 * 4096 + 2104, 4 * 4096 + 3072]),
        (sample::udf(512, "x"), vec![32_768, 34_816, 256 * 512, 257 * 512, 258 * 512]),
        (fat(FatWidth::Fat16, 2_400 << 10), vec![0, 512, 20 * 512]),
        (sample::ext(64, 4, 0x2C2, 3), vec![1024, 1024 + 0x50, 1024 + 0x100, 2048]),
    ]
}

#[test]
fn twenty_thousand_mutations_do_no_harm() {
    let corpus = corpus();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..20_000 {
        let (image, places) = &corpus[round % corpus.len()];
        let mut image = image.clone();
        for _ in 0..=random.below(6) {
            let near = places[random.below(places.len())] + random.below(160);
            let at = if random.below(8) == 0 { random.below(image.len()) } else { near };
            let Some(byte) = image.get_mut(at) else {
                continue;
            };
            let value = random.next().to_le_bytes()[0];
            *byte = match random.below(4) {
                0 => 0xFF,
                1 => 0,
                2 => *byte ^ (1 << (value & 7)),
                _ => value,
            };
        }
        // A third keeps a valid header checksum, so that the fields behind it are reached.
        if round % 3 == 0 && image.get(512..520) == Some(b"EFI PART") {
            sample::seal_gpt_header(&mut image[512..1024]);
        }
        let len = if random.below(4) == 0 { random.below(image.len()) } else { image.len() };
        let bytes = &image[..len];
        let info = inspect(&Bytes(bytes), "x.img").unwrap();
        let covered = describe_range(&info, 0..len as u64 + 1);
        assert_eq!(covered.last().unwrap().range.end, len as u64 + 1);
        assert!(sector_size_conflict(&info, 4096).is_none_or(|c| !c.text.is_empty()));
        signatures(&Bytes(bytes), len as u64, 512).unwrap();
        if round % 4 == 0 {
            inspect(&Head(bytes), "").unwrap();
        }
    }
}
