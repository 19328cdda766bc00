//! A worker in Rust that runs jobs of a Lineclear server, without the scheduler and without a connection to its database: it
//! pulls jobs over HTTP, or serves an endpoint to which the server pushes them. Handlers are those of a
//! [node](lineclear::Lineclear): the same functions, with the same parameters.
//!
//! ```no_run
//! use lineclear_worker::{Done, HandlerError, Input, State, Worker};
//!
//! struct Mailer;
//!
//! async fn send_invoice(Input(customer): Input<u64>, mailer: State<Mailer>) -> Result<Done<bool>, HandlerError> {
//!     // …
//!     Ok(Done(true))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), HandlerError> {
//! let worker = Worker::builder().kind("invoice", send_invoice).state(Mailer).build()?;
//! // Until SIGTERM, or Ctrl-C.
//! worker.pull("https://jobs.example.com", std::env::var("LINECLEAR_TOKEN")?).slots(20).run_until_stopped().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | pull jobs | [`Worker::pull`] |
//! | have jobs pushed | [`Worker::router`] |
//! | work straight from the database | a node: [`lineclear::Lineclear`] |
#![forbid(unsafe_code)]

mod endpoint;
mod error;
mod pull;
mod wire;
mod worker;

pub use endpoint::Endpoint;
pub use error::WorkerError;
pub use lineclear::outbound::Secret;
pub use lineclear::{
    Cancel, Ctx, Done, HandlerError, Input, JobInfo, Permanent, Progress, RetryIn, Snooze, State, StepError,
    Trust, secrets,
};
pub use pull::PullWorker;
pub use worker::{Worker, WorkerBuilder};

/// The examples of the guide are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workers.md")]
struct WorkersGuide;
