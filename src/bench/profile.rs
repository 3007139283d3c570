//! Profiles: what a benchmark is called, and the steps that it stands for. Pure.
//!
//! Names and sizes of the CrystalDiskMark tests are those that people post: `SEQ1M-Q8T1` is
//! sequential, 1 MiB, 8 in flight, 1 thread (crystalmark.info; its "NVMe SSD" preset is
//! [`Profile::Cdm`], its default preset [`Profile::CdmDefault`]).

use std::time::Duration;

use super::{Step, Until};
use crate::device::{Caches, Geometry};
use crate::error::{Error, Result};
use crate::event::Span;
use crate::event::measure::{Direction, Order, Test};
use crate::units::{Bytes, GIB, MIB};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A sequential write as long as an image, then the read.
    Image,
    /// A sequential write over the whole device.
    Marathon,
    /// The four tests of CrystalDiskMark's NVMe preset, read and write.
    Cdm,
    /// The four tests of its default preset.
    CdmDefault,
    /// How a live system reads its stick.
    Boot,
    /// A sequential read; changes nothing.
    Read,
    /// Writes back what was just read; changes nothing.
    WriteSame,
}

impl Profile {
    /// The word on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Marathon => "marathon",
            Self::Cdm => "cdm",
            Self::CdmDefault => "cdm-default",
            Self::Boot => "boot",
            Self::Read => "read",
            Self::WriteSame => "write-same",
        }
    }

    /// Whether what is on the medium is lost.
    pub fn destroys(self) -> bool {
        match self {
            Self::Image | Self::Marathon | Self::Cdm | Self::CdmDefault => true,
            Self::Boot | Self::Read | Self::WriteSame => false,
        }
    }

    /// Whether anything is written.
    pub fn writes(self) -> bool {
        self.destroys() || self == Self::WriteSame
    }
}

/// What a person may change about a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Bytes each test covers.
    pub size: Option<u64>,
    /// First byte.
    pub offset: u64,
    /// Bytes per I/O of the sequential profiles.
    pub block: Option<u64>,
    /// I/Os in flight of the sequential profiles.
    pub depth: Option<u32>,
    /// Blocks of 4 MiB, one in flight, as the articles had it.
    pub like_fio: bool,
    /// Each test ends after this time.
    pub runtime: Option<Duration>,
    /// Time between two tests.
    pub cooldown: Duration,
    /// After the write: wait, write 1 GiB again, for each of these times.
    pub recovery: Vec<Duration>,
}

/// Bytes that an image has, and that a test of the image profile writes.
const IMAGE: u64 = 8 * GIB;
/// Of a CrystalDiskMark test; its own default is 1 GiB and 5 s.
const CDM: (u64, Duration) = (GIB, Duration::from_secs(5));

/// The steps of every profile but [`Profile::Boot`], which needs an image to be mapped on.
pub fn steps(profile: Profile, geometry: &Geometry, wishes: &Wishes) -> Result<Vec<Step>> {
    let size = match profile {
        Profile::Image => wishes.size.unwrap_or(IMAGE),
        Profile::Cdm | Profile::CdmDefault => wishes.size.unwrap_or(CDM.0),
        Profile::Marathon | Profile::Read | Profile::WriteSame | Profile::Boot => {
            wishes.size.unwrap_or(geometry.size)
        }
    };
    let span = span(size, wishes, geometry)?;
    let sequential = |name: &str, direction| Test {
        name: name.to_owned(),
        direction,
        order: Order::Sequential,
        block: wishes.block.unwrap_or(if wishes.like_fio { 4 * MIB } else { MIB }),
        queue_depth: wishes.depth.unwrap_or(if wishes.like_fio { 1 } else { 2 }),
        threads: 1,
        span,
        ..Test::default()
    };
    let until = wishes.runtime.map_or(Until::Bytes(span.len), Until::Time);
    let whole = |test, check| Step::Test { test, until, check };
    let mut steps = match profile {
        Profile::Image => {
            // Only what was written all over can be compared.
            let check = wishes.runtime.is_none();
            vec![
                whole(sequential("image-write", Direction::Write), false),
                Step::Flush,
                whole(sequential("image-read", Direction::Read), check),
            ]
        }
        Profile::Marathon => {
            vec![whole(sequential("marathon-write", Direction::Write), false), Step::Flush]
        }
        Profile::Read | Profile::Boot => vec![whole(sequential("read", Direction::Read), false)],
        Profile::WriteSame => {
            vec![Step::WriteSame { test: sequential("write-same", Direction::Write) }]
        }
        Profile::Cdm => cdm(&CDM_NVME, span, wishes.runtime.unwrap_or(CDM.1)),
        Profile::CdmDefault => cdm(&CDM_DEFAULT, span, wishes.runtime.unwrap_or(CDM.1)),
    };
    if profile.destroys() {
        recovery(&mut steps, &sequential("", Direction::Write), wishes);
    }
    Ok(rested(steps, wishes.cooldown))
}

