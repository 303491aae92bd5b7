//! Variables, and the functions of section 12, for expressions.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::limits;
use xml::{Document, Kind};
use xpath::{
    Budget, Context, Environment, ExpandedName, FunctionId, Item, NodeSet, Value, VariableId,
};

use super::machine::Machine;
use super::{GlobalValue, KeyIndex, RunError, State};
use crate::error::ErrorKind;
use crate::exslt;
use crate::functions::{self, Builtin};
use crate::knock_out::is_out;
use crate::output::Output;
use crate::program::{Block, GLOBAL, StaticScope};

pub(super) struct Env<'r, 'd> {
    pub(super) state: &'r mut State<'d>,
    pub(super) locals: &'r [Value<'d>],
    pub(super) current: Item<'d>,
}

type Evaluated<T> = Result<T, xpath::Error>;

fn fail<T>(message: impl Into<String>) -> Evaluated<T> {
    Err(xpath::Error::Host(message.into()))
}

/// `string()` of an argument, with the work charged.
pub(crate) fn text_of(value: Value<'_>, budget: &Budget) -> Evaluated<String> {
    match value {
        Value::NodeSet(nodes) => {
            let Some(first) = nodes.first() else { return Ok(String::new()) };
            let text = first.charged_string_value(budget)?;
            budget.charge_memory(text.len())?;
            Ok(text.into_owned())
        }
        other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
            Ok(other.into_string())
        }
    }
}

impl<'d> Environment<'d> for Env<'_, 'd> {
    fn variable(&mut self, VariableId(id): VariableId, budget: &Budget) -> Evaluated<Value<'d>> {
        if id & GLOBAL != 0 {
            return self.state.global(id & !GLOBAL);
        }
        let value = self.locals.get(id as usize).ok_or(xpath::Error::NoVariable(id))?;
        Ok(value.copy(budget)?)
    }

    fn call(
        &mut self,
        id: FunctionId,
        context: &Context<'d>,
        arguments: Vec<Value<'d>>,
        budget: &Budget,
    ) -> Evaluated<Value<'d>> {
        if let Some(row) = exslt::row_of(id) {
            return (row.run)(&mut exslt::Arguments::new(arguments, self.state));
        }
        if let Some(number) = functions::unknown(id) {
            let name = self.state.program.unknown_functions.get(number);
            let name = name.map(ToString::to_string).unwrap_or_default();
            return fail(format!("unknown function `{name}`"));
        }
        let scope = functions::scope_of(id).and_then(|at| self.state.program.scopes.get(at));
        let scope = scope.unwrap_or(&NO_SCOPE);
        let function = functions::function(id).ok_or(xpath::Error::NoFunction(id.0))?;
        let mut given = arguments.into_iter();
        let mut next = || given.next();
        let text = |value: Option<Value<'d>>| match value {
            Some(value) => text_of(value, budget),
            None => Ok(String::new()),
        };
        match function {
            Builtin::Current => Ok(Value::NodeSet(NodeSet::from(self.current))),
            Builtin::Key => {
                let name = expand(scope, &text(next())?)?;
                self.state.key(&name, next(), context.item).map(Value::NodeSet)
            }
            Builtin::Document => {
                let (what, base) = (next(), next());
                self.state.document(what, base, scope.module).map(Value::NodeSet)
            }
            Builtin::GenerateId => {
                let first = match next() {
                    Some(value) => value.into_nodes("the argument of generate-id()")?.first(),
                    None => Some(context.item),
                };
                let id = first.map(|item| self.state.id(item)).transpose()?;
                Ok(Value::String(id.unwrap_or_default()))
            }
            Builtin::FormatNumber => {
                let number = match next() {
                    Some(Value::Number(number)) => number,
                    other => xpath::string_to_number(&text(other)?),
                };
                let pattern = text(next())?;
                let name = next().map(|name| expand(scope, &text(Some(name))?)).transpose()?;
                self.state.format(number, &pattern, name.unwrap_or_default()).map(Value::String)
            }
            Builtin::SystemProperty => Ok(system_property(&expand(scope, &text(next())?)?)),
            Builtin::UnparsedEntityUri => {
                let name = text(next())?;
                let uri = context.item.holder().document().unparsed_entity(&name).unwrap_or("");
                budget.charge_reading(uri.len())?;
                budget.charge_memory(uri.len())?;
                Ok(Value::String(uri.to_owned()))
            }
            Builtin::ElementAvailable => {
                let name = expand(scope, &text(next())?)?;
                let is_xsl = name.namespace == crate::load::XSL;
                Ok(Value::Boolean(is_xsl && crate::compile::is_instruction(&name.local)))
            }
            Builtin::FunctionAvailable => {
                let name = expand(scope, &text(next())?)?;
                Ok(Value::Boolean(functions::exists(&name.namespace, &name.local)))
            }
            Builtin::NodeSet => match next() {
                Some(Value::NodeSet(nodes)) => {
                    if let Some(fragment) = self.state.fragment(&nodes) {
                        self.state.fragments.remove(&fragment);
                    }
                    Ok(Value::NodeSet(nodes))
                }
                other => {
                    let text = text(other)?;
                    self.state.text_node(&text).map(Value::NodeSet)
                }
            },
            Builtin::ObjectType => Ok(Value::String(
                match next() {
                    Some(Value::NodeSet(nodes)) if self.state.fragment(&nodes).is_some() => "RTF",
                    Some(Value::NodeSet(_)) | None => "node-set",
                    Some(Value::String(_)) => "string",
                    Some(Value::Number(_)) => "number",
                    Some(Value::Boolean(_)) => "boolean",
                }
                .to_owned(),
            )),
        }
    }
}

