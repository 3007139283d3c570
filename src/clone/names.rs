//! The files that name partitions by PARTUUID, on a Raspberry Pi and elsewhere: `cmdline.txt` on a
//! FAT partition, `/etc/fstab` on an ext partition. New ones are as long as old ones, so the copy
//! has other bytes in the files' own blocks and nothing else changes.

use std::ops::Range;

use super::patch::Patch;
use super::table::Renamed;
use crate::error::{Context as _, Error, Result};
use crate::image::{FileAt, Partition, Placed, ReadAt, Table, View, file_at};
use crate::text::printable;

/// Longer files are none of these.
const LONGEST: u64 = 1 << 20;

/// What is other in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) patches: Vec<Patch>,
    pub(super) words: Vec<String>,
}

/// Looks through the partitions. `Err` when a file is there and cannot be changed: the copy would
/// look for its root on the original.
pub(super) fn rename(medium: &dyn ReadAt, table: &Table, renamed: &[Renamed]) -> Result<Found> {
    let mut found = Found::default();
    let mut named = false;
    for partition in &table.partitions {
        let Some(fs) = &partition.fs else { continue };
        let path: &[&str] = match (fs.kind.is_fat(), fs.kind.is_ext()) {
            (true, _) => &["cmdline.txt"],
            (_, true) => &["etc", "fstab"],
            _ => continue,
        };
        let shown = format!("{} of partition {}", path.join("/"), partition.number);
        let at = file_at(medium, partition.start_bytes, fs, path)
            .context(|| format!("cannot look for {shown}"))?;
        match at {
            FileAt::Missing => {}
            FileAt::Elsewhere(why) => return Err(unreachable(&shown, why)),
            FileAt::At(placed) if placed.len > LONGEST => {
                return Err(unreachable(&shown, "it is too long for such a file"));
            }
            FileAt::At(placed) if !within(&placed, partition) => {
                return Err(unreachable(&shown, "its blocks lie outside of its partition"));
            }
            FileAt::At(placed) => {
                let bytes = read(medium, &placed).context(|| format!("cannot read {shown}"))?;
                named |= change(&shown, &bytes, &placed, renamed, &mut found);
                found.words.extend(others(&shown, &bytes));
            }
        }
    }
    if !named {
        found.words.push(
            "no cmdline.txt and no etc/fstab names a partition by PARTUUID: no file is changed"
                .to_owned(),
        );
    }
    Ok(found)
}

fn unreachable(shown: &str, why: &str) -> Error {
    Error::refused(format!(
        "{shown} may name partitions by PARTUUID, and cannot be changed on the copy: {why}"
    ))
    .hint("mount and unmount the filesystem, or check it (fsck); or leave --new-ids out")
}

fn within(placed: &Placed, partition: &Partition) -> bool {
    let room = partition.range();
    placed.runs.iter().all(|run| run.start >= room.start && run.end <= room.end)
}

fn read(medium: &dyn ReadAt, placed: &Placed) -> std::io::Result<Vec<u8>> {
    let view = View::new(medium);
    let mut out = Vec::new();
    for run in &placed.runs {
        let len = usize::try_from(run.end - run.start).map_err(std::io::Error::other)?;
        let bytes = view.exact(run.start, len)?;
        out.extend(bytes.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::UnexpectedEof))?);
    }
    Ok(out)
}

/// Patches for one file; whether it names any of the partitions.
fn change(
    shown: &str,
    bytes: &[u8],
    placed: &Placed,
    renamed: &[Renamed],
    found: &mut Found,
) -> bool {
    let mut any = false;
    for Renamed { old, new, .. } in renamed {
        let named = places(bytes, old.as_bytes());
        for &at in &named {
            patch(at, new.as_bytes(), placed, &mut found.patches);
        }
        if !named.is_empty() {
            any = true;
            let count = match named.len() {
                1 => "1 place".to_owned(),
                n => format!("{n} places"),
            };
            found.words.push(format!("{shown}: PARTUUID {old} becomes {new} in {count}"));
        }
    }
    any
}

/// Where a file names this PARTUUID, in upper or lower case.
fn places(bytes: &[u8], old: &[u8]) -> Vec<usize> {
    let is = |at: usize, text: &[u8]| {
        bytes.get(at..at + text.len()).is_some_and(|here| here.eq_ignore_ascii_case(text))
    };
    let after = |at: usize, text: &[u8]| at.checked_sub(text.len()).is_some_and(|at| is(at, text));
    let begins = |at: usize| {
        let at = if after(at, b"\"") { at - 1 } else { at };
        after(at, b"PARTUUID=") || after(at, b"/by-partuuid/")
    };
    let ends = |at: usize| {
        bytes.get(at + old.len()).is_none_or(|next| !next.is_ascii_hexdigit() && *next != b'-')
    };
    (0..bytes.len()).filter(|&at| is(at, old) && begins(at) && ends(at)).collect()
}

/// Bytes of the file from `at` on, as bytes of the medium.
fn patch(at: usize, new: &[u8], placed: &Placed, patches: &mut Vec<Patch>) {
    let (mut at, mut new) = (at as u64, new);
    for Range { start, end } in placed.runs.iter().cloned() {
        let len = end - start;
        if at >= len {
            at -= len;
            continue;
        }
        let room = usize::try_from(len - at).unwrap_or(new.len()).min(new.len());
        let (here, rest) = new.split_at(room);
        if !here.is_empty() {
            patches.push(Patch { at: start + at, bytes: here.to_vec() });
        }
        (at, new) = (0, rest);
    }
}

