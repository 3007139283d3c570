//! What a reply of a web server is worth: pure, over all of the reply's head and what was asked.
//! Servers ignore `Range`, answer it with another range or as if it were the whole, or with another
//! file; each of that has ended in images that were put together wrongly. The rules are the table
//! in docs/downloads.md.
//!
//! Sources: RFC 9110 (HTTP semantics), sections 8 (representations, validators), 13.1.5 (If-Range),
//! 14 (ranges), 15 (status codes); RFC 9112, section 6 (bodies). RFC 9111 has no part in it, nothing
//! is cached here.

use std::time::Duration;

pub use super::head::{Framing, Head, Validator, Version};
use super::head::{content_range, unsatisfied_range};

/// What was asked for, and what is known from before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// First byte that is still missing.
    pub offset: u64,
    /// Whether `Range` asked for the bytes from there on; else the whole file was asked for.
    pub ranged: bool,
    /// Bytes of the file are there already, and what comes is put beside them.
    pub joins: bool,
    /// Length of the file that they belong to, when an earlier reply told it.
    pub total: Option<u64>,
    /// Which version of it they belong to.
    pub version: Option<Version>,
    /// Whether a digest will prove the whole: then what nothing contradicts may be joined.
    pub proven: bool,
    /// What the file is called in its address, and in the one that it leads to.
    pub names: Vec<String>,
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
        version: Option<Version>,
        /// How the end of the body is stated.
        framing: Framing,
        /// It is the same version as what is there, by its validator.
        same: bool,
    },
    /// Every byte is there already.
    Complete,
    /// The file on the server is another one by now: what is there does not belong to it.
    Changed {
        /// In which respect.
        why: String,
    },
    /// Nothing says that this is the same file as what is there, and no digest will.
    Unproven {
        /// What is missing.
        why: String,
    },
    /// The server cannot send parts, or not rightly: the whole can be asked for.
    NoPart {
        /// What it did.
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
        416 if asked.ranged => unsatisfiable(asked, head),
        408 | 425 | 429 | 500 | 502 | 503 | 504 => {
            Judgement::Later { why: status(head), after: retry_after(head) }
        }
        401 | 407 => no(head, "it wants a password; download the image with a browser"),
        403 | 410 if asked.joins => no(
            head,
            "the link has probably expired: get a new one and run the same command with it; what was downloaded is kept, and continued when --sha256 proves the whole",
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

/// A reply that cannot be right. Without `Range` the server may do better.
fn nonsense(asked: &Asked, why: impl Into<String>) -> Judgement {
    let why = why.into();
    if asked.ranged { Judgement::NoPart { why } } else { Judgement::Later { why, after: None } }
}

/// Whether a reply is of the file of which bytes are there.
enum Same {
    /// Its address gives it the same strong validator as before.
    Yes,
    /// Nothing says so.
    Unknown,
    /// It is another, in this respect.
    No(String),
}

fn same(asked: &Asked, head: &Head, total: Option<u64>) -> Same {
    if let (Some(old), Some(new)) = (asked.total, total)
        && old != new
    {
        return Same::No(format!("its length was {old} bytes and is {new} now"));
    }
    if total.is_some_and(|total| total < asked.offset) {
        return Same::No("it is shorter now than what is there".to_owned());
    }
    // Tags of another address say nothing about ours.
    let Some(old) = asked.version.as_ref().filter(|old| old.by == head.by) else {
        return Same::Unknown;
    };
    let new = match &old.validator {
        // What has become weak on the way, as through a proxy that packs, is neither.
        Validator::Tag(_) => head.tag(),
        Validator::Date(_) => head.last_modified.as_deref().map(str::trim),
    };
    match new {
        Some(new) if new == old.validator.as_str() => Same::Yes,
        Some(_) => Same::No("the server says that it was changed meanwhile".to_owned()),
        None => Same::Unknown,
    }
}

/// Why a reply whose place is known must not be put beside what is there.
fn stranger(asked: &Asked, head: &Head, same: Same) -> Option<Judgement> {
    if !(asked.joins || asked.offset > 0) || matches!(same, Same::Yes) {
        return None;
    }
    // A portal that wants a login answers everything with its page; the file is still there.
    if head.is_type("text/html") {
        let why = "the server sent a web page where the file was asked for".to_owned();
        return Some(Judgement::Later { why, after: None });
    }
    match same {
        Same::No(why) => Some(Judgement::Changed { why }),
        Same::Unknown if asked.proven => None,
        Same::Yes | Same::Unknown => Some(Judgement::Unproven { why: unproven(asked, head) }),
    }
}

fn unproven(asked: &Asked, head: &Head) -> String {
    match &asked.version {
        Some(old) if old.by != head.by => "it comes from another address than what is there",
        Some(_) => "the server no longer says which version of the file it sends",
        None => "the server does not say which version of the file it sends (no strong ETag)",
    }
    .to_owned()
}

/// Endings of names whose content is coded in this way as it is stored. Servers label such files
/// with their coding (Apache's AddEncoding), and send them as they are.
fn stored_so(names: &[String], coding: &str) -> bool {
    let endings: &[&str] = match coding {
        "gzip" | "x-gzip" => &[".gz", ".tgz"],
        "bzip2" | "x-bzip2" => &[".bz2"],
        "xz" | "x-xz" => &[".xz"],
        "zstd" => &[".zst"],
        "compress" | "x-compress" => &[".z"],
        _ => &[],
    };
    let mut names = names.iter().map(|name| name.to_ascii_lowercase());
    names.any(|name| endings.iter().any(|ending| name.ends_with(ending)))
}

/// What is wrong with a body whatever part of the file it is; else how its end is stated.
fn body(asked: &Asked, head: &Head) -> Result<Framing, Judgement> {
    let framing = head
        .framing()
        .map_err(|why| nonsense(asked, format!("the reply cannot be right: {why}")))?;
    if head.is_type("multipart/") {
        return Err(nonsense(asked, "the server sent several parts where one was asked for"));
    }
    match head.coding() {
        Some(coding) if !asked.proven && !stored_so(&asked.names, &coding) => Err(Judgement::No {
            why: format!(
                "the server sends the file in another coding ({}), though it was asked for as it is",
                crate::text::printable(&coding)
            ),
            hint: "give its digest with --sha256, which tells whether these are the right bytes, or try another address",
        }),
        _ => Ok(framing),
    }
}

/// 200: the whole file, also when a part was asked for.
fn whole(asked: &Asked, head: &Head) -> Judgement {
    let framing = match body(asked, head) {
        Ok(framing) => framing,
        Err(judgement) => return judgement,
    };
    let mut total = framing.count();
    // The field means nothing here (RFC 9110, 14.4); servers that send it sent a part, with the
    // wrong status. Only where it says that this is the whole it contradicts nothing.
    if let Some(text) = &head.content_range {
        let range = content_range(text).filter(|range| {
            let all = range.last.checked_add(1);
            range.first == 0 && range.total == all && (total.is_none() || total == all)
        });
        let Some(range) = range else {
            return nonsense(asked, "the server sent a part of the file as if it were the whole");
        };
        total = range.total;
    }
    let same = same(asked, head, total);
    let is_same = matches!(same, Same::Yes);
    if let Some(judgement) = stranger(asked, head, same) {
        return judgement;
    }
    Judgement::Take {
        skip: asked.offset,
        total: total.or(asked.total),
        body: total.or(asked.total),
        version: head.version(),
        framing,
        same: is_same,
    }
}

/// 206: a part. Only what its `Content-Range` says counts.
fn part(asked: &Asked, head: &Head) -> Judgement {
    let framing = match body(asked, head) {
        Ok(framing) => framing,
        Err(judgement) => return judgement,
    };
    let Some(range) = head.content_range.as_deref().and_then(content_range) else {
        return nonsense(asked, "the server sent a part and does not say which");
    };
    let bytes = range.last - range.first + 1;
    // Proxies that cut everything into ranges call the whole a part, too.
    if !asked.ranged && (range.first > 0 || range.total != Some(bytes)) {
        return nonsense(asked, "the server sent a part of the file where the whole was asked for");
    }
    if framing.count().is_some_and(|count| count != bytes) {
        return nonsense(asked, "the server contradicts itself on the length of its reply");
    }
    let mut same = same(asked, head, range.total);
    // With `*` for its length the last byte alone says that the file grew.
    if let Some(old) = asked.total.filter(|old| range.last >= *old) {
        same = Same::No(format!("its length was {old} bytes and is more now"));
    }
    let (found, misplaced) =
        (matches!(same, Same::Yes), range.first > asked.offset || range.last < asked.offset);
    if misplaced && !matches!(same, Same::No(_)) {
        return nonsense(
            asked,
            format!(
                "the server sent bytes {} to {} where those from {} on were asked for",
                range.first, range.last, asked.offset
            ),
        );
    }
    if let Some(judgement) = stranger(asked, head, same) {
        return judgement;
    }
    Judgement::Take {
        skip: asked.offset - range.first,
        total: range.total.or(asked.total),
        body: Some(bytes),
        version: head.version(),
        framing,
        same: found,
    }
}

/// 416: nothing after the offset. Right when everything is there.
fn unsatisfiable(asked: &Asked, head: &Head) -> Judgement {
    let Some(total) = head.content_range.as_deref().and_then(unsatisfied_range) else {
        return nonsense(
            asked,
            "the server has no such part, and does not say how long the file is",
        );
    };
    let same = same(asked, head, Some(total));
    if total > asked.offset && !matches!(same, Same::No(_)) {
        return nonsense(asked, "the server denies a part of the file that it has");
    }
    stranger(asked, head, same).unwrap_or(Judgement::Complete)
}

#[cfg(test)]
mod tests;
