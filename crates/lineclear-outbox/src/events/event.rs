//! Events that programs append, and events as they are read.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::database::Row;
use crate::delivery::{read_headers, read_id};
use crate::error::OutboxError;
use crate::message::{HEADERS_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX};
use crate::subscriptions::error::HandlerError;

/// An event to append.
///
/// ```
/// use lineclear_outbox::NewEvent;
///
/// let event = NewEvent::new("order.placed", &serde_json::json!({"item": "tea"}))?.header("tenant", "acme");
/// # Ok::<(), lineclear_outbox::OutboxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub(super) kind: String,
    pub(super) payload: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) trace: Option<String>,
}

impl NewEvent {
    /// An event of a type. The payload becomes JSON.
    pub fn new(kind: &str, payload: &impl serde::Serialize) -> Result<NewEvent, OutboxError> {
        let payload = serde_json::to_string(payload).map_err(|error| {
            OutboxError::refused("payload", format!("it cannot be written as JSON: {error}"))
        })?;
        Ok(NewEvent { kind: kind.to_owned(), payload, headers: BTreeMap::new(), trace: None })
    }

    /// A header beside the payload.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> NewEvent {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The trace that it belongs to: a W3C `traceparent`.
    #[must_use]
    pub fn trace(self, traceparent: impl Into<String>) -> NewEvent {
        NewEvent { trace: Some(traceparent.into()), ..self }
    }

    pub(super) fn headers_json(&self) -> Option<String> {
        (!self.headers.is_empty()).then(|| serde_json::to_string(&self.headers).unwrap_or_default())
    }

    /// Checks it; the error names the invalid part.
    pub(super) fn check(&self) -> Result<(), OutboxError> {
        check_name("type", &self.kind)?;
        if let Some(trace) = &self.trace {
            check_name("trace", trace)?;
        }
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            let why =
                format!("must have at most {PAYLOAD_BYTES_MAX} bytes of JSON, not {}", self.payload.len());
            return Err(OutboxError::refused("payload", why));
        }
        if self.headers_json().is_some_and(|json| json.len() > HEADERS_BYTES_MAX) {
            let why = format!("must have at most {HEADERS_BYTES_MAX} bytes of JSON");
            return Err(OutboxError::refused("headers", why));
        }
        Ok(())
    }
}

/// Checks the name of a stream, a type or a trace.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), OutboxError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let why = format!("must have 1 to {NAME_BYTES_MAX} bytes and no zero byte");
        return Err(OutboxError::refused(what, why));
    }
    Ok(())
}

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the log. Positions grow, and some are missing.
    pub position: i64,
    /// It never changes: receivers use it to notice an event that comes twice.
    pub id: Uuid,
    /// Its stream.
    pub stream: String,
    /// Its place in its stream, from 1, without gaps.
    pub version: i64,
    /// Its type.
    pub kind: String,
    /// Its payload, in JSON.
    pub payload: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// The trace that it belongs to.
    pub trace: Option<String>,
    /// When it was appended, by the database's clock.
    pub created_at: SystemTime,
}

impl Event {
    /// Reads the payload. An event whose payload cannot be read is rejected: no further attempt helps.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        serde_json::from_str(&self.payload)
            .map_err(|error| HandlerError::reject(format!("the payload cannot be read: {error}")))
    }

    pub(crate) fn read(mut row: Row) -> Event {
        Event {
            position: row.number("position"),
            id: read_id(&row.text("event_id").unwrap_or_default()),
            stream: row.text("stream").unwrap_or_default(),
            version: row.number("version"),
            kind: row.text("type").unwrap_or_default(),
            payload: row.text("payload").unwrap_or_default(),
            headers: read_headers(row.text("headers").as_deref()),
            trace: row.text("trace"),
            created_at: row.time("created_us").unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}
