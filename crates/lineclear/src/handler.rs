//! Handlers: plain async functions, registered by kind.
//!
//! A handler's parameters say what it needs: [`Input`] for the job's input, [`State`] for what the program shares,
//! [`JobInfo`] and [`Cancel`] for the job itself, [`Parents`] and [`Dependents`] for the manifests around it, [`Ctx`] for its steps and progress, [`Client`](crate::Client) to enqueue
//! others. Whatever it returns becomes an outcome: nothing, a value, an [`Outcome`], or a `Result` of these with any
//! error.

mod ctx;
mod dependencies;
mod extract;
pub(crate) mod progress_buffer;
pub(crate) mod registry;
mod response;
mod step;
pub(crate) mod step_recorder;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::{Name, Outcome, Payload, RetryPolicy};

use crate::submitters::routing::Destination;

pub use crate::handler::dependencies::{Dependents, Parents};
pub(crate) use crate::handler::progress_buffer::ProgressBuffer;
pub use crate::handler::response::{Done, HandlerError, IntoOutcome, Permanent, RetryIn, Snooze};
pub use ctx::{Ctx, Progress, STEPS_MAX};
pub use extract::{Cancel, ClusterId, FromJob, Given, Input, JobContext, JobInfo, State, Trust};
pub(crate) use extract::{States, TrustSource};
pub use step::StepError;

/// The future of a handler's call.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An async function that can run jobs. Implemented for functions with up to six parameters that are [`FromJob`].
pub trait Handler<Parameters>: Send + Sync + 'static {
    /// Runs one job.
    fn call(&self, job: JobContext) -> HandlerFuture;

    /// What its parameters need and the node lacks; see [`FromJob::missing`].
    fn missing(&self, given: &Given<'_>) -> Option<String>;
}

macro_rules! handler_for_functions {
    ($($parameter:ident)*) => {
        impl<Function, Running, Reply, $($parameter,)*> Handler<($($parameter,)*)> for Function
        where
            Function: Fn($($parameter),*) -> Running + Send + Sync + 'static,
            Running: Future<Output = Reply> + Send + 'static,
            Reply: IntoOutcome,
            $($parameter: FromJob,)*
        {
            #[allow(non_snake_case, unused_variables)]
            fn call(&self, job: JobContext) -> HandlerFuture {
                $(let $parameter = match $parameter::from_job(&job) {
                    Ok(value) => value,
                    // Another attempt would fail in the same way.
                    Err(failure) => return Box::pin(async move { Outcome::Failed(failure.permanent()) }),
                };)*
                let running = self($($parameter),*);
                Box::pin(async move { running.await.into_outcome() })
            }

            #[allow(unused_variables)]
            fn missing(&self, given: &Given<'_>) -> Option<String> {
                None$(.or_else(|| $parameter::missing(given)))*
            }
        }
    };
}

handler_for_functions!();
handler_for_functions!(A);
handler_for_functions!(A B);
handler_for_functions!(A B C);
handler_for_functions!(A B C D);
handler_for_functions!(A B C D E);
handler_for_functions!(A B C D E F);

/// Defaults for the jobs of a kind; the job and its manifest override them.
#[derive(Clone, Debug, PartialEq)]
pub struct KindOptions {
    /// How failed jobs are retried.
    pub retry: RetryPolicy,
    /// How long a job may run.
    pub timeout: Duration,
    /// The route of its jobs.
    pub route: Name,
    /// What happens to a running handler whose lease may have expired.
    pub when_trust_ends: WhenTrustEnds,
}

/// What happens to a running handler when its node can no longer be sure of the lease, because the database does not answer. In
/// both cases a job has one result: the claim's number fences every write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenTrustEnds {
    /// It is told to stop before another worker can claim the job, which is released without a failure.
    #[default]
    Stop,
    /// It continues: stopping costs more than running the work twice. Its result counts if no other worker has claimed the job by
    /// then. It is told to stop once another worker surely has.
    GoOn,
}

impl Default for KindOptions {
    fn default() -> KindOptions {
        KindOptions {
            retry: lineclear_model::Backoff::default().policy(3),
            timeout: Duration::from_secs(20 * 60),
            route: crate::store::main_route(),
            when_trust_ends: WhenTrustEnds::Stop,
        }
    }
}

pub(crate) type Erased = Arc<dyn Fn(JobContext) -> HandlerFuture + Send + Sync>;
type Check = Arc<dyn Fn(&Given<'_>) -> Option<String> + Send + Sync>;

/// Checks an input before it is stored.
pub(crate) type InputCheck = Arc<dyn Fn(&Payload) -> Result<(), String> + Send + Sync>;

/// A kind that this program knows.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) options: KindOptions,
    pub(crate) check: Option<InputCheck>,
    /// Its handler; none if its jobs go elsewhere.
    pub(crate) call: Option<Erased>,
    pub(crate) missing: Check,
    pub(crate) destination: Destination,
}

impl Kind {
    pub(crate) fn new<P>(options: KindOptions, handler: impl Handler<P>) -> Kind {
        let handler = Arc::new(handler);
        let missing = {
            let handler = handler.clone();
            Arc::new(move |given: &Given<'_>| handler.missing(given))
        };
        let call: Erased = Arc::new(move |job| handler.call(job));
        Kind { options, check: None, call: Some(call), missing, destination: Destination::Local }
    }

    /// A kind whose jobs go elsewhere.
    pub(crate) fn elsewhere(options: KindOptions, destination: Destination) -> Kind {
        Kind { options, check: None, call: None, missing: Arc::new(|_| None), destination }
    }

    /// Whether this node's handler runs its jobs.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.destination, Destination::Local | Destination::Inline)
    }
}

/// Kinds by name.
pub(crate) type Kinds = HashMap<Name, Kind>;
