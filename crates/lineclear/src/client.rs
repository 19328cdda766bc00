//! A handle to a node for whoever has jobs for it: the rest of the program, and handlers themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::{Failure, JobState, Micros, Name, Payload};
use serde::Serialize;
use tokio::sync::broadcast;

use crate::handler::{FromJob, JobContext};
use crate::node::{Event, JobEvent, Shared, metrics, waiters};
use crate::store::{
    Activated, BackfillOptions, Backfilled, BulkOperation, ClaimRef, Created, Creation, EnqueueResult,
    Enqueued, ExpectedVersion, IdempotencyKey, Idempotent, JobId, NewJob, Retention, Retried, RetryOptions,
    Setting, Settings, Store, StoreError, StoreResult, TriggerOptions, Tunable,
};

/// Enqueues jobs and wakes the workers that run them. Cheap to clone; a handler gets one by asking for it.
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
        Ok(job.client.clone())
    }
}

impl Client {
    /// A client of no node, for programs that have jobs for others and run none. No other node sees it.
    pub fn of_store(store: Store) -> std::io::Result<Client> {
        Ok(Client { shared: crate::builder::of_no_node(store, Default::default())? })
    }

    /// The store, for everything that has no shorthand here.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// What tells this node from all others, and from itself before it was started again.
    pub fn incarnation(&self) -> &str {
        &self.shared.info.incarnation
    }

    /// Jobs that the node runs now.
    pub fn running(&self) -> usize {
        self.shared.running.count()
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

    /// Looks at an input as its kind does before it is saved, if this node has the kind; see
    /// [`Builder::kind_checked`](crate::node::Builder::kind_checked).
    pub fn check_input(&self, kind: &Name, input: &Payload) -> StoreResult<()> {
        crate::builder::check_input(&self.shared.kinds, kind, input)
            .map_err(|why| StoreError::refused("input", why))
    }

    /// The same for the input that one run of a manifest is given. Whoever runs it hears that there is no such manifest.
    pub async fn check_input_of_manifest(&self, manifest: &Name, input: &Payload) -> StoreResult<()> {
        let found = self.shared.store.manifest(manifest).await?.and_then(|view| view.manifest.ok());
        found.map_or(Ok(()), |manifest| self.check_input(&manifest.kind, input))
    }

    /// The same for another input of a job that is there.
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

    /// Enqueues a job with all its options.
    pub async fn enqueue_job(&self, job: NewJob) -> StoreResult<Enqueued> {
        self.check_inputs(std::slice::from_ref(&job))?;
        let kind = job.kind.clone();
        let enqueued = self.shared.store.enqueue(job).await?;
        self.shared.has_queued();
        if enqueued.result == EnqueueResult::Inserted {
            metrics::enqueued(&kind, self.shared.kinds.contains_key(&kind));
            self.shared.hooks.tell(|| JobEvent { job: enqueued.id, kind, event: Event::Queued });
        }
        Ok(enqueued)
    }

    /// Enqueues many jobs, all or none. The answers are in the order of the jobs.
    pub async fn enqueue_jobs(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.check_inputs(&jobs)?;
        let kinds: Vec<Name> = jobs.iter().map(|job| job.kind.clone()).collect();
        let all = self.shared.store.enqueue_many(jobs).await?;
        self.shared.has_queued();
        self.tell_of_jobs(&all, kinds);
        Ok(all)
    }

    fn tell_of_jobs(&self, all: &[Enqueued], kinds: Vec<Name>) {
        for (enqueued, kind) in all.iter().zip(kinds).filter(|(one, _)| one.result == EnqueueResult::Inserted)
        {
            metrics::enqueued(&kind, self.shared.kinds.contains_key(&kind));
            self.shared.hooks.tell(|| JobEvent { job: enqueued.id, kind, event: Event::Queued });
        }
    }

    /// Makes something once, however often it is asked for under this key; see [`Store::create_idempotent`].
    pub async fn create_idempotent(
        &self,
        once: IdempotencyKey,
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
        let answer = self.shared.store.create_idempotent(once, creation, record).await?;
        let Idempotent::Created(created) = &answer else { return Ok(answer) };
        self.shared.has_queued();
        match created {
            Created::Jobs(jobs) => self.tell_of_jobs(jobs, kinds),
            Created::Run(Some(id)) if self.shared.hooks.are_there() => {
                tokio::spawn(tell_of_trigger(self.shared.clone(), *id));
            }
            _ => {}
        }
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
            tokio::spawn(tell_of_trigger(self.shared.clone(), id));
        }
        Ok(job)
    }

