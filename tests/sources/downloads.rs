//! Downloads: the cases B45 to B57 against a server that misbehaves, and downloads that are cut
//! at random, into files and into loop devices.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lab::{
    self, LoopDev, MIB, Output, command, disk_image, find, finish, folder, lab_has, noise, put,
    read_direct, sh, sha256sum, skip, target_folder,
};
use crate::server::{Length, Reply, Request, Server};
use crate::tls::{Other, certificates, certificates_by, free_port, https};

pub(crate) const TAG: &str = "\"v1\"";

pub(crate) fn image(len: u64, seed: u64) -> Arc<Vec<u8>> {
    Arc::new(disk_image(len, seed))
}

/// `download URL -o FILE` and more, in a folder that is kept.
pub(crate) fn download(home: &Path, url: &str, more: &[&str]) -> Output {
    let mut command = command(home);
    command.args(["download", url, "-o", "out.img", "--retry-wait", "5ms", "--json"]).args(more);
    finish(command)
}

/// `flash URL TARGET` and more.
pub(crate) fn stream(url: &str, target: &str, more: &[&str]) -> Output {
    let home = folder();
    let mut command = command(home.path());
    command.args(["flash", url, target, "--yes", "--json", "--retry-wait", "5ms"]).args(more);
    finish(command)
}

/// What was downloaded is this, and nothing else is left.
#[track_caller]
pub(crate) fn is_whole(home: &Path, body: &[u8]) {
    assert!(fs::read(home.join("out.img")).unwrap() == body, "other bytes");
    for left in ["out.img.part", "out.img.part.json"] {
        assert!(!home.join(left).exists(), "{left}");
    }
}

/// Leaves a part of a download behind: the server closes after `bytes`, and never again answers.
pub(crate) fn partial(home: &Path, body: &Arc<Vec<u8>>, bytes: usize) -> Server {
    let sent = Arc::clone(body);
    let server = Server::start(move |request| match request.number {
        0 => Reply::good(request, &sent, TAG).cut_after(bytes),
        _ => Reply::status(503),
    });
    download(home, &server.url("/x.img"), &[]).expect(1).says(&["out.img.part"]);
    assert_eq!(fs::metadata(home.join("out.img.part")).unwrap().len(), bytes as u64);
    server
}

#[test]
fn a_download_that_is_cut_20_times_at_random_is_whole_in_the_end() {
    let home = folder();
    let body = image(24 * MIB, 1);
    let cuts = noise(80, 9);
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| {
        let good = Reply::good(request, &copy, TAG);
        let left = good.to - good.from;
        match request.number {
            n if n < 20 => {
                let random = u32::from_le_bytes(cuts[4 * n..4 * n + 4].try_into().unwrap());
                good.cut_after(random as usize % (left / 8).max(1))
            }
            _ => good,
        }
    });
    download(home.path(), &server.url("/x.img"), &[]).expect(0);
    is_whole(home.path(), &body);
    let requests = server.requests();
    assert_eq!(requests.len(), 21);
    let resumed = |r: &&Request| r.range().is_some_and(|(first, _)| first > 0);
    let named = |r: &&Request| r.fields.get("if-range").is_some_and(|tag| tag == TAG);
    assert!(requests[1..].iter().all(|r| r.range().is_none() || (resumed(&r) && named(&r))));
    assert!(requests.iter().filter(resumed).count() >= 15, "it went on where it was cut");
}

#[test]
fn a_stream_that_is_cut_20_times_reaches_a_loop_device_whole() {
    if !lab_has(&["losetup"]) {
        return;
    }
    let body = image(24 * MIB, 2);
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| {
        let good = Reply::good(request, &copy, TAG);
        if request.number < 20 { good.cut_after(1_000_003) } else { good }
    });
    let stick = LoopDev::new(32 * MIB);
    let output = stream(&server.url("/x.img"), &stick.device, &["--force"]).expect(0);
    assert!(output.remarked("again"));
    assert!(read_direct(&stick.device, 0, 24 * MIB) == **body);
    assert!(server.requests().len() >= 20);
}

