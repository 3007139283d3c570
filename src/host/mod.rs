//! The computer the program runs on and the person who started it: who that is, what the machine
//! is made of, signals, rights, how to keep it awake, and the programs of others that are run.
//!
//! Knows nothing about devices, images or screens, and prints nothing.

mod bus;
pub mod facts;
pub mod inhibit;
pub mod invoker;
pub mod notify;
pub mod ntfs3g;
pub mod power;
pub mod privilege;
pub mod signals;
pub mod udisks;
