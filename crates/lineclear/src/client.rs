//! A handle to a node, for the program and for handlers: enqueue, trigger, retry, wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::{Failure, JobState, Micros, Name, Payload};
use serde::Serialize;
use tokio::sync::broadcast;

use crate::handler::{FromJob, Given, JobContext};
use crate::journey::execute::inline::{run_inline, run_what_waits};
use crate::node::{Event, JobEvent, Shared, metrics, waiters};
use crate::store::{
    Activated, BackfillOptions, Backfilled, BulkOperation, ClaimRef, Created, Creation, EnqueueResult,
    Enqueued, ExpectedVersion, IdempotencyKey, Idempotent, JobId, NewJob, Retention, Retried, RetryOptions,
    Setting, Settings, Store, StoreError, StoreResult, TriggerOptions, Tunable,
};
use crate::submitters::SubmitterInfo;
use crate::submitters::routing::{Destination, inline_route};

/// Enqueues jobs and wakes the workers that run them. Cheap to clone; a handler gets one as a parameter.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("node", &self.shared.id).finish_non_exhaustive()
    }
}

impl FromJob for Client {
    fn from_job(job: &JobContext) -> Result<Client, Failure> {
        job.client("a Client")
    }

    fn missing(given: &Given<'_>) -> Option<String> {
        given.missing_store("a Client")
    }
}

impl Client {
    /// A client without a node, for programs that enqueue jobs and run none. It has no row in the database.
    pub fn of_store(store: Store) -> std::io::Result<Client> {
        Ok(Client { shared: crate::builder::without_node(store, Default::default())? })
    }

    /// The store, for everything that has no shorthand here.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Unique for each start of a node.
    pub fn incarnation(&self) -> &str {
        &self.shared.info.incarnation
    }

    /// Jobs that the node runs now, without those that it has leased ahead.
    pub fn running(&self) -> usize {
        self.shared.running.count_running()
    }

    /// Waits until the node is told to stop; it may still run jobs then.
    pub async fn stopping(&self) {
        self.shared.stopping.cancelled().await;
    }

