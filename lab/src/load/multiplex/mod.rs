//! The users of one HTTP/2 connection: each is a stream with at most one request in flight.
//!
//! One task serves them all, so that the responses of one read and the requests that follow them cost one read and one
//! write system call. All responses of a read end at the same time, and a closed user's next request starts then.
//!
//! - A request that has to wait for a connection or for the server's limit of streams includes the wait.
//! - If the server leaves (GOAWAY), the requests that it still serves are completed; then a new connection is opened,
//!   and requests that the server ignored are sent again.

mod link;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{self, Poll};

use wire::h2::client::ClientEvent;

use crate::limits;
use crate::load::grpc::Messages;
use crate::load::next_request::{Decision, NextRequest};
use crate::load::request::Prepared;
use crate::load::response::{Captured, Outcome};
use crate::load::scenario::Session;
use crate::load::search::Search;
use crate::load::shape::IdleUser;
use crate::load::statistics::{Detail, Sample, Traffic};
use crate::load::thread_state::{Plan, ThreadState, TimeoutSlot};
use crate::load::us;
use crate::load::wake_timer::WakeTimer;
use link::Link;
pub(super) use link::probe;

/// State that the users of a connection share with others.
pub(super) struct Context {
    pub(super) plan: Arc<Plan>,
    pub(super) state: Arc<ThreadState>,
    pub(super) slot: Arc<TimeoutSlot>,
    pub(super) wake_timer: Arc<WakeTimer>,
}

/// The users of a connection.
pub(super) struct Multiplexed {
    context: Context,
    users: Vec<User>,
    /// When idle users have to be looked at.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// Users whose request is to be sent.
    ready: VecDeque<usize>,
    /// Users with a body that is not sent completely.
    sending: VecDeque<usize>,
    /// The user of each of the connection's slots.
    by_slot: Vec<usize>,
    in_flight: usize,
    ended: usize,
    link: Link,
    /// The time for which the task was last to be woken.
    armed_us: u64,
    is_watched: bool,
}

/// A user, and its current request.
struct User {
    free: IdleUser,
    /// Next request of the user, if it is not due yet.
    next: Option<NextRequest>,
    phase: Phase,
    from_us: u64,
    start_us: u64,
    queued: bool,
    turn: usize,
    status: u16,
    connect_us: u64,
    first_byte_us: u64,
    search: Option<Search>,
    session: Option<Session>,
    captured: Captured,
    /// Messages of the response to a gRPC call.
    messages: Option<Messages>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Ready,
    Open { slot: usize },
}

impl Multiplexed {
    /// `indices`: of its users among all users of the measurement.
    pub(super) fn new(context: Context, indices: Range<usize>) -> Self {
        let expect = context.plan.expect.as_deref();
        let user = |index| User {
            messages: context.plan.is_grpc.then(Messages::default),
            ..User::new(index, expect, context.plan.session(index))
        };
        let users: Vec<_> = indices.map(user).collect();
        let waiting = (0..users.len()).map(|user| Reverse((0, user))).collect();
        Self {
            context,
            users,
            waiting,
            ready: VecDeque::new(),
            sending: VecDeque::new(),
            by_slot: Vec::new(),
            in_flight: 0,
            ended: 0,
            link: Link::Closed,
            armed_us: 0,
            is_watched: false,
        }
    }

