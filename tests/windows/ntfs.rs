//! Windows sticks with NTFS by the real program on real block devices. What stands for UEFI:NTFS,
//! which is not ours to keep, is a FAT image whose GRUB starts the boot program of the NTFS partition.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::lab::{
    self, Live, LoopDev, MIB, Mount, Output, command_in_session, lab_has, noise, put, run,
    running_in, sh, target_folder, windows_look_alike, write_at,
};
use mediawriter::image::{Bytes, FileImage, ReadAt};
use mediawriter::windows::table::Device;
use mediawriter::windows::tree::IsoDisc;
use mediawriter::windows::{stamp, volume};
use nix::sys::signal::Signal;

const TOOLS: [&str; 11] = [
    "genisoimage",
    "wimlib-imagex",
    "mcopy",
    "mkfs.vfat",
    "grub-mkimage",
    "python3",
    "losetup",
    "sgdisk",
    "mkntfs",
    "ntfs-3g",
    "ntfsfix",
];

/// Starts what UEFI:NTFS starts.
const CHAIN: &str = "search --no-floppy --file --set=root /winlab/marker.txt\n\
                     chainloader /efi/boot/bootx64.efi\nboot\n";

/// A folder with `windows.iso`, in `files` what is on it, and images that boot NTFS.
fn make(options: &[&str]) -> tempfile::TempDir {
    let dir = windows_look_alike(options);
    let loader = grub(dir.path());
    boot_image(dir.path(), "boot512.img", (512, 1024), Some(&loader));
    boot_image(dir.path(), "boot4096.img", (4096, 4096), Some(&loader));
    dir
}

fn grub(dir: &Path) -> String {
    let config = put(dir, "chain.cfg", CHAIN.as_bytes());
    let loader = dir.join("bootx64.efi").to_str().unwrap().to_owned();
    let modules = ["part_gpt", "part_msdos", "fat", "ntfs", "search", "search_fs_file", "chain"];
    let args = ["-O", "x86_64-efi", "-p", "/none", "-c", &config, "-o", &loader];
    sh("grub-mkimage", &[&args[..], &modules].concat());
    loader
}

fn boot_image(dir: &Path, name: &str, (sector, kib): (u32, u32), loader: Option<&str>) -> String {
    let image = dir.join(name).to_str().unwrap().to_owned();
    sh("mkfs.vfat", &["-S", &sector.to_string(), "-C", &image, &kib.to_string()]);
    sh("mmd", &["-i", &image, "::/EFI", "::/EFI/BOOT"]);
    if let Some(loader) = loader {
        sh("mcopy", &["-i", &image, loader, "::/EFI/BOOT/BOOTX64.EFI"]);
    }
    image
}

/// The usual one, made once.
fn made() -> Option<&'static Path> {
    static MADE: OnceLock<tempfile::TempDir> = OnceLock::new();
    if !lab_has(&TOOLS) {
        return None;
    }
    Some(MADE.get_or_init(|| make(&[])).path())
}

fn path(made: &Path, name: &str) -> String {
    made.join(name).to_str().unwrap().to_owned()
}

/// A flash whose temporary folder is empty at the end, as it is however a run ends.
fn flash(made: &Path, device: &str, boot: &str, more: &[&str]) -> Output {
    let (home, temporary) = (lab::folder(), target_folder());
    let mut command = command_in_session(home.path());
    command.args(["flash", &path(made, "windows.iso"), device, "--yes", "--force"]);
    command.args(["--filesystem", "ntfs", "--uefi-ntfs", boot, "--temp-dir"]);
    let output = lab::finish({
        command.arg(temporary.path()).args(more);
        command
    });
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "{output}");
    assert_eq!(servers(output.pid), Vec::<String>::new(), "an ntfs-3g was left");
    output
}

/// Command lines of ntfs-3g that serve a volume for a run of ours, or did not notice that it ended.
fn servers(run: u32) -> Vec<String> {
    let lines = running_in(run).into_iter();
    lines.filter(|line| line.contains("ntfs-3g") && line.contains("/sys/image")).collect()
}

fn mounted(device: &LoopDev) -> Mount {
    Mount::new(&device.partition(1), &["-t", "ntfs-3g", "-o", "ro"])
}

fn same_files(device: &LoopDev, made: &Path) {
    sh("ntfsfix", &["--no-action", &device.partition(1)]);
    let mount = mounted(device);
    assert_eq!(sh("diff", &["-r", mount.path(), &path(made, "files")]), "");
    for name in ["sources/boot.wim", "sources", "bootmgr"] {
        let time = |dir: &str| fs::metadata(format!("{dir}/{name}")).unwrap().mtime();
        assert_eq!(time(mount.path()), time(&path(made, "files")), "{name}");
    }
}