/// Other names in a file, which are as good for the original as for the copy, or for neither.
fn others(shown: &str, bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let (mut twins, mut nodes) = (Vec::new(), Vec::new());
    for word in lines.flat_map(|line| line.split_whitespace()) {
        let word = word.strip_prefix("root=").unwrap_or(word);
        let upper = word.to_ascii_uppercase();
        if upper.starts_with("UUID=") || upper.starts_with("LABEL=") {
            twins.push(printable(word));
        } else if ["/dev/mmcblk", "/dev/sd", "/dev/nvme"].iter().any(|dev| word.starts_with(dev)) {
            nodes.push(printable(word));
        }
    }
    let mut words = Vec::new();
    if !twins.is_empty() {
        words.push(format!(
            "{shown} names filesystems by {}: unchanged, so while both disks are plugged in it is not certain which one is meant",
            twins.join(", ")
        ));
    }
    if !nodes.is_empty() {
        words.push(format!(
            "{shown} names {}: unchanged; on the copy's place that may be another name",
            nodes.join(", ")
        ));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed() -> Vec<Renamed> {
        let renamed = |number, old: &str, new: &str| Renamed {
            number,
            old: old.to_owned(),
            new: new.to_owned(),
        };
        vec![
            renamed(1, "1234abcd-01", "deadbeef-01"),
            renamed(2, "1234abcd-02", "deadbeef-02"),
            renamed(18, "1234abcd-12", "deadbeef-12"),
        ]
    }

    /// The file's bytes with its patches, wherever they lie.
    fn changed(text: &str, runs: &[(u64, u64)]) -> (String, Vec<String>) {
        let placed = Placed {
            len: text.len() as u64,
            runs: runs.iter().map(|&(at, len)| at..at + len).collect(),
        };
        let mut disk = vec![b'.'; 4096];
        let mut rest = text.as_bytes();
        for run in &placed.runs {
            let len = usize::try_from(run.end - run.start).unwrap();
            let at = usize::try_from(run.start).unwrap();
            disk[at..at + len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
        let mut found = Found::default();
        change("fstab", text.as_bytes(), &placed, &renamed(), &mut found);
        super::super::patch::overlay(&found.patches, 0, &mut disk);
        let mut out = Vec::new();
        for run in &placed.runs {
            let range = usize::try_from(run.start).unwrap()..usize::try_from(run.end).unwrap();
            out.extend_from_slice(&disk[range]);
        }
        (String::from_utf8(out).unwrap(), found.words)
    }

    #[test]
    fn partuuids_are_replaced_in_any_case_and_nothing_else_is() {
        for (before, after) in [
            ("root=PARTUUID=1234abcd-02 rw", "root=PARTUUID=deadbeef-02 rw"),
            ("root=partuuid=1234ABCD-02", "root=partuuid=deadbeef-02"),
            ("PARTUUID=\"1234abcd-01\" /boot", "PARTUUID=\"deadbeef-01\" /boot"),
            ("/dev/disk/by-partuuid/1234abcd-12", "/dev/disk/by-partuuid/deadbeef-12"),
            ("root=PARTUUID=1234abcd-01/PARTNROFF=1", "root=PARTUUID=deadbeef-01/PARTNROFF=1"),
            ("PARTUUID=1234abcd-011", "PARTUUID=1234abcd-011"),
            ("UUID=1234abcd-01", "UUID=1234abcd-01"),
            ("1234abcd-01", "1234abcd-01"),
            ("PARTUUID=1234abcd-0", "PARTUUID=1234abcd-0"),
        ] {
            let runs = [(100, before.len() as u64)];
            assert_eq!(changed(before, &runs).0, after);
        }
    }

    #[test]
    fn a_name_across_blocks_is_replaced_in_both() {
        let text = "proc /proc\nPARTUUID=1234abcd-02 / ext4\nPARTUUID=1234abcd-01 /boot\n";
        let expected = text.replace("1234abcd", "deadbeef");
        for cut in 1..text.len() as u64 {
            let runs = [(2048, cut), (512, text.len() as u64 - cut)];
            let (after, words) = changed(text, &runs);
            assert_eq!(after, expected, "{cut}");
            assert_eq!(words.len(), 2);
        }
    }

    #[test]
    fn what_stays_is_told_where_it_means_both_disks_or_a_place() {
        let words = others("fstab", b"# UUID=none\nUUID=77-88 / ext4\nLABEL=x /y ext4\n");
        assert_eq!(words.len(), 1);
        assert!(words[0].contains("UUID=77-88, LABEL=x"), "{words:?}");
        let words = others("cmdline.txt", b"root=/dev/mmcblk0p2 rw\x1b[2J\n");
        assert!(words[0].contains("names /dev/mmcblk0p2:"), "{words:?}");
        assert_eq!(others("fstab", b"PARTUUID=1-01 / ext4\nPARTLABEL=a /b ext4\n"), [""; 0]);
    }
}
