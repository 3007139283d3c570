//! Man pages: options and commands from the tree of the command line, the rest from `texts`.

use std::io::{self, Write as _};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use mediawriter::cli::args::{Cli, EXIT_CODES};

use super::texts::{ENVIRONMENT, EXAMPLES, FILES, SIGNALS};

/// File names and contents of all pages.
pub(crate) fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    // It is a page of the manual itself; clap's `help` says nothing that man does not.
    let mut tree = Cli::command().disable_help_subcommand(true);
    tree.build();
    let mut pages = Vec::new();
    collect(&tree, &tree, &mut pages)?;
    Ok(pages)
}

fn collect(
    root: &Command,
    command: &Command,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> io::Result<()> {
    pages.push(page(root, command)?);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(root, inner, pages)?;
    }
    Ok(())
}

fn page(root: &Command, command: &Command) -> io::Result<(String, Vec<u8>)> {
    let version = root.get_version().unwrap_or_default();
    let man = Man::new(command.clone());
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    // Title, section, date, source, manual. No date: the page is the same however often it is made.
    let title = name.to_uppercase();
    writeln!(text, ".TH {title} 1 \"\" \"mediawriter {version}\" \"User Commands\"")?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    exit_status(&mut roff);
    if name == root.get_name() {
        list(&mut roff, "SIGNALS", SIGNALS);
        list(&mut roff, "ENVIRONMENT", ENVIRONMENT);
        list(&mut roff, "FILES", FILES);
    }
    let typed = name.replace('-', " ");
    examples(&mut roff, |line| name == root.get_name() || line.starts_with(&typed));
    see_also(&mut roff, root, &name);
    roff.to_writer(&mut text)?;
    Ok((man.get_filename(), text))
}

/// From the sentence below `--help`: `0 done; 1 could not complete; ...`.
fn exit_status(roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    let text = EXIT_CODES.replace('\n', " ");
    let codes = text.trim_start_matches("Exit codes: ").trim_end_matches('.');
    for entry in codes.split(';') {
        let (code, meaning) = entry.trim().split_once(' ').unwrap_or((entry, ""));
        item(roff, code, meaning);
    }
}

fn list(roff: &mut Roff, title: &str, items: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (term, text) in items {
        item(roff, term, text);
    }
}

fn item(roff: &mut Roff, term: &str, text: &str) {
    roff.control("TP", []).text([bold(term)]).text([roman(text)]);
}

fn examples(roff: &mut Roff, wanted: impl Fn(&str) -> bool) {
    roff.control("SH", ["EXAMPLES"]);
    let chosen = EXAMPLES.iter().filter(|(command, _)| wanted(command));
    for (index, (command, meaning)) in chosen.enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*meaning)]);
        roff.control("PP", []).control("RS", ["4"]).control("EX", []);
        roff.text([roman(*command)]);
        roff.control("EE", []).control("RE", []);
    }
}

fn see_also(roff: &mut Roff, root: &Command, own: &str) {
    roff.control("SH", ["SEE ALSO"]);
    let commands = root.get_subcommands().filter_map(Command::get_display_name);
    let pages: Vec<&str> =
        std::iter::once(root.get_name()).chain(commands).filter(|name| *name != own).collect();
    let mut words = Vec::new();
    for name in pages {
        words.extend([italic(name), roman("(1), ")]);
    }
    words.push(roman("lsblk(8), dd(1)"));
    roff.text(words);
}
