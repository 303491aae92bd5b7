//! `cache`: keeps responses, and returns them to later requests that are the same. One `cache` in the sequence for
//! requests looks for them, one with `collector="true"` in the sequence for responses keeps them.

use bytes::Bytes;
use expression::BodyUse;

use super::pattern::Pattern;
use super::split::fail;
use crate::compile::{Compiler, Element};
use crate::limits;
use crate::memory::Kept;
use crate::message::{Body, Direction, PlainHead};
use crate::program::SequenceId;
use crate::run::Scene;
use crate::{Failure, Mediator, Message, Next, PropertyScope, PropertyValue};

/// What a `cache` keeps, and how long.
#[derive(Debug)]
pub(crate) struct Policy {
    timeout_ms: i64,
    body_bytes_max: usize,
    count_max: usize,
    /// Empty: all.
    methods: Vec<String>,
    excluded: Excluded,
    statuses: Pattern,
    /// Whether responses say by `Cache-Control` how long they are kept.
    by_cache_control: bool,
    age: bool,
}

/// Fields of a request that do not count when it is compared with others.
#[derive(Debug)]
enum Excluded {
    All,
    /// In lower case.
    These(Vec<String>),
    AllBut(Vec<String>),
}

/// The property (operation) of a request that was not found: the number of its cache, and its key. As Synapse calls it.
const MISSED: &str = "CACHED_OBJECT";
/// Fields that differ in requests that are the same. Source: Synapse's `HttpRequestHashGenerator`.
const VOLATILE: &[&str] = &["date", "user-agent"];
/// Fields of a connection, and those that the host writes anew.
const OWN: &[&str] = &[
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug)]
struct Find {
    cache: usize,
    on_hit: Option<SequenceId>,
}

impl Mediator for Find {
    fn body_use(&self) -> BodyUse {
        BodyUse::Read
    }

    fn enters(&self) -> Vec<SequenceId> {
        self.on_hit.into_iter().collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        if message.direction == Direction::Response {
            return Err(fail("a response came to a `cache` without `collector=\"true\"`"));
        }
        let Some(policy) = scene.program.caches.get(self.cache) else { return Ok(Next::Continue) };
        message.remove(PropertyScope::Operation, MISSED);
        let Some(key) = policy.key(scene, message)? else { return Ok(Next::Continue) };
        let now_ms = scene.environment.unix_ms();
        let memory = scene.environment.memory();
        let found = memory.and_then(|memory| memory.cached(self.cache, &key, now_ms));
        let Some(kept) = found else {
            let value = PropertyValue::new(format!("{} {key}", self.cache));
            message.set(PropertyScope::Operation, MISSED, value, scene.budget)?;
            return Ok(Next::Continue);
        };
        let mut fields = kept.fields.clone();
        if policy.age {
            let age_s = now_ms.saturating_sub(kept.since_ms) / 1000;
            fields.push(("Age".to_owned(), age_s.to_string()));
        }
        let head = PlainHead { fields, ..PlainHead::default() };
        message.become_response(Box::new(head), Body::held(kept.format, kept.body.clone()));
        let status = PropertyValue::new(kept.status.clone());
        message.set(PropertyScope::Axis2, "HTTP_SC", status, scene.budget)?;
        Ok(self.on_hit.map_or(Next::Respond, Next::Enter))
    }
}

impl Policy {
    /// What identifies the request. `None`: its responses are not kept.
    fn key(&self, scene: &Scene<'_>, message: &Message) -> Result<Option<String>, Failure> {
        let axis2 = |name| scene.view(message).text_property(PropertyScope::Axis2, name);
        let method = axis2("HTTP_METHOD").unwrap_or_default();
        if !self.methods.is_empty() && !self.methods.contains(&method.to_ascii_uppercase()) {
            return Ok(None);
        }
        let mut key = format!("{method} {}\n", axis2("TransportInURL").unwrap_or_default());
        let counts = |name: &String| match &self.excluded {
            Excluded::All => false,
            Excluded::These(names) => !VOLATILE.contains(&&**name) && !names.contains(name),
            Excluded::AllBut(names) => names.contains(name),
        };
        let mut fields = Vec::new();
        message.head.fields(&mut |name, value| {
            let name = name.to_ascii_lowercase();
            if counts(&name) {
                fields.push(format!("{name}: {value}\n"));
            }
        });
        fields.sort();
        key.extend(fields);
        let body = message.body.bytes(scene.budget)?.unwrap_or_default();
        if !body.is_empty() {
            let Ok(body) = std::str::from_utf8(&body) else { return Ok(None) };
            if body.len() > limits::CACHE_KEY_BYTES_MAX {
                return Ok(None);
            }
            key.push('\n');
            key.push_str(body);
        }
        scene.budget.charge_memory(key.len())?;
        scene.budget.charge_reading(key.len())?;
        Ok((key.len() <= limits::CACHE_KEY_BYTES_MAX).then_some(key))
    }

