//! A node: one running process of ours, with the runners that it was given.
//!
//! Every runner is a small loop: do one pass, then wait for the next moment, a nudge or the end. Any number of nodes may
//! run any of them on one database.

pub(crate) mod caution;
pub(crate) mod database_monitor;
pub(crate) mod database_watch;
pub(crate) mod drain;
pub(crate) mod heartbeat;
pub(crate) mod hooks;
pub(crate) mod loops;
pub(crate) mod manifest_files;
pub(crate) mod metrics;
pub(crate) mod notify;
pub(crate) mod pacer;
pub(crate) mod settings;
pub(crate) mod signal;
pub(crate) mod status;
pub(crate) mod waiters;
pub(crate) mod wakeups;

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::handler::{Kinds, States};
use crate::journey::claim::isolation::Isolation;
use crate::journey::claim::take_back::LateClaims;
use crate::journey::dispatch::promoter::Promotion;
use crate::journey::execute::active_jobs;
use crate::journey::execute::active_jobs::ActiveJobs;
use crate::journey::execute::slots::Slots;
use crate::journey::plan::leadership::Leadership;
use crate::journey::submit::claim_token::ClaimTokens;
use crate::journey::submit::polls::Polls;
use crate::journey::submit::submission::ManifestKeys;
use crate::journey::submit::workers::RemoteWorkers;
use crate::node::caution::Caution;
use crate::node::status::Statuses;
use crate::secrets::Resolver;
use crate::store::{Enqueued, NodeId, NodeInfo, Store, StoreError, StoreResult};
use crate::submitters::routing::Routing;

pub use crate::builder::{Builder, StartError};
pub use crate::client::Client;
pub use crate::node::hooks::{Event, HOOK_EVENTS_MAX, JobEvent};
pub use crate::node::metrics::{METRICS, Metric};
pub use crate::node::signal::Signals;
pub use crate::node::waiters::WAITERS_MAX;
pub use crate::options::{BadOption, NodeOptions, Role};

/// Where everything begins: `Lineclear::builder()`.
pub struct Lineclear;

impl Lineclear {
    /// A node to be.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// What all runners of a node share.
pub(crate) struct Shared {
    /// For callers: clients, handlers and the server.
    pub(crate) store: Store,
    /// For the node's own loops, which share no connection with callers.
    pub(crate) loop_store: Store,
    pub(crate) id: NodeId,
    pub(crate) info: NodeInfo,
    pub(crate) options: NodeOptions,
    pub(crate) kinds: Kinds,
    /// Where jobs go that leave the node.
    pub(crate) routing: Routing,
    /// Remote workers that wait for jobs.
    pub(crate) polls: Polls,
    pub(crate) remote_workers: RemoteWorkers,
    /// A submitter takes no jobs any more, or takes jobs again: the heartbeat reports it.
    pub(crate) report_soon: Notify,
    pub(crate) claim_tokens: ClaimTokens,
    /// The id of the cluster. `None` for a client without a node.
    pub(crate) cluster: Option<String>,
    pub(crate) manifest_keys: ManifestKeys,
    pub(crate) states: Arc<States>,
    /// Where secrets that inputs name come from.
    pub(crate) secrets: Option<Resolver>,
    pub(crate) running: ActiveJobs,
    pub(crate) slots: Slots,
    pub(crate) hooks: hooks::Hooks,
    /// One task at a time writes log lines: a job is not settled while its last lines are being written.
    pub(crate) log_turn: tokio::sync::Mutex<()>,
    pub(crate) isolation: Isolation,
    /// Whether operators told it to take nothing new.
    pub(crate) drain: drain::Drain,
    pub(crate) statuses: Statuses,
    /// Planning cycles that it has won.
    pub(crate) leadership: Leadership,
    /// When this node may reclaim leases of others.
    pub(crate) caution: Caution,
    /// Claims of this node that were taken back, although it lives.
    pub(crate) late_claims: LateClaims,
    /// The settings that operators changed.
    pub(crate) settings: settings::Obeyed,
    /// Callers that wait for the end of a job.
    pub(crate) waiters: waiters::Waiters,
    /// There may be work to take.
    pub(crate) nudge: Notify,
    /// What the dispatcher and the promoter tell each other.
    pub(crate) promotion: Promotion,
    /// No new work from now on.
    pub(crate) stopping: CancellationToken,
}

impl Shared {
    /// Logs that something failed: the first time at once, then once a minute with the number of failures that were left out.
    pub(crate) fn warn_folded(&self, what: &'static str, error: &StoreError) {
        if let Some(left_out) = self.store.monitor.log.note(&what) {
            tracing::warn!(%error, node.id = %self.id, left_out, "{what}");
        }
    }

