//! Maps errors of the drivers to [`StoreError`]. The only module that knows SQLSTATEs and SQLite's codes.

use lineclear_tls::{connect_error, is_tls_refused, with_causes};
use rusqlite::ErrorCode;
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;

use crate::error::{Late, Refusal, RefusedPart, ServerError, Source, WriteBlock};
use crate::store::StoreError;

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Unavailable,
    Contended,
    Locked,
    Refused,
    CannotWrite(WriteBlock),
    Corrupt,
}

use WriteBlock::{Denied, Full, ReadOnly, Storage};

/// By SQLSTATE, the first prefix that fits.
const SQLSTATES: &[(&str, Class)] = &[
    ("40", Class::Contended), // deadlock, serialization failure
    ("55P03", Class::Locked), // lock not available within the lock timeout
    ("53100", Class::CannotWrite(Full)),
    ("53", Class::Unavailable), // out of memory, too many connections
    ("57", Class::Unavailable), // shutting down, starting up, cancelled by a timeout
    ("08", Class::Unavailable),
    ("25P03", Class::Unavailable), // we idled inside a transaction and were cut off
    ("25006", Class::CannotWrite(ReadOnly)), // read-only
    ("25P01", Class::Refused),     // a savepoint outside a transaction
    ("42501", Class::CannotWrite(Denied)), // no permission
    ("58", Class::CannotWrite(Storage)), // I/O error
    ("28", Class::CannotWrite(Denied)), // password
    ("3D000", Class::CannotWrite(Denied)), // no such database
    ("23", Class::Refused),
    ("22", Class::Refused),
    ("54", Class::Refused), // too large for an index, too many arguments
    ("21000", Class::Refused),
    ("42P01", Class::Corrupt), // no such table: not migrated, or dropped
    ("42703", Class::Corrupt),
    ("3F000", Class::Corrupt),
    ("XX", Class::Corrupt),
];

fn of_sqlstate(state: &str) -> Class {
    let found = SQLSTATES.iter().find(|(prefix, _)| state.starts_with(prefix));
    // An unknown error: retrying could repeat it forever, so a person must see it.
    found.map_or(Class::Corrupt, |(_, class)| *class)
}

const SQLITE_CODES: &[(ErrorCode, Class)] = &[
    (ErrorCode::DatabaseBusy, Class::Contended),
    (ErrorCode::DatabaseLocked, Class::Contended),
    (ErrorCode::ConstraintViolation, Class::Refused),
    (ErrorCode::TooBig, Class::Refused),
    (ErrorCode::DiskFull, Class::CannotWrite(Full)),
    (ErrorCode::ReadOnly, Class::CannotWrite(ReadOnly)),
    (ErrorCode::SystemIoFailure, Class::CannotWrite(Storage)),
    (ErrorCode::PermissionDenied, Class::CannotWrite(Denied)),
    (ErrorCode::CannotOpen, Class::CannotWrite(Storage)),
    (ErrorCode::OutOfMemory, Class::Unavailable),
    (ErrorCode::OperationInterrupted, Class::Unavailable),
    (ErrorCode::DatabaseCorrupt, Class::Corrupt),
    (ErrorCode::NotADatabase, Class::Corrupt),
];

/// How pgbouncer begins the error about a startup parameter.
const UNSUPPORTED_PARAMETER: &str = "unsupported startup parameter";

/// The constraints of the columns that SQLite names in a unique violation.
const SQLITE_UNIQUE: &[(&str, &str)] = &[
    ("work_queue.manifest_id", "work_queue_fresh"),
    ("tick.manifest_id, tick.tick_at", "tick_once"),
    ("execution.job_id, execution.claim_no", "execution_once"),
    ("dead_letter.job_id", "dead_letter_awaiting"),
    ("manifest.key", "manifest_key"),
    ("manifest_group.name", "manifest_group_name"),
    ("job_key.key", "job_key_once"),
    ("node.incarnation", "node_incarnation"),
    ("work_queue.id", "work_queue_pkey"),
    ("background_job.id", "background_job_pkey"),
];

