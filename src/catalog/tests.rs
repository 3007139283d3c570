//! What a catalogue may say.

use proptest::prelude::*;

use super::*;

const ENTRY: &str = "id = \"a-1.0\"\ntitle = \"A\"\narchitecture = \"x\"\nkind = \"raw\"\n";

fn with(more: &str) -> std::result::Result<Vec<Entry>, String> {
    parse(&format!("schema = 1\n[[image]]\n{ENTRY}{more}"))
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let folder = "folders = [\"https://a.org/b/\"]\n";
    let zeros = "0".repeat(64);
    assert!(with(&format!("{folder}file = \"a\"\nsha256 = \"{zeros}\"")).is_ok());
    assert!(with(&format!("{folder}pattern = \"a*\"\nlist = \"S\"")).is_ok());
    for bad in [
        String::new(),
        "colour = 1".to_owned(),
        "page = \"http://a.org/\"".to_owned(),
        "page = \"https://u@a.org/\"".to_owned(),
        folder.to_owned(),
        format!("{folder}file = \"../a\"\nlist = \"S\""),
        format!("{folder}file = \"a\"\npattern = \"a*\"\nlist = \"S\""),
        format!("{folder}file = \"a\"\nlist = \"S\"\nsha256 = \"{zeros}\""),
        format!("{folder}file = \"a\"\nlist = \"S\"\nkeys = [\"EFE21092\"]\nsignature = \"s\""),
        format!("{folder}file = \"a\"\nlist = \"S\"\nkeys = [\"{}\"]", "A".repeat(40)),
        format!("{folder}pattern = \"a*\"\nsha256 = \"{zeros}\""),
    ] {
        assert!(with(&bad).is_err(), "{bad}");
    }
    assert!(parse("schema = 2").is_err());
    assert!(
        with(&format!("page = \"https://a.org/\"\n[[image]]\n{ENTRY}page = \"https://a.org/\""))
            .is_err()
    );
    assert!(with("colour = 1").unwrap_err().starts_with("line "));
}

#[test]
fn addresses_are_escaped() {
    let entry =
        with("folders = [\"https://a.org/b/\"]\nfile = \"a b%.iso\"\nlist = \"S\"").unwrap();
    assert_eq!(entry[0].addresses("a b%.iso"), ["https://a.org/b/a%20b%25.iso"]);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), more in "[a-z =\\[\\]\"{}\\n]{0,60}") {
        parse(&String::from_utf8_lossy(&bytes)).ok();
        with(&more).ok();
    }
}
