//! A Windows install ISO as SOURCE: its files become an image that fits the target, and are
//! compared with the medium file by file.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::args::{FilesystemWord, TableWord, WindowsMedia, WindowsOption};
use super::source::Image;
use super::usage;
use super::windows_ntfs::Unmade;
use crate::cancel::CancelToken;
use crate::device::BlockDevice;
use crate::device::look::Look;
use crate::digest::{Digest, Hasher};
use crate::error::{Error, Kind, Result};
use crate::event::notice::Notice;
use crate::event::{Event, Phase, Verdict};
use crate::flow::Context;
use crate::image::ReadAt;
use crate::meter::Meter;
use crate::source::Source;
use crate::text::{printable, printable_path};
use crate::time::unix_time;
use crate::units::Bytes;
use crate::windows::check::{Report, Status, check};
use crate::windows::compose::{Added, Body, Options, Origin, Plan, host_file, plan};
use crate::windows::composed::ComposedSource;
use crate::windows::placed::misplaced;
use crate::windows::stamp::{self, Stamp};
use crate::windows::table::{Device, Kind as Table};
use crate::windows::tree::{Disc, DiscFile, IsoDisc};
use crate::windows::unattend::{self, Arch};
use crate::windows::volume;
use crate::windows::wim::Wim;

/// Files and folders that may be added; more are a mistake.
const MOST_ADDED: usize = 100_000;
/// Differences that are told one by one.
const TOLD: usize = 20;

/// What a stick is made of.
#[derive(Debug)]
pub(super) struct Media {
    pub(super) plan: Plan,
    /// For the person who has to say yes.
    pub(super) words: Vec<String>,
    /// An NTFS volume that is to be made before anything is written.
    ntfs: Option<Unmade>,
}

/// Reads the image at any offset; it has to be a file.
#[derive(Debug)]
struct Shared(Arc<dyn Source>);

impl ReadAt for Shared {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let image = self.0.positional().ok_or(io::ErrorKind::Unsupported)?;
        image.read_at(offset, buf)
    }

    fn size(&self) -> Option<u64> {
        self.0.info().len
    }
}

/// The disc in an image that can be read at any offset.
fn disc(source: Arc<dyn Source>) -> Result<Arc<dyn Disc>> {
    let name = source.info().name.clone();
    if source.positional().is_none() {
        return Err(Error::refused(format!(
            "{name} is a Windows install ISO: its files are put on the stick one by one, so it has to \
             be a file on this machine that is not packed"
        ))
        .hint("mediawriter download SOURCE -o Windows.iso, or unpack it; then flash the file"));
    }
    Ok(Arc::new(IsoDisc::open(Arc::new(Shared(source)), &name)?))
}

/// The image of a stick of this size, with the files of the ISO and those that are added.
pub(super) fn compose(
    image: Image,
    args: &WindowsMedia,
    device: Device,
    label: Option<&str>,
    cancel: &CancelToken,
) -> Result<(Image, Media)> {
    let proven = prove(&image, cancel)?;
    let source = image.shared();
    let disc = disc(Arc::clone(&source))?;
    let options = Options {
        device,
        table: match args.table {
            TableWord::Auto | TableWord::Gpt => Table::Gpt,
            TableWord::Mbr => Table::Mbr,
        },
        label: args.label.clone().or(label.map(str::to_owned)).unwrap_or_else(|| "WINDOWS".into()),
        seed: seed(),
        part_limit: args.split_size.map(|size| size.0),
    };
    let (mut words, arch) = editions(&*disc);
    let mut added = added(args)?;
    added.extend(answers(args, arch)?);
    let name = source.info().name.clone();
    if let Some(file) = boot_file(args)? {
        let unmade = Unmade::new((disc, name), &added, options, (file, args.temp_dir.as_deref()))?;
        let (composed, plan) = unmade.outline()?;
        words.extend(unmade.words(&plan));
        let image = image.composed(composed, proven, plan.notes.clone())?;
        return Ok((image, Media { plan, words, ntfs: Some(unmade) }));
    }
    let plan = plan(&*disc, &added, &options)?;
    words.push(loaders(&*disc));
    words.extend(contents(&plan, &options));
    let composed = ComposedSource::new(&plan, disc, &name)?;
    let image = image.composed(composed, proven, plan.notes.clone())?;
    Ok((image, Media { plan, words, ntfs: None }))
}

