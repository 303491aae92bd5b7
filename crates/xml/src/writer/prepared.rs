//! Markup that is spelt once and written often: elements with holes that text is put into.

use std::borrow::Cow;

use super::escape::{self, Place};
use super::{Encoding, WriteError, Writer, push_name};
use crate::chars;
use crate::edit::QNameRef;
use crate::names::XML_NAMESPACE;

/// Complete elements as bytes, with holes for text and values of attributes. Made by [`PreparedMarkupBuilder`],
/// written by [`Writer::write_prepared`].
#[derive(Debug)]
pub struct PreparedMarkup {
    /// Bindings that have to be in scope where it is written; an empty URI: none under that prefix.
    needs: Vec<(Box<str>, Box<str>)>,
    pieces: Vec<Piece>,
    encoding: Encoding,
    bytes: usize,
}

/// Markup, and the hole behind it.
#[derive(Debug, Default)]
struct Piece {
    markup: String,
    /// So many bytes at its start close an element that has only holes: `<a></a>` becomes `<a/>`.
    closes: usize,
    /// It ends with a start tag whose element may stay empty.
    opens: bool,
    hole: Hole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Hole {
    #[default]
    None,
    Text,
    Attribute,
}

impl PreparedMarkup {
    /// How many bytes it has without what comes into its holes.
    #[must_use]
    pub fn markup_bytes(&self) -> usize {
        self.bytes
    }
}

impl Writer {
    /// Writes a stamp; `fill` is asked for each hole in turn. Answers false, and has written nothing of it
    /// (the start tag before it may be complete now), where it would have to be spelt otherwise: outside of all elements, with indentation or CDATA
    /// sections, in another encoding, below other namespace declarations.
    ///
    /// # Errors
    /// [`WriteError::BadText`]; what `fill` reports. The stamp is incomplete then.
    pub fn write_prepared<'v, E: From<WriteError>>(
        &mut self,
        stamp: &PreparedMarkup,
        mut fill: impl FnMut() -> Result<Cow<'v, str>, E>,
    ) -> Result<bool, E> {
        if self.open.is_empty()
            || self.options.indent.is_some()
            || !self.options.cdata_elements.is_empty()
            || self.options.encoding != stamp.encoding
        {
            return Ok(false);
        }
        self.before_child()?;
        let bound = |(prefix, uri): &(Box<str>, Box<str>)| self.scope.binds(prefix, uri);
        if !stamp.needs.iter().all(bound) {
            return Ok(false);
        }
        // Where the start tag ends that nothing has come after yet.
        let mut fresh = usize::MAX;
        for piece in &stamp.pieces {
            let mut markup = piece.markup.as_str();
            if piece.closes > 0 && self.out.len() == fresh {
                self.out.pop();
                self.out.push_str("/>");
                markup = markup.get(piece.closes..).unwrap_or("");
            }
            self.out.push_str(markup);
            if piece.opens {
                fresh = self.out.len();
            }
            let place = match piece.hole {
                Hole::None => continue,
                Hole::Text => Place::Text,
                Hole::Attribute => Place::Attribute,
            };
            if !escape::push(&mut self.out, &fill()?, place, stamp.encoding) {
                return Err(WriteError::BadText.into());
            }
        }
        Ok(true)
    }
}

/// Makes a [`PreparedMarkup`] of pieces. What can't be in one makes the whole `None`: names and characters that
/// aren't XML's or the encoding's, declarations that one of its own elements would need.
#[derive(Debug)]
pub struct PreparedMarkupBuilder {
    stamp: PreparedMarkup,
    open: Vec<String>,
    piece: Piece,
    /// The start tag isn't closed yet.
    in_tag: bool,
    /// Since the start tag came nothing, or holes only.
    empty: bool,
    attributes: Vec<(String, String)>,
    good: bool,
}

impl PreparedMarkupBuilder {
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self {
            stamp: PreparedMarkup { needs: Vec::new(), pieces: Vec::new(), encoding, bytes: 0 },
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
        self.need(name.prefix, name.namespace);
        let mut written = String::new();
        push_name(&mut written, name.prefix, name.local);
        self.piece.markup.extend(["<", &written]);
        self.open.push(written);
        self.attributes.clear();
        (self.in_tag, self.empty) = (true, true);
    }

    /// A declaration that stands on the element just started; `named` says that the element is in a
    /// namespace. One that is in none isn't put below a default namespace.
    pub fn namespace(&mut self, prefix: &str, uri: &str, named: bool) {
        let left_out = prefix.is_empty() && !uri.is_empty() && !named;
        if !left_out {
            self.need(prefix, uri);
        }
    }

    /// An attribute of the element just started; without a value it is a hole.
    pub fn attribute(&mut self, name: QNameRef<'_>, value: Option<&str>) {
        self.check(name);
        let known = (name.namespace.to_owned(), name.local.to_owned());
        let plain_xmlns = name.namespace.is_empty() && name.local == "xmlns";
        let unnamed = !name.namespace.is_empty() && name.prefix.is_empty();
        self.good &= self.in_tag && !self.attributes.contains(&known) && !plain_xmlns && !unnamed;
        self.attributes.push(known);
        if !name.namespace.is_empty() && name.namespace != XML_NAMESPACE {
            self.need(name.prefix, name.namespace);
        }
        self.piece.markup.push(' ');
        push_name(&mut self.piece.markup, name.prefix, name.local);
        self.piece.markup.push_str("=\"");
        match value {
            Some(value) => self.spell(value, Place::Attribute),
            None => self.hole(Hole::Attribute),
        }
        self.piece.markup.push('"');
    }

    pub fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.content();
            self.empty = false;
            self.spell(text, Place::Text);
        }
    }

    /// A hole for text.
    pub fn text_placeholder(&mut self) {
        self.close_tag();
        self.piece.opens |= self.empty && self.piece.markup.ends_with('>');
        self.hole(Hole::Text);
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

    /// None unless all of it can be spelt beforehand.
    #[must_use]
    pub fn finish(mut self) -> Option<PreparedMarkup> {
        let good = self.good && self.open.is_empty();
        self.hole(Hole::None);
        good.then_some(self.stamp)
    }

    fn hole(&mut self, hole: Hole) {
        let piece = std::mem::take(&mut self.piece);
        self.stamp.bytes = self.stamp.bytes.saturating_add(piece.markup.len());
        self.stamp.pieces.push(Piece { hole, ..piece });
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

    fn spell(&mut self, text: &str, place: Place) {
        self.good &= escape::push(&mut self.piece.markup, text, place, self.stamp.encoding);
    }

    fn check(&mut self, name: QNameRef<'_>) {
        let encoding = self.stamp.encoding;
        self.good &= name.is_good()
            && encoding.check(name.local).is_ok()
            && encoding.check(name.prefix).is_ok();
    }

    fn need(&mut self, prefix: &str, uri: &str) {
        match self.stamp.needs.iter().find(|(known, _)| &**known == prefix) {
            Some((_, known)) => self.good &= &**known == uri,
            None => {
                self.good &= chars::is_text(uri);
                self.stamp.needs.push((prefix.into(), uri.into()));
            }
        }
    }
}
