//! XML 1.0 (fifth edition) with namespaces: bytes in, a compact tree or events out, and bytes again.
//!
//! The first of the engines: xpath and xslt walk its trees, mediators edit them, XSLT's output goes
//! through its writer. Reads documents in UTF-8, UTF-16, ISO-8859-1, US-ASCII and windows-1252; answers
//! a [`Document`], or the events of a [`reader::Reader`], or an [`XmlError`] with line and column. Bytes that
//! still come are taken in pieces by [`DocumentFeed`] and [`reader::EventFeed`], with the same answers.
//!
//! It is strict: what isn't well-formed is refused, never repaired. A document type declaration is refused
//! unless [`Doctype::ReadInternal`] asks for the internal subset. It doesn't validate.
//!
//! ```
//! let document = penstock_xml::Document::parse(b"<order><symbol>IBM</symbol></order>")?;
//! let symbol = document.element().and_then(|order| order.first_child());
//! assert_eq!(symbol.map(|node| node.string_value()).as_deref(), Some("IBM"));
//! # Ok::<(), penstock_xml::XmlError>(())
//! ```
//!
//! Architecture invariant: nothing but the given bytes is ever read, neither file nor network, whatever a
//! document says. Time and memory are linear in the input and in the limits of [`Options`]; no function
//! recurses on the depth of a document.

#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod build;
mod chars;
mod declaration;
mod decode;
mod document;
mod dtd;
mod edit;
mod entities;
mod error;
mod feed;
mod input;
pub mod limits;
mod machine;
mod names;
mod namespaces;
mod node;
mod options;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
pub mod reader;
mod scan;
mod sink;
mod sought;
mod without;
mod writer;

pub use chars::{is_ncname, is_text};
pub use decode::lossy_text;
pub use document::{Document, NodeId};
pub use edit::{EditError, QNameRef};
pub use entities::{EntityResolver, EntityText, ExternalEntity};
pub use error::{Position, XmlError, XmlErrorKind};
pub use feed::DocumentFeed;
pub use input::Input;
pub use names::{NameId, XML_NAMESPACE, XMLNS_NAMESPACE};
pub use node::{Ancestors, Attributes, Children, Descendants, Kind, Node};
pub use options::{Doctype, Limits, Options};
pub use sink::{Builder, Sink, send};
pub use sought::{Sought, SoughtChildren, SoughtDescendants};
pub use writer::{DoctypeIds, Encoding, Stamp, StampBuilder, WriteError, Writer, WriterOptions};
