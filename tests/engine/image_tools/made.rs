//! Images made by the tools: kinds, labels, identifiers, tables and signatures as they say.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use mediawriter::image::{
    Advice, BootVerdict, FsKind, Head, ImageKind, Note, Scheme, inspect, sector_size_conflict,
};

use super::lab::{Lab, blkid, look, run, same_as_wipefs, tool};

/// (name, MiB, command, kind)
const FILESYSTEMS: &[(&str, u64, &str, FsKind)] = &[
    ("fat12", 2, "mkfs.vfat -F 12 -n TWELVE -i 12345678", FsKind::Fat12),
    ("fat12-big-sector", 8, "mkfs.vfat -F 12 -S 4096 -n TWELVE", FsKind::Fat12),
    ("fat16", 32, "mkfs.vfat -F 16 -n SIXTEEN", FsKind::Fat16),
    ("fat32", 300, "mkfs.vfat -F 32 -n THIRTY_TWO", FsKind::Fat32),
    ("fat32-small", 40, "mkfs.vfat -F 32 -s 8 -n SMALL", FsKind::Fat32),
    ("fat32-4k", 600, "mkfs.vfat -F 32 -S 4096 -n FOURK", FsKind::Fat32),
    ("fat32-fake-mbr", 300, "mkfs.vfat -F 32 --mbr=y -n FAKE", FsKind::Fat32),
    ("fat-nolabel", 32, "mkfs.vfat -F 16", FsKind::Fat16),
    ("exfat", 64, "mkfs.exfat -n exlabel", FsKind::Exfat),
    ("ext2", 64, "mkfs.ext2 -q -L two", FsKind::Ext2),
    ("ext3", 64, "mkfs.ext3 -q -L three", FsKind::Ext3),
    ("ext4", 64, "mkfs.ext4 -q -L four", FsKind::Ext4),
    ("ext4-1k", 64, "mkfs.ext4 -q -b 1024 -L onek", FsKind::Ext4),
    ("ext4-64bit", 64, "mkfs.ext4 -q -O 64bit,metadata_csum -L wide", FsKind::Ext4),
    ("xfs", 400, "mkfs.xfs -q -L xlabel", FsKind::Xfs),
    ("btrfs", 200, "mkfs.btrfs -q -L blabel", FsKind::Btrfs),
    ("f2fs", 100, "mkfs.f2fs -q -l flabel", FsKind::F2fs),
    ("ntfs", 64, "mkntfs -F -Q -q -L ntlabel", FsKind::Ntfs),
    ("udf", 64, "mkudffs -l udflabel", FsKind::Udf),
    ("udf-2k", 64, "mkudffs -b 2048 -l udflabel", FsKind::Udf),
    ("udf-4k", 64, "mkudffs -b 4096 -l udflabel", FsKind::Udf),
    ("swap", 16, "mkswap -L slabel", FsKind::Swap),
    (
        "luks1",
        32,
        "cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 \
      --key-file /etc/os-release",
        FsKind::Luks1,
    ),
    (
        "luks2",
        32,
        "cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 \
      --pbkdf-force-iterations 1000 --label vault --key-file /etc/os-release",
        FsKind::Luks2,
    ),
];

