//! XPath with the extensions of WSO2's Synapse: the variables `$ctx:name`, `$trp:name`, `$body` and so on, and the
//! functions `get-property()`, `base64Encode()`, `base64Decode()` and `url-encode()`; the functions that Jaxen adds to
//! XPath 1.0; and, in the namespace of XPath 2.0's functions (`fn:`), the core library, Jaxen's functions and a few
//! others.
//!
//! It uses only the public API, so it is also an example of how to extend XPath. A prefix that is bound to a namespace
//! takes precedence over a scope of the same name. A property that isn't set is the empty string. Source: the manual of
//! WSO2 Micro Integrator, "XPath extension functions" and "Synapse XPath variables".

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::LazyLock;

use xml::{Document, Encoding, Node, QNameRef, Sink as _};

use crate::dates::{self, Dialect};
use crate::encoding;
use crate::regex::Regex;
use crate::replace::replace;
use crate::{
    Budget, Context, Environment, Error, ExpandedName, FunctionId, NodeSet, StaticContext, Value,
    VariableId,
};

/// The scope of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PropertyScope {
    /// `$ctx:name` and `get-property('name')`
    Synapse,
    /// `$trp:`: transport headers
    Transport,
    /// `$axis2:`
    Axis2,
    /// `axis2-client`: properties of the request to the endpoint
    Axis2Client,
    /// `$operation:`
    Operation,
    /// `$url:`: query parameters
    Url,
    /// `$func:`: parameters of a sequence template
    Function,
    /// `$sys:`: system properties
    System,
    /// Environment variables
    Environment,
    /// Properties in Micro Integrator's `file.properties`
    File,
    /// `$var:`: variables of Micro Integrator 4.4 and later
    Variable,
    Registry,
}

/// Prefixes of variables, and names in `get-property('scope', 'name')`.
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
    (PropertyScope::File,        &[],            &["file"]),
    (PropertyScope::Variable,    &["var"],       &[]),
    (PropertyScope::Registry,    &[],            &["registry"]),
];

impl PropertyScope {
    /// The scope of a variable's prefix, such as `trp` in `$trp:Accept`.
    #[must_use]
    pub fn of_prefix(prefix: &str) -> Option<Self> {
        SCOPES.iter().find(|(_, prefixes, _)| prefixes.contains(&prefix)).map(|(scope, ..)| *scope)
    }

    /// The scope that `get-property()` and the property mediator call `name`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        SCOPES.iter().find(|(.., names)| names.contains(&name)).map(|(scope, ..)| *scope)
    }

    /// The error message for `name`, an unknown scope in `get-property()`.
    #[must_use]
    pub fn unknown(name: &str) -> String {
        format!("unknown property scope `{name}` in get-property()")
    }
}

/// The message that an expression is evaluated on.
pub trait Message<'d> {
    /// A property; none if it isn't set. A property that holds XML is a node-set.
    fn property(&mut self, scope: PropertyScope, name: &str) -> Option<Value<'d>>;

    /// The body: a SOAP envelope, or any other document.
    fn document(&mut self) -> Option<&'d Document>;

    /// Keeps a document that the expression creates (`fn:tokenize()`) as long as its result. `None` if it cannot be
    /// kept.
    fn keep(&mut self, _document: Document) -> Option<&'d Document> {
        None
    }

    /// The current time in milliseconds since the Unix epoch, for `SYSTEM_TIME` and `SYSTEM_DATE`.
    fn unix_ms(&self) -> Option<i64> {
        None
    }
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
    UpperCase,
    LowerCase,
    EndsWith,
    Matches,
    Replace,
    StringJoin,
    Tokenize,
    Abs,
    Exists,
    Empty,
    CurrentDateTime,
}

/// The namespace of XPath 2.0's functions. The prefix `fn` has it unless it is bound to another one.
const FN: &str = "http://www.w3.org/2005/xpath-functions";
const FN_PREFIX: &str = "fn";
/// The namespace of Synapse's configuration. Functions may be called in it too: `syn:get-property('a')`.
const SYNAPSE: &str = "http://ws.apache.org/ns/synapse";

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Plain,
    /// Only in the namespace [`FN`].
    Fn,
    Both,
}

