//! Handlers without a node: for workers that have no connection to the database.

use std::any::TypeId;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear_model::{Micros, Name, Payload};
use tokio_util::sync::CancellationToken;

use crate::builder::check_kinds;
use crate::handler::step_recorder::{Recorder, StepRecorder};
use crate::handler::{
    Ctx, Given, Handler, HandlerError, HandlerFuture, JobContext, JobInfo, Kind, KindOptions, Kinds,
    ProgressBuffer, States, Trust, TrustSource,
};
use crate::journey::execute::active_jobs::Why;
use crate::journey::execute::{Run, Terms, span_of};
use crate::options::BadOption;
use crate::secrets::{Resolver, SecretRequest, UsedSecrets};
use crate::store::{ClaimRef, JobId, LogLine, ProgressView};
use crate::trace;

/// Builds a [`Registry`].
#[derive(Default)]
pub struct RegistryBuilder {
    kinds: Vec<(String, Kind)>,
    states: States,
    secrets: Option<Resolver>,
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&String> = self.kinds.iter().map(|(name, _)| name).collect();
        f.debug_struct("RegistryBuilder").field("kinds", &kinds).finish_non_exhaustive()
    }
}

impl RegistryBuilder {
    /// Adds a handler for a kind; see [`Builder::kind`](crate::node::Builder::kind).
    pub fn kind<P>(mut self, name: &str, handler: impl Handler<P>) -> RegistryBuilder {
        self.kinds.push((name.to_owned(), Kind::new(KindOptions::default(), handler)));
        self
    }

    /// Adds a value for handlers with a parameter `State<T>`.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> RegistryBuilder {
        self.states.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// Where secrets come from that inputs name; see [`Builder::secrets`](crate::node::Builder::secrets).
    pub fn secrets<F>(
        mut self,
        resolve: impl Fn(SecretRequest) -> F + Send + Sync + 'static,
    ) -> RegistryBuilder
    where
        F: Future<Output = Result<String, HandlerError>> + Send + 'static,
    {
        self.secrets = Some(Arc::new(move |request| Box::pin(resolve(request))));
        self
    }

    /// Checks that each handler has what it needs: one that needs the database cannot run here.
    pub fn build(self) -> Result<Registry, BadOption> {
        if self.kinds.is_empty() {
            let why = "a worker needs a handler at least: call .kind(…)".to_owned();
            return Err(BadOption { option: "kind", why });
        }
        let kinds = check_kinds(self.kinds, Given::of_remote_worker(&self.states))?;
        Ok(Registry(Arc::new(Registered { kinds, states: Arc::new(self.states), secrets: self.secrets })))
    }
}

struct Registered {
    kinds: Kinds,
    states: Arc<States>,
    secrets: Option<Resolver>,
}

/// Handlers by kind, and what they share. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Registered>);

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("kinds", &self.kinds()).finish_non_exhaustive()
    }
}

/// A job, as a server gives it to a remote worker.
#[derive(Clone, Debug)]
pub struct RemoteJob {
    /// The job; the same for all attempts.
    pub id: JobId,
    /// The kind of work.
    pub kind: Name,
    /// Its input.
    pub input: Payload,
    /// The number of this claim.
    pub claim_no: u32,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// The tick it was planned for.
    pub tick_at: Option<Micros>,
    /// The trace context of its caller.
    pub trace: Option<String>,
    /// How long it may run.
    pub timeout: Duration,
    /// How long its lease lasts.
    pub lease: Duration,
    /// Until then the worker surely has the lease, by its own clock.
    pub trusted_until: Instant,
}

impl Registry {
    /// An empty registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// The kinds that have a handler, in order.
    pub fn kinds(&self) -> Vec<Name> {
        let mut kinds: Vec<Name> = self.0.kinds.keys().cloned().collect();
        kinds.sort_unstable();
        kinds
    }

