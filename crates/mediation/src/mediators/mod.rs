//! The mediators, one file each, and the table of them.
//!
//! `values` has readers of attributes and parts of messages that several mediators share; `content` changes or checks
//! the message; `flow` chooses the sequence that continues; `send` exchanges messages with endpoints; `split` makes
//! several messages of one, and joins them; `state` keeps something between messages ([`Memory`]).
//!
//! [`Memory`]: crate::Memory

pub(crate) mod content;
mod flow;
mod send;
mod split;
mod state;
mod unserved;
pub(crate) mod values;

use crate::syntax::Row;

#[cfg(not(feature = "script"))]
use content::absent as script;
pub use content::make_fault::soap_fault;
#[cfg(feature = "script")]
use content::script;
#[cfg(not(feature = "validate"))]
use content::{absent as json_transform, absent as validate};
use content::{
    datamapper, enrich, header, log, make_fault, payload_factory, property, rewrite, xslt,
};
#[cfg(feature = "validate")]
use content::{json_transform, validate};
use flow::{call_template, conditional_router, filter, respond, sequence, switch, throw_error};
use send::{call, callout};
use split::{aggregate, clone, for_each, iterate, scatter_gather};
use state::{cache, throttle};
pub use unserved::UNSERVED;
#[cfg(feature = "validate")]
pub(crate) use {content::validate::Schema, jsonschema::Draft};

