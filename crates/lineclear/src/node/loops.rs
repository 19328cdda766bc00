//! The loops of a node, started and ended together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::journey::claim::renewer::Renewal;
use crate::journey::clean::cleaner::Cleaner;
use crate::journey::dispatch::dispatcher::Dispatcher;
use crate::journey::dispatch::promoter::{Promoter, UNTIL_WOKEN};
use crate::journey::execute::reporter::report;
use crate::journey::plan::planner::Planner;
use crate::journey::settle::settler::{SETTLE_MAX, settle};
use crate::node::heartbeat::{Heart, resign};
use crate::node::{Shared, database_watch, pacer, wakeups};
use crate::options::Role;
use crate::store::Store;

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
        // Also without kinds: remote workers may pull.
        let dispatches = shared.options.has(Role::Dispatcher);
        let renewal = works.then(|| Renewal::start(shared.clone(), renewal_store)).transpose()?;
        let mut started = Loops { loops: Vec::new(), settler: None, reporter: None, _renewal: renewal };
        let shared_heart = shared.clone();
        started.loops.push(tokio::spawn(async move {
            pacer::run(shared_heart.clone(), Heart::new(&shared_heart), Duration::ZERO).await;
            resign(&shared_heart).await;
        }));
        if !shared.store.options.is_in_memory() {
            started.loops.push(tokio::spawn(database_watch::watch(shared.clone())));
        }
        if shared.options.has(Role::Planner) {
            started.spawn(shared, Planner::new(shared), Duration::ZERO);
        }
        if shared.options.has(Role::Cleaner) {
            started.spawn(shared, Cleaner::new(shared), shared.options.clean_interval);
        }
        if works || dispatches {
            let (settlements, finished) = mpsc::channel(SETTLE_MAX);
            if works {
                started.settler = Some(tokio::spawn(settle(shared.clone(), finished)));
                started.reporter = Some(tokio::spawn(report(shared.clone())));
            }
            started.spawn(shared, Dispatcher::new(shared, settlements), Duration::ZERO);
            started.spawn(shared, Promoter::new(shared), UNTIL_WOKEN);
        }
        if works || dispatches || shared.options.has(Role::Planner) {
            started.loops.push(tokio::spawn(wakeups::listen(shared.clone())));
        }
        Ok(started)
    }

    fn spawn(&mut self, shared: &Arc<Shared>, looped: impl pacer::Loop, first: Duration) {
        self.loops.push(tokio::spawn(pacer::run(shared.clone(), looped, first)));
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
            // No handler runs any more, so there is nothing to report.
            reporter.abort();
        }
    }
}