fn boots(device: &LoopDev, line: &str) {
    let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/boottest.py");
    let args = [&device.device, "--timeout", "180", "--fw", "ovmf", "--expect", line];
    sh(test.to_str().unwrap(), &args);
}

#[test]
fn the_whole_iso_is_on_an_ntfs_partition_and_boots_with_either_table() {
    let Some(made) = made() else { return };
    if !lab_has(&["qemu-system-x86_64"]) {
        return;
    }
    for (table, partition) in [("gpt", "gpt1"), ("mbr", "msdos1")] {
        let device = LoopDev::with(256 * MIB, &["-P"]);
        // Nothing of before shows through where the volume is not written.
        write_at(&device.device, 0, &noise(256 * MIB, 7));
        let boot = path(made, "boot512.img");
        let output =
            flash(made, &device.device, &boot, &["--table", table, "--label", "Gr\u{fc}n"])
                .expect(0);
        output.says(&[
            "NTFS; 287 files",
            "with a program for x64",
            "each of 287 files compared with the ISO",
            "every cluster in use was read back",
            "every byte matches",
        ]);
        if table == "gpt" {
            let text = sh("sgdisk", &["-v", "-i", "2", &device.device]);
            assert!(text.contains("No problems found") && text.contains("UEFI:NTFS"), "{text}");
        } else {
            let text = sh("sfdisk", &["-d", &device.device]);
            assert!(text.contains("type=7") && text.contains("type=ef"), "{text}");
        }
        same_files(&device, made);
        let label = sh("blkid", &["-p", "-s", "LABEL", "-o", "value", &device.partition(1)]);
        assert_eq!(label.trim(), "Gr\u{fc}n");
        let written = fs::read(device.partition(2)).unwrap();
        assert!(written[..1 << 20] == fs::read(&boot).unwrap()[..]);
        run(&["verify", &device.device, &path(made, "windows.iso")])
            .expect(0)
            .says(&["every byte matches"]);
        boots(&device, &format!("WINLAB-BOOT-DEV dev=hd0,{partition} fs=ntfs"));
        boots(&device, "WINLAB-BOOT-OK");
    }
}

#[test]
fn a_stick_with_sectors_of_4096_bytes_wants_a_boot_image_of_such_sectors() {
    let Some(made) = made() else { return };
    let device = LoopDev::with(256 * MIB, &["-P", "--sector-size", "4096"]);
    let refused = flash(made, &device.device, &path(made, "boot512.img"), &[]).expect(3);
    refused.says(&["made for sectors of 512 bytes, the target has 4096"]);
    assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
    flash(made, &device.device, &path(made, "boot4096.img"), &[]).expect(0);
    same_files(&device, made);
    run(&["verify", &device.device, &path(made, "windows.iso")]).expect(0);
}

#[test]
fn what_cannot_be_split_for_fat32_is_told_of_ntfs_and_goes_there_whole() {
    if !lab_has(&TOOLS) {
        return;
    }
    let made = make(&["--solid"]);
    let device = LoopDev::with(256 * MIB, &["-P"]);
    let iso = path(made.path(), "windows.iso");
    run(&["flash", &iso, &device.device, "--yes", "--force", "--split-size", "12MiB"])
        .expect(3)
        .says(&["cannot be split", "--filesystem ntfs --uefi-ntfs FILE"]);
    flash(made.path(), &device.device, &path(made.path(), "boot512.img"), &[]).expect(0);
    same_files(&device, made.path());
}

#[test]
fn answers_and_added_files_are_in_the_volume_and_verify_tells_them_from_the_iso() {
    let Some(made) = made() else { return };
    let device = LoopDev::with(256 * MIB, &["-P"]);
    let add = target_folder();
    fs::create_dir(add.path().join("new folder")).unwrap();
    put(&add.path().join("new folder"), "a.bin", &noise(100_000, 1));
    put(add.path(), "empty", b"");
    let more =
        ["--windows-options", "no-checks,account=Ada", "--add", add.path().to_str().unwrap()];
    flash(made, &device.device, &path(made, "boot512.img"), &more)
        .expect(0)
        .says(&["added by mediawriter: autounattend.xml"]);
    let mount = mounted(&device);
    let text = fs::read_to_string(mount.at.join("autounattend.xml")).unwrap();
    assert!(text.contains("<Name>Ada</Name>"));
    assert!(fs::read(mount.at.join("new folder/a.bin")).unwrap() == noise(100_000, 1));
    assert_eq!(fs::metadata(mount.at.join("empty")).unwrap().len(), 0);
    drop(mount);
    let verified = run(&["verify", &device.device, &path(made, "windows.iso")]).expect(0);
    verified.says(&["autounattend.xml and 2 more: not on the ISO"]);
}

