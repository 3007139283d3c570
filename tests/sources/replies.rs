//! Replies of web servers in every way that has been seen, and parts of downloads: other bytes never end
//! with exit code 0. The judge itself has the whole product in src/source/http/judge/tests.rs.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use crate::downloads::{TAG, digest_of, download, image, is_whole, partial, stream};
use crate::lab::{self, MIB, command, folder, noise, put, target_folder};
use crate::server::{Length, Reply, Server};

/// Two files of one length, whose halves must never be joined.
#[test]
fn c18_a_part_of_one_address_is_continued_from_another_only_where_a_digest_proves_it() {
    let (old, new) = (image(3 * MIB, 181), image(3 * MIB, 182));
    for tag in ["\"another\"", TAG, ""] {
        let home = folder();
        drop(partial(home.path(), &old, 1_000_000));
        let copy = Arc::clone(&new);
        let server = Server::start(move |request| {
            let mut good = Reply::good(request, &copy, TAG);
            good.fields.retain(|(name, _)| name != "ETag");
            if tag.is_empty() { good } else { good.with("ETag", tag) }
        });
        // Without a digest it begins anew, whatever the tag says: tags of two servers say nothing.
        download(home.path(), &server.url("/x.img"), &[]).expect(0);
        is_whole(home.path(), &new);
        // With one of the new file, the joined file is found out and fetched anew.
        let home = folder();
        drop(partial(home.path(), &old, 1_000_000));
        download(home.path(), &server.url("/x.img"), &["--sha256", &digest_of(&new)]).expect(0);
        is_whole(home.path(), &new);
    }
}

#[test]
fn c18_a_part_that_somebody_else_made_is_left_as_it_is() {
    let body = image(2 * MIB, 183);
    let copy = Arc::clone(&body);
    let server = Server::start(move |request| Reply::good(request, &copy, TAG));
    for (state, more) in
        [(None, &[][..]), (Some("{}"), &[]), (Some("not ours"), &["--sha256", &digest_of(&body)])]
    {
        let home = folder();
        let part = put(home.path(), "out.img.part", b"of a browser");
        if let Some(state) = state {
            put(home.path(), "out.img.part.json", state.as_bytes());
        }
        let output = download(home.path(), &server.url("/x.img"), more).expect(3);
        output.says(&["out.img.part", "left as it is"]);
        assert_eq!(fs::read(&part).unwrap(), b"of a browser", "{state:?}");
    }
    // The same for what `flash` keeps.
    let dir = target_folder();
    let stick = put(dir.path(), "stick", &noise(8 * MIB, 5));
    let keep = dir.path().join("kept.img");
    let part = put(dir.path(), "kept.img.part", b"of a browser");
    stream(&server.url("/x.img"), &stick, &["--keep", keep.to_str().unwrap()]).expect(3);
    assert_eq!(fs::read(&part).unwrap(), b"of a browser");
    assert!(fs::read(&stick).unwrap() == noise(8 * MIB, 5), "nothing was written");
}

