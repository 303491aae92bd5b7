//! XPath as WSO2's Synapse extends it: `$ctx:name` and its kin, `$body`, `get-property()`, and the
//! encoders. Built on the public API alone: the first of the extensions, and the pattern for others.
//!
//! A prefix that the caller binds to a namespace wins over a variable's scope of the same name. What
//! isn't set is the empty string. Source: WSO2 Micro Integrator's manual, "XPath extension functions"
//! and "synapse XPath variables".

use std::borrow::Cow;
use std::cell::RefCell;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use xml::{Document, Node};

use crate::{
    Budget, CompileError, Context, Environment, EvalError, ExpandedName, FunctionId, NodeSet,
    StaticContext, Value, VariableId,
};

/// Where a property lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PropertyScope {
    /// `$ctx:`, and `get-property('name')`
    Synapse,
    /// `$trp:`: transport headers
    Transport,
    /// `$axis2:`
    Axis2,
    /// Of the call to the backend.
    Axis2Client,
    /// `$operation:`
    Operation,
    /// `$url:`: parameters of the query
    Url,
    /// `$func:`: parameters of a sequence template
    Function,
    /// `$sys:`: system properties
    System,
    /// Environment variables
    Environment,
    /// `$var:`: variables of MI 4.4 and later
    Variable,
    Registry,
}

/// Prefixes of variables, and names of scopes in `get-property('scope', 'name')`.
#[rustfmt::skip]
const SCOPES: &[(PropertyScope, &[&str], &[&str])] = &[
    (PropertyScope::Synapse,     &["ctx"],       &["default", "synapse"]),
    (PropertyScope::Transport,   &["trp"],       &["transport"]),
    (PropertyScope::Axis2,       &["axis2"],     &["axis2"]),
    (PropertyScope::Axis2Client, &[],            &["axis2-client"]),
    (PropertyScope::Operation,   &["operation"], &["operation"]),
    (PropertyScope::Url,         &["url"],       &["url"]),
    (PropertyScope::Function,    &["func"],      &["func"]),
    (PropertyScope::System,      &["sys"],       &["system"]),
    (PropertyScope::Environment, &[],            &["env"]),
    (PropertyScope::Variable,    &["var"],       &[]),
    (PropertyScope::Registry,    &[],            &["registry"]),
];

impl PropertyScope {
    /// By the prefix of a variable, as in `$trp:Accept`.
    #[must_use]
    pub fn of_prefix(prefix: &str) -> Option<Self> {
        SCOPES.iter().find(|(_, prefixes, _)| prefixes.contains(&prefix)).map(|(scope, ..)| *scope)
    }

    /// By its name in `get-property()` and in the property mediator.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        SCOPES.iter().find(|(.., names)| names.contains(&name)).map(|(scope, ..)| *scope)
    }
}

/// The message that an expression is evaluated on.
pub trait Message<'d> {
    /// A property; none when it isn't set.
    fn property(&mut self, scope: PropertyScope, name: &str) -> Option<Value<'d>>;

    /// The body as a tree: a SOAP envelope, or anything else.
    fn document(&mut self) -> Option<&'d Document>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Envelope,
    Header,
    Body,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Variable {
    Property(PropertyScope, String),
    Part(Part),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    GetProperty,
    Base64Encode,
    Base64Decode,
    UrlEncode,
}

/// Name, function, least and most arguments. [`FunctionId`] is the place here.
#[rustfmt::skip]
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("get-property", Function::GetProperty,  1, 2),
    ("base64Encode", Function::Base64Encode, 1, 2),
    ("base64Decode", Function::Base64Decode, 1, 2),
    ("url-encode",   Function::UrlEncode,    1, 2),
];

/// The namespaces that stand for scopes while an expression is compiled: no URI contains a blank.
const RESERVED: &str = "synapse scope ";

/// A Synapse XPath expression, compiled once.
#[derive(Debug)]
pub struct SynapseXPath {
    expression: crate::Expression,
    variables: Vec<Variable>,
}

struct Names<'n> {
    namespaces: &'n [(String, String)],
    variables: RefCell<Vec<Variable>>,
}

