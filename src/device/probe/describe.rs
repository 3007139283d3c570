//! One device in detail: size, sectors, bus, model, serial number, discard, partitions. Where a
//! bus offers a better source than SCSI's truncated strings, that one is taken.
//!
//! Documentation/ABI/stable/sysfs-block and Documentation/block/queue-sysfs.rst; `size` and
//! `start` count 512 bytes whatever the sector size is (include/linux/blk_types.h). SCSI disk
//! attributes: Documentation/ABI/testing/sysfs-block-device and sysfs-class-scsi_disk.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::graph::{At, Layer, Node};
use super::stack::Snapshot;
use super::usb;
use super::{bytes, names, number, parse, text};
use crate::device::facts::{Bus, DiscardFacts, Facts, Identity, PartitionFacts};

/// A whole disk's folders in /sys.
struct Disk {
    /// `/sys/devices/.../block/sdb`.
    dir: PathBuf,
    /// Its `device` link resolved; virtual devices have none.
    device: Option<PathBuf>,
    bus: Bus,
}

impl Disk {
    fn at(dir: &Path) -> Self {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let device = fs::canonicalize(dir.join("device")).ok();
        let bus = bus(dir, device.as_deref(), &name);
        Self { dir: dir.to_owned(), device, bus }
    }

    fn text(&self, name: &str) -> Option<String> {
        text(&self.dir.join(name))
    }

    fn number(&self, name: &str) -> u64 {
        number(&self.dir.join(name)).unwrap_or(0)
    }

    fn of_device(&self, name: &str) -> Option<String> {
        text(&self.device.as_ref()?.join(name))
    }

    fn usb(&self) -> Option<&Path> {
        usb::device_above(&self.dir)
    }

    /// The number that the label of the device shows, as far as its bus has one. A USB bridge
    /// reports its own, which is what udev and lsusb show as well.
    fn serial(&self) -> Option<String> {
        let usb = || text(&self.usb()?.join("serial"));
        match self.bus {
            Bus::Usb => usb().or_else(|| self.vpd_serial()),
            // NVMe and mmc have it in their device's folder, virtio_blk in the disk's.
            _ => self
                .of_device("serial")
                .or_else(|| self.text("serial"))
                .or_else(|| self.vpd_serial()),
        }
    }

    fn vpd_serial(&self) -> Option<String> {
        parse::vpd_serial(&bytes(&self.device.as_ref()?.join("vpd_pg80"))?)
    }

    fn vendor(&self) -> Option<String> {
        let scsi = self.of_device("vendor");
        match self.bus {
            Bus::Usb => scsi.or_else(|| text(&self.usb()?.join("manufacturer"))),
            // "ATA" is what libata puts there; virtio_blk and NVMe have PCI's number there.
            Bus::Scsi | Bus::External | Bus::Optical | Bus::Other | Bus::Virtio => {
                scsi.filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x"))
            }
            _ => None,
        }
    }

    fn model(&self, udev: &HashMap<String, String>) -> Option<String> {
        let own = self.of_device("model");
        match self.bus {
            Bus::Usb => own.or_else(|| text(&self.usb()?.join("product"))),
            // SCSI cuts the model at 16 characters; udev has asked the disk.
            Bus::Ata => {
                let full =
                    udev.get("ID_MODEL_ENC").and_then(|m| parse::clean(&parse::unescape_hex(m)));
                let start = own.clone().unwrap_or_default();
                full.filter(|full| full.starts_with(&start)).or(own)
            }
            Bus::Sd | Bus::Mmc => self.of_device("name"),
            Bus::Md => self.text("md/level"),
            Bus::Dm => self.text("dm/name"),
            _ => own,
        }
    }

    fn revision(&self) -> Option<String> {
        ["rev", "firmware_rev", "fwrev"].iter().find_map(|name| self.of_device(name))
    }

    fn discard(&self) -> DiscardFacts {
        let device = |name: &str| self.device.as_ref().map(|folder| folder.join(name));
        let scsi_disk = device("scsi_disk")
            .and_then(|all| Some(all.join(names(&all).first()?).join("provisioning_mode")));
        let provisioning_mode = scsi_disk.as_deref().and_then(text);
        DiscardFacts {
            granularity: self.number("queue/discard_granularity"),
            max_bytes: self.number("queue/discard_max_bytes"),
            alignment: self.number("discard_alignment"),
            provisioning_file: scsi_disk.filter(|_| provisioning_mode.is_some()),
            provisioning_mode,
            vpd_b0: device("vpd_pgb0").and_then(|page| bytes(&page)),
            vpd_b2: device("vpd_pgb2").and_then(|page| bytes(&page)),
        }
    }

    fn sector(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).unwrap_or(0)
    }
}

/// Size of a disk or partition.
fn size(dir: &Path) -> u64 {
    number(&dir.join("size")).unwrap_or(0).saturating_mul(512)
}

/// The disk's folder, for a disk or a partition.
fn disk_dir(dir: &Path) -> &Path {
    if dir.join("partition").exists() { dir.parent().unwrap_or(dir) } else { dir }
}

/// The part of the facts that must not change, without looking at anything else.
pub(super) fn identity(dir: &Path, rdev: (u32, u32)) -> Option<Identity> {
    let disk = Disk::at(disk_dir(dir));
    dir.join("size").exists().then(|| Identity {
        rdev,
        size: size(dir),
        serial: disk.serial(),
        diskseq: number(&disk.dir.join("diskseq")),
    })
}

