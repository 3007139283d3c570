//! Copies of devices, on loop devices that are made here: identical ones, larger ones whose table is
//! moved, ones with identifiers of their own, ones in a file and back; and what is refused. Judged by
//! cmp, sgdisk, fsck, debugfs, mtools and zstd.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::lab::{
    self, Live, LoopDev, MIB, Mount, Output, Stick, disk_image, eventually, folder, has_sticks,
    lab_has, noise, partition, put, read_direct, run, sh, sha256sum, target_folder, write_at,
};
use nix::sys::signal::Signal;

fn clone(source: &str, target: &str, more: &[&str]) -> Output {
    run(&[&["clone", source, target, "--yes", "--json"], more].concat())
}

/// A loop device that holds these bytes.
fn holding(bytes: &[u8], options: &[&str]) -> LoopDev {
    let disk = LoopDev::with(bytes.len() as u64, options);
    write_at(&disk.device, 0, bytes);
    disk
}

fn same(one: &LoopDev, other: &LoopDev, bytes: u64) {
    sh("cmp", &["--bytes", &bytes.to_string(), &one.device, &other.device]);
}

#[test]
fn a_copy_is_identical_and_the_source_is_only_read() {
    if !lab_has(&["losetup", "cmp"]) {
        return;
    }
    // Not a multiple of a piece, nor of 4096.
    for len in [32 * MIB, 9 * MIB + 512 * 7] {
        let source = holding(&disk_image(len, 3), &[]);
        let before = sha256sum(&source.device);
        let target = LoopDev::new(len);
        let output = clone(&source.device, &target.device, &[])
            .expect(0)
            .says(&["read back: every byte matches", &before]);
        assert_eq!(output.event("media_verdict")["verdict"], "matched", "{output}");
        same(&source, &target, len);
        assert_eq!(sha256sum(&source.device), before);
        // A device may be write-protected and copied all the same.
        let protected = LoopDev::over(&source.file, &["-r"]);
        clone(&protected.device, &LoopDev::new(len).device, &["--dry-run"]).expect(0);
    }
}

#[test]
fn what_would_be_no_good_copy_is_refused_before_anything_is_written() {
    if !lab_has(&["losetup", "mkfs.ext4", "partx"]) {
        return;
    }
    let source = holding(&disk_image(32 * MIB, 5), &["-P"]);
    let target = LoopDev::new(32 * MIB);
    let untouched = sha256sum(&target.device);
    let refused = |source: &str, target: &str, more: &[&str]| clone(source, target, more).expect(3);
    refused(&source.device, &source.device, &[]).says(&["[source-on-target]"]);
    let part = source.partition(1);
    refused(&part, &source.device, &[]).says(&["[source-on-target]"]);
    refused(&source.device, &part, &[]).says(&["[partition]"]);
    let behind = LoopDev::over(Path::new(&part), &[]);
    refused(&behind.device, &source.device, &[]);
    drop(behind);
    let small = LoopDev::new(32 * MIB - 512);
    refused(&source.device, &small.device, &[]).says(&["[too-small]"]);
    let other = LoopDev::with(64 * MIB, &["-b", "4096"]);
    refused(&source.device, &other.device, &[]).says(&["sector-size"]);
    let dir = target_folder();
    let file = put(dir.path(), "disk.img", &disk_image(MIB, 1));
    refused(&file, &target.device, &[]).says(&["devices are cloned", "mediawriter flash"]);
    refused("/dev/none-of-that", &target.device, &[]).says(&["no such device"]);
    // Nobody was asked.
    run(&["clone", &source.device, &target.device]).expect(3).says(&["--yes"]);
    run(&["clone", &source.device]).expect(2).says(&["no TARGET"]);
    clone(&source.device, &target.device, &["--overwrite"]).expect(2);
    assert_eq!(sha256sum(&target.device), untouched);
    run(&["flash", &source.device, &target.device]).expect(3).says(&["mediawriter clone"]);
}

#[test]
fn a_mounted_source_is_refused_and_the_way_out_is_named() {
    if !lab_has(&["losetup", "mkfs.ext4"]) {
        return;
    }
    let source = LoopDev::new(32 * MIB);
    sh("mkfs.ext4", &["-q", &source.device]);
    let target = LoopDev::new(32 * MIB);
    let mount = Mount::new(&source.device, &[]);
    clone(&source.device, &target.device, &[]).expect(3).says(&[
        "may change while it is copied",
        "is mounted at",
        "[source-mounted]",
        "umount",
        "--freeze",
    ]);
    let dir = target_folder();
    let image = dir.path().join("copy.img");
    clone(&source.device, image.to_str().unwrap(), &[]).expect(3).says(&["[source-mounted]"]);
    assert!(!image.exists());
    assert!(read_direct(&target.device, 0, MIB).iter().all(|byte| *byte == 0));
    drop(mount);
    clone(&source.device, &target.device, &[]).expect(0);
    same(&source, &target, 32 * MIB);
}

