//! What the way to a device carries, and whether it was that which set the pace. Pure.
//!
//! Payload of a USB link after its line code: 480 Mbit/s = 60 MB/s; 5 Gbit/s, 8b/10b = 500; 10
//! and 20 Gbit/s, 128b/132b = 1212 and 2424 (USB 3.2, chapter 6). Of that, drives that are known
//! to fill their link reach 68 to 85 % with UAS; the bulk-only protocol, which waits for each
//! command, 45 % and up; USB 2 30 to 48 MB/s. A PCIe lane carries 250, 500, 985 and 1969 MB/s in
//! generations 1 to 4, of which disks reach 85 % and more.

use std::fmt;

use serde::Serialize;

use super::series::Series;
use super::stats::moments;
use crate::meter::series::nearest_rank;

/// Standard deviation over mean below which a series is flat.
const FLAT: f64 = 0.03;

/// The way to a device, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// A USB port.
    Usb {
        /// Negotiated speed: 480, 5000, 10000, 20000.
        mbit: u32,
        /// Driver usb-storage instead of uas.
        bulk_only: bool,
        /// Whether the device says it can do USB 3.
        superspeed: Option<bool>,
    },
    /// PCI Express lanes.
    Pcie {
        /// Megatransfers a second of a lane: 2500, 5000, 8000, 16000.
        now: u32,
        /// Lanes in use.
        lanes: u32,
        /// The same, as the device could do.
        most: u32,
        /// Lanes that the device has.
        most_lanes: u32,
    },
}

/// The pace was that of the link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// Median speed of the seconds, bytes a second.
    pub median: u64,
    /// That speed divided by `payload`.
    pub share: f64,
    /// What the link carries, bytes a second.
    pub payload: u64,
    /// Standard deviation of the seconds divided by their mean.
    pub variation: f64,
    /// The link in words.
    pub link: String,
    /// What would lift it.
    pub remedy: String,
}

impl fmt::Display for Ceiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ran flat (varying by {:.1} %) at {:.0} % of the {:.0} MB/s that {} carry; {}",
            self.variation * 100.0,
            self.share * 100.0,
            self.payload as f64 / 1e6,
            self.link,
            self.remedy,
        )
    }
}

impl Link {
    /// Bytes a second that the link carries at most, where that is known.
    pub fn payload(&self) -> Option<u64> {
        let megabytes = match *self {
            Self::Usb { mbit: 480, .. } => 60,
            Self::Usb { mbit: 5_000, .. } => 500,
            Self::Usb { mbit: 10_000, .. } => 1_212,
            Self::Usb { mbit: 20_000, .. } => 2_424,
            Self::Usb { .. } => return None,
            Self::Pcie { now, lanes, .. } => u64::from(lane(now)?) * u64::from(lanes),
        };
        Some(megabytes * 1_000_000)
    }

    /// A USB 3 device on a link of USB 2.
    pub fn is_usb3_on_usb2(&self) -> bool {
        matches!(self, Self::Usb { mbit: 480, superspeed: Some(true), .. })
    }

    /// Whether the seconds of `series` show this link's ceiling: flat, at a share of the payload
    /// that devices are known to reach. The first second is left out; starting takes time.
    pub(super) fn ceiling(&self, series: &Series) -> Option<Ceiling> {
        let seconds = series.seconds();
        let mut sorted = seconds.full().get(1..)?.to_vec();
        sorted.sort_unstable();
        let (middle, deviation) = moments(&sorted);
        let (median, variation) = (nearest_rank(&sorted, 50), deviation / middle);
        let payload = self.payload()?;
        let share = median as f64 / payload as f64;
        let flat = sorted.len() >= 3 && variation < FLAT;
        let found = flat && self.reached().contains(&share);
        let (link, remedy) = self.words();
        found.then_some(Ceiling { median, share, payload, variation, link, remedy })
    }

    /// Shares of the payload that are reached by devices which are limited by nothing else.
    fn reached(&self) -> std::ops::RangeInclusive<f64> {
        match *self {
            Self::Usb { mbit: 480, .. } => 0.50..=0.80,
            Self::Usb { mbit: 5_000, bulk_only: true, .. } => 0.45..=0.85,
            Self::Usb { .. } => 0.68..=0.85,
            Self::Pcie { .. } => 0.85..=1.0,
        }
    }

