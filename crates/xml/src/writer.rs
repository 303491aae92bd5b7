//! Serialisation. The output is namespace-well-formed: declarations that a name needs are added, prefixes
//! bound to another namespace are replaced. It depends on the input alone.

mod encoding;
mod escape;
mod options;
mod pieces;
mod prepared;
mod scope;

use std::collections::HashMap;

use crate::chars;
use crate::edit::QNameRef;
use crate::error::{Error, ErrorKind};
use crate::node::Node;
use crate::sink::{Sink, copy_subtree};
pub use encoding::Encoding;
use escape::Place;
pub use options::{DoctypeIds, WriterOptions};
pub use prepared::{PreparedMarkup, PreparedMarkupBuilder};
use scope::NamespaceStack;

/// Up to this many attributes are searched rather than indexed.
const FEW_ATTRIBUTES: usize = 16;
/// Initial capacity of the output.
const OUT_BYTES: usize = 1_024;
/// Initial capacity for open elements, with names of sixteen bytes.
const OPEN_ELEMENTS: usize = 8;

/// An open element.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// The offset of its name in `names`.
    name: usize,
    bindings: usize,
    /// It contains text: nothing is indented in it.
    mixed: bool,
    has_children: bool,
    cdata: bool,
}

#[derive(Debug)]
struct PendingAttribute {
    prefix: String,
    namespace: String,
    local: String,
    value: String,
}

impl PendingAttribute {
    fn heap_bytes(&self) -> usize {
        let Self { prefix, namespace, local, value } = self;
        [prefix, namespace, local, value].map(String::capacity).iter().sum()
    }
}

/// Serialises pieces ([`Sink`]) or a tree ([`Writer::tree`]).
///
/// ```
/// use penstock_xml::{QNameRef, Sink, Writer, WriterOptions};
///
/// let options = WriterOptions { declaration: false, ..WriterOptions::default() };
/// let mut writer = Writer::new(options)?;
/// writer.start_element(QNameRef::new("m", "urn:shop", "order"))?;
/// writer.text("a < b")?;
/// writer.end_element()?;
/// assert_eq!(writer.finish()?, br#"<m:order xmlns:m="urn:shop">a &lt; b</m:order>"#);
/// # Ok::<(), penstock_xml::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    options: WriterOptions,
    out: String,
    started: bool,
    doctype_due: bool,
    open: Vec<Open>,
    names: String,
    scope: NamespaceStack,
    /// The start tag isn't written yet: attributes may follow.
    pending: bool,
    name: (String, String, String),
    attributes: Vec<PendingAttribute>,
    /// Once there are many: the places of attributes by namespace and local name.
    places: HashMap<String, usize>,
    spare: Vec<PendingAttribute>,
    in_cdata: bool,
}

impl Writer {
    /// # Errors
    /// [`ErrorKind::BadDoctype`].
    pub fn new(options: WriterOptions) -> Result<Self, Error> {
        if options.doctype.as_ref().is_some_and(|ids| !ids.are_valid()) {
            return Err(ErrorKind::BadDoctype(
                "its identifiers contain characters that it doesn't allow",
            )
            .into());
        }
        let doctype_due = options.doctype.is_some();
        Ok(Self {
            options,
            out: String::with_capacity(OUT_BYTES),
            started: false,
            doctype_due,
            open: Vec::with_capacity(OPEN_ELEMENTS),
            names: String::with_capacity(OPEN_ELEMENTS * 16),
            scope: NamespaceStack::default(),
            pending: false,
            name: Default::default(),
            attributes: Vec::new(),
            places: HashMap::new(),
            spare: Vec::new(),
            in_cdata: false,
        })
    }

    /// Resets a writer after [`Writer::finish_text`]: it is as a new one with the same options, but reuses its buffers.
    #[must_use]
    pub fn again(mut self: Box<Self>) -> Box<Self> {
        self.out = String::with_capacity(OUT_BYTES);
        self.doctype_due = self.options.doctype.is_some();
        self.started = false;
        self.scope.restart();
        self
    }

