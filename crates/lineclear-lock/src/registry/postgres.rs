//! The registry in PostgreSQL: one statement for each verb, through any pooler.

use std::sync::Arc;

use tokio_postgres::Row as PgRow;
use tokio_postgres::types::{ToSql, Type};

use super::record::{LeaseRecord, LockEvent};
use super::table::{self, Contention, HoldEnd, LeaseFilter, LeaseUpdate, Row, Table, VanishedHold};
use crate::backend::LockFuture;
use crate::error::LockError;
use crate::name::Epoch;
use crate::postgres::PostgresTarget;
use crate::postgres::classify;
use crate::postgres::connection::{Link, Purpose};

const SCHEMA: &str = include_str!("../../sql/postgres/registry_schema.sql");
const VIEW: &str = include_str!("../../sql/postgres/registry_view.sql");

/// The tables in a schema of a database.
#[derive(Debug)]
pub(super) struct PostgresTable {
    place: PostgresTarget,
    link: Link,
    sql: Statements,
}

#[derive(Debug)]
struct Statements {
    write: String,
    contend: String,
    end: String,
    list: String,
    remove: String,
    tidy: String,
    events: String,
}

type Param<'a> = (&'a (dyn ToSql + Sync), Type);

impl PostgresTable {
    pub(super) fn new(url: &str) -> Result<PostgresTable, LockError> {
        let place = PostgresTarget::new(url)?;
        let sql = Statements {
            write: place.sql(include_str!("../../sql/postgres/lease_write.sql")),
            contend: place.sql(include_str!("../../sql/postgres/lease_contend.sql")),
            end: place.sql(include_str!("../../sql/postgres/lease_end.sql")),
            list: place.sql(include_str!("../../sql/postgres/lease_list.sql")),
            remove: place.sql(include_str!("../../sql/postgres/lease_remove.sql")),
            tidy: place.sql(include_str!("../../sql/postgres/lease_clean.sql")),
            events: place.sql(include_str!("../../sql/postgres/event_list.sql")),
        };
        Ok(PostgresTable { link: Link::new(&place, Purpose::Statements, Arc::default()), place, sql })
    }

    async fn query(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<PgRow>, LockError> {
        let call = self.link.call().await?;
        let rows = call.wire().client.query_typed(sql, params).await;
        call.answer(rows)
    }

    async fn read(&self) -> Result<(bool, bool), LockError> {
        let there = format!(
            "select to_regnamespace('{0}') is not null as schema, to_regclass('\"{0}\".lock_lease') is not null \
             and to_regclass('\"{0}\".lock_event') is not null and to_regclass('\"{0}\".nagare_leases') is not null as made",
            self.place.schema()
        );
        let rows = self.query(&there, &[]).await?;
        let row = rows.first().ok_or_else(|| LockError::failed("the server did not answer"))?;
        Ok((row.get("schema"), row.get("made")))
    }

    async fn make(&self) -> Result<(), LockError> {
        // Whoever finds the tables there need not be allowed to make any.
        let (schema, made) = self.read().await?;
        if made {
            return Ok(());
        }
        let schema = if schema { "" } else { "create schema if not exists {schema};" };
        // One at a time, with the same number as the tables of the locks.
        let make =
            format!("begin; select pg_advisory_xact_lock(1818520683); {schema} {SCHEMA}; {VIEW}; commit");
        let call = self.link.call().await?;
        let client = &call.wire().client;
        let made = client.batch_execute(&self.place.sql(&make)).await;
        if made.is_err() {
            // A pooled connection must not be given back in a broken transaction.
            client.batch_execute("rollback").await.map_err(classify)?;
        }
        call.answer(made)
    }
}

impl Table for PostgresTable {
    fn prepare(&self) -> LockFuture<'_, ()> {
        Box::pin(self.make())
    }

