//! The simulated stick, `sim:SIZE,key=value...` (docs/sim.md): memory, a model of its speed on a
//! virtual clock, and faults, each a wrapper around a device. It is reachable from the real
//! command line, so the shipped program's text, JSON and exit codes are tested with exact numbers;
//! nothing sleeps.

use std::sync::Arc;

use super::BlockDevice;
use crate::time::SimClock;

pub mod fake;
pub mod fault;
pub mod memory;
pub mod models;
pub mod spec;
pub mod speed;

/// Builds the device that a spec describes: memory, then fake capacity, then speed, then faults.
pub fn build(spec: &spec::Spec, clock: &Arc<SimClock>) -> Box<dyn BlockDevice> {
    let memory = memory::Memory::new(spec.size, spec.sector, spec.prefill, spec.discard);
    let memory = if spec.data { memory } else { memory.forgetful() };
    let mut device: Box<dyn BlockDevice> = Box::new(memory);
    if let Some(fake) = spec.fake {
        device = Box::new(fake::Fake::new(device, fake));
    }
    device = Box::new(speed::Timed::new(device, spec.speed, Arc::clone(clock)));
    for fault in &spec.faults {
        device = Box::new(fault::Faulty::new(device, fault.clone(), Some(Arc::clone(clock))));
    }
    device
}
