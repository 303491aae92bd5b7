//! Checks whether a target makes as many requests to the backend as its scenario requires.

use std::io::Read;
use std::net::SocketAddrV4;

use serde_json::Value;

use super::scenario::Scenario;
use crate::load::{Inputs, Options};
use crate::target::process::requested;
use echo::REQUESTS_TARGET;

/// A case whose requests are counted at the backend.
#[derive(Debug)]
pub(super) struct UpstreamCount {
    backend: SocketAddrV4,
    scenario: String,
    /// Required number of requests to the backend for each request.
    each: u64,
    before: u64,
}

impl UpstreamCount {
    /// Before the load. `None`: the scenario does not say how many there should be.
    ///
    /// # Errors
    /// The payload cannot be read, or the backend does not respond.
    pub(super) fn start(
        scenario: &Scenario,
        options: &Options,
        backend: SocketAddrV4,
    ) -> Result<Option<Self>, String> {
        let Some(expected) = &scenario.upstream_requests else { return Ok(None) };
        let payload = Inputs::read(options).map_err(|error| error.to_string())?.payload;
        let payload = payload.unwrap_or_default();
        let each = expected.of(&String::from_utf8_lossy(&payload));
        let before = read(backend)?;
        Ok(Some(Self { backend, scenario: scenario.name.clone(), each, before }))
    }

    /// After the load, with its report. Requests that failed may have reached the backend or not.
    ///
    /// # Errors
    /// The count is wrong, or the backend does not respond.
    pub(super) fn check(&self, report: &Value) -> Result<(), String> {
        let figure = |name| report.get(name).and_then(Value::as_u64).unwrap_or_default();
        let (requests, errors) = (figure("requests_in_all"), figure("errors_in_all"));
        let got = read(self.backend)?.saturating_sub(self.before);
        let least = requests.saturating_sub(errors).saturating_mul(self.each);
        let most = requests.saturating_mul(self.each);
        if (least..=most).contains(&got) {
            return Ok(());
        }
        let Self { scenario, each, .. } = self;
        let failed =
            if errors == 0 { String::new() } else { format!(", of which {errors} failed") };
        Err(format!(
            "upstream-count: the backend got {got} requests for {requests} requests{failed}; with {each} each, as \
             scenario `{scenario}` says, they are {most}"
        ))
    }
}

/// The number of requests that the backend has served.
fn read(backend: SocketAddrV4) -> Result<u64, String> {
    let url = format!("http://{backend}{REQUESTS_TARGET}");
    let mut response = String::new();
    let read = requested(&url, None).and_then(|stream| {
        stream.take(echo::limits::ECHO_COUNT_BYTES_MAX).read_to_string(&mut response)
    });
    read.map_err(|error| format!("the backend's count of requests: {error}"))?;
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    body.parse().map_err(|_| "the backend responded without a count of requests".to_owned())
}
