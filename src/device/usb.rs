//! Disks by the numbers of their USB devices.

use std::fmt;
use std::str::FromStr;

use super::facts::Facts;

/// Vendor and product of a USB device, as lsusb prints them: `0781:5583`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsbIds {
    vendor: String,
    product: String,
}

impl FromStr for UsbIds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let four = |text: &str| text.len() == 4 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match text.split_once(':') {
            Some((vendor, product)) if four(vendor) && four(product) => Ok(Self {
                vendor: vendor.to_ascii_lowercase(),
                product: product.to_ascii_lowercase(),
            }),
            _ => Err("want VENDOR:PRODUCT in hex, as lsusb prints them, e.g. 0781:5583".to_owned()),
        }
    }
}

impl fmt::Display for UsbIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.vendor, self.product)
    }
}

impl UsbIds {
    /// Whether this is a whole disk with a medium in such a device.
    pub fn match_disk(&self, facts: &Facts) -> bool {
        let Some(usb) = &facts.usb else { return false };
        let same = |known: &Option<String>, wanted: &str| {
            known.as_ref().is_some_and(|known| known.eq_ignore_ascii_case(wanted))
        };
        facts.partition_of.is_none()
            && facts.size > 0
            && same(&usb.vendor_id, &self.vendor)
            && same(&usb.product_id, &self.product)
    }
}

#[cfg(test)]
mod tests;
