//! The jobs: flash, verify, discard. They work on traits, measure through `meter`, say everything
//! through events, and print nothing.
//!
//! ```text
//! reader thread            hash thread            writer threads (queue depth)
//! source -> pool buffer -> SHA-256 over the -> positional writes -> buffer back to the pool
//!           + chunk map     bytes in order
//! ```
//! The pool is the back-pressure. Whoever fails first stops all others (`Crew`).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::device::BlockDevice;
use crate::error::{Error, Kind, Result};
use crate::event::{Events, Phase};
use crate::meter::{IoSize, Meter};
use crate::time::Clock;
use crate::units::Bytes;

mod changed;
pub mod damage;
pub mod discard;
pub mod download;
pub mod flash;
pub(crate) mod guard;
mod pace;
mod produce;
pub mod readback;
pub mod repair;
mod salvage;
pub mod save;
pub mod verify;
mod write;
mod zeros;

/// What every job works with.
#[derive(Clone, Debug)]
pub struct Context {
    /// The one clock.
    pub clock: Arc<dyn Clock>,
    /// Where events go.
    pub events: Events,
    /// Asked between I/Os.
    pub cancel: CancelToken,
    /// The target as messages name it, control characters escaped.
    pub target: String,
}

/// How a job moves bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Size of pool buffers in bytes, a multiple of the device's logical block.
    pub block: usize,
    /// Whether single I/Os may become smaller than a buffer on a slow device.
    pub adapt: bool,
    /// I/Os in flight.
    pub queue_depth: usize,
}

impl Transfer {
    fn io_size(&self) -> Arc<IoSize> {
        Arc::new(IoSize::new(u32::try_from(self.block).unwrap_or(u32::MAX)))
    }
}

impl Context {
    fn meter(&self, phase: Phase, total: Option<u64>) -> Meter {
        Meter::start(phase, total, Arc::clone(&self.clock), self.events.clone())
    }

    /// A meter whose rows lower the size of I/Os when `transfer` allows that.
    fn adapting_meter(
        &self,
        phase: Phase,
        total: Option<u64>,
        transfer: &Transfer,
        io_size: &Arc<IoSize>,
    ) -> Meter {
        let meter = self.meter(phase, total);
        if transfer.adapt { meter.with_io_size(Arc::clone(io_size)) } else { meter }
    }

    /// Runs one call as a phase of its own.
    pub(crate) fn timed<T>(
        &self,
        phase: Phase,
        work: impl FnOnce(&Meter) -> Result<T>,
    ) -> Result<T> {
        let meter = self.meter(phase, None);
        let done = crate::meter::while_ticking(&meter, || work(&meter));
        meter.finish();
        done
    }

    /// What a failed transfer means to a person.
    pub(crate) fn io_failed(
        &self,
        device: &dyn BlockDevice,
        doing: Phase,
        error: io::Error,
        offset: u64,
        len: u64,
    ) -> Error {
        let target = &self.target;
        if !device.present() {
            return Error::io(format!("{target} disappeared during {}", doing.name()), error).at(offset, len).hint(
                match doing {
                    Phase::Verify | Phase::Sample | Phase::Files | Phase::TestRead => {
                        "check plug, cable and power; what is on it was not proven: verify it, or write it again"
                    }
                    _ => {
                        "check plug, cable and power; the stick holds an incomplete image and must be written again (flash --resume writes only the rest)"
                    }
                },
            );
        }
        let hint = match error.raw_os_error() {
            Some(libc::ENOSPC) => {
                "the device ends earlier than it says; a counterfeit does that, try another stick"
            }
            Some(libc::EROFS | libc::EPERM) => {
                "the device went read-only: many sticks do when they wear out; check its switch, else replace it"
            }
            _ => {
                "try another port and cable; if it stays at this offset the medium is worn out (see also dmesg)"
            }
        };
        let verb = match doing {
            Phase::Verify
            | Phase::Sample
            | Phase::Files
            | Phase::TestRead
            | Phase::Download
            | Phase::Rest => "reading from",
            Phase::Flush => "flushing",
            Phase::Discard => "discarding on",
            Phase::ZeroOut
            | Phase::Settle
            | Phase::Clear
            | Phase::Write
            | Phase::Update
            | Phase::TestWrite
            | Phase::Probe
            | Phase::Release => "writing to",
        };
        Error::io(format!("{verb} {target} failed during {}", doing.name()), error)
            .at(offset, len)
            .hint(hint)
    }

    pub(crate) fn flush_failed(&self, device: &dyn BlockDevice, error: io::Error) -> Error {
        if !device.present() {
            return Error::io(
                format!("{} disappeared while it was being flushed", self.target),
                error,
            )
            .hint("the stick holds an incomplete image and must be written again (flash --resume writes only the rest)");
        }
        Error::io(format!("{} could not be flushed", self.target), error).hint(
            "data that was accepted did not reach the medium; see dmesg, then try another stick",
        )
    }

    pub(crate) fn still_the_same(&self, device: &dyn BlockDevice) -> Result<()> {
        device.check_identity().map_err(|change| {
            Error::refused(format!(
                "{} is no longer the device that was approved: {change}",
                self.target
            ))
            .hint("list the devices again (mediawriter devices) and start over")
        })
    }
}

fn too_large(at_least: u64, has: u64, target: &str) -> Error {
    Error::refused(format!(
        "the image is larger than {target}: at least {}, the device has {}",
        Bytes(at_least),
        Bytes(has)
    ))
    .hint("use a larger stick")
}

/// Threads that stop together: the first failure, or a signal, stops all.
#[derive(Debug)]
pub(crate) struct Crew<'a> {
    cancel: &'a CancelToken,
    stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(cancel: &'a CancelToken) -> Self {
        Self { cancel, stopped: AtomicBool::new(false), failure: Mutex::new(None) }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.cancel.signal().is_some()
    }

    /// Stops everybody; the first failure is the one that is reported.
    pub(crate) fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Runs a thread's work. A panic there is a failure like any other: the rest stops, nobody
    /// waits for a buffer that died with it, and the medium is made unbootable.
    pub(crate) fn guard<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.map_err(|_| self.fail(internal("a worker thread panicked"))).ok()
    }

    /// Ends the crew's work: the signal, the failure, or nothing. The signal first, because what
    /// fails after it, a read that was given up for it, say, is its consequence.
    pub(crate) fn result(self) -> Result<()> {
        self.cancel.check()?;
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// How long each part was at work, to name the bottleneck.
#[derive(Debug, Default)]
struct Busy(Mutex<Duration>);

impl Busy {
    fn during<T>(&self, clock: &dyn Clock, work: impl FnOnce() -> T) -> T {
        let start = clock.now();
        let done = work();
        let took = clock.now().saturating_sub(start);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += took;
        done
    }

    /// The same for work that no device takes part in. It takes no virtual time; what passes
    /// meanwhile is the device's, and depends on how threads are scheduled.
    fn computing<T>(&self, clock: &dyn Clock, work: impl FnOnce() -> T) -> T {
        if clock.is_virtual() { work() } else { self.during(clock, work) }
    }

    fn total(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn internal(what: &str) -> Error {
    Error::new(Kind::Internal, what)
        .hint("this is a bug in mediawriter; please report it with the record")
}
