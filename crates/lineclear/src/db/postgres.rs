//! PostgreSQL: a pool of connections, transactions that cannot be left open, and statements that are prepared or, behind a
//! transaction pooler, sent whole each time.

mod session;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use lineclear_tls::Connector;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Config, GenericClient};

use crate::db::classify;
pub(crate) use crate::db::postgres::session::PgSession;
use crate::db::postgres::session::{decode, typed};
use crate::db::statements;
use crate::db::statements::Statement;
use crate::db::value::{Params, Row};
use crate::db::{Session, Verb};
use crate::error::Late;
use crate::store::{Hint, StoreError, StoreOptions, StoreResult};

/// Attempts at a verb that loses races, before the caller gets the error.
const ATTEMPTS_MAX: u32 = 4;

/// The timeout for a free or a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of a verb without a deadline.
const NO_DEADLINE: Duration = Duration::from_secs(60 * 60);

/// How much longer than the server a client waits: the server ends a statement first, so that no statement commits after
/// its caller gave up.
const AFTER_SERVER: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: Pool,
    texts: Arc<Vec<String>>,
    pooler: bool,
    limits: TimeLimits,
    /// Half of the connections for transactions, which may wait for locks: the other half is there for single statements, which do
    /// not. `None`: the loops of a node wait for nothing.
    transactions: Option<Arc<Semaphore>>,
    /// For connections outside the pool.
    config: Arc<Config>,
    connector: Connector,
}

impl Postgres {
    pub(crate) async fn open(mut config: Config, options: &StoreOptions) -> StoreResult<Postgres> {
        config.application_name("lineclear").connect_timeout(CONNECT_TIMEOUT);
        // Detects a server that vanished in seconds, not in the two hours of the default.
        config.keepalives_idle(Duration::from_secs(5)).keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(2).tcp_user_timeout(Duration::from_secs(15));
        let connector = options.connector(&mut config)?;
        let (pooler, limits) = (options.behind_pooler(), TimeLimits::of_callers(options.verb_deadline()));
        let pool = pool(&config, &connector, pooler, limits, (options.connections_max(), CONNECT_TIMEOUT));
        let texts = Arc::new(statements::for_postgres(&options.schema_quoted()));
        let half = Arc::new(Semaphore::new((options.connections_max() / 2).max(1)));
        Ok(Postgres {
            pool,
            texts,
            pooler,
            limits,
            transactions: Some(half),
            config: Arc::new(config),
            connector,
        })
    }

    /// Opens separate connections to the database for the loops of a node: callers cannot use them up.
    pub(crate) fn for_loops(&self, connections: usize) -> Postgres {
        let limits = TimeLimits::of_loops(self.limits.statement);
        self.with_pool(limits, (connections, CONNECT_TIMEOUT))
    }

    /// One connection for the watch of a node, which gives up after `within`.
    pub(crate) fn for_watch(&self, within: Duration) -> Postgres {
        self.with_pool(TimeLimits { statement: within, lock: within }, (1, within))
    }

    fn with_pool(&self, limits: TimeLimits, size: (usize, Duration)) -> Postgres {
        let pool = pool(&self.config, &self.connector, self.pooler, limits, size);
        Postgres { pool, limits, transactions: None, ..self.clone() }
    }

    /// The SQL text of a statement.
    pub(crate) fn text(&self, statement: Statement) -> &str {
        &self.texts[statement as usize]
    }

    /// Runs a statement inside the caller's transaction. Sent whole: no prepared statement stays on its connection.
    pub(crate) async fn in_transaction<C: GenericClient + Sync>(
        &self,
        transaction: &C,
        statement: Statement,
        params: Params,
    ) -> StoreResult<Vec<Row>> {
        let rows = transaction.query_typed(&self.texts[statement as usize], &typed(&params)).await;
        decode(&rows.map_err(classify::postgres)?)
    }