/// Servers that answer a range in every way that has been seen, for every command that fetches.
#[test]
fn c17_no_reply_of_the_table_makes_other_bytes_with_exit_code_0() {
    type Way = fn(Reply, usize, usize) -> Reply;
    let ways: Vec<(&str, Way)> = vec![
        ("good", |good, _, _| good),
        ("200 for a part", |good, _, _| Reply { status: 200, ..good }),
        ("200 without a range", |mut good, _, _| {
            good.fields.retain(|(name, _)| name != "Content-Range");
            Reply { status: 200, ..good }
        }),
        ("206 without a range", |mut good, _, _| {
            good.fields.retain(|(name, _)| name != "Content-Range");
            good
        }),
        ("the whole as 200", |good, _, _| Reply::whole(&good.body)),
        ("the whole as 206", |good, _, _| Reply::whole(&good.body).part(0, good.body.len())),
        ("a gap", |good, from, to| good.part((from + 7).min(to - 1), to)),
        ("an overlap", |good, from, to| good.part(from.saturating_sub(7), to)),
        ("less", |good, from, to| good.part(from, from + (to - from).div_ceil(2))),
        ("another length", |good, from, to| {
            good.part(from, to).with("Content-Range", &format!("bytes {from}-{}/999999999", to - 1))
        }),
        ("no length", |good, _, _| good.length(Length::None)),
        ("chunked", |good, _, _| good.length(Length::Chunked)),
        ("cut", |good, from, to| good.cut_after((to - from) / 2)),
        ("cut without a length", |good, from, to| {
            good.cut_after((to - from) / 2).length(Length::None)
        }),
        ("cut in chunks", |good, from, to| {
            good.cut_after((to - from) / 2).length(Length::ChunkedCut)
        }),
        ("another tag", |good, _, _| good.with("ETag", "\"other\"")),
        ("a weak tag", |good, _, _| good.with("ETag", "W/\"a\"")),
        ("packed", |good, _, _| good.with("Content-Encoding", "gzip")),
        ("several parts", |good, _, _| {
            good.with("Content-Type", "multipart/byteranges; boundary=x")
        }),
        ("a page", |_, _, _| {
            Reply::whole(&Arc::new(b"<html><body>log in</body></html>".to_vec()))
                .with("Content-Type", "text/html")
        }),
        ("416", |_, _, _| Reply::status(416)),
        ("204", |_, _, _| Reply::status(204)),
        ("503", |_, _, _| Reply::status(503)),
    ];
    let body = image(34 * MIB, 17);
    let small = image(2 * MIB, 17);
    let (mut runs, mut done) = (0, 0);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        // They mostly wait for the next attempt.
        for half in ways.chunks(ways.len().div_ceil(8)) {
            let (body, small) = (&body, &small);
            threads.push(scope.spawn(move || {
                let (mut runs, mut done) = (0, 0);
                for (what, way) in half {
                    for (command, always) in [
                        ("download", true),
                        ("download", false),
                        ("resume", true),
                        ("mirror", true),
                        ("connections", true),
                        ("connections", false),
                        ("flash", true),
                        ("flash", false),
                        ("keep", true),
                    ] {
                        runs += 1;
                        done += usize::from(one_reply(what, *way, command, always, (body, small)));
                    }
                }
                (runs, done)
            }));
        }
        for thread in threads {
            let (more, ended) = thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
            (runs, done) = (runs + more, done + ended);
        }
    });
    println!("{runs} runs against a server of the table, {done} of them done");
    assert!(runs >= 200 && done >= 60, "{runs} {done}");
}

/// One run; `always`: the server answers every request so, else only the second.
fn one_reply(
    what: &str,
    way: fn(Reply, usize, usize) -> Reply,
    command: &str,
    always: bool,
    (large, small): (&Arc<Vec<u8>>, &Arc<Vec<u8>>),
) -> bool {
    let body = if command == "connections" { large } else { small };
    let label = format!("{what}, {command}, {always}");
    let copy = Arc::clone(body);
    let server = Server::start(move |request| {
        let good = Reply::good(request, &copy, TAG);
        let first = request.number == 0 && !always;
        let (from, to) = (good.from, good.to);
        if first {
            return good.cut_after((to - from) / 3);
        }
        if to > from { way(good, from, to) } else { good }
    });
    let copy = Arc::clone(body);
    let mirror = Server::start(move |request| Reply::good(request, &copy, "\"mirror\""));
    let home = target_folder();
    let (url, other) = (server.url("/x.img"), mirror.url("/x.img"));
    let out = home.path().join("out.img");
    let output = match command {
        "flash" | "keep" => {
            let stick = put(home.path(), "stick", &noise(4 * MIB, 5));
            let keep = ["--keep", out.to_str().unwrap()];
            let more: &[&str] = if command == "keep" { &keep } else { &[] };
            let output = stream(&url, &stick, more);
            if output.code == 0 {
                assert!(fs::read(&stick).unwrap()[..body.len()] == body[..], "{label}: {output}");
            }
            output
        }
        "resume" => {
            drop(partial(home.path(), body, 700_000));
            download(home.path(), &url, &[])
        }
        "mirror" => download(home.path(), &url, &["--mirror", &other]),
        "connections" => download(home.path(), &url, &["--connections", "4"]),
        _ => download(home.path(), &url, &[]),
    };
    assert!(matches!(output.code, 0 | 1 | 3 | 4 | 6), "{label}: {output}");
    if out.exists() {
        assert!(fs::read(&out).unwrap() == **body, "{label}: other bytes: {output}");
    }
    if output.code == 0 && command != "flash" {
        assert!(out.exists(), "{label}: {output}");
    }
    output.code == 0
}

