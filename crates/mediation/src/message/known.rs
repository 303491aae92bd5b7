//! The properties that Synapse gives a meaning, and whether they have it here.

use crate::message::PropertyScope;

/// A property that Synapse or its HTTP transport gives a meaning.
#[derive(Debug)]
pub struct Known {
    pub scope: PropertyScope,
    pub name: &'static str,
    pub effect: Effect,
}

/// Whether a property has the same effect as in Synapse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does this.
    Served(&'static str),
    /// It need not be set, for this reason.
    Needless(&'static str),
    /// Setting it is a warning, with this help.
    Unserved(&'static str),
}

use Effect::{Needless, Served, Unserved};
use PropertyScope::{Axis2, Synapse};

/// The behaviour in place of `enableMTOM`, `enableSwA` and `optimize`.
pub(crate) const ATTACHMENTS: &str =
    "attachments are kept; an envelope without any is sent as it is, not as multipart/related";

/// In the manual's order. Source: `SynapseConstants`, `NhttpConstants` and `PassThroughConstants`.
#[rustfmt::skip]
pub const KNOWN: &[Known] = &[
    row(Synapse, "OUT_ONLY", Served("The client gets 202 when the message is sent. The response is dropped. A streaming body is held first.")),
    row(Synapse, "RESPONSE", Served("`send` without an endpoint responds.")),
    row(Synapse, "FORCE_ERROR_ON_SOAP_FAULT", Served("A response with a SOAP fault counts as a failure of its endpoint (code 500000), after which a group tries its next member. The response is held.")),
    row(Synapse, "TRANSPORT_IN_NAME", Served("`http` or `https`, the scheme of the request.")),
    row(Synapse, "proxy.name", Served("The name of the proxy.")),
    row(Synapse, "SYNAPSE_REST_API", Served("The name of the API, followed by `:vVERSION` if it has a version.")),
    row(Synapse, "SYNAPSE_REST_API_VERSION", Served("The version of the API.")),
    row(Synapse, "SYNAPSE_REST_API_VERSION_STRATEGY", Served("`url` or `context`, if the API has a version.")),
    row(Synapse, "REST_API_CONTEXT", Served("The context of the API, without a version of the type `url`.")),
    row(Synapse, "REST_URL_PREFIX", Served("Scheme and host of a request to an API, until another message replaces it.")),
    row(Synapse, "REST_METHOD", Served("The method of the request, while the message is still the request.")),
    row(Synapse, "REST_FULL_REQUEST_PATH", Served("Path and query of the request, while the message is still the request.")),
    row(Synapse, "REST_SUB_REQUEST_PATH", Served("Path and query below the path of the service.")),
    row(Synapse, "rest.url.pattern", Served("The `uri-template` or `url-mapping` of the resource.")),
    row(Synapse, "preserveProcessedHeaders", Needless("only the mediator `header`, and an endpoint with `enableAddressing`, remove header blocks.")),
    row(Synapse, "PRESERVE_WS_ADDRESSING", Served("An endpoint with `enableAddressing` keeps the blocks of WS-Addressing that the message has.")),
    row(Synapse, "disableAddressingForOutMessages", Needless("only an endpoint with `enableAddressing` adds header blocks.")),
    row(Axis2, "disableAddressingForOutMessages", Needless("only an endpoint with `enableAddressing` adds header blocks.")),
    row(Synapse, "RETRY_ON_SOAPFAULT", Unserved("it applies to message processors; for `send` and `call`, set FORCE_ERROR_ON_SOAP_FAULT, and send again in the fault sequence")),
    row(Synapse, "target.endpoint", Unserved("it applies to message processors; name the endpoint in `send` or `call`, with `key-expression` if it is computed")),
    row(Synapse, "RECEIVING_SEQUENCE", Served("The sequence for responses to `send` without `receive`, until one arrives. `call` removes it.")),
    row(Axis2, "messageType", Served("The format in which the body is written, and its media type in `Content-Type`: of one that is not known, such as `text/csv` or `application/vnd.api+json`, the format is that of text, JSON or XML. Read: the media type of the message, unless it was set.")),
    row(Axis2, "ContentType", Served("The `Content-Type` that is sent, and the format of the body unless `messageType` is set. Until it is set, the `Content-Type` of the message.")),
    row(Axis2, "NO_ENTITY_BODY", Served("The message is sent without a body. Until it is set, `true` for a message without one, such as a `GET`.")),
    row(Axis2, "HTTP_SC", Served("The status of the response. Without it, a response has that of its upstream, a fault that mediation made has 500, and any other has 200.")),
    row(Axis2, "non.error.http.status.codes", Served("Comma-separated statuses that are not failures of a `callout`, or of a `call` with `blocking`.")),
    row(Synapse, "BLOCKING_SENDER_PRESERVE_REQ_HEADERS", Needless("a response always replaces the header fields of the message. Save those that you need after a `call` with `blocking` in properties.")),
    row(Axis2, "HTTP_METHOD", Served("The method of the request, unless the endpoint has one.")),
    row(Axis2, "REST_URL_POSTFIX", Served("Path and query, appended to the address of an `address`, `wsdl` or `default` endpoint. Not for SOAP: an endpoint with `format=\"soap11\"` or `soap12`, or a `POST` with an action.")),
    row(Axis2, "REQUEST_HOST_HEADER", Served("The field `Host` of the request, instead of the endpoint's host.")),
    row(Axis2, "FORCE_SC_ACCEPTED", Served("The client gets 202 when the message is sent. Mediation continues. A streaming body is held first.")),
    row(Axis2, "DISABLE_CHUNKING", Served("A body of unknown length is held, and sent with `Content-Length`.")),
    row(Axis2, "FORCE_HTTP_CONTENT_LENGTH", Served("As `DISABLE_CHUNKING`.")),
    row(Axis2, "COPY_CONTENT_LENGTH_FROM_INCOMING", Needless("an unchanged body keeps its `Content-Length`.")),
    row(Axis2, "TRANSPORT_HEADERS", Served("With `action=\"remove\"`: removes all header fields except `Content-Type`.")),
    row(Axis2, "ClientApiNonBlocking", Needless("sending never blocks.")),
    row(Axis2, "HTTP_SC_DESC", Served("The reason phrase of the response, over HTTP/1.1.")),
    row(Axis2, "POST_TO_URI", Served("The request line has the whole URL, as forward proxies require.")),
    row(Axis2, "NO_KEEPALIVE", Served("The request is sent with `Connection: close`.")),
    row(Axis2, "FORCE_HTTP_1.0", Served("The request is sent as HTTP/1.0, on a connection that is not reused. A body of unknown length is held.")),
    row(Axis2, "NO_DEFAULT_CONTENT_TYPE", Unserved("remove the transport property `Content-Type`")),
    row(Axis2, "FORCE_POST_PUT_NOBODY", Served("A `POST` or `PUT` is sent without a body.")),
    row(Axis2, "CHARACTER_SET_ENCODING", Served("The charset of bodies that a mediator read or created. Without it, new bodies are UTF-8.")),
    row(Axis2, "setCharacterEncoding", Served("With `false`, the `Content-Type` of a body that a mediator read or created has no charset, and `CHARACTER_SET_ENCODING` has no effect.")),
    row(Axis2, "FAULTS_AS_HTTP_200", Served("A fault that mediation made, and a SOAP fault of an upstream with the status 500, is returned to the client with 200. The latter is held. Set it on the response.")),
    row(Axis2, "DECODE_MULTIPART_DATA", Needless("files in a multipart body are always written as they are, not in base64.")),
    row(Axis2, "HTTP_ETAG", Unserved("set the transport property `ETag`")),
    row(Axis2, "enableMTOM", Unserved(ATTACHMENTS)),
    row(Axis2, "enableSwA", Unserved(ATTACHMENTS)),
    row(Axis2, "SET_ROLLBACK_ONLY", Needless("it applies to transactional transports such as JMS.")),
];

const fn row(scope: PropertyScope, name: &'static str, effect: Effect) -> Known {
    Known { scope, name, effect }
}
