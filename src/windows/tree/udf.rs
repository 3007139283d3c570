//! The UDF side, through `hadris-udf`, which checks tags and descriptors; what it says is checked
//! again. Its device is our [`ReadAt`].

use std::io;

use hadris_fs::sync::FileSystem;
use hadris_fs::{DirCursor, Error, ErrorKind, Extent, FileType, MountOptions, NodeId};
use hadris_io::ErrorType;
use hadris_storage::sync::BlockDevice;
use hadris_storage::{BlockIndex, BlockSize};
use hadris_udf::sync::UdfFs;

use super::{DEPTH, Fault, Growth, Node, RUNS, Run};
use crate::image::{ReadAt, View};

const BLOCK: u32 = 2048;
/// Extents asked for at once.
const BATCH: usize = 256;

struct Blocks<'a> {
    view: View<'a>,
    size: BlockSize,
    count: u64,
}

impl ErrorType for Blocks<'_> {
    type Error = io::Error;
}

impl BlockDevice for Blocks<'_> {
    fn block_size(&self) -> BlockSize {
        self.size
    }

    fn block_count(&self) -> u64 {
        self.count
    }

    fn read_blocks(&mut self, first: BlockIndex, buf: &mut [u8]) -> Result<(), Error<io::Error>> {
        let at = first.get().saturating_mul(u64::from(BLOCK));
        match self.view.exact(at, buf.len()) {
            Ok(Some(bytes)) => {
                buf.copy_from_slice(&bytes);
                Ok(())
            }
            Ok(None) => Err(Error::new(ErrorKind::InvalidInput, "the image ends before")),
            Err(e) => Err(Error::device(e, "reading the image")),
        }
    }
}

type Fs<'a> = UdfFs<Blocks<'a>>;

fn fault(path: &str, error: Error<io::Error>) -> Fault {
    let text = error.to_string();
    match error.into_device_error() {
        Some(e) => Fault::Read(e),
        None => Fault::at(path, text),
    }
}

/// The tree; `None`: there is no UDF.
pub(super) fn read(iso: &dyn ReadAt, size: u64) -> Result<Option<Vec<Node>>, Fault> {
    let Some(block) = BlockSize::new(BLOCK) else { return Ok(None) };
    let view = View::sized(iso, size);
    let device = Blocks { view, size: block, count: size / u64::from(BLOCK) };
    let mut fs = match UdfFs::mount(device, MountOptions::new()) {
        Ok(fs) => fs,
        Err(e) => {
            let error = e.into_error();
            let none = error.kind() == ErrorKind::NotRecognized;
            return if none { Ok(None) } else { Err(fault("UDF", error)) };
        }
    };
    let mut growth = Growth::default();
    let mut folders = vec![(String::new(), fs.root())];
    while let Some((path, node)) = folders.pop() {
        growth.enter(&path, node.get())?;
        folders.extend(folder(&mut fs, &mut growth, (&path, node), size)?);
    }
    Ok(Some(growth.nodes))
}

/// Reads a folder; returns the folders in it.
fn folder(
    fs: &mut Fs<'_>,
    growth: &mut Growth,
    (folder, node): (&str, NodeId),
    size: u64,
) -> Result<Vec<(String, NodeId)>, Fault> {
    let mut out = Vec::new();
    let mut cursor = DirCursor::default();
    growth.list(folder, fs.stat(node).map_err(|e| fault(folder, e))?.len())?;
    while let Some(entry) = fs.readdir(node, cursor).map_err(|e| fault(folder, e))? {
        if entry.next_cursor() == cursor {
            return Err(Fault::at(folder, "its list of files has no end"));
        }
        cursor = entry.next_cursor();
        let name = entry.name().to_str().map_err(|e| Fault::at(folder, e))?;
        let path = growth.path(folder, name)?;
        let meta = fs.stat(entry.node()).map_err(|e| fault(&path, e))?;
        let mtime = meta.modified().map_or(0, |time| time.unix_seconds());
        match meta.file_type() {
            FileType::Dir => {
                growth.nodes.push(Node { path: path.clone(), len: None, mtime, runs: Vec::new() });
                out.push((path, entry.node()));
            }
            FileType::File => {
                let runs = runs(fs, growth, entry.node(), (&path, meta.len()))?;
                growth.file(Node { path, len: Some(meta.len()), mtime, runs }, size)?;
            }
            _ => return Err(Fault::at(&path, "neither a file nor a folder")),
        }
        if out.len() > super::NODES / DEPTH {
            return Err(Fault::at(folder, "too many folders in it"));
        }
    }
    Ok(out)
}

fn runs(
    fs: &mut Fs<'_>,
    growth: &mut Growth,
    node: NodeId,
    (path, len): (&str, u64),
) -> Result<Vec<Run>, Fault> {
    let mut out: Vec<Run> = Vec::new();
    let mut at = 0;
    while at < len {
        let mut batch = [Extent::new(0, 0); BATCH];
        let count = fs.extents(node, at, &mut batch).map_err(|e| fault(path, e))?;
        let found = batch.get(..count).unwrap_or_default();
        growth.pieces(path, found.len())?;
        for extent in found {
            let hole = extent.file_offset().checked_sub(at);
            let hole = hole.ok_or_else(|| Fault::at(path, "its extents overlap"))?;
            if hole > 0 {
                out.push(Run { at: None, len: hole });
            }
            let stored = (!extent.is_unwritten()).then_some(extent.offset());
            match out.last_mut() {
                Some(last) if last.at.is_some() && last.at.map(|at| at + last.len) == stored => {
                    last.len = last.len.saturating_add(extent.len());
                }
                _ => out.push(Run { at: stored, len: extent.len() }),
            }
            at = at.saturating_add(hole).saturating_add(extent.len());
        }
        if found.is_empty() {
            out.push(Run { at: None, len: len - at });
            break;
        }
        if out.len() > RUNS {
            return Err(Fault::at(path, "it has too many extents"));
        }
    }
    Ok(out)
}