impl StaticContext for Names<'_> {
    fn namespace(&self, prefix: &str) -> Option<String> {
        let bound = self.namespaces.iter().find(|(known, _)| known == prefix);
        let scope = || PropertyScope::of_prefix(prefix).map(|_| [RESERVED, prefix].concat());
        bound.map(|(_, uri)| uri.clone()).or_else(scope)
    }

    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        let variable = match (name.namespace.strip_prefix(RESERVED), name.local.as_str()) {
            (Some(prefix), local) => {
                Variable::Property(PropertyScope::of_prefix(prefix)?, local.to_owned())
            }
            (None, "body") if name.namespace.is_empty() => Variable::Part(Part::Body),
            (None, "header") if name.namespace.is_empty() => Variable::Part(Part::Header),
            (None, "env") if name.namespace.is_empty() => Variable::Part(Part::Envelope),
            (None, _) => return None,
        };
        let mut variables = self.variables.borrow_mut();
        let known = variables.iter().position(|known| *known == variable);
        let index = known.unwrap_or_else(|| {
            variables.push(variable);
            variables.len() - 1
        });
        u32::try_from(index).ok().map(VariableId)
    }

    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        let index = FUNCTIONS.iter().position(|(known, _, least, most)| {
            name.namespace.is_empty()
                && *known == name.local
                && (*least..=*most).contains(&arguments)
        })?;
        u32::try_from(index).ok().map(FunctionId)
    }
}

impl SynapseXPath {
    /// Compiles an expression with the (prefix, URI) pairs in scope.
    ///
    /// # Errors
    /// As [`crate::Expression::compile`].
    pub fn compile(text: &str, namespaces: &[(String, String)]) -> Result<Self, CompileError> {
        let names = Names { namespaces, variables: RefCell::new(Vec::new()) };
        let expression = crate::Expression::compile(text, &names)?;
        Ok(Self { expression, variables: names.variables.into_inner() })
    }

    /// Whether the message's body has to be read for it. Properties don't need it.
    #[must_use]
    pub fn reads_body(&self) -> bool {
        let part = |variable: &Variable| matches!(variable, Variable::Part(_));
        self.expression.reads_context() || self.variables.iter().any(part)
    }

    /// The properties that its variables name; those of `get-property()` are known when it runs.
    pub fn properties(&self) -> impl Iterator<Item = (PropertyScope, &str)> {
        self.variables.iter().filter_map(|variable| match variable {
            Variable::Property(scope, name) => Some((*scope, name.as_str())),
            Variable::Part(_) => None,
        })
    }

    /// The expression itself, to be evaluated with [`SynapseXPath::environment`].
    #[must_use]
    pub fn expression(&self) -> &crate::Expression {
        &self.expression
    }

    /// The variables and functions, on that message.
    pub fn environment<'s, 'd>(
        &'s self,
        message: &'s mut dyn Message<'d>,
    ) -> impl Environment<'d> + 's
    where
        'd: 's,
    {
        Bound { variables: &self.variables, message }
    }

    /// Evaluates it at `node`, or at the root of the message's document.
    ///
    /// # Errors
    /// As [`crate::Expression::evaluate`], and for a character set or a scope that isn't known.
    pub fn evaluate<'d>(
        &self,
        node: Node<'d>,
        message: &mut dyn Message<'d>,
        budget: &Budget,
    ) -> Result<Value<'d>, EvalError> {
        let mut bound = Bound { variables: &self.variables, message };
        self.expression.evaluate(Context::new(node), &mut bound, budget)
    }
}

struct Bound<'s, 'd> {
    variables: &'s [Variable],
    message: &'s mut dyn Message<'d>,
}