    /// How long a response is kept, in milliseconds. `None`: not at all.
    fn lasts_ms(&self, message: &Message) -> Option<i64> {
        let mut lasts_ms = self.timeout_ms;
        // The next client must not get the cookies of the first.
        if message.head.field("Set-Cookie").is_some() {
            return None;
        }
        if self.by_cache_control {
            let control = message.head.field("Cache-Control").unwrap_or_default();
            for directive in control.split(',') {
                let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
                match name.trim().to_ascii_lowercase().as_str() {
                    "no-store" | "no-cache" | "private" => return None,
                    "max-age" => {
                        let seconds: i64 = value.trim().trim_matches('"').parse().ok()?;
                        lasts_ms = lasts_ms.min(seconds.saturating_mul(1000));
                    }
                    _ => {}
                }
            }
        }
        Some(lasts_ms).filter(|lasts_ms| *lasts_ms > 0)
    }
}

/// The steps of `onCacheHit`.
#[derive(Clone, Copy, Debug)]
enum Hit {
    Enter(SequenceId),
    Drop,
}

impl Mediator for Hit {
    fn enters(&self) -> Vec<SequenceId> {
        match self {
            Self::Enter(sequence) => vec![*sequence],
            Self::Drop => Vec::new(),
        }
    }

    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Ok(match self {
            Self::Enter(sequence) => Next::Enter(*sequence),
            Self::Drop => Next::Drop,
        })
    }
}

/// Keeps a response.
#[derive(Debug)]
struct Collect;

impl Mediator for Collect {
    fn body_use(&self) -> BodyUse {
        BodyUse::Read
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        // A response that a `call` brought goes on in the direction of the request, but it has a status.
        let has_status = message.head.property(PropertyScope::Axis2, "HTTP_SC").is_some();
        if message.direction == Direction::Request && !has_status {
            return Err(fail("a request came to a `cache` that is a collector"));
        }
        let missed = message.properties.get(PropertyScope::Operation, MISSED);
        let Some(missed) = missed.map(|missed| missed.text().into_owned()) else {
            return Ok(Next::Continue);
        };
        message.remove(PropertyScope::Operation, MISSED);
        let Some((cache, key)) = missed.split_once(' ') else { return Ok(Next::Continue) };
        let cache = cache.parse().unwrap_or(usize::MAX);
        let Some(policy) = scene.program.caches.get(cache) else { return Ok(Next::Continue) };
        let status = scene.view(message).text_property(PropertyScope::Axis2, "HTTP_SC");
        let status = status.unwrap_or_else(|| "200".to_owned());
        let Some(lasts_ms) = policy.lasts_ms(message) else { return Ok(Next::Continue) };
        let body = message.body.bytes(scene.budget)?.unwrap_or_default();
        if body.len() > policy.body_bytes_max || !policy.statuses.matches(&status, scene.budget)? {
            return Ok(Next::Continue);
        }
        let mut fields = Vec::new();
        message.head.fields(&mut |name, value| {
            if !OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                fields.push((name.to_owned(), value.to_owned()));
            }
        });
        let since_ms = scene.environment.unix_ms();
        let kept = Kept {
            status: status.into(),
            fields,
            format: message.body.format(),
            // A copy: the host's charge for the bytes of a message ends with the message.
            body: Bytes::copy_from_slice(&body),
            since_ms,
            until_ms: since_ms.saturating_add(lasts_ms),
        };
        if let Some(memory) = scene.environment.memory() {
            memory.keep(cache, key, kept, policy.count_max);
        }
        Ok(Next::Continue)
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    // A cache of Penstock's has no name and no scope: it belongs to its mediator.
    element.ignore(&["id", "scope", "hashGenerator"]);
    if element.flag(compiler, "collector", false)? {
        return Some(Box::new(Collect));
    }
    let timeout_s: i64 = element.number(compiler, "timeout", 5000)?;
    let body_bytes_max =
        element.number(compiler, "maxMessageSize", limits::CACHED_BODY_BYTES_MAX)?;
    let mut count_max = limits::CACHED_RESPONSES_MAX;
    if let Some(implementation) = element.child("implementation") {
        implementation.ignore(&["type"]);
        count_max = implementation.number(compiler, "maxSize", count_max)?;
        implementation.finish(compiler);
    }
    let on_hit = match element.child("onCacheHit") {
        Some(on_hit) => ending(compiler, &on_hit)?,
        None => None,
    };
    let mut policy = Policy {
        timeout_ms: timeout_s.saturating_mul(1000),
        body_bytes_max: body_bytes_max.min(limits::CACHED_BODY_BYTES_MAX),
        count_max: count_max.min(limits::CACHED_RESPONSES_MAX),
        methods: Vec::new(),
        excluded: Excluded::These(Vec::new()),
        statuses: Pattern::compile(compiler, element, ".*")?,
        by_cache_control: false,
        age: false,
    };
    if let Some(protocol) = element.child("protocol") {
        read_protocol(compiler, &protocol, &mut policy)?;
    }
    let cache = compiler.add_cache(policy);
    Some(Box::new(Find { cache, on_hit }))
}

