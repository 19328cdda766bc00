//! Subscriptions: each reads the log in order from its checkpoint, on one node at a time.

mod checkpoint;
pub(crate) mod error;
pub(crate) mod handler;
mod lag;
mod operate;
mod options;
mod page;
mod parked;
mod reader;
mod rebuild;
mod step;
mod supervisor;
mod view;

use lineclear_lock::{Locks, RunnerStatus};
use tokio::sync::watch;

use crate::error::OutboxError;
use crate::events::EventLog;
use crate::runner_task::RunnerTask;

pub use error::HandlerError;
pub use handler::EventHandler;
#[cfg(feature = "postgres")]
pub use handler::PostgresHandler;
#[cfg(feature = "sqlite")]
pub use handler::SqliteHandler;
pub use options::{OnPoison, Start, SubscriptionOptions};
pub use page::Page;
pub use parked::ParkedEvent;
pub use rebuild::Swap;
pub use view::{RebuildView, SubscriptionState, SubscriptionView};

/// Positions that one statement looks at: a subscription whose events are rare reads on from there.
pub(crate) const SCAN_MAX: i64 = 50_000;
/// Longest error that is kept, in characters.
const ERROR_CHARS_MAX: usize = 2_000;

/// A subscription on this node. Any number of nodes may start it: one of them handles events, and the others wait for its lock, which has
/// its name. Dropped, it stops in the background.
#[derive(Debug)]
pub struct Subscription(RunnerTask);

impl EventLog {
    /// Subscribes with the default options. See [`EventLog::subscribe_with`].
    pub async fn subscribe(
        &self,
        name: &str,
        handler: impl EventHandler,
    ) -> Result<Subscription, OutboxError> {
        self.subscribe_with(name, SubscriptionOptions::default(), handler).await
    }

    /// Hands each event to a handler, one after the other, at least once: [`Event::id`](crate::Event::id) tells one that comes again.
    pub async fn subscribe_with(
        &self,
        name: &str,
        options: SubscriptionOptions,
        handler: impl EventHandler,
    ) -> Result<Subscription, OutboxError> {
        supervisor::start(self, name, options, handler::Handler::external(handler)).await
    }

    /// Hands pages of events to a handler with the transaction that moves the checkpoint: effects in this database happen exactly once.
    #[cfg(feature = "postgres")]
    pub async fn subscribe_postgres(
        &self,
        name: &str,
        options: SubscriptionOptions,
        handler: impl PostgresHandler,
    ) -> Result<Subscription, OutboxError> {
        if !self.url.starts_with("postgres") {
            return Err(OutboxError::refused("handler", "the log is not in PostgreSQL".to_owned()));
        }
        supervisor::start(self, name, options, handler::Handler::postgres(handler)).await
    }

    /// Hands pages of events to a handler with the transaction that moves the checkpoint: effects in this file happen exactly once.
    #[cfg(feature = "sqlite")]
    pub async fn subscribe_sqlite(
        &self,
        name: &str,
        options: SubscriptionOptions,
        handler: impl SqliteHandler,
    ) -> Result<Subscription, OutboxError> {
        if self.url.starts_with("postgres") {
            return Err(OutboxError::refused("handler", "the log is not in SQLite".to_owned()));
        }
        supervisor::start(self, name, options, handler::Handler::sqlite(handler)).await
    }
}

impl Subscription {
    /// The name of an event route, which turns events of one type into work of a process: `event-route-PROCESS-EVENT`.
    pub fn route_name(process: &str, event: &str) -> String {
        format!("event-route-{process}-{event}")
    }

    /// Its state on this node, and every change of it.
    pub fn status(&self) -> watch::Receiver<RunnerStatus> {
        self.0.status()
    }

    /// The locks that it uses, with their registry.
    pub fn locks(&self) -> &Locks {
        self.0.locks()
    }

    /// Leaves the subscription to another node. If none takes it within five seconds, this one goes on.
    pub fn hand_over(&self) {
        self.0.hand_over();
    }

    /// Stops: the page that is being handled is finished.
    pub async fn stop(self) -> Result<(), OutboxError> {
        self.0.stop().await
    }
}

/// An error as it is kept.
fn shown(error: &str) -> String {
    // PostgreSQL has no zero bytes in text.
    error.chars().take(ERROR_CHARS_MAX).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}
