//! A SQLite connection: opening a file, running statements.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, OpenFlags};

use crate::db::classify;
use crate::db::clock::Clock;
use crate::db::statements;
use crate::db::statements::Statement;
use crate::db::value::{Cell, Params, Row, Value};
use crate::store::StoreResult;

/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A clock that goes back by so much was set back.
const CLOCK_STEP_US: i64 = 1_000_000;

/// Temporary tables of the statement files.
const SCRATCH: &str = "
    create temp table incoming (turn, id integer primary key, manifest_id, tick_at, origin, fresh, kind, route, input,
                                group_id, priority, due_at, limit_key, unique_key, retries, timeout_ms, trace, tags);
    create temp table head     (id integer primary key, rank);
    create temp table gate     (closed, gated_rank, waiting, with_room);
    create temp table picked   (id integer primary key, marked);
    create temp table next     (id integer primary key, rank, group_id, limit_key);
    create temp table rerouted (kind text primary key, route, before);
    create temp table word     (word text primary key);
    create temp table expired  (key text primary key, gone);
    create temp table over     (id integer primary key, unique_key, limit_key, leased_by, over);
    create temp table settling (id integer primary key, claim_no, verdict, outcome, output, error_type, error_message,
                                fingerprint, after_ms, reason, node, manifest_id, limit_key, unique_key, group_id, ran_us);";

/// What a connection may do.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    Write,
    Read,
    /// Reads, and leaves the file as it is.
    ReadOnly,
}

/// A SQLite connection.
pub(crate) struct SqliteSession {
    connection: Connection,
    texts: Vec<Vec<String>>,
    now: Arc<AtomicI64>,
    clock: Option<Clock>,
}

impl SqliteSession {
    pub(super) fn open(path: Option<&Path>, mode: Mode, clock: Option<Clock>) -> StoreResult<SqliteSession> {
        let now = Arc::new(AtomicI64::new(0));
        let texts = statements::for_sqlite();
        let connection = retry_while_busy(|| connect(path, mode, now.clone())).map_err(classify::sqlite)?;
        connection.set_prepared_statement_cache_capacity(texts.iter().map(Vec::len).sum());
        Ok(SqliteSession { connection, texts, now, clock })
    }

    /// Sets the time of the transaction: the same for all its statements.
    pub(super) fn tick(&self) {
        let host = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let now =
            self.clock.as_ref().map_or_else(|| i64::try_from(host()).unwrap_or(i64::MAX), Clock::micros);
        let last = self.now.load(Ordering::Relaxed);
        if last - now >= CLOCK_STEP_US {
            tracing::warn!(back_ms = (last - now) / 1000, "the clock of this machine was set back");
        }
        self.now.store(next_time(last, now), Ordering::Relaxed);
    }

    pub(crate) fn rows(&mut self, statement: Statement, params: &Params) -> StoreResult<Vec<Row>> {
        rows_on(&self.connection, &self.texts[statement as usize], params)
    }

    pub(crate) fn query(&mut self, text: &str, params: &Params) -> StoreResult<Vec<Row>> {
        Ok(step(&self.connection, text, &bound(params))?.unwrap_or_default())
    }

    /// SQLite's plan for all parts of a statement file.
    #[cfg(test)]
    pub(crate) fn explain(&mut self, statement: Statement) -> StoreResult<String> {
        let mut plan = Vec::new();
        for text in &self.texts[statement as usize] {
            let mut statement =
                self.connection.prepare(&format!("explain query plan {text}")).map_err(classify::sqlite)?;
            // Parameters stay unbound: their values do not change the plan.
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(classify::sqlite)? {
                plan.push(row.get::<_, String>("detail").map_err(classify::sqlite)?);
            }
        }
        Ok(plan.join("\n"))
    }

    pub(crate) fn batch(&mut self, sql: &str) -> StoreResult<()> {
        self.connection.execute_batch(sql).map_err(classify::sqlite)
    }
}

/// The time of the next transaction. A clock that goes back a little is waited for, so that times of transactions do not go back. One that was
/// set back is followed: all processes on the file must agree on the time, and those that start now have only the clock.
fn next_time(last: i64, now: i64) -> i64 {
    if last - now < CLOCK_STEP_US { last.max(now) } else { now }
}

