//! The shape of the source, checked on its text: who may import whom, where unsafe code and
//! printing live, headers, lengths, character set. What a compiler or clippy can check is theirs.
//!
//! Test code (from the first `#[cfg(test)]` module of a file to its end, and files that are
//! declared so) may import anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Module of the crate, and what it may name of the crate besides itself. `device` means all of
/// it, `device::facts` that module, `device::Geometry` that item. A new module gets a row here,
/// and may only name what stands above it.
const MAY_USE: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("text", &[]),
    ("time", &[]),
    ("units", &[]),
    ("error", &["units"]),
    ("cancel", &["error"]),
    ("event", &["units"]),
    ("digest", &["event"]),
    ("proof", &["error", "event", "text"]),
    ("catalog", &["digest", "error", "event", "proof", "text"]),
    ("image", &["text"]),
    ("meter", &["event", "time", "units"]),
    ("analysis", &["event", "meter::series", "units"]),
    ("chart", &["event"]),
    // A program that is started ends with the thread that started it.
    ("host", &["cancel", "error", "sys::process", "text", "time"]),
    ("decode", &["digest", "error", "image", "text", "units"]),
    (
        "source",
        &[
            "cancel",
            "decode",
            "digest",
            "error",
            "event",
            "host::invoker",
            "image",
            "text",
            // How long one target has held up the others, on the clock on the wall.
            "time",
            "units",
        ],
    ),
    ("device", &["error", "image", "sys", "text", "time", "units"]),
    ("windows", &["digest", "error", "image", "source", "text"]),
    (
        "clone",
        &["device", "digest", "error", "event", "image", "source", "sys::buffer", "text", "units"],
    ),
    (
        "flow",
        &[
            "cancel",
            "device",
            "digest",
            "error",
            "event",
            "image",
            "meter",
            "source",
            // Memory for direct I/O; the calls themselves belong to devices.
            "sys::buffer",
            "text",
            "time",
            "units",
        ],
    ),
    (
        "bench",
        &[
            "device",
            "error",
            "event",
            "image",
            // The frame of a job: its context, threads that stop together, clearing, discarding.
            "flow",
            "meter",
            // Memory for direct I/O, and the ring that owns it while it is in flight.
            "sys::buffer",
            "sys::uring",
            "time",
            "units",
        ],
    ),
    (
        "report",
        &[
            "analysis",
            "chart",
            "device::Caches",
            "device::Geometry",
            "device::facts",
            "digest",
            "error",
            "event",
            "host::facts",
            "meter::series",
            "text",
            "units",
        ],
    ),
    (
        "ui",
        &[
            "analysis",
            "chart",
            "device::facts",
            "device::policy",
            "device::refusal",
            "error",
            "event",
            "meter::series",
            "text",
            "units",
        ],
    ),
    (
        "cli",
        &[
            "analysis",
            "bench",
            "cancel",
            "catalog",
            "clone",
            // What decoding may take, as a person says it.
            "decode::Limits",
            "device",
            "digest",
            "error",
            "event",
            "flow",
            "host",
            "image",
            "meter",
            "proof",
            "report",
            "source",
            // FITRIM is a call on a filesystem and SG_IO one that explains a device: no flow.
            "sys::ioctl",
            "sys::sgio",
            "text",
            "time",
            "ui",
            "units",
            "windows",
        ],
    ),
];

/// One source file.
pub(crate) struct Source {
    /// Below the root of the repository.
    pub(crate) path: PathBuf,
    text: String,
    /// Path of the module in the crate: `["device", "probe", "parse"]`.
    module: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, in order.
fn rust_files(folder: &str) -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no Rust files in {folder}");
    paths.into_iter().map(|path| Source::read(&path)).collect()
}

