//! The trait of mediators, and their requests to the run.

use std::collections::VecDeque;
use std::fmt;

use expression::{BodyUse, Budget};

use crate::error::Failure;
use crate::limits;
use crate::message::{Message, PropertyScope, PropertyValue};
use crate::program::{EndpointId, Scene, SequenceId};

/// One step of a sequence, compiled from its element.
pub trait Mediator: fmt::Debug + Send + Sync {
    /// Its use of the body. The run asks for the body of a message only if a step requires it.
    fn body_use(&self) -> BodyUse {
        BodyUse::Untouched
    }

    /// The sequences that it may enter, so that their needs are known at load.
    fn enters(&self) -> Vec<SequenceId> {
        Vec::new()
    }

    /// Approximate cost of mediating one byte of the body, in nanoseconds. See [`crate::Event::Heavy`].
    fn ns_per_byte(&self) -> u64 {
        match self.body_use() {
            BodyUse::Untouched => 0,
            BodyUse::Read => limits::READ_NS_PER_BYTE,
            BodyUse::Rewritten | _ => limits::REWRITE_NS_PER_BYTE,
        }
    }

    /// The same for [`Mediator::join`], and all bodies that it joins.
    fn join_ns_per_byte(&self) -> u64 {
        self.ns_per_byte()
    }

    /// Whether it may take long, regardless of the size of the body. See [`crate::Event::Heavy`].
    fn is_long(&self) -> bool {
        false
    }

    /// Whether a step that runs out of steps has changed nothing by then. If so, one that takes longer on the thread of
    /// a worker than was estimated is ended there, and repeated as a heavy one.
    fn can_repeat(&self) -> bool {
        false
    }

    /// Visits the properties that it sets or removes, and whether they are `true` then. `None`: the message decides.
    fn sets(&self, _each: &mut dyn FnMut(PropertyScope, &str, Option<bool>)) {}

    /// Where it sends the message itself, if it does.
    fn sends_to(&self) -> Option<To> {
        None
    }

    /// Set if it acts on nothing but the way of the message. See [`Program::passes_through`].
    ///
    /// [`Program::passes_through`]: crate::Program::passes_through
    fn routing(&self) -> Option<Routing> {
        None
    }

    /// The sequence that [`Routing::Chooses`] enters, if it enters one.
    ///
    /// # Errors
    /// As [`Mediator::mediate`].
    fn choose(
        &self,
        _scene: &Scene<'_>,
        _message: &Message,
    ) -> Result<Option<SequenceId>, Failure> {
        Ok(None)
    }

    /// Acts on the message.
    ///
    /// # Errors
    /// The message cannot be mediated; the error handler of the sequence takes over.
    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure>;

    /// Combines `parts` with the message, after [`Next::Exchange`] or [`Next::Scatter`] brought them together. `None`:
    /// a part that ended elsewhere.
    ///
    /// # Errors
    /// As [`Mediator::mediate`].
    fn join(
        &self,
        _scene: &Scene<'_>,
        _message: &mut Message,
        _parts: Vec<Option<Box<Message>>>,
    ) -> Result<Next, Failure> {
        Ok(Next::Continue)
    }

    /// Combines the collected values of the messages that [`Next::Collect`] brought together: the first continues, as
    /// `message`.
    ///
    /// # Errors
    /// As [`Mediator::mediate`].
    fn complete(
        &self,
        _scene: &Scene<'_>,
        _message: &mut Message,
        _pieces: Vec<Result<Piece, Failure>>,
    ) -> Result<Next, Failure> {
        Ok(Next::Continue)
    }

    /// Whether the response to its message counts as a success of this step. The body may still stream.
    ///
    /// # Errors
    /// It is one; the budget.
    fn check_response(
        &self,
        _sent: &Message,
        _response: &Message,
        _budget: &Budget,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// The failure of this step if the exchange of a part failed.
    fn exchange_failed(&self, failure: Failure) -> Failure {
        failure
    }
}

/// How a run continues after a mediator.
#[derive(Debug)]
pub enum Next {
    /// With the next mediator.
    Continue,
    /// With this sequence, and then with the next mediator.
    Enter(SequenceId),
    /// The same for a sequence template.
    Call(Call),
    /// With the next mediator. The message is sent; its response continues on its own, in `receive` or in the sequence
    /// for responses.
    Send { to: To, receive: Option<SequenceId> },
    /// When the response to `part` is there: with [`Mediator::join`]. Without a part the message itself is sent, and
    /// the response takes its place.
    Exchange { to: To, part: Option<Box<Message>> },
    /// Every part continues on its own.
    Fork(Fork),
    /// When all parts are at their end: with [`Mediator::join`].
    Scatter(Scatter),
    /// The message waits for others of its kind; the last one continues with [`Mediator::complete`].
    Collect(Box<Collect>),
    /// The message is the response to the client.
    Respond,
    /// The message continues in the sequence for responses.
    Loopback,
    /// The message ends here.
    Drop,
}

impl Next {
    /// The choice of [`Mediator::choose`].
    pub(crate) fn chosen(sequence: Option<SequenceId>) -> Self {
        sequence.map_or(Self::Continue, Self::Enter)
    }

