//! Which sessions block a migration.

use std::pin::pin;
use std::time::Duration;

use crate::db::{Postgres, Row, Session, Verb};
use crate::store::StoreResult;

/// How often to look while a statement runs.
const LOOK_EVERY: Duration = Duration::from_millis(150);

/// The server process of a session.
pub(super) async fn backend_pid(session: &mut Session) -> StoreResult<i64> {
    let rows = session.query("select pg_backend_pid()::bigint as pid").await?;
    rows.first().map_or(Ok(0), |row| row.get("pid"))
}

/// Runs a statement of session `pid`, and notes who blocks it meanwhile, if anyone does.
pub(super) async fn watch<T>(
    db: &Postgres,
    pid: i64,
    blockers: &mut String,
    statement: impl Future<Output = StoreResult<T>>,
) -> StoreResult<T> {
    watch_and(db, pid, statement, |found| *blockers = found).await
}

/// Like [`watch`], with a function that gets the blockers each time there are any.
pub(super) async fn watch_and<T>(
    db: &Postgres,
    pid: i64,
    statement: impl Future<Output = StoreResult<T>>,
    mut found: impl FnMut(String),
) -> StoreResult<T> {
    let mut statement = pin!(statement);
    loop {
        tokio::select! {
            done = &mut statement => return done,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        // Without an answer the statement goes on, and its blockers stay unknown.
        if let Ok(blockers) = db.run(ReadBlockers(pid)).await
            && !blockers.is_empty()
        {
            found(blockers.join(", "));
        }
    }
}

/// Reads the sessions that block session `.0`, those that are longest in a transaction first.
struct ReadBlockers(i64);

impl Verb for ReadBlockers {
    type Answer = Vec<String>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<String>> {
        let sql = format!(
            "select a.pid::bigint as pid, coalesce(nullif(a.application_name, ''), a.backend_type, '') as program, \
                    coalesce(a.usename::text, '') as role, \
                    extract(epoch from clock_timestamp() - a.xact_start)::bigint as seconds \
             from unnest(pg_blocking_pids({})) as b (pid) join pg_stat_activity a on a.pid = b.pid \
             order by a.xact_start limit 3",
            self.0
        );
        session.query(&sql).await?.iter().map(describe).collect()
    }
}

fn describe(row: &Row) -> StoreResult<String> {
    let (pid, program, role): (i64, String, String) =
        (row.get("pid")?, row.get("program")?, row.get("role")?);
    // A role without the right to see other sessions does not learn for how long.
    let age = match row.get::<Option<i64>>("seconds")? {
        Some(seconds) => format!(", in a transaction for {} s", seconds.max(0)),
        None => String::new(),
    };
    Ok(format!("session {pid} ({program}, role {role}{age})"))
}