/// Whether somebody can write there now; a writer that is held up is left to itself.
fn writes(at: &Path) -> bool {
    let mut touch =
        Command::new("timeout").args(["2", "touch"]).arg(at.join("new")).spawn().unwrap();
    touch.wait().unwrap().success()
}

#[test]
fn a_mounted_source_is_frozen_while_it_is_read_and_thawed_on_every_way_out() {
    if !lab_has(&["losetup", "mkfs.ext4", "e2fsck"]) || !has_sticks() {
        return;
    }
    // Slow enough to be looked at meanwhile, and more than the buffers hold.
    let target = Stick::new(&["size=128M", "write_bps=16M"]);
    let source = LoopDev::new(128 * MIB);
    sh("mkfs.ext4", &["-q", &source.device]);
    let mount = Mount::new(&source.device, &[]);
    fs::write(mount.at.join("file"), noise(8 * MIB, 9)).unwrap();
    // A log on the source would wait for itself.
    let log = mount.at.join("log.csv");
    let more = ["--freeze", "--log", log.to_str().unwrap()];
    clone(&source.device, &target.device, &more).expect(3).says(&["lies on the source"]);
    let inside = mount.at.join("copy.img.zst");
    clone(&source.device, inside.to_str().unwrap(), &["--freeze"]).expect(3);
    assert!(writes(&mount.at));
    for signal in [Some(Signal::SIGINT), None] {
        let args = ["clone", &source.device, &target.device, "--yes", "--freeze"];
        let mut live = Live::start(&args);
        live.wait_for(|event| event["code"] == "frozen");
        live.wait_for(|event| event["event"] == "sample" && event["phase"] == "write");
        assert!(!writes(&mount.at), "it is frozen");
        if let Some(signal) = signal {
            live.send(signal);
            live.end().expect(130).says(&["were frozen for", "was made unbootable"]);
        } else {
            live.end().expect(0).says(&["were frozen for", "every byte matches"]);
        }
        assert!(writes(&mount.at), "it is thawed after {signal:?}");
    }
    // A wish said twice ends the process at once, and what is frozen is thawed all the same.
    let args = ["clone", &source.device, &target.device, "--yes", "--freeze"];
    let mut live = Live::start(&args);
    live.wait_for(|event| event["event"] == "sample" && event["phase"] == "write");
    live.send(Signal::SIGSTOP);
    live.send(Signal::SIGINT);
    live.send(Signal::SIGCONT);
    lab::pause(700);
    live.send(Signal::SIGTERM);
    live.end();
    assert!(writes(&mount.at), "it is thawed when the process is ended at once");
    // What was copied is a filesystem that was unmounted cleanly.
    let copy = LoopDev::new(128 * MIB);
    clone(&source.device, &copy.device, &["--freeze"]).expect(0);
    sh("e2fsck", &["-fn", &copy.device]);
    drop(mount);
}

/// A GPT with two partitions of noise.
fn gpt_disk(len: u64, sector: u32) -> LoopDev {
    let dir = folder();
    let mut bytes = noise(len, len);
    bytes[..1 << 20].fill(0);
    let end = bytes.len();
    bytes[end - (1 << 20)..].fill(0);
    let path = put(dir.path(), "gpt.img", &bytes);
    partition(&path, sector, "label: gpt\nsize=4M,type=U,name=ESP\ntype=L,name=root\n");
    let disk = LoopDev::with(len, &["-b", &sector.to_string()]);
    write_at(&disk.device, 0, &fs::read(&path).unwrap());
    disk
}

/// What sgdisk says about a disk; it has to find no problem.
fn sound(disk: &LoopDev) -> String {
    let said = sh("sgdisk", &["-v", &disk.device]);
    assert!(said.contains("No problems found"), "{said}");
    let table = sh("sgdisk", &["-p", "-i", "1", &disk.device]);
    assert!(!table.contains("doesn't"), "{table}");
    table
}

