//! Forms that the gateway sends to OAuth2 servers, as a client of theirs, on the worker's own connections.

use std::net::IpAddr;

use super::fetch;
use crate::forward::document::{Content, FetchError, Fetched};
use crate::message::Repetition;
use crate::tasks;
use crate::worker::Worker;
use crate::worker::compiled::Compiled;

pub(crate) struct Form<'a> {
    pub(crate) url: &'a str,
    /// Id and secret, for HTTP Basic, unless they are in the form.
    pub(crate) client: Option<(&'a str, &'a [u8])>,
    /// The address of the client that sent the credentials in the form, such as a password. Servers slow guesses by it.
    pub(crate) sender: Option<IpAddr>,
    /// The encoded form.
    pub(crate) text: &'a str,
    /// Whether the server may get the form twice.
    pub(crate) repetition: Repetition,
    /// Largest response, in bytes.
    pub(crate) bytes_max: usize,
    pub(crate) total_ms: u32,
}

/// Reason for the lack of a successful response. No text contains a part of the form or of the response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The server rejects a password, a code or a token.
    #[error("the server rejects the grant")]
    Grant,
    #[error("status 401: the server rejects `client_id` and `client_secret`")]
    Client,
    #[error("the server responded with status {0}")]
    Status(u16),
    /// It could not be asked, or did not respond.
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}")]
    Other(String),
}

impl Problem {
    /// Whether the server may respond later.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Status(status) => *status == 429 || *status >= 500,
            Self::Grant | Self::Client | Self::Other(_) => false,
        }
    }
}

impl From<Problem> for String {
    fn from(problem: Problem) -> Self {
        problem.to_string()
    }
}

/// The body of a successful response.
///
/// # Errors
/// The problem, without parts of the form or the response.
pub(crate) async fn send(
    worker: &Worker,
    revision: &Compiled,
    form: &Form<'_>,
) -> Result<Vec<u8>, Problem> {
    let fetched = match tasks::within(form.total_ms, post(worker, revision, form)).await {
        Some(fetched) => fetched.map_err(|error| Problem::Unreachable(error.to_string()))?,
        None => {
            let problem = format!("no complete response within {} ms", form.total_ms);
            return Err(Problem::Unreachable(problem));
        }
    };
    match fetched.status {
        200 => Ok(fetched.body),
        // Some servers write 401.
        400 | 401 if jose::is_invalid_grant(&fetched.body) => Err(Problem::Grant),
        401 => Err(Problem::Client),
        status => Err(Problem::Status(status)),
    }
}

async fn post(
    worker: &Worker,
    revision: &Compiled,
    form: &Form<'_>,
) -> Result<Fetched, FetchError> {
    let resources = &worker.resources;
    let found = worker.origins.find(form.url, None, true, &worker.pools);
    let address = found.map_err(FetchError::Url)?;
    let mut fields = vec![
        ("Content-Type", "application/x-www-form-urlencoded".to_owned()),
        ("Accept", "application/json".to_owned()),
    ];
    fields.extend(form.client.map(|(id, secret)| ("Authorization", fetch::basic(id, secret))));
    fields.extend(form.sender.map(|address| ("X-Forwarded-For", address.to_string())));
    let (body, repetition) = (Some(form.text.as_bytes().to_vec()), form.repetition);
    let content = Content { fields, body, repetition };
    let (retries, now_us) = (&worker.tally.retries, resources.now_us());
    let forwarding = revision.live.forwarding(retries, &address.balancer, now_us);
    let target = (address.path, address.query);
    fetch::send(resources, &forwarding, target, &content, form.bytes_max).await
}
