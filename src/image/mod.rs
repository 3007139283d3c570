//! Looks at an image before it is written, and at a medium before and after.
//!
//! Owns: what kind of file it is, its partition table, the filesystems in it, whether it will
//! boot, what to tell about it, which signatures are on a medium, and what lies at a byte range.
//! Must not write, decode or print; errors are the reader's, everything else is data. Parsers
//! are pure over bytes whose length they chose: hostile input neither panics nor loops.
//!
//! ```text
//! ReadAt -> inspect -> ImageInfo -> sector_size_conflict, describe_range
//!        -> signatures
//! ```

mod boot;
pub(crate) mod bytes;
mod fs;
pub mod gpt;
mod kind;
mod live;
mod magic;
mod note;
mod place;
mod printable;
mod read;
#[cfg(test)]
mod sample;
mod signatures;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod windows;
pub mod zeros;

use std::io;

pub use boot::{Boot, BootVerdict};
pub use fs::{
    FatGeometry, FatWidth, FileAt, Filesystem, FsKind, Placed, Zone, ZoneKind, file_at, used,
};
pub use kind::{Advice, Archive, Codec, ImageKind, VirtualDisk};
pub use live::{LiveLayout, live_layout};
pub use note::{Degree, Note, SectorConflict, TINY_BYTES, sector_size_conflict};
pub use place::{Located, Place, Spot, describe_range};
pub use printable::printable_bytes;
pub use read::{Bytes, FileImage, Head, ReadAt};
pub use signatures::{Signature, signatures};
pub use table::{Health, Partition, PartitionType, Scheme, Table};

pub(crate) use fs::iso::{Folder as IsoFolder, IsoVolume};
pub(crate) use read::View;
pub(crate) use table::guid_text;

/// How much of the start is looked at for containers and text.
const HEAD: usize = 64 << 10;
/// How many zeros at the start make an image blank.
const BLANK: usize = 1 << 20;
const ZEROS: [u8; 4096] = [0; 4096];
/// Partitions looked into; tables may have more.
const PARTITION_LIMIT: usize = 128;

/// Everything that is known about an image or a medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// What it is.
    pub kind: ImageKind,
    /// Length; `None` for a pipe.
    pub size: Option<u64>,
    /// Label of the disc or filesystem, escaped.
    pub label: Option<String>,
    /// Its partition table.
    pub table: Option<Table>,
    /// The filesystem that starts at byte 0, also under a hybrid table.
    pub filesystem: Option<Filesystem>,
    /// Will it boot from a stick.
    pub boot: Boot,
    /// What to tell about it.
    pub notes: Vec<Note>,
}

impl ImageInfo {
    /// What to do with it: the kind's advice, and ask before writing something tiny.
    #[must_use]
    pub fn advice(&self) -> Advice {
        let tiny = self.size.is_some_and(|size| size < TINY_BYTES);
        match self.kind.advice() {
            Advice::Write if tiny => Advice::Confirm,
            other => other,
        }
    }
}

/// Looks at an image or a medium. `name` only changes the wording of notes.
///
/// # Errors
/// When it cannot be read. Whatever the bytes are is no error.
pub fn inspect(image: &dyn ReadAt, name: &str) -> io::Result<ImageInfo> {
    let view = View::new(image);
    let head = view.some(0, HEAD)?;
    let mut seen = Seen::default();
    let container = if head.is_empty() { Some(ImageKind::Empty) } else { magic::strong(&head) };
    let kind = match container {
        Some(kind) => kind,
        None => seen.look(&view, &head)?,
    };
    let evidence = boot::Evidence {
        view: &view,
        kind,
        table: seen.table.as_ref(),
        whole: seen.whole.as_ref(),
        iso: seen.iso.as_ref(),
    };
    let boot = boot::judge(&evidence)?;
    let mut info = ImageInfo {
        kind,
        size: view.size(),
        label: seen.label(),
        table: seen.table,
        filesystem: seen.whole,
        boot,
        notes: Vec::new(),
    };
    info.notes = note::collect(&info, name);
    if seen.vhd_footer {
        info.notes.push(Note::VhdFooter);
    }
    Ok(info)
}

/// Structures found on the way to a kind.
#[derive(Default)]
struct Seen {
    table: Option<Table>,
    whole: Option<Filesystem>,
    iso: Option<IsoVolume>,
    vhd_footer: bool,
}

impl Seen {
    /// Sectors first, because text and weak magic numbers occur in boot sectors by chance.
    fn look(&mut self, view: &View<'_>, head: &[u8]) -> io::Result<ImageKind> {
        self.table = table::read(view)?;
        self.iso = IsoVolume::read(view, 0)?;
        self.whole = fs::identify(view, 0, view.size())?;
        let udf = self.whole.as_ref().is_some_and(|fs| fs.kind == FsKind::Udf);
        if let Some(table) = &mut self.table {
            for partition in table.partitions.iter_mut().take(PARTITION_LIMIT) {
                if !partition.is_extended() {
                    let size = partition.size_bytes;
                    partition.fs = fs::identify(view, partition.start_bytes, Some(size))?;
                }
            }
        }
        let trailer = trailer(view)?;
        self.vhd_footer = trailer == Some(VirtualDisk::Vhd);
        Ok(match (&self.table, &self.iso, &self.whole) {
            _ if trailer == Some(VirtualDisk::Dmg) => ImageKind::VirtualDisk(VirtualDisk::Dmg),
            (Some(_), Some(_), _) => ImageKind::HybridIso,
            (Some(_), None, _) => ImageKind::DiskImage,
            (None, iso, _) if windows::is_install_disc(view, iso.as_ref(), udf)? => {
                ImageKind::WindowsIso
            }
            (None, Some(_), _) => ImageKind::PlainIso,
            (None, None, Some(fs)) => ImageKind::Filesystem(fs.kind),
            (None, None, None) => contents(view, head)?,
        })
    }

    /// UDF's label before the stub that Windows discs have in ISO 9660.
    fn label(&self) -> Option<String> {
        let whole = self.whole.as_ref().and_then(|fs| fs.label.clone());
        whole.or_else(|| self.iso.as_ref().and_then(|iso| iso.label.clone()))
    }
}

/// Formats with their header at the end.
fn trailer(view: &View<'_>) -> io::Result<Option<VirtualDisk>> {
    match view.size().and_then(|size| size.checked_sub(512)) {
        Some(at) => Ok(magic::trailer(&view.some(at, 512)?)),
        None => Ok(None),
    }
}

/// What a file without tables and filesystems is.
fn contents(view: &View<'_>, head: &[u8]) -> io::Result<ImageKind> {
    let zeros = |bytes: &[u8]| bytes.chunks(ZEROS.len()).all(|c| c == &ZEROS[..c.len()]);
    if zeros(head) && zeros(&view.some(0, BLANK)?) {
        return Ok(ImageKind::BlankZeros);
    }
    if let Some(kind) = text::sniff(head).or_else(|| magic::weak(head, view.size())) {
        return Ok(kind);
    }
    let signature = magic::binary_signature(head, view.size());
    Ok(if signature { ImageKind::Signature } else { ImageKind::Unknown })
}
