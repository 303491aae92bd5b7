//! Sent and received messages, and checks of them.

use super::issuer::{Token, Valid};
use super::message::{Framing, payload};
use super::random::Random;
use super::services::Service;
use super::sharing::{Sharing, Wants};

/// One request, as its client plans it, and its outcome.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: usize,
    pub(super) method: &'static str,
    pub(super) service: Service,
    pub(super) token: Option<Token>,
    /// If its service is cached.
    pub(super) wants: Option<Wants>,
    pub(super) http10: bool,
    pub(super) framing: Framing,
    pub(super) len: usize,
    /// The client waits for a 100.
    pub(super) expects: bool,
    /// The request's `Connection` field names `X-Hop`, which is also a trailer.
    pub(super) hops: bool,
    pub(super) fault: Option<ClientFault>,
    /// When the client began to write it.
    pub(super) begun_us: Option<u64>,
    /// When its response was complete.
    pub(super) ended_us: Option<u64>,
    /// The client wrote all of it.
    pub(super) sent: bool,
    /// The client's connection was cut, by itself or by the network.
    pub(super) cut: bool,
    /// The connection was closed although the response was outstanding.
    pub(super) ignored: bool,
    pub(super) attempts: Vec<Attempt>,
    pub(super) outcome: Outcome,
}

/// A fault of a client in the middle of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFault {
    Stalls,
    Ends,
    Resets,
    BadChunk,
}

/// One attempt of a request at an upstream.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// It is a copy, not the request itself.
    pub(super) is_copy: bool,
    pub(super) complete: bool,
    /// Length of the response that it began to send.
    pub(super) answer: Option<usize>,
    /// It sent all of the response.
    pub(super) answered: bool,
    /// Who else may get the response.
    pub(super) sharing: Option<Sharing>,
    /// Version of the resource when the attempt arrived, or when the upstream last confirmed the response as valid.
    pub(super) version: usize,
    /// When that was.
    pub(super) valid_us: u64,
    /// The version of the resource that it made.
    pub(super) changed: Option<usize>,
}

/// The client's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The connection ended first.
    Nothing,
    Truncated,
    /// The gateway's own response, with this code.
    Own {
        status: u16,
        code: String,
    },
    /// An upstream's, complete: that to an attempt of this exchange, or from the cache.
    Complete {
        status: u16,
        of: usize,
        attempt: usize,
    },
}

impl Exchange {
    pub(super) fn plan(id: usize, random: &mut Random, calm: bool, large: usize) -> Self {
        let method = random.pick(&["GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE"]);
        let http10 = random.percent(6);
        let has_body = matches!(method, "POST" | "PUT") || random.percent(10);
        let len = if has_body { random.size(large) } else { 0 };
        let framing = match has_body {
            false => Framing::None,
            true if !http10 && random.percent(50) => Framing::Chunked,
            true => Framing::Length(len),
        };
        let faulty = !calm && len > 0 && random.percent(12);
        let faults = [ClientFault::Stalls, ClientFault::Ends, ClientFault::Resets];
        let bad_chunk = framing == Framing::Chunked && random.percent(30);
        let fault = if bad_chunk { ClientFault::BadChunk } else { random.pick(&faults) };
        let fault = faulty.then_some(fault);
        Self {
            id,
            method,
            service: random.pick(&[Service::One, Service::Turn, Service::Next]),
            token: None,
            wants: None,
            http10,
            framing,
            len,
            expects: len > 0 && !http10 && random.percent(15),
            hops: random.percent(15),
            fault,
            begun_us: None,
            ended_us: None,
            sent: false,
            cut: false,
            ignored: false,
            attempts: Vec::new(),
            outcome: Outcome::Nothing,
        }
    }

    /// It asks for something, without a body.
    pub(super) fn becomes_get(&mut self) {
        (self.method, self.framing, self.len) = ("GET", Framing::None, 0);
        (self.expects, self.fault) = (false, None);
    }

    /// The name in each block of its payload.
    pub(super) fn name(&self) -> String {
        format!("q{}", self.id)
    }

    /// The name of the response to an attempt.
    pub(super) fn answer_name(&self, attempt: usize) -> String {
        format!("r{}.{attempt}", self.id)
    }

    pub(super) fn payload(&self) -> Vec<u8> {
        payload(&self.name(), self.len)
    }

    /// The path below that of its service.
    pub(super) fn path(&self) -> String {
        match &self.wants {
            Some(wants) => format!("/c/{}", wants.resource),
            None => format!("/e/{}", self.id),
        }
    }

