//! One connection, and its statements.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, params};

use crate::backend::LockRequest;
use crate::clock::Moment;
use crate::error::LockError;
use crate::name::Epoch;

const ACQUIRE: &str = include_str!("../../sql/mysql/lock_acquire.sql");

/// A request whose epoch row is locked by a fenced transaction must not wait for long.
pub(super) const SETUP: [&str; 1] = ["set session autocommit = 1, innodb_lock_wait_timeout = 1"];

/// The error of a lock wait that took too long.
const LOCK_WAIT: u16 = 1205;
/// The server's own limit, one year.
const IDLE_SECONDS_MAX: u64 = 31_536_000;

#[derive(Debug)]
pub(super) struct Session {
    connection: Conn,
    /// The server's connection id, as queried: the one of the handshake may be a proxy's.
    pub(super) id: u64,
    /// After how many idle seconds the server ends it; none: the server's default.
    idle: Option<u64>,
    used_at: Moment,
}

impl Session {
    pub(super) async fn connect(opts: &Opts) -> Result<Session, Error> {
        let connection = Conn::new(opts.clone()).await?;
        Ok(Session { connection, id: 0, idle: None, used_at: Moment::now() })
    }

    pub(super) fn connection(&mut self) -> &mut Conn {
        &mut self.connection
    }

    /// Whether the server cannot have ended it for idleness.
    pub(super) fn is_fresh(&self) -> bool {
        let idle = Duration::from_secs(self.idle.unwrap_or(2)) / 2;
        !self.used_at.plus(idle).remaining().is_zero()
    }

    /// Acquires the server's lock and the next epoch; none: it is busy.
    pub(super) async fn acquire(&mut self, key: &str, request: &LockRequest) -> Result<Option<Epoch>, Error> {
        let idle = idle_seconds(request.ttl);
        if self.idle != Some(idle) {
            // A holder that is silent for so long loses the lock. The server counts from our last packet, hence later than we do.
            let set = format!("set session wait_timeout = {idle}, net_read_timeout = {idle}");
            self.connection.query_drop(set).await?;
            self.idle = Some(idle);
        }
        if !self.get_lock(key).await? {
            return Ok(None);
        }
        let (name, holder) = (request.name.as_str().as_bytes(), request.holder.to_string().into_bytes());
        let kind = request.kind.as_ref().map(|kind| kind.as_bytes());
        let params = params! { "name" => name, "holder" => holder, "kind" => kind, "idle" => idle };
        let epoch = match self.connection.exec_iter(ACQUIRE, params).await {
            Ok(answer) => {
                let epoch = answer.last_insert_id().and_then(|epoch| i64::try_from(epoch).ok());
                answer.drop_result().await?;
                epoch.ok_or_else(|| Error::Other("the server did not return the epoch".into()))?
            }
            // The last holder has an open fenced transaction: until that ends, the lock is busy.
            Err(Error::Server(error)) if error.code == LOCK_WAIT => {
                self.release(key).await?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.used_at = Moment::now();
        Ok(Some(Epoch::new(epoch)))
    }

    /// Acquires the server's lock alone.
    pub(super) async fn get_lock(&mut self, key: &str) -> Result<bool, Error> {
        let request = format!("select connection_id(), get_lock('{key}', 0), is_used_lock('{key}')");
        let answer: Option<(u64, Option<i64>, Option<u64>)> = self.connection.query_first(request).await?;
        self.used_at = Moment::now();
        let (id, got, by) = answer.ok_or_else(|| Error::Other("the server did not answer".into()))?;
        self.id = id;
        match (got, by) {
            (Some(1), Some(by)) if by == id => Ok(true),
            (Some(0), _) => Ok(false),
            _ => Err(Error::Other("the server's answer about its lock is invalid".into())),
        }
    }

    /// Whether this connection holds the server's lock.
    pub(super) async fn holds(&mut self, key: &str) -> Result<bool, Error> {
        let request = format!("select is_used_lock('{key}') <=> connection_id()");
        let holds: Option<i64> = self.connection.query_first(request).await?;
        self.used_at = Moment::now();
        Ok(holds == Some(1))
    }

    /// Releases the server's lock; `false`: this connection did not hold it.
    pub(super) async fn release(&mut self, key: &str) -> Result<bool, Error> {
        let released: Option<Option<i64>> =
            self.connection.query_first(format!("select release_lock('{key}')")).await?;
        self.used_at = Moment::now();
        Ok(released.flatten() == Some(1))
    }
}

/// `ttl` in whole seconds, rounded up.
fn idle_seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).clamp(1, IDLE_SECONDS_MAX)
}

/// Whether the connection has ended, and its lock with it.
pub(super) fn is_broken(error: &Error) -> bool {
    match error {
        // Shutdown, aborted, unreadable or unwritable packets, killed, idle for too long.
        Error::Server(error) => matches!(error.code, 1053 | 1152 | 1158..=1161 | 1927 | 4031),
        _ => true,
    }
}

pub(crate) fn classify(error: Error) -> LockError {
    match &error {
        // Too many connections, of all or of one account; lock wait; deadlock; interrupted; timed out.
        Error::Server(server)
            if matches!(server.code, 1040 | 1203 | 1226 | 1205 | 1213 | 1317 | 1969 | 3024) =>
        {
            LockError::unavailable(error)
        }
        _ if is_broken(&error) => LockError::unavailable(error),
        _ => LockError::failed(error),
    }
}
