//! What is known about a block device before it is opened: plain data, filled by `probe`, judged
//! by `policy`, shown by `devices`, kept in records. Nothing here reads the system.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::storage::Storage;

/// Everything `/sys`, `/proc` and `/run/udev` say about one block device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The device node, all links resolved, e.g. `/dev/sdb`.
    pub path: PathBuf,
    /// Kernel name, e.g. `sdb`, `nvme0n1`, `loop3`.
    pub name: String,
    /// Major and minor number.
    pub rdev: (u32, u32),
    /// Set when this is a partition: the disk it belongs to.
    pub partition_of: Option<PathBuf>,
    /// Links below /dev/disk/by-id that point here.
    pub by_id: Vec<PathBuf>,
    /// Size in bytes; 0 = no medium.
    pub size: u64,
    /// Smallest unit of I/O in bytes (queue/logical_block_size).
    pub logical_block: u32,
    /// Unit the device works in (queue/physical_block_size).
    pub physical_block: u32,
    /// The kernel refuses writes (`ro`).
    pub read_only: bool,
    /// The medium can be taken out (`removable`); USB SSDs say no.
    pub removable: bool,
    /// What it hangs on.
    pub bus: Bus,
    /// USB details when `bus` is USB.
    pub usb: Option<Usb>,
    /// Vendor string as printed on request, trimmed.
    pub vendor: Option<String>,
    /// Model string, trimmed.
    pub model: Option<String>,
    /// Serial number, trimmed.
    pub serial: Option<String>,
    /// Firmware revision.
    pub revision: Option<String>,
    /// Number that the kernel never reuses (`diskseq`, since 5.15; commit cf179948554a).
    pub diskseq: Option<u64>,
    /// What discard would do.
    pub discard: DiscardFacts,
    /// Partitions that the kernel knows.
    pub partitions: Vec<PartitionFacts>,
    /// Filesystem or signature on the whole device, as (type, label), from udev's database.
    pub content: Option<(String, Option<String>)>,
    /// Editions of Windows that it installs, where somebody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<String>,
    /// Who uses the device or a part of it.
    pub uses: Vec<Use>,
    /// Why the running system needs this device, when it does.
    pub system: Option<String>,
    /// File behind a loop device.
    pub backing_file: Option<PathBuf>,
    /// What it is and lies on, to be compared with other names.
    #[serde(skip)]
    pub storage: Storage,
}

/// What a device hangs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bus {
    /// USB storage, bulk-only or UAS.
    Usb,
    /// SD card in a reader of its own (mmcblk with type SD).
    Sd,
    /// Soldered eMMC.
    Mmc,
    /// NVMe over PCIe.
    Nvme,
    /// SATA or PATA.
    Ata,
    /// virtio block or SCSI of a virtual machine.
    Virtio,
    /// Other SCSI.
    Scsi,
    /// Thunderbolt, FireWire and other external buses.
    External,
    /// Loop device.
    Loop,
    /// Compressed RAM disk.
    Zram,
    /// RAM disk.
    Ram,
    /// Network block device.
    Nbd,
    /// Device mapper.
    Dm,
    /// Software RAID.
    Md,
    /// Optical drive.
    Optical,
    /// A regular file that stands for a device.
    File,
    /// A simulated device.
    Sim,
    /// Nothing known.
    #[default]
    Other,
}

impl Bus {
    /// As a person calls it, for the middle of a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usb => "USB device",
            Self::Sd => "SD card",
            Self::Mmc => "soldered eMMC",
            Self::Nvme => "NVMe disk",
            Self::Ata => "SATA disk",
            Self::Virtio => "virtual disk",
            Self::Scsi => "SCSI disk",
            Self::External => "external disk",
            Self::Loop => "loop device",
            Self::Zram => "compressed RAM disk",
            Self::Ram => "RAM disk",
            Self::Nbd => "network block device",
            Self::Dm => "device-mapper device",
            Self::Md => "RAID array",
            Self::Optical => "optical drive",
            Self::File => "file",
            Self::Sim => "simulated device",
            Self::Other => "disk",
        }
    }
}

