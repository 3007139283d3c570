//! Things worth telling about an image, one sentence each.
//!
//! Owns: [`Note`], its wording, and the sector-size check. Must not decide what happens: a note
//! informs, [`SectorConflict`] has two degrees, the command decides.

use std::fmt;

use super::ImageInfo;
use super::fs::FsKind;
use super::kind::ImageKind;
use super::table::{PartitionType, Scheme};

/// Images below this are hardly ever real: the smallest boot floppy has 1.44 MB.
pub const TINY_BYTES: u64 = 1 << 20;

/// Something to tell the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The table is for sectors of this size instead of 512.
    SectorSize(u32),
    /// A part of the image ends beyond the image: a download that stopped.
    Truncated {
        /// Which part.
        what: String,
        /// Where it should end.
        needed: u64,
        /// Where the image ends.
        size: u64,
    },
    /// Smaller than anything that boots.
    Tiny(u64),
    /// The backup GPT will not be at the end of the medium.
    BackupGptInside {
        /// Where it is.
        at: u64,
        /// Size of the image or medium.
        size: u64,
    },
    /// The image ends before its backup GPT.
    BackupGptMissing {
        /// Where it should be.
        at: u64,
    },
    /// Only the backup GPT is sound.
    PrimaryGptDamaged,
    /// The MBR announces a GPT, and no copy of it is sound.
    GptDamaged,
    /// A sound GPT without a protective MBR.
    GptNotAnnounced,
    /// A GPT with entries of its own in the MBR.
    HybridMbr,
    /// No partition table.
    NoPartitionTable,
    /// Boot files of a Raspberry Pi.
    RaspberryPi,
    /// The footer of a fixed VHD follows the raw image.
    VhdFooter,
    /// Only the first bytes could be looked at.
    OnlyHead,
    /// The name promises something else.
    NameDiffers {
        /// Its suffix.
        suffix: String,
        /// What the content is.
        kind: ImageKind,
    },
    /// A page instead of an image: a login or error page was saved.
    CaptivePortal,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SectorSize(size) => {
                write!(f, "its partition table is for media with {size}-byte sectors")
            }
            Self::Truncated { what, needed, size } => write!(
                f,
                "{what} ends at byte {needed}, but the image has only {size} bytes: \
                 it is cut off ({} bytes are missing), perhaps an unfinished download",
                needed.saturating_sub(*size)
            ),
            Self::Tiny(size) => {
                write!(f, "it has only {size} bytes, too few for anything that boots")
            }
            Self::BackupGptInside { at, size } => write!(
                f,
                "the backup GPT is at byte {at}, not at the end ({size} bytes); systems boot \
                 from the primary one, partitioning tools will offer to move the backup"
            ),
            Self::BackupGptMissing { at } => {
                write!(f, "the image ends before its backup GPT (byte {at})")
            }
            Self::PrimaryGptDamaged => {
                f.write_str("the primary GPT is damaged or missing; the backup is sound")
            }
            Self::GptDamaged => {
                f.write_str("its MBR announces a GPT, but no sound copy of one was found")
            }
            Self::GptNotAnnounced => f.write_str(
                "it has a GPT without a protective MBR: Linux and most firmware will ignore it",
            ),
            Self::HybridMbr => f.write_str("its GPT has a hybrid MBR beside it"),
            Self::NoPartitionTable => f.write_str("it has no partition table"),
            Self::RaspberryPi => {
                f.write_str("it is for a Raspberry Pi; PCs do not boot from its files")
            }
            Self::VhdFooter => f.write_str("the last 512 bytes are the footer of a fixed VHD"),
            Self::OnlyHead => f.write_str("only its first bytes could be looked at"),
            Self::NameDiffers { suffix, kind } => {
                write!(f, "its name ends in {suffix}, but the content is {kind}")
            }
            Self::CaptivePortal => f.write_str(
                "a web page was saved in place of an image: a login page, an error, or a mirror \
                 list; download it again",
            ),
        }
    }
}

/// How bad a difference of sector sizes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Degree {
    /// It may work; say so.
    Warning,
    /// It will not work; refuse unless told otherwise.
    Conflict,
}

/// An image made for other sectors than the medium has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectorConflict {
    /// How bad.
    pub degree: Degree,
    /// Why, in a sentence.
    pub text: String,
}

