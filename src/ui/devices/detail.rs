//! Everything about one device, a labelled line each. Whatever the device says is made printable;
//! paths and commands are never broken, so that they can be copied.

use super::{Verdict, WIDTH, size, title};
use crate::device::facts::{Bus, DiscardFacts, Facts, PartitionFacts, Usb, User};
use crate::device::refusal::{Refusal, describe};
use crate::text::{printable, printable_path};
use crate::units::Bytes;

/// Width of the labels.
const LABEL: usize = 12;

/// Lines under construction.
struct Block(String);

impl Block {
    fn of(facts: &Facts, verdict: &Verdict) -> Self {
        let mark = if verdict.is_system() { "  [system disk]" } else { "" };
        let name = title(facts).unwrap_or_else(|| facts.bus.name().to_owned());
        Self(format!("{}  {name}{mark}\n", printable_path(&facts.path)))
    }

    /// A line; too long ones go on below, at blanks.
    fn line(&mut self, label: &str, text: &str) {
        let mut start = format!("  {label:LABEL$}");
        for part in wrap(text, WIDTH - LABEL - 2) {
            self.0.push_str(&start);
            self.0.push_str(&part);
            self.0.push('\n');
            start = " ".repeat(LABEL + 2);
        }
    }

    /// The first line with its label, the others without.
    fn lines(&mut self, label: &str, texts: impl IntoIterator<Item = String>) {
        let mut label = label;
        for text in texts {
            self.line(label, &text);
            label = "";
        }
    }

    fn maybe(&mut self, label: &str, text: Option<&String>) {
        if let Some(text) = text {
            self.line(label, &printable(text));
        }
    }

    fn verdict(&mut self, verdict: &Verdict) {
        let first = match verdict.word() {
            "yes" => "yes",
            "--unmount" => "only with --unmount:",
            "--force" => "only with --force:",
            "both flags" => "only with --force and --unmount:",
            _ => "no:",
        };
        self.line("flash", first);
        for refusal in verdict.told() {
            self.line("", &refusal.to_string());
            match (refusal, refusal.advice()) {
                // In a list of devices there is no need to say that there are others.
                (Refusal::SystemDisk { .. }, _) | (_, None) => {}
                // A command stays in one piece.
                (Refusal::Busy(_), Some(advice)) => {
                    self.0.push_str(&" ".repeat(LABEL + 2));
                    self.0.extend(["-> ", &advice, "\n"]);
                }
                (_, Some(advice)) => self.line("", &format!("-> {advice}")),
            }
        }
    }
}

/// Splits at blanks into parts of at most `width` characters; a longer word stays whole.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = parts.last_mut() else {
            continue;
        };
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            parts.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    parts
}

/// Name and verdict only.
pub(super) fn short(facts: &Facts, verdict: &Verdict) -> String {
    let mut block = Block::of(facts, verdict);
    block.verdict(verdict);
    block.0
}

/// All that is known about a device.
pub fn detail(facts: &Facts, verdict: &Verdict) -> String {
    let mut block = Block::of(facts, verdict);
    block.verdict(verdict);
    if facts.size > 0 {
        block.line("size", &format!("{}, {} bytes", size(facts), facts.size));
        let sectors = (facts.logical_block, facts.physical_block);
        block.line("sectors", &format!("{} B logical, {} B physical", sectors.0, sectors.1));
    }
    block.line("connection", &connection(facts));
    if let Some(warning) = link_warning(facts) {
        block.line("WARNING", &warning);
    }
    block.maybe("serial", facts.serial.as_ref());
    block.maybe("firmware", facts.revision.as_ref());
    block.lines("by-id", facts.by_id.iter().map(|link| printable_path(link)));
    if let Some(file) = &facts.backing_file {
        block.line("file", &printable_path(file));
    }
    let removable = match (facts.bus, facts.removable) {
        // The kernel calls a card's reader fixed.
        (Bus::Sd, _) => "card",
        (_, true) => "removable",
        (_, false) => "not removable",
    };
    let access = if facts.read_only { "write-protected" } else { "writable" };
    block.line("medium", &format!("{removable}, {access}"));
    block.line("discard", &discard(&facts.discard));
    if let Some((kind, label)) = &facts.content {
        block.line("content", &content(Some(kind), label.as_ref()));
    }
    block.lines("partitions", facts.partitions.iter().map(partition));
    block.lines("installs", facts.windows.iter().map(|edition| printable(edition)));
    // The verdict has listed them already, with what to do, unless it had a graver reason.
    if verdict.is_system() {
        let used = facts.uses.iter().map(describe);
        block.lines("in use", used);
    }
    block.0
}

