//! Markup that is serialised once and written many times, with placeholders for text.

use std::borrow::Cow;

use super::escape::{self, Place};
use super::{Encoding, Writer, push_name};
use crate::chars;
use crate::edit::QNameRef;
use crate::error::{Error, ErrorKind};
use crate::names::XML_NAMESPACE;

/// Serialised elements with placeholders for text and attribute values. Built by [`PreparedMarkupBuilder`],
/// written by [`Writer::write_prepared`].
#[derive(Debug)]
pub struct PreparedMarkup {
    /// Bindings that must be in scope where the markup is written; with an empty URI the prefix must be unbound.
    required: Vec<(Box<str>, Box<str>)>,
    /// Pieces of markup, each followed by a placeholder.
    pieces: Vec<(Piece, Place)>,
    last: Piece,
    encoding: Encoding,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Piece {
    markup: String,
    /// This many bytes at its start close an element that contains only placeholders: `<a></a>` becomes `<a/>`.
    closes: usize,
    /// The markup ends with a start tag whose element may remain empty.
    opens: bool,
}

impl PreparedMarkup {
    /// The length without the content of the placeholders, in bytes.
    #[must_use]
    pub fn markup_bytes(&self) -> usize {
        self.bytes
    }
}

impl Writer {
    /// Whether prepared markup can be written here; completes the start tag before it. It cannot be written outside of
    /// all elements, with indentation or CDATA sections, in another encoding, or below other namespace declarations.
    ///
    /// # Errors
    /// As the start tag.
    pub fn takes_prepared(&mut self, prepared: &PreparedMarkup) -> Result<bool, Error> {
        if self.open.is_empty()
            || self.options.indent.is_some()
            || !self.options.cdata_elements.is_empty()
            || self.options.encoding != prepared.encoding
        {
            return Ok(false);
        }
        self.before_child()?;
        let bound = |(prefix, uri): &(Box<str>, Box<str>)| self.scope.binds(prefix, uri);
        Ok(prepared.required.iter().all(bound))
    }

    /// Writes prepared markup where [`Writer::takes_prepared`] allows it, with a text for each placeholder.
    ///
    /// # Errors
    /// [`ErrorKind::BadText`]. The markup is incomplete then.
    pub fn write_prepared(
        &mut self,
        prepared: &PreparedMarkup,
        texts: &[Cow<'_, str>],
    ) -> Result<(), Error> {
        self.out.reserve(prepared.bytes);
        // The end of the last start tag, as long as its element is empty.
        let mut fresh = usize::MAX;
        for ((piece, place), text) in prepared.pieces.iter().zip(texts) {
            piece.write(&mut self.out, &mut fresh);
            if !escape::push(&mut self.out, text, *place, prepared.encoding) {
                return Err(ErrorKind::BadText.into());
            }
        }
        prepared.last.write(&mut self.out, &mut fresh);
        Ok(())
    }
}

impl Piece {
    #[inline(always)]
    fn write(&self, out: &mut String, fresh: &mut usize) {
        let mut markup = self.markup.as_str();
        if self.closes > 0 && out.len() == *fresh {
            out.pop();
            out.push_str("/>");
            markup = markup.get(self.closes..).unwrap_or("");
        }
        out.push_str(markup);
        if self.opens {
            *fresh = out.len();
        }
    }
}

/// Builds [`PreparedMarkup`] from pieces. [`finish`](Self::finish) returns `None` if a name or character is
/// invalid or not in the encoding, or if one of its own elements would have to declare a namespace.
#[derive(Debug)]
pub struct PreparedMarkupBuilder {
    markup: PreparedMarkup,
    open: Vec<String>,
    piece: Piece,
    /// The start tag isn't closed yet.
    in_tag: bool,
    /// Nothing, or placeholders only, since the start tag.
    empty: bool,
    attributes: Vec<(String, String)>,
    good: bool,
}

impl PreparedMarkupBuilder {
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self {
            markup: PreparedMarkup {
                required: Vec::new(),
                pieces: Vec::new(),
                last: Piece::default(),
                encoding,
                bytes: 0,
            },
            open: Vec::new(),
            piece: Piece::default(),
            in_tag: false,
            empty: false,
            attributes: Vec::new(),
            good: true,
        }
    }

