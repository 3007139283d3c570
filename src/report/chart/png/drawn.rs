//! Charts drawn by resvg, with a font of this machine: none comes with the program. Reads font files,
//! nothing else.

use std::sync::Arc;

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Options, Tree};

use super::super::svg::{Palette, plain};
use crate::error::{Error, Kind, Result};

/// Pixels for each unit of a chart: sharp on paper too.
const SCALE: f32 = 2.0;
/// Sans-serif fonts that machines have, the usual ones first.
const FONTS: [&str; 8] = [
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans",
    "Ubuntu",
    "Cantarell",
    "FreeSans",
    "Open Sans",
    "Arial",
];

/// The fonts of this machine.
#[derive(Debug)]
pub struct Fonts(Arc<Database>);

impl Fonts {
    /// Those of the system.
    pub fn of_system() -> Result<Self> {
        let mut found = Database::new();
        found.load_system_fonts();
        let has = |name: &str| {
            found.query(&Query { families: &[Family::Name(name)], ..Query::default() }).is_some()
        };
        let known = FONTS.into_iter().find(|name| has(name)).map(str::to_owned);
        let any = || found.faces().next()?.families.first().map(|family| family.0.clone());
        let name = known.or_else(any).ok_or_else(|| {
            Error::new(Kind::Io, "there is no font on this machine to draw a PNG with")
                .hint("install one (Debian: fonts-dejavu-core), or take --svg, which needs none")
        })?;
        found.set_sans_serif_family(name);
        Ok(Self(Arc::new(found)))
    }
}

/// A chart as the bytes of a PNG file, on light ground.
pub fn draw(chart: &str, palette: Palette, fonts: &Fonts) -> std::result::Result<Vec<u8>, String> {
    let options = Options { fontdb: Arc::clone(&fonts.0), ..Options::default() };
    let tree = Tree::from_str(&plain(chart, palette), &options).map_err(|e| e.to_string())?;
    let size = tree.size().to_int_size();
    let size = size.scale_by(SCALE).ok_or("the chart has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the chart is too large")?;
    pixels.fill(Color::WHITE);
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::svg::bars;

    /// Text is pixels too: a bar with a name has more dark ones than a bar without.
    #[test]
    fn a_chart_has_its_bars_and_its_words() {
        let Ok(fonts) = Fonts::of_system() else { return };
        let dark = |name: &str| {
            let chart = bars("", "s", &[(name.to_owned(), 1.0, String::new())]).unwrap();
            let png = draw(&chart, Palette::Safe, &fonts).unwrap();
            let pixels = Pixmap::decode_png(&png).unwrap();
            assert_eq!((pixels.width(), pixels.height()), (1800, 164));
            let blue = pixels.pixels().iter().filter(|p| (p.red(), p.blue()) == (0, 178)).count();
            assert!(blue > 480 * 2 * 20 * 2 * 9 / 10, "{blue}");
            pixels.pixels().iter().filter(|p| p.red() < 128 && p.blue() < 128).count()
        };
        assert!(dark("A stick of a long name") > dark("") + 200);
    }
}
