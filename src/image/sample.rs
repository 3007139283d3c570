//! Small images for tests, built field by field.
//!
//! Owns: nothing that ships. Each builder writes only the fields that its format needs, so a
//! test reads as the specification does.

use super::fs::FatWidth;
use crc32fast::hash as crc32;

pub(crate) fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// What a FAT image should hold.
pub(crate) struct FatSpec<'a> {
    pub(crate) width: FatWidth,
    pub(crate) size: usize,
    pub(crate) files: &'a [&'a str],
    /// The code of the boot record, behind the parameter block.
    pub(crate) code: &'a [u8],
}

impl Default for FatSpec<'_> {
    fn default() -> Self {
        Self { width: FatWidth::Fat12, size: 1 << 20, files: &[], code: &[] }
    }
}

struct FatImage {
    bytes: Vec<u8>,
    width: FatWidth,
    fat: usize,
    data: usize,
    root: usize,
    next: usize,
}

/// One sector per cluster, one table, directories of one cluster, root at cluster 2 on FAT32.
pub(crate) fn fat(spec: &FatSpec<'_>) -> Vec<u8> {
    let wide = spec.width == FatWidth::Fat32;
    let sectors = spec.size / 512;
    let entry_bits = match spec.width {
        FatWidth::Fat12 => 12,
        FatWidth::Fat16 => 16,
        FatWidth::Fat32 => 32,
    };
    let fat_sectors = ((sectors + 2) * entry_bits / 8).div_ceil(512);
    let reserved = if wide { 32 } else { 1 };
    let root = reserved + fat_sectors;
    let mut b = vec![0; spec.size];
    put(&mut b, 0, if wide { b"\xEB\x58\x90mkfs.fat" } else { b"\xEB\x3C\x90mkfs.fat" });
    put(&mut b, 11, &[0, 2, 1, u8::try_from(reserved).unwrap(), 0, 1]);
    put(&mut b, 17, if wide { &[0, 0] } else { &[64, 0] });
    put(&mut b, 21, &[0xF8]);
    put(&mut b, 32, &u32::try_from(sectors).unwrap().to_le_bytes());
    let fat_len = u32::try_from(fat_sectors).unwrap().to_le_bytes();
    let extended = if wide { 64 } else { 36 };
    if wide {
        put(&mut b, 36, &fat_len);
        put(&mut b, 44, &[2, 0, 0, 0, 1, 0, 6, 0]);
    } else {
        put(&mut b, 22, &fat_len[..2]);
    }
    put(&mut b, extended + 2, &[0x29, 0xCD, 0xAB, 0x34, 0x12]);
    put(&mut b, extended + 7, b"BPBLABEL   ");
    put(&mut b, if wide { 0x5A } else { 0x3E }, spec.code);
    put(&mut b, 510, &[0x55, 0xAA]);
    let data = if wide { root } else { root + 4 };
    let mut image = FatImage {
        bytes: b,
        width: spec.width,
        fat: reserved * 512,
        data: data * 512,
        root: root * 512,
        next: if wide { 3 } else { 2 },
    };
    image.link(2);
    put(&mut image.bytes, image.root, b"ROOTLABEL  \x08");
    for path in spec.files {
        image.add(path);
    }
    image.bytes
}

impl FatImage {
    /// Marks a cluster as the last of its chain.
    fn link(&mut self, cluster: usize) {
        match self.width {
            FatWidth::Fat12 => {
                let at = self.fat + cluster + cluster / 2;
                if cluster % 2 == 1 {
                    self.bytes[at] |= 0xF0;
                    self.bytes[at + 1] = 0xFF;
                } else {
                    self.bytes[at] = 0xFF;
                    self.bytes[at + 1] |= 0x0F;
                }
            }
            FatWidth::Fat16 => put(&mut self.bytes, self.fat + 2 * cluster, &[0xFF; 2]),
            FatWidth::Fat32 => put(&mut self.bytes, self.fat + 4 * cluster, &[0xFF; 4]),
        }
    }

