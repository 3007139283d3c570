//! Runs as other tools read them: logs and JSON with the names and columns of bench-fio, so that
//! fio-plot draws them. Pure: names and texts come out.
//!
//! A log has a line for every second, those in which nothing completed included: fio-plot's own
//! rescaling, which is wrong, is then never entered.

use std::fmt::Write as _;

use serde_json::json;

use super::runs::Run;
use crate::event::measure::{Direction, Latency, Order};

/// The files for one run: name and text.
pub fn fio(run: &Run) -> Vec<(String, String)> {
    let mode = match (run.order, run.direction) {
        (Order::Random, Direction::Read) => "randread",
        (Order::Random, Direction::Write) => "randwrite",
        (Order::Sequential | Order::Trace, direction) => direction.name(),
    };
    let depth = run.queue_depth.max(1);
    let stem = format!("{mode}-iodepth-{depth}-numjobs-1");
    let ddir = u8::from(run.direction == Direction::Write);
    let mut log = String::new();
    let (mut end, mut offset) = (0, 0);
    for (bytes, nanos) in seconds(run) {
        end += nanos;
        let kib = u128::from(bytes) * 1_000_000_000 / 1024 / u128::from(nanos.max(1));
        // A String takes every write.
        writeln!(log, "{}, {kib}, {ddir}, {}, {offset}", end / 1_000_000, run.block).ok();
        offset += bytes;
    }
    vec![(format!("{stem}_bw.1.log"), log), (format!("{stem}.json"), document(run, mode, depth))]
}

/// Bytes and length of every second. Each line of a log counts as much as any other in fio-plot's
/// mean, so an end shorter than half a second is part of the second before it.
fn seconds(run: &Run) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = run.rows.iter().map(|row| (row.bytes, row.nanos)).collect();
    if let [.., before, (bytes, nanos)] = &mut all[..]
        && *nanos < 500_000_000
    {
        *before = (before.0 + *bytes, before.1 + *nanos);
        all.pop();
    }
    all
}

fn document(run: &Run, mode: &str, depth: u32) -> String {
    let totals = &run.totals;
    let rate = run.rate();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a speed")]
    let bw_bytes = rate as u64;
    let empty = json!({"io_bytes": 0, "bw": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "iops_stddev": 0.0});
    let mut percentiles = serde_json::Map::new();
    let latency = run.latency.clone().unwrap_or_default();
    for (name, value) in [
        ("50.000000", latency.p50_nanos),
        ("90.000000", latency.p90_nanos),
        ("95.000000", latency.p95_nanos),
        ("99.000000", latency.p99_nanos),
        ("99.900000", latency.p999_nanos),
        ("99.990000", latency.p9999_nanos),
    ] {
        percentiles.insert(name.to_owned(), value.into());
    }
    let clat = json!({
        "min": latency.min_nanos, "max": latency.max_nanos, "mean": latency.mean_nanos,
        "stddev": deviation_of_bins(&latency), "N": latency.count, "percentile": percentiles,
    });
    let per_second: Vec<f64> = run
        .rows
        .iter()
        .filter(|row| row.nanos >= 1_000_000_000)
        .map(|row| f64::from(row.ios))
        .collect();
    let full = json!({
        "io_bytes": totals.bytes, "io_kbytes": totals.bytes / 1024, "bw": bw_bytes / 1024,
        "bw_bytes": bw_bytes, "iops": run.iops(), "runtime": totals.nanos / 1_000_000,
        "total_ios": totals.ios, "clat_ns": clat, "lat_ns": clat,
        "iops_stddev": deviation(&per_second),
    });
    let (read, write) = match run.direction {
        Direction::Read => (full, empty),
        Direction::Write => (empty, full),
    };
    let options = json!({
        "rw": mode, "bs": run.block.to_string(), "iodepth": depth.to_string(), "numjobs": "1",
        "direct": "1", "filename": run.device,
    });
    // User and system time together: that is what a record has.
    let cpu = run.cpu_nanos.map(|cpu| cpu as f64 * 100.0 / totals.nanos.max(1) as f64);
    let [ns, us, ms] = buckets(&latency);
    let job = json!({
        "jobname": run.test, "job options": options, "read": read, "write": write,
        "usr_cpu": cpu.unwrap_or(0.0), "sys_cpu": 0.0,
        "latency_ns": ns, "latency_us": us, "latency_ms": ms,
    });
    let own = json!({
        "device": run.device, "test": run.test, "conditions": run.conditions,
        "findings": run.analysis.findings,
    });
    let file = json!({
        "fio version": "fio-3.33", "global options": options, "jobs": [job],
        "mediawriter": {"schema": "mediawriter-fio/1", "run": own},
    });
    format!("{file:#}\n")
}

