//! The parts of a message that an expression reads.

use std::borrow::Cow;

pub use xpath::synapse::PropertyScope;

use crate::error::Error;
use crate::json::Ref;
use crate::mapping::Rules;
use crate::value::Value;

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterKind {
    /// `?name=value` of the request target.
    Query,
    /// `/{name}` of the route.
    Path,
    /// A parameter of the sequence template that is being called.
    Function,
}

/// A message and its environment. Every part is fetched when an expression needs it: the body is read only for an
/// expression whose [`BodyUse`] requires it. By default each method returns nothing.
pub trait EvalContext {
    /// The body as JSON; `None` if it is not JSON.
    ///
    /// # Errors
    /// [`Error::Body`] if the body is declared as JSON and is malformed.
    fn json(&self) -> Result<Option<Ref<'_>>, Error> {
        Ok(None)
    }
    /// The body as text.
    ///
    /// # Errors
    /// [`Error::Body`] if it is not text.
    fn text(&self) -> Result<Cow<'_, str>, Error> {
        Ok(self.json()?.map_or(Cow::Borrowed(""), |json| Cow::Borrowed(json.raw())))
    }
    /// A transport header; names compare without regard to case.
    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A property. Transport headers, query parameters and variables have methods of their own.
    fn property(&self, _scope: PropertyScope, _name: &str) -> Option<Value<'_>> {
        None
    }
    /// The nodes of a property that holds XML, for `get-property('x')//a` and `$ctx:x/a`. Variables have
    /// [`EvalContext::variable_xml`].
    fn property_nodes(&self, _scope: PropertyScope, _name: &str) -> Option<Vec<xml::Node<'_>>> {
        None
    }
    /// A variable (`vars.x`).
    fn variable(&self, _name: &str) -> Option<Value<'_>> {
        None
    }
    /// XML inside a variable: the variable itself (`x`), or a field of a connector's response (`x.payload`). Read by
    /// `xpath('//a', 'x.payload')`.
    fn variable_xml(&self, _name: &str) -> Option<&xml::Document> {
        None
    }
    /// A parameter.
    fn parameter(&self, _kind: ParameterKind, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// How XML becomes JSON.
    fn mapping(&self) -> &Rules {
        &Rules::DEFAULT
    }
    /// A configured value (`configs.x`).
    fn config(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A registry resource, or a property of one.
    fn registry(&self, _path: &str, _property: Option<&str>) -> Option<Cow<'_, str>> {
        None
    }
    /// The body as XML; `None` if it is not XML.
    ///
    /// # Errors
    /// [`Error::Body`] if the body is declared as XML and is malformed.
    fn xml(&self) -> Result<Option<&xml::Document>, Error> {
        Ok(None)
    }
    /// The payload of a body that is XML: the document element, or the first element in a SOAP body. `None` for other
    /// bodies, JSON among them.
    ///
    /// # Errors
    /// As [`EvalContext::xml`].
    fn xml_payload(&self) -> Result<Option<xml::Node<'_>>, Error> {
        Ok(self.xml()?.and_then(xml::Document::element))
    }
    /// The same as [`EvalContext::xml`], for readers of the header of a SOAP envelope alone: the rest may be missing.
    ///
    /// # Errors
    /// As [`EvalContext::xml`].
    fn xml_header(&self) -> Result<Option<&xml::Document>, Error> {
        self.xml()
    }
    /// The beginning of the same with its document element, as `xml::DocumentFeed::cut` ends it, for conditions that it
    /// may decide. `None` if it is not worthwhile.
    ///
    /// # Errors
    /// The budget; the body cannot be decoded.
    fn xml_beginning(&self) -> Result<Option<&xml::Document>, Error> {
        Ok(None)
    }
    /// Milliseconds since the Unix epoch, from the host's clock.
    fn unix_ms(&self) -> i64;
}

/// Body use of an evaluation; ordered, so that the need of a sequence is the maximum of its steps'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BodyUse {
    /// Nothing: the body may be streamed unread.
    #[default]
    Untouched,
    /// The body is read.
    Read,
    /// The body is replaced.
    Rewritten,
}

/// Prefixes that XPath does not have as variables.
const FURTHER_PREFIXES: &[(&str, PropertyScope)] =
    &[("axis2-client", PropertyScope::Axis2Client), ("env", PropertyScope::Environment)];

/// A property of any scope; headers, query parameters and variables included.
pub(crate) fn property<'c>(
    context: &'c dyn EvalContext,
    scope: PropertyScope,
    name: &str,
) -> Option<Value<'c>> {
    match scope {
        PropertyScope::Transport => context.header(name).map(Value::Text),
        PropertyScope::Url => context.parameter(ParameterKind::Query, name).map(Value::Text),
        PropertyScope::Variable => context.variable(name),
        PropertyScope::File => context.config(name).map(Value::Text),
        PropertyScope::Synapse
        | PropertyScope::Axis2
        | PropertyScope::Axis2Client
        | PropertyScope::Operation
        | PropertyScope::Function
        | PropertyScope::System
        | PropertyScope::Environment
        | PropertyScope::Registry => context.property(scope, name),
    }
}

/// The scope of `$ctx:` and the like at the beginning, and the rest.
pub(crate) fn scope_of_prefix(text: &str) -> Option<(PropertyScope, &str)> {
    let (prefix, rest) = text.strip_prefix('$')?.split_once(':')?;
    let further = || FURTHER_PREFIXES.iter().find(|(known, _)| *known == prefix);
    let scope = PropertyScope::of_prefix(prefix).or_else(|| further().map(|(_, scope)| *scope))?;
    Some((scope, rest))
}
