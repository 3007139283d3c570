//! mediawriter makes install media and proves them.

pub mod cancel;
pub mod cli;
pub mod device;
pub mod digest;
pub mod error;
pub mod event;
pub mod flow;
pub mod host;
pub mod image;
pub mod meter;
pub mod report;
pub mod source;
pub mod sys;
pub mod text;
pub mod time;
pub mod ui;
pub mod units;
