//! Loads the modules of a stylesheet: the main one, and the ones that it includes and imports (section 2.6).

use crate::limits;
use xml::{Doctype, Document, EntityText, ExternalEntity, Kind, Node, Options};
use xpath::Pool;

use crate::error::{ErrorKind, LoadError, LoadPlace, Module, Place};
use crate::knock_out::is_out;

pub(crate) const XSL: &str = "http://www.w3.org/1999/XSL/Transform";

/// Provides the stylesheets and documents that a stylesheet refers to, and receives its messages. By default nothing
/// is read and messages are dropped.
pub trait Resolver {
    /// Reads the resource that the URI reference `href` names. `base` is the URI of the stylesheet or document that
    /// contains the reference; it is empty for the main stylesheet and for a source without base URI.
    ///
    /// # Errors
    /// A message for the user; it becomes the message of an [`Error`](crate::Error) of kind
    /// [`Resource`](ErrorKind::Resource).
    fn read(&self, href: &str, base: &str) -> Result<Resource, String> {
        let _ = base;
        Err(format!("`{href}` cannot be read: access to other documents is disabled"))
    }

    /// Receives the text of an `xsl:message`.
    fn message(&self, text: &str) {
        let _ = text;
    }
}

/// The result of a [`Resolver`]: the bytes, and the URI that references in them are relative to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub bytes: Vec<u8>,
    pub uri: String,
}

/// Reads nothing and drops messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoResolver;

impl Resolver for NoResolver {}

/// A child element of an `xsl:stylesheet`, or the root of a simplified stylesheet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TopLevel<'t> {
    pub(crate) node: Node<'t>,
    /// The number of the element's module.
    pub(crate) module: usize,
    pub(crate) precedence: u32,
    /// The lowest precedence of the modules that the element's module imports.
    pub(crate) imports_from: u32,
}

pub(crate) struct Loader<'t> {
    pool: &'t Pool,
    resolver: &'t dyn Resolver,
    pub(crate) top_level: Vec<TopLevel<'t>>,
    /// The outermost `xsl:stylesheet` elements, with the numbers of their modules.
    pub(crate) roots: Vec<(Node<'t>, usize)>,
    /// The modules in the order of the pool.
    pub(crate) modules: Vec<Module<&'t Document>>,
    /// URIs of the modules that are being loaded, outermost first.
    chain: Vec<String>,
    next_precedence: u32,
}

pub(crate) fn is_xsl(node: Node<'_>, local: &str) -> bool {
    node.kind() == Kind::Element
        && node.namespace() == XSL
        && node.local_name() == local
        && !is_out(&["xsl:", local])
}

/// Whether a test has disabled this element of XSLT.
pub(crate) fn is_out_element(node: Node<'_>) -> bool {
    node.namespace() == XSL && is_out(&["xsl:", node.local_name()])
}

/// The value of an XSLT attribute: unprefixed on XSLT elements, in the XSLT namespace on others.
pub(crate) fn attribute<'t>(node: Node<'t>, name: &str) -> Option<&'t str> {
    let (namespace, feature) = if node.namespace() == XSL {
        ("", ["xsl:", node.local_name(), "/@", name])
    } else {
        (XSL, ["literal element", "", "/@xsl:", name])
    };
    if is_out(&feature) { None } else { node.attribute(namespace, name) }
}

/// Parses a stylesheet, or a document that `document()` names. The internal subset of its document type is read, and
/// the external parameter entities that it refers to, through the resolver; external subsets are skipped.
pub(crate) fn parse(
    bytes: &[u8],
    uri: &str,
    resolver: &dyn Resolver,
) -> Result<Document, xml::Error> {
    let base_uri = Some(uri.to_owned());
    let options = Options { doctype: Doctype::Read, base_uri, ..Options::default() };
    let entities = |entity: &ExternalEntity<'_>| {
        if entity.name.is_none() {
            return Ok(None);
        }
        let read = resolver.read(entity.system_id, entity.base_uri.unwrap_or(""))?;
        Ok(Some(EntityText::new(read.bytes, read.uri)))
    };
    Document::parse_with_entities(bytes, &options, &entities)
}

impl<'t> Loader<'t> {
    pub(crate) fn new(pool: &'t Pool, resolver: &'t dyn Resolver) -> Self {
        Self {
            pool,
            resolver,
            top_level: Vec::new(),
            roots: Vec::new(),
            modules: Vec::new(),
            chain: Vec::new(),
            next_precedence: 0,
        }
    }

    /// Loads the main stylesheet and everything that it includes and imports.
    pub(crate) fn main(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let module = self.module(bytes, String::new())?;
        self.import(module)
    }

