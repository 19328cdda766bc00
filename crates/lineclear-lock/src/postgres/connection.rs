//! A connection that is opened when it is needed, and opened again when it has ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lineclear_tls::connect_error;
use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::classify;
use super::target::PostgresTarget;
use crate::error::LockError;

/// At most one session at a time.
#[derive(Debug)]
pub(crate) struct Connection {
    target: PostgresTarget,
    purpose: Purpose,
    /// Whether connections are known to be direct, without a pooler: then statements are prepared.
    direct: Arc<AtomicBool>,
    session: Mutex<Option<Arc<Session>>>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Statements; anything may be in between.
    Statements,
    /// Locks that end with the connection. Both ends must notice when it is dead, but not sooner than this.
    Locks(Duration),
}

pub(crate) struct Session {
    pub(crate) client: Client,
    /// Cancelled when the connection has ended, and to end it.
    pub(crate) ended: CancellationToken,
    /// An advisory lock that this connection holds to its end, as a sign of life.
    pub(crate) beacon: i64,
    direct: Arc<AtomicBool>,
    /// Prepared statements, by their text.
    prepared: Mutex<HashMap<String, Statement>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session {{ beacon: {} }}", self.beacon)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// A prepared statement finds its row by the index, whatever the table was like when it was prepared.
const PREPARED: &str = "set enable_seqscan = off; set plan_cache_mode = force_generic_plan";

/// Parameters and their types.
pub(super) type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

impl Session {
    /// Runs a statement that returns at most one row. It is prepared at its first use, which takes one more round trip, or sent whole each time
    /// where a pooler may be in between.
    pub(super) async fn query_opt(&self, text: &str, params: &Params<'_>) -> Result<Option<Row>, Error> {
        if !self.direct.load(Ordering::SeqCst) {
            return self.client.query_typed_opt(text, params).await;
        }
        let statement = self.prepared(text, params).await?;
        let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
        self.client.query_opt(&statement, &values).await
    }

    async fn prepared(&self, text: &str, params: &Params<'_>) -> Result<Statement, Error> {
        let mut prepared = self.prepared.lock().await;
        if let Some(statement) = prepared.get(text) {
            return Ok(statement.clone());
        }
        let types: Vec<_> = params.iter().map(|(_, ty)| ty.clone()).collect();
        // Pipelined: both in one round trip.
        let (set, statement) = tokio::join!(biased; self.client.batch_execute(PREPARED), self.client.prepare_typed(text, &types));
        let statement = set.and(statement)?;
        prepared.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// A request that is on its way. If it is dropped before its answer has come, because that takes too long, the connection is closed: it
/// may be dead, and later requests would wait behind it.
pub(crate) struct Call {
    session: Arc<Session>,
    answered: bool,
}

impl Call {
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn answer<T>(mut self, answer: Result<T, tokio_postgres::Error>) -> Result<T, LockError> {
        self.answered = true;
        answer.map_err(classify)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            self.session.ended.cancel();
        }
    }
}

impl Connection {
    pub(crate) fn new(target: &PostgresTarget, purpose: Purpose, direct: Arc<AtomicBool>) -> Connection {
        Connection { target: target.clone(), purpose, direct, session: Mutex::new(None) }
    }

