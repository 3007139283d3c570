//! Which devices may be written: facts and rules in, approval or all refusals out. Pure; the only
//! place that decides, and the only one that can make an [`Approved`], without which no device is
//! opened for writing.
//!
//! | rule | refused when | lifted by |
//! |---|---|---|
//! | `partition` | the target is a partition | nothing: name the disk |
//! | `no-medium` | its size is 0 | nothing (the one rule for reading as well) |
//! | `read-only` | the kernel says it is write-protected | nothing |
//! | `system-disk` | it holds /, /boot, /boot/efi, /efi, /usr, /var, /home or active swap, through any stack | nothing |
//! | `mounted` | it or a partition of it, or what is built on them, is mounted | `--unmount` |
//! | `swap` | it holds active swap | nothing: swapoff |
//! | `held` | device mapper, LVM, LUKS, md, ZFS, btrfs or anything else holds it | nothing: release it |
//! | `too-small` | the image is larger than the device | nothing |
//! | `source-on-target` | the source lies on it, or is it | nothing |
//! | `optical` | it is an optical drive | nothing |
//! | `fixed-disk` | neither removable nor on an external bus | `--force` |
//! | `virtual` | device mapper, md or a RAM disk | `--force` |
//! | `source-mounted` | it is copied from while it, a partition of it, or what is built on them, is mounted | `--freeze`; nothing where the system needs it |
//! | `source-in-use` | it is copied from while it is swap or held | nothing: swapoff, release it |
//! | `changed` | it is not the device it was at the check | nothing |

use std::path::Path;

use crate::device::facts::{Bus, Facts, Identity, Use, User};
pub use crate::device::refusal::{Lift, Refusal, report};
use crate::device::storage::Storage;
use crate::text::printable;

/// What a person allows and wants.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// `--force`: lifts `fixed-disk` and `virtual`, nothing else.
    pub force: bool,
    /// `--unmount`: lifts `mounted`, nothing else.
    pub unmount: bool,
    /// `--freeze`: lifts `source-mounted`, nothing else.
    pub freeze: bool,
    /// What will be done to the device.
    pub purpose: Purpose,
    /// Bytes that must fit, when known.
    pub image_size: Option<u64>,
    /// Where the source lies, when it is a file or device of this system.
    pub source: Option<Storage>,
}

/// What will be done to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// An image is written.
    #[default]
    Write,
    /// Its blocks are given back.
    Discard,
    /// It is only read.
    ReadOnly,
    /// It is only read, and must not change meanwhile.
    Copy,
}

/// A device that may be used for the purpose it was approved for.
#[derive(Clone, Debug)]
pub struct Approved {
    facts: Facts,
    purpose: Purpose,
    lifted: Vec<Refusal>,
}

impl Approved {
    /// What was judged.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What must still be true when it is opened.
    pub fn identity(&self) -> Identity {
        self.facts.identity()
    }

    /// What it may be used for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Refusals that `--force` or `--unmount` set aside.
    pub fn lifted(&self) -> &[Refusal] {
        &self.lifted
    }

    /// Mount points to freeze while it is read.
    pub fn to_freeze(&self) -> Vec<&Path> {
        let mount = |refusal| match refusal {
            &Refusal::SourceInUse { used: Use { by: User::Mount { ref at }, .. }, .. } => {
                Some(at.as_path())
            }
            _ => None,
        };
        self.lifted.iter().filter_map(mount).collect()
    }

    /// What is mounted and where, to be unmounted before anything else, in this order.
    pub fn to_unmount(&self) -> Vec<(&Path, &Path)> {
        let mount = |refusal| match refusal {
            &Refusal::Busy(Use { by: User::Mount { ref at }, ref device }) => {
                Some((device.as_path(), at.as_path()))
            }
            _ => None,
        };
        self.lifted.iter().filter_map(mount).collect()
    }
}

/// Judges a device. All refusals at once, so that a person releases everything in one go.
pub fn approve(facts: Facts, rules: &Rules) -> Result<Approved, Vec<Refusal>> {
    let found = refusals(&facts, rules);
    let lifted_by = |refusal: &Refusal| match refusal.lifted_by() {
        Some(Lift::Force) => rules.force,
        Some(Lift::Unmount) => rules.unmount,
        Some(Lift::Freeze) => rules.freeze,
        None => false,
    };
    let (lifted, stay): (Vec<_>, Vec<_>) = found.into_iter().partition(lifted_by);
    if stay.is_empty() { Ok(Approved { facts, purpose: rules.purpose, lifted }) } else { Err(stay) }
}

