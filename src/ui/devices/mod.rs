//! `mediawriter devices`: which devices there are, whether `flash` would take them, and if not
//! why. Facts in, text out; the verdict is the policy's own. Readable in 80 columns.

use std::fmt::Write as _;

use crate::device::facts::{Bus, Facts, User};
use crate::device::policy::{Lift, Purpose, Refusal, Rules, approve};
use crate::text::{natural, printable, printable_path};
use crate::units::Bytes;

mod detail;
mod json;
#[cfg(test)]
mod tests;

pub use detail::{detail, link_warning};
pub use json::json;

/// Columns of the output.
const WIDTH: usize = 80;

/// Which devices are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// What can hold install media: no empty slots, loop devices, RAM disks, mappings, arrays.
    Media,
    /// Every block device that is no partition.
    All,
}

/// What `flash` would say about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Empty = it would be taken.
    pub refusals: Vec<Refusal>,
}

impl Verdict {
    /// Asks the policy, without `--force` and `--unmount`.
    pub fn of(facts: &Facts) -> Self {
        let rules = Rules { purpose: Purpose::Write, ..Rules::default() };
        Self { refusals: approve(facts.clone(), &rules).err().unwrap_or_default() }
    }

    /// For a column: `yes`, `no`, or the flags it takes.
    pub fn word(&self) -> &'static str {
        let lifts: Vec<Option<Lift>> = self.refusals.iter().map(Refusal::lifted_by).collect();
        if lifts.is_empty() {
            "yes"
        } else if self.is_system() {
            "no, system"
        } else if lifts.contains(&None) {
            "no"
        } else if !lifts.contains(&Some(Lift::Force)) {
            "--unmount"
        } else if !lifts.contains(&Some(Lift::Unmount)) {
            "--force"
        } else {
            "both flags"
        }
    }

    fn is_system(&self) -> bool {
        self.refusals.iter().any(|refusal| matches!(refusal, Refusal::SystemDisk { .. }))
    }

    /// Those worth telling: for a disk of the system, what else is wrong with it is no news.
    fn told(&self) -> impl Iterator<Item = &Refusal> {
        let system = self.is_system();
        self.refusals
            .iter()
            .filter(move |refusal| !system || matches!(refusal, Refusal::SystemDisk { .. }))
    }
}

/// Why a device is left out of a list of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    Empty,
    Virtual,
}

fn hidden(facts: &Facts) -> Option<Hidden> {
    let virtual_bus = matches!(facts.bus, Bus::Loop | Bus::Ram | Bus::Zram | Bus::Dm | Bus::Md);
    if virtual_bus { Some(Hidden::Virtual) } else { (facts.size == 0).then_some(Hidden::Empty) }
}

/// Those to list, in the order people count.
fn shown(devices: &[Facts], show: Show) -> Vec<&Facts> {
    let mut list: Vec<&Facts> = devices
        .iter()
        .filter(|facts| facts.partition_of.is_none())
        .filter(|facts| show == Show::All || hidden(facts).is_none())
        .collect();
    list.sort_by(|a, b| natural(&a.name, &b.name));
    list
}

/// The whole text output: a table, then a block for each device, then what was left out.
pub fn list(devices: &[Facts], show: Show) -> String {
    let listed = shown(devices, show);
    let mut out = table(&listed);
    let mut usable = false;
    // The table says all there is to say about an empty slot.
    for facts in listed.iter().filter(|facts| facts.size > 0) {
        let verdict = Verdict::of(facts);
        usable |= verdict.word() != "no" && !verdict.is_system();
        out.push('\n');
        // A disk that is never a target needs no more than the reason.
        out.push_str(&if show == Show::Media && verdict.is_system() {
            detail::short(facts, &verdict)
        } else {
            detail(facts, &verdict)
        });
    }
    let mut notes = String::new();
    if !usable {
        notes.push_str(
            "There is no device that flash would write to. Plug in a stick or card; if it is\n",
        );
        notes.push_str("not listed then, try another port.\n");
    }
    if show == Show::Media {
        notes.push_str(&left_out(devices));
    }
    if !out.is_empty() && !notes.is_empty() {
        out.push('\n');
    }
    out + &notes
}

