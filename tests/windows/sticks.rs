//! Windows media by the real program on real block devices: cases of group f. The ISO is made by
//! tests/lab/windows-iso; its boot program checks every file by itself and says so.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::lab::{
    self, LoopDev, MIB, Output, Stick, has_sticks, lab_has, noise, put, run, sh, target_folder,
    windows_look_alike, write_at,
};

const TOOLS: [&str; 9] = [
    "genisoimage",
    "wimlib-imagex",
    "mcopy",
    "mkfs.vfat",
    "fsck.vfat",
    "grub-mkimage",
    "python3",
    "losetup",
    "sgdisk",
];

/// The usual one, made once.
fn made() -> Option<&'static Path> {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    if !lab_has(&TOOLS) {
        return None;
    }
    Some(MADE.get_or_init(|| windows_look_alike(&[])).path())
}

fn iso(made: &Path) -> String {
    made.join("windows.iso").to_str().unwrap().to_owned()
}

fn flash(iso: &str, device: &str, more: &[&str]) -> Output {
    run(&[&["flash", iso, device, "--yes", "--force"], more].concat())
}

/// What the volume holds, copied out by mtools; fsck.vfat is content with it.
fn copied(device: &LoopDev, to: &Path) -> String {
    let (volume, out) = (to.join("volume"), to.join("out"));
    fs::create_dir_all(&out).unwrap();
    let [from, volume, out] =
        [&device.device, volume.to_str().unwrap(), out.to_str().unwrap()].map(str::to_owned);
    sh("dd", &[&format!("if={from}"), &format!("of={volume}"), "bs=1M", "skip=1", "status=none"]);
    sh("fsck.vfat", &["-n", &volume]);
    sh("mcopy", &["-i", &volume, "-s", "-n", "-m", "::/", &out]);
    out
}

fn boots(device: &LoopDev, arguments: &[&str]) {
    let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/boottest.py");
    sh(test.to_str().unwrap(), &[&[&device.device, "--timeout", "120"], arguments].concat());
}

#[test]
fn b88_the_udf_side_is_written_and_boots_with_either_table() {
    let Some(made) = made() else { return };
    if !lab_has(&["qemu-system-x86_64"]) {
        return;
    }
    for (table, partition) in [("gpt", "gpt1"), ("mbr", "msdos1")] {
        let device = LoopDev::new(256 * MIB);
        let output = flash(&iso(made), &device.device, &["--table", table]).expect(0);
        output.says(&["Windows 11 Pro", "boots computers with UEFI and x86-64", "all 287 files"]);
        // What the XML of the WIM says of its second image.
        let edition = "2 Windows 11 Pro: build 26200.6584, x64, en-US";
        let dry = flash(&iso(made), &device.device, &["--table", table, "--dry-run"]).expect(0);
        dry.says(&[edition, "1 Windows 11 Home:", "3 Windows 11 Education:"]);
        let dir = target_folder();
        let out = copied(&device, dir.path());
        sh("diff", &["-r", &out, made.join("files").to_str().unwrap()]);
        if table == "gpt" {
            assert!(sh("sgdisk", &["-v", &device.device]).contains("No problems found"));
        } else {
            boots(&device, &["--fw", "seabios", "--text", "--expect", "computers with UEFI"]);
        }
        let line = format!("WINLAB-BOOT-DEV dev=hd0,{partition} fs=fat");
        boots(&device, &["--fw", "ovmf", "--expect", &line]);
        boots(&device, &["--fw", "ovmf", "--expect", "WINLAB-BOOT-OK"]);
        run(&["verify", &device.device, &iso(made)]).expect(0).says(&["every byte matches"]);
    }
}

#[test]
fn a_stick_with_sectors_of_4096_bytes_gets_a_volume_of_such_sectors() {
    let Some(made) = made() else { return };
    let device = LoopDev::with(512 * MIB, &["--sector-size", "4096"]);
    flash(&iso(made), &device.device, &[]).expect(0);
    let dir = target_folder();
    let out = copied(&device, dir.path());
    sh("diff", &["-r", &out, made.join("files").to_str().unwrap()]);
    run(&["verify", &device.device, &iso(made)]).expect(0);
}