/// Every rule that the device breaks, lifted or not, the gravest first.
fn refusals(facts: &Facts, rules: &Rules) -> Vec<Refusal> {
    let mut found = Vec::new();
    // An empty file is no drive without a medium; its size is judged when it is opened.
    if facts.size == 0 && facts.bus != Bus::File {
        found.push(Refusal::NoMedium);
    }
    match rules.purpose {
        Purpose::ReadOnly => return found,
        Purpose::Copy => {
            let system = facts.system.is_some();
            let in_use = |used| Refusal::SourceInUse { used, system };
            found.extend(facts.uses.iter().cloned().map(in_use));
            return found;
        }
        Purpose::Write | Purpose::Discard => {}
    }
    found.extend(facts.system.clone().map(|why| Refusal::SystemDisk { why }));
    found.extend(facts.partition_of.clone().map(|disk| Refusal::PartitionInsteadOfDisk { disk }));
    if facts.bus == Bus::Optical {
        found.push(Refusal::Optical);
    }
    if facts.read_only {
        found.push(Refusal::ReadOnly { bus: facts.bus });
    }
    found.extend(source_on(facts, rules));
    found.extend(facts.uses.iter().cloned().map(Refusal::Busy));
    if let Some(needs) = rules.image_size.filter(|needs| *needs > facts.size && facts.size > 0) {
        found.push(Refusal::TooSmall { needs, has: facts.size });
    }
    if matches!(facts.bus, Bus::Dm | Bus::Md | Bus::Ram) {
        found.push(Refusal::Virtual { bus: facts.bus });
    }
    if fixed(facts) {
        found.push(Refusal::FixedInternalDisk { bus: facts.bus });
    }
    found
}

/// Whether it looks built in. What is on an external bus is not, whatever `removable` says: USB
/// SSDs call themselves fixed.
fn fixed(facts: &Facts) -> bool {
    match facts.bus {
        Bus::Mmc => true,
        Bus::Nvme | Bus::Ata | Bus::Virtio | Bus::Scsi | Bus::Other => !facts.removable,
        Bus::Usb
        | Bus::Sd
        | Bus::External
        | Bus::Optical
        | Bus::Loop
        | Bus::Zram
        | Bus::Ram
        | Bus::Nbd
        | Bus::Dm
        | Bus::Md
        | Bus::File
        | Bus::Sim => false,
    }
}

fn source_on(facts: &Facts, rules: &Rules) -> Option<Refusal> {
    let source = rules.source.as_ref()?;
    let how = source.shared_with(&facts.storage)?;
    Some(Refusal::SourceOnTarget { source: source.path.clone(), how })
}

/// Compares what must not change between check and write.
pub fn same(before: &Identity, now: &Identity) -> Result<(), Refusal> {
    let text = |value: &Option<String>| {
        value.as_deref().map_or_else(|| "none".to_owned(), |text| format!("'{}'", printable(text)))
    };
    let seq = |value: Option<u64>| value.map_or("unknown".to_owned(), |n| n.to_string());
    let rdev = |(major, minor): (u32, u32)| format!("{major}:{minor}");
    let pairs = [
        ("device number", rdev(before.rdev), rdev(now.rdev)),
        ("size", format!("{} bytes", before.size), format!("{} bytes", now.size)),
        ("serial number", text(&before.serial), text(&now.serial)),
        ("disk sequence number", seq(before.diskseq), seq(now.diskseq)),
    ];
    if before == now {
        return Ok(());
    }
    let differing = || pairs.iter().filter(|(_, was, is)| was != is);
    let list = |values: Vec<String>| values.join(", ");
    Err(Refusal::Changed {
        was: list(differing().map(|(name, was, _)| format!("{name} {was}")).collect()),
        is: list(differing().map(|(name, _, is)| format!("{name} {is}")).collect()),
    })
}

#[cfg(test)]
mod tests;
