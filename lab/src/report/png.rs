//! Charts as PNG files, for documents that cannot embed SVG. Rendered by resvg with an installed font; without the
//! cargo feature `png`, reports contain SVG files only and `lab report` prints a note.

use super::chart::Chart;

/// Why a chart was not written as PNG.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PngError {
    #[error("no PNG charts: no fonts are installed. On Debian: apt-get install fonts-dejavu-core")]
    Font,
    #[error(
        "no PNG charts: not compiled in; build with the cargo feature `png` (`make release` includes it)"
    )]
    Feature,
    #[error("chart {chart} cannot be rendered as PNG: {reason}")]
    Drawing { chart: String, reason: String },
}

#[cfg(feature = "png")]
mod draw {
    use std::sync::Arc;

    use resvg::tiny_skia::{Pixmap, Transform};
    use resvg::usvg::{Options, Tree, fontdb};

    use super::super::chart::Setting;
    use super::{Chart, PngError};

    /// Pixels per unit of the SVG: 480 units become 960 pixels.
    const SCALE: f32 = 2.0;
    /// Preferred font families, best first.
    const FAMILIES: &[&str] =
        &["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];

    /// Renders charts with the fonts that were installed when it was created.
    pub struct Painter {
        options: Options<'static>,
    }

    impl Painter {
        /// # Errors
        /// [`PngError::Font`] if no font is installed.
        pub fn new() -> Result<Self, PngError> {
            let mut fonts = fontdb::Database::new();
            fonts.load_system_fonts();
            Self::with(fonts)
        }

        pub(super) fn with(mut fonts: fontdb::Database) -> Result<Self, PngError> {
            let has = |family: &str| {
                fonts.faces().any(|face| face.families.iter().any(|(name, _)| name == family))
            };
            let any = || Some(fonts.faces().next()?.families.first()?.0.clone());
            let known =
                FAMILIES.iter().find(|family| has(family)).map(|family| (*family).to_owned());
            let family = known.or_else(any).ok_or(PngError::Font)?;
            fonts.set_sans_serif_family(family.clone());
            let options =
                Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
            Ok(Self { options })
        }

        /// # Errors
        /// [`PngError::Drawing`] if the chart cannot be rendered.
        pub fn png(&self, chart: &Chart) -> Result<Vec<u8>, PngError> {
            let failed = |reason: &dyn std::fmt::Display| PngError::Drawing {
                chart: chart.id.to_string(),
                reason: reason.to_string(),
            };
            let svg = chart.svg(Setting::Pixels);
            let tree = Tree::from_str(&svg, &self.options).map_err(|error| failed(&error))?;
            let size = tree.size().to_int_size().scale_by(SCALE);
            let size = size.ok_or_else(|| failed(&"its size is zero"))?;
            let mut pixels = Pixmap::new(size.width(), size.height())
                .ok_or_else(|| failed(&"its size is zero"))?;
            resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
            pixels.encode_png().map_err(|error| failed(&error))
        }
    }
}

#[cfg(not(feature = "png"))]
mod draw {
    use super::{Chart, PngError};

    /// Never constructed: this build cannot render PNG files.
    pub enum Painter {}

    impl Painter {
        /// # Errors
        /// [`PngError::Feature`], always.
        pub fn new() -> Result<Self, PngError> {
            Err(PngError::Feature)
        }

        /// # Errors
        /// None: there is no `Painter` to call it on.
        pub fn png(&self, _chart: &Chart) -> Result<Vec<u8>, PngError> {
            match *self {}
        }
    }
}

pub use draw::Painter;

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "png")]
    #[test]
    fn without_fonts_the_message_names_the_package_to_install() {
        let error = Painter::with(resvg::usvg::fontdb::Database::new()).err();
        assert_eq!(error, Some(PngError::Font));
        assert!(PngError::Font.to_string().contains("fonts-dejavu-core"));
    }

    #[cfg(not(feature = "png"))]
    #[test]
    fn without_png_the_message_names_the_feature() {
        assert_eq!(Painter::new().err(), Some(PngError::Feature));
        assert!(PngError::Feature.to_string().contains("feature `png`"));
    }
}
