//! What proves a download: lists beside an address, images of a catalogue, their signatures.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::gpg::Gpg;
use crate::lab::target_folder;
use crate::lab::{
    MIB, Output, command, disk_image, find, finish, folder, noise, put, sha256sum, skip,
};
use crate::server::{Reply, Server};
use crate::tls::{self, certificates, https};

fn run(home: &Path, args: &[&str]) -> Output {
    let mut command = command(home);
    command.args(args);
    command.env("SSL_CERT_FILE", home.join("ca.pem"));
    finish(command)
}

#[test]
fn b43_the_name_behind_a_redirect_is_looked_up_in_the_list_too() {
    let Some(gpg) = Gpg::new() else { return };
    let key = gpg.key("ed25519", &[]);
    let home = folder();
    put(home.path(), "key.gpg", &gpg.export(&key));
    let image = Arc::new(disk_image(2 * MIB, 43));
    let digest = sha256sum(&put(home.path(), "x", &image));
    let list = format!("{}  os-1.2.2.iso\n{digest}  os-1.2.3.iso\n", "11".repeat(32));
    let signature = Arc::new(gpg.sign(list.as_bytes(), &key, &[]));
    let list = Arc::new(list.into_bytes());
    let serve = |list: &Arc<Vec<u8>>| {
        let (image, list, signature) = (image.clone(), list.clone(), signature.clone());
        Server::with_lists(move |request| match request.path.as_str() {
            "/latest.iso" => Reply::status(302).with("Location", "/v/os-1.2.3.iso"),
            "/v/os-1.2.3.iso" => Reply::whole(&image),
            "/v/SHA256SUMS" => Reply::whole(&list),
            "/v/SHA256SUMS.gpg" => Reply::whole(&signature),
            _ => Reply::status(404),
        })
    };
    let server = serve(&list);
    let url = server.url("/latest.iso");
    let signed = ["SHA256SUMS", "signed by", key.as_str()];
    for args in [&["download", &url, "-o", "a.iso"][..], &["flash", &url, "sim:4MiB"]] {
        let output = run(home.path(), &[args, &["--keyring", "key.gpg", "--json"]].concat());
        assert_eq!(output.event("vouched")["by"], "signature", "{output}");
        output.expect(0).says(&signed);
    }
    assert!(fs::read(home.path().join("a.iso")).unwrap() == **image);
    // Without the key it is a list like any other, unless a signature is demanded.
    let output = run(home.path(), &["flash", &url, "sim:4MiB", "--json"]).expect(0);
    assert_eq!(output.event("vouched")["by"], "list");
    run(home.path(), &["flash", &url, "sim:4MiB", "--require-signature"]).expect(4);
    // One changed byte of the list: nothing is begun.
    let mut changed = list.to_vec();
    changed[3] ^= 1;
    let server = serve(&Arc::new(changed));
    let url = server.url("/latest.iso");
    let dir = target_folder();
    let stick = put(dir.path(), "stick", &noise(4 * MIB, 1));
    let before = sha256sum(&stick);
    let args = ["flash", &url, &stick, "--yes", "--keyring", "key.gpg"];
    run(home.path(), &args).expect(4).says(&["does not fit"]);
    assert_eq!(sha256sum(&stick), before);
    // A list without the name says so; it is no mismatch.
    let server = serve(&Arc::new(format!("{}  other.iso\n", "11".repeat(32)).into_bytes()));
    let url = server.url("/latest.iso");
    run(home.path(), &["flash", &url, "sim:4MiB"]).expect(0).says(&["has no entry for"]);
}

#[test]
fn a_list_of_another_place_is_used_when_it_is_named() {
    let home = folder();
    let image = Arc::new(disk_image(MIB, 44));
    let digest = sha256sum(&put(home.path(), "x", &image));
    let list = Arc::new(format!("{digest} *x.iso\n").into_bytes());
    let server = Server::with_lists(move |request| match request.path.as_str() {
        "/a/x.iso" => Reply::whole(&image),
        "/b/sums" => Reply::whole(&list),
        _ => Reply::status(404),
    });
    let (url, sums) = (server.url("/a/x.iso"), server.url("/b/sums"));
    let args = ["download", &url, "-o", "x.iso", "--checksums", &sums];
    run(home.path(), &args).expect(0).says(&["it matches what was published", "list unsigned"]);
    // A server that has a signature and does not give it is another thing than one without.
    let (image, list) =
        (disk_image(MIB, 44).into(), format!("{digest}  x.iso\n").into_bytes().into());
    let (image, list): (Arc<Vec<u8>>, Arc<Vec<u8>>) = (image, list);
    let broken = Server::with_lists(move |request| match request.path.as_str() {
        "/x.iso" => Reply::whole(&image),
        "/SHA256SUMS" => Reply::whole(&list),
        path if path.starts_with("/SHA256SUMS.") => Reply::status(503),
        _ => Reply::status(404),
    });
    let address = broken.url("/x.iso");
    let told = run(home.path(), &["download", &address, "-o", "z.iso"]).expect(0);
    told.says(&["no signature could be looked for", "503", "list unsigned"]);
    let wrong = put(home.path(), "wrong", format!("{}  x.iso\n", "22".repeat(32)).as_bytes());
    let args = ["download", &url, "-o", "y.iso", "--checksums", &wrong];
    run(home.path(), &args).expect(4).says(&["is not the published one"]);
    assert!(!home.path().join("y.iso").exists());
}

