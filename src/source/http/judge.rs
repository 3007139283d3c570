//! What a reply of a web server is worth: pure, over the head of the reply and what was asked.
//! Servers ignore `Range`, answer it with another range, or with another file; each of that has
//! ended in images that were put together wrongly.
//!
//! Sources: RFC 9110 (HTTP semantics), sections 8.8 (validators), 13.1.5 (If-Range), 14.4
//! (Content-Range), 15 (status codes); RFC 9111 has no part in it, nothing is cached here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What tells one version of a file from another: a strong entity tag, else the date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validator {
    /// A strong entity tag, quotes included. Weak ones cannot be used with ranges.
    Tag(String),
    /// `Last-Modified` as it was sent.
    Date(String),
}

impl Validator {
    /// The value of an `If-Range` field.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tag(text) | Self::Date(text) => text,
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// First byte that is still missing; 0 = the whole file, without `Range`.
    pub offset: u64,
    /// Length of the file, when an earlier reply told it.
    pub total: Option<u64>,
    /// Which version of the file the bytes so far belong to.
    pub validator: Option<Validator>,
}

/// The head of a reply: the fields that matter, as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// `Content-Length`.
    pub content_length: Option<String>,
    /// `Content-Range`.
    pub content_range: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
    /// `Retry-After`.
    pub retry_after: Option<String>,
}

/// What to do with a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The body begins `skip` bytes before the first byte that is missing.
    Take {
        /// Bytes of the body to leave out.
        skip: u64,
        /// Length of the whole file, when it is known.
        total: Option<u64>,
        /// Bytes of the body, when they are known.
        body: Option<u64>,
        /// Which version of the file this is.
        validator: Option<Validator>,
    },
    /// Every byte is there already.
    Complete,
    /// The file on the server is another one by now: what is there does not belong to it.
    Changed {
        /// In which respect.
        why: String,
    },
    /// The server may do better in a moment.
    Later {
        /// What it said.
        why: String,
        /// How long it wants to be left alone.
        after: Option<Duration>,
    },
    /// This address will not do.
    No {
        /// What it said.
        why: String,
        /// What to do about it.
        hint: &'static str,
    },
}

/// Longer waits than this are not waited for.
const PATIENCE: u64 = 300;

/// Judges the head of a reply.
pub fn judge(asked: &Asked, head: &Head) -> Judgement {
    match head.status {
        200 => whole(asked, head),
        206 => part(asked, head),
        416 => unsatisfiable(asked, head),
        408 | 425 | 429 | 500 | 502 | 503 | 504 => {
            Judgement::Later { why: status(head), after: retry_after(head) }
        }
        401 | 407 => no(head, "it wants a password; download the image with a browser"),
        403 | 410 if asked.offset > 0 => no(
            head,
            "the link has probably expired: get a new one and run the same command with it; what was downloaded is kept",
        ),
        403 | 410 => no(head, "the link has probably expired, or is not for you: get a new one"),
        404 => no(head, "check the address: the file is not there, or no longer there"),
        300..=399 => no(head, "it leads nowhere; try the address in a browser"),
        _ => no(head, "try the address in a browser"),
    }
}

fn status(head: &Head) -> String {
    let words = match head.status {
        401 => " Unauthorized",
        403 => " Forbidden",
        404 => " Not Found",
        408 => " Request Timeout",
        410 => " Gone",
        429 => " Too Many Requests",
        500 => " Internal Server Error",
        502 => " Bad Gateway",
        503 => " Service Unavailable",
        504 => " Gateway Timeout",
        _ => "",
    };
    format!("the server answered {}{words}", head.status)
}

fn no(head: &Head, hint: &'static str) -> Judgement {
    Judgement::No { why: status(head), hint }
}

fn retry_after(head: &Head) -> Option<Duration> {
    // Dates are allowed too (RFC 9110, 10.2.3); servers of files send seconds.
    let seconds = head.retry_after.as_ref()?.trim().parse().ok()?;
    (seconds <= PATIENCE).then(|| Duration::from_secs(seconds))
}