    pub fn start_element(&mut self, name: QNameRef<'_>) {
        self.content();
        self.check(name);
        self.good &= name.namespace != XML_NAMESPACE;
        self.require(name.prefix, name.namespace);
        let mut written = String::new();
        push_name(&mut written, name.prefix, name.local);
        self.piece.markup.extend(["<", &written]);
        self.open.push(written);
        self.attributes.clear();
        (self.in_tag, self.empty) = (true, true);
    }

    /// A declaration of the element just started; `named`: the element is in a namespace. An element in none
    /// ignores a default namespace.
    pub fn namespace(&mut self, prefix: &str, uri: &str, named: bool) {
        let left_out = prefix.is_empty() && !uri.is_empty() && !named;
        if !left_out {
            self.require(prefix, uri);
        }
    }

    /// An attribute of the element just started; without a value, a placeholder.
    pub fn attribute(&mut self, name: QNameRef<'_>, value: Option<&str>) {
        self.check(name);
        let known = (name.namespace.to_owned(), name.local.to_owned());
        let plain_xmlns = name.namespace.is_empty() && name.local == "xmlns";
        let unnamed = !name.namespace.is_empty() && name.prefix.is_empty();
        self.good &= self.in_tag && !self.attributes.contains(&known) && !plain_xmlns && !unnamed;
        self.attributes.push(known);
        if !name.namespace.is_empty() && name.namespace != XML_NAMESPACE {
            self.require(name.prefix, name.namespace);
        }
        self.piece.markup.push(' ');
        push_name(&mut self.piece.markup, name.prefix, name.local);
        self.piece.markup.push_str("=\"");
        match value {
            Some(value) => self.escape(value, Place::Attribute),
            None => self.placeholder(Place::Attribute),
        }
        self.piece.markup.push('"');
    }

    pub fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.content();
            self.empty = false;
            self.escape(text, Place::Text);
        }
    }

    /// A placeholder for text.
    pub fn text_placeholder(&mut self) {
        self.close_tag();
        self.piece.opens |= self.empty && self.piece.markup.ends_with('>');
        self.placeholder(Place::Text);
    }

    pub fn end_element(&mut self) {
        let Some(name) = self.open.pop() else {
            self.good = false;
            return;
        };
        let before = self.piece.markup.len();
        if self.in_tag {
            self.in_tag = false;
            self.piece.markup.push_str("/>");
        } else {
            self.piece.markup.extend(["</", &name, ">"]);
            if self.empty {
                self.piece.closes = self.piece.markup.len().saturating_sub(before);
            }
        }
        self.empty = false;
    }

    /// Returns `None` if the markup can't be prepared.
    #[must_use]
    pub fn finish(mut self) -> Option<PreparedMarkup> {
        let good = self.good && self.open.is_empty();
        self.markup.last = self.next_piece();
        good.then_some(self.markup)
    }

    fn placeholder(&mut self, place: Place) {
        let piece = self.next_piece();
        self.markup.pieces.push((piece, place));
    }

    fn next_piece(&mut self) -> Piece {
        let piece = std::mem::take(&mut self.piece);
        self.markup.bytes = self.markup.bytes.saturating_add(piece.markup.len());
        piece
    }

    fn close_tag(&mut self) {
        if std::mem::take(&mut self.in_tag) {
            self.piece.markup.push('>');
        }
    }

    fn content(&mut self) {
        self.close_tag();
        self.empty = false;
    }

    fn escape(&mut self, text: &str, place: Place) {
        self.good &= escape::push(&mut self.piece.markup, text, place, self.markup.encoding);
    }

    fn check(&mut self, name: QNameRef<'_>) {
        let encoding = self.markup.encoding;
        self.good &= name.is_valid()
            && encoding.check(name.local).is_ok()
            && encoding.check(name.prefix).is_ok();
    }

    fn require(&mut self, prefix: &str, uri: &str) {
        match self.markup.required.iter().find(|(known, _)| &**known == prefix) {
            Some((_, known)) => self.good &= &**known == uri,
            None => {
                self.good &= chars::is_text(uri);
                self.markup.required.push((prefix.into(), uri.into()));
            }
        }
    }
}
