//! Stage 10, nodes: who is alive, and how they wake each other.

use std::time::Duration;

use crate::store::db::Db;
use crate::store::verbs::{node, notify};
use crate::store::{Beat, Hint, Led, NodeInfo, Store, StoreResult, door};

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
        self.run(node::NodeBeat { node, led: None, next: None }).await
    }

    /// The same, of a node that has led the planning since it last said so, or that led and was not followed by another; and when it
    /// will be heard of again.
    pub async fn beat_leading(&self, node: NodeInfo, led: Option<Led>, next: Duration) -> StoreResult<Beat> {
        door::check_limit(node.slots)?;
        self.run(node::NodeBeat { node, led, next: Some(next) }).await
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
        };
        match &self.db {
            Db::Postgres(db) if !self.options.behind_pooler() => {
                db.listen(&self.options.channel(), wake).await.map(|()| Listening::Ended)
            }
            _ => Ok(Listening::Impossible),
        }
    }
}