    /// The fields of its head, without those of framing and connection.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("x-tag", self.name())];
        if let Some(token) = &self.token {
            fields.push(("authorization", format!("Bearer {}", token.text)));
        }
        self.wants.iter().for_each(|wants| wants.append_fields(&mut fields));
        fields
    }

    pub(super) fn head(&self) -> String {
        let version = if self.http10 { "1.0" } else { "1.1" };
        let (method, base_path, path) = (self.method, self.service.base_path(), self.path());
        let mut head = format!("{method} {base_path}{path} HTTP/{version}\r\nHost: gw\r\n");
        for (name, value) in self.fields() {
            head += &format!("{name}: {value}\r\n");
        }
        match self.framing {
            Framing::Length(len) => head += &format!("Content-Length: {len}\r\n"),
            Framing::Chunked => head += "Transfer-Encoding: chunked\r\nTE: trailers\r\n",
            Framing::None | Framing::UntilClose => {}
        }
        if self.hops {
            head += "Connection: X-Hop\r\nX-Hop: 1\r\n";
        }
        if self.expects {
            head += "Expect: 100-continue\r\n";
        }
        head + "\r\n"
    }

    /// The last chunk of its body, and its trailers.
    pub(super) fn trailers(&self) -> String {
        let hop = if self.hops { "X-Hop: 1\r\n" } else { "" };
        format!("0\r\nX-Trailer: {}\r\n{hop}\r\n", self.name())
    }

    /// Whether it may be sent twice.
    fn is_idempotent(&self) -> bool {
        self.method != "POST"
    }

    /// Whether its client gave the gateway a reason to blame it.
    pub(super) fn is_clients_fault(&self) -> bool {
        self.cut || self.fault.is_some() || self.may_be_denied()
    }

    /// Whether its token may not be good for it.
    pub(super) fn may_be_denied(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.valid != Valid::Always)
    }

    /// Whether its token allows nothing.
    fn must_be_denied(&self) -> bool {
        let begun_us = self.begun_us.unwrap_or_default();
        self.token.as_ref().is_some_and(|token| token.is_bad(begun_us))
    }

    /// The attempts for which the client waits.
    fn own_attempts(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| !attempt.is_copy)
    }

    /// Records the response. Returns whether it overtook the upload.
    pub(super) fn ended(&mut self, outcome: Outcome, now_us: u64) -> bool {
        (self.outcome, self.ended_us) = (outcome, Some(now_us));
        self.own_attempts().any(|attempt| !attempt.complete)
    }

    /// Checks the invariants of every exchange at the end. `all`: this one and the others.
    pub(super) fn check(&self, all: &[Self], calm: bool) {
        let most = if self.is_idempotent() { self.service.most_attempts() } else { 1 };
        let own = self.own_attempts().count();
        assert!(own <= most, "sent {own} times: {self:?}");
        let copies = self.attempts.len() - own;
        let most = if self.is_idempotent() { 2 } else { 1 };
        assert!(copies <= most, "{copies} copies were sent: {self:?}");
        for attempt in &self.attempts {
            let may_arrive = self.sent || self.drops_body();
            assert!(!attempt.complete || may_arrive, "more arrived than was sent: {self:?}");
        }
        if let Outcome::Complete { of, attempt, .. } = self.outcome {
            // A response to HEAD is complete with its head.
            let attempt = &all[of].attempts[attempt];
            let complete = attempt.answered || self.method == "HEAD";
            assert!(complete && !attempt.is_copy, "a complete response that is none: {self:?}");
        }
        let denied = self.must_be_denied();
        assert!(!denied || self.attempts.is_empty(), "forwarded with a bad token: {self:?}");
        let is_denial = matches!(self.outcome, Outcome::Own { status: 401 | 403, .. });
        assert!(!is_denial || self.may_be_denied(), "denied without reason: {self:?}");
        // A response that is cut off may be lost as a whole, to the reset of a connection on which more arrives. An
        // upstream that closes before it has read the request may cut off its own.
        let is_whole = |it: &Attempt| it.answered && it.complete;
        let cut_off = self.own_attempts().any(|it| it.answer.is_some() && !is_whole(it));
        let begun = self.begun_us.is_some();
        let ignored = self.ignored && begun && !self.is_clients_fault() && !cut_off;
        assert!(!ignored, "the connection was closed without a response: {self:?}");
        if calm {
            self.check_calm(own, copies);
        }
    }

    /// Checks the invariants at the end of a run without failures.
    fn check_calm(&self, own: usize, copies: usize) {
        let is_brief = matches!(self.token, Some(Token { valid: Valid::Until(_), .. }));
        let is_denial = matches!(self.outcome, Outcome::Own { status: 401 | 403, .. });
        if self.must_be_denied() || is_brief && is_denial {
            assert!(is_denial, "not denied: {self:?}");
            return;
        }
        let arrived = match self.service {
            // Out of the cache.
            Service::Cached => own <= 1,
            // A 503 is retried.
            Service::Held => own >= 1,
            Service::One
            | Service::Turn
            | Service::Next
            | Service::Jwt
            | Service::Opaque
            | Service::Policies
            | Service::Call
            | Service::Clone => own == 1,
        };
        let copied = copies == usize::from(self.service == Service::Clone);
        let complete = matches!(self.outcome, Outcome::Complete { .. });
        let all_arrived = self.attempts.iter().all(|attempt| attempt.complete);
        assert!(
            complete && arrived && copied && all_arrived,
            "nothing failed, but this did: {self:?}"
        );
    }
}

