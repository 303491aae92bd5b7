//! The gateway's responses to faults, with WSO2's codes and texts.
//!
//! Source: the `_auth_failure_handler_`, `_resource_mismatch_handler_` and `fault` sequences of WSO2 API
//! Manager, which produce JSON with string values.

use mediation::Format;
use model::{Blame, Denial, Fault, FaultStatus, MethodSet};

use super::response::{Body, Response};
use crate::account::Challenge;
use crate::body::Held;
use crate::message::Request;
use wire::http1::Known;

/// The response to a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultResponse {
    pub(crate) status: u16,
    /// WSO2's code, for the record.
    pub(crate) code: u32,
    /// Additional field lines, each with its CRLF.
    lines: Vec<u8>,
    /// JSON.
    body: Vec<u8>,
}

impl FaultResponse {
    /// Adds when the quota is available again to the description, and as `nextAccessTime`.
    pub(crate) fn next_access(&mut self, time: &str) {
        const END: &[u8] = b"\"}";
        if self.body.ends_with(END) {
            self.body.truncate(self.body.len() - END.len());
            let more = format!("You can access API after {time}\",\"nextAccessTime\":\"{time}\"}}");
            self.body.extend_from_slice(more.as_bytes());
        }
    }

    /// Turns `response`, which is empty, into this one: a SOAP fault if `format` is one of SOAP, else JSON.
    pub(crate) fn write(self, response: &mut Response, format: Format) {
        let edits = &mut response.head.edits;
        edits.set_status(self.status);
        edits.lines_mut().extend_from_slice(&self.lines);
        let (format, body) = match mediation::soap_fault(format, self.status < 500, &self.body) {
            Some(fault) => (format, fault),
            None => (Format::Json, self.body),
        };
        edits.append(b"Content-Type", format.content_type().as_bytes());
        response.body = Body::Held(Held::new(body.into()));
    }
}

/// The format of a request's body, by its `Content-Type`.
pub(super) fn format(request: &Request) -> Format {
    let content_type = request.head.find(Known::ContentType);
    let content_type = content_type.map(|field| field.value.of(&request.bytes));
    content_type.map_or(Format::Json, |value| Format::of(&String::from_utf8_lossy(value)))
}

/// The response to `fault`. `allow`: the methods of the path, for 405; `challenge`: for 401.
pub(crate) fn response(
    fault: &Fault,
    (allow, challenge): (MethodSet, Challenge),
    statuses: FaultStatus,
) -> FaultResponse {
    match fault {
        Fault::Denied(denial) => denial_response(*denial, allow, challenge),
        Fault::Malformed { status, reason } => malformed(*status, reason),
        Fault::ClientTimeout => malformed(408, "The request did not arrive in time"),
        // Never sent.
        Fault::ClientLeft => malformed(400, "The client closed the connection"),
        Fault::Mediation { code: 400, reason } => {
            let description =
                escaped(&format!("Schema validation failed in the Request: {reason}"));
            json(400, 400, None, "Bad Request", &description)
        }
        // The reason is for the log: it may quote the response.
        Fault::Mediation { code: 500, .. } => {
            let status = if statuses == FaultStatus::Http { 502 } else { 500 };
            let description = "Schema validation failed in the Response:";
            json(status, 500, None, "Internal Server Error", description)
        }
        Fault::MalformedBody { blame: Blame::Upstream, .. } => {
            let description = "The response of the back end is not what its content type says";
            let status = if statuses == FaultStatus::Http { 502 } else { 500 };
            report(status, fault.code(), "Runtime Error", description)
        }
        Fault::MalformedBody { blame: Blame::Gateway, .. } => {
            report(500, fault.code(), "Runtime Error", description(0))
        }
        Fault::Unreachable { .. }
        | Fault::ConnectTimeout { .. }
        | Fault::ResponseTimeout { .. }
        | Fault::Closed { .. }
        | Fault::Truncated { .. }
        | Fault::SendFailed { .. }
        | Fault::ProtocolViolation { .. }
        | Fault::Mediation { .. }
        | Fault::MalformedBody { blame: Blame::Client, .. }
        | Fault::NotReady { .. }
        | Fault::EndpointBusy { .. }
        | Fault::NoReadyChild { .. } => runtime(fault.code(), statuses),
    }
}

