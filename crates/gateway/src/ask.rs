//! Questions that stages cannot answer themselves, each asked once, however many requests wait for the answer.
//!
//! A stage returns what it needs to know; the pipeline asks, waits as long as the client does, and runs the stage
//! again.

use std::cell::RefCell;
use std::rc::Rc;

use base::limits::{KEY_SET_WAIT_MS_MAX, QUESTION_PAUSE_MS};
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

/// What a stage needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The current key set of an issuer, because a token names a key that the known one lacks. The answer is a
    /// new revision.
    KeySet { issuer: String },
}

/// A worker's questions.
#[derive(Debug)]
pub(crate) struct Questions {
    pending: RefCell<Vec<Pending>>,
    sender: Sender<Question>,
}

#[derive(Debug)]
struct Pending {
    question: Question,
    /// Until then it is not asked again, on the worker's clock.
    until_us: u64,
    /// `None` once it was answered.
    answer: Option<Rc<Notify>>,
}

impl Questions {
    /// `sender` passes the questions on; [`Questions::answered`] reports each answer.
    pub(crate) fn new(sender: Sender<Question>) -> Self {
        Self { pending: RefCell::default(), sender }
    }

    /// Ready when `question` is answered; at once if it was answered just before, or if too many are pending.
    pub(crate) async fn ask(&self, question: Question, now_us: u64) {
        if let Some(answer) = self.answer(question, now_us) {
            answer.notified().await;
        }
    }

    fn answer(&self, question: Question, now_us: u64) -> Option<Rc<Notify>> {
        let mut pending = self.pending.borrow_mut();
        let known = pending.iter().find(|asked| asked.question == question);
        if let Some(asked) = known.filter(|asked| asked.until_us > now_us) {
            return asked.answer.clone();
        }
        self.sender.try_send(question.clone()).ok()?;
        let until_us = now_us.saturating_add(u64::from(KEY_SET_WAIT_MS_MAX) * 1_000);
        // Asked again: requests may still wait for the first answer.
        let answer = known.and_then(|asked| asked.answer.clone()).unwrap_or_default();
        pending.retain(|asked| asked.question != question && asked.until_us > now_us);
        pending.push(Pending { question, until_us, answer: Some(Rc::clone(&answer)) });
        Some(answer)
    }

    /// Wakes the requests that wait for the answer. The question is not asked again for
    /// `QUESTION_PAUSE_MS`, so that invalid tokens cost little.
    pub(crate) fn answered(&self, question: &Question, now_us: u64) {
        let mut pending = self.pending.borrow_mut();
        for asked in pending.iter_mut().filter(|asked| asked.question == *question) {
            if let Some(answer) = asked.answer.take() {
                answer.notify_waiters();
            }
            asked.until_us = now_us.saturating_add(u64::from(QUESTION_PAUSE_MS) * 1_000);
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
        let key_set = || Question::KeySet { issuer: "main".to_owned() };
        let mut first = pin!(questions.ask(key_set(), 0));
        let mut second = pin!(questions.ask(key_set(), 10));
        assert!(
            first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending()
        );
        assert_eq!(receiver.try_recv().unwrap(), key_set());
        assert!(receiver.try_recv().is_err(), "it is asked once");
        questions.answered(&key_set(), 30);
        assert!(first.poll(&mut cx).is_ready() && second.poll(&mut cx).is_ready());
        assert!(pin!(questions.ask(key_set(), 40)).poll(&mut cx).is_ready(), "just answered");
        let later_us = 30 + u64::from(QUESTION_PAUSE_MS) * 1_000;
        assert!(pin!(questions.ask(key_set(), later_us)).poll(&mut cx).is_pending());
        assert!(receiver.try_recv().is_ok(), "it is asked again");
    }

    #[test]
    fn an_unanswered_question_is_asked_again_after_the_limit() {
        let (sender, mut receiver) = channel(8);
        let (questions, mut cx) = (Questions::new(sender), Context::from_waker(Waker::noop()));
        let key_set = || Question::KeySet { issuer: "main".to_owned() };
        assert!(pin!(questions.ask(key_set(), 0)).poll(&mut cx).is_pending());
        let limit_us = u64::from(KEY_SET_WAIT_MS_MAX) * 1_000;
        assert!(pin!(questions.ask(key_set(), limit_us)).poll(&mut cx).is_pending());
        assert!(receiver.try_recv().is_ok() && receiver.try_recv().is_ok());
    }

    #[test]
    fn a_full_queue_is_no_reason_to_wait() {
        let (sender, _receiver) = channel(1);
        let (questions, mut cx) = (Questions::new(sender), Context::from_waker(Waker::noop()));
        let key_set = |issuer: &str| Question::KeySet { issuer: issuer.to_owned() };
        assert!(pin!(questions.ask(key_set("a"), 0)).poll(&mut cx).is_pending());
        assert!(pin!(questions.ask(key_set("b"), 0)).poll(&mut cx).is_ready());
    }
}
