//! One error type: what failed, where, why, what to try; and its kind, which owns the exit code.
//!
//! The text of an error is for a person at a terminal. Names of devices and files are escaped
//! when the error is made, so that nothing a device or a server says can reach the terminal raw.

use std::fmt;
use std::io;

/// The small, stable classification of failures. [`Kind::exit_code`] is the one table of exit
/// codes; README repeats it and a test compares the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A read, write or system call failed, or the device went away.
    Io,
    /// A bug: something that the code says cannot happen.
    Internal,
    /// The command line makes no sense; nothing was opened.
    Usage,
    /// Policy said no, the person said no, or the target changed between check and open.
    Refused,
    /// The source is not what its published digest promises.
    SourceMismatch,
    /// What the medium returns is not what was written.
    MediaMismatch,
    /// Written, but a check that was asked for could not be made.
    Unverified,
    /// A comparison found what it was told to look for: the new runs are slower.
    Regression,
    /// A signal ended the run; the number is re-raised after the medium was made unbootable.
    Cancelled(i32),
}

impl Kind {
    /// Every kind with a fixed exit code, for documentation and its test.
    pub const ALL: [Self; 8] = [
        Self::Io,
        Self::Internal,
        Self::Usage,
        Self::Refused,
        Self::SourceMismatch,
        Self::MediaMismatch,
        Self::Unverified,
        Self::Regression,
    ];

    /// What several failures have in common; a signal before everything; else "could not complete".
    /// `None` where nothing failed.
    pub fn of_all(kinds: impl Iterator<Item = Self> + Clone) -> Option<Self> {
        let signal = kinds.clone().find(|kind| matches!(kind, Self::Cancelled(_)));
        let mut kinds = kinds;
        let first = kinds.next()?;
        let common = if kinds.all(|kind| kind == first) { first } else { Self::Io };
        Some(signal.unwrap_or(common))
    }

    /// The process' exit code. Success is 0; a signal N ends as the shell shows it, 128 + N.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Io | Self::Internal => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::SourceMismatch => 4,
            Self::MediaMismatch => 5,
            Self::Unverified => 6,
            Self::Regression => 7,
            Self::Cancelled(signal) => u8::try_from(128 + signal).unwrap_or(1),
        }
    }
}

/// What failed, where, why, and what to try.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    what: String,
    place: Option<Place>,
    hint: Option<String>,
    source: Option<io::Error>,
}

/// Where on a device or in a file something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte offset from the start.
    pub offset: u64,
    /// Length of the transfer in bytes.
    pub len: u64,
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind`; `what` is a sentence without a full stop.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), place: None, hint: None, source: None }
    }

    /// Policy or person said no.
    pub fn refused(what: impl Into<String>) -> Self {
        Self::new(Kind::Refused, what)
    }

    /// The command line makes no sense.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what)
    }

    /// A system call failed; the cause is printed behind `what`.
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self { source: Some(source), ..Self::new(Kind::Io, what) }
    }

    /// What a reader returned: the error that it wrapped, which says all, or a system's error.
    pub fn from_read(error: io::Error, name: &str) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => own,
            Err(other) => Self::io(format!("reading the image {name} failed"), other),
        }
    }

    /// The same error for another one who waits for what failed. A system's error becomes its text.
    #[must_use]
    pub fn again(&self) -> Self {
        let Self { kind, what, place, hint, source } = self;
        let source = source.as_ref().map(|e| match e.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(e.kind(), e.to_string()),
        });
        let (what, place, hint) = (what.clone(), place.clone(), hint.clone());
        Self { kind: *kind, what, place, hint, source }
    }

    /// Says at which offset, over which length.
    #[must_use]
    pub fn at(mut self, offset: u64, len: u64) -> Self {
        self.place = Some(Place { offset, len });
        self
    }

    /// Says what to try; a sentence without a full stop.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it happened, when it happened at an offset.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What to try.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// What failed, where and why, without the hint.
    pub fn message(&self) -> String {
        let mut text = self.what.clone();
        if let Some(Place { offset, len }) = &self.place {
            use fmt::Write as _;
            let (mib, len) = (*offset as f64 / crate::units::MIB as f64, *len);
            // A String takes every write.
            write!(text, " at offset {offset} ({mib:.1} MiB), length {len}").ok();
        }
        if let Some(source) = &self.source {
            text.push_str(": ");
            text.push_str(&source.to_string());
        }
        text
    }

    /// The system's error number, when there is one.
    pub fn errno(&self) -> Option<i32> {
        self.source.as_ref().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  try: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

/// Puts what was being done in front of a system error.
pub trait Context<T> {
    /// `what` is a sentence without a full stop, e.g. `cannot open /dev/sdb`.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::io(what(), e))
    }
}

impl<T> Context<T> for nix::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| Error::io(what(), e.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_what_all_failures_have_in_common() {
        for (kinds, code) in [
            (vec![], None),
            (vec![Kind::MediaMismatch, Kind::MediaMismatch], Some(5)),
            (vec![Kind::MediaMismatch, Kind::Io], Some(1)),
            (vec![Kind::Io, Kind::MediaMismatch], Some(1)),
            (vec![Kind::Refused, Kind::MediaMismatch], Some(1)),
            (vec![Kind::MediaMismatch, Kind::Cancelled(2), Kind::Io], Some(130)),
            (vec![Kind::Refused], Some(3)),
        ] {
            let of_all = Kind::of_all(kinds.iter().copied());
            assert_eq!(of_all.map(Kind::exit_code), code, "{kinds:?}");
        }
    }

    #[test]
    fn an_error_says_what_where_why_and_what_to_try() {
        let error = Error::io("writing to /dev/sdb failed", io::Error::from_raw_os_error(28))
            .at(16 << 20, 4 << 20)
            .hint("use a larger stick");
        assert_eq!(
            error.to_string(),
            "writing to /dev/sdb failed at offset 16777216 (16.0 MiB), length 4194304: \
             No space left on device (os error 28)\n  try: use a larger stick"
        );
        assert_eq!(error.errno(), Some(28));
    }

    #[test]
    fn the_same_error_again_says_the_same() {
        for cause in [io::Error::from_raw_os_error(28), io::Error::other("the decoder's own")] {
            let error = Error::io("reading failed", cause).at(512, 4096).hint("look");
            let again = error.again();
            assert_eq!(again.to_string(), error.to_string());
            assert_eq!((again.kind(), again.errno()), (error.kind(), error.errno()));
        }
    }

    #[test]
    fn signals_map_to_the_codes_shells_show() {
        assert_eq!(Kind::Cancelled(2).exit_code(), 130);
        assert_eq!(Kind::Cancelled(15).exit_code(), 143);
    }
}
