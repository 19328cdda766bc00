//! Appending events in a transaction of the caller.

use super::EventLog;
use super::event::{NewEvent, check_name};
use crate::error::OutboxError;

/// Events of one append.
pub const APPEND_MAX: usize = 10_000;

/// At which version the caller expects the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// At any.
    #[default]
    Any,
    /// It has no events yet.
    NoStream,
    /// At the version of this event, which is its last one.
    At(i64),
}

impl ExpectedVersion {
    fn number(self) -> Option<i64> {
        match self {
            ExpectedVersion::Any => None,
            ExpectedVersion::NoStream => Some(0),
            ExpectedVersion::At(version) => Some(version),
        }
    }
}

/// Events that were appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Their positions in the log.
    pub positions: Vec<i64>,
    /// The version of the stream, which is that of the last event.
    pub version: i64,
}

fn check(stream: &str, expected: ExpectedVersion, events: &[NewEvent]) -> Result<(), OutboxError> {
    check_name("stream", stream)?;
    if matches!(expected, ExpectedVersion::At(version) if version < 0) {
        return Err(OutboxError::refused("expected_version", "must not be negative".to_owned()));
    }
    if events.is_empty() || events.len() > APPEND_MAX {
        let why = format!("must be 1 to {APPEND_MAX} at a time, not {}", events.len());
        return Err(OutboxError::refused("events", why));
    }
    events.iter().try_for_each(NewEvent::check)
}

fn conflict(stream: &str, expected: i64, actual: i64) -> OutboxError {
    OutboxError::Conflict { stream: stream.to_owned(), expected, actual }
}

#[cfg(feature = "postgres")]
pub(super) use postgres::statement;

#[cfg(feature = "postgres")]
mod postgres {
    use std::sync::Arc;

    use lineclear_lock::postgres::PostgresTarget;
    use tokio_postgres::GenericClient;
    use tokio_postgres::error::SqlState;
    use tokio_postgres::types::Type;

    use super::*;
    use crate::postgres::{classify, sql};

    /// The statement for the schema that a URL names.
    pub(in super::super) fn statement(url: &str) -> Result<Option<Arc<str>>, OutboxError> {
        if !url.starts_with("postgres") {
            return Ok(None);
        }
        let target = PostgresTarget::new(url)?;
        let text = sql(include_str!("../../sql/postgres/event_append.sql"), target.schema());
        Ok(Some(Arc::from(text)))
    }

    impl EventLog {
        /// Appends events to a stream in a transaction of the caller. If that is rolled back, there are no events.
        ///
        /// [`OutboxError::Conflict`]: the stream is at another version than the one that is expected. Nothing was written, and the transaction
        /// can go on. Writers of one stream wait for each other; so a transaction should not stay open for long after an append.
        pub async fn append_postgres(
            &self,
            transaction: &impl GenericClient,
            stream: &str,
            expected: ExpectedVersion,
            events: &[NewEvent],
        ) -> Result<Appended, OutboxError> {
            check(stream, expected, events)?;
            let Some(text) = self.append.as_deref() else {
                return Err(OutboxError::refused("transaction", "the log is not in PostgreSQL".to_owned()));
            };
            let number = expected.number();
            let kinds: Vec<&str> = events.iter().map(|event| &*event.kind).collect();
            let payloads: Vec<&str> = events.iter().map(|event| &*event.payload).collect();
            let headers: Vec<Option<String>> = events.iter().map(NewEvent::headers_json).collect();
            let traces: Vec<Option<&str>> = events.iter().map(|event| event.trace.as_deref()).collect();
            let texts = Type::TEXT_ARRAY;
            let appended = transaction
                .query_typed(
                    text,
                    &[
                        (&stream, Type::TEXT),
                        (&number, Type::INT8),
                        (&kinds, texts.clone()),
                        (&payloads, texts.clone()),
                        (&headers, texts.clone()),
                        (&traces, texts),
                    ],
                )
                .await;
            let rows = appended.map_err(|error| match error.code() {
                // In a transaction with an older snapshot.
                Some(&SqlState::UNIQUE_VIOLATION) => OutboxError::unavailable(error),
                _ => classify(error),
            })?;
            let row = rows.first().ok_or_else(|| OutboxError::failed("the append returned no row"))?;
            let version: i64 = row.get("reached");
            match row.get::<_, Option<Vec<i64>>>("positions") {
                Some(positions) => Ok(Appended { positions, version }),
                None => Err(conflict(stream, number.unwrap_or(0), version)),
            }
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use rusqlite::{OptionalExtension, Transaction, params};
    use uuid::Uuid;

    use super::*;
    use crate::sqlite::classify;

    const LOCK: &str = include_str!("../../sql/sqlite/event_stream_lock.sql");
    const GROW: &str = include_str!("../../sql/sqlite/event_stream_grow.sql");
    const APPEND: &str = include_str!("../../sql/sqlite/event_append.sql");

    impl EventLog {
        /// Appends events to a stream in a transaction of the caller. If that is rolled back, there are no events.
        ///
        /// [`OutboxError::Conflict`]: the stream is at another version than the one that is expected. Nothing was written, and the transaction
        /// can go on. Begin the transaction as `immediate`: SQLite may refuse a write in a deferred one, without waiting, while another
        /// connection writes.
        pub fn append_sqlite(
            &self,
            transaction: &Transaction<'_>,
            stream: &str,
            expected: ExpectedVersion,
            events: &[NewEvent],
        ) -> Result<Appended, OutboxError> {
            check(stream, expected, events)?;
            if self.url.starts_with("postgres") {
                return Err(OutboxError::refused("transaction", "the log is not in SQLite".to_owned()));
            }
            let mut version: i64 = transaction
                .prepare_cached(LOCK)
                .and_then(|mut lock| lock.query_row([stream], |row| row.get(0)).optional())
                .map_err(classify)?
                .unwrap_or(0);
            if let Some(number) = expected.number().filter(|number| *number != version) {
                return Err(conflict(stream, number, version));
            }
            let mut append = transaction.prepare_cached(APPEND).map_err(classify)?;
            let mut positions = Vec::with_capacity(events.len());
            for event in events {
                version += 1;
                let id = Uuid::new_v4().to_string();
                let values = params![
                    stream,
                    version,
                    event.kind,
                    event.payload,
                    event.headers_json(),
                    event.trace,
                    id
                ];
                positions.push(append.insert(values).map_err(classify)?);
            }
            let mut grow = transaction.prepare_cached(GROW).map_err(classify)?;
            grow.execute(params![stream, version]).map_err(classify)?;
            Ok(Appended { positions, version })
        }
    }
}
