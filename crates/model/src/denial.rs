//! The denials of the stages, and the response to each.

/// Why a request is denied before it reaches an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// No API at this host and path.
    NoApi,
    /// The API has no template that matches the path.
    NoResource,
    /// Templates match, with other methods; `Allow` lists them.
    MethodNotAllowed,
    /// A resource has the path and the method, and expects another content type, user agent or protocol.
    NotAdmitted,
    /// The API has strict paths, and this one has more than one interpretation.
    AmbiguousPath,
    /// The API is not served on this listener.
    UnsupportedTransport,
    /// The API requires a client certificate, and the connection has none.
    NoCertificate,
    MissingCredentials,
    InvalidCredentials,
    ExpiredToken,
    /// The user has to sign in; the response says where.
    SignInRequired,
    /// What came back from the provider of a login belongs to no sign-in of this browser, or the provider refused.
    SignInFailed,
    /// A request with a session that another site may have caused.
    CrossSite,
    /// A token that is invalid, or was presented without a DPoP proof, where one is expected.
    InvalidBoundToken,
    /// The DPoP proof is not valid for the request.
    InvalidProof,
    /// The DPoP proof has to have a nonce, which the response has.
    ProofNonce,
    /// The operation requires a password, and the request has none.
    MissingLogin,
    WrongPassword,
    /// The audience is not one of the issuer's `audiences`.
    WrongAudience,
    /// The issuer of an opaque token cannot be asked now.
    IssuerUnavailable,
    /// The API key may not be used from here.
    NotPermitted,
    /// The operation is for tokens of applications, or of users.
    WrongTokenType,
    /// The token lacks the scopes that the operation requires.
    ScopeMissing,
    /// The caller's application is not subscribed to the API.
    Unsubscribed,
    /// The subscription is blocked, for all keys or for production keys.
    SubscriptionBlocked,
    /// The subscription was not approved.
    SubscriptionInactive,
    /// The quota of the API is used up.
    ApiQuota,
    /// The quota of the operation is used up.
    OperationQuota,
    /// The quota of the application is used up.
    ApplicationQuota,
    /// The quota of the subscription is used up.
    SubscriptionQuota,
    /// Too many requests of the subscription at once.
    SubscriptionBurst,
    /// Too many requests of the application at once.
    ApplicationBurst,
    /// The quota of a custom rule is used up.
    CustomQuota,
    /// The endpoints of the API get no more requests at the moment, whoever sends them.
    BackendQuota,
    /// A sandbox key, and no sandbox endpoint.
    NoSandboxEndpoint,
    /// A production key, and no production endpoint.
    NoProductionEndpoint,
    /// The API is blocked (`x-penstock-lifecycle`).
    ApiBlocked,
    /// A deny policy names the API, the application, the user or the address.
    Blocked,
    /// The API's file never loaded, although its base path could be read.
    ApiUnloaded,
    /// The client has too many requests in progress.
    ClientBusy,
    /// The API or the worker has too many requests in progress.
    Overloaded,
    /// The body has to be held in memory, and is larger than `held_body_bytes_max`.
    BodyTooLarge,
    /// The bodies that are held in memory use up `held_bytes_max`.
    HeldBytesUsed,
    /// The response has to be held in memory, and is larger than `held_body_bytes_max`.
    ResponseTooLarge,
    /// Too much work waits for the threads for heavy work.
    HeavyWorkQueued,
    /// A policy found a pattern of an attack in a header field.
    ThreatInHeaders,
    /// The same in path or query.
    ThreatInTarget,
    /// The same in the body, or the body exceeds the limits of a policy.
    ThreatInPayload,
    /// The token lacks the claim that a policy requires.
    ClaimMissing,
    /// The claim has another value.
    ClaimMismatch,
}

/// The response to one denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenialRow {
    pub denial: Denial,
    pub status: u16,
    pub code: u32,
    /// Empty: the body has none.
    pub message: &'static str,
    pub description: &'static str,
    /// WSO2's `type`, in the body.
    pub kind: Option<&'static str>,
}

const fn auth(
    denial: Denial,
    status: u16,
    code: u32,
    message: &'static str,
    description: &'static str,
) -> DenialRow {
    DenialRow { denial, status, code, message, description, kind: None }
}

const fn report(
    denial: Denial,
    status: u16,
    code: u32,
    message: &'static str,
    description: &'static str,
) -> DenialRow {
    DenialRow { denial, status, code, message, description, kind: Some("Status report") }
}

/// WSO2's `_throttle_out_handler_`. When the quota is available again follows the description.
const fn quota(denial: Denial, code: u32) -> DenialRow {
    auth(denial, 429, code, "Message throttled out", "You have exceeded your quota .")
}

/// WSO2's `_threat_fault_`.
const fn threat(denial: Denial, description: &'static str) -> DenialRow {
    auth(denial, 400, 400, "Bad Request", description)
}