    /// Begins a request.
    pub(crate) async fn call(&self) -> Result<Call, LockError> {
        let mut session = self.session.lock().await;
        let alive =
            session.as_ref().filter(|session| !session.ended.is_cancelled() && !session.client.is_closed());
        let session = match alive {
            Some(alive) => alive.clone(),
            None => {
                *session = None;
                let mut made = connect(&self.target, self.purpose).await?;
                made.direct = self.direct.clone();
                session.insert(Arc::new(made)).clone()
            }
        };
        Ok(Call { session, answered: false })
    }
}

/// Connects, on the runtime of the caller.
pub(crate) async fn connect(target: &PostgresTarget, purpose: Purpose) -> Result<Session, LockError> {
    let mut config = target.config.clone();
    if let Purpose::Locks(ttl) = purpose {
        // In whole seconds: the kernel refuses zero.
        let idle = (ttl / 2).max(Duration::from_secs(1));
        config.tcp_user_timeout(ttl).keepalives(true).keepalives_idle(idle);
    }
    let connected = config.connect(target.connector.clone()).await;
    let (client, connection) = connected.map_err(|error| match error.as_db_error() {
        Some(_) => classify(error),
        None => LockError::unavailable(connect_error(&config, &error)),
    })?;
    let ended = CancellationToken::new();
    let end = ended.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = connection => end.cancel(),
            () = end.cancelled() => {}
        }
    });
    let beacon = Uuid::new_v4().as_u64_pair().0.cast_signed();
    let session = Session { client, ended, beacon, direct: Arc::default(), prepared: Mutex::default() };
    if let Purpose::Locks(ttl) = purpose {
        session.client.batch_execute(&settings(ttl, beacon)).await.map_err(classify)?;
    }
    Ok(session)
}

/// The server must notice a dead peer: when idle, by keepalive; when sending, by the user timeout. With only one of them, a lock can stay held
/// for hours. Neither may act before `ttl` is over, because until then the holder trusts its lock.
fn settings(ttl: Duration, beacon: i64) -> String {
    let seconds = ttl.as_secs() + 1;
    let (idle, interval) = (seconds.div_ceil(2), seconds.div_ceil(6));
    let count = (seconds - idle).div_ceil(interval) + 1;
    let timeout = seconds * 1000;
    format!(
        "set tcp_keepalives_idle = {idle}; set tcp_keepalives_interval = {interval}; set tcp_keepalives_count = {count}; \
         set tcp_user_timeout = {timeout}; set statement_timeout = 0; \
         select set_config(name, '0', false) from pg_settings where name = 'idle_session_timeout'; \
         select pg_advisory_lock({beacon})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_end_gives_up_before_the_lock_may_end() {
        for seconds in [1, 2, 3, 10, 30, 600] {
            let text = settings(Duration::from_secs(seconds), 7);
            let number = |name: &str| -> u64 {
                let rest = text.split(&format!("{name} = ")).nth(1).unwrap();
                rest.split(';').next().unwrap().trim().parse().unwrap()
            };
            let keepalive =
                number("keepalives_idle") + number("keepalives_interval") * number("keepalives_count");
            assert!(keepalive > seconds && keepalive < seconds * 2 + 5, "{text}");
            assert!(number("user_timeout") > seconds * 1000, "{text}");
        }
    }

    #[tokio::test]
    async fn the_server_accepts_the_settings_of_a_connection_that_carries_locks() {
        let database = lineclear_testkit::fresh_postgres().await;
        let target = PostgresTarget::new(database.url()).unwrap();
        let session = connect(&target, Purpose::Locks(Duration::from_secs(30))).await.unwrap();
        // PostgreSQL reads these back from the socket.
        for (name, value) in [
            ("tcp_keepalives_idle", "16"),
            ("tcp_keepalives_interval", "6"),
            ("tcp_keepalives_count", "4"),
            ("tcp_user_timeout", "31000"),
        ] {
            let row = session.client.query_one(&format!("show {name}"), &[]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), value, "{name}");
        }
    }

    #[tokio::test]
    async fn statements_are_prepared_once_on_direct_connections_and_never_on_others() {
        let database = lineclear_testkit::fresh_postgres().await;
        let target = PostgresTarget::new(database.url()).unwrap();
        for (direct, prepared) in [(true, 1_i64), (false, 0)] {
            let connection = Connection::new(&target, Purpose::Statements, Arc::new(AtomicBool::new(direct)));
            let call = connection.call().await.unwrap();
            for number in [1_i64, 2, 3] {
                let row = call
                    .session()
                    .query_opt("select $1 + 1", &[(&number, Type::INT8)])
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!(row.get::<_, i64>(0), number + 1);
            }
            let count = "select count(*) from pg_prepared_statements where not from_sql and statement = 'select $1 + 1'";
            let row = call.session().client.query_typed_one(count, &[]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0), prepared);
            call.answer(Ok(())).unwrap();
        }
    }
}
