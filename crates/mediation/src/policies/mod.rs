//! Policies of the API gateway: WSO2's operation policies, each a mediator of a sequence.
//!
//! [`POLICIES`] is the table: names and parameters are those of API Manager's policy definitions where it has the
//! policy. [`ApiPolicies`] holds the sequences of one API.

mod change;
mod check;
mod convert;
mod interceptor;
mod program;
mod reading;
mod respond;
#[cfg(feature = "validate")]
mod schema;

use model::PolicyFlow;

use crate::program::{Mediator, uri_template};

pub use program::{ApiPolicies, OperationFlow, check};
pub use reading::{PolicyProblem, PolicyReading};
pub use respond::response_cache_s;

/// The property with the claims of the verified token, a JSON object.
pub const CLAIMS: &str = "jwt_claims";

/// The property with the host's description of the request to an operation, a JSON object: Choreo Connect's
/// `invocationContext`.
pub const INVOCATION: &str = "invocationContext";

pub const SCHEMA_VALIDATION: &str = "schemaValidation";

/// The policy that is not a step: the reader of a description takes it out, and hands [`response_cache_s`] to the host.
pub const RESPONSE_CACHE: &str = "responseCache";

/// The parameter of [`SCHEMA_VALIDATION`] that no file writes: the description of the operation, with the targets of
/// its `$ref`s, as JSON: `{version, item, operation, refs: [[pointer, value], ...]}`.
pub const CONTRACT: &str = "contract";

/// Kind of the members of a map in a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Keywords of OpenAPI or of JSON Schema.
    Keywords,
    /// Names that the author chose.
    Names,
}

impl Members {
    /// Kind of the members of this map's member `key`; `None`: it is a value such as an example, without schemas.
    #[must_use]
    pub fn below(self, key: &str) -> Option<Self> {
        const VALUES: [&str; 5] = ["example", "examples", "enum", "default", "const"];
        const NAMED: [&str; 11] = [
            "$defs",
            "callbacks",
            "content",
            "definitions",
            "dependencies",
            "dependentSchemas",
            "encoding",
            "headers",
            "patternProperties",
            "properties",
            "responses",
        ];
        match self {
            Self::Keywords if VALUES.contains(&key) => None,
            Self::Keywords if NAMED.contains(&key) => Some(Self::Names),
            Self::Keywords | Self::Names => Some(Self::Keywords),
        }
    }
}

#[cfg(not(feature = "validate"))]
mod schema {
    use crate::policies::{PolicyReading, SCHEMA_VALIDATION};
    use crate::program::Mediator;

    pub(super) fn compile(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
        let message = format!("this build of Penstock does not include `{SCHEMA_VALIDATION}`");
        reading.reject("name", message, "build it with all cargo features, as `make release` does")
    }
}