/// B83 with a small limit; B85: the folder for temporary files stays empty.
#[test]
fn b83_b85_install_wim_is_split_on_its_way_without_temporary_files() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    let dir = target_folder();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = lab::command(dir.path());
    command.env("TMPDIR", &temporary).args([
        "flash",
        &iso(made),
        &device.device,
        "--yes",
        "--force",
    ]);
    command.args(["--split-size", "12MiB"]);
    let output = lab::finish(command).expect(0);
    output.says(&["sources/install.wim is split into 4 parts", "part: sources/install4.swm"]);
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    let out = copied(&device, dir.path());
    assert!(!Path::new(&out).join("sources/install.wim").exists());
    let (first, all) =
        (format!("{out}/sources/install.swm"), format!("{out}/sources/install*.swm"));
    sh("wimlib-imagex", &["verify", &first, &format!("--ref={all}")]);
    // The parts are planned again, byte for byte.
    run(&["verify", &device.device, &iso(made)]).expect(0);
}

#[test]
fn b86_a_solid_wim_that_would_have_to_be_split_is_refused_before_anything_is_erased() {
    if !lab_has(&TOOLS) {
        return;
    }
    let made = windows_look_alike(&["--solid"]);
    let wim = made.path().join("files/sources/install.wim");
    // 68: wimlib does not split it either.
    let part = made.path().join("part.swm");
    let split = Command::new("wimlib-imagex").arg("split").args([&wim, &part]).arg("12").output();
    assert_eq!(split.unwrap().status.code(), Some(68));
    let device = LoopDev::new(256 * MIB);
    write_at(&device.device, 0, &noise(256 * MIB, 86));
    let before = lab::sha256sum(&device.device);
    let more = ["--split-size", "12MiB"];
    flash(&iso(made.path()), &device.device, &more).expect(3).says(&[
        "sources/install.wim is too large for FAT32 and cannot be split: its files are compressed together (solid)",
        "wimlib-imagex export install.wim all new.wim --compress=LZX",
    ]);
    assert_eq!(lab::sha256sum(&device.device), before, "it was touched");
    // It fits as it is, and then there is nothing to refuse.
    flash(&iso(made.path()), &device.device, &[]).expect(0);
    let dir = target_folder();
    let out = copied(&device, dir.path());
    sh("diff", &["-r", &out, made.path().join("files").to_str().unwrap()]);
    // The way out that the message names.
    let new = made.path().join("new.wim");
    let arguments = ["export", wim.to_str().unwrap(), "all", new.to_str().unwrap()];
    sh("wimlib-imagex", &[&arguments[..], &["--compress=XPRESS"]].concat());
    sh("wimlib-imagex", &["split", new.to_str().unwrap(), part.to_str().unwrap(), "12"]);
}

#[test]
fn b90_a_disc_for_arm64_gets_a_stick_that_such_computers_boot() {
    if !lab_has(&TOOLS) {
        return;
    }
    let made = windows_look_alike(&["--arch", "arm64"]);
    let device = LoopDev::new(256 * MIB);
    let output = flash(&iso(made.path()), &device.device, &["--split-size", "12MiB"]).expect(0);
    let output = output.says(&[
        "boots computers with UEFI and ARM64; not the old BIOS",
        "1 Windows 11 Home: build 26200.6584, arm64, en-US",
        "GPT, FAT32",
        "sources/install.wim is split into 4 parts",
    ]);
    output.never_says(&["x86-64", "x86 (32", "x64"]);
    let table = sh("sgdisk", &["-v", "-i", "1", &device.device]);
    assert!(table.contains("No problems found"), "{table}");
    assert!(table.contains("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"), "basic data: {table}");
    // Nothing in front of the table pretends to be code, and nothing is marked active.
    let mbr = lab::read_direct(&device.device, 0, 512);
    assert!(mbr[..446].iter().all(|byte| *byte == 0));
    assert_eq!((mbr[446], mbr[450]), (0, 0xEE));
    let dir = target_folder();
    let out = copied(&device, dir.path());
    let loader = |folder: &Path| fs::read(folder.join("efi/boot/bootaa64.efi")).unwrap();
    assert!(loader(Path::new(&out)) == loader(&made.path().join("files")));
    assert!(!Path::new(&out).join("efi/boot/bootx64.efi").exists());
    let parts = format!("{out}/sources/install*.swm");
    let first = format!("{out}/sources/install.swm");
    sh("wimlib-imagex", &["verify", &first, &format!("--ref={parts}")]);
    let answers = ["--windows-options", "account=Ada", "--split-size", "12MiB"];
    flash(&iso(made.path()), &device.device, &answers).expect(0);
    let dir = target_folder();
    let path =
        Path::new(&copied(&device, dir.path())).join("sources/$oem$/$$/Panther/unattend.xml");
    let answers = fs::read_to_string(path).unwrap();
    assert!(answers.contains("processorArchitecture=\"arm64\""), "{answers}");
}

