//! At least one of each notice with its text, to the letter: scripts read it. For the tests here
//! and for those of the documents.

use std::time::Duration;

use super::{Notice, Rate};

fn word(text: &str) -> String {
    text.to_owned()
}

/// In the order of their codes.
#[expect(clippy::too_many_lines, reason = "a list, read one entry at a time")]
pub(super) fn samples() -> Vec<(Notice, &'static str)> {
    let (short, long) = (Duration::from_millis(1500), Duration::from_secs(185));
    let (why, target) = (|| word("it broke off"), || word("/dev/sdb"));
    let rate = Rate::of(28_300_000, Duration::from_secs(1));
    let (first, path) = (|| word("a.txt"), || word("/mnt"));
    vec![
        (Notice::Again { why: why(), wait: short }, "it broke off; trying again in 1.50 s"),
        (
            Notice::BackupGptInside { at: 4_700_000_000 },
            "the image's backup partition table lies at 4.38 GiB (4.70 GB), not at the end of \
             this larger medium; kernels and tools may say so, it boots all the same",
        ),
        (Notice::BeforeWrite(word("told before")), "told before"),
        (Notice::Clone(word("new numbers")), "new numbers"),
        (
            Notice::DiscardAbandoned { took: long, done: 1 << 30, wanted: 4_700_000_000, rate },
            "discarding was given up after 3 min 05 s: 1.00 GiB (1.07 GB) of 4.38 GiB (4.70 GB) \
             done; it runs at 28.3 MB/s (27.0 MiB/s)",
        ),
        (Notice::DiscardFailed { why: why() }, "discard failed, going on without: it broke off"),
        (
            Notice::DiscardSlow { rate },
            "discarding ran at 28.3 MB/s (27.0 MiB/s), a speed of writing: the device or its \
             driver seems to fill with zeros instead of unmapping",
        ),
        (Notice::DiscardUnsupported { target: target() }, "/dev/sdb offers no discard: skipped"),
        (Notice::Ejected(word("ejected")), "ejected"),
        (Notice::Misplaced(word("a.txt is elsewhere")), "a.txt is elsewhere"),
        (
            Notice::FilesFound { files: 7 },
            "all 7 files were found by the directories on the medium, each at the place whose \
             bytes were read back",
        ),
        (
            Notice::FilesFoundBefore { files: 7 },
            "all 7 files were found in the NTFS volume before it was written, and every cluster \
             in use was read back",
        ),
        (
            Notice::ForeignIo { test: word("seq-read"), counted: 2_000_000, moved: 500 },
            "seq-read: the kernel counted 1.91 MiB (2.00 MB) on the device, the test moved 500 B: \
             somebody else uses it",
        ),
        (Notice::FromZero { why: why() }, "it broke off; starting from zero"),
        (
            Notice::WrongPart { why: why() },
            "it broke off; a part of it was there before: once more from zero",
        ),
        (
            Notice::Frozen { at: path() },
            "/mnt is frozen until the source is read; if this program is killed: fsfreeze \
             --unfreeze /mnt",
        ),
        (
            Notice::Generator { test: word("seq-write"), rate: 2_000_000 },
            "seq-write: data is made at 1.91 MiB (2.00 MB) a second here, less than 3 times what \
             was written; the processor may have limited it",
        ),
        (
            Notice::ImageFirst { image: word("a.img.xz") },
            "the size of a.img.xz is not known: it is read first",
        ),
        (Notice::Kept(word("stored as a.img")), "stored as a.img"),
        (
            Notice::KernelCounters { bytes: 4096 },
            "the kernel counted 4096 bytes read from the device",
        ),
        (Notice::Link(word("a slow link")), "a slow link"),
        (
            Notice::Mounted { places: word("/mnt, /media/x") },
            "mounted at /mnt, /media/x: an operating system may have changed it since it was \
             written",
        ),
        (
            Notice::NoDirectIo { target: target() },
            "/dev/sdb refuses O_DIRECT: synchronous writes and dropped caches take its place",
        ),
        (
            Notice::NoParts,
            "the server does not support resume: it sends the file from its start, and what is \
             there is skipped",
        ),
        (Notice::NoPowerProfile(word("no bus")), "no bus"),
        (Notice::NoSleepLock(word("no bus")), "no bus"),
        (
            Notice::NotEjected { target: target(), why: why() },
            "/dev/sdb could not be ejected (it broke off); everything is flushed, it can be \
             pulled out",
        ),
        (
            Notice::NotSparse { target: target() },
            "/dev/sdb was not seen to zero blocks by itself: zeros are written",
        ),
        (Notice::NotThawed(word("/mnt is still frozen")), "/mnt is still frozen"),
        (
            Notice::NtfsBegins { folder: path() },
            "making the NTFS volume in /mnt; the target is not written yet",
        ),
        (
            Notice::NtfsMade { filled: long, files: 7, compared: short },
            "filled in 185.0 s; each of 7 files compared with the ISO in 1.5 s",
        ),
        (Notice::OneConnection { why: why() }, "it broke off; continuing with one connection"),
        (Notice::Origin(word("no signature")), "no signature"),
        (
            Notice::OtherFiles { first: first(), more: 0 },
            "a.txt: not on the ISO: added when the stick was made, or since",
        ),
        (
            Notice::OtherFiles { first: first(), more: 2 },
            "a.txt and 2 more: not on the ISO: added when the stick was made, or since",
        ),
        (
            Notice::PartitionsNotReread { why: why() },
            "the kernel did not read the new partition table (it broke off); unplug the stick and \
             plug it in again",
        ),
        (
            Notice::Resumed { have: 4_700_000_000 },
            "4.38 GiB (4.70 GB) are there already, going on behind them",
        ),
        (
            Notice::Settled { took: short, target: target() },
            "waited 1.50 s for data of an earlier write to reach /dev/sdb",
        ),
        (
            Notice::SleptWriting { slept: long },
            "the computer slept for 3 min 05 s during the write",
        ),
        (Notice::SleptMeasuring, "the computer slept during the measurement: do not compare it"),
        (
            Notice::SlowedDown {
                at: 4_700_000_000,
                before: 362_000_000,
                after: 85_000_000,
                left: Some(3_400_000_000),
            },
            "slowed down at 4.38 GiB (4.70 GB): 362.0 MB/s (345.2 MiB/s) before, 85.0 MB/s (81.1 \
             MiB/s) now; its cache is probably full; new estimate at this speed: 40.0 s to go",
        ),
        (
            Notice::SlowedDown { at: 500, before: 362_000_000, after: 0, left: Some(1) },
            "slowed down at 500 B: 362.0 MB/s (345.2 MiB/s) before, 0.00 MB/s (0.00 MiB/s) now; \
             its cache is probably full",
        ),
        (
            Notice::SlowedDown { at: 500, before: 362_000_000, after: 85_000_000, left: None },
            "slowed down at 500 B: 362.0 MB/s (345.2 MiB/s) before, 85.0 MB/s (81.1 MiB/s) now; \
             its cache is probably full",
        ),
        (
            Notice::ReadsAsZeros { zero: 16, taken: 16 },
            "what was discarded reads as zeros in 16 places of 16: runs of zeros are not written \
             there",
        ),
        (
            Notice::ZeroesItself,
            "the device zeroes blocks itself (tried and read): runs of zeros are left to it",
        ),
        (
            Notice::SystemFiles { first: first(), more: 2 },
            "a.txt and 2 more: made by an operating system, which is no damage",
        ),
        (Notice::Thawed { took: short }, "the source's filesystems were frozen for 1.50 s"),
        (
            Notice::TrailingBytes { file: word("a.img.xz"), bytes: 12 },
            "a.img.xz ends with 12 bytes that belong to no compressed member; they were left out",
        ),
        (Notice::Windows(word("MBR, FAT32")), "MBR, FAT32"),
        (
            Notice::ZerosNotSent { bytes: 4_700_000_000 },
            "4.38 GiB (4.70 GB) of zeros were not sent as data",
        ),
    ]
}
