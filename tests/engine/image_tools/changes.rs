//! What a mount or a copied file changes on a volume, and whether the places are named right.

use std::fs;
use std::process::Command;

use mediawriter::image::{Place, describe_range};

use super::lab::{Lab, look, run, tool};

/// Ranges of 512 bytes that differ.
fn differences(a: &[u8], b: &[u8]) -> Vec<u64> {
    let blocks = a.chunks(512).zip(b.chunks(512)).zip(0_u64..);
    blocks.filter(|((a, b), _)| a != b).map(|(_, i)| i * 512).collect()
}

#[test]
fn what_a_mount_changes_is_known() {
    let root = fs::metadata("/proc/self")
        .is_ok_and(|_| run("id -u").is_some_and(|out| out.stdout.trim_ascii() == b"0"));
    if !root {
        eprintln!("SKIP: mounting needs root");
        return;
    }
    let lab = Lab::new("mount");
    for (name, mib, line) in [
        ("ext4", 64, "mkfs.ext4 -q"),
        ("ext4-1k", 64, "mkfs.ext4 -q -b 1024"),
        ("ext4-eager", 64, "mkfs.ext4 -q -E lazy_itable_init=0"),
        ("ext3", 64, "mkfs.ext3 -q"),
        ("ext2", 64, "mkfs.ext2 -q"),
        ("xfs", 400, "mkfs.xfs -q"),
        ("btrfs", 200, "mkfs.btrfs -q"),
        ("vfat", 300, "mkfs.vfat -F 32"),
        ("exfat", 64, "mkfs.exfat"),
        ("f2fs", 100, "mkfs.f2fs -q"),
    ] {
        let path = lab.sparse(name, mib);
        if run(&format!("{line} {}", path.display())).is_none() {
            continue;
        }
        let before = fs::read(&path).unwrap();
        let info = look(&path);
        let at = lab.path("mnt");
        fs::create_dir_all(&at).unwrap();
        let mount = Command::new("mount").arg("-o").arg("loop").arg(&path).arg(&at).output();
        if !mount.is_ok_and(|out| out.status.success()) {
            // A kernel without this filesystem: nothing to be had by installing, so no skip to be mended.
            eprintln!("this kernel mounts no {name}: what it changes on mounting is not compared");
            continue;
        }
        // A DirEntry kept would keep the directory busy.
        assert!(fs::read_dir(&at).unwrap().count() < 100);
        run(&format!("umount {}", at.display()));
        let after = fs::read(&path).unwrap();
        let mut places: Vec<Place> = Vec::new();
        for offset in differences(&before, &after) {
            for located in describe_range(&info, offset..offset + 512) {
                // Half a kilobyte of ext's boot block precedes its superblock only at 1024.
                if !places.contains(&located.place) {
                    places.push(located.place);
                }
            }
        }
        let words: Vec<String> = places.iter().map(ToString::to_string).collect();
        eprintln!("{name}: a mount changed {words:?}");
        // btrfs writes every tree block to a new place: only its superblocks can be named.
        if name != "btrfs" {
            assert!(places.iter().all(Place::changes_on_mount), "{name}: {words:?}");
        }
    }
}

#[test]
fn what_a_copied_file_changes_in_fat_is_known() {
    let lab = Lab::new("mcopy");
    let file = lab.path("file.bin");
    fs::write(&file, vec![0xA5; 100_000]).unwrap();
    for (name, mib, line) in [
        ("fat12", 2, "mkfs.vfat -F 12"),
        ("fat16", 32, "mkfs.vfat -F 16"),
        ("fat32", 300, "mkfs.vfat -F 32"),
        ("fat32-small-clusters", 100, "mkfs.vfat -F 32 -s 1"),
        ("fat32-4k", 600, "mkfs.vfat -F 32 -S 4096"),
    ] {
        let path = lab.sparse(name, mib);
        if run(&format!("{line} {}", path.display())).is_none() || tool("mcopy").is_none() {
            continue;
        }
        let before = fs::read(&path).unwrap();
        let info = look(&path);
        run(&format!("mcopy -i {} {} ::FILE.BIN", path.display(), file.display()));
        let after = fs::read(&path).unwrap();
        let geometry = info.filesystem.as_ref().unwrap().fat.as_ref().unwrap();
        let (mut fat, mut root, mut data) = (0, 0, Vec::new());
        for offset in differences(&before, &after) {
            match describe_range(&info, offset..offset + 512)[..] {
                [ref one] if matches!(one.place, Place::FatTable(_)) => fat += 1,
                [ref one] if matches!(one.place, Place::RootDirectory(_)) => root += 1,
                [ref one] if matches!(one.place, Place::FsInfo(_)) => {}
                [ref one] if matches!(one.place, Place::Data { .. }) => data.push(offset),
                ref other => panic!("{name}: {offset} is {other:?}"),
            }
        }
        // Both tables, one entry in the root directory, and the file itself.
        assert!(fat >= 2 && root == 1, "{name}: {fat} {root}");
        assert_eq!(data.len(), 100_000_usize.div_ceil(512), "{name}");
        let first = (data[0] - geometry.data_start) / u64::from(geometry.cluster) + 2;
        let range = geometry.cluster_range(u32::try_from(first).unwrap()).unwrap();
        assert_eq!(range.start, data[0], "{name}: a file starts at a cluster");
        eprintln!("{name}: mcopy changed {fat} table sectors, the root directory and the data");
    }
}
