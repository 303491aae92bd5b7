//! A call: its arguments, and what the run lends it.

use regex::Regex;
use xml::{Builder, Document, QNameRef, Sink};
use xpath::{EvalError, Item, NodeSet, Value};

use super::Answer;

/// What a run lends to a function.
pub(crate) trait Host<'d> {
    /// Keeps a document as long as the run lasts.
    fn keep(&mut self, document: Document) -> Answer<&'d Document>;
    /// Counts what is made, in bytes, against the limit of the run.
    fn made(&mut self, bytes: usize) -> Answer<()>;
    /// Counts work, in steps of about a node each.
    fn spend(&mut self, steps: usize) -> Answer<()>;
    /// The caller's clock: milliseconds since the Unix epoch.
    fn now_ms(&self) -> Option<i64>;
    /// A compiled regular expression.
    fn pattern(&mut self, pattern: &str, flags: &str) -> Answer<Regex>;
}

pub(crate) struct Call<'c, 'd> {
    arguments: std::vec::IntoIter<Value<'d>>,
    pub(crate) host: &'c mut dyn Host<'d>,
}

pub(super) fn fail<T>(message: impl Into<String>) -> Answer<T> {
    Err(EvalError::Caller(message.into()))
}

impl<'c, 'd> Call<'c, 'd> {
    pub(crate) fn new(arguments: Vec<Value<'d>>, host: &'c mut dyn Host<'d>) -> Self {
        Self { arguments: arguments.into_iter(), host }
    }

    pub(super) fn value(&mut self) -> Option<Value<'d>> {
        self.arguments.next()
    }

    /// The next argument as a string; empty if there is none.
    pub(super) fn text(&mut self) -> String {
        self.value().map(Value::into_string).unwrap_or_default()
    }

    pub(super) fn optional_text(&mut self) -> Option<String> {
        self.value().map(Value::into_string)
    }

    pub(super) fn number(&mut self) -> f64 {
        self.value().map_or(f64::NAN, |value| value.number())
    }

    pub(super) fn nodes(&mut self) -> Answer<NodeSet<'d>> {
        let nodes = match self.value() {
            Some(value) => value.into_nodes("the argument of an EXSLT function")?,
            None => NodeSet::new(),
        };
        self.host.spend(nodes.len())?;
        Ok(nodes)
    }

    /// Elements of one name that hold the texts, as a node-set.
    pub(super) fn elements(&mut self, name: &str, texts: &[&str]) -> Answer<Value<'d>> {
        const NODE_BYTES: usize = 64;
        let bytes = texts.iter().map(|text| text.len().saturating_add(NODE_BYTES)).sum::<usize>();
        self.host.made(bytes)?;
        let mut builder = Builder::new();
        let mut build = || {
            for text in texts {
                builder.start_element(QNameRef::new("", "", name))?;
                builder.text(text)?;
                builder.end_element()?;
            }
            Ok::<_, xml::EditError>(())
        };
        build().map_err(|error| EvalError::Caller(error.to_string()))?;
        let document = self.host.keep(builder.finish())?;
        let items = document.root().children().map(Item::from).collect();
        Ok(Value::NodeSet(NodeSet::from_unordered(items)))
    }
}
