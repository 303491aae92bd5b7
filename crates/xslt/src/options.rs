//! Options of a transformation.

use std::collections::BTreeMap;

use xml::Node;
use xpath::{ExpandedName, Item, NodeSet, Value};

use crate::error::{Error, ErrorKind};
use crate::load::{NoResolver, Resolver};
use crate::program::Program;

/// Parameters, resolver and time of a transformation.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    pub(crate) params: Option<&'a Params>,
    pub(crate) nodes: &'a [(String, Vec<Node<'a>>)],
    pub(crate) resolver: &'a dyn Resolver,
    pub(crate) now_ms: Option<i64>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { params: None, nodes: &[], resolver: &NoResolver, now_ms: None }
    }
}

impl<'a> Options<'a> {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn params(self, params: &'a Params) -> Self {
        Self { params: Some(params), ..self }
    }

    /// Parameters whose values are node-sets, by name as in [`Params`]. They take precedence.
    #[must_use]
    pub fn nodes(self, nodes: &'a [(String, Vec<Node<'a>>)]) -> Self {
        Self { nodes, ..self }
    }

    /// Provides the documents that `document()` names, and receives messages. Default: [`NoResolver`].
    #[must_use]
    pub fn resolver(self, resolver: &'a dyn Resolver) -> Self {
        Self { resolver, ..self }
    }

    /// The current time, in milliseconds since the Unix epoch, for EXSLT's date functions; they return it in UTC.
    /// Without it a stylesheet that needs the time fails: this crate reads no clock.
    #[must_use]
    pub fn now_ms(self, now_ms: i64) -> Self {
        Self { now_ms: Some(now_ms), ..self }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Options");
        fields.field("params", &self.params).field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

/// Values of stylesheet parameters by name, `local` or `{namespace}local`. A parameter that the stylesheet does not
/// declare is an error.
#[derive(Debug, Clone, Default)]
pub struct Params {
    values: BTreeMap<ExpandedName, Param>,
}

#[derive(Debug, Clone)]
enum Param {
    String(String),
    Number(f64),
    Boolean(bool),
}

impl Params {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn string(self, name: &str, value: &str) -> Self {
        self.with(name, Param::String(value.to_owned()))
    }

    #[must_use]
    pub fn number(self, name: &str, value: f64) -> Self {
        self.with(name, Param::Number(value))
    }

    #[must_use]
    pub fn boolean(self, name: &str, value: bool) -> Self {
        self.with(name, Param::Boolean(value))
    }

    fn with(mut self, name: &str, value: Param) -> Self {
        self.values.insert(expanded(name), value);
        self
    }

    pub(crate) fn value<'d>(&self, name: &ExpandedName) -> Option<Value<'d>> {
        Some(match self.values.get(name)? {
            Param::String(text) => Value::String(text.clone()),
            Param::Number(number) => Value::Number(*number),
            Param::Boolean(value) => Value::Boolean(*value),
        })
    }
}

impl<'a> Options<'a> {
    /// The value of a parameter.
    pub(crate) fn value(&self, name: &ExpandedName) -> Option<Value<'a>> {
        match self.nodes.iter().find(|(known, _)| expanded(known) == *name) {
            Some((_, nodes)) => {
                let items = nodes.iter().map(|node| Item::from(*node)).collect();
                Some(Value::NodeSet(NodeSet::from_unordered(items)))
            }
            None => self.params?.value(name),
        }
    }

    pub(crate) fn check(&self, program: &Program) -> Result<(), Error> {
        let declared = |name: &ExpandedName| {
            program.globals.iter().any(|global| global.is_param && global.name == *name)
        };
        let params = self.params.into_iter().flat_map(|params| params.values.keys().cloned());
        let mut given = params.chain(self.nodes.iter().map(|(name, _)| expanded(name)));
        let Some(unknown) = given.find(|name| !declared(name)) else { return Ok(()) };
        let known = program.globals.iter().filter(|global| global.is_param);
        let known: Vec<String> = known.map(|global| param_name(&global.name)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let unknown = param_name(&unknown);
        let message = format!("unknown parameter `{unknown}`; the stylesheet declares: {known}");
        Err(Error::without_place(ErrorKind::Parameter, message))
    }
}

fn expanded(name: &str) -> ExpandedName {
    let split = name.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let (namespace, local) = split.unwrap_or(("", name));
    ExpandedName::new(namespace, local)
}

/// The name of a parameter as [`Params`] takes it.
pub(crate) fn param_name(name: &ExpandedName) -> String {
    match name.namespace.as_str() {
        "" => name.local.clone(),
        namespace => format!("{{{namespace}}}{}", name.local),
    }
}
