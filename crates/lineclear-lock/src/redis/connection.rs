//! A connection to Redis that is opened when it is needed, and opened again when it has ended.

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

/// At most one session at a time, shared by concurrent requests.
pub(super) struct Connection {
    client: Client,
    request_timeout: Duration,
    session: Mutex<Option<Session>>,
    /// Whether the last attempt to connect failed: the first failure is logged.
    warned: AtomicBool,
}

/// An open connection, with a number that tells it from earlier ones.
#[derive(Clone)]
pub(super) struct Session {
    number: u64,
    inner: MultiplexedConnection,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client would show its password.
        f.debug_struct("Connection").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}

impl Connection {
    pub(super) fn new(client: Client, request_timeout: Duration) -> Connection {
        Connection { client, request_timeout, session: Mutex::new(None), warned: AtomicBool::new(false) }
    }

    /// The open session, or a new one; `true`: it was open.
    pub(super) async fn session(&self) -> Result<(Session, bool), LockError> {
        let mut slot = self.session.lock().await;
        if let Some(session) = &*slot {
            return Ok((session.clone(), true));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.request_timeout))
            .set_response_timeout(Some(self.request_timeout));
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
        match made {
            Ok(inner) => {
                static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
                let session = Session { number: NUMBER.fetch_add(1, Ordering::Relaxed), inner };
                self.warned.store(false, Ordering::Relaxed);
                Ok((slot.insert(session).clone(), false))
            }
            Err(error) => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "cannot reach Redis; its locks cannot be acquired");
                }
                Err(classify(error))
            }
        }
    }

    /// Sends a script. If the connection turns out to have ended while it was idle, sends `again` over a new one: Redis may or may not have run the
    /// first.
    pub(super) async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
        again: &ScriptInvocation<'_>,
    ) -> Result<(T, Session), LockError> {
        let (mut session, was_there) = self.session().await?;
        let sent = script.invoke_async(&mut session.inner).await;
        let sent = match sent {
            Err(error) if was_there && has_ended(&error) => {
                self.forget(session.number).await;
                (session, _) = self.session().await?;
                again.invoke_async(&mut session.inner).await
            }
            sent => sent,
        };
        let answer = self.answered(session.number, sent).await?;
        Ok((answer, session))
    }

    /// Loads a script into Redis. A restart forgets it; then its next use loads it again.
    pub(super) async fn load(&self, session: &mut Session, script: &Script) -> Result<(), LockError> {
        let sent = script.prepare_invoke().load_async(&mut session.inner).await;
        self.answered(session.number, sent).await.map(drop)
    }

    /// Sends a command on an open session.
    pub(super) async fn command<T: FromRedisValue>(
        &self,
        session: &mut Session,
        command: &Cmd,
    ) -> Result<T, LockError> {
        let sent = command.query_async(&mut session.inner).await;
        self.answered(session.number, sent).await
    }

    async fn answered<T>(&self, number: u64, sent: Result<T, RedisError>) -> Result<T, LockError> {
        match sent {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let error = classify(error);
                // Connect again to a server that does not answer or has become a replica.
                if error.is_unavailable() {
                    self.forget(number).await;
                }
                Err(error)
            }
        }
    }

    async fn forget(&self, number: u64) {
        let mut slot = self.session.lock().await;
        if slot.as_ref().is_some_and(|session| session.number == number) {
            *slot = None;
        }
    }
}

/// Whether the connection has ended, as opposed to a timeout, after which an answer may still come.
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
        // Full memory may have room again later.
        _ => error.is_connection_dropped() || error.is_timeout() || error.code() == Some("OOM"),
    };
    if later { LockError::unavailable(error) } else { LockError::failed(error) }
}