/// An upstream's plan for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) len: usize,
    /// Interim responses before it.
    pub(super) interim: usize,
    /// It does not wait for the body of the request.
    pub(super) early: bool,
    /// It reads the body of the request, if early.
    pub(super) reads: bool,
    /// It waits for so long before it.
    pub(super) pause_us: u64,
    pub(super) hops: bool,
    pub(super) fault: Option<AnswerFault>,
    pub(super) then: Then,
    /// Who else may get it.
    pub(super) sharing: Option<Sharing>,
    /// The response confirms a stored one as valid.
    pub(super) confirms: bool,
}

/// How a response goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerFault {
    /// The connection is closed instead.
    Closes,
    Resets,
    /// Nothing is sent for longer than the gateway waits.
    Never,
    NoHttp,
    TwoFramings,
    Huge,
    Unrequested101,
    TooManyInterim,
    BadChunk,
    /// Half of the body, then the end, a reset, or nothing for longer than the gateway waits.
    Half,
    HalfResets,
    HalfStalls,
}

/// The state of an upstream's connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    /// It is closed, as announced.
    Close,
    /// It is closed when it was idle for so long.
    CloseIdle(u64),
    /// Bytes follow that belong to nothing.
    Garbage,
}

const FAULTS: &[AnswerFault] = &[
    AnswerFault::Closes,
    AnswerFault::Resets,
    AnswerFault::Never,
    AnswerFault::NoHttp,
    AnswerFault::TwoFramings,
    AnswerFault::Huge,
    AnswerFault::Unrequested101,
    AnswerFault::TooManyInterim,
    AnswerFault::BadChunk,
    AnswerFault::Half,
    AnswerFault::HalfResets,
    AnswerFault::HalfStalls,
];

impl Answer {
    pub(super) fn plan(random: &mut Random, calm: bool, large: usize) -> Self {
        let status = random.pick(&[200, 200, 200, 201, 204, 304, 400, 413, 500, 503]);
        let len = if matches!(status, 204 | 304) { 0 } else { random.size(large) };
        let framing = match random.below(4) {
            _ if matches!(status, 204 | 304) => Framing::None,
            0 => Framing::Chunked,
            1 => Framing::UntilClose,
            _ => Framing::Length(len),
        };
        let fault = (!calm && random.percent(20)).then(|| random.pick(FAULTS));
        let early = !calm && random.percent(25);
        let then = match random.below(8) {
            _ if framing == Framing::UntilClose => Then::Close,
            0 => Then::Close,
            1 | 2 if !calm => Then::CloseIdle(random.below(200_000) as u64),
            3 if !calm => Then::Garbage,
            _ => Then::Keep,
        };
        // The end of the connection is the end of such a body, wherever it is.
        let fault = match fault {
            Some(AnswerFault::Half) if framing == Framing::UntilClose => {
                Some(AnswerFault::HalfResets)
            }
            other => other,
        };
        Self {
            status,
            framing,
            len,
            interim: if random.percent(10) { random.between(1, 3) } else { 0 },
            early,
            reads: random.percent(60),
            pause_us: random.pause_us(300_000),
            hops: random.percent(15),
            fault,
            then,
            sharing: None,
            confirms: false,
        }
    }
}