#[test]
fn b91_names_and_labels_that_fat_does_not_take_are_told_before_anything_is_erased() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    let dir = target_folder();
    fs::create_dir(dir.path().join("add")).unwrap();
    put(&dir.path().join("add"), "ends with a dot.", b"x");
    let add = dir.path().join("add");
    let more = ["--add", add.to_str().unwrap()];
    flash(&iso(made), &device.device, &more).expect(3).says(&["ends with a dot."]);
    assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
    for (label, written) in [("A+B=C;D", "'A_B_C_D'"), ("lower case name", "'LOWER CASE'")] {
        let output = flash(&iso(made), &device.device, &["--label", label, "--dry-run"]).expect(0);
        drop(output);
        flash(&iso(made), &device.device, &["--label", label]).expect(0).says(&[written]);
    }
}

#[test]
fn b93_asked_for_answers_are_one_file_more_and_the_rest_is_the_iso() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    let options = "no-checks,account=Ada,no-online-account,no-data-collection,no-bitlocker,locale=de-AT,zone=Europe/Vienna";
    let output = flash(&iso(made), &device.device, &["--windows-options", options]).expect(0);
    output.says(&["added by mediawriter: autounattend.xml"]);
    let dir = target_folder();
    let out = copied(&device, dir.path());
    let answers = Path::new(&out).join("autounattend.xml");
    assert!(fs::read_to_string(&answers).unwrap().contains("<Name>Ada</Name>"));
    fs::remove_file(&answers).unwrap();
    sh("diff", &["-r", &out, made.join("files").to_str().unwrap()]);
    let verified = run(&["verify", &device.device, &iso(made)]).expect(0);
    verified.says(&["autounattend.xml: not on the ISO"]);
    for (options, words) in [
        ("account=Administrator", "Administrator"),
        ("account=a/b", "a/b"),
        ("wipe-disk", "there are no-checks"),
    ] {
        let bad = flash(&iso(made), &device.device, &["--windows-options", options]);
        assert_ne!(bad.code, 0, "{options}");
        bad.says(&[words]);
    }
}

#[test]
fn a_damaged_file_is_named_by_verify() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    flash(&iso(made), &device.device, &["--json"]).expect(0);
    // Some byte of boot.wim, found by its content.
    let wim = fs::read(made.join("files/sources/boot.wim")).unwrap();
    let medium = fs::read(&device.device).unwrap();
    let needle = &wim[..4096];
    let at = medium.windows(4096).step_by(512).position(|part| part == needle).unwrap() * 512;
    write_at(&device.device, at as u64 + 100_000, &[wim[100_000] ^ 1]);
    let output = run(&["verify", &device.device, &iso(made)]).expect(5);
    output.says(&["sources/boot.wim differs from its byte 100000 on"]);
}

#[test]
fn fake_and_corrupting_sticks_are_found_while_they_are_written() {
    let Some(made) = made() else { return };
    if !has_sticks() {
        return;
    }
    for keys in
        [["size=256M", "real=30M", "mode=limbo"], ["size=256M", "corrupt=40M", "prefill=00"]]
    {
        let stick = Stick::new(&keys);
        let output = flash(&iso(made), &stick.device, &[]).expect(5);
        output.says(&["DIFFERS"]);
        assert_eq!(lab::read_direct(&stick.device, 0, 512), vec![0; 512], "{keys:?}");
    }
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_erased() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(48 * MIB);
    flash(&iso(made), &device.device, &[]).expect(3);
    assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
    let large = LoopDev::new(256 * MIB);
    let wrong = ["--sha256", &"0".repeat(64)];
    flash(&iso(made), &large.device, &wrong).expect(4).says(&["nothing was written"]);
    assert_eq!(lab::read_direct(&large.device, 0, 4096), vec![0; 4096]);
    let right = lab::sha256sum(&iso(made));
    let output = flash(&iso(made), &large.device, &["--sha256", &right]).expect(0);
    output.says(&["source: matched"]);
    // Options of Windows media mean nothing for other images.
    let dir = target_folder();
    let other = put(dir.path(), "image", &lab::disk_image(MIB, 1));
    flash(&other, &large.device, &["--table", "mbr"]).expect(2).says(&["are for Windows ISOs"]);
}
