//! Questions that stages cannot answer themselves, each asked once, however many requests wait for the answer.
//!
//! A stage returns a question; the pipeline asks it, waits as long as the client does, and runs the stage again.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use base::limits::{KEY_SET_WAIT_MS_MAX, QUESTION_PAUSE_MS};
use model::{AuthFailure, Caller};
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

/// The caller, or why the token is rejected.
pub(crate) type Outcome = Result<Rc<Caller>, AuthFailure>;

/// A question of a stage.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Question {
    /// The current key set of an issuer. The follower of issuers answers with a new revision.
    KeySet { issuer: String },
    /// Whose an opaque token is. The issuers of this revision answer with an [`Outcome`].
    Token { token: Box<[u8]>, revision: u64 },
    /// The token that upstreams get with this credential. It is found among the worker's.
    BackendToken { credential: usize },
    /// Which of these users, or of those of the issuers of this revision, has this name and password, in base64. The
    /// answer is an [`Outcome`].
    Password { login: Box<[u8]>, users: u64, revision: u64 },
}

/// Credentials are never printed.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Question(..)")
    }
}

/// A worker's questions.
#[derive(Debug)]
pub(crate) struct Questions {
    all: RefCell<Vec<Rc<Asked>>>,
    /// Sends an issuer's name to the follower of issuers.
    key_sets: Sender<String>,
}

/// A question that waits for its answer, or was answered just before.
#[derive(Debug)]
pub(crate) struct Asked {
    question: Question,
    /// Until then it is not asked again, on the worker's clock.
    until_us: Cell<u64>,
    is_answered: Cell<bool>,
    outcome: RefCell<Option<Outcome>>,
    notify: Notify,
}

impl Asked {
    pub(crate) fn question(&self) -> &Question {
        &self.question
    }

    /// Waits for the answer. `None`: it is found where the stage looks.
    pub(crate) async fn answer(&self) -> Option<Outcome> {
        if !self.is_answered.get() {
            self.notify.notified().await;
        }
        self.outcome.borrow().clone()
    }

    fn end(&self, outcome: Option<Outcome>) {
        self.outcome.replace(outcome);
        self.is_answered.set(true);
        self.notify.notify_waiters();
    }
}

impl Questions {
    /// `key_sets` gets the names of issuers whose key sets are wanted; [`Questions::key_set_arrived`] reports each
    /// answer.
    pub(crate) fn new(key_sets: Sender<String>) -> Self {
        Self { all: RefCell::default(), key_sets }
    }

    /// The question, if it waits for its answer, or was answered just before.
    pub(crate) fn find(&self, question: &Question, now_us: u64) -> Option<Rc<Asked>> {
        let all = self.all.borrow();
        let same = |asked: &&Rc<Asked>| asked.question == *question;
        all.iter().find(same).filter(|asked| asked.until_us.get() > now_us).cloned()
    }

    /// Adds a question that is asked now. The caller bounds their number.
    pub(crate) fn begin(&self, question: Question, now_us: u64, until_us: u64) -> Rc<Asked> {
        let mut all = self.all.borrow_mut();
        all.retain(|asked| asked.until_us.get() > now_us || !asked.is_answered.get());
        let waits = |asked: &&Rc<Asked>| asked.question == question && !asked.is_answered.get();
        if let Some(asked) = all.iter().find(waits) {
            // Asked again: requests may still wait for the first answer.
            asked.until_us.set(until_us);
            return Rc::clone(asked);
        }
        let asked = Rc::new(Asked {
            question,
            until_us: Cell::new(until_us),
            is_answered: Cell::default(),
            outcome: RefCell::default(),
            notify: Notify::new(),
        });
        all.push(Rc::clone(&asked));
        asked
    }

    /// Wakes the requests that wait for the answer, and forgets the question.
    pub(crate) fn answer(&self, asked: &Rc<Asked>, outcome: Option<Outcome>) {
        self.all.borrow_mut().retain(|other| !Rc::ptr_eq(other, asked));
        asked.end(outcome);
    }

    /// Asks for the key set of `issuer`, unless that waits for its answer. `None`: too many questions wait to be asked.
    pub(crate) fn key_set(&self, issuer: &str, now_us: u64) -> Option<Rc<Asked>> {
        let question = Question::KeySet { issuer: issuer.to_owned() };
        if let Some(asked) = self.find(&question, now_us) {
            return Some(asked);
        }
        self.key_sets.try_send(issuer.to_owned()).ok()?;
        let until_us = now_us.saturating_add(u64::from(KEY_SET_WAIT_MS_MAX) * 1_000);
        Some(self.begin(question, now_us, until_us))
    }

