//! HTTP Digest, by which the gateway authenticates itself at endpoints. Source: RFC 7616.
//!
//! The server's challenge is used by the worker for all requests that follow, each with a count of its own, until the
//! server rejects it. Then the request is sent once more, which is why its body is held.

use std::sync::Arc;

use base::{Entropy as _, SystemEntropy};
use jose::{DigestChallenge, DigestLogin};
use model::Fault;
use wire::http1::BodyFraming;

use crate::body::Held;
use crate::body::request_body::RequestBody;
use crate::exchange::held_request::{HeldRequest, hold_request};
use crate::forward::credential::Credential;
use crate::forward::{self, Forwarding, UpstreamResponse};
use crate::message::{Head, Outgoing};
use crate::worker::Worker;
use crate::worker::compiled::{Compiled, Stall};

/// Sends a request, and once more if the server asks for it. The body is held before.
///
/// # Errors
/// As of a request without a credential; or the body cannot be held.
pub(super) async fn exchange<B: RequestBody>(
    (worker, revision): (&Worker, &Compiled),
    forwarding: &Forwarding<'_>,
    outgoing: &Outgoing<'_>,
    (credential, login): (&Arc<Credential>, DigestLogin<'_>),
    body: &mut B,
) -> Result<UpstreamResponse, Box<Fault>> {
    let sending = Sending { worker, forwarding, credential, login };
    if outgoing.framing == BodyFraming::None || body.held().is_some() {
        return sending.exchange(outgoing, body).await;
    }
    let live = &revision.live;
    let (holding, stall) = (worker.holding(live, outgoing.peer), Stall::of(live));
    let turn = &mut None;
    let bytes = hold_request(worker, (body, turn), outgoing.framing, &holding, stall).await?;
    let outgoing = Outgoing { framing: BodyFraming::Length(bytes.len() as u64), ..*outgoing };
    let mut held = HeldRequest { client: body, held: Held::new(bytes) };
    let mut response = sending.exchange(&outgoing, &mut held).await?;
    held.finish_upload(&worker.resources, &mut response, live.stall_ms).await;
    Ok(response)
}

struct Sending<'a> {
    worker: &'a Worker,
    forwarding: &'a Forwarding<'a>,
    credential: &'a Arc<Credential>,
    login: DigestLogin<'a>,
}

impl Sending<'_> {
    async fn exchange<B: RequestBody>(
        &self,
        outgoing: &Outgoing<'_>,
        body: &mut B,
    ) -> Result<UpstreamResponse, Box<Fault>> {
        let (resources, challenges) = (&self.worker.resources, &self.worker.challenges);
        let mut is_last = false;
        loop {
            let known = challenges.next(self.credential);
            let mut edits = resources.edits();
            (*edits).clone_from(outgoing.edits);
            edits.remove(b"Authorization");
            if let Some((challenge, count)) = &known {
                let answer = self.answer(challenge, *count, outgoing);
                edits.append(b"Authorization", answer.as_bytes());
            }
            let sent = Outgoing { edits: &edits, ..*outgoing };
            let response = forward::exchange(resources, self.forwarding, &sent, body).await;
            resources.release_edits(edits);
            let response = response?;
            let known = known.map(|(challenge, _)| challenge);
            let Some(new) = challenge(&response.head, known.as_deref()) else {
                return Ok(response);
            };
            let is_rejection = response.head.status() == 401;
            challenges.learn(self.credential, new);
            if !is_rejection || is_last || !body.can_restart() {
                return Ok(response);
            }
            is_last = true;
            response.release(resources);
            body.restart();
        }
    }

    fn answer(&self, challenge: &DigestChallenge, count: u32, outgoing: &Outgoing<'_>) -> String {
        let endpoint = self.forwarding.balancer.endpoints.first();
        let prefix = endpoint.map_or("", |endpoint| endpoint.config.path.as_str());
        let mut uri = [prefix.as_bytes(), outgoing.path].concat();
        if uri.is_empty() {
            uri.push(b'/');
        }
        if let Some(query) = outgoing.query {
            uri.push(b'?');
            uri.extend_from_slice(query);
        }
        let cnonce = format!("{:016x}", SystemEntropy.u64());
        challenge.answer(self.login, (outgoing.method_name, &uri), count, &cnonce)
    }
}

/// The challenge that the next request is to answer, if it is another one than `known`.
fn challenge(head: &Head, known: Option<&DigestChallenge>) -> Option<DigestChallenge> {
    let mut values = head.parsed.fields().iter().filter_map(|field| {
        let name = field.name.of(&head.bytes);
        let is = |expect: &[u8]| name.eq_ignore_ascii_case(expect);
        let is_challenge = is(b"WWW-Authenticate");
        if !is_challenge && !is(b"Authentication-Info") {
            return None;
        }
        Some((is_challenge, std::str::from_utf8(field.value.of(&head.bytes)).ok()?))
    });
    let is_rejected = head.status() == 401;
    values.find_map(|(is_challenge, value)| match (is_rejected, is_challenge, known) {
        (true, true, _) => {
            DigestChallenge::find(value).filter(|new| known.is_none_or(|known| new.renews(known)))
        }
        (false, false, Some(known)) => known.next(value),
        _ => None,
    })
}
