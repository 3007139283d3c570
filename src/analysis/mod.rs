//! Verdicts over the speeds of one phase: regimes and cliffs, rhythms, ceilings of the link,
//! steady state, each a sentence with its figures and how sure it is. docs/measuring.md has the
//! rules in words.
//!
//! Pure functions over a [`Series`]: no clock, no device, no printing; the same series gives the
//! same findings. Nothing here knows of records or runs.

use serde::Serialize;

use crate::event::measure::Direction;

mod alternate;
pub mod compare;
pub mod link;
#[cfg(test)]
mod models;
mod period;
mod regimes;
mod sentences;
mod series;
mod stats;
mod steady;
#[cfg(test)]
mod tests;
mod verdicts;

pub use alternate::Alternation;
pub use link::{Ceiling, Link};
pub use period::Period;
pub use regimes::Regime;
pub use series::Series;
pub use stats::Stats;
pub use steady::Steady;
pub use verdicts::judge;

/// What is judged, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes, step by step.
    pub series: &'a Series,
    /// Only writes fill caches.
    pub direction: Direction,
    /// Bytes per I/O, the smallest that was used; 0 = not known.
    pub block: u64,
    /// I/Os in flight.
    pub queue_depth: u32,
    /// The way to the device, where it is known.
    pub link: Option<Link>,
    /// Bytes of the device, where they are known.
    pub device_size: Option<u64>,
}

impl Input<'_> {
    /// Bytes that are on their way at a time; 0 = not known.
    fn inflight(&self) -> u64 {
        self.block.saturating_mul(self.queue_depth.into())
    }
}

/// Everything that a series says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Analysis {
    /// Figures over the whole.
    pub stats: Stats,
    /// The stretches of one speed, in order; one when the speed did not change.
    pub regimes: Vec<Regime>,
    /// Where the fast start ended.
    pub cliff: Option<Cliff>,
    /// Two speeds that take turns.
    pub alternation: Option<Alternation>,
    /// Last against first speed of a device that changed it gradually; the regimes are steps of
    /// that slope.
    pub slope: Option<f64>,
    /// Stalls in a rhythm; after the cliff, when there is one.
    pub period: Option<Period>,
    /// The link set the pace of the first regime.
    pub ceiling: Option<Ceiling>,
    /// When the speed settled; absent when the run is too short for any verdict.
    pub steady: Option<Steady>,
    /// The verdicts, most important first.
    pub findings: Vec<Finding>,
}

/// A device that was fast until it had taken so many bytes. Speeds in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cliff {
    /// Bytes since the phase began.
    pub at_bytes: u64,
    /// Nanoseconds since the phase began.
    pub at_nanos: u64,
    /// Speed of the regime before it.
    pub before: u64,
    /// Speed of everything after it.
    pub after: u64,
    /// How sure it is.
    pub confidence: Confidence,
}

/// How far a verdict can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It looks like it; another cause would look the same.
    Suspected,
    /// It stands out of the noise.
    Likely,
    /// It cannot be otherwise, or stands out by far.
    Certain,
}

impl Confidence {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

/// One verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable word for scripts.
    pub code: &'static str,
    /// With its figures.
    pub sentence: String,
    /// How sure it is.
    pub confidence: Confidence,
}
