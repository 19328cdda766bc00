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
    unsure: AtomicBool,
    taking: Mutex<()>,
    planning: Mutex<()>,
}

/// One pass of a runner; nobody says meanwhile that nothing is taken.
pub(crate) struct Turn<'a> {
    _turn: MutexGuard<'a, ()>,
    /// The node drains: this pass takes nothing.
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

    /// Whether a dispatch was not answered: it may still be under way in the database, and take jobs for this node.
    pub(crate) fn may_yet_take(&self, unsure: bool) {
        self.unsure.store(unsure, Ordering::SeqCst);
    }

    /// Whether surely nothing new comes: no pass that began before is under way, here or in the database.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_asked()
            && self.taking.try_lock().is_ok()
            && self.planning.try_lock().is_ok()
            && !self.unsure.load(Ordering::SeqCst)
    }

    pub(crate) async fn to_take(&self) -> Turn<'_> {
        self.turn(&self.taking).await
    }

    pub(crate) async fn to_plan(&self) -> Turn<'_> {
        self.turn(&self.planning).await
    }

    async fn turn<'a>(&'a self, pass: &'a Mutex<()>) -> Turn<'a> {
        let turn = pass.lock().await;
        // Read when the turn has come: whoever found no turn taken knows that all later ones see it.
        Turn { _turn: turn, drains: self.is_asked() }
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
        let turn = drain.to_take().await;
        assert!(!turn.drains && drain.obey(true) && !drain.obey(true));
        assert!(!drain.is_quiet(), "it may take something yet");
        drop(turn);
        assert!(drain.is_quiet() && drain.to_take().await.drains && drain.to_plan().await.drains);
        drain.may_yet_take(true);
        assert!(!drain.is_quiet(), "what was not answered may come yet");
        drain.may_yet_take(false);
        assert!(drain.is_quiet());
        assert!(drain.obey(false) && !drain.is_quiet() && !drain.to_plan().await.drains);
    }
}
