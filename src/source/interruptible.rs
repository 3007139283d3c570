//! Reading from a pipe or a terminal that may never say anything: waits with poll(2), so that a
//! wish to stop is seen several times a second. Signals do not interrupt the read itself, because
//! a thread of its own waits for them (`host::signals`).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cancel::CancelToken;

/// A descriptor that is read with patience.
#[derive(Debug)]
pub struct Interruptible {
    file: File,
    cancel: CancelToken,
}

/// Milliseconds between two looks at the wish to stop.
const PATIENCE: u16 = 100;

impl Interruptible {
    /// Takes an open pipe or terminal.
    pub fn new(file: File, cancel: CancelToken) -> Self {
        Self { file, cancel }
    }

    /// Standard input, duplicated.
    pub fn stdin(cancel: CancelToken) -> io::Result<Self> {
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Self::new(File::from(fd), cancel))
    }
}

impl Read for Interruptible {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.cancel.signal().is_some() {
                // Not `Interrupted`: callers repeat that one.
                return Err(io::Error::other("cancelled"));
            }
            let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::from(PATIENCE)) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return self.file.read(buf),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}
