//! The nodes of remote workers that this server has heard of lately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lineclear::Client;
use lineclear::remote::{KnownWorker, RemoteWorker};
use lineclear::store::{NodeId, StoreResult};

/// Workers in memory. Others are looked up in the database.
const WORKERS_MAX: usize = 20_000;

/// The nodes of workers, by their ids. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct RemoteWorkers(Arc<Mutex<HashMap<String, NodeId>>>);

impl RemoteWorkers {
    fn nodes(&self) -> MutexGuard<'_, HashMap<String, NodeId>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn remember(&self, worker: &str, node: NodeId) {
        let mut nodes = self.nodes();
        if nodes.len() >= WORKERS_MAX {
            nodes.clear();
        }
        nodes.insert(worker.to_owned(), node);
    }

    /// The node of a worker that asks for jobs.
    pub(crate) async fn register(&self, client: &Client, worker: &RemoteWorker) -> StoreResult<NodeId> {
        let node = client.register_worker(worker).await?;
        self.remember(&worker.id, node);
        Ok(node)
    }

    /// The node of a worker that asked for jobs, on this server or on another. `None`: there is none.
    pub(crate) async fn find(&self, client: &Client, worker: &str) -> StoreResult<Option<NodeId>> {
        let known = self.nodes().get(worker).copied();
        if known.is_some() {
            return Ok(known);
        }
        Ok(self.look_up(client, worker).await?.map(|found| found.node))
    }

    /// Like `find`, always from the database: whether the worker shall drain changes.
    pub(crate) async fn look_up(&self, client: &Client, worker: &str) -> StoreResult<Option<KnownWorker>> {
        let found = client.find_worker(worker).await?;
        match found {
            Some(known) => self.remember(worker, known.node),
            None => self.forget(worker),
        }
        Ok(found)
    }

    pub(crate) fn forget(&self, worker: &str) {
        self.nodes().remove(worker);
    }
}
