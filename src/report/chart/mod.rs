//! Charts of runs, as SVG (`svg`) and as pixels (`png`). Pure.

pub mod png;
pub mod svg;

use super::runs::Run;
use crate::chart::plot::{self, Curve, Series};
pub use crate::chart::{braille, plot::Axis};

/// The curve of a run in at most `columns` columns, between two places on the axis.
pub fn curve(run: &Run, axis: Axis, columns: usize, range: (f64, f64)) -> Curve {
    let series = Series { label: run.label(), rows: &run.rows, offset: run.offset };
    plot::curve(series, axis, columns, range)
}
