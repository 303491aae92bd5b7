//! Failures of mediation.

use std::fmt;
use std::ops::{Deref, DerefMut};

use expression::Error;
use model::{Blame, Denial};

/// WSO2's numbers for failures of mediation. Source: `SynapseConstants`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// A mediator failed; Synapse gives no other number to most failures.
    pub const MEDIATION: Self = Self(0);
    /// The body contradicts its content type.
    pub const MALFORMED_BODY: Self = Self(601_000);
    /// No connection to the endpoint.
    pub const NOT_CONNECTED: Self = Self(101_503);
    /// No response in time.
    pub const TIMEOUT: Self = Self(101_504);
    /// The endpoint closed the connection before its response was complete.
    pub const CLOSED: Self = Self(101_505);
    /// No member of a group is ready.
    pub const NO_READY_MEMBER: Self = Self(303_000);
    /// The endpoint is suspended.
    pub const SUSPENDED: Self = Self(303_001);
    /// A policy refuses a response. This code is Penstock's own.
    pub const RESPONSE_REFUSED: Self = Self(502_002);
    /// An interceptor service is not reachable, or returns another status than 200 and 204. Source: Choreo Connect.
    pub const NO_INTERCEPTOR: Self = Self(103_500);
    /// An interceptor service violates its contract.
    pub const INTERCEPTOR_RESPONSE: Self = Self(103_501);
    /// A request does not match the description of its operation. Source: API Manager's `SchemaValidator`.
    pub const REQUEST_MISMATCH: Self = Self(400);
    /// The same for a response.
    pub const RESPONSE_MISMATCH: Self = Self(500);
    /// The endpoint, which a WSDL describes, is suspended.
    pub const WSDL_SUSPENDED: Self = Self(303_002);
    /// A `call` with `blocking` failed, for any reason.
    pub const BLOCKING_CALL: Self = Self(401_001);
    /// A `callout` failed.
    pub const CALLOUT: Self = Self(401_000);
    /// The message cannot be sent, since it has no valid address.
    pub const NOT_SENT: Self = Self(401_003);
    /// The endpoint returned a SOAP fault, which `FORCE_ERROR_ON_SOAP_FAULT` makes a failure.
    pub const SOAP_FAULT: Self = Self(500_000);
    /// No endpoint has this name.
    pub const NO_ENDPOINT: Self = Self(305_100);
}

/// Why a message could not be mediated. An error handler sees it as `ERROR_CODE`, `ERROR_MESSAGE` and `ERROR_DETAIL`.
/// Boxed, since each step returns one or none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(Box<Details>);

/// Details of a [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    pub code: Code,
    pub message: String,
    /// Details for the log alone, such as an address.
    pub detail: Option<String>,
    /// The mediator, such as `log at proxy.xml:3:5`; added by the run.
    pub place: Option<String>,
    /// `throwError`'s `type`, which is the `ERROR_CODE` then.
    pub kind: Option<String>,
    /// A policy refused the message, or the host did for want of room.
    pub denial: Option<Denial>,
    /// Sender of the body that contradicts its content type; the gateway if mediation made it. Added by the run.
    pub sender: Blame,
}

impl fmt::Display for Details {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message)?;
        self.detail.as_ref().map_or(Ok(()), |detail| write!(to, ": {detail}"))
    }
}

impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

impl Failure {
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        let (detail, place, kind, denial, sender) = (None, None, None, None, Blame::Gateway);
        Self(Box::new(Details { code, message, detail, place, kind, denial, sender }))
    }

    pub(crate) fn into_message(self) -> String {
        self.0.message
    }

    #[must_use]
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    #[must_use]
    pub fn with_detail(mut self, detail: String) -> Self {
        self.detail = Some(detail);
        self
    }

    /// A message is to be sent whose body went to another receiver.
    #[must_use]
    pub fn lost_body() -> Self {
        Self::new(Code::MEDIATION, "the body was already sent elsewhere")
    }

    /// The message is refused: the client gets the response to `denial`, if no error handler has another one.
    #[must_use]
    pub fn denied(denial: Denial, message: impl Into<String>) -> Self {
        let mut failure = Self::new(Code(denial.row().code), message);
        failure.denial = Some(denial);
        failure
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_body = matches!(error, Error::Body(_) | Error::Json { .. });
        let code = if is_body { Code::MALFORMED_BODY } else { Code::MEDIATION };
        Self::new(code, error.to_string())
    }
}

impl From<xpath::BudgetExceeded> for Failure {
    fn from(exceeded: xpath::BudgetExceeded) -> Self {
        Self::new(Code::MEDIATION, exceeded.to_string())
    }
}

impl From<xml::Error> for Failure {
    fn from(error: xml::Error) -> Self {
        Self::new(Code::MALFORMED_BODY, error.to_string())
    }
}
