//! Signatures made by gpg: what verifies, and that everything else is refused.

use crate::gpg::{self, Gpg};
use mediawriter::proof::{Judge, Keyring, Proof, open};

const LIST: &[u8] = b"0000000000000000000000000000000000000000000000000000000000000000  x.iso\n";
const NOW: u32 = 2_000_000_000;

fn judged(key: &[u8], list: &[u8], signature: Option<&[u8]>, demanded: &[String]) -> Proof {
    let mut keys = Keyring::shipped().unwrap();
    keys.add(key).unwrap();
    open(list, signature, Judge { keys: &keys, demanded, now: NOW }).proof
}

fn is_good(proof: &Proof, by: &str) -> bool {
    matches!(proof, Proof::Good { fingerprint, .. } if fingerprint == by)
}

fn refused(proof: Proof, word: &str) {
    match proof {
        Proof::Bad(why) => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_signed_list_verifies_and_one_changed_byte_of_list_signature_or_key_is_refused() {
    let Some(gpg) = Gpg::new() else { return };
    let own = gpg.key("ed25519", &[]);
    let key = gpg.export(&own);
    for more in [&[][..], &["--armor"][..], &["--textmode"][..]] {
        let signature = gpg.sign(LIST, &own, more);
        assert!(is_good(&judged(&key, LIST, Some(&signature), &[]), &own), "{more:?}");
        let mut list = LIST.to_vec();
        list[5] ^= 1;
        refused(judged(&key, &list, Some(&signature), &[]), "does not fit");
    }
    let signature = gpg.sign(LIST, &own, &[]);
    for at in 0..signature.len() {
        let mut changed = signature.clone();
        changed[at] ^= 1;
        let proof = judged(&key, LIST, Some(&changed), &[]);
        // What may change: the subpacket with the maker's id (length, type, 8 bytes), a hint
        // outside the signed part, of which the fingerprint is inside; and the stated lengths in
        // bits of the two numbers that are the signature (RFC 9580, 3.2: 16 bits before each),
        // as long as the numbers stay the same.
        if let Proof::Good { .. } = proof {
            let ids = signature.windows(8).rposition(|w| gpg::hex(w) == own[24..]).unwrap();
            let bits = |at: usize| u16::from_be_bytes([signature[at], signature[at + 1]]);
            let first = ids + 8 + 2;
            let second = first + 2 + usize::from(bits(first).div_ceil(8));
            let same = [ids - 2..ids + 8, first..first + 2, second..second + 2];
            assert!(same.iter().any(|range| range.contains(&at)), "byte {at}");
        }
    }
    // The primary key's packet (RFC 9580, section 4.2): its length is in the second byte.
    let packet = 2 + usize::from(key[1]);
    // The stated length in bits of the public key: behind version, time, algorithm and curve.
    let bits = 2 + 1 + 4 + 1 + 1 + usize::from(key[8]);
    for at in (2..packet).filter(|at| !(bits..bits + 2).contains(at)) {
        let mut changed = key.clone();
        changed[at] ^= 1;
        let mut keys = Keyring::default();
        if keys.add(&changed).is_ok() {
            let proof =
                open(LIST, Some(&signature), Judge { keys: &keys, demanded: &[], now: NOW }).proof;
            assert!(!matches!(proof, Proof::Good { .. }), "byte {at} of the key");
        }
    }
}

#[test]
fn other_keys_are_unknown_or_not_those_that_sign_this() {
    let Some(gpg) = Gpg::new() else { return };
    let (own, other) = (gpg.key("ed25519", &[]), gpg.key("ed25519", &[]));
    let signature = gpg.sign(LIST, &own, &[]);
    match judged(&gpg.export(&other), LIST, Some(&signature), &[]) {
        Proof::UnknownKey(ids) => assert_eq!(ids, std::slice::from_ref(&own)),
        proof => panic!("{proof:?}"),
    }
    let key = gpg.export(&own);
    refused(judged(&key, LIST, Some(&signature), std::slice::from_ref(&other)), "does not sign");
    let two = [signature, gpg.sign(LIST, &other, &[])].concat();
    assert!(is_good(&judged(&key, LIST, Some(&two), &[]), &own));
    assert!(is_good(&judged(&gpg.export(&other), LIST, Some(&two), &[]), &other));
}

#[test]
fn a_subkey_signs_for_its_primary_key_until_it_is_revoked_with_it() {
    let Some(gpg) = Gpg::new() else { return };
    let own = gpg.key("ed25519", &[]);
    gpg.run(&["--passphrase", "", "--quick-add-key", &own, "ed25519", "sign", "never"], &[]);
    let signature = gpg.sign(LIST, &own, &[]);
    assert!(is_good(&judged(&gpg.export(&own), LIST, Some(&signature), &[]), &own));
    let signer = gpg.run(&["--list-packets"], &signature);
    assert!(!String::from_utf8_lossy(&signer).contains(&own), "the subkey made it");
    gpg.revoke(&own);
    refused(judged(&gpg.export(&own), LIST, Some(&signature), &[]), "revoked");
}

#[test]
fn weak_digests_prove_nothing() {
    let Some(gpg) = Gpg::new() else { return };
    let own = gpg.key("rsa2048", &[]);
    let signature = gpg.sign(LIST, &own, &["--digest-algo", "SHA1"]);
    refused(judged(&gpg.export(&own), LIST, Some(&signature), &[]), "SHA-1");
    let signature = gpg.sign(LIST, &own, &["--digest-algo", "SHA512"]);
    assert!(is_good(&judged(&gpg.export(&own), LIST, Some(&signature), &[]), &own));
}

#[test]
fn a_key_signs_until_it_expires() {
    let Some(gpg) = Gpg::new() else { return };
    let at = |time: &'static str| ["--faked-system-time", time];
    let own = gpg.key_until("ed25519", "seconds=8640000", &at("20200101T000000"));
    let signature = gpg.sign(LIST, &own, &at("20200110T000000"));
    match judged(&gpg.export(&own), LIST, Some(&signature), &[]) {
        Proof::Good { note: Some(note), .. } => assert!(note.contains("expired"), "{note}"),
        proof => panic!("{proof:?}"),
    }
    let shorten = ["--passphrase", "", "--quick-set-expire", &own, "seconds=86400"];
    gpg.run(&[&at("20200102T000000")[..], &shorten].concat(), &[]);
    refused(judged(&gpg.export(&own), LIST, Some(&signature), &[]), "expired");
}

#[test]
fn a_clear_signed_list_is_its_signed_lines_alone() {
    let Some(gpg) = Gpg::new() else { return };
    let own = gpg.key("ed25519", &[]);
    let key = gpg.export(&own);
    let signed = gpg.run(&["--local-user", &own, "--clear-sign"], LIST);
    assert!(is_good(&judged(&key, &signed, None, &[]), &own));
    let text = String::from_utf8(signed).unwrap();
    refused(judged(&key, text.replace("x.iso", "y.iso").as_bytes(), None, &[]), "does not fit");
    let before = format!("{}{text}", String::from_utf8_lossy(LIST));
    refused(judged(&key, before.as_bytes(), None, &[]), "before");
    let behind = format!("{text}{}", String::from_utf8_lossy(LIST));
    assert!(!is_good(&judged(&key, behind.as_bytes(), None, &[]), &own));
}
