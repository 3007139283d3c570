//! Who uses a device and what the running system needs: mounts, swap, multi-device filesystems and
//! everything stacked between them and a disk. Upwards (`uses`): from a disk to all that would be
//! hurt. Downwards (`why`): from the system's mounts and swap to every disk below them.
//!
//! btrfs lists its members in /sys/fs/btrfs/UUID/devices (Documentation/ABI/testing/sysfs-fs-btrfs
//! and fs/btrfs/sysfs.c); its mounts have an anonymous device number. OpenZFS lists imported pools
//! as folders in /proc/spl/kstat/zfs and does not enter itself in `holders`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::graph::{At, Graph, Layer, Node};
use super::holders;
use super::parse::{self, Mount, Swap};
use super::{Mounted, System, bytes, names, text};
use crate::device::facts::{Use, User};
use crate::device::storage::{Id, Link, Storage};
use crate::text::printable_path;

/// Where a system keeps what it cannot run without.
const SYSTEM_MOUNTS: [&str; 7] = ["/", "/boot", "/boot/efi", "/efi", "/usr", "/var", "/home"];

/// One look at all tables.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) system: &'a System,
    pub(super) graph: Graph,
    pub(super) by_id: HashMap<String, Vec<PathBuf>>,
    mounts: Vec<Mount>,
    /// Devices below each mount, parallel to `mounts`; overlays are followed for `why` only.
    on: Vec<Vec<At>>,
    swaps: Vec<Swap>,
    btrfs: Vec<(String, Vec<At>)>,
    /// Pool (`?` = not known) by member, for imported pools only.
    zfs: BTreeMap<At, String>,
    why: HashMap<At, Vec<Reason>>,
}

/// Why the system needs a device.
#[derive(Debug)]
struct Reason {
    /// `/boot`, `active swap`, or `active swap file /swapfile`.
    what: String,
    /// Devices between it and the disk, from the top.
    through: Vec<At>,
}

impl<'a> Snapshot<'a> {
    pub(super) fn read(system: &'a System) -> Self {
        let file = |path: &str| bytes(&system.root.join(path)).unwrap_or_default();
        let graph = Graph::read(system);
        let mut snapshot = Self {
            by_id: by_id(system),
            mounts: parse::mountinfo(&file("proc/self/mountinfo")),
            on: Vec::new(),
            swaps: parse::swaps(&file("proc/swaps")),
            btrfs: btrfs(system, &graph),
            zfs: zfs(system, &graph),
            why: HashMap::new(),
            system,
            graph,
        };
        snapshot.on = snapshot.mounts.iter().map(|mount| snapshot.devices_of(mount)).collect();
        snapshot.find_why();
        snapshot
    }

    /// Entry of udev's database for a device; empty without udev.
    pub(super) fn udev(&self, at: At) -> HashMap<String, String> {
        udev(self.system, self.graph.nodes[at].rdev)
    }

    /// The devices that a mounted filesystem lies on directly.
    fn devices_of(&self, mount: &Mount) -> Vec<At> {
        if let Some(at) = self.graph.by_rdev(mount.rdev) {
            return vec![at];
        }
        let sources = mount.source.to_string_lossy();
        if mount.fs == "zfs" {
            let pool = sources.split('/').next().unwrap_or_default();
            let member = |(at, name): (&At, &String)| (name == pool || name == "?").then_some(*at);
            return self.zfs.iter().filter_map(member).collect();
        }
        // bcachefs joins its members with colons.
        let sources: Vec<PathBuf> = if mount.fs == "bcachefs" {
            sources.split(':').map(PathBuf::from).collect()
        } else {
            vec![mount.source.clone()]
        };
        let mut found: Vec<At> =
            sources.iter().filter_map(|path| self.graph.by_path(self.system, path)).collect();
        if mount.fs == "btrfs" {
            let members =
                self.btrfs.iter().find(|(_, members)| members.iter().any(|m| found.contains(m)));
            found = members.map_or(found, |(_, members)| members.clone());
        }
        found
    }

    /// The mount that a path lies on: the longest mount point, of equal ones the last, which
    /// covers those before it.
    fn mount_of(&self, path: &Path) -> Option<usize> {
        let covers = |at: &usize| path.starts_with(&self.mounts[*at].at);
        let depth = |at: &usize| self.mounts[*at].at.components().count();
        (0..self.mounts.len()).filter(covers).max_by_key(depth)
    }