#[test]
fn on_a_larger_target_the_backup_of_the_table_goes_to_the_end() {
    if !lab_has(&["losetup", "sfdisk", "sgdisk", "cmp"]) {
        return;
    }
    for (sector, from, to) in [
        (512, 32 * MIB, 48 * MIB),
        // The new backup lies where the old one was, in part.
        (512, 32 * MIB, 32 * MIB + 512 * 8),
        (4096, 32 * MIB, 40 * MIB),
    ] {
        let source = gpt_disk(from, sector);
        let sectors = sector.to_string();
        let target = LoopDev::with(to, &["-b", &sectors]);
        // An old table that must not be seen.
        lab::fill(&target.device, 0xee, to);
        clone(&source.device, &target.device, &[])
            .expect(0)
            .says(&["goes to the end of the target", "every byte matches"]);
        let table = sound(&target);
        assert!(table.contains(&format!("{} sectors", to / u64::from(sector))), "{table}");
        // The partitions are the same, and the old backup is gone.
        let data = from - 2 * MIB;
        let args = ["--ignore-initial", "1048576", "--bytes", &data.to_string()];
        sh("cmp", &[&args[..], &[&source.device, &target.device]].concat());
        let last = from - u64::from(sector);
        if to - from > MIB {
            let old = read_direct(&target.device, last, u64::from(sector));
            assert!(old.iter().all(|byte| *byte == 0), "{sector}");
        }
        // Byte by byte, when that is wanted.
        let as_it_is = LoopDev::with(to, &["-b", &sectors]);
        clone(&source.device, &as_it_is.device, &["--keep-table"]).expect(0);
        same(&source, &as_it_is, from);
    }
}

#[test]
fn a_gpt_gets_new_identifiers_on_both_ends() {
    if !lab_has(&["losetup", "sfdisk", "sgdisk"]) {
        return;
    }
    let source = gpt_disk(32 * MIB, 512);
    let before = sound(&source);
    for size in [32 * MIB, 48 * MIB] {
        let target = LoopDev::new(size);
        clone(&source.device, &target.device, &["--new-ids"])
            .expect(0)
            .says(&["disk GUID", "no file is changed"]);
        let after = sound(&target);
        for field in ["Disk identifier (GUID): ", "Partition unique GUID: "] {
            let id =
                |text: &str| text.split(field).nth(1).unwrap().lines().next().unwrap().to_owned();
            assert_ne!(id(&before), id(&after), "{field}");
        }
    }
    assert_eq!(sound(&source), before);
}

/// A card as of a Raspberry Pi: MBR, FAT32 with cmdline.txt, ext4 with etc/fstab.
fn pi(cmdline: &str, fstab: &str) -> LoopDev {
    let dir = folder();
    let boot = put(dir.path(), "boot.img", &vec![0; 36 << 20]);
    sh("mkfs.vfat", &["-F", "32", "-s", "1", &boot]);
    let config = put(dir.path(), "config.txt", b"arm_64bit=1\n");
    let cmdline = put(dir.path(), "cmdline.txt", cmdline.as_bytes());
    sh("mcopy", &["-i", &boot, &config, &cmdline, "::"]);
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("etc/default")).unwrap();
    put(&tree, "etc/fstab", fstab.as_bytes());
    // The folder has several blocks.
    for number in 0..400 {
        put(&tree.join("etc"), format!("some-configuration-file-{number}"), b"x");
    }
    let root = put(dir.path(), "root.img", &vec![0; 24 << 20]);
    sh("mkfs.ext4", &["-q", "-d", tree.to_str().unwrap(), &root]);
    let disk = put(dir.path(), "disk.img", &vec![0; 64 << 20]);
    let script = "label: dos\nlabel-id: 0x1234abcd\nstart=2048,size=36M,type=c\nsize=24M,type=83\n";
    partition(&disk, 512, script);
    write_at(&disk, MIB, &fs::read(&boot).unwrap());
    write_at(&disk, 37 * MIB, &fs::read(&root).unwrap());
    holding(&fs::read(&disk).unwrap(), &[])
}

/// The two partitions of a copy, as files.
fn parts(disk: &LoopDev, folder: &Path) -> (String, String) {
    let bytes = fs::read(&disk.device).unwrap();
    let part = |name, range: std::ops::Range<usize>| put(folder, name, &bytes[range]);
    (part("boot.img", 1 << 20..37 << 20), part("root.img", 37 << 20..61 << 20))
}

