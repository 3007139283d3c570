//! The image catalogue: `isos.toml` as it ships, and the user's own over it. Pure: text goes in.
//!
//! An entry says where an image is, which list proves it and whose key signs the list. [`Entry::
//! plan`] tells what to fetch, [`Entry::prove`] makes of what was fetched the name and the digest
//! of the newest file. The head of isos.toml describes the format.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Sha256};
use crate::error::{Error, Kind as Failure, Result};
use crate::event::Voucher;
use crate::proof::{self, Judge, Keyring};
use crate::text::printable;

mod glob;
pub mod near;
pub mod resolve;

/// The catalogue in the program.
pub const SHIPPED: &str = include_str!("../../isos.toml");
/// The largest catalogue that is read, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// What is written from an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Byte by byte; compressed or not.
    Raw,
    /// A Windows installation disc.
    Windows,
}

/// One image that people ask for by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Unique; lower-case letters, digits, dots and dashes.
    pub id: String,
    /// For people.
    pub title: String,
    /// As the publisher calls it.
    pub architecture: String,
    /// What it is.
    pub kind: Kind,
    /// https addresses of folders with everything below, with final slashes; the second and later
    /// ones are mirrors.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Name of the image in the folder.
    pub file: Option<String>,
    /// Or a pattern of names of which the newest is meant.
    pub pattern: Option<String>,
    /// Name of the list of digests in the folder.
    pub list: Option<String>,
    /// Name of the detached signature over it.
    pub signature: Option<String>,
    /// Whether the list holds its signature itself.
    #[serde(default)]
    pub clear_signed: bool,
    /// Fingerprints of primary keys of which one must have signed.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Digest of the file, when there is no list.
    pub sha256: Option<Sha256>,
    /// Page to fetch it from by hand.
    pub page: Option<String>,
    /// A sentence for people.
    pub note: Option<String>,
}

/// What has to be fetched, each from any of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A list and, unless it is unsigned or holds it, its signature; then [`Entry::prove`].
    List {
        /// The list.
        list: Vec<String>,
        /// The signature.
        signature: Option<Vec<String>>,
    },
    /// The file itself, whose digest the catalogue pins.
    File(Image),
    /// Nothing: a person must fetch it from this page.
    Page(String),
}

/// A file that was found and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its name.
    pub file: String,
    /// Its addresses, the first is the publisher's.
    pub addresses: Vec<String>,
    /// Of the file as it is published.
    pub digest: Digest,
    /// Who says so.
    pub voucher: Voucher,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: u32,
    #[serde(default)]
    image: Vec<Entry>,
}

/// Reads a catalogue; the message says where it is wrong.
pub fn parse(text: &str) -> std::result::Result<Vec<Entry>, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes"));
    }
    let document: Document = toml::from_str(text).map_err(|e| {
        // The library's text draws the place over several lines; the sentence is enough.
        let line = e.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count());
        format!("line {line}: {}", printable(e.message()))
    })?;
    if document.schema != 1 {
        return Err(format!("its schema is {}, this version reads 1", document.schema));
    }
    for entry in &document.image {
        entry.check().map_err(|why| format!("image '{}': {why}", printable(&entry.id)))?;
    }
    let mut ids: Vec<&str> = document.image.iter().map(|entry| entry.id.as_str()).collect();
    ids.sort_unstable();
    let pairs = ids.iter().zip(ids.iter().skip(1));
    if let Some((twice, _)) = pairs.into_iter().find(|(one, next)| one == next) {
        return Err(format!("image '{twice}' is there twice"));
    }
    Ok(document.image)
}

/// Catalogues laid over each other: an entry replaces one of the same id. Sorted by id.
pub fn merge(catalogues: impl IntoIterator<Item = Vec<Entry>>) -> Vec<Entry> {
    let all = catalogues.into_iter().flatten().map(|entry| (entry.id.clone(), entry));
    all.collect::<BTreeMap<_, _>>().into_values().collect()
}

