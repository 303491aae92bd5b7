//! `rewrite`: changes the parts of an address. Source: Synapse's `URLRewriteMediator`.

use std::fmt::Write as _;

use expression::{BodyUse, Budget, Expression};
use xpath::regex::Regex;

use super::condition::Condition;
use crate::error::Failure;
use crate::limits;
use crate::mediators::values::items::fail;
use crate::mediators::values::pattern::subject;
use crate::message::{Message, PropertyScope, PropertyValue};
use crate::program::{Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

/// The property that holds the address of a message.
const TO: &str = "To";

#[derive(Debug)]
struct Rewrite {
    from: Option<Box<str>>,
    to: Option<Box<str>>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    condition: Option<Condition>,
    actions: Vec<Action>,
}

#[derive(Debug)]
struct Action {
    part: Part,
    kind: Kind,
    /// `None`: the part is removed.
    value: Option<Expression>,
}

#[derive(Debug)]
enum Kind {
    Set,
    Append,
    Prepend,
    Replace(Regex),
    Remove,
}

/// A part of a URI. Source: RFC 3986 section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Full,
    Protocol,
    User,
    Host,
    Port,
    Path,
    Query,
    Fragment,
}

pub(crate) const PARTS: &[(&str, Part)] = &[
    ("full", Part::Full),
    ("protocol", Part::Protocol),
    ("user", Part::User),
    ("host", Part::Host),
    ("port", Part::Port),
    ("path", Part::Path),
    ("query", Part::Query),
    ("ref", Part::Fragment),
];

/// The parts of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    protocol: Option<String>,
    user: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    path: Option<String>,
    query: Option<String>,
    fragment: Option<String>,
}

impl Mediator for Rewrite {
    fn body_use(&self) -> BodyUse {
        let actions = self.rules.iter().flat_map(|rule| &rule.actions);
        actions
            .filter_map(|action| action.value.as_ref())
            .map(Expression::body_use)
            .max()
            .unwrap_or_default()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut address = Address::of(message, self.from.as_deref())?;
        for rule in &self.rules {
            let holds = match &rule.condition {
                Some(condition) => condition.holds(&address, scene, message)?,
                None => true,
            };
            if holds {
                for action in &rule.actions {
                    action.apply(&mut address, scene, message)?;
                }
            }
        }
        let value = PropertyValue::new(address.to_string());
        let name = self.to.as_deref().unwrap_or(TO);
        message.set(PropertyScope::Synapse, name, value, scene.budget)?;
        Ok(Next::Continue)
    }
}