/// Which version of the file a reply is of.
pub fn validator(head: &Head) -> Option<Validator> {
    let tag = head.etag.as_deref().map(str::trim);
    let strong = tag.filter(|tag| tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"'));
    strong.map(|tag| Validator::Tag(tag.to_owned())).or_else(|| {
        head.last_modified.as_deref().map(|date| Validator::Date(date.trim().to_owned()))
    })
}

/// Whether a reply is of another version than the one that was begun, as far as can be told.
fn other_version(asked: &Asked, head: &Head, total: Option<u64>) -> Option<String> {
    if let (Some(old), Some(new)) = (asked.total, total)
        && old != new
    {
        return Some(format!("its length was {old} bytes and is {new} now"));
    }
    let differs = match &asked.validator {
        Some(Validator::Tag(tag)) => head.etag.as_ref().is_some_and(|new| new.trim() != tag),
        Some(Validator::Date(date)) => {
            head.last_modified.as_ref().is_some_and(|new| new.trim() != date)
        }
        None => false,
    };
    differs.then(|| "the server says that it was changed meanwhile".to_owned())
}

fn length(head: &Head) -> Option<u64> {
    head.content_length.as_ref()?.trim().parse().ok()
}

/// 200: the whole file, also when a part was asked for.
fn whole(asked: &Asked, head: &Head) -> Judgement {
    let total = length(head);
    if asked.offset > 0 {
        if let Some(why) = other_version(asked, head, total) {
            return Judgement::Changed { why };
        }
        // Without a word on its version the bytes before the offset may be other ones by now; a
        // date says nothing about what was known by its tag, nor the other way round.
        let told = match &asked.validator {
            Some(Validator::Tag(_)) => head.etag.is_some(),
            Some(Validator::Date(_)) => head.last_modified.is_some(),
            None => true,
        };
        if !told {
            return Judgement::Changed {
                why: "the server sends the whole file again and does not say which version".into(),
            };
        }
        if total.is_some_and(|total| total < asked.offset) {
            return Judgement::Changed { why: "it is shorter now than what is there".into() };
        }
    }
    Judgement::Take { skip: asked.offset, total, body: total, validator: validator(head) }
}

/// 206: a part. Only what its `Content-Range` says counts.
fn part(asked: &Asked, head: &Head) -> Judgement {
    let nonsense = |why: &str| Judgement::Later { why: why.to_owned(), after: None };
    if asked.offset == 0 {
        return nonsense("the server sent a part of the file where the whole was asked for");
    }
    if head.content_type.as_ref().is_some_and(|t| t.trim_start().starts_with("multipart/")) {
        return nonsense("the server sent several parts where one was asked for");
    }
    let Some(range) = head.content_range.as_deref().and_then(content_range) else {
        return nonsense("the server sent a part and does not say which");
    };
    if let Some(why) = other_version(asked, head, range.total) {
        return Judgement::Changed { why };
    }
    // With `*` for its length the last byte alone says that the file grew.
    if let Some(old) = asked.total.filter(|old| range.last >= *old) {
        return Judgement::Changed { why: format!("its length was {old} bytes and is more now") };
    }
    let body = range.last - range.first + 1;
    if length(head).is_some_and(|length| length != body) {
        return nonsense("the server contradicts itself on the length of its reply");
    }
    if range.first > asked.offset || range.last < asked.offset {
        return Judgement::Later {
            why: format!(
                "the server sent bytes {} to {} where those from {} on were asked for",
                range.first, range.last, asked.offset
            ),
            after: None,
        };
    }
    Judgement::Take {
        skip: asked.offset - range.first,
        total: range.total.or(asked.total),
        body: Some(body),
        validator: validator(head).or_else(|| asked.validator.clone()),
    }
}

/// 416: nothing behind the offset. Right when everything is there.
fn unsatisfiable(asked: &Asked, head: &Head) -> Judgement {
    let total = head
        .content_range
        .as_deref()
        .and_then(|text| text.trim().strip_prefix("bytes"))
        .and_then(|text| text.trim().strip_prefix("*/"))
        .and_then(|text| text.trim().parse::<u64>().ok());
    if asked.offset == 0 {
        return no(head, "try the address in a browser");
    }
    match total.or(asked.total) {
        Some(total) if total == asked.offset && asked.total.is_none_or(|old| old == total) => {
            Judgement::Complete
        }
        _ => {
            Judgement::Changed { why: "the server has no byte behind those that are there".into() }
        }
    }
}

/// A `Content-Range` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    last: u64,
    total: Option<u64>,
}

