//! The sheets of a stylesheet: the main one and what it includes and imports, in the order of section 2.6.

use crate::limits;
use xml::{Doctype, Document, Kind, Node, Options, XmlError};

use crate::error::{CompileError, Place};
use crate::is_out;
use crate::pool::Pool;

pub(crate) const XSL: &str = "http://www.w3.org/1999/XSL/Transform";

/// Gives the sheets and documents that a sheet asks for, and takes its messages. What isn't overridden
/// refuses: nothing is read unless the caller provides it.
pub trait Resolver {
    /// The bytes that `href` names, and the URI by which they are known from then on. `base` is the URI of
    /// the sheet or document that the reference stands in; it is empty for the main one.
    ///
    /// # Errors
    /// A sentence for the user: the sheet, or the run, fails with it.
    fn read(&self, href: &str, base: &str) -> Result<Resolved, String> {
        let _ = base;
        Err(format!("`{href}` isn't read: no other document is available here"))
    }

    /// What `xsl:message` says.
    fn message(&self, text: &str) {
        let _ = text;
    }
}

/// What a [`Resolver`] answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    pub bytes: Vec<u8>,
    pub uri: String,
}

/// The resolver that refuses everything and forgets messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Refuse;

impl Resolver for Refuse {}

/// An element at the top of a sheet.
#[derive(Debug, Clone)]
pub(crate) struct Top<'t> {
    pub(crate) node: Node<'t>,
    pub(crate) uri: String,
    pub(crate) precedence: u32,
    /// Sheets imported by this one have precedences from here on.
    pub(crate) low: u32,
}

pub(crate) struct Loader<'t> {
    pub(crate) pool: &'t Pool,
    pub(crate) resolver: &'t dyn Resolver,
    pub(crate) tops: Vec<Top<'t>>,
    /// Each sheet's outermost element, and the sheet's URI.
    pub(crate) roots: Vec<(Node<'t>, String)>,
    /// The sheets that wait for the one being read.
    chain: Vec<String>,
    next: u32,
    sheets: usize,
}

pub(crate) fn is_xsl(node: Node<'_>, local: &str) -> bool {
    node.kind() == Kind::Element
        && node.namespace() == XSL
        && node.local_name() == local
        && !is_out(&["xsl:", local])
}

/// Whether a test took this element of XSLT out.
pub(crate) fn is_out_element(node: Node<'_>) -> bool {
    node.namespace() == XSL && is_out(&["xsl:", node.local_name()])
}

/// What an attribute of XSLT's says, on an element of XSLT or on a literal one: all are read through here.
pub(crate) fn said<'t>(node: Node<'t>, attribute: &str) -> Option<&'t str> {
    let (namespace, feature) = if node.namespace() == XSL {
        ("", ["xsl:", node.local_name(), "/@", attribute])
    } else {
        (XSL, ["literal element", "", "/@xsl:", attribute])
    };
    if is_out(&feature) { None } else { node.attribute(namespace, attribute) }
}

pub(crate) fn place(node: Node<'_>, uri: &str) -> Place {
    let position = node.position();
    Place { line: position.line, column: position.column, uri: uri.to_owned() }
}

/// Reads a sheet, or what `document()` names, with the internal subset of its document type, in which sheets
/// declare `nbsp` and its like. External subsets and entities are never read.
pub(crate) fn parse(bytes: &[u8], base_uri: Option<String>) -> Result<Document, XmlError> {
    let options = Options { doctype: Doctype::Read, base_uri, ..Options::default() };
    Document::parse_with(bytes, &options)
}

impl<'t> Loader<'t> {
    pub(crate) fn new(pool: &'t Pool, resolver: &'t dyn Resolver) -> Self {
        Self {
            pool,
            resolver,
            tops: Vec::new(),
            roots: Vec::new(),
            chain: Vec::new(),
            next: 0,
            sheets: 0,
        }
    }

    /// Reads a sheet with all that it imports; these come first and have the lower precedences.
    pub(crate) fn sheet(&mut self, document: &'t Document, uri: &str) -> Result<(), CompileError> {
        let low = self.next;
        let mut own = Vec::new();
        self.gather(document, uri, &mut own)?;
        let precedence = self.next;
        self.next = self.next.saturating_add(1);
        let finished = own.into_iter().map(|top| Top { precedence, low, ..top });
        self.tops.extend(finished);
        Ok(())
    }

    fn gather(
        &mut self,
        document: &'t Document,
        uri: &str,
        own: &mut Vec<Top<'t>>,
    ) -> Result<(), CompileError> {
        self.sheets = self.sheets.saturating_add(1);
        let Some(root) = document.element() else {
            return Err(Place::default().refuse("the sheet is empty"));
        };
        let refuse = |node: Node<'_>, message: String| place(node, uri).refuse(message);
        if self.sheets > limits::XSLT_SHEETS_MAX {
            let most = limits::XSLT_SHEETS_MAX;
            return Err(refuse(root, format!("more than {most} sheets are included and imported")));
        }
        if self.chain.iter().any(|known| known == uri) {
            return Err(refuse(root, "the sheet includes or imports itself".to_owned()));
        }
        if self.chain.len() >= limits::XSLT_SHEETS_DEPTH_MAX {
            return Err(refuse(
                root,
                "sheets include and import one another too deeply".to_owned(),
            ));
        }
        if !is_xsl(root, "stylesheet") && !is_xsl(root, "transform") {
            own.push(Top { node: root, uri: uri.to_owned(), precedence: 0, low: 0 });
            return Ok(());
        }
        if root.attribute("", "version").is_none() {
            return Err(refuse(root, "`version` is missing; write version=\"1.0\"".to_owned()));
        }
        self.roots.push((root, uri.to_owned()));
        self.chain.push(uri.to_owned());
        for node in root.children() {
            let include = is_xsl(node, "include");
            if include || is_xsl(node, "import") {
                let href = said(node, "href");
                let href = href.ok_or_else(|| refuse(node, "`href` is missing".to_owned()))?;
                let found = self.resolver.read(href, uri).map_err(|why| refuse(node, why))?;
                let other = parse(&found.bytes, None).map_err(|error| {
                    Place { line: error.line, column: error.column, uri: found.uri.clone() }
                        .refuse(error.kind.to_string())
                })?;
                let full = || refuse(node, "too many sheets".to_owned());
                let other = self.pool.add(other).ok_or_else(full)?;
                if include {
                    self.gather(other, &found.uri, own)?;
                } else {
                    self.sheet(other, &found.uri)?;
                }
            } else if node.kind() == Kind::Element {
                own.push(Top { node, uri: uri.to_owned(), precedence: 0, low: 0 });
            } else if node.kind() == Kind::Text && !node.text().trim().is_empty() {
                return Err(refuse(node, "text at the top of a sheet has no meaning".to_owned()));
            }
        }
        self.chain.pop();
        Ok(())
    }
}
