//! What a command does with a medium besides its job, in one place for all of them: it says what the
//! medium is, has its partition table read again, ejects it.

use std::time::Duration;

use super::labels;
use super::open::Target;
use super::rootless;
use super::session::Session;
use crate::device::BlockDevice;
use crate::device::facts::Facts;
use crate::device::power;
use crate::event::notice::Notice;
use crate::ui::devices::{Verdict, detail};
use crate::units::Bytes;

/// What a target is and holds, for whoever has to say yes.
pub(super) fn in_words(target: &Target) -> String {
    let mut facts = target.facts();
    match target {
        Target::Block(_) => {
            labels::fill(&mut facts);
            detail(&facts, &Verdict::of(&facts))
        }
        Target::File(_) | Target::Sim(_) => format!("{} ({})\n", target.name(), Bytes(facts.size)),
    }
}

/// The same where all of it is overwritten, below the word `Target`.
pub(super) fn to_be_lost(target: &Target) -> String {
    let mut text = "Target   everything on it will be lost:\n".to_owned();
    text.extend(in_words(target).lines().map(|line| format!("         {line}\n")));
    text
}

/// The record says which device it is; that it has no direct I/O is said wherever it is written.
pub(super) fn describe(session: &Session, target: &Target, device: &dyn BlockDevice) {
    session.edit(|record| {
        record.device = Some(target.facts());
        record.geometry = Some(device.geometry().clone());
    });
    warn_without_direct_io(session, device, &target.name());
}

/// Speeds through the kernel's cache are no speeds of the medium.
pub(super) fn warn_without_direct_io(session: &Session, device: &dyn BlockDevice, name: &str) {
    if !device.geometry().direct {
        session.cx.events.tell(Notice::NoDirectIo { target: name.to_owned() });
    }
}

/// The kernel reads the partition table again, only now that nothing is left to be read back.
pub(super) fn reread_partition_table(device: &dyn BlockDevice, session: &Session) {
    let mut answer = device.reread_partitions();
    for _ in 0..10 {
        // A desktop that tries to mount the old partitions holds them for a moment.
        if !answer.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
            break;
        }
        crossbeam_channel::after(Duration::from_millis(200)).recv().ok();
        answer = device.reread_partitions();
    }
    match answer {
        Ok(()) => {}
        // A loop device without partition scanning, a device that is gone: nothing to see.
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::EINVAL | libc::ENXIO | libc::ENODEV | libc::ENOTTY)
            ) => {}
        // It is for root (CAP_SYS_ADMIN); udev does it as soon as the stick is closed.
        Err(e) if e.raw_os_error() == Some(libc::EACCES) && labels::udev_runs() => {}
        Err(e) => session.cx.events.tell(Notice::PartitionsNotReread { why: e.to_string() }),
    }
}

/// Takes it off the bus; whether that worked changes nothing of the verdict.
pub(super) fn eject(device: &dyn BlockDevice, facts: &Facts, session: &Session) {
    let done = power::take_off(device, facts).or_else(|error| rootless::eject(facts, error));
    session.cx.events.tell(match done {
        Ok(what) => Notice::Ejected(what),
        Err(e) => Notice::NotEjected { target: session.cx.target.clone(), why: e.to_string() },
    });
}