/// Name with its usual prefix, the way to call it, function, minimum and maximum number of arguments. A [`FunctionId`]
/// is an index of this table. Source of the functions that are called both ways: Jaxen's `XPathFunctionContext`.
#[rustfmt::skip]
const FUNCTIONS: &[(&str, Named, Function, usize, usize)] = &[
    ("get-property",     Named::Plain, Function::GetProperty,     1, 3),
    ("base64Encode",     Named::Plain, Function::Base64Encode,    1, 2),
    ("base64Decode",     Named::Plain, Function::Base64Decode,    1, 2),
    ("url-encode",       Named::Plain, Function::UrlEncode,       1, 2),
    ("upper-case",       Named::Both,  Function::UpperCase,       1, 1),
    ("lower-case",       Named::Both,  Function::LowerCase,       1, 1),
    ("ends-with",        Named::Both,  Function::EndsWith,        2, 2),
    ("fn:matches",       Named::Fn,    Function::Matches,         2, 3),
    ("fn:replace",       Named::Fn,    Function::Replace,         3, 4),
    ("fn:tokenize",      Named::Fn,    Function::Tokenize,        2, 3),
    ("fn:string-join",   Named::Fn,    Function::StringJoin,      1, 2),
    ("fn:abs",           Named::Fn,    Function::Abs,             1, 1),
    ("fn:exists",        Named::Fn,    Function::Exists,          1, 1),
    ("fn:empty",         Named::Fn,    Function::Empty,           1, 1),
    ("fn:current-dateTime", Named::Fn, Function::CurrentDateTime, 0, 0),
];

/// The namespace of a scope's prefix while an expression is compiled. URIs contain no spaces.
const RESERVED: &str = "synapse scope ";

/// A compiled XPath expression with the extensions of Synapse.
///
/// ```
/// use xpath::synapse::{Message, PropertyScope, SynapseXPath};
/// use xpath::{Budget, Value};
///
/// struct Request(xml::Document);
///
/// impl<'d> Message<'d> for &'d Request {
///     fn property(&mut self, scope: PropertyScope, name: &str) -> Option<Value<'d>> {
///         let limit = scope == PropertyScope::Synapse && name == "limit";
///         limit.then_some(Value::Number(3.0))
///     }
///
///     fn document(&mut self) -> Option<&'d xml::Document> {
///         Some(&self.0)
///     }
/// }
///
/// let request = Request(xml::Document::parse(b"<order><quantity>5</quantity></order>")?);
/// let expression = SynapseXPath::compile("$body/order/quantity > $ctx:limit", &[])?;
/// let value = expression.evaluate(&request.0, &mut &request, &Budget::default())?;
/// assert_eq!(value, Value::Boolean(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SynapseXPath {
    expression: crate::Expression,
    /// The expression for documents other than SOAP envelopes, which stand for the body of an envelope. `None` if it is
    /// the same.
    without_envelope: Option<crate::Expression>,
    reads_context_node: bool,
    variables: Vec<Variable>,
    reads_body: bool,
    reads_header_alone: bool,
    is_steady: bool,
}

struct Names<'n> {
    namespaces: &'n [(String, String)],
    variables: RefCell<Vec<Variable>>,
    has_envelope: bool,
}

/// The elements that expressions see around a message that isn't a SOAP envelope. Source: Axis2's builders, which put
/// such a message into the body of a SOAP 1.1 envelope.
static OUTER: LazyLock<[ExpandedName; 2]> =
    LazyLock::new(|| ["Envelope", "Body"].map(|local| ExpandedName::new(ENVELOPES[0], local)));

