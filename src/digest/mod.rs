//! Digests. SHA-256 is the authority over source and medium; the chunk map's XXH3 says where.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

pub mod chunks;

/// A SHA-256 digest; prints and parses as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

/// A running SHA-256.
#[derive(Clone, Debug, Default)]
pub struct Hasher(sha2::Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes so far.
    pub fn finish(self) -> Sha256 {
        Sha256(self.0.finalize().into())
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Sha256 {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Sha256 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let mut digest = [0; 32];
        let digits: Vec<u8> = text
            .chars()
            .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
            .collect::<Option<_>>()
            .filter(|d: &Vec<u8>| d.len() == 64)
            .ok_or_else(|| {
                format!(
                    "a SHA-256 digest has 64 hexadecimal digits; '{}' has {} characters",
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
