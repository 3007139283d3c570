//! The only unsafe code of the program: block-device ioctls, SG_IO and two allocations of the
//! kernel ABI that nix does not wrap. Each function is one system call with a safe signature;
//! nothing here decides anything.
#![expect(unsafe_code, reason = "ioctls take raw pointers; this folder is where that happens")]

pub mod buffer;
pub mod ioctl;
pub mod sgio;
