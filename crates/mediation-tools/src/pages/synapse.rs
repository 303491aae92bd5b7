//! docs/synapse.md.

use mediation::{Effect, KNOWN, Known, MEDIATORS, PropertyScope, Row, UNSERVED};

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
    page.push_str(&properties());
    page
}

/// The section about properties.
fn properties() -> String {
    let mut page = String::from(
        "\n## Properties\n\n\
         Properties that have a meaning in Synapse; artefacts can use any other name freely. A property of the scope axis2\n\
         that is not set is looked up in axis2-client. Properties with a warning can be set and read, but have no effect: an\n\
         artefact that relies on one has to be changed as described.\n\n\
         | property | scope | effect |\n|---|---|---|\n",
    );
    for Known { scope, name, effect } in KNOWN {
        let scope = if *scope == PropertyScope::Axis2 { "axis2" } else { "default" };
        let effect = match effect {
            Effect::Served(about) => (*about).to_owned(),
            Effect::Needless(reason) => format!("Not needed: {reason}"),
            Effect::Unserved(help) => format!("No effect, with a warning: {help}."),
        };
        page.push_str(&format!("| `{name}` | {scope} | {effect} |\n"));
    }
    page
}
