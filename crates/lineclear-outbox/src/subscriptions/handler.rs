//! Handlers of events, and what they answer.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::error::HandlerError;
use super::page::Page;
use crate::events::Event;

/// Handles one event at a time, with effects anywhere, at least once.
pub trait EventHandler: Send + Sync + 'static {
    /// Handles an event. It may be called again for the same event.
    fn handle(&self, event: Event) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

impl<H, F> EventHandler for H
where
    H: Fn(Event) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), HandlerError>> + Send,
{
    fn handle(&self, event: Event) -> impl Future<Output = Result<(), HandlerError>> + Send {
        self(event)
    }
}

/// Handles pages of events in the transaction that moves the checkpoint: effects in this database happen exactly once.
#[cfg(feature = "postgres")]
pub trait PostgresHandler: Send + Sync + 'static {
    /// Handles a page. If it fails, nothing of it happened, and its events are handled one by one.
    fn handle(
        &self,
        page: &Page,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// Prepares what a version needs, such as its table. Called whenever a node starts to work for this version.
    fn prepare(
        &self,
        _version: i32,
        _transaction: &tokio_postgres::Transaction<'_>,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        std::future::ready(Ok(()))
    }

    /// A rebuild replaces the version `old`, in this transaction.
    fn swap(
        &self,
        _old: i32,
        _new: i32,
        _transaction: &tokio_postgres::Transaction<'_>,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Handles pages of events in the transaction that moves the checkpoint: effects in this file happen exactly once.
#[cfg(feature = "sqlite")]
pub trait SqliteHandler: Send + Sync + 'static {
    /// Handles a page. If it fails, nothing of it happened, and its events are handled one by one. No other program can write meanwhile.
    fn handle(&self, page: &Page, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError>;

    /// Prepares what a version needs, such as its table. Called whenever a node starts to work for this version.
    fn prepare(&self, _version: i32, _transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        Ok(())
    }

    /// A rebuild replaces the version `old`, in this transaction.
    fn swap(
        &self,
        _old: i32,
        _new: i32,
        _transaction: &rusqlite::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        Ok(())
    }
}

#[cfg(feature = "sqlite")]
impl<H> SqliteHandler for H
where
    H: Fn(&Page, &rusqlite::Transaction<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
{
    fn handle(&self, page: &Page, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        self(page, transaction)
    }
}

pub(crate) type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send + 'a>>;

type CallExternal = dyn Fn(Event) -> HandlerFuture<'static> + Send + Sync;

/// A handler of any of the three kinds.
#[derive(Clone)]
pub(crate) enum Handler {
    External(Arc<CallExternal>),
    #[cfg(feature = "postgres")]
    Postgres(Arc<dyn CallPostgres>),
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<dyn SqliteHandler>),
}

#[cfg(feature = "postgres")]
pub(crate) trait CallPostgres: Send + Sync {
    fn call<'a>(
        &'a self,
        call: &'a Call,
        transaction: &'a tokio_postgres::Transaction<'_>,
    ) -> HandlerFuture<'a>;
}

#[cfg(feature = "postgres")]
impl<H: PostgresHandler> CallPostgres for H {
    fn call<'a>(
        &'a self,
        call: &'a Call,
        transaction: &'a tokio_postgres::Transaction<'_>,
    ) -> HandlerFuture<'a> {
        match call {
            Call::Handle(page) => Box::pin(self.handle(page, transaction)),
            Call::Prepare(version) => Box::pin(self.prepare(*version, transaction)),
            Call::Swap { old, new } => Box::pin(self.swap(*old, *new, transaction)),
        }
    }
}

/// What a handler does in a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Handle(Arc<Page>),
    Prepare(i32),
    Swap { old: i32, new: i32 },
}

/// Work of a handler in a transaction.
pub(crate) struct Work {
    pub(crate) handler: Handler,
    pub(crate) call: Call,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code))]
    pub(crate) timeout: Duration,
}

impl Handler {
    pub(super) fn external(handler: impl EventHandler) -> Handler {
        let handler = Arc::new(handler);
        Handler::External(Arc::new(move |event| {
            let handler = handler.clone();
            Box::pin(async move { handler.handle(event).await })
        }))
    }

    #[cfg(feature = "postgres")]
    pub(super) fn postgres(handler: impl PostgresHandler) -> Handler {
        Handler::Postgres(Arc::new(handler))
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite(handler: impl SqliteHandler) -> Handler {
        Handler::Sqlite(Arc::new(handler))
    }

    /// The word for where its effects are.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Handler::External(_) => "external",
            #[cfg(feature = "postgres")]
            Handler::Postgres(_) => "transaction",
            #[cfg(feature = "sqlite")]
            Handler::Sqlite(_) => "transaction",
        }
    }
}

impl Work {
    #[cfg(feature = "postgres")]
    pub(crate) async fn run_postgres(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        match &self.handler {
            Handler::Postgres(handler) => within(self.timeout, handler.call(&self.call, transaction)).await,
            _ => Err(HandlerError::reject("this handler does not work in a transaction of PostgreSQL")),
        }
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn run_sqlite(&self, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        let Handler::Sqlite(handler) = &self.handler else {
            return Err(HandlerError::reject("this handler does not work in a transaction of SQLite"));
        };
        let called = catch_unwind(AssertUnwindSafe(|| match &self.call {
            Call::Handle(page) => handler.handle(page, transaction),
            Call::Prepare(version) => handler.prepare(*version, transaction),
            Call::Swap { old, new } => handler.swap(*old, *new, transaction),
        }));
        called.unwrap_or_else(|panic| Err(panicked(&*panic)))
    }
}

/// What a handler answers, also if it panics or hangs.
pub(super) async fn within(timeout: Duration, mut work: HandlerFuture<'_>) -> Result<(), HandlerError> {
    let caught = std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(answer),
            Err(panic) => Poll::Ready(Err(panicked(&*panic))),
        }
    });
    let answer = tokio::time::timeout(timeout, caught).await;
    answer.unwrap_or_else(|_| Err(HandlerError::retry(format!("no answer within {timeout:?}"))))
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    HandlerError::retry(format!("the handler panicked: {}", text.as_deref().unwrap_or("without a message")))
}
