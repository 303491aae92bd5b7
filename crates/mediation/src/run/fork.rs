//! Branches of a run: forks, and the places where they meet again.

use std::collections::VecDeque;
use std::sync::Arc;

use expression::Budget;

use super::branch::{After, At, Branch, BranchId, End, Inherited, Joined, Split, Wait, too_deep};
use super::exchange::placeholder;
use super::{Answer, Ask, AskId, Context, Event, Run, Source, Turn, Waiter};
use crate::error::{Code, Failure};
use crate::limits;
use crate::message::{Message, PropertyScope, PropertyValue};
use crate::program::{Collect, Fork, Part, Parts, Piece, Program, Scatter, SequenceId};

/// The parts that a branch waits for.
#[derive(Debug)]
pub(super) struct Gather {
    parent: BranchId,
    at: At,
    /// Parts that have not started.
    queue: VecDeque<(usize, Part)>,
    results: Vec<Option<Box<Message>>>,
    /// The last one of those that arrived.
    last: Option<usize>,
    /// Number of parts that have not ended.
    open: usize,
    enough: usize,
    timer: Option<AskId>,
    /// See [`Scatter::counter`].
    counter: Option<Box<str>>,
}

impl Gather {
    /// Hands the head and the properties of the message so far on to the next part.
    fn hand_on(
        &self,
        (number, to): (usize, &mut Message),
        parent: &Message,
        budget: &Budget,
    ) -> Result<(), Failure> {
        let Some(counter) = &self.counter else { return Ok(()) };
        let last = self.last.and_then(|last| self.results.get(last)?.as_deref());
        to.continue_as(last.unwrap_or(parent), budget)?;
        to.set(PropertyScope::Synapse, counter, PropertyValue::count(number), budget)
    }
}

/// The place, the common value of the messages, and their fork.
pub(super) type AggregateKey = (At, Option<Arc<str>>, Option<u32>);

/// Messages that wait at an `aggregate`.
#[derive(Debug, Default)]
pub(super) struct Aggregate {
    waiting: Option<Waiting>,
    timer: Option<AskId>,
    is_complete: bool,
}

/// Position of a message among the parts of forks.
type Order = Box<[(u32, usize)]>;

/// State of messages that wait.
#[derive(Debug)]
struct Waiting {
    /// The branch of the last of them, with the message of the first.
    branch: Box<Branch>,
    first: Order,
    last: Order,
    pieces: Vec<(Order, Result<Piece, Failure>)>,
}

impl Aggregate {
    /// Whether messages wait.
    pub(super) fn is_open(&self) -> bool {
        self.waiting.is_some()
    }

    /// Adds a message, of which only a piece is kept unless it is the first. Returns the number of those that wait.
    fn add(
        &mut self,
        mut branch: Box<Branch>,
        piece: Result<Piece, Failure>,
        budget: &Budget,
    ) -> usize {
        let order = branch.split_order();
        let Some(waiting) = &mut self.waiting else {
            let (first, last) = (order.clone(), order.clone());
            self.waiting = Some(Waiting { branch, first, last, pieces: vec![(order, piece)] });
            return 1;
        };
        if order < waiting.first {
            std::mem::swap(&mut branch.message, &mut waiting.branch.message);
            waiting.first.clone_from(&order);
        }
        if order >= waiting.last {
            std::mem::swap(&mut branch.message, &mut waiting.branch.message);
            std::mem::swap(&mut branch, &mut waiting.branch);
            waiting.last.clone_from(&order);
        }
        branch.message.release(budget);
        waiting.pieces.push((order, piece));
        waiting.pieces.len()
    }
}

/// The parts of a fork that have not started.
#[derive(Debug)]
pub(super) struct Unstarted {
    parts: Box<dyn Parts>,
    id: Option<Box<str>>,
    /// The fork's number in the run.
    fork: u32,
    total: usize,
    inherited: Inherited,
    handlers: Vec<SequenceId>,
    after: Arc<After>,
    /// The running part of a sequential fork.
    active: Option<BranchId>,
    is_sequential: bool,
}

impl Unstarted {
    pub(super) fn left(&self) -> usize {
        self.parts.left()
    }