#[test]
fn several_connections_fetch_one_file_and_a_part_of_it_is_gone_on_with() {
    let home = folder();
    let body = image(70 * MIB, 3);
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| {
        let good = Reply::good(request, &copy, TAG);
        // Each of the four is cut once; one of them for good, in the first run.
        match request.number {
            0..4 => good.cut_after(3 << 20),
            _ => good,
        }
    });
    download(home.path(), &server.url("/x.img"), &["--connections", "4"]).expect(0);
    is_whole(home.path(), &body);
    let starts: Vec<_> = server.requests()[..4].iter().map(|r| r.range().map(|r| r.0)).collect();
    assert!(starts.contains(&None) && starts.iter().flatten().count() == 3, "{starts:?}");
}

#[test]
fn b45_a_server_that_ignores_range_is_noticed_and_nothing_is_appended_twice() {
    let home = folder();
    let body = image(3 * MIB, 45);
    drop(partial(home.path(), &body, 1000));
    let copy = Arc::clone(&body);
    let server = Server::start(move |_| Reply::whole(&copy).with("ETag", TAG));
    let proof = ["--sha256", &digest_of(&body)];
    let output = download(home.path(), &server.url("/x.img"), &proof).expect(0);
    assert!(output.remarked("no-parts"));
    output.says(&["does not support resume"]);
    is_whole(home.path(), &body);
    // The server that comes with Python answers 200 to Range, and has no ETag.
    if find("python3").is_some() {
        let home = folder();
        drop(partial(home.path(), &body, 1000));
        let dir = folder();
        put(dir.path(), "x.img", &body);
        let python = Python::http(dir.path());
        download(home.path(), &python.url("/x.img"), &[]).expect(0);
        is_whole(home.path(), &body);
    }
}

#[test]
fn b47_a_part_that_begins_elsewhere_or_ends_early_is_put_where_it_says() {
    let body = image(3 * MIB, 47);
    // With where the program asks for more, each time: nothing that it has is asked for again.
    for (what, reply, asked) in [
        (
            "from 512 bytes before",
            (|good, from| good_part(good, from - 512)) as fn(Reply, usize) -> Reply,
            &[1_000_000][..],
        ),
        ("from zero", |good, _| good_part(good, 0), &[1_000_000]),
        (
            "short and closed in order",
            |good: Reply, from| {
                let to = good.to.min(from + 100_000);
                good.part(from, to)
            },
            &[1_000_000, 1_100_000],
        ),
        // The whole is asked for where parts are not sent rightly.
        ("a gap", |good: Reply, from| good_part(good, from + 512), &[1_000_000, 0]),
    ] {
        let home = folder();
        drop(partial(home.path(), &body, 1_000_000));
        let copy = Arc::clone(&body);
        let server = Server::start(move |request| {
            let good = Reply::good(request, &copy, TAG);
            match request.range() {
                // Once only: a server that always leaves a gap is given up.
                Some((from, _)) if request.number == 0 => reply(good, from),
                _ => good,
            }
        });
        download(home.path(), &server.url("/x.img"), &["--sha256", &digest_of(&body)]).expect(0);
        is_whole(home.path(), &body);
        assert_eq!(starts(&server), asked, "{what}");
    }
}

/// The digest of a body, by which a part of another address may be continued.
pub(crate) fn digest_of(body: &[u8]) -> String {
    let dir = folder();
    sha256sum(&put(dir.path(), "whole", body))
}

/// From which byte on each request wanted the file; 0 without a range.
fn starts(server: &Server) -> Vec<usize> {
    server.requests().iter().map(|r| r.range().map_or(0, |(first, _)| first)).collect()
}

fn good_part(good: Reply, from: usize) -> Reply {
    let to = good.body.len();
    good.part(from, to)
}

#[test]
fn b47_a_part_of_a_file_with_another_length_starts_over() {
    let home = folder();
    let (old, new) = (image(3 * MIB, 47), image(4 * MIB, 48));
    drop(partial(home.path(), &old, 1_000_000));
    let copy = Arc::clone(&new);
    // It even claims the old tag.
    let server = Server::start(move |request| Reply::good(request, &copy, TAG));
    let proof = ["--sha256", &digest_of(&new)];
    let output = download(home.path(), &server.url("/x.img"), &proof).expect(0);
    assert!(output.remarked("from-zero"));
    is_whole(home.path(), &new);
    assert_eq!(starts(&server), [1_000_000, 0], "from zero, and once");
}