#[test]
fn filesystems_agree_with_blkid_and_wipefs() {
    let lab = Lab::new("fs");
    let rows = FILESYSTEMS;
    let mut checked = 0;
    for &(name, mib, line, want) in rows {
        let path = lab.sparse(name, mib);
        if run(&format!("{line} {}", path.display())).is_none() {
            continue;
        }
        let info = look(&path);
        assert_eq!(info.kind, ImageKind::Filesystem(want), "{name}");
        let fs = info.filesystem.as_ref().unwrap();
        assert_eq!(fs.label, blkid(&path, "LABEL"), "{name}");
        if want != FsKind::Udf {
            assert_eq!(fs.uuid, blkid(&path, "UUID"), "{name}");
        }
        assert!(fs.size_bytes.is_none_or(|size| size <= mib << 20), "{name}: {fs:?}");
        assert!(!info.notes.iter().any(|n| matches!(n, Note::Truncated { .. })), "{name}");
        let extra = same_as_wipefs(&path);
        eprintln!("{name}: as blkid and wipefs say; listed besides: {extra:x?}");
        // Half of a download.
        File::options().write(true).open(&path).unwrap().set_len((mib << 20) / 2).unwrap();
        if fs.size_bytes.is_some() {
            let notes = look(&path).notes;
            assert!(notes.iter().any(|n| matches!(n, Note::Truncated { .. })), "{name} {notes:?}");
        }
        fs::remove_file(&path).unwrap();
        checked += 1;
    }
    eprintln!("{checked} of {} filesystems checked", rows.len());
}

#[test]
fn squashfs_and_zero_size_fields() {
    let lab = Lab::new("squash");
    fs::create_dir(lab.path("d")).unwrap();
    fs::write(lab.path("d/f"), "x").unwrap();
    let path = lab.path("s");
    if run(&format!("mksquashfs {} {} -quiet", lab.path("d").display(), path.display())).is_some() {
        assert_eq!(look(&path).kind, ImageKind::Filesystem(FsKind::Squashfs));
        same_as_wipefs(&path);
    }
}

#[test]
fn tables_agree_with_sgdisk() {
    let lab = Lab::new("gpt");
    let path = lab.sparse("disk", 64);
    let line = "sgdisk -n 1:2048:+20M -t 1:ef00 -c 1:boot -n 2:0:+8M -t 2:8300 -c 2:root";
    if run(&format!("{line} {}", path.display())).is_none() {
        return;
    }
    let info = look(&path);
    let table = info.table.as_ref().unwrap();
    assert_eq!((table.scheme, table.sector_size), (Scheme::Gpt, 512));
    let seen: Vec<_> = table
        .partitions
        .iter()
        .map(|p| (p.number, p.start_bytes, p.size_bytes, p.name.as_deref(), p.is_esp()))
        .collect();
    let (mib, esp) = (1 << 20, Some("boot"));
    assert_eq!(seen[0], (1, mib, 20 * mib, esp, true));
    assert_eq!(seen[1], (2, 21 * mib, 8 * mib, Some("root"), false));
    assert_eq!(table.backup_gpt, Some((64 << 20) - 512));
    let guid = blkid(&path, "PTUUID");
    assert_eq!(table.disk_guid, guid);
    assert_eq!(same_as_wipefs(&path), []);
    assert!(matches!(info.boot.bios, BootVerdict::No(_)));
    // Grown: the backup is in the middle. Hybrid: the MBR has an entry of its own.
    File::options().write(true).open(&path).unwrap().set_len(256 << 20).unwrap();
    assert!(look(&path).notes.iter().any(|n| matches!(n, Note::BackupGptInside { .. })));
    run(&format!("sgdisk -e {}", path.display()));
    run(&format!("sgdisk -h 2 {}", path.display()));
    let info = look(&path);
    assert!(info.table.unwrap().hybrid_mbr);
    assert!(info.notes.contains(&Note::HybridMbr));
}

#[test]
fn logical_partitions_agree_with_sfdisk() {
    let lab = Lab::new("mbr");
    let path = lab.sparse("disk", 64);
    let Some(sfdisk) = tool("sfdisk") else { return };
    let script = lab.path("script");
    fs::write(
        &script,
        "label: dos\n1 : size=8M,type=c,bootable\n2 : size=40M,type=5\n5 : size=8M\n6 : size=8M,type=82\n7 : size=8M\n",
    )
    .unwrap();
    let input = File::open(&script).unwrap();
    let out = Command::new(&sfdisk).arg("-q").arg(&path).stdin(input).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let dump = Command::new(&sfdisk).arg("-d").arg(&path).output().unwrap();
    let theirs: Vec<(u64, u64)> = String::from_utf8_lossy(&dump.stdout)
        .lines()
        .filter_map(|line| {
            let number = |key: &str| {
                let rest = line.split_once(key)?.1.trim_start();
                rest.split([',', ' ']).next()?.parse::<u64>().ok()
            };
            Some((number("start=")?, number("size=")?))
        })
        .collect();
    let table = look(&path).table.unwrap();
    let ours: Vec<(u64, u64)> =
        table.partitions.iter().map(|p| (p.start_bytes / 512, p.size_bytes / 512)).collect();
    assert_eq!(ours, theirs);
    let numbers: Vec<u32> = table.partitions.iter().map(|p| p.number).collect();
    assert_eq!(numbers, [1, 2, 5, 6, 7]);
    same_as_wipefs(&path);
}