impl StaticContext for Names<'_> {
    fn namespace(&self, prefix: &str) -> Option<String> {
        let bound = self.namespaces.iter().find(|(known, _)| known == prefix);
        let scope = || PropertyScope::of_prefix(prefix).map(|_| [RESERVED, prefix].concat());
        let functions = || (prefix == FN_PREFIX).then(|| FN.to_owned());
        bound.map(|(_, uri)| uri.clone()).or_else(scope).or_else(functions)
    }

    fn core_namespace(&self) -> Option<&str> {
        Some(FN)
    }

    fn outer(&self) -> &[ExpandedName] {
        if self.has_envelope { &[] } else { &*OUTER }
    }

    fn is_outermost(&self, variable: VariableId) -> bool {
        let variables = self.variables.borrow();
        variables.get(variable.0 as usize) == Some(&Variable::Part(Part::Envelope))
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
        let is_named = |named: Named| match &*name.namespace {
            "" => named != Named::Fn,
            FN => named != Named::Plain,
            SYNAPSE => named == Named::Plain,
            _ => false,
        };
        let index = FUNCTIONS.iter().position(|(known, named, _, least, most)| {
            let known = known.strip_prefix("fn:").unwrap_or(known);
            is_named(*named) && known == name.local && (*least..=*most).contains(&arguments)
        })?;
        u32::try_from(index).ok().map(FunctionId)
    }
}

impl SynapseXPath {
    /// Compiles an expression with the (prefix, URI) pairs in scope.
    ///
    /// # Errors
    /// As [`crate::Expression::compile`].
    pub fn compile(text: &str, namespaces: &[(String, String)]) -> Result<Self, Error> {
        let variables = RefCell::new(Vec::new());
        let mut names = Names { namespaces, variables, has_envelope: true };
        let expression = crate::Expression::compile(text, &names)?;
        let mut without_envelope = None;
        if OUTER.iter().any(|outer| text.contains(&outer.local)) {
            names.has_envelope = false;
            without_envelope = Some(crate::Expression::compile(text, &names)?);
        }
        // If the text occurs elsewhere in the expression, the body is only read in vain.
        let names_fault = text.contains("get-property") && text.contains("FAULT");
        let variables = names.variables.into_inner();
        let reads = |part| variables.contains(&Variable::Part(part));
        let parts = [Part::Envelope, Part::Body].map(reads);
        let of_header = |uri: &&str| {
            let [envelope, header] = ["Envelope", "Header"].map(|of| ExpandedName::new(*uri, of));
            expression.reads_only([&envelope, &header])
        };
        let reads_header_alone =
            !names_fault && parts == [false; 2] && ENVELOPES.iter().any(of_header);
        let reads_body = names_fault
            || expression.reads_context()
            || parts[0]
            || parts[1]
            || reads(Part::Header);
        let reads_context_node = expression.reads_context_node();
        let is_steady = expression.is_steady()
            && without_envelope.as_ref().is_none_or(crate::Expression::is_steady);
        Ok(Self {
            expression,
            without_envelope,
            reads_context_node,
            variables,
            reads_body,
            reads_header_alone,
            is_steady,
        })
    }

    /// Whether the expression reads only the header of a SOAP envelope of the message's body.
    #[must_use]
    pub fn reads_header_alone(&self) -> bool {
        self.reads_body && self.reads_header_alone
    }

    /// Whether the expression reads more of the body than the header of an envelope, and the beginning of the body may
    /// decide it: [`crate::Expression::is_steady`].
    #[must_use]
    pub fn may_end_early(&self) -> bool {
        self.reads_body && !self.reads_header_alone && self.is_steady
    }

    /// Whether the expression reads the message's body. Properties don't need it, except `FAULT`.
    #[must_use]
    pub fn reads_body(&self) -> bool {
        self.reads_body
    }

    /// The properties that its variables name. The arguments of `get-property()` are known only when it is
    /// evaluated.
    pub fn properties(&self) -> impl Iterator<Item = (PropertyScope, &str)> {
        self.variables.iter().filter_map(|variable| match variable {
            Variable::Property(scope, name) => Some((*scope, name.as_str())),
            Variable::Part(_) => None,
        })
    }

