//! Faults: why an exchange failed, and who is to blame.

use crate::Denial;

/// Why an exchange failed. Every stage and the gateway return this type. The numbers are WSO2's codes
/// (`SynapseConstants`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("denied: {0:?}")]
    Denied(Denial),
    /// The bytes are not an acceptable HTTP request. The response has `status`, then the connection closes.
    #[error("rejected with {status}: {reason}")]
    Malformed { status: u16, reason: &'static str },
    /// 101503. `is_local`: this machine lacks a resource, such as descriptors, memory or ports.
    #[error("no connection to {authority}: {cause}")]
    Unreachable { authority: String, cause: String, is_local: bool },
    /// 101508.
    #[error("no connection to {authority} within {waited_ms} ms")]
    ConnectTimeout { authority: String, waited_ms: u32 },
    /// 101504.
    #[error("no response head from {authority} within {waited_ms} ms")]
    ResponseTimeout { authority: String, waited_ms: u32 },
    /// 101505.
    #[error("{authority} closed the connection before a response head")]
    Closed { authority: String },
    /// 101505 too, if no part of the response was sent to the client.
    #[error("the response of {authority} ended early: {reason}")]
    Truncated { authority: String, reason: &'static str },
    /// 101500: writing the request failed.
    #[error("sending to {authority} failed: {cause}")]
    SendFailed { authority: String, cause: String },
    /// 101506.
    #[error("invalid HTTP response from {authority}: {reason}")]
    ProtocolViolation { authority: String, reason: &'static str },
    /// 303001: the endpoint is suspended, or no connection became free in time.
    #[error("no endpoint of {authority} is ready")]
    NotReady { authority: String },
    /// 303001: too many requests wait for the endpoint.
    #[error("too many requests wait for {authority}")]
    EndpointBusy { authority: String },
    /// 303000: no endpoint of a load-balanced or failover set is ready.
    #[error("no child endpoint of {authority} is ready")]
    NoReadyChild { authority: String },
    /// No sequence handled a failure of mediation. `code`: WSO2's, 0 where it has none.
    #[error("mediation failed: {reason}")]
    Mediation { code: u32, reason: String },
    /// 601000: as [`Fault::Mediation`], for a body that is invalid for its content type. `blame` is its sender, or the
    /// gateway if mediation created it.
    #[error("mediation failed: {reason}")]
    MalformedBody { blame: Blame, reason: String },
    /// The client was too slow to send head or body.
    #[error("timeout while reading the request")]
    ClientTimeout,
    /// The client closed the connection or reset the stream. Recorded as 499, without a response.
    #[error("the client closed the connection before the response")]
    ClientLeft,
}

/// The party that caused a fault. Determines the class of the status, and the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    Client,
    Upstream,
    Gateway,
}

impl Fault {
    /// WSO2's code.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Denied(denial) => denial.row().code,
            Self::Malformed { status, .. } => u32::from(*status),
            Self::ClientTimeout => 408,
            // Never sent; the record needs a code.
            Self::ClientLeft => 400,
            Self::Unreachable { .. } => 101_503,
            Self::ConnectTimeout { .. } => 101_508,
            Self::ResponseTimeout { .. } => 101_504,
            Self::Closed { .. } | Self::Truncated { .. } => 101_505,
            Self::SendFailed { .. } => 101_500,
            Self::ProtocolViolation { .. } => 101_506,
            Self::Mediation { code, .. } => *code,
            Self::MalformedBody { .. } => 601_000,
            Self::NotReady { .. } | Self::EndpointBusy { .. } => 303_001,
            Self::NoReadyChild { .. } => 303_000,
        }
    }

    /// The party that caused this fault.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Denied(
                Denial::ApiUnloaded
                | Denial::Overloaded
                | Denial::HeldBytesUsed
                | Denial::HeavyWorkQueued,
            ) => Blame::Gateway,
            Self::Denied(Denial::ResponseTooLarge) => Blame::Upstream,
            Self::Mediation { code: 400, .. } => Blame::Client,
            Self::MalformedBody { blame, .. } => *blame,
            // Codes of failed sending and of endpoints.
            Self::Mediation {
                code: 500 | 101_000..=101_999 | 103_500..=103_501 | 303_000..=305_999 | 401_001,
                ..
            } => Blame::Upstream,
            Self::Mediation { .. } | Self::Unreachable { is_local: true, .. } => Blame::Gateway,
            Self::Denied(_) | Self::Malformed { .. } | Self::ClientTimeout | Self::ClientLeft => {
                Blame::Client
            }
            Self::Unreachable { .. }
            | Self::ConnectTimeout { .. }
            | Self::ResponseTimeout { .. }
            | Self::Closed { .. }
            | Self::Truncated { .. }
            | Self::SendFailed { .. }
            | Self::ProtocolViolation { .. }
            | Self::NotReady { .. }
            | Self::EndpointBusy { .. }
            | Self::NoReadyChild { .. } => Blame::Upstream,
        }
    }
}