/// The file that boots an NTFS stick, where it is to be one.
fn boot_file(args: &WindowsMedia) -> Result<Option<&Path>> {
    match (args.filesystem, &args.uefi_ntfs) {
        (Some(FilesystemWord::Fat32), Some(_)) => {
            Err(usage("--uefi-ntfs is for --filesystem ntfs").hint("FAT32 boots by itself"))
        }
        (_, file) => Ok(file.as_deref()),
    }
}

/// The image that is written, once its NTFS volume is made where it has one.
pub(super) fn finished(image: Image, media: &Media, cx: &Context) -> Result<Image> {
    let Some(unmade) = &media.ntfs else { return Ok(image) };
    let proven = image.published().proven;
    image.composed(unmade.make(cx)?, proven, Vec::new())
}

/// Compares the whole ISO with what was published of it, before anything is made of it. Bytes.
fn prove(image: &Image, cancel: &CancelToken) -> Result<Option<u64>> {
    let published = image.published();
    let wanted = published.file.or(published.image.map(Digest::Sha256));
    let Some(wanted) = wanted else { return Ok(None) };
    let (mut reader, mut hasher) = (image.source().open()?, Hasher::default());
    let (mut buf, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        cancel.check()?;
        let n = match reader.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::from_read(e, &image.source().info().name)),
        };
        hasher.update(&buf[..n]);
        bytes += n as u64;
    }
    let sha256 = Digest::Sha256(hasher.finish());
    let has = match image.source().file() {
        Some(file) => file.like(&wanted),
        None => Some(sha256).filter(|has| has.algorithm() == wanted.algorithm()),
    };
    if has == Some(wanted) {
        return Ok(Some(bytes));
    }
    Err(Error::new(
        Kind::SourceMismatch,
        format!(
            "{} is not the published one: expected {} {wanted}, it has {}; nothing was written",
            image.source().info().name,
            wanted.algorithm(),
            has.unwrap_or(sha256)
        ),
    )
    .hint("download it again, and compare the digest's file name and version with the ISO's"))
}

/// Identifiers of two sticks must differ, or Windows takes one of them off line. The keys of the
/// standard library's hash maps are random.
pub(super) fn seed() -> [u8; 16] {
    let half = || RandomState::new().hash_one(0_u8).to_le_bytes();
    let (low, high) = (half(), half());
    std::array::from_fn(|at| if at < 8 { low[at] } else { high[at - 8] })
}

/// What the person adds to the files of the ISO.
fn added(args: &WindowsMedia) -> Result<Vec<Added>> {
    let mut all = Vec::new();
    if let Some(path) = &args.unattend {
        let mut file = host_file(path.clone(), "autounattend.xml".to_owned(), mtime(path))?;
        if let Body::Host(_, len) = &file.body {
            answer_file(path, *len)?;
        }
        file.replaces = args.replace_unattend;
        all.push(file);
    }
    for (folder, at) in [(&args.add, ""), (&args.drivers, "$WinPEDriver$/")] {
        if let Some(folder) = folder {
            walk(folder, at, &mut all)?;
        }
    }
    Ok(all)
}

