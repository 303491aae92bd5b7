//! What was sent, what arrived, and whether that may be.

use super::message::{Framing, payload};
use super::random::Random;

/// One request, as its client plans it, and what became of it.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) id: usize,
    pub(super) method: &'static str,
    /// The API, by its base path.
    pub(super) api: &'static str,
    pub(super) http10: bool,
    pub(super) framing: Framing,
    pub(super) len: usize,
    /// The client waits for a 100.
    pub(super) expects: bool,
    /// Its `Connection` field names `X-Hop`, which is also a trailer.
    pub(super) hops: bool,
    pub(super) fault: Option<ClientFault>,
    /// The client began to write it, and wrote all of it.
    pub(super) begun: bool,
    pub(super) sent: bool,
    /// The client's connection was cut, by itself or by the network.
    pub(super) cut: bool,
    /// The connection was closed although the response was outstanding.
    pub(super) ignored: bool,
    pub(super) attempts: Vec<Attempt>,
    pub(super) outcome: Outcome,
}

/// What a client does in the middle of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFault {
    Stalls,
    Ends,
    Resets,
    BadChunk,
}

/// What an upstream got of it, once.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) complete: bool,
    /// Length of the response that it began to send.
    pub(super) answer: Option<usize>,
    /// It sent all of the response.
    pub(super) answered: bool,
}

/// What a client got.
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
    /// An upstream's, complete.
    Complete {
        status: u16,
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
            api: random.pick(&["/one", "/turn", "/next"]),
            http10,
            framing,
            len,
            expects: len > 0 && !http10 && random.percent(15),
            hops: random.percent(15),
            fault,
            begun: false,
            sent: false,
            cut: false,
            ignored: false,
            attempts: Vec::new(),
            outcome: Outcome::Nothing,
        }
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

    pub(super) fn head(&self) -> String {
        let Self { id, method, api, .. } = self;
        let version = if self.http10 { "1.0" } else { "1.1" };
        let mut head = format!(
            "{method} {api}/e/{id} HTTP/{version}\r\nHost: gw\r\nX-Tag: {}\r\n",
            self.name()
        );
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
        self.cut || self.fault.is_some()
    }

    /// Records the response. Returns whether it overtook the upload.
    pub(super) fn ended(&mut self, outcome: Outcome) -> bool {
        self.outcome = outcome;
        self.attempts.iter().any(|attempt| !attempt.complete)
    }

    /// What must be true of every exchange in the end.
    pub(super) fn check(&self, calm: bool) {
        let most = if self.is_idempotent() { 2 } else { 1 };
        assert!(self.attempts.len() <= most, "sent {} times: {self:?}", self.attempts.len());
        for attempt in &self.attempts {
            assert!(!attempt.complete || self.sent, "more arrived than was sent: {self:?}");
        }
        if let Outcome::Complete { attempt, .. } = self.outcome {
            // A response to HEAD is complete with its head.
            let complete = self.attempts[attempt].answered || self.method == "HEAD";
            assert!(complete, "a complete response that is none: {self:?}");
        }
        // A response that is cut off may be lost as a whole, to the reset of a connection on which more arrives. An
        // upstream that closes before it has read the request may cut off its own.
        let is_whole = |it: &Attempt| it.answered && it.complete;
        let cut_off = self.attempts.iter().any(|it| it.answer.is_some() && !is_whole(it));
        let ignored = self.ignored && self.begun && !self.is_clients_fault() && !cut_off;
        assert!(!ignored, "the connection was closed without a response: {self:?}");
        if calm {
            let complete = matches!(self.outcome, Outcome::Complete { .. });
            let arrived = self.attempts.len() == 1 && self.attempts[0].complete;
            assert!(complete && arrived, "nothing failed, but this did: {self:?}");
        }
    }
}

/// What an upstream does with one request.
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

/// What happens to an upstream's connection after a response.
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
        }
    }
}
