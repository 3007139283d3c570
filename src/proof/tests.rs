//! The keys in the program; signatures are tested with gpg in tests/engine/signatures.rs.

use super::*;

#[test]
fn the_keys_in_the_program_are_the_pinned_ones_and_hold_by_their_own_signatures() {
    let keys = Keyring::shipped().unwrap();
    assert_eq!(keys.fingerprints().count(), PINNED.len());
    for signer in keys.primaries() {
        // A genuine signature by the key: the one over its user ID.
        assert!(signer.holds(), "{}", signer.fingerprint());
        assert!(signer.owner().contains('@'), "{}", signer.owner());
    }
}

#[test]
fn a_changed_key_is_no_key_of_its_owner() {
    let (_, fingerprint, bytes) = PINNED[0];
    for at in [20, 300, bytes.len() - 20] {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        let mut keys = Keyring::default();
        if keys.add(&changed).is_ok() {
            let same = |signer: &validity::Signer<'_>| signer.fingerprint() == fingerprint;
            assert!(!keys.primaries().any(|signer| same(&signer) && signer.holds()), "byte {at}");
        }
    }
}

#[test]
fn what_is_no_signature_is_refused() {
    let keys = Keyring::default();
    let judge = Judge { keys: &keys, demanded: &[], now: 0 };
    for bad in [&b""[..], b"hello", b"-----BEGIN PGP SIGNATURE-----\n\nabc", &[0x88; 40]] {
        let opened = open(b"list", Some(bad), judge);
        assert!(matches!(opened.proof, Proof::Bad(_)), "{bad:?}: {:?}", opened.proof);
    }
    assert_eq!(open(b"list", None, judge).proof, Proof::None);
}
