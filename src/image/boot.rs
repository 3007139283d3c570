//! Will it boot when it is copied to a stick as it is?
//!
//! Owns: [`Boot`] and its reasons. A verdict needs evidence: boot code that does something, or
//! the removable-media path `EFI/BOOT/BOOT*.EFI` really found in a FAT volume. What lies outside
//! of a head is `Unknown`, never `No`. Specification: UEFI 2.10, 3.5.1.1 (file names) and 13.3
//! (system partitions); El Torito 1.0; for BIOS the habit of jumping to sector 0 with 55AA.

use std::fmt;
use std::io;

use super::bytes::{contains_ignore_case, has};
use super::fs::fat::{Directory, Volume};
use super::fs::iso::IsoVolume;
use super::fs::{FatGeometry, FatWidth, Filesystem};
use super::kind::ImageKind;
use super::read::View;
use super::table::{Health, Table};

/// Architectures and their file names on removable media.
const ARCHITECTURES: [(&str, &str); 6] = [
    ("x64", "BOOTX64.EFI"),
    ("ia32", "BOOTIA32.EFI"),
    ("aa64", "BOOTAA64.EFI"),
    ("arm", "BOOTARM.EFI"),
    ("riscv64", "BOOTRISCV64.EFI"),
    ("loongarch64", "BOOTLOONGARCH64.EFI"),
];
/// FAT volumes searched on one medium.
const VOLUME_LIMIT: usize = 16;

/// One firmware's prospects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootVerdict {
    /// It will, because.
    Yes(String),
    /// It will not, because.
    No(String),
    /// It could not be found out, because.
    Unknown(String),
}

impl BootVerdict {
    /// Positive evidence was found.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }

    fn no(why: &str) -> Self {
        Self::No(why.to_owned())
    }
}

impl fmt::Display for BootVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes(why) => write!(f, "yes: {why}"),
            Self::No(why) => write!(f, "no: {why}"),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// Prospects of booting from a stick that holds exactly these bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// On a BIOS (or CSM).
    pub bios: BootVerdict,
    /// On UEFI firmware.
    pub uefi: BootVerdict,
    /// Architectures with an `EFI/BOOT/BOOT*.EFI`.
    pub uefi_archs: Vec<&'static str>,
    /// Boot files of a Raspberry Pi were found.
    pub raspberry_pi: bool,
}

/// What is known about an image when the verdict is asked for.
pub(crate) struct Evidence<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) kind: ImageKind,
    pub(crate) table: Option<&'a Table>,
    pub(crate) whole: Option<&'a Filesystem>,
    pub(crate) iso: Option<&'a IsoVolume>,
}

/// Judges an image.
pub(crate) fn judge(evidence: &Evidence<'_>) -> io::Result<Boot> {
    let both = |verdict: BootVerdict| Boot {
        bios: verdict.clone(),
        uefi: verdict,
        uefi_archs: Vec::new(),
        raspberry_pi: false,
    };
    match evidence.kind {
        ImageKind::HybridIso
        | ImageKind::DiskImage
        | ImageKind::Filesystem(_)
        | ImageKind::Unknown => {
            let mut boot = uefi(evidence)?;
            boot.bios = bios(evidence)?;
            Ok(boot)
        }
        ImageKind::PlainIso => Ok(both(plain_iso(evidence.iso))),
        ImageKind::WindowsIso => Ok(both(BootVerdict::no(
            "a Windows disc copied as it is does not start from a stick on most machines; \
             its files have to be put on a FAT32 volume",
        ))),
        ImageKind::Compressed(_) | ImageKind::Archive(_) => Ok(both(BootVerdict::Unknown(
            "it has to be unpacked before anything can be said".into(),
        ))),
        ImageKind::VirtualDisk(disk) => Ok(both(BootVerdict::No(format!(
            "a {} file has to be converted to a raw image first",
            disk.name()
        )))),
        ImageKind::BlankZeros => Ok(both(BootVerdict::no("it starts with zeros only"))),
        ImageKind::HtmlPage
        | ImageKind::Checksums
        | ImageKind::Signature
        | ImageKind::Torrent
        | ImageKind::Bmap
        | ImageKind::Metalink
        | ImageKind::Text
        | ImageKind::Program
        | ImageKind::Empty => Ok(both(BootVerdict::no("this is not a disk image"))),
    }
}

