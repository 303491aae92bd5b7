//! Takes messages through sequences.
//!
//! A [`Run`] owns a message and everything made of it: the branches of forks, the responses to sent messages, the
//! aggregates that wait. The host drives it: [`Run::next`] runs until the host is needed, and [`Run::answer`] brings
//! the answer to its request. Several asks may be outstanding. Nothing outlives its run.

mod addressing;
mod ask;
mod branch;
pub(crate) mod exchange;
mod few;
mod fork;
mod pass_through;
mod target;
mod turn;
mod unreported;

use std::sync::Arc;

use base::limits::MEDIATED_EXCHANGES_MAX;
use expression::{BodyUse, Budget};
use model::Blame;

use crate::error::Failure;
use crate::message::{Arrival, Direction, Message, Properties};
use crate::program::{EndpointId, Environment, Flow, Program};

pub(crate) use branch::At;
use branch::{Branch, BranchId, End};
use few::{Few, Queue};
use fork::{Aggregate, AggregateKey, Gather, Unstarted};
use unreported::Unreported;

pub use ask::{Answer, Ask, Exchange, Source};
pub use exchange::{FORCE_ERROR_ON_SOAP_FAULT, HELD_WHEN_SENT};
pub use pass_through::{Detour, Passage};
pub(crate) use target::ENDPOINT_SET;
pub use target::Target;

/// A question to the host, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(u32);

/// Why a run stopped.
#[derive(Debug)]
pub enum Event {
    /// The host performs this and calls [`Run::answer`]; other branches may go on meanwhile.
    Ask(AskId, Ask),
    /// The response to the client; there is at most one. A body that still streams is that of the source.
    Respond(Box<Message>, Source),
    /// The client gets an empty 202 now, and the run goes on: the message asked for that (`FORCE_SC_ACCEPTED`), or the
    /// response to the sent message is not needed (`OUT_ONLY`). Comes at most once, and instead of the other two.
    Accepted,
    /// The run failed without a response, since no error handler responded. Comes at most once, and not after
    /// [`Event::Respond`].
    Failed(Failure),
    /// The next step may take long: [`Run::next_heavy`] runs it.
    Heavy,
    /// No branch can go on until an answer comes.
    Waiting,
    /// Nothing is left to do. Without a response the client gets an empty one: 202.
    Done,
}

/// A message's way through sequences, with everything that becomes of it.
#[derive(Debug)]
pub struct Run {
    program: Arc<Program>,
    flow: Flow,
    /// Who sent the message that it began with.
    sender: Blame,
    /// One for everything.
    budget: Budget,
    branches: Few<BranchId, Box<Branch>>,
    /// Branches that can go on, in this order.
    ready: Queue<BranchId>,
    asks: Few<AskId, Waiter>,
    gathers: Few<u32, Gather>,
    aggregates: Few<AggregateKey, Aggregate>,
    /// The messages that wait in them.
    collected: usize,
    /// Forks with parts that have not started.
    queues: Vec<Unstarted>,
    /// See [`Run::limit_exchanges`].
    exchanges_max: usize,
    /// Last number of a branch, ask or fork.
    last_id: u32,
    events: Queue<Event>,
    has_responded: bool,
    /// By [`Event::Accepted`].
    is_accepted: bool,
    /// The first unhandled failure.
    failure: Option<Failure>,
    /// The first whose handler ended without a response.
    handled: Option<Failure>,
    unreported: Unreported,
    /// The steps that were charged when the last event was returned.
    charged: u64,
    /// An error handler got more than the budget.
    has_reserve: bool,
}

/// A request that a run would send, and that its host sent before there was one. See [`crate::Passage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The step of the flow that calls; `None`: the response continues in the sequence for responses.
    pub(crate) called: Option<At>,
    pub(crate) endpoint: EndpointId,
}

/// Who gets an answer.
#[derive(Debug)]
enum Waiter {
    /// `one_way`: the answer is not needed.
    Branch {
        id: BranchId,
        one_way: bool,
    },
    Gather(u32),
    Aggregate(AggregateKey),
}

/// Result of a branch's turn.
enum Turn {
    Go(Box<Branch>),
    /// It waits, or it ended.
    Gone,
    Failed(Box<Branch>, Failure),
}

/// Context of a run between two events.
#[derive(Clone, Copy)]
struct Context<'c> {
    program: &'c Program,
    environment: &'c dyn Environment,
    /// Whether the thread is one for heavy work.
    is_heavy: bool,
}

impl Run {
    /// A run of `flow` for a request, boxed, since hosts move it about. A flow without a `faultSequence` has the
    /// sequence `fault`, if there is one.
    #[must_use]
    pub fn new(
        program: Arc<Program>,
        flow: Flow,
        message: Box<Message>,
        budget: Budget,
    ) -> Box<Self> {
        let (mut run, first) = Self::begun(program, flow, message, budget);
        run.start(first);
        run
    }

