//! Lists of checksums beside an image, through the real program: every make of list, names that
//! are no plain names, lists that do not help, signatures.

use std::fs;
use std::path::Path;

use crate::gpg::Gpg;
use crate::lab::{Output, disk_image, flash, folder, put, sh, sha256sum};
use mediawriter::digest::sums::{Lookup, Sums};

const STICK: &str = "sim:16MiB,discard=no";
const OTHER: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A small image of that name; its path and its SHA-256.
fn image(dir: &Path, name: &str) -> (String, String) {
    let path = put(dir, name, &disk_image(2 << 20, 7));
    // sha256sum marks the line of an escaped name.
    let digest = sha256sum(&path).trim_start_matches('\\').to_owned();
    (path, digest)
}

fn listed(image: &str, more: &[&str]) -> Output {
    flash(image, STICK, more)
}

fn matched(output: Output) {
    let output = output.expect(0);
    assert_eq!(output.event("vouched")["by"], "list", "{}", output.text());
}

#[test]
fn b38_a_star_in_any_line_is_a_marker_or_part_of_a_name() {
    let dir = folder();
    let (path, digest) = image(dir.path(), "os.iso");
    let list = format!("{OTHER} *a\n{OTHER}  b\n{OTHER} *c\n{digest} *os.iso\n{OTHER}  d\n");
    put(dir.path(), "SHA256SUMS", list.as_bytes());
    matched(listed(&path, &[]));
    let dir = folder();
    let (path, digest) = image(dir.path(), "*os.iso");
    put(dir.path(), "SHA256SUMS", format!("{OTHER}  os.iso\n{digest}  *os.iso\n").as_bytes());
    matched(listed(&path, &[]));
}

#[test]
fn b39_line_ends_and_blanks_are_never_part_of_a_name() {
    let dir = folder();
    let (path, digest) = image(dir.path(), "os.iso");
    let upper = digest.to_uppercase();
    for list in [
        format!("{OTHER} a\r\n{digest} os.iso\r\n\r\n\r\n"),
        format!("{OTHER}\ta\n{upper}\tos.iso"),
    ] {
        put(dir.path(), "SHA256SUMS", list.as_bytes());
        matched(listed(&path, &[]));
    }
    put(dir.path(), "SHA256SUMS", format!("{OTHER}  a\r\u{1b}[31m.iso\r\n").as_bytes());
    let output = listed(&path, &[]).expect(0).says(&["no entry for os.iso"]);
    assert!(!output.text().contains('\u{1b}'));
}

#[test]
fn b41_escaped_names_are_found_and_a_missing_name_is_no_mismatch() {
    for name in ["back\\slash.iso", "new\nline.iso", "a name.iso"] {
        let dir = folder();
        let (path, _) = image(dir.path(), name);
        let list = sh(
            "sh",
            &["-c", "cd \"$1\" && sha256sum -- *.iso", "sh", dir.path().to_str().unwrap()],
        );
        put(dir.path(), "SHA256SUMS", format!("{}\n", list.trim_end()).as_bytes());
        matched(listed(&path, &[]));
    }
    let dir = folder();
    let (path, digest) = image(dir.path(), "back\\slash.iso");
    put(dir.path(), "SHA256SUMS", format!("{digest}  back\\\\slash.iso\n").as_bytes());
    listed(&path, &[]).expect(0).says(&["no entry for"]).never_says(&["mismatch"]);
}

#[test]
fn b43_a_list_is_asked_for_every_name_and_never_guesses() {
    let list = format!("{OTHER}  os-1.2.3.iso\n{}  os-1.2.2.iso\n", OTHER.replace('e', "a"));
    let sums = Sums::parse(list.as_bytes()).unwrap();
    assert!(matches!(sums.entry(&["latest.iso", "os-1.2.3.iso"]), Lookup::Found(_)));
    assert_eq!(sums.entry(&["os-1.2.2.iso", "os-1.2.3.iso"]), Lookup::Ambiguous);
    let only = Sums::parse(format!("{OTHER}  os-1.2.3.iso\n").as_bytes()).unwrap();
    assert_eq!(only.entry(&["latest.iso"]), Lookup::Absent(vec!["os-1.2.3.iso".to_owned()]));
    // A link is known under both names.
    let dir = folder();
    let (_, digest) = image(dir.path(), "os-1.2.3.iso");
    put(dir.path(), "SHA256SUMS", format!("{digest}  os-1.2.3.iso\n").as_bytes());
    let link = dir.path().join("latest.iso");
    std::os::unix::fs::symlink("os-1.2.3.iso", &link).unwrap();
    matched(listed(link.to_str().unwrap(), &[]));
}

#[test]
fn b44_a_bare_digest_is_taken_by_its_length_and_only_alone() {
    let dir = folder();
    let (path, digest) = image(dir.path(), "x.iso");
    let own = dir.path().join("x.iso.sha256");
    fs::write(&own, &digest).unwrap();
    matched(listed(&path, &[]));
    fs::write(&own, format!("{digest}\n{OTHER}\n")).unwrap();
    listed(&path, &[]).expect(4).says(&["several digests"]);
    fs::write(&own, "").unwrap();
    listed(&path, &[]).expect(4).says(&["no checksum"]);
    fs::remove_file(&own).unwrap();
    let long = sh("sha512sum", &[&path]);
    fs::write(dir.path().join("x.iso.sha512"), &long[..128]).unwrap();
    matched(listed(&path, &[]));
    fs::write(dir.path().join("x.iso.sha512"), OTHER.repeat(2)).unwrap();
    listed(&path, &[]).expect(4).says(&["not the published one"]);
}

#[test]
fn a_wrong_digest_in_a_list_leaves_the_stick_unbootable() {
    let dir = folder();
    let (path, _) = image(dir.path(), "os.iso");
    put(dir.path(), "SHA256SUMS", format!("{OTHER}  os.iso\n").as_bytes());
    listed(&path, &[]).expect(4).says(&["not the published one"]);
}

#[test]
fn a_signature_beside_a_list_is_checked_unasked_and_before_anything_is_written() {
    let Some(gpg) = Gpg::new() else { return };
    let dir = folder();
    let (path, digest) = image(dir.path(), "os.iso");
    let list = format!("{digest} *os.iso\n");
    let at = put(dir.path(), "SHA256SUMS", list.as_bytes());
    listed(&path, &["--require-signature"]).expect(4).says(&["no signature"]);
    let own = gpg.key("ed25519", &[]);
    let key = put(dir.path(), "key.gpg", &gpg.export(&own));
    put(dir.path(), "SHA256SUMS.gpg", &gpg.sign(list.as_bytes(), &own, &["--armor"]));
    let output = listed(&path, &["--keyring", &key, "--require-signature"]).expect(0);
    let voucher = output.event("vouched");
    assert_eq!(
        (&voucher["by"], &voucher["fingerprint"]),
        (&"signature".into(), &own.as_str().into())
    );
    // Not known: told, and fatal only when a signature is wanted.
    listed(&path, &[]).expect(0).says(&["list unsigned", &own]);
    listed(&path, &["--require-signature"]).expect(4).says(&["not known here"]);
    fs::write(at, format!("{list}\n")).unwrap();
    let output = listed(&path, &["--keyring", &key]).expect(4);
    assert!(output.all("phase_started").is_empty(), "{}", output.text());
}
