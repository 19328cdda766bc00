//! A worker pulls: it waits for jobs of its kinds, and gets them under leases of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::{Name, Outcome, Verdict};

use crate::client::Client;
use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::journey::submit::routes::{is_pull_route, pull_route};
use crate::journey::submit::workers::{RemoteWorker, WORKERS_MAX};
use crate::node::{Event, JobEvent, Shared, metrics};
use crate::options::Role;
use crate::read::NodeView;
use crate::store::{BATCH, Claim, ClaimRef, NodeId, Settlement, StoreError, StoreResult};
use crate::submitters::routing::Destination;

/// Kinds of one worker.
pub const KINDS_MAX: usize = 100;
/// Kinds whose jobs leave their nodes: each is a row that every node reads.
const ROUTES_MAX: usize = 10_000;
/// How often a node checks again whether workers may pull a kind.
const ROUTE_CHECK: Duration = Duration::from_secs(60);

/// Why a worker gets no jobs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The database did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Jobs of this kind go elsewhere.
    #[error("kind {kind} cannot be pulled: its jobs go to {to}")]
    RoutedElsewhere {
        /// Which kind.
        kind: Name,
        /// Where they go: a submitter, or a node that runs them.
        to: String,
    },
    /// The name of the kind is too long for a route.
    #[error("kind {0} cannot be pulled: its name is too long")]
    BadKind(Name),
    /// The worker names no kind, or too many.
    #[error("`kinds` must name 1 to {KINDS_MAX} kinds")]
    Kinds,
    /// Workers have asked for too many kinds.
    #[error("workers have asked for {ROUTES_MAX} kinds, and may not for more")]
    TooManyKinds,
    /// The node stops, or drains: another one, or this one later, has jobs.
    #[error("this node gives out no jobs now")]
    Stopping,
    /// The node has not the role dispatcher.
    #[error("this node gives out no jobs: it has not the role dispatcher")]
    NoDispatcher,
    /// Too many polls wait on this node.
    #[error("too many polls wait on this node")]
    TooManyPolls,
}

impl Client {
    /// Waits for jobs of the worker's kinds, and leases them to it. Empty: none came in time. Dropped while it waits, it takes
    /// nothing.
    pub async fn pull(&self, worker: &RemoteWorker, wait: Duration) -> Result<Vec<Claim>, PullError> {
        let shared = &self.shared;
        if worker.kinds.is_empty() || worker.kinds.len() > KINDS_MAX {
            return Err(PullError::Kinds);
        }
        if !shared.options.has(Role::Dispatcher) {
            return Err(PullError::NoDispatcher);
        }
        if shared.stopping.is_cancelled() || shared.drain.is_asked() {
            return Err(PullError::Stopping);
        }
        self.check_pullable(&worker.kinds).await?;
        let node = self.register_worker(worker).await?;
        let kinds: Arc<[Name]> = worker.kinds.clone().into();
        let (id, receiver) =
            shared.polls.add(node, kinds, worker.slots.clamp(1, BATCH)).ok_or(PullError::TooManyPolls)?;
        let mut waiting = WaitingPoll { shared: shared.clone(), id, worker: node, receiver: Some(receiver) };
        let claims = waiting.wait(wait).await?;
        shared.remote_workers.heard().insert(node);
        shared.remote_workers.gave(node, &claims);
        for claim in &claims {
            metrics::claimed(claim);
            shared.hooks.tell(|| {
                let event = Event::Started { claim_no: claim.no };
                JobEvent { job: claim.job, kind: claim.kind.clone(), event }
            });
        }
        Ok(claims)
    }

