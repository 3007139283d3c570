//! `report` from the command line: what it reads, what it writes, what it refuses; case B103.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::{self, Output, disk_image, flash, folder, lab_has, put, run, skip};
use serde_json::Value;

/// A record of a benchmark on a simulated stick.
fn record(dir: &Path, name: &str, spec: &str, more: &[&str]) -> String {
    let path = dir.join(name).display().to_string();
    let args = ["bench", spec, "--profile", "image", "--destructive", "--quiet", "--record", &path];
    run(&[&args[..], more].concat()).expect(0);
    path
}

fn report(args: &[&str]) -> Output {
    run(&[&["report"], args].concat())
}

#[test]
fn two_sticks_are_compared_in_every_format_with_one_truth() {
    let dir = folder();
    let fast = record(dir.path(), "a.json", "sim:exceria-g2", &["--note", "price=5980"]);
    let cliff =
        record(dir.path(), "b.json", "sim:esd-emc", &["--like-fio", "--note", "price=3160"]);
    // Other blocks are another test.
    report(&[&fast, &cliff]).expect(0).says(&["not ranked: they differ in block, in flight"]);
    let cliff = record(dir.path(), "c.json", "sim:esd-emc", &["--note", "price=3160"]);
    let text = report(&[&fast, &cliff]).expect(0);
    let text = text.says(&["its cache was full at", "4.70 GB", "image-write"]);
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = report(&[&fast, &cliff, "--format", "json"]).expect(0);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    let line = &value["groups"][0]["lines"][1];
    let at = line["typical"]["analysis"]["cliff"]["at_bytes"].as_f64().unwrap();
    assert!((at / 4.7e9 - 1.0).abs() < 0.02, "{at}");
    let rate = line["bytes_per_s"].as_f64().unwrap();
    let csv = report(&[&fast, &cliff, "--format", "csv"]).expect(0).stdout;
    assert!(csv.contains(&format!(",{rate:.0},")) && csv.contains("\"3160\""), "{csv}");
    let markdown = report(&[&fast, &cliff, "--format", "markdown"]).expect(0).stdout;
    assert!(markdown.contains(&format!("| {:.1} |", rate / 1e6)), "{markdown}");
}

#[test]
fn the_record_of_a_flash_and_its_log_are_benchmarks_too() {
    let dir = folder();
    let image = put(dir.path(), "image", &disk_image(32 << 20, 3));
    let (record, log) = (dir.path().join("r.json"), dir.path().join("l.csv"));
    let (record, log) = (record.to_str().unwrap(), log.to_str().unwrap());
    flash(&image, "sim:64MiB,rate=10MB/s", &["--record", record, "--log", log]).expect(0);
    report(&[record]).expect(0).says(&["write", "verify", "10.0"]);
    report(&[log]).expect(0).says(&["write", "verify", "10.0"]);
    let chart = report(&[record, "--chart", "--ascii"]).expect(0);
    assert!(chart.stdout.contains("####") && chart.stdout.is_ascii(), "{chart}");
}

#[test]
fn b103_bad_input_is_named_and_left_out_and_good_input_is_shown() {
    let dir = folder();
    let good = record(dir.path(), "good.json", "sim:64MiB,data=no,rate=10MB/s", &[]);
    for (name, bytes, why) in [
        ("empty.log", &b""[..], "it is empty"),
        ("foreign.json", b"{\"a\":1}", "names no schema"),
        ("cut.json", b"{\"schema\":\"mediawriter-record/1\",\"pha", "EOF"),
        ("noise", &[0, 159, 146, 150], "not a text"),
        ("words", b"hello\n", "neither a record"),
    ] {
        let bad = put(dir.path(), name, bytes);
        report(&[&good, &bad])
            .expect(0)
            .says(&[name, why, "image-write"])
            .never_says(&["panicked"]);
        report(&[&good, &bad, "--strict"]).expect(1).says(&[name, why]);
        report(&[&bad]).expect(1).says(&["there is no measurement to show"]);
    }
    // A log that ends in the middle of a line still has what stands before it.
    let log = put(dir.path(), "cut_bw.1.log", b"1000, 100, 1, 4096, 0\n2000, 100, 1, 4096, 0\n300");
    report(&[&log]).expect(0).says(&["its last line is cut off", "write"]);
    // Two files of one stick are two runs of it.
    let twice = report(&[&good, &good]).expect(0);
    twice.says(&["2 runs"]);
}

#[test]
fn a_slower_run_fails_a_script_with_code_7() {
    let dir = folder();
    let base = record(dir.path(), "base.json", "sim:64MiB,data=no,rate=100MB/s", &[]);
    let new = record(dir.path(), "new.json", "sim:64MiB,data=no,rate=85MB/s", &[]);
    report(&["--fail-slower", "20", &base, &new]).expect(0).says(&["15.0 % slower"]);
    report(&["--fail-slower", "10", &base, &new]).expect(7).says(&["slower by 15.0 %", "10 %"]);
    report(&["--fail-slower", "10", &new, &base]).expect(0).says(&["faster"]);
    report(&["--fail-slower", "10", &base]).expect(2).says(&["BASE and NEW"]);
    let other = record(dir.path(), "o.json", "sim:32MiB,data=no,rate=100MB/s", &[]);
    report(&["--fail-slower", "10", &base, &other]).expect(3).says(&["not comparable", "bytes"]);
    report(&["--fail-slower", "10", &base, &other, "--force"]).expect(0);
}