#[test]
fn b49_a_file_that_is_replaced_in_between_is_not_mixed_with_the_old_one() {
    let (old, new) = (image(8 * MIB, 1), image(8 * MIB, 2));
    let swapped = |old: &Arc<Vec<u8>>, new: &Arc<Vec<u8>>| {
        let (old, new) = (Arc::clone(old), Arc::clone(new));
        Server::start(move |request| match request.number {
            0 => Reply::good(request, &old, TAG).cut_after(old.len() / 10 * 9),
            _ => Reply::good(request, &new, "\"v2\""),
        })
    };
    let home = folder();
    let server = swapped(&old, &new);
    let output = download(home.path(), &server.url("/x.img"), &[]).expect(0);
    assert!(output.remarked("from-zero"));
    is_whole(home.path(), &new);
    assert_eq!(server.requests()[1].fields["if-range"], TAG);

    // In a stream the old bytes are on the stick by then.
    let dir = target_folder();
    let stick = put(dir.path(), "stick", &noise(12 * MIB, 5));
    let output = stream(&swapped(&old, &new).url("/x.img"), &stick, &[]).expect(4);
    output.says(&["changed while it was downloaded", "was made unbootable"]);
    let head = &fs::read(&stick).unwrap()[..1 << 20];
    assert!(head.iter().all(|byte| *byte == 0), "nothing that boots");
}

#[test]
fn b49_a_server_that_ignores_if_range_is_found_out_by_the_digest_and_tried_once_more_from_zero() {
    let home = folder();
    let (old, new) = (image(3 * MIB, 1), image(3 * MIB, 2));
    drop(partial(home.path(), &old, 2_000_000));
    let copy = Arc::clone(&new);
    let server = Server::start(move |request| match request.range() {
        Some((from, _)) => good_part(Reply::whole(&copy), from),
        None => Reply::whole(&copy),
    });
    let digest = sha256sum(&put(home.path(), "new", &new));
    let output = download(home.path(), &server.url("/x.img"), &["--sha256", &digest]).expect(0);
    assert!(output.remarked("from-zero"));
    is_whole(home.path(), &new);
    // When that fails too, nothing is kept.
    let home = folder();
    let wrong = "00".repeat(32);
    download(home.path(), &server.url("/x.img"), &["--sha256", &wrong])
        .expect(4)
        .says(&["is not the published one", &wrong]);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "the records' folder alone");
}

#[test]
fn b50_a_login_page_is_no_image() {
    let page = b"<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>Please log in</body></html>\n";
    let page = Arc::new(page.to_vec());
    let copy = Arc::clone(&page);
    let server = Server::start(move |_| Reply::whole(&copy).with("Content-Type", "text/html"));
    let dir = target_folder();
    let stick = put(dir.path(), "stick", &noise(4 * MIB, 5));
    let before = sha256sum(&stick);
    let url = server.url("/ubuntu.iso");
    stream(&url, &stick, &[]).expect(3).says(&["web page", "login page"]);
    assert_eq!(sha256sum(&stick), before, "the stick was not touched");
    let home = folder();
    download(home.path(), &url, &[]).expect(3).says(&["web page"]);
    assert!(!home.path().join("out.img").exists());
    // The same from a file, whatever it is called.
    for name in ["page.iso", "page.zip"] {
        let file = put(dir.path(), name, &page);
        lab::flash(&file, &stick, &[]).expect(3).says(&["web page"]);
    }
    assert_eq!(sha256sum(&stick), before);
}

