//! Is this ISO a Windows install disc?
//!
//! Owns: the test, measured on look-alikes: UDF, no hybrid table (the caller's part), and the
//! names `bootmgr` and `sources`. Must not walk the UDF tree: a scan of the first 8 MiB for file
//! identifiers is enough, because mastering tools write all directories before all files.
//! Re-mastered discs have no UDF: there the ISO 9660 or Joliet root decides.
//! Specification: OSTA UDF 2.60, 2.1.1 (compression id 8 or 16 before each name).

use std::io;

use super::fs::iso::IsoVolume;
use super::read::View;

const SCAN: u64 = 8 << 20;
const STEP: usize = 1 << 20;
/// Longer than any name looked for, in 16 bits per character.
const OVERLAP: usize = 32;

/// Whether the disc with these structures installs Windows.
pub(crate) fn is_install_disc(
    view: &View<'_>,
    iso: Option<&IsoVolume>,
    udf: bool,
) -> io::Result<bool> {
    if udf && udf_names(view)? {
        return Ok(true);
    }
    let Some(iso) = iso else { return Ok(false) };
    Ok(iso.has(view, &["sources", "boot.wim"])?
        && (iso.has(view, &["bootmgr"])? || iso.has(view, &["bootmgr.efi"])?))
}

/// `bootmgr` also matches `bootmgr.efi`: discs for ARM64 have only that.
const NAMES: [&str; 2] = ["bootmgr", "sources"];

fn udf_names(view: &View<'_>) -> io::Result<bool> {
    let mut found = [false; 2];
    let mut at = 0;
    while at < SCAN && found != [true; 2] {
        let bytes = view.some(at, STEP + OVERLAP)?;
        names(&bytes, &mut found);
        if bytes.len() < STEP {
            break;
        }
        at += STEP as u64;
    }
    Ok(found == [true; 2])
}

/// Notes which of `NAMES` some file identifier starts with, ASCII case ignored.
fn names(bytes: &[u8], found: &mut [bool; 2]) {
    let narrow = |rest: &[u8], name: &str| {
        rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
    };
    let wide = |rest: &[u8], name: &str| {
        rest.get(..2 * name.len()).is_some_and(|head| {
            let units = head.as_chunks::<2>().0.iter();
            units.zip(name.bytes()).all(|(u, b)| u[0] == 0 && u[1].eq_ignore_ascii_case(&b))
        })
    };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&id| id == 8 || id == 16) {
        let id = rest[at];
        rest = &rest[at + 1..];
        for (name, found) in NAMES.iter().zip(found.iter_mut()) {
            *found |= (id == 8 && narrow(rest, name)) || (id == 16 && wide(rest, name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::Bytes;
    use super::super::sample;
    use super::*;

    #[test]
    fn identifiers_of_both_widths() {
        for (bytes, want) in [
            (&b"..\x08BootMgr.efi"[..], true),
            (b"\x10\0b\0O\0o\0t\0m\0g\0r", true),
            (b"\x09bootmgr", false),
            (b"\x08bootmg", false),
            (b"\x10b\0o\0o\0t\0m\0g\0r\0", false),
            (b"\x08", false),
        ] {
            let mut found = [false; 2];
            names(bytes, &mut found);
            assert_eq!(found, [want, false], "{bytes:?}");
        }
    }

    #[test]
    fn a_name_across_the_scan_step_is_seen() {
        let mut image = vec![0; 3 << 20];
        sample::put(&mut image, (1 << 20) - 4, b"\x08bootmgr");
        sample::put(&mut image, 2 << 20, b"\x08sources");
        let bytes = Bytes(&image);
        assert!(udf_names(&View::new(&bytes)).unwrap());
        image.truncate(1 << 20);
        let bytes = Bytes(&image);
        assert!(!udf_names(&View::new(&bytes)).unwrap());
    }

    #[test]
    fn without_udf_the_root_directory_decides() {
        for (names, want) in [
            (&["BOOTMGR.;1", "SOURCES"][..], false),
            (&["BOOTMGR.;1", "SOURCES", "BOOT.WIM;1"], true),
            (&["LIVE"], false),
        ] {
            let mut image = sample::iso(names);
            // Every directory of the sample is at block 30: let it be a copy of the root.
            let root = image[20 * 2048..21 * 2048].to_vec();
            sample::put(&mut image, 30 * 2048, &root);
            let bytes = Bytes(&image);
            let view = View::new(&bytes);
            let iso = IsoVolume::read(&view, 0).unwrap();
            assert_eq!(is_install_disc(&view, iso.as_ref(), false).unwrap(), want, "{names:?}");
        }
    }
}
