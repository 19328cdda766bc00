//! Messages that a program writes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::OutboxError;

/// Longest topic, key or dedup key, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest payload, in bytes of JSON.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// Longest headers, in bytes of JSON.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;
/// Longest delay, lifetime and pause before another attempt: ten years.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 86_400);

/// A message to write.
///
/// ```
/// # use std::time::Duration;
/// use lineclear_outbox::Message;
///
/// let message = Message::new("order.placed", &serde_json::json!({"order": 42}))?
///     .key("order-42")
///     .header("tenant", "acme")
///     .dedup_key("order-42-placed")
///     .delay(Duration::from_secs(60))
///     .expires_in(Duration::from_secs(3600));
/// # Ok::<(), lineclear_outbox::OutboxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Message {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) key: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) dedup_key: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) delay: Option<Duration>,
    pub(crate) lifetime: Option<Duration>,
}

impl Message {
    /// A message for a topic. The payload becomes JSON.
    pub fn new(topic: &str, payload: &impl serde::Serialize) -> Result<Message, OutboxError> {
        let payload = serde_json::to_string(payload).map_err(|error| {
            OutboxError::refused("payload", format!("it cannot be written as JSON: {error}"))
        })?;
        Ok(Message {
            topic: topic.to_owned(),
            payload,
            key: None,
            headers: BTreeMap::new(),
            dedup_key: None,
            trace: None,
            delay: None,
            lifetime: None,
        })
    }

    /// Messages of one key are delivered one after the other, in the order in which they were written.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Message {
        Message { key: Some(key.into()), ..self }
    }

    /// A header, which the sink gets beside the payload.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Message {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// A second message with this key is not written as long as the outbox remembers the first: for
    /// [`OutboxOptions::keep_dedup_keys`](crate::OutboxOptions::keep_dedup_keys) after it was written.
    #[must_use]
    pub fn dedup_key(self, key: impl Into<String>) -> Message {
        Message { dedup_key: Some(key.into()), ..self }
    }

    /// The trace that it belongs to: a W3C `traceparent`.
    #[must_use]
    pub fn trace(self, traceparent: impl Into<String>) -> Message {
        Message { trace: Some(traceparent.into()), ..self }
    }

    /// It is not delivered before this time has passed, by the database's clock. Other messages of its key do not wait for it.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Message {
        Message { delay: Some(delay), ..self }
    }

    /// If it is not delivered within this time, by the database's clock, it is dead.
    #[must_use]
    pub fn expires_in(self, lifetime: Duration) -> Message {
        Message { lifetime: Some(lifetime), ..self }
    }

    pub(crate) fn headers_json(&self) -> Option<String> {
        (!self.headers.is_empty()).then(|| serde_json::to_string(&self.headers).unwrap_or_default())
    }

    /// Checks it; the error names the invalid part.
    pub(crate) fn check(&self) -> Result<(), OutboxError> {
        let names = [
            ("topic", Some(&self.topic)),
            ("key", self.key.as_ref()),
            ("dedup_key", self.dedup_key.as_ref()),
        ];
        for (what, name) in names {
            let Some(name) = name else { continue };
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
                let why = format!("must have 1 to {NAME_BYTES_MAX} bytes and no zero byte");
                return Err(OutboxError::refused(what, why));
            }
        }
        if self
            .trace
            .as_ref()
            .is_some_and(|trace| trace.is_empty() || trace.len() > NAME_BYTES_MAX || trace.contains('\0'))
        {
            return Err(OutboxError::refused(
                "trace",
                format!("must have 1 to {NAME_BYTES_MAX} bytes and no zero byte"),
            ));
        }
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            let why =
                format!("must have at most {PAYLOAD_BYTES_MAX} bytes of JSON, not {}", self.payload.len());
            return Err(OutboxError::refused("payload", why));
        }
        if self.headers_json().is_some_and(|json| json.len() > HEADERS_BYTES_MAX) {
            return Err(OutboxError::refused(
                "headers",
                format!("must have at most {HEADERS_BYTES_MAX} bytes of JSON"),
            ));
        }
        for (what, time) in [("delay", self.delay), ("expires_in", self.lifetime)] {
            if time.is_some_and(|time| time > DURATION_MAX) {
                return Err(OutboxError::refused(what, "must be at most ten years".to_owned()));
            }
        }
        Ok(())
    }
}

/// In microseconds.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_message_is_named() {
        let good = Message::new("a", &1).unwrap();
        good.check().unwrap();
        let long = "x".repeat(256);
        let cases = [
            ("topic", Message::new("", &1).unwrap()),
            ("topic", Message::new(&long, &1).unwrap()),
            ("key", good.clone().key("")),
            ("key", good.clone().key("a\0")),
            ("dedup_key", good.clone().dedup_key(long.clone())),
            ("trace", good.clone().trace("")),
            ("payload", Message::new("a", &"x".repeat(PAYLOAD_BYTES_MAX)).unwrap()),
            ("headers", good.clone().header("a", "x".repeat(HEADERS_BYTES_MAX))),
            ("delay", good.clone().delay(Duration::MAX)),
            ("expires_in", good.expires_in(Duration::MAX)),
        ];
        for (what, bad) in cases {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("refused by {what}: ")), "{what}: {error}");
        }
    }
}