    /// Listens on a connection outside the pool: LISTEN belongs to its session.
    pub(crate) async fn listen(&self, channel: &str, wake: impl Fn(Hint)) -> StoreResult<()> {
        let (client, mut connection) = self
            .config
            .connect(self.connector.clone())
            .await
            .map_err(|e| classify::connect(&self.config, e))?;
        let command = format!("listen {channel}");
        let mut command = std::pin::pin!(client.batch_execute(&command));
        let mut listening = false;
        loop {
            tokio::select! {
                done = &mut command, if !listening => {
                    done.map_err(classify::postgres)?;
                    listening = true;
                    // There may have been notifications before LISTEN took effect.
                    wake(Hint::Work);
                    wake(Hint::Manifests);
                    wake(Hint::Nodes);
                }
                message = poll_fn(|context| connection.poll_message(context)) => match message {
                    Some(Ok(AsyncMessage::Notification(note))) => wake(Hint::of(note.payload())),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(classify::postgres(error)),
                    None => return Ok(()),
                },
            }
        }
    }

    /// A connection outside the pool, on which a statement may take long: it builds an index, outside of a transaction. Also returns
    /// its server process; 0: unknown.
    pub(crate) async fn connect_to_build(&self) -> StoreResult<(Builder, i64)> {
        let mut config = (*self.config).clone();
        if !self.pooler {
            let limits = TimeLimits { statement: NO_DEADLINE, lock: NO_DEADLINE };
            let given = config.get_options().unwrap_or_default().to_owned();
            config.options(format!("{} {given}", limits.as_options()));
        }
        let (client, connection) =
            config.connect(self.connector.clone()).await.map_err(|e| classify::connect(&self.config, e))?;
        // Ends with the client.
        tokio::spawn(connection);
        // Behind a pooler, the next statement may run in another process.
        let sql = if self.pooler { "select 0::bigint" } else { "select pg_backend_pid()::bigint" };
        let rows = client.query_typed(sql, &[]).await.map_err(classify::postgres)?;
        Ok((Builder(client), rows.first().map_or(0, |row| row.get(0))))
    }

