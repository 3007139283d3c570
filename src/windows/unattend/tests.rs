//! Answer files, read back.

use proptest::prelude::*;

use super::*;

fn all() -> Options {
    Options {
        bypass_checks: true,
        account: Some("O'Neil Zo\u{eb}".to_owned()),
        no_online_account: true,
        no_data_collection: true,
        locale: Some("de_AT.UTF-8".to_owned()),
        zone: Some("Europe/Vienna".to_owned()),
        no_bitlocker: true,
    }
}

/// Texts of all leaves, as `pass component .. element=text`.
fn leaves(xml: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(xml).unwrap();
    let leaf = |node: &roxmltree::Node<'_, '_>| {
        node.is_element() && !node.children().any(|child| child.is_element())
    };
    document
        .descendants()
        .filter(leaf)
        .map(|node| format!("{}={}", node.tag_name().name(), node.text().unwrap_or_default()))
        .collect()
}

#[test]
fn every_option_is_in_the_file() {
    let got = answers(&all(), Arch::Amd64).unwrap().unwrap();
    assert_eq!(got.path, ROOT);
    let leaves = leaves(&got.xml);
    for want in [
        "AcceptEula=true",
        "Key=",
        "TCGSecurityActivationDisabled=1",
        "InputLocale=0c07:00000407",
        "UserLocale=de-AT",
        "PreventDeviceEncryption=true",
        "ProtectYourPC=3",
        "TimeZone=W. Europe Standard Time",
        "Name=O'Neil Zo\u{eb}",
        "CommandLine=net user \"O'Neil Zo\u{eb}\" /logonpasswordchg:yes",
    ] {
        assert!(leaves.iter().any(|leaf| leaf == want), "{want}: {leaves:#?}");
    }
    for want in ["BypassTPMCheck", "BypassSecureBootCheck", "BypassRAMCheck", "BypassNRO"] {
        assert!(leaves.iter().any(|leaf| leaf.starts_with("Path=") && leaf.contains(want)));
    }
    for never in ["DiskConfiguration", "WillWipeDisk", "diskpart", "AutoLogon"] {
        assert!(!got.xml.contains(never), "{never}");
    }
}

#[test]
fn children_are_in_the_order_of_the_reference() {
    let got = answers(&all(), Arch::Arm64).unwrap().unwrap();
    let document = roxmltree::Document::parse(&got.xml).unwrap();
    let passes: Vec<_> =
        document.root_element().children().filter_map(|node| node.attribute("pass")).collect();
    assert_eq!(passes, ["windowsPE", "specialize", "oobeSystem"]);
    for node in document.descendants().filter(roxmltree::Node::is_element).skip(1) {
        let names: Vec<_> = node
            .children()
            .filter(roxmltree::Node::is_element)
            .map(|child| child.attribute("name").unwrap_or(child.tag_name().name()))
            .collect();
        match node.tag_name().name() {
            // The two that the reference's examples have in another order than the alphabet's.
            "LocalAccount" => assert_eq!(names, ["Password", "DisplayName", "Group", "Name"]),
            "Password" => assert_eq!(names, ["Value", "PlainText"]),
            _ => assert!(names.is_sorted(), "{names:?}"),
        }
    }
    assert!(got.xml.contains("processorArchitecture=\"arm64\""));
}

#[test]
fn only_what_is_asked_for_and_where_setup_finds_it() {
    assert_eq!(answers(&Options::default(), Arch::X86).unwrap(), None);
    let zone = Options { zone: Some("UTC".to_owned()), ..Options::default() };
    let got = answers(&zone, Arch::X86).unwrap().unwrap();
    assert_eq!((got.path, leaves(&got.xml)), (PANTHER, vec!["TimeZone=UTC".to_owned()]));
    let checks = Options { bypass_checks: true, ..Options::default() };
    let got = answers(&checks, Arch::X86).unwrap().unwrap();
    assert_eq!(got.path, ROOT);
    assert!(!got.xml.contains("oobeSystem"));
}

#[test]
fn accounts_that_windows_would_refuse_are_refused() {
    for name in [
        "",
        " a",
        "a ",
        "a/b",
        "a\"b",
        "a&b",
        "%PATH%",
        "a\u{1b}",
        "Administrator",
        "GUEST",
        "System",
        "twenty-one characters",
        "a\u{202e}b",
        "a.",
    ] {
        let options = Options { account: Some(name.to_owned()), ..Options::default() };
        let e = answers(&options, Arch::Amd64).unwrap_err();
        assert_eq!(e.kind().exit_code(), 2, "{name}");
        assert!(!e.to_string().contains('\u{1b}'));
    }
    for name in ["Anna", "Zo\u{eb} K", "\u{65e5}\u{672c}", "<x>"] {
        let options = Options { account: Some(name.to_owned()), ..Options::default() };
        assert_eq!(answers(&options, Arch::Amd64).is_ok(), name != "<x>", "{name}");
    }
}

#[test]
fn locales_and_zones_have_windows_names() {
    for (text, want) in [
        ("de_DE.UTF-8", Some("de-DE")),
        ("EN-us", Some("en-US")),
        ("ca_ES@valencia", Some("ca-ES")),
        ("C", None),
        ("C.UTF-8", None),
        ("POSIX", None),
        ("de_<x>", None),
    ] {
        assert_eq!(locale_of(text).as_deref(), want, "{text}");
    }
    assert_eq!(windows_zone("Europe/Berlin"), Some("W. Europe Standard Time"));
    assert_eq!(windows_zone("tokyo standard time"), Some("Tokyo Standard Time"));
    assert_eq!(windows_zone("Mars/Olympus"), None);
    assert_eq!(zone_of("/usr/share/zoneinfo/Asia/Tokyo"), Some("Asia/Tokyo"));
    assert_eq!(region::keyboard("ja-JP"), "ja-JP");
    for (field, value) in [("locale", "C"), ("zone", "Mars/Olympus")] {
        let mut options = Options::default();
        match field {
            "locale" => options.locale = Some(value.to_owned()),
            _ => options.zone = Some(value.to_owned()),
        }
        assert!(answers(&options, Arch::Amd64).is_err(), "{field}");
    }
}

proptest! {
    #[test]
    fn what_is_accepted_is_well_formed(name in "\\PC{0,24}") {
        let options = Options { account: Some(name.clone()), ..Options::default() };
        if let Ok(Some(got)) = answers(&options, Arch::Amd64) {
            let want = format!("Name={name}");
            prop_assert!(leaves(&got.xml).contains(&want));
        }
    }
}