    fn add(&mut self, path: &str) {
        let mut directory = self.root;
        let parts: Vec<&str> = path.split('/').collect();
        for (i, part) in parts.iter().enumerate() {
            let last = i + 1 == parts.len();
            directory = self.child(directory, part, !last);
        }
    }

    /// Finds or makes an entry; where its cluster is.
    fn child(&mut self, directory: usize, name: &str, is_directory: bool) -> usize {
        let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
        let long = stem.len() > 8 || extension.len() > 3;
        let stem = if long { format!("{}~1", &stem[..6]) } else { stem.to_owned() };
        let short = format!("{stem:<8}{extension:<3}").into_bytes();
        let mut at = directory;
        while self.bytes[at] != 0 {
            if self.bytes[at..at + 11] == short[..] {
                let cluster =
                    usize::from(self.bytes[at + 26]) + 256 * usize::from(self.bytes[at + 27]);
                return self.data + (cluster - 2) * 512;
            }
            at += 32;
        }
        if long {
            at = self.long(at, name, &short);
        }
        let cluster = self.next;
        self.next += 1;
        self.link(cluster);
        put(&mut self.bytes, at, &short);
        self.bytes[at + 11] = if is_directory { 0x10 } else { 0x20 };
        put(&mut self.bytes, at + 26, &u16::try_from(cluster).unwrap().to_le_bytes());
        self.data + (cluster - 2) * 512
    }

    fn long(&mut self, mut at: usize, name: &str, short: &[u8]) -> usize {
        let sum = short.iter().fold(0_u8, |sum, &b| sum.rotate_right(1).wrapping_add(b));
        let mut units: Vec<u16> = name.encode_utf16().chain([0]).collect();
        units.resize(units.len().div_ceil(13) * 13, 0xFFFF);
        let pieces: Vec<&[u16]> = units.chunks(13).collect();
        for (i, piece) in pieces.iter().enumerate().rev() {
            let number = u8::try_from(i + 1).unwrap();
            let last = if i + 1 == pieces.len() { 0x40 } else { 0 };
            let raw: Vec<u8> = piece.iter().flat_map(|u| u.to_le_bytes()).collect();
            put(&mut self.bytes, at, &[number | last]);
            put(&mut self.bytes, at + 1, &raw[..10]);
            put(&mut self.bytes, at + 11, &[0x0F, 0, sum]);
            put(&mut self.bytes, at + 14, &raw[10..22]);
            put(&mut self.bytes, at + 28, &raw[22..26]);
            at += 32;
        }
        at
    }
}

/// Entries: (status, type, first sector, sectors).
pub(crate) fn mbr(image: &mut [u8], entries: &[(u8, u8, u32, u32)]) {
    image[446..510].fill(0);
    for (i, (status, kind, first, count)) in entries.iter().enumerate() {
        let at = 446 + 16 * i;
        image[at] = *status;
        image[at + 4] = *kind;
        put(image, at + 8, &first.to_le_bytes());
        put(image, at + 12, &count.to_le_bytes());
    }
    put(image, 510, &[0x55, 0xAA]);
}

pub(crate) fn seal_gpt_header(sector: &mut [u8]) {
    sector[16..20].fill(0);
    let sum = crc32(&sector[..92]);
    put(sector, 16, &sum.to_le_bytes());
}

/// Protective MBR, both headers, 128 entries; entries: (type, first, last, name).
pub(crate) fn gpt(image: &mut [u8], sector: usize, entries: &[([u8; 16], u64, u64, &str)]) {
    let last = image.len() / sector - 1;
    mbr(image, &[(0, 0xEE, 1, u32::try_from(last).unwrap())]);
    let mut array = vec![0; 128 * 128];
    for (i, (kind, first, end, name)) in entries.iter().enumerate() {
        put(&mut array, i * 128, kind);
        put(&mut array, i * 128 + 16, &[7; 16]);
        put(&mut array, i * 128 + 32, &first.to_le_bytes());
        put(&mut array, i * 128 + 40, &end.to_le_bytes());
        let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        put(&mut array, i * 128 + 56, &units);
    }
    let array_sectors = array.len() / sector;
    for (here, other, table) in [(1, last, 2), (last, 1, last - array_sectors)] {
        let mut header = vec![0; 512];
        put(&mut header, 0, b"EFI PART\0\0\x01\0\x5C\0\0\0");
        put(&mut header, 24, &(here as u64).to_le_bytes());
        put(&mut header, 32, &(other as u64).to_le_bytes());
        put(&mut header, 56, &[0xD1; 16]);
        put(&mut header, 72, &(table as u64).to_le_bytes());
        put(&mut header, 80, &[128, 0, 0, 0, 128, 0, 0, 0]);
        put(&mut header, 88, &crc32(&array).to_le_bytes());
        seal_gpt_header(&mut header);
        put(image, here * sector, &header);
        put(image, table * sector, &array);
    }
}

