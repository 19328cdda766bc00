//! How a handler's run ended, and what happens to the job.

mod fingerprint;

use std::borrow::Cow;
use std::time::Duration;

use crate::{
    Payload,
    job::{DeadReason, ExecutionOutcome},
    retry::RetryPolicy,
    secret::without_passwords,
};
pub use fingerprint::fingerprint;

/// Most bytes of an error's message.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// Most bytes of an error's type.
pub const ERROR_TYPE_BYTES_MAX: usize = 255;

/// How many workers a job may take down before it is buried.
pub const CRASH_BUDGET: u32 = 3;

/// An error, as history keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of error, for people and for grouping.
    pub error_type: String,
    /// Its message.
    pub message: String,
    /// Whether another try cannot help.
    pub permanent: bool,
}

impl Failure {
    /// A failure that may be tried again. Overlong text is cut, NUL, which databases refuse, is replaced, and passwords in URLs
    /// become dots: errors are kept for months, and every user may read them.
    pub fn new(error_type: impl Into<String>, message: impl Into<String>) -> Failure {
        let message: String = message.into();
        // Before it is cut: without its @, the password of a URL is not recognized.
        let message = match without_passwords(&message) {
            Cow::Owned(shown) => shown,
            Cow::Borrowed(_) => message,
        };
        Failure {
            error_type: storable(error_type.into(), ERROR_TYPE_BYTES_MAX),
            message: storable(message, MESSAGE_BYTES_MAX),
            permanent: false,
        }
    }

    /// The same failure, not to be tried again.
    pub fn permanent(self) -> Failure {
        Failure { permanent: true, ..self }
    }

    /// The family of errors it belongs to; see [`fingerprint`].
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.error_type, &self.message)
    }
}

fn storable(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    if text.contains('\0') {
        // One byte for one byte, so that the text stays within its limit.
        text = text.replace('\0', " ");
    }
    text
}

/// How a handler's run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did its work.
    Completed {
        /// The value to store.
        output: Option<Payload>,
    },
    /// It failed.
    Failed(Failure),
    /// It ran longer than it may.
    TimedOut,
    /// It stopped because of a cancel.
    Cancelled,
    /// It failed, and knows when to try again.
    RetryIn {
        /// The wait it asks for.
        after: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// It did not fail, but wants to run again later.
    Snoozed {
        /// The wait it asks for.
        after: Duration,
    },
    /// It wants a person to look at the job.
    DeadLetter(Failure),
    /// It was released before it started.
    Released,
}

/// What happens to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has ended well.
    Complete,
    /// It is tried again.
    Retry {
        /// After this wait.
        after: Duration,
    },
    /// It becomes a dead letter.
    Bury {
        /// Why.
        reason: DeadReason,
    },
    /// It is cancelled.
    Cancel,
    /// It runs again later, and no failure is counted.
    Snooze {
        /// After this wait.
        after: Duration,
    },
    /// It goes back to the queue as if it had not been claimed.
    Release,
    /// It waits until a node that knows its kind starts.
    Park,
}

impl Outcome {
    /// The word history records.
    pub fn word(&self) -> ExecutionOutcome {
        match self {
            Outcome::Completed { .. } => ExecutionOutcome::Completed,
            Outcome::Failed(_) | Outcome::RetryIn { .. } | Outcome::DeadLetter(_) => ExecutionOutcome::Failed,
            Outcome::TimedOut => ExecutionOutcome::TimedOut,
            Outcome::Cancelled => ExecutionOutcome::Cancelled,
            Outcome::Snoozed { .. } => ExecutionOutcome::Snoozed,
            Outcome::Released => ExecutionOutcome::Released,
        }
    }

    /// The error, if there is one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Outcome::Failed(failure) | Outcome::RetryIn { failure, .. } | Outcome::DeadLetter(failure) => {
                Some(failure)
            }
            _ => None,
        }
    }
}