/// WSO2's codes of faults that are no denials: description, and status if `fault_status = "http"`.
#[rustfmt::skip]
const RUNTIME: &[(u32, &str, u16)] = &[
    (101_500, "Error sending the request to the back end",     502),
    (101_503, "Error connecting to the back end",              502),
    (101_504, "Connection timed out to the back end",          504),
    (101_505, "Connection closed by the back end",             502),
    (101_506, "Protocol violation by the back end",            502),
    (101_508, "Connection to the back end timed out",          504),
    (103_500, "The interceptor service failed",                502),
    (103_501, "The interceptor service returned an invalid response", 502),
    (303_000, "No endpoint of the set is ready",               503),
    (303_001, "The endpoint is suspended, or busy",            503),
    (303_002, "The endpoint is suspended",                     503),
    (303_003, "The gateway cannot authenticate at the back end", 502),
    (305_100, "The endpoint does not exist",                   500),
    (401_001, "The blocking call failed",                      502),
    (401_003, "The message has no valid address",              500),
    (500_000, "The back end returned a SOAP fault",            502),
    (502_002, "A policy rejects the response of the back end", 502),
    (601_000, "The body is not what its content type says",    400),
];

/// The error of a challenge for DPoP. Source: RFC 9449 section 7.1.
fn dpop_error(denial: Denial) -> Option<&'static str> {
    const ERRORS: [(Denial, &str); 3] = [
        (Denial::InvalidBoundToken, "invalid_token"),
        (Denial::InvalidProof, "invalid_dpop_proof"),
        (Denial::ProofNonce, "use_dpop_nonce"),
    ];
    ERRORS.iter().find(|(of, _)| *of == denial).map(|(_, error)| *error)
}

fn denial_response(denial: Denial, allow: MethodSet, challenge: Challenge) -> FaultResponse {
    let row = denial.row();
    let mut fault = json(row.status, row.code, row.kind, row.message, row.description);
    let lines = &mut fault.lines;
    if matches!(denial, Denial::MissingLogin | Denial::WrongPassword) {
        lines.extend_from_slice(b"WWW-Authenticate: Basic realm=\"WSO2 API Manager\"\r\n");
    } else if let Some(error) = dpop_error(denial) {
        let algorithms = jose::Algorithm::ALL.into_iter().filter(|one| !one.is_symmetric());
        let algorithms: Vec<_> = algorithms.map(jose::Algorithm::as_str).collect();
        let algorithms = algorithms.join(" ");
        let challenge = format!(
            "WWW-Authenticate: DPoP realm=\"WSO2 API Manager\", error=\"{error}\", algs=\"{algorithms}\"\r\n"
        );
        lines.extend_from_slice(challenge.as_bytes());
    } else if row.status == 401 {
        // The schemes are WSO2's, and so is the one line.
        lines.extend_from_slice(b"WWW-Authenticate: ");
        if challenge != Challenge::ApiKey {
            lines.extend_from_slice(b"OAuth2 realm=\"WSO2 API Manager\"");
            if denial != Denial::MissingCredentials {
                lines.extend_from_slice(b", error=\"invalid_token\"");
            }
        }
        if challenge == Challenge::Both {
            lines.extend_from_slice(b", ");
        }
        if challenge != Challenge::Token {
            lines.extend_from_slice(b"API Key realm=\"WSO2 API Manager\"");
        }
        lines.extend_from_slice(b"\r\n");
    }
    if denial == Denial::ScopeMissing {
        lines.extend_from_slice(
            b"WWW-Authenticate: OAuth2 realm=\"WSO2 API Manager\", error=\"insufficient_scope\"\r\n",
        );
    }
    if denial == Denial::MethodNotAllowed {
        lines.extend_from_slice(b"Allow: ");
        for (position, method) in allow.iter().enumerate() {
            if position > 0 {
                lines.extend_from_slice(b", ");
            }
            lines.extend_from_slice(method.as_str().as_bytes());
        }
        lines.extend_from_slice(b"\r\n");
    }
    fault
}

fn malformed(status: u16, description: &str) -> FaultResponse {
    let message = wire::http1::write::reason(status);
    report(status, u32::from(status), message, description)
}

/// The description, for clients, of a fault other than a denial.
pub(crate) fn description(code: u32) -> &'static str {
    let known = RUNTIME.iter().find(|(known, ..)| *known == code);
    known.map_or("The message could not be processed", |(_, description, _)| description)
}

/// In WSO2 every upstream fault has status 500; `fault_status = "http"` distinguishes them.
fn runtime(code: u32, statuses: FaultStatus) -> FaultResponse {
    let http = match RUNTIME.iter().find(|(known, ..)| *known == code) {
        Some((.., http)) => *http,
        None => match code {
            303_000..=303_999 | 503_000..=503_999 => 503,
            101_000..=101_999 | 502_000..=502_999 => 502,
            _ => 500,
        },
    };
    let status = match statuses {
        FaultStatus::Wso2 => 500,
        FaultStatus::Http => http,
    };
    report(status, code, "Runtime Error", description(code))
}

fn report(status: u16, code: u32, message: &str, description: &str) -> FaultResponse {
    json(status, code, Some("Status report"), message, description)
}

