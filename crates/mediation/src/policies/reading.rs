//! The parameters of a policy, read with their problems.

#[cfg(feature = "validate")]
use std::collections::HashMap;
use std::str::FromStr;
#[cfg(feature = "validate")]
use std::sync::Arc;

use model::{Policy, PolicyFlow};
use xpath::regex::Regex;

use crate::limits::PATTERN_BYTES_MAX;
#[cfg(feature = "validate")]
use crate::mediators::Schema;
use crate::mediators::values::text::Text;
use crate::program::{Endpoint, EndpointId, EndpointKind, Program, Timeout};

/// A problem of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The parameter, if one is to blame.
    pub parameter: Option<String>,
    pub message: String,
    pub help: String,
}

/// The program of an API's policies while they are compiled.
#[derive(Debug, Default)]
pub(super) struct Compilation {
    pub(super) program: Program,
    /// By draft and text, since operations share them.
    #[cfg(feature = "validate")]
    pub(super) schemas: HashMap<String, Arc<Schema>>,
}

/// A policy that is being compiled.
#[derive(Debug)]
pub struct PolicyReading<'p> {
    pub(super) policy: &'p Policy,
    pub(super) flow: PolicyFlow,
    pub(super) compilation: &'p mut Compilation,
    pub(super) problems: Vec<PolicyProblem>,
}

impl<'p> PolicyReading<'p> {
    pub(super) fn optional(&self, name: &str) -> Option<&'p str> {
        let mut all = self.policy.parameters.iter();
        all.find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn required(&mut self, name: &str) -> Option<&'p str> {
        let found = self.optional(name).filter(|value| !value.trim().is_empty());
        if found.is_none() {
            let message = format!("`{}` needs the parameter `{name}`", self.policy.name);
            let (parameter, help) = (None, format!("add `{name}`"));
            self.problems.push(PolicyProblem { parameter, message, help });
        }
        found
    }

    /// Notes the problem of a parameter. The caller returns without a result then.
    pub(super) fn reject<T>(
        &mut self,
        name: &str,
        message: impl Into<String>,
        help: &str,
    ) -> Option<T> {
        let (parameter, message) = (Some(name.to_owned()), message.into());
        self.problems.push(PolicyProblem { parameter, message, help: help.to_owned() });
        None
    }

    /// Text with `${...}`.
    pub(super) fn template(&mut self, name: &str) -> Option<Text> {
        let source = self.required(name)?;
        match Text::new(source) {
            Ok(text) => Some(text),
            Err(error) => {
                self.reject(name, format!("`{name}`: {error}"), "write text, or `${...}` in it")
            }
        }
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> Option<bool> {
        match self.optional(name) {
            None => Some(default),
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => self.reject(name, format!("`{name}` must be true or false"), ""),
        }
    }

    pub(super) fn number<T: FromStr>(&mut self, name: &str, default: T) -> Option<T> {
        let Some(text) = self.optional(name) else { return Some(default) };
        let message = || format!("`{name}` must be a whole number, not `{text}`");
        text.parse().ok().or_else(|| self.reject(name, message(), ""))
    }

    /// `is_whole`: the pattern matches a whole text, as Java's `matches`.
    pub(super) fn pattern(&mut self, name: &str, source: &str, is_whole: bool) -> Option<Regex> {
        let whole = format!("\\A(?:{source})\\z");
        let compiled =
            Regex::compile(if is_whole { &whole } else { source }, "", PATTERN_BYTES_MAX);
        match compiled {
            Ok(regex) => Some(regex),
            Err(error) => self.reject(name, format!("the pattern `{source}`: {error}"), ""),
        }
    }

    /// The endpoint at an absolute URL that a parameter names.
    pub(super) fn endpoint(&mut self, name: &str) -> Option<EndpointId> {
        let url = self.url(name)?;
        let kind = EndpointKind::Address { uri: url.to_owned() };
        Some(self.add(kind))
    }

    pub(super) fn add(&mut self, kind: EndpointKind) -> EndpointId {
        let id =
            EndpointId(u32::try_from(self.compilation.program.endpoints.len()).unwrap_or(u32::MAX));
        self.compilation.program.endpoints.push(Endpoint { kind, ..Endpoint::default() });
        id
    }

    pub(super) fn set_timeout(&mut self, of: EndpointId, timeout: Timeout) {
        if let Some(endpoint) = self.compilation.program.endpoints.get_mut(of.index()) {
            endpoint.timeout = timeout;
        }
    }

    /// An absolute URL.
    pub(super) fn url(&mut self, name: &str) -> Option<&'p str> {
        let url = self.required(name)?;
        let has_scheme = url.starts_with("http://") || url.starts_with("https://");
        let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if has_scheme && is_plain {
            return Some(url);
        }
        self.reject(name, format!("`{url}` is not an absolute URL"), "write `https://host/path`")
    }
}
