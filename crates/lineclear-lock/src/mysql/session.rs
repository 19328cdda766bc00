//! One connection, and what is said on it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, params};

use crate::backend::LockRequest;
use crate::clock::Moment;
use crate::error::LockError;
use crate::name::Epoch;

const TAKE: &str = include_str!("../../sql/mysql/lock_acquire.sql");

/// Whoever finds the epoch's row locked, by a fenced transaction, does not wait for long.
pub(super) const SETUP: [&str; 1] = ["set session autocommit = 1, innodb_lock_wait_timeout = 1"];

/// A lock wait that took too long.
const LOCK_WAIT: u16 = 1205;
/// The server's own limit, one year.
const IDLE_SECONDS_MAX: u64 = 31_536_000;

#[derive(Debug)]
pub(super) struct Session {
    connection: Conn,
    /// The server's number of it. What was said when it was made may be a proxy's.
    pub(super) id: u64,
    /// After so much silence the server ends it; none: whatever the server is set to.
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

    /// Whether the server has surely not ended it for its silence.
    pub(super) fn is_fresh(&self) -> bool {
        let idle = Duration::from_secs(self.idle.unwrap_or(2)) / 2;
        !self.used_at.plus(idle).remaining().is_zero()
    }

    /// Takes the server's lock and the next epoch; none: it is busy.
    pub(super) async fn take(&mut self, key: &str, ask: &LockRequest) -> Result<Option<Epoch>, Error> {
        let idle = idle_seconds(ask.ttl);
        if self.idle != Some(idle) {
            // A holder that says nothing for so long has lost the lock. The server counts from our last word, hence
            // from later than we do.
            let set = format!("set session wait_timeout = {idle}, net_read_timeout = {idle}");
            self.connection.query_drop(set).await?;
            self.idle = Some(idle);
        }
        if !self.get_lock(key).await? {
            return Ok(None);
        }
        let (name, holder) = (ask.name.as_str().as_bytes(), ask.holder.to_string().into_bytes());
        let kind = ask.kind.as_ref().map(|kind| kind.as_bytes());
        let params = params! { "name" => name, "holder" => holder, "kind" => kind, "idle" => idle };
        let epoch = match self.connection.exec_iter(TAKE, params).await {
            Ok(answer) => {
                let epoch = answer.last_insert_id().and_then(|epoch| i64::try_from(epoch).ok());
                answer.drop_result().await?;
                epoch.ok_or_else(|| Error::Other("the server did not say the epoch".into()))?
            }
            // A fenced transaction of the last holder is open: it is busy as long as that.
            Err(Error::Server(error)) if error.code == LOCK_WAIT => {
                self.release(key).await?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        self.used_at = Moment::now();
        Ok(Some(Epoch::new(epoch)))
    }

    /// The server's lock alone.
    pub(super) async fn get_lock(&mut self, key: &str) -> Result<bool, Error> {
        let ask = format!("select connection_id(), get_lock('{key}', 0), is_used_lock('{key}')");
        let answer: Option<(u64, Option<i64>, Option<u64>)> = self.connection.query_first(ask).await?;
        self.used_at = Moment::now();
        let (id, got, by) = answer.ok_or_else(|| Error::Other("the server did not answer".into()))?;
        self.id = id;
        match (got, by) {
            (Some(1), Some(by)) if by == id => Ok(true),
            (Some(0), _) => Ok(false),
            _ => Err(Error::Other("the server's answer about its lock makes no sense".into())),
        }
    }

    /// Whether this very connection holds the server's lock.
    pub(super) async fn holds(&mut self, key: &str) -> Result<bool, Error> {
        let ask = format!("select is_used_lock('{key}') <=> connection_id()");
        let holds: Option<i64> = self.connection.query_first(ask).await?;
        self.used_at = Moment::now();
        Ok(holds == Some(1))
    }

    /// Frees the server's lock; `false`: it was not ours.
    pub(super) async fn release(&mut self, key: &str) -> Result<bool, Error> {
        let released: Option<Option<i64>> =
            self.connection.query_first(format!("select release_lock('{key}')")).await?;
        self.used_at = Moment::now();
        Ok(released.flatten() == Some(1))
    }
}

/// Whole seconds are all that the server knows; never less than `ttl`.
fn idle_seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).clamp(1, IDLE_SECONDS_MAX)
}

/// Whether the connection has ended. Then the lock on it has, too.
pub(super) fn is_broken(error: &Error) -> bool {
    match error {
        // Shutdown, aborted, packets that could not be read or written, killed, silent for too long.
        Error::Server(error) => matches!(error.code, 1053 | 1152 | 1158..=1161 | 1927 | 4031),
        _ => true,
    }
}

pub(crate) fn classify(error: Error) -> LockError {
    match &error {
        // Too many connections, of all or of one account; lock wait; deadlock; interrupted; took too long.
        Error::Server(server)
            if matches!(server.code, 1040 | 1203 | 1226 | 1205 | 1213 | 1317 | 1969 | 3024) =>
        {
            LockError::unavailable(error)
        }
        _ if is_broken(&error) => LockError::unavailable(error),
        _ => LockError::failed(error),
    }
}
