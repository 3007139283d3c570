//! README and docs/ against the program: exit codes, rules, commands and flags, examples, fields.
//! Documentation that can be wrong is compared; the rest is prose.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mediawriter::device::facts::{Bus, Use, User};
use mediawriter::device::policy::{Lift, Refusal};
use mediawriter::error::Kind;
use mediawriter::event::notice::Notice;
use mediawriter::image::{Archive, Codec, ImageKind, VirtualDisk};
use mediawriter::units::Rate;
use serde_json::Value;
use tempfile::TempDir;

use crate::architecture::shipped;

#[path = "../../src/event/notice/samples.rs"]
mod samples;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The cells of each row of each table, without headers' underlines.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|');
        line.split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let row = |line: &&str| line.starts_with('|') && !line.starts_with("|-");
    text.lines().filter(row).map(cells).collect()
}

/// What stands between single backticks in running text and tables.
fn quoted(text: &str) -> BTreeSet<String> {
    let outside = text.split("```").step_by(2);
    outside.flat_map(|part| part.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The lines of every fenced block of this language.
fn blocks(text: &str, language: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let block = lines.by_ref().take_while(|line| !line.starts_with("```"));
            let block: Vec<_> = block.map(str::to_owned).collect();
            if kind == language {
                found.push(block);
            }
        }
    }
    found
}

/// A folder to run the program in, with a home of its own.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With `image.img`, made as docs/sim.md says.
    fn with_image() -> Self {
        let desk = Self::new();
        let made = desk.run(&["demo", "--keep", "image.img", "--quiet"]);
        assert!(made.status.success(), "{}", text(&made));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_mediawriter"))
            .args(words)
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env_remove("XDG_STATE_HOME")
            .env_remove("SUDO_UID")
            .output()
            .unwrap()
    }
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(both).unwrap()
}

#[test]
fn the_exit_codes_of_readme_are_those_of_the_program() {
    let readme = document("README.md");
    let mut expected: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for kind in Kind::ALL {
        expected.entry(kind.exit_code().to_string()).or_default().insert(format!("{kind:?}"));
    }
    let table = rows(&readme);
    let start = table.iter().position(|row| row[..2] == ["code", "kind"]).unwrap();
    let codes: Vec<_> =
        table[start + 1..].iter().take_while(|row| row[0].starts_with(char::is_numeric)).collect();
    assert_eq!(codes[0][..2], ["0", "-"]);
    assert_eq!(codes.last().unwrap()[..2], ["128+N", "Cancelled"]);
    assert_eq!(Kind::Cancelled(15).exit_code(), 128 + 15);
    let written: BTreeMap<String, BTreeSet<String>> = codes[1..codes.len() - 1]
        .iter()
        .map(|row| (row[0].clone(), row[1].split(", ").map(str::to_owned).collect()))
        .collect();
    assert_eq!(written, expected);
    for code in written.keys() {
        let help = mediawriter::cli::args::EXIT_CODES.replace('\n', " ");
        assert!(help.contains(&format!(" {code} ")), "--help does not tell of {code}");
    }
}

