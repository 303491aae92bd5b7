//! Why a request that was let through has no ordinary answer, and whose doing that is.

use crate::Denial;

/// Why a request has no ordinary answer. Every stage and the gateway return this one type.
/// Numbers are WSO2's (`SynapseConstants`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("denied: {0:?}")]
    Denied(Denial),
    /// The bytes are not an acceptable HTTP request: answered with `status`, then the connection closes.
    #[error("refused with {status}: {reason}")]
    Malformed { status: u16, reason: &'static str },
    /// 101503.
    #[error("no connection to {authority}: {cause}")]
    Unreachable { authority: String, cause: String },
    /// 101508.
    #[error("no connection to {authority} within {waited_ms} ms")]
    ConnectTimeout { authority: String, waited_ms: u32 },
    /// 101504.
    #[error("no response head from {authority} within {waited_ms} ms")]
    ResponseTimeout { authority: String, waited_ms: u32 },
    /// 101505.
    #[error("{authority} closed the connection before a response head")]
    Closed { authority: String },
    /// 101500: writing the request failed.
    #[error("sending to {authority} failed: {cause}")]
    SendFailed { authority: String, cause: String },
    /// 101506.
    #[error("{authority} answered with something that is not HTTP: {reason}")]
    ProtocolViolation { authority: String, reason: &'static str },
    /// 303001: every endpoint is suspended, or the line for a connection is full.
    #[error("no endpoint of {authority} is ready")]
    NotReady { authority: String },
    /// 303000: none of a load-balanced or failover set is ready.
    #[error("no child endpoint of {authority} is ready")]
    NoReadyChild { authority: String },
    /// The client was too slow with head or body.
    #[error("the client sent nothing for too long")]
    ClientTimeout,
    /// The client went away: recorded as 499, answered by nothing.
    #[error("the client left")]
    ClientLeft,
}

/// Whose doing a fault is: decides the class of the status, and which counter moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    Caller,
    Upstream,
    Gateway,
}

impl Fault {
    /// A new variant must choose here.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Denied(Denial::ApiUnloaded) => Blame::Gateway,
            Self::Denied(_) | Self::Malformed { .. } | Self::ClientTimeout | Self::ClientLeft => {
                Blame::Caller
            }
            Self::Unreachable { .. }
            | Self::ConnectTimeout { .. }
            | Self::ResponseTimeout { .. }
            | Self::Closed { .. }
            | Self::SendFailed { .. }
            | Self::ProtocolViolation { .. }
            | Self::NotReady { .. }
            | Self::NoReadyChild { .. } => Blame::Upstream,
        }
    }
}
