//! Benchmarks: what is done to a medium to measure it. A profile becomes steps (`profile`, pure),
//! steps become I/Os (`run`, `engine`), everything measured leaves as events, like that of a
//! flash. No statistics here; those are made from the rows by whoever shows them.
//!
//! ```text
//! profile -> steps -> supply (which piece next) -> engine (io_uring | threads) -> meter -> events
//!                     data (what is written, what reads are compared with)
//! ```

use std::time::Duration;

use crate::event::Span;
use crate::event::measure::Test;

pub mod boot;
pub mod capacity;
pub mod data;
mod engine;
mod latency;
pub mod profile;
mod run;
mod supply;
pub mod trace;
mod write_same;

pub use engine::Engine;
pub use profile::Profile;
pub use run::run;
pub use supply::Until;

/// One step of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads or writes.
    Test {
        /// What; `engine` and `round` are filled in when it runs.
        test: Test,
        /// When it ends.
        until: Until,
        /// Whether reads are compared with what the run wrote there.
        check: bool,
    },
    /// Reads these pieces in this order, each once.
    Replay {
        /// What; its block is the largest piece.
        test: Test,
        /// The pieces, within the device and in whole blocks.
        list: Vec<Span>,
    },
    /// Reads a stretch and writes the same bytes back, all over the span.
    WriteSame {
        /// Its write half; the read half has the same place and block.
        test: Test,
    },
    /// Everything written so far reaches the medium.
    Flush,
    /// Nothing, for this long: to cool down, or for a cache to empty itself.
    Rest(Duration),
}

/// A benchmark; decided, not typed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Step>,
    /// From which the data and random offsets are made; another in every run.
    pub seed: u64,
    /// Whether what is on the medium is given up: its tables are cleared first, so that nothing
    /// half overwritten looks like a filesystem or boots.
    pub destroys: bool,
    /// Whether all blocks are given back first.
    pub discard: bool,
    /// Which repetition this is, from 1.
    pub round: u32,
    /// Who keeps I/Os in flight; `None`: the best there is.
    pub engine: Option<Engine>,
    /// Whether data is really made and compared. A model that keeps no data measures without.
    pub holds_data: bool,
}