#[test]
fn damage_is_found_by_verify_and_named() {
    let Some(made) = made() else { return };
    let device = LoopDev::with(256 * MIB, &["-P"]);
    let iso = path(made, "windows.iso");
    flash(made, &device.device, &path(made, "boot512.img"), &[]).expect(0);
    let medium = fs::read(&device.device).unwrap();
    let find = |needle: &[u8]| {
        let found = medium.windows(needle.len()).step_by(512).position(|part| part == needle);
        found.unwrap() as u64 * 512
    };
    let wim = fs::read(made.join("files/sources/boot.wim")).unwrap();
    let at = find(&wim[..4096]) + 100_000;
    write_at(&device.device, at, &[wim[100_000] ^ 1]);
    run(&["verify", &device.device, &iso])
        .expect(5)
        .says(&["sources/boot.wim differs from its byte 100000 on"])
        .never_says(&["every byte matches"]);
    write_at(&device.device, at, &[wim[100_000]]);
    run(&["verify", &device.device, &iso]).expect(0);
    // The image that boots it.
    let at = find(&fs::read(path(made, "boot512.img")).unwrap()[..4096]) + 600_000;
    let was = medium[usize::try_from(at).unwrap()];
    write_at(&device.device, at, &[was ^ 1]);
    run(&["verify", &device.device, &iso]).expect(5).says(&["UEFI:NTFS"]);
    write_at(&device.device, at, &[was]);
    // A file that is not there any more, made so by another system.
    let gone = Mount::new(&device.partition(1), &["-t", "ntfs-3g"]);
    fs::remove_file(gone.at.join("sources/lang.ini")).unwrap();
    drop(gone);
    run(&["verify", &device.device, &iso]).expect(5).says(&["sources/lang.ini is missing"]);
    write_at(&device.device, MIB, &[0; 512]);
    run(&["verify", &device.device, &iso])
        .expect(5)
        .says(&["no NTFS volume where one was written"]);
}

/// A stick of 128 MiB in memory, and what it is checked with.
fn in_memory(made: &Path) -> (Vec<u8>, IsoDisc, stamp::Stamp) {
    let device = LoopDev::with(128 * MIB, &["-P"]);
    flash(made, &device.device, &path(made, "boot512.img"), &[]).expect(0);
    let medium = fs::read(&device.device).unwrap();
    let disc = |name: &str| FileImage::new(File::open(path(made, name)).unwrap()).unwrap();
    let disc = IsoDisc::open(std::sync::Arc::new(disc("windows.iso")), "windows.iso").unwrap();
    let at = usize::try_from(stamp::AT).unwrap();
    let stamp = stamp::Stamp::parse(&medium[at..at + stamp::LEN]).unwrap();
    (medium, disc, stamp)
}

/// Offsets: NTFS documentation of linux-ntfs, "Index Record" and "Index Entry".
#[test]
fn an_index_that_leads_into_a_circle_is_a_finding_and_ends() {
    let Some(made) = made() else { return };
    let (mut medium, disc, stamp) = in_memory(made);
    let shape = Device { size: 128 * MIB, sector: 512 };
    assert!(volume::check(&Bytes(&medium), &disc, shape, &stamp).unwrap().is_good());
    let nodes = (0..medium.len()).step_by(4096).filter(|at| medium[*at..].starts_with(b"INDX"));
    let nodes: Vec<usize> = nodes.collect();
    for node in nodes {
        let word = |at: usize| usize::from(u16::from_le_bytes([medium[at], medium[at + 1]]));
        let entry = node + 0x18 + word(node + 0x18);
        let end = entry + word(entry + 8);
        // Its first entry is behind a node, which is itself.
        medium[entry + 12] |= 1;
        medium.copy_within(node + 0x10..node + 0x18, end - 8);
    }
    let report = volume::check(&Bytes(&medium), &disc, shape, &stamp).unwrap();
    let circles = report.damage.iter().filter(|text| text.contains("into a circle")).count();
    assert!(circles > 0, "{report:?}");
    // A node of any size, which would have to be reserved: in the roots of all indexes.
    let (mut medium, ..) = in_memory(made);
    let roots: Vec<usize> = (0..medium.len() - 16)
        .step_by(8)
        .filter(|at| medium[*at..].starts_with(&[0x30, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0]))
        .collect();
    assert!(roots.len() > 5, "{roots:?}");
    for root in roots {
        medium[root + 11] = 0xff;
    }
    let report = volume::check(&Bytes(&medium), &disc, shape, &stamp).unwrap();
    assert!(report.damage.iter().any(|text| text.contains("too large")), "{report:?}");
}

