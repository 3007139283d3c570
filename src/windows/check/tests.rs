//! Sticks that were changed after they were written.

use std::sync::Arc;

use super::*;
use crate::image::Bytes;
use crate::source::Source;
use crate::windows::compose::tests::{options, small};
use crate::windows::compose::{Plan, plan};
use crate::windows::composed::ComposedSource;
use crate::windows::table::Kind as TableKind;

fn made(sector: u32) -> (Plan, ComposedSource, Vec<u8>) {
    let disc = Arc::new(small());
    let mib = if sector == 512 { 64 } else { 300 };
    let plan = plan(&*disc, &[], &options(mib, sector, TableKind::Gpt)).unwrap();
    let source = ComposedSource::new(&plan, disc, "stick").unwrap();
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut source.open().unwrap(), &mut bytes).unwrap();
    (plan, source, bytes)
}

fn checked(plan: &Plan, source: &ComposedSource, bytes: &[u8]) -> Report {
    check(&Bytes(bytes), plan.start, &plan.files, &*source.positional().unwrap()).unwrap()
}

fn place(plan: &Plan, path: &str) -> usize {
    let file = plan.files.iter().find(|file| file.path == path).unwrap();
    usize::try_from(file.at.unwrap()).unwrap()
}

#[test]
fn what_was_written_is_found_and_the_same() {
    for sector in [512, 4096] {
        let (plan, source, bytes) = made(sector);
        let report = checked(&plan, &source, &bytes);
        assert!(report.is_good(), "{report:?}");
        assert_eq!(report.files.len(), 4);
        let volume = Bytes(&bytes);
        let (found, _) = Volume::open(&volume, plan.start).unwrap().unwrap().list();
        let boot = found.iter().find(|found| found.path == "sources/boot.wim").unwrap();
        assert_eq!(volume_run(&volume, &plan, boot), place(&plan, "sources/boot.wim") as u64);
    }
}

fn volume_run(volume: &Bytes<'_>, plan: &Plan, found: &Found) -> u64 {
    let runs = Volume::open(volume, plan.start).unwrap().unwrap().runs(found.first, found.len);
    assert_eq!(runs.len(), 1);
    runs[0].0
}

#[test]
fn the_damaged_file_and_its_first_wrong_byte_are_named() {
    let (plan, source, mut bytes) = made(512);
    bytes[place(&plan, "sources/boot.wim") + 700_001] ^= 1;
    let report = checked(&plan, &source, &bytes);
    let wrong: Vec<_> = report.files.iter().filter(|(_, status)| *status != Status::Same).collect();
    let want = ("sources/boot.wim".to_owned(), Status::Differs { first: 700_001 });
    assert_eq!(wrong, [&want]);
    assert!(!report.is_good());
}

#[test]
fn a_broken_folder_is_damage_and_its_files_are_missing() {
    let (plan, source, mut bytes) = made(512);
    // The root and `sources`: entries that come first on the volume.
    let at = bytes.windows(11).position(|w| w == b"SOURCES    ").unwrap();
    bytes[at + 26..at + 28].copy_from_slice(&[2, 0]);
    let report = checked(&plan, &source, &bytes);
    assert_eq!(report.damage.len(), 1);
    let missing = report.files.iter().filter(|(_, status)| *status == Status::Missing).count();
    assert_eq!(missing, 3);
    bytes[usize::try_from(plan.start).unwrap() + 510] = 0;
    let image = source.positional().unwrap();
    assert!(check(&Bytes(&bytes), plan.start, &plan.files, &*image).is_err());
}

#[test]
fn what_systems_make_is_told_apart() {
    let (plan, source, bytes) = made(512);
    // As if two files had not been written by us.
    let expected: Vec<_> =
        plan.files.iter().filter(|file| file.path != "bootmgr").cloned().collect();
    let image = source.positional().unwrap();
    let report = check(&Bytes(&bytes), plan.start, &expected, &*image).unwrap();
    assert_eq!(report.extras, [Extra { path: "bootmgr".to_owned(), system: false }]);
    assert!(!report.is_good());
    for (path, system) in [
        ("System Volume Information/WPSettings.dat", true),
        ("SYSTEM VOLUME INFORMATION/x/y", true),
        ("$RECYCLE.BIN/desktop.ini", true),
        (".Trash-1000/info/x", true),
        (".fseventsd/0", true),
        (".Spotlight-V100/Store-V2/x", true),
        ("sources/install.swm", false),
        ("Trash-1000", false),
    ] {
        assert_eq!(is_system(path), system, "{path}");
    }
}