const PI: [&str; 8] =
    ["losetup", "sfdisk", "mkfs.vfat", "mkfs.ext4", "mcopy", "fsck.vfat", "e2fsck", "debugfs"];

#[test]
fn a_card_of_a_raspberry_pi_gets_partuuids_of_its_own_and_its_files_name_them() {
    if !lab_has(&PI) {
        return;
    }
    let cmdline =
        "console=tty1 root=PARTUUID=1234abcd-02 rootfstype=ext4 fsck.repair=yes rootwait\n";
    let fstab = "proc /proc proc defaults 0 0\nPARTUUID=1234ABCD-01 /boot/firmware vfat defaults 0 2\n\
                 PARTUUID=1234abcd-02 / ext4 defaults,noatime 0 1\nUUID=77-88 /data ext4 defaults 0 0\n";
    let source = pi(cmdline, fstab);
    let original = sha256sum(&source.device);
    let target = LoopDev::new(80 * MIB);
    clone(&source.device, &target.device, &["--new-ids"]).expect(0).says(&[
        "disk signature 1234abcd becomes",
        "cmdline.txt of partition 1: PARTUUID 1234abcd-02 becomes",
        "etc/fstab of partition 2: PARTUUID 1234abcd-01 becomes",
        "names filesystems by UUID=77-88: unchanged",
        "every byte matches",
    ]);
    let signature = read_direct(&target.device, 440, 4);
    let new = format!("{:08x}", u32::from_le_bytes(signature.try_into().unwrap()));
    assert_ne!(new, "1234abcd");
    let dir = folder();
    let (boot, root) = parts(&target, dir.path());
    sh("fsck.vfat", &["-n", &boot]);
    sh("e2fsck", &["-fn", &root]);
    let seen = sh("mtype", &["-i", &boot, "::cmdline.txt"]);
    assert_eq!(seen.replace('\r', ""), cmdline.replace("1234abcd", &new));
    let seen = sh("debugfs", &["-R", "cat /etc/fstab", &root]);
    let expected = fstab.replace("1234abcd", &new).replace("1234ABCD", &new);
    assert_eq!(seen, expected);
    // Nothing else differs, and the source has nothing new.
    let differing = fs::read(&source.device)
        .unwrap()
        .iter()
        .zip(fs::read(&target.device).unwrap())
        .filter(|(a, b)| *a != b)
        .count();
    assert!((4..=4 + 3 * 8).contains(&differing), "{differing}");
    assert_eq!(sha256sum(&source.device), original);
    // A copy without --new-ids is the card itself.
    let plain = LoopDev::new(64 * MIB);
    clone(&source.device, &plain.device, &[]).expect(0);
    same(&source, &plain, 64 * MIB);
}

#[test]
fn new_identifiers_are_refused_where_a_file_cannot_follow() {
    if !lab_has(&PI) {
        return;
    }
    let source = pi("root=PARTUUID=1234abcd-02\n", "PARTUUID=1234abcd-02 / ext4 defaults 0 1\n");
    let target = LoopDev::new(64 * MIB);
    // needs_recovery, as a card that was pulled out has it.
    let at = 37 * MIB + 1024 + 0x60;
    let mut incompat = read_direct(&source.device, at, 4);
    incompat[0] |= 4;
    write_at(&source.device, at, &incompat);
    clone(&source.device, &target.device, &["--new-ids"]).expect(3).says(&[
        "etc/fstab of partition 2",
        "was not unmounted",
        "fsck",
    ]);
    clone(&source.device, &target.device, &[]).expect(0);
    // Nothing to give identifiers to.
    let blank = LoopDev::new(8 * MIB);
    clone(&blank.device, &target.device, &["--new-ids"]).expect(3).says(&["no partition table"]);
}

