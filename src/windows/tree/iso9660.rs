//! The ISO 9660 side: the tree of whichever volume descriptor has the folder `sources`, Joliet's
//! before the primary one's.

use super::{Fault, Growth, Node, Run, has_sources};
use crate::image::{IsoVolume, ReadAt, View};

/// The tree; `None`: there is none with `sources`.
pub(super) fn read(iso: &dyn ReadAt, size: u64) -> Result<Option<Vec<Node>>, Fault> {
    let view = View::sized(iso, size);
    let Some(volume) = IsoVolume::read(&view, 0)? else { return Ok(None) };
    for root in volume.trees() {
        let nodes = tree(&view, root, size)?;
        if has_sources(&nodes) {
            return Ok(Some(nodes));
        }
    }
    Ok(None)
}

fn tree(view: &View<'_>, root: crate::image::IsoFolder, size: u64) -> Result<Vec<Node>, Fault> {
    let mut growth = Growth::default();
    let mut folders = vec![(String::new(), root)];
    while let Some((folder, place)) = folders.pop() {
        growth.enter(&folder, place.at())?;
        // A file whose last extent is still to come.
        let mut open: Option<Node> = None;
        for record in place.list(view)? {
            let path = growth.path(&folder, &record.name)?;
            if record.folder.is_none()
                && let Some(node) = open.as_mut().filter(|node| node.path == path)
            {
                extend(node, &record.extent);
                if !record.more
                    && let Some(node) = open.take()
                {
                    growth.file(node, size)?;
                }
                continue;
            }
            if let Some(node) = open.take() {
                return Err(Fault::at(&node.path, "its last extent is missing"));
            }
            let mtime = record.mtime;
            let mut node = Node { path, len: None, mtime, runs: Vec::new() };
            if let Some(place) = record.folder {
                folders.push((node.path.clone(), place));
                growth.nodes.push(node);
                continue;
            }
            node.len = Some(0);
            extend(&mut node, &record.extent);
            if record.more {
                open = Some(node);
            } else {
                growth.file(node, size)?;
            }
        }
        if let Some(node) = open {
            return Err(Fault::at(&node.path, "its last extent is missing"));
        }
    }
    Ok(growth.nodes)
}

fn extend(node: &mut Node, extent: &std::ops::Range<u64>) {
    let len = extent.end.saturating_sub(extent.start);
    node.len = node.len.map(|sum| sum.saturating_add(len));
    match node.runs.last_mut() {
        _ if len == 0 => {}
        Some(Run { at: Some(at), len: before }) if *at + *before == extent.start => *before += len,
        _ => node.runs.push(Run { at: Some(extent.start), len }),
    }
}
