//! From the word TARGET to a device: looked at, judged, asked about.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{Gate, Tuning};
use super::call::Call;
use super::rootless;
use crate::device::facts::{Bus, Facts, Usb};
use crate::device::file::FileDevice;
use crate::device::handle::Access;
use crate::device::linux::LinuxDevice;
use crate::device::policy::{self, Approved, Purpose, Rules, approve};
use crate::device::probe::System;
use crate::device::sim::{self, spec::Spec};
use crate::device::storage::Storage;
use crate::device::target::{self, check_path};
use crate::device::{BlockDevice, Geometry};
use crate::error::{Context as _, Error, Kind, Result};
use crate::flow::Transfer;
use crate::flow::damage::Located;
use crate::image::{self, ImageInfo, ReadAt, describe_range};
use crate::source::interruptible::Interruptible;
use crate::text::{printable, printable_path};
use crate::time::{Clock, SimClock, SystemClock};
use crate::ui::confirm::confirm;
use crate::units::{Bytes, MIB};

/// A target that was looked at and judged, not opened yet.
#[derive(Debug)]
pub(super) enum Target {
    /// A block device that policy approved.
    Block(Box<Approved>),
    /// A regular file.
    File(PathBuf),
    /// A simulated stick.
    Sim(Box<Spec>),
}

/// An opened target with its clock.
pub(super) struct Opened {
    pub(super) device: Box<dyn BlockDevice>,
    pub(super) clock: Arc<dyn Clock>,
}

/// What a target is judged by.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    pub(super) purpose: Purpose,
    pub(super) gate: &'a Gate,
    pub(super) image_size: Option<u64>,
    pub(super) source: Option<Storage>,
    /// Whether its speed is all that counts.
    pub(super) measures: bool,
}

impl Wish<'_> {
    fn rules(&self, unmount: bool) -> Rules {
        Rules {
            force: self.gate.force,
            unmount,
            freeze: false,
            purpose: self.purpose,
            image_size: self.image_size,
            source: self.source.clone(),
        }
    }

    fn doing(&self) -> &'static str {
        match self.purpose {
            Purpose::Write => "write to",
            Purpose::Discard => "discard",
            Purpose::ReadOnly => "read",
            Purpose::Copy => "copy",
        }
    }
}

/// Looks at a target and judges it. Nothing is opened or created.
pub(super) fn resolve(word: &OsStr, wish: &Wish<'_>) -> Result<Target> {
    if let Some(spec) = word.to_str().and_then(|text| text.strip_prefix("sim:")) {
        let spec = sim::spec::parse(spec).map_err(|why| Error::usage(format!("sim: {why}")))?;
        fits(wish.image_size, spec.size, "the simulated stick")?;
        if !spec.data && !wish.measures {
            return Err(Error::refused(
                "this simulated stick keeps no data: it can only be measured",
            )
            .hint("mediawriter bench; or add data=yes, where its data fits into memory"));
        }
        return Ok(Target::Sim(Box::new(spec)));
    }
    let system = System::host();
    let path = Path::new(word);
    match check_path(&system, path)? {
        target::Kind::Block => judge(&system, path, wish, wish.gate.unmount).map(Target::Block),
        target::Kind::RegularFile => {
            let path = fs::canonicalize(path).context(|| format!("cannot resolve {}", printable_path(path)))?;
            let size = fs::metadata(&path).map_or(0, |meta| meta.len());
            fits(wish.image_size, size, &printable_path(&path))?;
            judge_file(&system, &path, wish)?;
            Ok(Target::File(path))
        }
        target::Kind::Missing => Err(Error::refused(format!("'{}' does not exist", printable_path(path)))
            .hint("`mediawriter devices` lists the sticks; --create SIZE makes a file that stands for one")),
    }
}

fn judge(system: &System, path: &Path, wish: &Wish<'_>, unmount: bool) -> Result<Box<Approved>> {
    let facts = system.facts(path)?;
    let node = facts.path.clone();
    approve(facts, &wish.rules(unmount))
        .map(Box::new)
        .map_err(|refusals| policy::report(wish.doing(), &node, &refusals))
}

/// A file that stands for a stick is judged as one: by who uses it, and by where the source lies. `--unmount`
/// cannot free it: what is mounted from it is mounted through a loop device, which stays.
fn judge_file(system: &System, path: &Path, wish: &Wish<'_>) -> Result<()> {
    let facts = system.file_facts(path)?;
    approve(facts, &wish.rules(false))
        .map(drop)
        .map_err(|refusals| policy::report(wish.doing(), path, &refusals))
}

