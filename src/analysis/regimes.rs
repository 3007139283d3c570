//! Regimes: stretches in which a device kept one speed, and the cliff between the first of them
//! and the rest. Offline, over a whole series; pure.
//!
//! Least squares on the logarithm of bucket means, cut where that pays (the cost and penalty of
//! PELT: Killick, Fearnhead, Eckley 2012, JASA 107:1590). Buckets are as long as it takes for
//! rhythm and single blocks to average out; each boundary is then refined to the byte. An exact
//! search over at most 500 buckets takes a millisecond, so nothing is pruned.

use serde::Serialize;

use super::period;
use super::series::{Series, rounded, whole};
use super::stats::{Stats, mean, median};

/// More buckets than this show nothing more.
const BUCKETS: usize = 500;
/// Log2 units of noise above which buckets are made longer.
const NOISY: f64 = 0.25;
/// Noise that is assumed at least, 2.8 %: no speed is steadier than its clock.
const QUIET: f64 = 0.04;
/// Neighbours are one regime when their means differ by less.
const MERGE: f64 = 0.15;
/// The same, for steps that stand out of the noise.
const MERGE_CLEAR: f64 = 0.07;
/// How far a step stands out of it, in standard deviations.
const CLEAR: f64 = 5.0;
/// Share of all steps that happens where they are cut; less is a slope.
const SLOPE: f64 = 0.6;
/// Seconds to both sides that a running median looks at.
const MEDIAN: f64 = 7.0;
/// Longest stall, seconds: between two stretches of one speed it is no regime.
const STALL: f64 = 15.0;
/// Shortest regime of the cuts, seconds; shorter fast starts are looked for apart.
const SHORTEST: f64 = 5.0;
/// I/Os that a bucket holds at least, so that one more or less is no noise.
const PER_BUCKET: f64 = 3.0;

/// A stretch of one speed. Bytes and nanoseconds since the phase began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regime {
    /// When it began.
    pub start_nanos: u64,
    /// When it ended.
    pub end_nanos: u64,
    /// Bytes that were done when it began.
    pub start_byte: u64,
    /// Bytes that were done when it ended.
    pub end_byte: u64,
    /// Its bytes divided by its time, bytes a second.
    pub mean: u64,
    /// The slow end of its full seconds, bytes a second; its mean when it has none.
    pub p1: u64,
}

/// What the cuts gave.
#[derive(Debug)]
pub(super) struct Regimes {
    pub(super) list: Vec<Regime>,
    /// Where each but the first begins, in steps of the series.
    pub(super) cuts: Vec<usize>,
    /// Log2 of the speeds right before and right after each cut.
    pub(super) local: Vec<f64>,
    /// Standard deviation of a bucket in log2 units.
    pub(super) noise: f64,
}

/// Finds the regimes. `inflight` is how many bytes are on their way at a time, 0 = not known;
/// `period` is that of a known rhythm in seconds.
pub(super) fn find(series: &Series, inflight: u64, period: Option<f64>) -> Regimes {
    let work = Work::new(series);
    let buckets = Buckets::of(series, inflight, period);
    let each = whole(buckets.seconds / series.step()).max(1);
    let least = whole((SHORTEST / buckets.seconds).ceil()).max(buckets.logs.len() / 200).max(1);
    let found = partition(&buckets.without_stalls(), buckets.penalty(), least);
    let mut cuts: Vec<usize> = found.iter().map(|cut| cut * each).collect();
    work.merge(&mut cuts, buckets.noise);
    let reach = each * least.max(3);
    work.refine(&mut cuts, reach);
    let end = cuts.first().copied().unwrap_or(series.len());
    let long_start = period.and_then(|p| period::end_of_long_start(series, inflight, p));
    if let Some(cut) = long_start {
        cuts.retain(|&other| other > cut + reach);
        cuts.insert(0, cut);
    } else if let Some(cut) = work.fast_start(end, reach, inflight) {
        cuts.insert(0, cut);
    }
    let next = cuts.get(1).copied().unwrap_or(series.len());
    if let Some(&cut) = cuts.first()
        && cut < series.steps(SHORTEST)
        && work.speed(0, cut) < work.speed(cut, next)
    {
        // Coming up to speed is no regime.
        cuts.remove(0);
    }
    work.forget_stalls(&mut cuts);
    work.merge(&mut cuts, buckets.noise);
    let list = work.regimes(&cuts);
    let near = whole(2.0 * buckets.seconds / series.step());
    let local = (0..cuts.len()).map(|at| work.local_step(&cuts, at, near)).collect();
    Regimes { list, cuts, local, noise: buckets.noise }
}

