//! Refusals of `policy` in words: what is wrong, its stable name, what lifts it, and how a person
//! gets rid of it. Names are made printable here; commands are quoted for a shell. Pure.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::device::facts::{Bus, Grip, Use, User};
use crate::error::Error;
use crate::text::{printable, printable_path, shell_word};
use crate::units::Bytes;

/// Why a device is not used. One variant per rule of the table above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The target is a partition of this disk.
    PartitionInsteadOfDisk {
        /// The disk to name instead.
        disk: PathBuf,
    },
    /// Size 0.
    NoMedium,
    /// Write-protected.
    ReadOnly {
        /// Loop devices are made so by `losetup -r`, others by a switch.
        bus: Bus,
    },
    /// The running system needs it.
    SystemDisk {
        /// As a sentence without subject: `holds / (on sda2)`.
        why: String,
    },
    /// Somebody uses it.
    Busy(Use),
    /// It is to be copied, and somebody may change it meanwhile.
    SourceInUse {
        /// Who uses it.
        used: Use,
        /// Whether the running system needs it.
        system: bool,
    },
    /// The image does not fit.
    TooSmall {
        /// Bytes of the image.
        needs: u64,
        /// Bytes of the device.
        has: u64,
    },
    /// The source would overwrite itself.
    SourceOnTarget {
        /// The source.
        source: PathBuf,
        /// As the end of a sentence: `lies on /mnt, which is /dev/sdb1`.
        how: String,
    },
    /// An optical drive.
    Optical,
    /// Built into the computer, as far as one can tell.
    FixedInternalDisk {
        /// What it hangs on.
        bus: Bus,
    },
    /// Built by the kernel from other devices or memory.
    Virtual {
        /// Dm, Md or Ram.
        bus: Bus,
    },
    /// Another device than at the check.
    Changed {
        /// What it was.
        was: String,
        /// What it is.
        is: String,
    },
}

/// The flag that sets a refusal aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lift {
    /// `--force`.
    Force,
    /// `--unmount`.
    Unmount,
    /// `--freeze`.
    Freeze,
}

