//! Partition tables: MBR with logical partitions, GPT with its backup.
//!
//! Owns: [`Table`], [`Partition`] and the decision which table a medium has. Must not know what
//! is inside of the partitions. Specification: UEFI 2.10 chapter 5.

pub(crate) mod gpt;
pub(crate) mod mbr;
mod types;

pub(crate) use types::guid_text;

use std::io;
use std::ops::Range;

use super::fs::Filesystem;
use super::read::View;

/// Kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Master boot record.
    Mbr,
    /// GUID partition table.
    Gpt,
}

/// Type of a partition as the table has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionType {
    /// The byte of an MBR entry.
    Mbr(u8),
    /// The GUID of a GPT entry in its on-disk byte order.
    Gpt([u8; 16]),
}

/// A partition. Names are already safe to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// As the kernel numbers it: logical ones start at 5.
    pub number: u32,
    /// First byte.
    pub start_bytes: u64,
    /// Length.
    pub size_bytes: u64,
    /// Its type in the table.
    pub kind: PartitionType,
    /// Type in words.
    pub type_name: String,
    /// Name in a GPT, escaped.
    pub name: Option<String>,
    /// MBR active flag, or GPT attribute "legacy BIOS bootable".
    pub active: bool,
    /// What is inside, if recognised.
    pub fs: Option<Filesystem>,
}

impl Partition {
    /// Bytes of the medium.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start_bytes..self.start_bytes.saturating_add(self.size_bytes)
    }

    /// An EFI system partition by type.
    #[must_use]
    pub fn is_esp(&self) -> bool {
        match self.kind {
            PartitionType::Mbr(byte) => byte == 0xEF,
            PartitionType::Gpt(guid) => guid == types::ESP,
        }
    }

    /// A container of logical partitions: nothing lies in it directly.
    #[must_use]
    pub fn is_extended(&self) -> bool {
        matches!(self.kind, PartitionType::Mbr(0x05 | 0x0F | 0x85))
    }
}

/// A partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Which kind.
    pub scheme: Scheme,
    /// The sector size it was made for.
    pub sector_size: u32,
    /// Entries in use, in table order.
    pub partitions: Vec<Partition>,
    /// Where the primary GPT header says its backup header is.
    pub backup_gpt: Option<u64>,
    /// GPT disk identifier, or the MBR disk signature.
    pub disk_guid: Option<String>,
    /// A GPT whose MBR has entries of its own besides the protective one.
    pub hybrid_mbr: bool,
    /// Which copies of a GPT are sound.
    pub health: Health,
    /// Bytes that the table itself occupies.
    pub spans: Vec<Range<u64>>,
}

/// Soundness of a GPT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Health {
    /// The primary copy is sound (or it is an MBR).
    Sound,
    /// Only the backup is: the primary is missing or its checksums do not match.
    PrimaryDamaged,
    /// The MBR announces a GPT and no copy of it is sound; `partitions` is from the MBR.
    Damaged,
    /// The primary copy is sound, but there is no protective MBR: Linux will not use it.
    NotAnnounced,
    /// The header is sound; the entries lie outside of the head that could be read.
    EntriesUnseen,
}

/// Reads the table of a whole medium. A filesystem's boot sector is not taken for an MBR.
///
/// A GPT beside an MBR that does not announce it (no entry of type 0xEE: Debian's images) is no
/// table: Linux (block/partitions/efi.c), libblkid and EDK2 use the MBR there, and so do we.
pub(crate) fn read(view: &View<'_>) -> io::Result<Option<Table>> {
    let sector = view.some(0, 512)?;
    let mbr = mbr::parse(&sector).filter(|mbr| !mbr.is_filesystem(&sector));
    let announced = mbr.as_ref().is_none_or(mbr::Mbr::is_protective);
    if announced && let Some(mut table) = gpt::read(view)? {
        table.hybrid_mbr = mbr.as_ref().is_some_and(mbr::Mbr::is_hybrid);
        if mbr.is_none() && table.health == Health::Sound {
            table.health = Health::NotAnnounced;
        }
        table.spans.insert(0, 0..512);
        return Ok(Some(table));
    }
    let Some(mbr) = mbr else { return Ok(None) };
    let mut table = mbr.into_table(view)?;
    if announced {
        table.health = Health::Damaged;
    }
    Ok(Some(table))
}
