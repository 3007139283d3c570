//! What is typed about screens and the desktop.

use clap::{Args, ValueEnum};

use crate::ui::color::Choice;

/// What a person sees of a job, beyond its lines.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Screen {
    /// Draw the speed of every second below the progress line; on a terminal
    #[arg(long, help_heading = "Output")]
    pub(crate) chart: bool,
    /// Tell the desktop when the job has ended
    #[arg(long, help_heading = "Output")]
    pub(crate) notify: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWord {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also in files and pipes
    Always,
    /// Nowhere
    Never,
}

impl From<ColorWord> for Choice {
    fn from(word: ColorWord) -> Self {
        match word {
            ColorWord::Auto => Self::Auto,
            ColorWord::Always => Self::Always,
            ColorWord::Never => Self::Never,
        }
    }
}
