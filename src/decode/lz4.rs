//! Frames of lz4, current and legacy (lz4_Frame_format.md 1.6.4); the blocks are the library's.
//! A frame states everything beforehand, so a block is gathered whole, decoded whole, and given
//! away in parts.

use std::hash::Hasher as _;

use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use twox_hash::XxHash32;

use super::Fault;
use super::engine::Step;

/// How far back a linked block may point.
const HISTORY: usize = 64 << 10;
/// What a block of a legacy frame holds.
const LEGACY_BLOCK: usize = 8 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Magic,
    /// Flags, from which the length of the header follows.
    Flags,
    Header,
    SkipSize,
    Skip(u64),
    BlockSize,
    Block {
        stored: bool,
    },
    ContentSum,
    LegacySize,
    LegacyBlock,
}

/// What a frame's header says.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    linked: bool,
    block_sums: bool,
    content_sum: bool,
    content: Option<u64>,
    block: usize,
}

/// A frame on its way.
#[derive(Default)]
pub(super) struct Lz4 {
    stage: Stage,
    /// What was gathered for the stage.
    inbox: Vec<u8>,
    /// Bytes that the stage needs.
    want: usize,
    frame: Frame,
    sum: XxHash32,
    size: u64,
    /// The decoded block, and what of it was given.
    block: Vec<u8>,
    ready: usize,
    given: usize,
    history: Vec<u8>,
}

fn damaged(why: &str) -> Fault {
    Fault::Damaged(why.to_owned())
}

