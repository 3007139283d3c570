//! Completions for shells, made of the tree of the command line. Bash and zsh fall back to files
//! where the tree knows nothing, so names below /dev are completed as well.

use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::{Cli, Completions, ShellWord};
use super::call::Call;
use crate::error::Result;
use crate::ui;

/// What a shell has to read.
pub fn script(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "mediawriter", &mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    match shell {
        // Behind `*::` zsh knows no options any more, behind `*:` it does (zshcompsys, _arguments).
        Shell::Zsh => text.replace("\n'*::", "\n'*:"),
        _ => text,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "all commands are called alike")]
pub(super) fn run(args: &Completions, _call: &Call) -> Result<ExitCode> {
    ui::print(&script(match args.shell {
        ShellWord::Bash => Shell::Bash,
        ShellWord::Zsh => Shell::Zsh,
        ShellWord::Fish => Shell::Fish,
    }));
    Ok(ExitCode::SUCCESS)
}
