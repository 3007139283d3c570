//! Block maps through the real program, on loop devices and files.

use std::fs;
use std::path::Path;

use crate::gpg::Gpg;
use crate::lab::{
    self, LoopDev, MIB, Output, command, disk_image, fill, finish, folder, lab_has, put,
    read_direct, sh, target_folder, write_at,
};
use serde_json::Value;

const SIZE: u64 = 24 * MIB;

/// A sparse image with data at the start, in the middle and before its end, and its map.
struct Mapped {
    dir: tempfile::TempDir,
    image: String,
    data: Vec<u8>,
}

impl Mapped {
    fn new() -> Self {
        // bmaptool asks the filesystem for holes: not every one knows.
        let dir = target_folder();
        let image = put(dir.path(), "x.img", &[]);
        fs::File::options().write(true).open(&image).unwrap().set_len(SIZE).unwrap();
        let data = disk_image(SIZE, 7);
        let mut expected = vec![0; data.len()];
        for (from, to) in [(0, 3 * MIB), (9 * MIB + 4096, 12 * MIB), (20 * MIB, 23 * MIB)] {
            let (a, b) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
            write_at(&image, from, &data[a..b]);
            expected[a..b].copy_from_slice(&data[a..b]);
        }
        sh("bmaptool", &["create", "-o", &format!("{image}.bmap"), &image]);
        Self { dir, image, data: expected }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    fn bmap(&self) -> String {
        fs::read_to_string(self.path("x.img.bmap")).unwrap()
    }
}

fn run(args: &[&str]) -> Output {
    let home = folder();
    let mut command = command(home.path());
    command.args(args);
    finish(command)
}

fn bytes(event: &Value) -> u64 {
    event["bytes"].as_u64().unwrap()
}

/// What a map of bmaptool says: first and last block of each range.
fn mapped_bytes(bmap: &str) -> u64 {
    let count = bmap.split("<MappedBlocksCount>").last().unwrap().split('<').next().unwrap();
    count.trim().parse::<u64>().unwrap() * 4096
}

#[test]
fn only_what_is_mapped_is_written_and_verified() {
    if !lab_has(&["losetup", "bmaptool", "xz"]) {
        return;
    }
    let lab = Mapped::new();
    let mapped = mapped_bytes(&lab.bmap());
    assert!(mapped < 12 * MIB, "the filesystem below the test shows holes: {mapped}");
    sh("xz", &["-k", "-1", &lab.image]);
    let xz = format!("{}.xz", lab.image);
    // With the map beside it, from a decoder, and with a map that is named.
    let named = ["--bmap".to_owned(), lab.path("x.img.bmap")];
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    for (source, more) in [(&lab.image, &[][..]), (&xz, &[][..]), (&xz, &named)] {
        let stick = LoopDev::with(32 * MIB, &["--direct-io=on"]);
        fill(&stick.file.to_string_lossy(), 0xee, 32 * MIB);
        let record = lab.path("record.json");
        let args =
            ["flash", source, &stick.device, "--yes", "--force", "--json", "--record", &record];
        let more = [&args[..], &["--discard", "never"], more].concat();
        let output = run(&more).expect(0);
        let phases = output.all("phase_ended");
        let of = |name: &str| phases.iter().filter(|p| p["phase"] == name).map(bytes).sum::<u64>();
        assert_eq!(of("write") + of("release"), mapped, "{output}");
        assert_eq!(of("verify"), mapped);
        assert_eq!(output.event("source_verdict")["bytes"], mapped);
        // Each mapped byte is hashed once: the image as a whole only for who asks.
        let read = output.event("source_read");
        assert!(read["sha256"].is_null() && read["mapped_sha256"].is_string(), "{output}");
        let medium = read_direct(&stick.device, 0, SIZE);
        let old = |at: usize| medium[at] == 0xee;
        // Behind the guarded first MiB what is not mapped was left alone.
        let hole = usize::try_from(5 * MIB).unwrap()..usize::try_from(9 * MIB).unwrap();
        assert!(hole.into_iter().all(old), "not written");
        for (at, byte) in lab.data.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            assert_eq!(medium[at], *byte, "byte {at}");
        }
        // Later: what is not mapped may be anything, what is mapped may not.
        let verify = ["verify", &stick.device, source, "--json"];
        run(&verify).expect(0);
        write_at(&stick.file, 6 * MIB, b"something else");
        run(&verify).expect(0);
        run(&["verify", &stick.device, "--record", &record]).expect(0);
        write_at(&stick.file, 10 * MIB + 5, b"damage");
        let by_record = ["verify", &stick.device, "--record", &record, "--json"];
        for verify in [&verify[..], &by_record] {
            let output = run(verify).expect(5);
            let at = output.event("bad_range")["offset"].as_u64().unwrap();
            assert!((10 * MIB - 64 * 1024..=10 * MIB).contains(&at), "{at}");
        }
    }
}

