//! `cache`: keeps responses, and returns them to later requests that are the same. One `cache` in the sequence for
//! requests looks for them, one with `collector="true"` in the sequence for responses keeps them.

use bytes::Bytes;
use expression::BodyUse;

use crate::error::Failure;
use crate::limits;
use crate::mediators::values::items::fail;
use crate::mediators::values::pattern;
use crate::message::{Body, Direction, Message, PlainHead, PropertyScope, PropertyValue};
use crate::program::memory::Kept;
use crate::program::{CachePolicy, Excluded, Mediator, Next, Scene, SequenceId};
use crate::syntax::{Compiler, Element};

/// The property (operation) of a request that was not found: the number of its cache, and its key. As Synapse calls it.
const MISSED: &str = "CACHED_OBJECT";
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

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
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
    let mut policy = CachePolicy {
        timeout_ms: timeout_s.saturating_mul(1000),
        body_bytes_max: body_bytes_max.min(limits::CACHED_BODY_BYTES_MAX),
        count_max: count_max.min(limits::CACHED_RESPONSES_MAX),
        methods: Vec::new(),
        excluded: Excluded::These(Vec::new()),
        statuses: pattern::compile(compiler, element, ".*")?,
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
    policy: &mut CachePolicy,
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
            // Only included fields count.
            "headersToExcludeInHash" if matches!(policy.excluded, Excluded::AllBut(_)) => {}
            "headersToExcludeInHash" if text == "*" => policy.excluded = Excluded::All,
            "headersToExcludeInHash" => {
                let names = words().map(str::to_ascii_lowercase).collect();
                policy.excluded = Excluded::These(names);
            }
            "responseCodes" => policy.statuses = pattern::compile(compiler, &child, &text)?,
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
