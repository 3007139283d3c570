//! `cargo run --example docs -- DIR`: what a package has beside the program, made of the tree of
//! its command line: DIR/man has a man page for each command, DIR/completions a file for each
//! shell. An example, so that the program does not carry what only packagers need.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap_complete::Shell;
use mediawriter::cli::completions::script;

mod manual;
mod texts;

fn main() -> io::Result<()> {
    let to = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/docs"), PathBuf::from);
    let (man, completions) = (to.join("man"), to.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    for (name, page) in manual::pages()? {
        fs::write(man.join(name), page)?;
    }
    // The names under which each shell looks for them.
    for (shell, name) in [
        (Shell::Bash, "mediawriter"),
        (Shell::Zsh, "_mediawriter"),
        (Shell::Fish, "mediawriter.fish"),
    ] {
        fs::write(completions.join(name), script(shell))?;
    }
    Ok(())
}
