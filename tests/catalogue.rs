//! `isos.toml` as it ships: it parses, says nothing that its own description does not know, and
//! names only addresses that cannot be changed on the way.

#![expect(clippy::unwrap_used, reason = "a test stops where it stands")]

use std::collections::BTreeSet;

use toml::{Table, Value};

const CATALOGUE: &str = include_str!("../isos.toml");
const KEYS: [&str; 8] = ["id", "name", "arch", "folder", "file", "checksums", "signature", "keys"];

fn images() -> Vec<Table> {
    let catalogue: Table = CATALOGUE.parse().unwrap();
    let top: Vec<_> = catalogue.keys().map(String::as_str).collect();
    assert_eq!(top, ["image", "schema"]);
    assert_eq!(catalogue["schema"], Value::Integer(1));
    let images = catalogue["image"].as_array().unwrap();
    assert!(!images.is_empty());
    images.iter().map(|image| image.as_table().unwrap().clone()).collect()
}

fn text<'a>(image: &'a Table, key: &str) -> &'a str {
    let value = image[key].as_str().unwrap();
    assert!(!value.is_empty() && value.trim() == value, "{key}: '{value}'");
    value
}

#[test]
fn every_image_has_all_keys_of_the_description_and_no_other() {
    let description: Vec<_> = CATALOGUE.lines().take_while(|line| line.starts_with('#')).collect();
    for key in KEYS {
        let described = |line: &&str| line.starts_with(&format!("#   {key} "));
        assert!(description.iter().any(described), "{key} is not described");
    }
    for image in images() {
        let keys: BTreeSet<_> = image.keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(KEYS));
    }
}

#[test]
fn ids_are_unique_and_can_be_typed() {
    let mut seen = BTreeSet::new();
    for image in images() {
        let id = text(&image, "id").to_owned();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        assert!(id.chars().all(plain), "{id}");
        assert!(seen.insert(id.clone()), "{id} is there twice");
    }
}

#[test]
fn images_come_over_https_with_a_signed_list_of_digests() {
    for image in images() {
        let id = text(&image, "id");
        let folder = text(&image, "folder");
        assert!(folder.starts_with("https://") && folder.ends_with('/'), "{id}: {folder}");
        assert!(!folder.contains(['@', '?', '#', ' ', '*']), "{id}: {folder}");
        for key in ["file", "checksums", "signature"] {
            let name = text(&image, key);
            assert!(!name.contains('/') && !name.starts_with('.'), "{id}: {name}");
        }
        assert_ne!(text(&image, "checksums"), text(&image, "signature"), "{id}");
        let keys = image["keys"].as_array().unwrap();
        assert!(!keys.is_empty(), "{id} has no key");
        for key in keys {
            let key = key.as_str().unwrap();
            let hex = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
            assert!(key.len() == 40 && key.chars().all(hex), "{id}: {key} is no full fingerprint");
        }
        text(&image, "name");
        text(&image, "arch");
    }
}
