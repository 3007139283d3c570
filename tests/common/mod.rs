//! What the in-process tests share: seeded images, simulated sticks that can be looked at after
//! the run, and a run of the flash flow with everything it said.
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    reason = "a test may die"
)]

use std::sync::{Arc, Mutex};

use mediawriter::cancel::CancelToken;
use mediawriter::device::sim::fault::{Effect, Fault, Faulty};
use mediawriter::device::sim::memory::Memory;
use mediawriter::device::{BlockDevice, Discard, Geometry};
use mediawriter::error::Error;
use mediawriter::event::{Event, Events};
use mediawriter::flow::damage::Located;
use mediawriter::flow::flash::{DiscardMode, Flashed, Plan, flash};
use mediawriter::flow::{Context, Transfer};
use mediawriter::source::Published;
use mediawriter::source::Source;
use mediawriter::time::SimClock;

/// Bytes that look random and are the same in every run (xorshift64*).
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A disk image with a boot sector at the start, and a backup GPT header in its last sector.
pub fn bootable_image(len: usize, seed: u64) -> Vec<u8> {
    let mut image = noise(len, seed);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image[512..520].copy_from_slice(b"EFI PART");
    let last = (len - 1) / 512 * 512;
    image[last..last + 8].copy_from_slice(b"EFI PART");
    image
}

/// What firmware or a kernel takes for a table: 55AA in sector 0, EFI PART in sector 1 or in the
/// last one, an ISO 9660 volume.
pub fn looks_bootable(medium: &dyn BlockDevice) -> bool {
    let size = medium.geometry().size;
    let at = |offset: u64, len: usize| {
        let mut block = mediawriter::sys::buffer::AlignedBuf::zeroed(4096);
        let start = offset / 4096 * 4096;
        medium.read_at(start, &mut block).expect("the bare memory reads");
        let from = usize::try_from(offset - start).unwrap();
        block[from..from + len].to_vec()
    };
    at(510, 2) == [0x55, 0xaa]
        || at(512, 8) == b"EFI PART"
        || at(4096, 8) == b"EFI PART"
        || at(size - 512, 8) == b"EFI PART"
        || at(0x8001, 5) == b"CD001"
}

/// A device behind a shared handle, so that a test can look at the medium below the faults.
#[derive(Clone, Debug)]
pub struct Shared(pub Arc<Memory>);

impl Shared {
    /// An old stick: everything 0xee, with an old boot sector and an old backup GPT.
    pub fn old_stick(size: u64, sector: u32) -> Self {
        let memory = Memory::new(size, sector, 0xee, true);
        let mut head = mediawriter::sys::buffer::AlignedBuf::zeroed(4096);
        head.fill(0xee);
        head[510..512].copy_from_slice(&[0x55, 0xaa]);
        memory.write_at(0, &head).unwrap();
        let mut tail = mediawriter::sys::buffer::AlignedBuf::zeroed(4096);
        tail.fill(0xee);
        tail[4096 - 512..4096 - 504].copy_from_slice(b"EFI PART");
        memory.write_at(size - 4096, &tail).unwrap();
        Self(Arc::new(memory))
    }

    /// The first `len` bytes of the medium.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len.next_multiple_of(4096)];
        self.0.read_at(0, &mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }
}

impl BlockDevice for Shared {
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write_at(offset, buf)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.0.flush()
    }
    fn discard(&self, offset: u64, len: u64, how: Discard) -> std::io::Result<()> {
        self.0.discard(offset, len, how)
    }
    fn invalidate_cache(&self) -> std::io::Result<()> {
        self.0.invalidate_cache()
    }
    fn check_identity(&self) -> Result<(), String> {
        self.0.check_identity()
    }
    fn present(&self) -> bool {
        self.0.present()
    }
}

/// Counts operations, to know what a sweep has to cover, and can cancel at one of them.
#[derive(Debug)]
pub struct Counting {
    pub inner: Box<dyn BlockDevice>,
    pub counts: Mutex<[u64; 4]>,
    pub cancel_at: Option<(u64, CancelToken)>,
    pub panic_at: Option<u64>,
}

impl Counting {
    pub fn new(inner: Box<dyn BlockDevice>) -> Self {
        Self { inner, counts: Mutex::new([0; 4]), cancel_at: None, panic_at: None }
    }
    fn count(&self, op: usize) {
        let mut counts = self.counts.lock().unwrap();
        counts[op] += 1;
        let total: u64 = counts.iter().sum();
        if self.panic_at == Some(total) {
            drop(counts);
            panic!("on purpose");
        }
        if let Some((at, token)) = &self.cancel_at
            && total == *at
        {
            token.cancel(15);
        }
    }
}

impl BlockDevice for Counting {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.count(0);
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> std::io::Result<usize> {
        self.count(1);
        self.inner.write_at(offset, buf)
    }
    fn flush(&self) -> std::io::Result<()> {
        self.count(2);
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64, how: Discard) -> std::io::Result<()> {
        self.count(3);
        self.inner.discard(offset, len, how)
    }
    fn invalidate_cache(&self) -> std::io::Result<()> {
        self.inner.invalidate_cache()
    }
    fn check_identity(&self) -> Result<(), String> {
        self.inner.check_identity()
    }
    fn present(&self) -> bool {
        self.inner.present()
    }
}

/// All that can happen to an operation.
pub const EFFECTS: [Effect; 7] = [
    Effect::Error(libc::EIO),
    Effect::Error(libc::ENOSPC),
    Effect::Short,
    Effect::Flip,
    Effect::Drop,
    Effect::Stall(std::time::Duration::from_secs(7)),
    Effect::Vanish,
];

/// A device with one fault around it.
pub fn faulty(inner: impl BlockDevice + 'static, fault: Fault, clock: &Arc<SimClock>) -> Faulty {
    Faulty::new(Box::new(inner), fault, Some(Arc::clone(clock)))
}

/// A plan with a small block, so that a small image makes many I/Os.
pub fn plan(block: usize) -> Plan {
    Plan {
        transfer: Transfer { block, adapt: false, queue_depth: 1 },
        published: Published::default(),
        mask: None,
        sparse: false,
        changed_only: false,
        verify: true,
        discard: DiscardMode::Auto(std::time::Duration::from_secs(60)),
    }
}

/// A context on a virtual clock.
pub fn context(clock: &Arc<SimClock>) -> (Context, crossbeam_channel::Receiver<Event>) {
    let (events, received) = Events::channel();
    let clock: Arc<SimClock> = Arc::clone(clock);
    let cx = Context { clock, events, cancel: CancelToken::default(), target: "sim".to_owned() };
    (cx, received)
}

/// Flashes and returns the outcome with everything that was said.
pub fn run(
    source: &dyn Source,
    device: &dyn BlockDevice,
    plan: &Plan,
    clock: &Arc<SimClock>,
) -> (Result<Flashed, Error>, Vec<Event>) {
    let (cx, received) = context(clock);
    let outcome = flash(source, device, plan, &|_| Located::default(), &cx);
    drop(cx);
    (outcome, received.try_iter().collect())
}