/// Codes: WSO2 `APISecurityConstants` and the `_resource_mismatch_handler_` family, so that clients
/// written for it keep working; 502001, and 503001 and above, are Penstock's own. Statuses: RFC 9110 section 15.5. No description contains the path or the
/// token.
#[rustfmt::skip]
pub const TABLE: &[DenialRow] = &[
    report(Denial::NoApi,                404, 404,     "Not Found", "The requested resource is not available."),
    report(Denial::NoResource,           404, 404,     "Not Found", "No matching resource found for given API Request"),
    report(Denial::MethodNotAllowed,     405, 405,     "Method not allowed", "Method not allowed for given API resource"),
    report(Denial::NotAdmitted,          400, 400,     "Bad Request", "The resource does not accept this content type, user agent or protocol"),
    report(Denial::AmbiguousPath,        400, 400,     "Bad Request", "The path has more than one interpretation"),
    report(Denial::UnsupportedTransport, 403, 403,     "Forbidden", "Unsupported Transport"),
    auth(Denial::NoCertificate,          401, 900_911, "Mutual SSL Validation Failed", "Invalid Credentials. The API requires a client certificate"),
    auth(Denial::MissingCredentials,     401, 900_902, "Missing Credentials", "Invalid Credentials. Make sure your API invocation call has a header: 'Authorization : Bearer ACCESS_TOKEN'"),
    auth(Denial::InvalidCredentials,     401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::ExpiredToken,           401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::SignInRequired,         303, 900_902, "Missing Credentials", "Sign in to use this API"),
    report(Denial::SignInFailed,         403, 403,     "Forbidden", "The sign-in failed or took too long. Please try again."),
    report(Denial::CrossSite,            403, 403,     "Forbidden", "A request with a session must come from a page of the same origin"),
    auth(Denial::InvalidBoundToken,      401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::InvalidProof,           401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::ProofNonce,             401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::MissingLogin,           401, 900_913, "Missing Credentials", "Invalid Credentials. Make sure your API invocation call has a header: 'Authorization : Basic CREDENTIALS'"),
    auth(Denial::WrongPassword,          401, 900_914, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::WrongAudience,          403, 900_914, "Invalid Credentials", "The access token is not meant for this API"),
    report(Denial::IssuerUnavailable,    503, 503_003, "Service Unavailable", "The credentials cannot be checked at the moment. Please try again later."),
    auth(Denial::NotPermitted,           403, 900_908, "Resource forbidden", "User is NOT authorized to access the Resource. Access forbidden for the invocations"),
    auth(Denial::WrongTokenType,         401, 900_905, "Incorrect Access Token Type is provided", "Incorrect Access Token Type is provided"),
    auth(Denial::ScopeMissing,           403, 900_910, "The access token does not allow you to access the requested resource", "User is NOT authorized to access the Resource. Scope validation failed."),
    auth(Denial::Unsubscribed,           403, 900_908, "Resource forbidden", "User is NOT authorized to access the Resource. API Subscription validation failed."),
    auth(Denial::SubscriptionBlocked,    401, 900_907, "The requested API is temporarily blocked", "The subscription to the API is blocked"),
    auth(Denial::SubscriptionInactive,   403, 900_909, "The subscription to the API is inactive", "The subscription to the API is inactive"),
    quota(Denial::ApiQuota,              900_800),
    quota(Denial::OperationQuota,        900_802),
    quota(Denial::ApplicationQuota,      900_803),
    quota(Denial::SubscriptionQuota,     900_804),
    quota(Denial::SubscriptionBurst,     900_807),
    quota(Denial::ApplicationBurst,      900_809),
    quota(Denial::CustomQuota,           900_806),
    DenialRow { status: 503, ..quota(Denial::BackendQuota, 900_801) },
    auth(Denial::NoSandboxEndpoint,      403, 900_901, "Invalid Credentials", "Sandbox key offered to the API with no sandbox endpoint"),
    auth(Denial::NoProductionEndpoint,   403, 900_901, "Invalid Credentials", "Production key offered to the API with no production endpoint"),
    DenialRow { denial: Denial::ApiBlocked, status: 503, code: 700_700, kind: Some("API blocked"), message: "", description: "This API has been blocked temporarily. Please try again later or contact the system administrators." },
    auth(Denial::Blocked,                403, 900_805, "Message blocked", "You have been blocked from accessing the resource"),
    report(Denial::ApiUnloaded,          503, 700_700, "Service Unavailable", "The API is not available at the moment. Please try again later or contact the system administrators."),
    report(Denial::ClientBusy,           429, 429,     "Too Many Requests", "Too many requests of this client are in progress"),
    report(Denial::Overloaded,           503, 503,     "Service Unavailable", "Too many requests are in progress"),
    report(Denial::BodyTooLarge,         413, 413,     "Content Too Large", "The body is larger than this service accepts"),
    report(Denial::HeldBytesUsed,        503, 503_001, "Service Unavailable", "Too many bodies are being processed"),
    report(Denial::ResponseTooLarge,     502, 502_001, "Bad Gateway", "The response of the back end is larger than this service accepts"),
    threat(Denial::ThreatInHeaders,      "Threat detected in HTTP Headers"),
    threat(Denial::ThreatInTarget,       "Threat detected in Query Parameters"),
    threat(Denial::ThreatInPayload,      "Threat detected in Payload"),
    auth(Denial::ClaimMissing,           403, 900_913, "Claim Invalid", "The configured resource access validation claim is not present in the token."),
    auth(Denial::ClaimMismatch,          403, 900_912, "Claim Mismatch", "The claim configured in the system and the claim provided in the token do not align. Please ensure the claims match."),
    report(Denial::HeavyWorkQueued,      503, 503_002, "Service Unavailable", "Too much work is waiting to be processed"),
];

impl Denial {
    /// Its row in [`TABLE`].
    #[must_use]
    pub fn row(self) -> &'static DenialRow {
        TABLE
            .iter()
            .find(|row| row.denial == self)
            .expect("TABLE has a row for every denial: tested")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_the_code_and_the_status_of_every_denial() {
        let manual = include_str!("../../../docs/error-codes.md");
        for row in TABLE {
            let code = row.code.to_string();
            let status = row.status.to_string();
            let is_listed = manual.lines().filter(|line| line.starts_with('|')).any(|line| {
                let mut cells = line.split('|').skip(1);
                let codes = cells.next().unwrap_or_default();
                let has_code = codes.split(", ").any(|one| one.trim() == code);
                has_code && (line.contains(&status) || code == status)
            });
            assert!(is_listed, "docs/error-codes.md has no row for {code} with {status}");
        }
    }
}
