//! Draining: a node takes no new jobs and plans no ticks, finishes what it holds, and keeps running.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, MutexGuard, watch};

use crate::db::statements::Statement;
use crate::db::{Db, Query, values};
use crate::store::{Hint, NodeId, Store, StoreResult};
use crate::validate;

/// Whether the node drains, and whether a dispatch or a planning cycle is still in progress.
#[derive(Default)]
pub(crate) struct Drain {
    requested: AtomicBool,
    unanswered: AtomicBool,
    dispatching: Mutex<()>,
    planning: Mutex<()>,
}

/// Held during a dispatch or a planning cycle: until it is dropped, the node is not quiet.
pub(crate) struct DrainGuard<'a> {
    _guard: MutexGuard<'a, ()>,
    /// The node drains: this cycle must take nothing.
    pub(crate) drains: bool,
}

impl Drain {
    /// Whether the node was told to drain.
    pub(crate) fn is_asked(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Follows the node's row in the database; true if the request has changed.
    pub(crate) fn obey(&self, drains: bool) -> bool {
        self.requested.swap(drains, Ordering::SeqCst) != drains
    }

    /// Sets whether a dispatch was left unanswered: the database may still run it and lease jobs to this node.
    pub(crate) fn may_hold_unknown_leases(&self, unanswered: bool) {
        self.unanswered.store(unanswered, Ordering::SeqCst);
    }

    /// Whether no new work can arrive: no cycle that began before the request is in progress, here or in the database.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_asked()
            && self.dispatching.try_lock().is_ok()
            && self.planning.try_lock().is_ok()
            && !self.unanswered.load(Ordering::SeqCst)
    }

    pub(crate) async fn begin_dispatch(&self) -> DrainGuard<'_> {
        self.enter(&self.dispatching).await
    }

    pub(crate) async fn begin_plan(&self) -> DrainGuard<'_> {
        self.enter(&self.planning).await
    }

    async fn enter<'a>(&'a self, cycle: &'a Mutex<()>) -> DrainGuard<'a> {
        let guard = cycle.lock().await;
        // Read under the lock: once `is_quiet` has found it free, every later cycle sees the request.
        DrainGuard { _guard: guard, drains: self.is_asked() }
    }
}

impl Store {
    /// Tells a node to drain until it is resumed or restarted. False: there is no such node.
    pub async fn drain_node(&self, node: NodeId, by: &str) -> StoreResult<bool> {
        self.set_drain(node, true, by).await
    }

    /// Tells a draining node to take work again. False: there is no such node.
    pub async fn resume_node(&self, node: NodeId, by: &str) -> StoreResult<bool> {
        self.set_drain(node, false, by).await
    }

    async fn set_drain(&self, node: NodeId, drains: bool, by: &str) -> StoreResult<bool> {
        validate::check_text(by)?;
        let found = self.run(Query::exists(Statement::NodeDrain, values![node.0, drains, by])).await?;
        // Only a hint: a node that misses it reads its row with its next heartbeat.
        self.drains_changed.send_replace(());
        if found
            && matches!(self.db, Db::Postgres(_))
            && let Err(error) = self.send_hint(Hint::Nodes).await
        {
            tracing::debug!(%error, "cannot notify other nodes; they follow with their next heartbeat");
        }
        Ok(found)
    }

    /// Changes whenever a node was told to drain or to resume.
    pub(crate) fn drains_changed(&self) -> watch::Receiver<()> {
        self.drains_changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_is_quiet_when_the_cycle_that_began_before_the_request_has_ended() {
        let drain = Drain::default();
        assert!(!drain.is_quiet(), "no drain was requested");
        let guard = drain.begin_dispatch().await;
        assert!(!guard.drains && drain.obey(true) && !drain.obey(true));
        assert!(!drain.is_quiet(), "a dispatch is in progress");
        drop(guard);
        assert!(drain.is_quiet() && drain.begin_dispatch().await.drains && drain.begin_plan().await.drains);
        drain.may_hold_unknown_leases(true);
        assert!(!drain.is_quiet(), "an unanswered dispatch may still lease jobs");
        drain.may_hold_unknown_leases(false);
        assert!(drain.is_quiet());
        assert!(drain.obey(false) && !drain.is_quiet() && !drain.begin_plan().await.drains);
    }
}