#[test]
fn an_image_that_is_not_the_one_of_its_map_is_refused_and_does_not_boot() {
    if !lab_has(&["bmaptool"]) {
        return;
    }
    let lab = Mapped::new();
    let dir = target_folder();
    let stick = put(dir.path(), "stick", &lab::noise(32 * MIB, 3));
    let flash = ["flash", &lab.image, &stick, "--yes", "--discard", "never"];
    write_at(&lab.image, 11 * MIB, b"changed");
    run(&flash).expect(4).says(&["is not the image of its block map", "was made unbootable"]);
    assert!(fs::read(&stick).unwrap()[..1 << 20].iter().all(|byte| *byte == 0));
    run(&[&flash[..], &["--bmap", "none"]].concat()).expect(0);
    // A damaged map, another image's map: before anything is written.
    let before = lab::sha256sum(&stick);
    let bmap = lab.bmap();
    fs::write(lab.path("x.img.bmap"), bmap.replacen("0-", "1-", 1)).unwrap();
    run(&flash).expect(4).says(&["its own checksum does not fit", "--bmap none"]);
    fs::write(lab.path("x.img.bmap"), &bmap).unwrap();
    fs::File::options().write(true).open(&lab.image).unwrap().set_len(SIZE - 4096).unwrap();
    run(&flash).expect(3).says(&["is of an image of"]);
    assert_eq!(lab::sha256sum(&stick), before);
}

#[test]
fn a_digest_that_was_given_is_compared_with_a_map_too() {
    if !lab_has(&["bmaptool", "xz"]) {
        return;
    }
    let lab = Mapped::new();
    sh("xz", &["-k", "-1", &lab.image]);
    let xz = format!("{}.xz", lab.image);
    let image = lab::sha256sum(&lab.image);
    let other = "11".repeat(32);
    for (source, option, digest) in [
        (&lab.image, "--image-sha256", &image),
        (&lab.image, "--sha256", &image),
        (&xz, "--image-sha256", &image),
        (&xz, "--sha256", &lab::sha256sum(&xz)),
    ] {
        let flash = ["flash", source, "sim:32MiB", "--json", option];
        let output = run(&[&flash[..], &[digest]].concat()).expect(0);
        assert_eq!(output.event("source_verdict")["verdict"], "matched", "{option}");
        assert_eq!(output.event("vouched")["by"], "you");
        let whole = if option == "--image-sha256" { image.as_str().into() } else { Value::Null };
        assert_eq!(output.event("source_read")["sha256"], whole, "{option}");
        run(&[&flash[..], &[&other]].concat()).expect(4).says(&["is not the published one"]);
    }
}

#[test]
fn a_signed_map_vouches_for_the_image() {
    if !lab_has(&["bmaptool"]) {
        return;
    }
    let Some(gpg) = Gpg::new() else { return };
    let lab = Mapped::new();
    let key = gpg.key("ed25519", &[]);
    fs::write(lab.path("key.gpg"), gpg.export(&key)).unwrap();
    let signature = gpg.sign(lab.bmap().as_bytes(), &key, &["--armor"]);
    fs::write(lab.path("x.img.bmap.asc"), signature).unwrap();
    let keyring = lab.path("key.gpg");
    let flash = ["flash", &lab.image, "sim:32MiB", "--json", "--keyring", &keyring];
    let output = run(&flash).expect(0);
    assert_eq!(output.event("vouched")["by"], "signature");
    let text = lab.bmap().replace("<BlockMap>", "<BlockMap> ");
    fs::write(Path::new(&lab.path("x.img.bmap")), text).unwrap();
    run(&flash).expect(4).says(&["does not fit"]);
}
