//! What a stick was made with, on the stick itself: so that its image can be planned again, byte
//! for byte, when it is verified. It lies in front of the partition, where nobody else writes. Pure.

use std::fmt::Write as _;

use super::table::Kind;
use crate::digest::Sha256;

/// First byte of the stamp: between the table and the partition.
pub const AT: u64 = 512 << 10;
/// It fits into the smallest sector.
pub const LEN: usize = 512;
const HEAD: &str = "mediawriter windows media 1";

/// How a stick was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Identifiers were made of it.
    pub seed: [u8; 16],
    /// Its table.
    pub table: Kind,
    /// Most bytes of a part of `install.wim`, where that was said.
    pub part_limit: Option<u64>,
    /// What boots it, where it is NTFS; `None`: it is FAT32.
    pub boot: Option<Boot>,
}

/// The image of the partition that boots an NTFS stick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Bytes.
    pub len: u64,
    /// Their digest.
    pub sha256: Sha256,
}

impl Stamp {
    /// As text, with zeros behind it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{HEAD}\nseed=");
        for byte in self.seed {
            // A String takes every write.
            write!(text, "{byte:02x}").ok();
        }
        let table = match self.table {
            Kind::Gpt => "gpt",
            Kind::Mbr => "mbr",
        };
        write!(text, "\ntable={table}\n").ok();
        if let Some(limit) = self.part_limit {
            writeln!(text, "part_limit={limit}").ok();
        }
        if let Some(Boot { len, sha256 }) = &self.boot {
            writeln!(text, "ntfs_boot={len} {sha256}").ok();
        }
        let mut bytes = text.into_bytes();
        bytes.resize(LEN, 0);
        bytes
    }

    /// The stamp in these bytes; `None` where there is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == 0)?;
        let text = std::str::from_utf8(&bytes[..end]).ok()?;
        let rest = text.strip_prefix(HEAD)?.strip_prefix('\n')?;
        let field =
            |name: &str| rest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let hex = field("seed")?;
        let mut seed = [0; 16];
        if hex.len() != 32 || !hex.is_ascii() {
            return None;
        }
        for (byte, at) in seed.iter_mut().zip((0..32).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
        }
        let table = match field("table")? {
            "gpt" => Kind::Gpt,
            "mbr" => Kind::Mbr,
            _ => return None,
        };
        let part_limit = field("part_limit").map(|limit| limit.parse().ok());
        // What cannot be read must not pass for the stamp of a FAT32 stick.
        let boot = match field("ntfs_boot") {
            None => None,
            Some(boot) => {
                let (len, sha256) = boot.split_once(' ')?;
                Some(Boot { len: len.parse().ok()?, sha256: sha256.parse().ok()? })
            }
        };
        Some(Self { seed, table, part_limit: part_limit.unwrap_or(None), boot })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_written_comes_back() {
        let ntfs = Boot { len: u64::MAX, sha256: "ab".repeat(32).parse().unwrap() };
        for (table, part_limit, boot) in [
            (Kind::Gpt, None, None),
            (Kind::Mbr, Some(12 << 20), None),
            (Kind::Gpt, None, Some(ntfs)),
        ] {
            let stamp = Stamp { seed: *b"0123456789abcdef", table, part_limit, boot };
            let bytes = stamp.to_bytes();
            assert_eq!((bytes.len(), Stamp::parse(&bytes)), (LEN, Some(stamp)));
        }
        assert_eq!(Stamp::parse(&[0; LEN]), None);
        let text = format!("{HEAD}\nseed={}\ntable=gpt\nntfs_boot=12\n\0", "0".repeat(32));
        assert_eq!(Stamp::parse(text.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), tail in "[ -~\n]{0,80}") {
            Stamp::parse(&bytes);
            Stamp::parse(format!("{HEAD}\nseed={tail}\0").as_bytes());
        }
    }
}
