//! Reads NTFS, by another hand than the one that wrote it: which clusters are in use, and each file,
//! found through the indexes of the folders, against what it was to be.
//!
//! Owns: the walk and its limits, because a medium may be damaged. Must not write.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::ntfs::structured_values::{NtfsFileNamespace, NtfsIndexRoot};
use ::ntfs::{
    KnownNtfsFileRecordNumber, Ntfs, NtfsAttributeType, NtfsError, NtfsFile, NtfsReadSeek,
};

use super::check::{Extra, Report, STEP, Status, is_system};
use super::fat32::key;
use crate::error::{Error, Kind, Result};
use crate::image::{ReadAt, View};
use crate::text::printable;

/// Files and folders; a medium that names more is damaged.
const FILES: usize = 400_000;
/// Bytes of a path: names have up to 255 units, and a circle of folders has an end.
const PATH: usize = 32_768;
/// Files of the file system itself: `$MFT`, the root, `$Extend` and the like.
const OWN_FILES: u64 = 16;
/// Records and indexes are read in small pieces, from so many bytes at a time.
const WINDOW: u64 = 64 << 10;
/// Bytes that are read of a folder; one of [`FILES`] names takes less. A damaged index leads into a
/// circle, in which the crate goes round for ever and keeps every node.
const FOLDER: u64 = 256 << 20;
/// Bytes that are read of all folders together.
const FOLDERS: u64 = 4 << 30;
/// Bytes that are read around the data of a file.
const STRUCTURES: u64 = 16 << 20;
/// Bytes of all paths together: a damaged medium makes them longer and longer.
const NAMES: usize = 256 << 20;
/// Bytes of a node of an index: 4096 everywhere. The crate reserves what the medium says.
const NODE: u32 = 64 << 10;

/// What a volume is to have.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// From the root, not escaped.
    pub path: &'a str,
    /// The bytes of a file; `None`: a folder.
    pub bytes: Option<&'a dyn ReadAt>,
}

impl std::fmt::Debug for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wanted").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A file or a folder that the volume has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    path: String,
    record: u64,
    folder: bool,
}

/// A volume on a medium or in a file.
pub struct Volume<'a> {
    bytes: Stream<'a>,
    ntfs: Ntfs,
}

impl std::fmt::Debug for Volume<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("ntfs", &self.ntfs).finish_non_exhaustive()
    }
}

impl<'a> Volume<'a> {
    /// The volume that fills this range of a medium.
    pub fn open(medium: &'a dyn ReadAt, range: Range<u64>) -> Result<Self> {
        let mut bytes = Stream {
            view: View::new(medium),
            at: 0,
            window: (0, Vec::new()),
            range: range.clone(),
            left: STRUCTURES,
        };
        match survived(|| Ntfs::new(&mut bytes)) {
            Ok(ntfs) => Ok(Self { bytes, ntfs }),
            Err(NtfsError::Io(e)) if e.raw_os_error().is_some() => {
                Err(Error::from_read(e, "on the medium"))
            }
            Err(_) => {
                let what = "there is no NTFS volume where one was written";
                Err(Error::new(Kind::MediaMismatch, what).at(range.start, 512))
            }
        }
    }

