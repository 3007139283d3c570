//! Group i: media that are smaller than they say, or give out on the way.

use crate::lab::{
    self, LoopDev, MIB, Output, Stick, Zram, disk_image, flash, folder, has_sticks, lab_has, noise,
    put, run, verify,
};

/// What a run said of the capacity.
fn capacity(output: &Output) -> serde_json::Value {
    output.event("capacity")
}

fn probe(device: &str, more: &[&str]) -> Output {
    run(&[&["probe", device, "--destructive", "--yes", "--json"], more].concat())
}

#[test]
fn b122_a_verification_that_fails_from_somewhere_on_names_the_real_capacity() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let image = put(dir.path(), "image", &noise(100 * MIB, 122));
    let fake = Stick::new(&["size=256M", "real=64M"]);
    let output = flash(&image, &fake.device, &[]).expect(5);
    output.says(&["real capacity probably about 64.0 MiB"]).never_says(&["done: "]);
    // Asked before it is written to, it says so at once, and nothing of the image gets there.
    let output = flash(&image, &fake.device, &["--probe"]).expect(5);
    let found = capacity(&output);
    assert_eq!(found["behind"], "lost");
    assert!(found["real"].as_u64().unwrap().abs_diff(64 * MIB) <= MIB, "{found}");
    assert!(output.all("head_released").is_empty());
    output
        .says(&["NOT AS CLAIMED - mediawriter", "it claims 256.0 MiB", "counterfeit"])
        .never_says(&["done: "]);
}

#[test]
fn b123_a_stick_that_wraps_at_no_power_of_two_is_named_with_its_modulus() {
    if !has_sticks() {
        return;
    }
    let fake = Stick::new(&["size=1G", "real=50M", "mode=wrap"]);
    let found = capacity(&probe(&fake.device, &[]).expect(5));
    assert_eq!((&found["behind"], &found["real"]), (&"wraps".into(), &(50 * MIB).into()));
}

#[test]
fn b126_what_fits_is_verified_and_says_nothing_of_the_capacity() {
    if !has_sticks() {
        return;
    }
    let dir = folder();
    let large = put(dir.path(), "large", &noise(100 * MIB, 126));
    let small = put(dir.path(), "small", &disk_image(16 * MIB, 126));
    let fake = Stick::new(&["size=256M", "real=64M"]);
    flash(&large, &fake.device, &[]).expect(5).says(&["real capacity probably about 64.0 MiB"]);
    let output = flash(&small, &fake.device, &[]).expect(0);
    assert!(output.all("capacity").is_empty());
    output.never_says(&["capacity"]);
    verify(&fake.device, &[&small]).expect(0);
}

/// What Windows media have at the end is a backup table, which nothing needs for booting; that the
/// end is not there is found all the same.
#[test]
fn b127_a_fake_end_is_found_where_only_a_backup_table_lies() {
    if !has_sticks() || !lab_has(&["sgdisk"]) {
        return;
    }
    let dir = folder();
    let mut image = noise(17 * MIB, 127);
    image[..1 << 20].fill(0);
    image.resize(256 << 20, 0);
    let path = put(dir.path(), "image", &image);
    lab::sh("sgdisk", &["-o", "-n", "1:2048:+16M", &path]);
    let fake = Stick::new(&["size=256M", "real=128M", "prefill=ff"]);
    let output = flash(&path, &fake.device, &["--sparse", "auto"]).expect(5);
    let first = output.all("bad_range")[0]["offset"].as_u64().unwrap();
    assert!(first >= 128 * MIB, "{first}");
    output.never_says(&["done: "]);
}

#[test]
fn b128_errors_from_somewhere_on_are_told_with_their_place_and_no_single_cause() {
    let Some(worn) = Zram::new(256 * MIB) else { return };
    worn.limit(64 * MIB);
    let output = probe(&worn.device, &["--full", "--force"]).expect(5);
    let found = capacity(&output);
    assert_eq!(found["behind"], "fails");
    let real = found["real"].as_u64().unwrap();
    assert!((32 * MIB..72 * MIB).contains(&real), "{found}");
    output.says(&["a counterfeit, or a worn-out, overheated or badly powered medium"]);
}

#[test]
fn a_genuine_stick_is_not_accused_and_says_what_was_compared() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(600 * MIB);
    let output = probe(&stick.device, &[]).expect(0);
    let found = capacity(&output);
    assert_eq!((&found["verdict"], &found["full"]), (&"as_claimed".into(), &false.into()));
    assert!(found["cache"].as_u64().unwrap() >= 64 * MIB, "{found}");
    output.says(&["no sign that less than the claimed 600.0 MiB"]);
    let full = capacity(&probe(&stick.device, &["--full"]).expect(0));
    assert_eq!((&full["compared"], &full["full"]), (&(600 * MIB).into(), &true.into()));
}

#[test]
fn nothing_is_probed_without_a_yes_to_the_loss_of_everything() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let stick = LoopDev::new(8 * MIB);
    let old = noise(8 * MIB, 1);
    lab::write_at(&stick.file, 0, &old);
    run(&["probe", &stick.device, "--yes"]).expect(2).says(&["--destructive"]);
    run(&["probe", &stick.device, "--destructive"]).expect(3).says(&["--yes"]);
    assert_eq!(std::fs::read(&stick.file).unwrap(), old);
    run(&["probe", "sim:64MiB,real=20MiB", "--destructive"]).expect(5).says(&["real capacity"]);
}