    /// The names of the functions beside the core library, as they are called.
    pub fn function_names() -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().map(|(name, ..)| *name)
    }

    /// The expression, to be evaluated with [`SynapseXPath::environment`].
    #[must_use]
    pub fn expression(&self) -> &crate::Expression {
        &self.expression
    }

    /// The variables and functions, with the values of `message`.
    pub fn environment<'s, 'd>(
        &'s self,
        message: &'s mut dyn Message<'d>,
    ) -> impl Environment<'d> + 's
    where
        'd: 's,
    {
        Bound { variables: &self.variables, message }
    }

    /// Evaluates the expression on `document`: the context node is the SOAP envelope, or else the root, which then
    /// stands for the body of an envelope. Source: Synapse's `SynapseXPath`, where the context node is always the
    /// envelope.
    ///
    /// # Errors
    /// As [`crate::Expression::evaluate`]; unknown scopes and character sets.
    pub fn evaluate<'d>(
        &self,
        document: &'d Document,
        message: &mut dyn Message<'d>,
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        let (mut node, mut expression) = (document.root(), &self.expression);
        if (self.reads_context_node || self.without_envelope.is_some())
            && let Some(top) = document.element()
        {
            if is_envelope(top) {
                node = top;
            } else {
                expression = self.without_envelope.as_ref().unwrap_or(expression);
            }
        }
        let mut bound = Bound { variables: &self.variables, message };
        expression.evaluate(Context::new(node), &mut bound, budget)
    }
}

struct Bound<'s, 'd> {
    variables: &'s [Variable],
    message: &'s mut dyn Message<'d>,
}

impl<'d> Environment<'d> for Bound<'_, 'd> {
    fn variable(&mut self, id: VariableId, budget: &Budget) -> Result<Value<'d>, Error> {
        match self.variables.get(id.0 as usize) {
            Some(Variable::Property(scope, name)) => self.property(*scope, name, budget),
            Some(Variable::Part(part)) => {
                let found = match self.message.document() {
                    Some(document) => find(*part, document, budget)?,
                    None => None,
                };
                Ok(Value::NodeSet(found.map_or_else(NodeSet::new, NodeSet::from)))
            }
            None => Err(Error::NoVariable(id.0)),
        }
    }

    fn call(
        &mut self,
        id: FunctionId,
        _: &Context<'d>,
        arguments: Vec<Value<'d>>,
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        let Some((_, _, function, ..)) = FUNCTIONS.get(id.0 as usize) else {
            return Err(Error::NoFunction(id.0));
        };
        if let Some(value) = self.of_values(*function, &arguments, budget)? {
            return Ok(value);
        }
        let texts = arguments
            .iter()
            .map(|value| value.charged_string(budget))
            .collect::<Result<Vec<_>, _>>()?;
        if *function == Function::GetProperty {
            return self.get_property(&texts, budget);
        }
        let text = texts.first().map_or("", AsRef::as_ref);
        // For other functions this is their second argument.
        let charset = texts.get(1).map_or("UTF-8", AsRef::as_ref);
        budget.charge_scanning(text.len())?;
        budget.charge_memory(text.len().saturating_mul(ENCODED_BYTES_PER_BYTE))?;
        let converted = match function {
            Function::Base64Decode => {
                let Some(bytes) = encoding::base64_decode(text.trim()) else {
                    return fail("the argument of base64Decode() is not base64");
                };
                decode(bytes, charset)?
            }
            Function::Base64Encode => encoding::base64_encode(&encode(text, charset)?),
            Function::UrlEncode => encoding::form_encode(&encode(text, charset)?),
            Function::UpperCase => text.to_uppercase(),
            Function::LowerCase => text.to_lowercase(),
            Function::EndsWith => return Ok(Value::Boolean(text.ends_with(charset))),
            Function::Matches => {
                let flags = texts.get(2).map_or("", AsRef::as_ref);
                let regex = pattern("matches", charset, flags, budget)?;
                return Ok(Value::Boolean(regex.is_match(text, budget)?));
            }
            Function::Replace => {
                let flags = texts.get(3).map_or("", AsRef::as_ref);
                let regex = pattern("replace", charset, flags, budget)?;
                replace(text, &regex, texts.get(2).map_or("", AsRef::as_ref), budget)?
            }
            Function::Tokenize => {
                let flags = texts.get(2).map_or("", AsRef::as_ref);
                return self.tokenize(text, charset, flags, budget);
            }
            Function::GetProperty
            | Function::StringJoin
            | Function::Abs
            | Function::Exists
            | Function::Empty
            | Function::CurrentDateTime => return Err(Error::NoFunction(id.0)),
        };
        Ok(Value::String(converted))
    }
}

