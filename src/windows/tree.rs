//! The files of a Windows disc: its UDF side, or its ISO 9660 and Joliet side where UDF has none.
//!
//! Owns: the tree with checked paths, and reads of a file's bytes. Must not know what becomes of
//! them. Everything that the disc says is doubted: names with tricks, folders in circles, counts
//! without end and extents behind the end are errors that name the path.

mod iso9660;
mod udf;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::error::{Error, Kind, Result};
use crate::image::ReadAt;
use crate::text::printable;

/// Folders in folders.
const DEPTH: usize = 32;
/// Files and folders; Windows discs have about 1000.
const NODES: usize = 200_000;
/// Extents of one file; an extent of UDF has up to 1 GiB.
const RUNS: usize = 65_536;
const PATH: usize = 4096;
/// Extents of all files together, and bytes of all paths: a disc of some megabytes can name one file
/// of very many extents, or one very long folder, as often as there are names.
const ALL_RUNS: usize = 1 << 20;
const ALL_PATHS: usize = 32 << 20;
/// Bytes of all folders: their extents may lie on each other, so that a small disc has folders of
/// terabytes, in which nothing but deleted names has to be read.
const ALL_FOLDERS: u64 = 256 << 20;

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Byte of the disc; `None`: zeros that are not stored.
    pub at: Option<u64>,
    /// Bytes.
    pub len: u64,
}

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// From the root, with `/` between names; not escaped, without control characters.
    pub path: String,
    /// Length of a file; `None`: a folder.
    pub len: Option<u64>,
    /// Seconds since 1970, UTC.
    pub mtime: i64,
    /// Where its bytes are, in order.
    pub runs: Vec<Run>,
}

/// A disc with files.
pub trait Disc: Send + Sync + fmt::Debug {
    /// Everything on it; folders before what is in them.
    fn nodes(&self) -> &[Node];
    /// Bytes of the file that is number `file` of the nodes; short reads are allowed, 0 is its end.
    fn read_at(&self, file: usize, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
}

/// A file of a disc.
#[derive(Clone, Copy, Debug)]
pub struct DiscFile<'a> {
    /// Its disc.
    pub disc: &'a dyn Disc,
    /// Its number.
    pub file: usize,
}

impl ReadAt for DiscFile<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.disc.read_at(self.file, offset, buf)
    }
    fn size(&self) -> Option<u64> {
        self.disc.nodes().get(self.file).and_then(|node| node.len)
    }
}

/// Which side of a disc was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// UDF.
    Udf,
    /// ISO 9660, with Joliet names where there are any.
    Iso9660,
}

/// An ISO image whose tree was read.
pub struct IsoDisc {
    iso: Arc<dyn ReadAt + Send + Sync>,
    nodes: Vec<Node>,
    side: Side,
}

impl fmt::Debug for IsoDisc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsoDisc").field("side", &self.side).finish_non_exhaustive()
    }
}

impl IsoDisc {
    /// Reads the tree of an image; `name` is what errors call it.
    pub fn open(iso: Arc<dyn ReadAt + Send + Sync>, name: &str) -> Result<Self> {
        let size = iso.size().ok_or_else(|| Error::refused(format!("{name} is no file")))?;
        let udf = udf::read(&*iso, size).map_err(|e| e.named(name))?;
        if let Some(nodes) = udf.filter(|nodes| has_sources(nodes)) {
            return Ok(Self { iso, nodes, side: Side::Udf });
        }
        let iso9660 = iso9660::read(&*iso, size).map_err(|e| e.named(name))?;
        if let Some(nodes) = iso9660 {
            return Ok(Self { iso, nodes, side: Side::Iso9660 });
        }
        Err(Error::refused(format!("{name} has no folder 'sources': it is no disc of Windows")))
    }

    /// Which side it was.
    pub fn side(&self) -> Side {
        self.side
    }
}

