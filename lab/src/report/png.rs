//! A picture as PNG, for documents that take no SVG. Drawn by resvg, with a font of this machine.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::chart::{Chart, Setting};

/// Pixels per unit of the picture: 480 units are 960 pixels.
const SCALE: f32 = 2.0;
/// Families that are taken, the first that is there.
const FAMILIES: &[&str] = &["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];

/// Why there is no PNG.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PngError {
    #[error("no font for the PNGs on this machine. On Debian: apt-get install fonts-dejavu-core")]
    Font,
    #[error("{0}")]
    Drawing(String),
}

/// Draws charts with the fonts that were found at the start.
pub struct Painter {
    options: Options<'static>,
}

impl Painter {
    /// # Errors
    /// [`PngError::Font`] where the machine has no font at all.
    pub fn new() -> Result<Self, PngError> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        Self::with(fonts)
    }

    fn with(mut fonts: fontdb::Database) -> Result<Self, PngError> {
        let has = |family: &str| {
            fonts.faces().any(|face| face.families.iter().any(|(name, _)| name == family))
        };
        let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
        let known = FAMILIES.iter().find(|family| has(family)).map(|family| (*family).to_owned());
        let family = known.or_else(any).ok_or(PngError::Font)?;
        fonts.set_sans_serif_family(family.clone());
        let options =
            Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
        Ok(Self { options })
    }

    /// # Errors
    /// [`PngError::Drawing`] when the picture can't be drawn.
    pub fn png(&self, chart: &Chart) -> Result<Vec<u8>, PngError> {
        let failed =
            |what: &dyn std::fmt::Display| PngError::Drawing(format!("{}: {what}", chart.id));
        let svg = chart.svg(Setting::Pixels);
        let tree = Tree::from_str(&svg, &self.options).map_err(|error| failed(&error))?;
        let size = tree.size().to_int_size().scale_by(SCALE);
        let size = size.ok_or_else(|| failed(&"no size"))?;
        let mut pixels =
            Pixmap::new(size.width(), size.height()).ok_or_else(|| failed(&"no size"))?;
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_fonts_is_told_what_to_install() {
        let refused = Painter::with(fontdb::Database::new()).err();
        assert_eq!(refused, Some(PngError::Font));
        assert!(PngError::Font.to_string().contains("fonts-dejavu-core"));
    }
}