    /// The next part as a branch.
    fn next(
        &mut self,
        id: BranchId,
        program: &Program,
        budget: &Budget,
    ) -> Result<Option<Box<Branch>>, Failure> {
        let index = self.total.saturating_sub(self.parts.left());
        let Some(mut part) = self.parts.next(budget)? else { return Ok(None) };
        let name = match &self.id {
            Some(id) => format!("messageSequence.{id}"),
            None => "messageSequence".to_owned(),
        };
        let place = [&*index.to_string(), "/", &*self.total.to_string()].concat();
        let value = PropertyValue::new(place);
        part.message.set(PropertyScope::Synapse, &name, value, budget)?;
        let mut child = Branch::of_part(id, part, &self.inherited, program);
        child.handlers.clone_from(&self.handlers);
        // One with an endpoint of its own ends there.
        child.after = Some(Arc::clone(&self.after)).filter(|_| child.end == End::Nothing);
        let (id, fork, total) = (self.id.clone(), self.fork, self.total);
        child.splits.push(Split { id, fork, part: index, total });
        Ok(Some(child))
    }

    /// The common state of its parts, for the error handler of a part that could not be made.
    fn into_rest(self, id: BranchId) -> Box<Branch> {
        let message = self.parts.rest().unwrap_or_else(placeholder);
        let mut branch = Branch::new(id, message, Source::Request, End::Nothing);
        branch.handlers = self.handlers;
        branch
    }
}

/// Drops parts that will not be made, and releases the charges of these and of their common message.
fn release(mut parts: Box<dyn Parts>, budget: &Budget) {
    budget.release_memory(parts.bytes());
    parts.each(&mut |message| std::mem::replace(message, *placeholder()).release(budget));
}

impl Run {
    pub(super) fn fork(&mut self, branch: Box<Branch>, fork: Fork) -> Turn {
        if !self.has_room(fork.parts.left()) {
            return Turn::Gone;
        }
        let is_deep = branch.splits.len() >= limits::SEQUENCE_DEPTH_MAX;
        let after = if is_deep { Err(too_deep()) } else { branch.after() };
        let after = match after {
            Ok(after) => after,
            Err(failure) => {
                release(fork.parts, &self.budget);
                return Turn::Failed(branch, failure);
            }
        };
        let number = self.new_id();
        self.queues.push(Unstarted {
            total: fork.parts.left(),
            parts: fork.parts,
            id: fork.id,
            fork: number,
            inherited: branch.inherited(),
            handlers: branch.all_handlers(),
            after,
            active: None,
            is_sequential: fork.sequential,
        });
        if fork.continues {
            return Turn::Go(branch);
        }
        self.leave(&branch);
        branch.message.release(&self.budget);
        Turn::Gone
    }

    pub(super) fn scatter(
        &mut self,
        mut branch: Box<Branch>,
        at: At,
        scatter: Scatter,
        context: Context<'_>,
    ) -> Turn {
        let total = scatter.parts.len();
        if !self.has_room(total) {
            return Turn::Gone;
        }
        if total == 0 {
            branch.joined = Some((at, Joined::Parts(Vec::new())));
            return Turn::Go(branch);
        }
        let id = self.new_id();
        let timer = scatter.timeout_ms.map(|ms| self.new_ask(Waiter::Gather(id), Ask::Timer(ms)));
        let mut gather = Gather {
            parent: branch.id,
            at,
            queue: scatter.parts.into_iter().enumerate().collect(),
            results: (0..total).map(|_| None).collect(),
            last: None,
            open: total,
            enough: scatter.enough.unwrap_or(total).min(total),
            timer,
            counter: scatter.counter,
        };
        let inherited = branch.inherited();
        let at_once = if scatter.parallel { total } else { 1 };
        for (index, mut part) in gather.queue.drain(..at_once).collect::<Vec<_>>() {
            let next = (index, &mut *part.message);
            if let Err(failure) = gather.hand_on(next, &branch.message, &self.budget) {
                return Turn::Failed(branch, failure);
            }
            let mut child = Branch::of_part(self.new_id(), part, &inherited, context.program);
            child.owner = Some((id, index));
            self.start(child);
        }
        self.gathers.insert(id, gather);
        branch.wait = Wait::Scatter;
        self.branches.insert(branch.id, branch);
        Turn::Gone
    }

