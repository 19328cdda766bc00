//! Callers that wait for the end of a job. One query serves all of them while there are any: a thousand waiters cost no
//! more statements than one, and hold no connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lineclear_model::JobState;
use tokio::sync::{Notify, oneshot};

use crate::node::Shared;
use crate::store::{JobId, StoreError, StoreResult};

/// Waiters on one node at most.
pub const WAITERS_MAX: usize = 1_000;
/// How often the node checks for jobs that end on other nodes.
const POLL: Duration = Duration::from_millis(200);
/// The shortest interval between two checks, however many jobs end here.
const POLL_MIN: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Waiting {
    callers: HashMap<u64, (JobId, oneshot::Sender<JobState>)>,
    last: u64,
    /// A task polls the database.
    polling: bool,
}

/// The waiters of a node.
#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<Waiting>,
    /// A waiter was added, or an awaited job has ended on this node.
    check: Notify,
}

impl Waiters {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Jobs were settled on this node.
    pub(crate) fn settled(&self, jobs: impl Iterator<Item = JobId>) {
        let waiting = self.waiting();
        if !waiting.callers.is_empty() {
            let awaited: std::collections::HashSet<JobId> =
                waiting.callers.values().map(|(job, _)| *job).collect();
            if jobs.into_iter().any(|job| awaited.contains(&job)) {
                self.check.notify_one();
            }
        }
    }

    /// Jobs that are awaited, each once. `None`: no caller waits, and polling ends.
    fn jobs(&self) -> Option<Vec<JobId>> {
        let mut waiting = self.waiting();
        let mut jobs: Vec<JobId> = waiting.callers.values().map(|(job, _)| *job).collect();
        waiting.polling = !jobs.is_empty();
        jobs.sort_unstable();
        jobs.dedup();
        (!jobs.is_empty()).then_some(jobs)
    }

    fn reply(&self, over: &[(JobId, JobState)]) {
        let over: HashMap<JobId, JobState> = over.iter().copied().collect();
        let mut waiting = self.waiting();
        let done: Vec<u64> = waiting
            .callers
            .iter()
            .filter(|(_, (job, _))| over.contains_key(job))
            .map(|(id, _)| *id)
            .collect();
        for id in done {
            if let Some((job, reply)) = waiting.callers.remove(&id) {
                // A caller that gave up has dropped its receiver.
                let _ = reply.send(over[&job]);
            }
        }
    }
}

/// A registered waiter; dropping it removes it.
struct Registration<'a> {
    waiters: &'a Waiters,
    id: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.waiters.waiting().callers.remove(&self.id);
    }
}

/// Waits for the end of a job. `None`: it did not end in time, or this node stops.
pub(crate) async fn wait(
    shared: &Arc<Shared>,
    job: JobId,
    within: Duration,
) -> StoreResult<Option<JobState>> {
    let waiters = &shared.waiters;
    let (reply, over) = oneshot::channel();
    let (id, starts) = {
        let mut waiting = waiters.waiting();
        if waiting.callers.len() >= WAITERS_MAX {
            let why = format!("{WAITERS_MAX} callers already wait on this node; poll the job instead");
            return Err(StoreError::refused("waiters_max", why));
        }
        waiting.last += 1;
        let id = waiting.last;
        waiting.callers.insert(id, (job, reply));
        (id, !std::mem::replace(&mut waiting.polling, true))
    };
    let _registration = Registration { waiters, id };
    if starts {
        tokio::spawn(poll(shared.clone()));
    } else {
        waiters.check.notify_one();
    }
    tokio::select! {
        state = over => Ok(state.ok()),
        () = tokio::time::sleep(within) => Ok(None),
        () = shared.stopping.cancelled() => Ok(None),
    }
}

/// Polls for all waiters, until there are none.
async fn poll(shared: Arc<Shared>) {
    while let Some(jobs) = shared.waiters.jobs() {
        match shared.loop_store.finished_jobs(jobs).await {
            Ok(over) => shared.waiters.reply(&over),
            Err(error) => {
                tracing::debug!(%error, node.id = %shared.id, "cannot check whether awaited jobs have ended")
            }
        }
        tokio::time::sleep(POLL_MIN).await;
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = shared.waiters.check.notified() => {}
            () = shared.stopping.cancelled() => {}
        }
    }
}
