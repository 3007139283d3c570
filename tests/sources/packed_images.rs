//! Compressed and packed images: the cases of group d, with files made by the usual tools, and
//! what the decoders promise besides.

use std::fs;
use std::path::Path;

use crate::lab::{
    self, LoopDev, MIB, Output, command, disk_image, feed, fill, flash, folder, lab_has, noise,
    put, read_direct, run, sh, sha256sum, target_folder, verify,
};

/// Runs a line of shell in a folder.
fn shell(dir: &Path, line: &str) {
    sh("sh", &["-ec", &format!("cd '{}'; {line}", dir.display())]);
}

/// The path of a file in a folder.
fn at(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

/// Makes a file that stands for a stick, full of old data.
fn stick(dir: &Path, len: u64) -> String {
    put(dir, "stick", &vec![0xEE; usize::try_from(len).unwrap()])
}

/// Asserts that the medium holds the image, and that the numbers said so.
fn holds(output: &Output, stick: &str, image: &[u8]) {
    let medium = fs::read(stick).unwrap();
    assert!(medium[..image.len()] == *image, "the medium differs: {output}");
    assert_eq!(output.event("source_read")["bytes"], image.len() as u64);
    assert_eq!(output.event("media_verdict")["verdict"], "matched");
}

/// Flashes a file onto a new stick of 16 MiB and expects the image there.
fn arrives(dir: &Path, file: &str, image: &[u8], more: &[&str]) -> Output {
    let stick = stick(dir, 16 * MIB);
    let output = flash(&at(dir, file), &stick, more).expect(0);
    holds(&output, &stick, image);
    let read = output.event("file_read");
    assert_eq!(read["sha256"], sha256sum(&at(dir, file)), "{file}");
    assert_eq!(read["bytes"], fs::metadata(at(dir, file)).unwrap().len(), "{file}");
    output
}

/// Flashes a file and expects a refusal that leaves the stick alone.
fn refused(dir: &Path, file: &str, len: u64, code: i32, more: &[&str]) -> Output {
    let stick = stick(dir, len);
    let output = flash(&at(dir, file), &stick, more).expect(code);
    assert!(fs::read(&stick).unwrap().iter().all(|byte| *byte == 0xEE), "{output}");
    output
}

/// Makes a zip archive: `z` is the open archive, `img` the bytes of the file `image`.
fn zip(dir: &Path, name: &str, python: &str) {
    let script = format!(
        "import zipfile, io\nimg = open('image', 'rb').read()\n\
         z = zipfile.ZipFile('{name}', 'w', zipfile.ZIP_DEFLATED)\n{python}\nz.close()\n"
    );
    put(dir, "make.py", script.as_bytes());
    shell(dir, "python3 make.py");
}

#[test]
fn b58_xz_streams_one_behind_the_other_are_one_image() {
    if !lab_has(&["xz"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(7 * MIB, 58);
    put(dir, "a", &image[..4 << 20]);
    put(dir, "b", &image[4 << 20..]);
    shell(
        dir,
        "xz -1c a > a.xz; xz -1c b > b.xz; cat a.xz b.xz > two; \
         (cat a.xz; head -c 4 /dev/zero; cat b.xz; head -c 8 /dev/zero) > padded; \
         cat a b | xz -1 -T2 --block-size=1MiB -c > blocks; cat a b | xz -1c > one",
    );
    for file in ["two", "padded", "blocks", "one"] {
        let output = arrives(dir, file, &image, &[]);
        let started = output.all("phase_started");
        let write = started.iter().find(|event| event["phase"] == "write").unwrap();
        assert!(write["total"].is_u64(), "{file}: the index tells the size");
        assert!(!output.remarked("trailing-bytes"), "{file}");
    }
}

#[test]
fn b60_bzip2_of_many_streams_is_decoded_to_its_end() {
    if !lab_has(&["bzip2", "split"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(5 * MIB + 123, 60);
    put(dir, "image", &image);
    shell(dir, "split -b 900000 image part.; for p in part.*; do bzip2 -c $p; done > image.bz2");
    arrives(dir, "image.bz2", &image, &[]);
}

#[test]
fn b62_an_image_that_is_no_multiple_of_a_sector_is_verified_by_the_same_length() {
    if !lab_has(&["xz", "gzip"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(3 * MIB + 77, 62);
    put(dir, "image", &image);
    shell(dir, "xz -0c image > image.xz; gzip -1c image > image.gz");
    for file in ["image.xz", "image.gz"] {
        let output = arrives(dir, file, &image, &[]);
        assert_eq!(output.event("media_verdict")["bytes"], image.len() as u64);
        // The length of the second is known only when it has been read.
        let again = verify(&at(dir, "stick"), &[&at(dir, file)]).expect(0);
        assert_eq!(again.event("media_verdict")["bytes"], image.len() as u64);
        assert_eq!(again.event("source_read")["sha256"], output.event("source_read")["sha256"]);
    }
    lab::write_at(at(dir, "stick"), 2 * MIB, b"changed");
    for file in ["image.xz", "image.gz"] {
        let output = verify(&at(dir, "stick"), &[&at(dir, file)]).expect(5);
        assert!(!output.all("bad_range").is_empty(), "{output}");
    }
}

#[test]
fn b64_a_gzip_of_more_than_4_gib_has_no_size_beforehand_and_the_right_one_afterwards() {
    if !lab_has(&["gzip", "truncate"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let len = 4 * lab::GIB + MIB;
    put(dir, "image", &disk_image(MIB, 64));
    shell(dir, &format!("truncate -s {len} image; gzip -1c image > image.gz"));
    let (file, record) = (at(dir, "image.gz"), at(dir, "record.json"));
    let trailer = fs::read(&file).unwrap();
    assert_eq!(trailer[trailer.len() - 4..], 0x10_0000_u32.to_le_bytes(), "modulo 4 GiB");
    // The trailer's size would fit; nothing may be made of it.
    run(&["flash", &file, "sim:5GiB", "--dry-run"]).expect(0).says(&["unknown size", "gzip"]);
    let output =
        run(&["flash", &file, "sim:5GiB", "--yes", "--no-verify", "--record", &record]).expect(0);
    let percentages = output.percentages();
    assert!(percentages.iter().all(|percent| *percent <= 100), "{output}");
    assert!(percentages.is_sorted(), "{output}");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let phase = |name: &str| {
        let phases = record["phases"].as_array().unwrap();
        phases.iter().find(|phase| phase["phase"] == name).unwrap().clone()
    };
    let written =
        phase("write")["bytes"].as_u64().unwrap() + phase("release")["bytes"].as_u64().unwrap();
    assert_eq!(written, len);
    assert!(phase("write")["total"].is_null());
    assert_eq!(record["source"]["file"]["packed"], "gzip");
    assert_eq!(record["source"]["file"]["sha256_actual"], sha256sum(&file));
}

#[test]
fn b66_damaged_and_truncated_files_fail_with_the_place_and_leave_nothing_bootable() {
    if !lab_has(&["xz", "gzip", "zstd", "bzip2", "lz4", "lzip"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    put(dir, "image", &disk_image(6 * MIB, 66));
    for (tool, suffix) in [
        ("xz -1c", "xz"),
        ("xz -1 -T2 --block-size=1MiB -c", "xz"),
        ("xz --format=lzma -1c", "lzma"),
        ("gzip -1c", "gz"),
        ("zstd -1cq", "zst"),
        ("bzip2 -1c", "bz2"),
        ("lz4 -1cq", "lz4"),
        ("lzip -0c", "lz"),
    ] {
        shell(dir, &format!("{tool} image > whole.{suffix}"));
        let whole = fs::read(at(dir, &format!("whole.{suffix}"))).unwrap();
        let mut flipped = whole.clone();
        let near_the_end = whole.len() - 30;
        flipped[near_the_end] ^= 0x40;
        let cut = &whole[..whole.len() - 5000];
        let checked = suffix != "lzma";
        for (what, bytes) in [("cut", cut), ("flipped", &flipped)] {
            if what == "flipped" && !checked {
                // This format has no checksum.
                continue;
            }
            let file = put(dir, "damaged", bytes);
            let stick = stick(dir, 16 * MIB);
            let output = flash(&file, &stick, &[]).expect(1);
            let output =
                output.says(&["is damaged at byte", "of the compressed file", "download it again"]);
            let output = output.never_says(&["done: ", "every byte matches"]);
            let text = output.text();
            let place = text.split("is damaged at byte ").nth(1).unwrap();
            let place: usize = place.split(' ').next().unwrap().parse().unwrap();
            assert!(place <= bytes.len(), "{tool} {what}: {place}");
            assert!(place > bytes.len() / 2 || what == "flipped", "{tool} {what}: {place}");
            assert_eq!(output.event("made_unbootable")["done"], true, "{tool} {what}");
            assert_eq!(fs::read(&stick).unwrap()[..4096], [0; 4096], "{tool} {what}");
        }
    }
}

#[test]
fn b67_the_one_image_in_a_zip_is_used_and_several_have_to_be_chosen_from() {
    if !lab_has(&["python3"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(3 * MIB + 512, 67);
    put(dir, "image", &image);
    zip(
        dir,
        "one.zip",
        "z.writestr('README.md', 'Write disk.img to a stick.\\n' * 40)\n\
         z.writestr('images/disk.img', img)\n\
         z.writestr('images/SHA256SUMS', '0' * 64 + '  disk.img\\n')\n\
         z.writestr('empty', '')\n",
    );
    let output = arrives(dir, "one.zip", &image, &[]);
    let record = at(dir, "r.json");
    flash(&at(dir, "one.zip"), &stick(dir, 8 * MIB), &["--record", &record]).expect(0);
    let saved: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    assert_eq!(saved["source"]["file"]["packed"], "zip: images/disk.img");
    assert_eq!(saved["source"]["size"], image.len() as u64);
    drop(output);

    zip(
        dir,
        "two.zip",
        "z.writestr('a.img', img[::-1] + img)\nz.writestr('b/disk.img', img)\nz.writestr('c.img', img)\n",
    );
    refused(dir, "two.zip", 8 * MIB, 3, &[]).says(&["b/disk.img", "c.img", "--member NAME"]);
    arrives(dir, "two.zip", &image, &["--member", "b/disk.img"]);
    verify(&at(dir, "stick"), &[&at(dir, "two.zip"), "--member", "b/disk.img"]).expect(0);
    refused(dir, "two.zip", 8 * MIB, 2, &["--member", "d.img"]).says(&["has no entry d.img"]);

    zip(dir, "none.zip", "z.writestr('README', 'no image here\\n' * 9)\n");
    refused(dir, "none.zip", 8 * MIB, 3, &[]).says(&["holds no disk image", "README"]);
    zip(dir, "up.zip", "z.writestr('../../etc/disk.img', img)\n");
    refused(dir, "up.zip", 8 * MIB, 3, &[]).says(&["leads out of the folder"]);
    shell(dir, "gzip -1c image > image.gz");
    zip(dir, "twice.zip", "z.write('image.gz')\n");
    refused(dir, "twice.zip", 8 * MIB, 3, &[]).says(&["image.gz", "packed itself"]);

    // One bit in the middle of the entry: its CRC does not match.
    zip(dir, "crc.zip", "z.writestr('disk.img', img, zipfile.ZIP_STORED)\n");
    arrives(dir, "crc.zip", &image, &[]);
    let mut bytes = fs::read(at(dir, "crc.zip")).unwrap();
    let middle = bytes.len() - 40_000;
    bytes[middle] ^= 1;
    let file = put(dir, "bad.zip", &bytes);
    let output = flash(&file, &stick(dir, 8 * MIB), &[]).expect(1).says(&["CRC-32"]);
    assert_eq!(output.event("made_unbootable")["done"], true);

    // The flag that says an entry is encrypted, in both headers.
    let mut bytes = fs::read(at(dir, "crc.zip")).unwrap();
    let central = bytes.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap();
    bytes[6] |= 1;
    bytes[central + 8] |= 1;
    put(dir, "locked.zip", &bytes);
    refused(dir, "locked.zip", 8 * MIB, 3, &[]).says(&["is encrypted"]);
}

#[test]
fn b68_zip64_streamed_and_prefixed_archives_have_the_size_of_their_directory() {
    if !lab_has(&["python3"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(3 * MIB + 1024, 68);
    put(dir, "image", &image);
    zip(
        dir,
        "large.zip",
        "with z.open(zipfile.ZipInfo('disk.img'), 'w', force_zip64=True) as f: f.write(img)\n",
    );
    zip(
        dir,
        "streamed.zip",
        "z.close()\n\
         class Pipe(io.RawIOBase):\n    def __init__(self, f): self.f = f\n    \
         def writable(self): return True\n    def write(self, b): return self.f.write(b)\n\
         out = open('streamed.zip', 'wb')\n\
         z = zipfile.ZipFile(io.BufferedWriter(Pipe(out)), 'w', zipfile.ZIP_DEFLATED)\n\
         z.writestr('disk.img', img)\n",
    );
    zip(dir, "stored.zip", "z.writestr('disk.img', img, zipfile.ZIP_STORED)\n");
    zip(dir, "bz.zip", "z.writestr('disk.img', img, zipfile.ZIP_BZIP2)\n");
    shell(dir, "(head -c 76 /dev/urandom; cat large.zip) > junk.zip");
    let local = fs::read(at(dir, "streamed.zip")).unwrap();
    assert_eq!(local[6] & 8, 8, "a data descriptor");
    for file in ["large.zip", "streamed.zip", "stored.zip", "bz.zip", "junk.zip"] {
        let output = arrives(dir, file, &image, &[]);
        let started = output.all("phase_started");
        let write = started.iter().find(|event| event["phase"] == "write").unwrap();
        assert!(write["total"].as_u64().unwrap() <= image.len() as u64, "{file}");
    }
    let whole = fs::read(at(dir, "large.zip")).unwrap();
    put(dir, "cut.zip", &whole[..whole.len() - 10]);
    refused(dir, "cut.zip", 8 * MIB, 1, &[]).says(&["damaged, or cut off"]);
    // Its directory is at its end.
    let home = folder();
    let mut piped = command(home.path());
    piped.args(["flash", "-", "sim:16MiB", "--yes"]);
    feed(piped, whole).expect(3).says(&["save it as a file first"]);
}

#[test]
fn b70_bytes_behind_the_last_member_are_left_out_with_one_warning_and_members_are_not() {
    if !lab_has(&["gzip", "xz", "zstd"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(3 * MIB + 5, 70);
    put(dir, "image", &image);
    put(dir, "tail", &noise(300, 7070));
    for tool in ["gzip", "xz", "zstd", "bzip2"] {
        shell(
            dir,
            &format!(
                "{tool} -1 -c image > x; cat x tail > junk; (cat x; head -c 70000 /dev/zero) > zeros; \
                 (cat x; head -c 512 /dev/zero; cat tail) > both; cat x x > two"
            ),
        );
        for (file, bytes) in [("junk", 300), ("both", 812)] {
            let output = arrives(dir, file, &image, &[]);
            let warnings = output.all("warning");
            let about: Vec<_> =
                warnings.iter().filter(|warning| warning["code"] == "trailing-bytes").collect();
            assert_eq!(about.len(), 1, "{tool} {file}");
            output.says(&[&format!("ends with {bytes} bytes that belong to no")]);
        }
        assert!(!arrives(dir, "zeros", &image, &[]).remarked("trailing-bytes"), "{tool}");
        arrives(dir, "two", &[&image[..], &image].concat(), &[]);
        // What begins like another member is one, and its damage is damage.
        let two = fs::read(at(dir, "two")).unwrap();
        let second = two.len() / 2;
        for len in [second + 2, second + 40, two.len() - 9] {
            let file = put(dir, "cut", &two[..len]);
            let output = flash(&file, &stick(dir, 16 * MIB), &[]).expect(1);
            output.says(&["is damaged at byte"]);
        }
    }
}

#[test]
fn b71_zstd_frames_of_every_make_are_decoded_and_a_huge_window_is_refused_beforehand() {
    if !lab_has(&["zstd"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(5 * MIB + 9, 71);
    put(dir, "image", &image);
    put(dir, "skip", b"\x5A\x2A\x4D\x18\x05\0\0\0skip!");
    shell(
        dir,
        "head -c 3000000 image > a; tail -c +3000001 image > b; zstd -qc a > a.zst; \
         zstd -qc --no-check < b > b.zst; cat skip a.zst skip b.zst > frames; \
         zstd -qc --long=31 < image > long; zstd -qc --long=27 < image > fits",
    );
    arrives(dir, "frames", &image, &[]);
    arrives(dir, "fits", &image, &[]);
    refused(dir, "long", 16 * MIB, 3, &[]).says(&[
        "takes 2.00 GiB of memory",
        "the limit is 128.0 MiB",
        "--decode-memory 2048MiB",
    ]);
    arrives(dir, "long", &image, &["--decode-memory", "2GiB"]);
    // The same from a pipe, of which only the head was seen.
    let home = folder();
    let mut piped = command(home.path());
    piped.args(["flash", "-", "sim:16MiB", "--yes"]);
    feed(piped, fs::read(at(dir, "long")).unwrap()).expect(3).says(&["--decode-memory"]);
}

#[test]
fn b72_an_image_that_is_too_large_is_found_as_early_as_its_format_allows() {
    if !lab_has(&["gzip", "bzip2", "xz", "zstd"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    put(dir, "image", &disk_image(12 * MIB, 72));
    shell(
        dir,
        "gzip -1c image > image.gz; bzip2 -1c image > image.bz2; xz -0c image > image.xz; \
         zstd -1qc image > image.zst; head -c 9000000 image | gzip -1c > small.gz",
    );
    for file in ["image.gz", "image.bz2"] {
        let stick = stick(dir, 8 * MIB);
        let output = flash(&at(dir, file), &stick, &[]).expect(3);
        let output = output.says(&["the image is larger than", "at least"]);
        assert_eq!(output.event("made_unbootable")["done"], true, "{file}");
        assert_eq!(fs::read(&stick).unwrap()[..4096], [0; 4096], "{file}");
        assert_eq!(fs::metadata(&stick).unwrap().len(), 8 * MIB, "{file}");
    }
    for file in ["image.xz", "image.zst"] {
        refused(dir, file, 8 * MIB, 3, &[]).says(&["the image does not fit", "it has 12.0 MiB"]);
    }
    flash(&at(dir, "small.gz"), &stick(dir, 9 * MIB), &[]).expect(0);
}

#[test]
fn b72_200_mib_for_a_loop_device_of_128_mib_end_at_its_end_or_before_anything_is_written() {
    if !lab_has(&["losetup", "gzip", "bzip2", "xz"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = put(dir, "image", &disk_image(MIB, 72));
    fs::File::options().write(true).open(image).unwrap().set_len(200 * MIB).unwrap();
    shell(dir, "gzip -1c image > image.gz; bzip2 -1c image > image.bz2; xz -0c image > image.xz");
    let stick = LoopDev::new(128 * MIB);
    let flash = |file: &str| flash(&at(dir, file), &stick.device, &["--force"]);
    for file in ["image.gz", "image.bz2"] {
        let output = flash(file).expect(3).says(&["the image is larger than", "at least"]);
        assert_eq!(output.event("made_unbootable")["done"], true, "{file}");
        assert!(read_direct(&stick.device, 0, MIB).iter().all(|byte| *byte == 0), "{file}");
    }
    fill(&stick.device, 0xEE, 128 * MIB);
    flash("image.xz").expect(3).says(&["it is too small", "the image needs 209715200 bytes"]);
    let untouched = |at| read_direct(&stick.device, at, MIB).iter().all(|byte| *byte == 0xEE);
    assert!(untouched(0) && untouched(127 * MIB), "refused before anything was written");
}

#[test]
fn every_format_is_known_by_its_content_and_through_a_pipe() {
    if !lab_has(&["xz", "gzip", "zstd", "bzip2", "lz4", "lzip"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(9 * MIB + 33, 700);
    put(dir, "image", &image);
    for tool in [
        "xz -0c",
        "xz --format=lzma -0c",
        "gzip -1c",
        "zstd -1qc",
        "bzip2 -1c",
        "lz4 -1qc",
        "lz4 -1qc -BD -B4 -BX",
        "lz4 -1qc --content-size",
        "lz4 -1qcl",
        "lzip -0c",
    ] {
        shell(dir, &format!("{tool} image > packed.img"));
        arrives(dir, "packed.img", &image, &[]);
        let (home, stick) = (folder(), stick(dir, 16 * MIB));
        let mut piped = command(home.path());
        piped.args(["flash", "-", &stick, "--yes", "--json"]);
        let output = feed(piped, fs::read(at(dir, "packed.img")).unwrap()).expect(0);
        holds(&output, &stick, &image);
    }
}

#[test]
fn the_digests_of_the_file_and_of_the_image_are_two_things() {
    if !lab_has(&["xz", "sha512sum"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    let image = disk_image(2 * MIB, 38);
    put(dir, "image", &image);
    shell(dir, "xz -0c image > image.xz");
    let (file, own) = (sha256sum(&at(dir, "image.xz")), sha256sum(&at(dir, "image")));
    let sha512 = |name: &str| sh("sha512sum", &[&at(dir, name)])[..128].to_owned();
    arrives(dir, "image.xz", &image, &["--sha256", &file, "--image-sha256", &own]);
    arrives(dir, "image.xz", &image, &["--sha256", &sha512("image.xz")]);
    arrives(dir, "image", &image, &["--sha256", &sha512("image")]);
    for (digest, hint) in [(&own, "--image-sha256"), (&sha512("image"), "expected SHA-512")] {
        let output = flash(&at(dir, "image.xz"), &stick(dir, 4 * MIB), &["--sha256", digest]);
        let output = output.expect(4).says(&[hint]);
        assert_eq!(output.event("made_unbootable")["done"], true);
    }
}

#[test]
fn what_is_in_a_compressed_file_is_judged_like_any_image() {
    if !lab_has(&["xz", "gzip", "tar"]) {
        return;
    }
    let dir = target_folder();
    let dir = dir.path();
    put(dir, "page", b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>");
    put(dir, "image", &disk_image(MIB, 1));
    shell(
        dir,
        "gzip -c page > page.gz; tar cf - image | xz -0c > image.tar.xz; gzip -c image > a.gz; \
         xz -0c a.gz > a.gz.xz",
    );
    for (file, words) in [
        ("page.gz", "a web page (HTML)"),
        ("image.tar.xz", "a tar archive"),
        ("a.gz.xz", "packed twice"),
    ] {
        refused(dir, file, 4 * MIB, 3, &[]).says(&["what is in", words]);
    }
    refused(dir, "a.gz", 4 * MIB, 2, &["--member", "x"]).says(&["--member is for zip archives"]);
}
