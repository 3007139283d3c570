//! Completions for shells, made of the tree of the command line. Bash and zsh fall back to files
//! where the tree knows nothing, so names below /dev are completed as well.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::args::{Cli, ShellWord};
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

pub(super) fn run(shell: ShellWord) {
    ui::print(&script(match shell {
        ShellWord::Bash => Shell::Bash,
        ShellWord::Zsh => Shell::Zsh,
        ShellWord::Fish => Shell::Fish,
    }));
}