    /// The stretches of the volume that are in use: clusters by `$Bitmap`, and the copy of the boot
    /// sector behind the last cluster.
    pub fn used(&mut self) -> Result<Vec<Range<u64>>> {
        let cluster = u64::from(self.ntfs.cluster_size());
        let end = self.bytes.range.end - self.bytes.range.start;
        let clusters = self.ntfs.size().min(end) / cluster;
        let bitmap =
            survived(|| self.bitmap(clusters)).map_err(|e| self.unreadable("$Bitmap", &e))?;
        let bits = bitmap.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        let mut used: Vec<Range<u64>> = Vec::new();
        // Bits behind the last cluster are set as well.
        let clusters = (0..clusters).zip(bits).filter(|(_, used)| *used);
        let copy = end.saturating_sub(u64::from(self.ntfs.sector_size()))..end;
        let ranges = clusters.map(|(number, _)| number * cluster..(number + 1) * cluster);
        for range in ranges.chain([copy]) {
            match used.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => used.push(range),
            }
        }
        Ok(used)
    }

    /// The bits of so many clusters.
    fn bitmap(&mut self, clusters: u64) -> ::ntfs::Result<Vec<u8>> {
        let number = KnownNtfsFileRecordNumber::Bitmap as u64;
        self.bytes.left = STRUCTURES.saturating_add(clusters);
        let file = self.ntfs.file(&mut self.bytes, number)?;
        let mut out = Vec::new();
        read_all(&file, &mut self.bytes, |piece| {
            out.extend_from_slice(piece);
            (out.len() as u64) < clusters.div_ceil(8)
        })?;
        Ok(out)
    }

    fn unreadable(&self, what: &str, e: &NtfsError) -> Error {
        let at = self.bytes.range.start;
        Error::new(Kind::MediaMismatch, format!("{what} of the NTFS volume cannot be read: {e}"))
            .at(at, self.bytes.range.end - at)
    }

    /// Everything that the folders lead to, and what is wrong with them.
    fn list(&mut self) -> (Vec<Found>, Vec<String>) {
        let root = KnownNtfsFileRecordNumber::RootDirectory as u64;
        let (mut found, mut damage) = (Vec::new(), Vec::new());
        let (mut folders, mut seen) = (vec![(String::new(), root)], HashSet::from([root]));
        let (mut names, mut left) = (0, FOLDERS);
        while let Some((path, record)) = folders.pop() {
            let shown = if path.is_empty() { "the root folder".to_owned() } else { path.clone() };
            let before = found.len();
            let allowed = FOLDER.min(left);
            self.bytes.left = allowed;
            let listed = survived(|| self.folder(&path, record, &mut found));
            left -= allowed - self.bytes.left;
            if let Err(e) = listed {
                damage.push(format!("{shown} cannot be read: {e}"));
            }
            names += found[before..].iter().map(|entry| entry.path.len()).sum::<usize>();
            if found.len() > FILES || names > NAMES {
                damage.push(format!("{shown}: more than {FILES} files, or names without end"));
                break;
            }
            for entry in found[before..].iter().filter(|entry| entry.folder) {
                if entry.path.len() > PATH || !seen.insert(entry.record) {
                    damage.push(format!("{} leads into a circle", entry.path));
                } else {
                    folders.push((entry.path.clone(), entry.record));
                }
            }
        }
        (found, damage)
    }

    fn folder(&mut self, path: &str, record: u64, all: &mut Vec<Found>) -> ::ntfs::Result<()> {
        let folder = self.ntfs.file(&mut self.bytes, record)?;
        if node_size(&folder)? > NODE {
            return Err(damaged("a node of its index is too large"));
        }
        let index = folder.directory_index(&mut self.bytes)?;
        let mut entries = index.entries();
        let mut names = 0;
        while let Some(entry) = entries.next(&mut self.bytes) {
            let entry = entry?;
            let Some(name) = entry.key().transpose()? else { continue };
            let record = entry.file_reference().file_record_number();
            // A short name stands beside the long one, for the same file.
            if record < OWN_FILES || name.namespace() == NtfsFileNamespace::Dos {
                continue;
            }
            let own = name.name().to_string_lossy();
            let path = if path.is_empty() { own } else { format!("{path}/{own}") };
            names += path.len();
            all.push(Found { path, record, folder: name.is_directory() });
            if all.len() > FILES || names > NAMES {
                break;
            }
        }
        Ok(())
    }

    /// A file of the volume against the bytes that it was to have.
    fn compare(&mut self, record: u64, wanted: &dyn ReadAt) -> io::Result<Status> {
        let (view, len) = (View::new(wanted), wanted.size().unwrap_or(0));
        let (mut at, mut other, mut failed) = (0, None, None);
        self.bytes.left = STRUCTURES.saturating_add(len.saturating_mul(2));
        let read = survived(|| {
            let file = self.ntfs.file(&mut self.bytes, record)?;
            read_all(&file, &mut self.bytes, |piece| {
                match view.some(at, piece.len()) {
                    Ok(want) if want == piece => at += piece.len() as u64,
                    Ok(want) => {
                        let same = piece.iter().zip(&want).take_while(|(a, b)| a == b).count();
                        other = Some(at + same as u64);
                    }
                    Err(e) => failed = Some(e),
                }
                other.is_none() && failed.is_none()
            })
        });
        if let Some(e) = failed {
            return Err(e);
        }
        Ok(match (read, other) {
            (_, Some(first)) => Status::Differs { first },
            (Err(e), None) => Status::Unreadable { first: at, why: e.to_string() },
            (Ok(()), None) if at == len => Status::Same,
            (Ok(()), None) => Status::Differs { first: at },
        })
    }

    /// Compares the volume with what it was to have.
    pub fn check(&mut self, wanted: &[Wanted<'_>]) -> Result<Report> {
        let (found, damage) = self.list();
        let mut report = Report { damage, ..Report::default() };
        let mut left: HashMap<String, &Found> =
            found.iter().map(|found| (key(&found.path), found)).collect();
        for Wanted { path, bytes } in wanted {
            let status = match (left.remove(&key(path)), bytes) {
                (Some(found), Some(bytes)) if !found.folder => {
                    self.compare(found.record, *bytes)
                        .map_err(|e| Error::from_read(e, &printable(path)))?
                }
                (Some(found), None) if found.folder => Status::Same,
                _ => Status::Missing,
            };
            report.files.push(((*path).to_owned(), status));
        }
        let mut extras: Vec<Extra> = left
            .into_values()
            .filter(|found| !found.folder)
            .map(|found| Extra { path: found.path.clone(), system: is_system(&found.path) })
            .collect();
        extras.sort_by(|a, b| a.path.cmp(&b.path));
        report.extras = extras;
        Ok(report)
    }
}