impl Entry {
    fn check(&self) -> std::result::Result<(), &'static str> {
        let id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        if self.id.is_empty() || !self.id.chars().all(id) {
            return Err("an id has lower-case letters, digits, dots and dashes only");
        }
        let texts = [Some(&self.title), Some(&self.architecture), self.note.as_ref()];
        if texts.into_iter().flatten().any(|text| text.is_empty() || printable(text) != *text) {
            return Err("a text is empty or has control characters");
        }
        let folder = |url: &String| is_https(url) && url.ends_with('/');
        if !self.folders.iter().all(folder) || !self.page.iter().all(|page| is_https(page)) {
            return Err(
                "addresses begin with https://, have no user, query or blank, and those of folders end with /",
            );
        }
        let names = [&self.file, &self.pattern, &self.list, &self.signature];
        if names.into_iter().flatten().any(|name| !is_name(name)) {
            return Err(
                "a file name is empty, begins with a dot or has a slash or control character",
            );
        }
        let print = |key: &String| {
            matches!(key.len(), 40 | 64)
                && key.bytes().all(|c| c.is_ascii_digit() || (b'A'..=b'F').contains(&c))
        };
        if !self.keys.iter().all(print) {
            return Err("keys are full fingerprints: 40 or 64 hexadecimal digits, in capitals");
        }
        let signed = self.signature.is_some() || self.clear_signed;
        match (self.folders.is_empty(), &self.file, &self.pattern, &self.list, self.sha256) {
            (_, Some(_), Some(_), ..) => Err("file and pattern exclude each other"),
            (true, None, None, None, None) if self.page.is_some() && !signed => Ok(()),
            (true, ..) => Err("without folders an entry has a page, and no file, list or digest"),
            (false, Some(_), None, None, Some(_)) if !signed => Ok(()),
            (false, _, _, Some(_), None) if self.file.is_some() || self.pattern.is_some() => {
                if self.signature.is_some() && self.clear_signed {
                    Err("signature and clear_signed exclude each other")
                } else if !self.keys.is_empty() && !signed {
                    Err("keys need a signature, or clear_signed")
                } else {
                    Ok(())
                }
            }
            _ => Err("it needs a file or pattern and a list, or a file and its sha256"),
        }
    }

    /// What is to be fetched.
    pub fn plan(&self) -> Plan {
        if let Some(list) = &self.list {
            return Plan::List {
                list: self.addresses(list),
                signature: self.signature.as_ref().map(|name| self.addresses(name)),
            };
        }
        match (&self.file, self.sha256) {
            (Some(file), Some(sha256)) => Plan::File(Image {
                file: file.clone(),
                addresses: self.addresses(file),
                digest: Digest::Sha256(sha256),
                voucher: Voucher::Catalogue { id: self.id.clone() },
            }),
            _ => Plan::Page(self.page.clone().unwrap_or_default()),
        }
    }

    /// Proves the list that was fetched, and finds the image in it. An entry with keys wants a
    /// good signature by one of them; without, the list may be unsigned unless `required`.
    pub fn prove(
        &self,
        list: &[u8],
        signature: Option<&[u8]>,
        (keys, now): (&Keyring, u32),
        required: bool,
    ) -> Result<Image> {
        let judge = Judge { keys, demanded: &self.keys, now };
        let opened = proof::open(list, signature, judge);
        let name = self.list.clone().unwrap_or_default();
        let at = self.folders.first().map_or(name.clone(), |folder| format!("{folder}{name}"));
        let voucher = opened.proof.voucher(&at, required || !self.keys.is_empty())?;
        let not = |why: String| Error::new(Failure::SourceMismatch, format!("{at}: {why}"));
        let sums = crate::digest::sums::Sums::parse(&opened.text).map_err(not)?;
        let (file, digest) = resolve::resolve(self, &sums).map_err(not)?;
        Ok(Image { addresses: self.addresses(&file), file, digest, voucher })
    }

    fn addresses(&self, name: &str) -> Vec<String> {
        // RFC 3986, section 3.3: what may not stand in a path is written as %XX.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+,=:@!$&'()*;".contains(&byte);
        let name: String = name
            .bytes()
            .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
            .collect();
        self.folders.iter().map(|folder| format!("{folder}{name}")).collect()
    }
}

fn is_https(url: &str) -> bool {
    let rest = url.strip_prefix("https://").unwrap_or_default();
    rest.contains('.') && rest.chars().all(|c| c.is_ascii_graphic() && !"@?#*\\\"".contains(c))
}

/// Whether it is the name of a file in a folder, and of no other place.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && !name.contains(['/', '\\'])
        && printable(name) == name
}

#[cfg(test)]
mod tests;
