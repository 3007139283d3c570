//! Proof of origin: OpenPGP signatures (RFC 9580) over checksum lists, detached or clear-signed.
//!
//! A list is opened with [`open`]: what comes back is the text that was signed, and what its
//! signatures prove. Pure: bytes, keys and the time of day go in. Keys are known by their full
//! fingerprints; `validity` says which of them may sign. Only signatures over data count (types
//! 0x00 and 0x01), and none with MD5, SHA-1 or RIPEMD-160, for which collisions are made or near.

use std::io::Cursor;

use pgp::composed::{CleartextSignedMessage, Deserializable as _, DetachedSignature};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};

use crate::error::{Error, Kind, Result as OrError};
use crate::event::Voucher;

mod keys;
mod validity;

pub use keys::{Keyring, PINNED};

/// The largest signature or key file that is read, in bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// Signatures of one file that are looked at.
const MOST_SIGNATURES: usize = 32;
/// How far a signer's clock may be ahead, in seconds.
const CLOCK_SKEW: u32 = 86_400;

/// What the signatures over a list prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Made by this key.
    Good {
        /// Of the primary key, hex in capitals.
        fingerprint: String,
        /// Its user ID, escaped.
        owner: String,
        /// What is to be said beside it: the key is expired now.
        note: Option<String>,
    },
    /// There is a signature, and it is wrong, or its key must not be relied on. Always fatal.
    Bad(String),
    /// Made by keys that are not here; their ids or fingerprints, hex in capitals.
    UnknownKey(Vec<String>),
    /// There is no signature.
    None,
}

impl Proof {
    /// Who vouches for what is in `list`. A wrong signature is an error, and so is a missing one
    /// or one by an unknown key when a signature is `required`.
    pub fn voucher(&self, list: &str, required: bool) -> OrError<Voucher> {
        let list = list.to_owned();
        let unsigned = match self {
            Self::Good { fingerprint, owner, note } => {
                let owner = note.as_ref().map_or(owner.clone(), |note| format!("{owner}; {note}"));
                return Ok(Voucher::Signature { list, owner, fingerprint: fingerprint.clone() });
            }
            Self::Bad(why) => {
                return Err(Error::new(
                    Kind::SourceMismatch,
                    format!("{list} is not trusted: {why}"),
                )
                .hint("download the list and its signature again, from the publisher himself"));
            }
            Self::UnknownKey(keys) => {
                format!("its signature is by a key that is not known here ({})", keys.join("; "))
            }
            Self::None => "no signature is beside it".to_owned(),
        };
        if required {
            return Err(Error::new(Kind::SourceMismatch, format!("{list} is not proven: {unsigned}"))
                .hint("give the publisher's key with --keyring FILE, and his signature with --signature FILE"));
        }
        Ok(Voucher::List { list, unsigned })
    }
}

/// A list, taken out of its wrapper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The lines that count: only those that were signed, when it is clear-signed.
    pub text: Vec<u8>,
    /// What is proven about them.
    pub proof: Proof,
}

/// Whose signatures count, and when.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    /// Keys that are known.
    pub keys: &'a Keyring,
    /// Fingerprints of primary keys, hex in capitals, of which one must have signed; empty: any
    /// known key may.
    pub demanded: &'a [String],
    /// Now, in seconds since 1970.
    pub now: u32,
}

/// Whether bytes that a server sent can be a detached signature at all, and no page that it sends
/// for everything (RFC 4880, 4.2: a packet of tag 2; 6.2: armour).
pub fn looks_like_a_signature(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_start();
    let packet = bytes.first().is_some_and(|first| {
        let old = first & 0xc0 == 0x80 && first >> 2 & 0x0f == 2;
        old || *first == 0xc2
    });
    packet || text.starts_with(b"-----BEGIN PGP SIGNATURE")
}

/// Opens a list that may be clear-signed, or have a detached signature (binary or armoured).
pub fn open(list: &[u8], detached: Option<&[u8]>, judge: Judge<'_>) -> Opened {
    match (clear_signed(list), detached) {
        // The wrapper is what was signed by a detached signature, if there is one too.
        (Some(inner), outer) => match inner {
            Ok((text, signatures)) => {
                let mut proof = judge.over(&text, &signatures);
                if let Some(outer) = outer {
                    let outer = judge.detached(list, outer);
                    if matches!(outer, Proof::Bad(_))
                        || !matches!(proof, Proof::Bad(_) | Proof::Good { .. })
                    {
                        proof = outer;
                    }
                }
                Opened { text, proof }
            }
            Err(why) => Opened { text: Vec::new(), proof: Proof::Bad(why) },
        },
        (None, Some(outer)) => Opened { text: list.to_vec(), proof: judge.detached(list, outer) },
        (None, None) => Opened { text: list.to_vec(), proof: Proof::None },
    }
}

const CLEAR_SIGNED: &str = "-----BEGIN PGP SIGNED MESSAGE-----";

/// Text and signatures.
type ClearSigned = (Vec<u8>, Vec<Signature>);