/// ext with 1 KiB blocks and 8192 blocks per group; only the first 64 KiB are there.
pub(crate) fn ext(blocks: u32, compat: u32, incompat: u32, ro_compat: u32) -> Vec<u8> {
    let mut image = vec![0; 65_536];
    for (at, value) in [
        (0x04, blocks),
        (0x14, 1),
        (0x20, 8192),
        (0x28, 128),
        (0x4C, 1),
        (0x58, 256),
        (0x5C, compat),
        (0x60, incompat),
        (0x64, ro_compat),
    ] {
        put(&mut image, 1024 + at, &value.to_le_bytes());
    }
    put(&mut image, 1024 + 0x38, &[0x53, 0xEF]);
    put(&mut image, 1024 + 0x68, &[9; 16]);
    put(&mut image, 1024 + 0x78, b"extlabel");
    // Group 0: inode table at block 20.
    put(&mut image, 2048 + 8, &[20, 0, 0, 0]);
    image
}

/// 512-byte sectors and clusters, root at cluster 2 with label and bitmap.
pub(crate) fn exfat() -> Vec<u8> {
    let mut image = vec![0; 65_536];
    put(&mut image, 0, b"\xEB\x76\x90EXFAT   ");
    put(&mut image, 72, &128_u64.to_le_bytes());
    for (at, value) in [(80, 24_u32), (84, 2), (88, 26), (92, 102), (96, 2), (100, 0xCAFE_BABE)] {
        put(&mut image, at, &value.to_le_bytes());
    }
    put(&mut image, 108, &[9, 0, 1]);
    put(&mut image, 510, &[0x55, 0xAA]);
    put(&mut image, 24 * 512 + 8, &[0xFF; 4]);
    let root = 26 * 512;
    put(&mut image, root, &[0x83, 7]);
    let units: Vec<u8> = "exlabel".encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(&mut image, root + 2, &units);
    put(&mut image, root + 32, &[0x81]);
    put(&mut image, root + 52, &3_u32.to_le_bytes());
    put(&mut image, root + 56, &13_u64.to_le_bytes());
    image
}

/// 4 KiB clusters, records of 1 KiB, MFT at cluster 4, `$LogFile` at clusters 0x20 to 0x23.
pub(crate) fn ntfs() -> Vec<u8> {
    let mut image = vec![0; 65_536];
    put(&mut image, 0, b"\xEB\x52\x90NTFS    \0\x02\x08");
    put(&mut image, 40, &2047_u64.to_le_bytes());
    put(&mut image, 48, &4_u64.to_le_bytes());
    put(&mut image, 56, &8_u64.to_le_bytes());
    image[64] = 0xF6;
    put(&mut image, 72, &0x0123_4567_89AB_CDEF_u64.to_le_bytes());
    put(&mut image, 510, &[0x55, 0xAA]);
    let log = 4 * 4096 + 2 * 1024;
    put(&mut image, log, b"FILE");
    image[log + 20] = 56;
    put(&mut image, log + 56, &[0x80, 0, 0, 0, 72, 0, 0, 0, 1]);
    image[log + 56 + 32] = 64;
    put(&mut image, log + 56 + 64, &[0x11, 4, 0x20, 0]);
    let volume = 4 * 4096 + 3 * 1024;
    put(&mut image, volume, b"FILE");
    image[volume + 20] = 56;
    put(&mut image, volume + 56, &[0x60, 0, 0, 0, 40, 0, 0, 0, 0]);
    put(&mut image, volume + 56 + 16, &[14, 0, 0, 0, 24, 0]);
    let units: Vec<u8> = "ntlabel".encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(&mut image, volume + 56 + 24, &units);
    image
}