#[test]
fn b52_what_is_stored_is_what_was_sent() {
    let body = Arc::new([&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &noise(MIB, 52)].concat());
    let copy = Arc::clone(&body);
    let server = Server::start(move |_| {
        Reply::whole(&copy)
            .with("Content-Encoding", "gzip")
            .with("Content-Type", "application/octet-stream")
    });
    let home = folder();
    let digest = sha256sum(&put(home.path(), "sent", &body));
    download(home.path(), &server.url("/x.img.gz"), &["--sha256", &digest]).expect(0);
    is_whole(home.path(), &body);
    assert_eq!(server.requests()[0].fields["accept-encoding"], "identity");
}

#[test]
fn b54_a_reply_that_ends_too_early_is_a_failure_that_says_how_far_it_came() {
    let body = image(4 * MIB, 54);
    let cut = body.len() / 10 * 6;
    for length in [Length::Told, Length::ChunkedCut] {
        let copy = Arc::clone(&body);
        let server = Server::start(move |request| {
            if request.number == 0 {
                Reply::good(request, &copy, TAG).cut_after(cut).length(length)
            } else {
                Reply::status(503)
            }
        });
        let dir = target_folder();
        let stick = put(dir.path(), "stick", &noise(8 * MIB, 5));
        let output = stream(&server.url("/x.img"), &stick, &[]).expect(1);
        output.says(&["given up after", &format!("after {cut} bytes"), "was made unbootable"]);
        assert!(fs::read(&stick).unwrap()[..1 << 20].iter().all(|byte| *byte == 0));
    }
    // Chunked to the end it is whole; without any length nobody can know, and a digest tells.
    let proof = digest_of(&body);
    for (length, more, code) in [
        (Length::Chunked, &[][..], 0),
        (Length::None, &[], 6),
        (Length::None, &["--sha256", &proof], 0),
    ] {
        let home = folder();
        let copy = Arc::clone(&body);
        let server = Server::start(move |_| Reply::whole(&copy).length(length));
        let output = download(home.path(), &server.url("/x.img"), more).expect(code);
        if code == 0 {
            is_whole(home.path(), &body);
        } else {
            output.says(&["may be longer", "--sha256"]);
            assert!(!home.path().join("out.img").exists(), "it is not called whole");
        }
        let dir = target_folder();
        let stick = put(dir.path(), "stick", &noise(8 * MIB, 5));
        let keep = dir.path().join("kept.img");
        let more = [more, &["--keep", keep.to_str().unwrap()]].concat();
        stream(&server.url("/x.img"), &stick, &more).expect(code);
        assert!(fs::read(&stick).unwrap()[..body.len()] == body[..]);
        assert_eq!(keep.exists(), code == 0, "{length:?}");
    }
    let home = folder();
    let copy = Arc::clone(&body);
    let server = Server::start(move |_| Reply::whole(&copy).cut_after(cut).length(Length::None));
    let digest = sha256sum(&put(home.path(), "whole", &body));
    let output = download(home.path(), &server.url("/x.img"), &["--sha256", &digest]);
    output.expect(4).says(&["is not the published one"]);
}

struct Python;

impl Python {
    fn http(dir: &Path) -> Other {
        let port = free_port();
        let child = Command::new("python3")
            .args(["-m", "http.server", &port.to_string(), "--bind", "127.0.0.1"])
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Other::ready(child, port, "http")
    }
}