    /// Runs a verb in a task of its own: a cancelled caller must not leave a transaction open.
    pub(crate) async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.run_here(verb).await });
        match task.await {
            Ok(answer) => answer,
            // As on SQLite: the loops of a node continue.
            Err(failed) if failed.is_panic() => {
                Err(StoreError::Corrupt { what: "a verb panicked".to_owned() })
            }
            Err(stopped) => Err(StoreError::Unavailable { maybe_applied: true, source: Box::new(stopped) }),
        }
    }

    /// Runs a verb in the caller's task; if the caller is cancelled in a transaction, the connection is closed.
    pub(crate) async fn run_here<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        let mut attempts = 1;
        loop {
            match self.attempt(&verb).await {
                Err(StoreError::Contended { .. }) if attempts < ATTEMPTS_MAX => {
                    tokio::time::sleep(Duration::from_millis(5 << attempts)).await;
                    attempts += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn attempt<V: Verb>(&self, verb: &V) -> StoreResult<V::Answer> {
        let _permit = match &self.transactions {
            Some(permits) if verb.is_transaction() && !verb.is_patient() => Some(permit(permits).await?),
            _ => None,
        };
        let mut session =
            Session::Postgres(self.limited_session(verb.is_transaction(), verb.is_patient()).await?);
        // A server that neither answers nor closes the connection must not block a node forever.
        let deadline = if verb.is_patient() { NO_DEADLINE } else { self.limits.statement + AFTER_SERVER };
        let answer =
            timeout(deadline, verb.run(&mut session)).await.unwrap_or_else(|_| Err(self.timed_out()));
        let Session::Postgres(mut session) = session else { unreachable!("made above") };
        match answer {
            Ok(answer) => match timeout(deadline, session.commit()).await {
                Ok(committed) => committed.map(|()| answer),
                Err(_) => Err(self.timed_out()),
            },
            // A connection that missed a deadline would not answer a rollback either. The server rolls back when it is closed.
            Err(error @ StoreError::Unavailable { .. }) => {
                session.close();
                Err(if verb.is_transaction() { not_applied(error) } else { error })
            }
            Err(error) => {
                if timeout(deadline, session.roll_back()).await.is_err() {
                    session.close();
                }
                Err(error)
            }
        }
    }

    /// No answer within the deadline; the statement may have been applied. The idle connections are as old as the silent one, and
    /// each may cost another deadline: new ones take their place.
    fn timed_out(&self) -> StoreError {
        self.pool.retain(|_, _| false);
        let source = Late("no answer within the deadline".to_owned()).into();
        StoreError::Unavailable { maybe_applied: true, source }
    }

    /// A connection for one verb. A transaction begins with the first statement.
    pub(crate) async fn session(&self, is_transaction: bool) -> StoreResult<PgSession> {
        self.limited_session(is_transaction, false).await
    }

    async fn limited_session(&self, is_transaction: bool, is_patient: bool) -> StoreResult<PgSession> {
        let client = self.pool.get().await.map_err(|e| classify::pool(&self.config, e))?;
        let limits =
            if is_patient { TimeLimits { statement: NO_DEADLINE, lock: NO_DEADLINE } } else { self.limits };
        // Behind a pooler, or with other limits than its connection, each transaction sets its own.
        let sets = (self.pooler || is_patient).then(|| limits.set_local());
        Ok(PgSession::new(client, self.texts.clone(), self.pooler, is_transaction, sets))
    }
}

/// A connection that builds indexes. Each statement is sent alone, and is no part of a transaction.
pub(crate) struct Builder(tokio_postgres::Client);

impl Builder {
    pub(crate) async fn run(&self, sql: &str) -> StoreResult<()> {
        self.0.batch_execute(sql).await.map_err(classify::postgres)
    }
}

/// How long the server lets our statements take. A caller's statement that waits for a foreign lock ends with an error
/// instead of waiting on, whether its caller still listens or not.
#[derive(Clone, Copy)]
struct TimeLimits {
    statement: Duration,
    lock: Duration,
}

impl TimeLimits {
    fn of_callers(deadline: Duration) -> TimeLimits {
        TimeLimits { statement: deadline, lock: Duration::from_secs(2).min(deadline) }
    }

    /// A loop does not wait long for a lock, and not long for a silent server: leases run out meanwhile.
    fn of_loops(deadline: Duration) -> TimeLimits {
        TimeLimits {
            statement: deadline.min(Duration::from_secs(10)),
            lock: Duration::from_secs(1).min(deadline),
        }
    }

    /// Name and milliseconds of each setting. The last: a node that freezes in a transaction blocks others for at most so long.
    fn settings(self) -> [(&'static str, u128); 3] {
        [
            ("statement_timeout", self.statement.as_millis().max(1)),
            ("lock_timeout", self.lock.as_millis().max(1)),
            ("idle_in_transaction_session_timeout", 10_000),
        ]
    }

    fn as_options(self) -> String {
        self.settings().map(|(name, ms)| format!("-c {name}={ms}")).join(" ")
    }

    fn set_local(self) -> String {
        self.settings().map(|(name, ms)| format!("set local {name} = {ms}")).join("; ")
    }
}

/// A pool of so many connections; a caller waits for a free or a new one for so long.
fn pool(
    config: &Config,
    connector: &Connector,
    pooler: bool,
    limits: TimeLimits,
    (size, within): (usize, Duration),
) -> Pool {
    let mut config = config.clone();
    if !pooler {
        // A plan made for an empty queue scans the whole table once it is full (700 ms instead of 5).
        // A pooler would refuse or ignore these; there, every statement is planned anew anyway.
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("-c plan_cache_mode=force_custom_plan {} {given}", limits.as_options()));
    }
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, connector.clone(), recycling))
        .max_size(size)
        // The connection that was used last: its server process still has everything in its caches.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(within))
        .create_timeout(Some(within))
        .build()
        .expect("a pool with timeouts has its runtime")
}

/// A permit for a transaction; an error if those before it wait for too long.
async fn permit(permits: &Semaphore) -> StoreResult<SemaphorePermit<'_>> {
    let locked = || StoreError::Locked { source: "too many transactions wait for locks".into() };
    match timeout(CONNECT_TIMEOUT, permits.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(locked()),
    }
}

/// Without COMMIT nothing was applied, even if the answer was lost.
fn not_applied(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { source, .. } => StoreError::Unavailable { maybe_applied: false, source },
        other => other,
    }
}