    /// Sends requests until the measured time is over.
    pub(super) async fn run(mut self) {
        std::future::poll_fn(|cx| {
            self.context.slot.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.is_watched && self.context.slot.is_expired() {
            self.expire();
        }
        loop {
            self.wake_due(cx);
            if !self.ready.is_empty() {
                self.connect(cx);
            }
            self.send();
            // Written bytes make room for more.
            let has_room = self.write(cx);
            if !self.read(cx) && !has_room {
                break;
            }
        }
        if self.ended == self.users.len() {
            return Poll::Ready(());
        }
        self.watch();
        if let Some(Reverse((at_us, _))) = self.waiting.peek()
            && (*at_us < self.armed_us || self.armed_us <= self.context.plan.now_us())
        {
            self.armed_us = *at_us;
            self.context.wake_timer.wake_at(cx, *at_us);
        }
        Poll::Pending
    }

    /// Starts the requests whose time has come.
    fn wake_due(&mut self, cx: &task::Context<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        let now_us = self.context.plan.now_us();
        let is_over = now_us >= self.context.plan.window.until_us();
        for _ in 0..limits::LOAD_UNSENT_AT_ONCE.max(self.users.len()) {
            let Some(Reverse((at_us, user))) = self.waiting.peek().copied() else { return };
            if at_us > now_us && !is_over {
                return;
            }
            self.waiting.pop();
            self.schedule(user, now_us);
        }
        cx.waker().wake_by_ref();
    }

    /// Starts the next request of an idle user at `now_us`, or lets it wait.
    fn schedule(&mut self, index: usize, now_us: u64) {
        let Some(user) = self.users.get_mut(index) else { return };
        let (plan, state) = (&self.context.plan, &self.context.state);
        let request = user.next.take().or_else(|| {
            user.free.since_us = user.free.since_us.max(now_us);
            let think = user.session.as_ref().and_then(Session::think);
            NextRequest::schedule(user.free, think, state, &plan.window)
        });
        let decided = request.map_or(Decision::End, |request| {
            request.decide(now_us, us(plan.timeout), state, &plan.window)
        });
        let start = match decided {
            Decision::Start(start) => start,
            Decision::Wait(at_us) => {
                user.next = request;
                return self.waiting.push(Reverse((at_us, index)));
            }
            Decision::End => {
                self.ended += 1;
                return;
            }
        };
        (user.status, user.connect_us, user.first_byte_us) = (0, 0, 0);
        (user.start_us, user.from_us, user.queued) = (start.start_us, start.from_us, start.queued);
        if user.free.made == 0 {
            self.context.plan.begun.fetch_add(1, Ordering::Relaxed);
        }
        user.free.made += 1;
        if start.is_overdue {
            self.record(index, Outcome::Unsent, now_us, Traffic::default());
            self.waiting.push(Reverse((now_us, index)));
            return;
        }
        if !user.session.as_mut().is_none_or(|session| session.next(state)) {
            self.record(index, Outcome::Extract, now_us, Traffic::default());
            self.waiting.push(Reverse((self.after_pause_us(), index)));
            return;
        }
        user.begin(self.context.state.next_token());
        self.ready.push_back(index);
    }

    /// Sends requests and bodies, as far as the connection allows.
    fn send(&mut self) {
        let Link::Open(open) = &mut self.link else { return };
        let shared = &*self.context.plan.prepared;
        for _ in 0..self.sending.len() {
            let Some(index) = self.sending.pop_front() else { break };
            let Some(user) = self.users.get(index) else { continue };
            if let Phase::Open { slot } = user.phase
                && !user
                    .prepared(shared)
                    .body()
                    .is_none_or(|body| open.client.send_body(slot, body))
            {
                self.sending.push_back(index);
            }
        }
        while !open.client.is_full()
            && open.client.can_open()
            && let Some(index) = self.ready.pop_front()
            && let Some(user) = self.users.get_mut(index)
        {
            if user.phase != Phase::Ready {
                continue;
            }
            let own = user.session.as_ref().map(|session| &**session.prepared().fields());
            let prepared = user.prepared(shared);
            let (token, body) = (prepared.bearer(user.turn), prepared.body());
            let Some(slot) = open.client.open(own, token, body.map(<[u8]>::len)) else {
                self.ready.push_front(index);
                break;
            };
            let is_sent = body.is_none_or(|body| open.client.send_body(slot, body));
            user.phase = Phase::Open { slot };
            self.in_flight += 1;
            if self.by_slot.len() <= slot {
                self.by_slot.resize(slot + 1, 0);
            }
            if let Some(place) = self.by_slot.get_mut(slot) {
                *place = index;
            }
            if !is_sent {
                self.sending.push_back(index);
            }
        }
    }

    /// Handles an event of the server. `bytes`: the input; `now_us`: when it was read.
    fn event(&mut self, event: ClientEvent, bytes: &[u8], now_us: u64) {
        let (slot, outcome) = match event {
            ClientEvent::Head { slot, status, ends } => {
                let Some(user) = self.by_slot.get(slot).and_then(|at| self.users.get_mut(*at))
                else {
                    return;
                };
                (user.status, user.first_byte_us) = (status, now_us);
                if let Link::Open(open) = &self.link {
                    user.captured.add_head(open.client.fields());
                }
                if !ends {
                    return;
                }
                (slot, user.outcome())
            }
            ClientEvent::Data { slot, at, ends } => {
                let Some(user) = self.user_of(slot) else { return };
                let part = bytes.get(at).unwrap_or_default();
                if let Some(search) = &mut user.search {
                    search.see(part);
                }
                user.captured.add_body(part);
                if let Some(messages) = &mut user.messages {
                    messages.see(part);
                }
                if !ends {
                    return;
                }
                (slot, user.outcome())
            }
            ClientEvent::Reset { slot } => (slot, Outcome::Reset),
            ClientEvent::Malformed { slot } => (slot, Outcome::Protocol),
            ClientEvent::GoAway => return self.send_again(now_us),
        };
        let Some(&index) = self.by_slot.get(slot) else { return };
        self.finish(index, outcome, now_us);
        if self.context.plan.connection_per_request {
            self.link = Link::Closed;
        }
        self.schedule(index, now_us);
    }

    /// Requests that a leaving server ignores are sent again on the next connection. A server that served nothing on
    /// this one fails them, or it could go on for ever.
    fn send_again(&mut self, now_us: u64) {
        for index in 0..self.users.len() {
            let (Link::Open(open), Some(user)) = (&mut self.link, self.users.get_mut(index)) else {
                return;
            };
            let Phase::Open { slot } = user.phase else { continue };
            if !open.client.is_unprocessed(slot) {
                continue;
            }
            if open.has_served {
                open.client.close(slot);
                user.begin(user.turn);
                self.in_flight -= 1;
                self.ready.push_back(index);
            } else {
                self.finish(index, Outcome::Closed, now_us);
                self.waiting.push(Reverse((self.after_pause_us(), index)));
            }
        }
    }

    /// Ends a user's request.
    fn finish(&mut self, index: usize, outcome: Outcome, now_us: u64) {
        let Some(user) = self.users.get_mut(index) else { return };
        let mut bytes = Traffic::default();
        if let Phase::Open { slot } = user.phase {
            self.in_flight -= 1;
            if let Link::Open(open) = &mut self.link {
                let (sent, received) = open.client.traffic(slot);
                bytes = Traffic { sent, received };
                open.client.close(slot);
                open.has_served |= is_complete(outcome);
            }
        }
        user.phase = Phase::Idle;
        user.free.since_us = now_us;
        let outcome = match (&user.messages, &self.link) {
            (Some(messages), Link::Open(open)) if is_complete(outcome) => {
                messages.outcome(outcome, open.client.fields())
            }
            _ => outcome,
        };
        let outcome = match &mut user.session {
            Some(session) => session.finish(outcome, user.status, &user.captured),
            None => outcome,
        };
        self.record(index, outcome, now_us, bytes);
    }

    /// Ends all requests in flight, and those that were to be sent if `with_ready`. Their users continue at `at_us`.
    fn fail_all(&mut self, outcome: Outcome, with_ready: bool, at_us: u64) {
        let now_us = self.context.plan.now_us();
        for index in 0..self.users.len() {
            let phase = self.users.get(index).map_or(Phase::Idle, |user| user.phase);
            if matches!(phase, Phase::Open { .. }) || with_ready && phase == Phase::Ready {
                self.finish(index, outcome, now_us);
                self.waiting.push(Reverse((at_us, index)));
            }
        }
    }

    /// Ends the requests that exceed the timeout.
    fn expire(&mut self) {
        let now_us = self.context.plan.now_us();
        let deadline_us = now_us.saturating_sub(us(self.context.plan.timeout));
        for index in 0..self.users.len() {
            let Some(user) = self.users.get(index) else { return };
            if user.phase != Phase::Idle && user.start_us <= deadline_us {
                self.finish(index, Outcome::Timeout, now_us);
                self.waiting.push(Reverse((now_us, index)));
            }
        }
        match &self.link {
            Link::Connecting { .. } => self.link = Link::Closed,
            // A peer that may have vanished, or a connection that was for one request.
            Link::Open(open)
                if open.heard_us <= deadline_us || self.context.plan.connection_per_request =>
            {
                self.lose(Outcome::Timeout);
            }
            Link::Open(_) | Link::Closed => {}
        }
        self.leave();
        self.ready
            .retain(|index| self.users.get(*index).is_some_and(|user| user.phase == Phase::Ready));
        self.is_watched = false;
    }

    /// Lets the thread's sweep wake the task when the oldest request exceeds the timeout. A start that is too early
    /// does no harm, so it is set only once until then.
    fn watch(&mut self) {
        let is_busy = self.in_flight > 0 || !self.ready.is_empty();
        if is_busy == self.is_watched {
            return;
        }
        self.is_watched = is_busy;
        if !is_busy {
            return self.context.slot.end();
        }
        let starts = self.users.iter().filter(|user| user.phase != Phase::Idle);
        if let Some(oldest_us) = starts.map(|user| user.start_us).min() {
            self.context.slot.begin(oldest_us);
        }
    }

    fn user_of(&mut self, slot: usize) -> Option<&mut User> {
        self.by_slot.get(slot).and_then(|index| self.users.get_mut(*index))
    }

    fn record(&self, index: usize, outcome: Outcome, end_us: u64, bytes: Traffic) {
        let Some(user) = self.users.get(index) else { return };
        let sample = Sample {
            from_us: user.from_us,
            start_us: user.start_us,
            end_us,
            outcome,
            bytes,
            queued: user.queued,
            detail: Detail {
                status: user.status,
                connect_us: user.connect_us,
                first_byte_us: user.first_byte_us,
                messages: user.messages.as_ref().map_or(0, |messages| messages.count),
                request: user
                    .session
                    .as_ref()
                    .filter(|_| outcome != Outcome::Unsent)
                    .map(Session::request),
                user: user.free.user,
                users: self.context.plan.begun.load(Ordering::Relaxed),
            },
        };
        self.context.state.record(self.context.plan.window.measures(user.from_us), &sample);
    }
}

/// Whether a whole response was received.
fn is_complete(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Good | Outcome::Status(_) | Outcome::BodyMismatch)
}

impl User {
    fn new(index: usize, expect: Option<&[u8]>, session: Option<Session>) -> Self {
        Self {
            free: IdleUser { user: index, made: 0, since_us: 0 },
            next: None,
            phase: Phase::Idle,
            from_us: 0,
            start_us: 0,
            queued: false,
            turn: 0,
            status: 0,
            connect_us: 0,
            first_byte_us: 0,
            search: expect.map(Search::new),
            session,
            captured: Captured::default(),
            messages: None,
        }
    }

    /// Prepares for the next response, to a request with token number `turn`.
    fn begin(&mut self, turn: usize) {
        self.turn = turn;
        self.phase = Phase::Ready;
        if let Some(session) = &self.session {
            (self.search, self.captured) = (session.search(), session.capture());
        } else if let Some(search) = &mut self.search {
            search.restart();
        }
        self.messages = self.messages.take().map(|_| Messages::default());
    }

    /// The user's request; `shared`: the request of users without a scenario.
    fn prepared<'p>(&'p self, shared: &'p Prepared) -> &'p Prepared {
        self.session.as_ref().map_or(shared, Session::prepared)
    }

    /// The outcome of the complete response.
    fn outcome(&self) -> Outcome {
        Outcome::of_response(self.status, self.search.as_ref().is_none_or(|search| search.found))
    }
}
