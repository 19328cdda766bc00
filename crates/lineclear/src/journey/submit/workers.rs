//! Remote workers: each is a node without a connection to the database, which a server stands in for.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use lineclear_model::Name;

use crate::client::Client;
use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::journey::submit::report::ClaimFacts;
use crate::journey::submit::routes::pull_route;
use crate::node::Shared;
use crate::store::{BATCH_MAX, Claim, ClaimRef, NodeId, NodeInfo, StoreResult};

/// Workers that a node remembers.
pub(super) const WORKERS_MAX: usize = 50_000;
/// Claims of workers that a node remembers.
const CLAIMS_MAX: usize = 100_000;
/// The role of a remote worker in its row of `node`.
pub(crate) const WORKER_ROLE: &str = "worker";

/// A worker that pulls jobs.
#[derive(Clone, Debug)]
pub struct RemoteWorker {
    /// Unique for each start of its process, and for whom it authenticates as.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// Its machine.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Its library or program, and the version.
    pub version: String,
    /// Kinds that it runs.
    pub kinds: Vec<Name>,
    /// Jobs that it can start now.
    pub slots: u32,
}

/// The remote workers that a node serves.
#[derive(Default)]
pub(crate) struct RemoteWorkers {
    /// Their nodes, by the id that they chose.
    known: Mutex<HashMap<String, NodeId>>,
    /// Those that were heard of since the last heartbeat.
    heard: Mutex<HashSet<NodeId>>,
    /// Kinds that may be pulled, and when that was checked.
    checked: Mutex<HashMap<Name, Instant>>,
    /// What it gave them, so that settling need not read it again.
    given: Mutex<HashMap<ClaimRef, ClaimFacts>>,
}

impl RemoteWorkers {
    fn known(&self) -> MutexGuard<'_, HashMap<String, NodeId>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn heard(&self) -> MutexGuard<'_, HashSet<NodeId>> {
        self.heard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn given(&self) -> MutexGuard<'_, HashMap<ClaimRef, ClaimFacts>> {
        self.given.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Remembers what a worker was given.
    pub(super) fn gave(&self, worker: NodeId, claims: &[Claim]) {
        let mut given = self.given();
        // Most are of workers that have vanished. Settling one that was forgotten costs a statement more.
        if given.len() + claims.len() > CLAIMS_MAX {
            given.clear();
        }
        given.extend(claims.iter().map(|claim| (claim.reference(), ClaimFacts::of(claim, worker))));
    }

    /// What it remembers of these claims, and the claims that it does not know.
    pub(super) fn facts_of(&self, claims: &[ClaimRef]) -> (HashMap<ClaimRef, ClaimFacts>, Vec<ClaimRef>) {
        let given = self.given();
        let facts = claims.iter().filter_map(|claim| Some((*claim, given.get(claim)?.clone()))).collect();
        (facts, claims.iter().filter(|claim| !given.contains_key(claim)).copied().collect())
    }

    /// Forgets claims that are over.
    pub(super) fn forget_claims(&self, claims: &[ClaimRef]) {
        let mut given = self.given();
        for claim in claims {
            given.remove(claim);
        }
    }

    pub(super) fn checked(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.checked.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn forget(&self, gone: &[NodeId]) {
        if !gone.is_empty() {
            self.known().retain(|_, node| !gone.contains(node));
        }
    }
}

/// Writes the heartbeats of all remote workers that were heard of, in one statement.
pub(crate) async fn write_heartbeats(shared: &Shared) -> StoreResult<()> {
    let mut heard = std::mem::take(&mut *shared.remote_workers.heard());
    // A poll that waits is a sign of life.
    heard.extend(shared.polls.workers());
    let heard: Vec<NodeId> = heard.into_iter().collect();
    for part in heard.chunks(BATCH_MAX) {
        let ids: Vec<i64> = part.iter().map(|node| node.0).collect();
        let seen = Query::each(Statement::WorkersSeen, values![ids], |row| {
            Ok((NodeId(row.get("id")?), row.get::<bool>("drains")?))
        });
        let seen = shared.loop_store.run(seen).await?;
        shared.polls.set_draining(&seen);
        let alive: HashSet<NodeId> = seen.iter().map(|(node, _)| *node).collect();
        let is_gone = |node: &NodeId| !alive.contains(node);
        let gone: Vec<NodeId> = part.iter().copied().filter(is_gone).collect();
        // Their rows were removed: they register again with their next call.
        shared.remote_workers.forget(&gone);
        shared.polls.forget(&gone);
    }
    Ok(())
}

impl Client {
    /// Registers a worker as a node, or notes that it lives: a worker that is known costs no statement.
    pub async fn register_worker(&self, worker: &RemoteWorker) -> StoreResult<NodeId> {
        let shared = &self.shared;
        let known = shared.remote_workers.known().get(&worker.id).copied();
        if let Some(node) = known {
            shared.remote_workers.heard().insert(node);
            return Ok(node);
        }
        let json = |words: BTreeSet<String>| serde_json::to_string(&words).expect("words are JSON");
        let routes = worker.kinds.iter().filter_map(pull_route).map(|route| route.to_string()).collect();
        let info = NodeInfo {
            name: worker.name.clone(),
            host: worker.host.clone(),
            pid: worker.pid,
            incarnation: format!("{WORKER_ROLE}:{}", worker.id),
            version: worker.version.clone(),
            roles: json([WORKER_ROLE.to_owned()].into()),
            routes: json(routes),
            kinds: json(worker.kinds.iter().map(ToString::to_string).collect()),
            slots: worker.slots,
            runners: "{}".to_owned(),
        };
        let next = shared.options.heartbeat_interval();
        let node = shared.store.heartbeat_leading(info, None, next).await?.id;
        let mut known = shared.remote_workers.known();
        if known.len() >= WORKERS_MAX {
            known.clear();
        }
        known.insert(worker.id.clone(), node);
        Ok(node)
    }

    /// Removes a worker that ends, and releases what it still holds.
    pub async fn remove_worker(&self, node: NodeId) -> StoreResult<()> {
        self.shared.store.give_back_unknown(node, &[]).await?;
        self.shared.store.run(Query::execute(Statement::WorkerLeave, values![node.0])).await?;
        self.shared.remote_workers.forget(&[node]);
        self.shared.polls.forget(&[node]);
        self.shared.has_queued();
        Ok(())
    }
}
