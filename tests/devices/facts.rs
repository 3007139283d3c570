//! Facts of the system the test runs on, and of real loop devices where the test may attach them.

use std::path::{Path, PathBuf};
use std::process::Command;

use mediawriter::device::facts::Bus;
use mediawriter::device::policy::{Purpose, Rules, approve};
use mediawriter::device::probe::System;
use mediawriter::device::storage::Id;

/// A loop device over a file of its own, detached when dropped.
struct Loop {
    device: PathBuf,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// `None` with a printed reason where loop devices cannot be attached.
    fn attach(bytes: u64, options: &[&str]) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: attaching loop devices needs root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stick.img");
        std::fs::File::create(&file).unwrap().set_len(bytes).unwrap();
        let output =
            Command::new("losetup").args(["--find", "--show"]).args(options).arg(&file).output();
        let Ok(output) = output.inspect_err(|error| println!("skipped: losetup: {error}")) else {
            return None;
        };
        if !output.status.success() {
            println!("skipped: losetup: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        let file = std::fs::canonicalize(file).unwrap();
        Some(Self { device, file, _folder: folder })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").arg("--detach").arg(&self.device).status().unwrap();
    }
}

#[test]
fn a_read_only_loop_with_4096_byte_sectors_is_described_and_refused() {
    let Some(stick) = Loop::attach(8 << 20, &["-r", "-b", "4096"]) else {
        return;
    };
    let system = System::host();
    let facts = system.facts(&stick.device).unwrap();
    assert_eq!(facts.path, stick.device);
    assert_eq!(facts.size, 8 << 20);
    assert_eq!((facts.logical_block, facts.physical_block), (4096, 4096));
    assert!(facts.read_only);
    assert_eq!(facts.bus, Bus::Loop);
    assert_eq!(facts.backing_file, Some(stick.file.clone()));
    assert_eq!(facts.uses, []);
    assert_eq!(facts.system, None);
    assert!(facts.diskseq.is_some());
    assert_eq!(system.identity(facts.rdev), Some(facts.identity()));
    let refusals = approve(facts.clone(), &Rules::default()).unwrap_err();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals[0].rule(), "read-only");
    let reading = Rules { purpose: Purpose::ReadOnly, ..Rules::default() };
    assert!(approve(facts, &reading).is_ok());
}

#[test]
fn b25_a_device_of_3_tib_has_its_size() {
    let Some(stick) = Loop::attach(3 << 40, &[]) else {
        return;
    };
    let facts = System::host().facts(&stick.device).unwrap();
    assert_eq!(facts.size, 3 << 40);
    let rules = Rules { image_size: Some(3 << 40), ..Rules::default() };
    assert!(approve(facts, &rules).is_ok());
}

#[test]
fn a_loop_over_a_loop_is_in_use_and_identity_goes_with_the_attachment() {
    let Some(below) = Loop::attach(8 << 20, &[]) else {
        return;
    };
    let system = System::host();
    let before = system.facts(&below.device).unwrap().identity();
    let output =
        Command::new("losetup").args(["--find", "--show"]).arg(&below.device).output().unwrap();
    let above = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let uses = system.facts(&below.device).unwrap().uses;
    let source = system.storage(Path::new(&above)).unwrap();
    Command::new("losetup").args(["--detach", &above]).status().unwrap();
    assert_eq!(uses.len(), 1, "{uses:?}");
    assert!(
        source.below.iter().any(|link| link.id == Id::Device(before.rdev.0, before.rdev.1)),
        "{source:?}"
    );
    assert_eq!(system.identity(before.rdev), Some(before));
}

#[test]
fn the_kernel_counts_what_is_read() {
    let Some(stick) = Loop::attach(8 << 20, &["--direct-io=on"]) else {
        return;
    };
    let system = System::host();
    let rdev = system.facts(&stick.device).unwrap().rdev;
    let Some((before, _)) = system.kernel_counters(rdev) else {
        println!("skipped: this kernel does not count ({})", stick.device.display());
        return;
    };
    let read = std::fs::read(&stick.device).unwrap();
    let (after, _) = system.kernel_counters(rdev).unwrap();
    assert!(after - before >= read.len() as u64, "{before} {after}");
}

#[test]
fn the_disk_of_the_running_system_is_never_approved() {
    let system = System::host();
    let needed: Vec<_> = system.all().into_iter().filter(|facts| facts.system.is_some()).collect();
    if needed.is_empty() {
        println!("skipped: no block device below / (container?)");
    }
    for facts in needed {
        let rules = Rules { force: true, unmount: true, ..Rules::default() };
        let refusals = approve(facts, &rules).unwrap_err();
        assert!(refusals.iter().any(|refusal| refusal.rule() == "system-disk"), "{refusals:?}");
    }
}