/// The part of the device that is measured, in whole blocks.
fn span(size: u64, wishes: &Wishes, geometry: &Geometry) -> Result<Span> {
    let block = u64::from(geometry.logical_block).max(512);
    let room = geometry.size.checked_sub(wishes.offset).filter(|room| *room >= block);
    let Some(room) = room.filter(|_| wishes.offset.is_multiple_of(block)) else {
        return Err(Error::usage(format!(
            "--offset {} must be a multiple of {block} bytes and lie on the device, which has {}",
            wishes.offset,
            Bytes(geometry.size)
        )));
    };
    if size > room && wishes.size.is_some() {
        return Err(Error::usage(format!(
            "--size {}: from there the device has {}",
            Bytes(size),
            Bytes(room)
        )));
    }
    let len = size.min(room) / block * block;
    if len == 0 {
        return Err(Error::usage(format!("--size {size} is less than a block of {block} bytes")));
    }
    Ok(Span { offset: wishes.offset, len })
}

/// A test of CrystalDiskMark.
struct Cdm {
    name: &'static str,
    order: Order,
    block: u64,
    depth: u32,
    threads: u32,
}

const fn cdm_test(name: &'static str, order: Order, block: u64, depth: u32, threads: u32) -> Cdm {
    Cdm { name, order, block, depth, threads }
}

const CDM_NVME: [Cdm; 4] = [
    cdm_test("SEQ1M-Q8T1", Order::Sequential, MIB, 8, 1),
    cdm_test("SEQ128K-Q32T1", Order::Sequential, 128 << 10, 32, 1),
    cdm_test("RND4K-Q32T16", Order::Random, 4 << 10, 32, 16),
    cdm_test("RND4K-Q1T1", Order::Random, 4 << 10, 1, 1),
];

const CDM_DEFAULT: [Cdm; 4] = [
    cdm_test("SEQ1M-Q8T1", Order::Sequential, MIB, 8, 1),
    cdm_test("SEQ1M-Q1T1", Order::Sequential, MIB, 1, 1),
    cdm_test("RND4K-Q32T1", Order::Random, 4 << 10, 32, 1),
    cdm_test("RND4K-Q1T1", Order::Random, 4 << 10, 1, 1),
];

/// What is read must have been written; then all reads, then all writes, as CrystalDiskMark does.
fn cdm(tests: &[Cdm], span: Span, runtime: Duration) -> Vec<Step> {
    let prepare = Test {
        name: "prepare".to_owned(),
        direction: Direction::Write,
        block: MIB,
        queue_depth: 2,
        threads: 1,
        span,
        ..Test::default()
    };
    let prepare = Step::Test { test: prepare, until: Until::Bytes(span.len), check: false };
    let mut steps = vec![prepare, Step::Flush];
    for (direction, suffix) in [(Direction::Read, "Read"), (Direction::Write, "Write")] {
        for test in tests {
            let test = Test {
                name: format!("{}-{suffix}", test.name),
                direction,
                order: test.order,
                block: test.block.min(span.len),
                queue_depth: test.depth,
                threads: test.threads,
                span,
                ..Test::default()
            };
            steps.push(Step::Test { test, until: Until::Time(runtime), check: true });
        }
    }
    steps.push(Step::Flush);
    steps
}

fn recovery(steps: &mut Vec<Step>, like: &Test, wishes: &Wishes) {
    for wait in &wishes.recovery {
        let len = like.span.len.min(GIB);
        let name = format!("recovery-{}s", wait.as_secs());
        let test = Test { name, span: Span { len, ..like.span }, ..like.clone() };
        steps.extend([
            Step::Rest(*wait),
            Step::Test { test, until: Until::Bytes(len), check: false },
            Step::Flush,
        ]);
    }
}

/// With a rest before every test but the first.
fn rested(steps: Vec<Step>, cooldown: Duration) -> Vec<Step> {
    if cooldown.is_zero() {
        return steps;
    }
    let mut seen = false;
    let mut with = Vec::new();
    for step in steps {
        let test = !matches!(step, Step::Flush | Step::Rest(_));
        if test && seen {
            with.push(Step::Rest(cooldown));
        }
        seen |= test;
        with.push(step);
    }
    with
}