#[test]
fn a_file_is_made_compressed_with_its_map_and_restores_the_disk() {
    if !lab_has(&["losetup", "zstd", "sfdisk"]) {
        return;
    }
    let mut bytes = disk_image(96 * MIB, 21);
    bytes[10 << 20..80 << 20].fill(0);
    let source = holding(&bytes, &[]);
    let dir = target_folder();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (file, map) = (path("card.img.zst"), path("card.img.bmap"));
    let output = clone(&source.device, &file, &[]).expect(0);
    let output = output.says(&["read back: every byte matches", &sha256sum(&source.device)]);
    assert!(output.text().contains(&sha256sum(&file)), "{output}");
    assert!(fs::metadata(&file).unwrap().len() < 32 * MIB);
    // Another program reads it, and knows its size beforehand.
    let listed = sh("zstd", &["-lv", &file]);
    assert!(listed.contains("(100663296 B)") && listed.contains("XXH64"), "{listed}");
    let plain = path("plain.img");
    sh("zstd", &["-dq", &file, "-o", &plain]);
    assert!(fs::read(&plain).unwrap() == bytes);
    // What exists stays, unless told otherwise.
    let stamp = sha256sum(&file);
    clone(&source.device, &file, &[]).expect(3).says(&["exists", "--overwrite"]);
    assert_eq!(sha256sum(&file), stamp);
    clone(&source.device, &file, &["--overwrite"]).expect(0);
    // The map is found beside it, and every stretch is compared with it.
    let target = LoopDev::new(96 * MIB);
    lab::fill(&target.device, 0xee, 96 * MIB);
    lab::flash(&file, &target.device, &[]).expect(0).says(&["block map", "version 2.0"]);
    same(&source, &target, 96 * MIB);
    if lab::find("bmaptool").is_some() {
        let other = LoopDev::new(96 * MIB);
        sh("bmaptool", &["copy", "--bmap", &map, &file, &other.device]);
        same(&source, &other, 96 * MIB);
    }
    // A map of other bytes.
    let text = fs::read_to_string(&map).unwrap();
    fs::write(&map, text.replacen("0-", "1-", 1)).unwrap();
    lab::flash(&file, &target.device, &[]).expect(4);
    let left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no parts are left: {left:?}");
}

#[test]
fn a_plain_file_is_the_disk_with_holes_and_belongs_to_the_person() {
    if !lab_has(&["losetup", "cmp"]) {
        return;
    }
    let mut bytes = disk_image(64 * MIB, 23);
    bytes[8 << 20..56 << 20].fill(0);
    let source = holding(&bytes, &[]);
    let dir = target_folder();
    chown(dir.path(), Some(12345), Some(12345)).unwrap();
    for name in ["card.img", "card.img.zst"] {
        let file = dir.path().join(name);
        let mut command = lab::command(dir.path());
        command.args(["clone", &source.device, file.to_str().unwrap(), "--json"]);
        command.env("SUDO_UID", "12345").env("SUDO_GID", "12345");
        lab::finish(command).expect(0).says(&["every byte matches"]);
        let meta = fs::metadata(&file).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (12345, 12345), "{name}");
        assert!(meta.blocks() * 512 < 24 * MIB, "{name}: {}", meta.blocks());
    }
    let map = fs::metadata(dir.path().join("card.img.bmap")).unwrap();
    assert_eq!(map.uid(), 12345);
    assert!(fs::read(dir.path().join("card.img")).unwrap() == bytes);
    // Dry runs and other endings make nothing.
    let none = dir.path().join("none.img");
    clone(&source.device, none.to_str().unwrap(), &["--dry-run"]).expect(0).says(&["only read"]);
    let packed = dir.path().join("none.img.xz");
    clone(&source.device, packed.to_str().unwrap(), &[]).expect(2).says(&["NAME.img.zst"]);
    assert!(!none.exists() && !packed.exists());
    clone(&source.device, "/dev/none.img", &[]).expect(3);
}

