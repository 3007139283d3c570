//! The wish to stop, polled between I/Os. Set by signals (`host::signals`) or by a failure of
//! another thread of the same job.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::error::{Error, Kind, Result};

/// Cheap to clone; all clones are one flag.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicI32>);

impl CancelToken {
    /// Asks everybody to stop because of this signal. The first signal stays the reason.
    pub fn cancel(&self, signal: i32) {
        // Only the first store matters: a second signal does not change why we stop.
        self.0.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).ok();
    }

    /// The signal that asked to stop, if any.
    pub fn signal(&self) -> Option<i32> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// `Err(Cancelled)` once somebody asked to stop.
    pub fn check(&self) -> Result<()> {
        match self.signal() {
            None => Ok(()),
            Some(signal) => {
                let name = match signal {
                    1 => "SIGHUP",
                    2 => "SIGINT",
                    15 => "SIGTERM",
                    _ => "a signal",
                };
                Err(Error::new(Kind::Cancelled(signal), format!("cancelled by {name}")))
            }
        }
    }
}