fn plain_iso(iso: Option<&IsoVolume>) -> BootVerdict {
    let entries = iso.map(|iso| iso.boot.as_slice()).unwrap_or_default();
    BootVerdict::no(if entries.is_empty() {
        "an ISO image without any boot entry"
    } else {
        "it has El Torito entries only: it boots from a CD or DVD, not from a stick"
    })
}

/// What the code of a boot sector will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    /// No 55AA.
    Unmarked,
    /// One byte repeated.
    Blank,
    /// Prints a message.
    Message,
    /// Starts the active partition.
    Chain,
    /// A boot loader, named if known.
    Loader(Option<&'static str>),
}

fn classify(sector: &[u8], code: &[u8]) -> Code {
    let mentions = |text: &str| contains_ignore_case(sector, text.as_bytes());
    let all = |texts: &[&str]| texts.iter().any(|text| mentions(text));
    if !has(sector, 510, &[0x55, 0xAA]) {
        Code::Unmarked
    } else if code.iter().all(|b| Some(b) == code.first()) {
        Code::Blank
    } else if all(&["not a bootable", "not bootable", "uefi"]) {
        Code::Message
    } else if all(&["isolinux.bin missing"]) {
        Code::Loader(Some("isolinux"))
    } else if all(&["Loading Memtest86+"]) {
        Code::Loader(Some("Memtest86+"))
    } else if has(sector, 0x180, b"GRUB ") || (mentions("GRUB") && mentions("Geom")) {
        Code::Loader(Some("GRUB"))
    } else if has(sector, 3, b"SYSLINUX") || has(sector, 6, b"LILO") {
        Code::Loader(Some("SYSLINUX or LILO"))
    } else if all(&["Missing operating system", "Missing OS", "Invalid partition table"])
        // The MBR code of GNU Parted (libparted/labels/dos.c), which Raspberry Pi images carry.
        || has(sector, 0, b"\xFA\xB8\x00\x10\x8E\xD0\xBC\x00\xB0\xB8\x00\x00")
    {
        Code::Chain
    } else {
        Code::Loader(None)
    }
}

/// Where the code of a volume's boot sector is, behind its parameter block.
fn code_start(sector: &[u8]) -> usize {
    if has(sector, 3, b"EXFAT   ") {
        return 0x78;
    }
    match FatGeometry::parse(sector).map(|geometry| geometry.width) {
        Some(FatWidth::Fat12 | FatWidth::Fat16) => 0x3E,
        Some(FatWidth::Fat32) => 0x5A,
        // NTFS, and boot blocks without a parameter block, whose jump is at the very start.
        None if has(sector, 3, b"NTFS    ") => 0x54,
        None => 0,
    }
}

fn bios(evidence: &Evidence<'_>) -> io::Result<BootVerdict> {
    let sector = evidence.view.some(0, 512)?;
    let region = match evidence.table {
        Some(_) => 0..440,
        None => code_start(&sector)..510,
    };
    let code = classify(&sector, sector.get(region).unwrap_or_default());
    let place = if evidence.table.is_some() { "MBR" } else { "boot sector" };
    Ok(match code {
        Code::Unmarked => BootVerdict::no("sector 0 lacks the boot signature 55AA"),
        Code::Blank => BootVerdict::No(format!("the {place} holds no boot code")),
        Code::Message => BootVerdict::No(format!("the code in the {place} only shows a message")),
        Code::Loader(Some(name)) => BootVerdict::Yes(format!("{name} in the {place}")),
        Code::Loader(None) => BootVerdict::Yes(format!("boot code in the {place}")),
        Code::Chain => chain(evidence)?,
    })
}

/// The code in the MBR starts the boot sector of the active partition.
fn chain(evidence: &Evidence<'_>) -> io::Result<BootVerdict> {
    let partitions = evidence.table.map(|table| table.partitions.as_slice()).unwrap_or_default();
    let Some(active) = partitions.iter().find(|partition| partition.active) else {
        return Ok(BootVerdict::no("the MBR starts the active partition, and none is active"));
    };
    let number = active.number;
    let Some(sector) = evidence.view.exact(active.start_bytes, 512)? else {
        let why = format!("the boot sector of partition {number} cannot be seen");
        return Ok(BootVerdict::Unknown(why));
    };
    let code = sector.get(code_start(&sector)..510).unwrap_or_default();
    Ok(match classify(&sector, code) {
        Code::Unmarked | Code::Blank => {
            BootVerdict::No(format!("active partition {number} holds no boot code"))
        }
        Code::Message => BootVerdict::No(format!("active partition {number} only shows a message")),
        Code::Chain | Code::Loader(_) => {
            BootVerdict::Yes(format!("the MBR starts active partition {number}"))
        }
    })
}

