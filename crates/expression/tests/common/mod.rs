//! A message for expressions and templates under test.

use std::borrow::Cow;

use penstock_expression::json::{Document, Ref};
use penstock_expression::{Error, EvalContext, ParameterKind, PropertyScope, Value};

/// A message whose parts are all JSON text.
pub(crate) struct Message<'s> {
    pub(crate) payload: Document<'s>,
    pub(crate) around: Document<'s>,
}

impl<'s> Message<'s> {
    /// `around` holds headers, vars, synapse, axis2, query, path, function, configs and registry.
    pub(crate) fn new(payload: &'s str, around: &'s str) -> Self {
        let read = |text: &'s str| Document::parse(text.as_bytes()).unwrap();
        Self { payload: read(payload), around: read(around) }
    }

    fn find(&self, part: &str, name: &str) -> Option<Value<'_>> {
        Some(Value::Json(self.around.root().get(part)?.get(name)?))
    }

    fn find_text(&self, part: &str, name: &str) -> Option<Cow<'_, str>> {
        self.around.root().get(part)?.get(name)?.string()
    }
}

impl EvalContext for Message<'_> {
    fn json(&self) -> Result<Option<Ref<'_>>, Error> {
        Ok(Some(self.payload.root()))
    }
    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let headers = self.around.root().get("headers")?;
        let found = headers.members().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| value.string())
    }
    fn property(&self, scope: PropertyScope, name: &str) -> Option<Value<'_>> {
        let part = match scope {
            PropertyScope::Synapse => "synapse",
            PropertyScope::Axis2 => "axis2",
            PropertyScope::Axis2Client => "client",
            PropertyScope::Operation => "operation",
            PropertyScope::Function => "function",
            PropertyScope::System => "system",
            PropertyScope::Environment => "environment",
            PropertyScope::Registry => "registry",
            PropertyScope::Transport
            | PropertyScope::Url
            | PropertyScope::File
            | PropertyScope::Variable => return None,
        };
        self.find(part, name).map(Value::plain)
    }
    fn variable(&self, name: &str) -> Option<Value<'_>> {
        self.find("vars", name)
    }
    fn parameter(&self, kind: ParameterKind, name: &str) -> Option<Cow<'_, str>> {
        let part = match kind {
            ParameterKind::Query => "query",
            ParameterKind::Path => "path",
            ParameterKind::Function => "function",
            _ => return None,
        };
        self.find_text(part, name)
    }
    fn config(&self, name: &str) -> Option<Cow<'_, str>> {
        self.find_text("configs", name)
    }
    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        self.find_text(
            "registry",
            &property.map_or(path.to_owned(), |name| format!("{path}#{name}")),
        )
    }
    fn unix_ms(&self) -> i64 {
        1_735_689_599_123
    }
}
