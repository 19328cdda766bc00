//! A connection to Redis that is made when it is needed, and made anew when it broke.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, Script, ScriptInvocation,
    ServerErrorKind,
};
use tokio::sync::Mutex;

use crate::error::LockError;

/// One connection, shared by all who ask at the same time.
pub(super) struct Link {
    client: Client,
    request_timeout: Duration,
    connection: Mutex<Option<Connection>>,
    /// Whether it was said that Redis cannot be reached: once, until it can be again.
    warned: AtomicBool,
}

/// A connection with its number, which tells it from those that were there before.
#[derive(Clone)]
pub(super) struct Connection {
    number: u64,
    inner: MultiplexedConnection,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client would show its password.
        f.debug_struct("Link").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}

impl Link {
    pub(super) fn new(client: Client, request_timeout: Duration) -> Link {
        Link { client, request_timeout, connection: Mutex::new(None), warned: AtomicBool::new(false) }
    }

    /// The connection that is there, or a new one; `true`: it was there.
    pub(super) async fn connection(&self) -> Result<(Connection, bool), LockError> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot {
            return Ok((connection.clone(), true));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.request_timeout))
            .set_response_timeout(Some(self.request_timeout));
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
        match made {
            Ok(inner) => {
                static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
                let connection = Connection { number: NUMBER.fetch_add(1, Ordering::Relaxed), inner };
                self.warned.store(false, Ordering::Relaxed);
                Ok((slot.insert(connection).clone(), false))
            }
            Err(error) => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "Redis cannot be reached; nobody gets its locks");
                }
                Err(classify(error))
            }
        }
    }

    /// Sends a script. `again` is sent instead if the connection turns out to have ended while it was not used: Redis may or
    /// may not have seen the first one.
    pub(super) async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        again: &ScriptInvocation<'_>,
    ) -> Result<(T, Connection), LockError> {
        let (mut connection, was_there) = self.connection().await?;
        let sent = script.invoke_async(&mut connection.inner).await;
        let sent = match sent {
            Err(error) if was_there && has_ended(&error) => {
                self.forget(connection.number).await;
                (connection, _) = self.connection().await?;
                again.invoke_async(&mut connection.inner).await
            }
            sent => sent,
        };
        let answer = self.answered(connection.number, sent).await?;
        Ok((answer, connection))
    }

    /// Makes a script known to Redis, which forgets it when it restarts; then it is made known again when it is used.
    pub(super) async fn load(&self, connection: &mut Connection, script: &Script) -> Result<(), LockError> {
        let sent = script.prepare_invoke().load_async(&mut connection.inner).await;
        self.answered(connection.number, sent).await.map(drop)
    }

    /// Sends a command on a connection that is open.
    pub(super) async fn command<T: FromRedisValue>(
        &self,
        connection: &mut Connection,
        command: &Cmd,
    ) -> Result<T, LockError> {
        let sent = command.query_async(&mut connection.inner).await;
        self.answered(connection.number, sent).await
    }

    async fn answered<T>(&self, number: u64, sent: Result<T, RedisError>) -> Result<T, LockError> {
        match sent {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let error = classify(error);
                // A server that does not answer, or has become a replica, is looked for anew.
                if error.is_unavailable() {
                    self.forget(number).await;
                }
                Err(error)
            }
        }
    }

    async fn forget(&self, number: u64) {
        let mut slot = self.connection.lock().await;
        if slot.as_ref().is_some_and(|connection| connection.number == number) {
            *slot = None;
        }
    }
}

/// Whether the connection broke, as opposed to a silence in which anything may happen.
fn has_ended(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_timeout()
}

fn classify(error: RedisError) -> LockError {
    let later = match error.kind() {
        ErrorKind::Io => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
                | ServerErrorKind::TryAgain
        ),
        // Memory that is full may have room again.
        _ => error.is_connection_dropped() || error.is_timeout() || error.code() == Some("OOM"),
    };
    if later { LockError::unavailable(error) } else { LockError::failed(error) }
}