/// The sector numbers at the end of each half of a record are checked, so most damage is an error.
#[test]
fn damaged_records_and_indexes_end_in_findings() {
    let Some(made) = made() else { return };
    let (medium, disc, stamp) = in_memory(made);
    let shape = Device { size: 128 * MIB, sector: 512 };
    let records: Vec<usize> = (0..medium.len() / 1024)
        .map(|number| number * 1024)
        .filter(|at| medium[*at..].starts_with(b"FILE") || medium[*at..].starts_with(b"INDX"))
        .collect();
    assert!(records.len() > 300, "{}", records.len());
    let random = noise(200 * 8, 99);
    let mut found = 0;
    for bytes in random.chunks_exact(8) {
        let pick = |from: usize| usize::from(bytes[from]) << 8 | usize::from(bytes[from + 1]);
        // Behind the first 400 bytes most records are empty.
        let place = records[pick(0) % records.len()] + pick(2) % 400;
        let medium = Patched { medium: &medium, at: place, byte: medium[place] ^ bytes[4].max(1) };
        let checked = volume::check(&medium, &disc, shape, &stamp);
        found += usize::from(!checked.is_ok_and(|report| report.is_good()));
    }
    // The others are times, rights, and room that is not used.
    assert!(found > 10, "{found} of 200 were noticed");
}

/// A medium with one byte that is another.
struct Patched<'a> {
    medium: &'a [u8],
    at: usize,
    byte: u8,
}

impl ReadAt for Patched<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = Bytes(self.medium).read_at(offset, buf)?;
        let offset = usize::try_from(offset).unwrap();
        if let Some(place) = self.at.checked_sub(offset).and_then(|at| buf[..n].get_mut(at)) {
            *place = self.byte;
        }
        Ok(n)
    }
    fn size(&self) -> Option<u64> {
        Some(self.medium.len() as u64)
    }
}

#[test]
fn what_cannot_work_is_refused_and_the_target_is_not_touched() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    write_at(&device.device, 0, &noise(256 * MIB, 3));
    let before = lab::sha256sum(&device.device);
    let (dir, boot) = (target_folder(), path(made, "boot512.img"));
    let whole = fs::read(&boot).unwrap();
    let no_fat = put(dir.path(), "noise.img", &noise(MIB, 4));
    let cut = put(dir.path(), "cut.img", &whole[..whole.len() / 2]);
    let empty = boot_image(dir.path(), "empty.img", (512, 1024), None);
    for (file, words) in [
        (no_fat.as_str(), "is no image that boots NTFS"),
        (&cut, "it is cut short"),
        (&empty, "it has no EFI/BOOT/BOOT*.EFI"),
        (dir.path().to_str().unwrap(), "is no image that boots NTFS"),
        (&path(made, "windows.iso"), "is no image that boots NTFS"),
    ] {
        flash(made, &device.device, file, &[]).expect(3).says(&[words]);
    }
    let bad = dir.path().join("bad");
    fs::create_dir(&bad).unwrap();
    put(&bad, "ends with a dot.", b"x");
    let add = ["--add", bad.to_str().unwrap()];
    flash(made, &device.device, &boot, &add).expect(3).says(&["Windows drops the '.'"]);
    let small = LoopDev::new(48 * MIB);
    flash(made, &small.device, &boot, &[]).expect(3).says(&["use a larger stick"]);
    assert_eq!(lab::read_direct(&small.device, 0, 4096), vec![0; 4096]);
    let iso = path(made, "windows.iso");
    let other = put(dir.path(), "image", &lab::disk_image(MIB, 1));
    for (args, code, words) in [
        (vec![&iso, "--filesystem", "ntfs"], 2, "--uefi-ntfs"),
        (vec![&iso, "--uefi-ntfs", &boot], 2, "--filesystem"),
        (vec![&iso, "--temp-dir", "/var/tmp"], 2, "--uefi-ntfs"),
        (vec![&iso, "--filesystem", "fat32", "--uefi-ntfs", &boot], 2, "--filesystem ntfs"),
        (
            vec![&iso, "--filesystem", "ntfs", "--uefi-ntfs", &boot, "--split-size", "1GiB"],
            2,
            "cannot be used with",
        ),
        (vec![&other, "--filesystem", "ntfs", "--uefi-ntfs", &boot], 2, "are for Windows ISOs"),
    ] {
        let all = [&["flash", args[0], &device.device, "--yes", "--force"], &args[1..]].concat();
        run(&all).expect(code).says(&[words]);
    }
    assert_eq!(lab::sha256sum(&device.device), before, "it was touched");
}

