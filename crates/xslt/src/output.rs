//! Where a run writes to: bytes, a result tree fragment, or text that becomes a value.

use xml::{Builder, Encoding, Kind, Node, QNameRef, Sink, Writer, copy_subtree};
use xpath::Item;

use crate::deferred::Deferred;
use crate::html::HtmlWriter;
use crate::run::{RunError, RunResult};

pub(crate) enum Output {
    Writer(Box<Writer>),
    Html(Box<HtmlWriter>),
    /// The first element or text determines the method.
    Deferred(Box<Deferred>),
    Tree(Box<Builder>),
    /// Text of an attribute, comment or processing instruction; elements are errors.
    Text(String),
    /// The output method text: only the text of elements is written.
    Plain(String, Encoding),
}

const ELEMENT_IN_TEXT: &str =
    "elements are not allowed in attributes, comments and processing instructions";

/// A declaration or an attribute after the start tag of its element.
fn is_late(error: &xml::Error) -> bool {
    matches!(error.kind(), xml::ErrorKind::NotInStartTag | xml::ErrorKind::WrongKind(_))
}

fn conflicts(error: &xml::Error) -> bool {
    matches!(error.kind(), xml::ErrorKind::BadNamespaceDeclaration(_)) || is_late(error)
}

/// The result of writing, without the errors from which a run recovers.
#[inline]
fn recovered(written: Result<(), xml::Error>, from: fn(&xml::Error) -> bool) -> RunResult {
    match written {
        Err(error) if from(&error) => Ok(()),
        other => other.map_err(failed),
    }
}

fn failed(error: impl ToString) -> RunError {
    error.to_string().into()
}

/// Checks the encoding while the operation that writes the text is known.
fn push_plain(out: &mut String, encoding: Encoding, text: &str) -> RunResult {
    let unicode = matches!(encoding, Encoding::Utf8 | Encoding::Utf16);
    if !unicode && let Some(c) = text.chars().find(|c| !encoding.has(*c)) {
        return Err(unencodable(c, encoding));
    }
    out.push_str(text);
    Ok(())
}

pub(crate) fn unencodable(c: char, encoding: Encoding) -> RunError {
    format!("`{c}` cannot be encoded in {}", encoding.name()).into()
}

impl Output {
    pub(crate) fn text(&mut self, text: &str) -> RunResult {
        match self {
            Self::Writer(writer) => writer.text(text).map_err(failed),
            Self::Html(writer) => writer.text(text).map_err(failed),
            Self::Deferred(deferred) => {
                if deferred.accepts_text(text) {
                    Ok(())
                } else {
                    self.resolve_method(false)?.text(text)
                }
            }
            Self::Tree(builder) => builder.text(text).map_err(failed),
            Self::Text(out) => {
                out.push_str(text);
                Ok(())
            }
            Self::Plain(out, encoding) => push_plain(out, *encoding, text),
        }
    }

    /// Text with `disable-output-escaping`, which has no effect in a fragment: section 16.4.
    pub(crate) fn raw(&mut self, text: &str) -> RunResult {
        match self {
            _ if text.is_empty() => Ok(()),
            Self::Writer(writer) => writer.raw(text).map_err(failed),
            Self::Html(writer) => writer.raw(text).map_err(failed),
            Self::Deferred(_) => self.resolve_method(false)?.raw(text),
            Self::Tree(_) | Self::Text(_) | Self::Plain(..) => self.text(text),
        }
    }

