//! The head of a reply: the fields that matter, and what each of them says by its own grammar.
//! Pure; what they say together is for `judge`.
//!
//! Sources: RFC 9110, sections 5.6.7 (dates), 8.4 (Content-Encoding), 8.6 (Content-Length), 8.8
//! (validators), 14.4 (Content-Range); RFC 9112, section 6 (how the end of a body is stated).

use serde::{Deserialize, Serialize};

/// What tells one version of a file from another: a strong entity tag, else a strong date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validator {
    /// A strong entity tag, quotes included. Weak ones do not promise the same bytes.
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

/// A version of a file. Validators of different addresses say nothing about each other, not even
/// when they are equal (RFC 9110, 8.8.1), so the address that answered is part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// What the address called it.
    pub validator: Validator,
    /// Who answered, after redirects.
    pub by: String,
}

/// The fields of a reply, as sent; several lines of one name are joined with commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Status code.
    pub status: u16,
    /// Who answered, after redirects.
    pub by: String,
    /// `Content-Length`.
    pub content_length: Option<String>,
    /// `Content-Range`.
    pub content_range: Option<String>,
    /// `Transfer-Encoding`.
    pub transfer_encoding: Option<String>,
    /// `Content-Encoding`.
    pub content_encoding: Option<String>,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
    /// `Date`.
    pub date: Option<String>,
    /// `Retry-After`.
    pub retry_after: Option<String>,
}

/// How the end of a body is stated (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `Content-Length`: so many bytes.
    Counted(u64),
    /// A last chunk ends it. It is sent by whoever makes the body, after all of it; a connection
    /// that breaks leaves it out (RFC 9112, 7.1 and 8). So the end is stated, as with a length.
    Chunked,
    /// The end of the connection, whatever ended it: nobody states that this is all.
    Closed,
}

impl Framing {
    /// Bytes of the body, where they are counted.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Counted(bytes) => Some(bytes),
            Self::Chunked | Self::Closed => None,
        }
    }
}

impl Head {
    /// How the end of the body is stated; the error says what is contradictory.
    pub fn framing(&self) -> Result<Framing, &'static str> {
        let length = match &self.content_length {
            None => None,
            Some(text) => Some(length(text).ok_or("the length it states is not a number")?),
        };
        match (&self.transfer_encoding, length) {
            (None, Some(bytes)) => Ok(Framing::Counted(bytes)),
            (None, None) => Ok(Framing::Closed),
            // "Ought to be handled as an error" (RFC 9112, 6.3, item 3).
            (Some(_), Some(_)) => Err("it states its length in two ways"),
            (Some(coding), None) if coding.trim().eq_ignore_ascii_case("chunked") => {
                Ok(Framing::Chunked)
            }
            // No other was allowed (TE), and its bytes are not those of the file.
            (Some(_), None) => Err("it has a transfer coding that was not asked for"),
        }
    }

    /// The strong entity tag.
    pub fn tag(&self) -> Option<&str> {
        let tag = self.etag.as_deref()?.trim();
        let inner = tag.strip_prefix('"')?.strip_suffix('"')?;
        // Other characters are allowed as well, and cannot be sent back as text.
        let sound = inner.bytes().all(|c| c == b'!' || (b'#'..=b'~').contains(&c));
        (sound && tag.len() > 1).then_some(tag)
    }

    /// Which version of the file this is of, where that is said strongly enough to join bytes by.
    /// A date is strong when the file was at least a second old by then; beside an entity tag,
    /// weak ones too, it is not to be used (RFC 9110, 8.8.2.2 and 13.1.5).
    pub fn version(&self) -> Option<Version> {
        let validator = match (self.tag(), &self.etag) {
            (Some(tag), _) => Validator::Tag(tag.to_owned()),
            (None, Some(_)) => return None,
            (None, None) => {
                let changed = self.last_modified.as_deref()?.trim();
                let old = seconds(self.date.as_deref()?)?.checked_sub(seconds(changed)?)?;
                if old == 0 {
                    return None;
                }
                Validator::Date(changed.to_owned())
            }
        };
        Some(Version { validator, by: self.by.clone() })
    }

    /// The content coding; `None` when the bytes are those of the file as it is.
    pub fn coding(&self) -> Option<String> {
        let coding = self.content_encoding.as_deref()?.trim().to_ascii_lowercase();
        (!coding.is_empty() && coding != "identity").then_some(coding)
    }

    /// Whether the media type begins like this.
    pub fn is_type(&self, start: &str) -> bool {
        let text = self.content_type.as_deref().unwrap_or_default().trim_start();
        text.get(..start.len()).is_some_and(|have| have.eq_ignore_ascii_case(start))
    }
}

