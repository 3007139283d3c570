//! Taking a stick off the bus: eject, and then what a desktop's "safely remove" does, the `remove`
//! file of the USB device (Documentation/ABI/testing/sysfs-bus-usb), which powers the port down
//! where the hub can.

use std::fs;
use std::io;

use super::BlockDevice;
use super::facts::Facts;

/// Ejects, and disconnects a USB device; says what was done. Everything must be flushed.
pub fn take_off(device: &dyn BlockDevice, facts: &Facts) -> io::Result<String> {
    let ejected = device.eject();
    let Some(usb) = facts.usb.as_ref().and_then(|usb| usb.sysfs.as_ref()) else {
        return ejected.map(|()| "ejected".to_owned());
    };
    match (fs::write(usb.join("remove"), "1"), ejected) {
        (Ok(()), _) => Ok("ejected and disconnected: it can be pulled out".to_owned()),
        (Err(_), Ok(())) => Ok("ejected: it can be pulled out".to_owned()),
        (Err(e), Err(_)) => Err(e),
    }
}
