//! GUID partition tables that are made, renamed and moved here, read by sgdisk and sfdisk; and
//! theirs, written again to the byte.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;

use mediawriter::image::FileImage;
use mediawriter::image::gpt::{Entry, Gpt, name, protect, protective, version_4};
use serde_json::Value;

use crate::lab::{LoopDev, MIB, feed, find, lab_has, sh};

const LINUX: [u8; 16] = [
    0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79, 0x3D, 0x69, 0xD8, 0x47, 0x7D, 0xE4,
];

fn entries() -> Vec<Entry> {
    let entry = |at: u8, first: u64, last: u64, attributes: u64, text: &str| Entry {
        kind: LINUX,
        id: version_4([at; 16]),
        first,
        last,
        attributes,
        name: name(text),
    };
    vec![
        entry(1, 256, 511, 0, "first"),
        entry(2, 512, 512, 1 << 2, "Gr\u{fc}n, one sector"),
        entry(3, 600, 1500, 1 << 63 | 1, "thirty-six units of UTF-16 are shown"),
    ]
}

fn write(device: &LoopDev, sector: u32, parts: impl IntoIterator<Item = (u64, Vec<u8>)>) {
    let file = OpenOptions::new().write(true).open(&device.device).unwrap();
    for (lba, bytes) in parts {
        file.write_all_at(&bytes, lba * u64::from(sector)).unwrap();
    }
    file.sync_all().unwrap();
}

fn both(gpt: &Gpt) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let array = gpt.header.other_lba - gpt.array_sectors();
    gpt.own().into_iter().chain(gpt.other(array))
}

fn read(device: &LoopDev, lba: u64, sector: u32) -> Gpt {
    let image = FileImage::new(File::open(&device.device).unwrap()).unwrap();
    Gpt::of(&image, lba, sector).unwrap().unwrap()
}

/// A GUID as sfdisk prints it.
fn text(guid: [u8; 16]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let digits = order.map(|at| format!("{:02X}", guid[at])).concat();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

/// Both programs are content, and sfdisk lists what the table has.
fn judged(device: &LoopDev, gpt: &Gpt) {
    let said = sh("sgdisk", &["-v", &device.device]);
    assert!(said.contains("No problems found"), "{said}");
    let said = sh("sfdisk", &["--verify", &device.device]);
    assert!(said.contains("No errors detected"), "{said}");
    let table: Value = serde_json::from_str(&sh("sfdisk", &["--json", &device.device])).unwrap();
    let table = &table["partitiontable"];
    assert_eq!(table["id"], text(gpt.header.disk));
    assert_eq!(
        (&table["firstlba"], &table["lastlba"]),
        (&gpt.header.first_usable.into(), &gpt.header.last_usable.into())
    );
    let listed = table["partitions"].as_array().unwrap();
    assert_eq!(listed.len(), gpt.entries().count());
    for (seen, (_, entry)) in listed.iter().zip(gpt.entries()) {
        assert_eq!(seen["uuid"], text(entry.id), "{seen}");
        assert_eq!(seen["type"], text(entry.kind), "{seen}");
        assert_eq!(seen["start"], entry.first, "{seen}");
        assert_eq!(seen["size"], entry.last - entry.first + 1, "{seen}");
        assert_eq!(name(seen["name"].as_str().unwrap_or("")), entry.name, "{seen}");
        let attributes = seen["attrs"].as_str().unwrap_or("");
        for (bit, word) in [(0, "RequiredPartition"), (2, "LegacyBIOSBootable"), (63, "GUID:63")] {
            assert_eq!(attributes.contains(word), entry.attributes >> bit & 1 == 1, "{seen}");
        }
    }
}

#[test]
fn tables_that_are_written_renamed_and_moved_are_what_sgdisk_and_sfdisk_read() {
    if !lab_has(&["losetup", "sgdisk", "sfdisk"]) {
        return;
    }
    for sector in [512, 4096] {
        let device = LoopDev::with(16 * MIB, &["-b", &sector.to_string()]);
        let sectors = 16 * MIB / u64::from(sector);
        // As on a medium of half the size, before it is moved to the end of this one.
        for on in [sectors, sectors / 2] {
            let mut gpt = Gpt::new(on, sector, version_4([9; 16]), &entries()).unwrap();
            let mut mbr = protective(on, sector);
            if on < sectors {
                gpt.rename(|number, _| version_4([u8::try_from(number).unwrap() | 0x40; 16]));
                gpt.header.disk = version_4([8; 16]);
                assert_eq!(gpt.end_at(sectors), Some(sectors - on));
                let (at, len) = protect(&mbr, sectors).unwrap();
                let at = usize::try_from(at).unwrap();
                mbr[at..at + 4].copy_from_slice(&len);
            }
            write(&device, sector, both(&gpt).chain([(0, mbr)]));
            judged(&device, &gpt);
            assert_eq!(read(&device, 1, sector), gpt);
        }
    }
}

#[test]
fn a_table_of_sfdisk_is_read_and_written_again_to_the_byte() {
    if !lab_has(&["losetup", "sgdisk", "sfdisk"]) {
        return;
    }
    for sector in [512, 4096] {
        let device = LoopDev::with(16 * MIB, &["-b", &sector.to_string()]);
        let mut sfdisk = std::process::Command::new(find("sfdisk").unwrap());
        sfdisk.args(["--quiet", "--no-reread", &device.device]);
        let script = "label: gpt\nsize=4M,type=U,name=ESP\nsize=2M,name=data\n";
        assert_eq!(feed(sfdisk, script.as_bytes().to_vec()).code, 0);
        let (before, gpt) = (std::fs::read(&device.device).unwrap(), read(&device, 1, sector));
        judged(&device, &gpt);
        write(&device, sector, both(&gpt));
        assert!(std::fs::read(&device.device).unwrap() == before, "{sector}");
        // The backup alone, which names the other copy.
        let backup = read(&device, gpt.header.other_lba, sector);
        let [array, header] = backup.other(gpt.header.array_lba);
        assert_eq!([header, array], gpt.own());
    }
}
