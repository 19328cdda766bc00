//! Parameters of handlers.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lineclear_model::secret::without_value;
use lineclear_model::{Failure, Micros, Name, Payload};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::handler::ctx::Ctx;
use crate::node::Client;
use crate::secrets::UsedSecrets;
use crate::store::{Claim, ClaimRef, JobId, ManifestId};

/// Values that handlers share, by type.
pub(crate) type States = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// Everything a handler's parameters are made from.
#[derive(Clone)]
pub struct JobContext {
    pub(crate) info: JobInfo,
    pub(crate) input: Payload,
    pub(crate) cancel: CancellationToken,
    pub(crate) states: Arc<States>,
    /// None on a worker without the database.
    pub(crate) client: Option<Client>,
    pub(crate) trust: Trust,
    pub(crate) ctx: Ctx,
    pub(crate) secrets: UsedSecrets,
}

impl JobContext {
    /// The client of the node, for a parameter that needs it.
    pub(crate) fn client(&self, parameter: &str) -> Result<Client, Failure> {
        self.client.clone().ok_or_else(|| Failure::new("worker", needs(parameter)))
    }
}

fn needs(parameter: &str) -> String {
    format!("it needs {parameter}, and there is no connection to the database")
}

/// A parameter of a handler, extracted from the job.
pub trait FromJob: Sized + Send {
    /// Extracts it. A failure is permanent: the handler does not run, and the job is not retried.
    fn from_job(job: &JobContext) -> Result<Self, Failure>;

    /// What the node lacks for this parameter. A node with such a handler does not start.
    fn missing(_given: &Given<'_>) -> Option<String> {
        None
    }
}

/// What a node, or a remote worker, has before it starts.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    states: &'a States,
    /// A remote worker has no connection to the database.
    pub(crate) is_remote: bool,
}

impl<'a> Given<'a> {
    pub(crate) fn of_node(states: &'a States) -> Given<'a> {
        Given { states, is_remote: false }
    }

    pub(crate) fn of_remote_worker(states: &'a States) -> Given<'a> {
        Given { states, is_remote: true }
    }

    /// Whether there is a state of this type.
    pub fn has_state<T: Send + Sync + 'static>(&self) -> bool {
        self.states.contains_key(&TypeId::of::<T>())
    }

    /// Whether there is a connection to the database. Remote workers have none.
    pub fn has_store(&self) -> bool {
        !self.is_remote
    }

    /// For a parameter that needs the database.
    pub(crate) fn missing_store(&self, parameter: &str) -> Option<String> {
        self.is_remote.then(|| needs(parameter))
    }
}

/// The job's input, decoded as a type of the handler's choice.
#[derive(Clone, Debug)]
pub struct Input<T>(pub T);

impl<T: DeserializeOwned + Send> FromJob for Input<T> {
    fn from_job(job: &JobContext) -> Result<Input<T>, Failure> {
        let read = job.input.read::<T>();
        // The value may be secret, and the error is stored and shown.
        let why = |error: serde_json::Error| without_value(&error.to_string());
        read.map(Input)
            .map_err(|error| Failure::new("input", format!("the input does not fit: {}", why(error))))
    }
}

/// A value that the program gave to the node with `state`, shared by all handlers.
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T> Clone for State<T> {
    fn clone(&self) -> State<T> {
        State(self.0.clone())
    }
}

impl<T> Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> FromJob for State<T> {
    fn from_job(job: &JobContext) -> Result<State<T>, Failure> {
        let found = job.states.get(&TypeId::of::<T>()).cloned();
        found
            .and_then(|state| state.downcast().ok())
            .map(State)
            .ok_or_else(|| Failure::new("state", no_state::<T>()))
    }

    fn missing(given: &Given<'_>) -> Option<String> {
        (!given.has_state::<T>()).then(no_state::<T>)
    }
}

fn no_state<T>() -> String {
    format!("no state of type {} was given: call .state(…)", std::any::type_name::<T>())
}

/// The identity of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its id, the same over all attempts.
    pub id: JobId,
    /// Its kind.
    pub kind: Name,
    /// The number of this claim: it only grows, so it can fence writes elsewhere.
    pub claim_no: u32,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Its manifest.
    pub manifest: Option<ManifestId>,
    /// The tick it was planned for.
    pub tick_at: Option<Micros>,
}

impl JobInfo {
    pub(crate) fn of(claim: &Claim) -> JobInfo {
        JobInfo {
            id: claim.job,
            kind: claim.kind.clone(),
            claim_no: claim.no,
            attempt: claim.failures + 1,
            manifest: claim.manifest,
            tick_at: claim.tick_at,
        }
    }
}

impl FromJob for JobInfo {
    fn from_job(job: &JobContext) -> Result<JobInfo, Failure> {
        Ok(job.info.clone())
    }
}

/// The id of the cluster, 16 hexadecimal digits. Ids of jobs are unique within a cluster only: another system that serves several
/// clusters needs both.
#[derive(Clone, Debug)]
pub struct ClusterId(Option<String>);

impl ClusterId {
    /// The id; `None` on a worker without the database.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromJob for ClusterId {
    fn from_job(job: &JobContext) -> Result<ClusterId, Failure> {
        Ok(ClusterId(job.client.as_ref().and_then(|client| client.shared.cluster.clone())))
    }
}

/// Tells a handler to stop: the job was cancelled or timed out, the node shuts down, or the lease was lost.
#[derive(Clone, Debug)]
pub struct Cancel(CancellationToken);

impl Cancel {
    /// Whether it should stop.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it should stop.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }
}

impl FromJob for Cancel {
    fn from_job(job: &JobContext) -> Result<Cancel, Failure> {
        Ok(Cancel(job.cancel.clone()))
    }
}

/// How long no other worker can claim the job: for work that must end before, such as a child process. Every renewal of the lease
/// extends it.
#[derive(Clone, Debug)]
pub struct Trust(pub(crate) TrustSource);

#[derive(Clone, Debug)]
pub(crate) enum TrustSource {
    /// A claim of a node.
    Node(Client, ClaimRef),
    /// A claim of a remote worker: until when it surely has the lease.
    Remote(Arc<Mutex<Instant>>),
}

impl Trust {
    /// The remaining time, by this machine's clock; it ends a tenth of the lease before the lease does.
    pub fn left(&self) -> Duration {
        let until = match &self.0 {
            TrustSource::Node(client, claim) => client.shared.running.trusted_until(*claim),
            TrustSource::Remote(until) => {
                Some(*until.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
            }
        };
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

impl FromJob for Trust {
    fn from_job(job: &JobContext) -> Result<Trust, Failure> {
        Ok(job.trust.clone())
    }
}