    pub(crate) fn start(&mut self, name: QNameRef<'_>) -> RunResult {
        match self {
            Self::Writer(writer) => writer.start_element(name).map_err(failed),
            Self::Html(writer) => writer.start_element(name).map_err(failed),
            Self::Deferred(_) => self.resolve_method(is_html(name))?.start(name),
            Self::Tree(builder) => builder.start_element(name).map_err(failed),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) => Ok(()),
        }
    }

    /// Starts an element with the name of a node.
    pub(crate) fn start_like(&mut self, node: Node<'_>) -> RunResult {
        match self {
            Self::Writer(writer) => writer.start_like(node).map_err(failed),
            Self::Html(_) | Self::Deferred(_) | Self::Tree(_) | Self::Text(_) | Self::Plain(..) => {
                self.start(node.qname_ref())
            }
        }
    }

    /// How many elements are open; known for XML output only.
    pub(crate) fn depth(&self) -> Option<usize> {
        match self {
            Self::Writer(writer) => Some(writer.depth()),
            Self::Html(_) | Self::Deferred(_) | Self::Tree(_) | Self::Text(_) | Self::Plain(..) => {
                None
            }
        }
    }

    pub(crate) fn end(&mut self) -> RunResult {
        match self {
            Self::Writer(writer) => writer.end_element().map_err(failed),
            Self::Html(writer) => writer.end_element().map_err(failed),
            Self::Tree(builder) => builder.end_element().map_err(failed),
            Self::Text(_) | Self::Plain(..) | Self::Deferred(_) => Ok(()),
        }
    }

    /// Maximum memory of a declaration; an XML writer omits one that is in scope.
    pub(crate) fn declaration_bytes(&self, prefix: &str, uri: &str) -> usize {
        /// The place of a declaration in a tree, which holds its text once.
        const IN_TREE: usize = 16;
        match self {
            Self::Writer(writer) if writer.binds(prefix, uri) => 0,
            Self::Writer(_) | Self::Html(_) | Self::Deferred(_) => {
                let text = prefix.len().saturating_add(uri.len());
                text.saturating_add(" xmlns:=\"\"".len())
            }
            Self::Tree(_) => IN_TREE,
            Self::Text(_) | Self::Plain(..) => 0,
        }
    }

    /// The bindings that declaring a prefix may visit; an XML writer looks it up in constant time.
    pub(crate) fn bindings_visited(&self) -> usize {
        if let Self::Html(writer) = self { writer.bindings() } else { 0 }
    }

    /// A declaration that conflicts with another one of the element is omitted: section 7.3.
    pub(crate) fn namespace(&mut self, prefix: &str, uri: &str) -> RunResult {
        match self {
            Self::Writer(writer) => recovered(writer.namespace(prefix, uri), conflicts),
            Self::Html(writer) => recovered(writer.namespace(prefix, uri), conflicts),
            Self::Tree(builder) => recovered(builder.namespace(prefix, uri), conflicts),
            Self::Text(_) | Self::Plain(..) | Self::Deferred(_) => Ok(()),
        }
    }

    /// An attribute after the start tag is omitted, the recovery of section 7.1.3.
    pub(crate) fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> RunResult {
        match self {
            Self::Writer(writer) => recovered(writer.attribute(name, value), is_late),
            Self::Html(writer) => recovered(writer.attribute(name, value), is_late),
            Self::Tree(builder) => recovered(builder.attribute(name, value), is_late),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) | Self::Deferred(_) => Ok(()),
        }
    }

    pub(crate) fn comment(&mut self, text: &str) -> RunResult {
        match self {
            Self::Writer(writer) => writer.comment(text).map_err(failed),
            Self::Html(writer) => writer.comment(text).map_err(failed),
            Self::Deferred(deferred) => {
                deferred.comment(text);
                Ok(())
            }
            Self::Tree(builder) => builder.comment(text).map_err(failed),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) => Ok(()),
        }
    }

    pub(crate) fn instruction(&mut self, target: &str, data: &str) -> RunResult {
        match self {
            Self::Writer(out) => out.processing_instruction(target, data).map_err(failed),
            Self::Html(out) => out.processing_instruction(target, data).map_err(failed),
            Self::Deferred(deferred) => {
                deferred.instruction(target, data);
                Ok(())
            }
            Self::Tree(out) => out.processing_instruction(target, data).map_err(failed),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) => Ok(()),
        }
    }

    /// Copies a node and its descendants: section 11.3.
    pub(crate) fn copy(&mut self, item: Item<'_>) -> RunResult {
        let Some(node) = item.node() else {
            return item.binding().map_or(Ok(()), |(prefix, uri)| self.namespace(prefix, uri));
        };
        match node.kind() {
            Kind::Attribute => self.attribute(node.qname_ref(), node.text()),
            Kind::Text => self.text(node.text()),
            Kind::Comment => self.comment(node.text()),
            Kind::ProcessingInstruction => self.instruction(node.local_name(), node.text()),
            Kind::Root | Kind::Element | Kind::Namespace => self.copy_tree(node),
        }
    }

    fn copy_tree(&mut self, node: Node<'_>) -> RunResult {
        match self {
            Self::Deferred(_) if node.kind() == Kind::Root => {
                node.children().try_for_each(|child| self.copy(child.into()))
            }
            Self::Deferred(_) => self.resolve_method(is_html(node.qname_ref()))?.copy_tree(node),
            Self::Writer(writer) => copy_into(node, &mut **writer),
            Self::Html(writer) => copy_into(node, &mut **writer),
            Self::Tree(builder) => copy_into(node, &mut **builder),
            Self::Text(_) if node.descendants().any(Node::is_element) || node.is_element() => {
                Err(ELEMENT_IN_TEXT.into())
            }
            Self::Text(out) => {
                node.write_string_value(out);
                Ok(())
            }
            Self::Plain(out, encoding) => push_plain(out, *encoding, &node.string_value()),
        }
    }

    /// Chooses the method if it was deferred.
    pub(crate) fn resolve_method(&mut self, html: bool) -> RunResult<&mut Self> {
        if let Self::Deferred(deferred) = self {
            *self = std::mem::take(&mut **deferred).into_output(html)?;
        }
        Ok(self)
    }
}

fn copy_into<S: Sink>(node: Node<'_>, sink: &mut S) -> RunResult
where
    S::Error: ToString,
{
    if node.kind() == Kind::Root {
        return node.children().try_for_each(|child| copy_subtree(child, sink)).map_err(failed);
    }
    copy_subtree(node, sink).map_err(failed)
}

/// Whether a document element makes HTML the default method: section 16.
fn is_html(name: QNameRef<'_>) -> bool {
    name.namespace.is_empty() && name.local.eq_ignore_ascii_case("html")
}
