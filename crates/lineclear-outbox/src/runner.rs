//! The runner of an outbox: on one node at a time, it reads messages in the order of their ids and hands them to a sink.

mod clean;
mod exchange;
mod run;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

use std::sync::Arc;

use lineclear_lock::{Locks, RunnerStatus, Singleton, Term};
use tokio::sync::watch;

use crate::delivery::{Delivery, DeliveryError};
use crate::error::OutboxError;
use crate::options::OutboxOptions;
use crate::outbox::Outbox;
use crate::runner_task::RunnerTask;

/// Where messages go.
pub trait Sink: Send + Sync + 'static {
    /// Delivers a message. It may be called again for the same message, with the same delivery id.
    fn deliver(&self, message: Delivery) -> impl Future<Output = Result<(), DeliveryError>> + Send;
}

impl<H, F> Sink for H
where
    H: Fn(Delivery) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(), DeliveryError>> + Send,
{
    fn deliver(&self, message: Delivery) -> impl Future<Output = Result<(), DeliveryError>> + Send {
        self(message)
    }
}

/// The runner of an outbox on this node. Dropped, it stops in the background.
#[derive(Debug)]
pub struct Runner(RunnerTask);

impl Outbox {
    /// Starts a runner with the default options. See [`Outbox::start_with`].
    pub async fn start(&self, sink: impl Sink) -> Result<Runner, OutboxError> {
        self.start_with(OutboxOptions::default(), sink).await
    }

    /// Starts a runner. Any number of nodes may do so: one of them delivers, and the others wait for its lock.
    pub async fn start_with(&self, options: OutboxOptions, sink: impl Sink) -> Result<Runner, OutboxError> {
        options.check()?;
        let (outbox, sink, lock_ttl) = (self.clone(), Arc::new(sink), options.lock_ttl);
        let work =
            move |singleton, term| deliver(outbox.clone(), options.clone(), sink.clone(), singleton, term);
        RunnerTask::start(&self.url, ("outbox", &self.lock_name()), lock_ttl, work).await.map(Runner)
    }
}

impl Runner {
    /// Its state on this node, and every change of it.
    pub fn status(&self) -> watch::Receiver<RunnerStatus> {
        self.0.status()
    }

    /// The locks that it uses, with their registry.
    pub fn locks(&self) -> &Locks {
        self.0.locks()
    }

    /// Leaves the outbox to another node. If none takes it within five seconds, this one goes on.
    pub fn hand_over(&self) {
        self.0.hand_over();
    }

    /// Stops: messages that are on their way are waited for, and recorded.
    pub async fn stop(self) -> Result<(), OutboxError> {
        self.0.stop().await
    }
}

/// Delivers messages from the moment the lock is won to the end of the term.
async fn deliver<S: Sink>(
    outbox: Outbox,
    options: OutboxOptions,
    sink: Arc<S>,
    singleton: Singleton,
    term: Term,
) -> Result<(), OutboxError> {
    let lost = term.lost().clone();
    let mut run = run::Run::new(outbox, options, sink, singleton, term);
    tokio::select! {
        biased;
        // What is on its way is dropped: another node may have the lock.
        () = lost.cancelled() => Ok(()),
        ran = run.run() => ran,
    }
}
