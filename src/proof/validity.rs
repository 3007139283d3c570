//! Whether a key may have made a signature over data (RFC 9580, sections 5.2.1, 5.2.3 and 10.1):
//! it has a valid self-signature, is not revoked, was not expired when it signed, may sign data,
//! and a subkey is bound to its primary key in both directions. Revocations by third parties
//! (designated revokers) are not looked at.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails as _, Tag};

use super::{CLOCK_SKEW, weak_hash};
use crate::text::printable;

/// A primary key or one of its subkeys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signer<'a> {
    pub(super) key: &'a SignedPublicKey,
    /// `None`: the primary key itself.
    pub(super) subkey: Option<&'a SignedPublicSubKey>,
}

impl Signer<'_> {
    /// Of the primary key, hex in capitals.
    pub(super) fn fingerprint(&self) -> String {
        format!("{:X}", self.key.fingerprint())
    }

    /// The user ID that its owner signed and calls the primary one, or the first, escaped.
    pub(super) fn owner(&self) -> String {
        let users = || self.key.details.users.iter();
        let own = |user: &&pgp::types::SignedUser| {
            user.signatures.iter().any(|s| {
                s.is_certification()
                    && s.verify_certification(&self.key.primary_key, Tag::UserId, &user.id).is_ok()
            })
        };
        let user = users().find(|u| u.is_primary() && own(u)).or_else(|| users().find(own));
        user.map_or_else(
            || "a key without a name".to_owned(),
            |user| printable(&String::from_utf8_lossy(user.id.id())),
        )
    }

    /// Whether it made this signature over these bytes; whether it may have is another question.
    pub(super) fn made(&self, signature: &Signature, data: &[u8]) -> bool {
        match self.subkey {
            Some(sub) => signature.verify(&sub.key, data).is_ok(),
            None => signature.verify(&self.key.primary_key, data).is_ok(),
        }
    }

    /// Whether a signature by it is to be relied on; a note when it is expired by now.
    pub(super) fn judge(&self, signature: &Signature, now: u32) -> Result<Option<String>, String> {
        let made = created(signature).ok_or("it does not say when it was made")?;
        if made > now.saturating_add(CLOCK_SKEW) {
            return Err("it was made in the future; is the clock of this computer right?".into());
        }
        let ends = signature
            .signature_expiration_time()
            .map(pgp::types::Duration::as_secs)
            .filter(|d| *d > 0);
        if ends.is_some_and(|after| u64::from(made) + u64::from(after) <= u64::from(now)) {
            return Err("the signature has expired".into());
        }
        let own = self.self_signature()?;
        let life = Life::new(self.key.primary_key.created_at().as_secs(), own);
        life.held(made, "its key")?;
        let mut expired = life.over_at(now);
        match self.subkey {
            None if !may_sign(own).unwrap_or(true) => {
                return Err("its key is not one for signing data".into());
            }
            None => {}
            Some(sub) => {
                let binding = self.binding(sub)?;
                let life = Life::new(sub.key.created_at().as_secs(), binding);
                life.held(made, "its subkey")?;
                expired |= life.over_at(now);
            }
        }
        Ok(expired.then(|| "the key has expired since it signed this".to_owned()))
    }

    #[cfg(test)]
    pub(super) fn holds(&self) -> bool {
        self.self_signature().is_ok()
    }

    /// The newest valid statement of the primary key about itself, which holds its expiry and its
    /// uses; an error when it took itself back.
    fn self_signature(&self) -> Result<&Signature, String> {
        let primary = &self.key.primary_key;
        let details = &self.key.details;
        if details.revocation_signatures.iter().any(|s| s.verify_key(primary).is_ok()) {
            return Err("its key was revoked by its owner".into());
        }
        let mut all: Vec<&Signature> = details
            .direct_signatures
            .iter()
            .filter(|s| s.typ() == Some(SignatureType::Key) && s.verify_key(primary).is_ok())
            .collect();
        for user in &details.users {
            let valid: Vec<&Signature> = user
                .signatures
                .iter()
                .filter(|s| s.verify_certification(primary, Tag::UserId, &user.id).is_ok())
                .collect();
            let taken_back = valid.iter().any(|s| s.typ() == Some(SignatureType::CertRevocation));
            if !taken_back {
                all.extend(valid.iter().filter(|s| s.is_certification()));
            }
        }
        all.into_iter()
            .max_by_key(|s| created(s))
            .ok_or_else(|| "its key has no valid signature of its own".to_owned())
    }

    /// The newest valid binding of a subkey that may sign.
    fn binding<'s>(&self, sub: &'s SignedPublicSubKey) -> Result<&'s Signature, String> {
        let primary = &self.key.primary_key;
        let valid =
            || sub.signatures.iter().filter(|s| s.verify_subkey_binding(primary, &sub.key).is_ok());
        if valid().any(|s| s.typ() == Some(SignatureType::SubkeyRevocation)) {
            return Err("its subkey was revoked by its owner".into());
        }
        let binding = valid()
            .filter(|s| s.typ() == Some(SignatureType::SubkeyBinding))
            .max_by_key(|s| created(s))
            .ok_or("its subkey is not bound to the key")?;
        if let Some(weak) = weak_hash(binding) {
            return Err(format!("its subkey is bound to the key with {weak} only"));
        }
        if may_sign(binding) != Some(true) {
            return Err("its subkey is not one for signing data".into());
        }
        // Without the back-signature, anybody could claim another one's signing key as a subkey.
        let back = binding.embedded_signature().filter(|back| {
            weak_hash(back).is_none() && back.verify_primary_key_binding(&sub.key, primary).is_ok()
        });
        back.map(|_| binding).ok_or_else(|| "its subkey never agreed to belong to the key".into())
    }
}

/// From when to when a key holds, in seconds since 1970.
struct Life {
    from: u32,
    until: Option<u64>,
}

impl Life {
    fn new(from: u32, statement: &Signature) -> Self {
        let after =
            statement.key_expiration_time().map(pgp::types::Duration::as_secs).filter(|d| *d > 0);
        Self { from, until: after.map(|after| u64::from(from) + u64::from(after)) }
    }

    fn over_at(&self, time: u32) -> bool {
        self.until.is_some_and(|until| until <= u64::from(time))
    }

    fn held(&self, time: u32, what: &str) -> Result<(), String> {
        if time < self.from {
            return Err(format!("{what} is younger than the signature"));
        }
        if self.over_at(time) {
            return Err(format!("{what} had expired when the signature was made"));
        }
        Ok(())
    }
}

/// When it was made, in seconds since 1970, as the signed part says.
fn created(signature: &Signature) -> Option<u32> {
    signature.created().map(pgp::types::Timestamp::as_secs)
}

/// What the key flags say of signing data; `None` without flags.
fn may_sign(statement: &Signature) -> Option<bool> {
    statement.config()?.hashed_subpackets().find_map(|packet| match &packet.data {
        SubpacketData::KeyFlags(flags) => Some(flags.sign()),
        _ => None,
    })
}
