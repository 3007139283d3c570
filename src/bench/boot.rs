//! How a live system reads its stick: two recorded boots (docs/boot-traces.md) mapped onto the
//! image on the medium. Order and sizes of the reads are kept, the pauses are not: what comes out
//! is how long the device alone keeps a boot waiting. Pure.
//!
//! ```text
//! recorded   | loader | squashfs ............ | initrd | kernel | EFI |      device end |
//! mapped     | loader | squashfs ............ | initrd | kernel | EFI |  device end |
//! ```
//! Kernel and initrd are read whole, however long they are here. In the squashfs a run of reads
//! that follow each other stays one, and runs keep their relative place.

use std::ops::Range;

use super::{Step, Until, trace};
use crate::device::Geometry;
use crate::event::Span;
use crate::event::measure::{Direction, Order, Test};
use crate::image::LiveLayout;
use crate::units::{GIB, MIB};

/// Read-ahead of a copy program, and of the kernel by default (read_ahead_kb 128).
const COPY: u64 = 128 << 10;
/// Streams of an installation.
const STREAMS: u64 = 8;
/// What is read where no image tells: as much as an installation image has.
const WITHOUT_IMAGE: u64 = 6 * GIB;

/// Where things lay when the shipped boots were recorded.
const RECORDED: Recorded = Recorded {
    size: 326_686_720,
    squashfs: 19_761_152..275_634_176,
    initrd: 275_611_648..317_915_136,
    kernel: 317_915_136..326_172_672,
    device: 1 << 30,
};

struct Recorded {
    /// Of the image.
    size: u64,
    squashfs: Range<u64>,
    /// GRUB reads whole 32 KiB, so this begins before the file does.
    initrd: Range<u64>,
    kernel: Range<u64>,
    /// Of the stick.
    device: u64,
}

/// Part of the recorded stick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Loader,
    Squashfs,
    Initrd,
    Kernel,
    /// The rest of the image: its EFI partition.
    Tail,
    /// Behind the image: the partition table's backup, and probes for signatures.
    DeviceEnd,
}

impl Recorded {
    fn region(&self, offset: u64) -> Region {
        match offset {
            _ if self.initrd.contains(&offset) => Region::Initrd,
            _ if self.squashfs.contains(&offset) => Region::Squashfs,
            _ if self.kernel.contains(&offset) => Region::Kernel,
            _ if offset < self.squashfs.start => Region::Loader,
            _ if offset < self.size => Region::Tail,
            _ => Region::DeviceEnd,
        }
    }
}

/// The boots in the program: firmware, reads.
const SHIPPED: [(&str, &str); 2] = [
    ("bios", include_str!("traces/boot-bios.csv")),
    ("uefi", include_str!("traces/boot-uefi.csv")),
];

/// What the boot profile does on a device: the image in one go, the boots, an installation's copy.
pub fn steps(
    geometry: &Geometry,
    layout: Option<&LiveLayout>,
    own: Option<&[Span]>,
) -> Result<Vec<Step>, String> {
    let image = layout.map_or(WITHOUT_IMAGE, |layout| layout.size).min(geometry.size);
    let block = u64::from(geometry.logical_block).max(512);
    let whole = Span { offset: 0, len: image / block * block };
    let sequential = Test {
        name: "R1-image".to_owned(),
        direction: Direction::Read,
        order: Order::Sequential,
        block: MIB.min(whole.len),
        queue_depth: 4,
        threads: 1,
        span: whole,
        ..Test::default()
    };
    let mut steps =
        vec![Step::Test { test: sequential, until: Until::Bytes(whole.len), check: false }];
    if let Some(own) = own {
        steps.push(replay("R2-boot", within(own, geometry), 1)?);
    } else {
        for (firmware, text) in SHIPPED {
            let reads = trace::parse(text)?;
            let mapped = match layout {
                Some(layout) => map(&reads, layout, geometry.size),
                None => onto_device(&reads, geometry.size),
            };
            steps.push(replay(&format!("R2-boot-{firmware}"), within(&mapped, geometry), 1)?);
        }
    }
    let files = layout.map_or(whole, |layout| {
        let Range { start, end } = layout.squashfs;
        Span { offset: start, len: end - start }
    });
    let copy = streams(files, STREAMS, COPY);
    let depth = u32::try_from(STREAMS).unwrap_or(1);
    steps.push(replay("R3-install", within(&copy, geometry), depth)?);
    Ok(steps)
}

