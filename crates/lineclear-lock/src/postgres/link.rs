//! A connection that is made when it is needed, and made again when it has ended.

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
use super::place::PostgresPlace;
use crate::error::LockError;

/// One connection of ours.
#[derive(Debug)]
pub(crate) struct Link {
    place: PostgresPlace,
    purpose: Purpose,
    /// Whether it is known that nothing that shares sessions is in between: then statements are prepared.
    direct: Arc<AtomicBool>,
    wire: Mutex<Option<Arc<Wire>>>,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Statements; anything may be in between.
    Statements,
    /// It carries rights that end with it, so both ends must notice that it is dead, but not sooner than this.
    Rights(Duration),
}

pub(crate) struct Wire {
    pub(crate) client: Client,
    /// Cancelled when the connection has ended, and by us to end it.
    pub(crate) ended: CancellationToken,
    /// An advisory lock that this connection holds to its end, to show that it lives.
    pub(crate) beacon: i64,
    direct: Arc<AtomicBool>,
    /// What was prepared on it, by its text.
    prepared: Mutex<HashMap<String, Statement>>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire {{ beacon: {} }}", self.beacon)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

/// Whatever the table was like when a statement was prepared, it finds its row by the name.
const PREPARED: &str = "set enable_seqscan = off; set plan_cache_mode = force_generic_plan";

/// What a statement is given, and of which types.
pub(super) type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

impl Wire {
    /// A statement that answers with one row or none: prepared at its first use, which is a round trip more, or sent whole each time
    /// where a pooler may be in between.
    pub(super) async fn ask(&self, text: &str, params: &Params<'_>) -> Result<Option<Row>, Error> {
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
        // One behind the other, without waiting for the first answer.
        let (set, statement) = tokio::join!(biased; self.client.batch_execute(PREPARED), self.client.prepare_typed(text, &types));
        let statement = set.and(statement)?;
        prepared.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// A question that is on its way. If it is dropped before its answer has come, because that takes too long, the connection is given
/// up: it may be dead, and all that comes after would wait, too.
pub(crate) struct Call {
    wire: Arc<Wire>,
    answered: bool,
}

impl Call {
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    pub(crate) fn answer<T>(mut self, answer: Result<T, tokio_postgres::Error>) -> Result<T, LockError> {
        self.answered = true;
        answer.map_err(classify)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.answered {
            self.wire.ended.cancel();
        }
    }
}

impl Link {
    pub(crate) fn new(place: &PostgresPlace, purpose: Purpose, direct: Arc<AtomicBool>) -> Link {
        Link { place: place.clone(), purpose, direct, wire: Mutex::new(None) }
    }

    /// Begins a question.
    pub(crate) async fn call(&self) -> Result<Call, LockError> {
        let mut wire = self.wire.lock().await;
        let alive = wire.as_ref().filter(|wire| !wire.ended.is_cancelled() && !wire.client.is_closed());
        let wire = match alive {
            Some(alive) => alive.clone(),
            None => {
                *wire = None;
                let mut made = connect(&self.place, self.purpose).await?;
                made.direct = self.direct.clone();
                wire.insert(Arc::new(made)).clone()
            }
        };
        Ok(Call { wire, answered: false })
    }
}

/// Connects, on the runtime of the caller.
pub(crate) async fn connect(place: &PostgresPlace, purpose: Purpose) -> Result<Wire, LockError> {
    let mut config = place.config.clone();
    if let Purpose::Rights(lasting) = purpose {
        config.tcp_user_timeout(lasting).keepalives(true).keepalives_idle(lasting / 2);
    }
    let connected = config.connect(place.connector.clone()).await;
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
    let wire = Wire { client, ended, beacon, direct: Arc::default(), prepared: Mutex::default() };
    if let Purpose::Rights(lasting) = purpose {
        wire.client.batch_execute(&settings(lasting, beacon)).await.map_err(classify)?;
    }
    Ok(wire)
}

/// The server must notice a dead peer: idle, by keepalive; with an answer on its way, by the user timeout. One without the other
/// leaves the lock held for hours. Neither may come before `lasting` is over, because until then the holder trusts its lock.
fn settings(lasting: Duration, beacon: i64) -> String {
    let seconds = lasting.as_secs() + 1;
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
    async fn the_server_takes_the_settings_of_a_connection_that_carries_rights() {
        let database = lineclear_testkit::fresh_postgres().await;
        let place = PostgresPlace::new(database.url()).unwrap();
        let wire = connect(&place, Purpose::Rights(Duration::from_secs(30))).await.unwrap();
        // PostgreSQL reads these back from the socket.
        for (name, value) in [
            ("tcp_keepalives_idle", "16"),
            ("tcp_keepalives_interval", "6"),
            ("tcp_keepalives_count", "4"),
            ("tcp_user_timeout", "31000"),
        ] {
            let row = wire.client.query_one(&format!("show {name}"), &[]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0), value, "{name}");
        }
    }

    #[tokio::test]
    async fn statements_are_prepared_once_where_nothing_is_in_between_and_not_at_all_elsewhere() {
        let database = lineclear_testkit::fresh_postgres().await;
        let place = PostgresPlace::new(database.url()).unwrap();
        for (direct, prepared) in [(true, 1_i64), (false, 0)] {
            let link = Link::new(&place, Purpose::Statements, Arc::new(AtomicBool::new(direct)));
            let call = link.call().await.unwrap();
            for number in [1_i64, 2, 3] {
                let row = call.wire().ask("select $1 + 1", &[(&number, Type::INT8)]).await.unwrap().unwrap();
                assert_eq!(row.get::<_, i64>(0), number + 1);
            }
            let count = "select count(*) from pg_prepared_statements where not from_sql and statement = 'select $1 + 1'";
            let row = call.wire().client.query_typed_one(count, &[]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0), prepared);
            call.answer(Ok(())).unwrap();
        }
    }
}
