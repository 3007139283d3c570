//! `images`: the catalogue, the user's own over the shipped one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::args::{Images, ImagesShow};
use super::call::Call;
use crate::catalog::near::near;
use crate::catalog::{self, Entry};
use crate::error::{Context as _, Error, Kind, Result};
use crate::host::invoker::config_dir;
use crate::proof::Keyring;
use crate::text::{printable, printable_path};
use crate::ui;
use crate::ui::images::{explain, json, list};

pub(super) fn run(args: &Images, _call: &Call) -> Result<ExitCode> {
    let all = catalogue(&args.catalogue)?;
    let rows: Vec<ui::images::Row> = all.iter().map(row).collect();
    let text = match &args.show {
        Some(ImagesShow::Show { id }) => {
            let known = Keyring::shipped().map_err(|why| Error::new(Kind::Internal, why))?;
            let known: Vec<String> = known.fingerprints().collect();
            let row = rows.iter().find(|row| row.id == *id).ok_or_else(|| {
                Error::usage(format!("there is no image '{}' in the catalogue", printable(id)))
                    .hint(meant(&all, id))
            })?;
            if args.json { json(&[row]) } else { explain(row, &known) }
        }
        None => {
            let wanted = args.filter.as_deref().unwrap_or_default().to_lowercase();
            let fits = |row: &&ui::images::Row| {
                [&row.id, &row.title, &row.architecture]
                    .iter()
                    .any(|text| text.to_lowercase().contains(&wanted))
            };
            let rows: Vec<&ui::images::Row> = rows.iter().filter(fits).collect();
            if args.json { json(&rows) } else { list(&rows) }
        }
    };
    ui::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// What to try instead of a word that names no image.
pub(super) fn meant(all: &[Entry], word: &str) -> String {
    match near(all, word).as_slice() {
        [] => "`mediawriter images` lists those of the catalogue".to_owned(),
        ids => format!("did you mean {}?", ids.join(" or ")),
    }
}

/// The shipped catalogue, under the user's own, under those that were named.
pub(super) fn catalogue(named: &[PathBuf]) -> Result<Vec<Entry>> {
    let shipped = catalog::parse(catalog::SHIPPED)
        .map_err(|why| Error::new(Kind::Internal, format!("the shipped isos.toml: {why}")))?;
    let mut all = vec![shipped];
    if let Some(own) = config_dir().map(|folder| folder.join("isos.toml")).filter(|f| f.is_file()) {
        all.push(read(&own)?);
    }
    for path in named {
        all.push(read(path)?);
    }
    Ok(catalog::merge(all))
}

fn read(path: &Path) -> Result<Vec<Entry>> {
    let name = printable_path(path);
    let size = fs::metadata(path).context(|| format!("cannot open the catalogue {name}"))?;
    if !size.is_file() || size.len() > 1 << 20 {
        return Err(Error::usage(format!("{name} is no catalogue: not a file of at most 1 MiB")));
    }
    let text = fs::read_to_string(path).context(|| format!("cannot read the catalogue {name}"))?;
    catalog::parse(&text).map_err(|why| {
        Error::usage(format!("the catalogue {name}: {why}"))
            .hint("the shipped isos.toml describes the format in its head")
    })
}

fn row(entry: &Entry) -> ui::images::Row {
    let at = |name: &String| entry.folders.first().map(|folder| format!("{folder}{name}"));
    ui::images::Row {
        id: entry.id.clone(),
        title: entry.title.clone(),
        architecture: entry.architecture.clone(),
        windows: entry.kind == catalog::Kind::Windows,
        folders: entry.folders.clone(),
        file: entry.file.clone().or_else(|| entry.pattern.clone()),
        list: entry.list.as_ref().and_then(at),
        signature: entry.signature.as_ref().and_then(at),
        clear_signed: entry.clear_signed,
        keys: entry.keys.clone(),
        sha256: entry.sha256.map(|digest| digest.to_string()),
        page: entry.page.clone(),
        note: entry.note.clone(),
    }
}