fn error(class: Class, maybe_applied: bool, rule: impl FnOnce() -> String, source: Source) -> StoreError {
    match class {
        Class::Unavailable => StoreError::Unavailable { maybe_applied, source },
        Class::Contended => StoreError::Contended { source },
        Class::Locked => StoreError::Locked { source },
        Class::Refused => StoreError::Refused { rule: rule(), why: source.to_string(), at: None },
        Class::CannotWrite(block) => StoreError::CannotWrite { block, source },
        Class::Corrupt => StoreError::Corrupt { what: source.to_string() },
    }
}

/// An error of the PostgreSQL driver. Without an answer of the server, the change may have been applied.
pub(crate) fn postgres(e: tokio_postgres::Error) -> StoreError {
    let Some(db) = e.as_db_error() else {
        return StoreError::Unavailable { maybe_applied: true, source: with_causes(&e).into() };
    };
    let class = of_sqlstate(db.code().code());
    // The server shuts down, before or after the commit.
    let maybe_applied = db.code() == &SqlState::ADMIN_SHUTDOWN || db.code() == &SqlState::CRASH_SHUTDOWN;
    let (code, rule) = (db.code().code().to_owned(), db.constraint().map(str::to_owned));
    let text = match db.detail() {
        Some(detail) => format!("{} ({}; {detail})", db.message(), code),
        None => format!("{} ({})", db.message(), code),
    };
    // A statement that the server ended after its time.
    let source = if db.code() == &SqlState::QUERY_CANCELED {
        Late(text).into()
    } else {
        ServerError { text, sqlstate: code.clone() }.into()
    };
    error(class, maybe_applied, || rule.unwrap_or(code), source)
}

/// An error of sqlx in the caller's transaction, whose end decides what was applied.
#[cfg(feature = "sqlx")]
pub(crate) fn sqlx(e: ::sqlx::Error) -> StoreError {
    let Some(db) = e.as_database_error() else {
        return StoreError::Unavailable { maybe_applied: false, source: Box::new(e) };
    };
    let code = db.code().unwrap_or_default().into_owned();
    let rule = db.constraint().unwrap_or(&code).to_owned();
    let text = format!("{} ({code})", db.message());
    let source = ServerError { text, sqlstate: code.clone() };
    error(of_sqlstate(&code), false, || rule, source.into())
}

/// An error while connecting, before anything was sent. The text names the server and the cause.
pub(crate) fn connect(config: &Config, e: tokio_postgres::Error) -> StoreError {
    let refused = match e.as_db_error() {
        None => is_tls_refused(&e).then_some(RefusedPart::Tls),
        Some(db) => refused_part(db.code(), db.message()),
    };
    let error = match e.as_db_error() {
        None => StoreError::Unavailable { maybe_applied: false, source: connect_error(config, &e).into() },
        Some(_) => postgres(e),
    };
    match (refused, error) {
        (Some(of), error) => {
            let source = Refusal { text: error.reason(), of }.into();
            StoreError::Unavailable { maybe_applied: false, source }
        }
        (None, StoreError::Unavailable { source, .. }) => {
            StoreError::Unavailable { maybe_applied: false, source }
        }
        (None, other) => other,
    }
}

/// What of a new connection the server, or a pooler before it, refuses for good.
fn refused_part(state: &SqlState, message: &str) -> Option<RefusedPart> {
    // The settings that we send: a version before 12 does not know `plan_cache_mode`.
    if state == &SqlState::UNDEFINED_OBJECT {
        return Some(RefusedPart::Setting);
    }
    // pgbouncer has one code for all its errors, also for those that pass, and never translates them.
    let is_parameter = state == &SqlState::PROTOCOL_VIOLATION && message.starts_with(UNSUPPORTED_PARAMETER);
    is_parameter.then_some(RefusedPart::StartupParameter)
}

