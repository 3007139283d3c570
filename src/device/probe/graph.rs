//! All block devices that the kernel knows and what lies on what: partitions on disks,
//! device-mapper and md on their slaves, loop devices on whatever their file is on. Names and
//! numbers only; sizes and models are read by `describe` for those that are shown.
//!
//! One file (`uevent`) and at most two folders (`slaves`, `holders`) are read per device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{System, names, parse, text};
use crate::device::facts::User;
use crate::device::storage::Id;

/// Index into [`Graph::nodes`].
pub(super) type At = usize;

/// One disk or partition.
#[derive(Debug)]
pub(super) struct Node {
    /// Kernel name; `!` for a slash, as in /sys.
    pub(super) name: String,
    pub(super) rdev: (u32, u32),
    /// Folder in /sys, links resolved.
    pub(super) dir: PathBuf,
    /// Node in /dev as the kernel names it.
    pub(super) path: PathBuf,
    /// The disk, when this is a partition.
    pub(super) disk: Option<At>,
    pub(super) slaves: Vec<String>,
    pub(super) holders: Vec<String>,
    pub(super) layer: Layer,
    /// The partition's name in its table (GPT).
    pub(super) part_name: Option<String>,
}

/// What a device is made of, as far as it matters for who uses what.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Plain,
    /// Name below /dev/mapper and `dm/uuid`, whose prefix tells the owner.
    Dm {
        name: String,
        uuid: String,
    },
    Md,
    /// File or device behind it; `None` = not set up.
    Loop {
        backing: Option<PathBuf>,
        /// The same as a file, whatever its name is by now.
        file: Option<Id>,
    },
}

impl Node {
    /// The name a person knows: /dev/mapper/NAME for device mapper, else the node.
    pub(super) fn known_as(&self) -> PathBuf {
        match &self.layer {
            Layer::Dm { name, .. } => Path::new("/dev/mapper").join(name),
            Layer::Plain | Layer::Md | Layer::Loop { .. } => self.path.clone(),
        }
    }

    /// For a chain in a sentence: `sda2`, `dm-0 vg0-root`.
    pub(super) fn in_chain(&self) -> String {
        match &self.layer {
            Layer::Dm { name, .. } => format!("{} {name}", self.name),
            Layer::Plain | Layer::Md | Layer::Loop { .. } => self.name.clone(),
        }
    }

    /// The file behind a loop device.
    pub(super) fn file(&self) -> Option<Id> {
        match &self.layer {
            Layer::Loop { file, .. } => *file,
            Layer::Plain | Layer::Dm { .. } | Layer::Md => None,
        }
    }

    /// What this device is to those below it.
    pub(super) fn as_user(&self) -> User {
        match &self.layer {
            Layer::Dm { name, uuid } => {
                let name = name.clone();
                // Prefixes by convention of the owners: cryptsetup, lvm2, multipath, dmraid.
                // dm-verity is CRYPT-VERITY- and is not closed by cryptsetup.
                if uuid.starts_with("CRYPT-") && !uuid.starts_with("CRYPT-VERITY") {
                    User::Crypt { name }
                } else if uuid.starts_with("LVM-") {
                    User::Lvm { name }
                } else {
                    User::Dm { name }
                }
            }
            Layer::Md => User::Md { name: self.name.clone() },
            Layer::Plain | Layer::Loop { .. } => User::Other { name: self.name.clone() },
        }
    }
}

/// The devices of a system.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    names: HashMap<String, At>,
    rdevs: HashMap<(u32, u32), At>,
}

impl Graph {
    /// Reads /sys/dev/block, which lists disks and partitions by number.
    pub(super) fn read(system: &System) -> Self {
        let list = system.root.join("sys/dev/block");
        let mut nodes: Vec<Node> =
            names(&list).iter().filter_map(|number| node(system, &list, number)).collect();
        let names: HashMap<String, At> =
            nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
        for node in &mut nodes {
            let parent = node.dir.parent().and_then(Path::file_name).and_then(|n| n.to_str());
            if node.disk.is_some() {
                node.disk = parent.and_then(|name| names.get(name).copied());
            }
        }
        let rdevs = nodes.iter().enumerate().map(|(at, node)| (node.rdev, at)).collect();
        Self { nodes, names, rdevs }
    }