/// Refuses what is known not to fit.
pub(super) fn fits(image: Option<u64>, has: u64, target: &str) -> Result<()> {
    match image {
        Some(needs) if needs > has => Err(Error::refused(format!(
            "the image does not fit: it has {}, {target} has {}",
            Bytes(needs),
            Bytes(has)
        ))
        .hint("use a larger stick")),
        _ => Ok(()),
    }
}

impl Target {
    /// As messages name it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Block(approved) => printable_path(&approved.facts().path),
            Self::File(path) => printable_path(path),
            Self::Sim(_) => "the simulated stick".to_owned(),
        }
    }

    /// The word that is asked for before a write.
    pub(super) fn word(&self) -> String {
        match self {
            Self::Block(approved) => approved.facts().name.clone(),
            Self::File(_) | Self::Sim(_) => "overwrite".to_owned(),
        }
    }

    /// What is known about it.
    pub(super) fn facts(&self) -> Facts {
        match self {
            Self::Block(approved) => approved.facts().clone(),
            Self::File(path) => Facts {
                path: path.clone(),
                name: path
                    .file_name()
                    .map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
                size: fs::metadata(path).map_or(0, |meta| meta.len()),
                bus: Bus::File,
                ..Facts::default()
            },
            Self::Sim(spec) => Facts {
                name: "sim".to_owned(),
                size: spec.size,
                logical_block: spec.sector,
                bus: Bus::Sim,
                model: Some(spec.model.clone().unwrap_or_else(|| "simulated stick".to_owned())),
                usb: spec.link.map(|speed| Usb {
                    speed_mbit: Some(speed),
                    driver: Some("uas".to_owned()),
                    ..Usb::default()
                }),
                ..Facts::default()
            },
        }
    }

    /// Its node or file; nothing for a simulated stick.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Block(approved) => &approved.facts().path,
            Self::File(path) => path,
            Self::Sim(_) => Path::new(""),
        }
    }

    /// What it is and lies on; nothing that a simulated stick shares with anything.
    pub(super) fn storage(&self) -> Storage {
        match self {
            Self::Block(approved) => approved.facts().storage.clone(),
            Self::File(path) => System::host().storage(path).unwrap_or_default(),
            Self::Sim(_) => Storage::default(),
        }
    }

    /// Sector size in bytes.
    pub(super) fn sector(&self) -> u32 {
        match self {
            Self::Block(approved) => approved.facts().logical_block,
            Self::File(_) => 512,
            Self::Sim(spec) => spec.sector,
        }
    }

    /// Whether time is simulated with it.
    pub(super) fn is_simulated(&self) -> bool {
        matches!(self, Self::Sim(_))
    }

    /// Judges a device again: after the person answered, and after filesystems were unmounted.
    pub(super) fn judge_again(self, wish: &Wish<'_>, unmount: bool) -> Result<Self> {
        let system = System::host();
        let before = match self {
            Self::Block(before) => before,
            Self::File(path) => {
                judge_file(&system, &path, wish)?;
                return Ok(Self::File(path));
            }
            Self::Sim(_) => return Ok(self),
        };
        let path = before.facts().path.clone();
        let now = judge(&system, &path, wish, unmount)?;
        policy::same(&before.identity(), &now.identity()).map_err(|change| {
            Error::refused(format!("{}: {change}", printable_path(&path)))
                .hint("list the devices again (mediawriter devices) and start over")
        })?;
        Ok(Self::Block(now))
    }

    /// Unmounts what `--unmount` allowed to be unmounted; returns the mount points.
    pub(super) fn unmount(&self) -> Result<Vec<PathBuf>> {
        let Self::Block(approved) = self else { return Ok(vec![]) };
        let mut done = Vec::new();
        for (node, at) in approved.to_unmount() {
            rootless::unmount(node, at)?;
            done.push(at.to_owned());
        }
        Ok(done)
    }

    /// Opens it for what it was judged for.
    pub(super) fn open(&self, purpose: Purpose, call: &Call) -> Result<Opened> {
        let system_clock = || Arc::new(SystemClock::start());
        match self {
            Self::Block(approved) => {
                let open =
                    |path: &Path, access, flags| rootless::open(path, access, flags, &call.words);
                let device = LinuxDevice::open_by(approved, System::host(), &open)?;
                Ok(Opened { device: Box::new(device), clock: system_clock() })
            }
            Self::File(path) => {
                let access =
                    if purpose == Purpose::ReadOnly { Access::Read } else { Access::Exclusive };
                Ok(Opened {
                    device: Box::new(FileDevice::open(path, access)?),
                    clock: system_clock(),
                })
            }
            Self::Sim(spec) => {
                let clock = Arc::new(SimClock::default());
                Ok(Opened { device: sim::build(spec, &clock), clock })
            }
        }
    }
}