/// A catalogue with one image on a server with TLS, signed by a key of the test.
struct Shop {
    home: tempfile::TempDir,
    digest: String,
    _server: tls::Other,
}

/// As s_server -HTTP sends it: with its head.
fn file(home: &Path, name: &str, body: &[u8]) {
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    put(home, name, &[head.as_bytes(), body].concat());
}

fn shop(gpg: &Gpg) -> Option<Shop> {
    if find("openssl").is_none() {
        skip("openssl is not installed");
        return None;
    }
    let key = gpg.key("ed25519", &[]);
    let home = folder();
    certificates(home.path());
    put(home.path(), "key.gpg", &gpg.export(&key));
    let image = disk_image(2 * MIB, 45);
    let digest = sha256sum(&put(home.path(), "plain", &image));
    file(home.path(), "os-24.04.3.img", &image);
    let list = format!("{}  os-24.04.2.img\n{digest}  os-24.04.3.img\n", "33".repeat(32));
    file(home.path(), "SHA256SUMS", list.as_bytes());
    file(home.path(), "SHA256SUMS.gpg", &gpg.sign(list.as_bytes(), &key, &[]));
    let server = https(home.path(), "good");
    let catalogue = format!(
        "schema = 1\n[[image]]\nid = \"os-lts\"\ntitle = \"OS\"\narchitecture = \"amd64\"\nkind = \"raw\"\n\
         folders = [\"https://127.0.0.1:{}/\"]\npattern = \"os-*.img\"\nlist = \"SHA256SUMS\"\n\
         signature = \"SHA256SUMS.gpg\"\nkeys = [\"{key}\"]\n",
        server.port
    );
    put(home.path(), "isos.toml", catalogue.as_bytes());
    Some(Shop { home, digest, _server: server })
}

#[test]
fn an_image_of_the_catalogue_is_found_proven_written_and_verified() {
    let Some(gpg) = Gpg::new() else { return };
    let Some(shop) = shop(&gpg) else { return };
    let home = shop.home.path();
    let with = ["--catalogue", "isos.toml", "--keyring", "key.gpg"];
    let flash = [&["flash", "os-lts", "sim:4MiB", "--json"][..], &with].concat();
    let output = run(home, &flash).expect(0);
    assert_eq!(output.event("vouched")["by"], "signature");
    assert_eq!(output.event("source_read")["sha256"], shop.digest.as_str());
    // Downloaded once, it comes from the cache, and is hashed again.
    run(home, &[&["download", "os-lts"][..], &with].concat()).expect(0).says(&["signed by"]);
    fs::remove_file(home.join("os-24.04.3.img")).unwrap();
    run(home, &flash).expect(0).says(&["(cache)", "signed by"]);
    // A digest of the person that is another one.
    let other = "44".repeat(32);
    run(home, &[&flash[..], &["--sha256", &other]].concat()).expect(4).says(&[&other[..4]]);
    run(home, &["flash", "no-such-image", "sim:4MiB"]).expect(1).says(&["mediawriter images"]);
    let meant = ["did you mean ubuntu-24.04-desktop"];
    for command in [
        &["flash", "ubuntu-24.04-dekstop", "sim:4MiB"][..],
        &["download", "ubuntu-24.04-dekstop"],
        &["images", "show", "ubuntu-24.04-dekstop"],
    ] {
        let output = run(home, command);
        assert!([1, 2].contains(&output.code), "{output}");
        output.says(&meant);
    }
}

#[test]
fn nothing_is_begun_when_the_list_of_the_catalogue_is_not_proven() {
    let Some(gpg) = Gpg::new() else { return };
    let Some(shop) = shop(&gpg) else { return };
    let home = shop.home.path();
    let dir = target_folder();
    let stick = put(dir.path(), "stick", &noise(4 * MIB, 1));
    let before = sha256sum(&stick);
    let flash = ["flash", "os-lts", &stick, "--yes", "--catalogue", "isos.toml"];
    // The key is not there; another key made the signature; one byte is another.
    run(home, &flash).expect(4).says(&["key"]);
    let with_key = [&flash[..], &["--keyring", "key.gpg"]].concat();
    let list = format!("{}  os-24.04.3.img\n", shop.digest);
    let stranger = gpg.key("ed25519", &[]);
    put(
        home,
        "key.gpg",
        &[fs::read(home.join("key.gpg")).unwrap(), gpg.export(&stranger)].concat(),
    );
    file(home, "SHA256SUMS", list.as_bytes());
    run(home, &with_key).expect(4).says(&["does not fit"]);
    file(home, "SHA256SUMS.gpg", &gpg.sign(list.as_bytes(), &stranger, &[]));
    run(home, &with_key).expect(4).says(&["does not sign"]);
    file(home, "SHA256SUMS.gpg", b"");
    run(home, &with_key).expect(4);
    assert_eq!(sha256sum(&stick), before, "the stick was never touched");
}

#[test]
fn what_has_no_lasting_address_names_the_page_to_get_it_from() {
    let home = folder();
    let output = run(home.path(), &["flash", "windows-11", "sim:64MiB"]).expect(3);
    output.says(&["https://www.microsoft.com/", "mediawriter flash FILE TARGET"]);
}