/// Every mediator, in alphabetical order. docs/synapse.md is generated from it.
#[rustfmt::skip]
pub const MEDIATORS: &[Row] = &[
    Row { element: "aggregate",         compile: aggregate::compile,        about: "joins messages that were split, or that share a value", attributes: "`id`; `correlateOn`, `completeCondition` (`timeout`, `messageCount`), `onComplete` (`expression`, `sequence`, `enclosingElementProperty`, `aggregateElementType` without effect, as in Synapse)", differs: "Joins messages of one request only, in the order in which they were split. Completes early if no more messages can arrive. Without an envelope and `enclosingElementProperty`, several elements are put into an element `aggregate`." },
    Row { element: "cache",             compile: cache::compile,              about: "caches responses, and returns them to equal requests", attributes: "`timeout` (s), `maxMessageSize`, `collector`; `onCacheHit`: `sequence`; `protocol`: `methods`, `headersToExcludeInHash`, `headersToIncludeInHash`, `responseCodes`, `enableCacheControl`, `includeAgeHeader`; `implementation`: `maxSize`", differs: "Requests are compared as a whole: method, URL, header fields except `Date` and `User-Agent`, and body. `id`, `scope` and `hashGenerator` have no effect. Responses with `Set-Cookie` are not cached, nor, with `enableCacheControl`, those with `no-cache` or `private`. All workers share the cache; a change of the artefacts empties it." },
    Row { element: "call",              compile: call::call,                  about: "sends the message to an endpoint and waits for the response", attributes: "endpoint child; `blocking`; `source`, `target`", differs: "With `blocking`, no thread is blocked; every failure has the code 401001, and so has a status other than 2xx that `non.error.http.status.codes` does not list: the error handler gets the response. The response's header fields replace those of the message. A variable as `target` has the members `payload`, `headers` (with names as received) and `attributes.statusCode`." },
    Row { element: "call-template",     compile: call_template::compile,      about: "runs a sequence template with parameters", attributes: "`target`, `onError`; `with-param`", differs: "In `{{expression}}`, `get-property()` returns the value of the property and does not evaluate an XPath in it." },
    Row { element: "callout",           compile: callout::compile,            about: "sends part of the message to a service, and replaces part of it by the response", attributes: "`serviceURL`, `endpointKey` or an endpoint child; `action`; `source`: `xpath`, `key` or `type=\"envelope\"`; `target`: `xpath` or `key`", differs: "No thread is blocked; every failure has the code 401000. Without `source`, the whole message is sent; without `target`, the response replaces it. `configuration` and `useServerConfig` have no effect; `enableSec` is rejected." },
    Row { element: "clone",             compile: clone::compile,            about: "sends copies of the message to targets", attributes: "`id`, `continueParent`, `sequential`; `target`: `sequence`, `endpoint`, `to`, `soapAction`", differs: "With `sequential`, the next copy starts when the previous one has ended or was sent by `send`." },
    Row { element: "conditionalRouter", compile: conditional_router::compile, about: "runs the targets of the routes whose conditions hold", attributes: "`continueAfter`; `conditionalRoute`: `breakRoute`; `condition` as in `rewrite`; `target`: `sequence` or `endpoint`, `to`, `soapAction`", differs: "`asynchronous` routes are rejected. If a target ends the message, `continueAfter` has no effect." },
    Row { element: "datamapper",        compile: datamapper::compile,         about: "transforms the payload with a mapping's stylesheet", attributes: "`xsltStyleSheet`, `inputType`, `outputType`", differs: "A mapping without `xsltStyleSheet` is rejected: write it as `xslt` or `payloadFactory`." },
    Row { element: "drop",              compile: respond::drop_message,          about: "ends the message", attributes: "", differs: "After a failure, the client gets the gateway's error, unless something else responds." },
    Row { element: "enrich",            compile: enrich::compile,             about: "copies a part of the message to another place", attributes: "`source`: `type`, `clone`, `xpath`, `property`, `variable`, `key`; `target`: `type`, `action`, `xpath`, `property`, `variable`", differs: "In JSON, `child` merges an object into an object, and `sibling` is rejected. `remove` takes the path (in JSON, also several) from `xpath` of the target, or of the source if the target is `body` or `property`. An envelope can only be replaced. If the source does not exist, nothing is copied, and a line is logged. A JSON string that is copied to a property has no quotes (in Micro Integrator: with them). In an `inline` source, `{$ctx:a}` and other expressions in braces are replaced by their values, escaped for JSON or XML." },
    Row { element: "fastXSLT",          compile: xslt::compile,               about: "transforms the payload with a stylesheet", attributes: "as `xslt`", differs: "" },
    Row { element: "filter",            compile: filter::compile,             about: "runs one of two branches, depending on an expression or a pattern", attributes: "`xpath`, or `source` and `regex`; `then`, `else`", differs: "" },
    Row { element: "foreach",           compile: for_each::compile,         about: "runs a sequence on each item, and replaces the item by the result", attributes: "`id`, `expression`, `sequence`; or `collection`, `parallel-execution`, `update-original`, `target-variable`, `counter-variable`, `result-content-type`, `result-enclosing-element`, `continue-without-aggregation`; `sequence`", differs: "The sequence may send and call. A dropped item stays unchanged, and the loop continues. `FOREACH_ORIGINAL_MESSAGE` is set if an artefact mentions it. `continueLoopOnFailure` is rejected." },
    Row { element: "header",            compile: header::compile,             about: "sets or removes a header", attributes: "`name`, `value` or `expression`, `action`, `scope`, `type` (`OM`: the value is XML); header blocks as children", differs: "`To`, `From`, `Action`, `FaultTo`, `ReplyTo`, `MessageID` and `RelatesTo` are properties of the message, not header blocks." },
    Row { element: "in",                compile: respond::request_only,          about: "runs its mediators on requests only", attributes: "", differs: "" },
    Row { element: "iterate",           compile: iterate::compile,          about: "sends each element or array item to a target", attributes: "`id`, `expression`, `attachPath`, `preservePayload`, `continueParent`, `sequential`; `target`", differs: "`attachPath=\".\"`, the default with an XPath, attaches an item to the payload or, as in Micro Integrator, to the envelope if there is one. With `sequential`, the next item starts when the previous one has ended or was sent by `send`." },
    Row { element: "jsontransform",     compile: json_transform::compile,     about: "converts the payload to JSON, with types from a JSON Schema", attributes: "`schema`; `property`", differs: "The only supported property is `synapse.commons.json.output.autoPrimitive`. The result must conform to the whole schema; types are taken from `properties`, `additionalProperties` and `items`, without following `$ref`. Not in the build of `make run`." },
    Row { element: "log",               compile: log::compile,                about: "writes a line to the log", attributes: "`level`, `category`, `separator`, `logFullPayload`, `logMessageID`; `property`, `message`", differs: "Level `headers` logs the HTTP header fields, without credentials. `full` logs the body as it is, without an envelope around it." },
    Row { element: "loopback",          compile: respond::loopback,              about: "continues with the sequence for responses", attributes: "", differs: "" },
    Row { element: "makefault",         compile: make_fault::compile,         about: "turns the message into a fault", attributes: "`version`, `response`; `code`, `reason`, `detail`, `node`, `role`", differs: "The prefix of the code is always that of the envelope. The client gets the fault with status 500, unless `HTTP_SC` or `FAULTS_AS_HTTP_200` is set or the message is an upstream's response, as in Synapse; after `pox`, so does any other body that replaces it." },
    Row { element: "out",               compile: respond::response_only,         about: "runs its mediators on responses only", attributes: "", differs: "" },
    Row { element: "payloadFactory",    compile: payload_factory::compile,    about: "replaces the body by the output of a template", attributes: "`media-type`, `template-type`, `escapeXmlChars`; `format`, `args`", differs: "The output is always well-formed: a format that cannot be JSON or XML is an error at load, and malformed output of FreeMarker, or of a format whose values are not in elements, attributes or strings, fails. Characters that XML does not allow become U+FFFD. [expressions.md](expressions.md) lists the supported subset of FreeMarker." },
    Row { element: "property",          compile: property::compile,           about: "sets or removes a property", attributes: "`name`, `value` or `expression`, `scope`, `type`, `action`, `pattern`, `group`; a child element", differs: "A name in braces is an expression. The scopes `registry`, `system` and `env` are read-only; `trace` and `analytics` have no effect." },
    Row { element: "propertyGroup",     compile: property::group,             about: "sets several properties", attributes: "`property`", differs: "" },
    Row { element: "respond",           compile: respond::respond,               about: "sends the message back to the client", attributes: "", differs: "" },
    Row { element: "rewrite",           compile: rewrite::compile,            about: "rewrites parts of the message's address", attributes: "`inProperty`, `outProperty`; `rewriterule`: `condition` of `and`, `or`, `not`, `equal`, `match`; `action`: `type`, `fragment`, `value` or `xpath`, `regex`", differs: "Escapes in the address are kept. Conditions can test `url`, `header`, `param` and `property`." },
    Row { element: "scatter-gather",    compile: scatter_gather::compile,   about: "runs sequences on copies of the message, and combines the results", attributes: "`parallel-execution`, `target`, `target-variable`, `result-content-type`, `result-enclosing-element`; `aggregation`: `expression`, `condition`, `timeout` (ms), `min-messages`, `max-messages`; `sequence`", differs: "If a sequence fails, the mediator fails. For results in XML, `expression` is an XPath or `${xpath('...')}`." },
    Row { element: "script",            compile: script::compile,             about: "runs JavaScript on the message", attributes: "`language`, `key`, `function`; `include`: `key`; the script", differs: "Runs in QuickJS, with limits on time and memory; no state is kept between messages. `mc` has the methods that get and set the payload, properties and addresses, and `addHeader`. XML is text, and there are no Java classes. E4X is an error, or a warning where its use is not certain. Not in the build of `make run`." },
    Row { element: "send",              compile: call::compile,               about: "sends a request to an endpoint, or a response to the client", attributes: "endpoint child; `receive`, `buildmessage`", differs: "" },
    Row { element: "sequence",          compile: sequence::compile,           about: "runs another sequence", attributes: "`key`; or `name`, `onError` and mediators", differs: "" },
    Row { element: "switch",            compile: switch::compile,             about: "runs the first case whose pattern matches", attributes: "`source`; `case`, `default`", differs: "" },
    Row { element: "throttle",          compile: throttle::compile,           about: "limits concurrent requests and the request rate of each client", attributes: "`id`, `onAccept`, `onReject`; `policy`: `key`, or a policy with `MaximumConcurrentAccess` and, by `ID`, `MaximumCount`, `UnitTime` (ms), `ProhibitTimePeriod` (ms), `Allow` or `Deny`; `onAccept`, `onReject`", differs: "Each process counts separately. `ID`s are addresses; the types `DOMAIN` and `ROLE` are rejected. An IPv6 /64 counts as one client. A failed request no longer counts as concurrent. Without `onReject`, a rejected message fails." },
    Row { element: "throwError",        compile: throw_error::compile,        about: "fails, so that the error handler takes over", attributes: "`type`, `errorMessage`", differs: "" },
    Row { element: "validate",          compile: validate::compile,           about: "validates JSON against JSON Schemas, and runs `on-fail` if it does not conform", attributes: "`source`, `cache-schema`; `schema`: `key`; `on-fail`", differs: "XML Schema is rejected; an XML body is validated in its JSON form. The body must conform to all `schema`s; Micro Integrator validates JSON against the last one only. `$ref` can refer to another local entry or to a registry resource, by its key or relative to that of the schema, unless `key` is an expression. A schema without `$schema` is of draft 4; if it has numbers as `exclusiveMaximum` or `exclusiveMinimum`, it is read as draft 7, with a warning. Regular expressions have no look-around and no back-references. `ERROR_MESSAGE` has a text of Penstock's, which does not name the violation if the schema has `$ref`, `anyOf`, `oneOf`, `not` or `if`. Not in the build of `make run`." },
    Row { element: "variable",          compile: property::variable,          about: "sets or removes a variable", attributes: "`name`, `value` or `expression`, `type`, `action`", differs: "" },
    Row { element: "xslt",              compile: xslt::compile,               about: "transforms the payload with a stylesheet", attributes: "`key`, `source`, `target`, `useCache`; `property` (with `type=\"OM\"`: nodes instead of their text); `resource`: `location`, `key`", differs: "`feature` and `attribute` have no effect." },
];