    pub(super) fn start(&mut self, branch: Box<Branch>) {
        self.ready.push_back(branch.id);
        self.branches.insert(branch.id, branch);
    }

    /// Whether a part that may start takes so long to make that it is not made on the thread of a worker.
    pub(super) fn starts_long(&self) -> bool {
        self.queues.iter().any(|queue| queue.parts.is_long() && self.may_start(queue))
    }

    /// Starts the next part of each fork that may go on. Returns whether one started.
    pub(super) fn start_queued(&mut self, context: Context<'_>) -> bool {
        let mut has_started = false;
        for mut queue in std::mem::take(&mut self.queues) {
            if !self.may_start(&queue) {
                self.queues.push(queue);
                continue;
            }
            let id = self.new_id();
            has_started = true;
            match queue.next(id, context.program, &self.budget) {
                Ok(Some(child)) => {
                    queue.active = Some(id);
                    self.start(child);
                    self.queues.push(queue);
                }
                Ok(None) => release(queue.parts, &self.budget),
                Err(failure) => {
                    self.budget.release_memory(queue.parts.bytes());
                    if let Turn::Go(handled) = self.fail(queue.into_rest(id), failure, context) {
                        self.start(handled);
                    }
                }
            }
        }
        has_started
    }

    /// For a sequential fork: whether the last part that started is done, or was sent. For another one: whether the
    /// host would send the next part's messages.
    fn may_start(&self, queue: &Unstarted) -> bool {
        if queue.is_sequential {
            let is_sent = |wait: &Wait| matches!(wait, Wait::Send { .. } | Wait::OneWay { .. });
            let active = queue.active.and_then(|active| self.branches.get(&active));
            return active.is_none_or(|branch| is_sent(&branch.wait));
        }
        // The client's response does not wait for messages whose answers are not needed.
        let counts = |waiter: &&Waiter| matches!(waiter, Waiter::Branch { one_way: false, .. });
        self.asks.len() < self.exchanges_max
            || self.asks.values().filter(counts).count() < self.exchanges_max
    }

    /// Whether so many more may be alive; else everything ends, since a bomb of forks would go on otherwise.
    pub(super) fn has_room(&mut self, parts: usize) -> bool {
        let queued: usize = self.queues.iter().map(Unstarted::left).sum();
        let alive = self.branches.len().saturating_add(self.collected).saturating_add(queued);
        if alive.saturating_add(parts) <= limits::PARTS_MAX {
            return true;
        }
        let message = format!("more than {} branches of a message", limits::PARTS_MAX);
        self.failure.get_or_insert(Failure::new(Code::MEDIATION, message));
        self.branches.clear();
        self.ready.clear();
        self.asks.clear();
        self.gathers.clear();
        self.aggregates.clear();
        self.collected = 0;
        self.queues.clear();
        self.events.retain(|event| !matches!(event, Event::Ask(..)));
        false
    }

    /// A part is at its end; `None`: it went elsewhere.
    pub(super) fn part_ended(&mut self, id: u32, part: usize, result: Option<Box<Message>>) {
        let Some(gather) = self.gathers.get_mut(&id) else { return };
        gather.open = gather.open.saturating_sub(1);
        if result.is_some() {
            gather.enough = gather.enough.saturating_sub(1);
            gather.last = Some(part);
        }
        if let Some(slot) = gather.results.get_mut(part) {
            *slot = result;
        }
        if gather.open == 0 || gather.enough == 0 {
            return self.gathered(id);
        }
        let Some((index, mut part)) = gather.queue.pop_front() else { return };
        let parent = gather.parent;
        let program = Arc::clone(&self.program);
        let Some(parent) = self.branches.remove(&parent) else { return };
        let next = (index, &mut *part.message);
        if let Err(failure) = gather.hand_on(next, &parent.message, &self.budget) {
            self.branches.insert(parent.id, parent);
            return self.gather_failed(id, failure);
        }
        let child_id = self.new_id();
        let mut child = Branch::of_part(child_id, part, &parent.inherited(), &program);
        child.owner = Some((id, index));
        self.branches.insert(parent.id, parent);
        self.start(child);
    }

