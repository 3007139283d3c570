//! One call of the program: the words of the command line, who may stop it, and where results go.

use std::ffi::OsString;
use std::io;

use super::args::Output;
use crate::cancel::CancelToken;
use crate::error::Error;
use crate::event::{Ending, Event, Observer as _, Span};
use crate::report::without_secrets;
use crate::time::wall_clock;
use crate::ui::JsonLines;

/// What every command has in common.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) words: Vec<OsString>,
    pub(super) cancel: CancelToken,
    pub(super) output: Output,
}

impl Call {
    /// The same with files of its own.
    pub(super) fn with(&self, output: Output) -> Self {
        Self { output, ..self.clone() }
    }

    /// The words as text, without what is nobody's business.
    pub(super) fn text(&self) -> Vec<String> {
        self.words.iter().map(|word| without_secrets(&word.to_string_lossy())).collect()
    }

    /// Tells of a failure before a run began: in JSON too, when that was asked for.
    pub(super) fn never_began(&self, error: &Error) {
        if self.output.json {
            let stdout = Box::new(io::stdout());
            let mut lines = JsonLines::new(stdout, &self.text(), &wall_clock(), None);
            lines.on(&Event::Finished(failed(error)));
        }
    }
}

/// How a run that failed ends, for whoever watches.
pub(super) fn failed(error: &Error) -> Ending {
    Ending {
        exit_code: error.kind().exit_code(),
        message: error.message(),
        hint: error.advice().map(str::to_owned),
        place: error.place().map(|place| Span { offset: place.offset, len: place.len }),
    }
}