    fn tables_exist(&self) -> LockFuture<'_, bool> {
        Box::pin(async { Ok(self.read().await?.1) })
    }

    fn write<'a>(&'a self, words: &'a [LeaseUpdate]) -> LockFuture<'a, ()> {
        Box::pin(async move {
            let texts = |of: &dyn Fn(&LeaseUpdate) -> String| words.iter().map(of).collect::<Vec<String>>();
            let ints = |of: &dyn Fn(&LeaseUpdate) -> i64| words.iter().map(of).collect::<Vec<i64>>();
            let names = texts(&|word| word.name.to_string());
            let stores = texts(&|word| word.store.to_string());
            let nodes = texts(&|word| table::node(&word.holder));
            let machines = texts(&|word| word.holder.machine.clone());
            let pids = ints(&|word| i64::from(word.holder.pid));
            let incarnations = texts(&|word| word.holder.incarnation.to_string());
            let kinds: Vec<Option<&str>> = words.iter().map(|word| word.kind.as_deref()).collect();
            let epochs = ints(&|word| word.epoch.get());
            let (since, acquired) = (ints(&|word| word.since_ago), ints(&|word| word.acquired_ago));
            let ended: Vec<Option<i64>> = words.iter().map(|word| word.ended_ago).collect();
            let (renews, taken) = (ints(&|word| word.renew_ms), ints(&|word| word.taken));
            let (text, int) = (Type::TEXT_ARRAY, Type::INT8_ARRAY);
            let params: [Param<'_>; 13] = [
                (&names, text.clone()),
                (&stores, text.clone()),
                (&nodes, text.clone()),
                (&machines, text.clone()),
                (&pids, int.clone()),
                (&incarnations, text.clone()),
                (&kinds, text),
                (&epochs, int.clone()),
                (&since, int.clone()),
                (&acquired, int.clone()),
                (&ended, int.clone()),
                (&renews, int.clone()),
                (&taken, int),
            ];
            self.query(&self.sql.write, &params).await.map(drop)
        })
    }

    fn contend<'a>(&'a self, contentions: &'a [Contention]) -> LockFuture<'a, ()> {
        Box::pin(async move {
            let names: Vec<&str> = contentions.iter().map(|one| one.name.as_str()).collect();
            let stores: Vec<&str> = contentions.iter().map(|one| &*one.store).collect();
            let counts: Vec<i64> = contentions.iter().map(|one| one.busy).collect();
            let params: [Param<'_>; 3] =
                [(&names, Type::TEXT_ARRAY), (&stores, Type::TEXT_ARRAY), (&counts, Type::INT8_ARRAY)];
            self.query(&self.sql.contend, &params).await.map(drop)
        })
    }

    fn end<'a>(&'a self, ending: &'a HoldEnd) -> LockFuture<'a, ()> {
        Box::pin(async move {
            let (name, store, epoch) = (ending.name.as_str(), &*ending.store, ending.epoch.get());
            let what = ending.what.as_str();
            let params: [Param<'_>; 8] = [
                (&name, Type::TEXT),
                (&store, Type::TEXT),
                (&epoch, Type::INT8),
                (&ending.incarnation, Type::TEXT),
                (&what, Type::TEXT),
                (&ending.holder, Type::TEXT),
                (&ending.by_whom, Type::TEXT),
                (&ending.why, Type::TEXT),
            ];
            self.query(&self.sql.end, &params).await.map(drop)
        })
    }

    fn leases<'a>(&'a self, which: &'a LeaseFilter) -> LockFuture<'a, Vec<LeaseRecord>> {
        Box::pin(async move {
            let (after, store) = which.after.clone().unzip();
            let most = i64::from(which.most);
            let params: [Param<'_>; 5] = [
                (&which.name, Type::TEXT),
                (&after, Type::TEXT),
                (&store, Type::TEXT),
                (&which.quiet, Type::INT8),
                (&most, Type::INT8),
            ];
            let rows = self.query(&self.sql.list, &params).await?;
            rows.iter().map(|row| lease(row).map_err(classify)).collect()
        })
    }

    fn remove<'a>(&'a self, gone: &'a VanishedHold) -> LockFuture<'a, bool> {
        Box::pin(async move {
            let epoch = gone.epoch.get();
            let params: [Param<'_>; 5] = [
                (&gone.name, Type::TEXT),
                (&gone.store, Type::TEXT),
                (&gone.incarnation, Type::TEXT),
                (&epoch, Type::INT8),
                (&gone.quiet, Type::INT8),
            ];
            Ok(!self.query(&self.sql.remove, &params).await?.is_empty())
        })
    }

    fn tidy(&self, idle_retention: i64, history_retention: i64, most: u32) -> LockFuture<'_, ()> {
        Box::pin(async move {
            let most = i64::from(most);
            let params: [Param<'_>; 3] =
                [(&idle_retention, Type::INT8), (&history_retention, Type::INT8), (&most, Type::INT8)];
            self.query(&self.sql.tidy, &params).await.map(drop)
        })
    }

    fn events<'a>(
        &'a self,
        name: Option<&'a str>,
        before: Option<i64>,
        most: u32,
    ) -> LockFuture<'a, Vec<LockEvent>> {
        Box::pin(async move {
            let most = i64::from(most);
            let params: [Param<'_>; 3] = [(&name, Type::TEXT), (&before, Type::INT8), (&most, Type::INT8)];
            let rows = self.query(&self.sql.events, &params).await?;
            rows.iter().map(event).collect()
        })
    }
}

fn lease(row: &PgRow) -> Result<LeaseRecord, tokio_postgres::Error> {
    Ok(LeaseRecord::from(Row {
        name: row.try_get("lock_name")?,
        store: row.try_get("store")?,
        node: row.try_get("node")?,
        machine: row.try_get("machine")?,
        pid: row.try_get("pid")?,
        incarnation: row.try_get("incarnation")?,
        kind: row.try_get("kind")?,
        epoch: row.try_get("epoch")?,
        renew_ms: row.try_get("renew_ms")?,
        holds: row.try_get("holds")?,
        contended: row.try_get("contended")?,
        since_us: row.try_get("since_us")?,
        acquired_us: row.try_get("acquired_us")?,
        renewed_us: row.try_get("renewed_us")?,
        released_us: row.try_get("released_us")?,
        contended_us: row.try_get("contended_us")?,
        now_us: row.try_get("now_us")?,
    }))
}

fn event(row: &PgRow) -> Result<LockEvent, LockError> {
    let read = || -> Result<_, tokio_postgres::Error> {
        let word: String = row.try_get("what")?;
        let event = LockEvent {
            id: row.try_get("id")?,
            name: row.try_get("lock_name")?,
            store: row.try_get("store")?,
            what: super::LockEventKind::Taken,
            at: table::time(row.try_get("at_us")?),
            holder: row.try_get("holder")?,
            epoch: Epoch::new(row.try_get("epoch")?),
            before: row.try_get("before")?,
            by_whom: row.try_get("by_whom")?,
            why: row.try_get("why")?,
        };
        Ok((word, event))
    };
    let (word, event) = read().map_err(classify)?;
    Ok(LockEvent { what: table::what(&word)?, ..event })
}
