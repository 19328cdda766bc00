//! What a program says of the job queue that it measures.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context, Result};

use crate::{Request, Runs};

/// How jobs are enqueued in bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// Concurrent callers.
    pub callers: usize,
    /// Jobs per call.
    pub batch: usize,
}

/// A job queue. Its handler does nothing but call [`Runs::begin`].
pub trait Peer: Sized + Send + Sync + 'static {
    /// Workers that run.
    type Workers: Send;

    /// Its version.
    fn version() -> Result<String>;

    /// Its settings, in words, for the report.
    fn describe(request: &Request) -> String;

    /// How it enqueues in bulk.
    fn bulk(request: &Request) -> Bulk;

    /// Connects to the database; creates nothing.
    fn connect(request: &Request) -> impl Future<Output = Result<Self>> + Send;

    /// Creates the tables.
    fn setup(&self) -> impl Future<Output = Result<()>> + Send;

    /// Enqueues a job.
    fn enqueue(&self) -> impl Future<Output = Result<()>> + Send;

    /// Enqueues many jobs by one call.
    fn enqueue_many(&self, jobs: usize) -> impl Future<Output = Result<()>> + Send;

    /// Starts the workers.
    fn start(&self, runs: Arc<Runs>) -> impl Future<Output = Result<Self::Workers>> + Send;

    /// Stops the workers.
    fn stop(workers: Self::Workers) -> impl Future<Output = Result<()>> + Send;

    /// How many jobs the database does not know as completed.
    fn left(&self) -> impl Future<Output = Result<u64>> + Send;
}

/// The version of a crate in a `Cargo.lock`.
pub fn locked_version(lock: &str, name: &str) -> Result<String> {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = lock.split_once(&entry).with_context(|| format!("{name} is not in Cargo.lock"))?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let lock = "[[package]]\nname = \"a-b\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.1.0\"\n";
        assert_eq!(locked_version(lock, "a").unwrap(), "2.1.0");
        assert!(locked_version(lock, "b").is_err());
    }
}
