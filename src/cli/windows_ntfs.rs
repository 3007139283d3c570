//! A Windows stick with NTFS: its volume is made in a file, filled, compared, and then part of the
//! image that is written.

use std::fs::{self, File, FileTimes};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::windows::listed;
use crate::cancel::CancelToken;
use crate::error::{Context as _, Error, Result};
use crate::event::notice::Notice;
use crate::flow::Context;
use crate::host::ntfs3g::{Shape, Tools};
use crate::image::ReadAt;
use crate::text::{printable, printable_path};
use crate::units::Bytes;
use crate::windows::compose::{Added, Options, Plan};
use crate::windows::composed::ComposedSource;
use crate::windows::tree::Disc;
use crate::windows::volume::{BootImage, Draft, Filled, MOST_BOOT, draft, label};

/// Bytes copied between two looks at whether to go on.
const STEP: usize = 1 << 20;
/// What mkntfs makes besides the files, at the most: a log of 64 MiB, and some tables.
const TABLES: u64 = 96 << 20;

/// A stick whose NTFS volume is not made yet. Everything that can be refused was.
#[derive(Debug)]
pub(super) struct Unmade {
    draft: Draft,
    disc: Arc<dyn Disc>,
    name: String,
    shape: Shape,
    tools: Tools,
    folder: PathBuf,
    /// For the person who has to say yes.
    boot: String,
    options: Options,
}

impl Unmade {
    /// Looks at everything that is needed; `disc` with its name, the file that boots NTFS with the
    /// folder for what is temporary.
    pub(super) fn new(
        (disc, name): (Arc<dyn Disc>, String),
        added: &[Added],
        options: Options,
        (file, folder): (&Path, Option<&Path>),
    ) -> Result<Self> {
        let tools = Tools::find()?;
        let boot = boot_image(file, options.device.sector)?;
        must_start(&*disc, &boot, file)?;
        let archs = boot.archs.join(", ");
        let words = format!(
            "booted by {}, {:?} with a program for {archs}",
            printable_path(file),
            boot.width
        );
        let draft = draft(Arc::clone(&disc), added, options.clone(), boot)?;
        let range = draft.range();
        let shape = Shape {
            bytes: range.end - range.start,
            sector: options.device.sector,
            start: range.start,
            label: label(&options.label),
        };
        let folder = folder.map_or_else(temporary, Path::to_owned);
        let needed = (draft.needed() + TABLES).min(shape.bytes);
        has_room(&folder, needed)?;
        Ok(Self { draft, disc, name, shape, tools, folder, boot: words, options })
    }

    /// The image as far as it is known.
    pub(super) fn outline(&self) -> Result<(ComposedSource, Plan)> {
        let plan = self.draft.outline()?;
        Ok((ComposedSource::new(&plan, Arc::clone(&self.disc), &self.name)?, plan))
    }

    /// For the person who has to say yes.
    pub(super) fn words(&self, plan: &Plan) -> Vec<String> {
        let mut words = listed(plan, self.options.table, "NTFS");
        words.push(self.boot.clone());
        let folder = printable_path(&self.folder);
        words.push(format!(
            "the volume is made in {folder} first, which takes {} there",
            Bytes(self.draft.needed())
        ));
        words
    }

    /// Makes the volume, and the image with it.
    pub(super) fn make(&self, cx: &Context) -> Result<ComposedSource> {
        let folder = printable_path(&self.folder);
        cx.events.tell(Notice::NtfsBegins { folder });
        let begin = cx.clock.now();
        let fill = |root: &Path| fill(root, &self.draft, &cx.cancel);
        let volume = self.tools.make(&self.folder, &self.shape, &cx.cancel, fill)?;
        let filled = cx.clock.now();
        cx.cancel.check()?;
        let plan = self.draft.plan(volume)?;
        cx.events.tell(Notice::NtfsMade {
            filled: filled.saturating_sub(begin),
            files: plan.files.len(),
            compared: cx.clock.now().saturating_sub(filled),
        });
        ComposedSource::new(&plan, Arc::clone(&self.disc), &self.name)
    }
}

