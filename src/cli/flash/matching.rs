//! Disks by the numbers of their USB devices.

use std::fmt;
use std::str::FromStr;

use clap::Args;

use crate::device::facts::Facts;
use crate::device::probe::System;

/// What is typed instead of the names of targets.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Fleet {
    /// Write all disks whose USB device has these numbers (see lsusb), e.g. 0781:5583; asks before,
    /// naming each
    #[arg(long, value_name = "VENDOR:PRODUCT", conflicts_with_all = ["targets", "create"])]
    pub(crate) all_matching: Option<UsbIds>,
    /// Write every such disk that is plugged in from now on, until Ctrl-C; what is there already is
    /// left alone
    #[arg(long, requires = "all_matching")]
    pub(crate) station: bool,
}

/// Vendor and product of a USB device, as lsusb prints them: `0781:5583`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UsbIds {
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
    pub(super) fn match_disk(&self, facts: &Facts) -> bool {
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

/// What is plugged in and matches.
pub(super) fn now(ids: &UsbIds) -> Vec<Facts> {
    System::host().all().into_iter().filter(|facts| ids.match_disk(facts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::facts::Usb;

    #[test]
    fn numbers_are_typed_as_lsusb_prints_them() {
        assert_eq!("0781:558A".parse::<UsbIds>().unwrap().to_string(), "0781:558a");
        for wrong in
            ["", "0781", "0781:", "781:5583", "0781:5583:1", "0781-5583", "sdb", "07x1:5583"]
        {
            assert!(wrong.parse::<UsbIds>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_whole_disks_with_a_medium_in_such_a_device_match() {
        let ids: UsbIds = "0781:558a".parse().unwrap();
        let usb = Usb {
            vendor_id: Some("0781".to_owned()),
            product_id: Some("558A".to_owned()),
            ..Usb::default()
        };
        let disk = Facts { size: 1 << 30, usb: Some(usb.clone()), ..Facts::default() };
        assert!(ids.match_disk(&disk));
        let other = Usb { product_id: Some("558b".to_owned()), ..usb.clone() };
        for no in [
            Facts { usb: None, ..disk.clone() },
            Facts { usb: Some(other), ..disk.clone() },
            Facts { usb: Some(Usb { vendor_id: None, ..usb }), ..disk.clone() },
            Facts { size: 0, ..disk.clone() },
            Facts { partition_of: Some("/dev/sdb".into()), ..disk },
        ] {
            assert!(!ids.match_disk(&no), "{no:?}");
        }
    }
}
