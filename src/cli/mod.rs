//! The command line: from what was typed to a job, its observers and its exit code. Nothing below
//! `cli` knows that there is a command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, ValueEnum as _};

use crate::device::freeze;
use crate::error::{Error, Kind, Result};
use crate::host::signals;
use crate::ui;

pub mod args;
mod bench;
mod bmap;
mod call;
mod championship;
mod claim;
mod clone;
mod clone_file;
pub mod completions;
mod demo;
mod devices;
mod discard;
mod download;
mod flash;
mod images;
mod labels;
mod medium;
mod named;
mod open;
mod origin;
mod outputs;
mod probe;
mod remote;
mod report;
mod rootless;
mod session;
mod source;
mod trim;
mod verify;
mod windows;
mod windows_ntfs;

use args::{Cli, ColorWord, Command};
use call::Call;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let coloured = colour(&words);
    let help = match coloured {
        ColorWord::Auto => clap::ColorChoice::Auto,
        ColorWord::Always => clap::ColorChoice::Always,
        ColorWord::Never => clap::ColorChoice::Never,
    };
    let parsed = Cli::command().color(help).try_get_matches_from(&words);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; a closed pipe is nobody's.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    ui::color::choose(cli.color.into());
    // In a panic too.
    let _title = ui::title::Restored;
    signals::before_the_end(last_words);
    let done = signals::install().and_then(|cancel| {
        let call = Call { words, cancel, output: cli.command.output() };
        // A run that has begun ends with a code of its own.
        command(&cli.command, &call).inspect_err(|error| call.never_began(error))
    });
    match done {
        Ok(code) => code,
        Err(error) => {
            ui::print_error(&error);
            exit(error.kind())
        }
    }
}

/// What is put back even when the process is ended at once.
fn last_words() {
    freeze::thaw_all();
    ui::title::restore();
}

/// What `--color` says, before the command line is understood: help and usage errors are coloured
/// as well.
fn colour(words: &[OsString]) -> ColorWord {
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let joined = texts.iter().find_map(|word| word.strip_prefix("--color="));
    let apart = || texts.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let word = joined.or_else(apart).and_then(|word| ColorWord::from_str(word, false).ok());
    word.unwrap_or_default()
}

/// A failure's exit code; a signal's own death, so that a calling shell sees it.
fn exit(kind: Kind) -> ExitCode {
    match kind {
        Kind::Cancelled(signal) => {
            ui::title::restore();
            signals::reraise(signal)
        }
        _ => ExitCode::from(kind.exit_code()),
    }
}

fn command(typed: &Command, call: &Call) -> Result<ExitCode> {
    match typed {
        Command::Flash(args) => flash::run(args, call),
        Command::Clone(args) => clone::run(args, call),
        Command::Verify(args) => verify::run(args, call),
        Command::Discard(args) => discard::run(args, call),
        Command::Bench(args) => bench::run(args, call),
        Command::Probe(args) => probe::run(args, call),
        Command::Report(args) => report::run(args, call),
        Command::Download(args) => download::run(args, call),
        Command::Devices(args) => devices::run(args, call),
        Command::Images(args) => images::run(args, call),
        Command::Demo(args) => demo::run(args, call),
        Command::Completions(args) => completions::run(args, call),
    }
}

/// A command line that clap cannot judge alone.
fn usage(what: impl Into<String>) -> Error {
    Error::usage(what)
}
