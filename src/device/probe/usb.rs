//! The USB device above a disk: the first folder upwards that has `idVendor`. Its attributes are
//! in Documentation/ABI/testing/sysfs-bus-usb and Documentation/ABI/stable/sysfs-bus-usb;
//! `bos_descriptors` is there since 6.9.

use std::path::Path;

use super::{bytes, link_name, parse, text};
use crate::device::facts::Usb;

/// Fastest link of USB 2 in Mbit/s.
const HIGH_SPEED: u32 = 480;

/// The folder of the USB device that a disk's folder lies in.
pub(super) fn device_above(disk: &Path) -> Option<&Path> {
    disk.ancestors().find(|folder| folder.join("idVendor").exists())
}

/// What the USB device says; `disk` lies below `device`.
pub(super) fn describe(device: &Path, disk: &Path) -> Usb {
    let read = |name: &str| text(&device.join(name));
    // 1.5 Mbit/s is the one speed that is no whole number.
    let speed_mbit = read("speed").and_then(|speed| speed.split('.').next()?.parse().ok());
    let version = read("version");
    let interface = disk.ancestors().find(|folder| folder.parent() == Some(device));
    Usb {
        superspeed_capable: superspeed(device, speed_mbit, version.as_deref()),
        speed_mbit,
        version,
        driver: interface.and_then(|folder| link_name(&folder.join("driver"))),
        vendor_id: read("idVendor"),
        product_id: read("idProduct"),
        port: device.file_name().map(|name| name.to_string_lossy().into_owned()),
        sysfs: Some(device.to_owned()),
    }
}

/// Whether the device could do SuperSpeed while its link is slower. `None` when the device may
/// have a BOS but the kernel does not show it.
fn superspeed(device: &Path, speed: Option<u32>, version: Option<&str>) -> Option<bool> {
    if speed? > HIGH_SPEED {
        return Some(false);
    }
    let (major, minor) = version?.split_once('.')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    if major >= 3 {
        return Some(true);
    }
    // Below 2.01 a device has no BOS, and a USB 3 device must say 2.10 on a USB 2 link
    // (USB 3.2 specification, 9.2.6.6).
    if (major, minor) < (2, 1) {
        return Some(false);
    }
    bytes(&device.join("bos_descriptors")).map(|bos| parse::bos_has_superspeed(&bos))
}
