//! Branches of a run: forks, and the places where they meet again.

use std::collections::VecDeque;

use expression::Budget;

use super::branch::{At, Branch, BranchId, End, Split, Wait, too_deep};
use super::{Answer, Ask, AskId, Context, Event, Run, Turn, Waiter};
use crate::{
    Code, Collect, Failure, Fork, Message, Part, PropertyScope, PropertyValue, Scatter, limits,
};

/// The parts that a branch waits for.
#[derive(Debug)]
pub(super) struct Gather {
    parent: BranchId,
    at: At,
    /// Those that have not started.
    queue: VecDeque<(usize, Part)>,
    results: Vec<Option<Message>>,
    /// The last one of those that arrived.
    last: Option<usize>,
    /// Those that have not ended.
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
        let last = self.last.and_then(|last| self.results.get(last)?.as_ref());
        to.continue_as(last.unwrap_or(parent), budget)?;
        to.set(PropertyScope::Synapse, counter, PropertyValue::count(number), budget)
    }
}

/// The place, what the messages have in common, and their fork.
pub(super) type AggregateKey = (At, Option<String>, Option<u32>);

/// Messages that wait at an `aggregate`.
#[derive(Debug, Default)]
pub(super) struct Aggregate {
    #[allow(clippy::vec_box, reason = "branches come and go in boxes")]
    waiting: Vec<Box<Branch>>,
    timer: Option<AskId>,
    is_complete: bool,
}

