//! Builds a document value by value.

use std::borrow::Cow;

use super::{COUNT_SHIFT, Document, ESCAPED, Node, Ref, Tag, escape};

/// Writes a JSON text and its tree together, so that the result needs no parsing. Commas and colons are inserted.
/// Any order of calls gives well-formed JSON: [`Builder::finish`] closes open containers, a member without a name is
/// named `""`, and a second outermost value is dropped.
#[derive(Debug, Default)]
pub struct Builder {
    text: Vec<u8>,
    nodes: Vec<Node>,
    open: Vec<Open>,
    named: bool,
}

#[derive(Debug)]
struct Open {
    index: usize,
    count: u32,
    object: bool,
}

impl Builder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `null`.
    pub fn null(&mut self) -> &mut Self {
        self.leaf(b"null", Tag::Null as u32)
    }

    /// Adds a boolean.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        if value {
            self.leaf(b"true", Tag::True as u32)
        } else {
            self.leaf(b"false", Tag::False as u32)
        }
    }

    /// Adds a number by its text; a text that is not a JSON number (`NaN`, `+1`, `.5`) is added as a string.
    pub fn number(&mut self, text: &str) -> &mut Self {
        if super::read::is_number(text) {
            self.leaf(text.as_bytes(), Tag::Number as u32)
        } else {
            self.string(text)
        }
    }

    /// Adds a string.
    pub fn string(&mut self, value: &str) -> &mut Self {
        if self.before_value() {
            self.quoted(value, Tag::String);
        }
        self
    }

    /// Sets the name of the next member.
    pub fn key(&mut self, name: &str) -> &mut Self {
        if self.named || !self.open.last().is_some_and(|open| open.object) {
            return self;
        }
        self.comma();
        self.quoted(name, Tag::Key);
        self.text.push(b':');
        self.named = true;
        self
    }

    /// Opens an array.
    pub fn begin_array(&mut self) -> &mut Self {
        self.begin(b'[', Tag::Array)
    }

    /// Opens an object.
    pub fn begin_object(&mut self) -> &mut Self {
        self.begin(b'{', Tag::Object)
    }

    /// Closes the innermost open container.
    pub fn end(&mut self) -> &mut Self {
        if self.named {
            self.null();
        }
        let Some(open) = self.open.pop() else { return self };
        self.text.push(if open.object { b'}' } else { b']' });
        let (end, next) = (place(self.text.len()), place(self.nodes.len()));
        if let Some(node) = self.nodes.get_mut(open.index) {
            node.end = end;
            node.next = next;
            node.meta |= open.count << COUNT_SHIFT;
        }
        self
    }

    /// Adds a copy of `value` and its descendants, byte for byte.
    pub fn embed(&mut self, value: Ref<'_>) -> &mut Self {
        if !self.before_value() {
            return self;
        }
        let root = value.node();
        let (text, tree) = (place(self.text.len()), place(self.nodes.len()));
        self.text.extend_from_slice(value.raw().as_bytes());
        let source = value.document.nodes.get(value.index as usize..root.next as usize);
        self.nodes.extend(source.unwrap_or_default().iter().map(|node| Node {
            start: node.start - root.start + text,
            end: node.end - root.start + text,
            next: node.next - value.index + tree,
            meta: node.meta,
        }));
        self
    }

    /// Returns the document; `null` if nothing was added.
    #[must_use]
    pub fn finish(mut self) -> Document<'static> {
        while !self.open.is_empty() {
            self.end();
        }
        if self.nodes.is_empty() {
            self.null();
        }
        let text = String::from_utf8(self.text).unwrap_or_default();
        Document { text: Cow::Owned(text), nodes: self.nodes }
    }

    fn leaf(&mut self, text: &[u8], meta: u32) -> &mut Self {
        if self.before_value() {
            let start = self.text.len();
            self.text.extend_from_slice(text);
            self.push(start, meta);
        }
        self
    }

    fn quoted(&mut self, text: &str, tag: Tag) {
        let start = self.text.len();
        escape::push_quoted(&mut self.text, text);
        let escaped = self.text.len() - start != text.len() + 2;
        self.push(start, tag as u32 | if escaped { ESCAPED } else { 0 });
    }

    fn push(&mut self, start: usize, meta: u32) {
        let next = place(self.nodes.len() + 1);
        self.nodes.push(Node { start: place(start), end: place(self.text.len()), next, meta });
    }

    fn begin(&mut self, bracket: u8, tag: Tag) -> &mut Self {
        if self.before_value() {
            let start = self.text.len();
            self.text.push(bracket);
            self.open.push(Open { index: self.nodes.len(), count: 0, object: tag == Tag::Object });
            self.push(start, tag as u32);
        }
        self
    }

    /// Adds the comma or the missing name; false if the document is already complete.
    fn before_value(&mut self) -> bool {
        match self.open.last() {
            None => self.nodes.is_empty(),
            Some(open) if open.object => {
                if !self.named {
                    self.key("");
                }
                self.named = false;
                true
            }
            Some(_) => {
                self.comma();
                true
            }
        }
    }

    fn comma(&mut self) {
        if let Some(open) = self.open.last_mut() {
            if open.count > 0 {
                self.text.push(b',');
            }
            open.count += 1;
        }
    }
}

fn place(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}
