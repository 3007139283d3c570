//! What every command that overwrites a medium does, generated from the list of them: the question shows
//! what is on the disk, the kernel reads the new partition table and it is said where it cannot, and a
//! medium without direct I/O is named.

use std::fs::{self, File};
use std::path::Path;

use crate::lab::{
    self, LoopDev, MIB, Mount, lab_has, on_terminal, partition, put, run, sh, target_folder,
};

/// The commands; `DISK` is the target, `IMAGE` a file, `OTHER` another disk.
const COMMANDS: &[&[&str]] = &[
    &["flash", "IMAGE", "DISK"],
    &["flash", "IMAGE", "DISK", "--changed-only"],
    &["flash", "IMAGE", "DISK", "--no-verify"],
    &["clone", "OTHER", "DISK"],
    &["verify", "DISK", "IMAGE", "--repair"],
    &["discard", "DISK"],
    &["discard", "DISK", "--zero"],
    &["probe", "DISK", "--destructive"],
    &["bench", "DISK", "--profile", "image", "--size", "4MiB", "--destructive"],
    &["bench", "DISK", "--write-same", "--size", "4MiB"],
];

struct Desk {
    dir: tempfile::TempDir,
    image: String,
    other: LoopDev,
}

impl Desk {
    fn new() -> Self {
        let dir = target_folder();
        let image = lab::gpt_image(dir.path(), "image", 32 * MIB, 512);
        let other = LoopDev::over(Path::new(&image), &["-r"]);
        Self { dir, image, other }
    }

    /// A disk with a table, a partition and a filesystem.
    fn disk(&self) -> LoopDev {
        let file = put(self.dir.path(), "disk", &vec![0; 40 << 20]);
        partition(&file, 512, "label: gpt\nsize=24M\n");
        let disk = LoopDev::over(Path::new(&file), &["-P"]);
        sh("mkfs.ext4", &["-q", "-L", "HOLIDAYS", &disk.partition(1)]);
        disk
    }

    fn words(&self, command: &[&str], target: &str) -> Vec<String> {
        let word = |word: &&str| match *word {
            "DISK" => target.to_owned(),
            "IMAGE" => self.image.clone(),
            "OTHER" => self.other.device.clone(),
            other => other.to_owned(),
        };
        command.iter().map(word).collect()
    }
}

fn possible() -> bool {
    lab_has(&["losetup", "mkfs.ext4", "sfdisk", "mount", "python3"])
}

#[test]
fn every_question_shows_what_is_on_the_disk() {
    if !possible() {
        return;
    }
    let table = Desk::new();
    for command in COMMANDS {
        let disk = table.disk();
        let before = lab::sha256sum(&disk.device);
        let words = table.words(command, &disk.device);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let run = on_terminal(&words, &["wait:Type", "type:no\n"]);
        assert_eq!((run.code, run.steps_done), (3, 2), "{command:?}: {}", run.output);
        for word in ["HOLIDAYS", "ext4", disk.name()] {
            assert!(run.output.contains(word), "{command:?} hides {word}: {}", run.output);
        }
        assert_eq!(lab::sha256sum(&disk.device), before, "{command:?} wrote before the answer");
    }
}

#[test]
fn the_new_partition_table_is_read_by_the_kernel_or_it_is_said() {
    if !possible() {
        return;
    }
    let table = Desk::new();
    for command in COMMANDS {
        // What is only read and written back keeps its table.
        if command.contains(&"--write-same") {
            continue;
        }
        for held in [false, true] {
            let disk = table.disk();
            let node = disk.partition(1);
            // Held by somebody who looks into the old partition, as a desktop does.
            let holder = held.then(|| File::open(&node).unwrap());
            let mut words = table.words(command, &disk.device);
            words.extend(["--yes".to_owned(), "--json".to_owned()]);
            let output = run(&words).expect(0);
            assert_eq!(output.remarked("partitions-not-reread"), held, "{command:?}: {output}");
            drop(holder);
            if !held && matches!(command[0], "discard" | "probe" | "bench") {
                let gone = !Path::new("/sys/class/block").join(&node["/dev/".len()..]).exists();
                assert!(gone, "{command:?}: the kernel still has {node}");
            }
        }
    }
}

#[test]
fn a_medium_without_direct_io_is_named() {
    if !possible() {
        return;
    }
    let table = Desk::new();
    // ramfs has no direct I/O.
    let ram = Mount::new("none", &["-t", "ramfs"]);
    let stick = ram.at.join("stick");
    for command in COMMANDS {
        // A disk is cloned onto a disk, or into a new file; a discard reads and writes nothing.
        if matches!(command[0], "clone" | "discard") {
            continue;
        }
        fs::write(&stick, vec![0x5a; 40 << 20]).unwrap();
        let mut words = table.words(command, stick.to_str().unwrap());
        words.extend(["--yes".to_owned(), "--json".to_owned()]);
        let output = run(&words).expect(0);
        assert!(output.remarked("no-direct-io"), "{command:?}: {output}");
    }
    let copy = ram.at.join("copy.img");
    let output = run(&["clone", &table.other.device, copy.to_str().unwrap(), "--json"]).expect(0);
    assert!(output.remarked("no-direct-io"), "{output}");
    let output = run(&["demo", "--keep", ram.at.join("demo").to_str().unwrap(), "--json"]);
    assert!(output.expect(0).remarked("no-direct-io"));
}

/// Whatever ends in which order: the code says what all failures have in common.
#[test]
fn several_measurements_end_with_the_code_of_all_of_them() {
    let good = "sim:64MiB";
    let bad = "sim:64MiB,fault=read@1MiB:error";
    for targets in [[good, bad], [bad, good]] {
        run(&["bench", targets[0], targets[1], "--profile", "read", "--size", "4MiB"]).expect(1);
    }
}
