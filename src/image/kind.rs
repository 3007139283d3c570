//! Kinds of image, in words, and what each is good for.
//!
//! Owns: [`ImageKind`] and [`Advice`]. Must not look at bytes: `magic.rs`, `text.rs` and
//! `mod.rs` decide. A new kind is one variant, one name and one advice.

use std::fmt;

use super::fs::FsKind;

/// What a file is, by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// ISO 9660 with a partition table: boots from a disc and from a stick.
    HybridIso,
    /// A partition table and no ISO 9660.
    DiskImage,
    /// ISO 9660 without a partition table: boots from a disc only.
    PlainIso,
    /// Windows install disc: its files have to be put on a stick, not its sectors.
    WindowsIso,
    /// One filesystem without a table.
    Filesystem(FsKind),
    /// A compressed stream.
    Compressed(Codec),
    /// An archive of files.
    Archive(Archive),
    /// A disk in a virtual machine's format.
    VirtualDisk(VirtualDisk),
    /// A web page.
    HtmlPage,
    /// A list of checksums.
    Checksums,
    /// A detached signature.
    Signature,
    /// A torrent.
    Torrent,
    /// A block map for bmaptool.
    Bmap,
    /// A metalink.
    Metalink,
    /// Other text.
    Text,
    /// A program: ELF or PE.
    Program,
    /// No bytes at all.
    Empty,
    /// It starts with nothing but zeros.
    BlankZeros,
    /// None of the above.
    Unknown,
}

/// Compressed streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Codec {
    Gzip,
    Xz,
    Zstd,
    Bzip2,
    Lz4,
    Lzma,
    Lzip,
    Compress,
}

/// Archives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Archive {
    Zip,
    SevenZip,
    Rar,
    Tar,
    Cab,
    Wim,
    Ar,
    Rpm,
}

/// Formats of virtual machines and phones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum VirtualDisk {
    Qcow2,
    Vmdk,
    Vhd,
    Vhdx,
    Vdi,
    Dmg,
    AndroidSparse,
}

/// What to do with an image before it may reach a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Raw bytes for a medium.
    Write,
    /// Decode first, then look again.
    Decode,
    /// Make a medium from its files.
    Compose,
    /// Possible, but ask: it does not look like something that boots.
    Confirm,
    /// Not an image.
    Refuse,
}

impl ImageKind {
    /// What this kind is good for.
    #[must_use]
    pub fn advice(self) -> Advice {
        match self {
            Self::HybridIso | Self::DiskImage | Self::PlainIso | Self::Filesystem(_) => {
                Advice::Write
            }
            Self::WindowsIso => Advice::Compose,
            Self::Compressed(_) | Self::Archive(Archive::Zip) => Advice::Decode,
            Self::BlankZeros | Self::Unknown => Advice::Confirm,
            Self::Archive(_)
            | Self::VirtualDisk(_)
            | Self::HtmlPage
            | Self::Checksums
            | Self::Signature
            | Self::Torrent
            | Self::Bmap
            | Self::Metalink
            | Self::Text
            | Self::Program
            | Self::Empty => Advice::Refuse,
        }
    }

    /// A noun phrase with its article: "a hybrid ISO image".
    #[must_use]
    pub fn describe(self) -> String {
        match self {
            Self::HybridIso => "a hybrid ISO image".into(),
            Self::DiskImage => "a disk image".into(),
            Self::PlainIso => "an ISO image without a partition table".into(),
            Self::WindowsIso => "a Windows install ISO".into(),
            Self::Filesystem(kind) if kind.is_member() => format!("a bare {kind}"),
            Self::Filesystem(kind) => format!("a bare {kind} filesystem"),
            Self::Compressed(codec) => format!("{} data", codec.name()),
            Self::Archive(archive) => format!("a {} archive", archive.name()),
            Self::VirtualDisk(disk) => format!("a {} virtual disk", disk.name()),
            Self::HtmlPage => "a web page (HTML)".into(),
            Self::Checksums => "a list of checksums".into(),
            Self::Signature => "a detached signature".into(),
            Self::Torrent => "a torrent file".into(),
            Self::Bmap => "a block map (bmap)".into(),
            Self::Metalink => "a metalink".into(),
            Self::Text => "a text file".into(),
            Self::Program => "a program".into(),
            Self::Empty => "an empty file".into(),
            Self::BlankZeros => "blank: it starts with zeros only".into(),
            Self::Unknown => "of unknown kind".into(),
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Codec {
    /// The usual spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
            Self::Lzma => "lzma",
            Self::Lzip => "lzip",
            Self::Compress => "compress (.Z)",
        }
    }
}

impl Archive {
    /// The usual spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zip => "zip",
            Self::SevenZip => "7z",
            Self::Rar => "rar",
            Self::Tar => "tar",
            Self::Cab => "cab",
            Self::Wim => "wim",
            Self::Ar => "ar or deb",
            Self::Rpm => "rpm",
        }
    }
}

impl VirtualDisk {
    /// The usual spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "VMDK",
            Self::Vhd => "VHD",
            Self::Vhdx => "VHDX",
            Self::Vdi => "VDI",
            Self::Dmg => "DMG",
            Self::AndroidSparse => "Android sparse",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_image_are_refused_by_name() {
        for (kind, words) in [
            (ImageKind::HtmlPage, "a web page (HTML)"),
            (ImageKind::Checksums, "a list of checksums"),
            (ImageKind::Torrent, "a torrent file"),
            (ImageKind::Empty, "an empty file"),
            (ImageKind::Archive(Archive::SevenZip), "a 7z archive"),
            (ImageKind::VirtualDisk(VirtualDisk::Qcow2), "a qcow2 virtual disk"),
        ] {
            assert_eq!(kind.advice(), Advice::Refuse);
            assert_eq!(kind.to_string(), words);
        }
        assert_eq!(ImageKind::Compressed(Codec::Xz).advice(), Advice::Decode);
        assert_eq!(ImageKind::WindowsIso.advice(), Advice::Compose);
    }
}
