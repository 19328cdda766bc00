//! Who waits for the end of a job. One question for all of them, as long as there is somebody: a thousand waiters cost no
//! more statements than one, and hold no connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lineclear_model::JobState;
use tokio::sync::{Notify, oneshot};

use crate::node::Shared;
use crate::store::{JobId, StoreError, StoreResult};

/// How many may wait at once on one node.
pub const WAITERS_MAX: usize = 1_000;
/// How often is looked for jobs that end elsewhere.
const LOOK: Duration = Duration::from_millis(200);
/// However much ends here, the database is not asked more often than this.
const BREATH: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Line {
    waiting: HashMap<u64, (JobId, oneshot::Sender<JobState>)>,
    last: u64,
    /// Somebody looks.
    looking: bool,
}

/// Who waits.
#[derive(Default)]
pub(crate) struct Waiters {
    line: Mutex<Line>,
    /// Somebody came, or an awaited job has ended on this node.
    hurry: Notify,
}

impl Waiters {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// These jobs were settled on this node.
    pub(crate) fn settled(&self, jobs: impl Iterator<Item = JobId>) {
        let line = self.line();
        if !line.waiting.is_empty() {
            let awaited: std::collections::HashSet<JobId> =
                line.waiting.values().map(|(job, _)| *job).collect();
            if jobs.into_iter().any(|job| awaited.contains(&job)) {
                self.hurry.notify_one();
            }
        }
    }

    /// Jobs that are awaited, each once. Nobody: whoever comes next looks.
    fn jobs(&self) -> Option<Vec<JobId>> {
        let mut line = self.line();
        let mut jobs: Vec<JobId> = line.waiting.values().map(|(job, _)| *job).collect();
        line.looking = !jobs.is_empty();
        jobs.sort_unstable();
        jobs.dedup();
        (!jobs.is_empty()).then_some(jobs)
    }

    fn tell(&self, over: &[(JobId, JobState)]) {
        let over: HashMap<JobId, JobState> = over.iter().copied().collect();
        let mut line = self.line();
        let done: Vec<u64> = line
            .waiting
            .iter()
            .filter(|(_, (job, _))| over.contains_key(job))
            .map(|(turn, _)| *turn)
            .collect();
        for turn in done {
            if let Some((job, reply)) = line.waiting.remove(&turn) {
                // Who went away meanwhile does not want to know.
                let _ = reply.send(over[&job]);
            }
        }
    }
}

/// A place in the line, left when it is dropped.
struct Place<'a> {
    waiters: &'a Waiters,
    turn: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiters.line().waiting.remove(&self.turn);
    }
}

/// Waits for the end of a job. `None`: it was not over in time, or this node stops.
pub(crate) async fn wait(
    shared: &Arc<Shared>,
    job: JobId,
    within: Duration,
) -> StoreResult<Option<JobState>> {
    let waiters = &shared.waiters;
    let (reply, over) = oneshot::channel();
    let (turn, starts) = {
        let mut line = waiters.line();
        if line.waiting.len() >= WAITERS_MAX {
            let why = format!("{WAITERS_MAX} wait already; look at the job now and then");
            return Err(StoreError::refused("waiters_max", why));
        }
        line.last += 1;
        let turn = line.last;
        line.waiting.insert(turn, (job, reply));
        (turn, !std::mem::replace(&mut line.looking, true))
    };
    let _place = Place { waiters, turn };
    if starts {
        tokio::spawn(look(shared.clone()));
    } else {
        waiters.hurry.notify_one();
    }
    tokio::select! {
        state = over => Ok(state.ok()),
        () = tokio::time::sleep(within) => Ok(None),
        () = shared.stopping.cancelled() => Ok(None),
    }
}

/// Looks for all who wait, until nobody does.
async fn look(shared: Arc<Shared>) {
    while let Some(jobs) = shared.waiters.jobs() {
        match shared.store.jobs_over(jobs).await {
            Ok(over) => shared.waiters.tell(&over),
            Err(error) => {
                tracing::debug!(%error, node.id = %shared.id, "cannot see whether awaited jobs are over")
            }
        }
        tokio::time::sleep(BREATH).await;
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = shared.waiters.hurry.notified() => {}
            () = shared.stopping.cancelled() => {}
        }
    }
}
