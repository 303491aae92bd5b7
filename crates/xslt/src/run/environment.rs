//! What expressions ask for while they are evaluated: variables, and the functions of section 12.

use std::collections::HashMap;
use std::rc::Rc;

use crate::limits;
use xml::{Document, Kind};
use xpath::{
    Budget, Context, Environment, EvalError, ExpandedName, FunctionId, Item, NodeSet, Value,
    VariableId,
};

use super::machine::Machine;
use super::{Failure, Index, Known, World};
use crate::error::{Place, TransformError};
use crate::exslt;
use crate::functions::{self, Function};
use crate::is_out;
use crate::output::Output;
use crate::program::{GLOBAL, Scope};

pub(super) struct Env<'r, 'd> {
    pub(super) world: &'r mut World<'d>,
    pub(super) locals: &'r [Value<'d>],
    pub(super) current: Item<'d>,
}

type Answer<T> = Result<T, EvalError>;

fn fail<T>(message: impl Into<String>) -> Answer<T> {
    Err(EvalError::Caller(message.into()))
}

impl<'d> Environment<'d> for Env<'_, 'd> {
    fn variable(&mut self, VariableId(id): VariableId, budget: &Budget) -> Answer<Value<'d>> {
        if id & GLOBAL != 0 {
            return self.world.global(id & !GLOBAL);
        }
        let value = self.locals.get(id as usize).ok_or(EvalError::NoVariable(id))?;
        Ok(value.copy(budget)?)
    }

    fn call(
        &mut self,
        id: FunctionId,
        context: &Context<'d>,
        arguments: Vec<Value<'d>>,
        _: &Budget,
    ) -> Answer<Value<'d>> {
        if let Some(row) = exslt::row_of(id) {
            return (row.run)(&mut exslt::Call::new(arguments, self.world));
        }
        if let Some(name) = functions::missing(id).and_then(|at| self.world.program.missing.get(at))
        {
            return fail(format!("there is no function {name} here"));
        }
        let scope = functions::scope_of(id).and_then(|at| self.world.program.scopes.get(at));
        let scope = scope.unwrap_or(&NO_SCOPE);
        let function = functions::function(id).ok_or(EvalError::NoFunction(id.0))?;
        let mut given = arguments.into_iter();
        let mut next = || given.next();
        match function {
            Function::Current => Ok(Value::NodeSet(NodeSet::from(self.current))),
            Function::Key => {
                let name = next().map(Value::into_string).unwrap_or_default();
                self.world.key(&named(scope, &name)?, next(), context.item).map(Value::NodeSet)
            }
            Function::Document => {
                let (what, base) = (next(), next());
                self.world.document(what, base, &scope.uri).map(Value::NodeSet)
            }
            Function::GenerateId => {
                let nodes = match next() {
                    Some(value) => value.into_nodes("the argument of generate-id()")?,
                    None => NodeSet::from(context.item),
                };
                Ok(Value::String(nodes.first().map_or(String::new(), |item| self.world.id(item))))
            }
            Function::FormatNumber => {
                let number = next().map_or(f64::NAN, |value| value.number());
                let pattern = next().map(Value::into_string).unwrap_or_default();
                let name = next().map(|name| named(scope, &name.into_string())).transpose()?;
                self.world.format(number, &pattern, name.unwrap_or_default()).map(Value::String)
            }
            Function::SystemProperty => {
                let name = next().map(Value::into_string).unwrap_or_default();
                Ok(system_property(&named(scope, &name)?))
            }
            Function::UnparsedEntityUri => {
                let name = next().map(Value::into_string).unwrap_or_default();
                let uri = context.item.holder().document().unparsed_entity(&name);
                Ok(Value::String(uri.unwrap_or("").to_owned()))
            }
            Function::CanInstruct => {
                let name = next().map(Value::into_string).unwrap_or_default();
                let name = named(scope, &name)?;
                let ours = name.namespace == crate::load::XSL;
                Ok(Value::Boolean(ours && crate::compile::is_instruction(&name.local)))
            }
            Function::CanCall => {
                let name = next().map(Value::into_string).unwrap_or_default();
                let name = named(scope, &name)?;
                Ok(Value::Boolean(functions::exists(&name.namespace, &name.local)))
            }
            Function::NodeSet => match next() {
                Some(Value::NodeSet(nodes)) => Ok(Value::NodeSet(nodes)),
                Some(other) => {
                    let text = other.into_string();
                    self.world.text_node(&text).map(Value::NodeSet)
                }
                None => fail("node-set() takes an argument"),
            },
            Function::ObjectType => Ok(Value::String(
                match next() {
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

static NO_SCOPE: Scope = Scope { bindings: Vec::new(), uri: String::new() };

/// A name in a string.
fn named(scope: &Scope, text: &str) -> Answer<ExpandedName> {
    let Some((prefix, local)) = text.trim().split_once(':') else {
        return Ok(ExpandedName::new("", text.trim()));
    };
    match scope.bindings.iter().find(|(known, _)| known == prefix) {
        Some((_, uri)) => Ok(ExpandedName::new(uri.as_str(), local)),
        None => fail(format!("the prefix of `{text}` isn't declared here")),
    }
}

/// Section 12.4.
fn system_property(name: &ExpandedName) -> Value<'static> {
    match (name.namespace.as_str(), name.local.as_str()) {
        (crate::load::XSL, name) if is_out(&["system property xsl:", name]) => {
            Value::String(String::new())
        }
        (crate::load::XSL, "version") => Value::Number(1.0),
        (crate::load::XSL, "vendor") => Value::String("Penstock".to_owned()),
        // There is no page that could be named.
        (crate::load::XSL, "vendor-url") => Value::String("urn:penstock".to_owned()),
        _ => Value::String(String::new()),
    }
}

impl From<Failure> for EvalError {
    fn from(failure: Failure) -> Self {
        Self::Caller(match failure.place {
            Some(Place { line, column, uri }) => {
                TransformError { line, column, uri, message: failure.message }.to_string()
            }
            None => failure.message,
        })
    }
}

impl<'d> World<'d> {
    /// The value of a global variable, and of those that it needs before it.
    fn global(&mut self, index: u32) -> Answer<Value<'d>> {
        let mut waiting = vec![index];
        while let Some(index) = waiting.last().copied() {
            let Some(known) = self.globals.get(index as usize) else {
                return Err(EvalError::NoVariable(index));
            };
            let program = self.program;
            let Some(global) = program.globals.get(index as usize) else {
                return Err(EvalError::NoVariable(index));
            };
            match known {
                Known::Value(value) if waiting.len() == 1 => return Ok(value.copy(self.budget)?),
                Known::Value(_) => {
                    waiting.pop();
                }
                Known::Soon => return fail(format!("the variable `{}` needs itself", global.name)),
                Known::Not => {
                    let unknown = |id: &&u32| {
                        matches!(self.globals.get(**id as usize), Some(Known::Not | Known::Soon))
                    };
                    match global.needs.iter().find(unknown) {
                        Some(need) if waiting.contains(need) => {
                            return fail(format!("the variable `{}` needs itself", global.name));
                        }
                        Some(need) => waiting.push(*need),
                        None => self.find_out(index, global.block)?,
                    }
                }
            }
        }
        Err(EvalError::NoVariable(index))
    }

    fn find_out(&mut self, index: u32, block: crate::program::Block) -> Answer<()> {
        if self.globals_depth >= limits::XSLT_GLOBALS_DEPTH_MAX {
            return fail("global variables need one another through templates too deeply");
        }
        self.globals_depth = self.globals_depth.saturating_add(1);
        if let Some(known) = self.globals.get_mut(index as usize) {
            *known = Known::Soon;
        }
        let context = Context::new(self.source);
        let output = Output::Text(String::new());
        let value = Machine::new(self, context, output).value_of_block(block)?;
        if let Some(known) = self.globals.get_mut(index as usize) {
            *known = Known::Value(value);
        }
        self.globals_depth = self.globals_depth.saturating_sub(1);
        Ok(())
    }

    /// Section 12.2.
    fn key(
        &mut self,
        name: &ExpandedName,
        value: Option<Value<'d>>,
        context: Item<'d>,
    ) -> Answer<NodeSet<'d>> {
        let holder = context.holder();
        let root = holder.ancestors().last().unwrap_or(holder);
        let index = self.index(name, root)?;
        let mut found: Vec<Item<'d>> = Vec::new();
        match value {
            Some(Value::NodeSet(nodes)) => {
                for node in &nodes {
                    found.extend(index.get(&*node.string_value()).into_iter().flatten());
                }
            }
            Some(other) => found.extend(index.get(&other.into_string()).into_iter().flatten()),
            None => {}
        }
        Ok(NodeSet::from_unordered(found))
    }

    fn index(&mut self, name: &ExpandedName, root: xml::Node<'d>) -> Answer<Index<'d>> {
        if let Some(index) = self.keys.get(&(name.clone(), root)) {
            return Ok(Rc::clone(index));
        }
        let program = self.program;
        if !program.keys.iter().any(|key| key.name == *name) {
            return fail(format!("there is no key `{name}`"));
        }
        if self.keys_depth >= limits::XSLT_GLOBALS_DEPTH_MAX {
            return fail(format!("the key `{name}` needs itself, or others too deeply"));
        }
        self.keys_depth = self.keys_depth.saturating_add(1);
        let mut index: HashMap<String, Vec<Item<'d>>> = HashMap::new();
        let budget = self.budget;
        let nodes = std::iter::once(root).chain(root.descendants());
        for node in nodes.flat_map(|node| std::iter::once(node).chain(node.attributes())) {
            for key in program.keys.iter().filter(|key| key.name == *name) {
                let item = Item::from(node);
                let mut env = Env { world: self, locals: &[], current: item };
                if !key.pattern.matches(item, &mut env, budget)? {
                    continue;
                }
                match key.value.evaluate(Context::new(item), &mut env, budget)? {
                    Value::NodeSet(values) => {
                        for value in &values {
                            let value = value.string_value();
                            self.made(value.len())?;
                            index.entry(value.into_owned()).or_default().push(item);
                        }
                    }
                    other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                        let value = other.into_string();
                        self.made(value.len())?;
                        index.entry(value).or_default().push(item)
                    }
                }
            }
        }
        self.keys_depth = self.keys_depth.saturating_sub(1);
        let index = Rc::new(index);
        self.keys.insert((name.clone(), root), Rc::clone(&index));
        Ok(index)
    }

    /// Section 12.1.
    fn document(
        &mut self,
        what: Option<Value<'d>>,
        base: Option<Value<'d>>,
        sheet: &str,
    ) -> Answer<NodeSet<'d>> {
        let given = match base {
            Some(base) => base.into_nodes("the second argument of document()")?.first(),
            None => None,
        };
        let mut found = Vec::new();
        match what {
            Some(Value::NodeSet(nodes)) => {
                for item in &nodes {
                    let base = given.unwrap_or(item);
                    found.extend(self.one_reference(&item.string_value(), sheet, Some(base))?);
                }
            }
            Some(other) => found.extend(self.one_reference(&other.into_string(), sheet, given)?),
            None => {}
        }
        Ok(NodeSet::from_unordered(found))
    }

    /// A URI reference. Only what stands before the `#` is asked for; the fragment is the ID of an element
    /// in what was read, and gives no node where no element has it.
    fn one_reference(
        &mut self,
        reference: &str,
        sheet: &str,
        beside: Option<Item<'d>>,
    ) -> Answer<Option<Item<'d>>> {
        let Some((href, fragment)) = reference.split_once('#') else {
            return self.one_document(reference, sheet, beside).map(Some);
        };
        if !fragment.is_empty() && !xml::is_ncname(fragment) {
            return fail(format!("`#{fragment}` isn't supported: only IDs of elements are"));
        }
        let root = self.one_document(href, sheet, beside)?;
        if fragment.is_empty() {
            return Ok(Some(root));
        }
        Ok(root.holder().document().element_by_id(fragment).map(Item::from))
    }

    /// Beside the document of the node `beside`, else beside the sheet.
    fn one_document(
        &mut self,
        href: &str,
        sheet: &str,
        beside: Option<Item<'d>>,
    ) -> Answer<Item<'d>> {
        let (href, base) = match beside {
            Some(item) if href.is_empty() => return Ok(item.holder().document().root().into()),
            Some(item) => (href, item.holder().document().base_uri().unwrap_or("")),
            None if href.is_empty() && sheet.is_empty() => return Ok(self.main.root().into()),
            None if href.is_empty() => (sheet, ""),
            None => (href, sheet),
        };
        let asked = [base, "\n", href].concat();
        if let Some(known) = self.documents.get(&asked) {
            return Ok(known.root().into());
        }
        let read = self.resolver.read(href, base).map_err(EvalError::Caller)?;
        if let Some(known) = self.documents.get(&read.uri).copied() {
            self.documents.insert(asked, known);
            return Ok(known.root().into());
        }
        let document = crate::load::parse(&read.bytes, Some(read.uri.clone()))
            .map_err(|error| EvalError::Caller(format!("{}: {error}", read.uri)))?;
        let document = if self.program.spaces.tests.iter().any(|test| test.strip) {
            crate::space::stripped(&document, &self.program.spaces)
        } else {
            document
        };
        self.made(read.bytes.len().max(text_bytes(&document)))?;
        let document = self.keep(document)?;
        self.documents.insert(asked, document);
        self.documents.insert(read.uri, document);
        Ok(document.root().into())
    }

    /// Section 12.4, `generate-id()`: numbers in the order of asking.
    fn id(&mut self, item: Item<'d>) -> String {
        let next = self.ids.len().saturating_add(1);
        format!("id{}", self.ids.entry(item).or_insert(next))
    }

    fn format(&self, number: f64, pattern: &str, name: ExpandedName) -> Answer<String> {
        let default;
        let symbols = match self.program.formats.get(&name) {
            Some(symbols) => symbols,
            None if name.local.is_empty() => {
                default = crate::program::Symbols::default();
                &default
            }
            None => return fail(format!("there is no decimal format `{name}`")),
        };
        crate::format::format(number, pattern, symbols).map_err(EvalError::Caller)
    }

    fn text_node(&mut self, text: &str) -> Answer<NodeSet<'d>> {
        let mut builder = xml::Builder::new();
        xml::Sink::text(&mut builder, text)
            .map_err(|error| EvalError::Caller(error.to_string()))?;
        self.made(text.len().saturating_add(256))?;
        let document = self.keep(builder.finish())?;
        let text = document.root().first_child().filter(|node| node.kind() == Kind::Text);
        Ok(text.map_or_else(NodeSet::new, NodeSet::from))
    }
}

/// Bytes of text and of the values of attributes. Entities make these more than the bytes that were read.
fn text_bytes(document: &Document) -> usize {
    let nodes = document.root().descendants();
    nodes
        .flat_map(|node| std::iter::once(node).chain(node.attributes()))
        .map(|node| node.text().len())
        .sum()
}