/// One refusal for each rule.
fn refusals() -> Vec<Refusal> {
    let used = |by| Refusal::Busy(Use { device: "/dev/sdb1".into(), by });
    let all = vec![
        Refusal::PartitionInsteadOfDisk { disk: "/dev/sdb".into() },
        Refusal::NoMedium,
        Refusal::ReadOnly { bus: Bus::Usb },
        Refusal::SystemDisk { why: "holds /".to_owned() },
        used(User::Mount { at: "/mnt".into() }),
        used(User::Swap),
        used(User::Md { name: "md0".to_owned() }),
        Refusal::SourceInUse {
            used: Use { device: "/dev/sdb1".into(), by: User::Mount { at: "/mnt".into() } },
            system: false,
        },
        Refusal::SourceInUse {
            used: Use { device: "/dev/sdb1".into(), by: User::Swap },
            system: false,
        },
        Refusal::TooSmall { needs: 2, has: 1 },
        Refusal::SourceOnTarget { source: "x".into(), how: "is it".to_owned() },
        Refusal::Optical,
        Refusal::FixedInternalDisk { bus: Bus::Ata },
        Refusal::Virtual { bus: Bus::Dm },
        Refusal::Changed { was: String::new(), is: String::new() },
    ];
    for refusal in &all {
        // A new kind of refusal does not compile here until somebody adds it above.
        match refusal {
            Refusal::PartitionInsteadOfDisk { .. }
            | Refusal::NoMedium
            | Refusal::ReadOnly { .. }
            | Refusal::SystemDisk { .. }
            | Refusal::SourceInUse { .. }
            | Refusal::Busy(_)
            | Refusal::TooSmall { .. }
            | Refusal::SourceOnTarget { .. }
            | Refusal::Optical
            | Refusal::FixedInternalDisk { .. }
            | Refusal::Virtual { .. }
            | Refusal::Changed { .. } => {}
        }
    }
    all
}

#[test]
fn every_rule_is_in_the_safety_page_with_what_lifts_it() {
    let page = document("docs/safety.md");
    let rules: BTreeMap<String, String> = rows(&page)
        .into_iter()
        .skip_while(|row| row[0] != "rule")
        .skip(1)
        .take_while(|row| row[0].starts_with('`'))
        .map(|row| (row[0].trim_matches('`').to_owned(), row[2].clone()))
        .collect();
    let expected: BTreeMap<String, String> = refusals()
        .iter()
        .map(|refusal| {
            let lift = match refusal.lifted_by() {
                None => "nothing",
                Some(Lift::Force) => "`--force`",
                Some(Lift::Unmount) => "`--unmount`",
                Some(Lift::Freeze) => "`--freeze`",
            };
            (refusal.rule().to_owned(), lift.to_owned())
        })
        .collect();
    assert_eq!(rules, expected);
    let header =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/policy.rs"))
            .unwrap();
    for rule in rules.keys() {
        assert!(header.contains(&format!("//! | `{rule}` |")), "{rule} is not in policy's header");
    }
    assert!(page.contains("| `sector-size` |"));
}

#[test]
fn the_safety_page_names_every_kind_of_file_that_is_no_image() {
    use mediawriter::image::Advice;
    let page = document("docs/safety.md");
    let words = |kind: ImageKind| match kind {
        ImageKind::Compressed(_) => "compressed data",
        ImageKind::Archive(Archive::Zip) => "zip",
        ImageKind::WindowsIso => "a Windows install ISO",
        ImageKind::Archive(_) => "archives",
        ImageKind::VirtualDisk(_) => "disks of virtual machines",
        ImageKind::HtmlPage => "web pages",
        ImageKind::Checksums => "checksum lists",
        ImageKind::Signature => "signatures",
        ImageKind::Torrent => "torrents",
        ImageKind::Bmap => "block maps",
        ImageKind::Metalink => "metalinks",
        ImageKind::Text => "text",
        ImageKind::Program => "programs",
        ImageKind::Empty => "empty files",
        ImageKind::HybridIso
        | ImageKind::DiskImage
        | ImageKind::PlainIso
        | ImageKind::Filesystem(_)
        | ImageKind::BlankZeros
        | ImageKind::Unknown => "",
    };
    for kind in [
        ImageKind::HybridIso,
        ImageKind::DiskImage,
        ImageKind::PlainIso,
        ImageKind::WindowsIso,
        ImageKind::Compressed(Codec::Xz),
        ImageKind::Archive(Archive::Zip),
        ImageKind::Archive(Archive::Tar),
        ImageKind::VirtualDisk(VirtualDisk::Qcow2),
        ImageKind::HtmlPage,
        ImageKind::Checksums,
        ImageKind::Signature,
        ImageKind::Torrent,
        ImageKind::Bmap,
        ImageKind::Metalink,
        ImageKind::Text,
        ImageKind::Program,
        ImageKind::Empty,
        ImageKind::BlankZeros,
        ImageKind::Unknown,
    ] {
        let refused = matches!(kind.advice(), Advice::Refuse | Advice::Decode | Advice::Compose);
        assert_eq!(refused, !words(kind).is_empty(), "{kind}");
        assert!(page.contains(words(kind)), "{kind}");
    }
}

