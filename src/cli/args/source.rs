//! What is typed about a source: what is known of it, and how it is fetched.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use crate::digest::{Digest, Sha256};
use crate::source::http::transfer::Patience;
use crate::units::{Bytes, parse_duration};

/// What is known of the source.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Origin {
    /// Published SHA-256 (or SHA-512) of SOURCE, as downloaded; a mismatch leaves the stick
    /// unbootable
    #[arg(long, value_name = "HEX", help_heading = "Source")]
    pub(crate) sha256: Option<Digest>,
    /// SHA-256 of the image in a compressed SOURCE
    #[arg(long, value_name = "HEX", help_heading = "Source")]
    pub(crate) image_sha256: Option<Sha256>,
    /// Block map of the image: only what it maps is written and verified; `none`: not even the one
    /// that lies beside SOURCE [default: SOURCE.bmap]
    #[arg(long, value_name = "FILE|URL|none", value_hint = ValueHint::FilePath, help_heading = "Source")]
    pub(crate) bmap: Option<String>,
    /// The file in a zip archive that is the image, where it holds several
    #[arg(long, value_name = "NAME", help_heading = "Source")]
    pub(crate) member: Option<String>,
    /// Memory that a compressed SOURCE may ask for [default: 128MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Source")]
    pub(crate) decode_memory: Option<Bytes>,
    /// The publisher's list of checksums [default: what lies beside SOURCE: SHA256SUMS, ...]
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath, help_heading = "Source")]
    pub(crate) checksums: Option<String>,
    /// The OpenPGP signature over that list [default: what lies beside the list]
    #[arg(long, value_name = "FILE|URL", value_hint = ValueHint::FilePath, requires = "checksums", help_heading = "Source")]
    pub(crate) signature: Option<String>,
    /// OpenPGP keys that may have signed, besides those in the program; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub(crate) keyring: Vec<PathBuf>,
    /// Without a good signature do not begin
    #[arg(long, help_heading = "Source")]
    pub(crate) require_signature: bool,
}

/// How a source is fetched.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Network {
    /// Another address of the same file, for when the first fails; may be given several times
    #[arg(long = "mirror", value_name = "URL", help_heading = "Source")]
    pub(crate) mirrors: Vec<String>,
    /// A catalogue of images over the one in the program and your own; may be given several times
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub(crate) catalogue: Vec<PathBuf>,
    /// Wait so long before the first new attempt after a failure; then twice as long, and so on
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "500ms", help_heading = "Source")]
    pub(crate) retry_wait: Duration,
}

impl Network {
    /// How failures are met.
    pub(crate) fn patience(&self) -> Patience {
        Patience { first_wait: self.retry_wait, ..Patience::default() }
    }
}

/// What becomes of a source that is streamed.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Keep {
    /// With an address as SOURCE: store the file as FILE while it is written to the stick
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub(crate) keep: Option<PathBuf>,
}
