//! The subscriptions that a server shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_lock::{Registry, RunnerRecord};
use lineclear_outbox::{EventLog, OutboxError, SubscriptionView};
use tokio::sync::{Mutex, OnceCell};

use crate::DatabaseLocks;
use crate::database_outboxes::{active_first, in_time};

/// Gauges are as old as this at most.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Runners that are read.
const RUNNERS_MAX: u32 = 1_000;

/// The event log of a database, and the registry that knows which node runs a subscription.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseSubscriptions {
    url: Arc<str>,
    /// Empty until the tables exist.
    log: Arc<OnceCell<EventLog>>,
    registry: Registry,
    measured: Arc<Mutex<Option<Instant>>>,
}

/// A subscription, as operators see it.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) view: SubscriptionView,
    /// Its runners on all nodes, the active one first.
    pub(crate) runners: Vec<RunnerRecord>,
}

impl Shown {
    fn of(view: SubscriptionView, runners: &[RunnerRecord]) -> Shown {
        let its = runners.iter().filter(|runner| runner.name == view.name).cloned().collect();
        Shown { view, runners: active_first(its) }
    }

    /// The runner that handles events, or tries to.
    pub(crate) fn active(&self) -> Option<&RunnerRecord> {
        self.runners.first().filter(|runner| runner.is_active())
    }
}

impl DatabaseSubscriptions {
    /// Those of the database of these locks.
    pub(crate) fn beside(locks: &DatabaseLocks) -> DatabaseSubscriptions {
        DatabaseSubscriptions {
            url: locks.url.clone(),
            log: Arc::default(),
            registry: locks.registry.clone(),
            measured: Arc::default(),
        }
    }

    /// The log. `None`: the database has no tables of one, and gets none.
    pub(crate) async fn log(&self) -> Result<Option<EventLog>, OutboxError> {
        if let Some(log) = self.log.get() {
            return Ok(Some(log.clone()));
        }
        let Some(log) = in_time(EventLog::open_existing(&self.url)).await? else { return Ok(None) };
        Ok(Some(self.log.get_or_init(async || log).await.clone()))
    }

    /// All subscriptions, by name. `None`: the database has no tables of an event log.
    pub(crate) async fn all(&self) -> Result<Option<Vec<Shown>>, OutboxError> {
        let Some(log) = self.log().await? else { return Ok(None) };
        in_time(async {
            let views = log.subscriptions().await?;
            let runners = self.runners().await;
            Ok(Some(views.into_iter().map(|view| Shown::of(view, &runners)).collect()))
        })
        .await
    }

    /// One subscription, with the transactions that it waits for.
    pub(crate) async fn show(&self, name: &str) -> Result<Option<Shown>, OutboxError> {
        let Some(log) = self.log().await? else { return Ok(None) };
        in_time(async {
            let Some(view) = log.show(name).await? else { return Ok(None) };
            Ok(Some(Shown::of(view, &self.runners().await)))
        })
        .await
    }

    /// Sets the gauges of all subscriptions, unless that was done a moment ago.
    pub(crate) async fn measure(&self) {
        let mut measured = self.measured.lock().await;
        if measured.is_some_and(|at| at.elapsed() < MEASURE_EVERY) {
            return;
        }
        *measured = Some(Instant::now());
        let all = match self.all().await {
            Ok(all) => all.unwrap_or_default(),
            Err(error) => return tracing::warn!(%error, "the subscriptions cannot be measured"),
        };
        for Shown { view, .. } in all {
            let gauge = |figure: &'static str, value: f64| {
                metrics::gauge!(figure, "subscription" => view.name.clone()).set(value);
            };
            gauge("lineclear_subscription_lag_events", view.lag_events as f64);
            gauge("lineclear_subscription_lag_seconds", view.lag.as_secs_f64());
        }
    }

    /// The runners of all subscriptions; none if the registry does not answer, which only describes them.
    async fn runners(&self) -> Vec<RunnerRecord> {
        let is_one = |runner: &RunnerRecord| runner.kind.as_deref() == Some("subscription");
        match self.registry.runners(RUNNERS_MAX).await {
            Ok(runners) => runners.into_iter().filter(is_one).collect(),
            Err(error) => {
                tracing::warn!(%error, "the runners of subscriptions cannot be read");
                Vec::new()
            }
        }
    }
}
