//! The keys that are known: those in the program, and those in files that were named. A keyring
//! is binary or armoured; what is in it and no public key, or of an unknown version, is skipped.

use std::io::Cursor;

use pgp::composed::{Deserializable as _, SignedPublicKey, SignedPublicSubKey};
use pgp::packet::Signature;
use pgp::types::{Fingerprint, KeyDetails, KeyId};

use super::plain;
use super::validity::Signer;

/// The keys in the program: file below `keys/`, full fingerprint, bytes. keys/README.md says
/// where each is from.
pub const PINNED: [(&str, &str, &[u8]); 4] = [
    (
        "ubuntu-cdimage-2012.gpg",
        "843938DF228D22F7B3742BC0D94AA3F0EFE21092",
        include_bytes!("../../keys/ubuntu-cdimage-2012.gpg"),
    ),
    (
        "debian-cd-2011.gpg",
        "DF9B9C49EAA9298432589D76DA87E80D6294BE9B",
        include_bytes!("../../keys/debian-cd-2011.gpg"),
    ),
    (
        "debian-cd-2009.gpg",
        "10460DAD76165AD81FBC0CE9988021A964E6EA7D",
        include_bytes!("../../keys/debian-cd-2009.gpg"),
    ),
    (
        "debian-cd-testing-2014.gpg",
        "F41D30342F3546695F65C66942468F4009EA8AC3",
        include_bytes!("../../keys/debian-cd-testing-2014.gpg"),
    ),
];

/// Public keys.
#[derive(Clone, Debug, Default)]
pub struct Keyring(Vec<SignedPublicKey>);

impl Keyring {
    /// The keys in the program, each checked against its pinned fingerprint.
    pub fn shipped() -> Result<Self, String> {
        let mut all = Self::default();
        for (file, fingerprint, bytes) in PINNED {
            let before = all.0.len();
            all.add(bytes)?;
            let own: Vec<String> = all.fingerprints().skip(before).collect();
            if own != [fingerprint] {
                return Err(format!("keys/{file} is not the key {fingerprint}"));
            }
        }
        Ok(all)
    }

    /// Adds the keys of a keyring file and says how many there were.
    pub fn add(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let (keys, _) = SignedPublicKey::from_reader_many(Cursor::new(bytes))
            .map_err(|e| format!("it is no OpenPGP keyring: {}", plain(&e)))?;
        let before = self.0.len();
        // A keyring may hold keys of kinds that this library does not know.
        self.0.extend(keys.filter_map(Result::ok));
        match self.0.len() - before {
            0 => Err("there is no OpenPGP public key in it".to_owned()),
            added => Ok(added),
        }
    }

    /// Fingerprints of the primary keys, hex in capitals.
    pub fn fingerprints(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|key| format!("{:X}", key.fingerprint()))
    }

    /// The keys that a signature says it was made by. An id of 64 bits may fit several: the one
    /// that made it is found by trying, and named by its fingerprint.
    pub(super) fn signers(&self, signature: &Signature) -> Vec<Signer<'_>> {
        let prints = signature.issuer_fingerprint();
        let ids = signature.issuer_key_id();
        let is = |print: Fingerprint, id: KeyId| {
            if prints.is_empty() { ids.contains(&&id) } else { prints.contains(&&print) }
        };
        let mut found = Vec::new();
        for key in &self.0 {
            if is(key.primary_key.fingerprint(), key.primary_key.legacy_key_id()) {
                found.push(Signer { key, subkey: None });
            }
            let subkey =
                |sub: &&SignedPublicSubKey| is(sub.key.fingerprint(), sub.key.legacy_key_id());
            found.extend(
                key.public_subkeys
                    .iter()
                    .filter(subkey)
                    .map(|sub| Signer { key, subkey: Some(sub) }),
            );
        }
        found
    }

    #[cfg(test)]
    pub(super) fn primaries(&self) -> impl Iterator<Item = Signer<'_>> {
        self.0.iter().map(|key| Signer { key, subkey: None })
    }
}
