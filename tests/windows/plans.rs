//! Sticks of Windows against referees: partitioning tools, dosfstools, mtools, wimlib, xmllint. No
//! root: the stick is a sparse file.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::lab::{MIB, find, sh, skip, target_folder};
use mediawriter::image::FileImage;
use mediawriter::source::Source;
use mediawriter::windows::check;
use mediawriter::windows::compose::{Added, Body, Options, Origin, Plan, plan};
use mediawriter::windows::composed::ComposedSource;
use mediawriter::windows::table::{Device, Kind};
use mediawriter::windows::tree::{Disc, DiscFile, IsoDisc, Side};
use mediawriter::windows::unattend::{self, Arch, answers};
use mediawriter::windows::wim::Wim;

fn has(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| find(program).is_none());
    if let Some(program) = missing {
        skip(&format!("{program} is not installed (tests/lab/packages.txt)"));
    }
    missing.is_none()
}

const MAKERS: [&str; 6] =
    ["genisoimage", "wimlib-imagex", "mcopy", "mkfs.vfat", "grub-mkimage", "python3"];

/// An ISO in a folder of its own.
struct Made {
    dir: tempfile::TempDir,
    iso: PathBuf,
}

impl Made {
    fn new(options: &[&str]) -> Self {
        let dir = target_folder();
        let iso = dir.path().join("windows.iso");
        let work = dir.path().join("work");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/windows-iso");
        let (out, work) = (iso.to_str().unwrap(), work.to_str().unwrap());
        let args = [&["--out", out, "--work", work], options].concat();
        sh(script.to_str().unwrap(), &args);
        Self { dir, iso }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn disc(&self) -> Arc<IsoDisc> {
        let image = FileImage::new(File::open(&self.iso).unwrap()).unwrap();
        Arc::new(IsoDisc::open(Arc::new(image), "windows.iso").unwrap())
    }

    /// What is on it, by the script that made it.
    fn files(&self) -> String {
        self.path("work/small/iso")
    }
}

fn options(mib: u64, sector: u32, table: Kind) -> Options {
    Options {
        device: Device { size: mib * MIB, sector },
        table,
        label: "CCCOMA_X64FRE_EN-US_DV9".to_owned(),
        seed: *b"\x91\x02\xa3\x04\xb5\x06\xc7\x08\xd9\x0a\xeb\x0c\xfd\x0e\x1f\x20",
        part_limit: None,
    }
}

/// Writes the stretches that matter of `source` to a new file, from byte `from` of the image on.
fn write(source: &ComposedSource, path: &str, from: u64) {
    let file = File::create(path).unwrap();
    file.set_len(source.info().len.unwrap() - from).unwrap();
    let image = source.positional().unwrap();
    let mut buf = vec![0; 1 << 20];
    for range in source.mapped().unwrap().iter() {
        let mut at = range.bytes.start.max(from);
        while at < range.bytes.end {
            let len = usize::try_from(range.bytes.end - at).unwrap().min(buf.len());
            let n = image.read_at(at, &mut buf[..len]).unwrap();
            assert!(n > 0, "{at}");
            file.write_all_at(&buf[..n], at - from).unwrap();
            at += n as u64;
        }
    }
}

/// Tables by their own tools; the volume by fsck.
fn referees(source: &ComposedSource, plan: &Plan, (stick, volume): (&str, &str), kind: Kind) {
    write(source, stick, 0);
    write(source, volume, plan.start);
    match (kind, plan.sector) {
        (Kind::Gpt, 512) => assert!(sh("sgdisk", &["-v", stick]).contains("No problems found")),
        (Kind::Mbr, 512) => {
            let text = sh("sfdisk", &["--verify", stick]);
            assert!(text.contains("No errors detected"), "{text}");
        }
        // These tools take files for media with sectors of 512 bytes.
        _ => {}
    }
    // The volume ends with the partition, the file with the stick.
    sh("fsck.vfat", &["-n", volume]);
}

/// Copies everything from the volume and compares it with the original files.
fn compare_trees(made: &Made, volume: &str, without: &[&str]) -> String {
    let out = made.path("out");
    fs::remove_dir_all(&out).ok();
    fs::create_dir(&out).unwrap();
    let status = Command::new("mcopy")
        .args(["-s", "-m", "-Q", "-i", volume, "::*", &out])
        .env("TZ", "UTC")
        .env("LC_ALL", "C.UTF-8")
        .env("MTOOLS_SKIP_CHECK", "1")
        .status()
        .unwrap();
    assert!(status.success());
    let mut args = vec!["-r".to_owned()];
    args.extend(without.iter().map(|name| format!("--exclude={name}")));
    args.extend([made.files(), out.clone()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    assert_eq!(sh("diff", &args), "");
    out
}

fn checked(source: &ComposedSource, plan: &Plan, stick: &str) -> check::Report {
    let medium = FileImage::new(File::open(stick).unwrap()).unwrap();
    check::check(&medium, plan.start, &plan.files, &*source.positional().unwrap()).unwrap()
}

#[test]
fn all_tables_and_sectors_pass_their_referees() {
    let tools = [&MAKERS[..], &["sgdisk", "sfdisk", "fsck.vfat", "diff"]].concat();
    if !has(&tools) {
        return;
    }
    let made = Made::new(&[]);
    let disc = made.disc();
    assert_eq!(disc.side(), Side::Udf);
    let (stick, volume) = (made.path("stick.img"), made.path("volume.img"));
    for (mib, sector, kind) in [
        (512, 512, Kind::Gpt),
        (512, 512, Kind::Mbr),
        (700, 4096, Kind::Gpt),
        (700, 4096, Kind::Mbr),
    ] {
        let plan = plan(&*disc, &[], &options(mib, sector, kind)).unwrap();
        let source = ComposedSource::new(&plan, disc.clone(), "stick").unwrap();
        referees(&source, &plan, (&stick, &volume), kind);
        let report = checked(&source, &plan, &stick);
        assert!(report.is_good(), "{report:?}");
        assert_eq!(report.files.len(), disc.nodes().iter().filter(|n| n.len.is_some()).count());
        let out = compare_trees(&made, &volume, &[]);
        let time = |dir: &str| {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(format!("{dir}/sources/boot.wim")).unwrap().mtime() / 2
        };
        assert_eq!(time(&out), time(&made.files()), "{sector} {kind:?}");
    }
}

#[test]
fn a_split_install_wim_verifies_and_applies() {
    let tools = [&MAKERS[..], &["sgdisk", "fsck.vfat", "diff"]].concat();
    if !has(&tools) {
        return;
    }
    let made = Made::new(&["--integrity"]);
    let disc = made.disc();
    let wanted = Options { part_limit: Some(12 * MIB), ..options(600, 512, Kind::Gpt) };
    let plan = plan(&*disc, &[], &wanted).unwrap();
    let parts = plan.files.iter().filter(|file| file.origin == Origin::Part);
    let parts: Vec<_> = parts.map(|file| (file.path.clone(), file.len)).collect();
    assert!(parts.len() > 3 && parts.iter().all(|(_, len)| *len <= 12 * MIB), "{parts:?}");
    let source = ComposedSource::new(&plan, disc.clone(), "stick").unwrap();
    let (stick, volume) = (made.path("stick.img"), made.path("volume.img"));
    referees(&source, &plan, (&stick, &volume), Kind::Gpt);
    assert!(checked(&source, &plan, &stick).is_good());
    let out = compare_trees(&made, &volume, &["install.wim", "install*.swm"]);
    let first = format!("{out}/sources/install.swm");
    let reference = format!("--ref={out}/sources/install*.swm");
    sh("wimlib-imagex", &["verify", &first, &reference]);
    let applied = made.path("applied");
    sh("wimlib-imagex", &["apply", &first, "2", &applied, &reference]);
    sh("diff", &["-r", &made.path("work/small/img1"), &applied]);
    // Parts as large as wimlib makes them.
    let theirs = made.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let wim = format!("{}/sources/install.wim", made.files());
    sh("wimlib-imagex", &["split", &wim, &format!("{theirs}/install.swm"), "12"]);
    for (path, len) in &parts {
        let name = path.rsplit('/').next().unwrap();
        let their = fs::metadata(format!("{theirs}/{name}")).map_or(0, |meta| meta.len());
        // Theirs has an integrity table: 12 bytes, and 20 for 10 MiB.
        assert!((32..=52).contains(&their.saturating_sub(*len)), "{name}: {len}, not {their}");
    }
}

#[test]
fn editions_are_listed_and_solid_files_are_refused() {
    if !has(&MAKERS) {
        return;
    }
    let made = Made::new(&["--esd"]);
    let disc = made.disc();
    let file = disc.nodes().iter().position(|node| node.path == "sources/install.esd").unwrap();
    let len = disc.nodes()[file].len.unwrap();
    let wim = Wim::load(&DiscFile { disc: &*disc, file }, len).unwrap();
    let names: Vec<_> = wim.editions().unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["Windows 11 Home", "Windows 11 Pro", "Windows 11 Education"]);
    assert!(wim.is_solid());
    assert_eq!(
        wim.split(12 * MIB, [0; 16]).unwrap_err(),
        mediawriter::windows::wim::Refusal::Solid
    );
}

#[test]
fn a_disc_without_udf_is_read_through_joliet() {
    if !has(&[&MAKERS[..], &["fsck.vfat", "sgdisk", "diff"]].concat()) {
        return;
    }
    let made = Made::new(&["--no-udf"]);
    let disc = made.disc();
    assert_eq!(disc.side(), Side::Iso9660);
    let plan = plan(&*disc, &[], &options(512, 512, Kind::Gpt)).unwrap();
    let source = ComposedSource::new(&plan, disc, "stick").unwrap();
    let (stick, volume) = (made.path("stick.img"), made.path("volume.img"));
    referees(&source, &plan, (&stick, &volume), Kind::Gpt);
    compare_trees(&made, &volume, &[]);
}

#[test]
fn one_added_answer_file_is_well_formed_and_the_rest_is_the_disc() {
    if !has(&[&MAKERS[..], &["fsck.vfat", "sgdisk", "diff", "xmllint"]].concat()) {
        return;
    }
    let wanted = unattend::Options {
        bypass_checks: true,
        account: Some("Zo\u{eb} O'Neil".to_owned()),
        no_online_account: true,
        no_data_collection: true,
        locale: Some("de_AT.UTF-8".to_owned()),
        zone: Some("Europe/Vienna".to_owned()),
        no_bitlocker: true,
    };
    let made = Made::new(&[]);
    let disc = made.disc();
    let got = answers(&wanted, Arch::Amd64).unwrap().unwrap();
    let body = Body::Bytes(got.xml.into_bytes());
    let added = Added { path: got.path.to_owned(), body, mtime: 1_600_000_000, replaces: false };
    let plan = plan(&*disc, &[added], &options(512, 512, Kind::Gpt)).unwrap();
    let ours = plan.files.iter().filter(|file| file.origin == Origin::Added);
    assert_eq!(ours.map(|file| file.path.as_str()).collect::<Vec<_>>(), ["autounattend.xml"]);
    let source = ComposedSource::new(&plan, disc, "stick").unwrap();
    let (stick, volume) = (made.path("stick.img"), made.path("volume.img"));
    referees(&source, &plan, (&stick, &volume), Kind::Gpt);
    let out = compare_trees(&made, &volume, &["autounattend.xml"]);
    sh("xmllint", &["--noout", &format!("{out}/autounattend.xml")]);
}
