//! What the operations make of the result: elements, attributes, copies, stamps, and what is collected or built first.

use std::borrow::Cow;

use xml::{Kind, Node};
use xpath::{Expression, Item, NodeSet, Value};

use super::Ran;
use super::machine::Machine;
use crate::output::Output;
use crate::program::{Literal, Op, ResultName, StampOp};

impl<'d> Machine<'_, 'd> {
    pub(super) fn text(&mut self, text: &str) -> Ran {
        self.world.made(text.len())?;
        self.output.text(text)?;
        Ok(())
    }

    fn start(&mut self, name: xml::QNameRef<'_>) -> Ran {
        self.count_start(name)?;
        self.output.start(name)?;
        Ok(())
    }

    fn count_start(&mut self, name: xml::QNameRef<'_>) -> Ran {
        self.world.made(name.local.len().saturating_mul(2).saturating_add(16))?;
        Ok(())
    }

    pub(super) fn open(&mut self, output: Output) {
        self.outputs.push(std::mem::replace(&mut self.output, output));
    }

    fn close(&mut self) -> Ran<Output> {
        let outer = self.outputs.pop().ok_or("the program closes an output too many")?;
        Ok(std::mem::replace(&mut self.output, outer))
    }

    pub(super) fn collected(&mut self) -> Ran<String> {
        match self.close()? {
            Output::Text(text) => Ok(text),
            Output::Writer(_)
            | Output::Html(_)
            | Output::Undecided(_)
            | Output::Tree(_)
            | Output::Plain(..) => Err("the program collects no text here".into()),
        }
    }

    pub(super) fn built(&mut self) -> Ran<&'d xml::Document> {
        match self.close()? {
            Output::Tree(builder) => self.world.keep(builder.finish()),
            Output::Writer(_)
            | Output::Html(_)
            | Output::Undecided(_)
            | Output::Text(_)
            | Output::Plain(..) => Err("the program builds no fragment here".into()),
        }
    }

    pub(super) fn fragment(&mut self) -> Ran<Value<'d>> {
        self.world.made(256)?;
        Ok(Value::NodeSet(NodeSet::from(self.built()?.root())))
    }

    pub(super) fn copy_of(&mut self, select: &'d Expression) -> Ran {
        match self.value(select)? {
            Value::NodeSet(nodes) => {
                for item in &nodes {
                    let weight = item.node().map_or(0, |node| {
                        node.descendants().fold(16usize, |sum, below| {
                            sum.saturating_add(16).saturating_add(below.text().len())
                        })
                    });
                    self.world.made(weight)?;
                    self.may_declare(item);
                    self.output.copy(item)?;
                }
                Ok(())
            }
            other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                self.text(&other.into_string())
            }
        }
    }

    /// Section 7.5.
    pub(super) fn copy(&mut self, end: usize) -> Ran {
        let item = self.now.context.item;
        match (item.kind(), item.node()) {
            (Kind::Root, _) => {}
            (Kind::Element, Some(node)) => {
                let inherits = self.inherits(node);
                self.start_like(node)?;
                self.copies.push((self.output.depth(), node));
                if inherits {
                    for (prefix, uri) in node.declarations() {
                        if prefix == "xml" || uri.is_empty() {
                            continue;
                        }
                        self.output.namespace(prefix, uri)?;
                    }
                    return Ok(());
                }
                for (prefix, uri) in node.namespaces_in_scope() {
                    if prefix != "xml" {
                        self.output.namespace(prefix, uri)?;
                    }
                }
            }
            _ => {
                self.world.made(item.node().map_or(16, |node| node.text().len()))?;
                self.may_declare(item);
                self.output.copy(item)?;
                self.now.pc = end;
            }
        }
        Ok(())
    }

    /// Whether all namespaces that are in scope at a node, but those that it declares itself, are in
    /// scope where it is copied to: right in the copy of its parent.
    fn inherits(&self, node: Node<'d>) -> bool {
        let Some((within, above)) = self.copies.last() else { return false };
        let here = within.is_some() && *within == self.output.depth();
        here && node.parent() == Some(*above)
    }

    /// What isn't of the element that is being copied may bring declarations of its own into the copy.
    fn may_declare(&mut self, item: Item<'d>) {
        let named = match item.node() {
            Some(node) => node.kind() == Kind::Attribute && !node.namespace().is_empty(),
            None => true,
        };
        if named && let Some((depth, above)) = self.copies.last_mut() {
            let own = item.parent().and_then(Item::node) == Some(*above);
            *depth = depth.filter(|_| own);
        }
    }

    /// As [`Machine::may_declare`], of an attribute that is made.
    fn made_attribute(&mut self, name: xml::QNameRef<'_>, value: &str) -> Ran {
        if !name.namespace.is_empty()
            && let Some((depth, _)) = self.copies.last_mut()
        {
            *depth = None;
        }
        self.output.attribute(name, value)?;
        Ok(())
    }

    fn start_like(&mut self, node: Node<'d>) -> Ran {
        self.count_start(node.qname_ref())?;
        self.output.start_like(node)?;
        Ok(())
    }

    pub(super) fn literal(&mut self, literal: &'d Literal) -> Ran {
        self.start(literal.name.as_ref())?;
        for (prefix, uri) in &literal.namespaces {
            self.output.namespace(prefix, uri)?;
        }
        Ok(())
    }

    /// Answers false where the elements have to be made one by one.
    pub(super) fn stamp(&mut self, op: &'d StampOp) -> Ran<bool> {
        if !matches!(self.output, Output::Writer(_)) {
            return Ok(false);
        }
        let outside = Output::Text(String::new());
        let mut output = std::mem::replace(&mut self.output, outside);
        let Output::Writer(writer) = &mut output else { return Ok(false) };
        let mut holes = op.holes.iter();
        let stamped = writer.write_prepared(&op.stamp, || -> Ran<Cow<'d, str>> {
            match holes.next() {
                Some(hole) => self.fill(*hole),
                None => Err("the program has a hole too many".into()),
            }
        });
        self.output = output;
        let stamped = stamped?;
        if stamped {
            self.spend_many(op.holes.len() as u64)?;
            self.world.made(op.stamp.markup_bytes())?;
        }
        Ok(stamped)
    }

    /// What comes into a hole of a stamp.
    fn fill(&mut self, hole: usize) -> Ran<Cow<'d, str>> {
        let program = self.world.program;
        let text = match program.ops.get(hole) {
            Some(Op::ValueOf { select, .. }) => self.string(select),
            Some(Op::Attribute(parts)) => self.avt(&parts.1).map(Cow::Owned),
            Some(_) | None => Err("the program has a hole at the wrong place".into()),
        };
        let text = text.map_err(|failure| failure.placed(program, Some(hole)))?;
        self.world.made(text.len())?;
        Ok(text)
    }

    pub(super) fn element(&mut self, name: &'d ResultName) -> Ran {
        if let ResultName::Fixed(name) = name {
            return self.start(name.as_ref());
        }
        let (prefix, namespace, local) = self.made_name(name, true)?;
        self.start(xml::QNameRef::new(&prefix, &namespace, &local))
    }

    pub(super) fn attribute(&mut self, name: &'d ResultName) -> Ran {
        let value = self.collected()?;
        self.world.made(value.len())?;
        if let ResultName::Fixed(name) = name {
            return self.made_attribute(name.as_ref(), &value);
        }
        let (prefix, namespace, local) = self.made_name(name, false)?;
        self.made_attribute(xml::QNameRef::new(&prefix, &namespace, &local), &value)
    }

    /// Sections 7.1.2 and 7.1.3: prefix, namespace and local name.
    fn made_name(&mut self, name: &'d ResultName, element: bool) -> Ran<(String, String, String)> {
        let ResultName::Made { name, namespace, scope } = name else {
            return Err("the program lacks a name".into());
        };
        let text = self.avt(name)?;
        let text = text.trim();
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        if !element && text == "xmlns" {
            return Err("an attribute can't be named `xmlns`".into());
        }
        let uri = match namespace {
            Some(namespace) => self.avt(namespace)?,
            None if prefix.is_empty() && !element => String::new(),
            None => match scope.iter().find(|(known, _)| known == prefix) {
                Some((_, uri)) => uri.clone(),
                None if prefix.is_empty() => String::new(),
                None => return Err(format!("the prefix of `{text}` isn't declared here").into()),
            },
        };
        let good = xml::is_ncname(local) && (prefix.is_empty() || xml::is_ncname(prefix));
        if !good {
            return Err(format!("`{text}` isn't a name").into());
        }
        let prefix = if uri.is_empty() || prefix == "xmlns" { "" } else { prefix };
        Ok((prefix.to_owned(), uri, local.to_owned()))
    }
}

/// What a comment or an instruction counts for, besides its text.
pub(super) const NODE_BYTES: usize = 32;

/// Section 7.4: a space between hyphens, and behind one at the end.
pub(super) fn hyphens_apart(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '-' && out.ends_with('-') {
            out.push(' ');
        }
        out.push(c);
    }
    if out.ends_with('-') {
        out.push(' ');
    }
    out
}
