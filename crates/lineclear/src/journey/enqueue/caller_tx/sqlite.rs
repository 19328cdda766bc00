//! A connection of `rusqlite` to the store's file.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use crate::db::classify;
use crate::db::statements;
use crate::db::statements::Statement;
use crate::db::{Executor, Params, Row, at_once, rows_on};
use crate::journey::enqueue::caller_tx::{CallerTx, in_savepoint};
use crate::journey::enqueue::insert::group_ids;
use crate::store::{Enqueued, NewJob, StoreError, StoreOptions, StoreResult};

/// The temporary tables of the enqueue statements, under names that no program uses by accident.
const SCRATCH: &str = "
    create temp table if not exists lineclear_incoming
        (turn, id integer primary key, manifest_id, tick_at, origin, fresh, kind, route, input, group_id, priority, due_at,
         limit_key, unique_key, retries, timeout_ms, trace, tags);
    create temp table if not exists lineclear_picked (id integer primary key, marked);";

/// Our statements over those tables.
fn texts() -> &'static [Vec<String>] {
    static TEXTS: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    TEXTS.get_or_init(|| {
        let mut texts = statements::for_sqlite();
        for text in texts.iter_mut().flatten() {
            *text = text.replace("temp.incoming", "temp.lineclear_incoming");
            *text = text.replace("temp.picked", "temp.lineclear_picked");
        }
        texts
    })
}

pub(crate) fn enqueue(
    options: &StoreOptions,
    connection: &Connection,
    jobs: &[NewJob],
) -> StoreResult<Vec<Enqueued>> {
    check_file(options, connection)?;
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    prepare(connection).map_err(classify::sqlite)?;
    let mut theirs = OnConnection { connection };
    let mut named: Vec<_> = jobs.iter().filter_map(|job| job.group.clone()).collect();
    named.sort_unstable();
    named.dedup();
    at_once(async {
        let group_ids = group_ids(&mut theirs, &named).await?;
        in_savepoint(&mut theirs, jobs, &group_ids).await
    })
}

/// A job in another file would never run.
fn check_file(options: &StoreOptions, connection: &Connection) -> StoreResult<()> {
    let refused = |why: String| Err(StoreError::refused("not_this_file", why));
    let Some(file) = options.file() else {
        return refused(format!("the store is {options}, and no file that another connection could open"));
    };
    let theirs = connection.path().unwrap_or_default();
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if same(file, Path::new(theirs)) {
        return Ok(());
    }
    refused(format!("the connection is to {theirs:?}, and the store is {options}"))
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(SCRATCH)?;
    // Created once: creating it again fails while statements of the caller are running.
    if connection.prepare_cached("select now_us()").is_err() {
        connection.create_scalar_function("now_us", 0, FunctionFlags::SQLITE_UTF8, |_| {
            let host = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
            Ok(i64::try_from(host).unwrap_or(i64::MAX))
        })?;
    }
    Ok(())
}

struct OnConnection<'a> {
    connection: &'a Connection,
}

impl Executor for OnConnection<'_> {
    fn rows(
        &mut self,
        statement: Statement,
        params: Params,
    ) -> impl Future<Output = StoreResult<Vec<Row>>> + Send {
        // Done when this returns: a connection of SQLite must not be held by a future that may move.
        std::future::ready(rows_on(self.connection, &texts()[statement as usize], &params))
    }
}

impl CallerTx for OnConnection<'_> {
    fn execute(&mut self, sql: &str) -> impl Future<Output = StoreResult<()>> + Send {
        std::future::ready(self.connection.execute_batch(sql).map_err(classify::sqlite))
    }
}