fn pattern(function: &str, pattern: &str, flags: &str, budget: &Budget) -> Result<Regex, Error> {
    let regex = Regex::compile_within(pattern, flags, PATTERN_BYTES_MAX, budget)?;
    regex.or_else(|error| fail(format!("fn:{function}(): {error}")))
}

/// Maximum memory of a pattern of `fn:matches()` and the others, in bytes.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Memory of a token besides its text: an element and an attribute, in bytes.
const TOKEN_BYTES: usize = 64;
/// URL encoding makes three bytes of one; a character of ISO-8859-1 becomes up to two, and one in the other case up to
/// three.
const ENCODED_BYTES_PER_BYTE: usize = 3;

/// The date format of `SYSTEM_DATE` without an argument: that of Java's locale `en_US`.
const DEFAULT_DATE_FORMAT: &str = "M/d/yy, h:mm a";

fn fail<T>(message: impl Into<String>) -> Result<T, Error> {
    Err(Error::Host(message.into()))
}

impl<'d> Bound<'_, 'd> {
    /// The text of a property is a copy, which is charged: a predicate makes one for each node.
    fn property(
        &mut self,
        scope: PropertyScope,
        name: &str,
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        let value = self.message.property(scope, name);
        let value = value.unwrap_or_else(|| Value::String(String::new()));
        if let Value::String(text) = &value {
            budget.charge_reading(text.len())?;
            budget.charge_memory(text.len())?;
        }
        Ok(value)
    }

    /// Functions of `fn:` whose arguments aren't strings; `None` for any other function.
    fn of_values(
        &self,
        function: Function,
        arguments: &[Value<'d>],
        budget: &Budget,
    ) -> Result<Option<Value<'d>>, Error> {
        let is_empty =
            || matches!(arguments.first(), Some(Value::NodeSet(nodes)) if nodes.is_empty());
        Ok(Some(match (function, arguments) {
            (Function::Exists, _) => Value::Boolean(!is_empty()),
            (Function::Empty, _) => Value::Boolean(is_empty()),
            (Function::Abs, [value]) => {
                let text = value.charged_string(budget)?;
                budget.charge_scanning(text.len())?;
                Value::Number(crate::string_to_number(&text).abs())
            }
            (Function::StringJoin, [Value::NodeSet(nodes), rest @ ..]) => {
                let between = rest.first().map(|value| value.charged_string(budget)).transpose()?;
                let between = between.unwrap_or_default();
                let mut joined = String::new();
                for (at, item) in nodes.iter().enumerate() {
                    let text = item.charged_string_value(budget)?;
                    budget.charge_memory(text.len().saturating_add(between.len()))?;
                    if at > 0 {
                        joined.push_str(&between);
                    }
                    joined.push_str(&text);
                }
                Value::String(joined)
            }
            (Function::StringJoin, [value, ..]) => value.copy(budget)?,
            (Function::CurrentDateTime, _) => {
                let now = self.message.unix_ms().unwrap_or_default();
                let pattern = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'";
                Value::String(dates::format(now, pattern, Dialect::SimpleDateFormat, budget)?)
            }
            _ => return Ok(None),
        }))
    }

    /// The parts of `text` between the matches of a pattern, as attributes, since a part may be empty. Source: XPath
    /// and XQuery Functions and Operators 3.1, section 5.6.5.
    fn tokenize(
        &mut self,
        text: &str,
        separator: &str,
        flags: &str,
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        let regex = pattern("tokenize", separator, flags, budget)?;
        if regex.is_match("", budget)? {
            return fail("fn:tokenize(): the pattern matches an empty text");
        }
        if text.is_empty() {
            return Ok(Value::NodeSet(NodeSet::new()));
        }
        let built = |error: xml::Error| Error::Host(error.to_string());
        let mut builder = xml::Builder::new();
        builder.start_element(QNameRef::local("tokens")).map_err(built)?;
        for token in regex.split(text, budget) {
            let token = token?;
            budget.charge_memory(token.len().saturating_add(TOKEN_BYTES))?;
            builder.start_element(QNameRef::local("token")).map_err(built)?;
            builder.attribute(QNameRef::local("text"), token).map_err(built)?;
            builder.end_element().map_err(built)?;
        }
        builder.end_element().map_err(built)?;
        let Some(kept) = self.message.keep(builder.finish()) else {
            return fail("fn:tokenize() makes texts, and here a part of a document is selected");
        };
        let elements = kept.element().into_iter().flat_map(Node::children);
        let tokens = elements.flat_map(Node::attributes).map(crate::Item::from);
        Ok(Value::NodeSet(NodeSet::from_unordered(tokens.collect())))
    }

    /// `get-property(name)`, `get-property(scope, name)`, and with a date format after the name
    /// `SYSTEM_DATE`.
    fn get_property(
        &mut self,
        arguments: &[Cow<'_, str>],
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        let (scope, name, format) = match arguments {
            [name] => (PropertyScope::Synapse, name, None),
            [name, format] if name == "SYSTEM_DATE" => (PropertyScope::Synapse, name, Some(format)),
            [scope, name, rest @ ..] => match PropertyScope::named(scope) {
                Some(scope) => (scope, name, rest.first()),
                None => return fail(PropertyScope::unknown(scope)),
            },
            [] => return Ok(Value::String(String::new())),
        };
        let now = match (&**name, scope) {
            ("SYSTEM_DATE" | "SYSTEM_TIME", PropertyScope::Synapse) => self.message.unix_ms(),
            _ => None,
        };
        match now {
            Some(now) if name == "SYSTEM_TIME" => Ok(Value::String(now.to_string())),
            Some(now) => {
                let format = format.map_or(DEFAULT_DATE_FORMAT, AsRef::as_ref);
                match dates::format(now, format, Dialect::SimpleDateFormat, budget) {
                    Ok(text) => Ok(Value::String(text)),
                    Err(Error::Date(error)) => {
                        fail(format!("get-property('SYSTEM_DATE'): {error}"))
                    }
                    Err(error) => Err(error),
                }
            }
            None => self.property(scope, name, budget),
        }
    }
}

