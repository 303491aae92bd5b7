//! XML 1.0 (fifth edition) with namespaces: bytes in, a compact tree or events out, and bytes again.
//!
//! Parses documents in UTF-8, UTF-16, ISO-8859-1, US-ASCII and windows-1252 into a [`Document`] or the
//! events of a [`reader::Reader`]. [`DocumentFeed`] and [`reader::EventFeed`] do the same while bytes
//! arrive. [`Document`] can be edited; [`Writer`] serialises. XPath and XSLT build on it.
//!
//! The parser is strict: a document that isn't well-formed is rejected with an [`Error`] that has line
//! and column, never repaired. Document type declarations are rejected unless [`Doctype::Read`] permits
//! them. It doesn't validate.
//!
//! ```
//! let document = penstock_xml::Document::parse(b"<order><symbol>IBM</symbol></order>")?;
//! let symbol = document.element().and_then(|order| order.first_child());
//! assert_eq!(symbol.map(|node| node.string_value()).as_deref(), Some("IBM"));
//! # Ok::<(), penstock_xml::Error>(())
//! ```
//!
//! Architecture invariant: the crate opens no file and no connection. External entities are read only
//! through an [`EntityResolver`] that the caller supplies. Time and memory are linear in the input and in
//! the limits of [`Options`]; no function recurses on the depth of a document.

#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod build;
mod chars;
mod content;
mod declaration;
mod decode;
mod document;
mod dtd;
mod edit;
mod entities;
mod error;
mod feed;
mod filter;
mod index;
mod input;
pub mod limits;
mod machine;
mod names;
mod namespaces;
mod node;
mod options;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod prune;
pub mod reader;
mod scan;
mod shared;
mod sink;
mod writer;

pub use chars::{is_ncname, is_text};
pub use decode::lossy_text;
pub use document::{Document, NodeId};
pub use edit::QNameRef;
pub use entities::{EntityResolver, EntityText, ExternalEntity};
pub use error::{Error, ErrorKind, Position, PositionIndex};
pub use feed::DocumentFeed;
pub use filter::{FilteredChildren, FilteredDescendants, NodeFilter, Row};
pub use index::NamespacesInScope;
pub use input::Input;
pub use names::{NameId, XML_NAMESPACE, XMLNS_NAMESPACE};
pub use node::{Ancestors, Attributes, Children, Descendants, Kind, Node};
pub use options::{Doctype, Limits, Options};
pub use shared::NamesKey;
pub use sink::{Builder, Sink, copy_declaring, copy_subtree};
pub use writer::{
    DoctypeIds, Encoding, PreparedMarkup, PreparedMarkupBuilder, Writer, WriterOptions,
};

/// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