impl Regimes {
    /// Speed of the last regime against that of the first, when the speeds right before and
    /// after the cuts differ by much less than the regimes do: then these are steps of a slope.
    pub(super) fn slope(&self) -> Option<f64> {
        let step = |pair: &[Regime]| log_ratio(pair[0].mean as f64, pair[1].mean as f64);
        let steps: Vec<f64> = self.list.windows(2).map(step).collect();
        let whole: f64 = steps.iter().map(|step| step.abs()).sum();
        let local = steps.iter().zip(&self.local).map(|(step, local)| local * step.signum());
        let (first, last) = (self.list.first()?, self.list.last()?);
        (local.sum::<f64>() < SLOPE * whole).then(|| last.mean as f64 / first.mean.max(1) as f64)
    }
}

/// Log2 of `a / b`; speeds of 0 count as 1 byte a second.
pub(super) fn log_ratio(a: f64, b: f64) -> f64 {
    (a.max(1.0) / b.max(1.0)).log2()
}

/// The series as seconds of equal weight in longer and longer buckets.
struct Buckets {
    seconds: f64,
    /// Log2 of their mean speeds.
    logs: Vec<f64>,
    noise: f64,
}

impl Buckets {
    fn of(series: &Series, inflight: u64, period: Option<f64>) -> Self {
        let seconds = series.seconds();
        let speeds: Vec<f64> = seconds.full().iter().map(|&bytes| bytes as f64).collect();
        let average = mean(&speeds).max(1.0);
        let by_blocks = whole((PER_BUCKET * inflight as f64 / average).ceil());
        let mut width = speeds.len().div_ceil(BUCKETS).max(by_blocks).max(1);
        if let Some(period) = period {
            let fits = |periods: f64, least: usize| {
                let width = whole((periods * period).round()).max(1);
                (speeds.len() / width >= least).then_some(width)
            };
            width = width.max(fits(2.0, 20).or_else(|| fits(1.0, 8)).unwrap_or(1));
        }
        loop {
            let logs: Vec<f64> = speeds
                .chunks_exact(width)
                .map(|group| mean(group).max(average / 64.0).log2())
                .collect();
            let block = inflight as f64 / (average * width as f64) / 2.0;
            let noise = spread(&logs).max(block);
            if noise <= NOISY || logs.len() < 12 {
                return Self { seconds: width as f64, logs, noise };
            }
            width *= 2;
        }
    }

    /// Running medians: short stalls vanish, steps stay where they are.
    fn without_stalls(&self) -> Vec<f64> {
        let reach = whole(MEDIAN / self.seconds).min(self.logs.len() / 8);
        let near = |at: usize| {
            median(&self.logs[at.saturating_sub(reach)..(at + reach + 1).min(self.logs.len())])
        };
        (0..self.logs.len()).map(near).collect()
    }

    fn penalty(&self) -> f64 {
        let count = self.logs.len().max(2) as f64;
        8.0 * count.ln() * self.noise.max(QUIET).powi(2)
    }
}

/// Standard deviation of the values around a level that may change now and then: from the
/// differences of neighbours, the median one and all but the largest, whichever is more. The
/// first does not see rare stalls, the second alone would take a few cliffs for noise.
fn spread(values: &[f64]) -> f64 {
    let mut differences: Vec<f64> =
        values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let robust = 1.4826 * median(&differences);
    differences.sort_unstable_by(f64::total_cmp);
    let few = (differences.len() / 100).max((differences.len() / 6).min(3));
    differences.truncate(differences.len() - few);
    let squares: Vec<f64> = differences.iter().map(|difference| difference.powi(2)).collect();
    robust.max(mean(&squares).sqrt()) / std::f64::consts::SQRT_2
}

/// Where to cut values so that squared errors plus `penalty` for each cut are least; every part
/// has at least `least` values.
fn partition(values: &[f64], penalty: f64, least: usize) -> Vec<usize> {
    let sums = Sums::of(values);
    let count = values.len();
    let mut best = vec![f64::INFINITY; count + 1];
    let mut previous = vec![0; count + 1];
    best[0] = -penalty;
    for end in least..=count {
        for start in (0..=end - least).filter(|&start| start == 0 || start >= least) {
            let cost = best[start] + sums.error(start, end) + penalty;
            if cost < best[end] {
                (best[end], previous[end]) = (cost, start);
            }
        }
    }
    let mut cuts: Vec<usize> =
        std::iter::successors(Some(previous[count]), |&cut| Some(previous[cut]))
            .take_while(|&cut| cut > 0)
            .collect();
    cuts.reverse();
    cuts
}

/// Running sums of values and their squares.
struct Sums(Vec<(f64, f64)>);

impl Sums {
    fn of(values: &[f64]) -> Self {
        // Around their mean, so that the squares keep their digits.
        let centre = mean(values);
        let step = |sum: &mut (f64, f64), value: &f64| {
            *sum = (sum.0 + value - centre, sum.1 + (value - centre).powi(2));
            Some(*sum)
        };
        let sums = values.iter().scan((0.0, 0.0), step);
        Self(std::iter::once((0.0, 0.0)).chain(sums).collect())
    }

