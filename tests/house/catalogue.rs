//! `isos.toml` as it ships: it is read, its head describes every key, each key that it names is in
//! the program, and what is looked for is found in lists of the publishers' makes.

use mediawriter::catalog::{Entry, Kind, Plan, SHIPPED, merge, parse, resolve};
use mediawriter::digest::sums::Sums;
use mediawriter::proof::Keyring;

fn images() -> Vec<Entry> {
    parse(SHIPPED).unwrap()
}

fn image(id: &str) -> Entry {
    images().into_iter().find(|entry| entry.id == id).unwrap()
}

fn list(names: &[&str]) -> Sums {
    let lines = names.iter().enumerate().map(|(n, name)| format!("{n:064x} *{name}\n"));
    Sums::parse(lines.collect::<String>().as_bytes()).unwrap()
}

#[test]
fn every_key_of_an_entry_is_described_in_the_head() {
    let head: Vec<_> = SHIPPED.lines().take_while(|line| line.starts_with('#')).collect();
    let keys = serde_json::to_value(&images()[0]).unwrap();
    for key in keys.as_object().unwrap().keys() {
        assert!(head.iter().any(|line| line.starts_with(&format!("#   {key} "))), "{key}");
    }
}

#[test]
fn every_key_that_must_sign_is_in_the_program() {
    let known: Vec<String> = Keyring::shipped().unwrap().fingerprints().collect();
    for entry in images() {
        for key in &entry.keys {
            assert!(known.contains(key), "{}: {key}", entry.id);
        }
    }
}

#[test]
fn an_entry_has_a_list_or_a_page() {
    for entry in images() {
        match entry.plan() {
            Plan::List { list, signature } => {
                assert!(list[0].starts_with("https://"), "{}", entry.id);
                assert_eq!(signature.is_some(), entry.signature.is_some(), "{}", entry.id);
            }
            Plan::Page(page) => assert!(page.starts_with("https://"), "{}", entry.id),
            Plan::File(_) => panic!("{}: a digest in the catalogue goes stale", entry.id),
        }
    }
    assert!(images().iter().any(|entry| entry.kind == Kind::Windows));
}

#[test]
fn the_newest_release_is_found_and_no_other_image() {
    let ubuntu = list(&[
        "ubuntu-24.04.2-desktop-amd64.iso",
        "ubuntu-24.04.10-desktop-amd64.iso",
        "ubuntu-24.04.3-desktop-amd64.iso",
        "ubuntu-24.04-beta-desktop-amd64.iso",
        "ubuntu-24.04.99-rc-desktop-amd64.iso",
        "ubuntu-24.04.11-live-server-amd64.iso",
    ]);
    let found = |id: &str, sums: &Sums| resolve::resolve(&image(id), sums).map(|found| found.0);
    assert_eq!(
        found("ubuntu-24.04-desktop", &ubuntu).unwrap(),
        "ubuntu-24.04.10-desktop-amd64.iso"
    );
    assert!(found("ubuntu-22.04-desktop", &ubuntu).unwrap_err().contains("no entry"));
    let beta = list(&["ubuntu-24.04-beta-desktop-amd64.iso"]);
    assert!(found("ubuntu-24.04-desktop", &beta).is_err());
    let debian = list(&["debian-13.1.0-amd64-netinst.iso", "debian-edu-13.2.0-amd64-netinst.iso"]);
    assert_eq!(found("debian-netinst-amd64", &debian).unwrap(), "debian-13.1.0-amd64-netinst.iso");
    let arch = list(&["archlinux-2026.01.01-x86_64.iso", "archlinux-x86_64.iso"]);
    assert_eq!(found("archlinux", &arch).unwrap(), "archlinux-2026.01.01-x86_64.iso");
}

#[test]
fn a_list_cannot_name_a_file_elsewhere() {
    let mut entry = image("archlinux");
    entry.pattern = Some("*".to_owned());
    assert!(resolve::resolve(&entry, &list(&["../../etc/passwd"])).is_err());
}

#[test]
fn a_users_own_entry_replaces_the_shipped_one() {
    let own = "schema = 1\n[[image]]\nid = \"archlinux\"\ntitle = \"Mine\"\narchitecture = \"x\"\n\
               kind = \"raw\"\npage = \"https://example.org/\"\n";
    let all = merge([images(), parse(own).unwrap()]);
    assert_eq!(all.len(), images().len());
    assert!(all.iter().any(|entry| entry.id == "archlinux" && entry.title == "Mine"));
}
