//! Where a run puts what it makes: bytes, a fragment, or text that becomes a value.

use xml::{Builder, Encoding, Kind, Node, QNameRef, Sink, WriteError, Writer, copy_subtree};
use xpath::Item;

use crate::html::HtmlWriter;
use crate::run::{Failure, Ran};
use crate::undecided::Undecided;

pub(crate) enum Output {
    Writer(Box<Writer>),
    Html(Box<HtmlWriter>),
    /// Of no method yet: the first element or text decides.
    Undecided(Box<Undecided>),
    Tree(Box<Builder>),
    /// Of a text that is collected: elements can't stand in it.
    Text(String),
    /// Of the output method `text`: of elements, only the text in them counts.
    Plain(String, Encoding),
}

const ELEMENT_IN_TEXT: &str =
    "elements can't stand in attributes, comments and processing instructions";

fn say(error: &impl ToString) -> Failure {
    error.to_string().into()
}

/// Whether a character can be written in an encoding without a character reference.
pub(crate) fn has(encoding: Encoding, c: char) -> bool {
    match encoding {
        Encoding::Utf8 | Encoding::Utf16 => true,
        Encoding::UsAscii => c.is_ascii(),
        Encoding::Iso8859_1 => u32::from(c) < 0x100,
    }
}

/// Text of the method `text` is checked here, while it is known which operation makes it.
fn push_plain(out: &mut String, encoding: Encoding, text: &str) -> Ran {
    let unicode = matches!(encoding, Encoding::Utf8 | Encoding::Utf16);
    if !unicode && let Some(c) = text.chars().find(|c| !has(encoding, *c)) {
        return Err(cant_say(c, encoding));
    }
    out.push_str(text);
    Ok(())
}

pub(crate) fn cant_say(c: char, encoding: Encoding) -> Failure {
    format!("`{c}` can't be said in {}", encoding.name()).into()
}

impl Output {
    pub(crate) fn text(&mut self, text: &str) -> Ran {
        match self {
            Self::Writer(writer) => writer.text(text).map_err(|e| say(&e)),
            Self::Html(writer) => writer.text(text).map_err(|e| say(&e)),
            Self::Undecided(wait) => {
                if wait.takes_text(text) {
                    Ok(())
                } else {
                    self.decided(false)?.text(text)
                }
            }
            Self::Tree(builder) => builder.text(text).map_err(|e| say(&e)),
            Self::Text(out) => {
                out.push_str(text);
                Ok(())
            }
            Self::Plain(out, encoding) => push_plain(out, *encoding, text),
        }
    }

    /// Text with `disable-output-escaping`; in a fragment it is text: section 16.4.
    pub(crate) fn raw(&mut self, text: &str) -> Ran {
        match self {
            _ if text.is_empty() => Ok(()),
            Self::Writer(writer) => writer.raw(text).map_err(|e| say(&e)),
            Self::Html(writer) => writer.raw(text).map_err(|e| say(&e)),
            Self::Undecided(_) => self.decided(false)?.raw(text),
            Self::Tree(_) | Self::Text(_) | Self::Plain(..) => self.text(text),
        }
    }