fn connection(facts: &Facts) -> String {
    match (&facts.usb, facts.bus) {
        (Some(usb), _) => usb_connection(usb),
        (None, Bus::Sd) => "SD card in a reader of its own".to_owned(),
        (None, bus) => bus.name().to_owned(),
    }
}

fn usb_connection(usb: &Usb) -> String {
    let mut parts = vec![match &usb.version {
        Some(version) => format!("USB {}", printable(version)),
        None => "USB".to_owned(),
    }];
    parts.push(usb.speed_mbit.map_or_else(|| "link speed unknown".to_owned(), speed));
    parts.extend(usb.driver.as_ref().map(|driver| match driver.as_str() {
        "uas" => "UAS".to_owned(),
        "usb-storage" => "bulk-only".to_owned(),
        other => printable(other),
    }));
    if let (Some(vendor), Some(product)) = (&usb.vendor_id, &usb.product_id) {
        parts.push(format!("id {}:{}", printable(vendor), printable(product)));
    }
    parts.extend(usb.port.as_ref().map(|port| format!("port {}", printable(port))));
    parts.join(", ")
}

fn speed(mbit: u32) -> String {
    if mbit >= 1000 && mbit.is_multiple_of(1000) {
        format!("{} Gbit/s link", mbit / 1000)
    } else {
        format!("{mbit} Mbit/s link")
    }
}

/// What to tell about a USB 3 device on a USB 2 link, if that is what it is.
pub fn link_warning(facts: &Facts) -> Option<String> {
    let usb = facts.usb.as_ref()?;
    let mbit = usb.speed_mbit.filter(|mbit| *mbit <= 480)?;
    (usb.superspeed_capable == Some(true)).then(|| {
        format!(
            "this USB 3 device runs on a {mbit} Mbit/s link, about {} MB/s at most: use a USB 3 \
             port (often blue or marked SS), without a USB 2 hub or cable, and push the plug in \
             fully",
            // What is left after line coding and protocol; USB 2 gives 30 to 45 MB/s.
            (mbit / 12).max(1)
        )
    })
}

fn discard(discard: &DiscardFacts) -> String {
    let mode = discard.provisioning_mode.as_ref().map(|mode| format!("mode {}", printable(mode)));
    if discard.max_bytes == 0 {
        let mode = mode.map(|mode| format!(" ({mode})")).unwrap_or_default();
        return format!("not offered{mode}");
    }
    let mut parts = vec![
        format!("granularity {}", Bytes(discard.granularity).binary()),
        format!("up to {} per request", Bytes(discard.max_bytes).binary()),
    ];
    parts.extend(mode);
    parts.join(", ")
}

/// What a device or partition holds, e.g. `vfat "MY STICK"`; empty when nothing is known.
fn content(kind: Option<&String>, label: Option<&String>) -> String {
    let kind = kind.map(|kind| printable(kind));
    let label = label.map(|label| format!("\"{}\"", printable(label)));
    let known: Vec<String> = kind.into_iter().chain(label).collect();
    known.join(" ")
}

fn partition(part: &PartitionFacts) -> String {
    let content = content(part.fs_type.as_ref(), part.label.as_ref());
    let comma = if content.is_empty() { "" } else { ", " };
    format!("{}: {}{comma}{content}", printable(&part.name), Bytes(part.size))
}

/// Names of those that hold the device, mounts and swap left out.
pub(super) fn holders(facts: &Facts) -> Vec<String> {
    let holder = |by: &User| match by {
        User::Mount { .. } | User::Swap => None,
        User::Crypt { name }
        | User::Lvm { name }
        | User::Dm { name }
        | User::Md { name }
        | User::Loop { name, .. }
        | User::Other { name } => Some(name.clone()),
        User::Program { name, .. } => name.clone(),
        User::Zfs { pool } => Some(pool.clone()),
        User::Btrfs { uuid } => Some(uuid.clone()),
    };
    facts.uses.iter().filter_map(|used| holder(&used.by)).collect()
}