/// The crate panics at some damaged indexes (slices out of range, in `index_entry.rs` of 0.4.0). That
/// is damage of the medium like any other; nothing of the reader's state outlives the call.
fn survived<T>(act: impl FnOnce() -> ::ntfs::Result<T>) -> ::ntfs::Result<T> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err(damaged("its structures are damaged")))
}

fn damaged(what: &'static str) -> NtfsError {
    NtfsError::Io(io::Error::new(ErrorKind::InvalidData, what))
}

/// Bytes of a node of a folder's index, as its root has them.
fn node_size(folder: &NtfsFile<'_>) -> ::ntfs::Result<u32> {
    for attribute in folder.attributes_raw() {
        let attribute = attribute?;
        if attribute.ty()? == NtfsAttributeType::IndexRoot {
            let root: NtfsIndexRoot<'_> = attribute.resident_structured_value()?;
            return Ok(root.index_record_size());
        }
    }
    Ok(0)
}

/// Hands out a file's bytes in pieces, as long as they are wanted.
fn read_all(
    file: &NtfsFile<'_>,
    bytes: &mut Stream<'_>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> ::ntfs::Result<()> {
    let data = file.data(bytes, "").ok_or_else(|| damaged("it has no data"))??;
    let mut value = data.to_attribute()?.value(bytes)?;
    let mut buf = vec![0; usize::try_from(STEP).unwrap_or(1 << 20)];
    loop {
        match value.read(bytes, &mut buf) {
            Ok(0) => return Ok(()),
            Ok(n) if take(&buf[..n]) => {}
            Ok(_) => return Ok(()),
            Err(NtfsError::Io(e)) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// A range of a medium as a stream.
struct Stream<'a> {
    view: View<'a>,
    range: Range<u64>,
    at: u64,
    /// Bytes that were read, and where they begin.
    window: (u64, Vec<u8>),
    /// Bytes that may still be read for what is being done.
    left: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let room = (self.range.end - self.range.start).saturating_sub(self.at);
        let len = usize::try_from(room).unwrap_or(buf.len()).min(buf.len());
        let left = self.left.checked_sub(len as u64);
        self.left = left.ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidData, "its structures lead into a circle")
        })?;
        if len as u64 >= WINDOW {
            let got = self.view.some(self.range.start + self.at, len)?;
            buf[..got.len()].copy_from_slice(&got);
            self.at += got.len() as u64;
            return Ok(got.len());
        }
        if len == 0 {
            return Ok(0);
        }
        let base = self.at / WINDOW * WINDOW;
        if self.window.0 != base || self.window.1.is_empty() {
            let most = (self.range.end - self.range.start - base).min(WINDOW);
            let most = usize::try_from(most).map_err(io::Error::other)?;
            self.window = (base, self.view.some(self.range.start + base, most)?);
        }
        let from = usize::try_from(self.at - base).map_err(io::Error::other)?;
        let has = self.window.1.get(from..).unwrap_or_default();
        let len = has.len().min(len);
        buf[..len].copy_from_slice(&has[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Stream<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => (self.range.end - self.range.start).checked_add_signed(by),
        };
        self.at = at.ok_or(ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Bytes;

    #[test]
    fn a_stream_is_the_range_and_no_more() {
        let medium: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let bytes = Bytes(&medium);
        let range = 1000..201_000;
        let window = (0, Vec::new());
        let left = STRUCTURES;
        let mut stream =
            Stream { view: View::new(&bytes), range: range.clone(), at: 0, window, left };
        let mut out = vec![0; 100];
        for at in [0, 65_500, 65_536, 199_990, 70_000, 10] {
            stream.seek(SeekFrom::Start(at)).unwrap();
            let n = stream.read(&mut out).unwrap();
            let from = 1000 + usize::try_from(at).unwrap();
            assert!(n > 0 && out[..n] == medium[from..from + n], "{at}");
        }
        stream.seek(SeekFrom::Start(0)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all == medium[1000..201_000]);
        assert_eq!(stream.seek(SeekFrom::End(-10)).unwrap(), 199_990);
        assert_eq!(stream.seek(SeekFrom::Current(7)).unwrap(), 199_997);
        assert_eq!(stream.read(&mut out).unwrap(), 3);
        assert_eq!(stream.read(&mut out).unwrap(), 0);
        assert!(stream.seek(SeekFrom::Current(-1_000_000)).is_err());
        stream.seek(SeekFrom::Start(u64::MAX)).unwrap();
        assert_eq!(stream.read(&mut out).unwrap(), 0);
    }

    #[test]
    fn what_is_no_ntfs_is_told_with_its_place() {
        for bytes in [vec![0; 100_000], vec![0xFF; 600], Vec::new()] {
            let medium = Bytes(&bytes);
            let error = Volume::open(&medium, 0..bytes.len() as u64).unwrap_err();
            assert_eq!(error.kind(), Kind::MediaMismatch, "{error}");
        }
    }
}