impl Source {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let path = path.strip_prefix(root()).unwrap().to_owned();
        let mut module: Vec<String> = path
            .with_extension("")
            .iter()
            .skip(1)
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        Self { path, text, module }
    }

    /// The lines that ship, without comments and strings' contents being understood: a line that
    /// starts with `//` is a comment, and what follows ` // ` is one.
    pub(crate) fn code(&self) -> String {
        let mut code = String::new();
        let mut lines = self.text.lines().peekable();
        while let Some(line) = lines.next() {
            let next_is_module = lines.peek().is_some_and(|next| {
                let next = next.trim_start().trim_start_matches("pub(crate) ");
                next.starts_with("mod ") && next.ends_with('{')
            });
            if line.trim() == "#[cfg(test)]" && next_is_module {
                break;
            }
            let line = line.split(" // ").next().unwrap_or_default();
            if !line.trim_start().starts_with("//") {
                code.push_str(line);
                code.push('\n');
            }
        }
        code
    }
}

fn everything() -> impl Iterator<Item = Source> {
    rust_files("src").into_iter().chain(rust_files("tests"))
}

/// The files of src/ that are part of the program: those not declared under `#[cfg(test)]`.
pub(crate) fn shipped() -> Vec<Source> {
    let all = rust_files("src");
    let mut tests_only: Vec<Vec<String>> = Vec::new();
    for source in &all {
        let lines: Vec<&str> = source.text.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            let name = pair[1].trim_start_matches("pub(crate) ").strip_prefix("mod ");
            if let (true, Some(name)) =
                (pair[0] == "#[cfg(test)]", name.and_then(|n| n.strip_suffix(';')))
            {
                tests_only.push([source.module.clone(), vec![name.to_owned()]].concat());
            }
        }
    }
    assert!(!tests_only.is_empty(), "there are files for tests only; are they recognised?");
    all.into_iter()
        .filter(|source| !tests_only.iter().any(|module| source.module.starts_with(module)))
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether `word` occurs in `code` as a word of its own.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
    })
}

/// Everything that code names of its own crate, as paths of at most two parts.
fn imports(source: &Source) -> BTreeSet<String> {
    named(source, 2)
}

/// Everything that code names of its own crate, as paths of at most so many parts: from `crate::...`
/// and from `super::super::...`, with the braces of a `use` written out.
fn named(source: &Source, most: usize) -> BTreeSet<String> {
    let code = source.code();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(is_word) && !code[..at].ends_with("pub(in ") {
            expand(&code[at + "crate::".len()..], &[], most, &mut found);
        }
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("::") {
            continue;
        }
        let mut rest = &code[at..];
        let mut depth = 0;
        while let Some(next) = rest.strip_prefix("super::") {
            (rest, depth) = (next, depth + 1);
        }
        let up = source.module.len().checked_sub(depth);
        let up = up.unwrap_or_else(|| panic!("{}: too many super", source.path.display()));
        let base: Vec<&str> = source.module[..up].iter().map(String::as_str).collect();
        expand(rest, &base, most, &mut found);
    }
    found
}

/// Reads `a::{b, c::d}` behind `base` and adds `base::a::b`, `base::a::c`, cut to so many parts.
fn expand(text: &str, base: &[&str], most: usize, found: &mut BTreeSet<String>) {
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if let Some(inner) = rest.strip_prefix('{').filter(|_| name.is_empty()) {
        for part in branches(inner) {
            expand(part.trim(), base, most, found);
        }
        return;
    }
    let path: Vec<&str> = base.iter().copied().chain((!name.is_empty()).then_some(name)).collect();
    match rest.strip_prefix("::") {
        Some(rest) if path.len() < most => expand(rest, &path, most, found),
        _ => {
            found.insert(path[..path.len().min(most)].join("::"));
        }
    }
}