/// Bytes that these steps write; for tests that end by time, `None`: it is not known before.
pub fn written(steps: &[Step]) -> Option<u64> {
    steps.iter().try_fold(0u64, |sum, step| match step {
        Step::Test { test, until, .. } if test.direction == Direction::Write => match until {
            Until::Bytes(bytes) => Some(sum.saturating_add(*bytes)),
            Until::Time(_) => None,
        },
        Step::WriteSame { test } => Some(sum.saturating_add(test.span.len)),
        Step::Test { .. } | Step::Replay { .. } | Step::Flush | Step::Rest(_) => Some(sum),
    })
}

/// The same before the device was opened, from its size alone.
pub fn will_write(profile: Profile, size: u64, wishes: &Wishes) -> Option<u64> {
    let geometry = Geometry {
        size,
        logical_block: 512,
        physical_block: 512,
        direct: true,
        discard_granularity: 0,
        caches: Caches::default(),
    };
    steps(profile, &geometry, wishes).ok().and_then(|steps| written(&steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(size: u64) -> Geometry {
        Geometry {
            size,
            logical_block: 512,
            physical_block: 512,
            direct: true,
            discard_granularity: 0,
            caches: Caches::default(),
        }
    }

    fn tests(steps: &[Step]) -> Vec<(String, u64, u32, u32)> {
        let all = steps.iter().filter_map(|step| match step {
            Step::Test { test, .. } | Step::WriteSame { test } | Step::Replay { test, .. } => {
                Some((test.name.clone(), test.block, test.queue_depth, test.threads))
            }
            Step::Flush | Step::Rest(_) => None,
        });
        all.collect()
    }

    #[test]
    fn the_cdm_profile_is_exactly_the_eight_tests_that_people_post() {
        let steps = steps(Profile::Cdm, &geometry(4 * GIB), &Wishes::default()).unwrap();
        let named: Vec<_> = tests(&steps).into_iter().skip(1).collect();
        let expected = ["Read", "Write"].iter().flat_map(|suffix| {
            [
                (format!("SEQ1M-Q8T1-{suffix}"), 1 << 20, 8, 1),
                (format!("SEQ128K-Q32T1-{suffix}"), 128 << 10, 32, 1),
                (format!("RND4K-Q32T16-{suffix}"), 4096, 32, 16),
                (format!("RND4K-Q1T1-{suffix}"), 4096, 1, 1),
            ]
        });
        assert_eq!(named, expected.collect::<Vec<_>>());
    }

    #[test]
    fn an_image_is_8_gib_or_the_device_and_like_fio_means_4_mib_one_in_flight() {
        for (device, like_fio, block, depth, len) in [
            (16 * GIB, false, MIB, 2, 8 * GIB),
            (16 * GIB, true, 4 * MIB, 1, 8 * GIB),
            (4 * GIB, true, 4 * MIB, 1, 4 * GIB),
        ] {
            let wishes = Wishes { like_fio, ..Wishes::default() };
            let steps = steps(Profile::Image, &geometry(device), &wishes).unwrap();
            assert_eq!(tests(&steps)[0], ("image-write".to_owned(), block, depth, 1));
            assert_eq!(written(&steps), Some(len));
            assert_eq!(will_write(Profile::Image, device, &wishes), Some(len));
        }
    }

    #[test]
    fn what_changes_nothing_writes_nothing_or_the_same() {
        for profile in [Profile::Read, Profile::Boot] {
            let steps = steps(profile, &geometry(GIB), &Wishes::default()).unwrap();
            assert_eq!(written(&steps), Some(0), "{profile:?}");
            assert!(!profile.destroys() && !profile.writes());
        }
        assert!(Profile::WriteSame.writes() && !Profile::WriteSame.destroys());
    }

    #[test]
    fn rests_stand_between_tests_and_recovery_behind_them() {
        let wishes = Wishes {
            cooldown: Duration::from_secs(60),
            recovery: vec![Duration::from_secs(10)],
            ..Wishes::default()
        };
        let steps = steps(Profile::Image, &geometry(GIB), &wishes).unwrap();
        let rests: Vec<_> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Rest(time) => Some(time.as_secs()),
                _ => None,
            })
            .collect();
        assert_eq!(rests, [60, 10, 60]);
        assert_eq!(tests(&steps).last().unwrap().0, "recovery-10s");
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_in_words() {
        for (size, offset) in [(Some(2 * GIB), 0), (Some(100), 0), (None, GIB), (None, 100)] {
            let wishes = Wishes { size, offset, ..Wishes::default() };
            let error = steps(Profile::Image, &geometry(GIB), &wishes).unwrap_err();
            assert!(error.message().contains("--"), "{}", error.message());
        }
    }
}
