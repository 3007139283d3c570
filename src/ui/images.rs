//! The catalogue on the screen and as JSON: what there is, where it is from, what proves it.

use std::fmt::Write as _;

use serde::Serialize;

use crate::text::safe_json;

/// Name and version of the document.
const SCHEMA: &str = "mediawriter-images/1";

/// An image that has a name. Texts have no control characters.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is typed.
    pub id: String,
    /// For people.
    pub title: String,
    /// As the publisher calls it.
    pub architecture: String,
    /// A Windows installation disc.
    pub windows: bool,
    /// Addresses of folders.
    pub folders: Vec<String>,
    /// Name or pattern of the image in them.
    pub file: Option<String>,
    /// Address of the list of digests.
    pub list: Option<String>,
    /// Address of the signature over it.
    pub signature: Option<String>,
    /// Whether the list holds its signature.
    pub clear_signed: bool,
    /// Fingerprints of keys of which one must have signed.
    pub keys: Vec<String>,
    /// Pinned digest, hex.
    pub sha256: Option<String>,
    /// Page to fetch it from by hand.
    pub page: Option<String>,
    /// A sentence.
    pub note: Option<String>,
}

impl Row {
    fn proof(&self) -> &'static str {
        let signed = self.signature.is_some() || self.clear_signed;
        match (&self.list, signed, self.keys.is_empty(), &self.sha256) {
            (Some(_), true, false, _) => "signed list",
            (Some(_), true, true, _) => "signed list, key not given",
            (Some(_), false, ..) => "unsigned list",
            (None, _, _, Some(_)) => "digest",
            (None, ..) => "by hand",
        }
    }
}

/// A table, one line an image.
pub fn list(rows: &[&Row]) -> String {
    if rows.is_empty() {
        return "no image fits\n".to_owned();
    }
    let width = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).len()).max().unwrap_or(0);
    let (id, arch) = (width(|row| &row.id), width(|row| &row.architecture));
    let proof = width(|row| row.proof());
    let mut text = String::new();
    for row in rows {
        // A String takes every write.
        writeln!(
            text,
            "{:id$}  {:arch$}  {:proof$}  {}",
            row.id,
            row.architecture,
            row.proof(),
            row.title
        )
        .ok();
    }
    text
}

/// One image: where it is from, and what proves it. `known`: fingerprints of keys in the program.
pub fn explain(row: &Row, known: &[String]) -> String {
    let mut lines = vec![format!("{}: {} ({})", row.id, row.title, row.architecture)];
    if row.windows {
        lines.push("  kind       Windows installation disc".to_owned());
    }
    let newest = if row.list.is_some() { " (the newest in the list)" } else { "" };
    lines.extend(row.file.iter().map(|file| format!("  file       {file}{newest}")));
    lines.extend(row.folders.iter().map(|folder| format!("  from       {folder}")));
    lines.extend(row.page.iter().map(|page| format!("  by hand    {page}")));
    lines.extend(row.list.iter().map(|list| format!("  list       {list}")));
    if row.clear_signed {
        lines.push("  signature  in the list".to_owned());
    }
    lines.extend(row.signature.iter().map(|address| format!("  signature  {address}")));
    for key in &row.keys {
        let here = if known.contains(key) { "in the program" } else { "give it with --keyring" };
        lines.push(format!("  key        {key} ({here})"));
    }
    lines.extend(row.sha256.iter().map(|digest| format!("  SHA-256    {digest}")));
    lines.push(format!("  proven by  {}", row.proof()));
    lines.extend(row.note.iter().map(|note| format!("  note       {note}")));
    lines.join("\n") + "\n"
}

/// For scripts; fields are added, never changed.
pub fn json(rows: &[&Row]) -> String {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        images: &'a [&'a Row],
    }
    let text = serde_json::to_string_pretty(&Document { schema: SCHEMA, images: rows });
    safe_json(&text.unwrap_or_default()) + "\n"
}