/// A policy and its constructor.
#[derive(Debug)]
pub struct PolicyRow {
    pub name: &'static str,
    /// Where it may be listed.
    pub flows: &'static [PolicyFlow],
    /// Description, after "it".
    pub about: &'static str,
    pub parameters: &'static [PolicyParameter],
    /// Parameters as files write them.
    pub example: &'static str,
    /// Compiles it. `None` if a problem was reported.
    pub compile: fn(&mut PolicyReading<'_>) -> Option<Box<dyn Mediator>>,
}

/// A parameter of a policy.
#[derive(Debug)]
pub struct PolicyParameter {
    pub name: &'static str,
    /// Description, and the default.
    pub about: &'static str,
    pub required: bool,
}

const fn required(name: &'static str, about: &'static str) -> PolicyParameter {
    PolicyParameter { name, about, required: true }
}

const fn optional(name: &'static str, about: &'static str) -> PolicyParameter {
    PolicyParameter { name, about, required: false }
}

const REQUEST: &[PolicyFlow] = &[PolicyFlow::Request];
const RESPONSE: &[PolicyFlow] = &[PolicyFlow::Response];
const BOTH: &[PolicyFlow] = &[PolicyFlow::Request, PolicyFlow::Response];
const ALL: &[PolicyFlow] = &PolicyFlow::ALL;

/// Every policy, in the order of the alphabet. docs/policies.md and its examples are generated from it.
#[rustfmt::skip]
pub const POLICIES: &[PolicyRow] = &[
    PolicyRow { name: "addHeader", flows: ALL, compile: change::add_header,
        about: "sets a header field; existing fields of that name are replaced",
        parameters: &[required("headerName", "the field's name"), required("headerValue", "its value, a template")],
        example: "headerName: X-Tenant, headerValue: blue" },
    PolicyRow { name: "addLogMessage", flows: ALL, compile: change::log,
        about: "writes a line to the process log",
        parameters: &[required("logMessage", "the line, a template")],
        example: "logMessage: '${props.synapse.API_NAME} was asked for ${props.synapse[\"api.ut.resource\"]}'" },
    PolicyRow { name: "addQueryParam", flows: REQUEST, compile: change::add_query_param,
        about: "adds a query parameter; name and value are escaped",
        parameters: &[required("paramKey", "its name"), required("paramValue", "its value, a template")],
        example: "paramKey: from, paramValue: gateway" },
    PolicyRow { name: interceptor::NAME, flows: BOTH, compile: interceptor::compile,
        about: "lets a service with Choreo Connect's contract change header fields, body, status and endpoint, or respond at once; if the service fails, the exchange fails",
        parameters: &[required("interceptorServiceURL", "scheme, host and port of the service; `/api/v1/handle-request` or `/api/v1/handle-response` is appended"), optional("includes", "what the service gets and may replace, separated by commas: `request_headers`, `request_body`, `response_headers`, `response_body`, `invocation_context`; bodies that are not listed are not held"), optional("requestTimeout", "longest wait for the service's response, in seconds; absent: 20")],
        example: "interceptorServiceURL: 'http://127.0.0.1:8688', includes: 'request_headers,invocation_context'" },
    PolicyRow { name: "changeHTTPMethod", flows: REQUEST, compile: change::method,
        about: "changes the method of the request to the upstream",
        parameters: &[required("updatedMethod", "the new method"), optional("currentMethod", "only requests with this method are changed; absent: all")],
        example: "updatedMethod: PUT" },
    PolicyRow { name: "jsonToXML", flows: BOTH, compile: convert::json_to_xml,
        about: "converts a JSON body to XML by Synapse's mapping; other bodies are not changed",
        parameters: &[],
        example: "" },
    PolicyRow { name: "jsonValidator", flows: BOTH, compile: check::json,
        about: "rejects bodies that are, or look like, JSON and exceed a limit or are malformed",
        parameters: &[optional("maxJsonDepth", "nesting of objects and arrays; absent: 100"), optional("maxPropertyCount", "properties of one object; absent: 100"), optional("maxStringLength", "bytes of a string; absent: 100"), optional("maxArrayElementCount", "elements of one array; absent: 100"), optional("maxKeyLength", "bytes of a property's name; absent: 100")],
        example: "maxJsonDepth: 10, maxStringLength: 1000" },
    PolicyRow { name: "jwtClaimBasedAccessValidator", flows: REQUEST, compile: check::claim,
        about: "rejects tokens that lack a claim, or have another value for it",
        parameters: &[required("accessVerificationClaim", "the claim"), required("accessVerificationClaimValue", "the value that it must have, or one of its values if it is an array"), optional("accessVerificationClaimValueRegex", "a pattern, instead of the comparison: both the claim and `accessVerificationClaimValue` must match it as a whole"), optional("shouldAllowValidation", "`true`: a claim with another value is accepted, an absent one is not; absent: `false`")],
        example: "accessVerificationClaim: sub, accessVerificationClaimValue: sample-user" },
    PolicyRow { name: "mock", flows: REQUEST, compile: respond::mock,
        about: "responds instead of the upstream; the policies for responses follow",
        parameters: &[optional("statusCode", "absent: 200"), optional("contentType", "absent: `application/json`"), optional("body", "the body, a template; absent: none")],
        example: "statusCode: 201, body: '{\"id\": 7}'" },
    PolicyRow { name: "payloadFactory", flows: ALL, compile: convert::payload,
        about: "replaces the body",
        parameters: &[optional("mediaType", "`json`, `xml` or `text`; absent: `json`"), required("payload", "the new body, a template; in JSON, values are escaped")],
        example: "payload: '{\"made\": true}'" },
    PolicyRow { name: "redirect", flows: REQUEST, compile: respond::redirect,
        about: "redirects the client; no policy follows",
        parameters: &[required("url", "the `Location`, a template"), optional("statusCode", "301, 302, 303, 307 or 308; absent: 302")],
        example: "url: 'https://example.org/new', statusCode: 308" },
    PolicyRow { name: "regexPolicy", flows: REQUEST, compile: check::regex,
        about: "rejects requests in which a pattern is found, before or after decoding, and malformed bodies that are, or look like, JSON or XML",
        parameters: &[required("regex", "the pattern; it may match any part of a text"), optional("threatType", "kind of threat, for the log"), optional("enabledCheckBody", "check the body; absent: `true`"), optional("enabledCheckHeaders", "check the values of header fields; absent: `true`"), optional("enabledCheckPathParams", "check path and query; absent: `true`")],
        example: "threatType: SQL-Injection, regex: '(?i)drop\\s+table'" },
    PolicyRow { name: "removeHeader", flows: ALL, compile: change::remove_header,
        about: "removes all header fields of a name",
        parameters: &[required("headerName", "the fields' name")],
        example: "headerName: X-Internal" },
    PolicyRow { name: "requestMirror", flows: REQUEST, compile: respond::mirror,
        about: "sends a copy of the request elsewhere, and ignores the response",
        parameters: &[required("url", "an absolute URL; the request's path below the base path and its query are appended")],
        example: "url: 'http://127.0.0.1:8688/mirror'" },
    PolicyRow { name: RESPONSE_CACHE, flows: RESPONSE, compile: respond::cache,
        about: "caches responses to GET as RFC 9111 specifies, like `x-wso2-response-cache` for one operation; cannot be combined with other policies for requests or responses",
        parameters: &[optional(respond::CACHE_TIMEOUT, "lifetime of responses that specify none; absent: 300")],
        example: "cacheTimeoutInSeconds: 60" },
    PolicyRow { name: "rewriteResourcePath", flows: REQUEST, compile: change::path,
        about: "changes the path below the endpoint's",
        parameters: &[required("newResourcePath", "the new path; `{name}` is a parameter of the operation's path, `{query.param.name}` one of the query, both escaped"), optional("includeQueryParams", "whether the query is kept; absent: `true`")],
        example: "newResourcePath: /other" },
    PolicyRow { name: SCHEMA_VALIDATION, flows: BOTH, compile: schema::compile,
        about: "rejects requests (400) and responses (500) that do not match the description of the operation",
        parameters: &[],
        example: "" },
    PolicyRow { name: "setToHeader", flows: REQUEST, compile: change::endpoint,
        about: "sends the request to another endpoint, with the path below the base path and the query",
        parameters: &[required("to", "an absolute URL, a template")],
        example: "to: 'http://127.0.0.1:8688/other'" },
    PolicyRow { name: "xmlToJson", flows: BOTH, compile: convert::xml_to_json,
        about: "converts an XML or SOAP body to JSON by Synapse's mapping; other bodies are not changed",
        parameters: &[],
        example: "" },
    PolicyRow { name: "xmlValidator", flows: BOTH, compile: check::xml,
        about: "rejects bodies that are, or look like, XML and exceed a limit or are malformed",
        parameters: &[optional("dtdEnabled", "accept a document type, whose external entities are never fetched; absent: `false`"), optional("maxXMLDepth", "nesting of elements; absent: 100"), optional("maxElementCount", "elements of the document; absent: 100"), optional("maxAttributeCount", "attributes of one element; absent: 100"), optional("maxAttributeLength", "bytes of an attribute's value; absent: 100"), optional("maxChildrenPerElement", "child elements of one element; absent: 100")],
        example: "maxXMLDepth: 10, maxElementCount: 1000" },
];

/// The parameters of a path that matches the template of an operation.
#[must_use]
pub fn path_variables<'t, 'p>(template: &'t str, path: &'p str) -> Vec<(&'t str, &'p str)> {
    uri_template::matches(template, path).unwrap_or_default()
}

/// The row of a policy.
#[must_use]
pub fn policy(name: &str) -> Option<&'static PolicyRow> {
    POLICIES.iter().find(|row| row.name == name)
}