/// Primary descriptor, El Torito with BIOS and UEFI, a root directory of empty directories.
pub(crate) fn iso(names: &[&str]) -> Vec<u8> {
    let mut image = vec![0; 64 * 2048];
    let pvd = 16 * 2048;
    put(&mut image, pvd, b"\x01CD001\x01");
    put(&mut image, pvd + 40, b"SAMPLE_CD                       ");
    put(&mut image, pvd + 80, &64_u32.to_le_bytes());
    put(&mut image, pvd + 128, &2048_u16.to_le_bytes());
    put(&mut image, pvd + 156, &record(20, "\0"));
    put(&mut image, 17 * 2048, b"\0CD001\x01EL TORITO SPECIFICATION");
    put(&mut image, 17 * 2048 + 71, &22_u32.to_le_bytes());
    put(&mut image, 18 * 2048, b"\xFFCD001\x01");
    let mut at = 20 * 2048;
    for name in names {
        let record = record(30, name);
        put(&mut image, at, &record);
        at += record.len();
    }
    let catalogue = 22 * 2048;
    put(&mut image, catalogue, &[1]);
    put(&mut image, catalogue + 28, &0x55AA_u16.to_le_bytes());
    put(&mut image, catalogue + 30, &[0x55, 0xAA]);
    put(&mut image, catalogue + 32, &[0x88, 0, 0, 0, 0, 0, 4, 0, 40]);
    put(&mut image, catalogue + 64, &[0x91, 0xEF, 1]);
    put(&mut image, catalogue + 96, &[0x88, 0, 0, 0, 0, 0, 4, 0, 41]);
    image
}

fn record(lba: u32, name: &str) -> Vec<u8> {
    let len = (33 + name.len()).next_multiple_of(2);
    let mut out = vec![0; len];
    out[0] = u8::try_from(len).unwrap();
    put(&mut out, 2, &lba.to_le_bytes());
    put(&mut out, 10, &2048_u32.to_le_bytes());
    out[25] = 2;
    out[32] = u8::try_from(name.len()).unwrap();
    put(&mut out, 33, name.as_bytes());
    out
}

/// Recognition sequence, anchor, logical volume and partition descriptor.
pub(crate) fn udf(block: usize, label: &str) -> Vec<u8> {
    let mut image = vec![0; 300 * block];
    for (i, id) in [b"BEA01", b"NSR02", b"TEA01"].iter().enumerate() {
        put(&mut image, 32_768 + 2048 * i + 1, *id);
    }
    let blocks = u32::try_from(image.len() / block).unwrap();
    let mut tagged = |kind: u8, lba: usize, fields: &[(usize, &[u8])]| {
        let at = lba * block;
        for (field, bytes) in fields {
            put(&mut image, at + field, bytes);
        }
        image[at] = kind;
        put(&mut image, at + 12, &u32::try_from(lba).unwrap().to_le_bytes());
        image[at + 4] = 0;
        let sum = image[at..at + 16].iter().fold(0_u8, |sum, &b| sum.wrapping_add(b));
        image[at + 4] = sum;
    };
    // Behind the anchor, so that no block size puts the sequence over the recognition area.
    let len = u32::try_from(4 * block).unwrap().to_le_bytes();
    tagged(2, 256, &[(16, &len), (20, &257_u32.to_le_bytes())]);
    let mut name = vec![0; 128];
    put(&mut name, 0, &[8]);
    put(&mut name, 1, label.as_bytes());
    name[127] = u8::try_from(label.len() + 1).unwrap();
    tagged(6, 257, &[(84, &name)]);
    tagged(5, 258, &[(188, &280_u32.to_le_bytes()), (192, &(blocks - 280).to_le_bytes())]);
    tagged(8, 259, &[]);
    image
}
