//! A verb that is one statement.

use super::statements::Statement;
use super::{Params, Row, Session, Verb};
use crate::store::StoreResult;

type Decode<T> = Box<dyn Fn(Vec<Row>) -> StoreResult<T> + Send + Sync>;

/// One statement, its parameters, and the decoding of its rows. It needs no transaction: a single statement is atomic.
pub(crate) struct Query<T> {
    statement: Statement,
    params: Params,
    decode: Decode<T>,
}

impl<T> Query<T> {
    /// Decodes all rows together.
    pub(crate) fn new(
        statement: Statement,
        params: impl Into<Params>,
        decode: impl Fn(Vec<Row>) -> StoreResult<T> + Send + Sync + 'static,
    ) -> Query<T> {
        Query { statement, params: params.into(), decode: Box::new(decode) }
    }

    /// The first row, if there is one.
    pub(crate) fn first(
        statement: Statement,
        params: impl Into<Params>,
        decode: impl Fn(&Row) -> StoreResult<T> + Send + Sync + 'static,
    ) -> Query<Option<T>> {
        Query::new(statement, params, move |rows| rows.first().map(&decode).transpose())
    }

    /// The row of a statement that always returns one.
    pub(crate) fn one(
        statement: Statement,
        params: impl Into<Params>,
        decode: impl Fn(&Row) -> StoreResult<T> + Send + Sync + 'static,
    ) -> Query<T> {
        Query::new(statement, params, move |rows| {
            rows.first().map_or_else(|| Err(crate::error::no_answer(statement.name())), &decode)
        })
    }

    /// Every row.
    pub(crate) fn each(
        statement: Statement,
        params: impl Into<Params>,
        decode: impl Fn(&Row) -> StoreResult<T> + Send + Sync + 'static,
    ) -> Query<Vec<T>> {
        Query::new(statement, params, move |rows| rows.iter().map(&decode).collect())
    }
}

impl Query<Vec<Row>> {
    /// The rows as they are.
    pub(crate) fn rows(statement: Statement, params: impl Into<Params>) -> Query<Vec<Row>> {
        Query::new(statement, params, Ok)
    }
}

impl Query<()> {
    /// Ignores what the statement returns.
    pub(crate) fn execute(statement: Statement, params: impl Into<Params>) -> Query<()> {
        Query::new(statement, params, |_| Ok(()))
    }
}

impl Query<bool> {
    /// Whether there was any row.
    pub(crate) fn exists(statement: Statement, params: impl Into<Params>) -> Query<bool> {
        Query::new(statement, params, |rows| Ok(!rows.is_empty()))
    }
}

impl<T: Send + 'static> Verb for Query<T> {
    type Answer = T;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<T> {
        (self.decode)(session.rows(self.statement, self.params.clone()).await?)
    }
}