#[test]
fn b56_what_is_wrong_with_a_certificate_is_said_at_once() {
    if find("openssl").is_none() {
        return skip("openssl is not installed");
    }
    let dir = folder();
    certificates(dir.path());
    let body = noise(MIB, 56);
    // s_server -HTTP sends a file with its own head.
    let file = [&b"HTTP/1.0 200 OK\r\nContent-Length: 1048576\r\n\r\n"[..], &body].concat();
    put(dir.path(), "x.img", &file);
    let ca = dir.path().join("ca.pem");
    let get = |server: &Other, trusted: bool| {
        let home = folder();
        let mut command = command(home.path());
        let url = server.url("/x.img");
        command.args(["download", &url, "-o", "out.img", "--retry-wait", "5ms"]);
        if trusted {
            command.env("SSL_CERT_FILE", &ca);
        }
        let output = finish(command);
        (output, fs::read(home.path().join("out.img")).ok())
    };
    let good = https(dir.path(), "good");
    let (output, got) = get(&good, true);
    output.expect(0);
    assert!(got.unwrap() == body, "an authority of SSL_CERT_FILE is trusted");
    let wrong = [
        (good, false, "UnknownIssuer"),
        (https(dir.path(), "old"), true, "Expired"),
        (https(dir.path(), "other"), true, "not valid for name"),
    ];
    for (server, trusted, words) in wrong {
        let (output, got) = get(&server, trusted);
        output.expect(1).says(&["certificate", words]).never_says(&["again"]).plain_text();
        assert!(got.is_none());
    }
    // Not from https to http, wherever that leads.
    let plain = Server::start(move |_| Reply::status(200));
    let head = format!("HTTP/1.0 302 Found\r\nLocation: {}\r\n\r\n", plain.url("/x.img"));
    put(dir.path(), "x.img", head.as_bytes());
    let (output, got) = get(&https(dir.path(), "good"), true);
    output.expect(1).says(&["without encryption"]);
    assert!(got.is_none() && plain.requests().is_empty());
}

#[test]
fn b56_a_clock_that_is_wrong_is_named_as_what_may_be_the_cause() {
    if find("openssl").is_none() || !lab_has(&["faketime"]) {
        return skip("openssl or faketime is not installed");
    }
    // Our clock is behind, ahead, and right by that of the computer that made the certificates. (A
    // program that is linked statically takes no clock from faketime.)
    for (clock, words) in [("+3000d", "not valid yet"), ("-3000d", "expired"), ("+0d", "")] {
        let dir = folder();
        certificates_by(dir.path(), &["faketime", "-f", clock, "openssl"]);
        put(dir.path(), "x.img", b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx");
        let server = https(dir.path(), "good");
        let home = folder();
        let mut download = command(home.path());
        download.env("SSL_CERT_FILE", dir.path().join("ca.pem"));
        download.args(["download", &server.url("/x.img"), "-o", "out.img", "--retry-wait", "5ms"]);
        let output = finish(download);
        if words.is_empty() {
            output.expect(0);
        } else {
            let output = output.expect(1).never_says(&["again"]);
            let output = output.says(&["check the computer's clock"]);
            assert!(output.text().to_lowercase().contains(words), "{output}");
        }
    }
}

#[test]
fn b56_proxies_of_the_environment_are_used() {
    let body = image(MIB, 57);
    let copy = Arc::clone(&body);
    // A proxy is asked for the whole address.
    let proxy = Server::start(move |request| {
        assert!(request.path.starts_with("http://images.invalid/"), "{}", request.path);
        Reply::whole(&copy)
    });
    let home = folder();
    let mut command = command(home.path());
    command.args(["download", "http://images.invalid/x.img", "-o", "out.img"]);
    command.env("http_proxy", proxy.url(""));
    finish(command).expect(0);
    is_whole(home.path(), &body);
    assert_eq!(proxy.requests().len(), 1);
}

#[test]
fn b57_an_expired_link_is_not_asked_again_and_a_new_one_goes_on() {
    let home = folder();
    let body = image(3 * MIB, 57);
    drop(partial(home.path(), &body, 1_500_000));
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| {
        if request.path.contains("t=new") {
            Reply::good(request, &copy, "\"another server\"")
        } else {
            Reply::status(403)
        }
    });
    download(home.path(), &server.url("/x.img?t=old"), &[])
        .expect(1)
        .says(&["403", "expired", "new one", "kept"])
        .never_says(&["t=old\""]);
    assert_eq!(server.requests().len(), 1, "no hammering");
    assert!(home.path().join("out.img.part").exists());
    let proof = ["--sha256", &digest_of(&body)];
    download(home.path(), &server.url("/x.img?t=new"), &proof).expect(0);
    is_whole(home.path(), &body);
    assert_eq!(server.requests()[1].range().unwrap().0, 1_500_000);
    // A page instead of the file is no image either.
    let page = Arc::new(b"<html><body>Your request was blocked</body></html>".to_vec());
    let blocked = Server::start(move |_| Reply::whole(&page));
    let home = folder();
    download(home.path(), &blocked.url("/Win11.iso?t=1"), &[]).expect(3).says(&["web page"]);
}

