//! `clone` into a file: NAME.img as it is, NAME.img.zst compressed and with a block map. The file has
//! its name only when it is whole and was read back.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use super::args::CloneArgs;
use super::call::Call;
use super::clone::Source;
use super::medium;
use super::open::{locate, transfer, usual_block};
use super::remote::with_suffix;
use super::session::Session;
use super::usage;
use crate::clone::bmap;
use crate::clone::plan::Plan;
use crate::clone::source::DeviceImage;
use crate::device::BlockDevice as _;
use crate::device::file::FileDevice;
use crate::device::handle::Access;
use crate::device::mask::Mask;
use crate::error::{Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{Span, Verdict};
use crate::flow::flash::{DiscardMode, Plan as FlashPlan, flash};
use crate::flow::save::{check, save};
use crate::host::invoker::{CreateMode, Invoker};
use crate::image::ImageInfo;
use crate::source::Published;
use crate::text::printable_path;
use crate::time::{Clock, SystemClock};
use crate::ui;
use crate::units::Bytes;

/// Endings that promise what is not made here.
const OTHER: [&str; 8] = ["xz", "gz", "bz2", "lz4", "zip", "7z", "lzma", "bmap"];

/// Everything is decided.
struct Job<'a> {
    args: &'a CloneArgs,
    source: Source,
    info: ImageInfo,
    plan: Plan,
    path: PathBuf,
    /// Of a compressed file: its block map.
    map: Option<PathBuf>,
    warnings: Vec<String>,
}

/// A file that is not whole yet; removed unless it got its name.
struct Part {
    path: PathBuf,
    invoker: Invoker,
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok() {
            // Left behind where that fails; its name says that it is a part.
            self.invoker.remove(&self.path).ok();
        }
    }
}

pub(super) fn run(args: &CloneArgs, source: Source, path: &Path, call: &Call) -> Result<ExitCode> {
    let job = Job::prepare(args, source, path)?;
    if job.args.dry_run {
        ui::print(&format!("{}\nDry run: nothing was written.\n", job.in_words()));
        return Ok(ExitCode::SUCCESS);
    }
    job.run(call)
}

/// Where the block map of a compressed file goes.
pub(super) fn map(path: &Path) -> Option<PathBuf> {
    let ending = path.extension()?.to_str()?;
    ending.eq_ignore_ascii_case("zst").then(|| path.with_extension("bmap"))
}

impl<'a> Job<'a> {
    fn prepare(args: &'a CloneArgs, source: Source, path: &Path) -> Result<Self> {
        if args.eject || args.gate.unmount || args.gate.force {
            return Err(usage("--eject, --unmount and --force are for devices; TARGET is a file"));
        }
        let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default().to_lowercase();
        if OTHER.contains(&ending.as_str()) {
            return Err(usage(format!("no .{ending} file is made here"))
                .hint("NAME.img is the image itself, NAME.img.zst a compressed one"));
        }
        let map = map(path);
        for file in std::iter::once(path).chain(map.as_deref()) {
            if !args.overwrite && file.symlink_metadata().is_ok() {
                return Err(Error::refused(format!("{} exists", printable_path(file)))
                    .hint("choose another name, or give --overwrite"));
            }
        }
        source.apart(args, &[path])?;
        let (info, plan) = source.planned(args, None)?;
        let warnings = room(path, source.size(), map.is_some()).into_iter().collect();
        Ok(Self { args, source, info, plan, path: path.to_owned(), map, warnings })
    }

    fn in_words(&self) -> String {
        let kind =
            if self.map.is_some() { "compressed (zstd), with a block map" } else { "the image" };
        let mut text = self.source.in_words(&self.info, &self.plan);
        // A String takes every write.
        writeln!(text, "File     {}: {kind}", printable_path(&self.path)).ok();
        for warning in &self.warnings {
            writeln!(text, "Warning  {warning}").ok();
        }
        text
    }

