//! A program that draws no PNG, and says so.

use super::super::svg::Palette;
use crate::error::{Error, Result};

/// Fonts: there are none for this program.
#[derive(Debug)]
pub enum Fonts {}

impl Fonts {
    /// Says why there are none.
    pub fn of_system() -> Result<Self> {
        Err(Error::refused("this mediawriter was built without PNG")
            .hint("take --svg instead, or build it with `--features png`, as packages do"))
    }
}

/// Never called, as there are no fonts to call it with.
pub fn draw(_: &str, _: Palette, fonts: &Fonts) -> std::result::Result<Vec<u8>, String> {
    match *fonts {}
}
