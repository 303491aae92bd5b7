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

const PAGE: &str = "\
# Synapse artefacts

The elements, mediators and properties of WSO2's Micro Integrator that Penstock supports.
[integration.md](integration.md) describes how to check and serve artefacts.

Artefacts are `api`, `proxy`, `sequence`, `template`, `endpoint`, `localEntry` and `inboundEndpoint`, each in a file of
its own or together in `definitions`. An unknown mediator, an invalid value, a missing part (such as the `resource` of
an API) and an unsupported feature are errors, reported with file, line and column: the artefact and those that use it
are not served. As in Micro Integrator, unknown attributes and most unknown children are ignored, but with a warning.

## APIs and sequences

- An `api` may have a `hostname` and a `port`. A request that does not match them goes to the API with the next longest
  context. A `resource` may have a `protocol`, a `content-type` and a pattern for the `user-agent`; other requests for
  it get 400, as in Synapse.
- `OPTIONS` requests get the methods of the path in `Allow`, unless a resource handles `OPTIONS`.
- Requests that match no proxy and no API go to the sequence `main`, and errors without another handler go to `fault`.
  Without these sequences, the client gets the gateway's error: in JSON, or as a SOAP fault if the request was SOAP.
- The `key` of `sequence`, `xslt`, `schema` and `format`, the `schema` of `jsontransform`, and `receive` of `send` may
  be an expression in braces.
- A local entry or registry resource that contains a `sequence`, an `endpoint` or a `template` can be referred to by its
  key. `get-property('NAME')`, with a literal name, returns the local entry `NAME` if there is no such property.

## Endpoints

| endpoint | notes |
|---|---|
| `address`, `http`, `wsdl`, `default` | `http` supports `basicAuth` and `oauth` |
| `loadbalance` | round robin, counted by each worker on its own; with `algorithm=\"WeightedRoundRobin\"`, members have weights (`<property name=\"loadbalance.weight\" value=\"2\"/>`). A `member` gets requests at its `httpPort` or `httpsPort`, whichever matches the scheme of the client's request, with the whole path of the message |
| `failover` | |
| `recipientlist` | sends to all members at once. Each response continues on its own, and an `aggregate` can join them. In a sequence of `scatter-gather` or `foreach`, a `call` continues with the first response only |
| `template=\"...\"`, `key=\"...\"`, `key-expression=\"...\"` | an endpoint of a template; another endpoint, also by a computed name |

- Groups can contain groups.
- `timeout` (its `duration` may be an expression in braces), `suspendOnFailure`, `markForSuspension` and `retryConfig`
  are supported. The obsolete `suspendDurationOnFailure` (in seconds) causes a warning.
- After an error that a member lists in `enabledErrorCodes`, a group sends any request to the next member; after other
  errors, only requests that are safe to repeat. A `failover` whose members have no `retryConfig` causes a warning.
- An endpoint without `suspendOnFailure` and `markForSuspension` is never suspended. Synapse suspends it for 30 s after
  its first failure, so one client could make it unavailable to all others
  ([0012](decisions/0012-outliers-are-suspended.md)).
- Properties of an endpoint are set on the messages that are sent there; members of groups cannot have any. Expressions
  of an endpoint cannot read the body.
- With `enableAddressing`, SOAP messages get the WS-Addressing header blocks `To`, `MessageID` and `Action`, which
  replace existing ones; `ReplyTo`, `From`, `FaultTo` and `RelatesTo` are added if the mediator `header` set them, and
  version `submission` adds an anonymous `ReplyTo`. Other messages are sent unchanged. `separateListener` has no effect
  and causes a warning: the response arrives on the connection of the request.

## Messages

- XPath, JSONPath and Synapse expressions can all read both JSON and XML bodies. A body that no mediator edits is sent
  byte for byte.
- `send` and `call` without an endpoint, and the endpoint `default`, send to the address that the mediator `header` set
  as `To`, else to the `To` of the message's WS-Addressing header, which the client chooses: set `To`, or name an
  endpoint, if that is not intended. A streaming body is held to find it. Addresses in the namespace of WS-Addressing,
  such as the anonymous one, do not count.
- A `GET` is sent without body and `Content-Type`. With `format=\"get\"` of the endpoint, or the `messageType`
  `application/x-www-form-urlencoded`, the children of the payload become the query.
- A response that is sent to another service loses its `Server` and `Date` fields.
- A SOAP fault that is sent in the other version of SOAP is converted. The second part of a dotted code, `Subcode`, and
  all but the first `Text` are lost.
- A part of `iterate` or `clone` that made a `call` continues after the mediator, where an `aggregate` may wait for it;
  other parts end with their target.
- A request and all messages derived from it share one budget of steps and bytes. At most 10,000 of them exist at once,
  and at most 64 are being sent. An endless loop of calls or a million items therefore end in a fault. Error
  handlers of a request that has used up its budget get 256 KiB and 20,000 steps more, once, so that they can respond.
- Mediation that continues after the response counts as a request in progress until it ends.

## Mediators

| element | support | what it does | attributes and children | differences, or what to use instead |
|---|---|---|---|---|
";

/// The page docs/synapse.md.
#[must_use]
pub fn synapse_page() -> String {
    let mut page = PAGE.to_owned();
    for Row { element, about, attributes, differs, .. } in MEDIATORS {
        let state = if differs.is_empty() { "full" } else { "with differences" };
        page.push_str(&format!("| `{element}` | {state} | {about} | {attributes} | {differs} |\n"));
    }
    for (element, instead) in UNSERVED {
        page.push_str(&format!("| `{element}` | not supported | | | {instead} |\n"));
    }
    page.push_str(&crate::message::known::page());
    page
}
