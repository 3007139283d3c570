//! Every answer file that can be asked for, against the order of passes, components and elements
//! that Microsoft documents (tests/lab/unattend.rng).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lab::{find, skip, target_folder};
use mediawriter::windows::unattend::{Arch, Options, PANTHER, ROOT, answers};

/// Characters with a meaning in XML.
const HOSTILE: &str = "'&<\"";
const NAMES: [&str; 5] =
    ["Ada", "O'Neil (home)", "exactly 20 character", "Zo\u{eb} \u{65e5}\u{672c}", "$`!{}~#-_"];

/// All combinations of options, each with one of the names.
fn combinations() -> Vec<Options> {
    (1..128_u32)
        .map(|bits| {
            let has = |bit: u32| bits & (1 << bit) != 0;
            let name = NAMES[usize::try_from(bits).unwrap() % NAMES.len()];
            let locale = ["de_AT.UTF-8", "en-US", "eo-XX"][usize::try_from(bits).unwrap() % 3];
            let zone = ["Europe/Vienna", "UTC", "America/Mexico_City"];
            let zone = zone[usize::try_from(bits).unwrap() % 3];
            Options {
                bypass_checks: has(0),
                account: has(1).then(|| name.to_owned()),
                no_online_account: has(2),
                no_data_collection: has(3),
                locale: has(4).then(|| locale.to_owned()),
                zone: has(5).then(|| zone.to_owned()),
                no_bitlocker: has(6),
            }
        })
        .collect()
}

/// What xmllint says of these files, and whether it is content with all of them.
fn schema(files: &[PathBuf]) -> (bool, String) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/unattend.rng");
    let run = Command::new(find("xmllint").unwrap())
        .args(["--noout", "--relaxng"])
        .arg(schema)
        .args(files)
        .output()
        .unwrap();
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}

fn has_xmllint() -> bool {
    let found = find("xmllint").is_some();
    if !found {
        skip("xmllint is not installed (tests/lab/packages.txt)");
    }
    found
}

#[test]
fn every_answer_file_keeps_to_the_documented_order() {
    if !has_xmllint() {
        return;
    }
    let dir = target_folder();
    let mut files = Vec::new();
    for arch in [Arch::Amd64, Arch::Arm64, Arch::X86] {
        for options in combinations() {
            let made = answers(&options, arch).unwrap().unwrap();
            // Setup carries no file without that pass over to the new system.
            let root = made.xml.contains("pass=\"windowsPE\"");
            assert_eq!(made.path, if root { ROOT } else { PANTHER }, "{options:?}");
            for (asked, words) in [
                (options.bypass_checks, "BypassTPMCheck"),
                (options.account.is_some(), "LocalAccount "),
                (options.no_online_account, "BypassNRO"),
                (options.no_data_collection, "ProtectYourPC>3<"),
                (options.locale.is_some(), "UserLocale"),
                (options.zone.is_some(), "TimeZone"),
                (options.no_bitlocker, "PreventDeviceEncryption>true<"),
            ] {
                assert_eq!(made.xml.contains(words), asked, "{words}: {options:?}");
            }
            let path = dir.path().join(format!("{}.xml", files.len()));
            fs::write(&path, made.xml).unwrap();
            files.push(path);
        }
    }
    assert_eq!(files.len(), 3 * 127);
    let (content, said) = schema(&files);
    assert!(content, "{said}");
    assert_eq!(said.matches(" validates").count(), files.len(), "{said}");
}

#[test]
fn the_schema_finds_what_is_out_of_order() {
    if !has_xmllint() {
        return;
    }
    let all = combinations().pop().unwrap();
    let good = answers(&all, Arch::Amd64).unwrap().unwrap().xml;
    let dir = target_folder();
    let path = dir.path().join("answers.xml");
    let is_good = |text: &str| {
        fs::write(&path, text).unwrap();
        schema(std::slice::from_ref(&path)).0
    };
    assert!(is_good(&good));
    let swapped = |one: &str, other: &str| {
        assert!(good.contains(one) && good.contains(other), "{one} {other}:\n{good}");
        good.replace(one, "\u{1}").replace(other, one).replace('\u{1}', other)
    };
    for (one, other) in [
        ("SystemLocale", "UserLocale"),
        ("<Group>Administrators</Group>", "<PlainText>true</PlainText>"),
        ("Microsoft-Windows-EnhancedStorage-Adm", "Microsoft-Windows-SecureStartup-FilterDriver"),
        ("pass=\"windowsPE\"", "pass=\"specialize\""),
        ("HideEULAPage", "ProtectYourPC"),
        ("<Order>1</Order>", "<Order>0</Order>x"),
    ] {
        let text =
            if good.contains(other) { swapped(one, other) } else { good.replace(one, other) };
        assert!(!is_good(&text), "{one} {other}");
    }
    for (word, instead) in [("amd64", "pdp11"), ("wcm:action=\"add\"", ""), ("neutral", "en-US")] {
        assert!(!is_good(&good.replace(word, instead)), "{word}");
    }
}

#[test]
fn names_that_windows_does_not_take_are_refused_and_hostile_ones_stay_text() {
    let with = |name: &str| {
        let options = Options { account: Some(name.to_owned()), ..Options::default() };
        answers(&options, Arch::Amd64)
    };
    for name in [
        HOSTILE,
        "a<b",
        "a>b",
        "a\"b",
        "a&b",
        "a/b",
        "a\\b",
        "a@b",
        "a%b",
        "a,b",
        "a;b",
        "a:b",
        "a|b",
        "a=b",
        "a+b",
        "a*b",
        "a?b",
        "[a",
        "a]",
        "a\nb",
        "a\u{202e}b",
        "NONE",
        "none",
        "None",
        "Administrator",
        "GUEST",
        "system",
        "con",
        "LPT1",
        "",
        " a",
        "a ",
        "...",
        "one character too many",
    ] {
        let refused = with(name);
        assert!(refused.is_err(), "{name:?}: {refused:?}");
    }
    // One unit of UTF-16 more than 20, in ten characters and a half.
    assert!(with(&"\u{1f4be}".repeat(10)).is_ok() && with(&"\u{1f4be}".repeat(11)).is_err());
    let made = with("O'Neil").unwrap().unwrap().xml;
    assert!(made.contains("<Name>O&apos;Neil</Name>"), "{made}");
    assert!(answers(&Options::default(), Arch::X86).unwrap().is_none());
}
