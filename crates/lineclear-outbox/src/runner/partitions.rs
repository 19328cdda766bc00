//! The runners of an outbox's partitions on this node: one for each, under the locks that they share.
//!
//! All nodes wait for all locks, so that a node that dies is replaced as soon as its locks are free. Then they even out what they have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lineclear_lock::{Locks, RunnerState, RunnerStatus};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::balance::Balance;
use crate::error::OutboxError;
use crate::outbox::Outbox;
use crate::partitions::partition_name;
use crate::runner_task::RunnerTask;

/// How often a node looks which partitions there are, and whether it has too many.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Those of this node, by their numbers.
type Tasks = Arc<Mutex<BTreeMap<u32, RunnerTask>>>;

#[derive(Debug, Default)]
pub(super) struct PartitionRunners {
    outbox: String,
    tasks: Tasks,
    /// None: outboxes of this database have no partitions.
    supervisor: Option<AbortOnDropHandle<()>>,
}

/// Starts and stops runners as partitions come and go, and hands over those that other nodes should have.
struct Supervisor<R> {
    outbox: Outbox,
    tasks: Tasks,
    run: R,
    balance: Balance,
    is_database_away: bool,
}

fn lock(tasks: &Tasks) -> MutexGuard<'_, BTreeMap<u32, RunnerTask>> {
    // No code panics while it is locked.
    tasks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartitionRunners {
    /// Starts a runner for each of these partitions, and then follows their number.
    pub(super) fn start(
        outbox: &Outbox,
        locks: &Locks,
        numbers: &[u32],
        run: impl Fn(Outbox) -> RunnerTask + Send + 'static,
    ) -> Result<PartitionRunners, OutboxError> {
        let tasks = Tasks::default();
        let mut supervisor = Supervisor {
            outbox: outbox.clone(),
            tasks: tasks.clone(),
            run,
            balance: Balance::new(locks, &outbox.lock_name()),
            is_database_away: false,
        };
        supervisor.start_missing(numbers)?;
        let supervisor = tokio::spawn(async move { supervisor.run().await });
        let supervisor = Some(AbortOnDropHandle::new(supervisor));
        Ok(PartitionRunners { outbox: outbox.name().to_owned(), tasks, supervisor })
    }

    pub(super) fn statuses(&self) -> Vec<(String, RunnerStatus)> {
        let status = |task: &RunnerTask| task.status().borrow().clone();
        let tasks = lock(&self.tasks);
        tasks.iter().map(|(number, task)| (partition_name(&self.outbox, *number), status(task))).collect()
    }

    pub(super) fn hand_over(&self) {
        lock(&self.tasks).values().for_each(RunnerTask::hand_over);
    }

    /// Its tasks, which the caller stops. No further ones are started.
    pub(super) async fn into_tasks(self) -> Vec<RunnerTask> {
        if let Some(supervisor) = self.supervisor {
            supervisor.abort();
            // It ends with the error that it was aborted.
            drop(supervisor.await);
        }
        std::mem::take(&mut *lock(&self.tasks)).into_values().collect()
    }
}

impl<R: Fn(Outbox) -> RunnerTask> Supervisor<R> {
    async fn run(&mut self) {
        loop {
            // Nodes do not look at the same time, so that they do not hand over to the same one.
            let dice = u32::from(Uuid::new_v4().as_bytes()[0]);
            tokio::time::sleep(LOOK_EVERY / 2 + LOOK_EVERY * dice / 256).await;
            match self.follow().await {
                Ok(()) => self.is_database_away = false,
                Err(error) if !std::mem::replace(&mut self.is_database_away, true) => {
                    tracing::warn!(outbox = %self.outbox.name, %error, "cannot read how many partitions there are: tries again");
                }
                Err(_) => {}
            }
            self.even_out().await;
        }
    }

    /// Starts runners of new partitions, and stops those of partitions that are gone.
    async fn follow(&mut self) -> Result<(), OutboxError> {
        let numbers = self.outbox.store.partitions_to_run(&self.outbox.name).await?.unwrap_or_default();
        self.start_missing(&numbers)?;
        let gone: Vec<RunnerTask> = lock(&self.tasks)
            .extract_if(.., |number, _| !numbers.contains(number))
            .map(|(_, task)| task)
            .collect();
        if !gone.is_empty() {
            tracing::info!(outbox = %self.outbox.name, count = gone.len(), "partitions are gone: their runners stop");
            RunnerTask::stop_all(gone).await?;
        }
        Ok(())
    }

    fn start_missing(&mut self, numbers: &[u32]) -> Result<(), OutboxError> {
        let mut tasks = lock(&self.tasks);
        for number in numbers {
            if !tasks.contains_key(number) {
                tasks.insert(*number, (self.run)(self.outbox.partition_to_run(*number)?));
            }
        }
        Ok(())
    }

    /// Hands over one partition, if another node has at least two fewer.
    async fn even_out(&mut self) {
        let held: Vec<(u32, RunnerStatus)> = lock(&self.tasks)
            .iter()
            .map(|(number, task)| (*number, task.status().borrow().clone()))
            .filter(|(_, status)| matches!(status.state, RunnerState::Running | RunnerState::Failing))
            .collect();
        if let Some((number, holder)) = self.balance.choose(&held).await
            && let Some(task) = lock(&self.tasks).get(&number)
        {
            tracing::info!(outbox = %self.outbox.name, partition = number, holder, "hands over a partition to a node that has fewer");
            task.hand_over_to(&holder);
        }
    }
}
