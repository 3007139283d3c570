//! Numbers as they are typed, and which disks have them.

use super::*;
use crate::device::facts::Usb;

#[test]
fn numbers_are_typed_as_lsusb_prints_them() {
    assert_eq!("0781:558A".parse::<UsbIds>().unwrap().to_string(), "0781:558a");
    for wrong in ["", "0781", "0781:", "781:5583", "0781:5583:1", "0781-5583", "sdb", "07x1:5583"] {
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