    /// Loads a module with everything that it imports, which comes first and has the lower precedence.
    fn import(&mut self, module: usize) -> Result<(), LoadError> {
        let imports_from = self.next_precedence;
        let mut own = Vec::new();
        self.collect(module, &mut own)?;
        let precedence = self.next_precedence;
        self.next_precedence = self.next_precedence.saturating_add(1);
        let ranked = own.into_iter().map(|(node, module)| TopLevel {
            node,
            module,
            precedence,
            imports_from,
        });
        self.top_level.extend(ranked);
        Ok(())
    }

    fn module(&mut self, bytes: &[u8], uri: String) -> Result<usize, LoadError> {
        let document = parse(bytes, &uri, self.resolver).map_err(|error| {
            let xml::Position { line, column } = error.position().unwrap_or_default();
            LoadError {
                kind: if matches!(error.kind(), xml::ErrorKind::EntityRejected { .. }) {
                    ErrorKind::Resource
                } else {
                    ErrorKind::Invalid
                },
                place: LoadPlace::Text { line, column, uri: uri.clone() },
                message: error.kind().to_string(),
            }
        })?;
        let full =
            || LoadError::at(Place::default(), ErrorKind::Limit, "too many stylesheet modules");
        let document = self.pool.add(document).ok_or_else(full)?;
        self.modules.push(Module { document, uri });
        Ok(self.modules.len().saturating_sub(1))
    }

    fn read(&mut self, node: Node<'t>, base: &str) -> Result<usize, LoadError> {
        let href = attribute(node, "href").ok_or_else(|| {
            let message = format!("`xsl:{}` requires `href`", node.local_name());
            LoadError::at(Place::of(node), ErrorKind::Invalid, message)
        })?;
        let failed = |message| LoadError::at(Place::of(node), ErrorKind::Resource, message);
        let found = self.resolver.read(href, base).map_err(failed)?;
        self.module(&found.bytes, found.uri)
    }

    /// The top-level elements of a module and of those that it includes, in order.
    fn collect(
        &mut self,
        module: usize,
        own: &mut Vec<(Node<'t>, usize)>,
    ) -> Result<(), LoadError> {
        let Some(Module { document, uri }) = self.modules.get(module) else { return Ok(()) };
        let (document, uri) = (*document, uri.clone());
        let invalid = |node: Node<'_>, message: &str| {
            Err(LoadError::at(Place::of(node), ErrorKind::Invalid, message))
        };
        let Some(root) = document.element() else { return invalid(document.root(), "no element") };
        self.check_limits(root, &uri)?;
        if !is_xsl(root, "stylesheet") && !is_xsl(root, "transform") {
            own.push((root, module));
            return Ok(());
        }
        if root.attribute("", "version").is_none() {
            return invalid(root, "`version` is missing; write version=\"1.0\"");
        }
        self.roots.push((root, module));
        self.chain.push(uri.clone());
        let mut may_import = true;
        for node in root.children() {
            match node.kind() {
                Kind::Element if is_xsl(node, "import") && !may_import => {
                    return invalid(node, "`xsl:import` must come before all other elements");
                }
                Kind::Element if is_xsl(node, "import") => {
                    let imported = self.read(node, &uri)?;
                    self.import(imported)?;
                }
                Kind::Element if is_xsl(node, "include") => {
                    may_import = false;
                    let included = self.read(node, &uri)?;
                    self.collect(included, own)?;
                }
                Kind::Element => {
                    may_import = false;
                    own.push((node, module));
                }
                Kind::Text if !node.text().trim().is_empty() => {
                    return invalid(node, "text is not allowed at the top level of a stylesheet");
                }
                Kind::Text
                | Kind::Root
                | Kind::Comment
                | Kind::ProcessingInstruction
                | Kind::Attribute
                | Kind::Namespace => {}
            }
        }
        self.chain.pop();
        Ok(())
    }

    fn check_limits(&self, root: Node<'_>, uri: &str) -> Result<(), LoadError> {
        let (kind, message) = if self.modules.len() > limits::XSLT_SHEETS_MAX {
            let max = limits::XSLT_SHEETS_MAX;
            (ErrorKind::Limit, format!("more than {max} stylesheets are included and imported"))
        } else if self.chain.iter().any(|known| known == uri) {
            (ErrorKind::Invalid, "the stylesheet includes or imports itself".to_owned())
        } else if self.chain.len() >= limits::XSLT_SHEETS_DEPTH_MAX {
            let max = limits::XSLT_SHEETS_DEPTH_MAX;
            (
                ErrorKind::Limit,
                format!("stylesheets include and import one another more than {max} deep"),
            )
        } else {
            return Ok(());
        };
        Err(LoadError::at(Place::of(root), kind, message))
    }
}
