//! A node that was told to take nothing new: it finishes what it holds, and stays.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, MutexGuard, watch};

use crate::db::Db;
use crate::node::{heartbeat, notify};
use crate::store::{Hint, NodeId, Store, StoreResult};
use crate::validate;

/// Whether it takes jobs and plans.
#[derive(Default)]
pub(crate) struct Drain {
    asked: AtomicBool,
    unknown_leases: AtomicBool,
    dispatching: Mutex<()>,
    planning: Mutex<()>,
}

/// One pass of a loop; until it ends, the node is not drained.
pub(crate) struct Pass<'a> {
    _guard: MutexGuard<'a, ()>,
    /// The node drains: this pass leases and plans nothing.
    pub(crate) drains: bool,
}

impl Drain {
    /// Whether it shall take nothing new.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// What the database says; true if that is another thing than before.
    pub(crate) fn obey(&self, asked: bool) -> bool {
        self.asked.swap(asked, Ordering::SeqCst) != asked
    }

    /// Whether a dispatch was not answered: it may still run in the database, and lease jobs to this node.
    pub(crate) fn may_hold_unknown_leases(&self, may: bool) {
        self.unknown_leases.store(may, Ordering::SeqCst);
    }

    /// Whether surely nothing new comes: no pass that began before is under way, here or in the database.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_asked()
            && self.dispatching.try_lock().is_ok()
            && self.planning.try_lock().is_ok()
            && !self.unknown_leases.load(Ordering::SeqCst)
    }

    pub(crate) async fn begin_dispatch(&self) -> Pass<'_> {
        self.begin(&self.dispatching).await
    }

    pub(crate) async fn begin_plan(&self) -> Pass<'_> {
        self.begin(&self.planning).await
    }

    async fn begin<'a>(&'a self, passes: &'a Mutex<()>) -> Pass<'a> {
        let guard = passes.lock().await;
        // Read under the lock: once `is_quiet` has found the lock free, every later pass sees that the node drains.
        Pass { _guard: guard, drains: self.is_asked() }
    }
}

impl Store {
    /// Tells a node to take no new jobs and to plan no more, until it is resumed or started again; it finishes what it holds. False:
    /// there is no such node.
    pub async fn drain_node(&self, node: NodeId, by: &str) -> StoreResult<bool> {
        self.switch_node(node, true, by).await
    }

    /// Tells a node that drains to take work again. False: there is no such node.
    pub async fn resume_node(&self, node: NodeId, by: &str) -> StoreResult<bool> {
        self.switch_node(node, false, by).await
    }

    async fn switch_node(&self, node: NodeId, drains: bool, by: &str) -> StoreResult<bool> {
        validate::check_text(by)?;
        let found = self.run(heartbeat::NodeDrain { node, drains, by: by.to_owned() }).await?;
        // Only a hint: who does not hear it reads it with its next heartbeat.
        self.nodes_told.send_replace(());
        if found && matches!(self.db, Db::Postgres(_)) {
            let notify = notify::Notify { channel: self.options.channel(), hint: Hint::Nodes };
            if let Err(error) = self.run(notify).await {
                tracing::debug!(%error, "nodes elsewhere could not be woken; they will hear with their next heartbeat");
            }
        }
        Ok(found)
    }

    /// Changes whenever nodes were told something.
    pub(crate) fn nodes_told(&self) -> watch::Receiver<()> {
        self.nodes_told.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_is_quiet_when_the_pass_that_began_before_is_over() {
        let drain = Drain::default();
        assert!(!drain.is_quiet(), "nobody has asked");
        let pass = drain.begin_dispatch().await;
        assert!(!pass.drains && drain.obey(true) && !drain.obey(true));
        assert!(!drain.is_quiet(), "it may take something yet");
        drop(pass);
        assert!(drain.is_quiet() && drain.begin_dispatch().await.drains && drain.begin_plan().await.drains);
        drain.may_hold_unknown_leases(true);
        assert!(!drain.is_quiet(), "what was not answered may come yet");
        drain.may_hold_unknown_leases(false);
        assert!(drain.is_quiet());
        assert!(drain.obey(false) && !drain.is_quiet() && !drain.begin_plan().await.drains);
    }
}