    /// Squared error around the mean of `from..to`.
    fn error(&self, from: usize, to: usize) -> f64 {
        let (a, b) = (self.0[from], self.0[to]);
        let sum = b.0 - a.0;
        (b.1 - a.1 - sum * sum / (to - from).max(1) as f64).max(0.0)
    }
}

/// Slope of the least-squares line through equidistant values, and its squared error.
pub(super) fn line(values: &[f64]) -> (f64, f64) {
    let (centre, middle) = (mean(values), (values.len().max(1) - 1) as f64 / 2.0);
    let at = |index: usize| index as f64 - middle;
    let (mut across, mut along, mut own) = (0.0, 0.0, 0.0);
    for (index, value) in values.iter().enumerate() {
        across += at(index) * (value - centre);
        along += at(index).powi(2);
        own += (value - centre).powi(2);
    }
    if along == 0.0 {
        (0.0, own)
    } else {
        (across / along, (own - across * across / along).max(0.0))
    }
}

/// The series with what every search in it needs.
struct Work<'a> {
    series: &'a Series,
    /// Bytes before each step, and all of them.
    before: Vec<f64>,
    sums: Sums,
}

impl<'a> Work<'a> {
    fn new(series: &'a Series) -> Self {
        let values: Vec<f64> = series.values().iter().map(|&bytes| bytes as f64).collect();
        let running = values.iter().scan(0.0, |sum, value| {
            *sum += value;
            Some(*sum)
        });
        let before = std::iter::once(0.0).chain(running).collect();
        Self { series, before, sums: Sums::of(&values) }
    }

    /// Bytes a second in steps `from..to`.
    fn speed(&self, from: usize, to: usize) -> f64 {
        let nanos = self.series.border(to).saturating_sub(self.series.border(from));
        (self.before[to] - self.before[from]) / (nanos as f64 / 1e9).max(1e-9)
    }

    /// Takes out cuts between neighbours that are one regime, the least of them first.
    fn merge(&self, cuts: &mut Vec<usize>, noise: f64) {
        loop {
            let borders = [&[0], cuts.as_slice(), &[self.series.len()]].concat();
            let step = |at: usize| {
                let (a, b) = (
                    self.speed(borders[at], borders[at + 1]),
                    self.speed(borders[at + 1], borders[at + 2]),
                );
                1.0 - a.min(b) / a.max(b).max(1e-9)
            };
            let least = (0..cuts.len()).map(|at| (step(at), at)).min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((drop, at)) = least else { return };
            let clear = -(1.0 - drop).log2() >= CLEAR * noise;
            if drop >= if clear { MERGE_CLEAR } else { MERGE } {
                return;
            }
            cuts.remove(at);
        }
    }

    /// Takes out what is short and lies between two regimes of one speed: a stall.
    fn forget_stalls(&self, cuts: &mut Vec<usize>) {
        let longest = self.series.steps(STALL);
        let mut at = 0;
        while at + 1 < cuts.len() {
            let from = if at == 0 { 0 } else { cuts[at - 1] };
            let to = cuts.get(at + 2).copied().unwrap_or(self.series.len());
            let (a, b) = (self.speed(from, cuts[at]), self.speed(cuts[at + 1], to));
            if cuts[at + 1] - cuts[at] <= longest && a.min(b) > (1.0 - MERGE) * a.max(b) {
                cuts.drain(at..at + 2);
                at = at.saturating_sub(1);
            } else {
                at += 1;
            }
        }
    }

    /// Moves each cut to where two means fit best, within `reach` steps, the highest step first:
    /// the bucket that it lies in has part of both speeds, and may have been cut off as a regime.
    fn refine(&self, cuts: &mut [usize], reach: usize) {
        let end = self.series.full().len().saturating_sub(self.series.steps(SHORTEST));
        let borders = [&[0], &*cuts, &[self.series.len()]].concat();
        let speeds: Vec<f64> =
            borders.windows(2).map(|pair| self.speed(pair[0], pair[1])).collect();
        let height = |at: usize| log_ratio(speeds[at], speeds[at + 1]).abs();
        let mut order: Vec<usize> = (0..cuts.len()).collect();
        order.sort_by(|&a, &b| height(b).total_cmp(&height(a)));
        for at in order {
            let low = if at == 0 { 0 } else { cuts[at - 1] };
            let high = cuts.get(at + 1).copied().unwrap_or(end);
            let from = low.max(cuts[at].saturating_sub(reach));
            cuts[at] = self.split(from, high.min(cuts[at] + reach)).unwrap_or(cuts[at]);
        }
    }

