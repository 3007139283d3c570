//! From an entry and its checksum list to one file: the newest of those that fit, and no
//! pre-release unless the pattern asks for one.

use super::glob::{by_version, fits};
use super::{Entry, is_name};
use crate::digest::Digest;
use crate::digest::sums::{Lookup, Sums};
use crate::text::printable;

/// Words in the names of what is not released yet.
const PRE_RELEASES: [&str; 8] =
    ["alpha", "beta", "daily", "rc", "snapshot", "preview", "pending", "testing"];

/// Name and digest of the file that an entry means.
pub fn resolve(entry: &Entry, sums: &Sums) -> Result<(String, Digest), String> {
    let wanted = entry.pattern.as_deref().or(entry.file.as_deref()).unwrap_or_default();
    let name = match (&entry.file, &entry.pattern) {
        (Some(file), _) => Some(file.as_str()),
        (None, Some(pattern)) => newest(pattern, sums),
        (None, None) => None,
    };
    let name = name.ok_or_else(|| format!("no entry that fits {}", printable(wanted)))?;
    let shown = printable(name);
    match sums.entry(&[name]) {
        Lookup::Found(digest) if is_name(name) && !sums.is_bare() => Ok((name.to_owned(), digest)),
        Lookup::Found(_) => Err(format!("{shown} is no name for a file")),
        Lookup::Absent(_) => Err(format!("no entry for {shown}")),
        Lookup::Ambiguous => Err(format!("several digests for {shown}")),
        Lookup::OnlyWeak(weak) => {
            Err(format!("only {} for {shown}, which proves nothing", weak.join(" and ")))
        }
    }
}

fn newest<'s>(pattern: &str, sums: &'s Sums) -> Option<&'s str> {
    sums.names()
        .filter(|name| fits(pattern, name) && pre_release(name).is_none_or(|w| pattern.contains(w)))
        .max_by(|a, b| by_version(a, b))
}

/// The word that says so, when it stands alone: `rc1` and `-beta-`, not `march`.
fn pre_release(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphabetic());
    words.find_map(|word| PRE_RELEASES.into_iter().find(|pre| *pre == word))
}