impl Aggregate {
    /// The messages that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Branch> {
        self.waiting.iter().map(AsRef::as_ref)
    }

    /// Whether messages wait.
    pub(super) fn is_open(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Run {
    pub(super) fn fork(&mut self, branch: Box<Branch>, fork: Fork, context: Context<'_>) -> Turn {
        if !self.has_room(fork.parts.len()) {
            return Turn::Gone;
        }
        let (number, total) = (self.new_id(), fork.parts.len());
        let name = match &fork.id {
            Some(id) => format!("messageSequence.{id}"),
            None => "messageSequence".to_owned(),
        };
        if branch.splits.len() >= limits::SEQUENCE_DEPTH_MAX {
            return Turn::Failed(branch, too_deep());
        }
        let after = match branch.after() {
            Ok(after) => after,
            Err(failure) => return Turn::Failed(branch, failure),
        };
        let mut queue = VecDeque::new();
        for (index, mut part) in fork.parts.into_iter().enumerate() {
            let value = PropertyValue::new(format!("{index}/{total}"));
            if let Err(failure) =
                part.message.set(PropertyScope::Synapse, &name, value, &self.budget)
            {
                return Turn::Failed(branch, failure);
            }
            let mut child =
                Box::new(Branch::of_part(self.new_id(), part, &branch, context.program));
            child.handlers = branch.all_handlers();
            // One with an endpoint of its own ends there.
            child.after = Some(std::sync::Arc::clone(&after)).filter(|_| child.end == End::Nothing);
            child.splits.push(Split { id: fork.id.clone(), fork: number, part: index, total });
            if fork.sequential {
                queue.push_back(child);
            } else {
                self.start(child);
            }
        }
        if let Some(first) = queue.pop_front() {
            let active = first.id;
            self.start(first);
            self.queues.push((active, queue));
        }
        if fork.continues {
            return Turn::Go(branch);
        }
        self.leave(&branch);
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
            branch.joined = Some((at, Vec::new()));
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
        let at_once = if scatter.parallel { total } else { 1 };
        for (index, mut part) in gather.queue.drain(..at_once).collect::<Vec<_>>() {
            let next = (index, &mut part.message);
            if let Err(failure) = gather.hand_on(next, &branch.message, &self.budget) {
                return Turn::Failed(branch, failure);
            }
            let mut child =
                Box::new(Branch::of_part(self.new_id(), part, &branch, context.program));
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

    /// Starts the next parts of forks whose last one is done, or was sent. Returns whether there are any.
    pub(super) fn start_queued(&mut self) -> bool {
        let mut due = Vec::new();
        let branches = &self.branches;
        self.queues.retain_mut(|(active, queue)| {
            let is_sent = |wait: &Wait| matches!(wait, Wait::Send { .. } | Wait::OneWay { .. });
            if branches.get(active).is_some_and(|branch| !is_sent(&branch.wait)) {
                return true;
            }
            let Some(next) = queue.pop_front() else { return false };
            *active = next.id;
            due.push(next);
            true
        });
        let has_started = !due.is_empty();
        due.into_iter().for_each(|branch| self.start(branch));
        has_started
    }

    /// Whether so many more may be alive; else everything ends, since a bomb of forks would go on otherwise.
    pub(super) fn has_room(&mut self, parts: usize) -> bool {
        let queued: usize = self.queues.iter().map(|(_, queue)| queue.len()).sum();
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
    pub(super) fn part_ended(&mut self, id: u32, part: usize, result: Option<Message>) {
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
        let program = std::sync::Arc::clone(&self.program);
        let Some(parent) = self.branches.remove(&parent) else { return };
        let next = (index, &mut part.message);
        if let Err(failure) = gather.hand_on(next, &parent.message, &self.budget) {
            self.branches.insert(parent.id, parent);
            return self.gather_failed(id, failure);
        }
        let child_id = self.new_id();
        let mut child = Branch::of_part(child_id, part, &parent, &program);
        child.owner = Some((id, index));
        self.branches.insert(parent.id, parent);
        self.start(Box::new(child));
    }

    /// Continues the branch that waits for the parts, with those that arrived.
    pub(super) fn gathered(&mut self, id: u32) {
        let Some(gather) = self.cancel(id) else { return };
        let Some(parent) = self.branches.get_mut(&gather.parent) else { return };
        parent.wait = Wait::Nothing;
        parent.joined = Some((gather.at, gather.results));
        self.ready.push_back(gather.parent);
    }

    /// A part failed, and so does the branch that waits for it.
    pub(super) fn gather_failed(&mut self, id: u32, failure: Failure) {
        let Some(gather) = self.cancel(id) else { return };
        let Some(parent) = self.branches.get_mut(&gather.parent) else { return };
        parent.answer = Some((AskId(0), Answer::Failed(failure, None)));
        self.ready.push_back(gather.parent);
    }

    /// Ends what is left of the parts, and what they wait for.
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
            Waiter::Branch(id) => branches.contains_key(id),
            Waiter::Gather(id) => gathers.contains_key(id),
            Waiter::Aggregate(_) => true,
        });
        Some(gather)
    }

    pub(super) fn collect(&mut self, branch: Box<Branch>, at: At, collect: Collect) -> Turn {
        let split = branch.splits.iter().rev().find(|split| split.id == collect.id);
        let split = split.map(|split| (split.fork, split.total));
        // What belongs to nothing passes.
        if split.is_none() && collect.correlation.is_none() {
            return Turn::Go(branch);
        }
        let group = split.filter(|_| collect.correlation.is_none()).map(|(fork, _)| fork);
        let key = (at, collect.correlation, group);
        if !self.aggregates.contains_key(&key) {
            let waiter = |key| Waiter::Aggregate(key);
            let ms = collect.timeout_ms;
            let timer = ms.map(|ms| self.new_ask(waiter(key.clone()), Ask::Timer(ms)));
            self.aggregates.insert(key.clone(), Aggregate { timer, ..Aggregate::default() });
        }
        self.leave(&branch);
        let Some(aggregate) = self.aggregates.get_mut(&key) else { return Turn::Gone };
        if aggregate.is_complete {
            return Turn::Gone;
        }
        aggregate.waiting.push(branch);
        self.collected = self.collected.saturating_add(1);
        let arrived = aggregate.waiting.len();
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
        let mut waiting = std::mem::take(&mut aggregate.waiting);
        self.collected = self.collected.saturating_sub(waiting.len());
        waiting.sort_by_cached_key(|branch| branch.split_order());
        let Some(mut last) = waiting.pop() else { return };
        let mut messages = waiting.into_iter().map(|branch| branch.message);
        let first = messages.next();
        let mut parts: Vec<_> = messages.map(Some).collect();
        if let Some(first) = first {
            parts.push(Some(std::mem::replace(&mut last.message, first)));
        }
        if let Some(split) = last.splits.iter().rposition(|split| Some(split.fork) == key.2) {
            last.splits.remove(split);
        }
        last.owner = None;
        last.joined = Some((key.0, parts));
        self.start(last);
    }
}
