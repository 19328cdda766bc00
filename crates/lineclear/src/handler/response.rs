//! Return values of handlers.

use std::error::Error;
use std::time::Duration;

use lineclear_model::payload::OUTPUT_BYTES_MAX;
use lineclear_model::{Failure, Outcome, Payload};
use lineclear_tls::with_causes;
use serde::Serialize;

use crate::handler::step::StepError;

/// Any error; `?` turns what a handler calls into it.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// A return value of a handler.
pub trait IntoOutcome {
    /// As an outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Completed { output: None }
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

/// Done, with an output that history keeps.
#[derive(Clone, Debug)]
pub struct Done<T>(pub T);

impl<T: Serialize> IntoOutcome for Done<T> {
    fn into_outcome(self) -> Outcome {
        match Payload::of_within(&self.0, OUTPUT_BYTES_MAX) {
            Ok(output) => Outcome::Completed { output: Some(output) },
            // Another attempt would not make the output smaller.
            Err(error) => Outcome::Failed(Failure::new("output", error.to_string()).permanent()),
        }
    }
}

/// Not now: run the job again after this time. No failure is counted.
#[derive(Clone, Copy, Debug)]
pub struct Snooze(pub Duration);

impl IntoOutcome for Snooze {
    fn into_outcome(self) -> Outcome {
        Outcome::Snoozed { after: self.0 }
    }
}

impl<T: IntoOutcome, E: Into<HandlerError>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(reply) => reply.into_outcome(),
            Err(error) => failed(&error.into()),
        }
    }
}

/// An error that another attempt cannot fix: the job becomes a dead letter at once.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Permanent(#[source] HandlerError);

impl Permanent {
    /// Marks an error as permanent.
    pub fn new(error: impl Into<HandlerError>) -> Permanent {
        Permanent(error.into())
    }
}

/// An error with the time of the next attempt. It counts as a retry.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RetryIn {
    after: Duration,
    #[source]
    error: HandlerError,
}

impl RetryIn {
    /// Tries again after this time.
    pub fn new(after: Duration, error: impl Into<HandlerError>) -> RetryIn {
        RetryIn { after, error: error.into() }
    }
}

fn failed(error: &HandlerError) -> Outcome {
    let failure = Failure::new("error", with_causes(&**error));
    // Checks the causes of the error, too.
    let mut cause: Option<&(dyn Error + 'static)> = Some(&**error);
    while let Some(error) = cause {
        if error.is::<Permanent>() || error.downcast_ref().is_some_and(StepError::is_permanent) {
            return Outcome::Failed(failure.permanent());
        }
        if let Some(retry) = error.downcast_ref::<RetryIn>() {
            return Outcome::RetryIn { after: retry.after, failure };
        }
        cause = error.source();
    }
    Outcome::Failed(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(outcome: &Outcome) -> &str {
        &outcome.failure().expect("a failure").message
    }

    #[test]
    fn any_error_becomes_a_failure_with_its_causes() {
        let parse = || -> Result<(), HandlerError> {
            let _: u8 = "x".parse()?;
            Ok(())
        };
        assert_eq!(message(&parse().into_outcome()), "invalid digit found in string");
        let text: Result<(), &str> = Err("no such customer");
        assert_eq!(message(&text.into_outcome()), "no such customer");
    }

    #[test]
    fn permanent_errors_and_chosen_waits_are_told_apart() {
        let permanent: Result<(), Permanent> = Err(Permanent::new("no such customer"));
        assert!(permanent.into_outcome().failure().expect("a failure").permanent);
        let later: Result<(), RetryIn> = Err(RetryIn::new(Duration::from_secs(5), "busy"));
        assert!(matches!(later.into_outcome(), Outcome::RetryIn { after, .. } if after.as_secs() == 5));
    }

    #[test]
    fn an_output_is_kept_and_one_that_is_too_large_fails() {
        assert!(
            matches!(Done(7).into_outcome(), Outcome::Completed { output: Some(output) } if output.as_str() == "7")
        );
        let outcome = Done("x".repeat(OUTPUT_BYTES_MAX)).into_outcome();
        assert!(outcome.failure().expect("a failure").permanent);
    }
}