#[test]
fn a_mirror_takes_over_and_the_cache_is_used_again() {
    let body = image(2 * MIB, 60);
    let copy = Arc::clone(&body);
    let (first, count) = (Server::start(|_| Reply::status(404)), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::clone(&count);
    let second = Server::start(move |request| {
        asked.fetch_add(1, Ordering::SeqCst);
        Reply::good(request, &copy, TAG)
    });
    let home = folder();
    let digest = sha256sum(&put(home.path(), "x", &body));
    let run = |args: &[&str]| {
        let mut command = command(home.path());
        command.args(args);
        finish(command)
    };
    let (a, b) = (first.url("/x.img"), second.url("/x.img"));
    let args = ["download", &a, "--mirror", &b, "--sha256", &digest];
    run(&args).expect(0).says(&["it matches what was published"]);
    run(&args).expect(0).says(&["it is in the cache"]);
    run(&["flash", &b, "sim:4MiB", "--sha256", &digest]).expect(0).says(&["(cache)"]);
    assert_eq!(count.load(Ordering::SeqCst), 1, "fetched once");
    run(&["download", "--list"]).expect(0).says(&["x.img", &digest]).plain_text();
    run(&["download", "--clean"]).expect(0).says(&["2.00 MiB"]);
    run(&["download", "--list"]).expect(0).says(&["nothing is in the cache"]);
}

#[test]
fn a_stream_is_stored_while_it_is_written_when_that_is_wanted() {
    let body = image(3 * MIB, 61);
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| Reply::good(request, &copy, TAG));
    let home = folder();
    let flash = |more: &[&str]| {
        let mut command = command(home.path());
        command.args(["flash", &server.url("/x.img"), "sim:4MiB", "--keep", "kept.img"]).args(more);
        finish(command)
    };
    flash(&["--sha256", &"00".repeat(32)]).expect(4);
    assert!(!home.path().join("kept.img").exists(), "what is wrong is not kept");
    assert!(!home.path().join("kept.img.part").exists());
    flash(&[]).expect(0).says(&["stored as"]);
    assert!(fs::read(home.path().join("kept.img")).unwrap() == **body);
    flash(&[]).expect(3).says(&["kept.img exists"]);
}

#[test]
fn a_disk_without_room_is_noticed_before_the_download() {
    if !lab_has(&["mkfs.ext4", "losetup", "mount"]) {
        return;
    }
    let stick = LoopDev::new(16 * MIB);
    sh("mkfs.ext4", &["-q", &stick.device]);
    let mount = lab::Mount::new(&stick.device, &[]);
    let body = image(40 * MIB, 62);
    let server = Server::start(move |request| Reply::good(request, &body, TAG));
    let out = format!("{}/out.img", mount.path());
    let home = folder();
    let mut command = command(home.path());
    command.args(["download", &server.url("/x.img"), "-o", &out]);
    finish(command).expect(3).says(&["free", "still to come", "make room"]);
}

#[test]
fn a_download_that_is_stopped_at_once_goes_on_where_it_was() {
    let home = folder();
    let body = image(8 * MIB, 63);
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| {
        let good = Reply::good(request, &copy, TAG);
        if request.number == 0 { good.cut_after(5_000_000) } else { Reply::status(503) }
    });
    // It waits to try again when the signal comes, well before the state is saved by time.
    let mut command = command(home.path());
    let url = server.url("/x.img");
    command.args(["download", &url, "-o", "out.img", "--retry-wait", "20s"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let part = home.path().join("out.img.part");
    lab::eventually("5 MB are there", || fs::metadata(&part).is_ok_and(|m| m.len() == 5_000_000));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let mut child = child;
    assert!(!child.wait().unwrap().success());
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| Reply::good(request, &copy, TAG));
    download(home.path(), &server.url("/x.img"), &["--sha256", &digest_of(&body)]).expect(0);
    is_whole(home.path(), &body);
    assert_eq!(server.requests()[0].range().unwrap().0, 5_000_000);
}
