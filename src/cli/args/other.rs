//! What is typed for the commands beside the main ones.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Output;
use super::source::{Network, Origin};

#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Which shell: `mediawriter completions bash >~/.local/share/bash-completion/completions/mediawriter`
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: ShellWord,
}

/// Shells whose completions are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellWord {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Debug)]
pub(crate) struct Download {
    /// Address of the image, or its name in the catalogue (`mediawriter images`)
    #[arg(value_name = "SOURCE", required_unless_present_any = ["list", "clean"])]
    pub(crate) source: Option<String>,
    /// Write to FILE, not into the cache; FILE.part and FILE.part.json until it is whole
    #[arg(long = "output", short = 'o', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) origin: Origin,
    #[command(flatten)]
    pub(crate) network: Network,
    /// Connections at once, where the server sends parts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) connections: u64,
    /// List what is in the cache
    #[arg(long, conflicts_with_all = ["source", "clean"])]
    pub(crate) list: bool,
    /// Remove everything from the cache
    #[arg(long, conflicts_with = "source")]
    pub(crate) clean: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Devices {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also empty slots, ram, loop, zram, dm and md devices
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Images {
    /// Only images whose id, title or architecture has this in it
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// A catalogue over the one in the program and your own; may be repeated
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) catalogue: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) show: Option<ImagesShow>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImagesShow {
    /// Where one image is from, and what proves it
    Show {
        /// As `images` lists it
        #[arg(value_name = "ID")]
        id: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Keep the stick as FILE (it boots in an emulator)
    #[arg(long, value_name = "FILE", conflicts_with = "championship")]
    pub(crate) keep: Option<PathBuf>,
    /// Measure models of seven sticks in five events, in simulated time, and compare them on a page
    #[arg(long)]
    pub(crate) championship: bool,
    /// Where the championship's records and page go; the folder is made
    #[arg(
        long,
        value_name = "DIR",
        default_value = "mediawriter-championship",
        requires = "championship"
    )]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) output: Output,
}