/// The answer file for `--windows-options`.
fn answers(args: &WindowsMedia, arch: Option<Arch>) -> Result<Option<Added>> {
    let mut options = unattend::Options::default();
    for option in &args.windows_options {
        match option.clone() {
            WindowsOption::NoChecks => options.bypass_checks = true,
            WindowsOption::Account(name) => options.account = Some(name),
            WindowsOption::NoOnlineAccount => options.no_online_account = true,
            WindowsOption::NoDataCollection => options.no_data_collection = true,
            WindowsOption::NoBitlocker => options.no_bitlocker = true,
            WindowsOption::Locale(value) => {
                options.locale = Some(value.or_else(own_locale).ok_or_else(|| {
                    usage("this computer names no locale (LC_ALL, LANG)").hint("locale=de-AT")
                })?);
            }
            WindowsOption::Zone(value) => {
                options.zone = Some(value.or_else(own_zone).ok_or_else(|| {
                    usage("this computer's time zone is not known").hint("zone=Europe/Vienna")
                })?);
            }
        }
    }
    let arch = arch.unwrap_or(Arch::Amd64);
    let Some(unattend::Answers { path, xml }) = unattend::answers(&options, arch)? else {
        return Ok(None);
    };
    let mtime = i64::from(unix_time());
    Ok(Some(Added {
        path: path.to_owned(),
        body: Body::Bytes(xml.into_bytes()),
        mtime,
        replaces: args.replace_unattend,
    }))
}

fn own_locale() -> Option<String> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let word = named("LC_ALL").or_else(|| named("LANG"))?;
    unattend::locale_of(&word)
}

/// localtime(5): the link says which zone it is.
fn own_zone() -> Option<String> {
    let link = fs::read_link("/etc/localtime").ok()?;
    unattend::zone_of(link.to_str()?).map(str::to_owned)
}

