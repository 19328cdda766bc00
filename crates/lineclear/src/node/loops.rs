//! The loops of a node. Each does one pass, and then waits for its next moment, a nudge, or the end.

use std::sync::Arc;
use std::time::Duration;

use lineclear_model::{Micros, Name};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::builder;
use crate::journey::claim::renewer::Renewal;
use crate::journey::clean::cleaner::clean;
use crate::journey::dispatch::dispatcher::take;
use crate::journey::execute::reporter::report;
use crate::journey::plan::leadership::Won;
use crate::journey::plan::planner::plan;
use crate::journey::settle::settler::{SETTLE_MAX, settle};
use crate::node::{Shared, settings, wakeups};
use crate::options::Role;
use crate::store::{NodeInfo, Store, StoreResult};

/// Parked jobs that one heartbeat brings back.
const UNPARK_MAX: u32 = 10_000;
/// How long a node that stops may take to say that it does not lead any more.
const RESIGN_WITHIN: Duration = Duration::from_secs(1);
/// How soon a node that was told to drain says that it takes nothing any more.
const QUIET_SOON: Duration = Duration::from_millis(200);
/// How long to wait after a pass that failed.
pub(crate) const AFTER_ERROR: Duration = Duration::from_secs(1);

/// The running loops.
pub(crate) struct Loops {
    loops: Vec<JoinHandle<()>>,
    settler: Option<JoinHandle<()>>,
    reporter: Option<JoinHandle<()>>,
    _renewal: Option<Renewal>,
}

impl Loops {
    pub(crate) fn start(shared: &Arc<Shared>, renewal_store: Store) -> std::io::Result<Loops> {
        let works = shared.works();
        let dispatches = shared.options.has(Role::Dispatcher)
            && !builder::routes(&shared.options, &shared.kinds).is_empty();
        let renewal = works.then(|| Renewal::start(shared.clone(), renewal_store)).transpose()?;
        let mut runners = Loops { loops: Vec::new(), settler: None, reporter: None, _renewal: renewal };
        runners.loops.push(tokio::spawn(beat(shared.clone())));
        runners.loops.push(tokio::spawn(wakeups::announce(shared.clone())));
        if shared.options.has(Role::Planner) {
            runners.loops.push(tokio::spawn(plan(shared.clone())));
        }
        if shared.options.has(Role::Cleaner) {
            runners.loops.push(tokio::spawn(clean(shared.clone())));
        }
        if works || dispatches {
            let (settlements, finished) = mpsc::channel(SETTLE_MAX);
            if works {
                runners.settler = Some(tokio::spawn(settle(shared.clone(), finished)));
                runners.reporter = Some(tokio::spawn(report(shared.clone())));
            }
            runners.loops.push(tokio::spawn(take(shared.clone(), settlements)));
        }
        if works || dispatches || shared.options.has(Role::Planner) {
            runners.loops.push(tokio::spawn(wakeups::listen(shared.clone())));
        }
        Ok(runners)
    }

    /// Waits until the loops have ended: from then on no new job comes. If it is given up, it can be called again.
    pub(crate) async fn end_loops(&mut self) {
        while let Some(ending) = self.loops.last_mut() {
            drop(ending.await);
            self.loops.pop();
        }
    }

    /// Waits for the last settlement; leases are renewed until then.
    pub(crate) async fn end_settling(mut self) {
        if let Some(settler) = self.settler.take() {
            drop(settler.await);
        }
        if let Some(reporter) = self.reporter.take() {
            // Nobody runs any more, so there is nothing to report.
            reporter.abort();
        }
    }
}

/// Waits; false if the node stops.
pub(crate) async fn wait(shared: &Shared, time: Duration) -> bool {
    tokio::select! {
        () = shared.stopping.cancelled() => false,
        () = tokio::time::sleep(time) => true,
    }
}

/// Says that the node is alive, and how its runners are; and brings back jobs that waited for a node with its kinds.
async fn beat(shared: Arc<Shared>) {
    let mut pause = Duration::ZERO;
    let mut told = shared.store.nodes_told();
    while wait_or_told(&shared, pause, &mut told).await {
        pause = shared.options.heartbeat;
        let quiet = shared.drain.is_quiet();
        let info = NodeInfo {
            runners: shared.statuses.json(),
            slots: shared.tunable().slots,
            ..shared.info.clone()
        };
        let won = shared.leadership.take();
        let led = won.as_ref().map(Won::led);
        let asked = Micros::from(jiff::Timestamp::now());
        match shared.store.heartbeat_draining(info, led, shared.options.heartbeat, quiet).await {
            Ok(beat) => {
                shared.statuses.clocks(asked, beat.now, jiff::Timestamp::now().into());
                if shared.drain.obey(beat.drains) {
                    tracing::info!(node.id = %shared.id, drains = beat.drains, "told to drain, or to take work again");
                    shared.nudge.notify_one();
                }
                match (beat.drains, quiet) {
                    (true, false) => pause = QUIET_SOON.min(pause),
                    // Another node leads the planning from now on.
                    (true, true) => resign(&shared).await,
                    (false, _) => {}
                }
                settings::follow(&shared, beat.settings).await;
            }
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "heartbeat failed");
                won.into_iter().for_each(|won| shared.leadership.again(won));
            }
        }
        if shared.works()
            && !shared.drain.is_asked()
            && let Err(error) = unpark(&shared).await
        {
            tracing::warn!(%error, node.id = %shared.id, "parked jobs could not be brought back");
        }
    }
    resign(&shared).await;
}

/// Waits, or until nodes were told something; false if the node stops.
async fn wait_or_told(shared: &Shared, time: Duration, told: &mut watch::Receiver<()>) -> bool {
    tokio::select! {
        going_on = wait(shared, time) => going_on,
        // The sender lives as long as the store.
        Ok(()) = told.changed() => true,
    }
}

/// A node that led the planning says that it does so no more. Nothing depends on it, so nothing waits for it.
async fn resign(shared: &Shared) {
    if shared.leadership.ever() {
        let resigned = async {
            if let Some(won) = shared.leadership.take() {
                let info = shared.info.clone();
                let quiet = shared.drain.is_quiet();
                shared
                    .store
                    .heartbeat_draining(info, Some(won.led()), shared.options.heartbeat, quiet)
                    .await?;
            }
            shared.store.resign(&shared.info).await
        };
        let resigned = tokio::time::timeout(RESIGN_WITHIN, resigned).await;
        if matches!(resigned, Ok(Ok(()))) {
            shared.leadership.over();
        } else {
            tracing::debug!(node.id = %shared.id, "it could not be said that this node leads no more");
        }
    }
}

/// Jobs of our kinds that another node parked, because it did not know them.
async fn unpark(shared: &Shared) -> StoreResult<()> {
    let kinds: Vec<Name> = shared.kinds.keys().cloned().collect();
    if shared.store.unpark_kinds(kinds, UNPARK_MAX).await? > 0 {
        shared.has_queued();
    }
    Ok(())
}