#[test]
fn an_image_for_other_computers_than_the_iso_is_refused() {
    if !lab_has(&TOOLS) {
        return;
    }
    let made = make(&["--arch", "arm64"]);
    let device = LoopDev::new(256 * MIB);
    let output = flash(made.path(), &device.device, &path(made.path(), "boot512.img"), &[]);
    output.expect(3).says(&["has programs for x64, the ISO for aa64: it would not start"]);
    assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
}

/// A program of this name that says something and fails.
fn failing(dir: &Path, name: &str) {
    let path = PathBuf::from(put(dir, name, b"#!/bin/sh\necho 'the reason' >&2\nexit 1\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn missing_and_failing_programs_are_told_with_the_way_out() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    let programs = target_folder();
    let with_path = |path_of: &str| {
        let home = lab::folder();
        let mut command = lab::command(home.path());
        command.env("PATH", path_of).env("TMPDIR", home.path());
        command.args(["flash", &path(made, "windows.iso"), &device.device, "--yes", "--force"]);
        command.args(["--filesystem", "ntfs", "--uefi-ntfs", &path(made, "boot512.img")]);
        lab::finish(command)
    };
    with_path("").expect(3).says(&["mkntfs is not installed, or not in PATH", "install ntfs-3g"]);
    let folder = programs.path().to_str().unwrap();
    failing(programs.path(), "mkntfs");
    with_path(folder).expect(3).says(&["ntfs-3g is not installed, or not in PATH"]);
    failing(programs.path(), "ntfs-3g");
    with_path(folder).expect(1).says(&["mkntfs failed", "the reason"]);
    fs::remove_file(programs.path().join("mkntfs")).unwrap();
    std::os::unix::fs::symlink(lab::find("mkntfs").unwrap(), programs.path().join("mkntfs"))
        .unwrap();
    with_path(folder).expect(1).says(&["ntfs-3g failed", "the reason"]);
    assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
}

#[test]
fn a_folder_without_room_is_told_before_the_question() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(256 * MIB);
    let small = Mount::new("tmpfs", &["-t", "tmpfs", "-o", "size=16m"]);
    let args = ["flash", &path(made, "windows.iso"), &device.device, "--dry-run", "--force"];
    let boot = path(made, "boot512.img");
    let ntfs = ["--filesystem", "ntfs", "--uefi-ntfs", &boot, "--temp-dir"];
    run(&[&args[..], &ntfs, &[small.path()]].concat())
        .expect(3)
        .says(&["has room for", "--temp-dir DIR"]);
    let dry = run(&[&args[..], &ntfs, &["/var/tmp"]].concat()).expect(0);
    dry.says(&["GPT, NTFS; 287 files", "made in /var/tmp first", "nothing was written"]);
    assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
}

#[test]
fn a_signal_leaves_no_mount_no_file_and_no_program() {
    let Some(made) = made() else { return };
    let device = LoopDev::new(4096 * MIB);
    let add = target_folder();
    // Filling the volume takes long enough to be interrupted.
    File::create(add.path().join("large")).unwrap().set_len(3 << 30).unwrap();
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGKILL, 137)] {
        let temporary = target_folder();
        let (iso, boot) = (path(made, "windows.iso"), path(made, "boot512.img"));
        let ntfs = ["--force", "--filesystem", "ntfs", "--uefi-ntfs", &boot, "--temp-dir"];
        let folders =
            [temporary.path(), Path::new("--add"), add.path()].map(|p| p.to_str().unwrap());
        let home = lab::folder();
        let mut command = command_in_session(home.path());
        command.args(["flash", &iso, &device.device, "--yes"]).args(ntfs).args(folders);
        let live = Live::begin(command, home);
        let run = live.pid().as_raw().unsigned_abs();
        lab::eventually("ntfs-3g runs", || !servers(run).is_empty());
        lab::pause(300);
        assert_eq!(servers(run).len(), 1, "it is filled already");
        live.send(signal);
        live.end().expect(code);
        lab::eventually("ntfs-3g is gone", || servers(run).is_empty());
        assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains("/sys/volume") && !mounts.contains("/sys/image"), "{mounts}");
        assert_eq!(lab::read_direct(&device.device, 0, 4096), vec![0; 4096]);
    }
}
