//! How a job ended, as workers in any language say it in JSON, and as the API document describes it.
//!
//! ```json
//! {"outcome": "completed", "output": [1, 2]}
//! {"outcome": "failed", "error": {"type": "ValueError", "message": "no such customer"}, "permanent": true}
//! {"outcome": "failed", "error": "busy", "in_ms": 60000}
//! {"outcome": "snoozed", "in_ms": 60000}
//! {"outcome": "released"}
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::duration::DURATION_MAX;
use crate::payload::OUTPUT_BYTES_MAX;
use crate::{Failure, Outcome, Payload};

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OutcomeWord {
    /// It did its work, and may have an `output`.
    Completed,
    /// It failed, with an `error`. It is tried again, after `in_ms` if that is given; with `permanent` it becomes a dead letter.
    Failed,
    /// It did not fail, and runs again after `in_ms`.
    Snoozed,
    /// It was not started, and goes back to the queue.
    Released,
    /// It stopped because it was cancelled.
    Cancelled,
    /// It ran longer than it may.
    TimedOut,
}

/// How a claim ended, with what belongs to that.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OutcomeObject {
    /// The outcome.
    pub outcome: OutcomeWord,
    /// What a completed job returns: any JSON, up to 64 KiB.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
    /// Another attempt cannot succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permanent: Option<bool>,
    /// When to run again, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_ms: Option<u64>,
}

/// An error: a text, or its type and message.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "`error` must be a text, or an object with `message` and, if you like, `type`")]
pub enum ErrorObject {
    /// Only a text.
    Text(String),
    /// With a type.
    Typed(TypedError),
}

/// An error with its type.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TypedError {
    /// The class of the error, which groups failures.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    error_type: Option<String>,
    /// What went wrong; more than 8 KiB are cut.
    message: String,
}

impl ErrorObject {
    /// The failure that it describes.
    pub fn failure(self) -> Failure {
        let (error_type, message) = match self {
            ErrorObject::Text(message) => (None, message),
            ErrorObject::Typed(TypedError { error_type, message }) => (error_type, message),
        };
        let error_type = error_type.filter(|name| !name.is_empty());
        Failure::new(error_type.unwrap_or_else(|| "error".to_owned()), message)
    }
}

impl From<Failure> for ErrorObject {
    fn from(failure: Failure) -> ErrorObject {
        ErrorObject::Typed(TypedError { error_type: Some(failure.error_type), message: failure.message })
    }
}

/// Reads an outcome object. The error says what is wrong with it.
pub fn parse_outcome(json: &[u8]) -> Result<Outcome, String> {
    serde_json::from_slice::<OutcomeObject>(json).map_err(|error| error.to_string())?.read()
}

impl OutcomeObject {
    /// The outcome. The error says why it cannot be recorded.
    pub fn read(self) -> Result<Outcome, String> {
        let OutcomeObject { outcome, output, error, permanent, in_ms } = self;
        let only = |field: &str, is_given: bool, words: &str| match is_given {
            true => Err(format!("`{field}` belongs to the outcome {words} only; leave it out")),
            false => Ok(()),
        };
        only("output", output.is_some() && outcome != OutcomeWord::Completed, "completed")?;
        only("error", error.is_some() && outcome != OutcomeWord::Failed, "failed")?;
        only("permanent", permanent.is_some() && outcome != OutcomeWord::Failed, "failed")?;
        let waits = matches!(outcome, OutcomeWord::Failed | OutcomeWord::Snoozed);
        only("in_ms", in_ms.is_some() && !waits, "failed or snoozed")?;
        let after = in_ms.map(Duration::from_millis);
        if after.is_some_and(|after| after > DURATION_MAX) {
            return Err("`in_ms` must not be more than 3650 days".to_owned());
        }
        Ok(match outcome {
            OutcomeWord::Completed => {
                let output = output.map(|output| Payload::parse_within(output.get(), OUTPUT_BYTES_MAX));
                Outcome::Completed { output: output.transpose().map_err(|bad| format!("`output`: {bad}"))? }
            }
            OutcomeWord::Failed => {
                let error =
                    error.ok_or("`error` must say what went wrong: a text, or its `type` and `message`")?;
                match (error.failure(), permanent.unwrap_or_default(), after) {
                    (failure, true, _) => Outcome::Failed(failure.permanent()),
                    (failure, false, Some(after)) => Outcome::RetryIn { after, failure },
                    (failure, false, None) => Outcome::Failed(failure),
                }
            }
            OutcomeWord::Snoozed => {
                Outcome::Snoozed { after: after.ok_or("`in_ms` must say when the job runs again")? }
            }
            OutcomeWord::Released => Outcome::Released,
            OutcomeWord::Cancelled => Outcome::Cancelled,
            OutcomeWord::TimedOut => Outcome::TimedOut,
        })
    }
}

impl From<Outcome> for OutcomeObject {
    fn from(outcome: Outcome) -> OutcomeObject {
        let plain =
            |outcome| OutcomeObject { outcome, output: None, error: None, permanent: None, in_ms: None };
        let failed = |failure: Failure| {
            let permanent = failure.permanent.then_some(true);
            OutcomeObject { error: Some(failure.into()), permanent, ..plain(OutcomeWord::Failed) }
        };
        match outcome {
            Outcome::Completed { output } => {
                // A payload is JSON, so this does not fail.
                let output = output.and_then(|output| RawValue::from_string(output.into()).ok());
                OutcomeObject { output, ..plain(OutcomeWord::Completed) }
            }
            Outcome::Failed(failure) => failed(failure),
            Outcome::DeadLetter(failure) => failed(failure.permanent()),
            Outcome::RetryIn { after, failure } => {
                OutcomeObject { in_ms: Some(millis(after)), ..failed(failure) }
            }
            Outcome::Snoozed { after } => {
                OutcomeObject { in_ms: Some(millis(after)), ..plain(OutcomeWord::Snoozed) }
            }
            Outcome::TimedOut => plain(OutcomeWord::TimedOut),
            Outcome::Cancelled => plain(OutcomeWord::Cancelled),
            Outcome::Released => plain(OutcomeWord::Released),
        }
    }
}