impl<'d> Environment<'d> for Bound<'_, 'd> {
    fn variable(&mut self, id: VariableId, _: &Budget) -> Result<Value<'d>, EvalError> {
        match self.variables.get(id.0 as usize) {
            Some(Variable::Property(scope, name)) => Ok(self.property(*scope, name)),
            Some(Variable::Part(part)) => {
                let found = self.message.document().and_then(|document| find(*part, document));
                Ok(Value::NodeSet(found.map_or_else(NodeSet::new, NodeSet::from)))
            }
            None => Err(EvalError::NoVariable(id.0)),
        }
    }

    fn call(
        &mut self,
        id: FunctionId,
        _: &Context<'d>,
        arguments: Vec<Value<'d>>,
        _: &Budget,
    ) -> Result<Value<'d>, EvalError> {
        let Some((_, function, ..)) = FUNCTIONS.get(id.0 as usize) else {
            return Err(EvalError::NoFunction(id.0));
        };
        let first = arguments.first().map_or(Cow::Borrowed(""), Value::string);
        let second = arguments.get(1).map(Value::string);
        let charset = second.as_deref().unwrap_or("UTF-8");
        match (function, &second) {
            (Function::GetProperty, None) => Ok(self.property(PropertyScope::Synapse, &first)),
            (Function::GetProperty, Some(name)) => match PropertyScope::named(&first) {
                Some(scope) => Ok(self.property(scope, name)),
                None => Err(EvalError::Caller(format!("get-property() knows no scope `{first}`"))),
            },
            (Function::Base64Encode, _) => {
                Ok(Value::String(STANDARD.encode(encode(&first, charset)?)))
            }
            (Function::Base64Decode, _) => {
                let bytes = STANDARD.decode(first.trim()).map_err(|error| {
                    EvalError::Caller(format!("base64Decode() can't read its argument: {error}"))
                })?;
                decode(bytes, charset).map(Value::String)
            }
            (Function::UrlEncode, _) => Ok(Value::String(url_encode(&encode(&first, charset)?))),
        }
    }
}

impl<'d> Bound<'_, 'd> {
    fn property(&mut self, scope: PropertyScope, name: &str) -> Value<'d> {
        self.message.property(scope, name).unwrap_or_else(|| Value::String(String::new()))
    }
}

const ENVELOPES: [&str; 2] =
    ["http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"];

/// A message that is no SOAP envelope is taken for a body without one: `$body/*` is its first element.
fn find(part: Part, document: &Document) -> Option<Node<'_>> {
    let top = document.element()?;
    if top.local_name() != "Envelope" || !ENVELOPES.contains(&top.namespace()) {
        return (part != Part::Header).then(|| document.root());
    }
    let wanted = match part {
        Part::Envelope => return Some(top),
        Part::Header => "Header",
        Part::Body => "Body",
    };
    top.children().find(|child| {
        child.is_element() && child.local_name() == wanted && child.namespace() == top.namespace()
    })
}

fn unknown(charset: &str) -> EvalError {
    EvalError::Caller(format!("the character set `{charset}` isn't known; use UTF-8"))
}

fn encode<'t>(text: &'t str, charset: &str) -> Result<Cow<'t, [u8]>, EvalError> {
    let narrow = |most: u32| {
        let byte = |c: char| {
            u8::try_from(u32::from(c)).ok().filter(|byte| u32::from(*byte) <= most).unwrap_or(b'?')
        };
        Cow::Owned(text.chars().map(byte).collect())
    };
    match charset.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" => Ok(Cow::Borrowed(text.as_bytes())),
        "ISO-8859-1" | "LATIN1" => Ok(narrow(0xFF)),
        "US-ASCII" | "ASCII" => Ok(narrow(0x7F)),
        _ => Err(unknown(charset)),
    }
}

fn decode(bytes: Vec<u8>, charset: &str) -> Result<String, EvalError> {
    match charset.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" | "US-ASCII" | "ASCII" => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        "ISO-8859-1" | "LATIN1" => Ok(bytes.into_iter().map(char::from).collect()),
        _ => Err(unknown(charset)),
    }
}

/// As `java.net.URLEncoder` does: a blank is `+`, letters, digits and `.-*_` stay.
fn url_encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(bytes.len());
    let digit = |value: u8| DIGITS.get(usize::from(value)).map_or('0', |digit| char::from(*digit));
    for &byte in bytes {
        match byte {
            b' ' => out.push('+'),
            b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => out.extend(['%', digit(byte >> 4), digit(byte & 15)]),
        }
    }
    out
}