impl Snapshot<'_> {
    pub(super) fn facts(&self, at: At) -> Facts {
        let node = &self.graph.nodes[at];
        let whole = node.disk.unwrap_or(at);
        let disk = Disk::at(&self.graph.nodes[whole].dir);
        let udev = self.udev(at);
        Facts {
            windows: Vec::new(),
            path: node.path.clone(),
            name: node.name.clone(),
            rdev: node.rdev,
            partition_of: node.disk.map(|disk| self.graph.nodes[disk].path.clone()),
            by_id: self.by_id.get(&node.name).cloned().unwrap_or_default(),
            size: size(&node.dir),
            logical_block: disk.sector("queue/logical_block_size"),
            physical_block: disk.sector("queue/physical_block_size"),
            read_only: number(&node.dir.join("ro")).is_some_and(|ro| ro != 0)
                || disk.number("ro") != 0,
            removable: disk.number("removable") != 0,
            bus: disk.bus,
            usb: disk
                .usb()
                .filter(|_| disk.bus == Bus::Usb)
                .map(|usb| usb::describe(usb, &disk.dir)),
            vendor: disk.vendor(),
            model: disk.model(&udev),
            serial: disk.serial(),
            revision: disk.revision(),
            diskseq: number(&disk.dir.join("diskseq")),
            discard: disk.discard(),
            partitions: self.graph.partitions(at).map(|part| self.partition(part)).collect(),
            content: udev.get("ID_FS_TYPE").map(|kind| (kind.clone(), fs_label(&udev))),
            uses: self.uses(at),
            system: self.system_needs(at),
            backing_file: backing_file(&self.graph.nodes[whole]),
            storage: self.storage_of_device(at),
        }
    }

    fn partition(&self, at: At) -> PartitionFacts {
        let node = &self.graph.nodes[at];
        let udev = self.udev(at);
        PartitionFacts {
            name: node.name.clone(),
            path: node.path.clone(),
            rdev: node.rdev,
            start: number(&node.dir.join("start")).unwrap_or(0).saturating_mul(512),
            size: size(&node.dir),
            fs_type: udev.get("ID_FS_TYPE").cloned(),
            label: fs_label(&udev).or_else(|| node.part_name.clone()),
        }
    }
}

/// The encoded label is the whole one; in the plain one udev replaces what it does not like.
fn fs_label(udev: &HashMap<String, String>) -> Option<String> {
    let encoded = udev.get("ID_FS_LABEL_ENC").map(|label| parse::unescape_hex(label));
    encoded.or_else(|| udev.get("ID_FS_LABEL").cloned()).and_then(|label| parse::clean(&label))
}

fn backing_file(node: &Node) -> Option<PathBuf> {
    match &node.layer {
        Layer::Loop { backing, .. } => backing.clone(),
        Layer::Plain | Layer::Dm { .. } | Layer::Md => None,
    }
}

/// By the driver's name where it is certain, else by the folders above the disk.
fn bus(dir: &Path, device: Option<&Path>, name: &str) -> Bus {
    let numbered = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let virtual_kinds = [
        ("loop", Bus::Loop),
        ("zram", Bus::Zram),
        ("ram", Bus::Ram),
        ("nbd", Bus::Nbd),
        ("dm-", Bus::Dm),
        ("md", Bus::Md),
        ("sr", Bus::Optical),
    ];
    if let Some((_, bus)) = virtual_kinds.iter().find(|(prefix, _)| numbered(prefix)) {
        return *bus;
    }
    if name.starts_with("md_") {
        return Bus::Md;
    }
    if numbered("mmcblk") {
        let kind = device.and_then(|folder| text(&folder.join("type")));
        return if kind.as_deref() == Some("MMC") { Bus::Mmc } else { Bus::Sd };
    }
    if usb::device_above(dir).is_some() {
        return Bus::Usb;
    }
    if external(dir) {
        return Bus::External;
    }
    if numbered("nvme") {
        return Bus::Nvme;
    }
    above(dir, device)
}

fn above(dir: &Path, device: Option<&Path>) -> Bus {
    let has = |prefix: &str| {
        dir.iter().filter_map(|part| part.to_str()).any(|part| {
            part.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    if has("ata") || has("ide") {
        Bus::Ata
    } else if has("virtio") || has("vbd-") || has("VMBUS:") {
        Bus::Virtio
    } else if has("fw") {
        Bus::External
    } else if device.is_some_and(|folder| {
        folder.join("scsi_disk").is_dir() || folder.join("scsi_level").exists()
    }) {
        Bus::Scsi
    } else {
        Bus::Other
    }
}

/// Whether a bridge or controller above the disk can be unplugged: Thunderbolt and the like. The
/// attribute `removable` of devices says `fixed`, `removable` or `unknown`
/// (Documentation/ABI/testing/sysfs-devices-removable, PCI since 5.14); the disk's own one is a number.
fn external(dir: &Path) -> bool {
    dir.ancestors()
        .skip(1)
        .take_while(|folder| !folder.ends_with("sys/devices"))
        .any(|folder| text(&folder.join("removable")).as_deref() == Some("removable"))
}