/// Rounded up: no job runs before its time.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_is_read() {
        let (no, hour) = (|| Failure::new("error", "no"), Duration::from_secs(3_600));
        let typed = Failure::new("ValueError", "no");
        for (json, outcome) in [
            (r#"{"outcome": "completed"}"#, Outcome::Completed { output: None }),
            (
                r#"{"outcome": "completed", "output": [1]}"#,
                Outcome::Completed { output: Payload::parse("[1]").ok() },
            ),
            (r#"{"outcome": "failed", "error": "no"}"#, Outcome::Failed(no())),
            (
                r#"{"outcome": "failed", "error": {"type": "ValueError", "message": "no"}}"#,
                Outcome::Failed(typed),
            ),
            (
                r#"{"outcome": "failed", "error": {"message": "no"}, "permanent": false, "in_ms": null}"#,
                Outcome::Failed(no()),
            ),
            (
                r#"{"outcome": "failed", "error": "no", "permanent": true, "in_ms": 1}"#,
                Outcome::Failed(no().permanent()),
            ),
            (
                r#"{"outcome": "failed", "error": "no", "in_ms": 3600000}"#,
                Outcome::RetryIn { after: hour, failure: no() },
            ),
            (r#"{"outcome": "snoozed", "in_ms": 3600000}"#, Outcome::Snoozed { after: hour }),
            (r#"{"outcome": "released"}"#, Outcome::Released),
            (r#"{"outcome": "cancelled"}"#, Outcome::Cancelled),
            (r#"{"outcome": "timed_out"}"#, Outcome::TimedOut),
        ] {
            assert_eq!(parse_outcome(json.as_bytes()), Ok(outcome), "{json}");
        }
    }

    #[test]
    fn an_output_keeps_its_numbers_as_they_were_written() {
        let json = br#"{"outcome":"completed","output":{"z":1.10,"a":[1e400,12345678901234567890123]}}"#;
        let Ok(Outcome::Completed { output: Some(output) }) = parse_outcome(json) else {
            panic!("it is read")
        };
        assert_eq!(output.as_str(), r#"{"z":1.10,"a":[1e400,12345678901234567890123]}"#);
    }

    #[test]
    fn everything_else_is_refused() {
        let long = format!(r#"{{"outcome": "completed", "output": "{}"}}"#, "x".repeat(OUTPUT_BYTES_MAX));
        for (json, says) in [
            ("", "EOF"),
            ("ok", "expected value"),
            ("{}", "outcome"),
            (r#"{"outcome": "done"}"#, "unknown variant"),
            (r#"{"outcome": "completed", "result": 1}"#, "unknown field"),
            (r#"{"outcome": "completed", "error": "no"}"#, "`error`"),
            (r#"{"outcome": "completed", "output": {"a": 1, "a": 2}}"#, "twice"),
            (r#"{"outcome": "failed"}"#, "`error` must"),
            (r#"{"outcome": "failed", "error": 7}"#, "`error` must"),
            (r#"{"outcome": "failed", "error": {"message": "no", "stack": ""}}"#, "`error` must"),
            (r#"{"outcome": "failed", "error": "no", "output": 1}"#, "`output`"),
            (r#"{"outcome": "snoozed"}"#, "`in_ms` must"),
            (r#"{"outcome": "snoozed", "in_ms": -1}"#, "-1"),
            (r#"{"outcome": "snoozed", "in_ms": 999999999999999}"#, "3650 days"),
            (r#"{"outcome": "released", "in_ms": 1}"#, "`in_ms`"),
            (r#"{"outcome": "cancelled", "permanent": true}"#, "`permanent`"),
            (&long, "`output`"),
        ] {
            let refused = parse_outcome(json.as_bytes()).expect_err(json);
            assert!(refused.contains(says), "{json:.60}: {refused}");
        }
    }

    #[test]
    fn each_outcome_is_read_as_it_was_written() {
        let (hour, no) = (Duration::from_secs(3_600), || Failure::new("Timeout", "no"));
        let output = Payload::parse(r#"{"z":1.10,"a":[1e400]}"#).ok();
        for outcome in [
            Outcome::Completed { output: None },
            Outcome::Completed { output },
            Outcome::Failed(no()),
            Outcome::Failed(no().permanent()),
            Outcome::RetryIn { after: hour, failure: no() },
            Outcome::Snoozed { after: hour },
            Outcome::TimedOut,
            Outcome::Cancelled,
            Outcome::Released,
        ] {
            let json = serde_json::to_vec(&OutcomeObject::from(outcome.clone())).expect("it is JSON");
            assert_eq!(parse_outcome(&json), Ok(outcome));
        }
        let dead = serde_json::to_vec(&OutcomeObject::from(Outcome::DeadLetter(no()))).expect("it is JSON");
        assert_eq!(parse_outcome(&dead), Ok(Outcome::Failed(no().permanent())));
    }
}