fn boot_image(file: &Path, sector: u32) -> Result<BootImage> {
    let name = printable_path(file);
    let meta = fs::metadata(file).context(|| format!("cannot open {name}"))?;
    if !meta.is_file() || meta.len() > MOST_BOOT {
        return Err(Error::refused(format!("{name} is no image that boots NTFS"))
            .hint(format!("that is a FAT image of about 1 MiB, at most {}", Bytes(MOST_BOOT))));
    }
    let bytes = fs::read(file).context(|| format!("cannot read {name}"))?;
    BootImage::new(bytes, &name, sector)
}

/// The program of the image starts that of the disc, so both have to be for the same computers.
fn must_start(disc: &dyn Disc, boot: &BootImage, file: &Path) -> Result<()> {
    let paths = disc.nodes().iter().map(|node| node.path.to_ascii_lowercase());
    let archs: Vec<String> = paths
        .filter_map(|path| {
            let arch = path.strip_prefix("efi/boot/boot")?.strip_suffix(".efi")?;
            Some(arch.to_owned())
        })
        .collect();
    if archs.is_empty() || archs.iter().any(|arch| boot.archs.contains(&arch.as_str())) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} has programs for {}, the ISO for {}: it would not start",
        printable_path(file),
        boot.archs.join(", "),
        printable(&archs.join(", "))
    )))
}

/// Where large files of temporary use belong (hier(7)); /tmp is in memory on many systems.
fn temporary() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

fn has_room(folder: &Path, needed: u64) -> Result<()> {
    let name = printable_path(folder);
    let stat = nix::sys::statvfs::statvfs(folder).context(|| format!("cannot look at {name}"))?;
    let room = stat.blocks_available().saturating_mul(stat.fragment_size());
    if room >= needed {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{name} has room for {}, the NTFS volume takes {}",
        Bytes(room),
        Bytes(needed)
    ))
    .hint("--temp-dir DIR: a folder with more room"))
}

/// Copies everything into the mounted volume. Times of folders are set last, because each file that
/// is made in a folder changes them.
fn fill(root: &Path, draft: &Draft, cancel: &CancelToken) -> Result<()> {
    let mut folders = Vec::new();
    for file in draft.files() {
        cancel.check()?;
        let path = root.join(file.path);
        let failed = |e: io::Error| {
            Error::io(format!("copying {} into the NTFS volume failed", printable(file.path)), e)
                .hint("a larger stick, or a folder with more room: --temp-dir DIR")
        };
        if file.len.is_none() {
            fs::create_dir(&path).map_err(failed)?;
            folders.push((path, file.mtime));
            continue;
        }
        let out = File::create_new(&path).map_err(failed)?;
        copy((&*draft.bytes(&file)?, &file), &out, cancel, &failed)?;
        out.set_times(times(file.mtime)).map_err(failed)?;
    }
    for (path, mtime) in folders.into_iter().rev() {
        let set = File::open(&path).and_then(|folder| folder.set_times(times(mtime)));
        set.context(|| "setting the time of a folder failed".to_owned())?;
    }
    Ok(())
}

fn copy(
    (bytes, file): (&dyn ReadAt, &Filled<'_>),
    mut out: &File,
    cancel: &CancelToken,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<()> {
    let (mut buf, mut at) = (vec![0; STEP], 0);
    loop {
        cancel.check()?;
        match bytes.read_at(at, &mut buf) {
            Ok(0) => break,
            Ok(n) => {
                out.write_all(&buf[..n]).map_err(failed)?;
                at += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::from_read(e, &printable(file.path))),
        }
    }
    if Some(at) != file.len {
        let path = printable(file.path);
        return Err(Error::refused(format!("{path} became shorter than it was")));
    }
    Ok(())
}

fn times(mtime: i64) -> FileTimes {
    let since = Duration::from_secs(mtime.unsigned_abs());
    let time =
        if mtime < 0 { UNIX_EPOCH.checked_sub(since) } else { UNIX_EPOCH.checked_add(since) };
    let time = time.unwrap_or(UNIX_EPOCH);
    FileTimes::new().set_modified(time).set_accessed(time)
}