impl Refusal {
    /// Stable name for scripts and documentation.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::PartitionInsteadOfDisk { .. } => "partition",
            Self::NoMedium => "no-medium",
            Self::ReadOnly { .. } => "read-only",
            Self::SystemDisk { .. } => "system-disk",
            Self::Busy(Use { by: User::Mount { .. }, .. }) => "mounted",
            Self::Busy(Use { by: User::Swap, .. }) => "swap",
            Self::Busy(_) => "held",
            Self::SourceInUse { used: Use { by: User::Mount { .. }, .. }, .. } => "source-mounted",
            Self::SourceInUse { .. } => "source-in-use",
            Self::TooSmall { .. } => "too-small",
            Self::SourceOnTarget { .. } => "source-on-target",
            Self::Optical => "optical",
            Self::FixedInternalDisk { .. } => "fixed-disk",
            Self::Virtual { .. } => "virtual",
            Self::Changed { .. } => "changed",
        }
    }

    /// The flag that lifts it, if any does.
    pub fn lifted_by(&self) -> Option<Lift> {
        match self {
            Self::FixedInternalDisk { .. } | Self::Virtual { .. } => Some(Lift::Force),
            Self::Busy(Use { by: User::Mount { .. }, .. }) => Some(Lift::Unmount),
            Self::SourceInUse { used: Use { by: User::Mount { .. }, .. }, system: false } => {
                Some(Lift::Freeze)
            }
            Self::PartitionInsteadOfDisk { .. }
            | Self::NoMedium
            | Self::ReadOnly { .. }
            | Self::SystemDisk { .. }
            | Self::Busy(_)
            | Self::SourceInUse { .. }
            | Self::TooSmall { .. }
            | Self::SourceOnTarget { .. }
            | Self::Optical
            | Self::Changed { .. } => None,
        }
    }

    /// Whether a flag can set it aside.
    pub fn liftable(&self) -> bool {
        self.lifted_by().is_some()
    }

    /// What to do about it; a sentence without a full stop.
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::PartitionInsteadOfDisk { disk } => {
                let disk = shell_word(&disk.to_string_lossy());
                format!("name {disk} if the whole disk is meant; all its partitions will be lost")
            }
            Self::NoMedium => "put a card or disc in and try again".to_owned(),
            Self::ReadOnly { bus: Bus::Loop } => {
                "attach it again without `losetup -r`, and check that its file is writable"
                    .to_owned()
            }
            Self::ReadOnly { .. } => {
                "check the lock switch of the card, its adapter or the stick, \
                and the device's own write protection; worn-out flash turns read-only for good"
                    .to_owned()
            }
            Self::SystemDisk { .. } => {
                "choose another device (`mediawriter devices` lists them); no option lifts this"
                    .to_owned()
            }
            Self::Busy(used) => return release(used, ", or give --unmount"),
            Self::SourceInUse { system: true, .. } => {
                "start another system (a live one from a stick) and copy it there".to_owned()
            }
            Self::SourceInUse { used, .. } => {
                return release(
                    used,
                    ", or give --freeze to hold up whoever writes while it is read",
                );
            }
            Self::TooSmall { .. } => "use a larger device".to_owned(),
            Self::SourceOnTarget { .. } => "copy the source to another disk first".to_owned(),
            Self::Optical => "optical discs are burnt by other programs, e.g. xorriso".to_owned(),
            Self::FixedInternalDisk { .. } => {
                "give --force if this disk is really meant".to_owned()
            }
            Self::Virtual { .. } => "name the disk below it, or give --force".to_owned(),
            Self::Changed { .. } => {
                "see `mediawriter devices` and start again with the right device".to_owned()
            }
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartitionInsteadOfDisk { disk } => {
                write!(f, "it is a partition of {}; images go to whole disks", printable_path(disk))
            }
            Self::NoMedium => f.write_str("there is no medium in it (size 0)"),
            Self::ReadOnly { .. } => f.write_str("it is write-protected by the device"),
            Self::SystemDisk { why } => {
                write!(f, "the running system needs it: it {}", printable(why))
            }
            Self::Busy(used) => f.write_str(&describe(used)),
            Self::SourceInUse { used, .. } => {
                write!(f, "it may change while it is copied: {}", describe(used))
            }
            Self::TooSmall { needs, has } => {
                write!(
                    f,
                    "it is too small: the image needs {}, the device has {}",
                    exact(*needs),
                    exact(*has)
                )
            }
            Self::SourceOnTarget { source, how } => {
                write!(f, "it would overwrite its own source: {} {how}", printable_path(source))
            }
            Self::Optical => f.write_str("it is an optical drive"),
            Self::FixedInternalDisk { bus } => {
                write!(f, "it looks built in ({}, not removable)", bus.name())
            }
            Self::Virtual { bus } => write!(f, "it is no medium of its own ({})", bus.name()),
            Self::Changed { was, is } => {
                write!(f, "it is not the device it was: {was} before, {is} now")
            }
        }
    }
}

/// A size with its exact number of bytes.
fn exact(bytes: u64) -> String {
    format!("{bytes} bytes, {}", Bytes(bytes))
}

