//! Every refusal that a stage can decide by itself, and how it is told.

/// Why a request is refused before it reaches a backend. The caller's doing, except the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// No API at this host and path.
    NoApi,
    /// The API has no template that fits the path.
    NoResource,
    /// A template fits, with other methods; `Allow` names them.
    MethodNotAllowed,
    /// The API is not offered on this listener.
    UnsupportedTransport,
    MissingCredentials,
    InvalidCredentials,
    ExpiredToken,
    /// The audience is not one of the issuer's `audiences`.
    WrongAudience,
    /// No scope that the operation asks for.
    ScopeMissing,
    /// A sandbox key where there is no sandbox endpoint.
    NoSandboxEndpoint,
    /// A production key where there is no production endpoint.
    NoProductionEndpoint,
    /// The API's file never loaded; its base path was readable.
    ApiUnloaded,
}

/// How one denial is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenialRow {
    pub denial: Denial,
    pub status: u16,
    pub code: u32,
    pub message: &'static str,
    pub description: &'static str,
    /// WSO2 adds `"type":"Status report"` to these.
    pub status_report: bool,
}

const fn auth(
    denial: Denial,
    status: u16,
    code: u32,
    message: &'static str,
    description: &'static str,
) -> DenialRow {
    DenialRow { denial, status, code, message, description, status_report: false }
}

const fn report(
    denial: Denial,
    status: u16,
    code: u32,
    message: &'static str,
    description: &'static str,
) -> DenialRow {
    DenialRow { denial, status, code, message, description, status_report: true }
}

/// Codes: WSO2 `APISecurityConstants` and the `_resource_mismatch_handler_` family, so that clients
/// written for it keep working. Statuses: RFC 9110 section 15.5. Descriptions never echo the path,
/// the token or the context.
#[rustfmt::skip]
pub const TABLE: &[DenialRow] = &[
    report(Denial::NoApi,                404, 404,     "Not Found", "The requested resource is not available."),
    report(Denial::NoResource,           404, 404,     "Not Found", "No matching resource found for given API Request"),
    report(Denial::MethodNotAllowed,     405, 405,     "Method not allowed", "Method not allowed for given API resource"),
    report(Denial::UnsupportedTransport, 403, 403,     "Forbidden", "Unsupported Transport"),
    auth(Denial::MissingCredentials,     401, 900_902, "Missing Credentials", "Invalid Credentials. Make sure your API invocation call has a header: 'Authorization : Bearer ACCESS_TOKEN'"),
    auth(Denial::InvalidCredentials,     401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::ExpiredToken,           401, 900_901, "Invalid Credentials", "Invalid Credentials. Make sure you have provided the correct security credentials"),
    auth(Denial::WrongAudience,        403, 900_914, "Invalid Credentials", "The access token is not meant for this API"),
    auth(Denial::ScopeMissing,           403, 900_910, "The access token does not allow you to access the requested resource", "User is NOT authorized to access the Resource. Scope validation failed."),
    auth(Denial::NoSandboxEndpoint,      403, 900_901, "Invalid Credentials", "Sandbox key offered to the API with no sandbox endpoint"),
    auth(Denial::NoProductionEndpoint,   403, 900_901, "Invalid Credentials", "Production key offered to the API with no production endpoint"),
    report(Denial::ApiUnloaded,          503, 700_700, "Service Unavailable", "The API is not available at the moment. Please try again later or contact the system administrators."),
];

impl Denial {
    /// Its row in [`TABLE`].
    #[must_use]
    pub fn row(self) -> &'static DenialRow {
        TABLE
            .iter()
            .find(|row| row.denial == self)
            .expect("TABLE has one row per denial: a test says so")
    }
}
