//! When two names stand for the same storage: the one notion of it, for sources, targets and outputs alike. Pure;
//! `probe` fills it from the system.
//!
//! | compared | by |
//! |---|---|
//! | files, their links and bind mounts | device number and inode; a file of an overlay by that of its upper layer |
//! | nodes of devices | the device's number |
//! | a partition | its own number; its disk is below it |
//! | a loop device | its own number, and the file behind it |
//! | device mapper, md | their own number; what they are built on is below them |
//! | a file on a mounted filesystem | its inode; the filesystem's devices, and all below, are below it |
//!
//! Two are the same storage when one is, or lies on, what the other one is. That both lie on the same third thing
//! (two partitions of a disk, two volumes of a group, two files of a folder) does not make them the same. Not
//! known: one file of a server that is mounted twice, two paths to one disk that are not joined by multipath.

use std::path::PathBuf;

/// What makes a file or a device itself, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// A file: number of its filesystem's device, and inode.
    File(u64, u64),
    /// A block device: major and minor number.
    Device(u32, u32),
}

/// A file or a block device, and everything that it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// The file or device, links resolved.
    pub path: PathBuf,
    /// What is changed when it is written: itself; a disk's partitions; the file behind a loop device.
    pub itself: Vec<Id>,
    /// What it lies on, from the top: partition, disk, slaves, backing files and their devices.
    pub below: Vec<Link>,
}

/// One thing below another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it is.
    pub id: Id,
    /// How the upper one depends on it, as the end of a sentence: `lies on /mnt, which is /dev/sdb1`.
    pub how: String,
}

impl Storage {
    /// Why writing to `other` changes this one, as the end of a sentence that begins with this one's name; `None`
    /// when it does not.
    pub fn shared_with(&self, other: &Self) -> Option<String> {
        if let Some(id) = self.itself.iter().find(|id| other.itself.contains(id)) {
            return Some(self.same(other, *id).to_owned());
        }
        if let Some(link) = self.below.iter().find(|link| other.itself.contains(&link.id)) {
            return Some(link.how.clone());
        }
        let link = other.below.iter().find(|link| self.itself.contains(&link.id))?;
        Some(format!("is below the target, which {}", link.how))
    }

    fn same(&self, other: &Self, id: Id) -> &'static str {
        let is_file =
            |storage: &Self| storage.itself.first().is_some_and(|id| matches!(id, Id::File(..)));
        match (id, is_file(self), is_file(other)) {
            (Id::File(..), true, true) if self.path == other.path => "is the target itself",
            (Id::File(..), true, true) => "is the target itself by another name",
            (Id::File(..), true, false) => "is the file behind the target",
            (Id::File(..), false, true) => "is a loop device over the target",
            (Id::File(..), false, false) => "is a loop device over the same file",
            (Id::Device(..), ..) if self.itself.first() == other.itself.first() => {
                "is the target itself"
            }
            (Id::Device(..), ..) if self.itself.first() == Some(&id) => "is a part of the target",
            (Id::Device(..), ..) => "holds the target",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(path: &str, itself: &[Id], below: &[Id]) -> Storage {
        let link = |id: &Id| Link { id: *id, how: format!("lies on {id:?}") };
        Storage {
            path: path.into(),
            itself: itself.to_vec(),
            below: below.iter().map(link).collect(),
        }
    }

    /// A disk with two partitions, a volume on the first, a file on the second, and what is made of those.
    fn desk() -> Vec<Storage> {
        let (disk, one, two) = (Id::Device(8, 0), Id::Device(8, 1), Id::Device(8, 2));
        let (file, other, inner) = (Id::File(2, 10), Id::File(2, 11), Id::File(70, 5));
        let (volume, ring, second) = (Id::Device(253, 0), Id::Device(7, 0), Id::Device(7, 1));
        vec![
            storage("/dev/sda", &[disk, one, two], &[]),
            storage("/dev/sda1", &[one], &[disk]),
            storage("/dev/sda2", &[two], &[disk]),
            storage("/dev/mapper/volume", &[volume], &[one, disk]),
            storage("/mnt/file", &[file], &[two, disk]),
            storage("/mnt/link", &[file], &[two, disk]),
            storage("/mnt/other", &[other], &[two, disk]),
            storage("/dev/loop0", &[ring, file], &[two, disk]),
            storage("/dev/loop1", &[second, file], &[two, disk]),
            storage("/in/file", &[inner], &[ring, file, two, disk]),
        ]
    }

    #[test]
    fn c02_c03_two_names_are_the_same_storage_when_one_is_or_lies_on_the_other() {
        let apart = [
            ("/dev/sda1", "/dev/sda2"),
            ("/dev/sda2", "/dev/mapper/volume"),
            ("/dev/mapper/volume", "/mnt/file"),
            ("/dev/mapper/volume", "/mnt/link"),
            ("/dev/mapper/volume", "/mnt/other"),
            ("/dev/mapper/volume", "/dev/loop0"),
            ("/dev/mapper/volume", "/dev/loop1"),
            ("/dev/mapper/volume", "/in/file"),
            ("/dev/sda1", "/mnt/file"),
            ("/dev/sda1", "/mnt/link"),
            ("/dev/sda1", "/mnt/other"),
            ("/dev/sda1", "/dev/loop0"),
            ("/dev/sda1", "/dev/loop1"),
            ("/dev/sda1", "/in/file"),
            ("/mnt/file", "/mnt/other"),
            ("/mnt/link", "/mnt/other"),
            ("/mnt/other", "/dev/loop0"),
            ("/mnt/other", "/dev/loop1"),
            ("/mnt/other", "/in/file"),
        ];
        let desk = desk();
        for a in &desk {
            for b in &desk {
                let pair = (a.path.to_str().unwrap(), b.path.to_str().unwrap());
                let free = apart.contains(&pair) || apart.contains(&(pair.1, pair.0));
                assert_eq!(a.shared_with(b).is_none(), free, "{pair:?}: {:?}", a.shared_with(b));
                assert_eq!(a.shared_with(b).is_none(), b.shared_with(a).is_none(), "{pair:?}");
            }
        }
    }

    #[test]
    fn the_sentence_says_how() {
        let desk = desk();
        let find = |path: &str| desk.iter().find(|one| one.path.to_str() == Some(path)).unwrap();
        for (one, other, words) in [
            ("/dev/sda", "/dev/sda", "is the target itself"),
            ("/dev/sda1", "/dev/sda", "is a part of the target"),
            ("/dev/sda", "/dev/sda1", "holds the target"),
            ("/mnt/file", "/mnt/file", "is the target itself"),
            ("/mnt/link", "/mnt/file", "is the target itself by another name"),
            ("/mnt/link", "/dev/loop0", "is the file behind the target"),
            ("/dev/loop0", "/mnt/file", "is a loop device over the target"),
            ("/dev/loop0", "/dev/loop1", "is a loop device over the same file"),
            ("/mnt/file", "/dev/sda", "lies on Device(8, 2)"),
            ("/dev/sda1", "/dev/mapper/volume", "is below the target, which lies on Device(8, 1)"),
        ] {
            assert_eq!(find(one).shared_with(find(other)).unwrap(), words, "{one} {other}");
        }
    }
}