/// What is in a clear-signed list; `None` for another file.
fn clear_signed(list: &[u8]) -> Option<Result<ClearSigned, String>> {
    let text = String::from_utf8_lossy(list);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.lines().any(|line| line.trim_end() == CLEAR_SIGNED) {
        return None;
    }
    // Lines before or behind the wrapper would be unsigned ones beside signed ones.
    if !text.starts_with(CLEAR_SIGNED) {
        return Some(Err("there are lines before its signed part".to_owned()));
    }
    Some(
        CleartextSignedMessage::from_string(text)
            .map(|(message, _)| (message.signed_text().into_bytes(), message.signatures().to_vec()))
            .map_err(|e| format!("its signed part cannot be read: {}", plain(&e))),
    )
}

impl Judge<'_> {
    fn detached(self, data: &[u8], file: &[u8]) -> Proof {
        match signatures(file) {
            Ok(signatures) => self.over(data, &signatures),
            Err(why) => Proof::Bad(why),
        }
    }

    /// One wrong signature by a known key spoils all; a refused one does not spoil a good one.
    fn over(self, data: &[u8], signatures: &[Signature]) -> Proof {
        let (mut good, mut refused, mut unknown) = (None, None, Vec::new());
        for signature in signatures.iter().take(MOST_SIGNATURES) {
            match self.one(data, signature) {
                One::Good(proof) => good = good.or(Some(proof)),
                One::Wrong(why) => return Proof::Bad(why),
                One::Refused(why) => refused = refused.or(Some(why)),
                One::Unknown(id) => unknown.push(id),
            }
        }
        match (good, refused) {
            (Some(good), _) => good,
            (None, Some(why)) => Proof::Bad(why),
            (None, None) if unknown.is_empty() => {
                Proof::Bad("there is no signature in the signature file".to_owned())
            }
            (None, None) => Proof::UnknownKey(unknown),
        }
    }

    fn one(self, data: &[u8], signature: &Signature) -> One {
        let issuers = issuers(signature);
        let candidates = self.keys.signers(signature);
        if candidates.is_empty() {
            return One::Unknown(issuers);
        }
        if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
            return One::Refused(format!("the signature by {issuers} is none over data"));
        }
        let Some(signer) = candidates.iter().find(|signer| signer.made(signature, data)) else {
            return One::Wrong(format!("the signature by {issuers} does not fit the list"));
        };
        if let Some(weak) = weak_hash(signature) {
            return One::Refused(format!(
                "the signature by {issuers} uses {weak}, which proves nothing"
            ));
        }
        if !self.demanded.is_empty() && !self.demanded.contains(&signer.fingerprint()) {
            let (owner, key) = (signer.owner(), signer.fingerprint());
            return One::Refused(format!(
                "it is signed by {owner} (key {key}), who does not sign this image"
            ));
        }
        match signer.judge(signature, self.now) {
            Ok(note) => One::Good(Proof::Good {
                fingerprint: signer.fingerprint(),
                owner: signer.owner(),
                note,
            }),
            Err(why) => One::Refused(format!("the signature by {}: {why}", signer.owner())),
        }
    }
}

/// What one signature is.
enum One {
    Good(Proof),
    /// Does not fit the bytes.
    Wrong(String),
    /// Fits, and must not be relied on.
    Refused(String),
    Unknown(String),
}

/// The signatures of a detached signature file.
fn signatures(file: &[u8]) -> Result<Vec<Signature>, String> {
    if file.len() > MOST_BYTES {
        return Err(format!("the signature file has more than {MOST_BYTES} bytes"));
    }
    let none = |e: &pgp::errors::Error| format!("the signature cannot be read: {}", plain(e));
    let (all, _) = DetachedSignature::from_reader_many(Cursor::new(file)).map_err(|e| none(&e))?;
    let mut found = Vec::new();
    for signature in all.take(MOST_SIGNATURES) {
        found.push(signature.map_err(|e| none(&e))?.signature);
    }
    Ok(found)
}

/// Who says that he made it: fingerprints where they are given, else key ids (64 bits).
fn issuers(signature: &Signature) -> String {
    let mut all: Vec<String> =
        signature.issuer_fingerprint().iter().map(|f| format!("{f:X}")).collect();
    if all.is_empty() {
        all = signature.issuer_key_id().iter().map(|id| hex(id.as_ref())).collect();
    }
    if all.is_empty() { "an unnamed key".to_owned() } else { all.join(", ") }
}

fn weak_hash(signature: &Signature) -> Option<&'static str> {
    match signature.hash_alg() {
        Some(HashAlgorithm::Md5) => Some("MD5"),
        Some(HashAlgorithm::Sha1) => Some("SHA-1"),
        Some(HashAlgorithm::Ripemd160) => Some("RIPEMD-160"),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
}

/// An error of the library, safe to print.
fn plain(error: &pgp::errors::Error) -> String {
    crate::text::printable(&error.to_string())
}

#[cfg(test)]
mod tests;