    /// Prepares the run of a job: what the worker knows and decides of it, and the future that calls the handler. `None`: its
    /// kind has no handler. The future contains panics of the handler, and ends it when its time is over.
    pub fn run(
        &self,
        job: RemoteJob,
        steps: Arc<dyn StepRecorder>,
    ) -> Option<(Arc<RemoteRun>, HandlerFuture)> {
        let call = self.0.kinds.get(&job.kind)?.call.clone()?;
        let claim = ClaimRef { job: job.id, no: job.claim_no };
        let run = Arc::new(RemoteRun {
            claim,
            cancel: CancellationToken::new(),
            why: Mutex::default(),
            trusted_until: Arc::new(Mutex::new(job.trusted_until)),
            buffer: Arc::default(),
        });
        let span = run.buffer.span(|| span_of(claim, &job.kind, job.trace.as_deref()));
        trace::go_on(&span, job.trace.as_deref(), job.kind.as_str());
        let context = JobContext {
            info: JobInfo {
                id: job.id,
                kind: job.kind,
                claim_no: job.claim_no,
                attempt: job.attempt,
                manifest: None,
                tick_at: job.tick_at,
            },
            input: job.input,
            cancel: run.cancel.clone(),
            states: self.0.states.clone(),
            client: None,
            trust: Trust(TrustSource::Remote(run.trusted_until.clone())),
            ctx: Ctx::new(claim, Recorder::Remote(steps), run.cancel.clone(), run.buffer.clone()),
            secrets: UsedSecrets::default(),
        };
        let handler = Run { call, job: context, resolver: self.0.secrets.clone(), span };
        let terms = Terms { limit: job.timeout, lease: job.lease };
        let known = run.clone();
        let future = Box::pin(async move { handler.finish(terms, || *known.why()).await });
        Some((run, future))
    }
}

/// A job that a remote worker runs.
pub struct RemoteRun {
    claim: ClaimRef,
    cancel: CancellationToken,
    why: Mutex<Option<Why>>,
    trusted_until: Arc<Mutex<Instant>>,
    buffer: Arc<ProgressBuffer>,
}

impl fmt::Debug for RemoteRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRun").field("claim", &self.claim).finish_non_exhaustive()
    }
}

impl RemoteRun {
    /// Its claim.
    pub fn claim(&self) -> ClaimRef {
        self.claim
    }

    fn why(&self) -> MutexGuard<'_, Option<Why>> {
        self.why.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn stop(&self, why: Why) {
        self.why().get_or_insert(why);
        self.cancel.cancel();
    }

    /// The job was cancelled: tells the handler to stop.
    pub fn cancel(&self) {
        self.stop(Why::Cancelled);
    }

    /// The lease is lost, or may be: tells the handler to stop.
    pub fn lose(&self) {
        self.stop(Why::LeaseLost);
    }

    /// The worker ends: tells the handler to stop.
    pub fn shut_down(&self) {
        self.stop(Why::Shutdown);
    }

    /// Whether its handler was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Until when the worker surely has the lease.
    pub fn trusted_until(&self) -> Instant {
        *self.trusted_until.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The lease was renewed.
    pub fn trust(&self, until: Instant) {
        *self.trusted_until.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = until;
    }

    /// The progress, if it has changed since the last call.
    pub fn new_progress(&self) -> Option<ProgressView> {
        self.buffer.new_progress()
    }

    /// The progress was not reported: it is new again.
    pub fn progress_again(&self) {
        self.buffer.progress_again();
    }

    /// Whether there are log lines to report. Needs the feature `logs`.
    pub fn has_log(&self) -> bool {
        self.buffer.has_log()
    }

    /// Log lines to report. The caller then calls [`RemoteRun::log_written`] or [`RemoteRun::log_again`].
    pub fn drain_log(&self) -> Vec<LogLine> {
        self.buffer.drain_log()
    }

    /// The lines were reported.
    pub fn log_written(&self) {
        self.buffer.log_written();
    }

    /// The lines were not reported: they are new again.
    pub fn log_again(&self, lines: Vec<LogLine>) {
        self.buffer.log_again(lines);
    }
}