/// An error of the pool: no connection is available.
pub(crate) fn pool(config: &Config, e: deadpool_postgres::PoolError) -> StoreError {
    match e {
        deadpool_postgres::PoolError::Backend(e) => connect(config, e),
        other => {
            let text = connect_error(config, &other);
            let late = matches!(other, deadpool_postgres::PoolError::Timeout(_));
            let source = if late { Late(text).into() } else { text.into() };
            StoreError::Unavailable { maybe_applied: false, source }
        }
    }
}

/// An error of SQLite, which runs in this process and never loses an answer.
pub(crate) fn sqlite(e: rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(failure, message) = &e else {
        return StoreError::Corrupt { what: e.to_string() };
    };
    let found = SQLITE_CODES.iter().find(|(code, _)| *code == failure.code);
    let class = found.map_or(Class::Corrupt, |(_, class)| *class);
    let rule = sqlite_rule(message.as_deref().unwrap_or_default());
    error(class, false, || rule, Box::new(e))
}

fn sqlite_rule(message: &str) -> String {
    let named = message.split_once(" failed: ").map_or(message, |(_, name)| name);
    let unique = SQLITE_UNIQUE.iter().find(|(columns, _)| *columns == named);
    unique.map_or(named, |(_, rule)| rule).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_say_what_the_caller_does_next() {
        for (state, class) in [
            ("40001", Class::Contended),
            ("40P01", Class::Contended),
            ("55P03", Class::Locked),
            ("57014", Class::Unavailable),
            ("57P01", Class::Unavailable),
            ("57P03", Class::Unavailable),
            ("53300", Class::Unavailable),
            ("53100", Class::CannotWrite(Full)),
            ("08006", Class::Unavailable),
            ("25006", Class::CannotWrite(ReadOnly)),
            ("42501", Class::CannotWrite(Denied)),
            ("28P01", Class::CannotWrite(Denied)),
            ("23505", Class::Refused),
            ("23514", Class::Refused),
            ("22021", Class::Refused),
            ("54000", Class::Refused),
            ("42P01", Class::Corrupt),
            ("XX001", Class::Corrupt),
            ("99999", Class::Corrupt),
        ] {
            assert_eq!(of_sqlstate(state), class, "{state}");
        }
    }

    #[test]
    fn a_refused_connection_is_told_from_one_that_may_be_made_later() {
        for (state, message, part) in [
            (SqlState::UNDEFINED_OBJECT, "unrecognized configuration parameter", Some(RefusedPart::Setting)),
            (
                SqlState::PROTOCOL_VIOLATION,
                "unsupported startup parameter: options",
                Some(RefusedPart::StartupParameter),
            ),
            (SqlState::PROTOCOL_VIOLATION, "pgbouncer cannot connect to server", None),
            (SqlState::CANNOT_CONNECT_NOW, "the database system is starting up", None),
        ] {
            assert_eq!(refused_part(&state, message), part, "{message}");
        }
    }

    #[test]
    fn sqlite_refusals_name_the_same_rule_as_postgresql() {
        assert_eq!(sqlite_rule("UNIQUE constraint failed: work_queue.manifest_id"), "work_queue_fresh");
        assert_eq!(sqlite_rule("CHECK constraint failed: work_queue_priority"), "work_queue_priority");
        assert_eq!(sqlite_rule("UNIQUE constraint failed: tick.manifest_id, tick.tick_at"), "tick_once");
    }

    #[test]
    fn sqlite_codes_say_what_the_caller_does_next() {
        let of = |code: i32| sqlite(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        assert!(matches!(of(5), StoreError::Contended { .. }), "busy");
        assert!(matches!(of(517), StoreError::Contended { .. }), "busy snapshot");
        assert!(matches!(of(13), StoreError::CannotWrite { block: Full, .. }));
        assert!(matches!(of(8), StoreError::CannotWrite { block: ReadOnly, .. }));
        assert!(matches!(of(10), StoreError::CannotWrite { block: Storage, .. }), "I/O");
        assert!(matches!(of(11), StoreError::Corrupt { .. }), "corrupt");
        assert!(matches!(of(26), StoreError::Corrupt { .. }), "not a database");
        assert!(matches!(of(19), StoreError::Refused { .. }), "constraint");
    }
}
