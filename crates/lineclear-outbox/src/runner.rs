//! The runner of an outbox: on one node at a time, it reads messages in the order of their ids and hands them to a sink.

mod balance;
mod clean;
mod exchange;
mod partitions;
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
use crate::runner::partitions::PartitionRunners;
use crate::runner_task::{RunnerTask, open_locks};

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
///
/// An outbox with [partitions](Outbox::partitioned) has further runners behind the same sink, one for each partition. This node starts and
/// stops them as the number of partitions changes, and shares them with other nodes.
#[derive(Debug)]
pub struct Runner {
    own: RunnerTask,
    partitions: PartitionRunners,
}

impl Outbox {
    /// Starts a runner with the default options. See [`Outbox::start_with`].
    pub async fn start(&self, sink: impl Sink) -> Result<Runner, OutboxError> {
        self.start_with(OutboxOptions::default(), sink).await
    }

    /// Starts a runner. Any number of nodes may do so: one of them delivers, and the others wait for its lock. The partitions of an outbox are
    /// delivered by several nodes, and each has the whole `concurrency` and `window`.
    pub async fn start_with(&self, options: OutboxOptions, sink: impl Sink) -> Result<Runner, OutboxError> {
        options.check()?;
        self.check_is_whole()?;
        let locks = open_locks(&self.url, "outbox", options.lock_ttl).await?;
        let sink = Arc::new(sink);
        let run = {
            let locks = locks.clone();
            move |outbox: Outbox| {
                let (name, options, sink) = (outbox.lock_name(), options.clone(), sink.clone());
                RunnerTask::under(&locks, &name, move |singleton, term| {
                    deliver(outbox.clone(), options.clone(), sink.clone(), singleton, term)
                })
            }
        };
        // First, because it may fail.
        let numbers = self.store.partitions_to_run(&self.name).await?;
        let own = run(self.clone());
        let partitions = match numbers {
            Some(numbers) => PartitionRunners::start(self, &locks, &numbers, run)?,
            None => PartitionRunners::default(),
        };
        Ok(Runner { own, partitions })
    }
}

impl Runner {
    /// Its state on this node, and every change of it. Of the outbox itself: see [`Runner::partitions`].
    pub fn status(&self) -> watch::Receiver<RunnerStatus> {
        self.own.status()
    }

    /// The states of its partitions on this node, by their numbers: their names are those of outboxes, such as `orders/2`. Empty if it has none.
    pub fn partitions(&self) -> Vec<(String, RunnerStatus)> {
        self.partitions.statuses()
    }

    /// The locks that it uses, with their registry.
    pub fn locks(&self) -> &Locks {
        self.own.locks()
    }

    /// Leaves the outbox to another node. If none takes it within five seconds, this one goes on. Of the partitions, this node gets its share again.
    pub fn hand_over(&self) {
        self.own.hand_over();
        self.partitions.hand_over();
    }

    /// Stops: messages that are on their way are waited for, and recorded.
    pub async fn stop(self) -> Result<(), OutboxError> {
        let locks = self.locks().clone();
        let mut tasks = self.partitions.into_tasks().await;
        tasks.insert(0, self.own);
        let ended = RunnerTask::stop_all(tasks).await;
        locks.flush().await;
        ended
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