/// As the inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut quoted = Vec::with_capacity(text.len());
    expression::json::push_string_body(&mut quoted, text);
    String::from_utf8(quoted).unwrap_or_default()
}

/// All texts are escaped, or constants without characters that JSON escapes (tested).
fn json(
    status: u16,
    code: u32,
    kind: Option<&str>,
    message: &str,
    description: &str,
) -> FaultResponse {
    let member = |name: &str, text: &str| match text {
        "" => String::new(),
        text => format!("\"{name}\":\"{text}\","),
    };
    let (kind, message) = (member("type", kind.unwrap_or_default()), member("message", message));
    let body = format!("{{\"code\":\"{code}\",{kind}{message}\"description\":\"{description}\"}}");
    FaultResponse { status, code, lines: Vec::new(), body: body.into_bytes() }
}

/// The complete response to a connection above `connections_max`.
pub(crate) const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
Content-Type: application/json; charset=UTF-8\r\nContent-Length: 102\r\nConnection: close\r\n\r\n\
{\"code\":\"503\",\"type\":\"Status report\",\"message\":\"Service Unavailable\",\"description\":\"Too many clients\"}";

#[cfg(test)]
mod tests {
    use base::Method;

    use super::*;

    #[track_caller]
    fn check(fault: &Fault, statuses: FaultStatus, status: u16, body: &str) {
        let fault = response(fault, Default::default(), statuses);
        assert_eq!(
            (fault.status, String::from_utf8(fault.body).unwrap()),
            (status, body.to_owned())
        );
    }

    #[test]
    fn a_denial_has_wso2s_code_and_text() {
        check(
            &Fault::Denied(Denial::MissingCredentials),
            FaultStatus::Wso2,
            401,
            "{\"code\":\"900902\",\"message\":\"Missing Credentials\",\"description\":\"Invalid Credentials. Make sure your API invocation call has a header: 'Authorization : Bearer ACCESS_TOKEN'\"}",
        );
    }

    #[test]
    fn the_manual_lists_every_code_of_a_fault() {
        let manual = include_str!("../../../../docs/error-codes.md");
        let cells = manual.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
        let codes: Vec<&str> = cells.flat_map(|cell| cell.split(", ")).map(str::trim).collect();
        for (code, ..) in RUNTIME {
            assert!(codes.contains(&code.to_string().as_str()), "{code}");
        }
    }

    #[test]
    fn an_upstream_fault_is_500_unless_fault_status_is_http() {
        let (authority, cause) = ("b:1".to_owned(), "refused".to_owned());
        let fault = Fault::Unreachable { authority, cause, is_local: false };
        let body = "{\"code\":\"101503\",\"type\":\"Status report\",\"message\":\"Runtime Error\",\"description\":\"Error connecting to the back end\"}";
        check(&fault, FaultStatus::Wso2, 500, body);
        check(&fault, FaultStatus::Http, 502, body);
    }

    #[test]
    fn the_response_to_every_denial_is_json() {
        for row in model::TABLE {
            let fault = denial_response(row.denial, MethodSet::EMPTY, Challenge::Token);
            let text = String::from_utf8(fault.body).unwrap();
            assert_eq!(text.matches('\\').count(), 0, "{text}");
            assert_eq!(text.matches('"').count() % 4, 0, "{text}");
        }
    }

    #[test]
    fn a_401_names_what_the_operation_accepts() {
        for (denial, challenge, expect) in [
            (Denial::MissingCredentials, Challenge::Token, "OAuth2 realm=\"WSO2 API Manager\""),
            (Denial::InvalidCredentials, Challenge::ApiKey, "API Key realm=\"WSO2 API Manager\""),
            (
                Denial::InvalidCredentials,
                Challenge::Both,
                "OAuth2 realm=\"WSO2 API Manager\", error=\"invalid_token\", \
                 API Key realm=\"WSO2 API Manager\"",
            ),
        ] {
            let fault = denial_response(denial, MethodSet::EMPTY, challenge);
            let expect = format!("WWW-Authenticate: {expect}\r\n");
            assert_eq!(String::from_utf8(fault.lines).unwrap(), expect);
        }
    }

    #[test]
    fn a_405_lists_the_methods_of_the_path() {
        let allow = MethodSet::EMPTY.with(Method::Get).with(Method::Put);
        let fault = denial_response(Denial::MethodNotAllowed, allow, Challenge::Token);
        assert_eq!(fault.lines, b"Allow: GET, PUT\r\n");
    }

    #[test]
    fn the_response_to_too_many_connections_is_complete() {
        let mut head = wire::http1::ResponseHead::default();
        head.parse(TOO_MANY_CONNECTIONS, Method::Get).unwrap();
        let body = TOO_MANY_CONNECTIONS.len() - head.len();
        assert_eq!(head.framing(), wire::http1::ResponseFraming::Length(body as u64));
    }
}
