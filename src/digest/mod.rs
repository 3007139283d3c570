//! Digests. SHA-256 is the authority over source and medium; the chunk map's XXH3 says where.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use sha2::digest::common::hazmat::SerializableState as _;

pub mod chunks;
pub mod prefixes;
pub mod ranges;
pub mod sums;

/// `N` bytes of a SHA-2 digest; prints and parses as hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha2<const N: usize>([u8; N]);

/// A SHA-256 digest, 64 hex digits.
pub type Sha256 = Sha2<32>;

/// A SHA-512 digest, 128 hex digits. Only for what is published so; our own is SHA-256.
pub type Sha512 = Sha2<64>;

/// A digest as somebody published it: one of those that still prove something. MD5 and SHA-1 are
/// not among them, because files with a given one of those can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Digest {
    /// 256 bits.
    Sha256(Sha256),
    /// 512 bits.
    Sha512(Sha512),
}

/// A running SHA-256.
#[derive(Clone, Debug, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Whether as many bytes led to the same state.
    fn same(&self, other: &Self) -> bool {
        self.0.serialize() == other.0.serialize()
    }

    /// The digest of all bytes so far.
    pub fn finish(self) -> Sha256 {
        Sha2(self.0.finalize().into())
    }
}

impl<const N: usize> Sha2<N> {
    /// Hex digits of a digest.
    const DIGITS: usize = 2 * N;
}

impl<const N: usize> From<[u8; N]> for Sha2<N> {
    fn from(bytes: [u8; N]) -> Self {
        Self(bytes)
    }
}

impl<const N: usize> fmt::Display for Sha2<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> fmt::Debug for Sha2<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA-{}({self})", 8 * N)
    }
}

impl<const N: usize> From<Sha2<N>> for String {
    fn from(digest: Sha2<N>) -> Self {
        digest.to_string()
    }
}

impl<const N: usize> TryFrom<String> for Sha2<N> {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl<const N: usize> FromStr for Sha2<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let mut digest = [0; N];
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
            .collect::<Option<_>>()
            .filter(|d: &Vec<u8>| d.len() == Self::DIGITS)
            .ok_or_else(|| {
                format!(
                    "a SHA-{} digest has {} hexadecimal digits; '{}' has {} characters",
                    8 * N,
                    Self::DIGITS,
                    text.escape_debug(),
                    text.chars().count()
                )
            })?;
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(digest))
    }
}

impl Digest {
    /// `SHA-256` or `SHA-512`.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "SHA-256",
            Self::Sha512(_) => "SHA-512",
        }
    }
}

impl fmt::Display for Digest {
    /// Its hex digits; their number tells the algorithm.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(digest) => digest.fmt(f),
            Self::Sha512(digest) => digest.fmt(f),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = String;

    /// Told apart by their length.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().len() {
            Sha512::DIGITS => text.parse().map(Self::Sha512),
            32 => {
                Err("this looks like MD5, which proves nothing; a SHA-256 or SHA-512 is needed"
                    .into())
            }
            40 => {
                Err("this looks like SHA-1, which proves nothing; a SHA-256 or SHA-512 is needed"
                    .into())
            }
            _ => text.parse().map(Self::Sha256),
        }
    }
}

/// What the bytes of a file as published came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// How many there were.
    pub bytes: u64,
    /// Over all of them.
    pub sha256: Sha256,
    /// Over all of them, when somebody published that one.
    pub sha512: Option<Sha512>,
    /// Bytes at the end that belong to no member of a compressed file, and whether all are zero.
    pub trailing: Trailing,
}

/// What lies behind the last compressed member of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailing {
    /// How many bytes.
    pub bytes: u64,
    /// Some of them are not zero: padding is.
    pub data: bool,
}

impl FileRead {
    /// Whether this is the file with that digest; `None` when it was not computed.
    pub fn has(&self, digest: &Digest) -> Option<bool> {
        match digest {
            Digest::Sha256(wanted) => Some(self.sha256 == *wanted),
            Digest::Sha512(wanted) => self.sha512.map(|own| own == *wanted),
        }
    }

    /// Its digest by the same algorithm.
    pub fn like(&self, digest: &Digest) -> Option<Digest> {
        match digest {
            Digest::Sha256(_) => Some(Digest::Sha256(self.sha256)),
            Digest::Sha512(_) => self.sha512.map(Digest::Sha512),
        }
    }
}

/// Hashes a file as it was published.
#[derive(Clone, Debug)]
pub struct FileHasher {
    bytes: u64,
    sha256: Hasher,
    sha512: Option<sha2::Sha512>,
}

impl FileHasher {
    /// SHA-256 always, because records hold it; SHA-512 as well when that is what was published.
    pub fn new(with_sha512: bool) -> Self {
        Self {
            bytes: 0,
            sha256: Hasher::default(),
            sha512: with_sha512.then(sha2::Sha512::default),
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.sha256.update(bytes);
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
    }

    /// The digests of all bytes so far.
    pub fn finish(self, trailing: Trailing) -> FileRead {
        FileRead {
            bytes: self.bytes,
            sha256: self.sha256.finish(),
            sha512: self.sha512.map(|hasher| Sha2(hasher.finalize().into())),
            trailing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_known_one_and_hex_round_trips() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hasher::default().finish().to_string(), empty);
        assert_eq!(empty.to_uppercase().parse(), Ok(Hasher::default().finish()));
        for bad in ["", "e3b0", &empty[1..], &format!("{empty}0"), &empty.replace('e', "g")] {
            assert!(bad.parse::<Sha256>().is_err(), "{bad}");
        }
    }
}
