//! The arguments of a function call, and the interface to the run.

use xml::{Builder, Document, QNameRef, Sink};
use xpath::regex::Regex;
use xpath::{Budget, BudgetExceeded, Item, NodeSet, Value};

use super::Evaluated;
use crate::run::text_of;

/// The memory of a node and of its place in a node-set: vectors have up to twice the capacity that they need.
pub(super) const NODE_BYTES: usize = 2 * 16 + size_of::<Item<'_>>();
/// The memory of an element with a text.
const ELEMENT_BYTES: usize = 2 * 16 + NODE_BYTES;

/// The services that a run provides to functions.
pub(crate) trait Host<'d> {
    /// Keeps a document until the end of the run.
    fn keep(&mut self, document: Document) -> Evaluated<&'d Document>;
    fn budget(&self) -> &'d Budget;
    /// The current time in milliseconds since the Unix epoch, if the caller provided it.
    fn now_ms(&self) -> Option<i64>;
    /// A compiled regular expression.
    fn pattern(&mut self, pattern: &str, flags: &str) -> Evaluated<Regex>;
}

pub(crate) struct Arguments<'c, 'd> {
    values: std::vec::IntoIter<Value<'d>>,
    pub(crate) host: &'c mut dyn Host<'d>,
}

pub(super) fn fail<T>(message: impl Into<String>) -> Evaluated<T> {
    Err(xpath::Error::Host(message.into()))
}

impl<'c, 'd> Arguments<'c, 'd> {
    pub(crate) fn new(values: Vec<Value<'d>>, host: &'c mut dyn Host<'d>) -> Self {
        Self { values: values.into_iter(), host }
    }

    pub(super) fn value(&mut self) -> Option<Value<'d>> {
        self.values.next()
    }

    /// The next argument as a string; empty if there is none.
    pub(super) fn text(&mut self) -> Evaluated<String> {
        self.optional_text().map(Option::unwrap_or_default)
    }

    pub(super) fn optional_text(&mut self) -> Evaluated<Option<String>> {
        let value = self.value();
        value.map(|value| text_of(value, self.host.budget())).transpose()
    }

    pub(super) fn number(&mut self) -> Evaluated<f64> {
        match self.value() {
            Some(nodes @ Value::NodeSet(_)) => {
                Ok(xpath::string_to_number(&text_of(nodes, self.host.budget())?))
            }
            other => Ok(other.map_or(f64::NAN, |value| value.number())),
        }
    }

    pub(super) fn nodes(&mut self) -> Evaluated<NodeSet<'d>> {
        let nodes = match self.value() {
            Some(value) => value.into_nodes("the argument of an EXSLT function")?,
            None => NodeSet::new(),
        };
        self.charge_steps(nodes.len())?;
        Ok(nodes)
    }

    pub(super) fn charge_steps(&self, steps: usize) -> Evaluated<()> {
        Ok(self.host.budget().charge_steps(steps as u64)?)
    }

    pub(super) fn charge_memory(&self, bytes: usize) -> Evaluated<()> {
        Ok(self.host.budget().charge_memory(bytes)?)
    }

    /// Elements of one name that contain the texts.
    pub(super) fn elements<'t>(
        &mut self,
        name: &str,
        texts: impl Iterator<Item = Result<&'t str, BudgetExceeded>>,
    ) -> Evaluated<Value<'d>> {
        let mut builder = Builder::new();
        let mut count = 0_usize;
        for text in texts {
            let text = text?;
            count = count.saturating_add(1);
            self.charge_steps(1)?;
            self.charge_memory(text.len().saturating_mul(2).saturating_add(ELEMENT_BYTES))?;
            let mut build = || {
                builder.start_element(QNameRef::new("", "", name))?;
                builder.text(text)?;
                builder.end_element()
            };
            build().map_err(|error| xpath::Error::Host(error.to_string()))?;
        }
        self.children(builder, count)
    }

    /// The `count` nodes of a fragment, whose memory has been charged.
    pub(super) fn children(&mut self, builder: Builder, count: usize) -> Evaluated<Value<'d>> {
        let document = self.host.keep(builder.finish())?;
        let mut items = Vec::with_capacity(count);
        items.extend(document.root().children().map(Item::from));
        Ok(Value::NodeSet(NodeSet::from_unordered(items)))
    }
}