static NO_SCOPE: StaticScope = StaticScope { bindings: Vec::new(), module: 0 };

/// Expands a QName in a string.
fn expand(scope: &StaticScope, text: &str) -> Evaluated<ExpandedName> {
    let Some((prefix, local)) = text.trim().split_once(':') else {
        return Ok(ExpandedName::new("", text.trim()));
    };
    match scope.bindings.iter().find(|(known, _)| known == prefix) {
        Some((_, uri)) => Ok(ExpandedName::new(uri.as_str(), local)),
        None => fail(format!("the prefix of `{text}` is not declared")),
    }
}

/// `system-property()` (section 12.4).
fn system_property(name: &ExpandedName) -> Value<'static> {
    match (name.namespace.as_str(), name.local.as_str()) {
        (crate::load::XSL, name) if is_out(&["system property xsl:", name]) => {
            Value::String(String::new())
        }
        (crate::load::XSL, "version") => Value::Number(1.0),
        (crate::load::XSL, "vendor") => Value::String("Penstock".to_owned()),
        (crate::load::XSL, "vendor-url") => Value::String("urn:penstock".to_owned()),
        _ => Value::String(String::new()),
    }
}

/// The memory of an entry in a map.
const ENTRY_BYTES: usize = 64;

impl<'d> State<'d> {
    /// The serial of the result tree fragment, if the nodes are one.
    fn fragment(&self, nodes: &NodeSet<'d>) -> Option<u32> {
        let node = nodes.first().filter(|_| nodes.len() == 1)?.node()?;
        let serial = node.document().serial();
        (node.kind() == Kind::Root && self.fragments.contains(&serial)).then_some(serial)
    }

