//! Submitters: where dispatched jobs go. The handlers of this process are the default; a [`Submitter`] of your own hands jobs to
//! another system. Each submitter has a route of its name, so that a slow one delays no jobs of others.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lineclear::Lineclear;
//! use lineclear::submitters::{Accepted, Submission, SubmitFuture, SubmittedJob, Submitter};
//!
//! struct Batch;
//!
//! impl Submitter for Batch {
//!     fn submit(&self, job: SubmittedJob) -> SubmitFuture {
//!         Box::pin(async move {
//!             let id = format!("batch-{}-{}", job.id, job.claim_no);
//!             Submission::Accepted(Accepted::new().external_id(id).lease(std::time::Duration::from_secs(600)))
//!         })
//!     }
//! }
//!
//! let node = Lineclear::builder().submitter("batch", Batch).submit_to("batch", ["render"]).start().await?;
//! # node.stop().await;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "outbound")]
mod push;
pub(crate) mod report;
pub(crate) mod routing;
pub(crate) mod status;

use std::pin::Pin;
use std::time::Duration;

use lineclear_model::{Micros, Name, Outcome, Payload};
use tokio_util::sync::CancellationToken;

use crate::store::JobId;

#[cfg(feature = "outbound")]
pub use crate::submitters::push::{BadPush, HttpPush};
pub use crate::submitters::report::ReportedSubmitter;
pub use crate::submitters::status::{SubmitterInfo, SubmitterStatus};

/// The future of a call to a submitter.
pub type SubmitFuture = Pin<Box<dyn Future<Output = Submission> + Send>>;

/// Hands jobs to another system.
///
/// The claim is committed before the call, and renewed while the call lasts. If this process dies meanwhile, the lease runs out
/// and the job is submitted again, so a submitter must recognize a repeated job by its id.
pub trait Submitter: Send + Sync + 'static {
    /// Hands one job over, and waits for its end or for its acceptance. A panic counts as [`Submission::Unreachable`].
    fn submit(&self, job: SubmittedJob) -> SubmitFuture;

    /// Whether it can be used as it was set up; the error says what to change. Called before the node starts, which it does not do
    /// then.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The node starts, as part of the cluster with this id. Ids of jobs are unique within a cluster only: where several clusters
    /// share the other system, the names of jobs there need this id, too. Called once, before the first job.
    fn join(&self, _cluster: &str) {}

    /// How many calls may be open at once on this node. 0: it can take nothing now; the node asks again once a second.
    fn capacity(&self) -> u32 {
        CAPACITY
    }

    /// What operators see of it.
    fn status(&self) -> SubmitterStatus {
        SubmitterStatus::ready("custom")
    }
}

/// Calls to a submitter that may be open at once on a node, unless the submitter says otherwise.
pub const CAPACITY: u32 = 16;

/// A job, as a submitter gets it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubmittedJob {
    /// The job; the same for all attempts.
    pub id: JobId,
    /// The kind of work.
    pub kind: Name,
    /// What the worker gets.
    pub input: Payload,
    /// The number of this claim. It only grows: a system that remembers the highest one can refuse late calls.
    pub claim_no: u32,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The key of the manifest that the job belongs to.
    pub manifest: Option<String>,
    /// The tick it stands for.
    pub tick_at: Option<Micros>,
    /// Trace context of the caller that enqueued it.
    pub trace: Option<String>,
    /// How long the job may take; then the call is dropped.
    pub timeout: Duration,
    /// How long an accepted job may stay silent, unless [`Accepted::lease`] says otherwise.
    pub lease: Duration,
    /// Authorizes callbacks about this claim, and about no other.
    pub token: Option<String>,
    /// The job was cancelled, or its lease is lost: the call should end.
    pub cancel: CancellationToken,
}

/// What a submitter answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Submission {
    /// The job has ended. A failure spends a retry.
    Done(Outcome),
    /// The other system has the job, and reports later. Until then its lease must be renewed, or the job is submitted again.
    Accepted(Accepted),
    /// The other system can never run this job: it becomes a dead letter with this reason.
    Refused(String),
    /// The job was not handed over. It is submitted again later, and no retry is spent.
    Unreachable(Unreachable),
}

/// An accepted job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    pub(crate) external_id: Option<String>,
    pub(crate) lease: Option<Duration>,
}

impl Accepted {
    /// Accepted, with a lease as long as that of the node.
    pub fn new() -> Accepted {
        Accepted::default()
    }

    /// The name of the job in the other system, for operators.
    pub fn external_id(mut self, id: impl Into<String>) -> Accepted {
        self.external_id = Some(id.into());
        self
    }

    /// How long the job may stay silent before it is submitted again. At most a day.
    pub fn lease(mut self, lease: Duration) -> Accepted {
        self.lease = Some(lease);
        self
    }
}

/// Why a job was not handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    pub(crate) why: String,
    pub(crate) retry_in: Option<Duration>,
}

impl Unreachable {
    /// The other system did not take the job, because of `why`.
    pub fn new(why: impl Into<String>) -> Unreachable {
        Unreachable { why: why.into(), retry_in: None }
    }

    /// When to submit it again. Default: after seconds that double up to a minute.
    pub fn retry_in(mut self, after: Duration) -> Unreachable {
        self.retry_in = Some(after);
        self
    }
}
