//! One fault: which operation it hits and what it does. Faults are composed by wrapping, and
//! tests sweep them over every operation of a clean run.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::{BlockDevice, Discard, Geometry};
use crate::time::SimClock;

/// Kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `read_at`
    Read,
    /// `write_at`
    Write,
    /// `flush`
    Flush,
    /// `discard`
    Discard,
}

impl Op {
    /// All of them, for sweeps.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];
}

/// Which operation is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The N-th operation of its kind, counted from 1.
    Nth(u64),
    /// Every operation that touches this byte.
    Touching(u64),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It fails with this errno and does nothing.
    Error(i32),
    /// Half of it is transferred, in whole blocks; the caller has to ask for the rest.
    Short,
    /// One bit of the data is wrong.
    Flip,
    /// It reports success and does nothing; a read returns zeros.
    Drop,
    /// It takes this much longer.
    Stall(Duration),
    /// From here on the device is gone.
    Vanish,
}

/// A trigger with its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of operation.
    pub op: Op,
    /// Which one.
    pub trigger: Trigger,
    /// What happens to it.
    pub effect: Effect,
}

/// A device with a fault.
#[derive(Debug)]
pub struct Faulty {
    inner: Box<dyn BlockDevice>,
    fault: Fault,
    clock: Option<Arc<SimClock>>,
    count: AtomicU64,
    gone: AtomicBool,
}

impl Faulty {
    /// Wraps a device; stalls need the clock that they move.
    pub fn new(inner: Box<dyn BlockDevice>, fault: Fault, clock: Option<Arc<SimClock>>) -> Self {
        Self { inner, fault, clock, count: AtomicU64::new(0), gone: AtomicBool::new(false) }
    }

    /// The effect on this operation, if it is the one. Errors and vanishing are dealt with here.
    fn effect(&self, op: Op, offset: u64, len: u64) -> io::Result<Option<Effect>> {
        if self.gone.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        if op != self.fault.op {
            return Ok(None);
        }
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let hit = match self.fault.trigger {
            Trigger::Nth(n) => n == number,
            Trigger::Touching(byte) => (offset..offset + len).contains(&byte),
        };
        if !hit {
            return Ok(None);
        }
        match self.fault.effect {
            Effect::Error(errno) => Err(io::Error::from_raw_os_error(errno)),
            Effect::Vanish => {
                self.gone.store(true, Ordering::SeqCst);
                Err(io::Error::from_raw_os_error(libc::ENODEV))
            }
            Effect::Stall(time) => {
                if let Some(clock) = &self.clock {
                    clock.advance(time);
                }
                Ok(None)
            }
            effect @ (Effect::Short | Effect::Flip | Effect::Drop) => Ok(Some(effect)),
        }
    }

    /// Half of a transfer in whole blocks, at least one.
    fn half(&self, len: usize) -> usize {
        let block = usize::try_from(self.geometry().logical_block).unwrap_or(512);
        (len / 2 / block * block).max(block.min(len))
    }

    /// The byte that a flip hits: the triggering one, else one in the middle.
    fn victim(&self, offset: u64, len: usize) -> usize {
        match self.fault.trigger {
            Trigger::Touching(byte) => usize::try_from(byte - offset).unwrap_or(0),
            Trigger::Nth(_) => len / 2,
        }
    }
}

impl BlockDevice for Faulty {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        match self.effect(Op::Read, offset, buf.len() as u64)? {
            Some(Effect::Short) => {
                let half = self.half(buf.len());
                self.inner.read_at(offset, &mut buf[..half])
            }
            Some(Effect::Flip) => {
                let n = self.inner.read_at(offset, buf)?;
                let victim = self.victim(offset, n);
                if let Some(byte) = buf.get_mut(victim) {
                    *byte ^= 0x10;
                }
                Ok(n)
            }
            Some(Effect::Drop) => {
                let n = self.inner.read_at(offset, buf)?;
                buf[..n].fill(0);
                Ok(n)
            }
            Some(Effect::Error(_) | Effect::Stall(_) | Effect::Vanish) | None => {
                self.inner.read_at(offset, buf)
            }
        }
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> io::Result<usize> {
        match self.effect(Op::Write, offset, buf.len() as u64)? {
            Some(Effect::Short) => self.inner.write_at(offset, &buf[..self.half(buf.len())]),
            Some(Effect::Flip) => {
                let mut copy = buf.to_vec();
                let victim = self.victim(offset, copy.len());
                if let Some(byte) = copy.get_mut(victim) {
                    *byte ^= 0x10;
                }
                self.inner.write_at(offset, &copy)
            }
            Some(Effect::Drop) => Ok(buf.len()),
            Some(Effect::Error(_) | Effect::Stall(_) | Effect::Vanish) | None => {
                self.inner.write_at(offset, buf)
            }
        }
    }

    fn flush(&self) -> io::Result<()> {
        match self.effect(Op::Flush, 0, 0)? {
            Some(_) => Ok(()),
            None => self.inner.flush(),
        }
    }

    fn discard(&self, offset: u64, len: u64, how: Discard) -> io::Result<()> {
        match self.effect(Op::Discard, offset, len)? {
            Some(_) => Ok(()),
            None => self.inner.discard(offset, len, how),
        }
    }

    fn invalidate_cache(&self) -> io::Result<()> {
        self.inner.invalidate_cache()
    }

    fn check_identity(&self) -> Result<(), String> {
        if self.gone.load(Ordering::SeqCst) {
            return Err("it is gone".to_owned());
        }
        self.inner.check_identity()
    }

    fn present(&self) -> bool {
        !self.gone.load(Ordering::SeqCst) && self.inner.present()
    }
}
