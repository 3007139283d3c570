//! Geometry, allocation and times of FAT32.

use proptest::prelude::*;

use super::*;

const VOLUME: Volume =
    Volume { sector: 512, start: MIB, len: 64 * MIB, label: *b"WINDOWS    ", serial: 7 };

fn file(path: &str, len: u64) -> Entry {
    Entry { path: path.to_owned(), len: Some(len), mtime: 1_600_000_000 }
}

fn dir(path: &str) -> Entry {
    Entry { path: path.to_owned(), len: None, mtime: 1_600_000_000 }
}

#[test]
fn times_are_those_of_the_calendar() {
    let day = |year: u16, month: u16, day: u16| ((year - 1980) << 9) | (month << 5) | day;
    let time = |hour: u16, minute: u16, second: u16| (hour << 11) | (minute << 5) | (second / 2);
    for (unix, want) in [
        (0, (0x21, 0)),
        (315_532_800, (0x21, 0)),
        // 2020-09-13 12:26:40
        (1_600_000_000, (day(2020, 9, 13), time(12, 26, 40))),
        // 2024-02-29 23:59:59
        (1_709_251_199, (day(2024, 2, 29), time(23, 59, 59))),
        (i64::MAX, (day(2107, 12, 31), time(23, 59, 59))),
        (i64::MIN, (0x21, 0)),
    ] {
        assert_eq!(stamp(unix), want, "{unix}");
    }
}

#[test]
fn geometry_is_fat32_and_aligned() {
    for (sector, mib, cluster) in [
        (512, 64, 512),
        (512, 300, 4096),
        (512, 1024, 8192),
        (512, 8192, 32768),
        (512, 3 << 20, 32768),
        (4096, 300, 4096),
        (4096, 8192, 32768),
    ] {
        let volume = Volume { sector, len: mib * MIB, ..VOLUME };
        let geometry = Geometry::new(volume).unwrap_or_else(|| panic!("{sector} {mib}"));
        assert_eq!(geometry.cluster(), cluster, "{sector} {mib}");
        assert_eq!(geometry.at(2) % MIB, 0);
        let end = geometry.at(geometry.clusters + 2);
        assert!(end <= VOLUME.start + volume.len);
        let fat = u64::from(geometry.fat) * geometry.sector / 4;
        assert!(fat >= u64::from(geometry.clusters) + 2);
    }
    for (sector, mib) in [(512, 8), (512, 30), (4096, 100), (1024, 1000)] {
        assert!(Geometry::new(Volume { sector, len: mib * MIB, ..VOLUME }).is_none());
    }
}

#[test]
fn problems_are_named_by_path() {
    let entries = [
        dir("a"),
        file("a/B.txt", 1),
        file("a/b.TXT", 1),
        file("a/x.", 1),
        file("a/big", 1 << 32),
        file("a/fits", (1 << 32) - 1),
        file("none/x", 1),
        file("a/fits/x", 1),
        file("/x", 1),
    ];
    let got: Vec<_> =
        problems(&entries).into_iter().map(|problem| (problem.path, problem.trouble)).collect();
    let want = [
        ("a/b.TXT", Trouble::SameAs("a/B.txt".to_owned())),
        ("a/x.", Trouble::Ending('.')),
        ("a/big", Trouble::TooLarge(1 << 32)),
        ("none/x", Trouble::NoDirectory),
        ("a/fits/x", Trouble::NoDirectory),
        ("/x", Trouble::NoName),
    ];
    assert_eq!(got, want.map(|(path, trouble)| (path.to_owned(), trouble)));
    assert!(matches!(plan(&entries, VOLUME), Err(Refusal::Problems(p)) if p.len() == 6));
}

#[test]
fn what_does_not_fit_is_counted() {
    let Err(Refusal::Full { needed, had }) = plan(&[file("a", 65 * MIB)], VOLUME) else {
        panic!("it fits")
    };
    assert_eq!(needed, 65 * MIB + 512);
    assert!(had > 60 * MIB && had < 64 * MIB);
    let many: Vec<Entry> = (0..66_000).map(|n| file(&format!("N{n}"), 0)).collect();
    let problem = Problem { path: String::new(), trouble: Trouble::TooMany(66_001) };
    assert_eq!(plan(&many, VOLUME).unwrap_err(), Refusal::Problems(vec![problem]));
}

#[test]
fn files_are_contiguous_and_counted() {
    let entries = [dir("d"), dir("d/e"), file("d/e/F", 1000), file("EMPTY", 0), file("G", 512)];
    let layout = plan(&entries, VOLUME).unwrap();
    // The root, two folders, two clusters and one.
    let base = layout.files[2].unwrap();
    assert_eq!(layout.files, [None, None, Some(base), None, Some(base + 1024)]);
    let geometry = Geometry::new(VOLUME).unwrap();
    assert_eq!(base, geometry.at(5));
    assert_eq!(layout.free, geometry.clusters - 6);
    let fat = layout.structures.iter().find_map(|(at, fill)| match fill {
        Fill::Bytes(bytes) if *at == geometry.fat_at(0) => Some(bytes.clone()),
        _ => None,
    });
    let fat: Vec<u32> =
        fat.unwrap().as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
    assert_eq!(fat, [0x0FFF_FFF8, LAST, LAST, LAST, LAST, 6, LAST, LAST]);
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(
        paths in proptest::collection::vec("[a-cA-C./ ~\u{e9}]{0,12}", 0..30),
        lens in proptest::collection::vec(proptest::option::of(any::<u64>()), 30),
        len in any::<u64>(),
    ) {
        let entries: Vec<Entry> = paths
            .into_iter()
            .zip(lens)
            .map(|(path, len)| Entry { path, len: len.map(|len| len % (5 << 30)), mtime: 0 })
            .collect();
        plan(&entries, VOLUME).ok();
        Geometry::new(Volume { len: len % (1 << 50), ..VOLUME });
    }
}