    /// The mounted filesystem that a path lies on.
    pub(super) fn mounted(&self, path: &Path) -> Option<Mounted> {
        let at = self.mount_of(path)?;
        let Mount { at: point, source, fs, .. } = self.mounts[at].clone();
        let device = self.devices_below(at, 0).first().map(|device| self.facts(*device));
        Some(Mounted { whole: point == path, at: point, source, fs, device })
    }

    /// The devices that a file lies on.
    fn devices_of_file(&self, path: &Path) -> Vec<At> {
        self.mount_of(path).map_or_else(Vec::new, |mount| self.devices_below(mount, 0))
    }

    /// Like `on`, but through overlays to the mounts that their layers lie on.
    fn devices_below(&self, mount: usize, depth: u8) -> Vec<At> {
        let Mount { fs, options, .. } = &self.mounts[mount];
        if fs != "overlay" || depth > 4 {
            return self.on[mount].clone();
        }
        let mut found = Vec::new();
        for option in options.split(',') {
            let Some((key, folders)) = option.split_once('=') else {
                continue;
            };
            if !matches!(key, "lowerdir" | "upperdir" | "lowerdir+" | "datadir+") {
                continue;
            }
            for folder in folders.split(':').filter(|folder| folder.starts_with('/')) {
                if let Some(below) = self.mount_of(Path::new(folder)).filter(|m| *m != mount) {
                    found.extend(self.devices_below(below, depth + 1));
                }
            }
        }
        if self.mounts[mount].at == Path::new("/") {
            // A live system: the layers' paths are those of the initramfs and lead nowhere here.
            let images = ["squashfs", "erofs", "iso9660"];
            let live = |m: &usize| images.contains(&self.mounts[*m].fs.as_str());
            found.extend((0..self.mounts.len()).filter(live).flat_map(|m| self.on[m].clone()));
        }
        found
    }

    /// The devices directly below one.
    fn below(&self, at: At) -> Vec<At> {
        let node = &self.graph.nodes[at];
        let mut below: Vec<At> =
            node.slaves.iter().filter_map(|name| self.graph.by_name(name)).collect();
        below.extend(node.disk);
        if let Layer::Loop { backing: Some(backing), .. } = &node.layer {
            match self.graph.by_path(self.system, backing) {
                Some(device) => below.push(device),
                None => below.extend(self.devices_of_file(backing)),
            }
        }
        below
    }

    fn find_why(&mut self) {
        let mut starts: Vec<(String, Vec<At>)> = Vec::new();
        for wanted in SYSTEM_MOUNTS {
            let here = (0..self.mounts.len()).filter(|m| self.mounts[*m].at == Path::new(wanted));
            starts.extend(here.map(|m| (wanted.to_owned(), self.devices_below(m, 0))));
        }
        for swap in &self.swaps {
            // The file is named: unlike a partition it is no entry in `uses`.
            starts.push(if swap.file {
                let what = format!("active swap file {}", swap.path.display());
                (what, self.devices_of_file(&swap.path))
            } else {
                let device = self.graph.by_path(self.system, &swap.path);
                ("active swap".to_owned(), device.into_iter().collect())
            });
        }
        let mut why: HashMap<At, Vec<Reason>> = HashMap::new();
        for (what, devices) in starts {
            for (at, through) in self.closure(&devices) {
                let reasons = why.entry(at).or_default();
                if !reasons.iter().any(|reason| reason.what == what) {
                    reasons.push(Reason { what: what.clone(), through });
                }
            }
        }
        self.why = why;
    }

    /// Every device below the given ones, themselves included, each once, with the devices that
    /// lie between.
    fn closure(&self, starts: &[At]) -> Vec<(At, Vec<At>)> {
        let mut seen = HashSet::new();
        let mut queue: Vec<(At, Vec<At>)> =
            starts.iter().rev().map(|at| (*at, Vec::new())).collect();
        let mut found = Vec::new();
        while let Some((at, through)) = queue.pop() {
            if !seen.insert(at) {
                continue;
            }
            let mut longer = through.clone();
            longer.push(at);
            queue.extend(self.below(at).into_iter().rev().map(|below| (below, longer.clone())));
            found.push((at, through));
        }
        found
    }

    /// In a sentence without subject: `holds / and /home (through dm-1 vg0-root, dm-0 luks, sda3)`.
    pub(super) fn system_needs(&self, at: At) -> Option<String> {
        let reasons = self.why.get(&at)?;
        let mut groups: Vec<(Vec<&str>, &[At])> = Vec::new();
        for Reason { what, through } in reasons {
            match groups.iter_mut().find(|(_, same)| same == through) {
                Some((whats, _)) => whats.push(what),
                None => groups.push((vec![what], through)),
            }
        }
        let sentences: Vec<String> = groups
            .iter()
            .map(|(whats, through)| format!("holds {}{}", and(whats), self.through(through)))
            .collect();
        Some(sentences.join("; "))
    }

