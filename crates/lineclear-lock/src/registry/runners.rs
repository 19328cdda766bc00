//! Runners: what this process reports of its own, and what the registry shows of all nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{Inner, Registry};
use crate::error::LockError;
use crate::holder::Holder;
use crate::name::{Epoch, LockName};
use crate::registry::sql::TableSet;
use crate::singleton::{RunnerState, RunnerStatus};

/// Runners of one process; beyond it, others are not recorded.
const RUNNERS_MAX: usize = 1_000;

/// A runner of any node, as the registry has it. All times are the database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerRecord {
    /// Fresh for each start.
    pub id: String,
    /// The name of its lock.
    pub name: String,
    /// Where the lock itself is.
    pub store: String,
    /// The node, for people: `machine/pid`.
    pub node: String,
    /// The node's machine.
    pub machine: String,
    /// The node's process id.
    pub pid: u32,
    /// What tells the node from other processes of that machine and process id.
    pub incarnation: String,
    /// What kind of work it does.
    pub kind: Option<String>,
    /// What it does on its node.
    pub state: RunnerState,
    /// Since when.
    pub since: SystemTime,
    /// The number of its lock's holder, while its node is that.
    pub epoch: Option<Epoch>,
    /// How often it failed in a row.
    pub failures: u32,
    /// Its last error on its node.
    pub last_error: Option<String>,
    /// When that was.
    pub failed_at: Option<SystemTime>,
    /// When its node last renewed the row.
    pub renewed_at: SystemTime,
    /// How long ago that was.
    pub renewed_ago: Duration,
    /// How often its node renews the row.
    pub renew_every: Duration,
}

impl RunnerRecord {
    /// Its node, as the stores of locks name it: `machine/pid/incarnation`.
    pub fn holder(&self) -> String {
        format!("{}/{}/{}", self.machine, self.pid, self.incarnation)
    }

    /// Whether its node has missed three renewals: it died a moment ago, is frozen, or cannot reach the registry.
    pub fn is_stale(&self) -> bool {
        self.state != RunnerState::Stopped && self.renewed_ago > self.renew_every * 3
    }

    /// Whether it runs, or tries to, on a node that is alive.
    pub fn is_active(&self) -> bool {
        matches!(self.state, RunnerState::Running | RunnerState::Failing) && !self.is_stale()
    }
}

/// A runner of this process.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) id: Uuid,
    pub(crate) name: LockName,
    pub(crate) store: Arc<str>,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) holder: Arc<Holder>,
}

/// What is written of a runner.
#[derive(Clone, Debug)]
pub(crate) struct RunnerUpdate {
    pub(crate) runner: Arc<Runner>,
    pub(crate) status: RunnerStatus,
    /// Microseconds, as all of these that end in `ago`.
    pub(crate) since_ago: i64,
    pub(crate) failed_ago: Option<i64>,
    /// How often the row is renewed, in milliseconds.
    pub(crate) renew_ms: i64,
}

#[derive(Debug)]
struct Entry {
    runner: Arc<Runner>,
    status: RunnerStatus,
    is_written: bool,
}

/// The runners of this process. One that stopped is kept until that is written.
#[derive(Debug, Default)]
pub(super) struct Runners(HashMap<Uuid, Entry>);

impl Runners {
    pub(super) fn changed(&mut self, runner: &Arc<Runner>, status: RunnerStatus) {
        if self.0.len() < RUNNERS_MAX || self.0.contains_key(&runner.id) {
            let entry = Entry { runner: runner.clone(), status, is_written: false };
            self.0.insert(runner.id, entry);
        }
    }

    /// What is to be written now; with the heartbeat, all of them.
    fn batch(&mut self, heartbeat: bool, renew: Duration) -> Vec<RunnerUpdate> {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        // A clock that was set back makes it now.
        let ago = |at: SystemTime| micros(at.elapsed().unwrap_or_default());
        let mut updates = Vec::new();
        for entry in self.0.values_mut().filter(|entry| heartbeat || !entry.is_written) {
            entry.is_written = true;
            updates.push(RunnerUpdate {
                runner: entry.runner.clone(),
                status: entry.status.clone(),
                since_ago: ago(entry.status.since),
                failed_ago: entry.status.failed_at.map(ago),
                renew_ms: i64::try_from(renew.as_millis()).unwrap_or(i64::MAX),
            });
        }
        updates
    }