    /// Continues the branch that waits for the parts, with those that arrived.
    pub(super) fn gathered(&mut self, id: u32) {
        let Some(gather) = self.cancel(id) else { return };
        let Some(parent) = self.branches.get_mut(&gather.parent) else { return };
        parent.wait = Wait::Nothing;
        parent.joined = Some((gather.at, Joined::Parts(gather.results)));
        self.ready.push_back(gather.parent);
    }

    /// A part failed, and so does the branch that waits for it.
    pub(super) fn gather_failed(&mut self, id: u32, failure: Failure) {
        let Some(gather) = self.cancel(id) else { return };
        let Some(parent) = self.branches.get_mut(&gather.parent) else { return };
        parent.answer = Some((AskId(0), Answer::Failed(failure, None)));
        self.ready.push_back(gather.parent);
    }

    /// Ends the remaining parts, and the exchanges that they wait for.
    fn cancel(&mut self, id: u32) -> Option<Gather> {
        let gather = self.gathers.remove(&id)?;
        if let Some(timer) = gather.timer {
            self.asks.remove(&timer);
        }
        if gather.open == 0 {
            return Some(gather);
        }
        let mut ended = vec![id];
        while let Some(id) = ended.pop() {
            let owned = self.branches.take_all(|of| of.owner.is_some_and(|(owner, _)| owner == id));
            ended.extend(self.gathers.take_all(|inner| owned.contains(&inner.parent)));
        }
        let (branches, gathers) = (&self.branches, &self.gathers);
        self.asks.retain(|waiter| match waiter {
            Waiter::Branch { id, .. } => branches.contains_key(id),
            Waiter::Gather(id) => gathers.contains_key(id),
            Waiter::Aggregate(_) => true,
        });
        Some(gather)
    }

    pub(super) fn collect(&mut self, branch: Box<Branch>, at: At, collect: Collect) -> Turn {
        let split = branch.splits.iter().rev().find(|split| split.id == collect.id);
        let split = split.map(|split| (split.fork, split.total));
        let bytes = collect.piece.as_ref().map_or(0, Piece::bytes);
        let key_bytes = collect.correlation.as_ref().map_or(0, String::len);
        // A message outside any fork is not collected.
        if split.is_none() && collect.correlation.is_none() {
            self.budget.release_memory(bytes);
            return Turn::Go(branch);
        }
        let group = split.filter(|_| collect.correlation.is_none()).map(|(fork, _)| fork);
        let key = (at, collect.correlation.map(Arc::from), group);
        if self.aggregates.contains_key(&key) {
            self.budget.release_memory(key_bytes);
        } else {
            let waiter = |key| Waiter::Aggregate(key);
            let ms = collect.timeout_ms;
            let timer = ms.map(|ms| self.new_ask(waiter(key.clone()), Ask::Timer(ms)));
            self.aggregates.insert(key.clone(), Aggregate { timer, ..Aggregate::default() });
        }
        self.leave(&branch);
        let Some(aggregate) = self.aggregates.get_mut(&key) else { return Turn::Gone };
        if aggregate.is_complete {
            branch.message.release(&self.budget);
            self.budget.release_memory(bytes);
            return Turn::Gone;
        }
        let arrived = aggregate.add(branch, collect.piece, &self.budget);
        self.collected = self.collected.saturating_add(1);
        if split.is_some_and(|(_, total)| arrived >= total)
            || collect.enough.is_some_and(|enough| arrived >= enough)
        {
            self.complete(&key);
        }
        Turn::Gone
    }

    /// Joins the messages that wait, in the order in which they were split; the first one's message continues.
    pub(super) fn complete(&mut self, key: &AggregateKey) {
        let Some(aggregate) = self.aggregates.get_mut(key) else { return };
        aggregate.is_complete = true;
        if let Some(timer) = aggregate.timer.take() {
            self.asks.remove(&timer);
        }
        let Some(waiting) = aggregate.waiting.take() else { return };
        let Waiting { branch: mut last, mut pieces, .. } = waiting;
        self.collected = self.collected.saturating_sub(pieces.len());
        pieces.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(split) = last.splits.iter().rposition(|split| Some(split.fork) == key.2) {
            last.splits.remove(split);
        }
        let pieces = pieces.into_iter().map(|(_, piece)| piece).collect();
        last.owner = None;
        last.joined = Some((key.0, Joined::Pieces(pieces)));
        self.start(last);
    }
}
