//! XSLT 1.0: a sheet's bytes in, a program; with it, an [`xml::Document`] in, bytes out.
//!
//! The third of the engines: stands on `xml` and `xpath`; mediators transform messages with it. A
//! [`Stylesheet`] is compiled once, at load, and may then be used by many threads at once. Its output goes
//! straight to bytes; only result-tree fragments become trees. What isn't supported is refused at load.
//!
//! ```
//! let sheet = br#"<order xsl:version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"
//!     ><xsl:value-of select="/orders/symbol"/></order>"#;
//! let sheet = xslt::Stylesheet::compile(sheet, &xslt::Refuse)?;
//! let source = xml::Document::parse(b"<orders><symbol>IBM</symbol></orders>")?;
//! let mut out = Vec::new();
//! sheet.transform(&source, &xslt::Params::new(), &mut out)?;
//! assert!(out.ends_with(b"<order>IBM</order>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Architecture invariant: nothing is read but what a [`Resolver`] gives, and the one that is there by
//! default gives nothing. A run is bounded in steps, depth and bytes (`crate::limits::XSLT_*`) and doesn't
//! recurse, neither on the depth of a document nor on that of a sheet's calls.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod collation;
mod compile;
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
mod output;
mod pool;
mod program;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod rules;
mod run;
mod space;
mod undecided;

pub use error::{CompileError, TransformError};
pub use load::{Refuse, Resolved, Resolver};
pub use run::{Limits, Params};

use knock_out::is_out;
use pool::Pool;
use program::Program;

/// A compiled stylesheet.
#[derive(Debug)]
pub struct Stylesheet {
    program: Program,
    /// The main sheet, which `document('')` reads.
    main: xml::Document,
}

impl Stylesheet {
    /// Compiles a sheet; `resolver` gives what it includes and imports.
    ///
    /// # Errors
    /// With the place: what isn't well-formed, what XSLT 1.0 doesn't allow, and what isn't supported.
    pub fn compile(bytes: &[u8], resolver: &dyn Resolver) -> Result<Self, CompileError> {
        let main = load::parse(bytes, None).map_err(|error| CompileError {
            line: error.line,
            column: error.column,
            uri: String::new(),
            message: error.kind.to_string(),
        })?;
        let program = compile::compile(&main, &Pool::default(), resolver)?;
        Ok(Self { program, main })
    }

    /// The same sheet with other limits for each run than [`limits`](crate::limits) has.
    #[must_use]
    pub fn limited(mut self, limits: Limits) -> Self {
        self.program.limits = limits;
        self
    }

    /// The parameters of the sheet, as [`Params`] names them, in the order of the sheet.
    pub fn params(&self) -> impl Iterator<Item = String> {
        let params = self.program.globals.iter().filter(|global| global.is_param);
        params.map(|global| match global.name.namespace.as_str() {
            "" => global.name.local.clone(),
            namespace => format!("{{{namespace}}}{}", global.name.local),
        })
    }

    /// Transforms a document; `document()` is refused. `out` is appended to, and only when all went well.
    ///
    /// # Errors
    /// With the place of the instruction: limits, what an expression or the resolver reports, names and
    /// text that XML can't say, `xsl:message` with `terminate`.
    pub fn transform(
        &self,
        source: &xml::Document,
        params: &Params,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        self.transform_with(source, params, &Refuse, out)
    }

    /// The media type of what it makes: `media-type` of `xsl:output`, or what the method has by default. A
    /// sheet without a method is taken for XML here, though its results may turn out to be HTML.
    #[must_use]
    pub fn media_type(&self) -> &str {
        self.program.output.media_type()
    }

    /// As [`Stylesheet::transform`]; `document()` and messages go to `resolver`.
    ///
    /// # Errors
    /// As [`Stylesheet::transform`].
    pub fn transform_with(
        &self,
        source: &xml::Document,
        params: &Params,
        resolver: &dyn Resolver,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        let pool = Pool::default();
        let bytes = run::transform(&self.program, &self.main, source, params, resolver, &pool)?;
        if out.is_empty() {
            *out = bytes;
        } else {
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }
}