/// Retries while another process opens or closes the file, which SQLite's busy timeout does not cover.
fn retry_while_busy(connect: impl Fn() -> rusqlite::Result<Connection>) -> rusqlite::Result<Connection> {
    let begun = std::time::Instant::now();
    loop {
        match connect() {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && begun.elapsed() < BUSY_TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// Creates a missing file with access for its owner only; SQLite's other files inherit that.
fn create_private(path: &Path) {
    let mut new = std::fs::OpenOptions::new();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    // The file may exist, or its folder may not: SQLite reports that.
    drop(new.open(path));
}

fn connect(path: Option<&Path>, mode: Mode, now: Arc<AtomicI64>) -> rusqlite::Result<Connection> {
    let connection = match path {
        Some(path) if mode == Mode::ReadOnly => connect_read_only(path)?,
        Some(path) => {
            create_private(path);
            Connection::open(path)?
        }
        None => Connection::open_in_memory()?,
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // WAL: readers do not wait for the writer. NORMAL in WAL survives a crash of the process, and a power cut may lose
    // the last commits but never tears the file; FULL keeps them too: what was accepted is never lost.
    if mode != Mode::ReadOnly {
        connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    }
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.execute_batch(SCRATCH)?;
    connection.pragma_update(None, "query_only", mode != Mode::Write)?;
    // What now() is to PostgreSQL: the time of the transaction. Not marked deterministic: SQLite would call it while it
    // plans, with a null list of arguments, which rusqlite 0.39 makes an invalid slice of.
    connection.create_scalar_function("now_us", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(now.load(Ordering::Relaxed))
    })?;
    Ok(connection)
}

/// Connects without creating the file and without a checkpoint on close: the last connection would otherwise write the WAL of
/// another process into the file.
fn connect_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let has_wal = std::fs::metadata(wal).is_ok_and(|found| found.len() > 0);
    let without_creating = OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE;
    let connection = Connection::open_with_flags(path, without_creating)?;
    if has_wal {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    Ok(connection)
}

/// Runs all parts of a statement file; returns the rows of the last part that has columns.
pub(crate) fn rows_on(connection: &Connection, texts: &[String], params: &Params) -> StoreResult<Vec<Row>> {
    let values = bound(params);
    let mut answer = Vec::new();
    for text in texts {
        if let Some(rows) = step(connection, text, &values)? {
            answer = rows;
        }
    }
    Ok(answer)
}

/// Runs one statement. `None`: it has no columns.
fn step(connection: &Connection, text: &str, values: &[SqlValue]) -> StoreResult<Option<Vec<Row>>> {
    let run = || {
        let mut statement = connection.prepare_cached(text)?;
        for at in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(at, &values[at - 1])?;
        }
        let names: Arc<[String]> = statement.column_names().into_iter().map(str::to_owned).collect();
        let mut answer = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            let cells =
                (0..names.len()).map(|at| Ok(cell(row.get_ref(at)?))).collect::<rusqlite::Result<_>>()?;
            answer.push(Row { names: names.clone(), cells });
        }
        Ok((!names.is_empty()).then_some(answer))
    };
    run().map_err(classify::sqlite)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(v) => Cell::Int(v),
        ValueRef::Text(v) => Cell::Text(String::from_utf8_lossy(v).into_owned()),
        // STRICT tables hold neither; as text, so that decoding fails.
        ValueRef::Real(v) => Cell::Text(v.to_string()),
        ValueRef::Blob(_) => Cell::Text("a blob".to_owned()),
    }
}

/// Parameters as SQLite takes them: lists and batches as JSON.
fn bound(params: &Params) -> Vec<SqlValue> {
    let int = |v: Option<i64>| v.map_or(SqlValue::Null, SqlValue::Integer);
    let text = |v: Option<String>| v.map_or(SqlValue::Null, SqlValue::Text);
    let mut values: Vec<SqlValue> = Vec::with_capacity(params.values.len() + 1);
    for value in &params.values {
        values.push(match value {
            Value::Int(v) => int(*v),
            Value::Bool(v) => int(Some(i64::from(*v))),
            Value::Text(v) => text(v.clone()),
            Value::Time(v) => int(v.map(lineclear_model::Micros::get)),
            Value::Ints(v) => text(Some(serde_json::json!(v).to_string())),
            Value::Texts(v) => text(Some(serde_json::json!(v).to_string())),
            Value::MaybeTexts(v) => text(v.as_ref().map(|v| serde_json::json!(v).to_string())),
        });
    }
    if let Some(first) = params.batch.first() {
        let row = |at| serde_json::Value::Array(params.batch.iter().map(|column| column.json(at)).collect());
        let rows: Vec<serde_json::Value> = (0..first.len()).map(row).collect();
        values.push(SqlValue::Text(serde_json::Value::Array(rows).to_string()));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_followed_and_one_that_wavers_is_not() {
        let second = 1_000_000;
        assert_eq!(next_time(100 * second, 101 * second), 101 * second);
        assert_eq!(next_time(100 * second, 100 * second - 1_000), 100 * second, "times do not go back");
        assert_eq!(next_time(100 * second, 10 * second), 10 * second, "it was set back by 90 s");
    }
}