/// Commands as they are typed in the examples of a page: `$ mediawriter ...`, continued lines
/// joined, pipes and sudo taken off.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for block in ["console", "sh"].iter().flat_map(|language| blocks(page, language)) {
        let joined = block.join("\n").replace("\\\n", " ");
        for line in joined.lines().filter(|line| !line.starts_with('#')) {
            let line = line.split(" # ").next().unwrap_or_default();
            for part in line.trim_start_matches("$ ").split(" | ") {
                let part = part.trim().trim_start_matches("sudo ");
                if part.starts_with("mediawriter ") {
                    found.push(part.to_owned());
                }
            }
        }
    }
    found
}

#[test]
fn commands_in_the_documents_exist_with_their_flags() {
    let desk = Desk::new();
    let mut help: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for name in ["README.md", "docs/sim.md", "docs/safety.md", "docs/record.md"] {
        let page = document(name);
        let inline = quoted(&page).into_iter().filter(|text| text.starts_with("mediawriter "));
        for command in commands(&page).into_iter().chain(inline) {
            let mut words = command.split_whitespace().skip(1);
            let subcommand = words.next().unwrap().to_owned();
            if subcommand.starts_with('-') {
                continue;
            }
            let help = help
                .entry(subcommand.clone())
                .or_insert_with(|| text(&desk.run(&[&subcommand, "--help"])));
            assert!(help.contains("Usage: mediawriter "), "{name}: {command}: {help}");
            for flag in words.filter(|word| word.starts_with('-') && *word != "-") {
                let flag = flag.split('=').next().unwrap();
                let there = help.split(|c: char| c.is_whitespace() || c == ',').any(|w| w == flag);
                assert!(there, "{name}: {command}: no {flag}");
            }
            seen.insert(subcommand);
        }
    }
    let all = [
        "bench",
        "clone",
        "completions",
        "demo",
        "devices",
        "discard",
        "download",
        "flash",
        "images",
        "probe",
        "report",
        "verify",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut checked = 0;
    for name in [
        "README.md",
        "README.ja.md",
        "docs/sim.md",
        "docs/safety.md",
        "docs/record.md",
        "docs/design.md",
        "docs/packaging.md",
    ] {
        let page = document(name);
        let folder = root.join(name).parent().unwrap().to_owned();
        for link in page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if !link.starts_with("http") {
                let path = link.split('#').next().unwrap();
                assert!(folder.join(path).exists(), "{name} links to {link}");
                checked += 1;
            }
        }
    }
    assert!(checked > 5);
}

#[test]
fn the_examples_of_the_simulated_stick_do_what_the_page_says() {
    let desk = Desk::with_image();
    let page = document("docs/sim.md");
    let mut checked = 0;
    for block in blocks(&page, "console") {
        for pair in block.windows(2) {
            let Some(told) = pair[1].strip_prefix("# exit code ") else { continue };
            let (code, says) = told.split_once(": ").unwrap();
            let command = pair[0].strip_prefix("$ mediawriter ").unwrap();
            let output = desk.run(&command.split_whitespace().collect::<Vec<_>>());
            let all = text(&output);
            assert_eq!(output.status.code().unwrap().to_string(), code, "{command}\n{all}");
            assert!(all.contains(says), "{command}\n{all}");
            checked += 1;
        }
    }
    assert!(checked > 15);
}

