//! Any reply to any request: nothing is taken that does not lie where the request needs it, and
//! nothing is appended to what is of another version as far as the reply tells.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use mediawriter::source::http::judge::{Asked, Head, Judgement, Validator, judge};

/// Small ones meet each other often, large ones overflow.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    Any(u64),
    FromEnd(u8),
}

impl Number {
    fn value(self) -> u64 {
        match self {
            Self::Small(number) => number.into(),
            Self::Any(number) => number,
            Self::FromEnd(number) => u64::MAX - u64::from(number),
        }
    }
}

/// A `Content-Range`: near to the grammar, or anything.
#[derive(Arbitrary, Debug)]
enum Range {
    Part { first: Number, last: Number, total: Option<Number> },
    Unsatisfied { total: Number },
    Text(String),
}

/// A validator's text out of few, so that two are often the same.
#[derive(Arbitrary, Debug)]
enum Version {
    Tag(bool),
    Weak(bool),
    Text(String),
}

#[derive(Arbitrary, Debug)]
enum Status {
    Whole,
    Part,
    Unsatisfiable,
    Any(u16),
}

#[derive(Arbitrary, Debug)]
struct Input {
    offset: Number,
    total: Option<Number>,
    tag: Option<Version>,
    date: Option<bool>,
    status: Status,
    length: Option<Result<Number, String>>,
    range: Option<Range>,
    content_type: Option<String>,
    new_tag: Option<Version>,
    new_date: Option<bool>,
    retry_after: Option<Result<Number, String>>,
    coding: Option<String>,
    chunked: bool,
    elsewhere: bool,
    proven: bool,
}

fn tag(version: Version) -> String {
    match version {
        Version::Tag(which) => format!("\"{which}\""),
        Version::Weak(which) => format!("W/\"{which}\""),
        Version::Text(text) => text,
    }
}

fn date(which: bool) -> String {
    format!("Tue, 0{} Dec 2026 00:00:00 GMT", 1 + u8::from(which))
}

fn number(field: Result<Number, String>) -> String {
    field.map_or_else(|text| text, |number| number.value().to_string())
}

fn range(range: Range) -> String {
    match range {
        Range::Part { first, last, total } => {
            let total = total.map_or_else(|| "*".to_owned(), |total| total.value().to_string());
            format!("bytes {}-{}/{total}", first.value(), last.value())
        }
        Range::Unsatisfied { total } => format!("bytes */{}", total.value()),
        Range::Text(text) => text,
    }
}

/// A reply of this address, long after what it sends was changed.
fn sent(by: &str) -> Head {
    let date = Some("Thu, 10 Dec 2026 00:00:00 GMT".to_owned());
    Head { by: by.to_owned(), date, ..Head::default() }
}

/// The pair as a transfer makes it: the validator is one that an earlier reply gave, and what is
/// there is not longer than the file.
fn pair(input: Input) -> Option<(Asked, Head)> {
    let before =
        Head { etag: input.tag.map(tag), last_modified: input.date.map(date), ..sent("a") };
    let offset = input.offset.value();
    let asked = Asked {
        offset,
        ranged: offset > 0,
        joins: offset > 0,
        total: input.total.map(Number::value),
        version: before.version(),
        proven: input.proven,
        names: Vec::new(),
    };
    let head = Head {
        status: match input.status {
            Status::Whole => 200,
            Status::Part => 206,
            Status::Unsatisfiable => 416,
            Status::Any(status) => status,
        },
        content_length: input.length.map(number),
        content_range: input.range.map(range),
        content_type: input.content_type,
        etag: input.new_tag.map(tag),
        last_modified: input.new_date.map(date),
        retry_after: input.retry_after.map(number),
        content_encoding: input.coding,
        transfer_encoding: input.chunked.then(|| "chunked".to_owned()),
        ..sent(if input.elsewhere { "b" } else { "a" })
    };
    let sound = asked.total.is_none_or(|total| asked.offset <= total);
    sound.then_some((asked, head))
}

fn taken(asked: &Asked, head: &Head, skip: u64, total: Option<u64>, body: Option<u64>) {
    assert!(matches!(head.status, 200 | 206));
    let start = asked.offset.checked_sub(skip).expect("the body begins before the file");
    if let Some(body) = body {
        assert!(skip <= body, "the body ends before what is missing");
        let end = start.checked_add(body).expect("the body ends behind every file");
        assert!(total.is_none_or(|total| end <= total), "the body ends behind the file");
    }
    if head.status == 200 {
        assert_eq!(start, 0, "a whole file begins at its beginning");
    }
    if asked.offset == 0 {
        return;
    }
    if let (Some(old), Some(new)) = (asked.total, total) {
        assert_eq!(old, new, "a file of another length");
    }
    // Only the same strong validator of the same address tells that it is the same file (RFC 9110, 13.1.5);
    // else a digest will.
    let same = asked.version.as_ref().filter(|old| old.by == head.by).is_some_and(|old| {
        match &old.validator {
            Validator::Tag(old) => head.etag.as_ref().is_some_and(|new| new.trim() == old),
            Validator::Date(old) => {
                head.last_modified.as_ref().is_some_and(|new| new.trim() == old)
            }
        }
    });
    assert!(same || asked.proven, "a file that may be another one");
}

fuzz_target!(|input: Input| {
    let Some((asked, head)) = pair(input) else { return };
    match judge(&asked, &head) {
        Judgement::Take { skip, total, body, .. } => taken(&asked, &head, skip, total, body),
        Judgement::Complete => {
            assert_eq!(head.status, 416);
            assert!(asked.offset > 0);
            assert!(asked.total.is_none_or(|total| total == asked.offset));
        }
        Judgement::Changed { .. } => assert!(asked.offset > 0, "nothing is there to be of another"),
        Judgement::Unproven { .. } => assert!(asked.offset > 0 && !asked.proven),
        Judgement::NoPart { why } => assert!(asked.ranged && !why.is_empty()),
        Judgement::Later { after, .. } => assert!(after.is_none_or(|wait| wait.as_secs() <= 300)),
        Judgement::No { why, hint } => assert!(!why.is_empty() && !hint.is_empty()),
    }
});