/// USB details, from the usb_device folder above the disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usb {
    /// Negotiated speed in Mbit/s: 12, 480, 5000, 10000, 20000.
    pub speed_mbit: Option<u32>,
    /// bcdUSB, e.g. `3.20`; a USB 3 device on a 480 Mbit/s link still says 2.10 or 3.x.
    pub version: Option<String>,
    /// Whether the device says it can do more than the link does.
    pub superspeed_capable: Option<bool>,
    /// `uas` or `usb-storage`.
    pub driver: Option<String>,
    /// idVendor, four hex digits.
    pub vendor_id: Option<String>,
    /// idProduct, four hex digits.
    pub product_id: Option<String>,
    /// Port path, e.g. `2-1.4`.
    pub port: Option<String>,
    /// The folder of the USB device in /sys.
    pub sysfs: Option<PathBuf>,
}

/// What the queue says about discard. All zero = not offered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscardFacts {
    /// Bytes; requests should be aligned to it.
    pub granularity: u64,
    /// Largest single request in bytes; 0 = the kernel offers no discard.
    pub max_bytes: u64,
    /// Offset of the first aligned byte.
    pub alignment: u64,
    /// scsi_disk's provisioning_mode (`unmap`, `writesame_16`, `full`, `disabled`, ...).
    pub provisioning_mode: Option<String>,
    /// The file that holds provisioning_mode.
    pub provisioning_file: Option<PathBuf>,
    /// VPD page B0 (block limits) as raw bytes, when /sys has it.
    #[serde(skip)]
    pub vpd_b0: Option<Vec<u8>>,
    /// VPD page B2 (logical block provisioning) as raw bytes, when /sys has it.
    #[serde(skip)]
    pub vpd_b2: Option<Vec<u8>>,
}

/// One partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionFacts {
    /// Kernel name, e.g. `sdb1`.
    pub name: String,
    /// Its node.
    pub path: PathBuf,
    /// Major and minor number.
    pub rdev: (u32, u32),
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Filesystem type from udev's database.
    pub fs_type: Option<String>,
    /// Filesystem label, or the partition's name.
    pub label: Option<String>,
}

/// One use that keeps a device busy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// The disk or partition that is used, e.g. `/dev/sdb1`.
    pub device: PathBuf,
    /// Who uses it.
    pub by: User,
}

/// Who uses a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum User {
    /// Mounted at these places.
    Mount {
        /// Mount point.
        at: PathBuf,
    },
    /// Swap space in use.
    Swap,
    /// Held by a LUKS or dm-crypt mapping.
    Crypt {
        /// Mapping name below /dev/mapper.
        name: String,
    },
    /// Held by an LVM logical volume.
    Lvm {
        /// Mapping name below /dev/mapper, e.g. `vg0-root`.
        name: String,
    },
    /// Held by another device-mapper target.
    Dm {
        /// Mapping name below /dev/mapper.
        name: String,
    },
    /// Member of a running md array.
    Md {
        /// Array, e.g. `md127`.
        name: String,
    },
    /// Member of an imported ZFS pool.
    Zfs {
        /// Pool name, or `?`.
        pool: String,
    },
    /// Member of a mounted btrfs of several devices.
    Btrfs {
        /// Filesystem UUID.
        uuid: String,
    },
    /// A loop device over a file.
    Loop {
        /// Its kernel name.
        name: String,
        /// Where it, or a part of it, is mounted.
        mounts: Vec<PathBuf>,
    },
    /// A program that keeps a file to itself.
    Program {
        /// How.
        grip: Grip,
        /// Its process, where the kernel says which.
        pid: Option<u32>,
        /// Its name.
        name: Option<String>,
    },
    /// bcache or anything else that lists itself in `holders`.
    Other {
        /// Holder's kernel name.
        name: String,
    },
}

/// How a program keeps a file to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grip {
    /// flock(2), or a lock of fcntl(2): of the process (POSIX) or of the open file (OFD, as QEMU takes them).
    Lock,
    /// A lease of fcntl(2): it wants to be asked first.
    Lease,
    /// A shared mapping that can be written, as the memory or disk of a virtual machine.
    Mapping,
}

impl Facts {
    /// The part that must not change between check and write.
    pub fn identity(&self) -> Identity {
        Identity {
            rdev: self.rdev,
            size: self.size,
            serial: self.serial.clone(),
            diskseq: self.diskseq,
        }
    }
}

/// What makes a device the same device. Names and nodes are reused, sequence numbers are not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Major and minor number.
    pub rdev: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Serial number.
    pub serial: Option<String>,
    /// Disk sequence number.
    pub diskseq: Option<u64>,
}
