//! What is typed about a stick that installs Windows.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::units::Bytes;

/// How a stick with the files of a Windows install ISO is made.
#[derive(Args, Clone, Debug)]
pub(crate) struct WindowsMedia {
    /// Partition table of the stick; auto: GPT
    #[arg(
        long,
        value_enum,
        value_name = "TABLE",
        default_value = "auto",
        help_heading = "Windows ISO"
    )]
    pub(crate) table: TableWord,
    /// Its filesystem [default: fat32]; ntfs is for what FAT32 cannot hold, and needs mkntfs, ntfs-3g
    /// and --uefi-ntfs
    #[arg(
        long,
        value_enum,
        value_name = "FILESYSTEM",
        requires_if("ntfs", "uefi_ntfs"),
        help_heading = "Windows ISO"
    )]
    pub(crate) filesystem: Option<FilesystemWord>,
    /// What boots an NTFS stick: the FAT image UEFI:NTFS (uefi-ntfs.img of Rufus)
    #[arg(
        long,
        value_name = "FILE",
        requires = "filesystem",
        conflicts_with = "split_size",
        help_heading = "Windows ISO"
    )]
    pub(crate) uefi_ntfs: Option<PathBuf>,
    /// Where the NTFS volume is made, as large as the ISO's files [default: $TMPDIR, or /var/tmp]
    #[arg(long, value_name = "DIR", requires = "uefi_ntfs", help_heading = "Windows ISO")]
    pub(crate) temp_dir: Option<PathBuf>,
    /// Its label, at most 11 characters, on NTFS 32 [default: the ISO's]
    #[arg(long, value_name = "TEXT", help_heading = "Windows ISO")]
    pub(crate) label: Option<String>,
    /// Split install.wim into parts of this size at most [default: 3800MiB, where it does not fit]
    #[arg(long, value_name = "SIZE", help_heading = "Windows ISO")]
    pub(crate) split_size: Option<Bytes>,
    /// Copy the files of this folder onto the stick, besides the ISO's
    #[arg(long, value_name = "DIR", help_heading = "Windows ISO")]
    pub(crate) add: Option<PathBuf>,
    /// Drivers that Setup loads: copied into $WinPEDriver$
    #[arg(long, value_name = "DIR", help_heading = "Windows ISO")]
    pub(crate) drivers: Option<PathBuf>,
    /// Answers for Setup: copied to autounattend.xml
    #[arg(long, value_name = "FILE", help_heading = "Windows ISO")]
    pub(crate) unattend: Option<PathBuf>,
    /// Have answers for Setup written: no-checks (TPM, Secure Boot, memory), account=NAME (a local
    /// one), no-online-account, no-data-collection, no-bitlocker, locale[=de-AT], zone[=Europe/Vienna]
    /// (without a value those of this computer)
    #[arg(
        long,
        value_name = "OPTIONS",
        value_delimiter = ',',
        conflicts_with = "unattend",
        help_heading = "Windows ISO"
    )]
    pub(crate) windows_options: Vec<WindowsOption>,
    /// The answers may take the place of those that are on the ISO
    #[arg(long, help_heading = "Windows ISO")]
    pub(crate) replace_unattend: bool,
}

/// One of `--windows-options`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowsOption {
    NoChecks,
    Account(String),
    NoOnlineAccount,
    NoDataCollection,
    NoBitlocker,
    /// `None`: as here.
    Locale(Option<String>),
    /// `None`: as here.
    Zone(Option<String>),
}

impl FromStr for WindowsOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, value) = match text.split_once('=') {
            Some((word, value)) => (word, Some(value.to_owned())),
            None => (text, None),
        };
        Ok(match (word, value) {
            ("no-checks", None) => Self::NoChecks,
            ("account", Some(name)) => Self::Account(name),
            ("no-online-account", None) => Self::NoOnlineAccount,
            ("no-data-collection", None) => Self::NoDataCollection,
            ("no-bitlocker", None) => Self::NoBitlocker,
            ("locale", value) => Self::Locale(value),
            ("zone", value) => Self::Zone(value),
            _ => {
                return Err(
                    "there are no-checks, account=NAME, no-online-account, no-data-collection, \
                            no-bitlocker, locale[=LOCALE] and zone[=ZONE]"
                        .to_owned(),
                );
            }
        })
    }
}

/// A filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilesystemWord {
    Fat32,
    Ntfs,
}

/// A partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableWord {
    Auto,
    Gpt,
    Mbr,
}