    fn through(&self, chain: &[At]) -> String {
        let names: Vec<String> = chain.iter().map(|at| self.graph.nodes[*at].in_chain()).collect();
        match chain {
            [] => String::new(),
            [one] if self.graph.nodes[*one].disk.is_some() => format!(" (on {})", names[0]),
            _ => format!(" (through {})", names.join(", ")),
        }
    }

    /// Everything that uses the device, its partitions, and what is built on them; in the order in
    /// which to release it: what lies on top comes first.
    pub(super) fn uses(&self, at: At) -> Vec<Use> {
        let mut uses = Vec::new();
        self.collect_uses(at, &mut HashSet::new(), &mut uses);
        uses
    }

    fn collect_uses(&self, at: At, seen: &mut HashSet<At>, uses: &mut Vec<Use>) {
        if !seen.insert(at) {
            return;
        }
        for partition in self.graph.partitions(at) {
            self.collect_uses(partition, seen, uses);
        }
        let node = &self.graph.nodes[at];
        let device = node.known_as();
        let mut add = |by: User| {
            let found = Use { device: device.clone(), by };
            if !uses.contains(&found) {
                uses.push(found);
            }
        };
        // The last mount comes first: it may lie below an earlier one.
        let mut mounted = false;
        for (mount, on) in self.mounts.iter().zip(&self.on).rev() {
            if on.contains(&at) && mount.fs != "zfs" {
                mounted = true;
                add(User::Mount { at: mount.at.clone() });
            }
        }
        if self
            .swaps
            .iter()
            .any(|s| !s.file && self.graph.by_path(self.system, &s.path) == Some(at))
        {
            add(User::Swap);
        }
        for (uuid, members) in &self.btrfs {
            // One member that is mounted here is a mount like any other; one that is not is
            // mounted in another mount namespace.
            if members.contains(&at) && (members.len() > 1 || !mounted) {
                add(User::Btrfs { uuid: uuid.clone() });
            }
        }
        if let Some(pool) = self.zfs.get(&at) {
            add(User::Zfs { pool: pool.clone() });
        }
        for above in self.graph.above(self.system, at) {
            self.collect_uses(above, seen, uses);
            uses.push(Use { device: device.clone(), by: self.graph.nodes[above].as_user() });
        }
        // A holder that is no block device of its own (not seen so far, but then it must not be lost).
        for name in node.holders.iter().filter(|name| self.graph.by_name(name).is_none()) {
            uses.push(Use { device: device.clone(), by: User::Other { name: name.clone() } });
        }
    }

    /// A device, and all below it.
    pub(super) fn storage_of_device(&self, at: At) -> Storage {
        let node = &self.graph.nodes[at];
        let mut itself = vec![id(node)];
        itself.extend(self.graph.partitions(at).map(|part| id(&self.graph.nodes[part])));
        itself.extend(node.file());
        // The first link is the device itself.
        let below = self.links(&[at], None).into_iter().filter(|link| !itself.contains(&link.id));
        Storage { path: node.known_as(), below: below.collect(), itself }
    }

    /// A file, or the folder of one that is not there yet, and all devices below.
    pub(super) fn storage_of_file(&self, path: &Path) -> Storage {
        let itself = self.file_id(path, 0).into_iter().collect();
        let below = self.mount_of(path).map_or_else(Vec::new, |mount| {
            self.links(&self.devices_below(mount, 0), Some(&self.mounts[mount].at))
        });
        Storage { path: path.to_owned(), itself, below }
    }

    /// A file's number; on an overlay that of the file in the upper layer, where it has one: that is what is
    /// written (Documentation/filesystems/overlayfs.rst, "Non-directories").
    fn file_id(&self, path: &Path, depth: u8) -> Option<Id> {
        let upper = || {
            let mount = &self.mounts[self.mount_of(path)?];
            let option = |text: &str| text.strip_prefix("upperdir=").map(PathBuf::from);
            let folder =
                mount.options.split(',').find_map(option).filter(|_| mount.fs == "overlay")?;
            let file = folder.join(path.strip_prefix(&mount.at).ok()?);
            (depth < 4 && file.is_absolute()).then(|| self.file_id(&file, depth + 1))?
        };
        upper().or_else(|| self.system.file_id(path))
    }

