//! PostgreSQL: a pool of connections, transactions that nobody can leave half-open, and statements prepared or, behind
//! a transaction pooler, sent whole each time.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use lineclear_model::Micros;
use lineclear_tls::Connector;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Config, GenericClient};

use crate::db::classify;
use crate::db::statements;
use crate::db::statements::Statement;
use crate::db::value::{Cell, Params, Row};
use crate::db::{Session, Verb};
use crate::store::{Hint, StoreError, StoreOptions, StoreResult};

/// How often a verb that lost a race is begun again before the caller hears of it.
const TRIES_MAX: u32 = 4;

/// How long to wait for a free connection, or for a new one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a verb without a deadline may take.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: Pool,
    texts: Arc<Vec<String>>,
    pooler: bool,
    deadline: Duration,
    /// For connections outside the pool.
    config: Arc<Config>,
    connector: Connector,
}

impl Postgres {
    pub(crate) async fn open(mut config: Config, options: &StoreOptions) -> StoreResult<Postgres> {
        if !options.behind_pooler() {
            // A plan made while the queue was empty scans the whole table once it is full (700 ms instead of 5).
            // A pooler would refuse or ignore these; there, every statement is planned anew anyway.
            let given = config.get_options().unwrap_or_default();
            // A node that freezes in a transaction holds up whoever needs its rows for so long: all that settle its manifests.
            let ours = "-c plan_cache_mode=force_custom_plan -c idle_in_transaction_session_timeout=10s";
            config.options(format!("{ours} {given}"));
        }
        config.application_name("lineclear").connect_timeout(CONNECT_TIMEOUT);
        // A server that vanished without a word is noticed in seconds, not in the two hours of the default.
        config.keepalives_idle(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(20));
        let connector = options.connector(&mut config)?;
        let own = Arc::new(config.clone());
        let manager = Manager::from_config(
            config,
            connector.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(options.connections_max())
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .build()
            .expect("a pool with timeouts has its runtime");
        let texts = Arc::new(statements::for_postgres(&options.schema_quoted()));
        Ok(Postgres {
            pool,
            texts,
            pooler: options.behind_pooler(),
            deadline: options.verb_deadline(),
            config: own,
            connector,
        })
    }

    /// A statement as it is sent.
    pub(crate) fn text(&self, statement: Statement) -> &str {
        &self.texts[statement as usize]
    }

    /// Runs a statement inside somebody else's transaction. Sent whole: nothing is left behind on their connection.
    pub(crate) async fn in_transaction<C: GenericClient + Sync>(
        &self,
        transaction: &C,
        statement: Statement,
        params: Params,
    ) -> StoreResult<Vec<Row>> {
        let rows = transaction.query_typed(&self.texts[statement as usize], &typed(&params)).await;
        decode(&rows.map_err(classify::postgres)?)
    }

    /// Listens on a connection of its own, never one of the pool: LISTEN belongs to its session.
    pub(crate) async fn listen(&self, channel: &str, wake: impl Fn(Hint)) -> StoreResult<()> {
        let (client, mut connection) =
            self.config.connect(self.connector.clone()).await.map_err(classify::postgres)?;
        let command = format!("listen {channel}");
        let mut command = std::pin::pin!(client.batch_execute(&command));
        let mut listening = false;
        loop {
            tokio::select! {
                done = &mut command, if !listening => {
                    done.map_err(classify::postgres)?;
                    listening = true;
                    // Something may have come before we listened.
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

    /// Runs a verb in a task of its own: a caller that goes away must not leave a transaction half-open.
    pub(crate) async fn run<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        let this = self.clone();
        let task = tokio::spawn(async move { this.run_here(verb).await });
        match task.await {
            Ok(answer) => answer,
            // As on SQLite: the loops of a node go on.
            Err(failed) if failed.is_panic() => {
                Err(StoreError::Corrupt { what: "a verb panicked".to_owned() })
            }
            Err(stopped) => Err(StoreError::Unavailable { maybe_applied: true, source: Box::new(stopped) }),
        }
    }

    /// Runs a verb; a caller that goes away may leave its transaction half-open, and the connection is hung up.
    pub(crate) async fn run_here<V: Verb>(&self, verb: V) -> StoreResult<V::Answer> {
        let mut tries = 1;
        loop {
            match self.attempt(&verb).await {
                Err(StoreError::Contended { .. }) if tries < TRIES_MAX => {
                    tokio::time::sleep(Duration::from_millis(5 << tries)).await;
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn attempt<V: Verb>(&self, verb: &V) -> StoreResult<V::Answer> {
        let mut session = Session::Postgres(self.session(verb.is_transaction()).await?);
        // A server that says nothing, and does not even hang up, must not hold a node for ever.
        let deadline = if verb.is_patient() { PATIENCE } else { self.deadline };
        let answer = timeout(deadline, verb.run(&mut session)).await.unwrap_or_else(|_| Err(silence()));
        let Session::Postgres(mut session) = session else { unreachable!("made above") };
        match answer {
            Ok(answer) => match timeout(deadline, session.commit()).await {
                Ok(committed) => committed.map(|()| answer),
                Err(_) => Err(silence()),
            },
            Err(error) => {
                let undone = timeout(deadline, session.roll_back()).await.is_ok();
                if !undone || matches!(error, StoreError::Unavailable { .. }) {
                    session.hang_up();
                }
                Err(if verb.is_transaction() { not_applied(error) } else { error })
            }
        }
    }

    /// A connection for one verb. Its transaction begins with its first statement.
    pub(crate) async fn session(&self, is_transaction: bool) -> StoreResult<PgSession> {
        let client = self.pool.get().await.map_err(classify::pool)?;
        let transaction = if is_transaction { Transaction::Wanted } else { Transaction::None };
        Ok(PgSession { client: Some(client), texts: self.texts.clone(), pooler: self.pooler, transaction })
    }
}

/// No answer within the deadline; what was sent may have been done.
fn silence() -> StoreError {
    StoreError::Unavailable { maybe_applied: true, source: "the database did not answer in time".into() }
}

/// Without our COMMIT nothing happened, even if the answer was lost.
fn not_applied(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable { source, .. } => StoreError::Unavailable { maybe_applied: false, source },
        other => other,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Transaction {
    None,
    /// To be begun with the first statement, in the same round trip.
    Wanted,
    Open,
}

pub(crate) struct PgSession {
    client: Option<Object>,
    texts: Arc<Vec<String>>,
    pooler: bool,
    transaction: Transaction,
}

impl PgSession {
    /// Behind a pooler a connection is not ours to set up: each transaction says it for itself.
    fn begin(&self) -> &'static str {
        if self.pooler { "begin; set local idle_in_transaction_session_timeout = '10s'" } else { "begin" }
    }

    fn client(&self) -> &Object {
        self.client.as_ref().expect("a session has its connection until it ends")
    }

    pub(crate) async fn rows(&mut self, statement: Statement, params: &Params) -> StoreResult<Vec<Row>> {
        let texts = self.texts.clone();
        self.query(&texts[statement as usize], params).await
    }

    pub(crate) async fn query(&mut self, text: &str, params: &Params) -> StoreResult<Vec<Row>> {
        let typed = typed(params);
        let prepared = if self.pooler {
            None
        } else {
            let types: Vec<Type> = typed.iter().map(|(_, ty)| ty.clone()).collect();
            Some(self.client().prepare_typed_cached(text, &types).await.map_err(classify::postgres)?)
        };
        let begin = self.transaction == Transaction::Wanted;
        if begin {
            self.transaction = Transaction::Open;
        }
        let client = self.client();
        let ask = async {
            match &prepared {
                Some(statement) => {
                    let values: Vec<&(dyn ToSql + Sync)> = typed.iter().map(|(v, _)| *v).collect();
                    client.query(statement, &values).await
                }
                None => client.query_typed(text, &typed).await,
            }
        };
        let rows = if begin {
            // Sent one behind the other without waiting for the first answer: one round trip.
            let (begun, rows) = tokio::join!(biased; client.batch_execute(self.begin()), ask);
            begun.and(rows)
        } else {
            ask.await
        };
        decode(&rows.map_err(classify::postgres)?)
    }

    /// How the server would run a statement.
    #[cfg(test)]
    pub(crate) async fn explain(&mut self, statement: Statement, params: &Params) -> StoreResult<String> {
        let text = format!("explain (costs off) {}", self.texts[statement as usize]);
        let rows = self.query(&text, params).await?;
        Ok(rows
            .iter()
            .map(|row| row.get::<String>("QUERY PLAN"))
            .collect::<StoreResult<Vec<_>>>()?
            .join("\n"))
    }

    pub(crate) async fn batch(&mut self, sql: &str) -> StoreResult<()> {
        if self.transaction == Transaction::Wanted {
            self.transaction = Transaction::Open;
            self.client().batch_execute(self.begin()).await.map_err(classify::postgres)?;
        }
        self.client().batch_execute(sql).await.map_err(classify::postgres)
    }

    pub(crate) async fn commit(&mut self) -> StoreResult<()> {
        if self.transaction == Transaction::Open {
            self.client().batch_execute("commit").await.map_err(classify::postgres)?;
            self.transaction = Transaction::None;
        }
        Ok(())
    }

    pub(crate) async fn roll_back(&mut self) {
        if self.transaction == Transaction::Open && self.client().batch_execute("rollback").await.is_ok() {
            self.transaction = Transaction::None;
        }
    }
}

impl PgSession {
    /// Closes the connection instead of giving it back to the pool.
    fn hang_up(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Drop for PgSession {
    /// A connection whose transaction may still be open is not for others.
    fn drop(&mut self) {
        if self.transaction == Transaction::Open {
            self.hang_up();
        }
    }
}

/// Parameters with their types.
fn typed(params: &Params) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let values = params.values.iter().map(|v| (v as &(dyn ToSql + Sync), v.pg_type()));
    values.chain(params.batch.iter().map(|c| (c as &(dyn ToSql + Sync), c.pg_type()))).collect()
}

fn decode(rows: &[tokio_postgres::Row]) -> StoreResult<Vec<Row>> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let names: Arc<[String]> = first.columns().iter().map(|c| c.name().to_owned()).collect();
    let cells =
        |row: &tokio_postgres::Row| (0..row.len()).map(|at| cell(row, at)).collect::<StoreResult<_>>();
    rows.iter().map(|row| Ok(Row { names: names.clone(), cells: cells(row)? })).collect()
}

fn cell(row: &tokio_postgres::Row, at: usize) -> StoreResult<Cell> {
    let ty = row.columns()[at].type_();
    let int = |v: Option<i64>| v.map_or(Cell::Null, Cell::Int);
    let cell = match *ty {
        Type::INT8 => row.try_get::<_, Option<i64>>(at).map(int),
        Type::INT4 => row.try_get::<_, Option<i32>>(at).map(|v| int(v.map(i64::from))),
        Type::INT2 => row.try_get::<_, Option<i16>>(at).map(|v| int(v.map(i64::from))),
        Type::BOOL => row.try_get::<_, Option<bool>>(at).map(|v| int(v.map(i64::from))),
        Type::TIMESTAMPTZ => {
            row.try_get::<_, Option<jiff::Timestamp>>(at).map(|v| int(v.map(|at| Micros::from(at).get())))
        }
        Type::TEXT => row.try_get::<_, Option<String>>(at).map(|v| v.map_or(Cell::Null, Cell::Text)),
        Type::VOID => Ok(Cell::Null),
        _ => {
            let what = format!(
                "column {} has type {ty}, which no statement of ours returns",
                row.columns()[at].name()
            );
            return Err(StoreError::Corrupt { what });
        }
    };
    cell.map_err(|e| StoreError::Corrupt { what: e.to_string() })
}
