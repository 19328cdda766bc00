//! Statements that exist as twins for PostgreSQL and SQLite: what runs them, their parameters and their rows.

#[cfg(feature = "postgres")]
mod postgres;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use lineclear_lock::Fence;

use crate::error::OutboxError;
use crate::store::StoreFuture;
use crate::subscriptions::error::HandlerError;
use crate::subscriptions::handler::Work;

pub(crate) use row::{Cell, Row};

/// One statement of `sql/`, for both databases.
#[derive(Debug)]
pub(crate) struct Statement {
    #[cfg_attr(not(feature = "postgres"), expect(dead_code))]
    pub(crate) postgres: &'static str,
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code))]
    pub(crate) sqlite: &'static str,
}

/// The statement of this name.
macro_rules! twin {
    ($name:literal) => {
        &$crate::database::Statement {
            postgres: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/", $name, ".sql")),
            sqlite: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/sqlite/", $name, ".sql")),
        }
    };
}
pub(crate) use twin;

/// A parameter of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Flag(bool),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

macro_rules! value_from {
    ($($kind:ty => |$given:ident| $value:expr;)+) => { $(
        impl From<$kind> for Value {
            fn from($given: $kind) -> Value {
                $value
            }
        }
    )+ };
}
value_from! {
    i64 => |given| Value::Int(Some(given));
    i32 => |given| Value::Int(Some(given.into()));
    u32 => |given| Value::Int(Some(given.into()));
    Option<i64> => |given| Value::Int(given);
    &str => |given| Value::Text(Some(given.to_owned()));
    Option<&str> => |given| Value::Text(given.map(str::to_owned));
    bool => |given| Value::Flag(given);
    &[i64] => |given| Value::Ints(given.to_owned());
    &[String] => |given| Value::Texts(given.to_owned());
}

/// The parameters of a statement, in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::database::Value::from($value)),*] };
}
pub(crate) use values;

/// A statement of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) statement: &'static Statement,
    pub(crate) params: Vec<Value>,
    /// Without a row the transaction is rolled back.
    pub(crate) must: bool,
}

impl Step {
    pub(crate) fn must(statement: &'static Statement, params: Vec<Value>) -> Step {
        Step { statement, params, must: true }
    }

    pub(crate) fn may(statement: &'static Statement, params: Vec<Value>) -> Step {
        Step { statement, params, must: false }
    }
}

/// How a transaction ended.
#[derive(Debug)]
pub(crate) enum Transacted {
    /// It is committed. The rows of each step.
    Done(Vec<Vec<Row>>),
    /// Another process has the lock: it is rolled back.
    Lost,
    /// A step that must have a row had none: it is rolled back.
    Changed,
    /// The handler failed, or the commit of its effects did: it is rolled back.
    Failed(HandlerError),
}

/// A database that has an event log.
pub(crate) trait Database: std::fmt::Debug + Send + Sync + 'static {
    /// Creates the tables of the log unless they exist.
    fn prepare(&self) -> StoreFuture<'_, ()>;

    /// Whether the tables of the log exist. It creates nothing, not even a file.
    fn has_log(&self) -> StoreFuture<'_, bool>;

    /// Runs one statement.
    fn query<'a>(&'a self, statement: &'static Statement, params: Vec<Value>) -> StoreFuture<'a, Vec<Row>>;

    /// Runs a transaction: the fence, the handler's work, then the steps.
    fn transact<'a>(
        &'a self,
        fence: Option<&'a Fence>,
        work: Option<Work>,
        steps: Vec<Step>,
    ) -> StoreFuture<'a, Transacted>;
}

/// The database that a URL names, with connections of its own.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Database>, OutboxError> {
    let refused = |why: String| Err(OutboxError::refused("url", why));
    match url.split_once("://") {
        #[cfg(feature = "sqlite")]
        None | Some(("sqlite", _)) => Ok(Arc::new(crate::sqlite::SqliteStore::of_url(url)?)),
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", _)) => Ok(Arc::new(crate::postgres::PostgresStore::new(url)?)),
        Some(("mysql" | "mariadb", _)) => refused(
            "an event log needs PostgreSQL or SQLite: MySQL does not tell which transactions have drawn positions and are open, so that \
             a subscription could skip events; an outbox works on MySQL"
                .to_owned(),
        ),
        scheme => {
            let scheme = scheme.map_or("", |(scheme, _)| scheme);
            refused(format!(
                "{scheme:?} is not a database for an event log, or this program was built without it; use postgres://…, sqlite:FILE or a path"
            ))
        }
    }
}
