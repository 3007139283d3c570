//! Programs that this one starts: how long they live. Descriptors that it was started with.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd as _;
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

/// Another descriptor of an open file that this process was started with: number 1 for standard output.
pub fn duplicate(number: i32) -> io::Result<File> {
    // SAFETY: fcntl(2) checks the number itself and returns a new descriptor, or -1.
    let new = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if new < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made `new` a moment ago; nobody else owns it.
    Ok(unsafe { File::from_raw_fd(new) })
}