/// `bytes 100-199/1000`, or `*` for a length that the server does not know.
fn content_range(text: &str) -> Option<ContentRange> {
    let rest = text.trim().strip_prefix("bytes")?;
    let (range, total) = rest.trim().split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse::<u64>().ok()?);
    let total = match total.trim() {
        "*" => None,
        number => Some(number.parse::<u64>().ok()?),
    };
    let sound = first <= last && last < u64::MAX && total.is_none_or(|total| last < total);
    sound.then_some(ContentRange { first, last, total })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag() -> Validator {
        Validator::Tag("\"a\"".to_owned())
    }

    fn asked(offset: u64) -> Asked {
        Asked { offset, total: Some(1000), validator: Some(tag()) }
    }

    fn head(status: u16, range: &str, length: &str, etag: &str) -> Head {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Head {
            status,
            content_range: some(range),
            content_length: some(length),
            etag: some(etag),
            ..Head::default()
        }
    }

    fn take(skip: u64, total: u64, body: u64) -> Judgement {
        Judgement::Take { skip, total: Some(total), body: Some(body), validator: Some(tag()) }
    }

    #[test]
    fn replies_are_taken_only_where_they_say_they_begin() {
        for (what, head, wanted) in [
            ("as asked", head(206, "bytes 100-999/1000", "900", "\"a\""), take(0, 1000, 900)),
            (
                "from an aligned start",
                head(206, "bytes 64-999/1000", "936", "\"a\""),
                take(36, 1000, 936),
            ),
            (
                "from 0 all the same",
                head(206, "bytes 0-999/1000", "", "\"a\""),
                take(100, 1000, 1000),
            ),
            (
                "less than asked",
                head(206, "bytes 100-199/1000", "100", "\"a\""),
                take(0, 1000, 100),
            ),
            ("length not known", head(206, "bytes 100-999/*", "", "\"a\""), take(0, 1000, 900)),
            ("Range ignored", head(200, "", "1000", "\"a\""), take(100, 1000, 1000)),
        ] {
            assert_eq!(judge(&asked(100), &head), wanted, "{what}");
        }
        assert_eq!(judge(&asked(1000), &head(416, "bytes */1000", "", "")), Judgement::Complete);
    }

    #[test]
    fn another_file_under_the_same_address_is_noticed() {
        for (what, head) in [
            ("206 with another total", head(206, "bytes 100-1999/2000", "", "\"a\"")),
            ("206 with another tag", head(206, "bytes 100-999/1000", "", "\"b\"")),
            ("200 with another tag", head(200, "", "1000", "\"b\"")),
            ("200 with another length", head(200, "", "999", "\"a\"")),
            ("200 without a word on the version", head(200, "", "1000", "")),
            ("206 from behind the end", head(206, "bytes 100-1000/*", "", "\"a\"")),
            (
                "200 with a date for the tag",
                Head { last_modified: Some("today".to_owned()), ..head(200, "", "1000", "") },
            ),
            ("416 with another total", head(416, "bytes */50", "", "")),
            ("416 without a total", head(416, "", "", "")),
        ] {
            let got = judge(&asked(100), &head);
            assert!(matches!(got, Judgement::Changed { .. }), "{what}: {got:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_asked_again_and_never_taken() {
        for (what, asked, head) in [
            ("a gap", asked(100), head(206, "bytes 101-999/1000", "", "\"a\"")),
            ("before it", asked(100), head(206, "bytes 0-99/1000", "", "\"a\"")),
            ("no range", asked(100), head(206, "", "900", "\"a\"")),
            ("backwards", asked(100), head(206, "bytes 200-100/1000", "", "\"a\"")),
            ("behind its own end", asked(100), head(206, "bytes 100-1000/1000", "", "\"a\"")),
            ("another unit", asked(100), head(206, "lines 100-999/1000", "", "\"a\"")),
            ("a lie about the length", asked(100), head(206, "bytes 100-999/1000", "5", "\"a\"")),
            ("unasked", asked(0), head(206, "bytes 0-999/1000", "1000", "\"a\"")),
            ("huge", asked(100), head(206, "bytes 100-18446744073709551615/*", "", "\"a\"")),
        ] {
            let got = judge(&asked, &head);
            assert!(matches!(got, Judgement::Later { .. }), "{what}: {got:?}");
        }
    }

    #[test]
    fn an_expired_link_says_that_a_new_one_goes_on_from_here() {
        let Judgement::No { why, hint } = judge(&asked(100), &head(403, "", "", "")) else {
            panic!("taken");
        };
        assert_eq!(why, "the server answered 403 Forbidden");
        assert!(hint.contains("expired") && hint.contains("kept"), "{hint}");
    }

    #[test]
    fn weak_tags_are_no_validators_and_waits_are_bounded() {
        let mut weak = head(200, "", "", "W/\"a\"");
        assert_eq!(validator(&weak), None);
        weak.last_modified = Some("Tue, 01 Dec 2026 00:00:00 GMT".to_owned());
        assert!(matches!(validator(&weak), Some(Validator::Date(_))));
        let mut busy = head(503, "", "", "");
        for (after, wait) in [("7", Some(7)), ("100000", None), ("soon", None)] {
            busy.retry_after = Some(after.to_owned());
            let Judgement::Later { after, .. } = judge(&asked(0), &busy) else { panic!("taken") };
            assert_eq!(after.map(|d| d.as_secs()), wait);
        }
    }
}