    /// A run of `flow` for a request that was `sent`, with the ask that it waits for: the response. Head and body of
    /// the request are with the host.
    #[must_use]
    pub fn sent(
        program: Arc<Program>,
        flow: Flow,
        (properties, arrival): (Properties, Arrival),
        budget: Budget,
        sent: Sent,
    ) -> (Box<Self>, AskId) {
        let mut message = exchange::placeholder();
        (message.properties, message.arrival) = (properties, arrival);
        let (mut run, mut first) = Self::begun(program, flow, message, budget);
        first.wait_for(sent);
        let ask = AskId(run.new_id());
        run.asks.insert(ask, Waiter::Branch { id: first.id, one_way: false });
        run.branches.insert(first.id, first);
        (run, ask)
    }

    fn begun(
        program: Arc<Program>,
        flow: Flow,
        message: Box<Message>,
        budget: Budget,
    ) -> (Box<Self>, Box<Branch>) {
        let flow = Flow { fault: flow.fault.or_else(|| program.sequence("fault")), ..flow };
        let mut message = message;
        message.body.set_mapping(program.mapping.clone());
        let sender = match message.direction {
            Direction::Request => Blame::Client,
            Direction::Response => Blame::Upstream,
        };
        let mut first = Branch::new(0, message, Source::Request, End::Request);
        first.handlers.extend(flow.fault);
        first.restart(&program, flow.request);
        let run = Box::new(Self {
            program,
            flow,
            sender,
            charged: budget.steps_used(),
            budget,
            branches: Few::default(),
            ready: Queue::default(),
            asks: Few::default(),
            gathers: Few::default(),
            aggregates: Few::default(),
            collected: 0,
            queues: Vec::new(),
            exchanges_max: MEDIATED_EXCHANGES_MAX,
            last_id: 0,
            events: Queue::default(),
            has_responded: false,
            is_accepted: false,
            failure: None,
            handled: None,
            unreported: Unreported::default(),
            has_reserve: false,
        });
        (run, first)
    }

    /// Runs until the host is needed.
    pub fn next(&mut self, environment: &dyn Environment) -> Event {
        self.go(environment, false)
    }

    /// As [`Run::next`], but never returns [`Event::Heavy`]: for a thread that may take its time.
    pub fn next_heavy(&mut self, environment: &dyn Environment) -> Event {
        self.go(environment, true)
    }

    /// Whether parts of forks have not started.
    #[must_use]
    pub fn has_unstarted(&self) -> bool {
        !self.queues.is_empty()
    }

    /// No further part of a fork starts while this many messages are sent, at least 1.
    pub fn limit_exchanges(&mut self, most: usize) {
        self.exchanges_max = most.clamp(1, MEDIATED_EXCHANGES_MAX);
    }

    /// Brings the answer to an ask. An answer that is not awaited any more is ignored. If the host made views of its
    /// body, the run is charged for them.
    pub fn answer(&mut self, ask: AskId, answer: Answer) {
        match self.asks.remove(&ask) {
            Some(Waiter::Branch { id, .. }) => {
                if let Some(branch) = self.branches.get_mut(&id) {
                    let answer = answer.charged(&self.budget);
                    branch.answer = Some((ask, answer));
                    self.ready.push_back(id);
                }
            }
            Some(Waiter::Gather(id)) => self.gathered(id),
            Some(Waiter::Aggregate(key)) => self.complete(&key),
            None => {}
        }
    }

    /// The properties of the branch that waits for `ask`: those of the message that is sent.
    #[must_use]
    pub fn properties(&self, ask: AskId) -> Option<&Properties> {
        let Waiter::Branch { id, .. } = self.asks.get(&ask)? else { return None };
        Some(&self.branches.get(id)?.message.properties)
    }

    /// Whether a message may still read the body of the response to `ask`.
    #[must_use]
    pub fn reads(&self, ask: AskId) -> bool {
        self.branches.values().any(|branch| {
            let is_its = branch.source == Source::Response(ask)
                && branch.message.body.state() == BodyUse::Untouched;
            is_its || branch.answer.as_ref().is_some_and(|(of, _)| *of == ask)
        })
    }

    /// The memory of its messages, in bytes: the views that mediators made of bodies, by estimate.
    #[must_use]
    pub fn bytes_used(&self) -> u64 {
        self.budget.bytes_used()
    }

    /// The steps that it was charged.
    #[must_use]
    pub fn steps_used(&self) -> u64 {
        self.budget.steps_used()
    }

    /// Whether nothing is left to do: [`Run::next`] returns [`Event::Done`] for ever.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.events.is_empty()
            && self.branches.is_empty()
            && self.collected == 0
            && self.queues.is_empty()
            && self.failure.is_none()
            && self.handled.is_none()
            && self.unreported.is_empty()
    }

    /// Logs unreported results of a run that does not go on, in a line for all parts of the message. A finished run has
    /// done so already.
    pub fn report(&mut self, environment: &dyn Environment) {
        self.unreported.report(environment);
    }

    /// The rest of its budget.
    #[must_use]
    pub fn budget_left(&self) -> Budget {
        Budget::new(self.budget.steps_left(), self.budget.bytes_left())
    }

    /// Charges work that the host did for it. Without steps, the next charge fails.
    pub fn charge_steps(&mut self, steps: u64) {
        let _ = self.budget.charge_steps(steps);
    }

    /// The artefacts that it runs.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }
}