/// One number, or the same number several times (RFC 9110, 8.6).
fn length(text: &str) -> Option<u64> {
    let mut numbers = text.split(',').map(|part| number(part.trim()));
    let first = numbers.next()??;
    numbers.all(|other| other == Some(first)).then_some(first)
}

/// Digits alone: `parse` would take a sign as well.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A `Content-Range` field with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// First byte.
    pub first: u64,
    /// Last byte.
    pub last: u64,
    /// Length of the file; `None`: the server does not know it.
    pub total: Option<u64>,
}

fn after_unit(text: &str) -> Option<&str> {
    let (unit, rest) = text.trim().split_once(' ')?;
    unit.eq_ignore_ascii_case("bytes").then(|| rest.trim())
}

/// `bytes 100-199/1000`, or `*` for a length that the server does not know.
pub fn content_range(text: &str) -> Option<ContentRange> {
    let (range, total) = after_unit(text)?.split_once('/')?;
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (number(first.trim())?, number(last.trim())?);
    let total = match total.trim() {
        "*" => None,
        text => Some(number(text)?),
    };
    let sound = first <= last && last < u64::MAX && total.is_none_or(|total| last < total);
    sound.then_some(ContentRange { first, last, total })
}

/// `bytes */1000`: the length of a file that has no such range.
pub fn unsatisfied_range(text: &str) -> Option<u64> {
    number(after_unit(text)?.strip_prefix("*/")?.trim())
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that servers may send.
fn seconds(text: &str) -> Option<u64> {
    let (_, date) = text.trim().split_once(", ")?;
    let words: Vec<&str> = date.split(' ').collect();
    let [day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let clock: Vec<u64> = time.split(':').map(number).collect::<Option<_>>()?;
    let ([hour, minute, second], day, year) = (&clock[..], number(day)?, number(year)?) else {
        return None;
    };
    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    if *hour > 23 || *minute > 59 || *second > 60 {
        return None;
    }
    // Days of the civil calendar, with years that begin in March (H. Hinnant, chrono-Compatible
    // Low-Level Date Algorithms).
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_date_1_reads_them() {
        for (text, wanted) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Tue, 01 Dec 2026 00:00:00 GMT", Some(1_796_083_200)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun Nov  6 08:49:37 1994", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Nov 94 08:49:37 GMT", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_date_is_a_validator_only_where_it_is_strong() {
        let head = |etag: &str, changed: &str, date: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let (etag, last_modified) = (some(etag), some(changed));
            Head { etag, last_modified, date: some(date), ..Head::default() }
        };
        let (early, late) = ("Tue, 01 Dec 2026 00:00:00 GMT", "Tue, 01 Dec 2026 00:00:01 GMT");
        let strong = |head: &Head| head.version().map(|version| version.validator);
        let date = Some(Validator::Date(early.to_owned()));
        assert_eq!(strong(&head("", early, late)), date);
        assert_eq!(strong(&head("", early, early)), None, "it may change within the second");
        assert_eq!(strong(&head("", late, early)), None, "clocks that disagree");
        assert_eq!(strong(&head("", early, "")), None, "when it was sent is not known");
        assert_eq!(strong(&head("W/\"a\"", early, late)), None, "a weak tag");
        assert_eq!(strong(&head("\"a\", \"b\"", early, late)), None, "two tags");
        assert_eq!(strong(&head("\"\u{e9}\"", early, late)), None, "not to be sent back as text");
        let tag = Some(Validator::Tag("\"a\"".to_owned()));
        assert_eq!(strong(&head("\"a\"", early, early)), tag);
    }

    #[test]
    fn the_end_of_a_body_is_stated_in_one_way_or_in_none() {
        let framing = |length: Option<&str>, coding: Option<&str>| {
            let (content_length, transfer_encoding) =
                (length.map(str::to_owned), coding.map(str::to_owned));
            Head { content_length, transfer_encoding, ..Head::default() }.framing().ok()
        };
        for (length, coding, wanted) in [
            (None, None, Some(Framing::Closed)),
            (Some("5"), None, Some(Framing::Counted(5))),
            (Some("5, 5"), None, Some(Framing::Counted(5))),
            (Some("5, 6"), None, None),
            (Some("+5"), None, None),
            (Some(""), None, None),
            (Some("99999999999999999999"), None, None),
            (None, Some("Chunked"), Some(Framing::Chunked)),
            (None, Some("gzip, chunked"), None),
            (None, Some("identity"), None),
            (Some("5"), Some("chunked"), None),
        ] {
            assert_eq!(framing(length, coding), wanted, "{length:?} {coding:?}");
        }
    }
}