    /// Visits the messages that the mediator made of its own.
    pub(crate) fn parts(&mut self, mut each: impl FnMut(&mut Message)) {
        match self {
            Self::Exchange { part: Some(part), .. } => each(part),
            Self::Fork(Fork { parts, .. }) => parts.each(&mut each),
            Self::Scatter(Scatter { parts, .. }) => {
                parts.iter_mut().for_each(|part| each(&mut part.message));
            }
            Self::Exchange { part: None, .. }
            | Self::Continue
            | Self::Enter(_)
            | Self::Call(_)
            | Self::Send { .. }
            | Self::Collect(_)
            | Self::Respond
            | Self::Loopback
            | Self::Drop => {}
        }
    }

    /// Bytes charged for its state beside these messages.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Fork(fork) => fork.parts.bytes(),
            Self::Collect(collect) => {
                let correlation = collect.correlation.as_ref().map_or(0, String::len);
                collect.piece.as_ref().map_or(0, Piece::bytes).saturating_add(correlation)
            }
            Self::Continue
            | Self::Enter(_)
            | Self::Call(_)
            | Self::Send { .. }
            | Self::Exchange { .. }
            | Self::Scatter(_)
            | Self::Respond
            | Self::Loopback
            | Self::Drop => 0,
        }
    }
}

/// Effect of a mediator that only directs messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// [`Mediator::choose`] returns the sequence that is entered.
    Chooses,
    /// A request is sent, and its response continues in the sequence for responses; without an address, a response goes
    /// back to the client.
    Sends(To),
    /// A request is sent, and the response takes its place.
    Calls(To),
    /// The message goes back to the client.
    Returns,
}

/// A call of a sequence template.
#[derive(Debug)]
pub struct Call {
    pub sequence: SequenceId,
    /// What `$func:name` reads.
    pub parameters: Vec<(String, PropertyValue)>,
    /// Takes over if the template fails.
    pub on_error: Option<SequenceId>,
}

/// Messages that go their own ways.
#[derive(Debug)]
pub struct Fork {
    pub parts: Box<dyn Parts>,
    /// Key by which [`Collect`] finds them.
    pub id: Option<Box<str>>,
    /// Whether the original continues with the next mediator.
    pub continues: bool,
    /// Whether each starts when the last one is done, or was sent and is not waited for.
    pub sequential: bool,
}

/// Messages that are made one after the other, each when it starts, so that those that wait take no memory.
pub trait Parts: fmt::Debug + Send {
    /// How many are left.
    fn left(&self) -> usize;

    /// The next one.
    ///
    /// # Errors
    /// The budget; no other part starts then.
    fn next(&mut self, budget: &Budget) -> Result<Option<Part>, Failure>;

    /// Whether the next one takes so long that it is not made on the thread of a worker.
    fn is_long(&self) -> bool {
        false
    }

    /// The common state of all parts, after the last one: the message for an error handler.
    fn rest(self: Box<Self>) -> Option<Box<Message>>;

    /// Visits the messages that it holds.
    fn each(&mut self, each: &mut dyn FnMut(&mut Message));

    /// Bytes charged for its other state.
    fn bytes(&self) -> usize;
}

/// Parts made already.
impl Parts for VecDeque<Part> {
    fn left(&self) -> usize {
        self.len()
    }

    fn next(&mut self, _: &Budget) -> Result<Option<Part>, Failure> {
        Ok(self.pop_front())
    }

    fn rest(self: Box<Self>) -> Option<Box<Message>> {
        self.into_iter().next().map(|part| part.message)
    }

    fn each(&mut self, each: &mut dyn FnMut(&mut Message)) {
        self.iter_mut().for_each(|part| each(&mut part.message));
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// Messages that come back.
#[derive(Debug)]
pub struct Scatter {
    pub parts: Vec<Part>,
    /// Whether all start at once, instead of one after the other.
    pub parallel: bool,
    /// The parts that suffice.
    pub enough: Option<usize>,
    /// Longest wait for the others, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The property that counts the parts, one after the other, as if they were one message: each begins with the head
    /// and the properties that the one before it had at its end. The head and properties of the last are for
    /// [`Mediator::join`].
    pub counter: Option<Box<str>>,
}

/// A message of a fork.
#[derive(Debug)]
pub struct Part {
    pub message: Box<Message>,
    pub sequence: Option<SequenceId>,
    /// Where it is sent at the end of the sequence.
    pub to: Option<To>,
}

/// Values of a message that an `aggregate` keeps.
#[derive(Debug)]
pub struct Piece {
    /// JSON, or elements one after the other.
    pub text: Vec<u8>,
    pub is_json: bool,
    /// Their number.
    pub elements: usize,
}

impl Piece {
    pub(crate) fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// When the messages that come to an `aggregate` are complete.
#[derive(Debug)]
pub struct Collect {
    /// Value of this message; a failure fails the completion.
    pub piece: Result<Piece, Failure>,
    /// The fork whose parts belong together.
    pub id: Option<Box<str>>,
    /// Common value of messages that belong together, instead of their fork.
    pub correlation: Option<String>,
    /// The number that suffices; without one, all parts of the fork.
    pub enough: Option<usize>,
    /// Longest wait after the first, in milliseconds.
    pub timeout_ms: Option<u64>,
}

/// Where a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Endpoint(EndpointId),
    /// A request to its own address (`To`); a response back to the client.
    Implied,
}