const ENVELOPES: [&str; 2] =
    ["http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"];

fn is_envelope(top: Node<'_>) -> bool {
    top.local_name() == "Envelope" && ENVELOPES.contains(&top.namespace())
}

/// A document that isn't a SOAP envelope is a body without one: `$body/*` is its document element.
fn find<'d>(
    part: Part,
    document: &'d Document,
    budget: &Budget,
) -> Result<Option<Node<'d>>, Error> {
    let Some(top) = document.element() else { return Ok(None) };
    if !is_envelope(top) {
        return Ok((part != Part::Header).then(|| document.root()));
    }
    let wanted = match part {
        Part::Envelope => return Ok(Some(top)),
        Part::Header => "Header",
        Part::Body => "Body",
    };
    for child in top.children() {
        budget.charge_steps(1)?;
        if child.is_element()
            && child.local_name() == wanted
            && child.namespace() == top.namespace()
        {
            return Ok(Some(child));
        }
    }
    Ok(None)
}

/// A character set that can be named.
fn charset(name: &str) -> Result<Encoding, Error> {
    let known = Encoding::named(name).filter(|known| *known != Encoding::Utf16);
    known.ok_or_else(|| Error::Host(format!("unknown character set `{name}`; use UTF-8")))
}

fn encode<'t>(text: &'t str, name: &str) -> Result<Cow<'t, [u8]>, Error> {
    let charset = charset(name)?;
    if charset == Encoding::Utf8 {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let byte = |c: char| u8::try_from(c).ok().filter(|_| charset.has(c)).unwrap_or(b'?');
    Ok(Cow::Owned(text.chars().map(byte).collect()))
}

fn decode(bytes: Vec<u8>, name: &str) -> Result<String, Error> {
    Ok(match charset(name)? {
        Encoding::Iso8859_1 => bytes.into_iter().map(char::from).collect(),
        Encoding::Utf8 | Encoding::Utf16 | Encoding::UsAscii => {
            String::from_utf8_lossy(&bytes).into_owned()
        }
    })
}