/// Who uses what, in a sentence without a full stop.
pub fn describe(used: &Use) -> String {
    let device = printable_path(&used.device);
    match &used.by {
        User::Mount { at } => format!("{device} is mounted at {}", printable_path(at)),
        User::Swap => format!("{device} is active swap space"),
        User::Crypt { name } => format!("{device} is open as encrypted volume {}", printable(name)),
        User::Lvm { name } => format!("{device} carries the LVM volume {}", printable(name)),
        User::Dm { name } => {
            format!("{device} is part of the device-mapper device {}", printable(name))
        }
        User::Md { name } => format!("{device} is a member of the RAID array {}", printable(name)),
        User::Zfs { pool } if pool == "?" => {
            format!("{device} is a member of an imported ZFS pool")
        }
        User::Zfs { pool } => {
            format!("{device} is a member of the imported ZFS pool {}", printable(pool))
        }
        User::Btrfs { uuid } => {
            format!("{device} is a member of the mounted btrfs {}", printable(uuid))
        }
        User::Loop { name, mounts } => {
            let at: Vec<String> = mounts.iter().map(|at| printable_path(at)).collect();
            let mounted = if at.is_empty() {
                String::new()
            } else {
                format!(", mounted at {}", at.join(", "))
            };
            format!("{device} is in use as /dev/{}{mounted}", printable(name))
        }
        User::Program { grip, pid, name } => {
            let how = match grip {
                Grip::Lock => "locked by",
                Grip::Lease => "leased to",
                Grip::Mapping => "mapped into the memory of",
            };
            let program = match (name.as_deref().map(printable), pid) {
                (Some(name), Some(pid)) => format!("{name} (process {pid})"),
                (Some(name), None) => name,
                (None, Some(pid)) => format!("process {pid}"),
                (None, None) => "a program that cannot be named".to_owned(),
            };
            format!("{device} is {how} {program}")
        }
        User::Other { name } => format!("{device} is held by {}", printable(name)),
    }
}

/// The command that releases it; `None` where the system would not survive it.
fn release(used: &Use, or: &str) -> Option<String> {
    let word = |text: &str| shell_word(text);
    Some(match &used.by {
        User::Mount { at } if at == Path::new("/") => return None,
        User::Mount { at } => format!("umount {}{or}", word(&at.to_string_lossy())),
        User::Swap => format!("swapoff {}", word(&used.device.to_string_lossy())),
        User::Crypt { name } => format!("cryptsetup close {}", word(name)),
        User::Lvm { name } => match volume_group(name) {
            Some(group) => format!("vgchange -an {}", word(&group)),
            None => format!("dmsetup remove {}", word(name)),
        },
        User::Dm { name } => format!("dmsetup remove {}", word(name)),
        User::Md { name } => format!("mdadm --stop {}", word(&format!("/dev/{name}"))),
        User::Zfs { pool } if pool == "?" => {
            "zpool export POOL (`zpool status` shows which pool has it)".to_owned()
        }
        User::Zfs { pool } => format!("zpool export {}", word(pool)),
        User::Btrfs { uuid } => {
            format!("unmount it everywhere (`findmnt -S UUID={}`)", printable(uuid))
        }
        User::Loop { mounts, .. } if mounts.iter().any(|at| at == Path::new("/")) => return None,
        User::Loop { name, mounts } => {
            let device = word(&format!("/dev/{name}"));
            let umount =
                mounts.iter().map(|at| format!("umount {} && ", word(&at.to_string_lossy())));
            format!(
                "{}losetup -d {device}; or name {device} as the target",
                umount.collect::<String>()
            )
        }
        User::Program { .. } => "wait until that program ends, or end it".to_owned(),
        User::Other { name } if name.starts_with("loop") => {
            format!("losetup -d {}", word(&format!("/dev/{name}")))
        }
        User::Other { name } if name.starts_with("bcache") => {
            format!("echo 1 > {}", word(&format!("/sys/block/{name}/bcache/stop")))
        }
        User::Other { name } => format!("stop {} first (`lsblk` shows it)", printable(name)),
    })
}

/// The group in a mapping's name. Group and volume are joined by one dash, dashes inside of them
/// are doubled (lvm2, `dm_build_dm_name`).
fn volume_group(mapping: &str) -> Option<String> {
    let bytes = mapping.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'-', Some(b'-')) => at += 2,
            (b'-', _) => return (at > 0).then(|| mapping[..at].replace("--", "-")),
            _ => at += 1,
        }
    }
    None
}

