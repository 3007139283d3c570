//! Made WIMs, cut and doubted.

use proptest::prelude::*;

use super::*;
use crate::image::Bytes;

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const XML: &str = "\u{feff}<WIM><TOTALBYTES>1</TOTALBYTES><IMAGE INDEX=\"1\"><NAME>Home</NAME>\
     <WINDOWS><ARCH>9</ARCH><LANGUAGES><LANGUAGE>en-US</LANGUAGE><LANGUAGE>de-DE</LANGUAGE>\
     <DEFAULT>en-US</DEFAULT></LANGUAGES><VERSION><MAJOR>10</MAJOR><BUILD>26200</BUILD>\
     <SPBUILD>6584</SPBUILD></VERSION></WINDOWS></IMAGE>\
     <IMAGE INDEX=\"2\"><NAME>x</NAME><DISPLAYNAME>Pro\u{202e}</DISPLAYNAME>\
     <WINDOWS><ARCH>77</ARCH></WINDOWS></IMAGE></WIM>";

/// A WIM whose resources have these lengths and flags, each filled with its number.
fn wim(resources: &[(u64, u8)]) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    out[..8].copy_from_slice(b"MSWIM\0\0\0");
    out[8..12].copy_from_slice(&208_u32.to_le_bytes());
    out[12..16].copy_from_slice(&VERSION.to_le_bytes());
    out[0x28..0x2C].copy_from_slice(&[1, 0, 1, 0]);
    out[0x2C] = 2;
    let mut table = Vec::new();
    for ((stored, flags), number) in resources.iter().zip(1_u8..) {
        let resource = Resource {
            stored: *stored,
            flags: *flags,
            offset: out.len() as u64,
            original: stored * 2,
        };
        table.extend(resource.bytes());
        table.extend([1, 0, 1, 0, 0, 0]);
        table.extend([number; 20]);
        out.resize(out.len() + usize::try_from(*stored).unwrap(), number);
    }
    let xml = utf16(XML);
    let at =
        |offset: u64, len: u64| Resource { stored: len, flags: 2, offset, original: len }.bytes();
    let (end, len) = (out.len() as u64, table.len() as u64);
    out[0x30..0x48].copy_from_slice(&at(end, len));
    out[0x48..0x60].copy_from_slice(&at(end + len, xml.len() as u64));
    out[0x60..0x94].fill(0xEE);
    out.extend(table);
    out.extend(xml);
    out
}

fn load(bytes: &[u8]) -> Result<Wim, Fault> {
    Wim::load(&Bytes(bytes), bytes.len() as u64)
}

fn refusal(bytes: &[u8], limit: u64) -> Refusal {
    match load(bytes) {
        Ok(wim) => wim.split(limit, [7; 16]).unwrap_err(),
        Err(Fault::Refused(refusal)) => refusal,
        Err(Fault::Read(e)) => panic!("{e}"),
    }
}

fn assembled(part: &Part, original: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in &part.pieces {
        match piece {
            Piece::Bytes(bytes) => out.extend(bytes),
            Piece::Original(range) => {
                let (from, to) = (range.start.try_into().unwrap(), range.end.try_into().unwrap());
                let range: Range<usize> = from..to;
                out.extend(&original[range]);
            }
        }
    }
    assert_eq!(out.len() as u64, part.len);
    out
}

#[test]
fn editions_are_listed_and_escaped() {
    let got = load(&wim(&[])).unwrap().editions().unwrap();
    let home = Edition {
        index: 1,
        name: "Home".to_owned(),
        build: "26200.6584".to_owned(),
        arch: "x64".to_owned(),
        languages: vec!["en-US".to_owned(), "de-DE".to_owned()],
    };
    assert_eq!(got[0], home);
    assert_eq!((got[1].name.as_str(), got[1].arch.as_str()), ("Pro\\u{202e}", "77"));
    assert!(editions(&[1]).is_err() && editions(&utf16("<a>")).is_err());
}