impl Disc for IsoDisc {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn read_at(&self, file: usize, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let runs = self.nodes.get(file).map(|node| node.runs.as_slice()).unwrap_or_default();
        let mut before = 0_u64;
        for run in runs {
            let Some(within) = offset.checked_sub(before).filter(|within| *within < run.len) else {
                before = before.saturating_add(run.len);
                continue;
            };
            let len = usize::try_from(run.len - within).unwrap_or(buf.len()).min(buf.len());
            let buf = &mut buf[..len];
            if let Some(at) = run.at {
                return self.iso.read_at(at.saturating_add(within), buf);
            }
            buf.fill(0);
            return Ok(len);
        }
        Ok(0)
    }
}

fn has_sources(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| {
        let path = &node.path;
        node.len.is_none()
            && (path.eq_ignore_ascii_case("sources")
                || path.to_ascii_lowercase().ends_with("/sources"))
    })
}

/// Why a tree could not be read.
#[derive(Debug)]
pub(super) enum Fault {
    Read(io::Error),
    /// What is wrong, escaped.
    Damaged(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl Fault {
    fn at(path: &str, what: impl fmt::Display) -> Self {
        let path = if path.is_empty() { "its root" } else { path };
        Self::Damaged(format!("{}: {what}", printable(path)))
    }

    fn named(self, name: &str) -> Error {
        match self {
            Self::Read(e) => Error::from_read(e, name),
            Self::Damaged(what) => {
                Error::new(Kind::SourceMismatch, format!("{name} is damaged: {what}"))
                    .hint("download it again, and compare its SHA-256 with the published one")
            }
        }
    }
}

/// A tree that grows within limits.
#[derive(Debug, Default)]
struct Growth {
    nodes: Vec<Node>,
    /// Folders by where they are on the disc: one that comes twice is a circle.
    seen: HashSet<u64>,
    /// Extents, bytes of paths, and bytes of folders so far.
    runs: usize,
    text: usize,
    folders: u64,
}

impl Growth {
    /// A folder is about to be read.
    fn enter(&mut self, path: &str, place: u64) -> std::result::Result<(), Fault> {
        if !self.seen.insert(place) {
            return Err(Fault::at(path, "this folder occurs twice, its folders are a circle"));
        }
        if path.split('/').count() > DEPTH {
            return Err(Fault::at(path, format_args!("more than {DEPTH} folders in each other")));
        }
        Ok(())
    }

    /// The path of `name` in `folder`.
    fn path(&mut self, folder: &str, name: &str) -> std::result::Result<String, Fault> {
        let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        let tricks = matches!(name, "" | "." | "..") || name.contains(['/', '\\']);
        if tricks || name.chars().any(char::is_control) {
            return Err(Fault::at(&path, "this is no name of a file"));
        }
        if path.len() > PATH {
            return Err(Fault::at(&path, format_args!("a path of more than {PATH} bytes")));
        }
        if self.nodes.len() >= NODES {
            return Err(Fault::at(&path, format_args!("more than {NODES} files")));
        }
        self.text += path.len();
        if self.text > ALL_PATHS {
            return Err(Fault::at(&path, "the paths on this disc have no end"));
        }
        Ok(path)
    }

    /// A file: its runs must lie on the disc and have its length.
    fn file(&mut self, node: Node, size: u64) -> std::result::Result<(), Fault> {
        let within = |run: &Run| {
            run.at.is_none_or(|at| at.checked_add(run.len).is_some_and(|end| end <= size))
        };
        let within = node.runs.iter().all(|run| within(run) && run.len > 0);
        let len = node.runs.iter().try_fold(0_u64, |sum, run| sum.checked_add(run.len));
        if !within || len != node.len || node.runs.len() > RUNS {
            return Err(Fault::at(&node.path, "its bytes lie behind the end of the image"));
        }
        self.pieces(&node.path, node.runs.len())?;
        self.nodes.push(node);
        Ok(())
    }

    /// So many extents were read.
    fn pieces(&mut self, path: &str, count: usize) -> std::result::Result<(), Fault> {
        self.runs += count;
        if self.runs > ALL_RUNS {
            return Err(Fault::at(path, "the files on this disc have too many pieces"));
        }
        Ok(())
    }

    /// A folder of so many bytes is about to be read.
    fn list(&mut self, path: &str, bytes: u64) -> std::result::Result<(), Fault> {
        self.folders = self.folders.saturating_add(bytes);
        if self.folders > ALL_FOLDERS {
            return Err(Fault::at(path, "the folders on this disc have no end"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Memory(Vec<u8>);
    impl ReadAt for Memory {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            crate::image::Bytes(&self.0).read_at(offset, buf)
        }
        fn size(&self) -> Option<u64> {
            Some(self.0.len() as u64)
        }
    }

    fn node(path: &str, runs: &[Run]) -> Node {
        let len = Some(runs.iter().map(|run| run.len).sum());
        Node { path: path.to_owned(), len, mtime: 0, runs: runs.to_vec() }
    }

    #[test]
    fn runs_and_holes_are_read_in_order() {
        let runs =
            [Run { at: Some(4), len: 3 }, Run { at: None, len: 2 }, Run { at: Some(0), len: 4 }];
        let iso = Arc::new(Memory(b"abcdefgh".to_vec()));
        let disc = IsoDisc { iso, nodes: vec![node("f", &runs)], side: Side::Udf };
        let file = DiscFile { disc: &disc, file: 0 };
        let view = crate::image::View::new(&file);
        assert_eq!(view.some(0, 20).unwrap(), b"efg\0\0abcd");
        assert_eq!(view.some(2, 4).unwrap(), b"g\0\0a");
        assert_eq!(disc.read_at(7, 0, &mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn names_and_extents_are_doubted() {
        let mut growth = Growth::default();
        for name in ["", ".", "..", "a/b", "a\\b", "a\0", "\u{1b}[2J"] {
            let Err(Fault::Damaged(text)) = growth.path("dir", name) else { panic!("{name:?}") };
            assert!(text.starts_with("dir/") && !text.contains('\u{1b}'), "{text}");
        }
        assert_eq!(growth.path("", "a b").unwrap(), "a b");
        assert!(growth.enter("a", 5).is_ok() && growth.enter("a/b", 5).is_err());
        assert!(growth.enter(&"a/".repeat(DEPTH), 6).is_err());
        let at = |at: u64, len: u64| [Run { at: Some(at), len }];
        assert!(growth.file(node("f", &at(0, 100)), 100).is_ok());
        assert!(growth.file(node("f", &at(1, 100)), 100).is_err());
        assert!(growth.file(node("f", &at(u64::MAX, 2)), 100).is_err());
        assert!(growth.file(Node { len: Some(5), ..node("f", &at(0, 4)) }, 100).is_err());
    }

    #[test]
    fn one_file_or_folder_that_is_named_over_and_over_does_not_fill_the_memory() {
        let mut growth = Growth::default();
        let runs = vec![Run { at: Some(0), len: 1 }; RUNS];
        let taken = (0..100).take_while(|_| growth.file(node("f", &runs), 100).is_ok());
        assert_eq!(taken.count(), ALL_RUNS / RUNS);
        let mut growth = Growth::default();
        let long = "x".repeat(4000);
        let taken = (0..20_000).take_while(|_| growth.path(&long, "f").is_ok()).count();
        assert_eq!(taken, ALL_PATHS / 4002);
        let mut growth = Growth::default();
        assert!(growth.list("f", 1 << 20).is_ok() && growth.list("f", u64::MAX).is_err());
    }

    #[test]
    fn what_is_no_disc_is_refused() {
        for bytes in [Vec::new(), vec![0; 100_000], b"MZ".repeat(50_000)] {
            assert!(IsoDisc::open(Arc::new(Memory(bytes)), "x.iso").is_err());
        }
    }
}
