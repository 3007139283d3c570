//! What a benchmark says of a phase, besides its rows: which test it is, how long single I/Os
//! took, and what an independent witness counted. Plain data; made by `bench`, kept in records.

use serde::{Deserialize, Serialize};

use super::Span;

/// Direction of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the medium.
    #[default]
    Read,
    /// Onto the medium.
    Write,
}

impl Direction {
    /// `read` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// In which order a test goes over its span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending.
    #[default]
    Sequential,
    /// Uniformly random blocks of the span, from a fixed seed.
    Random,
    /// As something recorded read or wrote it.
    Trace,
}

/// One test of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Test {
    /// As people call it: `image-write`, `SEQ1M-Q8T1-Read`, `boot-replay`.
    pub name: String,
    /// Reads or writes.
    pub direction: Direction,
    /// In which order.
    pub order: Order,
    /// Bytes per I/O; of a trace, its largest.
    pub block: u64,
    /// I/Os in flight, per thread.
    pub queue_depth: u32,
    /// Threads that submit (fio's numjobs).
    pub threads: u32,
    /// Which part of the medium.
    pub span: Span,
    /// Who keeps I/Os in flight: `io_uring`, `threads`, `simulated`.
    pub engine: String,
    /// Which repetition, counted from 1.
    pub round: u32,
}

/// How long the I/Os of a test took, from submission to completion, in nanoseconds. The loop is
/// closed: an I/O is submitted when one completed, so a stall delays I/Os that are never counted
/// as slow (coordinated omission); it shows in the rows and as the longest stall.
///
/// Percentiles come from a histogram with three significant digits (HdrHistogram); the value at
/// percentile p is the smallest at or below which p of all I/Os lie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// I/Os.
    pub count: u64,
    /// Mean.
    pub mean_nanos: u64,
    /// Fastest.
    pub min_nanos: u64,
    /// Half were at most this slow.
    pub p50_nanos: u64,
    /// 90 %.
    pub p90_nanos: u64,
    /// 95 %.
    pub p95_nanos: u64,
    /// 99 %.
    pub p99_nanos: u64,
    /// 99.9 %.
    pub p999_nanos: u64,
    /// 99.99 %.
    pub p9999_nanos: u64,
    /// Slowest.
    pub max_nanos: u64,
    /// The distribution: upper bound of a bin in nanoseconds and the I/Os in it, ascending, empty
    /// bins left out.
    pub bins: Vec<(u64, u64)>,
}

/// What else was measured in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Times of single I/Os.
    pub latency: Option<Latency>,
    /// Bytes that the kernel counted as moved on the device in this direction meanwhile
    /// (/sys/block/*/stat): more than the test's own means that somebody else used it.
    pub witness_bytes: Option<u64>,
    /// Processor time of this process, user and system. Nanoseconds.
    pub cpu_nanos: u64,
    /// How fast the data could have been made, bytes a second; writes only.
    pub generator_bytes_per_s: Option<u64>,
    /// Blocks that a read test compared with what was written there.
    pub checked_blocks: u64,
    /// How many of them differed.
    pub wrong_blocks: u64,
}
