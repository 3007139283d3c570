//! The only unsafe code of the program: block-device ioctls and SG_IO of the kernel ABI
//! that nix does not wrap, advice on memory, and what happens between fork and exec. Each function is one system call with a safe signature;
//! nothing here decides anything.
#![expect(unsafe_code, reason = "ioctls take raw pointers; this folder is where that happens")]

pub mod buffer;
pub mod ioctl;
pub mod process;
pub mod sgio;
pub mod uring;