/// A FAT volume that firmware would search, or an ESP that cannot be read as one.
struct Candidate<'a> {
    base: u64,
    name: String,
    geometry: Option<&'a FatGeometry>,
}

fn candidates<'a>(evidence: &Evidence<'a>) -> Vec<Candidate<'a>> {
    let inside = |fs: &'a Option<Filesystem>| fs.as_ref().and_then(|fs| fs.fat.as_ref());
    let Some(table) = evidence.table else {
        let geometry = evidence.whole.and_then(|fs| fs.fat.as_ref());
        let whole = geometry.map(|geometry| Candidate {
            base: 0,
            name: "the volume".into(),
            geometry: Some(geometry),
        });
        return whole.into_iter().collect();
    };
    let wanted = table.partitions.iter().filter(|p| p.is_esp() || inside(&p.fs).is_some());
    wanted
        .take(VOLUME_LIMIT)
        .map(|p| Candidate {
            base: p.start_bytes,
            name: format!("partition {}", p.number),
            geometry: inside(&p.fs),
        })
        .collect()
}

fn uefi(evidence: &Evidence<'_>) -> io::Result<Boot> {
    let candidates = candidates(evidence);
    let mut boot = Boot {
        bios: BootVerdict::no("not looked at"),
        uefi: BootVerdict::no(no_volume(evidence)),
        uefi_archs: Vec::new(),
        raspberry_pi: false,
    };
    let (mut found_in, mut unseen) = (Vec::new(), None);
    if evidence.table.is_some_and(|table| table.health == Health::EntriesUnseen) {
        unseen = Some("the partition entries lie beyond what was read".to_owned());
    }
    for candidate in &candidates {
        let Some(geometry) = candidate.geometry else {
            if evidence.view.size().is_none()
                && evidence.view.some(candidate.base, 512)?.len() < 512
            {
                unseen = Some(format!("{} lies beyond what was read", candidate.name));
            }
            continue;
        };
        let volume = Volume { view: evidence.view, base: candidate.base, geometry };
        let search = search(&volume)?;
        boot.raspberry_pi |= search.raspberry_pi;
        if !search.complete {
            unseen = Some(format!("{} could only be read in part", candidate.name));
        }
        if !search.archs.is_empty() {
            found_in.push(candidate.name.clone());
        }
        for arch in search.archs {
            if !boot.uefi_archs.contains(&arch) {
                boot.uefi_archs.push(arch);
            }
        }
    }
    if !found_in.is_empty() {
        let archs = boot.uefi_archs.join(", ");
        boot.uefi = BootVerdict::Yes(format!("EFI/BOOT in {} for {archs}", found_in.join(", ")));
    } else if let Some(why) = unseen {
        boot.uefi = BootVerdict::Unknown(why);
    } else if !candidates.is_empty() {
        boot.uefi = BootVerdict::no("no EFI/BOOT/BOOT*.EFI in its FAT volumes");
    }
    Ok(boot)
}

