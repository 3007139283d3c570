//! Texts of notices, to the letter: scripts read them. And that none is without a sample.

use std::collections::BTreeSet;

use super::samples::samples;
use crate::event::{Event, Events};

#[test]
fn notices_have_the_texts_that_scripts_read() {
    for (notice, text) in samples() {
        assert_eq!(notice.to_string(), text);
    }
}

#[test]
fn every_notice_has_a_sample() {
    let source = include_str!("../notice.rs");
    let body = source.split("pub enum Notice {\n").nth(1).unwrap().split("\n}\n").next().unwrap();
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let name = |text: &str| text.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_owned();
    let names: BTreeSet<String> = names.map(name).collect();
    let sampled = samples().iter().map(|(notice, _)| name(&format!("{notice:?}"))).collect();
    assert_eq!(names, sampled);
    assert!(names.contains("NoParts") && names.contains("ZerosNotSent"));
}

#[test]
fn a_notice_is_told_as_a_note_or_as_a_warning() {
    let (events, told) = Events::channel();
    for (notice, text) in samples() {
        events.tell(notice.clone());
        let (code, message) = (notice.code().to_owned(), text.to_owned());
        let expected = if notice.is_warning() {
            Event::Warning { code, message }
        } else {
            Event::Note { code, message }
        };
        assert_eq!(told.recv().unwrap(), expected);
    }
}