    /// Who keeps a file to himself: loop devices over it with all that uses them, swap, programs.
    pub(super) fn uses_of_file(&self, path: &Path) -> Vec<Use> {
        let Some(file) = self.file_id(path, 0) else { return Vec::new() };
        let mut uses = Vec::new();
        let add = |by: User| Use { device: path.to_owned(), by };
        for (at, node) in self.graph.nodes.iter().enumerate() {
            if node.file() == Some(file) {
                let mount = |used: Use| match used.by {
                    User::Mount { at } => Some(at),
                    _ => None,
                };
                let mounts = self.uses(at).into_iter().filter_map(mount).collect();
                uses.push(add(User::Loop { name: node.name.clone(), mounts }));
            }
        }
        let swap = |swap: &Swap| swap.file && self.file_id(&swap.path, 0) == Some(file);
        if self.swaps.iter().any(swap) {
            uses.push(add(User::Swap));
        }
        let on = self.mount_of(path).map(|mount| self.mounts[mount].rdev);
        uses.extend(holders::of_file(self.system, file, on).into_iter().map(add));
        uses
    }

    fn links(&self, starts: &[At], mounted_at: Option<&PathBuf>) -> Vec<Link> {
        let link = |(at, through): (At, Vec<At>)| {
            let node = &self.graph.nodes[at];
            let below = || printable_path(&node.known_as());
            let how = match (mounted_at, through.first()) {
                (Some(mount), None) => {
                    format!("lies on {}, which is {}", printable_path(mount), below())
                }
                (Some(mount), Some(top)) => format!(
                    "lies on {}, which is {} on {}",
                    printable_path(mount),
                    printable_path(&self.graph.nodes[*top].known_as()),
                    below()
                ),
                (None, None) => "is the target itself".to_owned(),
                (None, Some(_)) => format!("lies on {}", below()),
            };
            // A loop device is its file as well.
            let ids = std::iter::once(id(node)).chain(node.file());
            ids.map(|id| Link { id, how: how.clone() }).collect::<Vec<_>>()
        };
        self.closure(starts).into_iter().flat_map(link).collect()
    }
}

fn id(node: &Node) -> Id {
    Id::Device(node.rdev.0, node.rdev.1)
}

/// `a`, `a and b`, `a, b and c`.
fn and(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn udev(system: &System, (major, minor): (u32, u32)) -> HashMap<String, String> {
    let entry = system.root.join(format!("run/udev/data/b{major}:{minor}"));
    text(&entry).map_or_else(HashMap::new, |entry| parse::udev(&entry))
}

/// Links in /dev/disk/by-id by the name of the device they point to.
fn by_id(system: &System) -> HashMap<String, Vec<PathBuf>> {
    let folder = Path::new("/dev/disk/by-id");
    let real = system.real(folder);
    let mut links: HashMap<String, Vec<PathBuf>> = HashMap::new();
    for name in names(&real) {
        if let Some(device) = super::link_name(&real.join(&name)) {
            links.entry(device).or_default().push(folder.join(name));
        }
    }
    links
}

/// Mounted btrfs filesystems: UUID and members.
fn btrfs(system: &System, graph: &Graph) -> Vec<(String, Vec<At>)> {
    let all = system.root.join("sys/fs/btrfs");
    let members = |uuid: &String| -> Vec<At> {
        let devices = names(&all.join(uuid).join("devices"));
        devices.iter().filter_map(|name| graph.by_name(name)).collect()
    };
    let filesystems = names(&all).into_iter().map(|uuid| (members(&uuid), uuid));
    filesystems.filter(|(members, _)| !members.is_empty()).map(|(m, uuid)| (uuid, m)).collect()
}

/// Members of imported ZFS pools: those that udev knows by their pool's name, and partitions that
/// carry the name which zpool gives its own (`zfs-` and a number), whose pool is not known.
fn zfs(system: &System, graph: &Graph) -> BTreeMap<At, String> {
    let kstat = system.root.join("proc/spl/kstat/zfs");
    let imported: Vec<String> =
        names(&kstat).into_iter().filter(|name| kstat.join(name).is_dir()).collect();
    let mut members = BTreeMap::new();
    if imported.is_empty() {
        return members;
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        let entry = udev(system, node.rdev);
        let is_member = entry.get("ID_FS_TYPE").is_some_and(|kind| kind == "zfs_member");
        let named_so = node.part_name.as_deref().is_some_and(|name| name.starts_with("zfs-"));
        let pool = match (is_member, entry.get("ID_FS_LABEL")) {
            (true, Some(label)) => imported.contains(label).then(|| label.clone()),
            (true, None) => Some("?".to_owned()),
            (false, _) => named_so.then(|| "?".to_owned()),
        };
        members.extend(pool.map(|pool| (at, pool)));
    }
    members
}