/// The parts between the commas of one pair of braces, which is open already.
fn branches(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&text[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

fn allowed(module: &str, import: &str) -> bool {
    let rules = MAY_USE.iter().find(|(name, _)| *name == module);
    let (_, rules) = rules.unwrap_or_else(|| panic!("src/{module} has no row in MAY_USE"));
    let within = |rule: &str| {
        import == rule || import.strip_prefix(rule).is_some_and(|r| r.starts_with("::"))
    };
    import == module || within(module) || rules.iter().any(|rule| within(rule))
}

#[test]
fn modules_import_only_what_lies_below_them() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for source in shipped() {
        let Some(module) = source.module.first() else { continue };
        for import in imports(&source) {
            seen.insert((module.clone(), import.clone()));
            if !allowed(module, &import) {
                wrong.push(format!("{} imports {import}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Were the text no longer understood, everything would be allowed.
    for (module, import) in [("flow", "device::BlockDevice"), ("cli", "sys::sgio")] {
        assert!(seen.contains(&(module.to_owned(), import.to_owned())), "{module} {import}");
    }
}

/// The files of the program that a file uses within its own module, by their paths in the crate. What a
/// folder's `mod.rs` declares is no use; what it takes from its files is. That files use what the `mod.rs`
/// above them holds for all of them is no circle: it is their folder.
fn used_within(source: &Source, all: &BTreeSet<String>) -> BTreeSet<String> {
    let own = source.module.join("::");
    let mut names = named(source, 8);
    let code = source.code();
    for child in all.iter().filter_map(|name| name.strip_prefix(&format!("{own}::"))) {
        let path = format!("{child}::");
        let uses =
            |(at, _): (usize, &str)| !code[..at].ends_with(is_word) && !code[..at].ends_with("::");
        if code.match_indices(&path).any(uses) {
            names.insert(format!("{own}::{child}"));
        }
    }
    let file_of = |name: &String| {
        let parts: Vec<&str> = name.split("::").collect();
        (1..=parts.len()).rev().map(|n| parts[..n].join("::")).find(|path| all.contains(path))
    };
    let same = |file: &String| file.split("::").next() == source.module.first().map(String::as_str);
    let above = |file: &String| own == *file || own.starts_with(&format!("{file}::"));
    names.iter().filter_map(file_of).filter(|file| same(file) && !above(file)).collect()
}

/// Groups of files that use each other, directly or over others.
fn circles(sources: &[Source]) -> BTreeSet<Vec<String>> {
    let all: BTreeSet<String> = sources.iter().map(|source| source.module.join("::")).collect();
    let uses: BTreeMap<String, BTreeSet<String>> = sources
        .iter()
        .map(|source| (source.module.join("::"), used_within(source, &all)))
        .collect();
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(file) = next.pop() {
            for used in uses.get(file).into_iter().flatten() {
                if seen.insert(used.clone()) {
                    next.push(used);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|file| (file, reached(file))).collect();
    let with = |file: &String| -> Vec<String> {
        reached[file].iter().filter(|other| reached[other].contains(file)).cloned().collect()
    };
    uses.keys().map(with).filter(|group| group.len() > 1).collect()
}

/// Those that are left: this list may only become shorter.
const CIRCLES: [&[&str]; 7] = [
    &["analysis::sentences", "analysis::verdicts"],
    &["bench::run", "bench::write_same"],
    &["cli::bmap", "cli::remote", "cli::source"],
    &["cli::clone", "cli::clone_file"],
    &["cli::windows", "cli::windows_ntfs"],
    &["decode::engine", "decode::lz4"],
    &["image::fs::ext_file", "image::fs::file"],
];

#[test]
fn no_files_of_a_module_use_each_other_in_a_circle() {
    let sources: Vec<Source> =
        shipped().into_iter().filter(|source| !source.module.is_empty()).collect();
    let found: Vec<Vec<String>> = circles(&sources).into_iter().collect();
    assert_eq!(found, CIRCLES, "{found:#?}");
    // Were uses no longer seen, there would be no circles either.
    let source = |module: &[&str], text: &str| Source {
        path: PathBuf::from("x.rs"),
        text: text.to_owned(),
        module: module.iter().map(|part| (*part).to_owned()).collect(),
    };
    let small = [
        source(&["a"], "mod b;\nmod c;\nuse b::Thing;\n"),
        source(&["a", "b"], "use super::c::{Other, d};\n"),
        source(&["a", "c"], "mod inner;\nuse crate::a::{Base, x::y};\nfn f() { inner::g() }\n"),
        source(&["a", "c", "inner"], "use super::super::b::Thing;\n"),
        source(&["e"], "use crate::a::Base;\n"),
    ];
    assert_eq!(circles(&small).into_iter().collect::<Vec<_>>(), [["a::b", "a::c", "a::c::inner"]]);
}

#[test]
fn the_table_itself_has_no_circles() {
    let mut above: Vec<&str> = Vec::new();
    for (module, uses) in MAY_USE {
        for used in *uses {
            let top = used.split("::").next().unwrap();
            assert!(above.contains(&top), "{module} uses {used}, which stands below it");
        }
        above.push(module);
    }
}

#[test]
fn the_import_rule_sees_what_is_forbidden() {
    let source = |module: &[&str], text: &str| Source {
        path: PathBuf::from("x.rs"),
        text: text.to_owned(),
        module: module.iter().map(|part| (*part).to_owned()).collect(),
    };
    for (module, text, expected) in [
        (&["ui", "tty"][..], "use crate::flow::flash;\n", &["flow::flash"][..]),
        (
            &["ui", "tty"],
            "use crate::{flow, source::{file::F, pipe}};\n",
            &["flow", "source::file", "source::pipe"],
        ),
        (&["ui", "tty"], "let a = crate::device::probe::System::host();\n", &["device::probe"]),
        (&["ui", "tty"], "use super::super::device::linux;\n", &["device::linux"]),
        (&["device", "probe", "a"], "use super::super::facts::Bus;\n", &["device::facts"]),
        (&["ui"], "// use crate::flow;\n#[cfg(test)]\nmod tests {\n use crate::flow;\n}\n", &[]),
    ] {
        let found: Vec<_> = imports(&source(module, text)).into_iter().collect();
        assert_eq!(found, expected, "{text}");
    }
    assert!(!allowed("ui", "flow::flash") && !allowed("ui", "device::probe"));
    assert!(allowed("ui", "device::facts") && allowed("flow", "flow::damage"));
    assert!(!allowed("report", "device") && !allowed("flow", "sys::ioctl"));
}

#[test]
fn unsafe_code_lives_in_sys_alone() {
    for source in shipped() {
        let in_sys = source.module.first().is_some_and(|module| module == "sys");
        assert!(
            in_sys || !has_word(&source.code(), "unsafe"),
            "{} has unsafe code",
            source.path.display()
        );
        if source.code().contains("unsafe_code") && !source.path.ends_with("sys/mod.rs") {
            assert!(in_sys, "{} switches the lint off", source.path.display());
        }
    }
}

#[test]
fn nothing_below_the_screens_prints() {
    for source in shipped() {
        let code = source.code();
        for print in ["print", "println", "eprint", "eprintln", "dbg"] {
            assert!(
                !has_word(&code, &format!("{print}!")),
                "{} has {print}!",
                source.path.display()
            );
        }
        // The streams of programs that one of them runs, and the names of descriptors that the other knows.
        let may_print =
            [&["ui"][..], &["cli"], &["host", "ntfs3g"], &["host", "invoker", "outputs"]]
                .map(|module| module.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>());
        let may_print = may_print.iter().any(|module| source.module.starts_with(module));
        for stream in ["stdout", "stderr", "Stdout", "Stderr"] {
            assert!(
                may_print || !has_word(&code, stream),
                "{} has {stream}",
                source.path.display()
            );
        }
    }
}

#[test]
fn every_file_says_at_its_top_what_it_owns() {
    for source in everything() {
        let first = source.text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//! "), "{} has no header", source.path.display());
    }
}

#[test]
fn files_are_short_and_ascii_and_leave_nothing_to_do() {
    for source in everything() {
        let name = source.path.display();
        let lines = source.text.lines().count();
        // A file of tests is a list, read one entry at a time.
        let most = if source.path.starts_with("src") { 600 } else { 900 };
        assert!(lines <= most, "{name} has {lines} lines, {most} are enough: split it");
        if let Some((number, line)) =
            source.text.lines().enumerate().find(|(_, line)| !line.is_ascii())
        {
            panic!("{name}:{}: not ASCII, write it as an escape: {line}", number + 1);
        }
        for word in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")] {
            assert!(!has_word(&source.text, word), "{name} has a {word}");
        }
    }
}

#[test]
fn main_is_a_table_of_contents() {
    let main = fs::read_to_string(root().join("src/main.rs")).unwrap();
    assert!(main.lines().count() <= 40);
    let lib = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert!(lib.lines().count() <= 70);
    let other =
        |line: &&str| !line.is_empty() && !line.starts_with("//!") && !line.starts_with("pub mod ");
    assert_eq!(lib.lines().find(other), None, "lib.rs holds modules and their map, nothing else");
}