impl Lz4 {
    pub(super) fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, Fault> {
        let mut step = Step::default();
        loop {
            if self.given < self.ready {
                let len = (self.ready - self.given).min(out.len());
                out[..len].copy_from_slice(&self.block[self.given..self.given + len]);
                self.given += len;
                step.written = len;
                return Ok(step);
            }
            if let Stage::Skip(left) = self.stage {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - step.read);
                step.read += len;
                self.stage = Stage::Skip(left - len as u64);
                step.ended = left == len as u64;
                return Ok(step);
            }
            if self.want == 0 {
                self.want = 4;
            }
            let rest = &input[step.read..];
            let len = (self.want - self.inbox.len()).min(rest.len());
            self.inbox.extend_from_slice(&rest[..len]);
            step.read += len;
            if self.inbox.len() < self.want {
                // A legacy frame has no mark at its end.
                let quiet = self.inbox.is_empty() && input.is_empty();
                step.ended = quiet && self.stage == Stage::LegacySize;
                return Ok(step);
            }
            if self.advance()? {
                step.ended = true;
                return Ok(step);
            }
        }
    }

    /// What was wanted is there; true when the frame is at its end.
    fn advance(&mut self) -> Result<bool, Fault> {
        match self.stage {
            Stage::Magic => self.magic()?,
            Stage::Flags => {
                let flags = self.inbox[0];
                let length =
                    2 + 1 + if flags & 8 != 0 { 8 } else { 0 } + if flags & 1 != 0 { 4 } else { 0 };
                (self.stage, self.want) = (Stage::Header, length);
            }
            Stage::Header => self.header()?,
            Stage::SkipSize => {
                let size = self.number();
                self.go(Stage::Skip(u64::from(size)), 0);
            }
            Stage::Skip(_) => {}
            Stage::BlockSize => return self.block_size(),
            Stage::Block { stored } => self.decode_block(stored)?,
            Stage::ContentSum => {
                if u64::from(self.number()) != self.sum.finish() {
                    return Err(damaged("the frame does not match its checksum"));
                }
                return Ok(true);
            }
            Stage::LegacySize => self.legacy_size()?,
            Stage::LegacyBlock => {
                self.block.resize(LEGACY_BLOCK, 0);
                let done = decompress_into(&self.inbox, &mut self.block);
                self.ready = done.map_err(|e| Fault::Damaged(format!("lz4: {e}")))?;
                self.given = 0;
                self.go(Stage::LegacySize, 4);
            }
        }
        Ok(false)
    }

    fn go(&mut self, stage: Stage, want: usize) {
        self.inbox.clear();
        (self.stage, self.want) = (stage, want);
    }

    /// The first 4 bytes, little-endian.
    fn number(&self) -> u32 {
        self.inbox.iter().take(4).rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
    }

    fn magic(&mut self) -> Result<(), Fault> {
        match self.number() {
            0x184D_2204 => self.go(Stage::Flags, 2),
            0x184C_2102 => self.go(Stage::LegacySize, 4),
            skip if skip & 0xFFFF_FFF0 == 0x184D_2A50 => self.go(Stage::SkipSize, 4),
            _ => return Err(damaged("this is no lz4 frame")),
        }
        Ok(())
    }

    fn header(&mut self) -> Result<(), Fault> {
        let (flags, sizes) = (self.inbox[0], self.inbox[1]);
        let (sum, fields) = match self.inbox.split_last() {
            Some((sum, fields)) => (*sum, fields),
            None => return Err(damaged("an empty header")),
        };
        let own = XxHash32::oneshot(0, fields) >> 8 & 0xFF;
        if own != u32::from(sum) {
            return Err(damaged("the frame's header does not match its checksum"));
        }
        if flags >> 6 != 1 || sizes >> 4 < 4 {
            return Err(damaged("an lz4 frame of an unknown version"));
        }
        if flags & 1 != 0 {
            return Err(Fault::Unsupported("its lz4 frame needs a dictionary".to_owned()));
        }
        let content = fields.get(2..10).filter(|_| flags & 8 != 0);
        self.frame = Frame {
            linked: flags & 0x20 == 0,
            block_sums: flags & 0x10 != 0,
            content_sum: flags & 4 != 0,
            content: content.map(|bytes| {
                bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
            }),
            // 4 is 64 KiB, each step four times more.
            block: HISTORY << (2 * (usize::from(sizes >> 4 & 7) - 4)),
        };
        (self.sum, self.size) = (XxHash32::with_seed(0), 0);
        self.history.clear();
        self.go(Stage::BlockSize, 4);
        Ok(())
    }

    fn block_size(&mut self) -> Result<bool, Fault> {
        let number = self.number();
        if number == 0 {
            if self.frame.content.is_some_and(|content| content != self.size) {
                return Err(damaged("the frame is not as long as its header says"));
            }
            self.go(Stage::ContentSum, 4);
            return Ok(!self.frame.content_sum);
        }
        let stored = number >> 31 != 0;
        let len = usize::try_from(number & 0x7FFF_FFFF).unwrap_or(usize::MAX);
        if len > self.frame.block {
            return Err(damaged("a block is longer than the frame's header allows"));
        }
        self.go(Stage::Block { stored }, len + if self.frame.block_sums { 4 } else { 0 });
        Ok(false)
    }

    fn decode_block(&mut self, stored: bool) -> Result<(), Fault> {
        let len = self.inbox.len() - if self.frame.block_sums { 4 } else { 0 };
        let (data, sum) = self.inbox.split_at(len);
        if self.frame.block_sums && XxHash32::oneshot(0, data).to_le_bytes() != sum {
            return Err(damaged("a block does not match its checksum"));
        }
        self.block.resize(self.frame.block, 0);
        self.ready = if stored {
            self.block[..len].copy_from_slice(data);
            len
        } else {
            let done = if self.frame.linked {
                decompress_into_with_dict(data, &mut self.block, &self.history)
            } else {
                decompress_into(data, &mut self.block)
            };
            done.map_err(|e| Fault::Damaged(format!("lz4: {e}")))?
        };
        self.given = 0;
        let made = &self.block[..self.ready];
        self.size += made.len() as u64;
        if self.frame.content_sum {
            self.sum.write(made);
        }
        if self.frame.linked {
            let keep = HISTORY.saturating_sub(made.len()).min(self.history.len());
            self.history.drain(..self.history.len() - keep);
            self.history.extend_from_slice(&made[made.len() - made.len().min(HISTORY)..]);
        }
        self.go(Stage::BlockSize, 4);
        Ok(())
    }

    /// Another block, or another frame behind this one.
    fn legacy_size(&mut self) -> Result<(), Fault> {
        let number = self.number();
        let magic =
            matches!(number, 0x184D_2204 | 0x184C_2102) || number & 0xFFFF_FFF0 == 0x184D_2A50;
        if magic {
            (self.stage, self.want) = (Stage::Magic, 4);
            return Ok(());
        }
        // LZ4_COMPRESSBOUND of lz4.h.
        let len = usize::try_from(number).unwrap_or(usize::MAX);
        if len == 0 || len > LEGACY_BLOCK + LEGACY_BLOCK / 255 + 16 {
            return Err(damaged("a block of impossible length"));
        }
        self.go(Stage::LegacyBlock, len);
        Ok(())
    }
}
