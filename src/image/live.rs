//! Where the files lie that a live system reads when it boots: kernel, initial RAM disk, squashfs.
//! They are found in the ISO 9660 tree, by name; a file lies in one piece there (ECMA-119, 6.4).

use std::io;
use std::ops::Range;

use super::fs::iso::IsoVolume;
use super::read::{ReadAt, View};

/// Extents in bytes from the start of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveLayout {
    /// Length of the image, as its volume descriptor says.
    pub size: u64,
    /// The largest root filesystem.
    pub squashfs: Range<u64>,
    /// The first kernel.
    pub kernel: Option<Range<u64>>,
    /// The first initial RAM disk.
    pub initrd: Option<Range<u64>>,
}

/// The layout of a live image; `None` when it is no ISO 9660 volume with a squashfs.
///
/// # Errors
/// When it cannot be read.
pub fn live_layout(image: &dyn ReadAt) -> io::Result<Option<LiveLayout>> {
    let view = View::new(image);
    let Some(volume) = IsoVolume::read(&view, 0)? else { return Ok(None) };
    let mut layout = LiveLayout { size: volume.size, ..LiveLayout::default() };
    for (name, extent) in volume.files(&view)? {
        let name = name.to_ascii_lowercase();
        let length = |range: &Range<u64>| range.end - range.start;
        // ISO 9660 names may be cut: FILESYST.SQU, INITRD.IMG, VMLINUZ.
        let root = [".squashfs", ".sfs", ".squ", "airootfs.erofs", "squashfs.img"];
        if root.iter().any(|end| name.ends_with(end)) {
            if length(&extent) > length(&layout.squashfs) {
                layout.squashfs = extent;
            }
        } else if name.starts_with("vmlinuz") || name == "linux" || name == "bzimage" {
            layout.kernel.get_or_insert(extent);
        } else if name.starts_with("initrd") || name.starts_with("initramfs") {
            layout.initrd.get_or_insert(extent);
        }
    }
    Ok(Some(layout).filter(|layout| !layout.squashfs.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::super::read::Bytes;
    use super::super::sample;
    use super::*;

    #[test]
    fn what_is_no_live_image_has_no_layout() {
        for image in [vec![0; 1 << 16], sample::iso(&["BOOTMGR.;1", "SOURCES"])] {
            assert_eq!(live_layout(&Bytes(&image)).unwrap(), None);
        }
    }
}