#[test]
fn every_resource_is_in_one_part_as_it_was_stored() {
    // Metadata last, as in real files; a free and an empty entry.
    let image = wim(&[(3000, 4), (500, FREE), (0, 0), (4000, 0), (2000, 0), (100, METADATA)]);
    let wim = load(&image).unwrap();
    let fixed = HEADER + 300 + wim.xml.len() as u64;
    let parts = wim.split(fixed + 6100, [7; 16]).unwrap();
    assert_eq!(parts.len(), 2);
    let mut seen = Vec::new();
    for (part, number) in parts.iter().zip(1_u16..) {
        assert!(part.len <= fixed + 6100);
        let bytes = assembled(part, &image);
        let header = header(&bytes).unwrap();
        assert_eq!((header.part, header.parts, header.images), (number, 2, 2));
        assert_eq!(le32(&bytes, 0x10), Some(SPANNED));
        assert_eq!(&bytes[0x18..0x28], [7; 16]);
        assert!(bytes[0x60..0xD0].iter().all(|b| *b == 0), "nothing to boot, no integrity");
        let of = |resource: Resource| {
            let range = resource.within(part.len).unwrap();
            let (from, to): (usize, usize) =
                (range.start.try_into().unwrap(), range.end.try_into().unwrap());
            bytes[from..to].to_vec()
        };
        assert_eq!(of(header.xml), utf16(XML));
        for (blob, raw) in blobs(&of(header.table), part.len)
            .unwrap()
            .iter()
            .zip(of(header.table).as_chunks::<ENTRY>().0)
        {
            assert_eq!(le16(raw, 24), Some(number));
            let digest = blob.rest[4];
            assert!(of(blob.resource).iter().all(|b| *b == digest));
            assert_eq!(blob.resource.original, blob.resource.stored * 2);
            seen.push((digest, number));
        }
    }
    assert_eq!(seen, [(6, 1), (1, 1), (3, 1), (4, 2), (5, 2)].to_vec());
}

#[test]
fn neighbours_are_one_piece() {
    let image = wim(&[(100, 0), (200, 0), (300, 0)]);
    let parts = load(&image).unwrap().split(1 << 20, [0; 16]).unwrap();
    assert_eq!(parts.len(), 1);
    assert_eq!(parts[0].pieces[1], Piece::Original(208..808));
    assert_eq!(parts[0].pieces.len(), 3);
}

#[test]
fn what_cannot_be_cut_is_told_apart() {
    let with = |at: usize, bytes: &[u8]| {
        let mut image = wim(&[(1000, 0)]);
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let far = |at: usize| with(at, &u64::MAX.to_le_bytes());
    for (image, want) in [
        (b"MZ".to_vec(), Refusal::NotWim),
        (with(12, &[1, 2, 3, 0]), Refusal::Version(0x0003_0201)),
        (with(0x28, &[2, 0, 3, 0]), Refusal::AlreadySplit { part: 2, parts: 3 }),
        (with(0x37, &[6]), Refusal::CompressedTable),
        (with(8, &[1]), damaged("its header has another length than 208")),
        (far(0x38), damaged("its table of blobs lies behind its end")),
        (far(0x50), damaged("its XML lies behind its end")),
        (with(0x30, &[49]), damaged("its table of blobs ends within an entry")),
        (with(1208 + 8, &u64::MAX.to_le_bytes()), damaged("a resource lies behind its end")),
        (wim(&[(1000, SOLID)]), Refusal::Solid),
        (wim(&[])[..100].to_vec(), damaged("its header is cut off")),
    ] {
        assert_eq!(refusal(&image, 1 << 20), want);
    }
    let fixed = HEADER + 100 + utf16(XML).len() as u64;
    // Nothing but what every part has, and that is too much already.
    let empty = HEADER + utf16(XML).len() as u64;
    assert_eq!(refusal(&wim(&[]), 100), Refusal::Oversized { bytes: empty, limit: 100 });
    let two = wim(&[(1000, METADATA), (1000, METADATA)]);
    assert_eq!(
        refusal(&two, 1999 + fixed),
        Refusal::Oversized { bytes: 2000 + fixed, limit: 1999 + fixed }
    );
    assert!(load(&two).unwrap().split(2000 + fixed, [0; 16]).is_ok());
    // Two blobs of the same bytes.
    let mut twice = wim(&[(1000, 0), (3000, 0)]);
    twice.copy_within(4258..4308, 4208);
    assert_eq!(refusal(&twice, 1 << 20), damaged("its resources overlap"));
}

#[test]
fn parts_have_names() {
    let names: Vec<_> = (1..4).map(|n| part_name("install", n)).collect();
    assert_eq!(names, ["install.swm", "install2.swm", "install3.swm"]);
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(
        changes in proptest::collection::vec((0_usize..1500, any::<u8>()), 0..20),
        cut in 0_usize..3000,
        limit in any::<u64>(),
    ) {
        let mut image = wim(&[(300, 2), (400, 0), (100, 4)]);
        for (at, byte) in changes {
            if let Some(place) = image.get_mut(at) {
                *place = byte;
            }
        }
        image.truncate(cut);
        if let Ok(wim) = load(&image) {
            wim.editions().ok();
            wim.split(limit, [0; 16]).ok();
        }
        editions(&image).ok();
    }
}
