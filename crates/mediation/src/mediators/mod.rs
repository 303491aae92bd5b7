//! The mediators, one file each.

#[cfg(not(all(feature = "script", feature = "validate")))]
mod absent;
mod aggregate;
mod cache;
mod call_template;
mod callout;
mod clone;
mod condition;
mod conditional_router;
mod datamapper;
mod enrich;
mod filter;
mod flow;
mod for_each;
mod header;
mod inline;
mod iterate;
mod json_target;
#[cfg(feature = "validate")]
mod json_transform;
mod keyed;
mod log;
mod make_fault;
mod pattern;
mod payload_factory;
mod piece;
pub(crate) mod property;
mod rewrite;
mod scatter_gather;
#[cfg(feature = "script")]
mod script;
mod send;
mod sequence;
mod split;
mod switch;
pub(crate) mod text;
mod throttle;
mod throw_error;
mod unserved;
#[cfg(feature = "validate")]
mod validate;
#[cfg(feature = "validate")]
pub(crate) use {jsonschema::Draft, validate::Schema};
mod xslt;

use crate::Mediator;
use crate::compile::{Compiler, Element};

#[cfg(not(feature = "script"))]
use absent as script;
pub(crate) use cache::Policy as CachePolicy;
pub(crate) use for_each::ORIGINAL;
pub use make_fault::soap_fault;
pub(crate) use pattern::Pattern;
pub(crate) use send::RECEIVING_SEQUENCE;
pub(crate) use unserved::instead_of;
#[cfg(not(feature = "validate"))]
use {absent as json_transform, absent as validate};