/// Decides what happens to a job whose run ended like this, after `failures_before` earlier failures.
pub fn judge(outcome: &Outcome, failures_before: u32, policy: &RetryPolicy) -> Verdict {
    let failures = failures_before.saturating_add(1);
    let retry = |after: Duration| match failures > policy.retries {
        true => Verdict::Bury { reason: DeadReason::RetriesUsedUp },
        false => Verdict::Retry { after },
    };
    match outcome {
        Outcome::Completed { .. } => Verdict::Complete,
        Outcome::Cancelled => Verdict::Cancel,
        Outcome::Snoozed { after } => Verdict::Snooze { after: *after },
        Outcome::Released => Verdict::Release,
        Outcome::DeadLetter(_) => Verdict::Bury { reason: DeadReason::Permanent },
        Outcome::Failed(failure) | Outcome::RetryIn { failure, .. } if failure.permanent => {
            Verdict::Bury { reason: DeadReason::Permanent }
        }
        // A wait that the handler asks for still spends a retry: otherwise it could go on for ever.
        Outcome::RetryIn { after, .. } => retry(*after),
        Outcome::Failed(_) | Outcome::TimedOut => retry(policy.delay_before(failures)),
    }
}

/// Decides what happens to a job whose worker vanished, after `crashes_before` earlier ones. It is tried again at
/// once, because a crash usually says more about the worker than about the job; but a job that takes down
/// every worker is buried.
pub fn judge_lost(crashes_before: u32, crash_budget: u32) -> Verdict {
    if crashes_before.saturating_add(1) >= crash_budget {
        Verdict::Bury { reason: DeadReason::WorkerLost }
    } else {
        Verdict::Retry { after: Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Failure {
        Failure::new("io", "connection reset")
    }

    #[test]
    fn three_retries_are_four_tries() {
        let policy = RetryPolicy::default();
        let verdicts: Vec<Verdict> =
            (0..4).map(|before| judge(&Outcome::Failed(failed()), before, &policy)).collect();
        let retry = |minutes: u64| Verdict::Retry { after: Duration::from_secs(minutes * 60) };
        let bury = Verdict::Bury { reason: DeadReason::RetriesUsedUp };
        assert_eq!(verdicts, [retry(5), retry(10), retry(20), bury]);
        let none = RetryPolicy { retries: 0, ..policy };
        assert_eq!(judge(&Outcome::TimedOut, 0, &none), bury);
    }

    #[test]
    fn a_permanent_failure_is_not_tried_again() {
        let policy = RetryPolicy::default();
        let bury = Verdict::Bury { reason: DeadReason::Permanent };
        assert_eq!(judge(&Outcome::Failed(failed().permanent()), 0, &policy), bury);
        assert_eq!(judge(&Outcome::DeadLetter(failed()), 0, &policy), bury);
    }

    #[test]
    fn a_handler_may_choose_its_wait_but_not_the_number_of_tries() {
        let (policy, after) = (RetryPolicy::default(), Duration::from_secs(7));
        let asks = Outcome::RetryIn { after, failure: failed() };
        assert_eq!(judge(&asks, 2, &policy), Verdict::Retry { after });
        assert_eq!(judge(&asks, 3, &policy), Verdict::Bury { reason: DeadReason::RetriesUsedUp });
        assert_eq!(judge(&Outcome::Snoozed { after }, 99, &policy), Verdict::Snooze { after });
        assert_eq!(judge(&Outcome::Released, 99, &policy), Verdict::Release);
        assert_eq!(judge(&Outcome::Cancelled, 99, &policy), Verdict::Cancel);
        assert_eq!(judge(&Outcome::Completed { output: None }, 99, &policy), Verdict::Complete);
    }

    #[test]
    fn a_job_that_takes_down_three_workers_is_buried() {
        let again = Verdict::Retry { after: Duration::ZERO };
        let bury = Verdict::Bury { reason: DeadReason::WorkerLost };
        assert_eq!([0, 1, 2].map(|before| judge_lost(before, CRASH_BUDGET)), [again, again, bury]);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let failure = Failure::new("io", "é".repeat(MESSAGE_BYTES_MAX));
        assert_eq!(failure.message.len(), MESSAGE_BYTES_MAX);
        let odd = Failure::new("io", format!("x{}", "é".repeat(MESSAGE_BYTES_MAX)));
        assert_eq!(odd.message.len(), MESSAGE_BYTES_MAX - 1);
        assert_eq!(Failure::new("io", "a\0b").message, "a b");
    }

    #[test]
    fn an_error_keeps_no_password_of_a_url() {
        let failure = Failure::new("io", "cannot reach postgres://ann:hunter2@db/x");
        assert_eq!(failure.message, "cannot reach postgres://ann:•••@db/x");
        let long = format!("{} a://b:{}@c", "x".repeat(MESSAGE_BYTES_MAX - 100), "hunter2".repeat(100));
        assert!(!Failure::new("io", long).message.contains("hunter2"), "nor the half of one that was cut");
    }
}
