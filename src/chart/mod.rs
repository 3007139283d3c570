//! Charts before anybody draws them: seconds as columns with an axis (`plot`), and in characters
//! (`braille`). No values are smoothed: a column that stands for several seconds knows the slowest
//! and the fastest of them and their mean.
//!
//! Owns: what is in a column, ticks, dots. Must not know runs, records, files or screens. Pure.

pub mod braille;
pub mod plot;