#[test]
fn what_is_written_for_fio_plot_comes_back_with_the_same_bytes() {
    let dir = folder();
    let spec = "sim:4GiB,data=no,write_rate=31MB/s,stalled=44%,noise=40%,read_rate=90MB/s";
    let stick = record(dir.path(), "a.json", spec, &["--like-fio"]);
    let out = dir.path().join("fio").display().to_string();
    report(&[&stick, "--export-fio", &out]).expect(0);
    let own = Path::new(&out).join("simulated-stick-image-write");
    let log = fs::read_to_string(own.join("write-iodepth-1-numjobs-1_bw.1.log")).unwrap();
    let rows: Vec<Vec<u64>> = log
        .lines()
        .map(|line| line.split(',').map(|cell| cell.trim().parse().unwrap()).collect())
        .collect();
    // Every second is there, those of nothing too: fio-plot then draws the true mean.
    assert!((1u64..).zip(&rows[..rows.len() - 1]).all(|(second, row)| row[0] == second * 1_000));
    assert!(rows.iter().any(|row| row[1] == 0));
    let bytes: u64 = rows[..rows.len() - 1].iter().map(|row| row[1] * 1024).sum();
    assert!(bytes > 4000 << 20 && bytes <= 4 << 30, "{bytes}");
    let log = own.join("write-iodepth-1-numjobs-1_bw.1.log").display().to_string();
    report(&[&log]).expect(0).never_says(&["left out"]);
}

/// Speeds that change and seconds of nothing: fio-plot's picture of our log has our mean.
#[test]
fn fio_plot_draws_the_exported_log_with_our_mean() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fio-plot/bin/python");
    if !python.exists() {
        skip("fio-plot is not installed in target/fio-plot (tests/run does that)");
        return;
    }
    let dir = folder();
    let path = record(dir.path(), "r.json", "sim:ts32gjf790", &["--like-fio", "--size", "2GiB"]);
    let out = dir.path().join("fio");
    let args = [&path, "--test", "image-write", "--export-fio", out.to_str().unwrap()];
    report(&args).expect(0);
    let json = report(&[&path, "--test", "image-write", "--format", "json"]).expect(0).stdout;
    let value: Value = serde_json::from_str(&json).unwrap();
    let ours = value["groups"][0]["lines"][0]["bytes_per_s"].as_f64().unwrap() / f64::from(1 << 20);
    let logs = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let image = dir.path().join("plot.png");
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/fio-plot-mean");
    let words = [tool.to_str().unwrap(), logs.to_str().unwrap(), "write", "1"];
    let mut tool = Command::new(&python);
    let drawn = tool.args(words).arg(&image).env("MPLCONFIGDIR", dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&drawn.stdout).into_owned();
    let errors = String::from_utf8_lossy(&drawn.stderr);
    assert!(drawn.status.success() && image.exists(), "{said}{errors}");
    let line = said.lines().last().unwrap();
    let (mean, unit) = line.split_once(' ').unwrap();
    assert!(unit.contains("MB/s"), "{line}");
    let theirs: f64 = mean.parse().unwrap();
    assert!((theirs / ours - 1.0).abs() < 0.01, "fio-plot {theirs}, ours {ours}");
}

#[test]
fn the_championship_shows_the_cliffs_and_the_time_of_the_old_stick() {
    let dir = folder();
    let out = dir.path().join("champ").display().to_string();
    let output = run(&["demo", "--championship", "--to", &out]).expect(0);
    let output = output.says(&[
        "4.70 GB",
        "68.3 GB",
        "stalls every 19.",
        "link-limited",
        "17.4",
        "1 h 51 min",
    ]);
    assert!(output.took.as_secs() < 60);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 15 + 3);
}

#[test]
fn a_run_that_begins_elsewhere_is_drawn_over_its_place_and_charts_are_files() {
    let dir = folder();
    let path = dir.path().join("r.json");
    let (path, to) = (path.to_str().unwrap(), dir.path().join("chart"));
    let target = ["bench", "sim:4GiB,data=no,rate=90MB/s", "--offset", "1GiB", "--record", path];
    run(&target).expect(0);
    let (page, to) = (dir.path().join("page.html"), to.to_str().unwrap());
    report(&[path, "--html", page.to_str().unwrap(), "--svg", to]).expect(0);
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains(">GB from the start of the medium</text>"), "{text}");
    let svg = fs::read_to_string(dir.path().join("chart-3.svg")).unwrap();
    assert!(svg.contains("speed over position") && svg.contains("<style>"), "{svg}");
}