fn no_volume(evidence: &Evidence<'_>) -> &'static str {
    let efi = evidence.iso.is_some_and(|iso| iso.boot.iter().any(|b| b.platform == 0xEF));
    match (efi, evidence.table.is_some()) {
        // EDK2 offers it from a USB disk, too (measured in QEMU); machines rarely do.
        (true, _) => "its EFI image is only in the El Torito catalogue, for CD and DVD",
        (false, true) => "no EFI system partition and no FAT partition",
        (false, false) => "no FAT volume",
    }
}

struct Search {
    archs: Vec<&'static str>,
    raspberry_pi: bool,
    complete: bool,
}

/// Looks up `EFI/BOOT` and lists the architectures in it.
fn search(volume: &Volume<'_>) -> io::Result<Search> {
    let root = volume.list(Directory::Root)?;
    let pi = ["bootcode.bin", "start4.elf", "start.elf"];
    let mut out = Search {
        archs: Vec::new(),
        raspberry_pi: root.entries.iter().any(|e| pi.iter().any(|name| e.is_called(name))),
        complete: root.complete,
    };
    let mut listing = root;
    for name in ["EFI", "BOOT"] {
        let Some(next) = listing.entries.iter().find(|e| e.directory && e.is_called(name)) else {
            return Ok(out);
        };
        listing = volume.list(Directory::At(next.cluster))?;
        out.complete &= listing.complete;
    }
    let present = |file: &str| listing.entries.iter().any(|e| !e.directory && e.is_called(file));
    out.archs = ARCHITECTURES.iter().filter(|(_, file)| present(file)).map(|(a, _)| *a).collect();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::read::{Bytes, Head, ReadAt};
    use super::super::sample::{self, FatSpec};
    use super::*;

    fn boot(image: &dyn ReadAt) -> Boot {
        super::super::inspect(image, "test").unwrap().boot
    }

    #[test]
    fn architectures_are_looked_up_in_every_width() {
        let files = ["EFI/BOOT/BOOTX64.EFI", "EFI/BOOT/BOOTLOONGARCH64.EFI", "README"];
        for (width, size) in
            [(FatWidth::Fat12, 1 << 20), (FatWidth::Fat16, 8 << 20), (FatWidth::Fat32, 2 << 20)]
        {
            let spec = FatSpec { width, size, files: &files, code: &[] };
            let boot = boot(&Bytes(&sample::fat(&spec)));
            assert_eq!(boot.uefi_archs, ["x64", "loongarch64"], "{width:?}");
            assert!(boot.uefi.is_yes());
        }
        let other = FatSpec { files: &["EFI/DEBIAN/BOOTX64.EFI"], ..FatSpec::default() };
        assert!(matches!(boot(&Bytes(&sample::fat(&other))).uefi, BootVerdict::No(_)));
    }

    #[test]
    fn boot_sectors_that_do_nothing() {
        for (code, want) in [
            (&b""[..], "no boot code"),
            (b"\x0E\x1FThis is not a bootable disk. Please", "only shows a message"),
            (b"\xB4\x0EThis medium starts with UEFI", "only shows a message"),
        ] {
            let spec = FatSpec { code, ..FatSpec::default() };
            let BootVerdict::No(why) = boot(&Bytes(&sample::fat(&spec))).bios else {
                panic!("{code:?}")
            };
            assert!(why.contains(want), "{why}");
        }
        let spec = FatSpec { code: b"\xFA\xFC\x31\xC0", ..FatSpec::default() };
        assert!(boot(&Bytes(&sample::fat(&spec))).bios.is_yes());
    }

    #[test]
    fn a_chain_loader_needs_an_active_partition_with_code() {
        let mut image = vec![0; 2 << 20];
        sample::put(&mut image, 0, b"\x33\xC0Missing operating system.");
        sample::mbr(&mut image, &[(0, 0x0C, 1024, 2048)]);
        assert!(matches!(boot(&Bytes(&image)).bios, BootVerdict::No(w) if w.contains("none")));
        sample::mbr(&mut image, &[(0x80, 0x0C, 1024, 2048)]);
        assert!(
            matches!(boot(&Bytes(&image)).bios, BootVerdict::No(w) if w.contains("no boot code"))
        );
        let fat = sample::fat(&FatSpec { code: b"\xFA\xFC", ..FatSpec::default() });
        sample::put(&mut image, 1024 * 512, &fat);
        assert!(boot(&Bytes(&image)).bios.is_yes());
        let short = Head(&image[..4096]);
        assert!(matches!(boot(&short).bios, BootVerdict::Unknown(_)));
    }

    #[test]
    fn what_a_pipe_does_not_show_is_unknown() {
        let spec = FatSpec { files: &["EFI/BOOT/BOOTX64.EFI"], ..FatSpec::default() };
        let mut image = vec![0; 3 << 20];
        sample::put(&mut image, 1 << 20, &sample::fat(&spec));
        sample::mbr(&mut image, &[(0, 0xEF, 2048, 2048)]);
        assert!(boot(&Bytes(&image)).uefi.is_yes());
        for len in [4096, (1 << 20) + 1024] {
            let verdict = boot(&Head(&image[..len])).uefi;
            assert!(matches!(verdict, BootVerdict::Unknown(_)), "{len}: {verdict}");
        }
    }

    #[test]
    fn a_plain_iso_boots_from_disc_only() {
        let boot = boot(&Bytes(&sample::iso(&[])));
        assert!(matches!(boot.bios, BootVerdict::No(why) if why.contains("El Torito")));
    }
}