    fn run(self, call: &Call) -> Result<ExitCode> {
        if !self.args.output.quiet && !self.args.output.json {
            ui::talk(self.in_words().trim_end());
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let session = Session::start("clone", call, &clock, printable_path(&self.path))?;
        let done = self.work(&session);
        let done = self.source.still_as_it_was(done);
        Ok(session.end(&done))
    }

    fn work(&self, session: &Session) -> Result<String> {
        for warning in &self.warnings {
            session.cx.events.tell(Notice::BeforeWrite(warning.clone()));
        }
        session.edit(|record| record.source = Some(self.source.record(&self.plan)));
        let image = self.source.image(self.args, (&self.plan, None), session)?;
        let part = Part { path: with_suffix(&self.path, ".part"), invoker: Invoker::current() };
        match &self.map {
            Some(map) => self.compressed(&image, &part, map, session),
            None => self.plain(&image, &part, session),
        }
    }

    fn compressed(
        &self,
        image: &DeviceImage,
        part: &Part,
        map: &Path,
        session: &Session,
    ) -> Result<String> {
        let size = self.plan.size;
        let whole = || Mask::new(std::iter::once(0..size));
        let mask = image.mask().cloned().map_or_else(whole, Ok);
        let mask = mask.map_err(|why| Error::new(Kind::Internal, why))?;
        let file = part.invoker.create(&part.path, CreateMode::Replace)?;
        let saved = save(image, &mask, &file, &session.cx)?;
        let xml = bmap::xml(size, &saved.stretches);
        let read = if self.args.no_verify {
            None
        } else {
            Some(check(&part.path, &xml, &saved, &session.cx)?)
        };
        part.invoker.save_atomically(map, xml.as_bytes())?;
        self.give_its_name(part)?;
        let (image, name) = (Bytes(size), self.source.name());
        let sha256 = saved.sha256;
        Ok(match read {
            Some(read) => format!(
                "{image} of {name} saved as {} and read back: every byte matches; SHA-256 of the image {sha256}, of the file {}",
                Bytes(read.bytes),
                read.sha256
            ),
            None => format!(
                "{image} of {name} saved, not read back (--no-verify); SHA-256 of the image {sha256}"
            ),
        })
    }

    fn plain(&self, image: &DeviceImage, part: &Part, session: &Session) -> Result<String> {
        let name = printable_path(&self.path);
        // A file of an earlier attempt may have data where this one has holes.
        if part.path.symlink_metadata().is_ok() {
            part.invoker.remove(&part.path)?;
        }
        let file = part.invoker.create(&part.path, CreateMode::NewOnly)?;
        let size = self.plan.size;
        file.set_len(size).map_err(|e| {
            Error::io(format!("cannot make {name} {} long", Bytes(size)), e)
                .hint("the filesystem may have no files of this size; NAME.img.zst is shorter")
        })?;
        drop(file);
        let device = FileDevice::open(&part.path, Access::Exclusive)?;
        let plan = FlashPlan {
            transfer: transfer(&self.args.tuning, device.geometry(), false, usual_block(0))?,
            published: Published::default(),
            verify: !self.args.no_verify,
            mask: image.mask().cloned(),
            // The file is new: what is not written is zeros.
            sparse: true,
            changed_only: false,
            discard: DiscardMode::Never,
        };
        session.edit(|record| record.geometry = Some(device.geometry().clone()));
        medium::warn_without_direct_io(session, &device, &name);
        let find = |span: Span| locate(&self.info, span);
        let flashed = flash(image, &device, &plan, &find, &session.cx)?;
        drop(device);
        let name = self.source.name();
        match flashed.media {
            Verdict::NotChecked { reason } if !self.args.no_verify => {
                return Err(Error::new(
                    Kind::Unverified,
                    format!("written, but not verified: {reason}"),
                ));
            }
            _ => {}
        }
        session.edit(|record| record.chunk_map = Some(flashed.map));
        self.give_its_name(part)?;
        let proof = if self.args.no_verify {
            "not read back (--no-verify)"
        } else {
            "read back: every byte matches"
        };
        let sha256 = flashed.digest.proof;
        Ok(format!("{} of {name} saved, {proof}; SHA-256 {sha256}", Bytes(size)))
    }

    fn give_its_name(&self, part: &Part) -> Result<()> {
        let name = self.path.file_name().unwrap_or(OsStr::new(""));
        part.invoker.rename(&part.path, name)
    }
}

/// What is to be told when the folder may have too little room.
fn room(path: &Path, size: u64, compressed: bool) -> Option<String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let free = nix::sys::statvfs::statvfs(folder).ok()?;
    let free = free.blocks_available().saturating_mul(free.fragment_size());
    let but = if compressed { "compressed" } else { "without its zeros" };
    (free < size).then(|| {
        format!(
            "there are {} free where the file goes, and the source has {}: only {but} it may fit",
            Bytes(free),
            Bytes(size)
        )
    })
}