    /// The best two-mean split of `from..to`; each part has at least two steps.
    fn split(&self, from: usize, to: usize) -> Option<usize> {
        let error = |cut| self.sums.error(from, cut) + self.sums.error(cut, to);
        (from + 2..to.saturating_sub(1)).min_by(|&a, &b| error(a).total_cmp(&error(b)))
    }

    /// A start that is faster than the rest and shorter than the cuts can see, as of a small
    /// cache: at least three steps. It must stand out of the means of as many steps by 6 standard
    /// deviations, and half-way between the two speeds none of them may lie.
    fn fast_start(&self, end: usize, reach: usize, inflight: u64) -> Option<usize> {
        let longest = reach.min(end / 11);
        let window = end.min(12 * longest.max(self.series.steps(SHORTEST)));
        let gain = |cut: usize| {
            let (fast, slow) = (self.speed(0, cut), self.speed(cut, window));
            (fast - slow).max(0.0).powi(2) * cut as f64 * (window - cut) as f64
        };
        let cut = (3..=longest).max_by(|&a, &b| gain(a).total_cmp(&gain(b)))?;
        // The first step is left out: starting takes time.
        let (fast, slow) = (self.speed(1, cut), self.speed(cut, window));
        // From behind the step that the boundary may lie in.
        let others: Vec<f64> = (cut + 1..=window.checked_sub(cut)?)
            .step_by(cut)
            .map(|from| self.speed(from, from + cut))
            .collect();
        let middle = mean(&others);
        let deviation = others.iter().map(|other| (other - middle).powi(2)).sum::<f64>();
        let deviation = (deviation / (others.len().max(2) - 1) as f64).sqrt();
        let half = f64::midpoint(fast, slow);
        let found = others.len() >= 8
            && fast >= 1.3 * slow
            && fast - slow >= 6.0 * deviation
            && others.iter().all(|&other| other < half)
            && self.before[cut] >= 8.0 * inflight as f64;
        found.then_some(cut)
    }

    /// Where exactly the speed changes at a cut: nanoseconds and bytes. Within the two steps
    /// around it, as much time belongs to the first speed as makes up their bytes.
    fn exact(&self, from: usize, cut: usize, to: usize) -> (f64, f64) {
        let (start, end) = (cut - 1, (cut + 1).min(to));
        let plain = (self.series.border(cut) as f64, self.before[cut]);
        if start <= from || end >= to {
            return plain;
        }
        let (fast, slow) = (self.speed(from, start), self.speed(end, to));
        let took = (self.series.border(end) - self.series.border(start)) as f64 / 1e9;
        let bytes = self.before[end] - self.before[start];
        let first = ((bytes - slow * took) / (fast - slow)).clamp(0.0, took);
        if !first.is_finite() {
            return plain;
        }
        (self.series.border(start) as f64 + first * 1e9, self.before[start] + first * fast)
    }

    /// Log2 of the speeds within `near` steps before and after cut `at`, or within a quarter of
    /// the shorter regime.
    fn local_step(&self, cuts: &[usize], at: usize, near: usize) -> f64 {
        let (from, cut) = (if at == 0 { 0 } else { cuts[at - 1] }, cuts[at]);
        let to = cuts.get(at + 1).copied().unwrap_or(self.series.len());
        let near = near.max((cut - from).min(to - cut) / 4);
        // The step before a cut and the one behind it may belong to both sides.
        let before = self.speed(cut.saturating_sub(near + 1).max(from), (cut - 1).max(from + 1));
        let after = self.speed((cut + 1).min(to - 1), (cut + 1 + near).min(to));
        log_ratio(before, after)
    }

    fn regimes(&self, cuts: &[usize]) -> Vec<Regime> {
        let len = self.series.len();
        let borders = [&[0], cuts, &[len]].concat();
        let mut places = vec![(0.0, 0.0)];
        places.extend(borders.windows(3).map(|near| self.exact(near[0], near[1], near[2])));
        places.push((self.series.nanos() as f64, self.before[len]));
        let pairs = places.windows(2).zip(borders.windows(2));
        pairs.map(|(place, steps)| self.regime(place[0], place[1], steps[0], steps[1])).collect()
    }

    fn regime(&self, start: (f64, f64), end: (f64, f64), from: usize, to: usize) -> Regime {
        let speed = rounded((end.1 - start.1) / ((end.0 - start.0) / 1e9).max(1e-9));
        let stats = Stats::of(&self.series.part(from, to));
        Regime {
            start_nanos: rounded(start.0),
            end_nanos: rounded(end.0),
            start_byte: rounded(start.1),
            end_byte: rounded(end.1),
            mean: speed,
            p1: if stats.seconds == 0 { speed } else { stats.p1 },
        }
    }
}
