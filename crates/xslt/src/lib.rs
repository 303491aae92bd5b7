#![doc = include_str!("../README.md")]
//! ## Architecture
//!
//! The third of the engines, after `xml` and `xpath`. A [`Stylesheet`] is compiled once and can be shared by threads.
//! Output is written straight to bytes; only result tree fragments become trees.
//!
//! Architecture invariant: documents and stylesheets are read only through a [`Resolver`], and the default one provides
//! none. All work and memory of a transformation is charged to one [`Budget`]. Recursion depends neither on the depth
//! of a document nor on that of template calls.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod collation;
mod compile;
mod deferred;
mod error;
mod exslt;
mod format;
mod functions;
mod html;
#[cfg(feature = "knock-out")]
pub mod knock_out;
#[cfg(not(feature = "knock-out"))]
mod knock_out;
pub mod limits;
mod load;
mod numbering;
mod options;
mod output;
mod program;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod rules;
mod run;
mod space;

pub use error::{Error, ErrorKind};
pub use load::{NoResolver, Resolver, Resource};
pub use options::{Options, Params};
pub use xpath::{Budget, BudgetExceeded};

use program::Program;

/// A compiled stylesheet.
#[derive(Debug)]
pub struct Stylesheet {
    program: Program,
}

impl Stylesheet {
    /// Compiles a stylesheet. `resolver` provides the stylesheets that it includes and imports, and the external
    /// parameter entities of its document type.
    ///
    /// # Errors
    /// The stylesheet is not well-formed, not valid XSLT 1.0, uses something unsupported, or exceeds a limit.
    pub fn compile(bytes: &[u8], resolver: &dyn Resolver) -> Result<Self, Error> {
        compile::compile(bytes, resolver).map(|program| Self { program })
    }

    /// The names of the parameters that the stylesheet declares, as [`Params`] takes them.
    pub fn params(&self) -> impl Iterator<Item = String> {
        let params = self.program.globals.iter().filter(|global| global.is_param);
        params.map(|global| options::param_name(&global.name))
    }

    /// The media type of the result: `media-type` of `xsl:output`, or the default of the output method. Without a
    /// method it is that of XML, although a result whose document element is `html` is written as HTML.
    #[must_use]
    pub fn media_type(&self) -> &str {
        self.program.output.media_type()
    }

    /// Whether the output method is `text`, so that the result is not XML.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.program.output.method == program::Method::Text
    }

    /// Transforms a document with the default [`Budget`], and without access to other documents. The result is
    /// appended to `out`; after an error nothing is appended.
    ///
    /// # Errors
    /// [`Error`], with the place of the instruction that failed.
    pub fn transform(
        &self,
        source: &xml::Document,
        params: &Params,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let options = Options::new().params(params);
        self.transform_with(source, &options, &Budget::default(), out)
    }

    /// Transforms a document. Everything that the transformation does is charged to `budget`.
    ///
    /// # Errors
    /// As [`Stylesheet::transform`].
    pub fn transform_with(
        &self,
        source: &xml::Document,
        options: &Options<'_>,
        budget: &Budget,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let bytes = run::transform(&self.program, source, options, budget)?;
        if out.is_empty() {
            *out = bytes;
        } else {
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }

    /// As [`Stylesheet::transform_with`], with a string as the result: in UTF-8, unless `xsl:output` names an encoding
    /// with fewer characters. If [it is not text](Self::is_text), XML allows all characters in it.
    ///
    /// # Errors
    /// As [`Stylesheet::transform`].
    pub fn transform_to_string(
        &self,
        source: &xml::Document,
        options: &Options<'_>,
        budget: &Budget,
    ) -> Result<String, Error> {
        run::transform_to_string(&self.program, source, options, budget)
    }

    /// As [`Stylesheet::transform_with`], with a document as the result, which is neither written nor parsed:
    /// `xsl:output` has no effect.
    ///
    /// # Errors
    /// As [`Stylesheet::transform`].
    pub fn transform_to_document(
        &self,
        source: &xml::Document,
        options: &Options<'_>,
        budget: &Budget,
    ) -> Result<xml::Document, Error> {
        run::transform_to_document(&self.program, source, options, budget)
    }
}
