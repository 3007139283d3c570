//! Texts of the kernel and of udev, taken apart: pure functions over bytes and strings that never
//! fail; a line that makes no sense is left out.
//!
//! Formats: Documentation/filesystems/proc.rst 3.5 (/proc/pid/mountinfo), fs/seq_file.c
//! (`mangle_path`: octal escapes), mm/swapfile.c (/proc/swaps), Documentation/block/stat.rst,
//! systemd's src/libsystemd/sd-device (/run/udev/data) and src/basic/device-nodes.c (`\xNN`),
//! USB 3.2 specification 9.6.2 (BOS).

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use crate::device::facts::Grip;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device number as the filesystem reports it; major 0 is an anonymous one (btrfs, tmpfs).
    pub rdev: (u32, u32),
    /// Where it is mounted.
    pub at: PathBuf,
    /// Filesystem type.
    pub fs: String,
    /// What the filesystem says it was mounted from; a path only for some.
    pub source: PathBuf,
    /// Options of the filesystem (not of the mount), e.g. overlay's `lowerdir=`.
    pub options: String,
}

/// All mounts, in the order in which they were made where nothing was moved.
pub fn mountinfo(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(mount).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    // A variable number of optional fields ends with a single dash.
    let dash = fields.iter().skip(6).position(|f| *f == b"-")? + 6;
    Some(Mount {
        rdev: rdev(std::str::from_utf8(fields.get(2)?).ok()?)?,
        at: path(fields.get(4)?),
        fs: lossy(fields.get(dash + 1)?),
        source: path(fields.get(dash + 2)?),
        options: fields.get(dash + 3).map_or_else(String::new, |field| lossy(field)),
    })
}

fn lossy(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

/// `8:16` as (8, 16).
pub fn rdev(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn path(escaped: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape_octal(escaped)))
}

/// Undoes the kernel's `\040` for space, tab, line feed and backslash.
pub fn unescape_octal(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] = rest {
            out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = &rest[4..];
        } else {
            out.push(first);
            rest = tail;
        }
    }
    out
}

/// Undoes udev's `\x20`. What is no UTF-8 becomes replacement characters.
pub fn unescape_hex(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digit = |at: usize| rest.get(at).and_then(|b| char::from(*b).to_digit(16));
        if let ([b'\\', b'x', ..], Some(high), Some(low)) = (rest, digit(2), digit(3)) {
            out.extend(u8::try_from(high << 4 | low));
            rest = &rest[4..];
        } else {
            out.push(first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Active swap: device node or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swap {
    /// Path as given to swapon, ` (deleted)` taken off.
    pub path: PathBuf,
    /// Whether it is a file on a filesystem.
    pub file: bool,
}

/// The lines of /proc/swaps but its heading.
pub fn swaps(text: &[u8]) -> Vec<Swap> {
    let lines = text.split(|b| *b == b'\n').skip(1);
    lines.filter_map(swap).collect()
}

fn swap(line: &[u8]) -> Option<Swap> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let (name, kind) = (unescape_octal(fields.next()?), fields.next()?);
    let name = name.strip_suffix(b" (deleted)").unwrap_or(&name).to_vec();
    Some(Swap { path: PathBuf::from(OsString::from_vec(name)), file: kind == b"file" })
}

/// One line of /proc/locks that stands for something held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// A lock or a lease.
    pub grip: Grip,
    /// Who took it; `None` for a lock of an open file.
    pub pid: Option<u32>,
    /// Device of the filesystem.
    pub device: (u32, u32),
    /// The file.
    pub inode: u64,
}

/// The lines of /proc/locks but those that wait (`->`).
pub fn locks(text: &[u8]) -> Vec<Lock> {
    String::from_utf8_lossy(text).lines().filter_map(lock).collect()
}

/// `1: POSIX  ADVISORY  WRITE 3568 fd:00:2531452 0 EOF`; numbers of devices are hexadecimal.
fn lock(line: &str) -> Option<Lock> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let grip = match *fields.get(1)? {
        "FLOCK" | "POSIX" | "OFDLCK" => Grip::Lock,
        "LEASE" | "DELEG" => Grip::Lease,
        _ => return None,
    };
    let mut place = fields.get(5)?.split(':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    let device = (hex()?, hex()?);
    let inode = place.next()?.parse().ok()?;
    let pid = fields.get(4)?.parse().ok().filter(|pid| *pid != 0);
    Some(Lock { grip, pid, device, inode })
}

/// Device and inode of the files that a process has mapped so that its writes reach them, from
/// /proc/PID/maps: `7f..-7f.. rw-s 00000000 fd:00 2531452 /path`.
pub fn shared_writable(text: &[u8]) -> Vec<((u32, u32), u64)> {
    let mapping = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let rights = fields.next()?.as_bytes();
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        let file = ((hex(major)?, hex(minor)?), fields.next()?.parse().ok()?);
        (rights.get(1) == Some(&b'w') && rights.get(3) == Some(&b's')).then_some(file)
    };
    String::from_utf8_lossy(text).lines().filter_map(mapping).collect()
}

