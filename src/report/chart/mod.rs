//! Charts of runs: what is drawn (`plot`), as SVG (`svg`), as pixels (`png`) and in characters (`braille`). No values
//! are smoothed: where a pixel stands for several seconds, the band shows the slowest and the
//! fastest of them and the line their mean. Pure.

pub mod braille;
pub mod plot;
pub mod png;
pub mod svg;
