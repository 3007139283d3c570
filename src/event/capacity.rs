//! What a probe found of a medium's real capacity. Plain data; made by `bench::capacity`, kept in
//! records.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// What becomes of what is written behind the real capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behind {
    /// Offsets start over: it overwrites what was written before.
    Wraps,
    /// It is acknowledged and lost.
    Lost,
    /// Writes or reads fail there.
    Fails,
}

/// A medium's capacity, as far as a probe can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Capacity {
    /// Everything that was written came back.
    AsClaimed {
        /// Bytes that the device claims.
        claimed: u64,
        /// Bytes that were written and compared.
        compared: u64,
        /// Whether that is every byte.
        full: bool,
        /// Write caches of up to so many bytes cannot have hidden anything.
        cache: u64,
    },
    /// It ends earlier than it claims.
    Less {
        /// Bytes that the device claims.
        claimed: u64,
        /// Bytes that exist, as they seem.
        real: u64,
        /// By how much `real` may be wrong, in bytes.
        within: u64,
        /// What is behind them.
        behind: Behind,
    },
    /// Some of what was written did not come back, and it is not the end that is missing.
    Damaged {
        /// Bytes that the device claims.
        claimed: u64,
        /// Where the first of it is.
        first: u64,
        /// Bytes of what was compared that are wrong or cannot be read or written.
        wrong: u64,
        /// Bytes that were compared.
        compared: u64,
    },
}

impl Capacity {
    /// Whether it may be used.
    pub fn is_as_claimed(&self) -> bool {
        matches!(self, Self::AsClaimed { .. })
    }

    /// What to think and to do, when there is something wrong.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::AsClaimed { .. } => None,
            Self::Less { behind: Behind::Wraps | Behind::Lost, .. } => Some(
                "a counterfeit: return it; whatever lies behind its real capacity is lost without an error",
            ),
            Self::Less { behind: Behind::Fails, .. } => Some(
                "a counterfeit, or a worn-out, overheated or badly powered medium: try it once more on another port, and return it when the same comes out",
            ),
            Self::Damaged { .. } => Some(
                "a worn medium, a bad cable or port, or too little power: try another port, and do not trust it when the same comes out",
            ),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsClaimed { claimed, full: true, .. } => {
                write!(f, "all of its {} exist: every byte came back", Bytes(*claimed))
            }
            Self::AsClaimed { claimed, compared, cache, .. } => write!(
                f,
                "no sign that less than the claimed {} exists: {} in samples up to its very end came back \
                 (a write cache of up to {} was gone around)",
                Bytes(*claimed),
                Bytes(*compared),
                Bytes(*cache),
            ),
            Self::Less { claimed, real, within, behind } => {
                let about = if *within > 0 { "about " } else { "" };
                let behind = match behind {
                    Behind::Wraps => "what is written behind it overwrites its beginning",
                    Behind::Lost => "what is written behind it is acknowledged and lost",
                    Behind::Fails => "behind it nothing can be written or read",
                };
                write!(
                    f,
                    "it claims {}, real capacity {about}{}: {behind}",
                    Bytes(*claimed),
                    Bytes(*real),
                )
            }
            Self::Damaged { first, wrong, compared, .. } => write!(
                f,
                "{} of {} that were written did not come back, the first at offset {first}; \
                 it is not the end that is missing",
                Bytes(*wrong),
                Bytes(*compared),
            ),
        }
    }
}