    /// Checks that the jobs of these kinds are for workers that pull, and routes them there if no other route was ever set.
    async fn check_pullable(&self, kinds: &[Name]) -> Result<(), PullError> {
        let shared = &self.shared;
        let is_fresh = |at: &Instant| at.elapsed() < ROUTE_CHECK;
        let unchecked: Vec<&Name> = {
            let checked = shared.remote_workers.checked();
            kinds.iter().filter(|kind| !checked.get(kind).is_some_and(is_fresh)).collect()
        };
        if unchecked.is_empty() {
            return Ok(());
        }
        let routes: HashMap<Name, Name> = shared.store.kind_routes().await?.into_iter().collect();
        let mut new_routes = Vec::new();
        let mut nodes = None;
        for kind in &unchecked {
            let elsewhere = |to: String| PullError::RoutedElsewhere { kind: (*kind).clone(), to };
            let route = pull_route(kind).ok_or_else(|| PullError::BadKind((*kind).clone()))?;
            if let Some(known) = shared.kinds.get(kind)
                && known.destination != Destination::Pull
            {
                return Err(elsewhere(match &known.destination {
                    Destination::Submitter(name) => format!("submitter {name}"),
                    _ => "this node, which has a handler for it".to_owned(),
                }));
            }
            match routes.get(kind) {
                Some(other) if !is_pull_route(other) => return Err(elsewhere(format!("submitter {other}"))),
                Some(_) => {}
                None => {
                    let nodes = match &mut nodes {
                        Some(nodes) => nodes,
                        none => none.insert(self.shared.store.nodes(crate::read::PAGE_MAX).await?),
                    };
                    if let Some(name) = node_with_handler(nodes, kind) {
                        return Err(elsewhere(format!("node {name}, which has a handler for it")));
                    }
                    new_routes.push(((*kind).clone(), route));
                }
            }
        }
        if !new_routes.is_empty() && routes.len() + new_routes.len() > ROUTES_MAX {
            return Err(PullError::TooManyKinds);
        }
        shared.store.route_kinds(&new_routes).await?;
        let mut checked = shared.remote_workers.checked();
        if checked.len() > WORKERS_MAX {
            checked.clear();
        }
        checked.extend(unchecked.into_iter().map(|kind| (kind.clone(), Instant::now())));
        Ok(())
    }

    /// Claims that the database has leased to this worker, except those that it knows of: the answer with them was lost.
    pub async fn unknown_claims(&self, node: NodeId, held: &[ClaimRef]) -> StoreResult<Vec<Claim>> {
        let store = &self.shared.store;
        let rows = store.run(Query::rows(Statement::ClaimsOfWorker, values![node.0, BATCH])).await?;
        let mut claims = store.read_claims(&rows, node).await?;
        claims.retain(|claim| !held.contains(&claim.reference()));
        Ok(claims)
    }
}

/// A live node with a handler for this kind.
fn node_with_handler(nodes: &[NodeView], kind: &Name) -> Option<String> {
    let runs = |node: &&NodeView| {
        let words = |json: &str| serde_json::from_str::<Vec<String>>(json).unwrap_or_default();
        let kinds = node.kinds.as_deref().map(words).unwrap_or_default();
        !node.is_worker() && node.is_alive() && kinds.iter().any(|own| own == kind.as_str())
    };
    nodes.iter().find(runs).map(|node| node.name.clone())
}

/// A poll that waits. Dropped after it was given jobs, it releases them.
struct WaitingPoll {
    shared: Arc<Shared>,
    id: u64,
    worker: NodeId,
    receiver: Option<tokio::sync::oneshot::Receiver<Vec<Claim>>>,
}

impl WaitingPoll {
    async fn wait(&mut self, wait: Duration) -> Result<Vec<Claim>, PullError> {
        let Some(receiver) = self.receiver.as_mut() else { return Ok(Vec::new()) };
        let lost = || {
            let source = "the answer of the database was lost".into();
            PullError::Store(StoreError::Unavailable { source, maybe_applied: true })
        };
        let answer = tokio::select! {
            biased;
            claims = &mut *receiver => Some(claims.map_err(|_| lost())),
            () = tokio::time::sleep(wait) => None,
            () = self.shared.stopping.cancelled() => Some(Err(PullError::Stopping)),
        };
        self.shared.polls.remove(self.id);
        // What came at the last moment counts; what comes later goes back.
        receiver.close();
        let late = receiver.try_recv().ok();
        self.receiver = None;
        match (late, answer) {
            (Some(claims), _) => Ok(claims),
            (None, Some(answer)) => answer,
            (None, None) => Ok(Vec::new()),
        }
    }
}

impl Drop for WaitingPoll {
    fn drop(&mut self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        self.shared.polls.remove(self.id);
        receiver.close();
        if let Ok(claims) = receiver.try_recv() {
            release(&self.shared, self.worker, claims);
        }
    }
}

/// Gives claims back that did not reach their worker; uncharged.
pub(crate) fn release(shared: &Arc<Shared>, holder: NodeId, claims: Vec<Claim>) {
    if claims.is_empty() {
        return;
    }
    let shared = shared.clone();
    tokio::spawn(async move {
        let released = |claim: &Claim| Settlement::new(claim, Outcome::Released, Verdict::Release);
        let settlements = claims.iter().map(released).collect();
        // If this fails, too, their leases run out.
        match shared.loop_store.settle(holder, settlements).await {
            Ok(_) => shared.has_queued(),
            Err(error) => shared.warn_folded("jobs whose worker has gone are not given back yet", &error),
        }
    });
}