/// Standard deviation (n - 1); 0 with fewer than two values.
fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let sum: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() < 2 { 0.0 } else { (sum / (values.len() - 1) as f64).sqrt() }
}

/// The same of a distribution, each I/O at the upper bound of its bin.
fn deviation_of_bins(latency: &Latency) -> f64 {
    let total: u64 = latency.bins.iter().map(|bin| bin.1).sum();
    let mean = latency.mean_nanos as f64;
    let far = |bin: &(u64, u64)| (bin.0 as f64 - mean).powi(2) * bin.1 as f64;
    (latency.bins.iter().map(far).sum::<f64>() / total.max(1) as f64).sqrt()
}

/// fio's coarse distribution: percent of the I/Os below each bound, in nanoseconds, microseconds
/// and milliseconds ("latency_ns" and its like in its HOWTO).
fn buckets(latency: &Latency) -> [serde_json::Value; 3] {
    const BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
    let total = latency.bins.iter().map(|bin| bin.1).sum::<u64>().max(1) as f64;
    let mut before = 0;
    [1, 1_000, 1_000_000].map(|unit: u64| {
        let mut shares = serde_json::Map::new();
        let mut add = |name: String, up_to: u64| {
            let inside = latency.bins.iter().filter(|bin| bin.0 > before && bin.0 <= up_to);
            let share = inside.map(|bin| bin.1).sum::<u64>() as f64 * 100.0 / total;
            shares.insert(name, share.into());
            before = up_to;
        };
        for bound in BOUNDS {
            add(bound.to_string(), bound * unit);
        }
        if unit == 1_000_000 {
            add("2000".to_owned(), 2_000 * unit);
            add(">=2000".to_owned(), u64::MAX);
        }
        shares.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Phase, Sample};
    use crate::report::runs::Parts;

    fn run() -> Run {
        let row = |second, nanos, bytes| Sample {
            phase: Phase::TestWrite,
            second,
            nanos,
            bytes,
            ios: 1,
            slowest_nanos: 0,
            tenths: [0; 10],
        };
        Run::from(Parts {
            device: "stick".to_owned(),
            test: "image-write".to_owned(),
            direction: Direction::Write,
            block: 1 << 20,
            queue_depth: 2,
            rows: vec![
                row(0, 1_000_000_000, 4 << 20),
                row(1, 1_000_000_000, 0),
                row(2, 500_000_000, 1 << 20),
            ],
            ..Parts::default()
        })
    }

    #[test]
    fn a_log_has_every_second_and_comes_back_as_it_was() {
        let files = fio(&run());
        assert_eq!(files[0].0, "write-iodepth-2-numjobs-1_bw.1.log");
        assert_eq!(
            files[0].1,
            "1000, 4096, 1, 1048576, 0\n2000, 0, 1, 1048576, 4194304\n2500, 2048, 1, 1048576, 4194304\n"
        );
        let (back, remarks) = crate::report::import::read(files[0].1.as_bytes(), "x").unwrap();
        assert_eq!(back[0].totals.bytes, run().totals.bytes);
        assert_eq!((back[0].rows.len(), remarks.len()), (3, 0));
        let (back, _) = crate::report::import::read(files[1].1.as_bytes(), "x").unwrap();
        assert_eq!((back[0].totals.bytes, back[0].queue_depth), (5 << 20, 2));
    }
}
