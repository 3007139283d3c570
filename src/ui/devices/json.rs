//! The same for scripts: one JSON document with its schema's name. Fields are added, never
//! changed; `null` = not known. Strings are exact; characters that could steer a terminal are
//! written as `\uXXXX`.

use serde::Serialize;

use super::detail::{holders, link_warning};
use super::{Show, Verdict, mounts, shown};
use crate::device::facts::{Bus, Facts, PartitionFacts, Use};
use crate::text::safe_json;

/// Name and version of the document.
const SCHEMA: &str = "mediawriter-devices/1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    devices: Vec<Device<'a>>,
}

#[derive(Serialize)]
struct Device<'a> {
    path: String,
    name: &'a str,
    major: u32,
    minor: u32,
    diskseq: Option<u64>,
    by_id: Vec<String>,
    vendor: &'a Option<String>,
    model: &'a Option<String>,
    serial: &'a Option<String>,
    revision: &'a Option<String>,
    size_bytes: u64,
    size_gib: f64,
    size_gb: f64,
    logical_block: u32,
    physical_block: u32,
    bus: Bus,
    usb: Option<Link<'a>>,
    removable: bool,
    read_only: bool,
    discard: Discard<'a>,
    content: Option<Content<'a>>,
    partitions: Vec<Partition<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    installs: &'a [String],
    mounts: Vec<String>,
    holders: Vec<String>,
    uses: &'a [Use],
    backing_file: Option<String>,
    system: &'a Option<String>,
    flash: Flash,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Link<'a> {
    vendor_id: &'a Option<String>,
    product_id: &'a Option<String>,
    version: &'a Option<String>,
    speed_mbit: Option<u32>,
    superspeed_capable: Option<bool>,
    transport: Option<&'a str>,
    port: &'a Option<String>,
}

#[derive(Serialize)]
struct Discard<'a> {
    offered: bool,
    granularity: u64,
    max_bytes: u64,
    alignment: u64,
    provisioning_mode: &'a Option<String>,
}

#[derive(Serialize)]
struct Content<'a> {
    fs_type: &'a str,
    label: &'a Option<String>,
}

#[derive(Serialize)]
struct Partition<'a> {
    path: String,
    name: &'a str,
    start_bytes: u64,
    size_bytes: u64,
    fs_type: &'a Option<String>,
    label: &'a Option<String>,
}

#[derive(Serialize)]
struct Flash {
    accepted: bool,
    refusals: Vec<Reason>,
}

#[derive(Serialize)]
struct Reason {
    rule: &'static str,
    message: String,
    advice: Option<String>,
    liftable: bool,
}

/// The document for `devices --json`.
pub fn json(devices: &[Facts], show: Show) -> String {
    let devices = shown(devices, show).into_iter().map(device).collect();
    // Plain data with string keys: serialising it cannot fail.
    let text = serde_json::to_string_pretty(&Document { schema: SCHEMA, devices });
    safe_json(&text.unwrap_or_default()) + "\n"
}

fn device(facts: &Facts) -> Device<'_> {
    let bytes = facts.size as f64;
    Device {
        path: lossy(&facts.path),
        name: &facts.name,
        major: facts.rdev.0,
        minor: facts.rdev.1,
        diskseq: facts.diskseq,
        by_id: facts.by_id.iter().map(|link| lossy(link)).collect(),
        vendor: &facts.vendor,
        model: &facts.model,
        serial: &facts.serial,
        revision: &facts.revision,
        size_bytes: facts.size,
        size_gib: hundredths(bytes / (1u64 << 30) as f64),
        size_gb: hundredths(bytes / 1e9),
        logical_block: facts.logical_block,
        physical_block: facts.physical_block,
        bus: facts.bus,
        usb: usb(facts),
        removable: facts.removable,
        read_only: facts.read_only,
        discard: Discard {
            offered: facts.discard.max_bytes > 0,
            granularity: facts.discard.granularity,
            max_bytes: facts.discard.max_bytes,
            alignment: facts.discard.alignment,
            provisioning_mode: &facts.discard.provisioning_mode,
        },
        content: facts.content.as_ref().map(|(fs_type, label)| Content { fs_type, label }),
        partitions: facts.partitions.iter().map(partition).collect(),
        installs: &facts.windows,
        mounts: mounts(facts),
        holders: holders(facts),
        uses: &facts.uses,
        backing_file: facts.backing_file.as_deref().map(lossy),
        system: &facts.system,
        flash: flash(&Verdict::of(facts)),
        warnings: link_warning(facts).into_iter().collect(),
    }
}

fn usb(facts: &Facts) -> Option<Link<'_>> {
    let usb = facts.usb.as_ref()?;
    Some(Link {
        vendor_id: &usb.vendor_id,
        product_id: &usb.product_id,
        version: &usb.version,
        speed_mbit: usb.speed_mbit,
        superspeed_capable: usb.superspeed_capable,
        transport: usb.driver.as_deref().map(|driver| match driver {
            "usb-storage" => "bulk-only",
            other => other,
        }),
        port: &usb.port,
    })
}

fn partition(part: &PartitionFacts) -> Partition<'_> {
    Partition {
        path: lossy(&part.path),
        name: &part.name,
        start_bytes: part.start,
        size_bytes: part.size,
        fs_type: &part.fs_type,
        label: &part.label,
    }
}

fn flash(verdict: &Verdict) -> Flash {
    let reason = |refusal: &super::Refusal| Reason {
        rule: refusal.rule(),
        message: refusal.to_string(),
        advice: refusal.advice(),
        liftable: refusal.liftable(),
    };
    Flash {
        accepted: verdict.refusals.is_empty(),
        refusals: verdict.refusals.iter().map(reason).collect(),
    }
}

fn lossy(path: &std::path::Path) -> String {
    path.to_string_lossy().into_owned()
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
