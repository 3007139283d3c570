//! What is left of a run: the record (one JSON file) and texts made from records. Works offline,
//! on records alone; never touches a device and never reads a clock.

mod bottleneck;
mod builder;
pub mod chart;
pub mod compare;
pub mod export;
pub mod html;
pub mod hyperfine;
pub mod import;
#[cfg(test)]
pub(crate) mod lab;
mod page;
pub mod record;
pub mod runs;
pub mod table;
mod tests_table;
mod text;

pub use builder::{RecordBuilder, without_secrets};
pub use record::RunRecord;
pub use text::timing_report;
