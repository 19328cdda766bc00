//! The database server: version, latency, clock, open transactions and dead rows.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lineclear_model::doctor::database::{self, Session as Open, Table};
use lineclear_model::doctor::{Check, CheckName, HealthFacts};

use crate::builder::host;
use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb, values};
use crate::error::no_answer;
use crate::operate::doctor::or_failure;
use crate::operate::health_facts;
use crate::store::{Store, StoreResult};

/// Pings for the latency.
const PINGS: usize = 20;

/// A statement with a timeout.
struct Bounded {
    statement: Statement,
    params: Vec<Value>,
}

impl Verb for Bounded {
    type Answer = Vec<Row>;

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Row>> {
        health_facts::set_statement_timeout(session, self.statement == Statement::DoctorManifests).await?;
        session.rows(self.statement, self.params.clone()).await
    }
}

impl Store {
    pub(crate) async fn bounded(&self, statement: Statement, params: Vec<Value>) -> StoreResult<Vec<Row>> {
        self.db.read(Bounded { statement, params }).await
    }

    pub(crate) async fn one(&self, statement: Statement, params: Vec<Value>) -> StoreResult<Row> {
        self.bounded(statement, params).await?.into_iter().next().ok_or_else(|| no_answer(statement.name()))
    }

    pub(crate) async fn server_checks(&self) -> Vec<Check> {
        let mut checks = vec![
            or_failure(CheckName::Version, self.version_check().await),
            or_failure(CheckName::Latency, self.latency_check().await),
        ];
        if self.options.is_postgres() {
            checks.push(or_failure(CheckName::Transactions, self.transactions_check().await));
            checks.push(or_failure(CheckName::DeadRows, self.dead_rows_check().await));
        }
        checks
    }

    async fn version_check(&self) -> StoreResult<Check> {
        let server = self.one(Statement::Server, values![]).await?;
        let version: String = server.get("version")?;
        Ok(match self.options.is_postgres() {
            true => database::postgres_version(&version, server.get("number")?, server.get("standby")?),
            false => Check::ok(CheckName::Version, format!("SQLite {version}, which is built in")),
        })
    }

    /// The `plan_cache_mode` of this store's sessions.
    pub(crate) async fn plan_cache_mode(&self) -> StoreResult<String> {
        self.one(Statement::Server, values![]).await?.get("plan_cache_mode")
    }

    async fn latency_check(&self) -> StoreResult<Check> {
        let mut pings = Vec::with_capacity(PINGS);
        // The first one may include the time to connect.
        self.read_rows(Statement::Now, values![]).await?;
        for _ in 0..PINGS {
            let begun = Instant::now();
            self.read_rows(Statement::Now, values![]).await?;
            pings.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        Ok(database::latency(&pings))
    }

    /// Compares this machine's clock, and the newest heartbeat, with the database's clock.
    pub(crate) async fn clock_check(&self, facts: Option<&HealthFacts>) -> StoreResult<Check> {
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let before = clock();
        let now = self.now().await?;
        let after = clock();
        let micros = |at: u128| i64::try_from(at).unwrap_or(i64::MAX);
        let off_by = micros(after.saturating_sub(before) / 2);
        let ahead = now.get().saturating_sub(micros(before).saturating_add(off_by));
        let newest = facts.and_then(|facts| facts.nodes.iter().max_by_key(|node| node.seen_at));
        let seen = newest.map(|node| (node.name.as_str(), node.seen_at.get() - now.get()));
        Ok(database::clock(CheckName::Clock, &host(), ahead, off_by, seen))
    }

    async fn transactions_check(&self) -> StoreResult<Check> {
        let row = self.one(Statement::ServerTransactions, values![]).await?;
        let oldest = match row.get::<Option<String>>("who")? {
            Some(who) => Some(Open {
                pid: row.get("pid")?,
                who,
                state: row.get("state")?,
                open_us: row.get("open_us")?,
                idle_us: row.get("idle_us")?,
            }),
            None => None,
        };
        Ok(database::transactions(oldest.as_ref(), row.get("hidden")?))
    }

    async fn dead_rows_check(&self) -> StoreResult<Check> {
        let autovacuum = self.one(Statement::Server, values![]).await?.get("autovacuum")?;
        let table = |row: &Row| {
            Ok(Table {
                name: row.get("name")?,
                live: row.get("live")?,
                dead: row.get("dead")?,
                vacuumed_us: row.get("vacuumed_us")?,
                neglected: row.get("neglected")?,
            })
        };
        let rows = self.bounded(Statement::ServerTables, values![self.options.schema()]).await?;
        let tables: Vec<Table> = rows.iter().map(table).collect::<StoreResult<_>>()?;
        Ok(database::dead_rows(&tables, autovacuum))
    }
}
