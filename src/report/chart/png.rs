//! Charts as PNG, where the program was built with the feature `png`: what draws them is a tree of
//! thirty crates that serves this alone.

#[cfg(feature = "png")]
mod drawn;
#[cfg(not(feature = "png"))]
mod left_out;

#[cfg(feature = "png")]
pub use drawn::{Fonts, draw};
#[cfg(not(feature = "png"))]
pub use left_out::{Fonts, draw};
