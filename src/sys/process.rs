//! Programs that this one starts: how long they live.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getpid, getppid};

/// Has the kernel kill the program when the thread that starts it ends, in whatever way it ends
/// (PR_SET_PDEATHSIG, prctl(2)). SIGKILL, because the blocked signals of this process are inherited.
pub fn ends_with_this_thread(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have ended before the call; then nobody is told any more.
        if getppid() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec `prepare` makes two bare system calls, prctl(2) and getppid(2);
    // it takes no lock, allocates nothing and touches no memory but its own.
    unsafe { command.pre_exec(prepare) };
}