    pub(super) fn by_rdev(&self, rdev: (u32, u32)) -> Option<At> {
        self.rdevs.get(&rdev).copied()
    }

    pub(super) fn by_name(&self, name: &str) -> Option<At> {
        self.names.get(name).copied()
    }

    /// All that are no partitions.
    pub(super) fn disks(&self) -> impl Iterator<Item = At> + '_ {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].disk.is_none())
    }

    /// The partitions of a disk in the order of their numbers.
    pub(super) fn partitions(&self, disk: At) -> impl Iterator<Item = At> + '_ {
        (0..self.nodes.len()).filter(move |at| self.nodes[*at].disk == Some(disk))
    }

    /// The device that a path below /dev means: by name, by mapping name, else by what the node
    /// or link says.
    pub(super) fn by_path(&self, system: &System, path: &Path) -> Option<At> {
        let below_dev = path.strip_prefix("/dev").ok()?.to_str()?;
        if let Some(mapping) = below_dev.strip_prefix("mapper/") {
            let named =
                |node: &Node| matches!(&node.layer, Layer::Dm { name, .. } if name == mapping);
            if let Some(at) = self.nodes.iter().position(named) {
                return Some(at);
            }
        }
        self.by_name(&below_dev.replace('/', "!")).or_else(|| self.by_rdev(system.rdev_of(path)?))
    }

    /// Those built directly on a device: its holders, and loop devices over the node itself,
    /// which do not list themselves.
    pub(super) fn above(&self, system: &System, at: At) -> Vec<At> {
        let mut above: Vec<At> =
            self.nodes[at].holders.iter().filter_map(|name| self.by_name(name)).collect();
        for (over, node) in self.nodes.iter().enumerate() {
            if let Layer::Loop { backing: Some(backing), .. } = &node.layer
                && backing.starts_with("/dev")
                && over != at
                && self.by_path(system, backing) == Some(at)
            {
                above.push(over);
            }
        }
        above
    }
}

fn node(system: &System, list: &Path, number: &str) -> Option<Node> {
    let rdev = parse::rdev(number)?;
    let dir = resolve(list, &std::fs::read_link(list.join(number)).ok()?);
    let name = dir.file_name()?.to_str()?.to_owned();
    let event = parse::uevent(&text(&dir.join("uevent")).unwrap_or_default());
    let partition = event.get("DEVTYPE").is_some_and(|kind| kind == "partition");
    let dev_name = event.get("DEVNAME").cloned().unwrap_or_else(|| name.replace('!', "/"));
    let path = Path::new("/dev").join(dev_name);
    let layer = if partition { Layer::Plain } else { layer(system, &dir, &name, &path) };
    Some(Node {
        rdev,
        path,
        // Set to the right disk once all are known.
        disk: partition.then_some(0),
        // A partition has no slaves.
        slaves: if partition { Vec::new() } else { names(&dir.join("slaves")) },
        holders: names(&dir.join("holders")),
        layer,
        part_name: event.get("PARTNAME").cloned(),
        name,
        dir,
    })
}

fn layer(system: &System, dir: &Path, name: &str, node: &Path) -> Layer {
    let is = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if let Some(mapping) = text(&dir.join("dm/name")) {
        return Layer::Dm { name: mapping, uuid: text(&dir.join("dm/uuid")).unwrap_or_default() };
    }
    if is("md") || name.starts_with("md_") {
        return Layer::Md;
    }
    if is("loop") {
        let backing = text(&dir.join("loop/backing_file"));
        let backing: Option<PathBuf> =
            backing.map(|file| file.strip_suffix(" (deleted)").unwrap_or(&file).into());
        let file = backing.as_deref().and_then(|path| system.loop_file(node, path));
        return Layer::Loop { backing, file };
    }
    Layer::Plain
}

/// A relative link of /sys without asking the system again for every part of it.
fn resolve(folder: &Path, link: &Path) -> PathBuf {
    let mut path = folder.to_owned();
    for part in link {
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path
}