/// What `--all` would add.
fn left_out(devices: &[Facts]) -> String {
    let count = |kind| devices.iter().filter(|facts| hidden(facts) == Some(kind)).count();
    let mut parts = Vec::new();
    match count(Hidden::Empty) {
        0 => {}
        1 => parts.push("1 empty slot".to_owned()),
        n => parts.push(format!("{n} empty slots")),
    }
    match count(Hidden::Virtual) {
        0 => {}
        1 => parts.push("1 virtual device".to_owned()),
        n => parts.push(format!("{n} virtual devices (loop, RAM, LVM)")),
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("Not shown: {}. See --all.\n", parts.join(" and "))
}

fn table(devices: &[&Facts]) -> String {
    if devices.is_empty() {
        return String::new();
    }
    let heads = ["DEVICE", "SIZE", "LINK", "FLASH", "MODEL"].map(str::to_owned);
    let mut rows = vec![heads];
    rows.extend(devices.iter().map(|facts| {
        [
            printable_path(&facts.path),
            size(facts),
            link(facts),
            Verdict::of(facts).word().to_owned(),
            title(facts).unwrap_or_else(|| "-".to_owned()),
        ]
    }));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let rest = WIDTH.saturating_sub(widths.iter().map(|w| w + 2).sum::<usize>()).max(8);
    let mut out = String::new();
    for [device, size, link, flash, model] in rows {
        let [a, b, c, d] = widths;
        let model = cut(&model, rest);
        // A String takes every write.
        writeln!(out, "{device:a$}  {size:b$}  {link:c$}  {flash:d$}  {model}").ok();
    }
    out
}

/// The first `width` characters, with dots where some are missing.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let start: String = text.chars().take(width.saturating_sub(2)).collect();
    format!("{}..", start.trim_end())
}

fn size(facts: &Facts) -> String {
    if facts.size == 0 { "no medium".to_owned() } else { Bytes(facts.size).to_string() }
}

/// Vendor and model, or what else tells a person which one it is.
fn title(facts: &Facts) -> Option<String> {
    let (vendor, model) = (facts.vendor.as_deref(), facts.model.as_deref());
    let title = match (vendor, model) {
        // Many models begin with the vendor's name.
        (Some(vendor), Some(model)) if !model.starts_with(vendor) => format!("{vendor} {model}"),
        (_, Some(model)) => model.to_owned(),
        (Some(vendor), None) => vendor.to_owned(),
        (None, None) => facts.backing_file.as_ref()?.file_name()?.to_string_lossy().into_owned(),
    };
    Some(printable(&title))
}

/// How it is connected, short enough for a column.
fn link(facts: &Facts) -> String {
    let speed = facts.usb.as_ref().and_then(|usb| usb.speed_mbit);
    let word = match facts.bus {
        Bus::Usb => {
            return speed
                .map_or_else(|| "USB".to_owned(), |mbit| format!("USB {}", short_speed(mbit)));
        }
        Bus::Sd => "SD card",
        Bus::Mmc => "eMMC",
        Bus::Nvme => "NVMe",
        Bus::Ata => "SATA",
        Bus::Virtio => "virtual",
        Bus::Scsi => "SCSI",
        Bus::External => "external",
        Bus::Loop => "loop",
        Bus::Zram | Bus::Ram => "RAM",
        Bus::Nbd => "network",
        Bus::Dm => "mapping",
        Bus::Md => "RAID",
        Bus::Optical => "optical",
        Bus::File => "file",
        Bus::Sim => "simulated",
        Bus::Other => "?",
    };
    word.to_owned()
}

fn short_speed(mbit: u32) -> String {
    if mbit >= 1000 { format!("{}G", mbit / 1000) } else { format!("{mbit}M") }
}

/// Where the device or a part of it is mounted.
fn mounts(facts: &Facts) -> Vec<String> {
    let mount = |by: &User| match by {
        User::Mount { at } => Some(at.to_string_lossy().into_owned()),
        _ => None,
    };
    facts.uses.iter().filter_map(|used| mount(&used.by)).collect()
}
