//! Stage 10, nodes: who is alive, and how they wake each other.

use std::time::Duration;

use tokio::sync::watch;

use crate::store::db::Db;
use crate::store::verbs::{node, notify};
use crate::store::{Beat, Hint, Led, NodeId, NodeInfo, Store, StoreResult, door};

/// Why listening ended.
pub(crate) enum Listening {
    /// The connection was closed.
    Ended,
    /// There is nothing to listen to.
    Impossible,
}

impl Store {
    /// A node says that it is alive.
    pub async fn beat(&self, node: NodeInfo) -> StoreResult<Beat> {
        door::check_limit(node.slots)?;
        self.run(node::NodeBeat { node, led: None, next: None, takes_nothing: false }).await
    }

    /// The same, of a node that has led the planning since it last said so, or that led and was not followed by another; and when it
    /// will be heard of again.
    pub async fn beat_leading(&self, node: NodeInfo, led: Option<Led>, next: Duration) -> StoreResult<Beat> {
        self.beat_draining(node, led, next, false).await
    }

    /// The same, of a node that may have been told to drain: whether it takes nothing any more.
    #[doc(hidden)]
    pub async fn beat_draining(
        &self,
        node: NodeInfo,
        led: Option<Led>,
        next: Duration,
        takes_nothing: bool,
    ) -> StoreResult<Beat> {
        door::check_limit(node.slots)?;
        self.run(node::NodeBeat { node, led, next: Some(next), takes_nothing }).await
    }

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
        door::check_text(by)?;
        let found = self.run(node::NodeDrain { node, drains, by: by.to_owned() }).await?;
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

    /// A node that led the planning stops.
    pub async fn resign(&self, node: &NodeInfo) -> StoreResult<()> {
        self.run(node::NodeResign(node.incarnation.clone())).await
    }

    /// Tells other nodes that there may be work.
    pub async fn notify(&self) -> StoreResult<()> {
        self.run(notify::Notify { channel: self.options.channel(), hint: Hint::Work }).await
    }

    /// Calls `work` whenever another node says that there may be work, until the connection ends. Returns at once where
    /// there is nothing to listen to: on SQLite, and behind a transaction pooler.
    pub(crate) async fn listen(&self, work: impl Fn()) -> StoreResult<Listening> {
        let wake = |hint| match hint {
            Hint::Work => work(),
            Hint::Orders => self.orders.send_replace(()),
            Hint::Nodes => self.nodes_told.send_replace(()),
        };
        match &self.db {
            Db::Postgres(db) if !self.options.behind_pooler() => {
                db.listen(&self.options.channel(), wake).await.map(|()| Listening::Ended)
            }
            _ => Ok(Listening::Impossible),
        }
    }
}