impl Action {
    fn apply(
        &self,
        address: &mut Address,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<(), Failure> {
        let value = match &self.value {
            Some(value) => subject(value, scene, message)?,
            None => None,
        };
        match self.part {
            Part::Full => *address = Address::parse(&value.unwrap_or_default())?,
            Part::Port => {
                let number = |text: String| {
                    text.trim().parse().map_err(|_| fail(format!("`{text}` is not a port")))
                };
                address.port = value.map(number).transpose()?;
            }
            part @ (Part::Protocol
            | Part::User
            | Part::Host
            | Part::Path
            | Part::Query
            | Part::Fragment) => {
                let current = address.part(part).unwrap_or_default();
                let value = value.unwrap_or_default();
                scene.budget.charge_memory(current.len() + value.len())?;
                let new = match &self.kind {
                    Kind::Set => Some(value),
                    Kind::Append => Some(current + &value),
                    Kind::Prepend => Some(value + &current),
                    Kind::Replace(regex) => {
                        Some(replace_all(&current, regex, &value, scene.budget)?)
                    }
                    Kind::Remove => None,
                };
                address.set(part, new);
            }
        }
        Ok(())
    }
}

/// Java's `replaceAll`: `$n` is a group, a backslash keeps the next character.
fn replace_all(text: &str, regex: &Regex, with: &str, budget: &Budget) -> Result<String, Failure> {
    let (mut made, mut at) = (String::new(), 0);
    for found in regex.matches(text, budget) {
        let found = found?;
        let groups = regex.groups(text, &found, budget)?;
        made.push_str(text.get(at..found.start).unwrap_or_default());
        at = found.end;
        let mut rest = with.chars().peekable();
        while let Some(next) = rest.next() {
            let start = made.len();
            match (next, rest.peek().and_then(|digit| digit.to_digit(10))) {
                ('\\', _) => made.extend(rest.next()),
                ('$', Some(group)) => {
                    rest.next();
                    let group = groups.get_group(group as usize);
                    let group = group.and_then(|group| text.get(group.range()));
                    made.push_str(group.unwrap_or_default());
                }
                _ => made.push(next),
            }
            budget.charge_memory(made.len() - start)?;
        }
    }
    made.push_str(text.get(at..).unwrap_or_default());
    Ok(made)
}

impl Address {
    /// The URI of the message, or the one in a property.
    ///
    /// # Errors
    /// It is malformed.
    pub(crate) fn of(message: &Message, property: Option<&str>) -> Result<Self, Failure> {
        let found = message.properties.get(PropertyScope::Synapse, property.unwrap_or(TO));
        let text = match (found, property) {
            (Some(value), _) => value.text(),
            (None, Some(_)) => "".into(),
            (None, None) => {
                let target = message.head.property(PropertyScope::Axis2, "TransportInURL");
                target.unwrap_or_default()
            }
        };
        Self::parse(&text)
    }

    /// Source: RFC 3986 appendix B.
    fn parse(text: &str) -> Result<Self, Failure> {
        let split = |text: &str, mark| {
            let (before, after) = text.split_once(mark).map_or((text, None), |(a, b)| (a, Some(b)));
            (before.to_owned(), after.map(str::to_owned))
        };
        let (rest, fragment) = split(text.trim(), '#');
        let (rest, query) = split(&rest, '?');
        let scheme = rest
            .find([':', '/'])
            .filter(|at| rest.get(*at..).is_some_and(|rest| rest.starts_with(':')) && *at > 0);
        let (protocol, rest) = match scheme.and_then(|at| rest.split_at_checked(at)) {
            Some((scheme, rest)) => (Some(scheme.to_owned()), rest.trim_start_matches(':')),
            None => (None, &*rest),
        };
        let mut address = Self { protocol, query, fragment, ..Self::default() };
        let path = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                address.authority(authority)?;
                path
            }
            None => rest,
        };
        address.path = Some(path.to_owned()).filter(|path| !path.is_empty());
        Ok(address)
    }

    fn authority(&mut self, authority: &str) -> Result<(), Failure> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        // An IPv6 address has colons, in brackets.
        let port = host.rfind(':').filter(|at| !host.get(*at..).unwrap_or_default().contains(']'));
        let (host, port) = match port.and_then(|at| host.split_at_checked(at)) {
            Some((host, port)) => (host, port.trim_start_matches(':')),
            None => (host, ""),
        };
        self.user = user;
        self.host = Some(host.to_owned()).filter(|host| !host.is_empty());
        if !port.is_empty() {
            let number = port.parse().map_err(|_| fail(format!("`{port}` is not a port")))?;
            self.port = Some(number);
        }
        Ok(())
    }

    pub(crate) fn part(&self, part: Part) -> Option<String> {
        match part {
            Part::Full => Some(self.to_string()),
            Part::Protocol => self.protocol.clone(),
            Part::User => self.user.clone(),
            Part::Host => self.host.clone(),
            Part::Port => self.port.map(|port| port.to_string()),
            Part::Path => self.path.clone(),
            Part::Query => self.query.clone(),
            Part::Fragment => self.fragment.clone(),
        }
    }

    fn set(&mut self, part: Part, value: Option<String>) {
        match part {
            Part::Protocol => self.protocol = value,
            Part::User => self.user = value,
            Part::Host => self.host = value,
            Part::Path => self.path = value,
            Part::Query => self.query = value,
            Part::Fragment => self.fragment = value,
            Part::Full | Part::Port => {}
        }
    }
}

