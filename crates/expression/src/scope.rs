//! What an expression may ask of the message it is evaluated against.

use std::borrow::Cow;

use crate::json::Ref;
use crate::{EvalError, Value};

/// Whose property: Synapse's scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyScope {
    /// `$ctx`, `default`, `synapse`: the mediation's own.
    Synapse,
    /// `$axis2`: the transport's.
    Axis2,
    /// `axis2-client`: the outgoing call's.
    Axis2Client,
    /// `$operation`.
    Operation,
    /// `$func`: a template's parameters.
    Function,
    /// `$sys`: the process's, which the host chooses.
    System,
    /// `$env`, `env`.
    Environment,
    /// `registry`.
    Registry,
}

/// Which parameter of a request or a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// `?name=value`.
    Query,
    /// `/{name}`.
    Path,
    /// Of the template that is being called.
    Function,
}

/// A message and its surroundings. Everything is asked for when it is needed: the body is read only for an
/// expression whose [`BodyUse`] says so. A method that isn't written answers that there is nothing.
pub trait Scope {
    /// The body as JSON; `None` when it is none.
    ///
    /// # Errors
    /// [`EvalError::Body`] when the body calls itself JSON and isn't.
    fn json(&self) -> Result<Option<Ref<'_>>, EvalError> {
        Ok(None)
    }
    /// The body as text.
    ///
    /// # Errors
    /// [`EvalError::Body`] when it isn't text.
    fn text(&self) -> Result<Cow<'_, str>, EvalError> {
        Ok(self.json()?.map_or(Cow::Borrowed(""), |json| Cow::Borrowed(json.raw())))
    }
    /// A transport header, its name in any letter case.
    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A property of a scope.
    fn property(&self, _scope: PropertyScope, _name: &str) -> Option<Value<'_>> {
        None
    }
    /// A variable of the flow (`vars.x`).
    fn variable(&self, _name: &str) -> Option<Value<'_>> {
        None
    }
    /// A parameter.
    fn parameter(&self, _kind: ParameterKind, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A configured value (`configs.x`).
    fn config(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// A registry resource, or a property of one.
    fn registry(&self, _path: &str, _property: Option<&str>) -> Option<Cow<'_, str>> {
        None
    }
    /// A secret of the vault.
    fn secret(&self, _alias: &str) -> Option<Cow<'_, str>> {
        None
    }
    /// The body as XML; `None` when it is none.
    ///
    /// # Errors
    /// [`EvalError::Body`] when the body calls itself XML and isn't.
    fn xml(&self) -> Result<Option<&xml::Document>, EvalError> {
        Ok(None)
    }
    /// Milliseconds since the Unix epoch, from the caller's clock.
    fn unix_ms(&self) -> i64;
}

/// What an evaluation needs of the body; ordered, so that a sequence's need is the maximum of its steps'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BodyUse {
    /// Nothing: the body may stream by unread.
    #[default]
    Untouched,
    /// It is read.
    Read,
    /// It is replaced.
    Rewritten,
}
