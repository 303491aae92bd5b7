//! Results for the log alone: a line for a message with any number of parts.

use crate::error::Failure;
use crate::program::{Environment, LogLevel};

/// Outcomes of parts of a message without effect on its response.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    /// Without an error handler that responds.
    failures: usize,
    first: Option<Failure>,
    /// After the one that the client got.
    responses: usize,
}

impl Unreported {
    pub(super) fn is_empty(&self) -> bool {
        (self.failures, self.responses) == (0, 0)
    }

    pub(super) fn fail(&mut self, environment: &dyn Environment, failure: Failure) {
        self.count(environment, &failure);
        self.first.get_or_insert(failure);
    }

    /// The same for a failure before all others, which might have become the response.
    pub(super) fn fail_first(&mut self, environment: &dyn Environment, failure: Failure) {
        self.count(environment, &failure);
        self.first = Some(failure);
    }

    fn count(&mut self, environment: &dyn Environment, failure: &Failure) {
        if environment.logs_debug() {
            environment.log(LogLevel::Debug, &format!("unhandled: {}", placed(failure)));
        }
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) fn respond(&mut self) {
        self.responses = self.responses.saturating_add(1);
    }

    /// Logs it, and forgets it.
    pub(super) fn report(&mut self, environment: &dyn Environment) {
        let Self { failures, first, responses } = std::mem::take(self);
        if let Some(first) = first.as_ref().map(placed) {
            let line = match failures {
                1 => format!("no error handler responds to: {first}"),
                _ => {
                    format!("no error handler responds to {failures} failures, the first: {first}")
                }
            };
            environment.log(LogLevel::Warn, &line);
        }
        match responses {
            0 => {}
            1 => environment.log(LogLevel::Warn, "a second response to the client is dropped"),
            _ => {
                let line = format!("{responses} further responses to the client are dropped");
                environment.log(LogLevel::Warn, &line);
            }
        }
    }
}

fn placed(failure: &Failure) -> String {
    let place = failure.place.as_deref().map(|place| format!("{place}: ")).unwrap_or_default();
    format!("{place}{failure}")
}