#[test]
fn a_file_that_does_not_fit_is_told_and_leaves_nothing() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let source = holding(&disk_image(32 * MIB, 25), &[]);
    let small = Mount::new("none", &["-t", "tmpfs", "-o", "size=16m"]);
    for name in ["card.img.zst", "card.img"] {
        let file = small.at.join(name);
        clone(&source.device, file.to_str().unwrap(), &[])
            .expect(1)
            .says(&["free where the file goes"]);
        assert_eq!(fs::read_dir(&small.at).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn a_source_that_cannot_be_read_is_an_error_with_its_place() {
    if !has_sticks() {
        return;
    }
    let source = Stick::new(&["size=32M", "eio_read=9437184"]);
    let target = LoopDev::new(32 * MIB);
    let says = ["the source, failed at offset 9437184", "length 4096", "ddrescue"];
    let output = clone(&source.device, &target.device, &[]).expect(1).says(&says);
    output.says(&["was made unbootable"]);
    let dir = target_folder();
    for name in ["card.img.zst", "card.img"] {
        let file = dir.path().join(name);
        clone(&source.device, file.to_str().unwrap(), &[]).expect(1).says(&says);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_signal_ends_a_copy_into_a_file_and_nothing_is_left() {
    if !has_sticks() {
        return;
    }
    let source = Stick::new(&["size=64M", "read_bps=8M"]);
    let dir = target_folder();
    let file = dir.path().join("card.img.zst");
    let mut live = Live::start(&["clone", &source.device, file.to_str().unwrap()]);
    live.wait_for(|event| event["event"] == "sample");
    live.send(Signal::SIGTERM);
    live.end().expect(143);
    eventually("the part is gone", || fs::read_dir(dir.path()).unwrap().count() == 0);
}

/// Blocks that dumpe2fs lists as free: first and last.
fn free_blocks(image: &str) -> Vec<(u64, u64)> {
    let said = sh("dumpe2fs", &[image]);
    let lists = said.lines().filter_map(|line| line.strip_prefix("  Free blocks: "));
    let ranges = lists.flat_map(|list| list.split(", ")).filter(|range| !range.is_empty());
    ranges
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (first.parse().unwrap(), last.parse().unwrap())
        })
        .collect()
}

#[test]
fn only_used_blocks_are_copied_and_all_of_them() {
    if !lab_has(&[&PI[..], &["dumpe2fs", "mcopy", "diff", "sgdisk"]].concat()) {
        return;
    }
    for options in [
        &["-b", "1024"][..],
        &["-b", "4096"],
        &["-b", "4096", "-O", "^flex_bg"],
        &["-b", "4096", "-t", "ext2"],
    ] {
        let source = LoopDev::new(160 * MIB);
        sh("mkfs.ext4", &[&["-q"], options, &[source.device.as_str()]].concat());
        let mount = Mount::new(&source.device, &[]);
        for number in 0..40 {
            fs::write(mount.at.join(format!("file{number}")), noise(300_000, number)).unwrap();
        }
        for number in (0..40).step_by(2) {
            fs::remove_file(mount.at.join(format!("file{number}"))).unwrap();
        }
        drop(mount);
        let target = LoopDev::new(160 * MIB);
        lab::fill(&target.device, 0xee, 160 * MIB);
        clone(&source.device, &target.device, &["--used", "--discard", "never"])
            .expect(0)
            .says(&["that are free in the disk are left out", "every byte matches"]);
        sh("e2fsck", &["-fn", &target.device]);
        let (before, after) =
            (fs::read(&source.device).unwrap(), fs::read(&target.device).unwrap());
        let block = if options.contains(&"1024") { 1024 } else { 4096 };
        let free = free_blocks(&source.device);
        let is_free = |at: u64| free.iter().any(|(first, last)| (*first..=*last).contains(&at));
        let step = usize::try_from(block).unwrap();
        let mut left = 0;
        for (number, (one, other)) in (0..).zip(before.chunks(step).zip(after.chunks(step))) {
            let same = one == other;
            assert!(same || is_free(number), "block {number} is in use: {options:?}");
            left += usize::from(other.iter().all(|byte| *byte == 0xee));
        }
        assert!(left * step > 100 << 20, "{left} blocks were left: {options:?}");
    }
    // A card with both kinds of filesystem, into a file and back onto a disk that is full of something.
    let source = pi("root=PARTUUID=1234abcd-02\n", "PARTUUID=1234abcd-02 / ext4 defaults 0 1\n");
    let dir = target_folder();
    let file = dir.path().join("card.img.zst").to_str().unwrap().to_owned();
    clone(&source.device, &file, &["--used", "--new-ids"])
        .expect(0)
        .says(&["free in partition 1 are left out", "free in partition 2 are left out"]);
    let target = LoopDev::new(64 * MIB);
    lab::fill(&target.device, 0xee, 64 * MIB);
    lab::flash(&file, &target.device, &["--discard", "never"]).expect(0);
    let (boot, root) = parts(&target, dir.path());
    sh("fsck.vfat", &["-n", &boot]);
    sh("e2fsck", &["-fn", &root]);
    assert!(sh("mtype", &["-i", &boot, "::config.txt"]).contains("arm_64bit=1"));
    assert!(sh("debugfs", &["-R", "cat /etc/fstab", &root]).contains("/ ext4"));
    let bytes = fs::read(&target.device).unwrap();
    let left = bytes.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0xee)).count();
    assert!(left > (30 << 20) / 4096, "{left}");
    // Where it is not known what is in use, everything is copied.
    let other = gpt_disk(32 * MIB, 512);
    let copy = LoopDev::new(40 * MIB);
    clone(&other.device, &copy.device, &["--used"]).expect(0).says(&["is copied whole"]);
    sound(&copy);
}
