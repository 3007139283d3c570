//! Every file that a run makes or replaces, judged together before anything is opened: by what is there
//! (`host::invoker::outputs`), and against what the run reads, writes and makes besides.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::args::{Network, Origin, Output};
use super::{bmap, origin};
use crate::device::policy;
use crate::device::probe::System;
use crate::device::refusal::Refusal;
use crate::device::storage::{Id, Storage};
use crate::error::{Error, Result};
use crate::host::invoker::Invoker;
use crate::host::invoker::outputs::{Form, Found};
use crate::text::printable_path;

/// What a run makes, and what must not be replaced by it.
#[derive(Default)]
pub(super) struct Outputs {
    made: Vec<Made>,
    /// Files, folders and devices that are read, and what they are.
    read: Vec<(&'static str, PathBuf)>,
    /// Targets, and whether they are written.
    targets: Vec<(Storage, bool)>,
    json: bool,
}

/// One output.
struct Made {
    option: &'static str,
    path: PathBuf,
    form: Form,
}

impl Outputs {
    /// Those that most commands have.
    pub(super) fn of(output: &Output, record: &'static str) -> Self {
        let outputs = Self { json: output.json, ..Self::default() };
        outputs.text("--log", output.log.as_deref()).text(record, output.record.as_deref())
    }

    /// Text.
    pub(super) fn text(self, option: &'static str, path: Option<&Path>) -> Self {
        self.and(option, path, Form::Text)
    }

    /// A file that is looked at again before it has its name.
    pub(super) fn whole(self, option: &'static str, path: Option<&Path>) -> Self {
        self.and(option, path, Form::Whole)
    }

    fn and(mut self, option: &'static str, path: Option<&Path>, form: Form) -> Self {
        self.made.extend(path.map(|path| Made { option, path: path.to_owned(), form }));
        self
    }

    /// What is read.
    pub(super) fn reading<P: AsRef<Path>>(
        mut self,
        what: &'static str,
        paths: impl IntoIterator<Item = P>,
    ) -> Self {
        self.read.extend(paths.into_iter().map(|path| (what, path.as_ref().to_owned())));
        self
    }

    /// A source with all that is known of it: lists, signatures and maps, those beside it as well.
    pub(super) fn reading_source(self, word: &OsStr, origin: &Origin, network: &Network) -> Self {
        let named = [&origin.bmap, &origin.checksums, &origin.signature];
        let source = if word == "-" { Path::new("/proc/self/fd/0") } else { Path::new(word) };
        self.reading("the image that is read", [source])
            .reading("proof of the image", named.into_iter().flatten())
            .reading("proof of the image", &origin.keyring)
            .reading("the catalogue", &network.catalogue)
            .reading("proof of the image", origin::all_beside(source))
            .reading("its block map", bmap::beside(source))
    }

    /// A target, by the word that names it. One that cannot be looked at is refused elsewhere.
    pub(super) fn target(mut self, word: &OsStr, written: bool) -> Self {
        let storage = System::host().storage(Path::new(word));
        self.targets.extend(storage.ok().map(|storage| (storage, written)));
        self
    }

    /// Refuses what cannot be, the first in the order of the options.
    pub(super) fn check(&self) -> Result<()> {
        let invoker = Invoker::current();
        let mut seen: Vec<(&'static str, Key)> = Vec::new();
        if self.json
            && let Ok(found) = invoker.look(Path::new("-"), Form::Text)
        {
            seen.extend(Key::of(&found, Path::new("-")).map(|key| ("--json", key)));
        }
        for made in &self.made {
            let found = invoker.look(&made.path, made.form).map_err(|e| made.named(&e))?;
            if let Some(own) = made.storage(&found)? {
                self.apart_from_what_is_read(made, &own)?;
                self.apart_from_targets(made, &own)?;
                made.is_unused(&found)?;
            }
            let Some(key) = Key::of(&found, &made.path) else { continue };
            if let Some((other, _)) = seen.iter().find(|(_, other)| *other == key) {
                let name = printable_path(&made.path);
                return Err(Error::usage(format!("{other} and {} both name {name}", made.option))
                    .hint("give each a file of its own"));
            }
            seen.push((made.option, key));
        }
        Ok(())
    }

    fn apart_from_what_is_read(&self, made: &Made, own: &Storage) -> Result<()> {
        if own.itself.is_empty() {
            return Ok(());
        }
        for (what, path) in &self.read {
            let same = if path.is_dir() {
                path.canonicalize().is_ok_and(|folder| own.path.starts_with(folder))
            } else {
                let read = System::host().storage(path);
                read.is_ok_and(|read| read.itself.iter().any(|id| own.itself.contains(id)))
            };
            if same {
                return Err(made.refused(&format!("is {what}, and would be replaced")));
            }
        }
        Ok(())
    }

    fn apart_from_targets(&self, made: &Made, own: &Storage) -> Result<()> {
        for (target, written) in &self.targets {
            // A record of the system's disk may lie on the system's disk.
            let below = if *written { own.below.clone() } else { Vec::new() };
            if let Some(how) = (Storage { below, ..own.clone() }).shared_with(target) {
                return Err(made.refused(&format!("cannot be written: it {how}")));
            }
        }
        Ok(())
    }
}

impl Made {
    /// The file that is there, or the place of a new one; `None` for what is written into.
    fn storage(&self, found: &Found) -> Result<Option<Storage>> {
        Ok(match found {
            Found::Stream { .. } => None,
            // A descriptor's file as well, by the number that it has.
            Found::File((dev, ino)) => {
                let mut own = System::host().storage(&self.path).unwrap_or_default();
                let id = Id::File(*dev, *ino);
                own.itself.extend(Some(id).filter(|id| !own.itself.contains(id)));
                Some(own)
            }
            Found::New(_) => {
                let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = System::host().storage(folder.unwrap_or(Path::new(".")))?;
                Some(Storage { itself: Vec::new(), ..folder })
            }
        })
    }

    fn named(&self, error: &Error) -> Error {
        let named = Error::new(error.kind(), format!("{}: {}", self.option, error.message()));
        match error.advice() {
            Some(advice) => named.hint(advice),
            None => named,
        }
    }

    fn refused(&self, why: &str) -> Error {
        let name = printable_path(&self.path);
        Error::refused(format!("{}: {name} {why}", self.option)).hint("name another file")
    }

    /// A file that stands for a disk, or that a program keeps to itself, is not replaced.
    fn is_unused(&self, found: &Found) -> Result<()> {
        let Found::File(_) = found else { return Ok(()) };
        let uses =
            System::host().file_facts(&self.path).map_or_else(|_| Vec::new(), |facts| facts.uses);
        let refusals: Vec<Refusal> = uses.into_iter().map(Refusal::Busy).collect();
        if refusals.is_empty() {
            return Ok(());
        }
        Err(self.named(&policy::report("replace", &self.path, &refusals)))
    }
}

/// What two outputs must not have in common.
#[derive(PartialEq)]
enum Key {
    There((u64, u64)),
    New((u64, u64), Option<std::ffi::OsString>),
}

impl Key {
    fn of(found: &Found, path: &Path) -> Option<Self> {
        match found {
            Found::File(id) | Found::Stream { id, shared: false } => Some(Self::There(*id)),
            Found::New(folder) => Some(Self::New(*folder, path.file_name().map(OsStr::to_owned))),
            Found::Stream { shared: true, .. } => None,
        }
    }
}