#[test]
fn real_images_boot_as_measured() {
    // (file, kind, BIOS, UEFI): the last two were measured in QEMU, see the project's lab.
    for (path, bios, archs) in [
        ("/usr/lib/memtest86+/memtest86+x64.iso", true, &["x64"][..]),
        ("/usr/lib/memtest86+/memtest86+ia32.iso", true, &["ia32"]),
        ("/usr/lib/grub-rescue/grub-rescue-cdrom.iso", true, &[]),
        ("/usr/lib/ipxe/ipxe.iso", true, &[]),
    ] {
        let path = Path::new(path);
        if !path.is_file() {
            eprintln!("SKIP {}: not installed", path.display());
            continue;
        }
        let info = look(path);
        eprintln!("{}: {}\n  {}\n  {}", path.display(), info.kind, info.boot.bios, info.boot.uefi);
        eprintln!("  {:?} {:?}", info.label, info.notes);
        assert_eq!(info.kind, ImageKind::HybridIso);
        assert_eq!(info.boot.bios.is_yes(), bios);
        assert_eq!(info.boot.uefi_archs, archs);
        assert_eq!(info.label, blkid(path, "LABEL"));
        assert!(
            !info.notes.iter().any(|n| matches!(n, Note::Truncated { .. })),
            "{:?}",
            info.notes
        );
        same_as_wipefs(path);
        let bytes = fs::read(path).unwrap();
        let half = inspect(&mediawriter::image::Bytes(&bytes[..bytes.len() / 2]), "half").unwrap();
        assert!(half.notes.iter().any(|n| matches!(n, Note::Truncated { .. })), "half of it");
        let pipe = inspect(&Head(&bytes[..65_536]), "pipe").unwrap();
        assert_eq!(pipe.kind, ImageKind::HybridIso);
        assert!(sector_size_conflict(&info, 4096).is_some());
    }
}

#[test]
fn discs_made_by_the_tools() {
    let lab = Lab::new("iso");
    let tree = lab.path("tree");
    for dir in ["sources", "efi/boot", "boot"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
    }
    for file in ["bootmgr", "sources/boot.wim", "sources/install.wim", "efi/boot/bootx64.efi"] {
        fs::write(tree.join(file), vec![b'x'; 5000]).unwrap();
    }
    let linux = lab.path("linux");
    fs::create_dir_all(linux.join("live")).unwrap();
    fs::write(linux.join("live/vmlinuz"), vec![b'x'; 5000]).unwrap();
    let rows = [
        ("genisoimage -quiet -udf -J -iso-level 3 -V WIN -o", &tree, ImageKind::WindowsIso),
        ("genisoimage -quiet -J -V WIN_JOLIET -o", &tree, ImageKind::WindowsIso),
        ("genisoimage -quiet -R -V WIN_PLAIN -o", &tree, ImageKind::WindowsIso),
        ("genisoimage -quiet -R -V LINUX -o", &linux, ImageKind::PlainIso),
        ("genisoimage -quiet -udf -R -V LINUX_UDF -o", &linux, ImageKind::PlainIso),
        ("xorriso -as mkisofs -quiet -J -V LINUX_X -o", &linux, ImageKind::PlainIso),
        ("grub-mkrescue -o", &linux, ImageKind::HybridIso),
    ];
    for (line, source, want) in rows {
        let path = lab.path("out.iso");
        if run(&format!("{line} {} {}", path.display(), source.display())).is_none() {
            continue;
        }
        let info = look(&path);
        eprintln!("{line}: {} {:?}", info.kind, info.label);
        eprintln!("  BIOS {}\n  UEFI {}\n  {:?}", info.boot.bios, info.boot.uefi, info.notes);
        assert_eq!(info.kind, want, "{line}");
        assert_eq!(info.label, blkid(&path, "LABEL"), "{line}");
        let yes = want == ImageKind::HybridIso;
        assert_eq!(info.boot.bios.is_yes(), yes, "{line}: {:?}", info.boot);
        assert!(
            !info.notes.iter().any(|n| matches!(n, Note::Truncated { .. })),
            "{:?}",
            info.notes
        );
        eprintln!("  besides wipefs: {:x?}", same_as_wipefs(&path));
    }
}

