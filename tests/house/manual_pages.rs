//! The manual and the completions of shells: whether they say all that the command line has, and
//! whether `man`, bash, zsh and fish take them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::{CommandFactory as _, Parser as _};
use mediawriter::cli::args::Cli;

use crate::{lab, manual, texts};

/// Every page as text without the marks of roff.
fn pages() -> Vec<(String, String)> {
    let plain = |page: Vec<u8>| {
        let text = String::from_utf8(page).unwrap();
        text.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace("\\-", "-")
    };
    manual::pages().unwrap().into_iter().map(|(name, page)| (name, plain(page))).collect()
}

fn with_subcommands(command: &clap::Command) -> Vec<clap::Command> {
    let mut all = vec![command.clone()];
    all.extend(command.get_subcommands().flat_map(with_subcommands));
    all
}

#[test]
fn every_command_has_a_page_with_all_its_options() {
    let mut tree = Cli::command().disable_help_subcommand(true);
    tree.build();
    let pages = pages();
    let commands = with_subcommands(&tree);
    assert_eq!(pages.len(), commands.len());
    assert!(pages.len() > 10);
    for command in commands {
        let name = format!("{}.1", command.get_display_name().unwrap_or("mediawriter"));
        let (_, page) = pages.iter().find(|(file, _)| *file == name).unwrap();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"] {
            let heading = |line: &str| line.trim_start_matches(".SH ").trim_matches('"') == section;
            assert!(page.lines().any(heading), "{name} has no {section}");
        }
        for argument in command.get_arguments() {
            let word = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => argument.get_value_names().unwrap()[0].to_string(),
            };
            assert!(page.contains(&word), "{name} does not tell of {word}");
        }
        let code = page.split("EXIT STATUS").nth(1).unwrap();
        assert!(code.contains("128+N") && code.contains("\n5\n"), "{name}: {code}");
    }
}

#[test]
fn the_examples_of_the_manual_are_understood_by_the_command_line() {
    for (command, _) in texts::EXAMPLES {
        let words = command.split(" >").next().unwrap().split_whitespace();
        Cli::try_parse_from(words).unwrap();
    }
}

/// What a program has to complain of.
fn complaints(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .env("LC_ALL", "C.UTF-8")
        .env("MANROFFSEQ", "")
        .env("MANWIDTH", "80")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if program == "mandoc" { format!("{shown}{errors}") } else { errors.into_owned() }
}

#[test]
fn man_groff_and_mandoc_find_nothing_wrong_with_the_pages() {
    // mandoc's warnings are of the date, which is left out, and of blank lines that clap_mangen asks
    // for twice; only its errors count.
    let dir = tempfile::tempdir().unwrap();
    for (name, page) in manual::pages().unwrap() {
        let path = dir.path().join(name);
        fs::write(&path, page).unwrap();
        let path = path.to_str().unwrap();
        for (program, args) in [
            ("man", &["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"][..]),
            ("groff", &["-man", "-ww", "-Tutf8", "-z"]),
            ("mandoc", &["-T", "lint", "-W", "error"]),
        ] {
            if lab::find(program).is_none() {
                lab::skip(&format!("{program} is not installed (tests/lab/packages.txt)"));
                continue;
            }
            assert_eq!(complaints(program, &[args, &[path]].concat()), "", "{program} {path}");
        }
    }
}

/// Types into an interactive shell; whether everything was shown that a step waits for.
fn types(shell: &[&str], folder: &Path, steps: &[&str]) {
    if lab::find(shell[0]).is_none() {
        lab::skip(&format!("{} is not installed (tests/lab/packages.txt)", shell[0]));
        return;
    }
    let mut command = Command::new("python3");
    lab::clean(&mut command, folder);
    command.env("TERM", "xterm-256color").env("PS1", "% ").arg(lab::lab("terminal.py"));
    command.args(steps).arg("--").args(shell);
    let output = lab::finish(command).expect(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["steps_done"], steps.len(), "{shell:?} {steps:?}\n{result}");
}

fn completions(shell: &str, file: &Path) {
    let output = lab::run(&["completions", shell]).expect(0);
    fs::write(file, output.stdout).unwrap();
}

#[test]
fn shells_complete_commands_options_values_and_files() {
    let dir = lab::folder();
    fs::write(dir.path().join("image.img"), "").unwrap();
    fs::create_dir(dir.path().join("functions")).unwrap();
    for (shell, file) in
        [("bash", "mediawriter.bash"), ("zsh", "functions/_mediawriter"), ("fish", "m.fish")]
    {
        completions(shell, &dir.path().join(file));
    }
    let common = [
        "keys:mediawriter fl\\t",
        "wait:ash",
        "keys:--no-ver\\t",
        "wait:ify",
        "keys: ima\\t",
        "wait:ge.img",
        "keys: /dev/nul\\t",
        "wait:l",
        "keys: --sparse a\\t",
        "wait:uto",
        "keys:\\x03",
        "sleep:200",
        "type:exit",
    ];
    let bash = ["type:source ./mediawriter.bash; complete -p mediawriter", "wait:-F _mediawriter"];
    types(&["bash", "--norc", "-i"], dir.path(), &[&bash[..], &common].concat());
    let zsh = [
        "type:fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy",
        "wait:ready",
    ];
    types(&["zsh", "-f", "-i"], dir.path(), &[&zsh[..], &common].concat());
    // Fish draws its line anew at every key, with colours in it; so it is asked, as its own tests do.
    if lab::find("fish").is_none() {
        lab::skip("fish is not installed (tests/lab/packages.txt)");
        return;
    }
    for (typed, expected) in [
        ("mediawriter fl", "flash"),
        ("mediawriter flash --no-ver", "--no-verify"),
        ("mediawriter flash ima", "image.img"),
        ("mediawriter flash image.img /dev/nul", "/dev/null"),
        ("mediawriter flash --sparse a", "auto"),
        ("mediawriter bench --profile ", "marathon"),
    ] {
        let mut fish = Command::new(lab::find("fish").unwrap());
        lab::clean(&mut fish, dir.path());
        fish.args(["-N", "-c", &format!("source m.fish; complete -C '{typed}'")]);
        let output = lab::finish(fish).expect(0);
        let found = output.stdout.lines().any(|line| line.split('\t').next() == Some(expected));
        assert!(found, "{typed}: {output}");
    }
}
