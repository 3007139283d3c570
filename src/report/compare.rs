//! Runs of one test beside each other: who was fastest, by how much, and whether that may be said
//! at all. Pure.

use serde::Serialize;

use super::runs::{DECISIVE, Run, by_test, differences};
use crate::analysis::compare::{Comparison, compare, outliers};

/// One test, over all devices.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// The test.
    pub test: String,
    /// One line for each device, the fastest first when they may be ranked.
    pub lines: Vec<Line>,
    /// What the runs differ in, in words.
    pub differs_in: Vec<String>,
    /// Why they are not ranked; `None` when they are.
    pub not_ranked: Option<String>,
}

/// All runs of one device in a test.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The device.
    pub device: String,
    /// How many runs.
    pub runs: usize,
    /// Median of the runs' means, bytes a second.
    pub bytes_per_s: f64,
    /// The slowest and the fastest run.
    pub range: (f64, f64),
    /// Median time, seconds.
    pub seconds: f64,
    /// Median IOPS.
    pub iops: f64,
    /// Of the run in the middle: speeds of its seconds, latencies, verdicts.
    pub typical: Run,
    /// Speed divided by that of the first line.
    pub ratio: Option<f64>,
    /// The same with its interval, where there are enough runs of both.
    pub interval: Option<Comparison>,
    /// Rounds that lie far from the others.
    pub outliers: Vec<u32>,
}

/// Groups runs by test and device. `force` ranks what is not comparable too.
pub fn groups(runs: &[Run], force: bool) -> Vec<Group> {
    by_test(runs).into_iter().map(|(test, group)| group_of(test, &group, force)).collect()
}

fn group_of(test: String, runs: &[&Run], force: bool) -> Group {
    let mut devices: Vec<(&str, Vec<&Run>)> = Vec::new();
    for run in runs {
        match devices.iter_mut().find(|(device, _)| *device == run.device) {
            Some((_, list)) => list.push(run),
            None => devices.push((&run.device, vec![run])),
        }
    }
    let differing = differences(runs);
    let decisive: Vec<&str> = differing
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| DECISIVE.contains(name) && !by_time(runs, name))
        .collect();
    let not_ranked = (!decisive.is_empty() && !force && devices.len() > 1)
        .then(|| format!("they differ in {}", decisive.join(", ")));
    let mut lines: Vec<Line> = devices.into_iter().filter_map(|(d, list)| line(d, &list)).collect();
    if not_ranked.is_none() {
        lines.sort_by(|a, b| b.bytes_per_s.total_cmp(&a.bytes_per_s));
        relate(&mut lines, runs);
    }
    let differs_in = differing
        .into_iter()
        .map(|(name, values)| format!("{name}: {}", values.join(" / ")))
        .collect();
    Group { test, lines, differs_in, not_ranked }
}

/// Tests that end by time move as many bytes as the device is fast: no difference in what was
/// done. Their names say what was done.
fn by_time(runs: &[&Run], name: &str) -> bool {
    let timed = |run: &&Run| run.test.starts_with("SEQ") || run.test.starts_with("RND");
    name == "bytes" && runs.iter().all(timed)
}

