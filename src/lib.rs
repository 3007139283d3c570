//! mediawriter makes install media and proves them: it writes an image to a stick around the page
//! cache, logs every second, reads everything back and compares.
//!
//! A line uses lines below it: tests/house/architecture.rs has the exact table, docs/design.md the
//! data flow.
//!
//! ```text
//! cli                            what was typed becomes a job; wires everything together
//! bench                          profiles, tests with many I/Os in flight, real capacities
//! flow   report   ui             flash, verify, discard; records and reports; screens and logs
//! windows   clone                Windows discs and devices as images
//! device   source                block devices; where images come from
//! host  decode  analysis  chart  the computer, the caller; images out of compressed files; verdicts
//!                                over speeds; what is drawn of them
//! catalog  meter  image          images with a name; rows of one second; what an image is
//! proof   digest                 who signed a list of digests; SHA-256, chunk maps, lists
//! event  error  units  time  text  cancel        vocabulary
//! sys                            the only unsafe code: ioctls, aligned buffers
//! ```
//!
//! # Glossary
//!
//! * *source*: the image as it is published; a file or a pipe.
//! * *image*: the bytes that belong on the medium.
//! * *medium* or *target*: what is written: a stick, a card, a disk, a file that stands for one.
//! * *head* and *tail*: the first and the last MiB of a medium, where boot sectors and partition
//!   tables lie. What the image puts there is held back and written last (*released*).
//! * *chunk*: a buffer on its way to the medium, 4 MiB if not told otherwise.
//! * *chunk map*: a digest for each stretch of the image, in order; says where a medium differs.
//! * *phase*: a step of a job with a time of its own: settle, clear, discard, write, flush,
//!   release, verify.
//! * *row*: one second of a phase: bytes and I/Os that completed in it.
//! * *stall*: a time in which no I/O completed.
//! * *facts*: what is known about a device before it is opened.
//! * *rule* and *refusal*: what `device::policy` forbids, and one case of it.
//! * *verdict*: matched, differs, or not checked; the last is never a success.
//! * *run* and *record*: one call of a command, and the JSON file that keeps what it measured.

pub mod analysis;
pub mod bench;
pub mod cancel;
pub mod catalog;
pub mod chart;
pub mod cli;
pub mod clone;
pub mod decode;
pub mod device;
pub mod digest;
pub mod error;
pub mod event;
pub mod flow;
pub mod host;
pub mod image;
pub mod meter;
pub mod proof;
pub mod report;
pub mod source;
pub mod sys;
pub mod text;
pub mod time;
pub mod ui;
pub mod units;
pub mod windows;