fn replay(name: &str, list: Vec<Span>, queue_depth: u32) -> Result<Step, String> {
    let largest = list.iter().map(|read| read.len).max();
    let block = largest.ok_or_else(|| format!("{name}: no read lies on this device"))?;
    let start = list.iter().map(|read| read.offset).min().unwrap_or(0);
    let end = list.iter().map(|read| read.end()).max().unwrap_or(0);
    let test = Test {
        name: name.to_owned(),
        direction: Direction::Read,
        order: Order::Trace,
        block,
        queue_depth,
        threads: 1,
        span: Span { offset: start, len: end - start },
        ..Test::default()
    };
    Ok(Step::Replay { test, list })
}

/// Whole blocks, on the device, and none longer than a device takes at once.
fn within(reads: &[Span], geometry: &Geometry) -> Vec<Span> {
    let block = u64::from(geometry.logical_block).max(512);
    let end_of_device = geometry.size / block * block;
    let aligned = reads.iter().filter_map(|read| {
        let offset = read.offset / block * block;
        let end = read.end().next_multiple_of(block).min(end_of_device);
        (end > offset).then(|| Span { offset, len: end - offset })
    });
    // Recorders merge reads; a device never sees more than this in one piece.
    let longest = 4 * MIB;
    let pieces = aligned.flat_map(|read| {
        (0..read.len.div_ceil(longest)).map(move |index| {
            let at = index * longest;
            Span { offset: read.offset + at, len: longest.min(read.len - at) }
        })
    });
    pieces.collect()
}

/// The recorded places; those at the end of the recorded stick, at the end of this one.
fn onto_device(reads: &[Span], device: u64) -> Vec<Span> {
    let place = |read: &Span| match RECORDED.region(read.offset) {
        Region::DeviceEnd => {
            Span { offset: from_end(read.offset, RECORDED.device, device), ..*read }
        }
        _ => *read,
    };
    reads.iter().map(place).collect()
}

/// As far from the end as it was.
fn from_end(offset: u64, end: u64, new_end: u64) -> u64 {
    new_end.saturating_sub(end.saturating_sub(offset))
}

/// The recorded reads on an image with another layout.
fn map(reads: &[Span], layout: &LiveLayout, device: u64) -> Vec<Span> {
    let last = |wanted| reads.iter().rposition(|read| RECORDED.region(read.offset) == wanted);
    let mut kernel = Whole::new(layout.kernel.as_ref(), last(Region::Kernel));
    let mut initrd = Whole::new(layout.initrd.as_ref(), last(Region::Initrd));
    let mut mapped: Vec<Span> = Vec::with_capacity(reads.len());
    let mut before = Span::default();
    for (index, read) in reads.iter().enumerate() {
        match RECORDED.region(read.offset) {
            Region::Loader => mapped.push(*read),
            Region::Kernel => kernel.read(index, read.len, &mut mapped),
            Region::Initrd => initrd.read(index, read.len, &mut mapped),
            Region::Squashfs => {
                let run = (before.end() == read.offset).then(|| mapped.last().copied()).flatten();
                mapped.extend(in_squashfs(read, run, &layout.squashfs));
            }
            Region::Tail => {
                let offset = from_end(read.offset, RECORDED.size, layout.size);
                mapped.push(Span { offset, ..*read });
            }
            Region::DeviceEnd => {
                let offset = from_end(read.offset, RECORDED.device, device);
                mapped.push(Span { offset, ..*read });
            }
        }
        before = *read;
    }
    mapped
}

/// Behind the read before it in a run, else at the same share of the filesystem.
fn in_squashfs(read: &Span, run: Option<Span>, here: &Range<u64>) -> Option<Span> {
    let recorded = &RECORDED.squashfs;
    let share = u128::from(read.offset - recorded.start) * u128::from(here.end - here.start)
        / u128::from(recorded.end - recorded.start);
    // Page-sized steps, as the page cache reads.
    let scaled = here.start + u64::try_from(share).unwrap_or(0) / 4096 * 4096;
    let offset = run.map_or(scaled, Span::end);
    let len = read.len.min(here.end.saturating_sub(offset));
    (len > 0).then_some(Span { offset, len })
}

/// A file that a boot loader reads from its start to its end.
struct Whole {
    next: u64,
    end: u64,
    /// The last recorded read of it.
    last: Option<usize>,
}

impl Whole {
    fn new(file: Option<&Range<u64>>, last: Option<usize>) -> Self {
        let file = file.cloned().unwrap_or(0..0);
        Self { next: file.start, end: file.end, last }
    }

    /// A read as long as the recorded one; after the last, as many more as the file needs.
    fn read(&mut self, index: usize, len: u64, mapped: &mut Vec<Span>) {
        let more = Some(index) == self.last;
        while self.next < self.end && len > 0 {
            let len = len.min(self.end - self.next);
            mapped.push(Span { offset: self.next, len });
            self.next += len;
            if !more {
                break;
            }
        }
    }
}

