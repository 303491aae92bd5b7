//! Writes result nodes: elements, attributes, copies, prebuilt markup, and text and trees that are built first.

use std::borrow::Cow;

use xml::{Kind, Node, Row};
use xpath::{Expression, Item, NodeSet, Value};

use super::RunResult;
use super::machine::Machine;
use crate::output::Output;
use crate::program::{Hole, Literal, MarkupOp, Op, ResultName};

impl<'d> Machine<'_, 'd> {
    pub(super) fn text(&mut self, text: &str) -> RunResult {
        self.state.charge_memory(text.len())?;
        self.output.text(text)?;
        Ok(())
    }

    fn start(&mut self, name: xml::QNameRef<'_>) -> RunResult {
        self.charge_start(name)?;
        self.output.start(name)?;
        Ok(())
    }

    fn charge_start(&mut self, name: xml::QNameRef<'_>) -> RunResult {
        self.state.charge_memory(name_bytes(name).saturating_mul(2).saturating_add(16))?;
        self.charge_name(name)?;
        self.attributes = 0;
        Ok(())
    }

    /// Charges the declaration that a name may need.
    fn charge_name(&mut self, name: xml::QNameRef<'_>) -> RunResult {
        if name.namespace.is_empty() {
            return Ok(());
        }
        let declaration = self.output.declaration_bytes(name.prefix, name.namespace);
        Ok(self.state.charge_memory(declaration)?)
    }

    fn namespace(&mut self, prefix: &str, uri: &str) -> RunResult {
        let bytes = self.output.declaration_bytes(prefix, uri);
        self.state.charge_memory(bytes)?;
        self.state.charge_steps(self.output.bindings_visited() / BINDINGS_PER_STEP)?;
        self.output.namespace(prefix, uri)
    }

    /// Charges a copy of a node with its attributes and declarations; the outermost node has all declarations in scope.
    fn charge_copy_of(&mut self, node: Node<'d>, outermost: bool) -> RunResult {
        self.state.charge_steps(1)?;
        self.state.charge_memory(node.text().len().saturating_add(16))?;
        if !node.is_element() {
            return Ok(());
        }
        self.state.charge_memory(name_bytes(node.qname_ref()).saturating_mul(2))?;
        for attribute in node.attributes() {
            let name = attribute.qname_ref();
            let text = attribute.text().len().saturating_add(name_bytes(name));
            self.state.charge_memory(text.saturating_add(" =\"\"".len()))?;
        }
        let mut declared = 0_usize;
        let mut charge = |(prefix, uri): (&str, &str)| -> RunResult {
            declared = declared.saturating_add(1);
            let bytes = self.output.declaration_bytes(prefix, uri);
            Ok(self.state.charge_memory(bytes)?)
        };
        if outermost {
            node.namespaces_in_scope().try_for_each(&mut charge)?;
        } else {
            node.declarations().try_for_each(&mut charge)?;
        }
        let parts = declared.saturating_add(node.attributes().count());
        self.state.charge_steps(parts / PARTS_PER_STEP)?;
        if let bindings @ 1.. = self.output.bindings_visited() {
            let visited = bindings.saturating_add(declared).saturating_mul(declared);
            self.state.charge_steps(visited / BINDINGS_PER_STEP)?;
        }
        Ok(())
    }

    pub(super) fn open(&mut self, output: Output) {
        self.outputs.push(std::mem::replace(&mut self.output, output));
    }

    fn close(&mut self) -> RunResult<Output> {
        let outer = self.outputs.pop().ok_or("internal error: no output to close")?;
        Ok(std::mem::replace(&mut self.output, outer))
    }

    pub(super) fn collected(&mut self) -> RunResult<String> {
        match self.close()? {
            Output::Text(text) => Ok(text),
            Output::Writer(_)
            | Output::Html(_)
            | Output::Deferred(_)
            | Output::Tree(_)
            | Output::Plain(..) => Err("internal error: no text was collected".into()),
        }
    }

    pub(super) fn built(&mut self) -> RunResult<&'d xml::Document> {
        match self.close()? {
            Output::Tree(builder) => self.state.keep(builder.finish()),
            Output::Writer(_)
            | Output::Html(_)
            | Output::Deferred(_)
            | Output::Text(_)
            | Output::Plain(..) => Err("internal error: no fragment was built".into()),
        }
    }

    pub(super) fn fragment(&mut self) -> RunResult<Value<'d>> {
        self.state.charge_memory(256)?;
        let fragment = self.built()?;
        self.state.fragments.insert(fragment.serial());
        Ok(Value::NodeSet(NodeSet::from(fragment.root())))
    }

    pub(super) fn copy_of(&mut self, select: &'d Expression) -> RunResult {
        match self.value(select)? {
            Value::NodeSet(nodes) => {
                for item in &nodes {
                    match item.node() {
                        Some(node) => self.charge_copy_of(node, true)?,
                        None => {
                            let bytes = item.binding().map_or(0, |(prefix, uri)| {
                                self.output.declaration_bytes(prefix, uri)
                            });
                            self.state.charge_steps(1)?;
                            self.state.charge_memory(bytes)?;
                        }
                    }
                    let top = item.node().filter(|node| node.kind() == Kind::Root);
                    for node in item.node().into_iter().flat_map(Node::descendants) {
                        self.charge_copy_of(node, node.parent() == top)?;
                    }
                    self.note_declarations(item);
                    self.output.copy(item)?;
                }
                Ok(())
            }
            other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                self.text(&other.into_string())
            }
        }
    }

    /// `xsl:copy` (section 7.5).
    pub(super) fn copy(&mut self, end: usize) -> RunResult {
        let item = self.registers.context.item;
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
                        self.namespace(prefix, uri)?;
                    }
                    return Ok(());
                }
                let mut declared = 0_usize;
                for (prefix, uri) in node.namespaces_in_scope() {
                    declared = declared.saturating_add(1);
                    if prefix != "xml" {
                        self.namespace(prefix, uri)?;
                    }
                }
                self.state.charge_steps(declared / PARTS_PER_STEP)?;
            }
            _ => {
                self.state.charge_memory(item.node().map_or(16, |node| node.text().len()))?;
                self.note_declarations(item);
                self.output.copy(item)?;
                self.registers.pc = end;
            }
        }
        Ok(())
    }

    /// Whether the namespaces that a node inherits are in scope where it is copied to: directly in the copy of its
    /// parent.
    fn inherits(&self, node: Node<'d>) -> bool {
        let Some((within, above)) = self.copies.last() else { return false };
        let here = within.is_some() && *within == self.output.depth();
        here && node.parent() == Some(*above)
    }

    /// A node that does not belong to the element that is being copied may add declarations to the copy.
    fn note_declarations(&mut self, item: Item<'d>) {
        let named = match item.node() {
            Some(node) => node.kind() == Kind::Attribute && !node.namespace().is_empty(),
            None => true,
        };
        if named && let Some((depth, above)) = self.copies.last_mut() {
            let own = item.parent().and_then(Item::node) == Some(*above);
            *depth = depth.filter(|_| own);
        }
    }

    /// As [`Machine::note_declarations`], for a computed attribute.
    fn computed_attribute(&mut self, name: xml::QNameRef<'_>, value: &str) -> RunResult {
        if !name.namespace.is_empty()
            && let Some((depth, _)) = self.copies.last_mut()
        {
            *depth = None;
        }
        self.add_attribute(name, value)
    }

    /// Each attribute is compared with those before it.
    pub(super) fn add_attribute(&mut self, name: xml::QNameRef<'_>, value: &str) -> RunResult {
        self.attributes = self.attributes.saturating_add(1);
        self.state.charge_steps(self.attributes / 16)?;
        self.state.charge_memory(name_bytes(name))?;
        self.charge_name(name)?;
        self.output.attribute(name, value)
    }

    fn start_like(&mut self, node: Node<'d>) -> RunResult {
        self.charge_start(node.qname_ref())?;
        self.output.start_like(node)?;
        Ok(())
    }

    pub(super) fn literal(&mut self, literal: &'d Literal) -> RunResult {
        self.start(literal.name.as_ref())?;
        for (prefix, uri) in &literal.namespaces {
            self.namespace(prefix, uri)?;
        }
        Ok(())
    }

    /// Writes prebuilt markup. Returns false if the elements must be written one by one.
    pub(super) fn markup(&mut self, op: &'d MarkupOp) -> RunResult<bool> {
        let Output::Writer(writer) = &mut self.output else { return Ok(false) };
        if !writer.takes_prepared(&op.markup)? {
            return Ok(false);
        }
        self.state.charge_steps(op.holes.len())?;
        self.state.charge_memory(op.markup.markup_bytes())?;
        let mut texts = std::mem::take(&mut self.texts);
        self.fill(&op.holes, &mut texts)?;
        if let Output::Writer(writer) = &mut self.output {
            writer.write_prepared(&op.markup, &texts)?;
        }
        texts.clear();
        self.texts = texts;
        Ok(true)
    }

    /// Adds the values for the holes of prebuilt markup, charged.
    fn fill(&mut self, holes: &'d [Hole], texts: &mut Vec<Cow<'d, str>>) -> RunResult {
        let within = self.state.in_source(self.registers.context);
        let mut row = within.map(Node::row);
        let mut bytes = 0_usize;
        for hole in holes {
            let row = row.as_mut().filter(|_| hole.is_new);
            let text = within.zip(hole.child);
            let text = text.and_then(|(node, name)| self.state.text_in(node, name, row));
            texts.push(match text {
                Some(text) => {
                    bytes = bytes.saturating_add(text.len());
                    Cow::Borrowed(text)
                }
                None => self.value_of(hole.op)?,
            });
        }
        let visited = row.as_mut().map_or(0, Row::take_visited);
        self.state.budget.charge_steps(visited)?;
        Ok(self.state.charge_memory(bytes)?)
    }

    /// The value for a hole of prebuilt markup, charged.
    #[inline(never)]
    fn value_of(&mut self, hole: usize) -> RunResult<Cow<'d, str>> {
        let program = self.state.program;
        let text = match program.ops.get(hole) {
            Some(Op::ValueOf { select, .. }) => self.string(select),
            Some(Op::Attribute(parts)) => self.avt(&parts.1).map(Cow::Owned),
            Some(_) | None => Err("internal error: not a hole".into()),
        };
        let text = text.map_err(|error| error.located(program, Some(hole)))?;
        self.state.charge_memory(text.len())?;
        Ok(text)
    }

    pub(super) fn element(&mut self, name: &'d ResultName) -> RunResult {
        if let ResultName::Fixed(name) = name {
            return self.start(name.as_ref());
        }
        let (prefix, namespace, local) = self.computed_name(name, true)?;
        self.start(xml::QNameRef::new(&prefix, &namespace, &local))
    }

    pub(super) fn end_attribute(&mut self, name: &'d ResultName) -> RunResult {
        let value = self.collected()?;
        self.state.charge_memory(value.len())?;
        if let ResultName::Fixed(name) = name {
            return self.computed_attribute(name.as_ref(), &value);
        }
        let (prefix, namespace, local) = self.computed_name(name, false)?;
        self.computed_attribute(xml::QNameRef::new(&prefix, &namespace, &local), &value)
    }

    /// Prefix, namespace and local name of a computed element or attribute (sections 7.1.2 and 7.1.3).
    fn computed_name(
        &mut self,
        name: &'d ResultName,
        element: bool,
    ) -> RunResult<(String, String, String)> {
        let ResultName::Computed { name, namespace, scope } = name else {
            return Err("internal error: no name".into());
        };
        let text = self.avt(name)?;
        let text = text.trim();
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        if !element && text == "xmlns" {
            return Err("an attribute cannot be named `xmlns`".into());
        }
        let uri = match namespace {
            Some(namespace) => self.avt(namespace)?,
            None if prefix.is_empty() && !element => String::new(),
            None => match scope.iter().find(|(known, _)| known == prefix) {
                Some((_, uri)) => uri.clone(),
                None if prefix.is_empty() => String::new(),
                None => return Err(format!("the prefix of `{text}` is not declared").into()),
            },
        };
        let valid = xml::is_ncname(local) && (prefix.is_empty() || xml::is_ncname(prefix));
        if !valid {
            return Err(format!("`{text}` is not a valid name").into());
        }
        let prefix = match prefix {
            // The prefix `xml` and its namespace belong together.
            _ if uri == xml::XML_NAMESPACE => "xml",
            _ if uri.is_empty() => "",
            "xml" | "xmlns" => "",
            other => other,
        };
        Ok((prefix.to_owned(), uri, local.to_owned()))
    }
}

/// Attributes and declarations that are copied for the cost of a step.
const PARTS_PER_STEP: usize = 8;
/// Bindings that are compared with a prefix for the cost of a step.
const BINDINGS_PER_STEP: usize = 16;

fn name_bytes(name: xml::QNameRef<'_>) -> usize {
    name.prefix.len().saturating_add(name.local.len())
}

/// Memory of a comment or processing instruction, in addition to its text.
pub(super) const NODE_BYTES: usize = 32;

/// Inserts spaces between hyphens, and after one at the end: section 7.4.
pub(super) fn separate_hyphens(text: &str) -> String {
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