    /// Memory of the writer's buffers, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let (prefix, namespace, local) = &self.name;
        let name = prefix.capacity() + namespace.capacity() + local.capacity();
        let attributes = self.attributes.iter().chain(&self.spare);
        let texts: usize = attributes.map(PendingAttribute::heap_bytes).sum();
        let slots = self.attributes.capacity() + self.spare.capacity();
        self.out.capacity()
            + self.open.capacity() * size_of::<Open>()
            + self.names.capacity()
            + name
            + texts
            + slots * size_of::<PendingAttribute>()
            + self.places.capacity() * size_of::<(String, usize)>()
            + self.places.keys().map(String::capacity).sum::<usize>()
            + self.scope.heap_bytes()
    }

    #[must_use]
    pub fn options(&self) -> &WriterOptions {
        &self.options
    }

    /// Writes `node` and everything below it, of the root its children, with the namespaces in its scope.
    ///
    /// # Errors
    /// [`ErrorKind::NotInEncoding`].
    pub fn tree(&mut self, node: Node<'_>) -> Result<(), Error> {
        copy_subtree(node, self)
    }

    /// Starts an element with the name of `node`, which needs no check.
    ///
    /// # Errors
    /// [`ErrorKind::NotInEncoding`].
    pub fn start_like(&mut self, node: Node<'_>) -> Result<(), Error> {
        self.start_checked(node.qname_ref())
    }

    /// The number of open elements.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether `prefix` is bound to `uri` here, so that declaring it writes nothing; empty strings stand for none.
    #[must_use]
    pub fn binds(&self, prefix: &str, uri: &str) -> bool {
        self.scope.binds(prefix, uri)
    }

    /// Writes text without escaping, for `disable-output-escaping`. The caller is responsible for
    /// well-formedness.
    ///
    /// # Errors
    /// [`ErrorKind::BadText`], [`ErrorKind::NotInEncoding`].
    pub fn raw(&mut self, text: &str) -> Result<(), Error> {
        self.check_exact(text)?;
        self.before_content()?;
        self.mixed();
        self.out.push_str(text);
        Ok(())
    }

    /// Returns the bytes written so far, so that a large output needn't be held in memory.
    pub fn take(&mut self) -> Vec<u8> {
        let text = self.take_text();
        self.options.encoding.encode(text)
    }

    fn take_text(&mut self) -> String {
        if std::mem::take(&mut self.in_cdata) {
            self.out.push_str("]]>");
        }
        std::mem::take(&mut self.out)
    }

    /// Closes open elements and returns the bytes not taken yet.
    ///
    /// # Errors
    /// [`ErrorKind::NotInEncoding`] for names in a start tag.
    pub fn finish(mut self) -> Result<Vec<u8>, Error> {
        let encoding = self.options.encoding;
        Ok(encoding.encode(self.finish_text()?))
    }

    /// As [`Writer::finish`], before it is encoded.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn finish_text(&mut self) -> Result<String, Error> {
        while !self.open.is_empty() {
            self.end_element()?;
        }
        self.begin();
        Ok(self.take_text())
    }

    fn begin(&mut self) {
        if self.started {
            return;
        }
        self.started = true;
        self.options.encoding.mark(&mut self.out);
        if self.options.declaration {
            self.out.push_str("<?xml version=\"1.0\" encoding=\"");
            self.out.push_str(self.options.encoding.name());
            self.out.push('"');
            if let Some(standalone) = self.options.standalone {
                self.out.push_str(" standalone=\"");
                self.out.push_str(if standalone { "yes" } else { "no" });
                self.out.push('"');
            }
            self.out.push_str("?>\n");
        }
    }

    /// Completes the start tag, and closes a CDATA section.
    fn before_content(&mut self) -> Result<(), Error> {
        self.begin();
        if self.pending {
            self.start_tag()?;
            self.out.push('>');
        }
        if std::mem::take(&mut self.in_cdata) {
            self.out.push_str("]]>");
        }
        Ok(())
    }

    fn mixed(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.mixed = true;
        }
    }

    /// Breaks the line before a child that isn't text.
    fn before_child(&mut self) -> Result<(), Error> {
        self.before_content()?;
        let depth = self.open.len();
        let mixed = match self.open.last_mut() {
            Some(open) => {
                open.has_children = true;
                open.mixed
            }
            None => !self.out.ends_with('>'),
        };
        self.break_line(mixed, depth);
        Ok(())
    }

    fn break_line(&mut self, mixed: bool, depth: usize) {
        let Some(step) = self.options.indent.filter(|_| !mixed) else { return };
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', depth.saturating_mul(usize::from(step))));
    }

    fn document_type(&mut self) {
        let Some(ids) = self.options.doctype.as_ref().filter(|_| self.doctype_due) else { return };
        self.doctype_due = false;
        self.out.push_str("<!DOCTYPE ");
        push_name(&mut self.out, &self.name.0, &self.name.2);
        if let Some(public) = &ids.public {
            self.out.extend([" PUBLIC \"", public, "\""]);
        } else {
            self.out.push_str(" SYSTEM");
        }
        let quote = if ids.system.contains('"') { "'" } else { "\"" };
        self.out.extend([" ", quote, &ids.system, quote, ">\n"]);
    }

    /// Writes the pending start tag up to its `>`.
    fn start_tag(&mut self) -> Result<(), Error> {
        self.pending = false;
        self.scope.begin_tag();
        let mark = self.open.last().map_or(0, |open| open.bindings);
        self.scope.element_prefix(&mut self.name.0, &self.name.1, mark);
        let mut spaced = self.attributes.iter_mut().filter(|found| !found.namespace.is_empty());
        if let Some(first) = spaced.next() {
            self.scope.lock(&self.name.0);
            for attribute in std::iter::once(first).chain(spaced) {
                let PendingAttribute { prefix, namespace, .. } = attribute;
                self.scope.attribute_prefix(prefix, namespace, mark);
            }
        }
        self.document_type();
        self.out.push('<');
        let start = self.out.len();
        push_name(&mut self.out, &self.name.0, &self.name.2);
        self.names.push_str(self.out.get(start..).unwrap_or(""));
        let encoding = self.options.encoding;
        for (prefix, uri) in self.scope.since(mark) {
            self.out.push_str(if prefix.is_empty() { " xmlns" } else { " xmlns:" });
            self.out.push_str(prefix);
            self.out.push_str("=\"");
            if !escape::push(&mut self.out, uri, Place::Attribute, encoding) {
                return Err(ErrorKind::BadText.into());
            }
            self.out.push('"');
        }
        for attribute in &self.attributes {
            self.out.push(' ');
            push_name(&mut self.out, &attribute.prefix, &attribute.local);
            self.out.push_str("=\"");
            escape::push(&mut self.out, &attribute.value, Place::Attribute, encoding);
            self.out.push('"');
        }
        self.spare.append(&mut self.attributes);
        if !self.places.is_empty() {
            self.places = HashMap::new();
        }
        Ok(())
    }

    fn start_checked(&mut self, name: QNameRef<'_>) -> Result<(), Error> {
        self.options.encoding.check(name.local)?;
        self.options.encoding.check(name.prefix)?;
        self.before_child()?;
        let cdata = &self.options.cdata_elements;
        let cdata = !cdata.is_empty()
            && cdata.iter().any(|(uri, local)| uri == name.namespace && local == name.local);
        let preserved = self.open.last().is_some_and(|open| open.mixed);
        self.open.push(Open {
            name: self.names.len(),
            bindings: self.scope.mark(),
            mixed: preserved,
            has_children: false,
            cdata,
        });
        assign(&mut self.name.0, name.prefix);
        assign(&mut self.name.1, name.namespace);
        assign(&mut self.name.2, name.local);
        self.pending = true;
        Ok(())
    }

    /// The pending attribute of that name.
    fn pending_attribute(&mut self, name: QNameRef<'_>) -> Option<&mut PendingAttribute> {
        if self.attributes.len() <= FEW_ATTRIBUTES {
            let same = |known: &&mut PendingAttribute| {
                known.local == name.local && known.namespace == name.namespace
            };
            return self.attributes.iter_mut().find(same);
        }
        for (place, known) in self.attributes.iter().enumerate().skip(self.places.len()) {
            self.places.insert([&known.local, " ", &known.namespace].concat(), place);
        }
        let place = *self.places.get(&[name.local, " ", name.namespace].concat())?;
        self.attributes.get_mut(place)
    }

    fn check_name(&self, name: QNameRef<'_>) -> Result<(), Error> {
        if !name.is_valid() {
            return Err(ErrorKind::BadName(name.local.to_owned()).into());
        }
        self.options.encoding.check(name.local)?;
        self.options.encoding.check(name.prefix)
    }

    /// Checks text that can't be escaped.
    fn check_exact(&self, text: &str) -> Result<(), Error> {
        if !chars::is_text(text) {
            return Err(ErrorKind::BadText.into());
        }
        self.options.encoding.check(text)
    }
}

fn push_name(out: &mut String, prefix: &str, local: &str) {
    if !prefix.is_empty() {
        out.push_str(prefix);
        out.push(':');
    }
    out.push_str(local);
}

fn assign(slot: &mut String, value: &str) {
    slot.clear();
    slot.push_str(value);
}

impl crate::Document {
    /// Serialises the document.
    ///
    /// # Errors
    /// [`ErrorKind::NotInEncoding`], [`ErrorKind::BadDoctype`].
    pub fn write(&self, options: WriterOptions) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::new(options)?;
        writer.tree(self.root())?;
        writer.finish()
    }
}