/// The sequence of `onCacheHit`; an empty one has none, as in Synapse. The mediators behind the `cache` do not run any
/// more: without a `respond` the message ends, as there.
#[allow(clippy::option_option, reason = "an error was reported, or the response is sent")]
fn ending(compiler: &mut Compiler, on_hit: &Element<'_>) -> Option<Option<SequenceId>> {
    let sequence = match on_hit.optional("sequence") {
        Some(name) => Some(compiler.sequence_named(on_hit, name)?),
        None if on_hit.children().next().is_some() => Some(compiler.nested(on_hit)),
        None => None,
    };
    on_hit.finish(compiler);
    Some(sequence.map(|sequence| {
        let steps: Vec<Box<dyn Mediator>> =
            vec![Box::new(Hit::Enter(sequence)), Box::new(Hit::Drop)];
        compiler.sequence_of(on_hit, "onCacheHit", steps)
    }))
}

/// The children of `protocol`.
const PROTOCOL: &[&str] = &[
    "methods",
    "headersToIncludeInHash",
    "headersToExcludeInHash",
    "responseCodes",
    "enableCacheControl",
    "includeAgeHeader",
    "hashGenerator",
];

fn read_protocol(
    compiler: &mut Compiler,
    protocol: &Element<'_>,
    policy: &mut Policy,
) -> Option<()> {
    protocol.choice(compiler, "type", &[("HTTP", ())])?;
    for child in protocol.children() {
        let text = child.node().string_value().trim().to_owned();
        let words = || text.split(',').map(str::trim).filter(|word| !word.is_empty());
        match child.name() {
            "methods" => {
                policy.methods = words().map(str::to_ascii_uppercase).collect();
                if policy.methods.iter().any(|method| method == "*") {
                    policy.methods.clear();
                }
            }
            "headersToIncludeInHash" => {
                let names = words().map(str::to_ascii_lowercase).collect();
                policy.excluded = Excluded::AllBut(names);
            }
            // Those that are included count alone.
            "headersToExcludeInHash" if matches!(policy.excluded, Excluded::AllBut(_)) => {}
            "headersToExcludeInHash" if text == "*" => policy.excluded = Excluded::All,
            "headersToExcludeInHash" => {
                let names = words().map(str::to_ascii_lowercase).collect();
                policy.excluded = Excluded::These(names);
            }
            "responseCodes" => policy.statuses = Pattern::compile(compiler, &child, &text)?,
            "enableCacheControl" => policy.by_cache_control = truth(compiler, &child, &text)?,
            "includeAgeHeader" => policy.age = truth(compiler, &child, &text)?,
            // Requests are compared as a whole.
            "hashGenerator" => {}
            _ => {
                protocol.ignores(compiler, &child, PROTOCOL);
                continue;
            }
        }
        child.finish(compiler);
    }
    protocol.finish(compiler);
    Some(())
}

fn truth(compiler: &mut Compiler, element: &Element<'_>, text: &str) -> Option<bool> {
    let found = text.parse().ok();
    if found.is_none() {
        let help = "write `true` or `false`";
        compiler.error(
            element,
            format!("unknown value `{text}` of `{}`", element.name()),
            Some(help),
        );
    }
    found
}