    fn words(&self) -> (String, String) {
        match *self {
            Self::Usb { mbit, bulk_only, .. } => {
                let remedy = match bulk_only {
                    _ if self.is_usb3_on_usb2() => "the device can do more on a USB 3 port",
                    true => "UAS or a faster port would lift it",
                    false => "a faster port would lift it",
                };
                (format!("{mbit} Mbit/s"), remedy.to_owned())
            }
            Self::Pcie { now, lanes, most, most_lanes } => {
                let link = format!("PCIe {} x{lanes}", generation(now));
                let more = format!("PCIe {} x{most_lanes}", generation(most));
                let remedy = if link == more {
                    "only a faster device and slot would lift it".to_owned()
                } else {
                    format!("the device can do more in a slot with {more}")
                };
                (link, remedy)
            }
        }
    }
}

/// Megabytes a second that a lane carries.
fn lane(megatransfers: u32) -> Option<u32> {
    match megatransfers {
        2_500 => Some(250),
        5_000 => Some(500),
        8_000 => Some(985),
        16_000 => Some(1_969),
        32_000 => Some(3_938),
        _ => None,
    }
}

fn generation(megatransfers: u32) -> &'static str {
    match megatransfers {
        2_500 => "1.0",
        5_000 => "2.0",
        8_000 => "3.0",
        16_000 => "4.0",
        32_000 => "5.0",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::series::rounded;

    fn usb(mbit: u32, bulk_only: bool) -> Link {
        Link::Usb { mbit, bulk_only, superspeed: None }
    }

    fn seconds(megabytes: &[u64]) -> Series {
        let bytes = megabytes.iter().map(|speed| speed * 1_000_000).collect();
        Series::per_second(bytes, 1_000_000_000)
    }

    #[test]
    fn the_ceilings_of_the_articles_are_seen_and_what_is_above_or_below_is_not() {
        let pcie = Link::Pcie { now: 5_000, lanes: 1, most: 16_000, most_lanes: 4 };
        for (link, speed, share) in [
            (usb(5_000, false), 372, Some(74)), // write of the KIOXIA and others
            (usb(5_000, false), 394, Some(79)), // read of the same
            (usb(10_000, false), 933, Some(77)), // KIOXIA
            (usb(10_000, false), 469, None),    // the stick SSDs are slower than 10 Gbit/s
            (pcie, 464, Some(93)),              // P3 Plus on one lane of PCIe 2.0
            (pcie, 413, None),
            (usb(480, true), 38, Some(63)),
            (usb(480, true), 15, None),
            (usb(5_000, true), 250, Some(50)),
            (usb(5_000, false), 250, None),
            (usb(5_000, false), 490, None),
            (usb(12, true), 1, None),
        ] {
            let found = link.ceiling(&seconds(&[speed; 20]));
            let seen = found.map(|found| rounded(found.share * 100.0));
            assert_eq!(seen, share, "{link:?} {speed}");
        }
    }

    #[test]
    fn a_slow_first_second_does_not_count_and_an_uneven_series_is_no_ceiling() {
        let late = [vec![90], vec![372; 20]].concat();
        assert!(usb(5_000, false).ceiling(&seconds(&late)).is_some());
        let uneven: Vec<u64> = (0..20).map(|i| if i % 2 == 0 { 300 } else { 440 }).collect();
        assert_eq!(usb(5_000, false).ceiling(&seconds(&uneven)), None);
        assert_eq!(usb(5_000, false).ceiling(&seconds(&[372; 3])), None, "too few");
        assert_eq!(usb(5_000, false).ceiling(&seconds(&[])), None);
    }

    #[test]
    fn the_sentence_says_what_would_lift_it() {
        let link = Link::Usb { mbit: 480, bulk_only: true, superspeed: Some(true) };
        for (link, speed, sentence) in [
            (
                usb(5_000, false),
                370,
                "ran flat (varying by 0.0 %) at 74 % of the 500 MB/s that 5000 Mbit/s carry; a \
                 faster port would lift it",
            ),
            (
                link,
                38,
                "ran flat (varying by 0.0 %) at 63 % of the 60 MB/s that 480 Mbit/s carry; the \
                 device can do more on a USB 3 port",
            ),
            (
                Link::Pcie { now: 5_000, lanes: 1, most: 16_000, most_lanes: 4 },
                464,
                "ran flat (varying by 0.0 %) at 93 % of the 500 MB/s that PCIe 2.0 x1 carry; the \
                 device can do more in a slot with PCIe 4.0 x4",
            ),
        ] {
            let seen = link.ceiling(&seconds(&[speed; 20])).unwrap().to_string();
            assert_eq!(seen, sentence);
        }
    }
}