    fn settle(&mut self, updates: &[RunnerUpdate], is_written: bool) {
        for update in updates {
            let Some(entry) = self.0.get_mut(&update.runner.id) else { continue };
            if !is_written {
                entry.is_written = false;
            } else if entry.is_written && entry.status.state == RunnerState::Stopped {
                self.0.remove(&update.runner.id);
            }
        }
    }
}

impl Registry {
    /// The runners of all nodes, by name: at most `limit`. Those of nodes that vanished are removed after a minute.
    pub async fn runners(&self, limit: u32) -> Result<Vec<RunnerRecord>, LockError> {
        let inner = self.0.clone();
        let read = async move {
            let read = inner.timely(inner.tables.runners(limit)).await;
            if !matches!(read, Err(LockError::Failed { .. })) {
                return read;
            }
            match inner.timely(inner.tables.exist(TableSet::Runners)).await? {
                false => Ok(Vec::new()),
                // Perhaps another process has created the table since.
                true => inner.timely(inner.tables.runners(limit)).await,
            }
        };
        self.0.runtime.run(read).await
    }

    /// Reports the state of a runner of this process. It returns at once and cannot fail.
    pub(crate) fn runner_changed(&self, runner: &Arc<Runner>, status: RunnerStatus) {
        self.0.runners().changed(runner, status);
        self.0.wake.notify_one();
    }
}

impl Inner {
    /// Writes what is pending of runners; with the heartbeat, all of them.
    pub(super) async fn flush_runners(&self, heartbeat: bool) -> Result<(), LockError> {
        let updates = self.runners().batch(heartbeat, self.options.heartbeat);
        if updates.is_empty() {
            return Ok(());
        }
        let written = async {
            self.timely(self.tables.prepare(TableSet::Runners)).await?;
            self.timely(self.tables.write_runners(&updates)).await
        };
        let written = written.await;
        self.runners().settle(&updates, written.is_ok());
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner() -> Arc<Runner> {
        let (name, holder) = (LockName::new("a").unwrap(), Arc::new(Holder::this()));
        Arc::new(Runner { id: Uuid::new_v4(), name, store: Arc::from("test"), kind: None, holder })
    }

    fn status(state: RunnerState) -> RunnerStatus {
        let since = SystemTime::now();
        RunnerStatus { state, since, epoch: None, failures: 0, last_error: None, failed_at: None }
    }

    #[test]
    fn a_change_is_written_at_once_and_a_stop_for_the_last_time() {
        let (mut runners, beat) = (Runners::default(), Duration::from_secs(5));
        let one = runner();
        runners.changed(&one, status(RunnerState::Waiting));
        let first = runners.batch(false, beat);
        assert_eq!(first.len(), 1);
        runners.settle(&first, false);
        assert_eq!(runners.batch(false, beat).len(), 1, "it was not written");
        assert!(runners.batch(false, beat).is_empty());
        let all = runners.batch(true, beat);
        assert_eq!(all.len(), 1, "the heartbeat renews it");
        runners.changed(&one, status(RunnerState::Stopped));
        runners.settle(&all, true);
        let stopped = runners.batch(false, beat);
        assert_eq!(stopped[0].status.state, RunnerState::Stopped);
        runners.settle(&stopped, true);
        assert!(runners.batch(true, beat).is_empty() && runners.0.is_empty());
    }

    #[test]
    fn runners_are_bounded() {
        let mut runners = Runners::default();
        for _ in 0..RUNNERS_MAX + 10 {
            runners.changed(&runner(), status(RunnerState::Waiting));
        }
        assert_eq!(runners.0.len(), RUNNERS_MAX);
    }
}
