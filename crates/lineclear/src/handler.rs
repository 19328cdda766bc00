//! Handlers: plain async functions, registered by kind.
//!
//! A handler's parameters say what it needs: [`Input`] for the job's input, [`State`] for what the program shares,
//! [`JobInfo`] and [`Cancel`] for the job itself, [`Client`](crate::Client) to enqueue others. Whatever it returns becomes an outcome: nothing, a value, an
//! [`Outcome`], or a `Result` of these with any error.

mod extract;
mod reply;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::{Name, Outcome, RetryPolicy};

pub(crate) use extract::States;
pub use extract::{Cancel, FromJob, Input, JobContext, JobInfo, State};
pub use reply::{Done, HandlerError, IntoOutcome, Permanent, RetryIn, Snooze};

/// What a handler's call comes to.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An async function that can run jobs. Implemented for functions with up to six parameters that are [`FromJob`].
pub trait Handler<Parameters>: Send + Sync + 'static {
    /// Runs one job.
    fn call(&self, job: JobContext) -> HandlerFuture;
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
                    // The same job would not fit better another time.
                    Err(failure) => return Box::pin(async move { Outcome::Failed(failure.permanent()) }),
                };)*
                let running = self($($parameter),*);
                Box::pin(async move { running.await.into_outcome() })
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

/// What holds for all jobs of a kind, where neither the job nor its manifest says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct KindOptions {
    /// How failed jobs are tried again.
    pub retry: RetryPolicy,
    /// How long a job may run.
    pub timeout: Duration,
    /// The lane in which its jobs wait.
    pub route: Name,
}

impl Default for KindOptions {
    fn default() -> KindOptions {
        KindOptions {
            retry: lineclear_model::Backoff::default().policy(3),
            timeout: Duration::from_secs(20 * 60),
            route: crate::store::main_route(),
        }
    }
}

type Erased = Arc<dyn Fn(JobContext) -> HandlerFuture + Send + Sync>;

/// A kind that this program can run.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) options: KindOptions,
    pub(crate) call: Erased,
}

impl Kind {
    pub(crate) fn new<P>(options: KindOptions, handler: impl Handler<P>) -> Kind {
        Kind { options, call: Arc::new(move |job| handler.call(job)) }
    }
}

/// Kinds by name.
pub(crate) type Kinds = HashMap<Name, Kind>;