    /// What happens to jobs on this node from now on, as hooks hear it. Who is slow misses some of it.
    pub fn live_events(&self) -> broadcast::Receiver<JobEvent> {
        self.shared.hooks.watch()
    }

    /// How long this node keeps what is over.
    pub fn retention(&self) -> Retention {
        self.tunable().retention
    }

    /// What this node does within now.
    pub fn tunable(&self) -> Tunable {
        self.shared.tunable()
    }

    /// The same as it was started with; operators may have changed it since.
    pub fn started_with(&self) -> Tunable {
        self.shared.options.tunable()
    }

    /// Changes settings for all nodes; see [`Store::change_settings`]. This node obeys at once, others with their next heartbeat.
    pub async fn change_settings(
        &self,
        changes: BTreeMap<Setting, Option<u64>>,
        seen: Option<ExpectedVersion>,
        by: &str,
    ) -> StoreResult<Settings> {
        let settings = self.shared.store.change_settings(changes, seen, by).await?;
        self.shared.settings.obey(settings.clone());
        self.shared.nudge.notify_one();
        Ok(settings)
    }

    /// Waits for the end of a job, wherever it runs; `None` if it is not over within that time, or this node stops first. All who
    /// wait on a node share one question to the database, and there may be [`WAITERS_MAX`](crate::node::WAITERS_MAX) of them.
    ///
    /// A handler that waits for another job keeps its slot: with all slots waiting, the awaited jobs would have none.
    pub async fn wait(&self, job: JobId, within: Duration) -> StoreResult<Option<JobState>> {
        waiters::wait(&self.shared, job, within).await
    }

    /// Wakes a dormant dependent of the manifest of a running job; a handler asks for `Dependents` instead.
    pub async fn activate(&self, claim: ClaimRef, child: Name, input: Payload) -> StoreResult<Activated> {
        let activated = self.shared.store.activate(claim, child, input).await?;
        self.shared.has_queued();
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
        Ok(backfilled)
    }

    /// Tries a job again; see [`Store::retry`].
    pub async fn retry(&self, job: JobId, options: RetryOptions) -> StoreResult<Retried> {
        if let Some(input) = &options.input {
            self.check_input_of_job(job, input).await?;
        }
        let retried = self.shared.store.retry(job, options).await?;
        self.shared.has_queued();
        Ok(retried)
    }

    /// Does the next portion of a batch; see [`Store::work_on_bulk_operation`].
    pub async fn work_on_bulk_operation(&self) -> StoreResult<Option<BulkOperation>> {
        let worked = self.shared.store.work_on_bulk_operation(&self.shared.info.incarnation).await?;
        if worked.is_some() {
            self.shared.has_queued();
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
        Ok(jobs)
    }
}

/// The kind of a triggered job is its manifest's; whoever triggers need not wait until it is read.
async fn tell_of_trigger(shared: Arc<Shared>, id: JobId) {
    let kind = match shared.store.job(id).await {
        Ok(Some(detail)) => Name::new(detail.job.kind).ok(),
        Ok(None) | Err(_) => None,
    };
    match kind {
        Some(kind) => shared.hooks.tell(|| JobEvent { job: id, kind, event: Event::Queued }),
        None => tracing::warn!(job.id = %id, "hooks were not told of a triggered job: it could not be read"),
    }
}