    /// Whether the node was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.is_cancelled()
    }

    /// Enqueues a job of `kind`, due now, on the route that this node knows for the kind, or on `main`.
    pub async fn enqueue(&self, kind: &str, input: &(impl Serialize + ?Sized)) -> StoreResult<Enqueued> {
        let refused = |rule: &str, why: String| StoreError::refused(rule, why);
        let kind = Name::new(kind).map_err(|e| refused("kind", format!("{kind:?}: {e}")))?;
        let route = self.shared.kinds.get(&kind).map(|known| known.options.route.clone());
        let input = Payload::of(input).map_err(|e| refused("input", e.to_string()))?;
        let job = NewJob::new(kind, input);
        self.enqueue_job(NewJob { route: route.unwrap_or(job.route.clone()), ..job }).await
    }

    /// Checks an input with the check of its kind, if this node has one; see
    /// [`Builder::kind_checked`](crate::node::Builder::kind_checked).
    pub fn check_input(&self, kind: &Name, input: &Payload) -> StoreResult<()> {
        crate::builder::check_input(&self.shared.kinds, kind, input)
            .map_err(|why| StoreError::refused("input", why))
    }

    /// Checks an input for one run of a manifest. An unknown manifest passes: running it reports that.
    pub async fn check_input_of_manifest(&self, manifest: &Name, input: &Payload) -> StoreResult<()> {
        let found = self.shared.store.manifest(manifest).await?.and_then(|view| view.manifest.ok());
        found.map_or(Ok(()), |manifest| self.check_input(&manifest.kind, input))
    }

    /// Checks a new input for an existing job.
    pub async fn check_input_of_job(&self, job: JobId, input: &Payload) -> StoreResult<()> {
        let found = self.shared.store.job(job).await?.and_then(|detail| Name::new(detail.job.kind).ok());
        found.map_or(Ok(()), |kind| self.check_input(&kind, input))
    }

    fn check_inputs(&self, jobs: &[NewJob]) -> StoreResult<()> {
        let check = |(n, job): (usize, &NewJob)| {
            self.check_input(&job.kind, &job.input).map_err(|error| error.of_job(n, "input"))
        };
        jobs.iter().enumerate().try_for_each(check)
    }

    /// Enqueues a job with all its options. If the jobs of its kind run inline, returns after its handler has ended, with the outcome.
    pub async fn enqueue_job(&self, job: NewJob) -> StoreResult<Enqueued> {
        self.check_inputs(std::slice::from_ref(&job))?;
        let kind = job.kind.clone();
        let is_inline = self.runs_inline(&kind);
        let job = if is_inline { NewJob { route: inline_route(), ..job } } else { job };
        let mut enqueued = self.shared.store.enqueue(job).await?;
        if enqueued.result == EnqueueResult::Inserted {
            metrics::enqueued(&kind, self.shared.kinds.contains_key(&kind));
            self.shared.hooks.tell(|| JobEvent { job: enqueued.id, kind, event: Event::Queued });
            if is_inline {
                enqueued.outcome = run_inline(&self.shared, enqueued.id).await?;
            }
        }
        self.shared.has_queued();
        Ok(enqueued)
    }

    /// Whether the jobs of a kind run in the call that enqueues them.
    fn runs_inline(&self, kind: &Name) -> bool {
        self.shared.kinds.get(kind).is_some_and(|known| known.destination == Destination::Inline)
    }

    /// Enqueues many jobs, all or none. The answers are in the order of the jobs. Those whose kind runs inline have ended, one after the
    /// other.
    pub async fn enqueue_jobs(&self, mut jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.check_inputs(&jobs)?;
        let kinds: Vec<Name> = jobs.iter().map(|job| job.kind.clone()).collect();
        for job in jobs.iter_mut().filter(|job| self.runs_inline(&job.kind)) {
            job.route = inline_route();
        }
        let mut all = self.shared.store.enqueue_many(jobs).await?;
        self.shared.has_queued();
        self.report_queued(&all, kinds.clone());
        let is_new = |one: &Enqueued| one.result == EnqueueResult::Inserted;
        for (enqueued, kind) in all.iter_mut().zip(kinds) {
            if is_new(enqueued) && self.runs_inline(&kind) {
                enqueued.outcome = run_inline(&self.shared, enqueued.id).await?;
            }
        }
        Ok(all)
    }

    fn report_queued(&self, all: &[Enqueued], kinds: Vec<Name>) {
        for (enqueued, kind) in all.iter().zip(kinds).filter(|(one, _)| one.result == EnqueueResult::Inserted)
        {
            metrics::enqueued(&kind, self.shared.kinds.contains_key(&kind));
            self.shared.hooks.tell(|| JobEvent { job: enqueued.id, kind, event: Event::Queued });
        }
    }

    /// Creates something once for an idempotency key; see [`Store::create_idempotent`].
    pub async fn create_idempotent(
        &self,
        key: IdempotencyKey,
        creation: Creation,
        record: impl Fn(&Created) -> Option<String> + Send + Sync + 'static,
    ) -> StoreResult<Idempotent> {
        let kinds: Vec<Name> = match &creation {
            Creation::Jobs(jobs) => {
                self.check_inputs(jobs)?;
                jobs.iter().map(|job| job.kind.clone()).collect()
            }
            Creation::Run(manifest, TriggerOptions { input: Some(input), .. }) => {
                self.check_input_of_manifest(manifest, input).await?;
                Vec::new()
            }
            Creation::Retry(job, RetryOptions { input: Some(input), .. }) => {
                self.check_input_of_job(*job, input).await?;
                Vec::new()
            }
            _ => Vec::new(),
        };
        let answer = self.shared.store.create_idempotent(key, creation, record).await?;
        let Idempotent::Created(created) = &answer else { return Ok(answer) };
        self.shared.has_queued();
        match created {
            Created::Jobs(jobs) => self.report_queued(jobs, kinds),
            Created::Run(Some(id)) if self.shared.hooks.are_there() => {
                tokio::spawn(report_triggered(self.shared.clone(), *id));
            }
            _ => {}
        }
        run_what_waits(&self.shared).await?;
        Ok(answer)
    }

    /// Runs a manifest now, or when the options say. `None`: there is no such manifest.
    pub async fn trigger(&self, manifest: Name, options: TriggerOptions) -> StoreResult<Option<JobId>> {
        if let Some(input) = &options.input {
            self.check_input_of_manifest(&manifest, input).await?;
        }
        let job = self.shared.store.trigger(manifest, options).await?;
        self.shared.has_queued();
        if let Some(id) = job.filter(|_| self.shared.hooks.are_there()) {
            tokio::spawn(report_triggered(self.shared.clone(), id));
        }
        run_what_waits(&self.shared).await?;
        Ok(job)
    }

    /// Where the jobs of each kind go from this node: its handlers first, then its submitters, then remote workers.
    pub fn submitters(&self) -> Vec<SubmitterInfo> {
        crate::submitters::status::of_node(&self.shared)
    }

    /// Events of jobs on this node from now on, as hooks get them. A slow receiver misses some.
    pub fn live_events(&self) -> broadcast::Receiver<JobEvent> {
        self.shared.hooks.watch()
    }

    /// The retention of this node.
    pub fn retention(&self) -> Retention {
        self.tunable().retention
    }

    /// The settings in force on this node.
    pub fn tunable(&self) -> Tunable {
        self.shared.tunable()
    }

    /// The settings that this node was started with.
    pub fn started_with(&self) -> Tunable {
        self.shared.options.tunable()
    }

    /// Changes settings for all nodes; see [`Store::change_settings`]. This node follows at once, others with their next heartbeat.
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<u64>>,
        expected: Option<ExpectedVersion>,
        by: &str,
    ) -> StoreResult<Settings> {
        let settings = self.shared.store.change_settings(changes, expected, by).await?;
        self.shared.settings.obey(settings.clone());
        self.shared.nudge.notify_one();
        Ok(settings)
    }

    /// Waits for the end of a job on any node; `None` if it does not end within that time, or this node stops first. All waiters of
    /// a node share one query; there may be [`WAITERS_MAX`](crate::node::WAITERS_MAX).
    ///
    /// A handler that waits for another job keeps its slot: if all slots wait, the awaited jobs cannot run.
    pub async fn wait(&self, job: JobId, within: Duration) -> StoreResult<Option<JobState>> {
        waiters::wait(&self.shared, job, within).await
    }

    /// Activates a dormant dependent of a running job's manifest; a handler uses `Dependents` instead.
    pub async fn activate(&self, claim: ClaimRef, child: Name, input: Payload) -> StoreResult<Activated> {
        let activated = self.shared.store.activate(claim, child, input).await?;
        self.shared.has_queued();
        run_what_waits(&self.shared).await?;
        Ok(activated)
    }

    /// Queues ticks of the past that did not run; see [`Store::backfill`].
    pub async fn backfill(
        &self,
        manifest: Name,
        from: Micros,
        to: Micros,
        options: BackfillOptions,
    ) -> StoreResult<Option<Backfilled>> {
        let backfilled = self.shared.store.backfill(manifest, from, to, options).await?;
        self.shared.has_queued();
        run_what_waits(&self.shared).await?;
        Ok(backfilled)
    }

    /// Retries a job; see [`Store::retry`].
    pub async fn retry(&self, job: JobId, options: RetryOptions) -> StoreResult<Retried> {
        if let Some(input) = &options.input {
            self.check_input_of_job(job, input).await?;
        }
        let retried = self.shared.store.retry(job, options).await?;
        self.shared.has_queued();
        run_what_waits(&self.shared).await?;
        Ok(retried)
    }

    /// Treats the next portion of a bulk operation; see [`Store::work_on_bulk_operation`].
    pub async fn work_on_bulk_operation(&self) -> StoreResult<Option<BulkOperation>> {
        let worked = self.shared.store.work_on_bulk_operation(&self.shared.info.incarnation).await?;
        if worked.is_some() {
            self.shared.has_queued();
            run_what_waits(&self.shared).await?;
        }
        Ok(worked)
    }

    /// Runs all enabled manifests of a group; see [`Store::trigger_group`].
    pub async fn trigger_group(
        &self,
        group: Name,
        options: TriggerOptions,
    ) -> StoreResult<Option<Vec<(Name, JobId)>>> {
        let jobs = self.shared.store.trigger_group(group, options).await?;
        self.shared.has_queued();
        run_what_waits(&self.shared).await?;
        Ok(jobs)
    }
}

/// Reports a triggered job to the hooks. Reads its kind in a task of its own, so that the caller does not wait.
async fn report_triggered(shared: Arc<Shared>, id: JobId) {
    let kind = match shared.store.job(id).await {
        Ok(Some(detail)) => Name::new(detail.job.kind).ok(),
        Ok(None) | Err(_) => None,
    };
    match kind {
        Some(kind) => shared.hooks.tell(|| JobEvent { job: id, kind, event: Event::Queued }),
        None => {
            tracing::warn!(job.id = %id, "cannot report a triggered job to the hooks: it could not be read")
        }
    }
}