fn line(device: &str, runs: &[&Run]) -> Option<Line> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| a.rate().total_cmp(&b.rate()));
    let (first, last) = (sorted.first()?, sorted.last()?);
    let typical: Run = (*sorted.get((sorted.len() - 1) / 2)?).clone();
    let rates: Vec<f64> = runs.iter().map(|run| run.rate()).collect();
    Some(Line {
        device: device.to_owned(),
        runs: runs.len(),
        bytes_per_s: median(&rates),
        range: (first.rate(), last.rate()),
        seconds: median(&runs.iter().map(|run| run.seconds()).collect::<Vec<_>>()),
        iops: median(&runs.iter().map(|run| run.iops()).collect::<Vec<_>>()),
        typical,
        ratio: None,
        interval: None,
        outliers: outliers(&rates)
            .into_iter()
            .filter_map(|at| runs.get(at))
            .map(|r| r.round)
            .collect(),
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn relate(lines: &mut [Line], runs: &[&Run]) {
    let rates = |device: &str| -> Vec<f64> {
        runs.iter().filter(|run| run.device == device).map(|run| run.rate()).collect()
    };
    let Some((first, best)) = lines.first().map(|line| (line.device.clone(), line.bytes_per_s))
    else {
        return;
    };
    let base = rates(&first);
    for line in lines.iter_mut().skip(1) {
        line.ratio = (best > 0.0).then(|| line.bytes_per_s / best);
        line.interval = compare(&base, &rates(&line.device));
    }
}

/// How the new runs compare with the base, test by test: the share by which each is slower, 0.1
/// for 10 %. `Err` says why they cannot be compared.
pub fn slower(base: &[Run], new: &[Run], force: bool) -> Result<Vec<Slower>, String> {
    let mut found = Vec::new();
    for (test, olds) in by_test(base) {
        let news: Vec<&Run> = new.iter().filter(|run| run.test == test).collect();
        if news.is_empty() {
            continue;
        }
        let both: Vec<&Run> = olds.iter().chain(&news).copied().collect();
        let decisive = differences(&both)
            .into_iter()
            .find(|(name, _)| DECISIVE.contains(name) && !by_time(&both, name));
        if let (Some((name, values)), false) = (decisive, force) {
            return Err(format!("{test}: the runs differ in {name} ({})", values.join(" / ")));
        }
        let rates = |runs: &[&Run]| runs.iter().map(|run| run.rate()).collect::<Vec<_>>();
        let (old, now) = (rates(&olds), rates(&news));
        let (before, after) = (median(&old), median(&now));
        if before > 0.0 {
            let by = 1.0 - after / before;
            found.push(Slower { test, before, after, by, interval: compare(&old, &now) });
        }
    }
    if found.is_empty() { Err("they have no test in common".to_owned()) } else { Ok(found) }
}

/// A test of two sets of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Slower {
    /// The test.
    pub test: String,
    /// Bytes a second of the base.
    pub before: f64,
    /// Of the new runs.
    pub after: f64,
    /// By which share they are slower; negative when they are faster.
    pub by: f64,
    /// With enough runs of both: the ratio and its interval.
    pub interval: Option<Comparison>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::runs::Parts;

    fn run(device: &str, test: &str, bytes: u64, seconds: f64) -> Run {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let nanos = (seconds * 1e9) as u64;
        Run::from(Parts {
            device: device.to_owned(),
            test: test.to_owned(),
            totals: Some((bytes, nanos)),
            ..Parts::default()
        })
    }

    #[test]
    fn the_fastest_is_first_and_the_others_have_a_ratio_by_time() {
        let runs = [run("old", "w", 8 << 30, 471.0), run("new", "w", 8 << 30, 25.0)];
        let group = groups(&runs, false).remove(0);
        assert_eq!(group.lines[0].device, "new");
        // 19 times by finishing time, whatever an average of rows says.
        assert!((1.0 / group.lines[1].ratio.unwrap() - 18.84).abs() < 0.01);
        assert_eq!(group.not_ranked, None);
    }

    #[test]
    fn what_is_not_comparable_is_not_ranked_unless_forced() {
        let runs = [run("a", "w", 8 << 30, 25.0), run("b", "w", 1 << 30, 25.0)];
        let group = groups(&runs, false).remove(0);
        assert_eq!(group.not_ranked.as_deref(), Some("they differ in bytes"));
        assert_eq!((group.lines[0].device.as_str(), group.lines[1].ratio), ("a", None));
        assert_eq!(groups(&runs, true)[0].not_ranked, None);
        let timed = [run("a", "RND4K-Q1T1-Read", 8, 1.0), run("b", "RND4K-Q1T1-Read", 4, 1.0)];
        assert_eq!(groups(&timed, false)[0].not_ranked, None);
    }

    #[test]
    fn repeats_are_a_median_with_a_range_and_a_claim_needs_three_of_each() {
        let at = |device: &str, seconds: &[f64]| -> Vec<Run> {
            seconds.iter().map(|s| run(device, "w", 1 << 30, *s)).collect()
        };
        let runs = [at("a", &[10.0, 10.1, 9.9]), at("b", &[10.0, 10.05, 9.95])].concat();
        let group = groups(&runs, false).remove(0);
        assert_eq!(group.lines[0].runs, 3);
        assert!(!group.lines[1].interval.unwrap().differs());
        let two = [at("a", &[10.0, 10.1]), at("b", &[20.0, 20.1, 20.2])].concat();
        assert_eq!(groups(&two, false)[0].lines[1].interval, None);
    }

    #[test]
    fn slower_runs_are_slower_by_a_share() {
        let (base, new) = ([run("a", "w", 100, 1.0)], [run("a", "w", 100, 1.25)]);
        let found = slower(&base, &new, false).unwrap();
        assert!((found[0].by - 0.2).abs() < 1e-6);
        assert!(slower(&base, &[run("a", "r", 100, 1.0)], false).is_err());
        assert!(slower(&base, &[run("a", "w", 50, 1.0)], false).unwrap_err().contains("bytes"));
        assert!(slower(&base, &[run("a", "w", 50, 1.0)], true).is_ok());
    }
}