/// Their pixels are looked at in src/report/chart/png/drawn.rs.
#[cfg(feature = "png")]
#[test]
fn charts_become_png_files_or_the_missing_font_is_said() {
    let dir = folder();
    let path = record(dir.path(), "r.json", "sim:esd-emc", &[]);
    let to = dir.path().join("chart.png").display().to_string();
    let drawn = report(&[&path, "--png", &to]);
    if drawn.code != 0 {
        drawn.expect(1).says(&["there is no font on this machine", "--svg, which needs none"]);
        skip("no font is installed (tests/lab/packages.txt)");
        return;
    }
    let bytes = fs::read(dir.path().join("chart-1.png")).unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    // IHDR: twice the width and height of the SVG.
    assert_eq!((&bytes[16..20], &bytes[20..24]), (&[0, 0, 7, 8][..], &[0, 0, 2, 248][..]));
}

#[cfg(not(feature = "png"))]
#[test]
fn a_program_without_png_says_so_and_what_to_do() {
    let dir = folder();
    let path = record(dir.path(), "r.json", "sim:esd-emc", &[]);
    let to = dir.path().join("chart.png").display().to_string();
    report(&[&path, "--png", &to]).expect(3).says(&[
        "was built without PNG",
        "take --svg instead",
        "--features png",
    ]);
    assert!(!dir.path().join("chart-1.png").exists());
}

/// The page in a browser: as wide as the window, without an error, its numbers those of the JSON.
#[test]
fn the_page_fits_every_window_and_says_what_the_json_says() {
    if !lab_has(&["chromium"]) {
        return;
    }
    let dir = lab::target_folder();
    let paths =
        [("a.json", "sim:exceria-g2"), ("b.json", "sim:esd-emc"), ("c.json", "sim:nus-ma32g")]
            .map(|(name, spec)| record(dir.path(), name, spec, &[]));
    let page = dir.path().join("page.html");
    let [a, b, c] = &paths;
    report(&[a, b, c, "--html", page.to_str().unwrap()]).expect(0);
    let text = fs::read_to_string(&page).unwrap();
    // What the browser measures ends up in the title.
    let probe = "<script>addEventListener('error',e=>document.title='ERROR '+e.message);addEventListener('load',()=>{\
        const e=document.documentElement;document.title='fits '+(e.scrollWidth<=innerWidth)+' charts '+\
        document.querySelectorAll('svg[role=img]').length+' dark '+getComputedStyle(document.body).backgroundColor;\
        parent.postMessage(innerWidth+' '+document.title,'*')})</script>";
    let probed = dir.path().join("probed.html");
    fs::write(&probed, text.replacen("</head>", &format!("{probe}</head>"), 1)).unwrap();
    for (width, scheme) in [(500, "0"), (800, "1"), (1400, "0"), (1400, "1")] {
        let Some(dom) = browse(dir.path(), &probed, width, scheme) else { return };
        let title = dom.split("<title>").nth(1).unwrap().split('<').next().unwrap().to_owned();
        assert!(title.starts_with("fits true charts "), "{width} {scheme}: {title}");
        let background = if scheme == "0" { "rgb(22, 24, 26)" } else { "rgb(255, 255, 255)" };
        assert!(title.ends_with(background), "{width} {scheme}: {title}");
        let data = dom.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
        let value: Value = serde_json::from_str(data).unwrap();
        for line in value["groups"][0]["lines"].as_array().unwrap() {
            let rate = line["bytes_per_s"].as_f64().unwrap() / 1e6;
            assert!(dom.contains(&format!("<td>{rate:.1}</td>")), "{rate}");
        }
        for label in ["MB/s", "seconds", "GB done"] {
            assert!(dom.contains(&format!(">{label}</text>")), "{label}");
        }
    }
    // A telephone: a frame, because the narrowest window of a headless Chromium is 500 pixels.
    let frame = dir.path().join("frame.html");
    let html = "<title>nothing</title><script>onmessage=e=>document.title=e.data</script>\
        <iframe src=probed.html style='border:0;width:360px;height:800px'></iframe>";
    fs::write(&frame, html).unwrap();
    for scheme in ["0", "1"] {
        let Some(dom) = browse(dir.path(), &frame, 500, scheme) else { return };
        assert!(dom.contains("<title>360 fits true charts "), "{dom}");
    }
}

/// The page's document after loading.
fn browse(dir: &Path, page: &Path, width: u32, scheme: &str) -> Option<String> {
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    chromium.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    chromium.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    chromium.arg(format!("--user-data-dir={}", dir.join("browser").display()));
    chromium.arg(format!("--window-size={width},900"));
    let output =
        chromium.arg("--dump-dom").arg(format!("file://{}", page.display())).output().unwrap();
    if output.stdout.is_empty() {
        skip(&format!("chromium shows nothing: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    Some(String::from_utf8(output.stdout).unwrap())
}