/// Setup passes over an answer file that it cannot read without a word.
fn answer_file(path: &Path, len: u64) -> Result<()> {
    let name = printable_path(path);
    let wrong = |why: String| {
        usage(format!("--unattend {name}: {why}")).hint("an answer file is XML: <unattend ...>")
    };
    if len > 1 << 20 {
        return Err(wrong(format!("it has {len} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let document = roxmltree::Document::parse(text.trim_start_matches('\u{feff}'));
    let document = document.map_err(|e| wrong(printable(&e.to_string())))?;
    let root = document.root_element().tag_name().name();
    if root != "unattend" {
        return Err(wrong(format!("its outermost element is <{}>", printable(root))));
    }
    Ok(())
}

/// All files below a folder, in the order of their names; no links are followed.
fn walk(folder: &Path, at: &str, all: &mut Vec<Added>) -> Result<()> {
    let read = |e: io::Error| Error::io(format!("cannot read {}", printable_path(folder)), e);
    let entries = fs::read_dir(folder).map_err(read)?.collect::<io::Result<Vec<_>>>();
    let mut entries = entries.map_err(read)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let Ok(name) = entry.file_name().into_string() else {
            return Err(usage(format!("{} is no name for Windows", printable_path(&path))));
        };
        let kind = entry.file_type().map_err(read)?;
        let to = format!("{at}{name}");
        if kind.is_dir() {
            walk(&path, &format!("{to}/"), all)?;
        } else if kind.is_file() {
            let time = mtime(&path);
            all.push(host_file(path, to, time)?);
        } else {
            return Err(usage(format!("{} is no file and no folder", printable_path(&path)))
                .hint("links are not followed; copy what they point to"));
        }
        if all.len() > MOST_ADDED {
            return Err(usage(format!("more than {MOST_ADDED} files are to be added")));
        }
    }
    Ok(())
}

fn mtime(path: &Path) -> i64 {
    let time = fs::metadata(path).and_then(|meta| meta.modified());
    let since = time.ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or(0)
}

/// What can be installed, and on which computers, as the image says itself.
fn editions(disc: &dyn Disc) -> (Vec<String>, Option<Arch>) {
    let is_install = |path: &str| {
        let path = format!("/{}", path.to_ascii_lowercase());
        ["wim", "esd", "swm"].iter().any(|end| path.ends_with(&format!("/sources/install.{end}")))
    };
    let (mut words, mut arch) = (Vec::new(), None);
    for (file, node) in disc.nodes().iter().enumerate() {
        let Some(len) = node.len.filter(|_| is_install(&node.path)) else { continue };
        let wim = Wim::load(&DiscFile { disc, file }, len);
        let found = wim.ok().and_then(|wim| wim.editions().ok()).unwrap_or_default();
        let solid = if node.path.to_ascii_lowercase().ends_with("esd") { ", an ESD" } else { "" };
        words.push(format!("{} ({}{solid})", printable(&node.path), Bytes(len)));
        words.extend(found.iter().map(ToString::to_string));
        arch = arch.or_else(|| match found.first()?.arch.as_str() {
            "arm64" => Some(Arch::Arm64),
            "x86" => Some(Arch::X86),
            _ => Some(Arch::Amd64),
        });
    }
    (words, arch)
}

/// Which computers find something to boot.
fn loaders(disc: &dyn Disc) -> String {
    let named =
        disc.nodes().iter().filter_map(|node| match node.path.to_ascii_lowercase().as_str() {
            "efi/boot/bootx64.efi" => Some("x86-64"),
            "efi/boot/bootaa64.efi" => Some("ARM64"),
            "efi/boot/bootia32.efi" => Some("x86 (32 bits)"),
            _ => None,
        });
    let named: Vec<&str> = named.collect();
    match named[..] {
        [] => "no UEFI boot loader: it will not boot".to_owned(),
        _ => format!("boots computers with UEFI and {}; not the old BIOS", named.join(", ")),
    }
}

/// What the stick will be.
fn contents(plan: &Plan, options: &Options) -> Vec<String> {
    listed(plan, options.table, "FAT32")
}

pub(super) fn listed(plan: &Plan, table: Table, filesystem: &str) -> Vec<String> {
    let table = match table {
        Table::Gpt => "GPT",
        Table::Mbr => "MBR",
    };
    let bytes = plan.files.iter().map(|file| file.len).sum();
    let files = plan.files.len();
    let mut words = vec![format!("{table}, {filesystem}; {files} files, {}", Bytes(bytes))];
    for (origin, what) in [(Origin::Part, "part"), (Origin::Added, "added by mediawriter")] {
        let of = plan.files.iter().filter(|file| file.origin == origin).take(TOLD);
        words.extend(
            of.map(|file| format!("{what}: {} ({})", printable(&file.path), Bytes(file.len))),
        );
    }
    words
}

/// After a write whose every byte was read back: the medium's own directories and chains must lead
/// to the places whose bytes are proven.
pub(super) fn find_files(media: &Media, device: &dyn BlockDevice, cx: &Context) -> Result<()> {
    let plan = &media.plan;
    if media.ntfs.is_some() {
        let files = plan.files.len();
        cx.events.tell(Notice::FilesFoundBefore { files });
        return Ok(());
    }
    let wrong = cx.timed(Phase::Files, |meter| {
        misplaced(&Counted { medium: Look(device), meter }, plan.start, &plan.files)
    })?;
    if wrong.is_empty() {
        cx.events.tell(Notice::FilesFound { files: plan.files.len() });
        return Ok(());
    }
    wrong.iter().take(TOLD).for_each(|why| cx.events.tell(Notice::Misplaced(printable(why))));
    Err(Error::new(
        Kind::MediaMismatch,
        format!("{} files are not where they were written", wrong.len()),
    )
    .hint("this is an error of mediawriter or of the medium: verify it, and write it again"))
}

/// `verify TARGET Windows.iso`: each file of the ISO against the one on the medium.
pub(super) fn verify(source: &Image, device: &dyn BlockDevice, cx: &Context) -> Result<Verdict> {
    device.invalidate_cache().map_err(|e| {
        Error::io(format!("the host's cache of {} could not be dropped", cx.target), e)
    })?;
    let disc = disc(source.shared())?;
    let stamp = read_stamp(device, cx)?;
    let geometry = device.geometry();
    let shape = Device { size: geometry.size, sector: geometry.logical_block };
    if stamp.boot.is_some() {
        let report = cx.timed(Phase::Verify, |meter| {
            volume::check(&Counted { medium: Look(device), meter }, &*disc, shape, &stamp)
        })?;
        let bytes = disc.nodes().iter().filter_map(|node| node.len).sum();
        return Ok(told(&report, bytes, cx));
    }
    let options = Options {
        device: shape,
        table: stamp.table,
        label: String::new(),
        seed: stamp.seed,
        part_limit: stamp.part_limit,
    };
    let plan = plan(&*disc, &[], &options)?;
    let image = ComposedSource::new(&plan, disc, &source.source().info().name)?;
    let report = cx.timed(Phase::Verify, |meter| {
        let medium = Counted { medium: Look(device), meter };
        check(&medium, plan.start, &plan.files, &*image.preview())
    })?;
    let bytes = plan.files.iter().map(|file| file.len).sum();
    Ok(told(&report, bytes, cx))
}

fn told(report: &Report, bytes: u64, cx: &Context) -> Verdict {
    let verdict = judge(report, bytes, cx);
    cx.events.emit(Event::MediaVerdict(verdict.clone()));
    verdict
}

fn read_stamp(device: &dyn BlockDevice, cx: &Context) -> Result<Stamp> {
    let mut bytes = [0; stamp::LEN];
    let failed = |e| Error::io(format!("cannot read {}", cx.target), e).at(stamp::AT, 512);
    Look(device).read_at(stamp::AT, &mut bytes).map_err(failed)?;
    Stamp::parse(&bytes).ok_or_else(|| {
        Error::new(
            Kind::MediaMismatch,
            format!("{} is no Windows stick that mediawriter made", cx.target),
        )
        .hint("how its files were split is not known; only sticks made here can be compared")
    })
}

fn judge(report: &Report, bytes: u64, cx: &Context) -> Verdict {
    let mut findings = report.damage.clone();
    for (path, status) in &report.files {
        let path = printable(path);
        findings.extend(match status {
            Status::Same => None,
            Status::Missing => Some(format!("{path} is missing")),
            Status::Differs { first } => Some(format!("{path} differs from its byte {first} on")),
            Status::Unreadable { first, why } => {
                Some(format!("{path} cannot be read from its byte {first} on: {why}"))
            }
        });
    }
    for system in [true, false] {
        let extras: Vec<String> = report
            .extras
            .iter()
            .filter(|extra| extra.system == system)
            .map(|extra| printable(&extra.path))
            .collect();
        if let Some(first) = extras.first() {
            let (first, more) = (first.clone(), extras.len() - 1);
            cx.events.tell(if system {
                Notice::SystemFiles { first, more }
            } else {
                Notice::OtherFiles { first, more }
            });
        }
    }
    if findings.is_empty() {
        return Verdict::Matched { bytes };
    }
    let ranges = findings.len() as u64;
    if findings.len() > TOLD {
        let more = findings.len() - TOLD;
        findings.truncate(TOLD);
        findings.push(format!("and {more} more files"));
    }
    Verdict::Mismatched { bad_bytes: 0, ranges, findings }
}

/// The medium, its reads counted.
struct Counted<'a> {
    medium: Look<'a>,
    meter: &'a Meter,
}

impl ReadAt for Counted<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len() as u64;
        self.meter.observe(len, || self.medium.read_at(offset, buf))
    }

    fn size(&self) -> Option<u64> {
        self.medium.size()
    }
}

/// Whether anything was said that has a meaning for Windows media alone.
pub(super) fn is_wanted(args: &WindowsMedia) -> bool {
    let WindowsMedia {
        table,
        filesystem,
        uefi_ntfs,
        temp_dir,
        label,
        split_size,
        add,
        drivers,
        unattend,
        windows_options,
        replace_unattend,
    } = args;
    let paths = |path: &Option<PathBuf>| path.is_some();
    *table != TableWord::Auto
        || filesystem.is_some()
        || paths(uefi_ntfs)
        || paths(temp_dir)
        || label.is_some()
        || split_size.is_some()
        || paths(add)
        || paths(drivers)
        || paths(unattend)
        || !windows_options.is_empty()
        || *replace_unattend
}