#[test]
fn the_windows_look_alike() {
    let Ok(path) = std::env::var("WINDOWS_ISO") else {
        eprintln!("SKIP: WINDOWS_ISO names no image (lab/windows/make-windows-iso.py makes one)");
        return;
    };
    let info = look(Path::new(&path));
    eprintln!("{path}: {} {:?} {:?}", info.kind, info.label, info.notes);
    assert_eq!(info.kind, ImageKind::WindowsIso);
    assert_eq!(info.advice(), Advice::Compose);
    assert_eq!(info.label, blkid(Path::new(&path), "LABEL"));
}

#[test]
fn streams_and_archives_of_the_tools() {
    let lab = Lab::new("packed");
    let plain = lab.path("disk.img");
    let noise: Vec<u8> =
        (0..200_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(&plain, noise).unwrap();
    let (from, to) = (plain.display(), lab.path("out"));
    let to = to.display();
    for (line, want) in [
        (format!("gzip -k -c {from}"), "gzip data"),
        (format!("xz -k -c {from}"), "xz data"),
        (format!("lzma -k -c {from}"), "lzma data"),
        (format!("zstd -q -k -c {from}"), "zstd data"),
        (format!("pzstd -q -k -c {from}"), "zstd data"),
        (format!("bzip2 -k -c {from}"), "bzip2 data"),
        (format!("lz4 -q -c {from}"), "lz4 data"),
        (format!("lzip -k -c {from}"), "lzip data"),
        (format!("zip -q - {from}"), "a zip archive"),
        (format!("tar -c -P -f - {from}"), "a tar archive"),
        (format!("sha256sum {from}"), "a list of checksums"),
        (format!("sha256sum --tag {from}"), "a list of checksums"),
        (format!("md5sum -b {from}"), "a list of checksums"),
        (format!("b2sum {from}"), "a list of checksums"),
        (format!("qemu-img convert -O qcow2 {from} {to}"), "a qcow2 virtual disk"),
        (format!("qemu-img convert -O vmdk {from} {to}"), "a VMDK virtual disk"),
        (format!("qemu-img convert -O vdi {from} {to}"), "a VDI virtual disk"),
        (format!("qemu-img convert -O vhdx {from} {to}"), "a VHDX virtual disk"),
        (format!("qemu-img convert -O vpc {from} {to}"), "a VHD virtual disk"),
        (format!("7zz a -t7z {to}.7z {from}"), "a 7z archive"),
    ] {
        let _old = fs::remove_file(lab.path("out"));
        let Some(out) = run(&line) else { continue };
        if lab.path("out.7z").exists() {
            fs::rename(lab.path("out.7z"), lab.path("out")).unwrap();
        } else if !lab.path("out").exists() {
            fs::write(lab.path("out"), out.stdout).unwrap();
        }
        let found = look(&lab.path("out")).kind.to_string();
        assert_eq!(found, want, "{line}");
        eprintln!("{line}: {found}");
    }
}
