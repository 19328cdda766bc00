//! The outboxes that a server shows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_lock::{Registry, RunnerRecord};
use lineclear_outbox::{Counts, Outbox, OutboxError, Outboxes};
use tokio::sync::Mutex;

use crate::DatabaseLocks;

/// How long the database may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Gauges are as old as this at most.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Runners that are read.
const RUNNERS_MAX: u32 = 1_000;
/// Begins the name of a runner's lock; the name of the outbox follows.
const LOCK_PREFIX: &str = "outbox-";

/// The outboxes of a database, and the registry that knows their runners.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseOutboxes {
    outboxes: Outboxes,
    registry: Registry,
    measured: Arc<Mutex<Measured>>,
}

/// What the gauges show.
#[derive(Debug, Default)]
struct Measured {
    at: Option<Instant>,
    /// Outboxes that have gauges: one that is not listed any more is empty.
    names: BTreeSet<String>,
}

/// An outbox, as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct OutboxView {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    /// Its runners on all nodes, the active one first.
    pub(crate) runners: Vec<RunnerRecord>,
}

impl OutboxView {
    /// The runner that delivers, or tries to.
    pub(crate) fn active(&self) -> Option<&RunnerRecord> {
        self.runners.first().filter(|runner| runner.is_active())
    }
}

impl DatabaseOutboxes {
    /// Those of the database of these locks. `None`: it cannot have any.
    pub(crate) fn beside(locks: &DatabaseLocks) -> Option<DatabaseOutboxes> {
        let outboxes = Outboxes::new(&locks.url).ok()?;
        Some(DatabaseOutboxes { outboxes, registry: locks.registry.clone(), measured: Arc::default() })
    }

    /// All outboxes, by name. `None`: the database has no tables of outboxes.
    pub(crate) async fn all(&self) -> Result<Option<Vec<OutboxView>>, OutboxError> {
        in_time(async {
            if !self.outboxes.tables_exist().await? {
                return Ok(None);
            }
            let mut runners = self.runners().await;
            let mut names: BTreeSet<String> = self.outboxes.names().await?.into_iter().collect();
            names.extend(runners.iter().filter_map(|runner| Some(outbox_of(runner)?.to_owned())));
            let mut all = Vec::new();
            for name in names {
                // A program without the library may write any text as the name.
                let Ok(outbox) = self.outboxes.outbox(&name) else { continue };
                let counts = outbox.counts().await?;
                let of_it: Vec<RunnerRecord> =
                    runners.extract_if(.., |runner| outbox_of(runner) == Some(&name)).collect();
                all.push(OutboxView { name, counts, runners: active_first(of_it) });
            }
            Ok(Some(all))
        })
        .await
    }

    /// One outbox, whether or not it has messages. `None`: the name is not one, or the database has no tables of outboxes.
    pub(crate) async fn open(&self, name: &str) -> Result<Option<Outbox>, OutboxError> {
        let Ok(outbox) = self.outboxes.outbox(name) else { return Ok(None) };
        in_time(async { Ok(self.outboxes.tables_exist().await?.then_some(outbox)) }).await
    }

    /// Sets the gauges of all outboxes, unless that was done a moment ago.
    pub(crate) async fn measure(&self) {
        let mut measured = self.measured.lock().await;
        if measured.at.is_some_and(|at| at.elapsed() < MEASURE_EVERY) {
            return;
        }
        measured.at = Some(Instant::now());
        let all = match self.all().await {
            Ok(all) => all.unwrap_or_default(),
            Err(error) => return tracing::warn!(%error, "the outboxes cannot be measured"),
        };
        let gone: Vec<String> = measured
            .names
            .iter()
            .filter(|name| !all.iter().any(|view| view.name == **name))
            .cloned()
            .collect();
        for name in gone {
            set_gauges(&name, Counts::default(), false);
        }
        for view in all {
            set_gauges(&view.name, view.counts, view.active().is_some());
            measured.names.insert(view.name);
        }
    }

    /// The runners of all outboxes; none if the registry does not answer, which only describes them.
    async fn runners(&self) -> Vec<RunnerRecord> {
        match self.registry.runners(RUNNERS_MAX).await {
            Ok(runners) => runners.into_iter().filter(|runner| outbox_of(runner).is_some()).collect(),
            Err(error) => {
                tracing::warn!(%error, "the runners of outboxes cannot be read");
                Vec::new()
            }
        }
    }
}

/// Fails if the database does not answer in time.
pub(crate) async fn in_time<T>(
    answer: impl Future<Output = Result<T, OutboxError>>,
) -> Result<T, OutboxError> {
    let late = || OutboxError::Unavailable(format!("no answer within {ANSWER_WITHIN:?}").into());
    tokio::time::timeout(ANSWER_WITHIN, answer).await.unwrap_or_else(|_| Err(late()))
}

/// The name of the outbox that a runner delivers.
fn outbox_of(runner: &RunnerRecord) -> Option<&str> {
    runner.name.strip_prefix(LOCK_PREFIX).filter(|_| runner.kind.as_deref() == Some("outbox"))
}

pub(crate) fn active_first(mut runners: Vec<RunnerRecord>) -> Vec<RunnerRecord> {
    runners.sort_by_key(|runner| (!runner.is_active(), runner.is_stale(), runner.node.clone()));
    runners
}

fn set_gauges(outbox: &str, counts: Counts, has_runner: bool) {
    for (state, count) in [("ready", counts.ready), ("waiting", counts.waiting), ("dead", counts.dead)] {
        metrics::gauge!("lineclear_outbox_messages", "outbox" => outbox.to_owned(), "state" => state)
            .set(count as f64);
    }
    let outbox = outbox.to_owned();
    metrics::gauge!("lineclear_outbox_lag_seconds", "outbox" => outbox.clone()).set(counts.lag.as_secs_f64());
    metrics::gauge!("lineclear_outbox_runners", "outbox" => outbox).set(f64::from(u8::from(has_runner)));
}