/// Characters that a URI does not allow are escaped.
impl std::fmt::Display for Address {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        if let Some(protocol) = &self.protocol {
            write!(text, "{protocol}:")?;
        }
        if let Some(host) = &self.host {
            let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
            write!(text, "//{user}{host}")?;
            if let Some(port) = self.port {
                write!(text, ":{port}")?;
            }
        }
        let path = self.path.as_deref().unwrap_or_default();
        if self.host.is_some() && !path.is_empty() && !path.starts_with('/') {
            text.push('/');
        }
        text.push_str(path);
        for (mark, part) in [('?', &self.query), ('#', &self.fragment)] {
            if let Some(part) = part {
                write!(text, "{mark}{part}")?;
            }
        }
        for byte in text.bytes() {
            if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
                to.write_char(byte.into())?;
            } else {
                write!(to, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let from = element.optional("inProperty").map(Into::into);
    let to = element.optional("outProperty").map(Into::into);
    let mut rules = Vec::new();
    for child in element.children() {
        if child.name() == "rewriterule" {
            rules.push(rule(compiler, &child)?);
            child.finish(compiler);
        } else {
            element.ignores(compiler, &child, &["rewriterule"]);
        }
    }
    Some(Box::new(Rewrite { from, to, rules }))
}

fn rule(compiler: &mut Compiler, element: &Element<'_>) -> Option<Rule> {
    let mut rule = Rule { condition: None, actions: Vec::new() };
    for child in element.children() {
        match child.name() {
            "condition" => {
                rule.condition = Some(Condition::compile(compiler, &child)?);
            }
            "action" => rule.actions.push(action(compiler, &child)?),
            _ => {
                element.ignores(compiler, &child, &["condition", "action"]);
                continue;
            }
        }
        child.finish(compiler);
    }
    if rule.actions.is_empty() {
        return compiler.reject(element, "`rewriterule` needs an `action`", None);
    }
    Some(rule)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ActionName {
    Set,
    Append,
    Prepend,
    Replace,
    Remove,
}

fn action(compiler: &mut Compiler, element: &Element<'_>) -> Option<Action> {
    let part = element.choice(compiler, "fragment", PARTS)?;
    let kinds = [
        ("set", ActionName::Set),
        ("append", ActionName::Append),
        ("prepend", ActionName::Prepend),
        ("replace", ActionName::Replace),
        ("remove", ActionName::Remove),
    ];
    let name = element.choice(compiler, "type", &kinds)?;
    let (literal, xpath) = (element.optional("value"), element.optional("xpath"));
    if literal.is_some() && xpath.is_some() {
        element.counts(compiler, "`xpath`", "`value`");
    }
    let value = match (literal, xpath) {
        _ if name == ActionName::Remove => None,
        (_, Some(xpath)) => Some(element.compiled(compiler, xpath)?),
        (Some(value), None) => Some(Expression::literal(value)),
        (None, None) => {
            return compiler.reject(element, "`action` needs either `value` or `xpath`", None);
        }
    };
    let kind = match name {
        ActionName::Set => Kind::Set,
        ActionName::Append => Kind::Append,
        ActionName::Prepend => Kind::Prepend,
        ActionName::Remove => Kind::Remove,
        ActionName::Replace => {
            let source = element.required(compiler, "regex")?;
            match Regex::compile(source, "", limits::PATTERN_BYTES_MAX) {
                Ok(regex) => Kind::Replace(regex),
                Err(error) => {
                    let message = format!("the pattern `{source}`: {error}");
                    return compiler.reject(element, message, None);
                }
            }
        }
    };
    let fits = matches!(kind, Kind::Set | Kind::Remove) || !matches!(part, Part::Full | Part::Port);
    if !fits {
        let message = "this `type` cannot be applied to the whole address or the port";
        return compiler.reject(element, message, None);
    }
    Some(Action { part, kind, value })
}