#[test]
fn the_page_of_the_simulated_stick_explains_and_shows_every_key_and_effect() {
    let desk = Desk::with_image();
    let page = document("docs/sim.md");
    let examples = commands(&page).join("\n");
    let ask = |spec: &str| {
        let output = desk.run(&["flash", "image.img", spec]);
        assert_eq!(output.status.code(), Some(2));
        text(&output).replace('\n', " ")
    };
    // The program lists what it knows when it meets what it does not.
    let keys = ask("sim:256MiB,colour=blue");
    let keys = keys.split("keys are ").nth(1).unwrap();
    let keys = keys.split(", ").map(|key| key.trim().split('=').next().unwrap());
    let faults = ask("sim:256MiB,fault=write#1:burn");
    let effects = faults.split("EFFECT one of ").nth(1).unwrap();
    let effects = effects.split(", ").map(|word| word.trim().split('=').next().unwrap());
    let mut count = 0;
    for (word, sign) in keys.map(|k| (k, "=")).chain(effects.map(|e| (e, ""))) {
        let row = rows(&page).into_iter().find(|row| {
            row[0].trim_matches('`').split('=').next() == Some(word) && row[0].starts_with('`')
        });
        assert!(row.is_some(), "docs/sim.md has no row for {word}");
        let used =
            [",", ":"].iter().any(|before| examples.contains(&format!("{before}{word}{sign}")));
        assert!(used, "docs/sim.md has no example with {word}");
        count += 1;
    }
    assert!(count >= 19, "{count}");
}

#[test]
fn the_japanese_readme_has_the_same_commands_blocks_links_and_codes() {
    let (english, japanese) = (document("README.md"), document("README.ja.md"));
    assert_eq!(commands(&japanese), commands(&english));
    for language in ["console", "csv"] {
        assert_eq!(blocks(&japanese, language), blocks(&english, language), "{language}");
    }
    let headings = |page: &str| page.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(headings(&japanese), headings(&english));
    let links = |page: &str| -> BTreeSet<String> {
        let links = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned());
        links.filter(|link| !link.starts_with("README")).collect()
    };
    assert_eq!(links(&japanese), links(&english));
    let codes = |page: &str| -> Vec<Vec<String>> {
        let rows = rows(page).into_iter().filter(|row| row.len() == 3);
        rows.map(|row| row[..2].to_vec()).skip(1).collect()
    };
    assert_eq!(codes(&japanese), codes(&english));
    assert!(quoted(&english).is_subset(&quoted(&japanese)), "words in backticks");
}

