//! Whether a device can be left to be zero by itself: nothing is believed, everything is tried and
//! read. That a discarded range reads as zeros is promised by no standard
//! (Documentation/ABI/stable/sysfs-block, discard_zeroes_data).

use std::io;

use super::Context;
use super::discard::sample;
use super::guard::Ends;
use crate::device::sparse::Zeros;
use crate::device::{BlockDevice, Discard, full};
use crate::error::Result;
use crate::event::Span;
use crate::event::notice::Notice;
use crate::sys::buffer::AlignedBuf;
use crate::units::MIB;

/// The cheapest means that works on this device; `None`: zeros are written like everything else.
pub(super) fn prove(
    device: &dyn BlockDevice,
    discarded: Option<Span>,
    cx: &Context,
) -> Result<Option<Zeros>> {
    if let Some(range) = discarded.filter(|range| range.len > 0) {
        let samples = sample(device, range, cx)?;
        if samples.taken > 0 && samples.zero == samples.taken {
            let (zero, taken) = (samples.zero, samples.taken);
            cx.events.tell(Notice::ReadsAsZeros { zero, taken });
            return Ok(Some(Zeros::AreThere(range.offset..range.end())));
        }
    }
    // What went wrong with the attempt does not matter: zeros are data then.
    if zeroes_by_itself(device).unwrap_or(false) {
        cx.events.tell(Notice::ZeroesItself);
        return Ok(Some(Zeros::MadeByDevice));
    }
    cx.cancel.check()?;
    cx.events.tell(Notice::NotSparse { target: cx.target.clone() });
    Ok(None)
}

/// Writes a pattern behind the guarded head, lets the device zero it, and looks.
fn zeroes_by_itself(device: &dyn BlockDevice) -> io::Result<bool> {
    const LEN: u64 = 64 << 10;
    let size = device.geometry().size;
    let at = Ends::of(size).head.end().next_multiple_of(MIB);
    if at + LEN > Ends::of(size).tail.offset {
        return Ok(false);
    }
    let mut block = AlignedBuf::zeroed(usize::try_from(LEN).map_err(io::Error::other)?);
    block.fill(0xa5);
    full::write_full(device, at, &block)?;
    device.discard(at, LEN, Discard::ZeroByDevice)?;
    device.invalidate_cache()?;
    full::read_full(device, at, &mut block)?;
    Ok(block.iter().all(|&byte| byte == 0))
}