/// All refusals as one error: a line each, with its rule and its advice. `doing` is e.g.
/// `write to`.
pub fn report(doing: &str, path: &Path, refusals: &[Refusal]) -> Error {
    let mut text = format!("refusing to {doing} {}:", printable_path(path));
    for refusal in refusals {
        // A String takes every write.
        write!(text, "\n  - {refusal} [{}]", refusal.rule()).ok();
        if let Some(advice) = refusal.advice() {
            write!(text, "\n      {advice}").ok();
        }
    }
    Error::refused(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said about a user of /dev/sdb1, and the command against it.
    fn check(by: User, sentence: &str, command: &str) {
        let refusal = Refusal::Busy(Use { device: "/dev/sdb1".into(), by });
        assert_eq!(refusal.to_string(), format!("/dev/sdb1 {sentence}"));
        assert_eq!(refusal.advice().as_deref(), Some(command));
    }

    #[test]
    fn mounts_and_mappings_are_named_with_the_command_that_releases_them() {
        let (at, umount) = ("/media/My Stick", "umount '/media/My Stick', or give --unmount");
        check(User::Mount { at: at.into() }, "is mounted at /media/My Stick", umount);
        check(User::Swap, "is active swap space", "swapoff /dev/sdb1");
        let crypt = User::Crypt { name: "luks-1".into() };
        check(crypt, "is open as encrypted volume luks-1", "cryptsetup close luks-1");
        let lvm = |name: &str| User::Lvm { name: name.into() };
        let volume = "carries the LVM volume my--vg-my--root";
        check(lvm("my--vg-my--root"), volume, "vgchange -an my-vg");
        check(lvm("odd"), "carries the LVM volume odd", "dmsetup remove odd");
        let mapping = "is part of the device-mapper device mpatha";
        check(User::Dm { name: "mpatha".into() }, mapping, "dmsetup remove mpatha");
    }

    #[test]
    fn arrays_pools_and_others_are_named_with_the_command_that_releases_them() {
        let md = User::Md { name: "md127".into() };
        check(md, "is a member of the RAID array md127", "mdadm --stop /dev/md127");
        let zfs = |pool: &str| User::Zfs { pool: pool.into() };
        check(zfs("tank"), "is a member of the imported ZFS pool tank", "zpool export tank");
        let which = "zpool export POOL (`zpool status` shows which pool has it)";
        check(zfs("?"), "is a member of an imported ZFS pool", which);
        let everywhere = "unmount it everywhere (`findmnt -S UUID=ab`)";
        let btrfs = User::Btrfs { uuid: "ab".into() };
        check(btrfs, "is a member of the mounted btrfs ab", everywhere);
        let other = |name: &str| User::Other { name: name.into() };
        check(other("loop3"), "is held by loop3", "losetup -d /dev/loop3");
        let stop = "echo 1 > /sys/block/bcache0/bcache/stop";
        check(other("bcache0"), "is held by bcache0", stop);
        check(other("drbd0"), "is held by drbd0", "stop drbd0 first (`lsblk` shows it)");
    }

    #[test]
    fn nobody_is_told_to_unmount_the_root() {
        let root = Use { device: "/dev/sda1".into(), by: User::Mount { at: "/".into() } };
        assert_eq!(Refusal::Busy(root).advice(), None);
    }

    #[test]
    fn write_protection_is_no_matter_of_permissions() {
        for bus in [Bus::Usb, Bus::Sd, Bus::Loop] {
            let refusal = Refusal::ReadOnly { bus };
            assert_eq!(refusal.to_string(), "it is write-protected by the device");
            let advice = refusal.advice().unwrap();
            assert!(!advice.contains("sudo"), "{advice}");
            assert_eq!(advice.contains("losetup -r"), bus == Bus::Loop, "{advice}");
        }
    }

    #[test]
    fn a_report_has_every_refusal_its_rule_and_its_advice() {
        let swap = Use { device: "/dev/sdb2".into(), by: User::Swap };
        let error = report(
            "write to",
            Path::new("/dev/sd\u{1b}b"),
            &[Refusal::Busy(swap), Refusal::TooSmall { needs: 2048, has: 1024 }],
        );
        assert_eq!(
            error.to_string(),
            "refusing to write to /dev/sd\\u{1b}b:\n  \
             - /dev/sdb2 is active swap space [swap]\n      swapoff /dev/sdb2\n  \
             - it is too small: the image needs 2048 bytes, 2.00 KiB (2.05 kB), the device has \
             1024 bytes, 1.00 KiB (1.02 kB) [too-small]\n      use a larger device"
        );
        assert_eq!(error.kind().exit_code(), 3);
    }
}