/// A mediator's element, and what makes it.
#[derive(Debug)]
pub struct Row {
    /// The element's local name.
    pub element: &'static str,
    /// Compiles the element. `None` if an error was reported.
    pub compile: fn(&mut Compiler, &Element<'_>) -> Option<Box<dyn Mediator>>,
    /// What it does, after "it".
    pub about: &'static str,
    /// Its attributes and child elements.
    pub attributes: &'static str,
    /// What differs from Micro Integrator.
    pub differs: &'static str,
}

/// Every mediator, in the order of the alphabet. docs/synapse.md is generated from it.
#[rustfmt::skip]
pub const MEDIATORS: &[Row] = &[
    Row { element: "aggregate",         compile: aggregate::compile,        about: "joins messages that were split, or that have a value in common", attributes: "`id`; `correlateOn`, `completeCondition` (`timeout`, `messageCount`), `onComplete` (`expression`, `sequence`, `enclosingElementProperty`, `aggregateElementType` without effect, as in Synapse)", differs: "Messages of one request only, in the order in which they were split. Completes early if no more messages can arrive. Several elements without an envelope and without `enclosingElementProperty` are put in an element `aggregate`." },
    Row { element: "cache",             compile: cache::compile,              about: "keeps responses, and returns them to requests that are the same", attributes: "`timeout` (s), `maxMessageSize`, `collector`; `onCacheHit`: `sequence`; `protocol`: `methods`, `headersToExcludeInHash`, `headersToIncludeInHash`, `responseCodes`, `enableCacheControl`, `includeAgeHeader`; `implementation`: `maxSize`", differs: "Requests are compared as a whole: method, URL, fields but `Date` and `User-Agent`, and body. `id`, `scope` and `hashGenerator` have no effect. Responses with `Set-Cookie` are not kept, nor, by `enableCacheControl`, those with `no-cache` or `private`. All workers share what is kept; it is empty after a change of the artefacts." },
    Row { element: "call",              compile: send::call,                  about: "sends the message to an endpoint and waits for the response", attributes: "endpoint child; `blocking`; `source`, `target`", differs: "A blocking call holds no thread; whatever fails has the code 401001, and so has another status than 2xx, unless `non.error.http.status.codes` lists it: the error handler gets the response. The header fields after it are those of the response. A variable as `target` has the members `payload`, `headers` (with their names as received) and `attributes.statusCode`." },
    Row { element: "call-template",     compile: call_template::compile,      about: "runs a sequence template with parameters", attributes: "`target`, `onError`; `with-param`", differs: "In `{{expression}}`, `get-property()` is the value of the property, and not an XPath in it." },
    Row { element: "callout",           compile: callout::compile,            about: "sends a part of the message to a service, and puts the response in the place of a part", attributes: "`serviceURL`, `endpointKey` or an endpoint child; `action`; `source`: `xpath`, `key` or `type=\"envelope\"`; `target`: `xpath` or `key`", differs: "It holds no thread; whatever fails has the code 401000. Without a `source` the message is sent as it is, and without a `target` the response takes its place. `configuration` and `useServerConfig` have no effect, and `enableSec` is rejected." },
    Row { element: "clone",             compile: clone::compile,            about: "sends copies of the message to targets", attributes: "`id`, `continueParent`, `sequential`; `target`: `sequence`, `endpoint`, `to`, `soapAction`", differs: "With `sequential`, the next copy starts when the last one is done or was sent by `send`." },
    Row { element: "conditionalRouter", compile: conditional_router::compile, about: "runs the targets of the routes whose conditions hold", attributes: "`continueAfter`; `conditionalRoute`: `breakRoute`; `condition` as in `rewrite`; `target`: `sequence` or `endpoint`, `to`, `soapAction`", differs: "`asynchronous` routes are rejected. A target that ends the message ends it, with `continueAfter` too." },
    Row { element: "datamapper",        compile: datamapper::compile,         about: "transforms the payload by the stylesheet of a mapping", attributes: "`xsltStyleSheet`, `inputType`, `outputType`", differs: "A mapping without `xsltStyleSheet` is rejected: write it as `xslt` or `payloadFactory`." },
    Row { element: "drop",              compile: flow::drop_message,          about: "ends the message", attributes: "", differs: "After a failure, the client gets the gateway's error, unless something else responds." },
    Row { element: "enrich",            compile: enrich::compile,             about: "copies a part of the message to another place", attributes: "`source`: `type`, `clone`, `xpath`, `property`, `variable`, `key`; `target`: `type`, `action`, `xpath`, `property`, `variable`", differs: "In JSON, `child` puts the members of an object into an object, and `sibling` is rejected. `remove` takes the paths, also several in JSON, from `xpath` of the target, or from that of the source for the targets `body` and `property`; in XML too. An envelope can only be replaced. A source that does not exist is logged, and nothing is copied. Inside an `inline` source, `{$ctx:a}` and the like are values, written as JSON or XML needs it." },
    Row { element: "fastXSLT",          compile: xslt::compile,               about: "transforms the payload by a stylesheet", attributes: "as `xslt`", differs: "" },
    Row { element: "filter",            compile: filter::compile,             about: "runs one of two branches, by an expression or a pattern", attributes: "`xpath`, or `source` and `regex`; `then`, `else`", differs: "" },
    Row { element: "foreach",           compile: for_each::compile,         about: "runs a sequence on each item of the body, and puts the results in their places", attributes: "`id`, `expression`, `sequence`; or `collection`, `parallel-execution`, `update-original`, `target-variable`, `counter-variable`, `result-content-type`, `result-enclosing-element`, `continue-without-aggregation`; `sequence`", differs: "The sequence may send and call. An item that is dropped stays as it was, and the loop goes on. `FOREACH_ORIGINAL_MESSAGE` is set if an artefact mentions it. `continueLoopOnFailure` is rejected." },
    Row { element: "header",            compile: header::compile,             about: "sets or removes a header", attributes: "`name`, `value` or `expression`, `action`, `scope`, `type` (`OM`: the value is XML); header blocks as children", differs: "`To`, `From`, `Action`, `FaultTo`, `ReplyTo`, `MessageID` and `RelatesTo` are properties." },
    Row { element: "in",                compile: flow::request_only,          about: "runs its mediators on requests only", attributes: "", differs: "" },
    Row { element: "iterate",           compile: iterate::compile,          about: "sends each element or array item to a target", attributes: "`id`, `expression`, `attachPath`, `preservePayload`, `continueParent`, `sequential`; `target`", differs: "`attachPath=\".\"`, the default with an XPath, puts an item below the payload, or, as in Micro Integrator, below the envelope if there is one. With `sequential`, the next item starts when the last one is done or was sent by `send`." },
    Row { element: "jsontransform",     compile: json_transform::compile,     about: "makes the payload JSON with the types that a JSON Schema says", attributes: "`schema`; `property`", differs: "Of the properties, `synapse.commons.json.output.autoPrimitive` alone. The result must conform to the whole schema; types are those of `properties`, `additionalProperties` and `items`, and `$ref` is not followed for them. `make run` builds without it." },
    Row { element: "log",               compile: log::compile,                about: "writes a line to the log", attributes: "`level`, `category`, `separator`, `logFullPayload`, `logMessageID`; `property`, `message`", differs: "Level `headers` logs the fields of HTTP, without credentials. `full` ends with the body as it is, and not with an envelope around it." },
    Row { element: "loopback",          compile: flow::loopback,              about: "continues with the sequence for responses", attributes: "", differs: "" },
    Row { element: "makefault",         compile: make_fault::compile,         about: "turns the message into a fault", attributes: "`version`, `response`; `code`, `reason`, `detail`, `node`, `role`", differs: "The prefix of a code is that of the envelope. The client gets the fault with the status 500 unless `HTTP_SC` or `FAULTS_AS_HTTP_200` says otherwise, or the message is an upstream's response, as in Synapse; after `pox` also whatever else becomes the body." },
    Row { element: "out",               compile: flow::response_only,         about: "runs its mediators on responses only", attributes: "", differs: "" },
    Row { element: "payloadFactory",    compile: payload_factory::compile,    about: "replaces the body by a template's output", attributes: "`media-type`, `template-type`, `escapeXmlChars`; `format`, `args`", differs: "The output is always well-formed: a FreeMarker template whose JSON or XML is not fails. Of FreeMarker, the subset that docs/expressions.md lists." },
    Row { element: "property",          compile: property::compile,           about: "sets or removes a property", attributes: "`name`, `value` or `expression`, `scope`, `type`, `action`, `pattern`, `group`; a child element", differs: "A name in braces is an expression. The scopes registry, system and env cannot be written; trace and analytics have no effect." },
    Row { element: "propertyGroup",     compile: property::group,             about: "sets several properties", attributes: "`property`", differs: "" },
    Row { element: "respond",           compile: flow::respond,               about: "sends the message back to the client", attributes: "", differs: "" },
    Row { element: "rewrite",           compile: rewrite::compile,            about: "changes the parts of the message's address", attributes: "`inProperty`, `outProperty`; `rewriterule`: `condition` of `and`, `or`, `not`, `equal`, `match`; `action`: `type`, `fragment`, `value` or `xpath`, `regex`", differs: "Escapes in an address stay as they are. Conditions look at `url`, `header`, `param` and `property`." },
    Row { element: "scatter-gather",    compile: scatter_gather::compile,   about: "runs sequences on copies of the message, and collects the results", attributes: "`parallel-execution`, `target`, `target-variable`, `result-content-type`, `result-enclosing-element`; `aggregation`: `expression`, `condition`, `timeout` (ms), `min-messages`, `max-messages`; `sequence`", differs: "A sequence that fails fails the mediator. The `expression` of results in XML is an XPath, or `${xpath('...')}`." },
    Row { element: "script",            compile: script::compile,             about: "runs JavaScript on the message", attributes: "`language`, `key`, `function`; `include`: `key`; the script", differs: "QuickJS with limits of time and memory; nothing survives a message. `mc` has the methods that read and set the payload, properties and addresses, and `addHeader`; XML is text, and Java's classes are absent. XML in JavaScript (E4X) is rejected, or warned of where that is not certain. `make run` builds without it." },
    Row { element: "send",              compile: send::compile,               about: "sends a request to an endpoint, or a response to the client", attributes: "endpoint child; `receive`, `buildmessage`", differs: "" },
    Row { element: "sequence",          compile: sequence::compile,           about: "runs another sequence", attributes: "`key`; or `name`, `onError` and mediators", differs: "" },
    Row { element: "switch",            compile: switch::compile,             about: "runs the first case whose pattern matches", attributes: "`source`; `case`, `default`", differs: "" },
    Row { element: "throttle",          compile: throttle::compile,           about: "limits concurrent requests, and each client's request rate", attributes: "`id`, `onAccept`, `onReject`; `policy`: `key`, or a policy with `MaximumConcurrentAccess` and, by `ID`, `MaximumCount`, `UnitTime` (ms), `ProhibitTimePeriod` (ms), `Allow` or `Deny`; `onAccept`, `onReject`", differs: "Counts are those of one process. `ID`s are addresses: the types `DOMAIN` and `ROLE` are rejected. An IPv6 /64 counts as one client. A request in progress that fails makes room too. Without `onReject` the message fails." },
    Row { element: "throwError",        compile: throw_error::compile,        about: "fails, so that the error handler takes over", attributes: "`type`, `errorMessage`", differs: "" },
    Row { element: "validate",          compile: validate::compile,           about: "checks JSON against JSON Schemas, and runs `on-fail` if it does not conform", attributes: "`source`, `cache-schema`; `schema`: `key`; `on-fail`", differs: "XML Schema is rejected; an XML body is checked in its JSON form. All `schema`s must hold; Micro Integrator checks JSON against the last. `$ref` names another local entry, or a registry resource by its key or relative to its own, unless the `key` is an expression. A schema is of draft 4 if it names none; with numbers as `exclusiveMaximum` or `exclusiveMinimum` it is read as of draft 7, with a warning. Regular expressions have no look-around and no back-references. For a schema with `$ref`, `anyOf`, `oneOf`, `not` or `if`, the message does not name the violation. The texts of `ERROR_MESSAGE` are Penstock's. `make run` builds without it." },
    Row { element: "variable",          compile: property::variable,          about: "sets or removes a variable", attributes: "`name`, `value` or `expression`, `type`, `action`", differs: "" },
    Row { element: "xslt",              compile: xslt::compile,               about: "transforms the payload by a stylesheet", attributes: "`key`, `source`, `target`, `useCache`; `property` (of the type `OM`: nodes instead of their text); `resource`: `location`, `key`", differs: "`feature` and `attribute` have no effect." },
];

const PAGE: &str = "\
# Synapse artefacts

Penstock runs the artefacts of WSO2's Micro Integrator: [integration.md](integration.md) describes how to serve them.
`penstock check` checks them, and `penstock try FILE --payload MESSAGE --trace` shows what one message becomes, without
a network.

Served are `definitions` with `sequence`, `template`, `endpoint`, `proxy`, `api`, `inboundEndpoint` and `localEntry`. An
endpoint is an `address`, `http` (with `basicAuth` or `oauth`), `default`, `wsdl`, `loadbalance` (in turns, which each
worker counts for itself; by the property `loadbalance.weight` of its members with `WeightedRoundRobin`), `failover` or
`recipientlist` (all at once; each response goes its own way, where an `aggregate` may join them, but in a sequence of
`scatter-gather` or `foreach` the first one counts after a `call`),
one of a template, another one by `key`, or one by `key-expression`; groups may be inside groups. It has `timeout`
(whose `duration` may be an expression in braces), `suspendOnFailure` (with a warning also `suspendDurationOnFailure`,
in seconds), `markForSuspension` and `retryConfig`: after an error that a member lists in `enabledErrorCodes`, a group
sends any request to the next member, and else only one that is safe to repeat, which is a warning at a `failover`
whose members say nothing of that. An endpoint without rules is never
suspended, where Synapse suspends it for 30 s after its first failure: one client could keep all others from it
([0012](decisions/0012-outliers-are-suspended.md)). Each `property` of an endpoint, though not of a member of a group,
is set on the messages that are sent there. The expressions of an endpoint cannot read the body. With
`enableAddressing`, a message that is sent as SOAP gets the header blocks `To`, `MessageID` and `Action` of
WS-Addressing in place of those that it has, `ReplyTo`, `From`, `FaultTo` and `RelatesTo` if the mediator `header` set
them, and in the version `submission` an anonymous `ReplyTo`; other messages are sent as they are. `separateListener` is
a warning: the response is the one on the connection of the request. A `member` of a `loadbalance` gets the path of the
message at its `httpPort` or `httpsPort`, as the request came.

`send` and `call` without an endpoint, and the endpoint `default`, send a message to the address that the mediator `header`
set as `To`, else to the one in the header block `To` of WS-Addressing, which is then chosen by whoever sent the message:
a body that streams is held to find it. An address in the namespace of WS-Addressing, such as the anonymous one, is none.

A `GET` is sent without the body of the message, and without its `Content-Type`. With `format` `get` of the endpoint, or
the `messageType` `application/x-www-form-urlencoded`, the children of the payload become its query. When a response is
sent to the next service, its fields `Server` and `Date` are not.

An `api` may have a `hostname` and a `port`, and a `resource` a `protocol`, a `content-type` and a pattern for the
`user-agent`, as in Synapse: what they do not admit they do not serve, and the API with the next longest context may.
`OPTIONS` gets the methods of the path in `Allow` unless a resource mediates it. The sequence `main` gets the requests
that no proxy and no API takes, and `fault` handles the errors that nothing else does. What no sequence handles gets the
gateway's error in JSON, and a SOAP fault if the request was SOAP.

A part of `iterate` or `clone` that made a `call` continues after the mediator, where an `aggregate` may wait for it;
one that made none ends with its target.
Everything else has a diagnostic with file, line and column. Micro Integrator ignores an attribute that it does not
know, and most such children: so does Penstock, with a warning, which may suggest what was meant. An unknown mediator,
an invalid value, a part that is missing (such as the `resource` of an API) and what is not served are errors: an
artefact with an error is not served, nor is one that uses it; all others are.

A request and all messages derived from it share one budget of steps and bytes, and at most 10,000 branches are alive,
of which 64 may send at a time: a loop of calls, a million items or an aggregate that nobody completes end in a fault.
The error handlers of a request that used up its budget get 256 KiB and 20,000 steps in addition, once, so that they can
respond. What goes on after the response counts as a request in progress until it ends.

The `key` of `sequence`, `xslt`, `schema` and `format`, `schema` of `jsontransform`, and `receive` of `send` may be an
expression in braces.
`get-property('NAME')` reads the local entry `NAME` if no property has the name, which has to be a literal. A local
entry or a resource of the registry that is a `sequence`, an `endpoint` or a `template` can be named as one.

JSON and XML bodies can be read by XPath, JSONPath and Synapse expressions alike: the other view is made when it is
needed. What no mediator edits is sent on byte for byte. A SOAP fault in an envelope that is sent as the other version
of SOAP is converted: the second part of a dotted code, `Subcode`, and each `Text` but the first are lost.

## Mediators

| element | state | what it does | attributes and children | differences, or what to use instead |
|---|---|---|---|---|
";

/// The page docs/synapse.md.
#[must_use]
pub fn synapse_page() -> String {
    let mut page = PAGE.to_owned();
    for Row { element, about, attributes, differs, .. } in MEDIATORS {
        let state = if differs.is_empty() { "served" } else { "with differences" };
        page.push_str(&format!("| `{element}` | {state} | {about} | {attributes} | {differs} |\n"));
    }
    for (element, instead) in unserved::UNSERVED {
        page.push_str(&format!("| `{element}` | not served | | | {instead} |\n"));
    }
    page.push_str(&crate::known::page());
    page
}