/// Compares what the image was made for with the logical block size of a medium.
#[must_use]
pub fn sector_size_conflict(info: &ImageInfo, logical_block: u32) -> Option<SectorConflict> {
    let made = |degree, text| Some(SectorConflict { degree, text });
    if let Some(table) = info.table.as_ref().filter(|table| table.sector_size != logical_block) {
        let size = table.sector_size;
        return match (info.kind, table.scheme) {
            (ImageKind::HybridIso, _) => made(
                Degree::Warning,
                format!(
                    "this ISO image's partition table counts in {size}-byte sectors and the \
                     medium has {logical_block}-byte sectors: firmware will probably not find \
                     its boot partition"
                ),
            ),
            (_, Scheme::Gpt) => made(
                Degree::Conflict,
                format!(
                    "the GPT was made for {size}-byte sectors and the medium has \
                     {logical_block}-byte sectors: the table will not be found there"
                ),
            ),
            (_, Scheme::Mbr) => made(
                Degree::Conflict,
                format!(
                    "the MBR counts in {size}-byte sectors and the medium has \
                     {logical_block}-byte sectors: every partition will be looked for in the \
                     wrong place"
                ),
            ),
        };
    }
    let kind = match info.kind {
        ImageKind::Filesystem(kind) => kind,
        ImageKind::PlainIso => FsKind::Iso9660,
        _ => return None,
    };
    let block = info.filesystem.as_ref().and_then(|fs| fs.block)?;
    (block < logical_block).then(|| SectorConflict {
        degree: if kind == FsKind::Iso9660 { Degree::Warning } else { Degree::Conflict },
        text: format!(
            "this {kind} filesystem is made of {block}-byte blocks; it cannot be mounted from a \
             medium with {logical_block}-byte sectors"
        ),
    })
}

/// Everything worth telling, in the order of importance.
pub(crate) fn collect(info: &ImageInfo, name: &str) -> Vec<Note> {
    let mut out = Vec::new();
    if info.kind == ImageKind::HtmlPage {
        out.push(Note::CaptivePortal);
    }
    out.extend(name_differs(info.kind, name));
    out.extend(info.size.and_then(|size| truncated(info, size)));
    out.extend(table_notes(info));
    let writable = info.kind.advice() <= super::Advice::Compose;
    match info.size {
        Some(size) if size < TINY_BYTES && writable && size > 0 => out.push(Note::Tiny(size)),
        None if writable => out.push(Note::OnlyHead),
        _ => {}
    }
    let bare = matches!(info.kind, ImageKind::Filesystem(_) | ImageKind::PlainIso);
    if bare || info.kind == ImageKind::Unknown {
        out.push(Note::NoPartitionTable);
    }
    if info.boot.raspberry_pi {
        out.push(Note::RaspberryPi);
    }
    out
}

/// A suffix is a hint for wording: it is mentioned when the content is something to refuse.
fn name_differs(kind: ImageKind, name: &str) -> Option<Note> {
    let suffixes = [
        ".iso", ".img", ".raw", ".bin", ".dd", ".zip", ".xz", ".gz", ".zst", ".bz2", ".usb", ".wic",
    ];
    let lower = name.to_ascii_lowercase();
    let suffix = suffixes.iter().find(|suffix| lower.ends_with(**suffix))?;
    let packed = matches!(*suffix, ".zip" | ".xz" | ".gz" | ".zst" | ".bz2");
    let decodes = matches!(kind, ImageKind::Compressed(_) | ImageKind::Archive(_));
    let refused = kind.advice() == super::Advice::Refuse && kind != ImageKind::Empty;
    (refused || packed != decodes && kind != ImageKind::Empty)
        .then(|| Note::NameDiffers { suffix: (*suffix).to_owned(), kind })
}

fn table_notes(info: &ImageInfo) -> Vec<Note> {
    use super::table::Health;
    let mut out = Vec::new();
    let Some(table) = &info.table else { return out };
    if table.sector_size != 512 {
        out.push(Note::SectorSize(table.sector_size));
    }
    match table.health {
        Health::PrimaryDamaged => out.push(Note::PrimaryGptDamaged),
        Health::Damaged => out.push(Note::GptDamaged),
        Health::NotAnnounced => out.push(Note::GptNotAnnounced),
        Health::Sound | Health::EntriesUnseen => {}
    }
    if table.hybrid_mbr && info.kind != ImageKind::HybridIso {
        out.push(Note::HybridMbr);
    }
    if let (Some(at), Some(size)) = (table.backup_gpt, info.size) {
        let end = at.saturating_add(u64::from(table.sector_size));
        if end > size {
            out.push(Note::BackupGptMissing { at });
        } else if size - end >= u64::from(table.sector_size) {
            out.push(Note::BackupGptInside { at, size });
        }
    }
    out
}