/// Asks the person, unless `--yes` was given. A simulated stick holds nothing.
pub(super) fn ask(
    question: &str,
    target: &Target,
    gate: &Gate,
    stdin_is_source: bool,
    call: &Call,
) -> Result<()> {
    if target.is_simulated() {
        return Ok(());
    }
    ask_for(question, &target.word(), gate, stdin_is_source, call)
}

/// Asks the person for a word, unless `--yes` was given.
pub(super) fn ask_for(
    question: &str,
    word: &str,
    gate: &Gate,
    stdin_is_source: bool,
    call: &Call,
) -> Result<()> {
    let cancel = &call.cancel;
    if gate.yes {
        return Ok(());
    }
    let refused = || {
        Error::refused("nobody can be asked: there is no terminal, and --yes was not given")
            .hint("in scripts, check the target yourself and pass --yes")
    };
    let terminal = if stdin_is_source {
        let options = fs::OpenOptions::new().read(true).write(true).open("/dev/tty");
        if !io::stderr().is_terminal() {
            return Err(refused());
        }
        Interruptible::new(options.map_err(|_| refused())?, cancel.clone())
    } else if io::stdin().is_terminal() {
        Interruptible::stdin(cancel.clone())
            .context(|| "cannot read from the terminal".to_owned())?
    } else {
        return Err(refused());
    };
    let answer = confirm(question, word, &mut BufReader::new(terminal), &mut io::stderr());
    cancel.check()?;
    match answer {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::refused("not confirmed; nothing was written")),
        Err(error) => Err(Error::io("cannot ask on the terminal", error)),
    }
}

/// Bytes per I/O where nobody said another number. Beside the dictionary of `xz -9` (64 MiB) smaller
/// buffers keep the whole below 96 MiB.
pub(super) fn usual_block(decoding: u64) -> u64 {
    if decoding > 32 * MIB { 2 * MIB } else { 4 * MIB }
}

/// The typed tuning as a transfer; `usual` bytes per I/O where none were typed.
pub(super) fn transfer(
    typed: &Tuning,
    geometry: &Geometry,
    simulated: bool,
    usual: u64,
) -> Result<Transfer> {
    let sector = u64::from(geometry.logical_block);
    let block = typed.block_size.map_or(usual, |size| size.0);
    if block == 0 || !block.is_multiple_of(sector.max(512)) || block > 64 * MIB {
        return Err(Error::usage(format!(
            "--block-size {} must be a multiple of the sector size, {sector} bytes, and at most 64 MiB",
            Bytes(block)
        )));
    }
    // One writer on a virtual clock: with two, the order in which threads run would show.
    let depth = typed.queue_depth.map_or(if simulated { 1 } else { 2 }, usize::from);
    Ok(Transfer {
        block: usize::try_from(block).map_err(|_| Error::new(Kind::Internal, "block size"))?,
        adapt: typed.block_size.is_none(),
        queue_depth: depth,
    })
}

/// Says where a range lies, by what is known of the image.
pub(super) fn locate(info: &ImageInfo, span: crate::event::Span) -> Located {
    let places = describe_range(info, span.offset..span.end());
    let mut words: Vec<String> = Vec::new();
    for place in &places {
        let word = place.place.to_string();
        if !words.contains(&word) && words.len() < 3 {
            words.push(word);
        }
    }
    let changed_by_systems =
        !places.is_empty() && places.iter().all(|p| p.place.changes_on_mount());
    Located { words: printable(&words.join(", ")), changed_by_systems }
}

/// What is on a medium, for locating ranges when the image itself cannot be looked at.
pub(super) fn inspect_medium(medium: &dyn ReadAt) -> Option<ImageInfo> {
    image::inspect(medium, "").ok()
}
