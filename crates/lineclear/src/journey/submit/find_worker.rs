//! Finds the node of a remote worker.

use crate::client::Client;
use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::journey::submit::workers::WORKER_ROLE;
use crate::store::{NodeId, StoreResult};

/// A remote worker that has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownWorker {
    /// Its node.
    pub node: NodeId,
    /// It was told to drain: it should ask for no more jobs.
    pub drains: bool,
}

impl Client {
    /// The worker that registered with this id, here or on another node. `None`: it never did, or has left.
    pub async fn find_worker(&self, id: &str) -> StoreResult<Option<KnownWorker>> {
        let incarnation = format!("{WORKER_ROLE}:{id}");
        let find = Query::first(Statement::NodeFind, values![incarnation], |row| {
            Ok(KnownWorker { node: NodeId(row.get("id")?), drains: row.get("drains")? })
        });
        let found = self.store().db.read(find).await?;
        if let Some(known) = found {
            // Fresher than what the last heartbeat told.
            self.shared.polls.set_draining(&[(known.node, known.drains)]);
        }
        Ok(found)
    }

    /// Whether this worker was told to drain, as far as this node knows: it learns it with its heartbeats.
    pub fn is_draining(&self, worker: NodeId) -> bool {
        self.shared.polls.is_draining(worker)
    }
}