    /// The value of a global variable; the variables that it refers to are evaluated first.
    fn global(&mut self, index: u32) -> Evaluated<Value<'d>> {
        let program = self.program;
        let mut stack = vec![(index, 0usize)];
        while let Some((index, next)) = stack.last_mut() {
            let (at, need) = (*index as usize, *next);
            *next = next.saturating_add(1);
            let (Some(value), Some(global)) = (self.globals.get(at), program.globals.get(at))
            else {
                return Err(xpath::Error::NoVariable(*index));
            };
            match value {
                GlobalValue::Known(value) if stack.len() == 1 => {
                    return Ok(value.copy(self.budget)?);
                }
                GlobalValue::Known(_) => drop(stack.pop()),
                GlobalValue::Pending => {
                    return fail(format!("the variable `{}` depends on itself", global.name));
                }
                GlobalValue::Unknown => {
                    self.charge_steps(1)?;
                    match global.needs.get(need) {
                        Some(need) => stack.push((*need, 0)),
                        None => self.evaluate_global(at, global.block)?,
                    }
                }
            }
        }
        Err(xpath::Error::NoVariable(index))
    }

    fn evaluate_global(&mut self, index: usize, block: Block) -> Evaluated<()> {
        if self.globals_depth >= limits::XSLT_GLOBALS_DEPTH_MAX {
            let max = limits::XSLT_GLOBALS_DEPTH_MAX;
            let message =
                format!("global variables use one another in templates more than {max} deep");
            return Err(self.raise(RunError::new(ErrorKind::Limit, message)));
        }
        self.globals_depth = self.globals_depth.saturating_add(1);
        if let Some(value) = self.globals.get_mut(index) {
            *value = GlobalValue::Pending;
        }
        let context = Context::new(self.source);
        let output = Output::Text(String::new());
        let value = match Machine::new(self, context, output).value_of_block(block) {
            Ok(value) => value,
            Err(error) => return Err(self.raise(error)),
        };
        if let Some(known) = self.globals.get_mut(index) {
            *known = GlobalValue::Known(value);
        }
        self.globals_depth = self.globals_depth.saturating_sub(1);
        Ok(())
    }

    /// `key()` (section 12.2).
    fn key(
        &mut self,
        name: &ExpandedName,
        value: Option<Value<'d>>,
        context: Item<'d>,
    ) -> Evaluated<NodeSet<'d>> {
        let index = self.key_index(name, context.holder().document().root())?;
        let budget = self.budget;
        let mut found: Vec<&NodeSet<'d>> = Vec::new();
        match value {
            Some(Value::NodeSet(nodes)) => {
                // Equal values select the same nodes, so each is looked up once.
                let mut seen = HashSet::new();
                for node in &nodes {
                    budget.charge_steps(1)?;
                    let value = node.charged_string_value(budget)?;
                    budget.charge_memory(value.len().saturating_add(ENTRY_BYTES))?;
                    if !seen.contains(&value) {
                        found.extend(index.get(&*value));
                        seen.insert(value);
                    }
                }
            }
            Some(other) => found.extend(index.get(&text_of(other, budget)?)),
            None => {}
        }
        if let [] | [_] = found.as_slice() {
            return Ok(found.first().copied().cloned().unwrap_or_default());
        }
        let mut all: Vec<Item<'d>> = Vec::new();
        for nodes in found {
            budget.charge_reading(size_of_val(nodes.items()))?;
            budget.charge_memory(size_of_val(nodes.items()))?;
            all.extend_from_slice(nodes.items());
        }
        Ok(NodeSet::from_unordered(all))
    }

    fn key_index(&mut self, name: &ExpandedName, root: xml::Node<'d>) -> Evaluated<KeyIndex<'d>> {
        let program = self.program;
        let Some(first) = program.keys.iter().position(|key| key.name == *name) else {
            return fail(format!("unknown key `{name}`"));
        };
        if let Some(index) = self.keys.get(&(first, root)) {
            return Ok(Rc::clone(index));
        }
        if self.keys_depth >= limits::XSLT_GLOBALS_DEPTH_MAX {
            let message = format!("the key `{name}` depends on itself, or on others too deeply");
            return Err(self.raise(RunError::new(ErrorKind::Limit, message)));
        }
        self.keys_depth = self.keys_depth.saturating_add(1);
        let keys: Vec<_> = program.keys.iter().filter(|key| key.name == *name).collect();
        let mut index: HashMap<String, Vec<Item<'d>>> = HashMap::new();
        let nodes = std::iter::once(root).chain(root.descendants());
        for node in nodes.flat_map(|node| std::iter::once(node).chain(node.attributes())) {
            for key in &keys {
                self.charge_steps(1)?;
                let (item, budget) = (Item::from(node), self.budget);
                let mut env = Env { state: self, locals: &[], current: item };
                if !key.pattern.matches(item, &mut env, budget)? {
                    continue;
                }
                let mut add = |value: String| {
                    budget.charge_memory(value.len().saturating_add(ENTRY_BYTES))?;
                    let items = index.entry(value).or_default();
                    if items.last() != Some(&item) {
                        items.push(item);
                    }
                    Ok::<(), xpath::Error>(())
                };
                match key.value.evaluate(Context::new(item), &mut env, budget)? {
                    Value::NodeSet(values) => {
                        for value in &values {
                            add(value.charged_string_value(budget)?.into_owned())?;
                        }
                    }
                    other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                        add(other.into_string())?;
                    }
                }
            }
        }
        self.keys_depth = self.keys_depth.saturating_sub(1);
        let shared = |(value, items)| (value, NodeSet::from_unordered(items).into_shared());
        let index = Rc::new(index.into_iter().map(shared).collect());
        self.keys.insert((first, root), Rc::clone(&index));
        Ok(index)
    }

    /// `document()` (section 12.1).
    fn document(
        &mut self,
        what: Option<Value<'d>>,
        base: Option<Value<'d>>,
        module: usize,
    ) -> Evaluated<NodeSet<'d>> {
        let program = self.program;
        let sheet = program.modules.get(module).map_or("", |module| module.uri.as_str());
        let base = match base {
            Some(base) => Some(base.into_nodes("the second argument of document()")?.first()),
            None => None,
        };
        let mut found = Vec::new();
        match what {
            Some(Value::NodeSet(nodes)) => {
                for item in &nodes {
                    let reference = item.charged_string_value(self.budget)?;
                    let beside = base.unwrap_or(Some(item));
                    found.extend(self.reference(&reference, sheet, Some(beside))?);
                }
            }
            Some(other) => {
                let reference = text_of(other, self.budget)?;
                found.extend(self.reference(&reference, sheet, base)?);
            }
            None => {}
        }
        Ok(NodeSet::from_unordered(found))
    }

    /// The document that a URI reference names; with a fragment, the element with that ID in it. `beside` is the node
    /// whose base URI the reference is relative to; if it should have one and has none, a relative reference names no
    /// document.
    fn reference(
        &mut self,
        reference: &str,
        sheet: &str,
        beside: Option<Option<Item<'d>>>,
    ) -> Evaluated<Option<Item<'d>>> {
        let beside = match beside {
            Some(None) if !is_absolute(reference) => return Ok(None),
            Some(item) => item,
            None => None,
        };
        let Some((href, fragment)) = reference.split_once('#') else {
            return self.read_document(reference, sheet, beside).map(Some);
        };
        if !fragment.is_empty() && !xml::is_ncname(fragment) {
            return fail(format!(
                "`#{fragment}` is not supported: a fragment must be the ID of an element"
            ));
        }
        let root = self.read_document(href, sheet, beside)?;
        if fragment.is_empty() {
            return Ok(Some(root));
        }
        Ok(root.holder().document().element_by_id(fragment).map(Item::from))
    }

    /// Reads a document, relative to that of the node `beside`, or else to the stylesheet module.
    fn read_document(
        &mut self,
        href: &str,
        sheet: &str,
        beside: Option<Item<'d>>,
    ) -> Evaluated<Item<'d>> {
        let (href, base) = match beside {
            Some(item) if href.is_empty() => return Ok(item.holder().document().root().into()),
            Some(item) => (href, item.holder().document().base_uri().unwrap_or("")),
            None if href.is_empty() && sheet.is_empty() => {
                let main = self.program.modules.first();
                let main = main.ok_or_else(|| xpath::Error::Host("no stylesheet".to_owned()))?;
                return Ok(main.document.root().into());
            }
            None if href.is_empty() => (sheet, ""),
            None => (href, sheet),
        };
        let request = [base, "\n", href].concat();
        if let Some(known) = self.documents.get(&request) {
            return Ok(known.root().into());
        }
        let failed = |message: String| RunError::new(ErrorKind::Resource, message);
        let read = self.resolver.read(href, base);
        let read = read.map_err(|message| self.raise(failed(message)))?;
        if let Some(known) = self.documents.get(&read.uri).copied() {
            self.documents.insert(request, known);
            return Ok(known.root().into());
        }
        self.budget.charge_scanning(read.bytes.len())?;
        let parsed = crate::load::parse(&read.bytes, &read.uri, self.resolver);
        let document =
            parsed.map_err(|error| self.raise(failed(format!("{}: {error}", read.uri))))?;
        self.charge_memory(read.bytes.len().max(document.heap_bytes()))?;
        let document = if self.program.spaces.strips_any() {
            crate::space::stripped(&document, &self.program.spaces, self.budget)?
        } else {
            document
        };
        let kept: Result<&'d Document, RunError> = self.keep(document);
        let document = kept.map_err(|error| self.raise(error))?;
        self.documents.insert(request, document);
        self.documents.insert(read.uri, document);
        Ok(document.root().into())
    }

    /// `generate-id()`: numbers nodes in the order of first use.
    fn id(&mut self, item: Item<'d>) -> Evaluated<String> {
        let next = self.ids.len().saturating_add(1);
        if let Some(id) = self.ids.get(&item) {
            return Ok(format!("id{id}"));
        }
        self.charge_memory(ENTRY_BYTES)?;
        self.ids.insert(item, next);
        Ok(format!("id{next}"))
    }

    fn format(&self, number: f64, pattern: &str, name: ExpandedName) -> Evaluated<String> {
        let default;
        let symbols = match self.program.formats.get(&name) {
            Some(symbols) => symbols,
            None if name.local.is_empty() => {
                default = crate::program::Symbols::default();
                &default
            }
            None => return fail(format!("unknown decimal format `{name}`")),
        };
        let words = symbols.nan.len().saturating_add(symbols.infinity.len());
        self.budget.charge_scanning(pattern.len())?;
        self.budget.charge_reading(words)?;
        self.charge_memory(pattern.len().saturating_add(words))?;
        crate::format::format(number, pattern, symbols).map_err(xpath::Error::Host)
    }

    fn text_node(&mut self, text: &str) -> Evaluated<NodeSet<'d>> {
        self.charge_memory(text.len().saturating_add(256))?;
        let mut builder = xml::Builder::new();
        xml::Sink::text(&mut builder, text)
            .map_err(|error| xpath::Error::Host(error.to_string()))?;
        let kept = self.keep(builder.finish());
        let document = kept.map_err(|error| self.raise(error))?;
        let text = document.root().first_child().filter(|node| node.kind() == Kind::Text);
        Ok(text.map_or_else(NodeSet::new, NodeSet::from))
    }
}

/// Whether a URI reference has a scheme: RFC 3986 section 4.3.
fn is_absolute(reference: &str) -> bool {
    reference.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':'))
}