/// Blocks of `count` files that are read beside each other.
fn streams(span: Span, count: u64, block: u64) -> Vec<Span> {
    let part = (span.len / count).next_multiple_of(block).max(block);
    let mut reads = Vec::new();
    for at in (0..part).step_by(usize::try_from(block).unwrap_or(usize::MAX)) {
        for stream in 0..count {
            let offset = stream * part + at;
            if offset < span.len {
                reads
                    .push(Span { offset: span.offset + offset, len: block.min(span.len - offset) });
            }
        }
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Caches;

    fn geometry(size: u64, logical_block: u32) -> Geometry {
        Geometry {
            size,
            logical_block,
            physical_block: 4096,
            direct: true,
            discard_granularity: 0,
            caches: Caches::default(),
        }
    }

    fn layout() -> LiveLayout {
        LiveLayout {
            size: 5 << 30,
            squashfs: (1 << 30)..(4 << 30),
            kernel: Some((600 << 20)..(614 << 20)),
            initrd: Some((700 << 20)..(770 << 20)),
        }
    }

    fn lists(steps: &[Step]) -> Vec<(&str, &[Span])> {
        let replays = steps.iter().filter_map(|step| match step {
            Step::Replay { test, list } => Some((test.name.as_str(), list.as_slice())),
            _ => None,
        });
        replays.collect()
    }

    #[test]
    fn every_read_lies_on_the_device_in_whole_blocks() {
        for (size, block, layout) in [
            (8 << 30, 512, Some(layout())),
            (8 << 30, 4096, Some(layout())),
            (32 << 30, 512, None),
            (200 << 20, 4096, None),
        ] {
            let steps = steps(&geometry(size, block), layout.as_ref(), None).unwrap();
            for (name, list) in lists(&steps) {
                let block = u64::from(block);
                assert!(!list.is_empty(), "{name}");
                assert!(list.iter().all(|read| read.end() <= size), "{name}");
                let whole = |n: u64| n.is_multiple_of(block);
                assert!(list.iter().all(|read| whole(read.offset) && whole(read.len)), "{name}");
            }
        }
    }

    #[test]
    fn kernel_and_initrd_are_read_whole_and_the_root_filesystem_in_its_own_place() {
        let (layout, device) = (layout(), 8 << 30);
        for (firmware, text) in SHIPPED {
            let reads = trace::parse(text).unwrap();
            let mapped = map(&reads, &layout, device);
            for file in [layout.kernel.clone().unwrap(), layout.initrd.clone().unwrap()] {
                let inside = |read: &&Span| file.contains(&read.offset);
                let mut next = file.start;
                for read in mapped.iter().filter(inside) {
                    assert_eq!(read.offset, next, "{firmware}: without gaps, in order");
                    next = read.end();
                }
                assert_eq!(next, file.end, "{firmware}");
            }
            let recorded = reads.iter().filter(|r| RECORDED.region(r.offset) == Region::Squashfs);
            let here = mapped.iter().filter(|read| layout.squashfs.contains(&read.offset));
            let sizes = |list: Vec<&Span>| list.iter().map(|r| r.len).sum::<u64>();
            let (was, is) = (sizes(recorded.collect()), sizes(here.collect()));
            assert!(is > was * 99 / 100 && is <= was, "{firmware}: {is} of {was}");
        }
    }

    #[test]
    fn without_an_image_the_places_are_those_that_were_recorded() {
        let reads =
            [Span { offset: 30_000_000, len: 4096 }, Span { offset: (1 << 30) - 512, len: 512 }];
        let mapped = onto_device(&reads, 2 << 30);
        assert_eq!(mapped[0], reads[0]);
        assert_eq!(mapped[1].offset, (2 << 30) - 512);
    }

    #[test]
    fn an_installation_reads_every_byte_once_in_eight_streams() {
        let span = Span { offset: 4096, len: 10_000_000 };
        let reads = streams(span, 8, 128 << 10);
        assert_eq!(reads.iter().map(|read| read.len).sum::<u64>(), span.len);
        let places: std::collections::BTreeSet<u64> = reads.iter().map(|r| r.offset).collect();
        assert_eq!(places.len(), reads.len());
        assert_ne!(reads[0].end(), reads[1].offset);
    }

    #[test]
    fn long_reads_of_a_foreign_trace_are_cut_and_what_lies_behind_the_device_is_left_out() {
        let reads = [Span { offset: 0, len: 9 << 20 }, Span { offset: 1 << 40, len: 512 }];
        let seen = within(&reads, &geometry(1 << 30, 512));
        assert_eq!(seen.len(), 3);
        assert_eq!(seen.iter().map(|read| read.len).sum::<u64>(), 9 << 20);
        assert!(steps(&geometry(1 << 30, 512), None, Some(&reads[1..])).is_err());
    }
}
