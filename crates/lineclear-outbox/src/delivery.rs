//! What a sink gets, and what it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use lineclear_lock::Epoch;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// A message on its way to its receiver.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its number in the outbox.
    pub id: i64,
    /// It is the same for all attempts at this message, and differs for others: receivers use it to notice a message that comes twice.
    pub delivery_id: Uuid,
    /// Its topic.
    pub topic: String,
    /// Its key.
    pub key: Option<String>,
    /// Its payload, in JSON.
    pub payload: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// The trace that it belongs to.
    pub trace: Option<String>,
    /// The number of this attempt, from 1. Attempts that were cut off by the end of their node are not counted.
    pub attempt: u32,
    /// When it was written, by the database's clock.
    pub created_at: SystemTime,
    /// The number of the runner. It grows with each change of runner: a receiver that keeps the highest number can refuse a runner that was
    /// frozen and does not know yet that it was replaced.
    pub epoch: Epoch,
}

impl Delivery {
    /// Reads the payload.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, DeliveryError> {
        serde_json::from_str(&self.payload)
            .map_err(|error| DeliveryError::reject(format!("the payload cannot be read: {error}")))
    }
}

/// Why a message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    pub(crate) what: String,
    pub(crate) next: Next,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt, after this time or as the policy says.
    Retry(Option<Duration>),
    /// None: it is dead.
    Reject,
    /// The receiver is away: no message can be delivered, and none is charged.
    Pause,
}

impl DeliveryError {
    /// The attempt is charged, and followed by another one.
    pub fn retry(what: impl Into<String>) -> DeliveryError {
        DeliveryError { what: what.into(), next: Next::Retry(None) }
    }

    /// The next attempt comes after this time.
    pub fn retry_in(what: impl Into<String>, after: Duration) -> DeliveryError {
        DeliveryError { what: what.into(), next: Next::Retry(Some(after)) }
    }

    /// No attempt can succeed: the message is dead.
    pub fn reject(what: impl Into<String>) -> DeliveryError {
        DeliveryError { what: what.into(), next: Next::Reject }
    }

    /// The receiver is away: no attempt is charged, and the runner pauses before it tries again.
    pub fn unavailable(what: impl Into<String>) -> DeliveryError {
        DeliveryError { what: what.into(), next: Next::Pause }
    }
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for DeliveryError {}

/// Headers, as a database has them. A program that writes SQL may have written other values than text: these stay JSON.
pub(crate) fn read_headers(json: Option<&str>) -> BTreeMap<String, String> {
    let read: Option<BTreeMap<String, serde_json::Value>> =
        json.and_then(|json| serde_json::from_str(json).ok());
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    read.unwrap_or_default().into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// A delivery id, as a database has it.
pub(crate) fn read_id(text: &str) -> Uuid {
    Uuid::try_parse(text).unwrap_or_default()
}