/// Every key in a JSON value.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_field_of_records_and_events_and_every_column_is_described() {
    let desk = Desk::with_image();
    let page = document("docs/record.md");
    let mut described: BTreeSet<String> = BTreeSet::new();
    for words in quoted(&page) {
        let separator = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        described.extend(words.split(separator).map(str::to_owned));
    }
    let target = "sim:256MiB,rate=20MB/s,fault=write@40MiB:flip,fault=write@80MiB:drop";
    let flash = ["flash", "image.img", target, "--json", "--record", "r.json", "--log", "l.csv"];
    let output = desk.run(&flash);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    let record = fs::read_to_string(desk.path("r.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let good = desk.run(&["flash", "image.img", "sim:256MiB", "--record", "g.json"]);
    assert_eq!(good.status.code(), Some(0));
    let good: Value =
        serde_json::from_str(&fs::read_to_string(desk.path("g.json")).unwrap()).unwrap();
    let mut found = BTreeSet::new();
    keys(&record, &mut found);
    keys(&good, &mut found);
    let section = page.split("## JSON lines").nth(1).unwrap().split("\n## ").next().unwrap();
    let table = rows(section);
    for line in String::from_utf8(output.stdout).unwrap().lines().skip(1) {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = format!("`{}`", event["event"].as_str().unwrap());
        let row = table.iter().find(|row| row[0].split(", ").any(|cell| cell == name));
        assert!(row.is_some(), "docs/record.md has no row for the event {name}");
        keys(&event, &mut found);
    }
    let missing: Vec<_> = found.iter().filter(|key| !described.contains(*key)).collect();
    assert!(missing.is_empty(), "docs/record.md does not describe {missing:?}");
    assert!(found.contains("chunk_map") && found.contains("head_released"));

    let log = fs::read_to_string(desk.path("l.csv")).unwrap();
    let header: Vec<_> = log.lines().next().unwrap().split(',').collect();
    let section = page.split("## The per-second log").nth(1).unwrap();
    let columns: Vec<_> =
        rows(section).iter().skip(1).map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(header, columns);
    assert!(document("README.md").contains(log.lines().next().unwrap()));
}

#[test]
fn the_table_of_notes_and_warnings_is_that_of_the_program() {
    let page = document("docs/record.md");
    let section = page.split("## Notes and warnings\n").nth(1).unwrap();
    let mut documented = Vec::new();
    for row in rows(section.split("\n## ").next().unwrap()).into_iter().skip(1) {
        let [code, kind, when, advice] = <[String; 4]>::try_from(row).unwrap();
        assert!(!when.is_empty(), "when is {code} told?");
        documented.push((code, kind, advice));
    }
    let row = |(notice, _): (Notice, _)| {
        let kind = if notice.is_warning() { "warning" } else { "note" };
        let advice = notice.advice().unwrap_or("nothing");
        (format!("`{}`", notice.code()), kind.to_owned(), advice.to_owned())
    };
    // Two notices of one code differ in their texts alone, so each code is here once.
    let expected: BTreeSet<_> = samples::samples().into_iter().map(row).collect();
    assert_eq!(documented, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn every_notice_is_told_and_none_by_a_literal_code() {
    let literal = |code: &str| {
        let code: String = code.split_whitespace().collect();
        let told = [".warn(\"", ".note(\"", "Warning{code:\"", "Note{code:\""];
        told.iter().any(|start| code.contains(start))
    };
    assert!(literal("events\n    .warn(\n  \"slept\", why);") && literal("Note { code: \"a\""));
    assert!(!literal("events.tell(Notice::SleptMeasuring); Event::Note { code, .. }"));
    let mut told = String::new();
    for source in shipped() {
        let code = source.code();
        assert!(!literal(&code), "{} tells by a literal code", source.path.display());
        told.push_str(&code);
    }
    for (notice, _) in samples::samples() {
        let name = format!("{notice:?}");
        let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap();
        // A call, or the name of a variant that is handed on.
        let used = [" ", "(", ")", ";", ","].map(|end| format!("Notice::{name}{end}"));
        assert!(used.iter().any(|used| told.contains(used)), "nobody tells {name}");
    }
}

#[test]
fn the_transcript_of_readme_is_what_the_program_prints() {
    let desk = Desk::with_image();
    let readme = document("README.md");
    let transcript = &blocks(&readme, "console")[0];
    let at = transcript.iter().position(|line| line.contains("flash image.img")).unwrap();
    let command = transcript[at].strip_prefix("$ mediawriter ").unwrap();
    let words: Vec<_> = command.split_whitespace().chain(["--log", "l.csv"]).collect();
    let output = desk.run(&words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let printed = String::from_utf8(output.stderr).unwrap();
    let told: Vec<_> = transcript[at + 1..].iter().filter(|line| *line != "...").cloned().collect();
    let printed: Vec<_> =
        printed.lines().filter(|line| !line.starts_with("record: ")).map(str::to_owned).collect();
    assert_eq!(told, printed);

    let log = fs::read_to_string(desk.path("l.csv")).unwrap();
    let rows = &blocks(&readme, "csv")[0];
    assert!(rows.len() > 2);
    for row in rows {
        assert!(log.lines().any(|line| line == row), "README has {row}\n{log}");
    }
}