/// `KEY=VALUE` lines of a uevent file.
pub fn uevent(text: &str) -> HashMap<String, String> {
    pairs(text.lines())
}

/// The properties (`E:KEY=VALUE`) of an entry of udev's database.
pub fn udev(text: &str) -> HashMap<String, String> {
    pairs(text.lines().filter_map(|line| line.strip_prefix("E:")))
}

fn pairs<'a>(lines: impl Iterator<Item = &'a str>) -> HashMap<String, String> {
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Bytes read and written, from a `stat` file: fields 3 and 7 are in units of 512 bytes whatever
/// the device's sector size is.
pub fn stat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    let read: u64 = fields.nth(2)?.parse().ok()?;
    let written: u64 = fields.nth(3)?.parse().ok()?;
    Some((read.checked_mul(512)?, written.checked_mul(512)?))
}

/// Unit serial number page (SPC-4, 7.8.15): a header of 4 bytes, then text.
pub fn vpd_serial(page: &[u8]) -> Option<String> {
    let (header, text) = page.split_at_checked(4)?;
    if header[1] != 0x80 {
        return None;
    }
    let len = usize::from(u16::from_be_bytes([header[2], header[3]])).min(text.len());
    clean(&String::from_utf8_lossy(&text[..len]))
}

/// Without blanks and NULs at its ends; `None` when nothing is left.
pub fn clean(text: &str) -> Option<String> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether a BOS (binary device object store) lists SuperSpeed (type 03h) or SuperSpeedPlus
/// (0Ah). A USB 3 device lists them on a USB 2 link as well; the header of 5 bytes is followed by
/// capabilities, each with its length, 10h, and its type.
pub fn bos_has_superspeed(bos: &[u8]) -> bool {
    let mut rest = bos.get(usize::from(bos.first().copied().unwrap_or(0))..).unwrap_or(&[]);
    while let [len, kind, capability, ..] = rest {
        if *kind == 0x10 && matches!(capability, 0x03 | 0x0a) {
            return true;
        }
        // A length below 2 would never get on.
        rest = if *len < 2 { &[] } else { rest.get(usize::from(*len)..).unwrap_or(&[]) };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_escapes_and_optional_fields() {
        let text = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            27 1 254:0 / / rw shared:1 master:2 - ext4 /dev/vda rw,discard\n\
            40 27 8:17 / /media/My\\040Stick\\134x rw - vfat /dev/sdb1 rw\n\
            41 27 0:50 / /none rw -  tmpfs\n\
            junk\n\
            42 27 0:51 / /m rw - fuse\n\
            43 27 x:1 / /m rw - fuse a rw\n";
        let mounts = mountinfo(text);
        assert_eq!(mounts.len(), 3 + 1, "{mounts:?}");
        assert_eq!(mounts[1].rdev, (254, 0));
        assert_eq!(mounts[1].options, "rw,discard");
        assert_eq!(mounts[2].at, PathBuf::from("/media/My Stick\\x"));
        assert_eq!(mounts[2].source, PathBuf::from("/dev/sdb1"));
        assert_eq!(mounts[2].fs, "vfat");
    }

    #[test]
    fn octal_escapes_are_undone_and_nothing_else() {
        for (escaped, plain) in [
            (&b"a\\040b"[..], &b"a b"[..]),
            (b"\\134\\011\\012", b"\\\t\n"),
            (b"\\04", b"\\04"),
            (b"\\999\\400", b"\\999\\400"),
            (b"\\377", b"\xff"),
            (b"", b""),
        ] {
            assert_eq!(unescape_octal(escaped), plain);
        }
    }

    #[test]
    fn hex_escapes_are_undone_and_nothing_else() {
        for (escaped, plain) in [
            ("My\\x20Stick", "My Stick"),
            ("\\xc3\\xa4\\x2", "\u{e4}\\x2"),
            ("\\x1b[2J", "\u{1b}[2J"),
            ("\\xff", "\u{fffd}"),
            ("\\xzz", "\\xzz"),
        ] {
            assert_eq!(unescape_hex(escaped), plain);
        }
    }

    #[test]
    fn swaps_are_partitions_and_files() {
        let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /dev/dm-1                               partition\t16\t\t0\t\t-2\n\
            /swap\\040file                           file\t\t16\t0\t-3\n\
            /old\\040(deleted)                       file\t\t16\t0\t-4\n";
        let swap = |path: &str, file| Swap { path: PathBuf::from(path), file };
        assert_eq!(
            swaps(text),
            [swap("/dev/dm-1", false), swap("/swap file", true), swap("/old", true)]
        );
        assert_eq!(swaps(b""), []);
    }

    #[test]
    fn properties_are_read_from_uevent_and_udev() {
        let event = uevent("MAJOR=8\nDEVNAME=sdb1\nPARTNAME=a=b\n\n");
        assert_eq!(event["DEVNAME"], "sdb1");
        assert_eq!(event["PARTNAME"], "a=b");
        let entry =
            udev("S:disk/by-id/x\nE:ID_FS_TYPE=vfat\nE:ID_FS_LABEL_ENC=A\\x20B\nG:systemd\n");
        assert_eq!(entry.len(), 2);
        assert_eq!(entry["ID_FS_TYPE"], "vfat");
    }

    #[test]
    fn counters_are_in_units_of_512_bytes() {
        let text =
            "      10        0       80       20        7        0      160       21 0 30 41";
        assert_eq!(stat(text), Some((80 * 512, 160 * 512)));
        assert_eq!(stat("1 2 3"), None);
        assert_eq!(stat("1 2 x 4 5 6 7"), None);
    }

    #[test]
    fn serial_pages_are_read_within_their_length() {
        assert_eq!(vpd_serial(b"\0\x80\0\x06 AB12 trailing"), Some("AB12".into()));
        assert_eq!(vpd_serial(b"\0\x80\xff\xffAB"), Some("AB".into()));
        assert_eq!(vpd_serial(b"\0\x83\0\x02AB"), None);
        assert_eq!(vpd_serial(b"\0\x80\0\x04    "), None);
        assert_eq!(vpd_serial(b"\0"), None);
    }

    #[test]
    fn superspeed_is_found_in_a_bos() {
        let usb3: &[u8] =
            &[5, 15, 22, 0, 2, 7, 16, 2, 2, 0, 0, 0, 10, 16, 3, 0, 14, 0, 1, 10, 0, 20];
        assert!(bos_has_superspeed(usb3));
        // USB 2.1 with link power management only.
        assert!(!bos_has_superspeed(&usb3[..12]));
        assert!(bos_has_superspeed(&[5, 15, 8, 0, 1, 3, 16, 10]));
        for bad in [&[][..], &[0], &[0, 16, 1], &[5, 15, 9, 0, 1, 0, 16, 1, 16], &[255, 15]] {
            assert!(!bos_has_superspeed(bad), "{bad:?}");
        }
    }
}