    /// Wakes the requests that wait for the key set of `issuer`. It is not asked for again for `QUESTION_PAUSE_MS`, so
    /// that invalid tokens cost little.
    pub(crate) fn key_set_arrived(&self, issuer: &str, now_us: u64) {
        let is_it = |question: &Question| matches!(question, Question::KeySet { issuer: name } if name == issuer);
        for asked in self.all.borrow().iter().filter(|asked| is_it(&asked.question)) {
            asked.until_us.set(now_us.saturating_add(u64::from(QUESTION_PAUSE_MS) * 1_000));
            asked.end(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_question_is_sent_once_and_its_answer_wakes_everyone() {
        let (sender, mut receiver) = channel(8);
        let (questions, mut cx) = (Questions::new(sender), Context::from_waker(Waker::noop()));
        let asked = [questions.key_set("main", 0).unwrap(), questions.key_set("main", 10).unwrap()];
        let [mut first, mut second] = asked.each_ref().map(|asked| Box::pin(asked.answer()));
        assert!(
            first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending()
        );
        assert_eq!(receiver.try_recv().unwrap(), "main");
        assert!(receiver.try_recv().is_err(), "it is asked once");
        questions.key_set_arrived("main", 30);
        assert!(
            first.as_mut().poll(&mut cx).is_ready() && second.as_mut().poll(&mut cx).is_ready()
        );
        let just_answered = questions.key_set("main", 40).unwrap();
        assert!(pin!(just_answered.answer()).poll(&mut cx).is_ready());
        let later = questions.key_set("main", 30 + u64::from(QUESTION_PAUSE_MS) * 1_000).unwrap();
        assert!(pin!(later.answer()).poll(&mut cx).is_pending());
        assert!(receiver.try_recv().is_ok(), "it is asked again");
    }

    #[test]
    fn an_unanswered_question_is_asked_again_after_the_limit_and_both_get_the_answer() {
        let (sender, mut receiver) = channel(8);
        let (questions, mut cx) = (Questions::new(sender), Context::from_waker(Waker::noop()));
        let limit_us = u64::from(KEY_SET_WAIT_MS_MAX) * 1_000;
        let asked = [0, limit_us].map(|now_us| questions.key_set("main", now_us).unwrap());
        let [mut first, mut second] = asked.each_ref().map(|asked| Box::pin(asked.answer()));
        assert!(
            first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending()
        );
        assert!(receiver.try_recv().is_ok() && receiver.try_recv().is_ok());
        questions.key_set_arrived("main", limit_us);
        assert!(
            first.as_mut().poll(&mut cx).is_ready() && second.as_mut().poll(&mut cx).is_ready()
        );
    }

    #[test]
    fn a_full_queue_is_no_reason_to_wait() {
        let (sender, _receiver) = channel(1);
        let questions = Questions::new(sender);
        assert!(questions.key_set("a", 0).is_some());
        assert!(questions.key_set("b", 0).is_none());
    }

    #[test]
    fn the_answer_about_a_password_is_for_the_same_users_and_issuers_only() {
        let questions = Questions::new(channel(1).0);
        let question = |login: &[u8], users, revision| Question::Password {
            login: login.into(),
            users,
            revision,
        };
        questions.begin(question(b"a", 1, 1), 0, u64::MAX);
        assert!(questions.find(&question(b"a", 1, 1), 5).is_some());
        for other in [question(b"b", 1, 1), question(b"a", 2, 1), question(b"a", 1, 2)] {
            assert!(questions.find(&other, 5).is_none());
        }
        let token = Question::Token { token: b"a".as_slice().into(), revision: 1 };
        assert!(questions.find(&token, 5).is_none());
    }

    #[test]
    fn an_answered_question_is_forgotten_and_its_answer_stays_with_those_who_waited() {
        let questions = Questions::new(channel(1).0);
        let question = || Question::Token { token: Box::from(*b"x"), revision: 1 };
        let asked = questions.begin(question(), 0, u64::MAX);
        let found = questions.find(&question(), 5).unwrap();
        assert!(
            questions.find(&Question::Token { token: Box::from(*b"x"), revision: 2 }, 5).is_none()
        );
        questions.answer(&asked, Some(Err(AuthFailure::InactiveToken)));
        let mut cx = Context::from_waker(Waker::noop());
        let answer =
            pin!(found.answer()).poll(&mut cx).map(|outcome| outcome.unwrap().unwrap_err());
        assert_eq!(answer, std::task::Poll::Ready(AuthFailure::InactiveToken));
        assert!(questions.find(&question(), 5).is_none() && questions.all.borrow().is_empty());
    }
}
