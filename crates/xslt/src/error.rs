//! The error type, and the places in stylesheets that errors refer to.

use std::fmt;

use xml::{Document, Node, NodeId, Position};

/// A stylesheet that cannot be compiled, or a transformation that failed.
///
/// Line and column count from 1 and locate the instruction or attribute in the stylesheet; both are 0 when the error
/// has no place there. `uri` names the stylesheet module as the [`Resolver`](crate::Resolver) did; it is empty for the
/// main one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct Error {
    pub kind: ErrorKind,
    pub line: u32,
    pub column: u32,
    pub uri: String,
    pub message: String,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The stylesheet is not well-formed, or not valid XSLT 1.0.
    Invalid,
    /// The stylesheet uses something that is not supported.
    Unsupported,
    /// The resolver could not provide a stylesheet, document or entity, or provided one that is not XML.
    Resource,
    /// A parameter that the stylesheet does not declare.
    Parameter,
    /// A limit of [`limits`](crate::limits) or of [`Options`](crate::Options) was exceeded.
    Limit,
    /// `<xsl:message terminate="yes">`.
    Terminated,
    /// An instruction or expression failed.
    Transform,
}

impl Error {
    pub(crate) fn without_place(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, line: 0, column: 0, uri: String::new(), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.uri.is_empty() {
            write!(f, "{}: ", self.uri)?;
        }
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)
    }
}

/// A stylesheet module.
#[derive(Debug)]
pub(crate) struct Module<D> {
    pub(crate) document: D,
    pub(crate) uri: String,
}

/// A place in a stylesheet: a node, and an offset within its text. Line and column are only counted when an error is
/// reported, since each count reads the source from its beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    node: Option<NodeId>,
    offset: usize,
}

impl Place {
    pub(crate) fn of(node: Node<'_>) -> Self {
        Self { node: Some(node.id()), offset: 0 }
    }

    /// The place at byte `offset` of the text of an attribute.
    pub(crate) fn within(attribute: Node<'_>, offset: usize) -> Self {
        Self { node: Some(attribute.id()), offset }
    }

    /// Line, column, and the URI of the module.
    pub(crate) fn locate<'m>(
        self,
        modules: impl IntoIterator<Item = (&'m Document, &'m str)>,
    ) -> (u32, u32, String) {
        let found = self.node.and_then(|id| {
            modules.into_iter().find_map(|(document, uri)| Some((document.node(id)?, uri)))
        });
        let Some((node, uri)) = found else { return (0, 0, String::new()) };
        #[cfg(test)]
        LOCATED.with(|count| count.set(count.get() + 1));
        let mut position = node.position();
        let within = Position::of(node.text(), self.offset);
        if self.offset > 0 && within.line == 1 && position.line > 0 {
            position.column = position.column.saturating_add(within.column).saturating_sub(1);
        }
        (position.line, position.column, uri.to_owned())
    }
}

/// An error while a stylesheet is loaded.
#[derive(Debug)]
pub(crate) struct LoadError {
    pub(crate) kind: ErrorKind,
    pub(crate) place: LoadPlace,
    pub(crate) message: String,
}

#[derive(Debug)]
pub(crate) enum LoadPlace {
    Node(Place),
    /// An error in a module that could not be parsed.
    Text {
        line: u32,
        column: u32,
        uri: String,
    },
}

impl LoadError {
    pub(crate) fn at(place: Place, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, place: LoadPlace::Node(place), message: message.into() }
    }

    pub(crate) fn located<'m>(
        self,
        modules: impl IntoIterator<Item = (&'m Document, &'m str)>,
    ) -> Error {
        let (line, column, uri) = match self.place {
            LoadPlace::Node(place) => place.locate(modules),
            LoadPlace::Text { line, column, uri } => (line, column, uri),
        };
        Error { kind: self.kind, line, column, uri, message: self.message }
    }
}

#[cfg(test)]
thread_local! {
    /// How often a place was located on this thread.
    pub(crate) static LOCATED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_position_is_counted_unless_an_error_is_reported() {
        let located = |inside: &str| {
            LOCATED.with(|count| count.set(0));
            let text = format!(
                "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>{inside}</xsl:stylesheet>"
            );
            let compiled = crate::Stylesheet::compile(text.as_bytes(), &crate::NoResolver);
            (
                compiled.map_err(|error| (error.line, error.column)).err(),
                LOCATED.with(|count| count.get()),
            )
        };
        let template = |at: usize| {
            format!(
                "<xsl:template match='m{at}'><o a='{{@x}}'><xsl:value-of select='.'/></o></xsl:template>"
            )
        };
        let many: String = (0..500).map(template).collect();
        assert_eq!(located(&many), (None, 0));
        // Instructions of a later version fail when they are reached, not when they are loaded.
        let later = "<xsl:template match='/'><o xsl:version='9'><xsl:value-of select='a['/></o></xsl:template>";
        assert_eq!(located(&later.repeat(500)), (None, 0));
        assert_eq!(located(&format!("{many}\n<xsl:no/>")), (Some((2, 1)), 1));
    }
}