/// The part that reaches furthest beyond the end, if any does.
///
/// The partition that an isohybrid puts over itself is rounded up to cylinders, and a protective
/// entry may say anything: neither is evidence. The volume inside is.
fn truncated(info: &ImageInfo, size: u64) -> Option<Note> {
    let mut ends: Vec<(u64, String)> = Vec::new();
    if let Some(fs) = &info.filesystem {
        ends.extend(fs.size_bytes.map(|end| (end, format!("the {} volume", fs.kind))));
    }
    for partition in info.table.iter().flat_map(|table| &table.partitions) {
        let around = partition.start_bytes < 65_536 && info.kind == ImageKind::HybridIso;
        let nominal = matches!(partition.kind, PartitionType::Mbr(0xEE)) || partition.is_extended();
        if !around && !nominal {
            ends.push((partition.range().end, format!("partition {}", partition.number)));
        }
    }
    let (needed, what) = ends.into_iter().max_by_key(|(end, _)| *end)?;
    (needed > size).then_some(Note::Truncated { what, needed, size })
}

#[cfg(test)]
mod tests {
    use super::super::fs::FatWidth;
    use super::super::inspect;
    use super::super::read::{Bytes, Head};
    use super::super::sample::{self, FatSpec};
    use super::*;

    const LINUX: [u8; 16] = [
        0xAF, 0x3D, 0xC6, 0x0F, 0x83, 0x84, 0x72, 0x47, 0x8E, 0x79, 0x3D, 0x69, 0xD8, 0x47, 0x7D,
        0xE4,
    ];

    fn gpt(sector: usize) -> Vec<u8> {
        let mut image = vec![0; 2 << 20];
        sample::gpt(&mut image, sector, &[(LINUX, 64, 100, "root")]);
        image
    }

    fn degree(image: &[u8], block: u32) -> Option<Degree> {
        sector_size_conflict(&inspect(&Bytes(image), "x").unwrap(), block).map(|c| c.degree)
    }

    #[test]
    fn sector_sizes_conflict_in_two_degrees() {
        let mut hybrid = sample::iso(&[]);
        sample::mbr(&mut hybrid, &[(0x80, 0x17, 0, 256)]);
        let fat = sample::fat(&FatSpec::default());
        let mut mbr = vec![0; 2 << 20];
        sample::mbr(&mut mbr, &[(0, 0x83, 64, 100)]);
        for (image, on_512, on_4096) in [
            (gpt(512), None, Some(Degree::Conflict)),
            (gpt(4096), Some(Degree::Conflict), None),
            (mbr, None, Some(Degree::Conflict)),
            (hybrid, None, Some(Degree::Warning)),
            (sample::iso(&[]), None, Some(Degree::Warning)),
            (fat, None, Some(Degree::Conflict)),
            (vec![0; 1 << 20], None, None),
        ] {
            assert_eq!(degree(&image, 512), on_512);
            assert_eq!(degree(&image, 4096), on_4096);
        }
    }

    #[test]
    fn images_that_are_cut_off_say_so() {
        let spec = FatSpec { width: FatWidth::Fat16, size: 8 << 20, ..FatSpec::default() };
        for image in [sample::fat(&spec), sample::iso(&[]), sample::ext(4096, 0, 2, 1)] {
            let short = &image[..image.len() / 2 + 100];
            let notes = inspect(&Bytes(short), "x").unwrap().notes;
            assert!(notes.iter().any(|n| matches!(n, Note::Truncated { .. })), "{notes:?}");
            let notes = inspect(&Head(short), "x").unwrap().notes;
            assert!(!notes.iter().any(|n| matches!(n, Note::Truncated { .. })), "{notes:?}");
        }
        let image = gpt(512);
        let notes = inspect(&Bytes(&image[..40_000]), "x").unwrap().notes;
        assert!(matches!(&notes[0], Note::Truncated { what, .. } if what == "partition 1"));
        assert!(notes.iter().any(|n| matches!(n, Note::BackupGptMissing { .. })));
    }

    #[test]
    fn a_backup_table_in_the_middle_is_mentioned() {
        let mut image = gpt(512);
        let whole = inspect(&Bytes(&image), "x").unwrap().notes;
        assert!(whole.is_empty(), "{whole:?}");
        image.resize(8 << 20, 0);
        let notes = inspect(&Bytes(&image), "x").unwrap().notes;
        assert!(matches!(notes[0], Note::BackupGptInside { .. }), "{notes:?}");
        assert!(notes[0].to_string().contains("backup GPT is at byte 2096640"));
    }

    #[test]
    fn names_only_change_the_wording() {
        let page = inspect(&Bytes(b"<html>login"), "debian.iso").unwrap();
        assert_eq!(page.kind, ImageKind::HtmlPage);
        assert!(page.notes.contains(&Note::CaptivePortal));
        assert!(page.notes.iter().any(|n| matches!(n, Note::NameDiffers { .. })));
        assert_eq!(inspect(&Bytes(b"<html>login"), "x").unwrap().kind, ImageKind::HtmlPage);
    }
}
