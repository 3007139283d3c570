//! What a drive says about discard in SCSI: VPD pages B0 (block limits) and B2 (logical block
//! provisioning), and READ CAPACITY(16). Pure parsers, and the explanation made of them.
//!
//! Sources: SBC-3 (6.6.3 and 6.6.4 of revision 36; 5.16); what Linux makes of it:
//! drivers/scsi/sd.c `sd_read_block_limits`, `sd_read_block_provisioning`, `provisioning_mode_store`
//! (Linux 6.1).

use std::path::Path;

use super::facts::Facts;
use crate::text::{printable_path, shell_word};

/// What the drive announces; `None` = it did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// B0: MAXIMUM UNMAP LBA COUNT.
    pub max_unmap_blocks: Option<u32>,
    /// B2: LBPU, the UNMAP command is supported.
    pub unmap: Option<bool>,
    /// B2: LBPWS or LBPWS10, WRITE SAME with UNMAP is supported.
    pub write_same: Option<bool>,
    /// READ CAPACITY(16): LBPME, logical block provisioning is enabled.
    pub managed: Option<bool>,
    /// READ CAPACITY(16): LBPRZ, unmapped blocks read as zeros.
    pub reads_zeros: Option<bool>,
}

impl Provisioning {
    /// From raw pages; a short or foreign page tells nothing.
    pub fn parse(b0: Option<&[u8]>, b2: Option<&[u8]>, capacity: Option<&[u8]>) -> Self {
        let page = |page: Option<&[u8]>, code: u8, len: usize| {
            page.filter(|p| p.len() >= len && p[1] == code).map(<[u8]>::to_vec)
        };
        let b0 = page(b0, 0xb0, 24);
        let b2 = page(b2, 0xb2, 8);
        let capacity = capacity.filter(|c| c.len() >= 15);
        Self {
            max_unmap_blocks: b0.map(|p| u32::from_be_bytes([p[20], p[21], p[22], p[23]])),
            unmap: b2.as_ref().map(|p| p[5] & 0x80 != 0),
            write_same: b2.as_ref().map(|p| p[5] & 0x60 != 0),
            managed: capacity.map(|c| c[14] & 0x80 != 0),
            reads_zeros: capacity.map(|c| c[14] & 0x40 != 0),
        }
    }

    /// Whether the drive says that it takes UNMAP.
    pub fn announces_unmap(&self) -> bool {
        self.unmap == Some(true)
            || (self.unmap.is_none() && self.max_unmap_blocks.is_some_and(|n| n > 0))
    }
}

/// Why the kernel offers no discard, and what a person may try. A line each, facts first.
pub fn explain(facts: &Facts, drive: &Provisioning) -> Vec<String> {
    let name = printable_path(&facts.path);
    let discard = &facts.discard;
    let mut lines = vec![format!(
        "the kernel offers no discard for {name}: discard_max_bytes is {}{}",
        discard.max_bytes,
        discard.provisioning_mode.as_ref().map_or_else(String::new, |mode| {
            format!(", provisioning_mode is {}", crate::text::printable(mode))
        })
    )];
    let Some(file) = &discard.provisioning_file else {
        lines.push("it is no SCSI disk, so there is nothing to switch on: its driver or bridge has no discard".to_owned());
        return lines;
    };
    lines.push(announced(drive));
    let driver = facts.usb.as_ref().and_then(|usb| usb.driver.as_deref());
    if driver == Some("usb-storage") {
        lines.push(
            "it is connected bulk-only (usb-storage): behind that driver the kernel does not ask a disk for \
             UNMAP, because many old bridges hang when asked"
                .to_owned(),
        );
    }
    if drive.announces_unmap() {
        lines.push(format!("to try it: {}", command(file)));
        lines.push(
            "or let `mediawriter discard --enable-unmap TARGET` do it. Risk: a bridge that announces UNMAP and \
             does it wrong can hang or damage data on the whole drive; use it only where nothing on it is needed"
                .to_owned(),
        );
    } else {
        lines.push(
            "forcing provisioning_mode would be a guess against what the drive says; another enclosure \
             may pass UNMAP on"
                .to_owned(),
        );
    }
    lines
}

fn announced(drive: &Provisioning) -> String {
    let bit = |value: Option<bool>| match value {
        None => "no answer",
        Some(true) => "1",
        Some(false) => "0",
    };
    format!(
        "the drive says: VPD B2 LBPU (UNMAP) {}, LBPWS {}; VPD B0 maximum UNMAP count {}; READ CAPACITY(16) \
         LBPME {}, LBPRZ {}",
        bit(drive.unmap),
        bit(drive.write_same),
        drive.max_unmap_blocks.map_or_else(|| "no answer".to_owned(), |n| n.to_string()),
        bit(drive.managed),
        bit(drive.reads_zeros)
    )
}

/// The exact command line.
pub fn command(provisioning_file: &Path) -> String {
    format!("echo unmap | sudo tee {}", shell_word(&provisioning_file.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn b2(bits: u8) -> Vec<u8> {
        vec![0, 0xb2, 0, 4, 0, bits, 0, 0]
    }

    #[test]
    fn pages_are_read_by_the_book_and_short_ones_tell_nothing() {
        let mut b0 = vec![0, 0xb0, 0, 0x3c];
        b0.resize(64, 0);
        b0[20..24].copy_from_slice(&0x0040_0000u32.to_be_bytes());
        let mut capacity = vec![0; 32];
        capacity[14] = 0xc0;
        let all = Provisioning::parse(Some(&b0), Some(&b2(0x80)), Some(&capacity));
        assert_eq!(all.max_unmap_blocks, Some(0x40_0000));
        assert_eq!((all.unmap, all.write_same), (Some(true), Some(false)));
        assert_eq!((all.managed, all.reads_zeros), (Some(true), Some(true)));
        for (b0, b2, capacity) in [(&b0[..10], &b2(0x80)[..5], &capacity[..8]), (&b2(0), &b0, &[])]
        {
            let none = Provisioning::parse(Some(b0), Some(b2), Some(capacity));
            assert_eq!(none, Provisioning::default());
            assert!(!none.announces_unmap());
        }
        assert!(!Provisioning::parse(Some(&b0), Some(&b2(0)), None).announces_unmap());
    }

    #[test]
    fn the_explanation_offers_the_command_only_to_drives_that_announce_unmap() {
        let mut facts = Facts { path: "/dev/sdb".into(), ..Facts::default() };
        assert!(explain(&facts, &Provisioning::default()).join("\n").contains("no SCSI disk"));
        facts.discard.provisioning_mode = Some("full".to_owned());
        facts.discard.provisioning_file = Some("/sys/x/provisioning_mode".into());
        let yes = Provisioning { unmap: Some(true), ..Provisioning::default() };
        let text = explain(&facts, &yes).join("\n");
        assert!(
            text.contains("provisioning_mode is full") && text.contains("LBPU (UNMAP) 1"),
            "{text}"
        );
        assert!(
            text.contains("echo unmap | sudo tee /sys/x/provisioning_mode")
                && text.contains("Risk")
        );
        let no = explain(&facts, &Provisioning::default()).join("\n");
        assert!(no.contains("no answer") && !no.contains("echo unmap"), "{no}");
    }
}