    /// Logs that a loop failed, like [`Shared::warn_folded`].
    pub(crate) fn log_failure(&self, name: &'static str, error: &StoreError) {
        if let Some(left_out) = self.store.monitor.log.note(&name) {
            tracing::warn!(%error, node.id = %self.id, left_out, "the {name} failed; it tries again");
        }
    }

    /// Logs that a loop works again, if it had failed before.
    pub(crate) fn log_success(&self, name: &'static str) {
        if let Some(left_out) = self.store.monitor.log.over(&name) {
            tracing::info!(node.id = %self.id, left_out, "the {name} works again");
        }
    }

    /// What it does within now: as it was started, and as operators changed it since.
    pub(crate) fn tunable(&self) -> crate::store::Tunable {
        self.settings.over(self.options.tunable())
    }

    /// Whether it runs jobs at all.
    pub(crate) fn works(&self) -> bool {
        self.options.has(Role::Workers) && (!self.kinds.is_empty() || !self.routing.submitters.is_empty())
    }

    /// Compares the database's clock with the time that has passed here; after a jump, this node reclaims nothing for half a lease.
    pub(crate) fn note_clock(&self, asked_at: Instant, now: lineclear_model::Micros) {
        if let Some(jump) = self.caution.note_clock(asked_at, now) {
            tracing::warn!(node.id = %self.id, ?jump, "the database's clock jumped, or this machine slept; no worker is called dead for half a lease");
        }
    }

    /// There is work: for us, and for others.
    pub(crate) fn has_queued(&self) {
        self.nudge.notify_one();
        self.store.announce_work();
    }
}

/// A running node. Dropped without [`Node::stop`], it takes no more work and tells its handlers to stop at once.
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    /// Taken when it stops.
    pub(crate) runners: Option<loops::Loops>,
}

impl Node {
    /// The store, for everything that has no shorthand here.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The node's id in the database.
    pub fn id(&self) -> NodeId {
        self.shared.id
    }

    /// A handle to enqueue with, for the rest of the program.
    pub fn client(&self) -> Client {
        Client { shared: self.shared.clone() }
    }

    /// Enqueues a job of `kind`, due now; see [`Client::enqueue`].
    pub async fn enqueue(&self, kind: &str, input: &(impl Serialize + ?Sized)) -> StoreResult<Enqueued> {
        self.client().enqueue(kind, input).await
    }

    /// Events that no hook has heard of, because the hooks were too slow.
    pub fn dropped_events(&self) -> u64 {
        self.shared.hooks.dropped()
    }

    /// Stops in two stages: takes no new work and lets handlers finish for the grace period, with their leases renewed;
    /// then asks the remaining ones to stop, and releases their jobs. Finished jobs are settled in any case.
    pub async fn stop(self) {
        self.stop_sooner(std::future::pending()).await;
    }

    /// Like [`Node::stop`], but the grace period ends when `hurry` does.
    pub async fn stop_sooner(mut self, hurry: impl Future<Output = ()>) {
        self.shared.stopping.cancel();
        // What has not begun goes back at once, also what is being leased now.
        self.shared.slots.give_back(true);
        let Some(mut runners) = self.runners.take() else { return };
        let running = &self.shared.running;
        // First the loops: a job that is just being leased must be among those that are waited for.
        let finished = async {
            runners.end_loops().await;
            self.shared.slots.give_back(true);
            running.until_empty().await;
        };
        let in_time = tokio::select! {
            () = finished => true,
            () = tokio::time::sleep(self.shared.options.shutdown_grace) => false,
            () = hurry => false,
        };
        if !in_time {
            running.stop_all(active_jobs::Why::Shutdown);
            runners.end_loops().await;
            running.stop_all(active_jobs::Why::Shutdown);
        }
        runners.end_settling().await;
        self.shared.hooks.end().await;
    }

    /// Runs until the process gets a signal to end (Ctrl-C, or TERM on Unix), then stops. With a second signal, it no longer
    /// waits for handlers: it asks them to stop, and releases their jobs.
    pub async fn run_until_stopped(self) -> std::io::Result<()> {
        let signals = signal::Signals::new()?;
        self.run_until(signals).await;
        Ok(())
    }

    /// Like [`Node::run_until_stopped`], with signals that were created before the node started: one that arrives during the
    /// start counts, too.
    pub async fn run_until(self, mut signals: Signals) {
        signals.next().await;
        tracing::info!(node.id = %self.id(), running = self.shared.running.count(), "stopping");
        self.stop_sooner(async { signals.next().await }).await;
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("id", &self.shared.id)
            .field("store", &self.shared.store)
            .field("running", &self.shared.running.count())
            .finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
        // Leases are not renewed from now on: handlers must not outlive them.
        self.shared.running.stop_all(active_jobs::Why::Shutdown);
    }
}