/// Killed at many moments by what was sent so far, and continued by the same or another address.
#[test]
fn c18_a_download_that_is_killed_anywhere_is_continued_rightly() {
    let body = image(3 * MIB, 184);
    let moments = if std::env::var_os("MEDIAWRITER_ALL_MOMENTS").is_some() { 200 } else { 24 };
    let proof = digest_of(&body);
    let mut continued = 0;
    for moment in 0..moments {
        let home = folder();
        let at = body.len() * moment / moments;
        let copy = Arc::clone(&body);
        // Holds the connection when so much was sent: cut, and no further reply for a while.
        let server = Server::start(move |request| {
            let good = Reply::good(request, &copy, TAG);
            match request.number {
                0 => good.cut_after(at),
                1 => {
                    lab::pause(400);
                    good
                }
                _ => good,
            }
        });
        let mut command = command(home.path());
        let url = server.url("/x.img");
        command.args(["download", &url, "-o", "out.img", "--retry-wait", "1ms"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        lab::eventually("the second request", || server.requests().len() >= 2);
        child.kill().unwrap();
        child.wait().unwrap();
        let copy = Arc::clone(&body);
        let another = Server::start(move |request| Reply::good(request, &copy, "\"b\""));
        let (next, more): (&Server, &[&str]) = match moment % 3 {
            0 => (&server, &[]),
            1 => (&another, &[]),
            _ => (&another, &["--sha256", &proof]),
        };
        let before = next.requests().len();
        download(home.path(), &next.url("/x.img"), more).expect(0);
        is_whole(home.path(), &body);
        let first = next.requests()[before].range().map_or(0, |range| range.0);
        if moment % 3 == 1 {
            assert_eq!(first, 0, "nothing proves that it is the same file");
        }
        continued += usize::from(first > 0);
    }
    println!("{moments} moments, {continued} continued where they were");
    assert!(continued * 2 >= moments, "{continued} of {moments}");
}

/// What a server of a report answers to the `number`th request.
type Answer = fn(&crate::server::Request, &Arc<Vec<u8>>) -> Reply;

/// Servers that made other programs join wrong parts, end early or give up, as their users reported it, each
/// for a new file, for a part that is there, and for several connections: the file is whole with exit code 0,
/// or there is none.
#[test]
fn c17_c18_the_reports_of_other_programs() {
    let reports: &[(&str, Answer, [i32; 3])] = &[
        // The part that was asked for comes with the status of the whole.
        (
            "modelscope_hub 50",
            |request, body| {
                let good = Reply::good(request, body, TAG);
                Reply { status: 200, ..good }
            },
            [0, 0, 0],
        ),
        // A cache begins at a border of its blocks, before what was asked for.
        (
            "httrack 198",
            |request, body| {
                let good = Reply::good(request, body, TAG);
                let (from, to) = (good.from & !0x7fff, good.to);
                if good.status == 206 { good.part(from, to) } else { good }
            },
            [0, 0, 0],
        ),
        // Ranges are ignored where packed replies are accepted.
        (
            "huggingface_hub 3778",
            |request, body| {
                let packed =
                    request.fields.get("accept-encoding").is_some_and(|e| e.contains("gzip"));
                if packed { Reply::whole(body) } else { Reply::good(request, body, TAG) }
            },
            [0, 0, 0],
        ),
        // A range is forgotten as soon as If-Range has a tag.
        (
            "aria2-next 43",
            |request, body| {
                if request.fields.contains_key("if-range") {
                    Reply::whole(body).with("ETag", TAG)
                } else {
                    Reply::good(request, body, TAG)
                }
            },
            [0, 0, 0],
        ),
        // The whole under the status of a part.
        (
            "duo-updater 225, whole",
            |request, body| {
                let whole = Reply::whole(body).with("ETag", TAG);
                if request.range().is_some() { whole.part(0, body.len()) } else { whole }
            },
            [0, 0, 0],
        ),
        // Less than was asked for, and the connection ends as if all were well.
        (
            "duo-updater 225, less",
            |request, body| {
                let good = Reply::good(request, body, TAG);
                let (from, to) = (good.from, good.to);
                if good.status == 206 { good.part(from, to.min(from + (8 << 20))) } else { good }
            },
            [0, 0, 0],
        ),
        // Every node of a network names the same file otherwise.
        (
            "ranger 10",
            |request, body| {
                let tag = format!("\"node-{}\"", request.number % 2);
                Reply::good(request, body, &tag)
            },
            [0, 0, 0],
        ),
        // A range that is not looked at, as with file systems behind a gateway.
        ("rustup 4710", |_, body| Reply::whole(body), [0, 0, 0]),
        // Weak tags, and a range for whoever names one.
        ("zealphp 362", |request, body| Reply::good(request, body, "W/\"5f-3\""), [0, 0, 0]),
        // Packed on the way although nobody asked for it.
        (
            "httpie 1642",
            |request, body| Reply::good(request, body, TAG).with("Content-Encoding", "gzip"),
            [1, 1, 1],
        ),
    ];
    let body = image(34 * MIB, 19);
    let mut runs = 0;
    for (name, answer, codes) in reports {
        for (way, code) in ["new", "part", "connections"].into_iter().zip(codes) {
            let home = folder();
            if way == "part" {
                drop(partial(home.path(), &body, 700_000));
            }
            let (copy, answer) = (Arc::clone(&body), *answer);
            let server = Server::start(move |request| answer(request, &copy));
            let more: &[&str] = if way == "connections" { &["--connections", "4"] } else { &[] };
            let output = download(home.path(), &server.url("/x.img"), more);
            assert_eq!(output.code, *code, "{name}, {way}: {output}");
            if output.code == 0 {
                is_whole(home.path(), &body);
            } else {
                assert!(!home.path().join("out.img").exists(), "{name}, {way}");
            }
            runs += 1;
        }
    }
    println!("{runs} runs against servers that were reported");
    assert_eq!(runs, reports.len() * 3);
}

/// A file whose replacement is served under the old name: no date and no tag of two versions is joined, even
/// where the server does not look at `If-Range` (Dormice 86); and a file without a byte is one.
#[test]
fn c17_c18_a_file_that_was_replaced_and_one_without_a_byte() {
    let (old, new) = (image(2 * MIB, 191), image(2 * MIB, 192));
    for (field, before, after) in [
        ("ETag", "\"1\"", "\"2\""),
        ("Last-Modified", "Tue, 01 Dec 2026 00:00:00 GMT", "Tue, 01 Dec 2026 00:00:09 GMT"),
    ] {
        let home = folder();
        let (first, second) = (Arc::clone(&old), Arc::clone(&new));
        let server = Server::start(move |request| {
            let begun = Reply::whole(&first).with(field, before).with("Accept-Ranges", "bytes");
            match (request.number, request.range()) {
                (0, _) => begun.cut_after(900_000),
                (_, Some((from, _))) => {
                    Reply::whole(&second).part(from, second.len()).with(field, after)
                }
                _ => Reply::whole(&second).with(field, after),
            }
        });
        download(home.path(), &server.url("/x.img"), &[]).expect(0);
        is_whole(home.path(), &new);
    }
    let home = folder();
    let server = Server::start(|request| {
        let empty = Arc::new(Vec::new());
        if request.range().is_some() {
            return Reply::status(416).with("Content-Range", "bytes */0");
        }
        Reply::whole(&empty).with("ETag", TAG)
    });
    let output = download(home.path(), &server.url("/x.img"), &["--connections", "4"]);
    assert!(output.code != 0 || fs::metadata(home.path().join("out.img")).unwrap().len() == 0);
    println!("a file without a byte: {} {}", output.code, output.text());
}
