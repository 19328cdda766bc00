//! Enqueues jobs inside the caller's transaction: they exist if and only if it commits.
//!
//! Invalid jobs are refused before anything is sent, and later errors roll back to a savepoint: the caller's transaction
//! stays usable.

mod postgres;
mod sqlite;
#[cfg(feature = "sqlx")]
mod sqlx;

use std::collections::HashMap;

use lineclear_model::Name;

use crate::db::{Db, Executor, Postgres};
use crate::journey::enqueue::insert;
use crate::store::{Enqueued, NewJob, Store, StoreError, StoreResult};
use crate::trace;
use crate::validate;

/// How often a race for a unique key may be lost before the caller gets an error.
const TRIES_MAX: u32 = 4;

/// A transaction of the caller.
trait CallerTx: Executor {
    /// Runs SQL without an answer.
    fn execute(&mut self, sql: &str) -> impl Future<Output = StoreResult<()>> + Send;
}

impl Store {
    /// Enqueues jobs inside the caller's transaction, all or none: they exist if and only if it commits.
    /// For PostgreSQL, with `tokio-postgres`; nodes find the jobs within a second.
    pub async fn enqueue_in<C: tokio_postgres::GenericClient + Sync>(
        &self,
        transaction: &C,
        mut jobs: Vec<NewJob>,
    ) -> StoreResult<Vec<Enqueued>> {
        trace::carry(&mut jobs);
        let (db, group_ids) = self.for_postgres(&jobs).await?;
        in_savepoint(&mut postgres::InTransaction { db, transaction }, &jobs, &group_ids).await
    }

    /// Like [`enqueue_in`](Self::enqueue_in), with `sqlx`: pass `&mut *transaction`.
    #[cfg(feature = "sqlx")]
    pub async fn enqueue_in_sqlx(
        &self,
        connection: &mut ::sqlx::PgConnection,
        mut jobs: Vec<NewJob>,
    ) -> StoreResult<Vec<Enqueued>> {
        trace::carry(&mut jobs);
        let (db, group_ids) = self.for_postgres(&jobs).await?;
        in_savepoint(&mut sqlx::InSqlx { db, connection }, &jobs, &group_ids).await
    }

    /// Like [`enqueue_in`](Self::enqueue_in), for SQLite with `rusqlite`, over a connection to the store's file. Begin the
    /// transaction as `immediate`: one that reads before it writes fails if another connection wrote in between.
    ///
    /// Leaves a function `now_us` and temporary tables named `lineclear_…` on the connection.
    pub fn enqueue_in_sqlite(
        &self,
        connection: &rusqlite::Connection,
        mut jobs: Vec<NewJob>,
    ) -> StoreResult<Vec<Enqueued>> {
        trace::carry(&mut jobs);
        validate::check_jobs(&jobs)?;
        sqlite::enqueue(&self.options, connection, &jobs)
    }

    async fn for_postgres(&self, jobs: &[NewJob]) -> StoreResult<(&Postgres, HashMap<Name, i64>)> {
        validate::check_jobs(jobs)?;
        let Db::Postgres(db) = &self.db else {
            let why = "the store is SQLite; a transaction of PostgreSQL cannot enqueue there";
            return Err(StoreError::refused("not_postgres", why));
        };
        let group_ids = self.group_ids(jobs).await?;
        jobs.iter().try_for_each(|job| insert::group_id(job, &group_ids).map(drop))?;
        Ok((db, group_ids))
    }
}

async fn in_savepoint(
    theirs: &mut impl CallerTx,
    jobs: &[NewJob],
    group_ids: &HashMap<Name, i64>,
) -> StoreResult<Vec<Enqueued>> {
    if jobs.iter().all(|job| job.unique_key.is_none()) {
        // One statement, and everything that it could refuse was checked.
        return insert::enqueue(theirs, jobs, group_ids, true).await;
    }
    let mut tries = 1;
    loop {
        theirs.execute("savepoint lineclear_enqueue").await.map_err(no_transaction)?;
        match insert::enqueue(theirs, jobs, group_ids, true).await {
            Ok(answers) => {
                theirs.execute("release savepoint lineclear_enqueue").await?;
                return Ok(answers);
            }
            Err(error) => {
                theirs
                    .execute("rollback to savepoint lineclear_enqueue; release savepoint lineclear_enqueue")
                    .await?;
                if !matches!(error, StoreError::Contended { .. }) || tries == TRIES_MAX {
                    return Err(error);
                }
                tries += 1;
            }
        }
    }
}

/// Explains the server's error that a savepoint needs a transaction.
fn no_transaction(error: StoreError) -> StoreError {
    match error {
        StoreError::Refused { rule, .. } if rule == "25P01" => StoreError::refused(
            "no_transaction",
            "jobs with unique keys need a transaction here; begin one, or call Store::enqueue_many",
        ),
        other => other,
    }
}