    pub(crate) fn start(&mut self, name: QNameRef<'_>) -> Ran {
        match self {
            Self::Writer(writer) => writer.start_element(name).map_err(|e| say(&e)),
            Self::Html(writer) => writer.start_element(name).map_err(|e| say(&e)),
            Self::Undecided(_) => self.decided(is_html(name))?.start(name),
            Self::Tree(builder) => builder.start_element(name).map_err(|e| say(&e)),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) => Ok(()),
        }
    }

    /// Starts an element with the name of a node.
    pub(crate) fn start_like(&mut self, node: Node<'_>) -> Ran {
        match self {
            Self::Writer(writer) => writer.start_like(node).map_err(|e| say(&e)),
            Self::Html(_)
            | Self::Undecided(_)
            | Self::Tree(_)
            | Self::Text(_)
            | Self::Plain(..) => self.start(node.qname_ref()),
        }
    }

    /// How many elements are open; told for what is written only.
    pub(crate) fn depth(&self) -> Option<usize> {
        match self {
            Self::Writer(writer) => Some(writer.depth()),
            Self::Html(_)
            | Self::Undecided(_)
            | Self::Tree(_)
            | Self::Text(_)
            | Self::Plain(..) => None,
        }
    }

    pub(crate) fn end(&mut self) -> Ran {
        match self {
            Self::Writer(writer) => writer.end_element().map_err(|e| say(&e)),
            Self::Html(writer) => writer.end_element().map_err(|e| say(&e)),
            Self::Tree(builder) => builder.end_element().map_err(|e| say(&e)),
            Self::Text(_) | Self::Plain(..) | Self::Undecided(_) => Ok(()),
        }
    }

    /// A declaration that the element has otherwise already is left out: section 7.3.
    pub(crate) fn namespace(&mut self, prefix: &str, uri: &str) -> Ran {
        match self {
            Self::Writer(writer) => match writer.namespace(prefix, uri) {
                Err(WriteError::BadDeclaration(_) | WriteError::NotInStartTag) => Ok(()),
                other => other.map_err(|e| say(&e)),
            },
            Self::Html(writer) => match writer.namespace(prefix, uri) {
                Err(WriteError::BadDeclaration(_) | WriteError::NotInStartTag) => Ok(()),
                other => other.map_err(|e| say(&e)),
            },
            Self::Tree(builder) => match builder.namespace(prefix, uri) {
                Err(xml::EditError::WrongKind(_) | xml::EditError::BadName) => Ok(()),
                other => other.map_err(|e| say(&e)),
            },
            Self::Text(_) | Self::Plain(..) | Self::Undecided(_) => Ok(()),
        }
    }

    /// An attribute that comes too late is left out, the recovery of section 7.1.3.
    pub(crate) fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> Ran {
        match self {
            Self::Writer(writer) => match writer.attribute(name, value) {
                Err(WriteError::NotInStartTag) => Ok(()),
                other => other.map_err(|e| say(&e)),
            },
            Self::Html(writer) => match writer.attribute(name, value) {
                Err(WriteError::NotInStartTag) => Ok(()),
                other => other.map_err(|e| say(&e)),
            },
            Self::Tree(builder) => match builder.attribute(name, value) {
                Err(xml::EditError::WrongKind(_)) => Ok(()),
                other => other.map_err(|e| say(&e)),
            },
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) | Self::Undecided(_) => Ok(()),
        }
    }

    pub(crate) fn comment(&mut self, text: &str) -> Ran {
        match self {
            Self::Writer(writer) => writer.comment(text).map_err(|e| say(&e)),
            Self::Html(writer) => writer.comment(text).map_err(|e| say(&e)),
            Self::Undecided(wait) => {
                wait.comment(text);
                Ok(())
            }
            Self::Tree(builder) => builder.comment(text).map_err(|e| say(&e)),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) => Ok(()),
        }
    }

    pub(crate) fn instruction(&mut self, target: &str, data: &str) -> Ran {
        match self {
            Self::Writer(out) => out.processing_instruction(target, data).map_err(|e| say(&e)),
            Self::Html(out) => out.processing_instruction(target, data).map_err(|e| say(&e)),
            Self::Undecided(wait) => {
                wait.instruction(target, data);
                Ok(())
            }
            Self::Tree(out) => out.processing_instruction(target, data).map_err(|e| say(&e)),
            Self::Text(_) => Err(ELEMENT_IN_TEXT.into()),
            Self::Plain(..) => Ok(()),
        }
    }

    /// A copy of a node and all below it: section 11.3.
    pub(crate) fn copy(&mut self, item: Item<'_>) -> Ran {
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

    fn copy_tree(&mut self, node: Node<'_>) -> Ran {
        match self {
            Self::Undecided(_) if node.kind() == Kind::Root => {
                node.children().try_for_each(|child| self.copy(child.into()))
            }
            Self::Undecided(_) => self.decided(is_html(node.qname_ref()))?.copy_tree(node),
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

    /// Becomes a writer of HTML or of XML, if it was undecided.
    pub(crate) fn decided(&mut self, html: bool) -> Ran<&mut Self> {
        if let Self::Undecided(wait) = self {
            *self = std::mem::take(&mut **wait).decide(html)?;
        }
        Ok(self)
    }
}

fn copy_into<S: Sink>(node: Node<'_>, sink: &mut S) -> Ran
where
    S::Error: ToString,
{
    if node.kind() == Kind::Root {
        return node
            .children()
            .try_for_each(|child| copy_subtree(child, sink))
            .map_err(|e| say(&e));
    }
    copy_subtree(node, sink).map_err(|e| say(&e))
}

/// Section 16: the document element whose result is HTML when the sheet says nothing else.
fn is_html(name: QNameRef<'_>) -> bool {
    name.namespace.is_empty() && name.local.eq_ignore_ascii_case("html")
}
