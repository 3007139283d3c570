//! mediawriter makes install media and proves them.

pub mod cancel;
pub mod device;
pub mod error;
pub mod event;
pub mod meter;
pub mod report;
pub mod text;
pub mod time;
pub mod ui;
pub mod units;
